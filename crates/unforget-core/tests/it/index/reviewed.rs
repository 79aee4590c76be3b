//! Sequences after which the index once said something else than the files: each was found by a review.

use std::io::Write as _;

use unforget_core::layout::Place;
use unforget_core::listing::ListQuery;
use unforget_core::retention::{self, Purge, Rules};
use unforget_core::search::{self, Filter, Query, SearchQuery};
use unforget_core::store::Reach;
use unforget_core::store::{Store, Way};

use super::Scene;

fn hits(catalog: &Store, words: &str) -> Vec<(String, u64, bool)> {
    let request = SearchQuery { query: Query::parse(words).unwrap(), filter: Filter::default(), limit: 100 };
    let scan = |places: &[search::Place]| search::scan(catalog.directory(), places, &request);
    let answer = catalog.search_with(&request, Way::Index, &scan, &mut |_, _| {}).unwrap().value;
    answer.hits.into_iter().map(|hit| (hit.place.id.to_string(), hit.n, hit.place.is_trashed)).collect()
}

/// Calls and tokens of all sessions.
fn spent(catalog: &Store) -> (u64, u64) {
    let mut sum = (0, 0);
    let visit = &mut |_, ledger: unforget_core::usage::Ledger| {
        sum.0 += ledger.total().calls;
        sum.1 += ledger.total().tokens.total();
    };
    catalog.spent(Reach::All, &mut |_, _| {}, visit).unwrap();
    sum
}

fn states(catalog: &Store, place: Place) -> Vec<(String, String, u64, u64)> {
    let page = catalog.page(&ListQuery { place, ..ListQuery::default() }, &mut |_, _| {}).unwrap().0.value;
    let state = |row: unforget_core::summary::Row| (row.id.clone(), row.state.name().to_owned(), row.bytes, row.damage);
    page.entries.into_iter().map(|entry| state(entry.row)).collect()
}

/// Takes everything in, and makes the directories old enough to be believed.
fn all_words(scene: &Scene) {
    for root in ["agents", "trash"] {
        for agent in std::fs::read_dir(scene.home.join(root)).into_iter().flatten() {
            let agent = agent.unwrap().path();
            let folder = if root == "agents" { agent.join("sessions") } else { agent };
            if let Ok(folder) = std::fs::File::open(folder) {
                folder.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
            }
        }
    }
    scene.catalog().page(&ListQuery::default(), &mut |_, _| {}).unwrap();
    assert!(scene.catalog().index().unwrap().take_in_words(&mut |_, _| true).unwrap());
}

#[test]
fn a_writer_that_could_not_leave_its_mark_is_still_seen_after_the_first_look() {
    let scene = Scene::new();
    scene.fill();
    all_words(&scene);
    let entry = scene.without_index().all(Place::Agents, &mut |_, _| {}).unwrap().value.pop().unwrap();
    let mut session = scene.catalog().directory().open(&entry).unwrap();
    {
        let blocker = rusqlite::Connection::open(scene.home.join("index.sqlite")).unwrap();
        blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
        session.save_turn("first", "[]").unwrap();
        assert!(scene.home.join("index.distrust").exists());
    }
    // Someone looks, and everything is compared once.
    all_words(&scene);
    assert_eq!(hits(&scene.catalog(), "first").len(), 1);
    // The writer goes on, and dies.
    session.save_turn("second", "[]").unwrap();
    drop(session);
    assert_eq!(hits(&scene.catalog(), "second"), hits(&scene.without_index(), "second"));
}

#[test]
fn a_session_that_was_deleted_and_purged_between_two_looks_is_not_missed() {
    let scene = Scene::new();
    scene.fill();
    all_words(&scene);
    let catalog = scene.catalog();
    let entry = catalog.resolve(Place::Agents, "main:cli:bob", &mut |_, _| {}).unwrap().value;
    catalog.directory().delete(&entry).unwrap();
    let mut survey = retention::survey(catalog.directory(), |_| {}).unwrap();
    let rules = Rules::default();
    let plan = retention::decide(catalog.directory(), &mut survey, &rules, &Purge::Asked(None), scene.source.now_ms());
    let outcome = retention::apply(catalog.directory(), &plan, &rules, |_| {}).unwrap();
    assert_eq!(outcome.deeds.len(), 1);
    assert_eq!(states(&scene.catalog(), Place::Agents), states(&scene.without_index(), Place::Agents));
}

