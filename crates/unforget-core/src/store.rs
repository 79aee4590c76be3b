//! The sessions of one home directory: create, find, read, delete, undelete.
//!
//! Every answer comes from the transcripts; `sessions.json` only saves reading those that have not changed.
//! Creating writes the transcript first and the snapshot second, so that a crash in between leaves a session
//! that is found, never a row without one. Deleting moves to the trash. Names of files never come from keys.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::blob::Blobs;
use crate::error::{Error, IoContext as _, Result};
use crate::history::Limits;
use crate::key::Key;
use crate::layout::{self, AgentDir};
use crate::log::Durability;
use crate::medium::{Access, FileKind, Medium, parent, publish_durable, replace_durable};
use crate::reader::LogReader;
use crate::recent::Restored;
use crate::session::{self, Session};
use crate::snapshot::{self, Found};
use crate::stamp::{self, SessionId, SharedSource};
use crate::summary::{self, Row, State};

mod find;

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
    /// Folders that could not be looked into, with the reason.
    pub unreadable: Vec<(PathBuf, String)>,
    /// Directories whose snapshot is not current.
    pub stale: BTreeSet<AgentDir>,
}

/// The sessions of one home directory.
#[derive(Clone)]
pub struct Store {
    medium: Arc<dyn Medium>,
    source: SharedSource,
    durability: Durability,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("root", &self.medium.root()).finish_non_exhaustive()
    }
}

impl Store {
    /// A store on a medium; nothing is read or created yet.
    pub fn new(medium: Arc<dyn Medium>, source: SharedSource, durability: Durability) -> Self {
        Self { medium, source, durability }
    }

    /// The medium, for the parts of the program that look at files.
    pub fn medium(&self) -> &Arc<dyn Medium> {
        &self.medium
    }

    /// The clock and source of ids.
    pub fn source(&self) -> &SharedSource {
        &self.source
    }

    /// The blob store.
    pub fn blobs(&self) -> Blobs {
        Blobs::new(self.medium.clone())
    }

    /// Creates a session; it is its key's current one from now on.
    pub fn create(&self, key: &Key, label: Option<&str>) -> Result<Session> {
        let now_ms = self.source.now_ms();
        let id = self.source.new_id(now_ms);
        let header = session::encode_all(&self.blobs(), &session::header_draft(&id, key, label), &[], now_ms)?;
        self.adopt(key, &id, header.as_bytes())?;
        let path = AgentDir::of(key.agent()).transcript(&id);
        Session::open(self.medium.clone(), self.source.clone(), &path, id, key.clone(), self.durability)
    }

    /// Takes in a whole transcript, which is there completely or not at all.
    pub(crate) fn adopt(&self, key: &Key, id: &SessionId, transcript: &[u8]) -> Result<()> {
        let dir = AgentDir::of(key.agent());
        let path = dir.transcript(id);
        self.medium.create_dir(&dir.sessions()).context("create", &dir.sessions())?;
        match publish_durable(self.medium.as_ref(), &path, transcript).context("write", &path)? {
            true => Ok(()),
            false => Err(Error::Exists { path: self.medium.root().join(path) }),
        }
    }

    /// Opens the current session of a key for writing.
    pub fn load(&self, key: &Key, on_missing: OnMissing) -> Result<Session> {
        let listing = self.list()?;
        match (find::current(&listing, key), on_missing) {
            (Some(entry), _) => self.open(entry),
            (None, OnMissing::Create) => match self.hidden(&listing, key)? {
                Some(entry) => self.open(&entry),
                None => self.create(key, None),
            },
            (None, OnMissing::Fail) => Err(Error::NotFound { what: "session", name: key.to_string() }),
        }
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
        let key = match entry.row.key.as_deref().map(str::parse) {
            Some(Ok(key)) => key,
            // The header is lost, and with it the key: the file's place is all that is known.
            _ => Key::new(&entry.dir.agent().unwrap_or_else(|| "unknown".to_owned()), "unknown", None, id.as_str())?,
        };
        Session::open(self.medium.clone(), self.source.clone(), &path, id, key, self.durability)
    }

