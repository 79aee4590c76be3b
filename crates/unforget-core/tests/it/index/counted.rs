//! How much is looked at: what costs as much as there are sessions is counted here, not timed.

use std::sync::Arc;

use unforget_core::directory::OnMissing;
use unforget_core::layout::Place;
use unforget_core::listing::{Filter, ListQuery, Wanted};
use unforget_core::medium::Os;
use unforget_core::store::Store;

use super::Scene;
use unforget_testkit::counting::Counting;

const SESSIONS: usize = 400;
/// What an answer may cost however many sessions there are: the index itself is looked at before each use.
const ASKED: u64 = 200;
const OPENED: u64 = 60;

/// A catalog whose files are counted, with many sessions that the index knows.
fn many(scene: &Scene) -> (Counting, Store) {
    for n in 0..SESSIONS {
        scene.talk(&format!("main:cli:user{n}"), "hello").close().unwrap();
    }
    scene.catalog().all(Place::Agents, &mut |_, _| {}).unwrap();
    let counting = Counting::new(Os::new(&scene.home));
    let store = Store::builder(&scene.home).medium(Arc::new(counting.clone())).clock(scene.source.clone());
    (counting, store.open().unwrap())
}

fn peers(catalog: &Store, filter: Filter) -> Vec<String> {
    let (answer, _) = catalog.page(&ListQuery { filter, limit: 2, ..ListQuery::default() }, &mut |_, _| {}).unwrap();
    answer.value.entries.into_iter().map(|entry| entry.row.key.unwrap()).collect()
}

#[test]
fn a_session_that_came_has_no_other_file_asked_for() {
    let scene = Scene::new();
    let (counting, catalog) = many(&scene);
    scene.talk("main:cli:new", "hello").close().unwrap();
    let (asked, opened) = (counting.asked(), counting.opened());
    assert_eq!(peers(&catalog, Filter::default())[0], "main:cli:new");
    let (asked, opened) = (counting.asked() - asked, counting.opened() - opened);
    assert!(asked < ASKED && opened < OPENED, "{asked} asked, {opened} opened");
}

#[test]
fn a_session_that_went_has_no_other_file_asked_for() {
    let scene = Scene::new();
    let (counting, catalog) = many(&scene);
    let gone = catalog.resolve(Place::Agents, "main:cli:user7", &mut |_, _| {}).unwrap().value;
    std::fs::remove_file(scene.transcript(&gone)).unwrap();
    let asked = counting.asked();
    let missing = Filter { state: Some(Wanted::Missing), ..Filter::default() };
    assert_eq!(peers(&catalog, missing), ["main:cli:user7"]);
    let asked = counting.asked() - asked;
    assert!(asked < ASKED, "{asked} asked");
}

#[test]
fn a_chat_begins_and_goes_on_without_looking_at_other_sessions() {
    let scene = Scene::new();
    let (counting, catalog) = many(&scene);
    for peer in ["main:cli:user7", "main:cli:nobody"] {
        let (asked, opened) = (counting.asked(), counting.opened());
        let session = catalog.load(&peer.parse().unwrap(), OnMissing::Create).unwrap();
        assert_eq!(session.key().to_string(), peer);
        let (asked, opened) = (counting.asked() - asked, counting.opened() - opened);
        assert!(asked < ASKED && opened < OPENED, "{peer}: {asked} asked, {opened} opened");
    }
}
