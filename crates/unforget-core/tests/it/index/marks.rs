//! Writers say what they are about to change, and a list finds out, whoever dies when.

use unforget_core::layout::Place;
use unforget_core::listing::{Filter, ListQuery, Wanted};

use super::Scene;

fn marks(scene: &Scene) -> Vec<String> {
    let connection = rusqlite::Connection::open(scene.home.join("index.sqlite")).unwrap();
    let mut statement = connection.prepare("SELECT id FROM dirty").unwrap();
    statement.query_map((), |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
}

#[test]
fn a_mark_is_there_before_the_first_append_and_goes_with_a_clean_end() {
    let scene = Scene::new();
    scene.fill();
    let entry = scene.same().remove(0);
    assert_eq!(marks(&scene), Vec::<String>::new());
    let mut session = scene.catalog().directory().open(&entry).unwrap();
    assert_eq!(marks(&scene), Vec::<String>::new(), "opening changes nothing");
    session.save_turn("now", "[]").unwrap();
    assert_eq!(marks(&scene), vec![entry.row.id.clone()]);
    session.close().unwrap();
    assert_eq!(marks(&scene), Vec::<String>::new());
    assert_eq!(scene.reads(), 0);
}

#[test]
fn a_writer_that_dies_leaves_its_mark_until_someone_looks() {
    let scene = Scene::new();
    scene.fill();
    let entry = scene.same().remove(0);
    let mut session = scene.catalog().directory().open(&entry).unwrap();
    session.save_turn("last words", "[]").unwrap();
    drop(session);
    assert_eq!(marks(&scene).len(), 1);
    assert_eq!(scene.same()[0].row.turns, 2);
    assert_eq!(marks(&scene), Vec::<String>::new());
}

#[test]
fn a_writer_that_lives_keeps_its_mark_and_is_shown_as_live() {
    let scene = Scene::new();
    scene.fill();
    let entry = scene.same().remove(2);
    let mut session = scene.catalog().directory().open(&entry).unwrap();
    session.save_turn("here", "[]").unwrap();
    scene.same();
    assert_eq!(marks(&scene).len(), 1);
    let ask = ListQuery { filter: Filter { state: Some(Wanted::Live), ..Filter::default() }, ..ListQuery::default() };
    let (page, holders) = scene.catalog().page(&ask, &mut |_, _| {}).unwrap();
    assert_eq!(page.value.entries.iter().map(|it| &it.row.id).collect::<Vec<_>>(), [&entry.row.id]);
    assert!(holders.values().any(|holder| holder.starts_with(&format!("process {}", std::process::id()))));
}

#[test]
fn a_new_index_finds_writers_that_marked_the_old_one() {
    let scene = Scene::new();
    scene.fill();
    let entry = scene.same().remove(3);
    let mut session = scene.catalog().directory().open(&entry).unwrap();
    session.save_turn("before", "[]").unwrap();
    for name in ["index.sqlite", "index.sqlite-wal", "index.sqlite-shm"] {
        std::fs::remove_file(scene.home.join(name)).unwrap_or_default();
    }
    scene.same();
    session.save_turn("after", "[]").unwrap();
    let entries = scene.catalog().all(Place::Agents, &mut |_, _| {}).unwrap().value;
    assert_eq!(entries[0].row.id, entry.row.id, "it moved to the top although nobody told the new index");
    assert_eq!(entries[0].row.turns, 3);
    drop(session);
    scene.same();
    assert_eq!(marks(&scene), Vec::<String>::new());
}

#[test]
fn one_writers_end_does_not_take_the_next_ones_mark() {
    let scene = Scene::new();
    scene.fill();
    let entry = scene.same().remove(0);
    let mut first = scene.catalog().directory().open(&entry).unwrap();
    first.save_turn("one", "[]").unwrap();
    let touched = first.touched().unwrap().clone();
    drop(first);
    let mut second = scene.catalog().directory().open(&entry).unwrap();
    second.save_turn("two", "[]").unwrap();
    let catalog = scene.catalog();
    catalog.index().unwrap().update(&touched, unforget_core::observer::Ending::Closed).unwrap();
    assert_eq!(marks(&scene), vec![entry.row.id.clone()], "a late goodbye");
    second.save_turn("three", "[]").unwrap();
    assert_eq!(scene.same()[0].row.turns, 4);
}