#[test]
fn a_last_line_without_its_line_feed_is_counted() {
    let scene = Scene::new();
    scene.fill();
    all_words(&scene);
    let entry = scene.catalog().resolve(Place::Agents, "main:cli:bob", &mut |_, _| {}).unwrap().value;
    let line = r#"{"type":"turn","state":"done","model":"m","usage":{"input_tokens":3,"output_tokens":4}}"#;
    let mut file = std::fs::OpenOptions::new().append(true).open(scene.transcript(&entry)).unwrap();
    file.write_all(line.as_bytes()).unwrap();
    scene.catalog().page(&ListQuery::default(), &mut |_, _| {}).unwrap();
    assert_eq!(spent(&scene.catalog()), spent(&scene.without_index()));
    file.write_all(b"\n").unwrap();
    scene.catalog().page(&ListQuery::default(), &mut |_, _| {}).unwrap();
    assert_eq!(spent(&scene.catalog()), spent(&scene.without_index()));
}

#[test]
fn what_was_overwritten_in_place_with_as_many_bytes_is_read_anew() {
    let scene = Scene::new();
    scene.fill();
    all_words(&scene);
    let entry = scene.catalog().resolve(Place::Agents, "main:cli:bob", &mut |_, _| {}).unwrap().value;
    let path = scene.transcript(&entry);
    let text = std::fs::read_to_string(&path).unwrap().replace("bananas", "apricot");
    // The same file, as many editors write it.
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().write_all(text.as_bytes()).unwrap();
    assert_eq!(states(&scene.catalog(), Place::Agents), states(&scene.without_index(), Place::Agents));
    for word in ["bananas", "apricot"] {
        assert_eq!(hits(&scene.catalog(), word), hits(&scene.without_index(), word), "{word}");
    }
}

#[test]
fn a_session_that_was_deleted_imported_and_deleted_again_is_in_the_trash_once() {
    let scene = Scene::new();
    scene.fill();
    all_words(&scene);
    let catalog = scene.catalog();
    let entry = catalog.resolve(Place::Agents, "main:cli:bob", &mut |_, _| {}).unwrap().value;
    let path = scene.transcript(&entry);
    let bytes = std::fs::read(&path).unwrap();
    catalog.directory().delete(&entry).unwrap();
    all_words(&scene);
    std::fs::write(&path, &bytes).unwrap();
    all_words(&scene);
    let catalog = scene.catalog();
    let mut session = catalog.directory().open(&entry).unwrap();
    session.save_turn("coconut", "[]").unwrap();
    session.close().unwrap();
    all_words(&scene);
    catalog.directory().delete(&entry).unwrap();
    for place in [Place::Agents, Place::Trash] {
        assert_eq!(states(&scene.catalog(), place), states(&scene.without_index(), place), "{place:?}");
    }
    for word in ["bananas", "coconut"] {
        assert_eq!(hits(&scene.catalog(), word), hits(&scene.without_index(), word), "{word}");
    }
    assert_eq!(spent(&scene.catalog()), spent(&scene.without_index()));
}

#[test]
fn a_transcript_that_was_replaced_by_another_file_is_read() {
    let scene = Scene::new();
    scene.fill();
    all_words(&scene);
    let entry = scene.catalog().resolve(Place::Agents, "main:cli:bob", &mut |_, _| {}).unwrap().value;
    let path = scene.transcript(&entry);
    let text = std::fs::read_to_string(&path).unwrap() + "{\"type\":\"user\",\"content\":\"durian\"}\n";
    // As `sed -i`, `rsync` and restored backups do it.
    std::fs::write(path.with_extension("new"), text).unwrap();
    std::fs::rename(path.with_extension("new"), &path).unwrap();
    assert_eq!(hits(&scene.catalog(), "durian"), hits(&scene.without_index(), "durian"));
}

