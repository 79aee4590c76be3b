//! The words in the index: whatever happened to a session or to the tables, a search finds what a reading of the files finds.

use std::path::Path;

use unforget_core::directory::Entry;
use unforget_core::fork::{Wish, fork};
use unforget_core::json::quote;
use unforget_core::layout::Place;
use unforget_core::record::Draft;
use unforget_core::search::{self, Query, SearchQuery};
use unforget_core::store::{Store, Way};

use super::damage::{HARMS, settle, sql};
use super::{Scene, names};

/// What is asked, in English, Chinese, Japanese, Korean, code and mixed, and how many records say it.
const TABLE: [(&str, usize); 26] = [
    ("connection", 3),
    ("Connections", 0),
    ("connect*", 3),
    ("\"connection refused\"", 1),
    ("\"refused connection\"", 0),
    ("connection -refused", 1),
    ("timeout OR refused", 2),
    ("(timeout OR refused) 8080", 1),
    ("grusse", 1),
    ("GRÜSSE", 1),
    ("数据库", 2),
    ("数据", 2),
    ("据库连", 1),
    ("数据库 连接", 1),
    ("東京", 2),
    ("京都", 2),
    ("ガス", 1),
    ("검색", 1),
    ("어검", 1),
    ("parse_record", 1),
    ("parseRecord", 1),
    ("record", 2),
    ("xml http", 1),
    ("src/main.rs", 1),
    ("我用Python3", 1),
    ("🎉", 1),
];

/// What is said; each a turn of a session of its own, so that some can be in the index and others not.
const SAID: [&str; 12] = [
    "the connection was refused by port 8080",
    "connection refused again, then a timeout",
    "my connection is fine, viele Grüße",
    "数据库连接失败了",
    "请部署数据库",
    "東京都に行きます。ガスは止めた",
    "東京と京都は遠い",
    "한국어검색 테스트",
    "fn parse_record(line) in src/main.rs",
    "parseRecord and XMLHttpRequest",
    "我用Python3写代码",
    "done 🎉",
];

fn request(text: &str) -> SearchQuery {
    SearchQuery { query: Query::parse(text).unwrap(), filter: search::Filter::default(), limit: 100 }
}

fn ask(catalog: &Store, text: &str, way: Way) -> search::Answer {
    let request = request(text);
    let scan = |places: &[search::Place]| search::scan(catalog.directory(), places, &request);
    catalog.search_with(&request, way, &scan, &mut |_, _| {}).unwrap().value
}

/// That both ways find the same, in the same order, and how much.
#[track_caller]
fn same(scene: &Scene, text: &str) -> usize {
    let found = ask(&scene.catalog(), text, Way::Index);
    assert_eq!(found, ask(&scene.without_index(), text, Way::Scan), "{text}");
    found.hits.len()
}

fn take_in(scene: &Scene, mut sessions: usize) -> bool {
    let catalog = scene.catalog();
    catalog.all(Place::Agents, &mut |_, _| {}).unwrap();
    let go_on = &mut |_: &Path, _| {
        sessions = sessions.saturating_sub(1);
        sessions > 0
    };
    catalog.index().unwrap().take_in_words(go_on).unwrap()
}

/// How many sessions are searched without reading them.
fn searched(scene: &Scene) -> i64 {
    let connection = rusqlite::Connection::open(scene.home.join("index.sqlite")).unwrap();
    let sql = "SELECT count(*) FROM sessions WHERE texted = bytes";
    connection.query_row(sql, (), |row| row.get(0)).unwrap()
}

fn said(scene: &Scene) {
    for text in SAID {
        scene.talk("main:cli:ann", text).close().unwrap();
    }
}

fn newest(scene: &Scene) -> Entry {
    scene.catalog().all(Place::Agents, &mut |_, _| {}).unwrap().value.remove(0)
}

/// Another content, and a time that no file had before.
fn rewrite(path: &Path, bytes: &[u8], second: u64) {
    std::fs::write(path, bytes).unwrap();
    let time = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_500_000_000 + second);
    std::fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

