//! Turns that did not end: cut streams, paused server tools, calls that wait for a person.

use serde_json::json;
use unforget_core::history::{History, Limits, RepairKind};
use unforget_core::record::{Body, Draft};
use unforget_core::scan::scan;
use unforget_testkit::rules;

use super::{
    after_power_loss, answer_of, assistant, call, history_of_lines, opened, repairs, restored, result, sent,
    session_with, text, unknown, user, words,
};
use crate::support::{self, assert_accepted};

const SEARCH: &str = r#"{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query": "x"}}"#;
const SEARCH_TOOLS: &str =
    r#"[{"type":"web_search_20250305","name":"web_search"},{"name":"read_file","input_schema":{"type":"object"}}]"#;

#[test]
fn c32_a_call_whose_stream_was_cut_is_never_in_the_log() {
    let (medium, store) = support::crash_store();
    let mut session = session_with(&store, &[Draft::user("write it")]);
    let cut = Draft::tool_use(Some("m1"), "toolu_01", "write", r#"{"path":"/tmp/a","content":"half"#);
    // Nothing of a batch with such a call is written: the rest can be saved without it.
    session.append(&[Draft::assistant(Some("m1"), &words("I write")), cut]).unwrap_err();
    session.append(&[Draft::assistant(Some("m1"), &words("I write")), Draft::turn("aborted")]).unwrap();
    let (medium, store) = {
        let path = session.path().to_owned();
        let (medium, store) = after_power_loss(&medium);
        (medium.read(path).unwrap(), store)
    };
    let records = scan(&medium).records;
    assert_eq!(records.last().unwrap().body, Body::Turn { state: "aborted".into(), usage: None, model: None });
    assert!(!records.iter().any(|record| matches!(record.body, Body::ToolUse(_))));
    opened(&store).append(&[Draft::user("go on")]).unwrap();
    let history = restored(&store).history;
    assert_eq!(
        sent(&history),
        json!([user(json!([text("write it")])), assistant(json!([text("I write")])), user(json!([text("go on")])),])
    );
    assert_eq!(repairs(&history), []);
    answer_of(&history, &rules::Server::default()).unwrap();
}

#[test]
fn c33_half_an_answer_is_kept_and_gone_on_from_by_words_of_the_user() {
    let (medium, store) = support::crash_store();
    let half = Draft::assistant(Some("m1"), &words("The answer is"));
    session_with(
        &store,
        &[Draft::user("what is it?"), half, Draft::turn("aborted").text("stop_reason", "interrupted")],
    );
    let (_, store) = after_power_loss(&medium);
    // The half answer alone would be a prefill, which these models refuse.
    let rejection = answer_of(&restored(&store).history, &rules::Server::default()).unwrap_err();
    assert!(rejection.message.contains("prefill"), "{rejection}");
    opened(&store).append(&[Draft::user("go on")]).unwrap();
    let history = restored(&store).history;
    assert_eq!(
        sent(&history),
        json!([
            user(json!([text("what is it?")])),
            assistant(json!([text("The answer is")])),
            user(json!([text("go on")])),
        ])
    );
    answer_of(&history, &rules::Server::default()).unwrap();
}

#[test]
fn c35_a_paused_server_tool_goes_back_as_it_came() {
    let history = paused(SEARCH_TOOLS, SEARCH, &[]);
    assert_eq!(history.messages[1].blocks, [r#"{"type":"text","text":"I search"}"#, SEARCH]);
    assert_eq!(repairs(&history), []);
    answer_of(&history, &rules::Server::default()).unwrap();
}

#[test]
fn c35_a_tool_that_acts_under_a_longer_name_counts_as_declared() {
    let tools = r#"[{"type":"code_execution_20250825","name":"code_execution"}]"#;
    let open = r#"{"type":"server_tool_use","id":"srvtoolu_1","name":"bash_code_execution","input":{"command":"ls"}}"#;
    let history = paused(tools, open, &[]);
    assert_eq!(history.messages[1].blocks, [r#"{"type":"text","text":"I search"}"#, open]);
    answer_of(&history, &rules::Server::default()).unwrap();
}

#[test]
fn c35_what_the_server_tool_found_joins_its_call() {
    let found = r#"{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[]}"#;
    let rest = Draft::assistant(Some("m2"), &format!(r#"[{found},{{"type":"text","text":"nothing"}}]"#));
    let history = paused(SEARCH_TOOLS, SEARCH, &[Draft::turn("paused"), rest, Draft::user("thanks")]);
    assert_eq!(
        history.messages[1].blocks,
        [r#"{"type":"text","text":"I search"}"#, SEARCH, found, r#"{"type":"text","text":"nothing"}"#]
    );
    assert_eq!(repairs(&history), []);
    answer_of(&history, &rules::Server::default()).unwrap();
}

#[test]
fn c35_results_of_other_tools_may_follow_a_paused_one() {
    let calls = [
        Draft::tool_use(Some("m1"), "toolu_01", "read_file", r#"{"path":"a"}"#),
        Draft::tool_result("toolu_01", "\"ok\""),
    ];
    let history = paused(SEARCH_TOOLS, SEARCH, &calls);
    let open: serde_json::Value = serde_json::from_str(SEARCH).unwrap();
    assert_eq!(
        sent(&history),
        json!([
            user(json!([text("find it")])),
            assistant(json!([text("I search"), open, call("toolu_01")])),
            user(json!([result("toolu_01", "ok")])),
        ])
    );
    assert_eq!(repairs(&history), []);
    answer_of(&history, &rules::Server::default()).unwrap();
}

#[test]
fn c35_when_the_user_speaks_a_paused_tool_is_left_out() {
    let history = paused(SEARCH_TOOLS, SEARCH, &[Draft::user("stop")]);
    assert_eq!(
        sent(&history),
        json!([user(json!([text("find it")])), assistant(json!([text("I search")])), user(json!([text("stop")])),])
    );
    assert_eq!(repairs(&history), [(4, RepairKind::ServerCallLeftOut("srvtoolu_1".to_owned()))]);
    answer_of(&history, &rules::Server::default()).unwrap();
}

#[test]
fn c35_a_paused_tool_that_is_no_longer_declared_is_left_out() {
    let history = paused("[]", SEARCH, &[]);
    assert_eq!(sent(&history), json!([user(json!([text("find it")])), assistant(json!([text("I search")]))]));
    assert_eq!(repairs(&history), [(4, RepairKind::ServerCallLeftOut("srvtoolu_1".to_owned()))]);
}

#[test]
fn c45_a_pending_approval_is_there_after_a_restart_and_can_still_be_given() {
    let (medium, store) = support::crash_store();
    let drafts = [
        Draft::user("read a"),
        Draft::tool_use(Some("m1"), "toolu_01", "read_file", r#"{"path":"a"}"#),
        approval("toolu_01", "pending"),
    ];
    let path = session_with(&store, &drafts).path().to_owned();
    let (medium, store) = after_power_loss(&medium);
    let mut session = opened(&store);
    let waiting = restored(&store).history;
    assert_eq!(
        (waiting.pending.as_slice(), waiting.unanswered.as_slice()),
        (&[("toolu_01".to_owned(), 2)][..], &[][..])
    );
    assert!(session.settle(&Limits::default()).unwrap().is_empty(), "what waits for a person is not answered for them");
    assert_eq!(sent(&waiting)[2], user(json!([unknown("toolu_01")])));
    assert_accepted(&waiting, "pending");
    let bytes = medium.read(&path).unwrap();
    let asked = Body::Approval { tool_use_id: "toolu_01".into(), state: "pending".into() };
    assert_eq!(scan(&bytes).records.last().unwrap().body, asked);
    session.append(&[approval("toolu_01", "allowed"), Draft::tool_result("toolu_01", "\"ok\"")]).unwrap();
    let history = session.history(&Limits::default()).unwrap().history;
    assert_eq!(
        sent(&history),
        json!([
            user(json!([text("read a")])),
            assistant(json!([call("toolu_01")])),
            user(json!([result("toolu_01", "ok")])),
        ])
    );
    assert_eq!(repairs(&history), []);
}

#[test]
fn c45_an_approval_says_nothing_to_the_model() {
    let lines = [
        r#"{"v":1,"n":0,"type":"session","id":"abc123"}"#,
        r#"{"v":1,"n":1,"parent":0,"type":"user","content":"hi"}"#,
        r#"{"v":1,"n":2,"parent":1,"type":"approval","tool_use_id":"never_saved","state":"pending"}"#,
        r#"{"v":1,"n":3,"parent":2,"type":"user","content":"still there?"}"#,
    ];
    let history = history_of_lines(&lines);
    assert_eq!(sent(&history), json!([user(json!([text("hi"), text("still there?")]))]));
    assert_eq!((repairs(&history), history.unanswered), (vec![], vec![]));
}

/// The history of a turn in which the model said something and left a server tool open, read after a restart.
fn paused(tools: &str, open: &str, then: &[Draft]) -> History<'static> {
    let (medium, store) = support::crash_store();
    let drafts = [
        Draft::new("context").raw("tools", tools),
        Draft::user("find it"),
        Draft::assistant(Some("m1"), &words("I search")),
        Draft::assistant(Some("m1"), &format!("[{open}]")),
    ];
    session_with(&store, &[&drafts, then].concat());
    let (_, store) = after_power_loss(&medium);
    restored(&store).history
}

fn approval(id: &str, state: &str) -> Draft {
    Draft::new("approval").text("tool_use_id", id).text("state", state)
}
