//! The files of a store's sessions: create, find, read, delete, undelete.
//!
//! Every answer comes from the transcripts; `sessions.json` only saves reading those that have not changed.
//! Creating writes the transcript first and the snapshot second, so that a crash in between leaves a session
//! that is found, never a row without one. Deleting moves to the trash. Names of files never come from keys.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::blob::Blobs;
use crate::error::{Error, IoContext as _, Result};
use crate::history::Limits;
use crate::key::Key;
use crate::layout::AgentDir;
use crate::log::{Durability, Log};
use crate::medium::{Access, Handle, Medium, parent, publish_durable};
use crate::observer::{Notice, SessionObserver};
use crate::reader::LogReader;
use crate::session::{self, Session, Shared};
use crate::stamp::{SessionId, SharedSource};
use crate::summary::{self, Row, State};
use crate::view::{self, Restored, ViewCache};

mod find;
mod list;
mod replace;
mod sides;
mod trash;

pub(crate) use find::{current, describe};
pub(crate) use list::placed;
pub use sides::{FILES, FileNote, KeptFile, MAX_FILE, side_path};

/// How often, and after which pause, a turn to create a session is asked for: ten seconds in all.
const TURN_ATTEMPTS: u32 = 1000;
const TURN_PAUSE: Duration = Duration::from_millis(10);

/// What to do when a key has no session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnMissing {
    /// Create one.
    Create,
    /// Say so.
    Fail,
}

/// A session in the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The agent's directory.
    pub dir: AgentDir,
    /// What is known about it.
    pub row: Row,
}

/// The sessions, and what was odd about the way to them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// The sessions, most recently used first.
    pub entries: Vec<Entry>,
    /// Snapshots that were of no use, with the reason.
    pub unusable: Vec<(PathBuf, String)>,
    /// Snapshots that a newer version of the program wrote, with which one: they are left alone.
    pub newer: Vec<(PathBuf, String)>,
    /// Folders that could not be looked into, with the reason.
    pub unreadable: Vec<(PathBuf, String)>,
    /// Transcripts of which the snapshot remembers more records, with both counts: the end is gone without a trace.
    pub shortened: Vec<(PathBuf, u64, u64)>,
    /// Directories whose snapshot is not current.
    pub stale: BTreeSet<AgentDir>,
}

/// The directory that a store's sessions are in, below the index that [`crate::store`] asks.
#[derive(Clone)]
pub struct Directory {
    shared: Shared,
}

impl std::fmt::Debug for Directory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Directory").field("root", &self.shared.medium.root()).finish_non_exhaustive()
    }
}

impl Directory {
    /// The directory that a medium is of; nothing is read or created yet.
    pub fn new(medium: Arc<dyn Medium>, source: SharedSource, durability: Durability) -> Self {
        Self { shared: Shared { medium, source, durability, observer: None, views: Arc::default() } }
    }

    /// The same directory, whose writers tell an observer, if there is one, what they are about to change.
    pub(crate) fn observed(self, observer: Option<Arc<dyn SessionObserver>>) -> Self {
        Self { shared: Shared { observer, ..self.shared } }
    }

    /// The same directory, whose open sessions share the memory of their views with those of other stores.
    pub(crate) fn viewed(self, views: Arc<ViewCache>) -> Self {
        Self { shared: Shared { views, ..self.shared } }
    }

    /// The medium, for the parts of the program that look at files.
    pub fn medium(&self) -> &Arc<dyn Medium> {
        &self.shared.medium
    }

    /// The clock and source of ids.
    pub fn source(&self) -> &SharedSource {
        &self.shared.source
    }

    /// The blob store.
    pub fn blobs(&self) -> Blobs {
        Blobs::new(self.shared.medium.clone())
    }

    /// Creates a session; it is its key's current one from now on.
    pub fn create(&self, key: &Key, label: Option<&str>) -> Result<Session> {
        let now_ms = self.shared.source.now_ms();
        let id = self.shared.source.new_id(now_ms);
        let header = session::encode_all(&self.blobs(), &session::header_draft(&id, key, label), &[], now_ms)?;
        self.adopt(key, &id, header.as_bytes())?;
        let dir = AgentDir::of(key.agent());
        self.open_session(&dir, id, key.clone())
    }

