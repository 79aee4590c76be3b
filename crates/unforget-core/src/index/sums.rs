//! What all sessions took together, added up before anyone asks: by day and by hour, agent and model.
//!
//! A day's sums are made from its lines in `spent` when they are first wanted, and kept. Whatever changes what counts (a line, a session
//! that goes to the trash, is missing or comes back) takes the days that it touches out of the sums again: triggers do it, so that no
//! writer can forget to. Sums are made anew and never subtracted from: the numbers come from anywhere, and addition saturates.
//!
//! Must not know prices, time zones or periods. Days are those of UTC; whoever has others asks for the hours of the days that
//! their own cut in two. The failure to guard against is a sum that is old: a day that is in `unsummed` is added up
//! from its lines by every reader, whether or not the sums can be written.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use rusqlite::Connection;

use super::spent::{parse, written};
use super::{Asked, Index, Trouble, row};
use crate::layout::AgentDir;
use crate::reader::LogReader;
use crate::usage::{Ledger, Line, Sum};

/// The tables. Their triggers say `(hour - ((hour % 24) + 24) % 24) / 24` for the day of an hour, which may be before 1970, and ask
/// whether a day is there: `OR IGNORE` in a trigger gives way to what the statement says that sets it off.
pub(super) const TABLES: &str = "
CREATE TABLE sums (
    hours INTEGER NOT NULL,     -- 24: of a day, 1: of an hour
    hour INTEGER NOT NULL,      -- the first of them, since the epoch
    dir TEXT NOT NULL, model TEXT NOT NULL, line TEXT NOT NULL,
    PRIMARY KEY (hours, hour, dir, model)
) WITHOUT ROWID;
-- Days whose sums are not there, or are no longer true.
CREATE TABLE unsummed (day INTEGER PRIMARY KEY);
CREATE TRIGGER spent_came AFTER INSERT ON spent BEGIN
    INSERT INTO unsummed SELECT (NEW.hour - ((NEW.hour % 24) + 24) % 24) / 24 WHERE (NEW.hour - ((NEW.hour % 24) + 24) % 24) / 24 NOT IN unsummed;
END;
CREATE TRIGGER spent_went AFTER DELETE ON spent BEGIN
    INSERT INTO unsummed SELECT (OLD.hour - ((OLD.hour % 24) + 24) % 24) / 24 WHERE (OLD.hour - ((OLD.hour % 24) + 24) % 24) / 24 NOT IN unsummed;
END;
-- A session in the trash counts unless it is among the others as well, so each may matter to its double.
CREATE TRIGGER session_came AFTER INSERT ON sessions BEGIN
    INSERT INTO unsummed SELECT DISTINCT (hour - ((hour % 24) + 24) % 24) / 24 AS day FROM spent
        WHERE session IN (SELECT number FROM sessions WHERE id = NEW.id AND dir = NEW.dir) AND day NOT IN unsummed;
END;
CREATE TRIGGER session_went AFTER DELETE ON sessions BEGIN
    INSERT INTO unsummed SELECT DISTINCT (hour - ((hour % 24) + 24) % 24) / 24 AS day FROM spent
        WHERE session IN (SELECT number FROM sessions WHERE id = OLD.id AND dir = OLD.dir) AND day NOT IN unsummed;
END;
CREATE TRIGGER session_changed AFTER UPDATE OF place, state ON sessions
WHEN OLD.place != NEW.place OR OLD.state != NEW.state BEGIN
    INSERT INTO unsummed SELECT DISTINCT (hour - ((hour % 24) + 24) % 24) / 24 AS day FROM spent
        WHERE session IN (SELECT number FROM sessions WHERE id = NEW.id AND dir = NEW.dir) AND day NOT IN unsummed;
END;
";

const DAY: i64 = 24;
/// How many days are added up in one transaction.
const PORTION: usize = 64;

/// The sums of one day by their first hour, directory and model.
type Sums = BTreeMap<(i64, String, String), Line>;

