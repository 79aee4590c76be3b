//! Where the entries of a key are, and what a file says about that itself.
//!
//! ```text
//! entries/<project>/<session>.jsonl            a session's entries
//! entries/<project>/<session>.<subpath>.jsonl  those of something beneath it
//! entries/<project>/<session>.summary          what a list shows of it
//! entries/<project>/<session>[…].part          what is being fetched from a remote
//! entries/<project>/<session>[…].torn-<n>           bytes that a crash left half-written
//! ```
//!
//! All three are SHA-256 digests in hexadecimal: names may be any text and never become paths. At a remote they are streams (`stream`): the
//! project is the place, `@entries:` and the session's id the session, the subpath the side, each as a digest where it is too long for a name.

use std::io;
use std::path::{Path, PathBuf};

use unforget_core::encode::sha256_hex;
use unforget_core::layout::AgentDir;
use unforget_core::medium::{Medium, Stat};
use unforget_core::reader::LogReader;
use unforget_core::stamp::SessionId;
use unforget_core::{Error, json};
use unforget_remote::{Prefix, Stream};

use crate::error::{Problem, Result};

/// The area, beneath a realm.
const AREA: &str = "entries";
const TRANSCRIPT: &str = ".jsonl";
const SUMMARY: &str = ".summary";
/// How long a digest is.
const DIGEST: usize = 64;
/// The longest part of a key, in bytes.
const MAX_PART: usize = 4096;
/// The longest name at a remote, in bytes.
const MAX_NAME: usize = 512;
/// What names of sessions begin with at a remote, where `@` keeps them apart from sessions of this program.
const SESSIONS: &str = "@entries:";
const HASHED: &str = "sha256:";
/// How many digits of a session's digest the id of something beneath it begins with.
const SHORT: usize = 32;

/// Which transcript: a project, a session in it, and perhaps something beneath that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    project_key: String,
    session_id: String,
    subpath: Option<String>,
}

impl Key {
    /// A key, if none of its parts is empty or overlong, or has control characters, which no place could show.
    pub fn new(project_key: String, session_id: String, subpath: Option<String>) -> Result<Self> {
        let parts =
            [("project_key", Some(&project_key)), ("session_id", Some(&session_id)), ("subpath", subpath.as_ref())];
        for (name, part) in parts {
            if part.is_some_and(|part| part.is_empty() || part.len() > MAX_PART) {
                return Err(Problem::invalid(format!("`{name}` has from 1 to {MAX_PART} bytes")));
            }
            if part.is_some_and(|part| part.chars().any(char::is_control)) {
                return Err(Problem::invalid(format!("`{name}` has a line feed or another control character")));
            }
        }
        Ok(Self { project_key, session_id, subpath })
    }

    /// What it is beneath its session; none for the session itself.
    pub fn subpath(&self) -> Option<&str> {
        self.subpath.as_deref()
    }

    /// The session that it is of, or beneath.
    pub(super) fn session(&self) -> Self {
        Self { subpath: None, ..self.clone() }
    }

    /// What tells the session apart from others.
    pub(crate) fn group(&self) -> (&str, &str) {
        (&self.project_key, &self.session_id)
    }

    /// What it is called at a remote.
    pub(super) fn stream(&self, tenant: &str) -> Result<Stream> {
        let main = Stream::new(tenant, &spelled("", &self.project_key), &spelled(SESSIONS, &self.session_id))?;
        Ok(match self.subpath() {
            None => main,
            Some(subpath) => main.side_stream(&spelled("", subpath))?,
        })
    }
}

/// The streams of a project's entries at a remote.
pub(super) fn streams(tenant: &str, project_key: &str) -> Result<Prefix> {
    Ok(Prefix::tenant(tenant)?.place(&spelled("", project_key))?)
}

/// Whether a stream at a remote holds entries.
pub(super) fn has_entries(stream: &Stream) -> bool {
    stream.session().starts_with(SESSIONS)
}

