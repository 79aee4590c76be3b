//! Searches among the words that are in: the newest hits, and which sessions still have to be read for theirs.
//!
//! The tables know which tokens a text has, and not their order: positions would take more than half as much room again. A query for words
//! alone is answered from them. For one with a phrase, a path or a longer piece of Chinese they tell which sessions may have
//! it, and those are read, newest first, until nothing older can be among the answers.
//!
//! What a query means is for [`crate::search`] to say, and how texts are numbered for `text`. Tables that lost what they had would
//! find nothing and say so, which is why one word is in them from the beginning.

use std::collections::HashSet;

use rusqlite::{Connection, params_from_iter};

use super::page::Condition;
use super::row::{self, Indexed};
use super::text::{Area, DAY_MS, LAST_DAY, day_of, role_number};
use super::{Asked, Index, Place, Trouble};
use crate::layout::AgentDir;
use crate::reader::LogReader;
use crate::search::{self, CANDIDATES, Filter, Found, Hit, Role, SearchQuery, Trash};
use crate::stamp::SessionId;
use crate::tree::Tree;

/// Reads sessions for a search.
type Scan<'s> = dyn Fn(&[search::Place]) -> Found + 's;

/// How many sessions are read at a time, at first and at most.
const FEW: usize = 32;
const MANY: usize = 1024;

impl Index {
    /// The newest hits among the sessions whose words are all in, and the sessions that have to be scanned.
    pub(crate) fn find(&self, request: &SearchQuery, scan: &Scan<'_>) -> Asked<(Found, Vec<search::Place>)> {
        self.read(|connection| {
            check(connection)?;
            let mut found = Found::default();
            let mut suspects = Suspects { scan, seen: HashSet::new(), waiting: Vec::new(), at_once: FEW };
            for area in Area::ALL {
                match request.query.is_exact() {
                    true => find_in(connection, request, area, &mut found)?,
                    false => suspect_in(connection, request, area, &mut suspects, &mut found)?,
                }
            }
            Ok((found, unsearched(connection, &request.filter)?))
        })
    }

