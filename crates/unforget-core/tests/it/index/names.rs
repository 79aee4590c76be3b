//! Files of the index that are deleted, or replaced by others, under those who have them open.

use unforget_core::observer::Ending;
use unforget_core::search::{self, Query, SearchQuery};
use unforget_core::store::{Store, Way};

use super::Scene;

const NAMES: [&str; 3] = ["index.sqlite", "index.sqlite-wal", "index.sqlite-shm"];

fn hits(catalog: &Store, text: &str) -> Vec<(String, u64)> {
    let request = SearchQuery { query: Query::parse(text).unwrap(), filter: search::Filter::default(), limit: 1000 };
    let scan = |places: &[search::Place]| search::scan(catalog.directory(), places, &request);
    let answer = catalog.search_with(&request, Way::Index, &scan, &mut |_, _| {}).unwrap().value;
    answer.hits.iter().map(|hit| (hit.place.id.to_string(), hit.n)).collect()
}

fn delete(scene: &Scene, which: usize) {
    for (at, name) in NAMES.iter().enumerate() {
        if which >> at & 1 == 1 && scene.home.join(name).exists() {
            std::fs::remove_file(scene.home.join(name)).unwrap();
        }
    }
}

/// Makes the directories old enough to be believed, so that nothing but marks leads to what was written.
fn age(scene: &Scene) {
    for agent in ["main", "work"] {
        let folder = std::fs::File::open(scene.home.join("agents").join(agent).join("sessions")).unwrap();
        folder.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    }
}

#[test]
fn whichever_files_are_deleted_under_a_writer_its_words_are_found() {
    for which in 1..8 {
        let scene = Scene::new();
        scene.fill();
        age(&scene);
        let entry = scene.same().remove(3);
        let (writer, other) = (scene.catalog(), scene.catalog());
        writer.index().unwrap().take_in_words(&mut |_, _| true).unwrap();
        let mut session = writer.directory().open(&entry).unwrap();
        session.save_turn("walrus", "[]").unwrap();
        assert_eq!(hits(&other, "walrus").len(), 1, "{which:03b}");
        delete(&scene, which);
        // The mark was in a file that is gone. Someone who comes now has to find the writer nevertheless, and so has who was there.
        session.save_turn("octopus", "[]").unwrap();
        for (who, catalog) in [("new", &scene.catalog()), ("old", &other), ("own", &writer)] {
            assert_eq!(hits(catalog, "octopus").len(), 1, "{which:03b}: {who}");
        }
        // An index that lost its files writes nothing into the one that took its place.
        delete(&scene, which);
        writer.index().unwrap().update(session.touched().unwrap(), Ending::Open).unwrap_or_default();
        session.save_turn("narwhal", "[]").unwrap();
        drop(session);
        for catalog in [&other, &scene.catalog(), &writer] {
            assert_eq!(hits(catalog, "walrus OR octopus OR narwhal").len(), 3, "{which:03b}");
            scene.same_by(catalog, &scene.without_index());
        }
        other.index().unwrap().take_in_words(&mut |_, _| true).unwrap();
        scene.same();
        assert_eq!(other.index().unwrap().examine(other.directory()).unwrap(), Vec::<String>::new(), "{which:03b}");
    }
}

#[test]
fn a_log_that_is_deleted_after_a_crash_is_missed() {
    let scene = Scene::new();
    scene.fill();
    age(&scene);
    let entry = scene.same().remove(3);
    // A process that is killed closes nothing: the mark is in the log alone.
    let killed = scene.catalog();
    let mut session = killed.directory().open(&entry).unwrap();
    session.save_turn("walrus", "[]").unwrap();
    let mut copy = Vec::new();
    for name in NAMES {
        copy.push((name, std::fs::read(scene.home.join(name)).unwrap()));
    }
    let seal = std::fs::read(scene.home.join("catalog.lock")).unwrap();
    drop((session, killed));
    for (name, bytes) in copy {
        std::fs::write(scene.home.join(name), bytes).unwrap();
    }
    std::fs::write(scene.home.join("catalog.lock"), seal).unwrap();
    delete(&scene, 0b110);
    let notes = scene.notes();
    assert!(notes.unusable.iter().any(|(_, why)| why.contains("log")), "{notes:?}");
    assert_eq!(hits(&scene.catalog(), "walrus").len(), 1);
    scene.same();
}

