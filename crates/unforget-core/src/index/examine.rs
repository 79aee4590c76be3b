//! A look at the whole index, for the doctor: SQLite's own check, every row against its columns, and how many there are against the files.
//!
//! It changes nothing, and an index that is only behind is not wrong: directories are compared only if they are as they were when it read them.

use rusqlite::{Connection, Row as Columns};

use super::catch_up::is_believed;
use super::row::{self, COLUMNS};
use super::{Asked, Index, Place, Trouble, proof};
use crate::directory::Directory;
use crate::key::Key;
use crate::layout::AgentDir;

/// How many problems of one kind are told.
const TOLD: usize = 20;
/// The columns that rows are found by, behind those of a row.
const KEYS: &str = "sessions.id, key, agent, channel, peer, label, label_folded, title_folded, state, origin,
    created_ms, updated_ms, turns, records, tokens, bytes, modified_ns, damage, pinned";

impl Index {
    /// What is wrong with it: nothing, if all is well.
    pub fn examine(&self, store: &Directory) -> Asked<Vec<String>> {
        self.read(|connection| {
            let mut problems = integrity(connection)?;
            if !problems.is_empty() {
                return Ok(problems);
            }
            for place in Place::ALL {
                match proof::check_all(connection, place) {
                    Err(Trouble::Unusable(why)) => problems.push(why),
                    other => other?,
                }
            }
            problems.extend(rows(connection)?);
            problems.extend(self.counts(connection, store)?);
            Ok(problems)
        })
    }

    /// Directories of which it has more or fewer rows than there are files.
    fn counts(&self, connection: &Connection, store: &Directory) -> Asked<Vec<String>> {
        let mut statement = connection.prepare("SELECT place, dir, stamp, seen_ms FROM dirs")?;
        let mut rows = statement.query(())?;
        let mut problems = Vec::new();
        while let Some(columns) = rows.next()? {
            let (place, dir) = (Place::of(columns.get(0)?), AgentDir::found(&columns.get::<_, String>(1)?));
            let (stamp, seen_ms): (Option<i64>, i64) = (columns.get(2)?, columns.get(3)?);
            let names = store.names(&place.folder(&dir));
            let now = self.stat_folder(place, &dir)?;
            let (Ok(names), true) = (names, stamp == now && stamp.is_some_and(|then| is_believed(then, seen_ms)))
            else {
                continue;
            };
            let sql = "SELECT count(*) FROM sessions WHERE place = ?1 AND dir = ?2 AND state != 'missing'";
            let count: i64 = connection.query_row(sql, (place.number(), dir.as_str()), |row| row.get(0))?;
            if count != row::clamp(names.len() as u64) && problems.len() < TOLD {
                let folder = place.folder(&dir);
                problems.push(format!("it has {count} sessions of the {} in `{}`", names.len(), folder.display()));
            }
        }
        Ok(problems)
    }
}

/// What SQLite says. It compares every index with its table.
fn integrity(connection: &Connection) -> Asked<Vec<String>> {
    let mut statement = connection.prepare(&format!("PRAGMA integrity_check({TOLD})"))?;
    let told = statement.query_map((), |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()?;
    Ok(told.into_iter().filter(|line| line != "ok").collect())
}

/// Rows that are not what was written, or are found by something else than they say.
fn rows(connection: &Connection) -> Asked<Vec<String>> {
    let mut statement = connection.prepare(&format!("SELECT {COLUMNS}, {KEYS} FROM sessions"))?;
    let first = COLUMNS.split(',').count();
    let mut rows = statement.query(())?;
    let mut wrong = Vec::new();
    while let Some(columns) = rows.next()? {
        let id: String = columns.get(first)?;
        let is_right = match row::entry(columns) {
            Ok(indexed) => agrees(columns, first, &indexed.entry.row)?,
            Err(Trouble::Unusable(_)) => false,
            Err(trouble) => return Err(trouble),
        };
        if !is_right && wrong.len() < TOLD {
            wrong.push(format!("the row of {id} is not what was written"));
        }
    }
    Ok(wrong)
}

fn agrees(columns: &Columns<'_>, first: usize, row: &crate::summary::Row) -> Asked<bool> {
    let key: Option<Key> = row.key.as_deref().and_then(|key| key.parse().ok());
    let fold = |text: &Option<String>| text.as_ref().map(|text| text.to_lowercase());
    let owned = |text: &str| Some(text.to_owned());
    let state: String = columns.get(first + 8)?;
    let texts = [
        Some(row.id.clone()),
        row.key.clone(),
        key.as_ref().map(|key| key.agent().to_owned()),
        key.as_ref().map(|key| key.channel().to_owned()),
        key.as_ref().map(|key| key.peer().to_owned()),
        row.label.clone(),
        fold(&row.label),
        fold(&row.title),
        if state == row::UNREAD { owned(row::UNREAD) } else { owned(row.state.name()) },
        row.origin.clone(),
    ];
    let numbers = [
        row.created_ms,
        row.updated_ms,
        Some(row::clamp(row.turns)),
        Some(row::clamp(row.records)),
        Some(row::clamp(row.tokens)),
        Some(row::clamp(row.bytes)),
        Some(row.modified_ns),
        Some(row::clamp(row.damage)),
        Some(i64::from(row.pinned)),
    ];
    for (at, text) in texts.iter().enumerate() {
        if columns.get::<_, Option<String>>(first + at)? != *text {
            return Ok(false);
        }
    }
    for (at, number) in numbers.iter().enumerate() {
        if columns.get::<_, Option<i64>>(first + texts.len() + at)? != *number {
            return Ok(false);
        }
    }
    Ok(true)
}
