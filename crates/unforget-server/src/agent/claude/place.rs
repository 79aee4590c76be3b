//! Where Claude Code works for an actor: a directory, a home and a folder that are nobody else's, and the session in its place there.
//!
//! Everything is beneath the realm, mode 0700: `claude/config` is what the program takes for its own directory, `claude/home` is its home, `claude/tmp`
//! holds its sockets and the outputs of its tools. So one actor's program finds nothing of another's, unless it is let out of its folder.
//!
//! A session has no transcript before its first turn. That it was begun is written down in `claude/begun`, so that an id that nobody gave is
//! not a session, and one that was given still is one after a restart. Which session a key means is in `claude/keys`: the program's
//! transcripts do not say it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use unforget_claude::Error;
use unforget_claude::keep::{Keeper, agent};
use unforget_claude::live::Writer;
use unforget_claude::place::{ConfigDir, Found, transcript};
use unforget_claude::project::ProjectKey;
use unforget_claude::restore::{Extent, Wish};
use unforget_core::encode;
use unforget_core::key::Key;
use unforget_core::medium::{Handle, Medium, Os, publish_durable, read_small, replace_durable};
use unforget_core::stamp::SessionId;

use super::child::Mark;
use super::id::ClaudeSessionId;
use crate::error::{Code, Problem, Result};
use crate::realm::Realm;

const CONFIG: &str = "claude/config";
const HOME: &str = "claude/home";
const TEMPORARY: &str = "claude/tmp";
const BEGUN: &str = "claude/begun";
const KEYS: &str = "claude/keys";
/// The longest note of a key.
const MAX_NOTE: u64 = 16 * 1024;

/// Where one session is worked on.
#[derive(Debug)]
pub(super) struct Place {
    /// `CLAUDE_CONFIG_DIR`.
    pub(super) config: PathBuf,
    /// `HOME`.
    pub(super) home: PathBuf,
    /// `TMPDIR`.
    pub(super) temporary: PathBuf,
    /// The folder to work in, without links.
    pub(super) folder: PathBuf,
    /// Keeps what is written.
    pub(super) keeper: Keeper,
    /// What everything carries that is started here.
    pub(super) mark: Mark,
    /// Under which project the transcript is.
    pub(super) project: ProjectKey,
    /// That nobody else has the session; it ends with this.
    _reserved: Box<dyn Handle>,
}

/// Writes down that a session was begun.
pub(super) fn begin(realm: &Realm, id: &ClaudeSessionId, key: &Key, label: Option<&str>) -> Result<()> {
    let medium = realm.store().medium();
    let note = serde_json::json!({ "key": key.to_string(), "label": label });
    let written = medium
        .create_dir(Path::new(BEGUN))
        .and_then(|()| publish_durable(medium.as_ref(), &note_path(id), format!("{note}\n").as_bytes()));
    match written {
        Ok(true) => lead(realm, key, id),
        Ok(false) => Err(Problem::new(Code::Conflict, "there is a session of that id already")),
        Err(error) => Err(failed("begin a session", BEGUN, error)),
    }
}

/// Leads a key to a session: the transcripts of Claude Code say only which folder they are of.
fn lead(realm: &Realm, key: &Key, id: &ClaudeSessionId) -> Result<()> {
    let medium = realm.store().medium();
    let note = serde_json::json!({ "key": key.to_string(), "session": id.kept()?.as_str(), "created_ms": realm.store().source().now_ms() });
    let written = medium
        .create_dir(Path::new(KEYS))
        .and_then(|()| replace_durable(medium.as_ref(), &key_path(key), format!("{note}\n").as_bytes()));
    written.map_err(|error| failed("begin a session", KEYS, error))
}

