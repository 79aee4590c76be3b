//! Disks that are slow, that fail for a while, or that do not tell who locks what; and words that were heard too early.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use unforget_core::doctor::{self, Mode};
use unforget_core::index::Depth;
use unforget_core::layout::Place;
use unforget_core::listing::ListQuery;
use unforget_core::medium::{Access, FileKind, Handle, Medium, Os, Stat};
use unforget_core::observer::Ending;
use unforget_core::search::{self, Query, SearchQuery};
use unforget_core::store::Reach;
use unforget_core::store::{Store, Way};

use super::Scene;
use super::damage::{settle, sql};

type Hook = Box<dyn FnMut(&Path) -> io::Result<()> + Send>;

/// A disk with something between it and whoever opens a file, and that does not tell who has which lock.
struct Odd {
    os: Os,
    hook: Arc<Mutex<Hook>>,
}

impl std::fmt::Debug for Odd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Odd").field("os", &self.os).finish_non_exhaustive()
    }
}

impl Medium for Odd {
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn Handle>> {
        (self.hook.lock().unwrap())(path)?;
        self.os.open(path, access)
    }
    fn stat(&self, path: &Path) -> io::Result<Stat> {
        self.os.stat(path)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<(String, FileKind)>> {
        self.os.list(dir)
    }
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.os.create_dir(dir)
    }
    fn replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.os.replace(from, to)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.os.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.os.remove(path)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.os.sync_dir(dir)
    }
    fn set_mode(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.os.set_mode(path, mode)
    }
    fn lock_holder(&self, _: &Stat) -> Option<String> {
        None
    }
    fn lock_holders(&self) -> Option<HashMap<(u64, u64), String>> {
        None
    }
    fn root(&self) -> PathBuf {
        self.os.root()
    }
}

/// The catalog of a scene on such a disk.
fn odd(scene: &Scene, hook: Hook) -> (Store, Arc<Mutex<Hook>>) {
    let hook = Arc::new(Mutex::new(hook));
    let medium = Arc::new(Odd { os: Os::new(&scene.home), hook: hook.clone() });
    (Store::builder(&scene.home).medium(medium).clock(scene.source.clone()).unopened(), hook)
}

fn nothing() -> Hook {
    Box::new(|_| Ok(()))
}

fn hits(catalog: &Store, text: &str) -> usize {
    let request = SearchQuery { query: Query::parse(text).unwrap(), filter: search::Filter::default(), limit: 1000 };
    let scan = |places: &[search::Place]| search::scan(catalog.directory(), places, &request);
    catalog.search_with(&request, Way::Index, &scan, &mut |_, _| {}).unwrap().value.hits.len()
}

/// Makes the directories old enough to be believed.
fn age(scene: &Scene, folder: &str) {
    let folder = std::fs::File::open(scene.home.join(folder)).unwrap();
    folder.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
}

#[test]
fn where_the_system_does_not_tell_of_locks_a_new_index_finds_writers_all_the_same() {
    let scene = Scene::new();
    scene.fill();
    age(&scene, "agents/main/sessions");
    let entry = scene.same().remove(3);
    let mut session = scene.catalog().directory().open(&entry).unwrap();
    session.save_turn("walrus", "[]").unwrap();
    let (catalog, _) = odd(&scene, nothing());
    catalog.index().unwrap().set_aside().unwrap();
    assert_eq!(hits(&catalog, "walrus"), 1);
    catalog.index().unwrap().take_in_words(&mut |_, _| true).unwrap();
    // Its mark was in the other index, and it leaves no other.
    session.save_turn("octopus", "[]").unwrap();
    assert_eq!(hits(&catalog, "octopus"), 1);
}