    /// Opens a session for reading.
    pub fn read(&self, entry: &Entry) -> Result<LogReader> {
        LogReader::open(self.medium.as_ref(), &self.path(entry)?)
    }

    /// The conversation as it would be sent now.
    pub fn history(&self, entry: &Entry, limits: &Limits) -> Result<Restored> {
        session::restore(self.medium.as_ref(), &self.path(entry)?, &self.blobs(), limits)
    }

    /// Where a session's transcript is, deleted or not.
    pub fn path(&self, entry: &Entry) -> Result<PathBuf> {
        let id = entry_id(entry)?;
        match entry.row.state {
            State::Deleted => Ok(entry.dir.trashed(&id)),
            State::Missing => {
                Err(Error::Missing { id: id.to_string(), path: self.medium.root().join(entry.dir.transcript(&id)) })
            }
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

    /// A session by its full id, found without looking at any other; only its header is read.
    pub fn entry(&self, id: &SessionId) -> Result<Option<Entry>> {
        for dir in self.agents(Path::new(layout::AGENTS))? {
            let path = dir.transcript(id);
            match self.medium.stat(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                other => other.context("look at", &path)?,
            };
            let header = session::header(&LogReader::open(self.medium.as_ref(), &path)?)?.unwrap_or_default();
            let state = match header.id {
                Some(found) if found != id.as_str() => State::Mismatch,
                _ => State::Ok,
            };
            let row = Row { id: id.to_string(), key: header.key, state, ..Row::default() };
            return Ok(Some(Entry { row: placed(row, &dir), dir }));
        }
        Ok(None)
    }

    /// All sessions that are not deleted.
    pub fn list(&self) -> Result<Listing> {
        self.list_with(|_, _| {})
    }

    /// All sessions; `progress` hears of each transcript that has to be read, and how many bytes it has.
    pub fn list_with(&self, mut progress: impl FnMut(&Path, u64)) -> Result<Listing> {
        let mut listing = Listing::default();
        for dir in self.agents(Path::new(layout::AGENTS))? {
            self.list_agent(&dir, &mut listing, &mut progress)?;
        }
        sort(&mut listing.entries);
        Ok(listing)
    }

    fn agents(&self, within: &Path) -> Result<Vec<AgentDir>> {
        let entries = match self.medium.list(within) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            other => other.context("list", within)?,
        };
        let mut dirs: Vec<AgentDir> = entries
            .into_iter()
            .filter(|(_, kind)| *kind == FileKind::Directory)
            .map(|(name, _)| AgentDir::found(&name))
            .collect();
        dirs.sort();
        Ok(dirs)
    }

    fn list_agent(&self, dir: &AgentDir, listing: &mut Listing, progress: &mut impl FnMut(&Path, u64)) -> Result<()> {
        let mut known: HashMap<String, Row> = HashMap::new();
        match snapshot::read(self.medium.as_ref(), &dir.snapshot()) {
            Found::Rows(rows) => known.extend(rows.into_iter().map(|row| (row.id.clone(), row))),
            Found::Nothing => {}
            Found::Unusable(why) => {
                listing.unusable.push((dir.snapshot(), why));
                listing.stale.insert(dir.clone());
            }
        }
        let transcripts = match self.transcripts(&dir.sessions()) {
            Ok(transcripts) => transcripts,
            // One folder that is none (a link, a file) hides nobody else's sessions; a disk that fails is an error.
            Err(error) if error.is_io(io::ErrorKind::NotADirectory) => {
                listing.unreadable.push((dir.sessions(), error.to_string()));
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        for (id, path) in transcripts {
            let cached = known.remove(id.as_str());
            let stat = match self.medium.stat(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                other => other.context("look at", &path)?,
            };
            let row = match cached {
                Some(row) if row.bytes == stat.len && row.modified_ns == stat.modified_ns && row.is_lasting() => row,
                cached => {
                    progress(&path, stat.len);
                    listing.stale.insert(dir.clone());
                    let row = self.row(&path, &id);
                    match (cached, &row.state) {
                        // What cannot be read now still is the session that it was.
                        (Some(known), State::Unreadable(_)) => {
                            Row { state: row.state, bytes: row.bytes, modified_ns: row.modified_ns, ..known }
                        }
                        _ => row,
                    }
                }
            };
            listing.entries.push(Entry { row: placed(row, dir), dir: dir.clone() });
        }
        for (id, row) in known {
            let Some(id) = SessionId::parse(&id) else { continue };
            if self.medium.stat(&dir.trashed(&id)).is_ok() {
                listing.stale.insert(dir.clone());
                continue;
            }
            listing.entries.push(Entry { dir: dir.clone(), row: Row { state: State::Missing, ..row } });
        }
        Ok(())
    }

    fn row(&self, path: &Path, id: &SessionId) -> Row {
        match LogReader::open(self.medium.as_ref(), path).and_then(|reader| summary::summarise(&reader, id.as_str())) {
            Ok((row, _)) => row,
            Err(error) => {
                let mut row = summary::unreadable(id.as_str(), &error);
                if let Ok(stat) = self.medium.stat(path) {
                    (row.bytes, row.modified_ns) = (stat.len, stat.modified_ns);
                }
                row
            }
        }
    }

    fn transcripts(&self, dir: &Path) -> Result<Vec<(SessionId, PathBuf)>> {
        let entries = match self.medium.list(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            other => other.context("list", dir)?,
        };
        Ok(entries
            .into_iter()
            .filter(|(_, kind)| *kind != FileKind::Directory)
            .filter_map(|(name, _)| layout::transcript_id(&name).map(|id| (id, dir.join(name))))
            .collect())
    }

    /// Brings the snapshots up to date that a listing found stale.
    pub fn refresh(&self, listing: &Listing) -> Result<()> {
        for dir in &listing.stale {
            let mut rows: Vec<Row> =
                listing.entries.iter().filter(|entry| entry.dir == *dir).map(|entry| entry.row.clone()).collect();
            rows.sort_by(|a, b| a.id.cmp(&b.id));
            let unusable = listing.unusable.iter().any(|(path, _)| *path == dir.snapshot());
            let set_aside = unusable.then(|| self.source.now_ms());
            snapshot::write(self.medium.as_ref(), &dir.snapshot(), &rows, set_aside)?;
        }
        Ok(())
    }

    /// Moves a session to the trash.
    pub fn delete(&self, entry: &Entry) -> Result<()> {
        let id = entry_id(entry)?;
        let from = match self.path(entry) {
            Err(Error::Missing { .. }) => return self.forget(entry),
            other => other?,
        };
        if entry.row.state == State::Deleted {
            return Err(Error::NotFound { what: "session that is not deleted", name: id.to_string() });
        }
        // A session that someone is writing stays where it is; one that cannot be opened can still go.
        if let Ok(file) = self.medium.open(&from, Access::Read) {
            if !file.try_lock().context("lock", &from)? {
                let holder = file.stat().ok().and_then(|stat| self.medium.lock_holder(&stat));
                let holder = holder.unwrap_or_else(|| "another process".to_owned());
                return Err(Error::Busy { path: from, holder });
            }
            return self.trash(entry, &id, &from);
        }
        self.trash(entry, &id, &from)
    }

    fn trash(&self, entry: &Entry, id: &SessionId, from: &Path) -> Result<()> {
        let trash = entry.dir.trash();
        self.medium.create_dir(&trash).context("create", &trash)?;
        let receipt = format!("{{\"deleted\":\"{}\"}}\n", stamp::rfc3339(self.source.now_ms()));
        replace_durable(self.medium.as_ref(), &entry.dir.receipt(id), receipt.as_bytes()).context("write", &trash)?;
        let to = entry.dir.trashed(id);
        self.move_all(id, from, &to)
    }

    /// Moves a transcript and its torn pieces to another directory, transcript last.
    fn move_all(&self, id: &SessionId, from: &Path, to: &Path) -> Result<()> {
        let (source, target) = (parent(from), parent(to));
        for (name, _) in self.medium.list(source).context("list", source)? {
            if layout::is_torn_piece(&name, id) {
                self.medium.rename(&source.join(&name), &target.join(&name)).context("move", &source.join(&name))?;
            }
        }
        match self.medium.rename(from, to) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                // A crash in the middle of a move may leave both names of one file.
                let (here, there) = (self.medium.stat(from), self.medium.stat(to));
                let (here, there) = (here.context("look at", from)?, there.context("look at", to)?);
                if here.identity != there.identity {
                    return Err(Error::Exists { path: self.medium.root().join(to) });
                }
                self.medium.remove(from).context("move", from)?;
            }
            other => other.context("move", from)?,
        }
        self.medium.sync_dir(target).context("sync", target)?;
        self.medium.sync_dir(source).context("sync", source)?;
        self.refresh_all()
    }

    /// Drops the row of a session whose transcript is gone.
    fn forget(&self, entry: &Entry) -> Result<()> {
        let mut listing = self.list()?;
        listing.entries.retain(|other| other.dir != entry.dir || other.row.id != entry.row.id);
        listing.stale.insert(entry.dir.clone());
        self.refresh(&listing)
    }

    fn refresh_all(&self) -> Result<()> {
        let listing = self.list()?;
        self.refresh(&listing)
    }

    /// The sessions in the trash.
    pub fn deleted(&self) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for dir in self.agents(Path::new(layout::TRASH))? {
            for (id, path) in self.transcripts(&dir.trash())? {
                // A move that a crash cut short leaves both names: the session is not deleted then.
                if self.medium.stat(&dir.transcript(&id)).is_ok() {
                    continue;
                }
                let row = Row { state: State::Deleted, ..self.row(&path, &id) };
                entries.push(Entry { dir: dir.clone(), row });
            }
        }
        sort(&mut entries);
        Ok(entries)
    }

