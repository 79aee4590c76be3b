//! Where other programs keep their sessions: pi, OpenClaw and Codex.
//!
//! A folder is taken for theirs only if files in it are: each one's first lines are looked at. Whoever points at a home
//! directory, at the program's folder in it, or anywhere below gets the same sessions. OpenClaw's index beside its
//! transcripts says which key each one has. Other files that lie around there are counted, not imported.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::error::{IoContext as _, Result};
use crate::import::find::{Candidate, Search};
use crate::import::recognise::HEAD;
use crate::import::{Format, is_transcript, recognise};
use crate::json;
use crate::key::Key;
use crate::medium::{FileKind, Medium, read_small};

/// Where sessions are, below a home directory or below the program's own folder.
const PLACES: [&str; 7] = [
    "agent/sessions",
    ".pi/agent/sessions",
    "sessions",
    "archived_sessions",
    ".codex/sessions",
    ".codex/archived_sessions",
    ".openclaw/sessions",
];
/// Where agents are, each with its `sessions`.
const AGENTS: [&str; 2] = ["agents", ".openclaw/agents"];
/// How deep folders are looked into: year, month and day are the most.
const MAX_DEPTH: usize = 4;
/// How many files are looked at.
const MAX_FILES: usize = 100_000;
/// The largest index of OpenClaw.
const MAX_INDEX: u64 = 64 << 20;
/// What OpenClaw's index is called.
const INDEX: &str = "sessions.json";
/// What the name of a copy has that OpenClaw makes before it compacts.
const CHECKPOINT: &str = ".checkpoint.";

/// One file that someone names.
pub(super) fn single(medium: &dyn Medium, file: &Path) -> Candidate {
    let bare = Candidate { path: file.to_path_buf(), ..Candidate::default() };
    match format_of(medium, file) {
        Some(Format::Pi) => {
            let folder = file.parent().unwrap_or(Path::new(""));
            candidate(file.to_path_buf(), Format::Pi, keys(medium, folder).as_ref())
        }
        _ => bare,
    }
}

impl Search {
    /// Looks for sessions of other programs.
    pub(super) fn programs(&mut self, medium: &dyn Medium) -> Result<()> {
        let mut roots: Vec<PathBuf> = PLACES.iter().map(PathBuf::from).collect();
        for agents in AGENTS {
            let folders = list(medium, Path::new(agents))?;
            let folders = folders.into_iter().filter(|(_, kind)| *kind == FileKind::Directory);
            roots.extend(folders.map(|(agent, _)| Path::new(agents).join(agent).join("sessions")));
        }
        // The folder itself may be one of theirs, or a part of one.
        if medium.root().file_name().is_some_and(|name| is_theirs(&name.to_string_lossy())) {
            roots.push(PathBuf::new());
        }
        let mut others = 0;
        for root in roots {
            self.tree(medium, root, &mut others)?;
        }
        if others > 0 && !self.candidates.is_empty() {
            self.problems.push(format!("{others} more .jsonl files there are no sessions and were passed over"));
        }
        Ok(())
    }

    fn tree(&mut self, medium: &dyn Medium, root: PathBuf, others: &mut u64) -> Result<()> {
        let mut folders = vec![(root, 0)];
        while let Some((folder, depth)) = folders.pop() {
            let index = keys(medium, &folder);
            for (name, kind) in list(medium, &folder)? {
                let path = folder.join(&name);
                match kind {
                    FileKind::Directory if depth < MAX_DEPTH => folders.push((path, depth + 1)),
                    FileKind::File if is_transcript(&path) && self.candidates.len() < MAX_FILES => {
                        match format_of(medium, &path) {
                            _ if name.contains(CHECKPOINT) => *others += 1,
                            Some(format @ (Format::Pi | Format::Codex)) => {
                                self.candidates.push(candidate(path, format, index.as_ref()));
                            }
                            _ => *others += 1,
                        }
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

/// Names of folders that these programs give to what is above their sessions.
fn is_theirs(name: &str) -> bool {
    let is_date = (2..=4).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_digit());
    let is_project = name.starts_with("--") && name.ends_with("--");
    is_date || is_project || matches!(name, "sessions" | "archived_sessions")
}

fn format_of(medium: &dyn Medium, path: &Path) -> Option<Format> {
    recognise(&read_small(medium, path, HEAD).ok()?)
}

/// A folder's entries, sorted; none if there is no such folder.
fn list(medium: &dyn Medium, folder: &Path) -> Result<Vec<(String, FileKind)>> {
    match medium.list(folder) {
        Err(error) if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => {
            Ok(Vec::new())
        }
        other => {
            let mut entries = other.context("list", folder)?;
            entries.sort();
            Ok(entries)
        }
    }
}

/// OpenClaw's keys by session id; none if there is no index of its kind.
fn keys(medium: &dyn Medium, folder: &Path) -> Option<HashMap<String, String>> {
    let bytes = read_small(medium, &folder.join(INDEX), MAX_INDEX).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let rows = json::members(text.trim())?;
    let id = |row| json::member(&json::members(row)?, "sessionId").and_then(json::string).map(Cow::into_owned);
    let keys: HashMap<String, String> =
        rows.iter().filter_map(|(key, row)| Some((id(row)?, key.clone().into_owned()))).collect();
    (!keys.is_empty()).then_some(keys)
}

/// A file of pi's format is OpenClaw's if an index with keys is beside it.
fn candidate(path: PathBuf, format: Format, keys: Option<&HashMap<String, String>>) -> Candidate {
    let Some(keys) = keys.filter(|_| format == Format::Pi) else {
        return Candidate { path, format: Some(format), ..Candidate::default() };
    };
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let guessed_key = keys.get(&stem).and_then(|key| key_of(key)).map(|key| key.to_string());
    Candidate { path, format: Some(Format::OpenClaw), guessed_key, ..Candidate::default() }
}

/// OpenClaw's `agent:<agent>:<rest>`: the long form as it is, any other rest as the peer.
fn key_of(text: &str) -> Option<Key> {
    let mut parts = text.splitn(3, ':');
    match (parts.next(), parts.next(), parts.next()) {
        (Some("agent"), Some(agent), Some(rest)) if !agent.is_empty() && !rest.is_empty() => {
            let long = text.parse::<Key>().ok().filter(|_| rest.split(':').count() == 3);
            long.or_else(|| Key::new(agent, Format::OpenClaw.name(), None, rest).ok())
        }
        _ => Key::new("main", Format::OpenClaw.name(), None, text).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_openclaw_keep_their_agent_and_never_mean_another_session() {
        for (text, want) in [
            ("agent:main:main", "main:openclaw:main"),
            ("agent:work:telegram:direct:42", "agent:work:telegram:direct:42"),
            ("agent:main:discord:channel:7", "main:openclaw:discord%3Achannel%3A7"),
            ("cron:nightly", "main:openclaw:cron%3Anightly"),
        ] {
            assert_eq!(key_of(text).map(|key| key.to_string()).as_deref(), Some(want), "{text}");
        }
        assert_eq!(key_of(""), None);
    }
}