#[test]
fn a_search_finds_the_same_with_all_some_or_none_of_the_words_in_the_index() {
    let scene = Scene::new();
    said(&scene);
    let table = |what: &str| {
        for (text, count) in TABLE {
            assert_eq!(same(&scene, text), count, "{what}: {text}");
        }
    };
    table("none");
    // Whoever ends the work early leaves what was done.
    for sessions in [1, 5, 3] {
        let before = searched(&scene);
        assert!(!take_in(&scene, sessions + 1));
        assert_eq!(searched(&scene), before + sessions as i64);
        table("some");
    }
    assert!(take_in(&scene, usize::MAX));
    assert_eq!(searched(&scene), SAID.len() as i64);
    table("all");
}

#[test]
fn hits_follow_a_session_wherever_it_goes() {
    let scene = Scene::new();
    scene.fill();
    assert!(take_in(&scene, usize::MAX));
    let entry = newest(&scene);
    let path = scene.transcript(&entry);
    assert_eq!((same(&scene, "dates"), same(&scene, "walrus")), (1, 0));
    // It grows.
    let mut session = scene.catalog().directory().open(&entry).unwrap();
    session.save_turn("a walrus", "[]").unwrap();
    assert_eq!(same(&scene, "walrus"), 1);
    session.close().unwrap();
    assert!(take_in(&scene, usize::MAX));
    assert_eq!((same(&scene, "walrus"), searched(&scene)), (1, 4));
    // It is forked.
    fork(scene.catalog().directory(), &entry, Wish::default()).unwrap();
    assert_eq!(same(&scene, "walrus"), 2);
    assert!(take_in(&scene, usize::MAX));
    assert_eq!(same(&scene, "walrus"), 2);
    // It is deleted, and comes back.
    scene.catalog().directory().delete(&entry).unwrap();
    assert_eq!(same(&scene, "dates"), 2);
    assert!(ask(&scene.catalog(), "dates", Way::Index).hits.iter().any(|hit| hit.place.is_trashed));
    let deleted = scene.catalog().directory().deleted().unwrap().remove(0);
    scene.catalog().directory().undelete(&deleted).unwrap();
    assert_eq!(same(&scene, "dates"), 2);
    assert_eq!(searched(&scene), 5, "and nothing was heard anew");
    // It is cut.
    let bytes = std::fs::read(&path).unwrap();
    let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    rewrite(&path, &lines[..lines.len() - 2].concat(), 1);
    assert_eq!(same(&scene, "walrus"), 1);
    assert!(take_in(&scene, usize::MAX));
    assert_eq!(same(&scene, "walrus"), 1);
}

#[test]
fn a_transcript_that_was_rewritten_with_the_same_length_is_heard_anew() {
    let scene = Scene::new();
    scene.fill();
    let entry = newest(&scene);
    let path = scene.transcript(&entry);
    let text = String::from_utf8(std::fs::read(&path).unwrap()).unwrap();
    for (second, (from, to)) in
        [("dates", "melon"), ("yes", "nay"), ("Zebra", "Okapi"), ("keep", "free")].into_iter().enumerate()
    {
        assert!(take_in(&scene, usize::MAX));
        let before = same(&scene, to);
        rewrite(&path, text.replace(from, to).as_bytes(), second as u64);
        // Someone who looks at the list sees it.
        scene.same();
        assert_eq!(same(&scene, to), before + 1, "{to}");
        assert!(take_in(&scene, usize::MAX));
        assert_eq!(same(&scene, to), before + 1, "{to}");
    }
}

#[test]
fn a_session_that_is_gone_leaves_no_words_behind() {
    let scene = Scene::new();
    scene.fill();
    assert!(take_in(&scene, usize::MAX));
    let entry = scene.same().pop().unwrap();
    std::fs::remove_file(scene.transcript(&entry)).unwrap();
    let catalog = scene.catalog();
    let missing = catalog.all(Place::Agents, &mut |_, _| {}).unwrap().value.pop().unwrap();
    assert_eq!((missing.row.state.name(), same(&scene, "apples")), ("missing", 0));
    catalog.directory().delete(&missing).unwrap();
    scene.talk("main:cli:ann", "something else").close().unwrap();
    assert!(take_in(&scene, usize::MAX));
    assert_eq!(same(&scene, "apples"), 0);
    let connection = rusqlite::Connection::open(scene.home.join("index.sqlite")).unwrap();
    let orphans = "SELECT count(*) FROM texts WHERE session > 0 AND session NOT IN (SELECT number FROM sessions)";
    assert_eq!(connection.query_row(orphans, (), |row| row.get::<_, i64>(0)).unwrap(), 0);
}

