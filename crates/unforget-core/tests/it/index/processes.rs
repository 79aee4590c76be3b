//! Several processes at once, and an index that one of them keeps to itself.

use std::process::Command;

use unforget_core::import::{self, Candidate, Outcome};
use unforget_core::index::Index;
use unforget_core::layout::Place;
use unforget_core::listing::{Filter, ListQuery, Wanted};
use unforget_core::medium::Os;
use unforget_core::record::Draft;
use unforget_core::search::{self, Query, SearchQuery};
use unforget_core::store::{Store, Way};

use super::Scene;
use super::damage::settle;

/// How often each of them does something.
const STEPS: usize = 12;
const WRITERS: usize = 3;
/// How often the locks are looked at.
const LOOKS: usize = 500;
/// Tells a process of the test which home to work on, and as whom.
const HOME: &str = "UNFORGET_TEST_HOME";
const WHO: &str = "UNFORGET_TEST_WHO";

fn hits(catalog: &Store, text: &str, way: Way) -> Vec<(String, u64)> {
    let request = SearchQuery { query: Query::parse(text).unwrap(), filter: search::Filter::default(), limit: 1000 };
    let scan = |places: &[search::Place]| search::scan(catalog.directory(), places, &request);
    let answer = catalog.search_with(&request, way, &scan, &mut |_, _| {}).unwrap().value;
    let mut hits: Vec<_> = answer.hits.iter().map(|hit| (hit.place.id.to_string(), hit.n)).collect();
    hits.sort();
    hits
}

/// Deletes files of the index, whoever has them open: all of them, or some.
fn delete(scene: &Scene, choice: usize) {
    let names = ["index.sqlite", "index.sqlite-wal", "index.sqlite-shm"];
    for (at, name) in names.iter().enumerate() {
        if [0b111, 0b001, 0b010, 0b100, 0b011, 0b110, 0b101][choice % 7] >> at & 1 == 1 {
            match std::fs::remove_file(scene.home.join(name)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => panic!("{error}"),
                _ => {}
            }
        }
    }
}

/// One life: turns in a session of its own, and questions in between.
fn work(scene: &Scene, who: usize) {
    let catalog = scene.catalog();
    let key = format!("main:cli:writer{who}").parse().unwrap();
    let mut session = catalog.directory().create(&key, None).unwrap();
    for step in 0..STEPS {
        session.save_turn(&format!("walrus number {step} of {who}"), "[]").unwrap();
        if (step + 2 * who).is_multiple_of(5) {
            delete(scene, step + who);
        }
        let own = session.id().to_string();
        match (step + who) % 4 {
            0 => {
                let page =
                    catalog.page(&ListQuery { limit: 50, ..ListQuery::default() }, &mut |_, _| {}).unwrap().0.value;
                let row = page.entries.iter().find(|entry| entry.row.id == own).unwrap();
                assert_eq!(row.row.turns, step as u64 + 1, "what was written is seen by its writer");
            }
            1 => {
                let found = hits(&catalog, "walrus", Way::Index);
                assert_eq!(found.iter().filter(|(id, _)| *id == own).count(), step + 1);
            }
            // Someone else may be writing it, or have deleted it: then it is done another time.
            2 => drop(catalog.index().unwrap().take_in_words(&mut |_, _| true)),
            _ => {
                drop(
                    catalog.index().unwrap().update(session.touched().unwrap(), unforget_core::observer::Ending::Open),
                );
            }
        }
    }
    if who.is_multiple_of(2) {
        drop(session.close());
    }
}

/// At the end the index says what the files say.
#[track_caller]
fn assert_settled(scene: &Scene, writers: usize) {
    let (with, without) = (scene.catalog(), scene.without_index());
    let found = hits(&with, "walrus", Way::Index);
    assert_eq!(found, hits(&without, "walrus", Way::Scan));
    assert_eq!(found.len(), writers * STEPS);
    assert_eq!(scene.same().len(), writers);
    with.index().unwrap().take_in_words(&mut |_, _| true).unwrap();
    assert_eq!(hits(&with, "walrus", Way::Index), found);
    assert_eq!(scene.reads(), 0);
}

#[test]
fn threads_that_write_list_and_search_at_once_get_right_answers() {
    let scene = Scene::new();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WRITERS)
            .map(|who| {
                let scene = &scene;
                scope.spawn(move || work(scene, who))
            })
            .collect();
        for worker in workers {
            worker.join().unwrap();
        }
    });
    assert_settled(&scene, WRITERS);
}

