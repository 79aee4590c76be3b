//! One session brought up to date: what is known of it, what its file says now, and back into the index.
//!
//! In three steps, so that no transaction is open while a file is read. If someone else brought the row up to date in between, their
//! work stands. Reading goes on where the last reader stopped, if the bytes before that place are still the same:
//! in a native transcript they hold a checksum over everything before them.

use std::io;
use std::path::PathBuf;

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use super::row::{self, Indexed};
use super::{Asked, Caught, Index, Place, Trouble, spent, text};
use crate::directory::{Entry, placed};
use crate::error::{Error, Result};
use crate::layout::AgentDir;
use crate::lines::Physical;
use crate::observer::Folds;
use crate::reader::LogReader;
use crate::scan::Scanner;
use crate::stamp::SessionId;
use crate::summary::{self, Fold, Row, State};
use crate::tree::Tree;
use crate::usage::{self, Ledger};

/// How many bytes before the place where reading goes on are compared.
const TAIL: u64 = 64;
/// How often a session is looked at anew because someone else was faster, or it was moved.
const ATTEMPTS: usize = 4;

/// What a fold knows, so that it can go on.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Carried {
    fold: Fold,
    scanner: Scanner,
    calls: usage::Carry,
}

impl Carried {
    /// The branches.
    pub(super) fn tree(&self) -> &Tree {
        self.fold.tree()
    }

    /// Takes the next line.
    fn feed(&mut self, line: &Physical<'_>, ledger: &mut Ledger) {
        self.scanner.feed(line, |record| {
            self.fold.feed(&record);
            ledger.feed(&record);
        });
    }
}

/// How far a file was folded.
#[derive(Debug, Clone, Default)]
pub(super) struct Folded {
    /// Up to which byte, always behind a line feed.
    pub(super) scanned: u64,
    /// The bytes before it.
    pub(super) tail: Vec<u8>,
    /// Damage met so far.
    pub(super) damage: u64,
    /// None of a short file, which is read again.
    pub(super) state: Option<Carried>,
}

impl Folded {
    /// What the lines behind the place where reading stopped took. Of a short transcript it is not kept what went before them, and
    /// that is read again.
    pub(super) fn rest(self, reader: &LogReader) -> Result<Ledger> {
        let from = if self.state.is_some() { self.scanned } else { 0 };
        let mut state = self.state.unwrap_or_default();
        let mut ledger = Ledger::after(std::mem::take(&mut state.calls));
        let mut is_behind = from == self.scanned;
        let mut forward = reader.forward(from);
        while let Some(line) = forward.next()? {
            if !is_behind && line.offset >= self.scanned {
                ledger = Ledger::after(ledger.carry().clone());
                is_behind = true;
            }
            state.scanner.feed(&line, |record| ledger.feed(&record));
        }
        Ok(if is_behind { ledger } else { Ledger::default() })
    }
}

/// A session that is to be looked at, and what the index knows of it.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) place: Place,
    pub(super) dir: AgentDir,
    pub(super) id: SessionId,
    known: Option<Indexed>,
    folded: Option<Folded>,
}

/// What was read of a file, and what it adds to what was known.
#[derive(Debug, Default)]
pub(super) struct Fresh {
    folded: Folded,
    /// What the part that was read took.
    ledger: Ledger,
    /// Whether it was read from the beginning.
    is_whole: bool,
    /// Whether it begins with what was there before.
    is_longer: bool,
}

/// What became of a session's file.
#[derive(Debug)]
pub(super) enum Looked {
    /// It is there.
    There { entry: Box<Entry>, identity: (u64, u64), fresh: Option<Box<Fresh>> },
    /// It is not.
    Gone,
    /// A move that a crash cut short left both names of one file: the session is not deleted.
    Doubled,
}

impl Task {
    fn path(&self) -> PathBuf {
        self.place.transcript(&self.dir, &self.id)
    }

    fn other(&self) -> Place {
        match self.place {
            Place::Agents => Place::Trash,
            Place::Trash => Place::Agents,
        }
    }
}

/// What came of writing down what was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Applied {
    /// The index says it.
    Yes,
    /// Someone else wrote something meanwhile.
    Overtaken,
    /// Its file is in the other place, which is to be looked at.
    Moved,
}

impl Index {
    /// Looks at one session.
    pub(super) fn look(&self, place: Place, dir: &AgentDir, id: &SessionId, caught: &mut Caught) -> Asked<()> {
        self.look_and(place, dir, id, caught, |_| Ok(()))
    }

