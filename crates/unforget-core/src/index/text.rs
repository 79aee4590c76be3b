//! The words of every session, and where they were said.
//!
//! What a word is, and what a query means, is for [`crate::search`] to say; the tables hold its tokens as they are. They are filled behind
//! the rows, in portions, newest sessions first. A session counts as searched only when all of it is in; until then its
//! file is scanned, so an answer never depends on how far the work has come.
//!
//! A text's number begins with the day that it was said on, so that the newest matches of a common word are found without looking
//! at all of them. Texts of a session have numbers in a row, a few rows each, which is how they are found again to be forgotten.
//!
//! Texts are written in the order of their numbers: FTS5 would else put what it has gathered to disk at each step back.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use rusqlite::Connection;

use super::row::{SHORT, clamp};
use super::{Asked, Index, Place, Trouble};
use crate::blob::Blobs;
use crate::error::Result;
use crate::layout::AgentDir;
use crate::reader::LogReader;
use crate::scan::Scanner;
use crate::search::words::Words;
use crate::search::{Ear, Role};
use crate::stamp::SessionId;

/// The tables.
pub(super) const TABLES: &str = "
-- Where each text was said. The upper part of its number is the day.
CREATE TABLE texts (
    number INTEGER PRIMARY KEY,
    session INTEGER NOT NULL, n INTEGER NOT NULL, at_ms INTEGER NOT NULL, place INTEGER NOT NULL,
    role INTEGER NOT NULL, tool TEXT, len INTEGER NOT NULL
);
-- Which numbers a session's texts have.
CREATE TABLE runs (
    session INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, PRIMARY KEY (session, first)
) WITHOUT ROWID;
CREATE VIRTUAL TABLE words USING fts5 (
    text, content = '', contentless_delete = 1, detail = none, tokenize = \"ascii tokenchars '_'\"
);
-- A word of no session: where it is not found, others would be missed as well.
INSERT INTO texts VALUES (-1, 0, 0, 0, 0, 0, NULL, 1);
INSERT INTO words (rowid, text) VALUES (-1, '__canary');
-- What has to be known to go on hearing a long session.
CREATE TABLE ears (session INTEGER PRIMARY KEY REFERENCES sessions (number) ON DELETE CASCADE, ear TEXT NOT NULL);
";

/// How much of the transcripts is heard between two transactions.
const PORTION: u64 = 4 << 20;
/// How many sessions are taken up at once.
const SESSIONS: usize = 256;
pub(super) const DAY_MS: i64 = 86_400_000;
/// The last day that is told apart from those behind it.
pub(super) const LAST_DAY: i64 = (1 << 37) - 1;
/// Where the numbers of crowded days begin.
const CROWDED: i64 = 1 << 62;

/// Numbers of texts. They are close together, because the index keeps the differences between them, for every word
/// and text: a day has room for a few thousand. What comes after those is numbered apart, with wider days.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Area {
    /// The first texts of each day.
    Usual,
    /// The others; a session with still more in a day is scanned instead.
    Crowded,
}

impl Area {
    pub(super) const ALL: [Area; 2] = [Area::Usual, Area::Crowded];

    fn base(self) -> i64 {
        match self {
            Area::Usual => 0,
            Area::Crowded => CROWDED,
        }
    }

    fn bits(self) -> u32 {
        match self {
            Area::Usual => 13,
            Area::Crowded => 24,
        }
    }

    pub(super) fn first(self, day: i64) -> i64 {
        self.base() + (day << self.bits())
    }

    pub(super) fn last(self, day: i64) -> i64 {
        self.first(day + 1) - 1
    }

    pub(super) fn day(self, number: i64) -> i64 {
        (number - self.base()) >> self.bits()
    }
}

pub(super) fn day_of(at_ms: i64) -> i64 {
    at_ms.div_euclid(DAY_MS).clamp(0, LAST_DAY)
}

/// A session whose words are not all in.
struct Unheard {
    number: i64,
    place: Place,
    dir: AgentDir,
    id: SessionId,
    identity: (i64, i64),
    /// Which hearing of it this belongs to: another index, or one that has forgotten its words since, has another.
    hearing: i64,
    from: u64,
    to: u64,
    /// What was heard before; none of a short session, which is gone through again.
    carried: Option<Carried>,
}

/// What a portion of a session says.
struct Heard {
    session: Unheard,
    texts: Vec<Text>,
    carried: Carried,
    at: u64,
}

struct Text {
    n: u64,
    offset: u64,
    at_ms: i64,
    role: Role,
    tool: Option<String>,
    words: Words,
}

