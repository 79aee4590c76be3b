//! Forks: what is sent from one is what was sent at that step of the original.

use std::path::Path;

use unforget_core::directory::{Directory, Entry};
use unforget_core::fork::{Wish, fork};
use unforget_core::history::{History, Limits};
use unforget_core::json;
use unforget_core::key::Key;
use unforget_core::record::{Draft, Record};
use unforget_core::scan::scan;
use unforget_core::session::Session;
use unforget_core::tree::Tree;
use unforget_testkit::crash::CrashMedium;
use unforget_testkit::generate::{self, Dice};

use crate::support::{assert_accepted, crash_store};

fn entry(store: &Directory, id: &str) -> Entry {
    store.list().unwrap().entries.into_iter().find(|entry| entry.row.id == id).unwrap()
}

fn bytes_of(store: &Directory, entry: &Entry) -> Vec<u8> {
    store.read(entry).unwrap().read_all().unwrap()
}

/// Everything that a model gets to see, and what waits for an answer.
fn seen(history: &History<'_>) -> (String, Option<String>, Vec<String>, Vec<String>) {
    let ids = |calls: &[(String, u64)]| calls.iter().map(|(id, _)| id.clone()).collect();
    let model = history.model.as_ref().map(|model| model.clone().into_owned());
    (history.to_request("m", 1), model, ids(&history.unanswered), ids(&history.pending))
}

/// A step in the life of a session with everything that refers to other records.
fn live(dice: &mut Dice, session: &mut Session, turn: usize) {
    let tree = Tree::read(&session.reader().unwrap()).unwrap();
    let path: Vec<u64> = tree.path().ranges().flatten().filter(|n| *n > 0).collect();
    let next = tree.last().map_or(1, |place| place.n);
    let any = |dice: &mut Dice| if path.is_empty() { 0 } else { path[dice.below(path.len())] };
    let draft = match dice.below(16) {
        0 => Draft::compaction(&format!("SUMMARY {turn}"), Some(any(dice)))
            .raw("pinned", &format!("[{{\"n\":{},\"text\":\"pinned {turn}\"}}]", any(dice))),
        1 => Draft::trim(&[any(dice), any(dice), next + 40], 600),
        2 => Draft::undo(any(dice)),
        3 => Draft::pin(any(dice), Some("a pin")),
        4 => Draft::new("context")
            .text("system", &format!("system {}", dice.below(3)))
            .raw("tools", "[]")
            .text("model", "m"),
        5 | 6 => Draft::head(Some(dice.below(usize::try_from(next).unwrap() + 1) as u64), "rewind"),
        7 => Draft::label(Some(any(dice)), &format!("name {}", dice.below(3))),
        8 => Draft::title("a title"),
        9 => Draft::tool_use(Some(&format!("m{turn}")), &format!("toolu_open_{turn}"), "t", "{}"),
        10 => Draft::assistant(
            Some(&format!("m{turn}")),
            r#"[{"type":"thinking","thinking":"hm","signature":"c2ln"},{"type":"text","text":"so"}]"#,
        ),
        11 if dice.one_in(4) => Draft::user(&"large ".repeat(50_000)),
        _ => {
            session.append(&generate::turn(dice, turn)).unwrap();
            return;
        }
    };
    session.append(&[draft]).unwrap();
}

#[test]
fn a_fork_sends_what_the_original_sent_at_that_step() {
    for seed in 0..60 {
        let (_medium, store) = crash_store();
        let mut dice = Dice::new(seed);
        let mut session = store.create(&Key::default(), None).unwrap();
        for turn in 0..25 {
            live(&mut dice, &mut session, turn);
        }
        let id = session.id().to_string();
        let original = entry(&store, &id);
        let tree = Tree::read(&session.reader().unwrap()).unwrap();
        let steps: Vec<u64> = tree.branches().iter().map(|branch| branch.tip).chain([1, 5, 20]).collect();
        for at in steps.into_iter().filter(|n| tree.has_step(*n)) {
            let before = bytes_of(&store, &original);
            // The writer is still there: readers take no lock.
            let forked = fork(&store, &original, Wish { at: Some(at), ..Wish::default() }).unwrap();
            assert_eq!(bytes_of(&store, &original), before);
            session.append(&[Draft::head(Some(at), "rewind")]).unwrap();
            let copy = entry(&store, forked.id.as_str());
            for limits in [Limits::default(), Limits::tokens(2_000_000)] {
                let (theirs, ours) =
                    (session.history(&limits).unwrap().history, store.history(&copy, &limits).unwrap().history);
                assert_eq!(seen(&ours), seen(&theirs), "seed {seed}, record {at}, {limits:?}");
                assert_accepted(&ours, &format!("seed {seed}, record {at}"));
            }
            let scanned = scan_of(&store, &copy);
            assert_eq!(scanned.1, 0, "seed {seed}, record {at}");
            assert_eq!(copy.row.damage, 0);
        }
    }
}

