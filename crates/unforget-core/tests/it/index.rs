//! The index says what the files say: whatever happened to the sessions, and whatever happened to it.

use std::path::Path;
use std::sync::Arc;

use unforget_core::directory::{Entry, OnMissing};
use unforget_core::key::Key;
use unforget_core::layout::Place;
use unforget_core::listing::{Filter, ListQuery, Page, Sort, Wanted};
use unforget_core::record::Draft;
use unforget_core::session::Session;
use unforget_core::stamp::Source;
use unforget_core::store::{Notes, Store};
use unforget_core::summary::State;

use crate::support::Ticking;

mod counted;
mod damage;
mod guarded;
mod marks;
mod names;
mod processes;
mod reviewed;
mod usage;
mod words;

/// A home directory with sessions, seen through an index and without one.
pub(crate) struct Scene {
    _folder: Option<tempfile::TempDir>,
    pub(crate) home: std::path::PathBuf,
    pub(crate) source: Arc<dyn Source>,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        Self { _folder: Some(folder), home, source: Arc::new(Ticking::default()) }
    }

    /// As another process sees it, with ids of its own.
    pub(crate) fn at(home: std::path::PathBuf, ids: u64) -> Self {
        Self { _folder: None, home, source: Arc::new(Ticking::counting_from(ids)) }
    }

    /// As another process would open it.
    pub(crate) fn catalog(&self) -> Store {
        Store::builder(&self.home).clock(self.source.clone()).open().unwrap()
    }

    pub(crate) fn without_index(&self) -> Store {
        Store::builder(&self.home).clock(self.source.clone()).without_index().open().unwrap()
    }

    pub(crate) fn talk(&self, key: &str, words: &str) -> Session {
        let key: Key = key.parse().unwrap();
        let mut session = self.catalog().directory().create(&key, None).unwrap();
        session.save_turn(words, r#"[{"type":"text","text":"yes"}]"#).unwrap();
        session
    }

    /// Some sessions, closed.
    pub(crate) fn fill(&self) {
        for (key, words) in [("main:cli:ann", "apples"), ("main:cli:bob", "bananas"), ("work:web:ann", "cherries")] {
            self.talk(key, words).close().unwrap();
        }
        let mut titled = self.talk("main:cli:ann", "dates");
        titled.append(&[Draft::title("Zebra"), Draft::label(None, "keep")]).unwrap();
        titled.close().unwrap();
    }

    /// That both say the same, and what they say.
    #[track_caller]
    pub(crate) fn same(&self) -> Vec<Entry> {
        let (with, without) = (self.catalog(), self.without_index());
        self.same_by(&with, &without)
    }

    #[track_caller]
    pub(crate) fn same_by(&self, with: &Store, without: &Store) -> Vec<Entry> {
        for place in [Place::Agents, Place::Trash] {
            let all = |catalog: &Store| catalog.all(place, &mut |_, _| {}).unwrap().value;
            assert_eq!(all(with), all(without), "{place:?}");
            for ask in asks(place) {
                assert_eq!(page(with, &ask), page(without, &ask), "{ask:?}");
            }
        }
        for name in ["main:cli:ann", "main:cli:bob", "keep", "KE", "zeb", "App", "0190", "nobody", ""] {
            let resolve = |catalog: &Store| {
                let found = catalog.resolve(Place::Agents, name, &mut |_, _| {});
                found.map(|answer| answer.value).map_err(|error| error.to_string())
            };
            assert_eq!(resolve(with), resolve(without), "{name}");
        }
        let key: Key = "main:cli:ann".parse().unwrap();
        let last = |catalog: &Store| catalog.last_used(&key, &mut |_, _| {}).unwrap().value;
        assert_eq!(last(with), last(without));
        with.all(Place::Agents, &mut |_, _| {}).unwrap().value
    }

    pub(crate) fn notes(&self) -> Notes {
        self.catalog().page(&ListQuery::default(), &mut |_, _| {}).unwrap().0.notes
    }

    /// The paths of the transcripts that a list has to read.
    pub(crate) fn reads(&self) -> usize {
        let mut count = 0;
        self.catalog().page(&ListQuery::default(), &mut |_, _| count += 1).unwrap();
        count
    }

    pub(crate) fn transcript(&self, entry: &Entry) -> std::path::PathBuf {
        self.home.join(self.without_index().directory().path(entry).unwrap())
    }
}

