//! What each session took, by hour and model: the lines of [`crate::usage::Ledger`], kept and added to. `sums` adds them up.

use rusqlite::{Connection, OptionalExtension as _};

use super::row::{self, COLUMNS, Indexed};
use super::{Asked, Index, Place, Trouble};
use crate::directory::Entry;
use crate::usage::{Ledger, Line, Tokens};

/// The table.
pub(super) const TABLES: &str = "
CREATE TABLE spent (
    session INTEGER NOT NULL REFERENCES sessions (number) ON DELETE CASCADE,
    hour INTEGER NOT NULL, model TEXT NOT NULL, line TEXT NOT NULL,
    PRIMARY KEY (session, hour, model)
) WITHOUT ROWID;
CREATE INDEX spent_by_hour ON spent (hour);
";

/// Adds the lines of what was read since.
pub(super) fn add(connection: &Connection, session: i64, ledger: &Ledger) -> Asked<()> {
    for (hour, model, line) in ledger.lines() {
        let sql = "SELECT line FROM spent WHERE session = ?1 AND hour = ?2 AND model = ?3";
        let mut statement = connection.prepare_cached(sql)?;
        let known: Option<String> = statement.query_row((session, hour, model), |row| row.get(0)).optional()?;
        let mut sum = match known {
            Some(known) => parse(&known)?,
            None => Line::default(),
        };
        sum += *line;
        let sql = "INSERT OR REPLACE INTO spent (session, hour, model, line) VALUES (?1, ?2, ?3, ?4)";
        connection.prepare_cached(sql)?.execute((session, hour, model, written(&sum)))?;
    }
    Ok(())
}

/// Forgets what a session took.
pub(super) fn forget(connection: &Connection, session: i64) -> Asked<()> {
    connection.prepare_cached("DELETE FROM spent WHERE session = ?1")?.execute([session])?;
    Ok(())
}

/// A line as numbers between blanks, without the noughts at the end: most lines have few others.
pub(super) fn written(line: &Line) -> String {
    let numbers = numbers(line);
    let len = numbers.iter().rposition(|number| *number != 0).map_or(0, |last| last + 1);
    numbers[..len].iter().map(u64::to_string).collect::<Vec<_>>().join(" ")
}

fn numbers(line: &Line) -> [u64; 13] {
    let Line { tokens, long, calls, turns, tools } = *line;
    let of =
        |tokens: Tokens| [tokens.input, tokens.output, tokens.cache_write, tokens.cache_write_hour, tokens.cache_read];
    let ([a, b, c, d, e], [f, g, h, i, j]) = (of(tokens), of(long));
    [calls, turns, tools, a, b, c, d, e, f, g, h, i, j]
}

pub(super) fn parse(line: &str) -> Asked<Line> {
    let mut numbers = [0; 13];
    for (at, number) in line.split_ascii_whitespace().enumerate() {
        match (numbers.get_mut(at), number.parse()) {
            (Some(place), Ok(number)) => *place = number,
            _ => return Err(Trouble::Unusable("what a session took is not what was written".to_owned())),
        }
    }
    let [calls, turns, tools, a, b, c, d, e, f, g, h, i, j] = numbers;
    let of = |[input, output, cache_write, cache_write_hour, cache_read]: [u64; 5]| Tokens {
        input,
        output,
        cache_write,
        cache_write_hour,
        cache_read,
    };
    Ok(Line { tokens: of([a, b, c, d, e]), long: of([f, g, h, i, j]), calls, turns, tools })
}

impl Index {
    /// The sessions that cannot be read, those in the trash included.
    pub(crate) fn unreadable(&self) -> Asked<Vec<Entry>> {
        self.read(|connection| {
            let mut found = Vec::new();
            for (index, state) in [("unsure", "unreadable"), ("unread", "unread")] {
                let sql = format!("SELECT {COLUMNS} FROM sessions INDEXED BY {index} WHERE state = '{state}'");
                let mut statement = connection.prepare_cached(&sql)?;
                let mut rows = statement.query(())?;
                while let Some(columns) = rows.next()? {
                    found.push(row::entry(columns)?.entry);
                }
            }
            Ok(found)
        })
    }

