//! Lists and lookups, by SQL. What is asked and in which order is for [`crate::listing`] to say; here it only becomes a query.

use std::collections::HashMap;

use rusqlite::types::Value as Sql;
use rusqlite::{Connection, params_from_iter};

use super::row::{self, COLUMNS, Indexed};
use super::{Asked, Index, Place, proof};
use crate::directory::Entry;
use crate::key::Key;
use crate::listing::{ListQuery, Sort, Value, Wanted};
use crate::summary::{Row, State};

/// How many sessions a name is looked for among, in each way that it can mean one.
const CANDIDATES: usize = 64;

impl Sort {
    fn column(self) -> &'static str {
        match self {
            Sort::Updated => "updated_ms",
            Sort::Created => "created_ms",
            Sort::Title => "title_folded",
            Sort::Turns => "turns",
            Sort::Tokens => "tokens",
            Sort::Bytes => "bytes",
        }
    }
}

/// A condition in the making.
#[derive(Default)]
pub(super) struct Condition {
    pub(super) parts: Vec<String>,
    pub(super) values: Vec<Sql>,
}

impl Condition {
    /// Adds a part in which `?` stands for the value.
    pub(super) fn and(&mut self, part: &str, value: impl Into<Sql>) {
        self.values.push(value.into());
        self.parts.push(part.replace('?', &format!("?{}", self.values.len())));
    }

    pub(super) fn plain(&mut self, part: &str) {
        self.parts.push(part.to_owned());
    }
}

impl From<&Value> for Sql {
    fn from(value: &Value) -> Self {
        match value {
            Value::Nothing => Sql::Null,
            Value::Number(number) => Sql::Integer(*number),
            Value::Text(text) => Sql::Text(text.clone()),
        }
    }
}

impl Index {
    /// The sessions that were asked for and one more, if there is one, to tell that there are more.
    pub(crate) fn page(&self, ask: &ListQuery, live: &HashMap<(u64, u64), String>) -> Asked<Vec<Indexed>> {
        self.read(|connection| page(connection, ask, live))
    }

    /// All sessions of a place, in the usual order.
    pub(crate) fn all(&self, place: Place) -> Asked<Vec<Entry>> {
        self.read(|connection| {
            let sql = format!("SELECT {COLUMNS} FROM sessions WHERE place = ?1 ORDER BY updated_ms DESC, id DESC, dir");
            let mut statement = connection.prepare_cached(&sql)?;
            let mut rows = statement.query([place.number()])?;
            let mut entries = Vec::new();
            while let Some(columns) = rows.next()? {
                entries.push(row::entry(columns)?);
            }
            proof::check(connection, &ListQuery { place, limit: usize::MAX, ..ListQuery::default() }, &entries)?;
            Ok(entries.into_iter().map(|indexed| indexed.entry).collect())
        })
    }

    /// Whether the file of a session is still the one that the index knows.
    pub(crate) fn is_current(&self, indexed: &Indexed) -> bool {
        let row = &indexed.entry.row;
        let Some(id) = crate::stamp::SessionId::parse(&row.id) else { return true };
        let stat = self.medium.stat(&indexed.place.transcript(&indexed.entry.dir, &id));
        match (stat, &row.state) {
            (Err(_), State::Missing) => true,
            (Err(_), _) | (Ok(_), State::Missing) => false,
            (Ok(stat), state) => {
                let proof = (stat.len, stat.modified_ns, stat.identity);
                proof == (row.bytes, row.modified_ns, indexed.identity) && row::is_sure(state)
            }
        }
    }

    /// Looks at sessions again.
    pub(crate) fn look_again<'i>(
        &self,
        indexed: impl Iterator<Item = &'i Indexed>,
        caught: &mut super::Caught,
    ) -> Asked<()> {
        for indexed in indexed {
            let Some(id) = crate::stamp::SessionId::parse(&indexed.entry.row.id) else { continue };
            self.look(indexed.place, &indexed.entry.dir, &id, caught)?;
        }
        Ok(())
    }
}