#[test]
fn whatever_happens_to_the_index_a_search_finds_the_same() {
    for (what, harm, _) in HARMS {
        let scene = Scene::new();
        scene.fill();
        assert!(take_in(&scene, usize::MAX));
        settle(&scene);
        harm(&scene.home.join("index.sqlite"));
        for text in ["apples", "dates OR bananas", "ye*", "zebra", "keep"] {
            assert!(same(&scene, text) > 0, "{what}: {text}");
        }
        assert!(take_in(&scene, usize::MAX), "{what}");
        assert_eq!((same(&scene, "yes"), searched(&scene)), (4, 4), "{what}");
    }
}

#[test]
fn a_session_that_grows_is_heard_from_where_it_was_left_and_knows_its_calls() {
    // A short one is gone through again, and of a long one it is kept what was heard.
    for filler in [10, 100_000] {
        let scene = Scene::new();
        let mut session = scene.talk("main:cli:ann", &"filler ".repeat(filler / 7));
        session.append(&[Draft::tool_use(None, "t1", "lookup", r#"{"word":"narwhal"}"#)]).unwrap();
        assert!(take_in(&scene, usize::MAX));
        let path = scene.home.join("index.sqlite");
        let numbers = || -> Vec<i64> {
            let connection = rusqlite::Connection::open(&path).unwrap();
            let mut statement = connection.prepare("SELECT number FROM texts WHERE session > 0 ORDER BY 1").unwrap();
            statement.query_map((), |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
        };
        let before = numbers();
        session.append(&[Draft::tool_result("t1", &quote("a tusk"))]).unwrap();
        session.close().unwrap();
        assert!(take_in(&scene, usize::MAX));
        let after = numbers();
        assert_eq!((&after[..before.len()], after.len()), (&before[..], before.len() + 1), "{filler}");
        let (narwhal, tusk) = (same(&scene, "narwhal"), same(&scene, "tusk"));
        assert_eq!((narwhal, tusk), (1, 1), "{filler}");
        let found = ask(&scene.catalog(), "tusk", Way::Index).hits.remove(0);
        assert_eq!(found.tool.as_deref(), Some("lookup"), "{filler}");
    }
}

#[test]
fn a_day_with_more_texts_than_usual_is_searched_like_any_other() {
    const TEXTS: usize = 8192 + 1500;
    let scene = Scene::new();
    let mut session = scene.talk("main:cli:ann", "begin");
    for part in (0..TEXTS).collect::<Vec<_>>().chunks(1000) {
        let drafts: Vec<Draft> = part.iter().map(|at| Draft::user(&format!("walrus number{at}"))).collect();
        session.append(&drafts).unwrap();
    }
    session.close().unwrap();
    assert!(take_in(&scene, usize::MAX));
    let last = TEXTS - 1;
    for (text, count) in [("walrus", 100), (&format!("number{last}"), 1), ("number7", 1), ("number80* walrus", 100)] {
        assert_eq!(same(&scene, text), count, "{text}");
    }
    let connection = rusqlite::Connection::open(scene.home.join("index.sqlite")).unwrap();
    let crowded = "SELECT count(*) FROM texts WHERE number >= 1 << 62";
    assert!(connection.query_row(crowded, (), |row| row.get::<_, i64>(0)).unwrap() >= 1500);
    // All of it is forgotten when it is rewritten.
    let entry = newest(&scene);
    let path = scene.transcript(&entry);
    let text = std::fs::read_to_string(&path).unwrap();
    rewrite(&path, text.lines().take(3).map(|line| format!("{line}\n")).collect::<String>().as_bytes(), 1);
    assert_eq!(same(&scene, "walrus"), 0);
    assert!(take_in(&scene, usize::MAX));
    assert_eq!((same(&scene, "walrus"), same(&scene, "begin")), (0, 1));
    let texts = "SELECT count(*) FROM texts WHERE session > 0";
    assert!(connection.query_row(texts, (), |row| row.get::<_, i64>(0)).unwrap() <= 3);
}

#[test]
fn phrases_are_the_same_among_more_matches_than_are_ranked() {
    // Some are false, and they are spread over a month.
    const SESSIONS: i64 = 120;
    let scene = Scene::new();
    for at in 0..SESSIONS {
        let mut session = scene.talk("main:cli:ann", &format!("ice cream number{at}"));
        let ms = 1_767_225_600_000 + at * 6 * 3_600_000;
        let texts = ["ice and cream", "ice cream", "cream ice", "冰淇淋", "冰淇 淇淋", "ice cream cake"];
        let drafts: Vec<Draft> = texts.iter().cycle().take(60).map(|text| Draft::user(text).dated(Some(ms))).collect();
        session.append(&drafts).unwrap();
        session.close().unwrap();
    }
    assert!(take_in(&scene, usize::MAX));
    for text in ["\"ice cream\"", "\"cream ice\"", "冰淇淋", "ice -\"ice cream\"", "\"ice cr\"*", "冰淇 -冰淇淋"]
    {
        for limit in [1, 20, 999, 1000, 1001, 5000] {
            let request = SearchQuery { limit, ..request(text) };
            let ask = |catalog: &Store, way| {
                let scan = |places: &[search::Place]| search::scan(catalog.directory(), places, &request);
                catalog.search_with(&request, way, &scan, &mut |_, _| {}).unwrap().value
            };
            let found = ask(&scene.catalog(), Way::Index);
            assert_eq!(found, ask(&scene.without_index(), Way::Scan), "{text} {limit}");
            assert!(!found.hits.is_empty());
        }
    }
    // What is newest is found without reading everything.
    let read = std::cell::Cell::new(0);
    let (catalog, wanted) = (scene.catalog(), request("\"ice cream\""));
    let scan = |places: &[search::Place]| {
        read.set(read.get() + places.len());
        search::scan(catalog.directory(), places, &wanted)
    };
    catalog.search_with(&request("number7"), Way::Index, &scan, &mut |_, _| {}).unwrap();
    assert_eq!(read.get(), 0, "words alone are not read for");
    catalog.search_with(&wanted, Way::Index, &scan, &mut |_, _| {}).unwrap();
    assert!((1..SESSIONS as usize).contains(&read.get()), "{}", read.get());
}

/// Ways to break the tables of words behind SQLite's back.
const WORD_HARMS: [(&str, &str); 9] = [
    ("no segments", "DELETE FROM words_data WHERE id > 10"),
    ("no data at all", "DELETE FROM words_data"),
    ("segments of nothing", "UPDATE words_data SET block = x'' WHERE id > 10"),
    ("segments of noise", "UPDATE words_data SET block = randomblob(length(block)) WHERE id > 10"),
    ("no index of pages", "DELETE FROM words_idx"),
    ("a table less", "DROP TABLE words_idx"),
    ("no sizes", "DELETE FROM words_docsize"),
    ("no configuration", "DELETE FROM words_config"),
    ("texts that are gone", "DELETE FROM texts"),
];

#[test]
fn tables_of_words_that_were_broken_are_noticed_or_answer_right() {
    for (what, harm) in WORD_HARMS {
        let scene = Scene::new();
        scene.fill();
        assert!(take_in(&scene, usize::MAX));
        settle(&scene);
        sql(&scene.home.join("index.sqlite"), harm);
        for text in ["apples", "dates OR bananas", "ye*", "zebra"] {
            assert!(same(&scene, text) > 0, "{what}: {text}");
        }
        assert!(take_in(&scene, usize::MAX), "{what}");
        assert_eq!(same(&scene, "yes"), 4, "{what}");
        let aside = names(&scene.home).into_iter().filter(|name| name.starts_with("index.sqlite.bad-")).count();
        assert!(aside <= 1, "{what}: one remnant at most");
    }
}