/// What a session's hearing goes on with.
#[derive(serde::Serialize, serde::Deserialize, Default)]
struct Carried {
    ear: Ear,
    scanner: Scanner,
}

impl Index {
    /// Takes in the words that are lacking; `go_on` hears of each transcript and may end the work. Says whether all are in.
    pub fn take_in_words(&self, go_on: &mut dyn FnMut(&Path, u64) -> bool) -> Asked<bool> {
        let blobs = Blobs::new(self.medium.clone());
        loop {
            let unheard = self.read(unheard)?;
            if unheard.is_empty() {
                return Ok(true);
            }
            let mut portion = Vec::new();
            let mut bytes = 0;
            let (mut is_stuck, mut is_ended) = (true, false);
            for session in unheard {
                let path = session.place.transcript(&session.dir, &session.id);
                if !go_on(&path, session.to - session.from) {
                    // What was heard until here is kept, or someone with little time would never come to an end.
                    is_ended = true;
                    break;
                }
                let room = PORTION.saturating_sub(bytes);
                let from = session.from;
                // One that is gone or cannot be read now is left to its row to say so.
                let Ok(heard) = self.hear(session, &path, room, &blobs) else { continue };
                bytes += heard.at - from;
                is_stuck &= heard.at == from;
                portion.push(heard);
                if bytes >= PORTION {
                    break;
                }
            }
            if is_stuck {
                return Ok(false);
            }
            self.write(|connection| put(connection, portion))?;
            if is_ended {
                return Ok(false);
            }
        }
    }

    fn hear(&self, mut session: Unheard, path: &Path, room: u64, blobs: &Blobs) -> Result<Heard> {
        let reader = LogReader::open(self.medium.as_ref(), path)?;
        let identity = reader.identity();
        let (mut texts, mut at) = (Vec::new(), session.from);
        let begin = if session.carried.is_some() { session.from } else { 0 };
        let Carried { mut ear, mut scanner } = session.carried.take().unwrap_or_default();
        if (identity.0.cast_signed(), identity.1.cast_signed()) == session.identity {
            let mut forward = reader.forward(begin);
            while let Some(line) = forward.next()? {
                if !line.terminated || line.offset >= session.to || at - session.from > room {
                    break;
                }
                let mut trouble = None;
                if line.offset < session.from {
                    scanner.feed(&line, |record| trouble = ear.pass_all(&record, blobs).err().or(trouble.take()));
                } else {
                    scanner.feed(&line, |record| match ear.hear(&record, blobs) {
                        Ok(said) => texts.extend(said.into_iter().filter_map(|said| {
                            let words = Words::of(&said.text);
                            let (role, tool, at_ms) = (said.role, said.tool.clone(), said.at_ms);
                            let text = Text { n: record.n, offset: record.offset, at_ms, role, tool, words };
                            (!text.words.is_empty()).then_some(text)
                        })),
                        Err(error) => trouble = Some(error),
                    });
                    at = line.offset + line.len + 1;
                }
                if let Some(error) = trouble {
                    return Err(error);
                }
            }
        }
        Ok(Heard { session, texts, carried: Carried { ear, scanner }, at })
    }
}

fn unheard(connection: &Connection) -> Asked<Vec<Unheard>> {
    let sql = format!(
        "SELECT number, place, dir, id, device, inode, texted, scanned, ear, hearing FROM sessions
         JOIN folds ON folds.session = number LEFT JOIN ears ON ears.session = number
         WHERE texted < bytes AND texted < scanned AND state != 'missing' ORDER BY updated_ms DESC LIMIT {SESSIONS}"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(())?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let (dir, id): (String, String) = (row.get(2)?, row.get(3)?);
        let (from, to): (i64, i64) = (row.get(6)?, row.get(7)?);
        let carried: Option<String> = row.get(8)?;
        let carried = match carried.as_deref().map(serde_json::from_str::<Carried>) {
            Some(Ok(carried)) => Some(carried),
            None if from.cast_unsigned() <= SHORT => None,
            _ => return Err(Trouble::Unusable("it does not know how far a session's words are in".to_owned())),
        };
        let Some(id) = SessionId::parse(&id) else { continue };
        found.push(Unheard {
            number: row.get(0)?,
            place: Place::of(row.get(1)?),
            dir: AgentDir::found(&dir),
            id,
            identity: (row.get(4)?, row.get(5)?),
            hearing: row.get(9)?,
            from: from.cast_unsigned(),
            to: to.cast_unsigned(),
            carried,
        });
    }
    Ok(found)
}

