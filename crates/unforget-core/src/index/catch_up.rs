//! Finds what changed since the index was last written, and looks at that alone.
//!
//! Sessions that came, went or were moved are told by the modification time of their directory; it is believed only if it was old
//! enough when it was read, because a directory can change twice within the clock's resolution. Sessions that are or
//! were being written have a mark. After a rebuild nobody's marks are there, so locks are looked at, too.
//!
//! Reading is done outside of transactions, in portions: a rebuild that is interrupted goes on where it stopped. One thread reads
//! while the other writes; a portion that waits is all that is in memory besides.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use rusqlite::{Connection, OptionalExtension as _};

use super::look::Applied;
use super::{Asked, Index, Place, Trouble, row, schema};
use crate::directory::{Directory, Entry};
use crate::layout::{self, AgentDir};
use crate::medium::{Access, Stat};
use crate::snapshot;
use crate::stamp::SessionId;
use crate::summary::{Row, State};

mod portions;

use portions::{PORTION_SESSIONS, Portions, Read};

/// A directory's time is believed if it was older than this when it was read, in nanoseconds: some file systems count in seconds.
const SETTLED: i64 = 2_000_000_000;
/// How many portions wait to be written down while the next one is read.
const READ_AHEAD: usize = 1;
/// How many sessions, the newest ones, are asked for their lock although the system tells who has which: not in another
/// container, and not on every file system.
const TRIED: usize = 4096;
/// The mark of a session that had a writer when nothing was known of it.
const FOUND_LIVE: &str = "found-live";

/// What was met while the index was brought up to date.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Caught {
    /// Transcripts of which the index remembers more records, with both counts.
    pub shortened: Vec<(PathBuf, u64, u64)>,
    /// Folders that could not be looked into, with the reason.
    pub unreadable: Vec<(PathBuf, String)>,
}

/// How much is compared with the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// What may have changed.
    Changed,
    /// Every session.
    Everything,
}

/// What is to be done.
#[derive(Debug, Default)]
struct Work {
    folders: Vec<Folder>,
    sessions: Vec<(Place, AgentDir, SessionId)>,
    marks: Vec<(AgentDir, SessionId, String)>,
}

/// A directory that may have changed.
#[derive(Debug)]
struct Folder {
    place: Place,
    dir: AgentDir,
    /// Its time before its names are read.
    stamp: Option<i64>,
    /// Whether someone may have changed it without a mark.
    is_distrusted: bool,
    /// Whether the index has never seen it.
    is_new: bool,
}

impl Index {
    /// Brings the index up to date; `progress` hears of each transcript that is read, and of its length.
    pub fn catch_up(&self, store: &Directory, depth: Depth, progress: &mut dyn FnMut(&Path, u64)) -> Asked<Caught> {
        let mut caught = Caught::default();
        self.take_in_distrust()?;
        let work = match self.read(|connection| self.work(connection, store, depth)) {
            Err(Trouble::Absent) => {
                let is_empty = Place::ALL.iter().all(|place| self.medium.stat(place.top()).is_err());
                if is_empty {
                    return Ok(caught);
                }
                self.write(|_| Ok(()))?;
                self.read(|connection| self.work(connection, store, depth))?
            }
            other => other?,
        };
        for folder in &work.folders {
            self.folder(store, folder, &mut caught, progress)?;
        }
        self.look_at(work.sessions, &mut caught, progress)?;
        self.marks(work.marks, &mut caught)?;
        Ok(caught)
    }

