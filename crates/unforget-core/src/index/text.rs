//! The words of every session, and where they were said.
//!
//! What a word is, and what a query means, is for [`crate::search`] to say; the tables hold its tokens as they are. They are filled behind
//! the rows, in portions, newest sessions first. A session counts as searched only when all of it is in; until then its
//! file is scanned, so an answer never depends on how far the work has come.
//!
//! A text's number begins with the day that it was said on, so that the newest matches of a common word are found without looking
//! at all of them.

use std::collections::HashMap;
use std::path::Path;

use rusqlite::{Connection, params_from_iter};

use super::page::Condition;
use super::row::{self, Indexed, clamp};
use super::{Asked, Index, Place, Trouble};
use crate::blob::Blobs;
use crate::error::Result;
use crate::layout::AgentDir;
use crate::reader::LogReader;
use crate::scan::Scanner;
use crate::search::words::Words;
use crate::search::{self, CANDIDATES, Ear, Filter, Found, Hit, Request, Role, Trash};
use crate::stamp::SessionId;
use crate::tree::Tree;

/// The tables.
pub(super) const TABLES: &str = "
-- Where each text was said. The upper part of its number is the day.
CREATE TABLE texts (
    number INTEGER PRIMARY KEY,
    session INTEGER NOT NULL, n INTEGER NOT NULL, at_ms INTEGER NOT NULL, place INTEGER NOT NULL,
    role INTEGER NOT NULL, tool TEXT, len INTEGER NOT NULL
);
CREATE INDEX texts_of ON texts (session);
CREATE VIRTUAL TABLE words USING fts5 (
    text, content = '', contentless_delete = 1, tokenize = \"ascii tokenchars '_'\"
);
-- A word of no session: where it is not found, others would be missed as well.
INSERT INTO texts VALUES (-1, 0, 0, 0, 0, 0, NULL, 1);
INSERT INTO words (rowid, text) VALUES (-1, '__canary');
-- What has to be known to go on hearing a session.
CREATE TABLE ears (session INTEGER PRIMARY KEY REFERENCES sessions (number) ON DELETE CASCADE, ear TEXT NOT NULL);
";

/// How much of the transcripts is heard between two transactions.
const PORTION: u64 = 4 << 20;
/// How many sessions are taken up at once.
const SESSIONS: usize = 256;
const DAY_MS: i64 = 86_400_000;
/// How many texts a day may have; a session with more is scanned instead.
const DAY_BITS: u32 = 24;
/// The last day that fits beside them.
const LAST_DAY: i64 = (1 << 38) - 1;

/// A session whose words are not all in.
struct Unheard {
    number: i64,
    place: Place,
    dir: AgentDir,
    id: SessionId,
    identity: (i64, i64),
    from: u64,
    to: u64,
    ear: Ear,
    scanner: Scanner,
}

/// What a portion of a session says.
struct Heard {
    session: Unheard,
    texts: Vec<Text>,
    scanner: Scanner,
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
            self.write(|connection| portion.into_iter().try_for_each(|heard| put(connection, heard)))?;
            if is_ended {
                return Ok(false);
            }
        }
    }

    fn hear(&self, mut session: Unheard, path: &Path, room: u64, blobs: &Blobs) -> Result<Heard> {
        let reader = LogReader::open(self.medium.as_ref(), path)?;
        let identity = reader.identity();
        let (mut texts, mut at) = (Vec::new(), session.from);
        let mut scanner = std::mem::take(&mut session.scanner);
        if (identity.0.cast_signed(), identity.1.cast_signed()) == session.identity {
            let mut forward = reader.forward(session.from);
            while let Some(line) = forward.next()? {
                if !line.terminated || line.offset >= session.to || at - session.from > room {
                    break;
                }
                let mut trouble = None;
                scanner.feed(&line, |record| match session.ear.hear(&record, blobs) {
                    Ok(said) => texts.extend(said.into_iter().filter_map(|said| {
                        let words = Words::of(&said.text);
                        let (role, tool, at_ms) = (said.role, said.tool.clone(), said.at_ms);
                        let text = Text { n: record.n, offset: record.offset, at_ms, role, tool, words };
                        (!text.words.is_empty()).then_some(text)
                    })),
                    Err(error) => trouble = Some(error),
                });
                if let Some(error) = trouble {
                    return Err(error);
                }
                at = line.offset + line.len + 1;
            }
        }
        Ok(Heard { session, texts, scanner, at })
    }
}