fn page(connection: &Connection, ask: &ListQuery, live: &HashMap<(u64, u64), String>) -> Asked<Vec<Indexed>> {
    let (sql, values) = query(ask, live);
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(values))?;
    let mut found = Vec::new();
    while let Some(columns) = rows.next()? {
        found.push(row::entry(columns)?);
    }
    proof::check(connection, ask, &found)?;
    Ok(found)
}

/// What is asked, as SQL with its values.
fn query(ask: &ListQuery, live: &HashMap<(u64, u64), String>) -> (String, Vec<Sql>) {
    let (column, is_rising) = (ask.sort.column(), ask.sort.is_rising());
    let mut condition = Condition::default();
    condition.and("place = ?", ask.place.number());
    let filter = &ask.filter;
    // SQLite cannot know which part of a key is the rarest: the first of these leads to the rows, the others only choose
    // among them. In another order than by use, only a peer is rare enough to be worth sorting all that it has.
    let mut leads = true;
    for (column, value) in [("peer", &filter.peer), ("channel", &filter.channel), ("agent", &filter.agent)] {
        if let Some(value) = value {
            let is_lead = leads && (column == "peer" || ask.sort == Sort::Updated);
            condition.and(&format!("{}{column} = ?", if is_lead { "" } else { "+" }), value.clone());
            leads = false;
        }
    }
    if let Some(since) = filter.since_ms {
        condition.and("updated_ms >= ?", since);
    }
    if let Some(until) = filter.until_ms {
        condition.and("updated_ms <= ?", until);
    }
    if let Some(label) = &filter.label {
        condition.and("label = ?", label.clone());
        condition.and("label_folded = ?", label.to_lowercase());
    }
    match filter.pinned {
        None => {}
        Some(true) => condition.plain("pinned = 1"),
        Some(false) => condition.plain("pinned = 0"),
    }
    match filter.state {
        None => {}
        Some(Wanted::Ok) => condition.plain("state = 'ok'"),
        Some(Wanted::Damaged) => condition.plain("damage > 0"),
        // The first half is what the index of odd states says of itself, or SQLite would not see that it fits.
        Some(Wanted::Missing) => condition.plain("state NOT IN ('ok', 'deleted') AND state = 'missing'"),
        Some(Wanted::Mismatch) => condition.plain("state NOT IN ('ok', 'deleted') AND state = 'mismatch'"),
        Some(Wanted::Unreadable) => condition.plain("state NOT IN ('ok', 'deleted') AND state = 'unreadable'"),
        Some(Wanted::Live) => {
            let pairs: Vec<String> = live
                .keys()
                .map(|(device, inode)| format!("({}, {})", inode.cast_signed(), device.cast_signed()))
                .collect();
            let pairs = if pairs.is_empty() { "(0, 0)".to_owned() } else { pairs.join(", ") };
            condition.plain(&format!("(inode, device) IN (VALUES {pairs})"));
        }
    }
    if let Some(after) = &ask.after {
        let at = condition.values.len();
        condition.values.extend([Sql::from(&after.value), after.id.clone().into(), after.dir.clone().into()]);
        let (value, id, dir) = (format!("?{}", at + 1), format!("?{}", at + 2), format!("?{}", at + 3));
        // Nothing is smaller than everything, in SQLite's order as well.
        let beyond = match is_rising {
            true => format!("({column} > {value} OR ({column} IS NOT NULL AND {value} IS NULL))"),
            false => format!("({column} < {value} OR ({column} IS NULL AND {value} IS NOT NULL))"),
        };
        let tie = format!("({column} IS {value} AND (id < {id} OR (id = {id} AND dir > {dir})))");
        condition.plain(&format!("({beyond} OR {tie})"));
        if let (false, Value::Number(_)) = (is_rising, &after.value) {
            // Says the same again in a way that leads straight to the place.
            condition.plain(&format!("({column} <= {value} OR {column} IS NULL)"));
        }
    }
    let direction = if is_rising { "ASC" } else { "DESC" };
    // A plus keeps SQLite from walking all sessions in their order to find the few of a peer.
    let sorted = if filter.peer.is_some() && ask.sort != Sort::Updated { "+" } else { "" };
    // A few of very many, whatever the order: SQLite would rather go through all of them in order.
    let lead = match (&filter.label, filter.state) {
        (Some(_), _) => " INDEXED BY by_label",
        (None, Some(Wanted::Live)) => " INDEXED BY by_file",
        (None, _) if filter.peer.is_some() => " INDEXED BY by_peer",
        (None, _) if filter.pinned == Some(true) => " INDEXED BY by_pinned",
        _ => "",
    };
    let sql = format!(
        "SELECT {COLUMNS} FROM sessions{lead} WHERE {} ORDER BY {sorted}{column} {direction}, id DESC, dir LIMIT {}",
        condition.parts.join(" AND "),
        row::clamp(ask.limit as u64).saturating_add(1)
    );
    (sql, condition.values)
}

