//! What every session took: from the index, or by reading all transcripts.

use std::ops::Range;
use std::path::Path;

use super::{Answer, Notes, Store};
use crate::directory::Entry;
use crate::error::Result;
use crate::index::{Asked, Depth, Index};
use crate::layout::AgentDir;
use crate::layout::Place;
use crate::reader::LogReader;
use crate::stamp::SessionId;
use crate::summary::State;
use crate::usage::{Ledger, Line, Sum};

use super::collect::{Facts, Reach, Unread, collect};

const HOUR_MS: i64 = 3_600_000;
/// How much earlier than asked a file may have been touched: clocks differ.
const MARGIN_MS: i64 = 24 * HOUR_MS;

impl Store {
    /// Hands the ledger of each session to `visit`. With a reach, lines from before it may be left out.
    pub fn spent(
        &self,
        reach: Reach,
        progress: &mut dyn FnMut(&Path, u64),
        visit: &mut dyn FnMut(Facts, Ledger),
    ) -> Result<Answer<Vec<Unread>>> {
        let mut notes = Notes::default();
        let since_hour = match reach {
            Reach::All => i64::MIN,
            Reach::TouchedSince(ms) => ms.div_euclid(HOUR_MS),
        };
        let (ledgers, unread) = self.ask(
            Depth::Changed,
            &mut notes,
            progress,
            |index, _| {
                // Handed on only when all are there: half an answer from here and a whole one from the files would be too much.
                let mut ledgers = Vec::new();
                let mut unread = Vec::new();
                let mut hand_on = |entry: Entry, ledger: Ledger| {
                    let Some(id) = SessionId::parse(&entry.row.id) else { return };
                    let trashed = entry.row.state == State::Deleted;
                    if entry.row.state == State::Missing || self.is_elsewhere(&entry) {
                        return;
                    }
                    let row = entry.row;
                    ledgers.push((
                        Facts { id, dir: entry.dir, key: row.key, label: row.label, title: row.title, trashed },
                        ledger,
                    ));
                };
                index.spent(since_hour, &mut hand_on)?;
                for entry in index.unfinished()?.into_iter().map(|indexed| indexed.entry) {
                    let path = self.directory.path(&entry)?;
                    match super::collect::read(&self.directory, &path) {
                        Ok((_, ledger)) => hand_on(entry, ledger),
                        Err(error) => unread.push((path, error.to_string())),
                    }
                }
                unread.extend(self.unreadable(index)?);
                Ok((ledgers, unread))
            },
            |progress, _| {
                let mut ledgers = Vec::new();
                let visit = |facts, ledger| ledgers.push((facts, ledger));
                let unread = collect(&self.directory, reach, |path| progress(path, 0), visit)?;
                Ok((ledgers, unread))
            },
        )?;
        ledgers.into_iter().for_each(|(facts, ledger)| visit(facts, ledger));
        Ok(Answer { value: unread, notes })
    }

    /// What one session of a list took; nothing if its transcript cannot be read.
    pub fn spent_by(&self, entry: &Entry) -> Ledger {
        let place = if entry.row.state == State::Deleted { Place::Trash } else { Place::Agents };
        // A list is not refused because of a cost: whatever is wrong with the index, the transcript is asked.
        if let Some(Ok(Some(ledger))) = self.index().map(|index| index.spent_by(place, entry)) {
            return ledger;
        }
        let read = self.directory.path(entry).and_then(|path| super::collect::read(&self.directory, &path));
        read.map(|(_, ledger)| ledger).unwrap_or_default()
    }

    /// Hands what all sessions took together in some hours (since the epoch) to `visit`, by agent and model: a day of UTC at a
    /// time where `is_one` says that its hours belong together, else an hour at a time, and the same hour more than once.
    pub fn sums(
        &self,
        hours: Range<i64>,
        is_one: &dyn Fn(i64) -> bool,
        progress: &mut dyn FnMut(&Path, u64),
        visit: &mut dyn FnMut(Sum<'_>),
    ) -> Result<Answer<Vec<Unread>>> {
        let mut notes = Notes::default();
        // Handed on only when all are there, as above.
        type Told = Vec<(i64, AgentDir, String, Line)>;
        let keep = |told: &mut Told, hour: i64, dir: &AgentDir, model: &str, line: Line| {
            if hours.contains(&hour) {
                told.push((hour, dir.clone(), model.to_owned(), line));
            }
        };
        let (told, unread) = self.ask(
            Depth::Changed,
            &mut notes,
            progress,
            |index, _| {
                let mut told = Vec::new();
                index.sums(&hours, is_one, &mut |sum| keep(&mut told, sum.hour, sum.dir, sum.model, sum.line))?;
                let mut unread = Vec::new();
                for indexed in index.unfinished()? {
                    let entry = &indexed.entry;
                    let path = self.directory.path(entry)?;
                    if self.is_elsewhere(entry) {
                        continue;
                    }
                    match LogReader::open(self.directory.medium().as_ref(), &path) {
                        Ok(reader) => {
                            let ledger = index.unfinished_lines(&indexed, &reader)?;
                            ledger
                                .lines()
                                .for_each(|(hour, model, line)| keep(&mut told, hour, &entry.dir, model, *line));
                        }
                        Err(error) => unread.push((path, error.to_string())),
                    }
                }
                unread.extend(self.unreadable(index)?);
                Ok((told, unread))
            },
            |progress, _| {
                let mut told = Vec::new();
                let reach = Reach::TouchedSince(hours.start.saturating_mul(HOUR_MS).saturating_sub(MARGIN_MS));
                let visit = |facts: Facts, ledger: Ledger| {
                    ledger.lines().for_each(|(hour, model, line)| keep(&mut told, hour, &facts.dir, model, *line));
                };
                let unread = collect(&self.directory, reach, |path| progress(path, 0), visit)?;
                Ok((told, unread))
            },
        )?;
        told.iter().for_each(|(hour, dir, model, line)| visit(Sum { hour: *hour, dir, model, line: *line }));
        Ok(Answer { value: unread, notes })
    }

    /// Whether a session in the trash came back by an import: it is counted where it is used.
    fn is_elsewhere(&self, entry: &Entry) -> bool {
        let id = SessionId::parse(&entry.row.id).filter(|_| entry.row.state == State::Deleted);
        id.is_some_and(|id| self.directory.medium().stat(&entry.dir.transcript(&id)).is_ok())
    }

    /// The sessions that could not be read, with the reason.
    fn unreadable(&self, index: &Index) -> Asked<Vec<Unread>> {
        let mut unread = Vec::new();
        for entry in index.unreadable()? {
            match (&entry.row.state, self.directory.path(&entry)) {
                (State::Unreadable(why), Ok(path)) => unread.push((path, why.clone())),
                // The trash does not remember why.
                (State::Deleted, Ok(path)) => {
                    unread.extend(
                        super::collect::read(&self.directory, &path).err().map(|error| (path, error.to_string())),
                    );
                }
                _ => {}
            }
        }
        Ok(unread)
    }
}