#[test]
fn processes_that_write_list_and_search_at_once_get_right_answers() {
    // This test is also what the processes run that it starts.
    if let (Some(home), Some(who)) = (std::env::var_os(HOME), std::env::var(WHO).ok()) {
        let who: usize = who.parse().unwrap();
        work(&Scene::at(home.into(), 1_000_000 * (who as u64 + 1)), who);
        return;
    }
    let scene = Scene::new();
    let name = "index::processes::processes_that_write_list_and_search_at_once_get_right_answers";
    let processes: Vec<_> = (0..WRITERS)
        .map(|who| {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args([name, "--exact", "--nocapture"]).env(HOME, &scene.home).env(WHO, who.to_string());
            command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for process in processes {
        let output = process.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
    }
    assert_settled(&scene, WRITERS);
}

#[test]
fn with_the_index_locked_every_answer_is_right_and_a_writer_tries_once() {
    let scene = Scene::new();
    scene.fill();
    let before = scene.same();
    settle(&scene);
    let other = rusqlite::Connection::open(scene.home.join("index.sqlite")).unwrap();
    other.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; UPDATE dirs SET changed = 1").unwrap();
    let mut session = scene.catalog().directory().open(&before[3]).unwrap();
    session.save_turn("a walrus", "[]").unwrap();
    let distrust = scene.home.join("index.distrust");
    assert!(distrust.exists(), "what could not be marked is distrusted");
    std::fs::remove_file(&distrust).unwrap();
    for _ in 0..5 {
        session.save_turn("a walrus", "[]").unwrap();
    }
    assert!(!distrust.exists(), "only the first append asks for the index");
    std::fs::write(&distrust, "").unwrap();
    assert_eq!(hits(&scene.catalog(), "walrus", Way::Index).len(), 6);
    assert_eq!(scene.catalog().page(&ListQuery::default(), &mut |_, _| {}).unwrap().0.value.entries[0].row.turns, 7);
    let named = scene.catalog().resolve(Place::Agents, "main:cli:bob", &mut |_, _| {}).unwrap().value;
    assert_eq!(named.row.key.as_deref(), Some("main:cli:bob"));
    drop(other);
}

#[test]
fn a_writer_that_could_not_leave_its_mark_is_found_while_it_goes_on() {
    let scene = Scene::new();
    scene.fill();
    let before = scene.same();
    let other = rusqlite::Connection::open(scene.home.join("index.sqlite")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut session = scene.catalog().directory().open(&before[3]).unwrap();
    session.save_turn("a walrus", "[]").unwrap();
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(hits(&scene.catalog(), "walrus", Way::Index).len(), 1);
    let catalog = scene.catalog();
    catalog.index().unwrap().take_in_words(&mut |_, _| true).unwrap();
    // It was distrusted once; its writer still writes, and will never ask again.
    session.save_turn("an octopus", "[]").unwrap();
    assert_eq!(hits(&scene.catalog(), "octopus", Way::Index).len(), 1);
    let ask = ListQuery { limit: 1, ..ListQuery::default() };
    let page = scene.catalog().page(&ask, &mut |_, _| {}).unwrap().0.value;
    assert_eq!(page.entries[0].row.id, before[3].row.id);
}

#[test]
fn a_session_that_an_import_carried_on_is_found() {
    let scene = Scene::new();
    scene.fill();
    let entry = scene.same().remove(3);
    let path = scene.transcript(&entry);
    let short = std::fs::read(&path).unwrap();
    let mut session = scene.catalog().directory().open(&entry).unwrap();
    session.save_turn("a walrus", "[]").unwrap();
    drop(session);
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(&path, folder.path().join("copy.jsonl")).unwrap();
    std::fs::write(&path, short).unwrap();
    scene.same();
    let catalog = scene.catalog();
    catalog.index().unwrap().take_in_words(&mut |_, _| true).unwrap();
    let candidate = Candidate { path: "copy.jsonl".into(), ..Candidate::default() };
    let listing = catalog.directory().list().unwrap();
    let outcome = import::import(catalog.directory(), &listing, &Os::new(folder.path()), &candidate).unwrap();
    assert!(matches!(outcome, Outcome::Updated { .. }), "{outcome:?}");
    assert_eq!(hits(&scene.catalog(), "walrus", Way::Index).len(), 1);
}

#[test]
fn a_session_deleted_imported_and_deleted_again_is_in_the_trash_once() {
    let scene = Scene::new();
    scene.fill();
    let entry = scene.same().remove(0);
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(scene.transcript(&entry), folder.path().join("copy.jsonl")).unwrap();
    let store = scene.catalog().directory().clone();
    store.delete(&entry).unwrap();
    scene.same();
    let candidate = Candidate { path: "copy.jsonl".into(), ..Candidate::default() };
    import::import(&store, &store.list().unwrap(), &Os::new(folder.path()), &candidate).unwrap();
    assert_eq!(scene.same().len(), 4);
    store.delete(&entry).unwrap();
    assert_eq!(scene.same().len(), 3);
}

#[test]
fn every_lock_is_seen_however_many_come_and_go() {
    let scene = Scene::new();
    scene.fill();
    let entry = scene.same().remove(0);
    let mut session = scene.catalog().directory().open(&entry).unwrap();
    session.append(&[Draft::title("held")]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let is_done = std::sync::atomic::AtomicBool::new(false);
    let live = Filter { state: Some(Wanted::Live), ..Filter::default() };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Other programs' locks, taken and given back all the time.
            let files: Vec<_> =
                (0..8).map(|n| std::fs::File::create(folder.path().join(n.to_string())).unwrap()).collect();
            while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                for file in &files {
                    file.lock().unwrap();
                }
                for file in &files {
                    file.unlock().unwrap();
                }
            }
        });
        let catalog = scene.catalog();
        let ask = ListQuery { filter: live, ..ListQuery::default() };
        let seen =
            (0..LOOKS).filter(|_| catalog.page(&ask, &mut |_, _| {}).unwrap().0.value.entries.len() == 1).count();
        is_done.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(seen, LOOKS);
    });
}

/// A second index on the same file, as another part of a program may have one.
#[test]
fn two_indexes_of_one_process_share_the_file() {
    let scene = Scene::new();
    scene.fill();
    let (one, two) = (scene.catalog(), scene.catalog());
    let path = |catalog: &Store| catalog.index().map(|index: &std::sync::Arc<Index>| index.path()).unwrap();
    assert_eq!(path(&one), path(&two));
    for round in 0..4_usize {
        let entry = scene.same().remove(3);
        let catalog = if round % 2 == 0 { &one } else { &two };
        let mut session = catalog.directory().open(&entry).unwrap();
        session.save_turn("walrus", "[]").unwrap();
        session.close().unwrap();
        for catalog in [&one, &two] {
            assert_eq!(hits(catalog, "walrus", Way::Index).len(), round + 1);
        }
        one.index().unwrap().take_in_words(&mut |_, _| true).unwrap();
    }
}