    /// Moves a session back from the trash.
    pub fn undelete(&self, entry: &Entry) -> Result<()> {
        let id = entry_id(entry)?;
        let sessions = entry.dir.sessions();
        self.medium.create_dir(&sessions).context("create", &sessions)?;
        self.move_all(&id, &entry.dir.trashed(&id), &entry.dir.transcript(&id))?;
        let receipt = entry.dir.receipt(&id);
        match self.medium.remove(&receipt) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error).context("remove", &receipt),
            _ => Ok(()),
        }
    }

    /// The session that a name means: id, key, id prefix, label or title prefix.
    pub fn resolve(&self, listing: &Listing, name: &str) -> Result<Entry> {
        find::resolve(listing, name)
    }
}

/// A transcript in another agent's folder is out of place, whatever its header says.
fn placed(row: Row, dir: &AgentDir) -> Row {
    let agent = row.key.as_deref().and_then(|key| key.parse::<Key>().ok()).map(|key| AgentDir::of(key.agent()));
    match (&row.state, agent) {
        (State::Ok, Some(agent)) if agent != *dir => Row { state: State::Mismatch, ..row },
        _ => row,
    }
}

fn entry_id(entry: &Entry) -> Result<SessionId> {
    SessionId::parse(&entry.row.id).ok_or_else(|| Error::NotFound { what: "session", name: entry.row.id.clone() })
}

fn sort(entries: &mut [Entry]) {
    entries.sort_by(|a, b| b.row.updated_ms.cmp(&a.row.updated_ms).then_with(|| b.row.id.cmp(&a.row.id)));
}
