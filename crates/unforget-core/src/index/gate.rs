//! Keeps databases that have the same name apart, whoever deletes one of them.
//!
//! SQLite finds the log (`-wal`) and the shared memory (`-shm`) of a database by name. If one of the three files is deleted under running
//! programs, a new one of that name must not meet what is left of the old: pages of one database would be read as those of another. Nobody
//! can be kept from deleting, but only this program makes new files, and it does so alone:
//!
//! - Whoever asks or writes holds the lock of `catalog.lock` together with others, and sees first that the three names still
//!   lead to the files that its connection has open. Whoever makes, moves or closes them holds it alone. So a file that is deleted in the middle of a transaction has no
//!   successor before that transaction is over, and nobody begins another on a file without a name.
//! - What `catalog.lock` says (the *seal*) tells whether a log that is not there was done with (also by somebody who was killed while doing so), or held something that is lost now; and
//!   whether a log belongs to the database beside it. If not, the index is of no use and is built anew. No second log or memory is ever made beside one that
//!   someone may still use.
//!
//! The lock file is no part of the index: whoever deletes `index.*` does not delete it. The database and its memory are never opened here, only
//! looked at: closing a second descriptor of a file would give up the locks that SQLite has on it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::{Asked, Index, LOCK_PAUSE, Trouble, WAIT, lock, schema};
use crate::layout;
use crate::medium::{Access, FileKind, Handle, read_full, write_full};

/// How often a connection is made because something changed meanwhile.
const ATTEMPTS: usize = 4;
/// The longest seal.
const MAX_SEAL: usize = 128;
/// The seal of a database whose log was done with.
const CLEAN: &str = "clean\n";
/// The seal of a database that is being made.
const NEW: &str = "new\n";
/// What the seal of a database begins with whose log is being taken over and removed.
const CLOSING: &str = "closing ";
const LOG: &str = "-wal";
const MEMORY: &str = "-shm";
/// What the names of the files of a database end with.
const ENDINGS: [&str; 4] = ["", LOG, MEMORY, "-journal"];

/// Device and inode.
type Identity = (u64, u64);

/// Who else may pass at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Company {
    Others,
    Nobody,
}

/// The right to use the files of the index, until it drops.
pub(super) struct Gate {
    file: Box<dyn Handle>,
}

/// Which files the names lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Names {
    database: Option<Identity>,
    log: Option<Identity>,
    memory: Option<Identity>,
}

impl Names {
    /// Whether nothing is missing that is not there, as far as is known.
    fn are_whole(&self, seal: &Seal) -> bool {
        match seal {
            Seal::Clean => true,
            Seal::Closing(database, log) => self.database == Some(*database) && self.log.is_none_or(|it| it == *log),
            Seal::Unknown | Seal::Together(..) | Seal::New => false,
        }
    }

    fn are_all_there(&self) -> bool {
        self.database.is_some() && self.log.is_some() && self.memory.is_some()
    }
}

/// What is known of a log from those who had it open.
#[derive(Debug, PartialEq, Eq)]
enum Seal {
    /// Nothing.
    Unknown,
    /// Everything in it was taken over, and it was removed.
    Clean,
    /// This database has this log.
    Together(Identity, Identity),
    /// The last one who had this database open takes over this log and removes it: whether it came to that end or was killed on the way, what is there is whole.
    Closing(Identity, Identity),
    /// It is being made, and nobody has ever asked it anything.
    New,
}

/// An open database, and which files it is.
pub(super) struct Open {
    pub(super) connection: Connection,
    names: Entry,
}

/// The files of every connection of this process. SQLite lets all of them use the memory that the first of them opened, whatever it is called by now.
static ENTRIES: Mutex<Vec<Names>> = Mutex::new(Vec::new());

/// A connection's line among [`ENTRIES`], until it is closed.
struct Entry(Names);

impl Entry {
    fn new(names: Names) -> Asked<Self> {
        let mut entries = lock(&ENTRIES);
        match entries.iter().any(|other| other.database == names.database && *other != names) {
            true => Err(replaced()),
            false => {
                entries.push(names);
                Ok(Self(names))
            }
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut entries = lock(&ENTRIES);
        if let Some(at) = entries.iter().position(|other| *other == self.0) {
            entries.swap_remove(at);
        }
    }
}

impl Gate {
    fn seal(&self) -> Asked<Seal> {
        let mut bytes = [0; MAX_SEAL];
        let filled = read_full(self.file.as_ref(), &mut bytes, 0).map_err(refused)?;
        let text = std::str::from_utf8(&bytes[..filled]).unwrap_or_default();
        match text {
            CLEAN => return Ok(Seal::Clean),
            NEW => return Ok(Seal::New),
            _ => {}
        }
        let (is_closing, text) = text.strip_prefix(CLOSING).map_or((false, text), |rest| (true, rest));
        let numbers: Vec<u64> = match text.strip_suffix('\n') {
            Some(line) => line.split(' ').filter_map(|number| number.parse().ok()).collect(),
            None => Vec::new(),
        };
        Ok(match numbers[..] {
            [a, b, c, d] if is_closing => Seal::Closing((a, b), (c, d)),
            [a, b, c, d] => Seal::Together((a, b), (c, d)),
            _ => Seal::Unknown,
        })
    }