    /// What is known of the session of a hit.
    pub(crate) fn facts(&self, place: &search::Place) -> Asked<Option<(Indexed, Option<Tree>)>> {
        let at = if place.is_trashed { Place::Trash } else { Place::Agents };
        self.read(|connection| {
            let Some(indexed) = row::find(connection, at, &place.dir, place.id.as_str())? else { return Ok(None) };
            let tree = match row::folded(connection, indexed.number)?.and_then(|folded| folded.state) {
                Some(state) => Some(state.tree().clone()),
                // One that cannot be read now is left to its row to say so.
                None => LogReader::open(self.medium.as_ref(), &place.transcript())
                    .and_then(|reader| Tree::read(&reader))
                    .ok(),
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

/// Sessions that may have what is looked for.
struct Suspects<'s> {
    scan: &'s Scan<'s>,
    seen: HashSet<i64>,
    waiting: Vec<search::Place>,
    at_once: usize,
}

impl Suspects<'_> {
    fn read(&mut self, found: &mut Found) {
        if !self.waiting.is_empty() {
            found.add((self.scan)(&self.waiting));
            self.waiting.clear();
            self.at_once = (2 * self.at_once).min(MANY);
        }
    }
}

/// Reads the sessions of an area that have the tokens, until all that are left are too old.
fn suspect_in(
    connection: &Connection,
    request: &SearchQuery,
    area: Area,
    suspects: &mut Suspects<'_>,
    found: &mut Found,
) -> Asked<()> {
    let Some(condition) = condition(request, area) else { return Ok(()) };
    let sql = select("words.rowid, sessions.number, sessions.place, sessions.dir, sessions.id", &condition);
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(condition.values))?;
    while let Some(row) = rows.next()? {
        let session: i64 = row.get(1)?;
        if suspects.seen.contains(&session) {
            continue;
        }
        if suspects.waiting.len() >= suspects.at_once {
            suspects.read(found);
            // Of the sessions that were not read yet, none says anything newer than this one does.
            if found.is_full_since((area.day(row.get(0)?) + 1).saturating_mul(DAY_MS)) {
                return Ok(());
            }
        }
        suspects.seen.insert(session);
        let (place, dir, id): (i64, String, String) = (row.get(2)?, row.get(3)?, row.get(4)?);
        let is_trashed = Place::of(place) == Place::Trash;
        let place = SessionId::parse(&id).map(|id| search::Place { id, dir: AgentDir::found(&dir), is_trashed });
        suspects.waiting.extend(place);
    }
    suspects.read(found);
    Ok(())
}

fn select(columns: &str, condition: &Condition) -> String {
    format!(
        "SELECT {columns} FROM words
         CROSS JOIN texts ON texts.number = words.rowid CROSS JOIN sessions ON sessions.number = texts.session
         WHERE {} ORDER BY words.rowid DESC",
        condition.parts.join(" AND ")
    )
}

/// Which texts of an area are asked for; none if the query can find nothing.
fn condition(request: &SearchQuery, area: Area) -> Option<Condition> {
    let expression = request.query.fts5()?;
    let filter = &request.filter;
    let mut condition = Condition::default();
    condition.and("words MATCH ?", expression);
    condition.plain("sessions.texted = sessions.bytes AND sessions.state != 'missing'");
    of_session(&mut condition, filter);
    condition.and("words.rowid >= ?", area.first(filter.since_ms.map_or(0, day_of)));
    condition.and("words.rowid <= ?", area.last(filter.until_ms.map_or(LAST_DAY, day_of)));
    if let Some(since) = filter.since_ms {
        condition.and("at_ms >= ?", since);
    }
    if let Some(until) = filter.until_ms {
        condition.and("at_ms <= ?", until);
    }
    if !filter.roles.is_empty() {
        let roles: Vec<String> = filter.roles.iter().map(|role| role_number(*role).to_string()).collect();
        condition.plain(&format!("role IN ({})", roles.join(", ")));
    }
    if let Some(tool) = &filter.tool {
        condition.and("tool = ?", tool.clone());
    }
    Some(condition)
}

/// Takes the newest hits of an area: all of them, or more than are ranked.
fn find_in(connection: &Connection, request: &SearchQuery, area: Area, found: &mut Found) -> Asked<()> {
    let Some(condition) = condition(request, area) else { return Ok(()) };
    let columns = "texts.number, sessions.place, sessions.dir, sessions.id, n, texts.place, at_ms, role, tool, len";
    let sql = select(columns, &condition);
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(condition.values))?;
    let (mut count, mut day) = (0, i64::MAX);
    while let Some(row) = rows.next()? {
        let of = area.day(row.get(0)?);
        if count >= CANDIDATES && of < day {
            // All that follow are older than those that are ranked.
            found.note_more();
            break;
        }
        (count, day) = (count + 1, of);
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
    Ok(())
}

/// What a filter asks of sessions.
fn of_session(condition: &mut Condition, filter: &Filter) {
    if filter.trash == Trash::LeftOut {
        condition.plain("sessions.place = 0");
    }
    let exact = filter.key.as_ref().and_then(crate::retention::Pattern::exact);
    for agent in filter.agent.iter().map(String::as_str).chain(exact.as_ref().map(crate::key::Key::agent)) {
        condition.and("sessions.dir = ?", AgentDir::of(agent).as_str().to_owned());
    }
    let key = exact.map(|key| key.to_string());
    if let Some(pattern) = filter.key.as_ref().filter(|_| key.is_none()) {
        of_pattern(condition, pattern);
    }
    for (column, value) in [("channel", &filter.channel), ("peer", &filter.peer), ("key", &key)] {
        if let Some(value) = value {
            condition.and(&format!("sessions.{column} = ?"), value.clone());
        }
    }
}

/// What a pattern asks of keys. A key with as many colons as the pattern leaves none of them to its stars.
fn of_pattern(condition: &mut Condition, pattern: &crate::retention::Pattern) {
    let text = pattern.to_string();
    condition.plain("sessions.channel IS NOT NULL");
    condition.and("sessions.key GLOB ?", text.replace('[', "[[]").replace('?', "[?]"));
    if text != "*" {
        let colons = text.bytes().filter(|byte| *byte == b':').count();
        condition.plain(&format!("length(sessions.key) - length(replace(sessions.key, ':', '')) = {colons}"));
    }
}

/// The sessions whose words are not all in.
fn unsearched(connection: &Connection, filter: &Filter) -> Asked<Vec<search::Place>> {
    let mut condition = Condition::default();
    condition.plain("texted < bytes AND state != 'missing'");
    of_session(&mut condition, filter);
    let sql = format!(
        "SELECT place, dir, id FROM sessions INDEXED BY untexted WHERE {} ORDER BY updated_ms DESC",
        condition.parts.join(" AND ")
    );
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
