//! Everything that can be asked, asked of both.

use std::collections::BTreeSet;

use unforget_core::directory::Entry;
use unforget_core::error::Error;
use unforget_core::history::Limits;
use unforget_core::key::Key;
use unforget_core::layout::Place;
use unforget_core::listing::{self, ListQuery, Sort, Wanted};
use unforget_core::retention::Pattern;
use unforget_core::search::{self, Query, Role, SearchQuery, Trash};
use unforget_core::store::{Store, Way};

use super::super::sessions::{Hit, Meant, Row, What};
use super::super::vocabulary::{NAMES, QUERIES};
use super::{KEYS, TOOL, World, entry};

/// More hits than a life has.
const ALL: usize = 1000;
/// One of how many questions of a kind is asked each time; over some comparisons all of them are.
const ONE_OF: usize = 4;

impl World {
    /// Some of the questions of a kind, others each time.
    fn some<T>(&self, questions: impl IntoIterator<Item = T>) -> impl Iterator<Item = T> {
        let one_of = if self.is_ending { 1 } else { ONE_OF };
        let turn = self.turn % one_of;
        questions.into_iter().enumerate().filter(move |(at, _)| at % one_of == turn).map(|(_, question)| question)
    }

    /// Asks both processes everything.
    pub(in super::super) fn compare_everything(&mut self) {
        self.is_ending = true;
        self.compare(0);
        self.compare(1);
    }

    /// Asks one process, and the files without an index.
    pub(in super::super) fn compare(&mut self, who: usize) {
        self.turn += 1;
        let with = &self.processes[who];
        let without = Store::builder(self.home()).clock(self.source.clone()).without_index().open().unwrap();
        // What is asked first brings the index up to date for the rest, so that everything comes first at some time.
        let mut questions: [&dyn Fn(&Store); 3] =
            [&|catalog| self.lists(catalog), &|catalog| self.names(catalog), &|catalog| self.searches(catalog)];
        questions.rotate_left(self.turn % 3);
        for question in questions {
            question(with);
        }
        for question in questions {
            question(&without);
        }
        for is_trashed in [false, true] {
            for catalog in [with, &without] {
                let all = catalog.all(place(is_trashed), &mut |_, _| {}).unwrap().value;
                assert_eq!(rows(&all), self.model.rows(is_trashed), "all");
            }
        }
    }

