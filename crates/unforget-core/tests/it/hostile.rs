//! Files that were made to hurt: too large, too deep, too many, too far.
//!
//! Each of them is small or valid enough to turn up by accident. None may stop a conversation for ever, take minutes,
//! or be read differently with a budget than without one.

use serde_json::{Value, json};
use unforget_core::directory::{Directory, OnMissing};
use unforget_core::history::{History, Limits, RepairKind};
use unforget_core::json;
use unforget_core::key::Key;
use unforget_core::record::Draft;
use unforget_core::report::{Note, Weight};
use unforget_core::session::Session;
use unforget_core::view::Restored;
use unforget_testkit::crash::CrashMedium;
use unforget_testkit::{generate, rules};

use crate::support;

/// What the API takes at most.
const MAX_BODY: usize = 32 * 1024 * 1024;

fn history_of(records: &[Value]) -> History<'static> {
    let lines: Vec<String> = records.iter().map(Value::to_string).collect();
    support::history(lines.join("\n").as_bytes())
}

/// A record of version 0, which needs no numbers.
fn user(content: &Value) -> Value {
    json!({"type": "user", "ts": 1, "content": content})
}

fn assistant(content: &Value) -> Value {
    json!({"type": "assistant", "ts": 1, "content": content})
}

fn call(id: &str) -> Value {
    json!({"type": "tool_use", "ts": 1, "tool_use_id": id, "name": "look", "input": {}})
}

fn result(id: &str, output: &Value) -> Value {
    json!({"type": "tool_result", "ts": 1, "tool_use_id": id, "output": output})
}

fn assert_request_is_taken(history: &History<'_>) {
    let request = history.to_request("claude-opus-5", 1024);
    assert!(request.len() < MAX_BODY, "{} bytes", request.len());
    if let Err(rejection) = rules::check(request.as_bytes(), &rules::Server::default()) {
        panic!("{rejection}");
    }
}

fn shortened(history: &History<'_>) -> usize {
    history.repairs.iter().filter(|repair| matches!(repair.kind, RepairKind::Shortened { .. })).count()
}

/// One step: the model makes these calls, and these results come back.
fn step_of_results(outputs: &[Value]) -> History<'static> {
    let id = |at: usize| format!("toolu_{at}");
    let mut records = vec![user(&json!("look"))];
    records.extend((0..outputs.len()).map(|at| call(&id(at))));
    records.extend(outputs.iter().enumerate().map(|(at, output)| result(&id(at), output)));
    history_of(&records)
}

#[test]
fn a_step_over_the_limit_is_shortened_until_it_fits() {
    let history = step_of_results(&vec![json!("x".repeat(4 * 1024 * 1024 - 100)); 9]);
    assert_request_is_taken(&history);
    assert!(shortened(&history) > 0);
    assert_eq!(history.messages.len(), 3);
    assert_eq!(history.messages[2].blocks.len(), 9);
}

#[test]
fn results_that_double_when_they_are_quoted_still_fit() {
    let quotes: Vec<&str> = vec![""; 500_000];
    let history = step_of_results(&vec![json!({ "quotes": quotes }); 14]);
    assert_request_is_taken(&history);
    assert!(shortened(&history) > 0);
}

#[test]
fn what_fits_is_not_shortened_for_what_does_not() {
    let mut outputs = vec![json!("x".repeat(4 * 1024 * 1024 - 100)); 9];
    outputs.push(json!("small"));
    let history = step_of_results(&outputs);
    assert_eq!(history.messages[2].blocks[9], r#"{"type":"tool_result","tool_use_id":"toolu_9","content":"small"}"#);
}

#[test]
fn a_message_of_too_many_images_and_documents_fits() {
    let file = json!({"type": "base64", "media_type": "application/pdf", "data": "A".repeat(9 * 1024 * 1024)});
    let document = json!({"type": "document", "source": file});
    let history =
        history_of(&[user(&json!([document, document, document, document, {"type": "text", "text": "read"}]))]);
    assert_request_is_taken(&history);
    assert!(history.to_json().contains("too large to be sent"));
    assert!(history.to_json().contains("\"read\""));
}

#[test]
fn a_message_of_too_many_blocks_fits() {
    let text = "word ".repeat(40);
    let blocks = vec![json!({"type": "text", "text": text}); 160_000];
    assert_request_is_taken(&history_of(&[user(&json!(blocks))]));
    assert_request_is_taken(&step_of_results(&[json!(blocks)]));
}

#[test]
fn a_server_tool_result_that_is_too_long_is_left_out_with_its_call() {
    let use_ = json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}});
    let found = json!({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1",
        "content": [{"type": "web_search_result", "title": "t", "url": "u", "encrypted_content": "x".repeat(5 << 20)}]});
    let history = history_of(&[user(&json!("find")), assistant(&json!([use_, found])), user(&json!("and?"))]);
    assert_request_is_taken(&history);
    assert!(history.to_json().len() < 1 << 20);
}