/// The session that a key leads to, and when it was begun.
pub(super) fn current(realm: &Realm, key: &Key) -> Result<Option<(SessionId, Option<i64>)>> {
    let bytes = match read_small(realm.store().medium().as_ref(), &key_path(key), MAX_NOTE) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed("find the session of a key", KEYS, error)),
    };
    let note: serde_json::Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let id = note["session"].as_str().and_then(SessionId::parse).filter(|_| note["key"] == key.to_string().as_str());
    let Some(id) = id else { return Ok(None) };
    // One that was deleted is nobody's current one.
    let is_deleted = realm.store().medium().stat(&agent().trashed(&id)).is_ok();
    Ok((!is_deleted).then(|| (id, note["created_ms"].as_i64())))
}

/// Whether a session was begun that has no transcript yet.
pub(super) fn has_begun(realm: &Realm, id: &ClaudeSessionId) -> bool {
    realm.store().medium().stat(&note_path(id)).is_ok()
}

fn key_path(key: &Key) -> PathBuf {
    Path::new(KEYS).join(format!("{}.json", encode::sha256_hex(key.to_string().as_bytes())))
}

impl Place {
    /// Reserves a session, keeps what is only here, and puts in its place what is only kept.
    pub(super) fn open(realm: &Realm, id: &ClaudeSessionId, fixed: Option<&Path>) -> Result<Self> {
        let medium = realm.store().medium();
        let (dir, kept) = (agent(), id.kept()?);
        let is_there = |path: &Path| medium.stat(path).is_ok();
        let was_begun = is_there(&note_path(id));
        let is_trashed = !is_there(&dir.transcript(&kept)) && is_there(&dir.trashed(&kept));
        if is_trashed {
            return Err(Problem::no_session());
        }
        for part in [CONFIG, HOME, TEMPORARY] {
            medium.create_dir(Path::new(part)).map_err(|error| failed("make", part, error))?;
        }
        let [config, home, temporary] = [CONFIG, HOME, TEMPORARY].map(|part| medium.root().join(part));
        let keeper = Keeper::new(realm.store(), ConfigDir::new(Arc::new(Os::new(config.clone()))));
        let reserved = keeper.reserve(id.theirs()).map_err(problem)?;
        let mark = Mark::of(realm.root(), id);
        mark.clear();
        let there = keep(&keeper, id)?;
        let is_kept = is_there(&dir.transcript(&kept));
        if !is_kept && there.is_none() && !was_begun {
            return Err(Problem::no_session());
        }
        let folder = folder(realm, medium.as_ref(), id, fixed)?;
        let own = ProjectKey::of(&folder.to_string_lossy());
        // The program finds a session in whichever project it is.
        let project = there.map_or(own, |found| found.project);
        if is_kept {
            let wish = Wish { project: &project, rewrite: None, extent: Extent::Whole };
            let restored = keeper.restore(id.theirs(), &wish, &is_alive).map_err(problem)?;
            for left in &restored.left_alone {
                tracing::info!(session = id.as_str(), left, "left as it is");
            }
            // It is a session by what was said in it, from now on.
            if was_begun && let Err(error) = medium.remove(&note_path(id)) {
                tracing::debug!(%error, "that it was begun is still written down");
            }
        }
        Ok(Self { config, home, temporary, folder, keeper, mark, project, _reserved: reserved })
    }

    /// The transcript, beneath the program's directory.
    pub(super) fn transcript(&self, id: &ClaudeSessionId) -> PathBuf {
        transcript(&self.project, id.theirs())
    }
}

/// Keeps what a server that was killed left behind, before anybody looks at the session. Its child may still be running, and is ended.
pub(super) fn gather(realm: &Realm, id: &ClaudeSessionId) -> Result<()> {
    let medium = realm.store().medium();
    let (dir, kept) = (agent(), id.kept()?);
    let is_there = |path: &Path| medium.stat(path).is_ok();
    if !is_there(Path::new(CONFIG)) || (!is_there(&dir.transcript(&kept)) && is_there(&dir.trashed(&kept))) {
        return Ok(());
    }
    let keeper = Keeper::new(realm.store(), ConfigDir::new(Arc::new(Os::new(medium.root().join(CONFIG)))));
    let _reserved = match keeper.reserve(id.theirs()) {
        // Whoever has it keeps it.
        Err(Error::Live { .. }) => return Ok(()),
        reserved => reserved.map_err(problem)?,
    };
    Mark::of(realm.root(), id).clear();
    keep(&keeper, id).map(drop)
}

