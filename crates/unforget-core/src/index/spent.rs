//! What each session took, by hour and model: the lines of [`crate::usage::Ledger`], kept and added to.

use rusqlite::{Connection, OptionalExtension as _};

use super::row::{self, COLUMNS};
use super::{Asked, Index, Trouble};
use crate::store::Entry;
use crate::usage::{Ledger, Line};

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
        let sum = serde_json::to_string(&sum).map_err(|error| Trouble::Refused(error.to_string()))?;
        let sql = "INSERT OR REPLACE INTO spent (session, hour, model, line) VALUES (?1, ?2, ?3, ?4)";
        connection.prepare_cached(sql)?.execute((session, hour, model, sum))?;
    }
    Ok(())
}

/// Forgets what a session took.
pub(super) fn forget(connection: &Connection, session: i64) -> Asked<()> {
    connection.prepare_cached("DELETE FROM spent WHERE session = ?1")?.execute([session])?;
    Ok(())
}

fn parse(line: &str) -> Asked<Line> {
    serde_json::from_str(line).map_err(|error| Trouble::Unusable(error.to_string()))
}

impl Index {
    /// The sessions that cannot be read.
    pub(crate) fn unreadable(&self) -> Asked<Vec<Entry>> {
        self.read(|connection| {
            let sql = format!("SELECT {COLUMNS} FROM sessions INDEXED BY unsure WHERE state = 'unreadable'");
            let mut statement = connection.prepare_cached(&sql)?;
            let mut rows = statement.query(())?;
            let mut found = Vec::new();
            while let Some(columns) = rows.next()? {
                found.push(row::entry(columns)?.entry);
            }
            Ok(found)
        })
    }

    /// The sessions whose last line has no line feed: it counts, but may still grow, and is not among what was added up.
    pub(crate) fn unfinished(&self) -> Asked<Vec<Entry>> {
        self.read(|connection| {
            let sql = format!(
                "SELECT {COLUMNS} FROM sessions JOIN folds ON session = number WHERE scanned < bytes AND state != 'missing'"
            );
            let mut statement = connection.prepare_cached(&sql)?;
            let mut rows = statement.query(())?;
            let mut found = Vec::new();
            while let Some(columns) = rows.next()? {
                found.push(row::entry(columns)?.entry);
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
                WHERE hour >= ?1 AND scanned >= bytes ORDER BY session";
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
}