    /// Looks at one session, and does something else in the transaction that says what was found.
    ///
    /// If others are always faster, nothing else is done: their look was not this one.
    pub(super) fn look_and(
        &self,
        place: Place,
        dir: &AgentDir,
        id: &SessionId,
        caught: &mut Caught,
        then: impl Fn(&Connection) -> Asked<()>,
    ) -> Asked<()> {
        let mut place = place;
        let mut left: Option<Task> = None;
        for _ in 0..ATTEMPTS {
            let task = match self.read(|connection| self.gather(connection, place, dir, id)) {
                Err(Trouble::Absent) => {
                    self.write(|_| Ok(()))?;
                    continue;
                }
                other => other?,
            };
            let looked = self.read_file(&task)?;
            let applied = self.write(|connection| {
                let applied = self.apply(connection, &task, looked, caught)?;
                if applied == Applied::Yes {
                    left.iter().try_for_each(|left| self.forget_left(connection, left))?;
                    then(connection)?;
                }
                Ok(applied)
            })?;
            match applied {
                Applied::Yes => return Ok(()),
                Applied::Overtaken => {}
                Applied::Moved => {
                    place = task.other();
                    left = Some(task);
                }
            }
        }
        Ok(())
    }

    /// Forgets the row of a session that is in the other place now, if it did not go along: the other place had one
    /// already, because it was deleted, imported, and deleted again.
    fn forget_left(&self, connection: &Connection, task: &Task) -> Asked<()> {
        let left = row::find(connection, task.place, &task.dir, task.id.as_str())?;
        let is_same = left.is_some_and(|left| task.known.as_ref().is_some_and(|known| known.number == left.number));
        match is_same && self.medium.stat(&task.path()).is_err() {
            true => self.forget(connection, task),
            false => Ok(()),
        }
    }

    /// What the index knows of a session that is to be looked at.
    pub(super) fn gather(&self, connection: &Connection, place: Place, dir: &AgentDir, id: &SessionId) -> Asked<Task> {
        let mut task = Task { place, dir: dir.clone(), id: id.clone(), known: None, folded: None };
        task.known = row::find(connection, place, dir, id.as_str())?;
        if task.known.is_none() {
            // It may have come from the other place, and everything that is known of it with it.
            let other = task.other();
            let is_gone = self.medium.stat(&other.transcript(dir, id)).is_err();
            task.known = row::find(connection, other, dir, id.as_str())?.filter(|_| is_gone);
        }
        if let Some(known) = &task.known {
            task.folded = row::folded(connection, known.number)?;
        }
        Ok(task)
    }

    /// What is known of a transcript, if it begins with what was folded.
    pub(super) fn known_folds(&self, dir: &AgentDir, id: &SessionId, reader: &LogReader) -> Asked<Option<Folds>> {
        let task = self.read(|connection| self.gather(connection, Place::Agents, dir, id))?;
        let folds = task.continued(reader)?.and_then(|folded| {
            let Carried { fold, scanner, .. } = folded.state?;
            Some(Folds { scanner, fold, scanned: folded.scanned, damage: folded.damage })
        });
        Ok(folds)
    }

    /// What the file of a session says now.
    pub(super) fn read_file(&self, task: &Task) -> Result<Looked> {
        let path = task.path();
        let reader = match LogReader::open(self.medium.as_ref(), &path) {
            Err(error) if error.is_io(io::ErrorKind::NotFound) => return Ok(Looked::Gone),
            other => other,
        };
        if task.place == Place::Trash
            && let Ok(reader) = &reader
            && self.medium.stat(&task.dir.transcript(&task.id)).is_ok_and(|stat| stat.identity == reader.identity())
        {
            return Ok(Looked::Doubled);
        }
        match reader.and_then(|reader| Ok((task.fold(&reader)?, reader.identity()))) {
            Ok(((row, folded), identity)) => {
                let entry = Entry { row: task.finish(row), dir: task.dir.clone() };
                Ok(Looked::There { entry: Box::new(entry), identity, fresh: Some(Box::new(folded)) })
            }
            Err(error) => Ok(self.cannot_read(task, &error)),
        }
    }

    fn cannot_read(&self, task: &Task, error: &Error) -> Looked {
        let mut row = summary::unreadable(task.id.as_str(), error);
        let mut identity = (0, 0);
        if let Ok(stat) = self.medium.stat(&task.path()) {
            (row.bytes, row.modified_ns, identity) = (stat.len, stat.modified_ns, stat.identity);
        }
        // What cannot be read now still is the session that it was. Of the trash, nobody but its files tells what is in it.
        let row = match &task.known {
            Some(known) if task.place == Place::Agents => {
                Row { state: row.state, bytes: row.bytes, modified_ns: row.modified_ns, ..known.entry.row.clone() }
            }
            _ => row,
        };
        let entry = Box::new(Entry { row: task.finish(row), dir: task.dir.clone() });
        Looked::There { entry, identity, fresh: None }
    }