#[test]
fn an_index_that_takes_the_place_of_another_in_the_middle_of_a_look_is_not_told_that_it_knows_everything() {
    let scene = Scene::new();
    scene.fill();
    for agent in ["main", "work"] {
        age(&scene, &format!("agents/{agent}/sessions"));
    }
    let before = scene.same();
    // Everything is compared; one session has grown and is read.
    let line = "{\"type\":\"user\",\"content\":\"walrus\"}\n";
    let mut file = std::fs::OpenOptions::new().append(true).open(scene.transcript(&before[0])).unwrap();
    std::io::Write::write_all(&mut file, line.as_bytes()).unwrap();
    let home = scene.home.clone();
    let mut is_deleted = false;
    let hook: Hook = Box::new(move |opened| {
        if !is_deleted && opened.extension().is_some_and(|extension| extension == "jsonl") {
            is_deleted = true;
            std::fs::remove_file(home.join("index.sqlite"))?;
        }
        Ok(())
    });
    let (catalog, _) = odd(&scene, hook);
    let ids = |entries: &[unforget_core::directory::Entry]| {
        entries.iter().map(|entry| entry.row.id.clone()).collect::<std::collections::BTreeSet<_>>()
    };
    let all = catalog.all(Place::Agents, &mut |_, _| {}).unwrap().value;
    assert_eq!(ids(&all), ids(&before));
    let page = |catalog: &Store| catalog.page(&ListQuery::default(), &mut |_, _| {}).unwrap().0.value.entries;
    assert_eq!((ids(&page(&catalog)), ids(&page(&scene.catalog()))), (ids(&before), ids(&before)));
    // Also by whoever does not look a second time.
    let (catalog, _) = odd(&scene, nothing());
    std::io::Write::write_all(&mut file, line.as_bytes()).unwrap();
    let mut is_deleted = false;
    let looked = catalog.index().unwrap().catch_up(catalog.directory(), Depth::Everything, &mut |_, _| {
        if !std::mem::replace(&mut is_deleted, true) {
            std::fs::remove_file(scene.home.join("index.sqlite")).unwrap();
        }
    });
    assert!(looked.is_err(), "{looked:?}");
    assert_eq!(ids(&page(&scene.catalog())), ids(&before));
}

#[test]
fn nobody_waits_for_the_index_while_a_transcript_is_read() {
    let scene = Scene::new();
    scene.fill();
    let entry = scene.same().remove(3);
    let path = scene.home.join("index.sqlite");
    let looks = Arc::new(Mutex::new(0));
    let (count, database) = (looks.clone(), path.clone());
    let hook: Hook = Box::new(move |opened| {
        if opened.extension().is_some_and(|extension| extension == "jsonl") {
            // Another process that has something to write at this very moment.
            let other = rusqlite::Connection::open(&database).map_err(io::Error::other)?;
            other.busy_timeout(std::time::Duration::ZERO).map_err(io::Error::other)?;
            other.execute_batch("BEGIN IMMEDIATE; ROLLBACK").map_err(io::Error::other)?;
            *count.lock().unwrap() += 1;
        }
        Ok(())
    });
    let (catalog, _) = odd(&scene, hook);
    let mut session = scene.catalog().directory().open(&entry).unwrap();
    for text in ["walrus", "octopus"] {
        session.save_turn(text, "[]").unwrap();
        let before = *looks.lock().unwrap();
        catalog.index().unwrap().update(session.touched().unwrap(), Ending::Open).unwrap();
        assert!(*looks.lock().unwrap() > before, "it was read");
    }
    // A mark, and then a row that is found to be old when it is shown.
    session.save_turn("narwhal", "[]").unwrap();
    let row =
        |catalog: &Store| catalog.page(&ListQuery::default(), &mut |_, _| {}).unwrap().0.value.entries[0].row.clone();
    assert_eq!((row(&catalog).turns, row(&catalog).state.name()), (4, "ok"));
    drop(session);
    sql(&path, "DELETE FROM dirty");
    let line = "{\"type\":\"user\",\"content\":\"from elsewhere\"}\n";
    let mut file = std::fs::OpenOptions::new().append(true).open(scene.transcript(&entry)).unwrap();
    std::io::Write::write_all(&mut file, line.as_bytes()).unwrap();
    assert_eq!((row(&catalog).turns, row(&catalog).state.name()), (5, "ok"));
}

