//! Records that change what the model sees and nothing else: compactions, trims, their undoing, pins, and long outputs.

use unforget_core::directory::{Directory, OnMissing};
use unforget_core::history::Limits;
use unforget_core::json;
use unforget_core::record::Draft;
use unforget_core::session::Session;

use crate::support::{assert_accepted, disk_store};

fn session(store: &Directory) -> Session {
    store.load(&"main:cli:user".parse().unwrap(), OnMissing::Create).unwrap()
}

/// Three turns, the second with a long result in record 4.
fn conversation(store: &Directory) -> Session {
    let mut session = session(store);
    let long = format!("BEGIN{}END", "x".repeat(20_000));
    session
        .append(&[
            Draft::user("one"),
            Draft::user("two"),
            Draft::tool_use(Some("m1"), "toolu_1", "bash", "{}"),
            Draft::tool_result("toolu_1", &json::quote(&long)),
            Draft::user("three"),
            Draft::assistant(Some("m2"), r#"[{"type":"text","text":"yes"}]"#),
        ])
        .unwrap();
    session
}

fn sent(session: &Session) -> String {
    let restored = session.history(&Limits::default()).unwrap();
    assert_accepted(&restored.history, "the view");
    assert!(restored.history.repairs.is_empty(), "{:?}", restored.history.repairs);
    restored.history.to_json()
}

/// The same conversation through the way that reads from the end.
fn sent_from_the_end(session: &Session) -> String {
    session.history(&Limits::tokens(1_000_000)).unwrap().history.to_json()
}

#[test]
fn a_trim_shortens_what_it_names_and_its_undo_brings_it_back() {
    let (_home, store) = disk_store();
    let mut session = conversation(&store);
    let whole = sent(&session);
    session.append(&[Draft::trim(&[4], 1024)]).unwrap();
    let short = sent(&session);
    assert!(short.len() < 3000 && short.contains("BEGIN") && short.contains("END"), "{short}");
    assert_eq!(sent_from_the_end(&session), short);
    drop(session);
    let mut session = super::views::session(&store);
    assert_eq!(sent(&session), short, "also after a restart");
    let n = session.head().unwrap();
    session.append(&[Draft::undo(n)]).unwrap();
    assert_eq!(sent(&session), whole);
    assert_eq!(sent_from_the_end(&session), whole);
}

#[test]
fn an_undone_compaction_uncovers_the_one_before_it() {
    let (_home, store) = disk_store();
    let mut session = conversation(&store);
    let whole = sent(&session);
    let first = session.append(&[Draft::compaction("FIRST", Some(5))]).unwrap().start;
    let once = sent(&session);
    assert!(once.contains("FIRST") && once.contains("three") && !once.contains("\"two\""), "{once}");
    session.append(&[Draft::user("four")]).unwrap();
    let second = session.append(&[Draft::compaction("SECOND", Some(first + 1))]).unwrap().start;
    let twice = sent(&session);
    assert!(twice.contains("SECOND") && twice.contains("four") && !twice.contains("three"), "{twice}");
    session.append(&[Draft::undo(second)]).unwrap();
    let back = sent(&session);
    assert!(back.contains("FIRST") && back.contains("three") && back.contains("four") && !back.contains("SECOND"));
    assert_eq!(sent_from_the_end(&session), back);
    session.append(&[Draft::undo(first)]).unwrap();
    let all = sent(&session);
    assert!(all.starts_with(whole.trim_end_matches("]}]")) && all.contains("four") && !all.contains("FIRST"), "{all}");
    assert_eq!(sent_from_the_end(&session), all);
}

#[test]
fn pinned_words_follow_the_summary() {
    let (_home, store) = disk_store();
    let mut session = conversation(&store);
    let pins = r#"[{"n":1,"text":"never delete \"prod\""}]"#;
    session.append(&[Draft::compaction("SUMMARY", Some(5)).raw("pinned", pins)]).unwrap();
    let view = sent(&session);
    let (summary, pin) = (view.find("SUMMARY").unwrap(), view.find(r#"never delete \"prod\""#).unwrap());
    assert!(summary < pin && pin < view.find("three").unwrap(), "{view}");
}

#[test]
fn thinking_before_a_trim_belongs_to_another_beginning() {
    let (_home, store) = disk_store();
    let mut session = conversation(&store);
    let thinking = r#"[{"type":"thinking","thinking":"hm","signature":"c2ln"},{"type":"text","text":"so"}]"#;
    session.append(&[Draft::user("more"), Draft::assistant(Some("m3"), thinking)]).unwrap();
    assert!(session.history(&Limits::default()).unwrap().history.to_json().contains("c2ln"));
    session.append(&[Draft::trim(&[4], 1024)]).unwrap();
    assert!(!session.history(&Limits::default()).unwrap().history.to_json().contains("c2ln"));
}

#[test]
fn the_whole_of_a_long_output_is_in_the_blob_store_and_not_in_the_request() {
    let (home, store) = disk_store();
    let mut session = session(&store);
    let full = "the whole output\n".repeat(10);
    let result = Draft::tool_result("toolu_1", "\"head … tail\"").text("full", &full);
    session.append(&[Draft::tool_use(Some("m"), "toolu_1", "bash", "{}"), result, Draft::user("and?")]).unwrap();
    let view = sent(&session);
    assert!(view.contains("head … tail") && !view.contains("the whole output"), "{view}");
    let line = std::fs::read_to_string(home.path().join("home").join(session.path())).unwrap();
    assert!(line.contains("\"blobs\":[\"/full\"]") && line.matches("the whole output").count() < 20, "{line}");
    let hash = line.split("\"sha256\":\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    assert_eq!(session.blobs().get(&hash).unwrap(), json::quote(&full).as_bytes());
}

#[test]
fn records_that_say_too_little_are_refused() {
    let (_home, store) = disk_store();
    let mut session = session(&store);
    for (draft, why) in [
        (Draft::new("trim").raw("records", "[1]"), "keep"),
        (Draft::new("undo"), "of"),
        (Draft::new("pin").text("text", "x"), "to"),
    ] {
        let error = session.append(&[draft]).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}