fn scan_of(store: &Directory, entry: &Entry) -> (usize, u64) {
    let bytes = bytes_of(store, entry);
    let scanned = scan(&bytes);
    (scanned.records.len(), scanned.report.damage_count())
}

/// A session with two lines: 1 to 3, and behind 1 also 5.
fn two_lines(store: &Directory) -> Session {
    let mut session = store.create(&Key::default(), Some("label of the original")).unwrap();
    session.append(&[Draft::user("one"), Draft::user("two"), Draft::user("three")]).unwrap();
    session.append(&[Draft::head(Some(1), "rewind"), Draft::user("other")]).unwrap();
    session
}

#[test]
fn a_fork_has_the_way_and_nothing_else_and_says_where_it_comes_from() {
    let (_medium, store) = crash_store();
    let mut session = two_lines(&store);
    session.append(&[Draft::label(Some(2), "there"), Draft::label(Some(5), "elsewhere"), Draft::title("T")]).unwrap();
    let original = entry(&store, session.id().as_str());
    let key = Key::new("main", "cli", None, "other").unwrap();
    let forked = fork(&store, &original, Wish { at: Some(3), key: Some(&key), label: Some("mine") }).unwrap();
    assert_eq!((forked.at, forked.steps, forked.left_out, forked.key.to_string()), (Some(3), 3, 0, key.to_string()));
    let copy = entry(&store, forked.id.as_str());
    assert_eq!((copy.row.key.as_deref(), copy.row.label.as_deref()), (Some("main:cli:other"), Some("mine")));
    let bytes = bytes_of(&store, &copy);
    let scanned = scan(&bytes);
    let kinds: Vec<(u64, &str)> = scanned.records.iter().map(|record| (record.n, record.kind())).collect();
    let wanted = [(0, "session"), (1, "user"), (2, "user"), (3, "user"), (4, "label"), (5, "title"), (6, "head")];
    assert_eq!(kinds, wanted);
    assert_eq!(scanned.report.damage_count(), 0);
    let text = String::from_utf8(bytes.clone()).unwrap();
    let origin = format!("\"origin\":{{\"format\":\"fork\",\"id\":\"{}\",\"at\":3,\"copied\":6}}", session.id());
    assert!(
        text.contains(&origin) && text.contains("\"to\":2,\"name\":\"there\"") && !text.contains("elsewhere"),
        "{text}"
    );
    // The words keep their time; the fork itself was made now.
    let original_bytes = bytes_of(&store, &original);
    let times = |bytes: &[u8]| scan(bytes).records.iter().skip(1).take(3).map(Record::time_ms).collect::<Vec<_>>();
    assert_eq!(times(&bytes), times(&original_bytes));
    assert!(copy.row.updated_ms > original.row.updated_ms);
}

#[test]
fn a_fork_stands_alone_and_goes_on() {
    let (medium, store) = crash_store();
    let mut session = two_lines(&store);
    let large = "large ".repeat(60_000);
    session.append(&[Draft::user(&large)]).unwrap();
    let original = entry(&store, session.id().as_str());
    let path = session.path().to_owned();
    let forked = fork(&store, &original, Wish::default()).unwrap();
    drop(session);
    store.delete(&original).unwrap();
    assert!(medium.read(&path).is_none());
    let mut copy = store.open(&entry(&store, forked.id.as_str())).unwrap();
    copy.append(&[Draft::user("and on")]).unwrap();
    let sent = copy.history(&Limits::default()).unwrap().history.to_json();
    assert!(sent.contains("other") && sent.contains(&large) && sent.contains("and on") && !sent.contains("two"));
}