    fn set(&mut self, seal: &Seal) -> Asked<()> {
        let numbers =
            |database: &Identity, log: &Identity| format!("{} {} {} {}\n", database.0, database.1, log.0, log.1);
        let text = match seal {
            Seal::Unknown => String::new(),
            Seal::Clean => CLEAN.to_owned(),
            Seal::New => NEW.to_owned(),
            Seal::Together(database, log) => numbers(database, log),
            Seal::Closing(database, log) => CLOSING.to_owned() + &numbers(database, log),
        };
        self.file.set_len(0).and_then(|()| write_full(self.file.as_mut(), text.as_bytes())).map_err(refused)
    }
}

impl Index {
    /// A connection to the database that has the name now, and the right to use it. `held` is one from before.
    pub(super) fn connect(&self, held: Option<Open>, access: OpenFlags, wait: Duration) -> Asked<(Open, Gate)> {
        let (mut held, until) = (held, Instant::now() + wait);
        for _ in 0..ATTEMPTS {
            let mut gate = self.enter(Company::Others, until)?;
            let names = self.names()?;
            match held.take() {
                Some(open) if names.are_all_there() && open.names.0 == names => return Ok((open, gate)),
                // Whoever is open keeps SQLite from removing these two; so someone else did, and who comes later may have made others.
                Some(open) if open.names.0.database == names.database => return Err(replaced()),
                // What it has open has no name any more.
                other => drop(other),
            }
            if names.are_all_there() {
                return Ok((self.open(access, names, &mut gate, wait)?, gate));
            }
            drop(gate);
            held = Some(self.make(access, wait, until)?);
        }
        Err(Trouble::Busy)
    }

    /// Opens a database of which something is not there yet, or not any more.
    fn make(&self, access: OpenFlags, wait: Duration, until: Instant) -> Asked<Open> {
        let mut gate = self.enter(Company::Nobody, until)?;
        let mut names = self.names()?;
        let seal = gate.seal()?;
        // One that somebody began to make and did not finish says nothing.
        if names.database.is_none() || seal == Seal::New {
            if !access.contains(OpenFlags::SQLITE_OPEN_READ_WRITE) {
                return Err(Trouble::Absent);
            }
            // Whatever else is there belonged to one that is gone.
            for ending in ENDINGS {
                self.remove(ending)?;
            }
            gate.set(&Seal::New)?;
            // An empty file, which SQLite takes for a new database: its own would be readable by others.
            self.medium.open(Path::new(layout::INDEX), Access::CreateNew).map(drop).map_err(refused)?;
            names = self.names()?;
        } else if !names.are_whole(&seal) && !self.is_empty()? {
            return Err(Trouble::Unusable("its log or its memory is gone, maybe while someone uses them".to_owned()));
        } else if matches!(seal, Seal::Closing(..)) && names.log.is_none() {
            // What its last user did not come to say. The next log is another one.
            gate.set(&Seal::Clean)?;
        }
        self.open(access, names, &mut gate, wait)
    }

    fn open(&self, access: OpenFlags, before: Names, gate: &mut Gate, wait: Duration) -> Asked<Open> {
        if let (Seal::Together(database, log) | Seal::Closing(database, log), Some(found)) = (gate.seal()?, before.log)
            && (Some(database), log) != (before.database, found)
        {
            return Err(Trouble::Unusable("its log is that of another one".to_owned()));
        }
        // A link in place of the file would lead SQLite anywhere; the root may be one.
        let root = self.medium.root().canonicalize().map_err(refused)?;
        let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let connection = Connection::open_with_flags(root.join(layout::INDEX), flags)?;
        // Closing takes over and removes the log by its name, which must be done alone.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        connection.busy_timeout(wait)?;
        let is_writer = access.contains(OpenFlags::SQLITE_OPEN_READ_WRITE);
        match is_writer {
            true => schema::prepare(&connection)?,
            false => schema::check(&connection)?,
        }
        let names = self.names()?;
        let is_same = |before: Option<Identity>, now: Option<Identity>| before.is_none() || before == now;
        let (Some(database), Some(log)) = (names.database, names.log) else { return Err(replaced()) };
        if !is_same(before.database, names.database)
            || !is_same(before.log, names.log)
            || !is_same(before.memory, names.memory)
            || names.memory.is_none()
        {
            return Err(replaced());
        }
        if is_writer && gate.seal()? != Seal::Together(database, log) {
            gate.set(&Seal::Together(database, log))?;
        }
        Ok(Open { connection, names: Entry::new(names)? })
    }