    /// Takes in a whole transcript, which is there completely or not at all.
    pub(crate) fn adopt(&self, key: &Key, id: &SessionId, transcript: &[u8]) -> Result<()> {
        let dir = AgentDir::of(key.agent());
        let path = dir.transcript(id);
        self.shared.medium.create_dir(&dir.sessions()).context("create", &dir.sessions())?;
        match publish_durable(self.shared.medium.as_ref(), &path, transcript).context("write", &path)? {
            true => Ok(()),
            false => Err(Error::Exists { path: self.shared.medium.root().join(path) }),
        }
    }

    /// Adds whole lines to a transcript, if it still is what it was when it was read; says whether it was.
    ///
    /// They are lines of someone else, byte for byte, so no [`Session`] writes them; this also notifies the observer.
    pub(crate) fn carry_on(&self, dir: &AgentDir, id: &SessionId, known: &[u8], lines: &[u8]) -> Result<bool> {
        let path = dir.transcript(id);
        let (mut log, _) = Log::open(self.shared.medium.clone(), &path, Durability::PowerLoss)?;
        // Looked at again behind the lock: who writes there meanwhile goes on differently.
        if LogReader::open(self.shared.medium.as_ref(), &path)?.read_all()? != known {
            return Ok(false);
        }
        let mut notice = self.notice(dir, id);
        notice.iter_mut().for_each(Notice::give);
        log.append(lines)?;
        match notice.map(|notice| notice.close()) {
            // If it could not be brought up to date now, the mark is still there.
            None | Some(Ok(()) | Err(_)) => Ok(true),
        }
    }

    /// What a writer of a session tells the observer, if there is one.
    fn notice(&self, dir: &AgentDir, id: &SessionId) -> Option<Notice> {
        let observer = self.shared.observer.clone()?;
        Some(Notice::new(observer, dir.clone(), id.clone()))
    }

    /// What hears of changes, if anything does.
    pub(crate) fn observer(&self) -> Option<&Arc<dyn SessionObserver>> {
        self.shared.observer.as_ref()
    }

    /// Opens the current session of a key for writing, found without an index.
    pub fn load(&self, key: &Key, on_missing: OnMissing) -> Result<Session> {
        self.load_from(key, on_missing, &|| self.list())
    }

    /// The same among the sessions of a list, which is asked for once more before one is created.
    pub(crate) fn load_from(
        &self,
        key: &Key,
        on_missing: OnMissing,
        list: &dyn Fn() -> Result<Listing>,
    ) -> Result<Session> {
        let listing = list()?;
        match (current(&listing, key), on_missing) {
            (Some(entry), _) => self.open(entry),
            (None, OnMissing::Create) => {
                // Of several that find nothing at the same time, one creates and the others find its session.
                let _turn = self.take_turn(&AgentDir::of(key.agent()))?;
                let listing = list()?;
                match current(&listing, key)
                    .cloned()
                    .map_or_else(|| self.hidden(&listing, key), |found| Ok(Some(found)))?
                {
                    Some(entry) => self.open(&entry),
                    None => self.create(key, None),
                }
            }
            (None, OnMissing::Fail) => Err(Error::NotFound { what: "session", name: key.to_string() }),
        }
    }

