//! Calls and their results: unanswered, orphaned, out of place, with ids or arguments that the API refuses.

use serde_json::json;
use unforget_core::history::{Limits, RepairKind, UNKNOWN_OUTCOME};
use unforget_core::json as json_text;
use unforget_core::record::{Body, Draft};
use unforget_core::scan::scan;

use super::{
    FIXTURE_PATH, after_power_loss, assistant, call, fixture_store, history_of_fixture, history_of_lines, opened,
    repairs, restored, result, sent, session_with, text, unknown, user, words,
};
use crate::support::{self, assert_accepted};

#[test]
fn c00_a_result_that_was_written_before_its_call_goes_behind_it() {
    let history = history_of_fixture("C00_tutorial_order");
    assert_eq!(
        sent(&history),
        json!([
            user(json!([text("read a")])),
            assistant(json!([text("I'll read it"), call("toolu_01")])),
            user(json!([result("toolu_01", "file body")])),
            assistant(json!([text("It says file body")])),
        ])
    );
    assert_eq!(repairs(&history), [(1, RepairKind::ResultMoved("toolu_01".to_owned()))]);
}

#[test]
fn c00_a_live_turn_is_on_disk_in_the_order_in_which_it_happened() {
    let turn = [
        Draft::user("read a"),
        Draft::assistant(Some("m1"), &words("I'll read it")),
        Draft::tool_use(Some("m1"), "toolu_01", "read_file", r#"{"path":"a"}"#),
        Draft::tool_result("toolu_01", "\"file body\""),
        Draft::assistant(Some("m2"), &words("It says file body")),
    ];
    let expected = ["session", "user", "assistant", "tool_use", "tool_result", "assistant"];
    for done in 0..=turn.len() {
        let (medium, store) = support::crash_store();
        let mut session = session_with(&store, &[]);
        for draft in &turn[..done] {
            session.append(std::slice::from_ref(draft)).unwrap();
        }
        // Whatever is acted on now is already safe.
        let (medium, store) = after_power_loss(&medium);
        assert_eq!(kinds(&medium.read(session.path()).unwrap()), expected[..=done]);
        assert_accepted(&restored(&store).history, expected[done]);
    }
}

#[test]
fn c01_an_unanswered_call_gets_a_result_that_says_so() {
    let history = history_of_fixture("C01_tool_use_no_result_tail");
    assert_eq!(
        sent(&history),
        json!([
            user(json!([text("read a")])),
            assistant(json!([text("ok"), call("toolu_01")])),
            user(json!([unknown("toolu_01")])),
        ])
    );
    assert_eq!(repairs(&history), [(3, RepairKind::ResultAdded("toolu_01".to_owned()))]);
    assert_eq!(history.unanswered, [("toolu_01".to_owned(), 3)]);
}

#[test]
fn c01_settling_appends_that_result_and_changes_nothing_before_it() {
    let (medium, store) = fixture_store("C01_tool_use_no_result_tail");
    let before = medium.read(FIXTURE_PATH).unwrap();
    let mut session = opened(&store);
    assert_eq!(session.settle(&Limits::default()).unwrap(), 4..5);
    let after = medium.read(FIXTURE_PATH).unwrap();
    assert_eq!(after[..before.len()], before);
    let records = scan(&after).records;
    let Body::ToolResult(added) = &records[4].body else { panic!("{:?}", records[4]) };
    assert_eq!(added.id, "toolu_01");
    assert_eq!(json_text::string(added.content).unwrap(), UNKNOWN_OUTCOME);
    assert!(added.is_error && added.is_repair);
    assert_eq!(records.len(), 5);
}

#[test]
fn c02_a_hole_in_the_middle_is_filled_right_after_the_call() {
    let history = history_of_fixture("C02_tool_use_no_result_mid");
    assert_eq!(
        sent(&history),
        json!([
            user(json!([text("read a")])),
            assistant(json!([call("toolu_01")])),
            user(json!([unknown("toolu_01"), text("are you there?")])),
            assistant(json!([text("yes")])),
        ])
    );
    assert_eq!(repairs(&history), [(2, RepairKind::ResultAdded("toolu_01".to_owned()))]);
}

#[test]
fn c03_a_result_that_answers_no_call_stays_in_the_log_only() {
    let history = history_of_fixture("C03_orphan_result");
    assert_eq!(sent(&history), json!([user(json!([text("hi")])), assistant(json!([text("ok")]))]));
    assert_eq!(repairs(&history), [(2, RepairKind::OrphanResult("toolu_99".to_owned()))]);
}

#[test]
fn c04_the_second_call_of_an_id_gets_another_one_together_with_its_result() {
    let history = history_of_fixture("C04_dup_tool_ids_same_msg");
    assert_eq!(
        sent(&history),
        json!([
            user(json!([text("x")])),
            assistant(json!([call("toolu_01"), call("toolu_01_2")])),
            user(json!([result("toolu_01", "ok"), unknown("toolu_01_2")])),
            assistant(json!([text("ok")])),
        ])
    );
    assert_eq!(
        repairs(&history),
        [
            (3, RepairKind::CallRenamed { from: "toolu_01".to_owned(), to: "toolu_01_2".to_owned() }),
            (3, RepairKind::ResultAdded("toolu_01".to_owned())),
        ]
    );
}

#[test]
fn c04_results_of_one_id_go_to_its_calls_in_their_order() {
    let history = history_of_lines(&[
        r#"{"type":"user","content":"x"}"#,
        r#"{"type":"tool_use","tool_use_id":"a","name":"t","input":{"k":1}}"#,
        r#"{"type":"tool_use","tool_use_id":"a","name":"t","input":{"k":2}}"#,
        r#"{"type":"tool_use","tool_use_id":"a_2","name":"t","input":{"k":3}}"#,
        r#"{"type":"tool_result","tool_use_id":"a","output":"first"}"#,
        r#"{"type":"tool_result","tool_use_id":"a","output":"second"}"#,
        r#"{"type":"tool_result","tool_use_id":"a_2","output":"third"}"#,
    ]);
    let with = |id: &str, k: u32| json!({"type": "tool_use", "id": id, "name": "t", "input": {"k": k}});
    assert_eq!(
        sent(&history),
        json!([
            user(json!([text("x")])),
            assistant(json!([with("a", 1), with("a_2", 2), with("a_2_2", 3)])),
            user(json!([result("a", "first"), result("a_2", "second"), result("a_2_2", "third")])),
        ])
    );
}

#[test]
fn c06_a_result_that_came_after_more_words_goes_right_behind_its_call() {
    let history = history_of_fixture("C06_result_not_adjacent");
    assert_eq!(
        sent(&history),
        json!([
            user(json!([text("x")])),
            assistant(json!([call("toolu_01")])),
            user(json!([result("toolu_01", "ok")])),
            assistant(json!([text("thinking aloud"), text("ok")])),
        ])
    );
    assert_eq!(repairs(&history), [(4, RepairKind::ResultMoved("toolu_01".to_owned()))]);
}

#[test]
fn c07_words_typed_while_a_tool_ran_come_after_its_result() {
    let history = history_of_fixture("C07_steer_between");
    assert_eq!(
        sent(&history),
        json!([
            user(json!([text("x")])),
            assistant(json!([call("toolu_01")])),
            user(json!([result("toolu_01", "ok"), text("also do y")])),
            assistant(json!([text("ok")])),
        ])
    );
    assert_eq!(repairs(&history), [(4, RepairKind::ResultMoved("toolu_01".to_owned()))]);
}

#[test]
fn c09_of_two_parallel_calls_only_the_unanswered_one_is_answered_for() {
    let history = history_of_fixture("C09_parallel_partial");
    assert_eq!(
        sent(&history),
        json!([
            user(json!([text("x")])),
            assistant(json!([call("toolu_A"), call("toolu_B")])),
            user(json!([result("toolu_A", "ok"), unknown("toolu_B"), text("hello?")])),
            assistant(json!([text("ok")])),
        ])
    );
    assert_eq!(repairs(&history), [(3, RepairKind::ResultAdded("toolu_B".to_owned()))]);
}

#[test]
fn c15_an_id_of_another_provider_gets_a_form_that_the_api_takes_on_both_sides() {
    let history = history_of_fixture("C15_bad_id_chars");
    let id = "call_abc_fc_1_2_3783e2f93879";
    assert_eq!(
        sent(&history),
        json!([
            user(json!([text("x")])),
            assistant(json!([call(id)])),
            user(json!([result(id, "ok")])),
            assistant(json!([text("ok")])),
        ])
    );
    let renamed = RepairKind::CallRenamed { from: "call_abc|fc:1.2".to_owned(), to: id.to_owned() };
    assert_eq!(repairs(&history), [(2, renamed)]);
}

#[test]
fn c15_ids_that_differ_only_in_what_the_api_refuses_stay_apart() {
    let ids = ["a|b", "a:b", "a.b", "a_b", "日", "本"];
    let mut lines = vec![r#"{"type":"user","content":"x"}"#.to_owned()];
    for id in ids {
        lines.push(json!({"type": "tool_use", "tool_use_id": id, "name": "t", "input": {}}).to_string());
    }
    for id in ids.iter().rev() {
        lines.push(json!({"type": "tool_result", "tool_use_id": id, "output": id}).to_string());
    }
    let history = history_of_lines(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    let sent = sent(&history);
    for (at, id) in ids.iter().enumerate() {
        assert_eq!(sent[1]["content"][at]["id"], sent[2]["content"][at]["tool_use_id"]);
        assert_eq!(sent[2]["content"][at]["content"], *id);
    }
}

#[test]
fn c18_a_call_whose_arguments_were_cut_off_is_sent_without_them_and_said_not_to_have_run() {
    let history = history_of_fixture("C18_truncated_input");
    let cut_off = "[the arguments of this call were cut off; it was not run]";
    let answer = json!({
        "type": "tool_result",
        "tool_use_id": "toolu_01",
        "content": [text(cut_off), text("ok")],
        "is_error": true,
    });
    assert_eq!(
        sent(&history),
        json!([
            user(json!([text("x")])),
            assistant(json!([{"type": "tool_use", "id": "toolu_01", "name": "write", "input": {}}])),
            user(json!([answer])),
            assistant(json!([text("ok")])),
        ])
    );
    assert_eq!(repairs(&history), [(2, RepairKind::InputCutOff("toolu_01".to_owned()))]);
}

#[test]
fn c18_a_cut_off_call_without_a_result_is_not_said_to_have_an_unknown_outcome() {
    let lines = [
        r#"{"type":"session","id":"abc123","key":"main:cli:user"}"#,
        r#"{"type":"user","content":"x"}"#,
        r#"{"type":"tool_use","tool_use_id":"a","name":"write","input":"{\"path\":\"/tm"}"#,
    ];
    let history = history_of_lines(&lines);
    let answer = json!({
        "type": "tool_result",
        "tool_use_id": "a",
        "content": "[the arguments of this call were cut off; it was not run]",
        "is_error": true,
    });
    assert_eq!(sent(&history)[2], user(json!([answer])));
}

#[test]
fn c18_arguments_that_are_no_object_are_not_taken_into_the_log() {
    let (_, store) = support::crash_store();
    let mut session = session_with(&store, &[Draft::user("x")]);
    let head = session.head();
    let torn = Draft::tool_use(Some("m1"), "a", "write", r#"{"path":"/tm"#);
    session.append(&[torn]).unwrap_err();
    let as_text = r#"{"type":"tool_use","tool_use_id":"a","name":"write","input":"{\"path\":\"/tm"}"#;
    Draft::from_json(as_text).unwrap_err();
    assert_eq!(session.head(), head);
}

#[test]
fn c19_a_crash_between_two_results_leaves_the_first_and_answers_for_the_second() {
    let history = history_of_fixture("C19_ends_with_assistant_tool");
    assert_eq!(
        sent(&history),
        json!([
            user(json!([text("x")])),
            assistant(json!([text("ok")])),
            user(json!([text("y")])),
            assistant(json!([call("toolu_01"), call("toolu_02")])),
            user(json!([result("toolu_01", "ok"), unknown("toolu_02")])),
        ])
    );
    assert_eq!(repairs(&history), [(5, RepairKind::ResultAdded("toolu_02".to_owned()))]);
}

fn kinds(bytes: &[u8]) -> Vec<String> {
    scan(bytes).records.iter().map(|record| record.kind().to_owned()).collect()
}