/// A name for a remote: the text itself, or its digest where that is too long, or where it could be taken for one.
fn spelled(before: &str, text: &str) -> String {
    match before.len() + text.len() > MAX_NAME || text.starts_with(HASHED) {
        true => format!("{before}{HASHED}{}", sha256_hex(text.as_bytes())),
        false => format!("{before}{text}"),
    }
}

/// The digest of the text that such a name stands for.
fn digest_of(before: &str, name: &str) -> Option<String> {
    let rest = name.strip_prefix(before)?;
    Some(rest.strip_prefix(HASHED).map_or_else(|| sha256_hex(rest.as_bytes()), str::to_owned))
}

/// Where the entries of a key are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    folder: PathBuf,
    session: String,
    side: Option<String>,
}

fn folder(project_key: &str) -> PathBuf {
    Path::new(AREA).join(sha256_hex(project_key.as_bytes()))
}

impl Place {
    pub(super) fn of(key: &Key) -> Self {
        let digest = |text: &str| sha256_hex(text.as_bytes());
        let (session, side) = (digest(&key.session_id), key.subpath().map(digest));
        Self { folder: folder(&key.project_key), session, side }
    }

    /// Where the entries of a stream are.
    pub(super) fn of_stream(project_key: &str, stream: &Stream) -> Option<Self> {
        let side = match stream.side() {
            "" => None,
            side => Some(digest_of("", side)?),
        };
        let place = Self { folder: folder(project_key), session: digest_of(SESSIONS, stream.session())?, side };
        // What a remote says is never a path.
        let is_digest = |text: &str| text.len() == DIGEST && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        (is_digest(&place.session) && place.side.as_deref().is_none_or(is_digest)).then_some(place)
    }

    /// Where a file of entries that was found belongs.
    fn of_file(folder: &Path, name: &str) -> Option<Self> {
        let mut parts = name.strip_suffix(TRANSCRIPT)?.split('.');
        let (session, side) = (parts.next()?.to_owned(), parts.next().map(str::to_owned));
        let is_one = session.len() == DIGEST && parts.next().is_none();
        is_one.then(|| Self { folder: folder.to_path_buf(), session, side })
    }

    /// What stands for the project in what is remembered of a remote.
    pub(super) fn dir(&self) -> AgentDir {
        AgentDir::found(&self.folder.file_name().unwrap_or_default().to_string_lossy())
    }

    /// What stands for the file there.
    pub(super) fn id(&self) -> Result<SessionId> {
        let text = match &self.side {
            None => self.session.clone(),
            Some(side) => format!("{}-{side}", self.session.get(..SHORT).unwrap_or_default()),
        };
        SessionId::parse(&text).ok_or_else(|| Problem::invalid("a key has no name"))
    }

    /// The file that is remembered so; none if it is gone.
    pub(super) fn remembered(medium: &dyn Medium, dir: &AgentDir, id: &SessionId) -> Result<Option<Self>> {
        let folder = Path::new(AREA).join(dir.as_str());
        let places = names(medium, &folder)?.into_iter().filter_map(|(name, _)| Self::of_file(&folder, &name));
        Ok(places.into_iter().find(|place| place.id().is_ok_and(|it| it == *id)))
    }

    /// The file of entries.
    pub(super) fn file(&self) -> PathBuf {
        let side = self.side.as_ref().map_or(String::new(), |side| format!(".{side}"));
        self.folder.join(format!("{}{side}{TRANSCRIPT}", self.session))
    }

    /// What a list shows of the session.
    pub(super) fn summary(&self) -> PathBuf {
        self.folder.join(format!("{}{SUMMARY}", self.session))
    }

    /// Every file that goes when this is deleted; the session's own transcript last.
    pub(super) fn beneath(&self, medium: &dyn Medium) -> Result<Vec<PathBuf>> {
        let begins = match &self.side {
            Some(side) => format!("{}.{side}.", self.session),
            None => format!("{}.", self.session),
        };
        let names = names(medium, &self.folder)?.into_iter().map(|(name, _)| name);
        let mut files: Vec<PathBuf> =
            names.filter(|name| name.starts_with(&begins)).map(|name| self.folder.join(name)).collect();
        let own = self.file();
        files.sort_by_key(|path| *path == own);
        Ok(files)
    }