#[test]
fn an_older_index_that_is_put_in_place_does_not_get_the_log_of_the_newer() {
    let scene = Scene::new();
    scene.fill();
    age(&scene);
    let entry = scene.same().remove(3);
    let (path, old) = (scene.home.join("index.sqlite"), scene.home.join("old"));
    std::fs::copy(&path, &old).unwrap();
    for n in 0..20 {
        scene.talk("main:cli:zoe", &format!("seal {n}")).close().unwrap();
    }
    age(&scene);
    scene.same();
    let catalog = scene.catalog();
    let mut session = catalog.directory().open(&entry).unwrap();
    session.save_turn("walrus", "[]").unwrap();
    assert!(scene.home.join(NAMES[1]).exists());
    std::fs::rename(&old, &path).unwrap();
    session.save_turn("octopus", "[]").unwrap();
    for catalog in [&scene.catalog(), &catalog] {
        assert_eq!((hits(catalog, "walrus OR octopus").len(), hits(catalog, "seal").len()), (2, 20));
        scene.same_by(catalog, &scene.without_index());
    }
}

#[test]
fn an_index_that_was_closed_needs_no_log() {
    let scene = Scene::new();
    scene.fill();
    scene.same();
    assert!(!scene.home.join("index.sqlite-wal").exists(), "the last one out takes it over");
    assert_eq!((scene.reads(), scene.notes().unusable), (0, vec![]));
    // Nor one that another program removed when it had looked.
    let looked = rusqlite::Connection::open(scene.home.join("index.sqlite")).unwrap();
    looked.query_row("SELECT count(*) FROM sessions", (), |row| row.get::<_, i64>(0)).unwrap();
    drop(looked);
    assert_eq!((scene.reads(), scene.notes().unusable), (0, vec![]));
}

/// Whether an index was put out of the way.
fn has_remnant(scene: &Scene) -> bool {
    let mut names =
        std::fs::read_dir(&scene.home).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.any(|name| name.starts_with("index.sqlite.bad-"))
}

#[test]
fn whoever_is_killed_while_the_log_is_taken_over_leaves_a_whole_index() {
    use std::os::unix::fs::MetadataExt as _;
    let scene = Scene::new();
    scene.fill();
    scene.same();
    let seal = scene.home.join("catalog.lock");
    let catalog = scene.catalog();
    scene.same_by(&catalog, &scene.without_index());
    let together = std::fs::read_to_string(&seal).unwrap();
    drop(catalog);
    assert_eq!(std::fs::read_to_string(&seal).unwrap(), "clean\n");
    assert!(!scene.home.join(NAMES[1]).exists());
    let inode = || std::fs::metadata(scene.home.join(NAMES[0])).unwrap().ino();
    let before = inode();
    // The log was removed, and that was not written down any more.
    std::fs::write(&seal, format!("closing {together}")).unwrap();
    scene.same();
    assert!(!has_remnant(&scene) && inode() == before, "it was good");
    // Without that word the log is missing, and of another database it says nothing.
    for wrong in [together.clone(), format!("closing 1{together}")] {
        std::fs::write(&seal, &wrong).unwrap();
        assert!(!scene.notes().unusable.is_empty(), "{wrong}");
        scene.same();
    }
}

#[test]
fn whoever_is_killed_while_an_index_is_made_leaves_nothing_to_put_aside() {
    let scene = Scene::new();
    scene.fill();
    std::fs::write(scene.home.join("catalog.lock"), "new\n").unwrap();
    std::fs::write(scene.home.join(NAMES[0]), "half of a first page").unwrap();
    scene.same();
    assert!(!has_remnant(&scene));
    assert_eq!(std::fs::read_to_string(scene.home.join("catalog.lock")).unwrap(), "clean\n");
}