fn unheard(connection: &Connection) -> Asked<Vec<Unheard>> {
    let sql = format!(
        "SELECT number, place, dir, id, device, inode, texted, scanned, ear FROM sessions
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
            Some(Ok(carried)) => carried,
            None if from == 0 => Carried::default(),
            _ => return Err(Trouble::Unusable("it does not know how far a session's words are in".to_owned())),
        };
        let Some(id) = SessionId::parse(&id) else { continue };
        found.push(Unheard {
            number: row.get(0)?,
            place: Place::of(row.get(1)?),
            dir: AgentDir::found(&dir),
            id,
            identity: (row.get(4)?, row.get(5)?),
            from: from.cast_unsigned(),
            to: to.cast_unsigned(),
            ear: carried.ear,
            scanner: carried.scanner,
        });
    }
    Ok(found)
}

/// Writes down what was heard, unless someone else did meanwhile.
fn put(connection: &Connection, heard: Heard) -> Asked<()> {
    let Heard { session, texts, scanner, at } = heard;
    let sql = "UPDATE sessions SET texted = ?1 WHERE number = ?2 AND texted = ?3 AND device = ?4 AND inode = ?5";
    let (device, inode) = session.identity;
    let mut statement = connection.prepare_cached(sql)?;
    if statement.execute((clamp(at), session.number, clamp(session.from), device, inode))? == 0 {
        return Ok(());
    }
    let mut next: HashMap<i64, i64> = HashMap::new();
    for text in texts {
        let day = text.at_ms.div_euclid(DAY_MS).clamp(0, LAST_DAY);
        let number = match next.get(&day) {
            Some(number) => *number,
            None => first_free(connection, day)?,
        };
        if number > last_of(day) {
            // More in a day than there is room for: without a text there is nothing that could be missed.
            return Err(Trouble::Refused("a day has too many texts".to_owned()));
        }
        next.insert(day, number + 1);
        let sql = "INSERT INTO texts (number, session, n, at_ms, place, role, tool, len) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        connection.prepare_cached(sql)?.execute((
            number,
            session.number,
            clamp(text.n),
            text.at_ms,
            clamp(text.offset),
            role_number(text.role),
            text.tool,
            clamp(text.words.len() as u64),
        ))?;
        let sql = "INSERT INTO words (rowid, text) VALUES (?1, ?2)";
        connection.prepare_cached(sql)?.execute((number, text.words.joined()))?;
    }
    let carried = serde_json::to_string(&Carried { ear: session.ear, scanner });
    let carried = carried.map_err(|error| Trouble::Refused(error.to_string()))?;
    let sql = "INSERT OR REPLACE INTO ears (session, ear) VALUES (?1, ?2)";
    connection.prepare_cached(sql)?.execute((session.number, carried))?;
    Ok(())
}

fn last_of(day: i64) -> i64 {
    ((day + 1) << DAY_BITS) - 1
}

fn first_free(connection: &Connection, day: i64) -> Asked<i64> {
    let sql = "SELECT max(number) FROM texts WHERE number BETWEEN ?1 AND ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let last: Option<i64> = statement.query_row((day << DAY_BITS, last_of(day)), |row| row.get(0))?;
    Ok(last.map_or(day << DAY_BITS, |last| last + 1))
}

fn role_number(role: Role) -> i64 {
    Role::ALL.iter().position(|other| *other == role).map_or(-1, |at| at as i64)
}

/// Forgets the words of a session.
pub(super) fn forget(connection: &Connection, session: i64) -> Asked<()> {
    let sql = "DELETE FROM words WHERE rowid IN (SELECT number FROM texts WHERE session = ?1)";
    connection.prepare_cached(sql)?.execute([session])?;
    connection.prepare_cached("DELETE FROM texts WHERE session = ?1")?.execute([session])?;
    connection.prepare_cached("DELETE FROM ears WHERE session = ?1")?.execute([session])?;
    connection.prepare_cached("UPDATE sessions SET texted = 0 WHERE number = ?1")?.execute([session])?;
    Ok(())
}

impl Index {
    /// The newest hits among the sessions whose words are all in, and the sessions that have to be scanned.
    pub(crate) fn find(&self, request: &Request) -> Asked<(Found, Vec<search::Place>)> {
        self.read(|connection| {
            check(connection)?;
            Ok((found(connection, request)?, unsearched(connection, &request.filter)?))
        })
    }
}

impl Index {
    /// What is known of the session of a hit.
    pub(crate) fn facts(&self, place: &search::Place) -> Asked<Option<(Indexed, Tree)>> {
        let at = if place.is_trashed { Place::Trash } else { Place::Agents };
        self.read(|connection| {
            let Some(indexed) = row::find(connection, at, &place.dir, place.id.as_str())? else { return Ok(None) };
            let tree = match row::folded(connection, indexed.number)? {
                Some(folded) => folded.state.tree,
                None => Tree::read(&LogReader::open(self.medium.as_ref(), &place.transcript())?)?,
            };
            Ok(Some((indexed, tree)))
        })
    }
}