/// The sessions that a name could mean, a bounded number for each way in which it could.
pub(crate) fn candidates(index: &Index, place: Place, name: &str) -> Asked<Vec<Indexed>> {
    let folded = name.to_lowercase();
    // A key has several spellings: a word alone is one, too.
    let key = name.parse::<Key>().map_or_else(|_| name.to_owned(), |key| key.to_string());
    // Each names its index (left alone, SQLite goes through all sessions of a place), and takes three values.
    let ways: [(&str, &str, &str); 6] = [
        ("by_id", "id = ?2", name),
        ("by_key_created", "key = ?2 AND state != 'mismatch' ORDER BY created_ms DESC, id DESC", &key),
        ("by_label", "label_folded = ?3 AND label = ?2", name),
        ("by_id", "id >= ?2 AND id < ?2 || char(1114111)", name),
        ("by_label", "label_folded >= ?3 AND label_folded < ?3 || char(1114111)", name),
        ("by_title", "title_folded >= ?3 AND title_folded < ?3 || char(1114111)", name),
    ];
    index.read(|connection| {
        let mut found: Vec<Indexed> = Vec::new();
        for (by, way, name) in ways {
            let sql = format!(
                "SELECT {COLUMNS} FROM sessions INDEXED BY {by} WHERE place = ?1 AND ?3 = ?3 AND {way} LIMIT {CANDIDATES}"
            );
            let mut statement = connection.prepare_cached(&sql)?;
            let mut rows = statement.query((place.number(), name, &folded))?;
            while let Some(columns) = rows.next()? {
                let indexed = row::entry(columns)?;
                if !found.iter().any(|other| other.number == indexed.number) {
                    found.push(indexed);
                }
            }
        }
        Ok(found)
    })
}

impl Index {
    /// The sessions of a key that can be used, most recently used first.
    pub(crate) fn of_key(&self, key: &str) -> Asked<Vec<Indexed>> {
        self.read(|connection| {
            let sql = format!(
                "SELECT {COLUMNS} FROM sessions INDEXED BY by_key WHERE place = 0 AND key = ?1 AND state = 'ok'
                 ORDER BY updated_ms DESC, id DESC LIMIT 2"
            );
            let mut statement = connection.prepare_cached(&sql)?;
            let mut rows = statement.query([key])?;
            let mut found = Vec::new();
            while let Some(columns) = rows.next()? {
                found.push(row::entry(columns)?);
            }
            Ok(found)
        })
    }

    /// The session of a key that was created last: its current one, even if its transcript is missing.
    pub(crate) fn current_of_key(&self, key: &str) -> Asked<Vec<Indexed>> {
        self.read(|connection| {
            let sql = format!(
                "SELECT {COLUMNS} FROM sessions INDEXED BY by_key_created
                 WHERE key = ?1 AND place = 0 AND state != 'mismatch' ORDER BY created_ms DESC, id DESC LIMIT 1"
            );
            let mut statement = connection.prepare_cached(&sql)?;
            let mut rows = statement.query([key])?;
            let mut found = Vec::new();
            while let Some(columns) = rows.next()? {
                found.push(row::entry(columns)?);
            }
            Ok(found)
        })
    }