    fn lists(&self, catalog: &Store) {
        let text = |text: &str| Some(text.to_owned());
        let (since, until) = (super::BEGINNING + 6000, super::BEGINNING + 40_000_000);
        type Takes<'t> = Box<dyn Fn(&Row) -> bool + 't>;
        let filters: [(listing::Filter, Takes<'_>); 8] = [
            (listing::Filter::default(), Box::new(|_| true)),
            (
                listing::Filter { agent: text("work"), ..Default::default() },
                Box::new(|row| row.key.starts_with("work:")),
            ),
            (
                listing::Filter { channel: text("cli"), peer: text("ann"), ..Default::default() },
                Box::new(|row| row.key.ends_with(":cli:ann")),
            ),
            (
                listing::Filter { since_ms: Some(since), until_ms: Some(until), ..Default::default() },
                Box::new(|row| (since..=until).contains(&row.updated_ms)),
            ),
            (
                listing::Filter { label: text(NAMES[0]), ..Default::default() },
                Box::new(|row| row.label.as_deref() == Some(NAMES[0])),
            ),
            (listing::Filter { pinned: Some(true), ..Default::default() }, Box::new(|row| row.pinned)),
            (listing::Filter { pinned: Some(false), ..Default::default() }, Box::new(|row| !row.pinned)),
            (
                listing::Filter { state: Some(Wanted::Live), ..Default::default() },
                Box::new(|row| !row.is_trashed && self.open.contains_key(&row.id)),
            ),
        ];
        for is_trashed in [false, true] {
            for (filter, takes) in self.some(&filters) {
                let mut expected = self.model.rows(is_trashed);
                expected.retain(|row| takes(row));
                let ask =
                    ListQuery { place: place(is_trashed), filter: filter.clone(), limit: 3, ..ListQuery::default() };
                assert_eq!(walk(catalog, ask.clone()), expected, "{ask:?}");
            }
            for sort in self.some([Sort::Created, Sort::Title, Sort::Turns, Sort::Tokens, Sort::Bytes]) {
                let mut expected = self.model.rows(is_trashed);
                expected.sort_by(|a, b| {
                    let order = match sort {
                        Sort::Updated => a.updated_ms.cmp(&b.updated_ms),
                        Sort::Created => a.created_ms.cmp(&b.created_ms),
                        Sort::Title => {
                            let title = |row: &Row| row.title.as_ref().map(|title| title.to_lowercase());
                            title(b).cmp(&title(a))
                        }
                        Sort::Turns => a.turns.cmp(&b.turns),
                        Sort::Tokens => a.tokens.cmp(&b.tokens),
                        Sort::Bytes => self.bytes(a).cmp(&self.bytes(b)),
                    };
                    order.reverse().then_with(|| b.id.cmp(&a.id))
                });
                let ask = ListQuery { place: place(is_trashed), sort, limit: 2, ..ListQuery::default() };
                assert_eq!(walk(catalog, ask), expected, "{sort:?}");
            }
        }
    }

    fn bytes(&self, row: &Row) -> u64 {
        let at = self.model.position(&row.id, row.is_trashed).unwrap();
        std::fs::metadata(self.path_of(&self.model.sessions[at])).unwrap().len()
    }

    fn names(&self, catalog: &Store) {
        let ids = self.model.sessions.iter().map(|session| session.id.as_str());
        let names = KEYS.into_iter().chain(NAMES).chain(["KE", "q1", "0190", "nobody"]).chain(ids);
        for name in self.some(names) {
            for is_trashed in [false, true] {
                let meant = match catalog.resolve(place(is_trashed), name, &mut |_, _| {}) {
                    Ok(answer) => Meant::One(answer.value.row.id),
                    Err(Error::NotFound { .. }) => Meant::Nobody,
                    Err(Error::Ambiguous { candidates, .. }) => {
                        let id = |candidate: &String| candidate.split(' ').next().unwrap().to_owned();
                        Meant::Several(candidates.iter().map(id).collect())
                    }
                    Err(error) => panic!("{name}: {error}"),
                };
                assert_eq!(meant, self.model.meant(is_trashed, name), "{name}, trashed: {is_trashed}");
            }
        }
        for key in self.some(KEYS) {
            let last = catalog.last_used(&key.parse::<Key>().unwrap(), &mut |_, _| {}).unwrap().value;
            assert_eq!(last.map(|entry| entry.row.id), self.model.last_used(key), "{key}");
        }
    }

    fn searches(&self, catalog: &Store) {
        for (text, finds) in self.some(QUERIES) {
            let expected: BTreeSet<Hit> = self.model.sessions.iter().flat_map(|it| it.hits(finds)).collect();
            self.found(catalog, text, search::Filter::default(), &expected);
        }
        let (text, finds) = QUERIES[0];
        let all = |takes: &dyn Fn(&super::Session, &Hit) -> bool| -> BTreeSet<Hit> {
            let hits = |session: &super::Session| {
                session.hits(finds).into_iter().filter(|hit| takes(session, hit)).collect::<Vec<_>>()
            };
            self.model.sessions.iter().flat_map(hits).collect()
        };
        let pattern = |text: &str| Some(Pattern::parse(text).unwrap());
        let since = super::BEGINNING + 20_000;
        let filters = [
            (search::Filter { trash: Trash::LeftOut, ..Default::default() }, all(&|session, _| !session.is_trashed)),
            (
                search::Filter { roles: vec![Role::User, Role::Title], ..Default::default() },
                all(&|_, hit| ["user", "title"].contains(&hit.4)),
            ),
            (
                search::Filter { tool: Some(TOOL.to_owned()), ..Default::default() },
                all(&|_, hit| ["tool_use", "tool_result"].contains(&hit.4)),
            ),
            (search::Filter { key: pattern(KEYS[0]), ..Default::default() }, all(&|session, _| session.key == KEYS[0])),
            (
                search::Filter { key: pattern("*:web:*"), ..Default::default() },
                all(&|session, _| session.key == KEYS[2]),
            ),
            (search::Filter { key: pattern("*"), ..Default::default() }, all(&|_, _| true)),
            (
                search::Filter { channel: Some("web".to_owned()), ..Default::default() },
                all(&|session, _| session.key == KEYS[2]),
            ),
            (
                search::Filter { since_ms: Some(since), ..Default::default() },
                all(&|session, hit| session.records[usize::try_from(hit.1).unwrap()].ms >= since),
            ),
        ];
        for (filter, expected) in self.some(filters) {
            self.found(catalog, text, filter, &expected);
        }
    }

    fn found(&self, catalog: &Store, text: &str, filter: search::Filter, expected: &BTreeSet<Hit>) {
        let request = SearchQuery { query: Query::parse(text).unwrap(), filter, limit: ALL };
        let scan = |places: &[search::Place]| search::scan(catalog.directory(), places, &request);
        let answer = catalog.search_with(&request, Way::Index, &scan, &mut |_, _| {}).unwrap().value;
        let hit = |hit: &search::Hit| {
            (hit.place.id.to_string(), hit.n, hit.place.is_trashed, hit.is_abandoned, hit.role.name())
        };
        let found: Vec<Hit> = answer.hits.iter().map(hit).collect();
        let set: BTreeSet<Hit> = found.iter().cloned().collect();
        assert_eq!(set.len(), found.len(), "{text}: something was found twice");
        assert_eq!(set, *expected, "{text}, {:?}", request.filter);
        for hit in &answer.hits {
            let at = self.model.position(hit.place.id.as_str(), hit.place.is_trashed).unwrap();
            let row = self.model.sessions[at].row();
            assert_eq!((hit.key.as_ref(), hit.title.as_ref()), (Some(&row.key), row.title.as_ref()), "{text}");
        }
    }

    /// What would be sent from each session now.
    pub(in super::super) fn compare_histories(&self) {
        for session in &self.model.sessions {
            let history = self.processes[0].directory().history(&entry(session), &Limits::default()).unwrap().history;
            let sent: serde_json::Value = serde_json::from_str(&history.to_json()).unwrap();
            let mut marks = Vec::new();
            collect_marks(&sent, &mut marks);
            // An imported answer says its words twice.
            marks.dedup();
            let mut expected = session.history();
            expected.dedup();
            assert_eq!(marks, expected, "{session:?}");
            assert!(session.records.iter().all(|record| !matches!(record.what, What::Turn { .. }) || record.is_step()));
        }
    }
}

/// The marks of all texts, in order.
fn collect_marks(value: &serde_json::Value, marks: &mut Vec<String>) {
    match value {
        serde_json::Value::String(text) => {
            let is_mark = |word: &&str| {
                word.strip_prefix('Q').is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
            };
            marks.extend(text.split_whitespace().filter(is_mark).map(str::to_owned));
        }
        serde_json::Value::Array(values) => values.iter().for_each(|value| collect_marks(value, marks)),
        serde_json::Value::Object(members) => members.values().for_each(|value| collect_marks(value, marks)),
        _ => {}
    }
}

fn place(is_trashed: bool) -> Place {
    if is_trashed { Place::Trash } else { Place::Agents }
}

/// All pages, one after the other.
fn walk(catalog: &Store, mut ask: ListQuery) -> Vec<Row> {
    let mut found = Vec::new();
    loop {
        let page = catalog.page(&ask, &mut |_, _| {}).unwrap().0.value;
        assert!(page.entries.len() <= ask.limit && found.len() < ALL, "{ask:?}");
        found.extend(rows(&page.entries));
        let Some(next) = page.next else { return found };
        ask.after = listing::Cursor::parse(&next.to_text());
    }
}

fn rows(entries: &[Entry]) -> Vec<Row> {
    let row = |entry: &Entry| {
        let row = entry.row.clone();
        let is_trashed = match row.state.name() {
            "ok" => false,
            "deleted" => true,
            other => panic!("{} is {other}", row.id),
        };
        Row {
            id: row.id,
            key: row.key.unwrap(),
            is_trashed,
            label: row.label,
            title: row.title,
            created_ms: row.created_ms.unwrap(),
            updated_ms: row.updated_ms.unwrap(),
            turns: row.turns,
            records: row.records,
            tokens: row.tokens,
            head: row.head,
            expires: row.expires,
            pinned: row.pinned,
            damage: row.damage,
        }
    };
    entries.iter().map(row).collect()
}