/// Writes down what was heard, unless someone else did meanwhile.
fn put(connection: &Connection, portion: Vec<Heard>) -> Asked<()> {
    let mut numbers = HashMap::new();
    let mut numbered: Vec<(i64, i64, Text)> = Vec::new();
    for Heard { session, texts, carried, at } in portion {
        let sql = "UPDATE sessions SET texted = ?1 WHERE number = ?2 AND texted = ?3 AND device = ?4 AND inode = ?5
            AND hearing = ?6";
        let (device, inode) = session.identity;
        let mut statement = connection.prepare_cached(sql)?;
        if statement.execute((clamp(at), session.number, clamp(session.from), device, inode, session.hearing))? == 0 {
            continue;
        }
        let mut runs: BTreeMap<i64, i64> = BTreeMap::new();
        for text in texts {
            let number = next_number(connection, &mut numbers, day_of(text.at_ms))?;
            match runs.iter_mut().find(|(_, last)| **last + 1 == number) {
                Some((_, last)) => *last = number,
                None => drop(runs.insert(number, number)),
            }
            numbered.push((number, session.number, text));
        }
        for (first, last) in runs {
            let sql = "INSERT INTO runs (session, first, last) VALUES (?1, ?2, ?3)";
            connection.prepare_cached(sql)?.execute((session.number, first, last))?;
        }
        if at > SHORT {
            let carried = serde_json::to_string(&carried).map_err(|error| Trouble::Refused(error.to_string()))?;
            let sql = "INSERT OR REPLACE INTO ears (session, ear) VALUES (?1, ?2)";
            connection.prepare_cached(sql)?.execute((session.number, carried))?;
        }
    }
    numbered.sort_unstable_by_key(|(number, _, _)| *number);
    let sql =
        "INSERT INTO texts (number, session, n, at_ms, place, role, tool, len) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    let mut texts = connection.prepare_cached(sql)?;
    let mut words = connection.prepare_cached("INSERT INTO words (rowid, text) VALUES (?1, ?2)")?;
    for (number, session, text) in numbered {
        let (role, len) = (role_number(text.role), clamp(text.words.len() as u64));
        texts.execute((number, session, clamp(text.n), text.at_ms, clamp(text.offset), role, text.tool, len))?;
        words.execute((number, text.words.indexed()))?;
    }
    Ok(())
}

/// The next number of a day that no text has; `known` has those that were found so far.
fn next_number(connection: &Connection, known: &mut HashMap<(Area, i64), i64>, day: i64) -> Asked<i64> {
    for area in Area::ALL {
        let number = match known.get(&(area, day)) {
            Some(number) => *number,
            None => first_free(connection, area, day)?,
        };
        known.insert((area, day), number);
        if number <= area.last(day) {
            known.insert((area, day), number + 1);
            return Ok(number);
        }
    }
    // More in a day than there is room for: without a text there is nothing that could be missed.
    Err(Trouble::Refused("a day has too many texts".to_owned()))
}

fn first_free(connection: &Connection, area: Area, day: i64) -> Asked<i64> {
    let sql = "SELECT max(number) FROM texts WHERE number BETWEEN ?1 AND ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let last: Option<i64> = statement.query_row((area.first(day), area.last(day)), |row| row.get(0))?;
    Ok(last.map_or(area.first(day), |last| last + 1))
}

pub(super) fn role_number(role: Role) -> i64 {
    Role::ALL.iter().position(|other| *other == role).map_or(-1, |at| at as i64)
}

/// Forgets the words of a session.
pub(super) fn forget(connection: &Connection, session: i64) -> Asked<()> {
    // Most sessions that are looked at are new, and have none.
    let has_texts = connection.prepare_cached("SELECT 1 FROM runs WHERE session = ?1 LIMIT 1")?.exists([session])?;
    for rows in ["words WHERE rowid", "texts WHERE number"].into_iter().filter(|_| has_texts) {
        let sql = format!(
            "DELETE FROM {rows} IN (SELECT number FROM runs CROSS JOIN texts ON number BETWEEN first AND last
                WHERE runs.session = ?1 AND texts.session = ?1)"
        );
        connection.prepare_cached(&sql)?.execute([session])?;
    }
    connection.prepare_cached("DELETE FROM runs WHERE session = ?1")?.execute([session])?;
    connection.prepare_cached("DELETE FROM ears WHERE session = ?1")?.execute([session])?;
    connection
        .prepare_cached("UPDATE sessions SET texted = 0, hearing = random() WHERE number = ?1")?
        .execute([session])?;
    Ok(())
}
