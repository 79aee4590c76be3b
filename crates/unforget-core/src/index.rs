//! `index.sqlite`: what the transcripts say, ready to be asked. A cache that proves itself, and never truth.
//!
//! A row counts while its file has the length, time and identity that the row says. Three things lead to the rows that may
//! have changed, so that nobody looks at all of them: the time of each directory (something came or went), the marks that
//! writers leave before their first append, and the rows of the page that is being shown. A row is brought up to
//! date by folding what was added since; what was folded before is proved by the bytes before it, which hold a chained checksum.
//!
//! Everything here may fail without harm: each answer can also be had from the files ([`crate::catalog`]). A database
//! that is damaged or of another version is set aside and built anew, and one that is locked is left alone.
//! Writers are never delayed for long: a mark that cannot be left in time becomes the file `index.distrust`, after which every row is compared.
//!
//! `schema` has the tables, `row` what is in one, `look` folds a file, `catch_up` finds what changed, `page` lists,
//! `text` searches, `spent` adds up.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use crate::error::Error;
use crate::layout::{self, AgentDir};
use crate::medium::{Access, FileKind, Medium};
use crate::stamp::{SessionId, SharedSource};
use crate::summary::State;

mod catch_up;
mod look;
mod page;
mod row;
mod schema;
mod spent;
mod text;

pub use catch_up::{Caught, Depth};
pub(crate) use page::candidates;

/// How long a command waits for another process's transaction.
const WAIT: Duration = Duration::from_millis(500);
/// How long a writer waits before its first append.
const MARK_WAIT: Duration = Duration::from_millis(50);
/// How often a thread asks whether another one is done.
const LOCK_PAUSE: Duration = Duration::from_millis(1);

/// Why the index does not answer.
#[derive(Debug)]
pub enum Trouble {
    /// There is none.
    Absent,
    /// It is damaged, or of another version, and why.
    Unusable(String),
    /// Another process is writing it.
    Busy,
    /// The system does not allow it: a read-only or full disk.
    Refused(String),
    /// The store itself has trouble.
    Store(Error),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Absent => f.write_str("there is none"),
            Trouble::Unusable(why) => f.write_str(why),
            Trouble::Busy => f.write_str("another process is writing it"),
            Trouble::Refused(why) => f.write_str(why),
            Trouble::Store(error) => error.fmt(f),
        }
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Trouble::Store(error)
    }
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Trouble::Busy,
            Some(
                ErrorCode::CannotOpen
                | ErrorCode::ReadOnly
                | ErrorCode::DiskFull
                | ErrorCode::PermissionDenied
                | ErrorCode::OutOfMemory
                | ErrorCode::SystemIoFailure
                | ErrorCode::FileLockingProtocolFailed
                | ErrorCode::NoLargeFileSupport,
            ) => Trouble::Refused(error.to_string()),
            // Corrupt, no database, a missing table or column, a value of the wrong type: not what was written.
            _ => Trouble::Unusable(error.to_string()),
        }
    }
}

/// The result of asking the index.
pub type Asked<T> = std::result::Result<T, Trouble>;

/// Where a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// Among its agent's sessions.
    Agents,
    /// In the trash.
    Trash,
}

impl Place {
    pub(crate) const ALL: [Place; 2] = [Place::Agents, Place::Trash];

    fn number(self) -> i64 {
        match self {
            Place::Agents => 0,
            Place::Trash => 1,
        }
    }

    fn of(number: i64) -> Self {
        if number == 0 { Place::Agents } else { Place::Trash }
    }

    /// The directory of an agent's transcripts.
    pub(crate) fn folder(self, dir: &AgentDir) -> PathBuf {
        match self {
            Place::Agents => dir.sessions(),
            Place::Trash => dir.trash(),
        }
    }

    /// A session's transcript.
    pub(crate) fn transcript(self, dir: &AgentDir, id: &SessionId) -> PathBuf {
        match self {
            Place::Agents => dir.transcript(id),
            Place::Trash => dir.trashed(id),
        }
    }

    /// The directory of all agents.
    pub(crate) fn top(self) -> &'static Path {
        Path::new(match self {
            Place::Agents => layout::AGENTS,
            Place::Trash => layout::TRASH,
        })
    }
}

/// The index of a home directory; nothing is opened before it is needed.
pub struct Index {
    medium: Arc<dyn Medium>,
    source: SharedSource,
    reader: Mutex<Option<Open>>,
    writer: Mutex<Option<Open>>,
}

/// An open database, and which file it is.
struct Open {
    connection: Connection,
    identity: (u64, u64),
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").field("root", &self.medium.root()).finish_non_exhaustive()
    }
}