    /// Waits for the right to create an agent's sessions by key; it ends when the handle drops.
    fn take_turn(&self, dir: &AgentDir) -> Result<Box<dyn Handle>> {
        let path = dir.turnstile();
        self.shared.medium.create_dir(parent(&path)).context("create", parent(&path))?;
        let file = match self.shared.medium.open(&path, Access::CreateNew) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.shared.medium.open(&path, Access::Append)
            }
            other => other,
        };
        let file = file.context("open", &path)?;
        for _ in 0..TURN_ATTEMPTS {
            if file.try_lock().context("lock", &path)? {
                return Ok(file);
            }
            std::thread::sleep(TURN_PAUSE);
        }
        let holder = file.stat().ok().and_then(|stat| self.shared.medium.lock_holder(&stat));
        Err(Error::Busy { path, holder: holder.unwrap_or_else(|| "another process".to_owned()) })
    }

    /// Looks once more at the sessions that could not be read: a new one must not take the place of one of them.
    fn hidden(&self, listing: &Listing, key: &Key) -> Result<Option<Entry>> {
        let (dir, key) = (AgentDir::of(key.agent()), key.to_string());
        let unread = |entry: &&Entry| entry.dir == dir && matches!(entry.row.state, State::Unreadable(_));
        for entry in listing.entries.iter().filter(unread) {
            match self.read(entry).and_then(|reader| summary::summarise(&reader, &entry.row.id)) {
                Ok((row, _)) if row.key.as_deref() == Some(&key) => return Ok(Some(Entry { row, ..entry.clone() })),
                Ok(_) | Err(Error::Foreign { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Opens a session for writing.
    pub fn open(&self, entry: &Entry) -> Result<Session> {
        let (id, path) = self.usable(entry)?;
        let stated = entry.row.key.clone();
        if entry.row.state == State::Mismatch {
            let header = session::header(&LogReader::open(self.shared.medium.as_ref(), &path)?)?.unwrap_or_default();
            let found = header.id.filter(|found| found != id.as_str()).or(stated).unwrap_or_default();
            return Err(Error::Mismatch { path, found });
        }
        let key = match entry.row.key.as_deref().map(str::parse) {
            Some(Ok(key)) => key,
            // The header is lost, and with it the key: the file's place is all that is known.
            _ => Key::new(&entry.dir.agent().unwrap_or_else(|| "unknown".to_owned()), "unknown", None, id.as_str())?,
        };
        let session = self.open_session(&entry.dir, id, key)?;
        // The list is a convenience; who is written to is for the transcript itself to say.
        let actual = session.key().to_string();
        if stated.is_some_and(|stated| stated != actual) {
            return Err(Error::Mismatch { path, found: actual });
        }
        Ok(session)
    }

    fn open_session(&self, dir: &AgentDir, id: SessionId, key: Key) -> Result<Session> {
        Session::open(&self.shared, dir, id, key)
    }

    /// Opens a session for reading.
    pub fn read(&self, entry: &Entry) -> Result<LogReader> {
        LogReader::open(self.shared.medium.as_ref(), &self.path(entry)?)
    }

    /// The conversation as it would be sent now.
    pub fn history(&self, entry: &Entry, limits: &Limits) -> Result<Restored> {
        view::restore(self.shared.medium.as_ref(), &self.path(entry)?, &self.blobs(), limits)
    }

    /// Where a session's transcript is, deleted or not.
    pub fn path(&self, entry: &Entry) -> Result<PathBuf> {
        let id = entry_id(entry)?;
        match entry.row.state {
            State::Deleted => Ok(entry.dir.trashed(&id)),
            State::Missing => Err(Error::Missing {
                id: id.to_string(),
                path: self.shared.medium.root().join(entry.dir.transcript(&id)),
            }),
            _ => Ok(entry.dir.transcript(&id)),
        }
    }

    fn usable(&self, entry: &Entry) -> Result<(SessionId, PathBuf)> {
        let id = entry_id(entry)?;
        if entry.row.state == State::Deleted {
            return Err(Error::NotFound { what: "session that is not deleted", name: id.to_string() });
        }
        let path = self.path(entry)?;
        Ok((id, path))
    }

    /// The session that a name means: id, key, id prefix, label or title prefix.
    pub fn resolve(&self, listing: &Listing, name: &str) -> Result<Entry> {
        find::resolve(listing, name)
    }
}

fn entry_id(entry: &Entry) -> Result<SessionId> {
    SessionId::parse(&entry.row.id).ok_or_else(|| Error::NotFound { what: "session", name: entry.row.id.clone() })
}