impl Index {
    /// Hands what was taken in some hours to `visit`: a day of UTC at a time where `is_one` says that its hours belong together, else an hour at a time.
    pub(crate) fn sums(
        &self,
        hours: &Range<i64>,
        is_one: &dyn Fn(i64) -> bool,
        visit: &mut dyn FnMut(Sum<'_>),
    ) -> Asked<()> {
        match self.sum_up() {
            // Whoever cannot keep sums makes them.
            Ok(()) | Err(Trouble::Absent | Trouble::Busy | Trouble::Refused(_)) => {}
            Err(other) => return Err(other),
        }
        // All of it is of one moment, or a day could be missed or counted twice.
        self.read(|connection| read(connection, hours, is_one, visit))
    }

    /// Adds up the days that changed.
    pub fn sum_up(&self) -> Asked<()> {
        let days: Vec<i64> = self.read(unsummed)?.into_iter().collect();
        for portion in days.chunks(PORTION) {
            self.write(|connection| portion.iter().try_for_each(|day| keep(connection, *day)))?;
        }
        Ok(())
    }

    /// What the last lines take that are not among what was added up, because they may still grow.
    pub(crate) fn unfinished_lines(&self, indexed: &row::Indexed, reader: &LogReader) -> Asked<Ledger> {
        let folded = self.read(|connection| row::folded(connection, indexed.number))?;
        match folded.filter(|folded| reader.identity() == indexed.identity && folded.scanned <= reader.len()) {
            Some(folded) => Ok(folded.rest(reader)?),
            None => Ok(Ledger::default()),
        }
    }
}

fn unsummed(connection: &Connection) -> Asked<BTreeSet<i64>> {
    let mut statement = connection.prepare_cached("SELECT day FROM unsummed")?;
    Ok(statement.query_map((), |row| row.get(0))?.collect::<Result<_, _>>()?)
}

/// The hours of a day.
fn hours_of(day: i64) -> Range<i64> {
    let first = day.saturating_mul(DAY);
    first..first.saturating_add(DAY)
}

/// Writes the sums of a day down.
fn keep(connection: &Connection, day: i64) -> Asked<()> {
    let Range { start: from, end: until } = hours_of(day);
    let sql = "DELETE FROM sums WHERE hours IN (1, 24) AND hour >= ?1 AND hour < ?2";
    connection.prepare_cached(sql)?.execute((from, until))?;
    let sql = "INSERT INTO sums (hours, hour, dir, model, line) VALUES (?1, ?2, ?3, ?4, ?5)";
    let mut insert = connection.prepare_cached(sql)?;
    let by_hour = add_up(connection, from..until)?;
    for (hours, sums) in [(1, &by_hour), (DAY, &together(&by_hour, from))] {
        for ((hour, dir, model), line) in sums {
            insert.execute((hours, hour, dir, model, written(line)))?;
        }
    }
    connection.prepare_cached("DELETE FROM unsummed WHERE day = ?1")?.execute([day])?;
    Ok(())
}

/// The sums of some hours, from the lines of the sessions that count.
fn add_up(connection: &Connection, hours: Range<i64>) -> Asked<Sums> {
    let sql = "SELECT hour, dir, model, line FROM spent INDEXED BY spent_by_hour
        CROSS JOIN sessions AS one ON number = session
        WHERE hour >= ?1 AND hour < ?2 AND state != 'missing' AND (place = 0 OR NOT EXISTS (
            SELECT 1 FROM sessions WHERE place = 0 AND dir = one.dir AND id = one.id AND state != 'missing'))";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query((hours.start, hours.end))?;
    let mut sums = Sums::new();
    while let Some(row) = rows.next()? {
        let line: String = row.get(3)?;
        *sums.entry((row.get(0)?, row.get(1)?, row.get(2)?)).or_default() += parse(&line)?;
    }
    Ok(sums)
}

/// The sums of hours as those of their day.
fn together(by_hour: &Sums, first: i64) -> Sums {
    let mut day = Sums::new();
    for ((_, dir, model), line) in by_hour {
        *day.entry((first, dir.clone(), model.clone())).or_default() += *line;
    }
    day
}

fn read(
    connection: &Connection,
    hours: &Range<i64>,
    is_one: &dyn Fn(i64) -> bool,
    visit: &mut dyn FnMut(Sum<'_>),
) -> Asked<()> {
    let unsummed = unsummed(connection)?;
    let mut tell = |((hour, dir, model), line): ((i64, &str, &str), Line)| {
        if hours.contains(&hour) {
            visit(Sum { hour, dir: &AgentDir::found(dir), model, line });
        }
    };
    let whole = |day: i64| {
        let of_day = hours_of(day);
        hours.start <= of_day.start && of_day.end <= hours.end && is_one(day)
    };
    for day in &unsummed {
        let by_hour = add_up(connection, hours_of(*day))?;
        let sums = if whole(*day) { together(&by_hour, hours_of(*day).start) } else { by_hour };
        sums.iter().for_each(|((hour, dir, model), line)| tell(((*hour, dir, model), *line)));
    }
    // A day is read as a whole, however much of it is asked for.
    let (first, end) = (hours.start.div_euclid(DAY).saturating_mul(DAY), hours.end);
    let days = "SELECT hour, dir, model, line FROM sums WHERE hours = 24 AND hour >= ?1 AND hour < ?2 ORDER BY hour";
    let mut days = connection.prepare_cached(days)?;
    let of_day = "SELECT hour, dir, model, line FROM sums WHERE hours = 1 AND hour >= ?1 AND hour < ?2";
    let mut of_day = connection.prepare_cached(of_day)?;
    let mut rows = days.query((first, end))?;
    let mut cut = None;
    while let Some(row) = rows.next()? {
        let hour: i64 = row.get(0)?;
        let day = hour.div_euclid(DAY);
        if unsummed.contains(&day) || cut == Some(day) {
            continue;
        }
        if whole(day) {
            tell(told(row)?);
            continue;
        }
        cut = Some(day);
        let mut rows = of_day.query((hour, hours_of(day).end))?;
        while let Some(row) = rows.next()? {
            tell(told(row)?);
        }
    }
    Ok(())
}

fn told<'r>(row: &'r rusqlite::Row<'_>) -> Asked<((i64, &'r str, &'r str), Line)> {
    let text = |at| row.get_ref(at).and_then(|value| Ok(value.as_str()?));
    Ok(((row.get(0)?, text(1)?, text(2)?), parse(text(3)?)?))
}