fn page(catalog: &Store, ask: &ListQuery) -> Page {
    catalog.page(ask, &mut |_, _| {}).unwrap().0.value
}

fn asks(place: Place) -> Vec<ListQuery> {
    let text = |text: &str| Some(text.to_owned());
    let filters = [
        Filter::default(),
        Filter { agent: text("main"), ..Filter::default() },
        Filter { channel: text("web"), peer: text("ann"), ..Filter::default() },
        Filter { since_ms: Some(1_767_225_610_000), until_ms: Some(1_767_225_640_000), ..Filter::default() },
        Filter { label: text("keep"), ..Filter::default() },
        Filter { state: Some(Wanted::Ok), ..Filter::default() },
        Filter { state: Some(Wanted::Damaged), ..Filter::default() },
        Filter { state: Some(Wanted::Missing), ..Filter::default() },
    ];
    let sorts = [Sort::Updated, Sort::Created, Sort::Title, Sort::Turns, Sort::Tokens, Sort::Bytes];
    let sorted = sorts.into_iter().map(|sort| ListQuery { place, sort, limit: 2, ..ListQuery::default() });
    filters.into_iter().map(|filter| ListQuery { place, filter, ..ListQuery::default() }).chain(sorted).collect()
}

#[test]
fn the_index_says_what_the_files_say() {
    let scene = Scene::new();
    assert_eq!(scene.same(), []);
    assert!(!scene.home.exists(), "a list of nothing leaves nothing behind");
    scene.fill();
    assert_eq!(scene.same().len(), 4);
    let store = scene.without_index().directory().clone();
    let entry = scene.same().remove(1);
    store.delete(&entry).unwrap();
    assert_eq!(scene.same().len(), 3);
    store.undelete(&store.deleted().unwrap()[0]).unwrap();
    assert_eq!(scene.same().len(), 4);
    std::fs::remove_file(scene.transcript(&entry)).unwrap();
    let missing = |entries: Vec<Entry>| entries.iter().filter(|entry| entry.row.state == State::Missing).count();
    let catalog = scene.catalog();
    assert_eq!(missing(catalog.all(Place::Agents, &mut |_, _| {}).unwrap().value), 1);
    catalog.refresh().unwrap();
    assert_eq!(missing(scene.same()), 1, "the snapshot remembers it, too");
}

#[test]
fn without_the_index_the_answers_are_the_same() {
    let scene = Scene::new();
    scene.fill();
    let before = scene.same();
    for name in ["index.sqlite", "index.sqlite-wal", "index.sqlite-shm"] {
        let path = scene.home.join(name);
        if path.exists() {
            std::fs::remove_file(path).unwrap();
        }
    }
    assert_eq!(scene.same(), before);
}

#[test]
fn pages_follow_each_other_whatever_they_are_sorted_by() {
    let scene = Scene::new();
    for n in 0..23 {
        let mut session = scene.talk("main:cli:ann", &format!("topic {}", n % 5));
        for _ in 0..n % 3 {
            session.save_turn("more", "[]").unwrap();
        }
        session.close().unwrap();
    }
    for sort in [Sort::Updated, Sort::Created, Sort::Title, Sort::Turns, Sort::Tokens, Sort::Bytes] {
        for catalog in [scene.catalog(), scene.without_index()] {
            let whole = page(&catalog, &ListQuery { sort, limit: 100, ..ListQuery::default() });
            let mut pieces = Vec::new();
            let mut ask = ListQuery { sort, limit: 4, ..ListQuery::default() };
            loop {
                let piece = page(&catalog, &ask);
                pieces.extend(piece.entries);
                let Some(next) = piece.next else { break };
                ask.after = unforget_core::listing::Cursor::parse(&next.to_text());
                assert!(ask.after.is_some() && pieces.len() < 100);
            }
            assert_eq!((pieces.len(), whole.entries), (23, pieces.clone()), "{sort:?}");
        }
    }
}

