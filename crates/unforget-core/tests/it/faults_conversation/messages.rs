//! Whole messages: empty ones, roles in every order, errors, far too many, and members that only a request has.

use serde_json::{Value, json};
use unforget_core::history::{History, Limits, RepairKind};
use unforget_core::record::{Body, Draft};
use unforget_core::report::NoteKind;
use unforget_core::scan::scan;
use unforget_testkit::rules;

use super::{
    answer_of, assistant, history_of_fixture, history_of_lines, images, repairs, restored, sent, session_with, text,
    user, words,
};
use crate::support::{self, assert_accepted};

#[test]
fn c10_an_empty_answer_is_left_out() {
    let history = history_of_fixture("C10_empty_assistant");
    assert_eq!(sent(&history), json!([user(json!([text("x"), text("y")])), assistant(json!([text("ok")]))]));
    assert_eq!(repairs(&history), [(2, RepairKind::Empty)]);
}

#[test]
fn c10_an_empty_block_is_left_out_and_its_neighbours_stay() {
    let history = history_of_lines(&[
        r#"{"type":"user","content":[{"type":"text","text":""},{"type":"text","text":"x"}]}"#,
        r#"{"type":"assistant","content":[{"type":"text","text":"a"},{"type":"text","text":""}]}"#,
        r#"{"type":"user","content":""}"#,
        r#"{"type":"assistant","content":[]}"#,
    ]);
    assert_eq!(sent(&history), json!([user(json!([text("x")])), assistant(json!([text("a")]))]));
    assert_eq!(repairs(&history), [(0, RepairKind::Empty), (1, RepairKind::Empty), (2, RepairKind::Empty)]);
}

#[test]
fn c11_an_answer_of_white_space_is_left_out() {
    let history = history_of_fixture("C11_whitespace_assistant");
    assert_eq!(sent(&history), json!([user(json!([text("x"), text("y")])), assistant(json!([text("ok")]))]));
    assert_eq!(repairs(&history), [(2, RepairKind::Empty)]);
}

#[test]
fn c11_answers_with_only_white_space_of_the_user_between_them_are_one_message() {
    let history = history_of_lines(&[
        r#"{"type":"user","content":"x"}"#,
        r#"{"type":"assistant","content":"a"}"#,
        r#"{"type":"user","content":" \t"}"#,
        r#"{"type":"assistant","content":"b"}"#,
    ]);
    assert_eq!(sent(&history), json!([user(json!([text("x")])), assistant(json!([text("a"), text("b")]))]));
    assert_eq!(repairs(&history), [(2, RepairKind::Empty)]);
}

#[test]
fn c13_a_greeting_before_the_first_words_of_the_user_stays() {
    let history = history_of_fixture("C13_assistant_first");
    assert_eq!(
        sent(&history),
        json!([assistant(json!([text("Welcome!")])), user(json!([text("hi")])), assistant(json!([text("ok")])),])
    );
    assert_eq!(repairs(&history), []);
}

#[test]
fn c14_neighbours_of_one_role_are_one_message() {
    let history = history_of_fixture("C14_consecutive_roles");
    assert_eq!(sent(&history), json!([user(json!([text("a"), text("b")])), assistant(json!([text("c"), text("d")]))]));
    assert_eq!(repairs(&history), []);
}

#[test]
fn c44_an_error_is_on_disk_and_never_in_the_view() {
    let (medium, store) = support::crash_store();
    let said = "API Error: 400 prompt is too long";
    let drafts = [
        Draft::user("first"),
        Draft::new("error").text("message", said),
        Draft::turn("aborted"),
        Draft::user("again"),
        Draft::assistant(Some("m1"), &words("here")),
    ];
    let session = session_with(&store, &drafts);
    let history = session.history(&Limits::default()).unwrap().history;
    assert_eq!(sent(&history), json!([user(json!([text("first"), text("again")])), assistant(json!([text("here")]))]));
    assert_eq!(repairs(&history), []);
    let bytes = medium.read(session.path()).unwrap();
    assert_eq!(scan(&bytes).records[2].body, Body::Error { message: said.into() });
}