#[test]
fn an_import_that_carries_a_session_on_tells_the_index() {
    let scene = Scene::new();
    scene.fill();
    all_words(&scene);
    let catalog = scene.catalog();
    let entry = catalog.resolve(Place::Agents, "main:cli:bob", &mut |_, _| {}).unwrap().value;
    let elsewhere = tempfile::tempdir().unwrap();
    // The same session, carried on in another home, without the index of this one.
    let other = elsewhere.path().join("other");
    let name = scene.without_index().directory().path(&entry).unwrap();
    std::fs::create_dir_all(other.join(name.parent().unwrap())).unwrap();
    std::fs::copy(scene.transcript(&entry), other.join(&name)).unwrap();
    let there = unforget_core::directory::Directory::new(
        std::sync::Arc::new(unforget_core::medium::Os::new(&other)),
        scene.source.clone(),
        unforget_core::log::Durability::PowerLoss,
    );
    there
        .load(&"main:cli:bob".parse().unwrap(), unforget_core::directory::OnMissing::Fail)
        .unwrap()
        .save_turn("elderberry", "[]")
        .unwrap();
    let candidate = unforget_core::import::Candidate { path: name, ..Default::default() };
    let listing = catalog.directory().list().unwrap();
    let outcome = unforget_core::import::import(
        catalog.directory(),
        &listing,
        &unforget_core::medium::Os::new(&other),
        &candidate,
    )
    .unwrap();
    assert!(matches!(outcome, unforget_core::import::Outcome::Updated { .. }), "{outcome:?}");
    assert_eq!(hits(&scene.catalog(), "elderberry"), hits(&scene.without_index(), "elderberry"));
}

#[test]
fn a_mark_that_cannot_be_left_beside_a_busy_thread_is_made_up_for() {
    let scene = Scene::new();
    scene.fill();
    all_words(&scene);
    let catalog = scene.catalog();
    let entry = catalog.resolve(Place::Agents, "main:cli:bob", &mut |_, _| {}).unwrap().value;
    let mut session = catalog.directory().open(&entry).unwrap();
    // A thread of the same process that is in a transaction: it waits for another process there.
    let blocker = rusqlite::Connection::open(scene.home.join("index.sqlite")).unwrap();
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
    let index = catalog.index().unwrap().clone();
    let touched = unforget_core::observer::Touched {
        dir: entry.dir.clone(),
        id: session.id().clone(),
        token: "another".to_owned(),
    };
    let thread = std::thread::spawn(move || index.update(&touched, unforget_core::observer::Ending::Open).is_err());
    session.save_turn("fig", "[]").unwrap();
    assert!(scene.home.join("index.distrust").exists(), "the turn did not wait for the other process");
    assert!(thread.join().unwrap());
    drop(blocker);
    assert_eq!(hits(&scene.catalog(), "fig"), hits(&scene.without_index(), "fig"));
}

#[test]
fn a_fork_and_an_import_make_the_payloads_young_that_they_refer_to() {
    let (home, store) = crate::support::disk_store();
    let mut session = store.create(&"main:cli:ada".parse().unwrap(), None).unwrap();
    session.append(&[unforget_core::record::Draft::user(&"long ".repeat(100_000))]).unwrap();
    drop(session);
    let entry = store.list().unwrap().entries.remove(0);
    let path = home.path().join("home").join(store.path(&entry).unwrap());
    let blobs = walk(&home.path().join("home/blobs"));
    let age = || {
        for blob in &blobs {
            std::fs::File::open(blob).unwrap().set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        }
    };
    let is_young =
        || blobs.iter().all(|blob| blob.metadata().unwrap().modified().unwrap().elapsed().unwrap().as_secs() < 60);
    assert!(!blobs.is_empty() && is_young());
    age();
    unforget_core::fork::fork(&store, &entry, unforget_core::fork::Wish::default()).unwrap();
    assert!(is_young(), "a fork");
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::rename(path, elsewhere.path().join("x.jsonl")).unwrap();
    age();
    let candidate = unforget_core::import::Candidate { path: "x.jsonl".into(), ..Default::default() };
    let from = unforget_core::medium::Os::new(elsewhere.path());
    let outcome = unforget_core::import::import(&store, &store.list().unwrap(), &from, &candidate).unwrap();
    assert!(matches!(outcome, unforget_core::import::Outcome::Imported { .. }), "{outcome:?}");
    assert!(is_young(), "an import");
}

fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

#[test]
fn a_key_is_found_however_it_is_spelled() {
    let scene = Scene::new();
    scene.fill();
    scene.talk("main:cli:zoe", "bob is a name").close().unwrap();
    for name in ["bob", "main:cli:b%6Fb", "main:cli:bob"] {
        let resolve = |catalog: &Store| {
            catalog.resolve(Place::Agents, name, &mut |_, _| {}).map(|it| it.value.row.key).map_err(|it| it.to_string())
        };
        assert_eq!(resolve(&scene.catalog()), resolve(&scene.without_index()), "{name}");
        assert_eq!(resolve(&scene.catalog()), Ok(Some("main:cli:bob".to_owned())), "{name}");
    }
}