    /// The files of entries beneath the session.
    pub(super) fn sides(&self, medium: &dyn Medium) -> Result<Vec<PathBuf>> {
        let is_side = |name: &str| {
            let rest = name.strip_prefix(&self.session).and_then(|rest| rest.strip_prefix('.'));
            rest.and_then(|rest| rest.strip_suffix(TRANSCRIPT)).is_some_and(|side| side.len() == DIGEST)
        };
        let names = names(medium, &self.folder)?.into_iter().map(|(name, _)| name);
        Ok(names.filter(|name| is_side(name)).map(|name| self.folder.join(name)).collect())
    }
}

/// The sessions of a project.
pub(super) fn sessions(medium: &dyn Medium, project_key: &str) -> Result<Vec<(Place, Stat)>> {
    let folder = folder(project_key);
    let session = |(name, stat): (String, Stat)| {
        let session = name.strip_suffix(TRANSCRIPT).filter(|session| session.len() == DIGEST)?.to_owned();
        Some((Place { folder: folder.clone(), session, side: None }, stat))
    };
    Ok(names(medium, &folder)?.into_iter().filter_map(session).collect())
}

/// Whether a file has entries.
pub(super) fn is_transcript(path: &Path) -> bool {
    path.to_str().is_some_and(|path| path.ends_with(TRANSCRIPT))
}

fn names(medium: &dyn Medium, folder: &Path) -> Result<Vec<(String, Stat)>> {
    match medium.list_stats(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        other => Ok(other.map_err(|source| Error::Io { action: "list", path: folder.to_path_buf(), source })?),
    }
}

/// What the first line of a file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) session_id: String,
    pub(super) subpath: Option<String>,
    project_key: String,
    /// What tells this beginning from another one under the same key.
    pub(super) born: String,
}

impl Header {
    pub(super) fn of(key: &Key, born: &SessionId) -> Self {
        let Key { project_key, session_id, subpath } = key.clone();
        Self { session_id, subpath, project_key, born: born.to_string() }
    }

    /// The key that it is of.
    pub(super) fn key(self) -> Result<Key> {
        Key::new(self.project_key, self.session_id, self.subpath)
    }

    pub(super) fn to_line(&self) -> String {
        let subpath = self.subpath.as_deref().map_or("null".to_owned(), json::quote);
        let (project, session) = (json::quote(&self.project_key), json::quote(&self.session_id));
        let born = json::quote(&self.born);
        format!(
            "{{\"entries\":1,\"project_key\":{project},\"session_id\":{session},\"subpath\":{subpath},\"born\":{born}}}\n"
        )
    }

    /// What a file says; none if it is gone or says nothing.
    pub(super) fn read(medium: &dyn Medium, path: &Path) -> Result<Option<Self>> {
        let reader = match LogReader::open(medium, path) {
            Err(error) if error.is_io(io::ErrorKind::NotFound) => return Ok(None),
            other => other?,
        };
        Self::first(&reader)
    }

    /// What an open file says.
    pub(super) fn first(reader: &LogReader) -> Result<Option<Self>> {
        let mut forward = reader.forward(0);
        let line = forward.next()?;
        Ok(line.and_then(|line| Self::parse(std::str::from_utf8(line.bytes).ok()?)))
    }

    fn parse(line: &str) -> Option<Self> {
        let members = json::members(line)?;
        let text = |name: &str| json::member(&members, name).and_then(json::string).map(std::borrow::Cow::into_owned);
        json::member(&members, "entries")?;
        let (session_id, project_key) = (text("session_id")?, text("project_key")?);
        Some(Self { session_id, subpath: text("subpath"), project_key, born: text("born")? })
    }
}