impl Index {
    /// The index of a real directory; SQLite does its own input and output there.
    pub fn new(medium: Arc<dyn Medium>, source: SharedSource) -> Self {
        Self { medium, source, reader: Mutex::default(), writer: Mutex::default() }
    }

    /// Where it is.
    pub fn path(&self) -> PathBuf {
        self.medium.root().join(layout::INDEX)
    }

    /// Asks without being able to change anything.
    pub(crate) fn read<T>(&self, ask: impl FnOnce(&Connection) -> Asked<T>) -> Asked<T> {
        let identity = self.identity()?.ok_or(Trouble::Absent)?;
        let mut slot = lock(&self.reader);
        let open = match slot.take().filter(|open| open.identity == identity) {
            Some(open) => open,
            None => self.open(OpenFlags::SQLITE_OPEN_READ_ONLY, identity, WAIT)?,
        };
        let answer = ask(&slot.insert(open).connection);
        if matches!(answer, Err(Trouble::Unusable(_))) {
            *slot = None;
        }
        answer
    }

    /// Changes something, in one transaction.
    pub(crate) fn write<T>(&self, change: impl FnOnce(&Connection) -> Asked<T>) -> Asked<T> {
        self.write_within(WAIT, Safety::Soon, change)
    }

    fn write_within<T>(
        &self,
        wait: Duration,
        safety: Safety,
        change: impl FnOnce(&Connection) -> Asked<T>,
    ) -> Asked<T> {
        let identity = match self.identity()? {
            Some(identity) => identity,
            None => self.create()?,
        };
        // Another thread's transaction is waited for no longer than another process's.
        let mut slot = lock_within(&self.writer, wait).ok_or(Trouble::Busy)?;
        let open = match slot.take().filter(|open| open.identity == identity) {
            Some(open) => open,
            None => self.open(OpenFlags::SQLITE_OPEN_READ_WRITE, identity, wait)?,
        };
        let connection = &mut slot.insert(open).connection;
        connection.busy_timeout(wait)?;
        connection.pragma_update(None, "synchronous", safety.name())?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let answer = change(&transaction)?;
        transaction.commit()?;
        Ok(answer)
    }

    /// Which file it is, if there is one.
    pub(crate) fn identity(&self) -> Asked<Option<(u64, u64)>> {
        match self.medium.stat(Path::new(layout::INDEX)) {
            Ok(stat) if stat.kind == FileKind::File => Ok(Some(stat.identity)),
            Ok(_) => Err(Trouble::Refused(format!("`{}` is no plain file", self.path().display()))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Trouble::Refused(error.to_string())),
        }
    }