#[test]
fn a_list_reads_only_what_changed() {
    let scene = Scene::new();
    scene.fill();
    assert_eq!(scene.reads(), 0, "the writers told");
    std::fs::remove_file(scene.home.join("index.sqlite")).unwrap();
    assert_eq!(scene.reads(), 4);
    assert_eq!(scene.reads(), 0);
    let entry = scene.same().remove(0);
    let mut session = scene.catalog().directory().open(&entry).unwrap();
    session.save_turn("more", "[]").unwrap();
    assert_eq!(scene.same()[0].row.turns, 2, "while it is being written");
    session.save_turn("and more", "[]").unwrap();
    assert_eq!(scene.same()[0].row.turns, 3);
    drop(session);
    assert_eq!(scene.same()[0].row.turns, 3);
}

#[test]
fn a_session_that_lost_its_end_is_told() {
    let scene = Scene::new();
    scene.fill();
    let entry = scene.same().remove(0);
    let path = scene.transcript(&entry);
    let bytes = std::fs::read(&path).unwrap();
    let cut = bytes[..bytes.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    std::fs::write(&path, &bytes[..cut]).unwrap();
    let records = entry.row.records;
    assert_eq!(
        scene.notes().shortened.iter().map(|note| (note.1, note.2)).collect::<Vec<_>>(),
        [(records, records - 1)]
    );
    assert_eq!(scene.notes().shortened, [], "once");
    scene.same();
}

#[test]
fn lines_that_a_stranger_added_are_seen_on_the_page() {
    let scene = Scene::new();
    scene.fill();
    let entry = scene.same().remove(3);
    let line = "{\"type\":\"user\",\"content\":\"from elsewhere\"}\n{\"type\":\"user\",\"content\":\"cut o";
    let mut file = std::fs::OpenOptions::new().append(true).open(scene.transcript(&entry)).unwrap();
    std::io::Write::write_all(&mut file, line.as_bytes()).unwrap();
    let row = scene.same().into_iter().find(|other| other.row.id == entry.row.id).unwrap().row;
    assert_eq!((row.turns, row.damage), (2, 1));
    std::io::Write::write_all(&mut file, b"ff\"}\n").unwrap();
    let row = scene.same().into_iter().find(|other| other.row.id == entry.row.id).unwrap().row;
    assert_eq!((row.turns, row.damage), (3, 0), "the rest of the line came");
}

#[test]
fn a_key_leads_to_the_session_created_last_and_the_chat_to_the_one_used_last() {
    let scene = Scene::new();
    scene.fill();
    let key: Key = "main:cli:ann".parse().unwrap();
    let catalog = scene.catalog();
    let oldest = catalog.all(Place::Agents, &mut |_, _| {}).unwrap().value.pop().unwrap();
    let mut session = catalog.directory().open(&oldest).unwrap();
    session.save_turn("again", "[]").unwrap();
    session.close().unwrap();
    let last = catalog.last_used(&key, &mut |_, _| {}).unwrap().value.unwrap();
    assert_eq!(last.row.id, oldest.row.id);
    let current = catalog.resolve(Place::Agents, "main:cli:ann", &mut |_, _| {}).unwrap().value;
    assert_eq!(current.row.title.as_deref(), Some("Zebra"));
    assert_eq!(catalog.load(&key, OnMissing::Fail).unwrap().id().as_str(), current.row.id);
}

/// All files beneath a folder, by name.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