/// Sees that the tables of words still know the one word that was there from the beginning. Tables that lost everything, or
/// cannot be read at all, would else find nothing and say so.
fn check(connection: &Connection) -> Asked<()> {
    let sql =
        "SELECT count(*) FROM words CROSS JOIN texts ON texts.number = words.rowid WHERE words MATCH '\"__canary\"'";
    let count: i64 = connection.prepare_cached(sql)?.query_row((), |row| row.get(0))?;
    match count {
        1 => Ok(()),
        _ => Err(Trouble::Unusable("it has lost words".to_owned())),
    }
}

fn found(connection: &Connection, request: &Request) -> Asked<Found> {
    let mut found = Found::default();
    let Some(expression) = request.query.fts5() else { return Ok(found) };
    let mut condition = Condition::default();
    condition.and("words MATCH ?", expression);
    condition.plain("sessions.texted = sessions.bytes AND sessions.state != 'missing'");
    of_session(&mut condition, &request.filter);
    let filter = &request.filter;
    if let Some(since) = filter.since_ms {
        condition.and("at_ms >= ?", since);
        condition.and("words.rowid >= ?", since.div_euclid(DAY_MS).clamp(0, LAST_DAY) << DAY_BITS);
    }
    if let Some(until) = filter.until_ms {
        condition.and("at_ms <= ?", until);
        condition.and("words.rowid <= ?", last_of(until.div_euclid(DAY_MS).clamp(0, LAST_DAY)));
    }
    if !filter.roles.is_empty() {
        let roles: Vec<String> = filter.roles.iter().map(|role| role_number(*role).to_string()).collect();
        condition.plain(&format!("role IN ({})", roles.join(", ")));
    }
    if let Some(tool) = &filter.tool {
        condition.and("tool = ?", tool.clone());
    }
    let sql = format!(
        "SELECT texts.number, sessions.place, sessions.dir, sessions.id, n, texts.place, at_ms, role, tool, len FROM words
         CROSS JOIN texts ON texts.number = words.rowid CROSS JOIN sessions ON sessions.number = texts.session
         WHERE {} ORDER BY words.rowid DESC",
        condition.parts.join(" AND ")
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(condition.values))?;
    let (mut count, mut day) = (0, i64::MAX);
    while let Some(row) = rows.next()? {
        let number: i64 = row.get(0)?;
        if count >= CANDIDATES && number >> DAY_BITS < day {
            // All that follow are older than those that are ranked.
            found.note_more();
            break;
        }
        (count, day) = (count + 1, number >> DAY_BITS);
        let (place, dir, id): (i64, String, String) = (row.get(1)?, row.get(2)?, row.get(3)?);
        let role: i64 = row.get(7)?;
        let role = usize::try_from(role).ok().and_then(|role| Role::ALL.get(role).copied());
        let (Some(id), Some(role)) = (SessionId::parse(&id), role) else {
            return Err(Trouble::Unusable("a text is not what was written".to_owned()));
        };
        found.push(Hit {
            place: search::Place { id, dir: AgentDir::found(&dir), is_trashed: Place::of(place) == Place::Trash },
            key: None,
            title: None,
            n: row.get::<_, i64>(4)?.cast_unsigned(),
            offset: row.get::<_, i64>(5)?.cast_unsigned(),
            at_ms: row.get(6)?,
            role,
            tool: row.get(8)?,
            len: usize::try_from(row.get::<_, i64>(9)?).unwrap_or(usize::MAX),
            is_abandoned: false,
        });
    }
    Ok(found)
}

/// What a filter asks of sessions.
fn of_session(condition: &mut Condition, filter: &Filter) {
    if filter.trash == Trash::LeftOut {
        condition.plain("sessions.place = 0");
    }
    for agent in filter.agent.iter().map(String::as_str).chain(filter.key.as_ref().map(crate::key::Key::agent)) {
        condition.and("sessions.dir = ?", AgentDir::of(agent).as_str().to_owned());
    }
    let key = filter.key.as_ref().map(ToString::to_string);
    for (column, value) in [("channel", &filter.channel), ("peer", &filter.peer), ("key", &key)] {
        if let Some(value) = value {
            condition.and(&format!("sessions.{column} = ?"), value.clone());
        }
    }
}

/// The sessions whose words are not all in.
fn unsearched(connection: &Connection, filter: &Filter) -> Asked<Vec<search::Place>> {
    let mut condition = Condition::default();
    condition.plain("texted < bytes AND state != 'missing'");
    of_session(&mut condition, filter);
    let sql =
        format!("SELECT place, dir, id FROM sessions WHERE {} ORDER BY updated_ms DESC", condition.parts.join(" AND "));
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(condition.values))?;
    let mut places = Vec::new();
    while let Some(row) = rows.next()? {
        let (place, dir, id): (i64, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let is_trashed = Place::of(place) == Place::Trash;
        places.extend(SessionId::parse(&id).map(|id| search::Place { id, dir: AgentDir::found(&dir), is_trashed }));
    }
    Ok(places)
}