#[test]
fn costs_that_were_copied_are_not_counted_again() {
    let (_medium, store) = crash_store();
    let mut session = store.create(&Key::default(), None).unwrap();
    let turn = || Draft::turn("done").raw("usage", "{\"input_tokens\":100,\"output_tokens\":10}");
    session.append(&[Draft::user("one"), turn()]).unwrap();
    let original = entry(&store, session.id().as_str());
    assert_eq!(original.row.tokens, 110);
    let forked = fork(&store, &original, Wish::default()).unwrap();
    assert_eq!(entry(&store, forked.id.as_str()).row.tokens, 0);
    let mut copy = store.open(&entry(&store, forked.id.as_str())).unwrap();
    copy.append(&[Draft::user("two"), turn()]).unwrap();
    assert_eq!(entry(&store, forked.id.as_str()).row.tokens, 110);
}

#[test]
fn a_number_that_is_no_step_cannot_be_forked_at() {
    let (_medium, store) = crash_store();
    let session = two_lines(&store);
    let original = entry(&store, session.id().as_str());
    for n in [4, 99] {
        let error = fork(&store, &original, Wish { at: Some(n), ..Wish::default() }).unwrap_err();
        assert_eq!(error.to_string(), format!("record {n} is no step of the conversation"));
    }
    assert_eq!(store.list().unwrap().entries.len(), 1);
}

#[test]
fn any_transcript_can_be_forked_and_is_accepted() {
    for seed in 0..400 {
        let bytes = generate::soup(seed, 25);
        let id = "01900000-0000-7000-8000-999999999999";
        let medium = CrashMedium::new();
        let store = crate::support::store_on(medium.clone());
        let header = format!("{{\"v\":1,\"n\":0,\"type\":\"session\",\"id\":\"{id}\",\"key\":\"main:cli:user\"}}\n");
        let path = format!("agents/main/sessions/{id}.jsonl");
        medium.write_file(Path::new(&path), &[header.as_bytes(), &bytes].concat()).unwrap();
        let original = entry(&store, id);
        let forked = fork(&store, &original, Wish::default()).unwrap();
        let copy = entry(&store, forked.id.as_str());
        let limits = Limits::default();
        assert_accepted(&store.history(&copy, &limits).unwrap().history, &format!("seed {seed}"));
    }
}

#[test]
fn the_records_of_a_tutorial_keep_their_meaning() {
    let medium = CrashMedium::new();
    let store = crate::support::store_on(medium.clone());
    let id = "01900000-0000-7000-8000-999999999999";
    // A result before its call, and a call that is said twice: only version 0 allows that.
    let lines = [
        format!("{{\"type\":\"session\",\"id\":\"{id}\",\"key\":\"main:cli:user\"}}"),
        r#"{"type":"user","content":"go","ts":1700000000.5}"#.to_owned(),
        r#"{"type":"tool_result","tool_use_id":"t1","output":"early"}"#.to_owned(),
        r#"{"type":"assistant","content":[{"type":"tool_use","id":"t1","name":"n","input":{}}]}"#.to_owned(),
        r#"{"type":"tool_use","tool_use_id":"t1","name":"n","input":{}}"#.to_owned(),
        r#"{"type":"user","content":"thanks"}"#.to_owned(),
    ];
    medium
        .write_file(Path::new(&format!("agents/main/sessions/{id}.jsonl")), (lines.join("\n") + "\n").as_bytes())
        .unwrap();
    let original = entry(&store, id);
    let forked = fork(&store, &original, Wish::default()).unwrap();
    let copy = entry(&store, forked.id.as_str());
    let limits = Limits::default();
    let sent = |entry: &Entry| store.history(entry, &limits).unwrap().history.to_json();
    assert_eq!(sent(&copy), sent(&original));
    assert_eq!(sent(&copy).matches("early").count(), 1);
    let mut session = store.open(&copy).unwrap();
    session.append(&[Draft::user(&json::quote("more"))]).unwrap();
    assert!(sent(&copy).contains("more"));
}