/// Keeps what is in the program's directory of a session, if it is there. Only for whoever has the session.
fn keep(keeper: &Keeper, id: &ClaudeSessionId) -> Result<Option<Found>> {
    let there = keeper.config().find(id.theirs()).map_err(problem)?.sessions.into_iter().next();
    if let Some(found) = &there {
        keeper.save(found).map_err(problem)?;
    }
    Ok(there)
}

fn note_path(id: &ClaudeSessionId) -> PathBuf {
    Path::new(BEGUN).join(format!("{}.json", id.as_str()))
}

/// The folder to work in: a fixed one, which has to be there, or the session's own.
fn folder(realm: &Realm, medium: &dyn Medium, id: &ClaudeSessionId, fixed: Option<&Path>) -> Result<PathBuf> {
    let folder = match fixed {
        Some(folder) => folder.to_owned(),
        None => {
            let folder = realm.workspace(&id.kept()?);
            let inside = folder.strip_prefix(realm.root()).unwrap_or(&folder);
            medium.create_dir(inside).map_err(|error| failed("make", "the session's folder", error))?;
            folder
        }
    };
    folder.canonicalize().map_err(|error| failed("find", "the folder to work in", error))
}

/// What a problem with the program's directory is to a client.
pub(super) fn problem(error: Error) -> Problem {
    match error {
        Error::Store(error) => error.into(),
        Error::Live { .. } => {
            tracing::warn!(%error, "the session is in use");
            Problem::new(Code::Busy, "another process has this session of Claude Code open; reading works")
        }
        Error::Newer { .. } | Error::Elsewhere { .. } | Error::Partial { .. } => {
            tracing::warn!(%error, "the session cannot be put in its place");
            Problem::new(Code::Conflict, "this session went on differently on the server's disk; its log tells where")
        }
        Error::Deleted { .. } => Problem::no_session(),
        Error::Io { action, path, source } => failed(action, &path.to_string_lossy(), source),
        other => Problem::internal("Claude Code's directory", &other),
    }
}

fn failed(action: &'static str, what: &str, source: io::Error) -> Problem {
    unforget_core::Error::Io { action, path: PathBuf::from(what), source }.into()
}

/// Whether a process that says that it has a session is running. The lock is ours by then, so it could only be one that a server left behind.
fn is_alive(writer: &Writer) -> bool {
    match (process_start(writer.pid), &writer.process_start) {
        (None, _) => false,
        (Some(now), Some(then)) => now == *then,
        (Some(_), None) => true,
    }
}

/// When a process began, in the system's own words; none if there is no such process, or if it has ended.
fn process_start(pid: u32) -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "what the kernel says is no file of a store")]
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Behind the name, which may have blanks and parentheses in it, is field 3.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    let has_ended = matches!(fields.next(), Some("Z" | "X"));
    fields.nth(22 - 4).filter(|_| !has_ended).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_when_it_began() {
        let start = process_start(std::process::id());
        assert!(start.as_ref().is_some_and(|start| start.parse::<u64>().is_ok()), "{start:?}");
        assert_eq!(process_start(u32::MAX), None);
    }

    #[test]
    fn who_has_a_session_is_told_to_the_log_and_not_to_the_client() {
        let error = Error::Live { id: "i".to_owned(), writer: "process 7 in /secret".to_owned() };
        let problem = problem(error);
        assert_eq!(problem.code, Code::Busy);
        assert!(!problem.message.contains("secret"), "{problem}");
    }
}