    /// The newest rows of a directory whose snapshot is out of date, for each such directory.
    pub(crate) fn snapshots(&self, rows: usize) -> Asked<Vec<(crate::layout::AgentDir, Vec<Row>)>> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached("SELECT dir FROM dirs WHERE place = 0 AND changed = 1")?;
            let dirs: Vec<String> = statement.query_map((), |row| row.get(0))?.collect::<Result<_, _>>()?;
            let sql = format!(
                "SELECT {COLUMNS} FROM sessions INDEXED BY by_dir WHERE place = 0 AND dir = ?1
                 ORDER BY updated_ms DESC, id DESC LIMIT {rows}"
            );
            let mut statement = connection.prepare_cached(&sql)?;
            let mut snapshots = Vec::new();
            for dir in dirs {
                let mut newest = Vec::new();
                let mut rows = statement.query([&dir])?;
                while let Some(columns) = rows.next()? {
                    newest.push(row::entry(columns)?.entry.row);
                }
                snapshots.push((crate::layout::AgentDir::found(&dir), newest));
            }
            Ok(snapshots)
        })
    }

    /// Says that a directory's snapshot is up to date.
    pub(crate) fn snapshot_written(&self, dir: &crate::layout::AgentDir) -> Asked<()> {
        self.write(|connection| {
            connection.execute("UPDATE dirs SET changed = 0 WHERE place = 0 AND dir = ?1", [dir.as_str()])?;
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::schema;
    use crate::listing::Filter;

    /// How SQLite would go about it.
    fn plan(filter: Filter, sort: Sort) -> String {
        let connection = Connection::open_in_memory().unwrap();
        schema::prepare(&connection).unwrap();
        let (sql, values) =
            query(&ListQuery { filter, sort, ..ListQuery::default() }, &HashMap::from([((1, 2), String::new())]));
        let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let steps = statement.query_map(params_from_iter(values), |row| row.get::<_, String>(3)).unwrap();
        steps.collect::<Result<Vec<_>, _>>().unwrap().join("; ")
    }

    #[test]
    fn a_filter_leads_to_its_sessions_in_their_order() {
        let word = || Some("x".to_owned());
        let key = Filter { agent: word(), channel: word(), peer: word(), ..Filter::default() };
        for (filter, index) in [
            (Filter::default(), "by_updated"),
            (Filter { since_ms: Some(1), ..Filter::default() }, "by_updated"),
            (Filter { agent: word(), ..Filter::default() }, "by_agent"),
            (Filter { channel: word(), since_ms: Some(1), ..Filter::default() }, "by_channel"),
            (Filter { peer: word(), ..Filter::default() }, "by_peer"),
            (key.clone(), "by_peer"),
            (Filter { state: Some(Wanted::Damaged), ..Filter::default() }, "by_damage"),
            (Filter { state: Some(Wanted::Missing), ..Filter::default() }, "by_state"),
            (Filter { state: Some(Wanted::Unreadable), ..Filter::default() }, "by_state"),
            (Filter { state: Some(Wanted::Mismatch), ..Filter::default() }, "by_state"),
            (Filter { pinned: Some(true), agent: word(), ..Filter::default() }, "by_pinned"),
            (Filter { pinned: Some(false), ..Filter::default() }, "by_updated"),
        ] {
            let plan = plan(filter, Sort::Updated);
            assert!(plan.starts_with(&format!("SEARCH sessions USING INDEX {index} ")), "{index}: {plan}");
            // Sessions of the same moment and id are put in order; all others come in it.
            assert!(!plan.contains("TEMP B-TREE") || plan.contains("LAST TERM OF ORDER BY"), "{index}: {plan}");
        }
        for (filter, index) in [
            (Filter { label: word(), ..Filter::default() }, "by_label"),
            (Filter { state: Some(Wanted::Live), ..Filter::default() }, "by_file"),
        ] {
            let plan = plan(filter, Sort::Updated);
            assert!(plan.contains(&format!("SEARCH sessions USING INDEX {index} ")), "{index}: {plan}");
        }
        assert!(plan(Filter { agent: word(), ..Filter::default() }, Sort::Created).contains("INDEX by_created"));
        assert!(plan(Filter { pinned: Some(true), ..Filter::default() }, Sort::Bytes).contains("INDEX by_pinned"));
        assert!(plan(key, Sort::Created).contains("INDEX by_peer"));
    }
}