#[test]
fn c47_of_more_messages_than_a_request_may_hold_the_newest_are_sent() {
    let history = support::history(&many_turns());
    assert_accepted(&history, "60,000 turns");
    let count = history.messages.len();
    assert!((90_000..=100_000).contains(&count), "{count} messages");
    assert_eq!(
        last_messages(&history),
        [user(json!([text("question 59999")])), assistant(json!([text("answer 59999")]))]
    );
    let note = "[Earlier messages of this conversation are not included.]";
    let first: Value = serde_json::from_str(&history.messages[0].blocks[0]).unwrap();
    assert_eq!(first, text(note));
    assert_eq!(history.repairs.len(), 1);
    assert_eq!(history.repairs[0].kind, RepairKind::EarlierLeftOut);
}

#[test]
fn c47_a_compaction_leaves_the_summary_and_what_it_kept() {
    let mut bytes = many_turns();
    // Records count from 0, two to a turn: the last question is number 119,998.
    bytes.extend(br#"{"type":"compaction","summary":"they counted","first_kept":119998}"#);
    let history = support::history(&bytes);
    assert_accepted(&history, "compaction");
    assert_eq!(
        sent(&history),
        json!([
            user(json!([text("[Summary of the conversation so far]\nthey counted"), text("question 59999")])),
            assistant(json!([text("answer 59999")])),
        ])
    );
    assert_eq!(repairs(&history), []);
}

#[test]
fn c48_stored_cache_breakpoints_never_reach_a_request() {
    let mark = r#""cache_control":{"type":"ephemeral"}"#;
    let image = images::image(10, 10).to_string();
    let marked_image = image.replacen('{', &format!("{{{mark},"), 1);
    let lines = [
        format!(
            r#"{{"v":1,"n":0,"parent":0,"type":"context","model":"claude-opus-5","system":[{{"type":"text","text":"be kind",{mark}}}],"tools":[{{"name":"t","input_schema":{{"type":"object"}},{mark}}}]}}"#
        ),
        format!(
            r#"{{"v":1,"n":1,"parent":0,"type":"user","content":[{{"type":"text","text":"x",{mark}}},{marked_image}]}}"#
        ),
        format!(
            r#"{{"v":1,"n":2,"parent":1,"type":"user","content":[{{"type":"document","source":{{"type":"content","content":[{{"type":"text","text":"page",{mark}}}]}},{mark}}}]}}"#
        ),
        format!(
            r#"{{"v":1,"n":3,"parent":2,"type":"assistant","msg":"m","content":[{{"type":"thinking","thinking":"","signature":"s",{mark}}},{{"type":"text","text":"",{mark}}},{{"type":"tool_use","id":"a","name":"t","input":{{}},{mark}}}]}}"#
        ),
        format!(
            r#"{{"v":1,"n":4,"parent":3,"type":"user","content":[{{"type":"tool_result","tool_use_id":"a","content":[{{"type":"text","text":"r",{mark}}}],{mark}}}]}}"#
        ),
    ];
    let history = history_of_lines(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    let request = history.to_request("claude-opus-5", 1024);
    assert!(!request.contains("cache_control"), "{request}");
    let blocks: Vec<usize> = history.messages.iter().map(|message| message.blocks.len()).collect();
    assert_eq!(blocks, [3, 2, 1], "only the marks and the empty text are left out");
}

#[test]
fn c48_what_is_only_called_like_a_breakpoint_stays() {
    let tools = r#"[{ "name":"t","input_schema":{"properties":{"cache_control":{"type":"object"}}} }]"#;
    let input = r#"{ "cache_control":{"type":"ephemeral"} }"#;
    let history = history_of_lines(&[
        &format!(r#"{{"type":"context","tools":{tools}}}"#),
        r#"{"type":"user","content":"x"}"#,
        &format!(r#"{{"type":"tool_use","tool_use_id":"a","name":"t","input":{input}}}"#),
        r#"{"type":"tool_result","tool_use_id":"a","output":"ok"}"#,
    ]);
    assert_eq!(history.tools.as_deref(), Some(tools));
    assert!(history.messages[1].blocks[0].contains(input));
    assert_eq!(repairs(&history), []);
}

#[test]
fn c48_a_request_has_room_for_four_breakpoints_of_its_own() {
    let line = r#"{"type":"user","content":[{"type":"text","text":"x","cache_control":{"type":"ephemeral"}},{"type":"text","text":"y"},{"type":"text","text":"z"},{"type":"text","text":"w"}]}"#;
    let history = history_of_lines(&[line]);
    let mut body: Value = serde_json::from_str(&history.to_request("claude-opus-5", 1024)).unwrap();
    for block in 1..4 {
        body["messages"][0]["content"][block]["cache_control"] = json!({"type": "ephemeral"});
    }
    body["cache_control"] = json!({"type": "ephemeral"});
    rules::check(body.to_string().as_bytes(), &rules::Server::default()).unwrap();
}

#[test]
fn c49_only_the_user_and_the_model_speak_in_messages() {
    let lines = [
        r#"{"type":"user","content":"hi"}"#,
        r#"{"type":"system","content":"a reminder"}"#,
        r#"{"type":"message","role":"system","content":"another"}"#,
        r#"{"type":"assistant","content":"ok"}"#,
        r#"{"type":"user","role":"system","content":"go on"}"#,
    ];
    let history = history_of_lines(&lines);
    assert_eq!(
        sent(&history),
        json!([user(json!([text("hi")])), assistant(json!([text("ok")])), user(json!([text("go on")]))])
    );
    let bytes = lines.join("\n") + "\n";
    let notes: Vec<NoteKind> = scan(bytes.as_bytes()).report.notes.into_iter().map(|note| note.kind).collect();
    assert_eq!(notes, [NoteKind::UnknownType("system".to_owned()), NoteKind::UnknownType("message".to_owned())]);
}

#[test]
fn c49_a_new_system_prompt_goes_to_the_top_of_the_request_on_every_model() {
    let (_, store) = support::crash_store();
    let drafts = [
        Draft::new("context").text("system", "be kind"),
        Draft::user("hi"),
        Draft::assistant(Some("m1"), &words("ok")),
        Draft::new("context").text("system", "be brief"),
        Draft::user("go on"),
    ];
    session_with(&store, &drafts);
    let history = restored(&store).history;
    assert_eq!(history.system.as_deref(), Some("\"be brief\""));
    assert_eq!(
        sent(&history),
        json!([user(json!([text("hi")])), assistant(json!([text("ok")])), user(json!([text("go on")]))])
    );
    for model in ["claude-3-7-sonnet-20250219", "claude-sonnet-5", "claude-opus-5"] {
        answer_of(&history, &rules::Server { model, ..rules::Server::default() }).unwrap();
    }
}

/// 60,000 turns of two messages each.
fn many_turns() -> Vec<u8> {
    let turn = |turn: usize| {
        format!(
            "{{\"type\":\"user\",\"content\":\"question {turn}\"}}\n{{\"type\":\"assistant\",\"content\":\"answer {turn}\"}}\n"
        )
    };
    (0..60_000).map(turn).collect::<String>().into_bytes()
}

/// The last two messages, as values.
fn last_messages(history: &History<'_>) -> Vec<Value> {
    let last = &history.messages[history.messages.len() - 2..];
    let value = |block: &std::borrow::Cow<'_, str>| serde_json::from_str::<Value>(block).unwrap();
    last.iter()
        .map(|message| json!({"role": message.role.name(), "content": message.blocks.iter().map(value).collect::<Vec<_>>()}))
        .collect()
}
