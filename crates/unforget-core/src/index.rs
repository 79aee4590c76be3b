//! `index.sqlite`: what the transcripts say, ready to be asked. A cache that proves itself, and never truth.
//!
//! A row counts while its file has the length, time and identity that the row says. Three things lead to the rows that may
//! have changed, so that nobody looks at all of them: the time of each directory (something came or went), the marks that
//! writers leave before their first append, and the rows of the page that is being shown. A row is brought up to
//! date by folding what was added since; what was folded before is proved by the bytes before it, which hold a chained checksum.
//!
//! Everything here may fail without harm: each answer can also be had from the files ([`crate::store`]). A database
//! that is damaged or of an older version is set aside and built anew. One that is locked, or that a newer version of the program made, is left alone.
//! Writers are never delayed for long: a mark that cannot be left in time becomes the file `index.distrust`, after which every row is compared.
//!
//! `gate` lets nobody use a file that has lost its name, `schema` has the tables, `row` what is in one, `proof` sees that none is
//! missing, `look` folds a file, `catch_up` finds what changed (`names` in a directory), `page` lists, `text` takes in words,
//! `find` searches them, `spent` has what each session took and `sums` what all did.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use crate::error::Error;
use crate::layout::{self, AgentDir, Place};
use crate::medium::{Access, Medium};
use crate::observer::{Ending, Folds, NotObserved, SessionObserver, Touched};
use crate::reader::LogReader;
use crate::snapshot;
use crate::stamp::{SessionId, SharedSource};
use crate::summary::State;

mod catch_up;
mod examine;
mod find;
mod gate;
mod look;
mod names;
mod page;
mod proof;
mod row;
mod schema;
mod spent;
mod sums;
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
    /// It is damaged, or of an older version, and why.
    Unusable(String),
    /// A newer version of the program made it, for which it stays as it is.
    Newer {
        /// Its version.
        version: i64,
        /// The newest one that this program knows.
        known: i64,
    },
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
            Trouble::Newer { version, known } => f.write_str(&snapshot::newer(*version, *known)),
            Trouble::Busy => f.write_str("another process is writing it"),
            Trouble::Refused(why) => f.write_str(why),
            Trouble::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Trouble {}

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

impl From<Trouble> for Error {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Store(error) => error,
            other => Error::Invalid(format!("the index: {other}")),
        }
    }
}

/// The result of asking the index.
pub type Asked<T> = std::result::Result<T, Trouble>;

/// The index of a home directory; nothing is opened before it is needed.
pub struct Index {
    medium: Arc<dyn Medium>,
    source: SharedSource,
    reader: Mutex<Option<gate::Open>>,
    writer: Mutex<Option<gate::Open>>,
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
        self.identity()?.ok_or(Trouble::Absent)?;
        let mut slot = lock(&self.reader);
        let (open, _gate) = self.connect(slot.take(), OpenFlags::SQLITE_OPEN_READ_ONLY, WAIT)?;
        // One moment for all that is asked.
        let answer = ask(&*slot.insert(open).connection.transaction()?);
        if matches!(answer, Err(Trouble::Unusable(_))) {
            *slot = None;
        }
        answer
    }

    /// The number of the database that answers now; none if there is none.
    pub(crate) fn birth(&self) -> Asked<Option<i64>> {
        match self.read(schema::birth) {
            Err(Trouble::Absent) => Ok(None),
            other => other.map(Some),
        }
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
        // Another thread's transaction is waited for no longer than another process's.
        let mut slot = lock_within(&self.writer, wait).ok_or(Trouble::Busy)?;
        let (open, _gate) = self.connect(slot.take(), OpenFlags::SQLITE_OPEN_READ_WRITE, wait)?;
        let connection = &mut slot.insert(open).connection;
        connection.busy_timeout(wait)?;
        connection.pragma_update(None, "synchronous", safety.name())?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let answer = change(&transaction)?;
        transaction.commit()?;
        Ok(answer)
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
        let follow = |dir: &AgentDir, id: &SessionId| -> Asked<()> {
            if self.medium.stat(&dir.transcript(id)).is_ok() {
                return Ok(());
            }
            match self.read(|connection| row::find(connection, Place::Agents, dir, id.as_str()))? {
                Some(_) => self.look(Place::Agents, dir, id, &mut Caught::default()),
                None => Ok(()),
            }
        };
        for (dir, id) in sessions {
            if follow(dir, id).is_err() {
                return;
            }
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
        self.look_and(Place::Agents, &session.dir, &session.id, &mut Caught::default(), |connection| {
            if ending == Ending::Closed {
                let sql = "DELETE FROM dirty WHERE dir = ?1 AND id = ?2 AND token = ?3";
                connection.execute(sql, (session.dir.as_str(), session.id.as_str(), session.token.as_str()))?;
            }
            Ok(())
        })
    }
}

impl SessionObserver for Index {
    fn will_write(&self, session: &Touched) {
        self.mark(&session.dir, &session.id, &session.token);
    }

    fn written(&self, session: &Touched, ending: Ending) -> Result<(), NotObserved> {
        self.update(session, ending).map_err(|trouble| NotObserved(trouble.to_string()))
    }

    fn folds(&self, dir: &AgentDir, id: &SessionId, reader: &LogReader) -> Option<Folds> {
        self.known_folds(dir, id, reader).ok().flatten()
    }

    fn trashed(&self, sessions: &[(&AgentDir, &SessionId)]) {
        self.follow_to_trash(sessions.iter().copied());
    }

    fn purged(&self, dir: &AgentDir, id: &SessionId) {
        match self.forget_purged(dir, id) {
            Ok(()) | Err(_) => {}
        }
    }

    fn dropped(&self, dir: &AgentDir, id: &str) -> Result<(), Error> {
        Ok(self.forget_missing(dir, id)?)
    }
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