#[test]
fn server_tools_stay_answered_when_their_step_is_shortened() {
    let mut blocks = Vec::new();
    for at in 0..10 {
        let id = format!("srvtoolu_{at}");
        blocks.push(json!({"type": "server_tool_use", "id": id, "name": "web_search", "input": {"query": "q"}}));
        blocks.push(json!({"type": "web_search_tool_result", "tool_use_id": id, "content": [
            {"type": "web_search_result", "title": "t", "url": "u", "encrypted_content": "x".repeat(4_000_000)}]}));
    }
    blocks.push(json!({"type": "text", "text": "found"}));
    let history = history_of(&[user(&json!("find")), assistant(&json!(blocks)), user(&json!("and?"))]);
    assert_request_is_taken(&history);
    assert_eq!(history.messages[1].blocks.len(), 21);
}

#[test]
fn a_text_with_deep_citations_keeps_its_words() {
    let deep = format!("{}{}", "[".repeat(140), "]".repeat(140));
    let line =
        format!(r#"{{"type":"assistant","ts":1,"content":[{{"type":"text","text":"words","citations":{deep}}}]}}"#);
    let history = support::history(format!("{}\n{line}", user(&json!("hi"))).as_bytes());
    assert_eq!(history.messages[1].blocks, [r#"{"type":"text","text":"words"}"#]);
    assert!(history.repairs.iter().any(|repair| repair.kind == RepairKind::TooDeep));
}

#[test]
fn blocks_without_what_makes_them_complete_are_not_sent() {
    for incomplete in [
        json!({"type": "image", "source": {"type": "url"}}),
        json!({"type": "image", "source": {"type": "url", "url": 7}}),
        json!({"type": "image", "source": {"type": "file"}}),
        json!({"type": "image", "source": {"type": "file", "file_id": null}}),
        json!({"type": "document", "title": "t"}),
        json!({"type": "search_result", "title": "t", "source": "s"}),
        json!({"type": "search_result", "title": "t", "content": []}),
    ] {
        let history = history_of(&[user(&json!([incomplete, {"type": "text", "text": "words"}]))]);
        let sent: Value = serde_json::from_str(&history.to_json()).unwrap();
        let kinds: Vec<&Value> = sent[0]["content"].as_array().unwrap().iter().map(|block| &block["type"]).collect();
        assert!(kinds.iter().all(|kind| *kind == "text"), "{incomplete} went out as {sent}");
        assert_eq!(history.repairs.len(), 1, "{incomplete}");
    }
    let whole = json!({"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}});
    assert_eq!(history_of(&[user(&json!([whole]))]).repairs, []);
}

// Of the sizes below, work that grows with their square would be the slowest part of these tests.

#[test]
fn many_calls_with_one_id_are_told_apart() {
    let records: Vec<Value> = std::iter::once(user(&json!("go"))).chain((0..9_000).map(|_| call("toolu_1"))).collect();
    let history = history_of(&records);
    assert_request_is_taken(&history);
    assert!(history.messages[1].blocks[8_999].contains("\"toolu_1_9000\""));
}

#[test]
fn many_results_with_one_id_find_their_calls() {
    let calls = (0..9_000).map(|_| call("toolu_1"));
    let results = (0..9_000).map(|at| result("toolu_1", &json!(at.to_string())));
    let history = history_of(&std::iter::once(user(&json!("go"))).chain(calls).chain(results).collect::<Vec<_>>());
    assert_request_is_taken(&history);
    assert!(history.messages[2].blocks[8_999].ends_with("\"content\":\"8999\"}"));
}

#[test]
fn a_block_with_many_members_is_trimmed() {
    let members: Vec<String> = (0..200_000).map(|at| format!("\"m{at}\":1")).collect();
    let block = format!("{{\"type\":\"text\",\"text\":\"words\",{}}}", members.join(","));
    let line = format!("{{\"type\":\"user\",\"ts\":1,\"content\":[{block}]}}");
    let history = support::history(line.as_bytes());
    assert_eq!(history.messages[0].blocks, [r#"{"type":"text","text":"words"}"#]);
}

#[test]
fn h2_a_record_with_one_name_twice_is_not_sent() {
    let line = r#"{"type":"user","ts":1,"content":[{"type":"text","text":"a","citations":[],"text":"b"}]}"#;
    let history = support::history(line.as_bytes());
    assert!(history.messages.is_empty(), "{:?}", history.messages);
    assert_eq!(history.repairs[0].kind.name(), "record_left_out");
}

#[test]
fn many_results_before_their_calls_are_moved() {
    let count = 60_000;
    let id = |at: usize| format!("toolu_{at}");
    let results = (0..count).map(|at| result(&id(at), &json!("x")));
    let calls = (0..count).rev().map(|at| call(&id(at)));
    let history = history_of(&std::iter::once(user(&json!("go"))).chain(results).chain(calls).collect::<Vec<_>>());
    let moved = history.repairs.iter().filter(|repair| matches!(repair.kind, RepairKind::ResultMoved(_))).count();
    assert_eq!(moved, count);
    assert_request_is_taken(&history);
}

#[test]
fn many_open_server_calls_are_left_out() {
    let pairs = (0..40_000).flat_map(|at| {
        let open =
            json!({"type": "server_tool_use", "id": format!("srvtoolu_{at}"), "name": "web_search", "input": {}});
        [user(&json!(format!("question {at}"))), assistant(&json!([open]))]
    });
    let history = history_of(&pairs.chain([user(&json!("last"))]).collect::<Vec<_>>());
    assert_eq!(history.messages.len(), 1);
    assert_eq!(history.messages[0].blocks.len(), 40_001);
    assert!(history.messages[0].blocks[40_000].contains("last"));
}

#[test]
fn limits_of_any_size_are_kept() {
    let outputs = vec![json!("x".repeat(20_000)); 9];
    let id = |at: usize| format!("toolu_{at}");
    let mut records = vec![user(&json!("look"))];
    records.extend((0..9).map(|at| call(&id(at))));
    records.extend(outputs.iter().enumerate().map(|(at, output)| result(&id(at), output)));
    let text: Vec<String> = records.iter().map(Value::to_string).collect();
    let text = text.join("\n");
    let scanned = unforget_core::scan::scan(text.as_bytes());
    let limits = Limits { bytes: 50_000, ..Limits::default() };
    let history = unforget_core::history::rebuild_all(&scanned.records, &limits);
    assert!(history.to_json().len() <= 50_000, "{}", history.to_json().len());
    support::assert_accepted(&history, "shortened");
}

/// A budget that no transcript here exceeds.
const ENOUGH: u64 = 1 << 40;
const PATH: &str = "agents/main/sessions/abc123.jsonl";

fn key() -> Key {
    "main:cli:user".parse().unwrap()
}

fn new_session(store: &Directory) -> Session {
    store.create(&key(), None).unwrap()
}

/// A store that holds one session of these bytes.
fn store_of(bytes: &[u8]) -> (CrashMedium, Directory) {
    let (medium, store) = support::crash_store();
    medium.write_file(PATH, bytes).unwrap();
    (medium, store)
}

fn restored(bytes: &[u8], limits: &Limits) -> Restored {
    let (_, store) = store_of(bytes);
    let listing = store.list().unwrap();
    store.history(&listing.entries[0], limits).unwrap()
}

fn context(system: &str) -> Draft {
    Draft::new("context").text("system", system).raw("tools", r#"[{"name":"look","input_schema":{"type":"object"}}]"#)
}

/// A turn of about `tokens` tokens.
fn turn(tokens: usize) -> Vec<Draft> {
    let words = json::quote(&"word ".repeat(tokens));
    vec![Draft::user("go on"), Draft::assistant(None, &format!("[{{\"type\":\"text\",\"text\":{words}}}]"))]
}

#[test]
fn a_compacted_session_read_with_a_budget_is_not_damaged() {
    let (_, store) = support::crash_store();
    let mut session = new_session(&store);
    for _ in 0..5 {
        session.append(&turn(100)).unwrap();
    }
    session.append(&[Draft::compaction("what was said", Some(7))]).unwrap();
    session.append(&turn(100)).unwrap();
    let whole = session.history(&Limits::default()).unwrap();
    let part = session.history(&Limits::tokens(ENOUGH)).unwrap();
    assert_eq!(part.report, whole.report);
    assert_eq!(part.report.damage_count(), 0);
    assert_eq!(part.history, whole.history);
    session.append(&[Draft::compaction("all of it", None)]).unwrap();
    session.append(&turn(100)).unwrap();
    assert_eq!(session.history(&Limits::tokens(ENOUGH)).unwrap().report.damage_count(), 0);
}

#[test]
fn damage_is_the_same_with_a_budget_and_without_one() {
    let lines = [
        r#"{"v":1,"n":0,"type":"session","id":"abc123","key":"main:cli:user"}"#,
        r#"{"v":1,"n":1,"parent":0,"type":"user","content":"a"}"#,
        r#"{"v":1,"n":2,"parent":1,"type":"tool_use","name":"look"}"#,
        "x",
        r#"{"v":1,"n":5,"parent":2,"type":"of the future"}"#,
        r#"{"v":1,"n":6,"parent":4,"type":"user","content":"b"}"#,
        r#"{"v":1,"n":6,"parent":6,"type":"user","content":"c"#,
    ];
    let bytes = lines.join("\n").into_bytes();
    let (whole, part) = (restored(&bytes, &Limits::default()), restored(&bytes, &Limits::tokens(ENOUGH)));
    assert_eq!(part.report, whole.report);
    assert_eq!(part.history, whole.history);
}

#[test]
fn any_records_are_read_alike_with_a_budget_and_without_one() {
    let limits = Limits { tokens: Some(ENOUGH), ..Limits::default() };
    for seed in 0..300 {
        let bytes = generate::soup(seed, 20);
        let (medium, store) = store_of(&bytes);
        let Ok(listing) = store.list() else { continue };
        let Some(entry) = listing.entries.first() else { continue };
        let whole = store.history(entry, &Limits::default()).unwrap().report;
        let part = store.history(entry, &limits).unwrap().report;
        // A way back that ends at a compaction sees neither what is before it nor which numbers were used there.
        let seen = |note: &&Note| {
            part.notes.first().is_some_and(|first| note.offset > first.offset)
                && note.kind.weight() != Weight::Oddity
                && !matches!(note.kind.name(), "gap" | "repeated" | "unknown_parent")
        };
        let place = |note: &Note| (note.offset, note.len, note.kind.clone());
        let (whole, part): (Vec<_>, Vec<_>) =
            (whole.notes.iter().filter(seen).map(place).collect(), part.notes.iter().filter(seen).map(place).collect());
        assert_eq!(part, whole, "seed {seed}: {}", String::from_utf8_lossy(&medium.read(PATH).unwrap()));
    }
}

#[test]
fn the_report_of_a_file_of_garbage_is_short_with_a_budget_too() {
    let mut bytes = br#"{"v":1,"n":0,"type":"session","id":"abc123","key":"main:cli:user"}"#.to_vec();
    bytes.extend(b"\nx".repeat(1_000_000));
    let report = restored(&bytes, &Limits::tokens(1000)).report;
    assert!(report.notes.len() <= unforget_core::report::LISTED_NOTES + unforget_core::report::LISTED_ODDITIES);
    assert!(report.damage_count() >= 1_000_000);
}

#[test]
fn the_context_outlives_a_compaction() {
    let (_, store) = support::crash_store();
    let mut session = new_session(&store);
    session.append(&[context("be brief")]).unwrap();
    session.append(&turn(100)).unwrap();
    let numbers = session.append(&[Draft::compaction("what was said", None)]).unwrap();
    assert_eq!(numbers, 4..6);
    session.append(&turn(100)).unwrap();
    let whole = session.history(&Limits::default()).unwrap();
    let part = session.history(&Limits::tokens(ENOUGH)).unwrap();
    assert_eq!(part.history.system.as_deref(), Some("\"be brief\""));
    assert!(part.history.tools.is_some());
    assert_eq!(part.history, whole.history);
    assert_eq!(part.report.damage_count(), 0);
}

#[test]
fn a_compaction_far_behind_the_context_states_it_again() {
    let (_, store) = support::crash_store();
    let mut session = new_session(&store);
    let large = "be brief ".repeat(40_000);
    session.append(&[context(&large)]).unwrap();
    // Further than a reader goes back for it.
    for _ in 0..50 {
        session.append(&[Draft::user(&"word ".repeat(40_000))]).unwrap();
    }
    session.append(&[Draft::compaction("what was said", None), Draft::user("go on")]).unwrap();
    let history = session.history(&Limits::tokens(ENOUGH)).unwrap().history;
    assert_eq!(history.system, Some(json::quote(&large).into()));
}

#[test]
fn a_compaction_restates_the_context_of_its_own_branch() {
    let (_, store) = support::crash_store();
    let mut session = new_session(&store);
    session.append(&[context("first"), Draft::user("a"), context("second"), Draft::user("b")]).unwrap();
    session.append(&[Draft::head(Some(2), "back"), Draft::compaction("a was said", None)]).unwrap();
    let history = session.history(&Limits::tokens(ENOUGH)).unwrap().history;
    assert_eq!(history.system.as_deref(), Some("\"first\""));
    session.append(&[Draft::compaction("more", None), context("third"), Draft::user("c")]).unwrap();
    let history = session.history(&Limits::tokens(ENOUGH)).unwrap().history;
    assert_eq!(history.system.as_deref(), Some("\"third\""));
}

#[test]
fn a_budget_that_cuts_behind_the_context_keeps_it() {
    let (_, store) = support::crash_store();
    let mut session = new_session(&store);
    session.append(&[context("be brief")]).unwrap();
    for _ in 0..50 {
        session.append(&turn(100)).unwrap();
    }
    let part = session.history(&Limits::tokens(1000)).unwrap();
    assert!(part.history.messages.len() < 30);
    assert_eq!(part.history.system.as_deref(), Some("\"be brief\""));
    assert!(part.history.tools.is_some());
    assert_eq!(part.report.damage_count(), 0);
    support::assert_accepted(&part.history, "cut");
}

#[test]
fn numbers_at_their_end_are_never_used_twice() {
    for last in [u64::MAX, u64::MAX - 1] {
        let line = format!("{{\"v\":1,\"n\":{last},\"parent\":0,\"type\":\"user\",\"content\":\"a\"}}\n");
        let header = r#"{"v":1,"n":0,"type":"session","id":"abc123","key":"main:cli:user"}"#;
        let bytes = format!("{header}\n{line}").into_bytes();
        let (medium, store) = store_of(&bytes);
        let mut session = store.load(&key(), OnMissing::Fail).unwrap();
        let refused = session.append(&[Draft::user("b")]).unwrap_err();
        assert!(refused.to_string().contains("record numbers are used up"), "{refused}");
        assert_eq!(medium.read(PATH).unwrap(), bytes);
    }
}

#[test]
fn numbers_of_any_size_are_read() {
    let max = u64::MAX;
    for (n, parent, kept) in [(max, max, max), (max, 0, max), (1, max, max), (0, 0, 0), (max - 1, max, 0)] {
        let lines = [
            r#"{"v":1,"n":0,"type":"session","id":"abc123","key":"main:cli:user"}"#.to_owned(),
            format!(r#"{{"v":1,"n":{n},"parent":{parent},"type":"user","content":"a"}}"#),
            format!(r#"{{"v":1,"n":{n},"parent":{parent},"type":"compaction","summary":"s","first_kept":{kept}}}"#),
            format!(r#"{{"v":1,"n":{n},"parent":{parent},"type":"user","content":"b"}}"#),
            format!(r#"{{"v":1,"n":{n},"type":"head","to":{parent}}}"#),
        ];
        let bytes = lines.join("\n").into_bytes();
        for limits in [Limits::default(), Limits::tokens(0), Limits::tokens(max)] {
            support::assert_accepted(&restored(&bytes, &limits).history, &format!("{n} {parent} {kept}"));
        }
    }
}