    /// Waits for the right to use the files.
    fn enter(&self, company: Company, until: Instant) -> Asked<Gate> {
        let path = Path::new(layout::CATALOG_LOCK);
        loop {
            let file = match self.medium.open(path, Access::Append) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    match self.medium.open(path, Access::CreateNew) {
                        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                            self.medium.open(path, Access::Append)
                        }
                        other => other,
                    }
                }
                // On a disk that cannot be written, nobody makes new files either.
                Err(error) if is_read_only(&error) => self.medium.open(path, Access::Read),
                other => other,
            };
            let file = file.map_err(refused)?;
            let is_free = match company {
                Company::Others => file.try_lock_shared(),
                Company::Nobody => file.try_lock(),
            };
            if is_free.map_err(refused)? {
                // Somebody may have deleted it between opening and locking.
                let identity = file.stat().map_err(refused)?.identity;
                if self.medium.stat(path).is_ok_and(|stat| stat.identity == identity) {
                    return Ok(Gate { file });
                }
            }
            if Instant::now() >= until {
                return Err(Trouble::Busy);
            }
            std::thread::sleep(LOCK_PAUSE);
        }
    }

    fn names(&self) -> Asked<Names> {
        let find = |ending| match self.medium.stat(&named(ending)) {
            Ok(stat) => Ok(Some(stat.identity)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(refused(error)),
        };
        Ok(Names { database: self.identity()?, log: find(LOG)?, memory: find(MEMORY)? })
    }

    /// Which file the database is, if there is one.
    pub(crate) fn identity(&self) -> Asked<Option<Identity>> {
        match self.medium.stat(Path::new(layout::INDEX)) {
            Ok(stat) if stat.kind == FileKind::File => Ok(Some(stat.identity)),
            Ok(_) => Err(Trouble::Refused(format!("`{}` is no plain file", self.path().display()))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(refused(error)),
        }
    }

    fn is_empty(&self) -> Asked<bool> {
        Ok(self.medium.stat(Path::new(layout::INDEX)).map_err(refused)?.len == 0)
    }

    fn remove(&self, ending: &str) -> Asked<()> {
        match self.medium.remove(&named(ending)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(refused(error)),
            _ => Ok(()),
        }
    }

    /// Puts a database that is of no use out of the way; one older remnant at most is kept.
    pub fn set_aside(&self) -> Asked<PathBuf> {
        self.close();
        let mut gate = self.enter(Company::Nobody, Instant::now() + WAIT)?;
        self.move_aside(&mut gate)
    }

    /// The same, unless someone else did so with the one that was found to be of no use.
    pub(crate) fn replace(&self, found: Option<Identity>) -> Asked<()> {
        self.close();
        let mut gate = self.enter(Company::Nobody, Instant::now() + WAIT)?;
        if found.is_some() && self.identity()? != found {
            return Ok(());
        }
        self.move_aside(&mut gate).map(drop)
    }

    fn move_aside(&self, gate: &mut Gate) -> Asked<PathBuf> {
        for (name, kind) in self.medium.list(Path::new("")).map_err(refused)? {
            if kind == FileKind::File && layout::is_index_remnant(&name) {
                self.medium.remove(Path::new(&name)).map_err(refused)?;
            }
        }
        let to = layout::index_remnant(self.source.now_ms());
        // What is in memory says nothing without those who had it, and an empty log nothing at all.
        self.remove(MEMORY)?;
        if self.medium.stat(&named(LOG)).is_ok_and(|stat| stat.len == 0) {
            self.remove(LOG)?;
        }
        for ending in ENDINGS {
            match self.medium.rename(&named(ending), &PathBuf::from(format!("{to}{ending}"))) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(refused(error)),
                _ => {}
            }
        }
        gate.set(&Seal::Unknown)?;
        Ok(self.medium.root().join(to))
    }

    fn close(&self) {
        match self.leave() {
            // The log stays where it is, and the next one reads it.
            Ok(()) | Err(_) => {}
        }
    }

    /// Closes what is open. The last one out takes over what is in the log and removes it, if nobody is at work just now.
    fn leave(&self) -> Asked<()> {
        *lock(&self.reader) = None;
        let Some(open) = lock(&self.writer).take() else { return Ok(()) };
        let mut gate = self.enter(Company::Nobody, Instant::now())?;
        if self.names()? != open.names.0 {
            return Ok(());
        }
        open.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
        let (Some(database), Some(log)) = (open.names.0.database, open.names.0.log) else { return Ok(()) };
        // Whoever is killed from here on leaves two files of three, or one.
        gate.set(&Seal::Closing(database, log))?;
        drop(open);
        match self.names()?.log {
            None => gate.set(&Seal::Clean),
            // Others have it open.
            Some(_) => gate.set(&Seal::Together(database, log)),
        }
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        self.close();
    }
}

fn named(ending: &str) -> PathBuf {
    PathBuf::from(format!("{}{ending}", layout::INDEX))
}

fn is_read_only(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied)
}

#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` hands on")]
fn refused(error: io::Error) -> Trouble {
    Trouble::Refused(error.to_string())
}

fn replaced() -> Trouble {
    Trouble::Unusable("its log or its memory was replaced while someone used it".to_owned())
}