    /// A writer could not leave its mark: every row is to be compared.
    fn take_in_distrust(&self) -> Asked<()> {
        let path = Path::new(layout::DISTRUST);
        if self.medium.stat(path).is_err() {
            return Ok(());
        }
        self.write(|connection| Ok(connection.execute("UPDATE dirs SET stamp = NULL", ())?))?;
        match self.medium.remove(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Trouble::Refused(error.to_string())),
            _ => Ok(()),
        }
    }

    fn work(&self, connection: &Connection, store: &Directory, depth: Depth) -> Asked<Work> {
        let mut work = Work::default();
        for place in Place::ALL {
            let mut dirs: BTreeSet<AgentDir> = store.agents(place.top())?.into_iter().collect();
            let mut statement = connection.prepare_cached("SELECT dir FROM dirs WHERE place = ?1")?;
            let known = statement.query_map([place.number()], |row| row.get::<_, String>(0))?;
            for dir in known {
                dirs.insert(AgentDir::found(&dir?));
            }
            for dir in dirs {
                work.folders.extend(self.changed(connection, place, dir, depth)?);
            }
        }
        let unsure = "SELECT place, dir, id FROM sessions INDEXED BY unsure WHERE state = 'unreadable'";
        let unread = "SELECT place, dir, id FROM sessions INDEXED BY unread WHERE state = 'unread'";
        for sql in [unsure, unread] {
            let mut statement = connection.prepare_cached(sql)?;
            let mut rows = statement.query(())?;
            while let Some(row) = rows.next()? {
                let (place, dir, id): (i64, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
                work.sessions.extend(SessionId::parse(&id).map(|id| (Place::of(place), AgentDir::found(&dir), id)));
            }
        }
        let mut statement = connection.prepare_cached("SELECT dir, id, token FROM dirty")?;
        let mut rows = statement.query(())?;
        while let Some(row) = rows.next()? {
            let (dir, id, token): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
            work.marks.extend(SessionId::parse(&id).map(|id| (AgentDir::found(&dir), id, token)));
        }
        Ok(work)
    }

    /// The directory, if something may have come, gone or moved since it was last read.
    fn changed(&self, connection: &Connection, place: Place, dir: AgentDir, depth: Depth) -> Asked<Option<Folder>> {
        let stamp = self.stat_folder(place, &dir)?;
        let sql = "SELECT stamp, seen_ms FROM dirs WHERE place = ?1 AND dir = ?2";
        let known = connection
            .prepare_cached(sql)?
            .query_row((place.number(), dir.as_str()), |row| Ok((row.get::<_, Option<i64>>(0)?, row.get::<_, i64>(1)?)))
            .optional()?;
        Ok(match (known, stamp) {
            (None, None) => None,
            (Some((Some(then), seen_ms)), Some(now))
                if depth == Depth::Changed && then == now && is_believed(then, seen_ms) =>
            {
                None
            }
            (known, stamp) => {
                let is_distrusted = depth == Depth::Everything || known.is_some_and(|(then, _)| then.is_none());
                Some(Folder { place, dir, stamp, is_distrusted, is_new: known.is_none() })
            }
        })
    }

    /// Compares a directory's names with the index's, and looks at the difference.
    fn folder(
        &self,
        store: &Directory,
        folder: &Folder,
        caught: &mut Caught,
        progress: &mut dyn FnMut(&Path, u64),
    ) -> Asked<()> {
        let (place, dir) = (folder.place, &folder.dir);
        let path = place.folder(dir);
        let seen_ms = self.source.now_ms();
        // Asked first: what is compared below may be of a newer database, never of an older one.
        let birth = self.read(schema::birth)?;
        let compared = match folder.is_new || folder.is_distrusted {
            true => store.names(&path).map_err(Trouble::from).and_then(|found| {
                // Whoever writes already may have no mark here, and goes on after the look that comes now.
                let live = if place == Place::Agents { self.live(dir, &found) } else { Vec::new() };
                Ok((self.differing_files(found, place, dir)?, live))
            }),
            false => self.differing_names(store, place, dir).map(|differing| (differing, Vec::new())),
        };
        let (differing, live) = match compared {
            Err(Trouble::Store(error)) if error.is_io(io::ErrorKind::NotADirectory) => {
                caught.unreadable.push((path, error.to_string()));
                return Ok(());
            }
            other => other?,
        };
        let mut look: Vec<_> = differing.into_iter().map(|id| (place, dir.clone(), id)).collect();
        // Newest first: ids begin with their time.
        look.sort_by(|a, b| b.2.cmp(&a.2));
        if folder.is_new && place == Place::Agents {
            self.remember_missing(dir, &look)?;
        }
        self.look_at(look, caught, progress)?;
        self.write(|connection| {
            // Another index that took the place of this one does not know these names.
            if schema::birth(connection)? != birth {
                return Err(Trouble::Busy);
            }
            for id in &live {
                let sql = "INSERT OR IGNORE INTO dirty (dir, id, token) VALUES (?1, ?2, ?3)";
                connection.execute(sql, (dir.as_str(), id.as_str(), FOUND_LIVE))?;
            }
            let sql = "INSERT INTO dirs (place, dir, stamp, seen_ms, changed) VALUES (?1, ?2, ?3, ?4, 1)
                ON CONFLICT (place, dir) DO UPDATE SET stamp = ?3, seen_ms = ?4, changed = 1";
            match folder.stamp {
                Some(stamp) => connection.execute(sql, (place.number(), dir.as_str(), stamp, seen_ms))?,
                None => connection
                    .execute("DELETE FROM dirs WHERE place = ?1 AND dir = ?2", (place.number(), dir.as_str()))?,
            };
            Ok(())
        })
    }

    /// The sessions of a directory that someone is writing: those that the system tells of, and of the others the
    /// newest, whose locks are tried. Where the system tells nothing, all are tried.
    fn live(&self, dir: &AgentDir, found: &[(SessionId, Stat)]) -> Vec<SessionId> {
        let holders = self.medium.lock_holders();
        let tried = if holders.is_some() { TRIED } else { usize::MAX };
        let holders = holders.unwrap_or_default();
        let (mut live, mut others): (Vec<_>, Vec<_>) =
            found.iter().partition(|(_, stat)| holders.contains_key(&stat.identity));
        others.sort_by_key(|(_, stat)| std::cmp::Reverse(stat.modified_ns));
        let is_held = |path: &Path| {
            matches!(self.medium.open(path, Access::Read).and_then(|file| file.try_lock_shared()), Ok(false))
        };
        live.extend(others.into_iter().take(tried).filter(|(id, _)| is_held(&dir.transcript(id))));
        live.into_iter().map(|(id, _)| id.clone()).collect()
    }

    /// A new index knows of sessions whose file is gone what `sessions.json` says.
    fn remember_missing(&self, dir: &AgentDir, there: &[(Place, AgentDir, SessionId)]) -> Asked<()> {
        let snapshot::Found::Rows(rows) = snapshot::read(self.medium.as_ref(), &dir.snapshot()) else { return Ok(()) };
        let there: BTreeSet<&str> = there.iter().map(|(_, _, id)| id.as_str()).collect();
        self.write(|connection| {
            for row in rows {
                let Some(id) = SessionId::parse(&row.id) else { continue };
                let is_trashed = self.medium.stat(&dir.trashed(&id)).is_ok();
                if is_trashed || row::find(connection, Place::Agents, dir, id.as_str())?.is_some() {
                    continue;
                }
                // Of a file that is there, the row only helps if its header cannot be read.
                let state = if there.contains(id.as_str()) { row.state.clone() } else { State::Missing };
                let row = Row { state, modified_ns: 0, ..row };
                row::put(connection, Place::Agents, &Entry { row, dir: dir.clone() }, (0, 0), None)?;
            }
            Ok(())
        })
    }

    /// Looks at sessions, in portions; if there are many, the next one is read while one is written down.
    fn look_at(
        &self,
        sessions: Vec<(Place, AgentDir, SessionId)>,
        caught: &mut Caught,
        progress: &mut dyn FnMut(&Path, u64),
    ) -> Asked<()> {
        let are_many = sessions.len() > PORTION_SESSIONS;
        let mut portions = Portions::new(self, sessions);
        let mut write_down = |portion: Asked<Vec<Read>>| {
            let portion = portion?;
            for Read { task, len, .. } in &portion {
                progress(&task.place.transcript(&task.dir, &task.id), *len);
            }
            let moved = self.write(|connection| {
                let mut moved = Vec::new();
                for Read { task, looked, .. } in portion {
                    if self.apply(connection, &task, looked, caught)? == Applied::Moved {
                        moved.push(task);
                    }
                }
                Ok(moved)
            })?;
            // Rare, and a matter of two places: one at a time.
            moved.iter().try_for_each(|task| self.look(task.place, &task.dir, &task.id, caught))
        };
        if !are_many {
            return portions.try_for_each(write_down);
        }
        std::thread::scope(|scope| {
            let (send, receive) = mpsc::sync_channel(READ_AHEAD);
            // Whoever writes down may have given up, and then nobody takes the next one.
            scope.spawn(move || portions.try_for_each(|portion| send.send(portion).ok()));
            receive.into_iter().try_for_each(&mut write_down)
        })
    }

    /// Looks at sessions that were being written, and takes the mark from those that are no more.
    fn marks(&self, marks: Vec<(AgentDir, SessionId, String)>, caught: &mut Caught) -> Asked<()> {
        if marks.is_empty() {
            return Ok(());
        }
        let holders = self.medium.lock_holders();
        let stale = |(dir, id, token): &(AgentDir, SessionId, String)| -> Asked<Option<bool>> {
            let stat = self.medium.stat(&dir.transcript(id)).ok();
            let is_live = match (&holders, &stat) {
                (Some(holders), Some(stat)) if holders.contains_key(&stat.identity) => true,
                (_, Some(_)) => self.is_locked(&dir.transcript(id)),
                (_, None) => false,
            };
            let known = self.read(|connection| row::find(connection, Place::Agents, dir, id.as_str()))?;
            let is_current = match (known, stat) {
                (Some(known), Some(stat)) => {
                    let row = &known.entry.row;
                    row.bytes == stat.len && row.modified_ns == stat.modified_ns && known.identity == stat.identity
                }
                _ => false,
            };
            debug_assert!(!token.is_empty());
            Ok(if is_live && is_current { None } else { Some(is_live) })
        };
        for mark in &marks {
            let Some(is_live) = stale(mark)? else { continue };
            let (dir, id, token) = mark;
            self.look_and(Place::Agents, dir, id, caught, |connection| {
                if !is_live {
                    let sql = "DELETE FROM dirty WHERE dir = ?1 AND id = ?2 AND token = ?3";
                    connection.execute(sql, (dir.as_str(), id.as_str(), token))?;
                }
                Ok(())
            })?;
        }
        Ok(())
    }
}

impl Index {
    /// Whether someone holds a transcript's lock. Not every system tells who does: a process in another container is
    /// not listed, and some file systems are listed by another number. A mark that is taken too early is lost, so the lock itself is asked.
    fn is_locked(&self, path: &Path) -> bool {
        !matches!(self.medium.open(path, Access::Read).and_then(|file| file.try_lock_shared()), Ok(true))
    }
}

/// Whether a directory's time was old enough when it was read.
pub(super) fn is_believed(then: i64, seen_ms: i64) -> bool {
    seen_ms.saturating_mul(1_000_000).saturating_sub(then) > SETTLED
}