#[test]
fn a_deleted_session_that_could_not_be_read_is_looked_at_again() {
    let scene = Scene::new();
    scene.fill();
    let entry = scene.catalog().resolve(Place::Agents, "main:cli:bob", &mut |_, _| {}).unwrap().value;
    scene.catalog().directory().delete(&entry).unwrap();
    age(&scene, "trash/main");
    let failing: Hook = Box::new(|path| match path.starts_with("trash/main") {
        true if path.extension().is_some_and(|extension| extension == "jsonl") => Err(io::Error::from_raw_os_error(5)),
        _ => Ok(()),
    });
    let (catalog, hook) = odd(&scene, failing);
    let deleted = |catalog: &Store| catalog.all(Place::Trash, &mut |_, _| {}).unwrap().value;
    let page = |catalog: &Store| {
        let ask = ListQuery { place: Place::Trash, ..ListQuery::default() };
        catalog.page(&ask, &mut |_, _| {}).unwrap().0.value.entries
    };
    let titles = |entries: Vec<unforget_core::directory::Entry>| {
        entries.into_iter().map(|entry| (entry.row.state.name(), entry.row.title)).collect::<Vec<_>>()
    };
    assert_eq!(titles(deleted(&catalog)), [("deleted", None)]);
    let unread = catalog.spent(Reach::All, &mut |_, _| {}, &mut |_, _| {}).unwrap().value;
    assert_eq!(unread.len(), 1, "{unread:?}");
    // Neither the directory nor the file changes when the disk works again.
    *hook.lock().unwrap() = nothing();
    assert_eq!(page(&catalog), scene.without_index().directory().deleted().unwrap());
    assert!(titles(page(&catalog))[0].1.is_some());
    assert_eq!(catalog.spent(Reach::All, &mut |_, _| {}, &mut |_, _| {}).unwrap().value, vec![]);
    scene.same();
}

#[test]
fn words_that_were_heard_before_they_were_forgotten_are_not_written() {
    let scene = Scene::new();
    scene.fill();
    let entry = scene.same().remove(0);
    let path = scene.transcript(&entry);
    let other = scene.catalog();
    let mut calls = 0;
    let finished = scene.catalog().index().unwrap().take_in_words(&mut |_, _| {
        calls += 1;
        if calls == 2 {
            // The newest session was heard. Its file is changed in place, and someone notices.
            let text = std::fs::read_to_string(&path).unwrap().replace("dates", "figs!");
            let mut file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
            std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
            other.all(Place::Agents, &mut |_, _| {}).unwrap();
        }
        true
    });
    assert!(finished.unwrap() && calls >= 4);
    assert_eq!((hits(&other, "dates"), hits(&other, "figs")), (0, 1));
}

#[test]
fn the_doctor_finds_what_is_wrong_with_the_index_and_puts_it_aside() {
    let harms = [
        ("a column", "UPDATE sessions SET agent = 'other' WHERE key = 'main:cli:bob'"),
        ("a checksum", "UPDATE sessions SET crc = crc + 1 WHERE key = 'main:cli:bob'"),
        ("a proof", "UPDATE proofs SET total = total + 1"),
        ("a row that is gone", "DELETE FROM sessions WHERE key = 'main:cli:bob'"),
        (
            "a tree",
            "PRAGMA writable_schema = on; UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema WHERE name = 'by_id') WHERE name = 'by_created'",
        ),
    ];
    for (what, harm) in harms {
        let scene = Scene::new();
        scene.fill();
        for agent in ["main", "work"] {
            age(&scene, &format!("agents/{agent}/sessions"));
        }
        scene.same();
        let examine = |mode| {
            doctor::examine(scene.catalog().directory(), scene.catalog().index(), mode, |_| {}).unwrap().findings
        };
        assert_eq!(examine(Mode::Look), vec![], "{what}");
        settle(&scene);
        sql(&scene.home.join("index.sqlite"), harm);
        let found = examine(Mode::Look);
        assert_eq!(found.len(), 1, "{what}: {found:?}");
        assert!(found[0].subject == "index.sqlite" && found[0].advice.contains("index --rebuild"), "{what}: {found:?}");
        let fixed = examine(Mode::Fix);
        assert!(fixed.len() == 1 && fixed[0].fixed, "{what}: {fixed:?}");
        assert_eq!(examine(Mode::Look), vec![], "{what}");
        scene.same();
        assert_eq!(examine(Mode::Look), vec![], "{what}");
    }
}