    /// Makes an empty file, which SQLite takes for a new database: its own would be readable by others.
    fn create(&self) -> Asked<(u64, u64)> {
        match self.medium.open(Path::new(layout::INDEX), Access::CreateNew) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Trouble::Refused(error.to_string())),
        }
        self.identity()?.ok_or(Trouble::Busy)
    }

    fn open(&self, access: OpenFlags, identity: (u64, u64), wait: Duration) -> Asked<Open> {
        // A link in place of the file would lead SQLite anywhere; the root may be one.
        let root = self.medium.root().canonicalize().map_err(|error| Trouble::Refused(error.to_string()))?;
        let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let connection = Connection::open_with_flags(root.join(layout::INDEX), flags)?;
        connection.busy_timeout(wait)?;
        match access.contains(OpenFlags::SQLITE_OPEN_READ_WRITE) {
            true => schema::prepare(&connection)?,
            false => schema::check(&connection)?,
        }
        Ok(Open { connection, identity })
    }

    /// Puts a database that is of no use out of the way; one older remnant at most is kept.
    pub fn set_aside(&self) -> Asked<PathBuf> {
        (*lock(&self.reader), *lock(&self.writer)) = (None, None);
        let refused = |error: io::Error| Trouble::Refused(error.to_string());
        for (name, kind) in self.medium.list(Path::new("")).map_err(refused)? {
            if kind == FileKind::File && layout::is_index_remnant(&name) {
                self.medium.remove(Path::new(&name)).map_err(refused)?;
            }
        }
        let to = layout::index_remnant(self.source.now_ms());
        for ending in ["", "-wal", "-shm"] {
            let from = PathBuf::from(format!("{}{ending}", layout::INDEX));
            match self.medium.rename(&from, &PathBuf::from(format!("{to}{ending}"))) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(refused(error)),
                _ => {}
            }
        }
        Ok(self.medium.root().join(to))
    }

    /// Says that a session is about to change. Never fails and never waits long: without an index that can be
    /// written, everything in it is distrusted instead.
    pub(crate) fn mark(&self, dir: &AgentDir, id: &SessionId, token: &str) {
        let marked = self.write_within(MARK_WAIT, Safety::Now, |connection| {
            let sql = "INSERT OR REPLACE INTO dirty (dir, id, token) VALUES (?1, ?2, ?3)";
            connection.execute(sql, (dir.as_str(), id.as_str(), token))?;
            Ok(())
        });
        if marked.is_err() {
            // If not even an empty file can be made, the append that comes now will say so.
            drop(self.medium.open(Path::new(layout::DISTRUST), Access::CreateNew));
        }
    }

    /// Lets rows follow their transcripts into the trash, before these leave it for good: a row that was left behind would miss
    /// its transcript for ever. What the index cannot do now is no reason to keep what a person wanted to be gone.
    pub(crate) fn follow_to_trash<'s>(&self, sessions: impl Iterator<Item = (&'s AgentDir, &'s SessionId)>) {
        if !matches!(self.identity(), Ok(Some(_))) {
            return;
        }
        let followed = self.write(|connection| {
            for (dir, id) in sessions {
                if self.medium.stat(&dir.transcript(id)).is_err()
                    && row::find(connection, Place::Agents, dir, id.as_str())?.is_some()
                {
                    self.look(connection, Place::Agents, dir, id, &mut Caught::default())?;
                }
            }
            Ok(())
        });
        match followed {
            Ok(()) | Err(_) => {}
        }
    }

    /// Forgets a session whose transcript is gone.
    pub(crate) fn forget_missing(&self, dir: &AgentDir, id: &str) -> Asked<()> {
        self.write(|connection| {
            let Some(known) = row::find(connection, Place::Agents, dir, id)? else { return Ok(()) };
            if known.entry.row.state == State::Missing {
                text::forget(connection, known.number)?;
                connection.execute("DELETE FROM sessions WHERE number = ?1", [known.number])?;
            }
            Ok(())
        })
    }

    /// Forgets a session that left the trash for good.
    pub(crate) fn forget_purged(&self, dir: &AgentDir, id: &SessionId) -> Asked<()> {
        self.write(|connection| {
            for place in Place::ALL {
                if let Some(known) = row::find(connection, place, dir, id.as_str())? {
                    text::forget(connection, known.number)?;
                    connection.execute("DELETE FROM sessions WHERE number = ?1", [known.number])?;
                }
            }
            Ok(())
        })
    }

    /// Brings one session up to date after a turn; a mark of the same token goes if the session is being closed.
    pub fn update(&self, session: &Touched, ending: Ending) -> Asked<()> {
        self.write(|connection| {
            let mut caught = Caught::default();
            self.look(connection, Place::Agents, &session.dir, &session.id, &mut caught)?;
            if ending == Ending::Closed {
                let sql = "DELETE FROM dirty WHERE dir = ?1 AND id = ?2 AND token = ?3";
                connection.execute(sql, (session.dir.as_str(), session.id.as_str(), session.token.as_str()))?;
            }
            Ok(())
        })
    }
}

/// A session that was written to, and the mark that says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Touched {
    /// Its agent's directory.
    pub dir: AgentDir,
    /// The session.
    pub id: SessionId,
    /// The mark.
    pub token: String,
}

/// Whether a session will be written again by the same writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Yes.
    Open,
    /// No: whoever still holds its lock will let go of it now.
    Closed,
}

/// What a commit survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Safety {
    /// A power cut, a moment later: what is lost then is found again.
    Soon,
    /// A power cut, at once: a mark must not be lost when what it announces is not.
    Now,
}

impl Safety {
    fn name(self) -> &'static str {
        match self {
            Safety::Soon => "normal",
            Safety::Now => "full",
        }
    }
}

/// The lock, if it is free within a time.
fn lock_within<T>(mutex: &Mutex<T>, wait: Duration) -> Option<MutexGuard<'_, T>> {
    let begin = Instant::now();
    loop {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if begin.elapsed() >= wait => return None,
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
        }
    }
}

/// A lock whose holder panicked guards a connection that is as good as ever: a transaction rolls back when it drops.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Index {
    fn stat_folder(&self, place: Place, dir: &AgentDir) -> Asked<Option<i64>> {
        let folder = place.folder(dir);
        match self.medium.stat(&folder) {
            Ok(stat) => Ok(Some(stat.modified_ns)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Trouble::Store(Error::Io { action: "look at", path: folder, source })),
        }
    }
}