    /// Writes down what was found, unless someone else did meanwhile.
    pub(super) fn apply(
        &self,
        connection: &Connection,
        task: &Task,
        looked: Looked,
        caught: &mut Caught,
    ) -> Asked<Applied> {
        let now = match &task.known {
            Some(known) => row::find(connection, known.place, &task.dir, task.id.as_str())?,
            None => row::find(connection, task.place, &task.dir, task.id.as_str())?,
        };
        if now != task.known {
            return Ok(Applied::Overtaken);
        }
        match looked {
            Looked::There { entry, identity, fresh } => {
                let is_ok = entry.row.state == State::Ok;
                if let Some(known) = &task.known {
                    let (before, records) = (known.entry.row.records, entry.row.records);
                    if before > records && is_ok && known.entry.row.state != State::Missing {
                        caught.shortened.push((task.path(), before, records));
                    }
                    if known.place != task.place {
                        let sql = "UPDATE sessions SET place = ?1 WHERE number = ?2";
                        connection.execute(sql, (task.place.number(), known.number))?;
                    }
                }
                let number =
                    row::put(connection, task.place, &entry, identity, fresh.as_deref().map(|fresh| &fresh.folded))?;
                // What cannot be read, or has changed in the middle, is heard and counted anew.
                if fresh.as_ref().is_none_or(|fresh| !fresh.is_longer) {
                    text::forget(connection, number)?;
                }
                if fresh.as_ref().is_none_or(|fresh| fresh.is_whole) {
                    spent::forget(connection, number)?;
                }
                if let Some(fresh) = fresh {
                    spent::add(connection, number, &fresh.ledger)?;
                }
            }
            Looked::Doubled => self.forget(connection, task)?,
            Looked::Gone => {
                let moved = self.medium.stat(&task.other().transcript(&task.dir, &task.id)).is_ok();
                match (&task.known, task.place) {
                    (None, _) => {}
                    // Its row goes along when the other place is looked at.
                    (Some(_), _) if moved => return Ok(Applied::Moved),
                    (Some(_), Place::Trash) => self.forget(connection, task)?,
                    (Some(known), Place::Agents) => {
                        let row = Row { state: State::Missing, ..known.entry.row.clone() };
                        let entry = Entry { row, dir: task.dir.clone() };
                        row::put(connection, Place::Agents, &entry, (0, 0), None)?;
                    }
                }
            }
        }
        Ok(Applied::Yes)
    }

    fn forget(&self, connection: &Connection, task: &Task) -> Asked<()> {
        if let Some(known) = &task.known {
            text::forget(connection, known.number)?;
            connection.execute("DELETE FROM sessions WHERE number = ?1", [known.number])?;
        }
        Ok(())
    }
}

impl Task {
    /// The row of the file and how far it was folded, going on from where that was known.
    fn fold(&self, reader: &LogReader) -> Result<(Row, Fresh)> {
        let continued = self.continued(reader)?;
        let is_longer = continued.is_some();
        let known = continued.and_then(|mut folded| Some((folded.state.take()?, folded)));
        let is_whole = known.is_none();
        let (mut state, mut folded) = known.unwrap_or_default();
        let mut ledger = Ledger::after(state.calls.clone());
        let mut forward = reader.forward(folded.scanned);
        let mut torn = None;
        while let Some(line) = forward.next()? {
            // A line without its line feed may still grow: it counts in the row, and is read again next time.
            if line.terminated {
                state.feed(&line, &mut ledger);
                folded.scanned = line.offset + line.len + 1;
            } else {
                torn.insert(state.clone()).feed(&line, &mut Ledger::default());
            }
        }
        let before = folded.damage;
        folded.damage += state.scanner.report.damage_count();
        let damage = torn.as_ref().map_or(folded.damage, |torn| before + torn.scanner.report.damage_count());
        let fold = torn.map_or_else(|| state.fold.clone(), |torn| torn.fold);
        let row = fold.finish(self.id.as_str(), reader.len(), reader.modified_ns(), damage);
        state.scanner.report = crate::report::Report::default();
        state.calls = ledger.carry().clone();
        folded.state = Some(state);
        let tail = folded.scanned.min(TAIL);
        folded.tail = reader.bytes(folded.scanned - tail, usize::try_from(tail).unwrap_or(0))?;
        Ok((row, Fresh { folded, ledger, is_whole, is_longer }))
    }

    /// Where reading can go on, if the file begins with what was folded.
    fn continued(&self, reader: &LogReader) -> Result<Option<Folded>> {
        let Some((known, folded)) = self.known.as_ref().zip(self.folded.as_ref()) else { return Ok(None) };
        if known.identity != reader.identity() || reader.len() < folded.scanned {
            return Ok(None);
        }
        // An append makes a file longer. One that was written and is as long as before was changed anywhere.
        let row = &known.entry.row;
        if reader.len() == row.bytes && reader.modified_ns() != row.modified_ns {
            return Ok(None);
        }
        let from = folded.scanned.saturating_sub(folded.tail.len() as u64);
        let is_same = reader.bytes(from, folded.tail.len())? == folded.tail;
        Ok(is_same.then(|| folded.clone()))
    }

    /// The row as a list says it: by where the file is, and with what is known from before.
    fn finish(&self, row: Row) -> Row {
        if self.place == Place::Trash {
            return Row { state: State::Deleted, ..row };
        }
        match &self.known {
            // A header that was damaged since does not make the session forget whose it is.
            Some(known) if row.state == State::Ok && row.key.is_none() => {
                let known = known.entry.row.clone();
                placed(Row { key: known.key, label: known.label, origin: known.origin, ..row }, &self.dir)
            }
            _ => placed(row, &self.dir),
        }
    }
}