    /// The sessions whose last line has no line feed: it counts, but may still grow, and is not among what was added up.
    pub(crate) fn unfinished(&self) -> Asked<Vec<Indexed>> {
        self.read(|connection| {
            let sql = format!(
                "SELECT {COLUMNS} FROM folds INDEXED BY unfinished CROSS JOIN sessions ON number = session
                 WHERE rest > 0 AND state != 'missing'"
            );
            let mut statement = connection.prepare_cached(&sql)?;
            let mut rows = statement.query(())?;
            let mut found = Vec::new();
            while let Some(columns) = rows.next()? {
                found.push(row::entry(columns)?);
            }
            Ok(found)
        })
    }

    /// Hands the ledger of each session whose last line is finished and that took something since that hour to `visit`, from that hour on.
    pub(crate) fn spent(&self, since_hour: i64, visit: &mut dyn FnMut(Entry, Ledger)) -> Asked<()> {
        self.read(|connection| {
            // Sessions first: a row and its lines are all that is in memory at a time.
            let sessions =
                "SELECT DISTINCT session FROM spent JOIN folds USING (session) JOIN sessions ON number = session
                WHERE hour >= ?1 AND rest = 0 ORDER BY session";
            let sessions: Vec<i64> = connection
                .prepare_cached(sessions)?
                .query_map([since_hour], |row| row.get(0))?
                .collect::<Result<_, _>>()?;
            let by_number = format!("SELECT {COLUMNS} FROM sessions WHERE number = ?1");
            let mut by_number = connection.prepare_cached(&by_number)?;
            let sql = "SELECT hour, model, line FROM spent WHERE session = ?1 AND hour >= ?2";
            let mut lines = connection.prepare_cached(sql)?;
            for session in sessions {
                let mut rows = by_number.query([session])?;
                let Some(columns) = rows.next()? else { continue };
                let entry = row::entry(columns)?.entry;
                let mut ledger = Ledger::default();
                let mut rows = lines.query((session, since_hour))?;
                while let Some(row) = rows.next()? {
                    let (model, line): (String, String) = (row.get(1)?, row.get(2)?);
                    ledger.add(row.get(0)?, &model, parse(&line)?);
                }
                visit(entry, ledger);
            }
            Ok(())
        })
    }

    /// What one session took; none if it took nothing, if its last line may still grow, or if the index does not know it so.
    pub(crate) fn spent_by(&self, place: Place, entry: &Entry) -> Asked<Option<Ledger>> {
        self.read(|connection| {
            let Some(found) = row::find(connection, place, &entry.dir, &entry.row.id)? else { return Ok(None) };
            if found.entry.row != entry.row {
                return Ok(None);
            }
            let sql = "SELECT hour, model, line FROM spent JOIN folds USING (session)
                WHERE session = ?1 AND scanned >= ?2";
            let mut statement = connection.prepare_cached(sql)?;
            let mut rows = statement.query((found.number, row::clamp(entry.row.bytes)))?;
            let mut ledger = None;
            while let Some(row) = rows.next()? {
                let (model, line): (String, String) = (row.get(1)?, row.get(2)?);
                ledger.get_or_insert_with(Ledger::default).add(row.get(0)?, &model, parse(&line)?);
            }
            Ok(ledger)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_reads_back_as_it_was_written() {
        let tokens = Tokens { input: 1, output: u64::MAX, cache_write: 3, cache_write_hour: 0, cache_read: 5 };
        let long = Tokens { cache_read: 9, ..Tokens::default() };
        let whole = Line { tokens, long, calls: 6, turns: 7, tools: 8 };
        for line in [Line::default(), Line { turns: 1, ..Line::default() }, Line { tokens, ..Line::default() }, whole] {
            assert_eq!(parse(&written(&line)).unwrap(), line);
        }
        assert_eq!(written(&Line { turns: 1, ..Line::default() }), "0 1");
    }

    #[test]
    fn a_line_that_is_none_is_refused() {
        for line in ["x", "-1", "1 2 3 4 5 6 7 8 9 10 11 12 13 14", "18446744073709551616", "{}"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
