//! Thinking, and what its signatures are bound to: the bytes, the system prompt, the tools and the model.

use std::collections::HashMap;

use serde_json::{Value, json};
use unforget_core::history::{History, Limits, RepairKind};
use unforget_core::record::{Body, Draft};
use unforget_core::scan::scan;
use unforget_testkit::crash::CrashMedium;
use unforget_testkit::rules;

use super::{after_power_loss, answer_of, assistant, opened, repairs, restored, sent, session_with, text, user, words};
use crate::support::{self, assert_accepted};

/// A model that binds thinking to the beginning of its conversation.
const STRICT: &str = "claude-fable-5-1";
/// Thinking as a server might spell it, which no serializer here would.
const THINKING: &str = r#"{"signature":"Eq\u0041+/==", "type":"thinking","thinking":"caf\u00e9 1.0"}"#;
const TOOLS: &str = r#"[{"name":"t","description":"does it","input_schema":{"type":"object"}}]"#;

#[test]
fn c21_thinking_is_stored_and_sent_with_the_bytes_of_the_api() {
    let (medium, store) = support::crash_store();
    let mut session = session_with(&store, &[]);
    let omitted = r#"{"type":"thinking","thinking":"","signature":"sig2"}"#;
    let blocks = format!(
        r#"[{THINKING},{{"type":"text","text":"I look"}},{omitted},{{"type":"tool_use","id":"a","name":"t","input":{{"z":1.0,"a":1e3}}}}]"#
    );
    session.save_turn("hi", &blocks).unwrap();
    let lines = String::from_utf8(medium.read(session.path()).unwrap()).unwrap();
    assert!(lines.contains(THINKING) && lines.contains(omitted), "{lines}");
    let (_, store) = after_power_loss(&medium);
    let history = restored(&store).history;
    assert_eq!(
        history.messages[1].blocks,
        [
            THINKING,
            r#"{"type":"text","text":"I look"}"#,
            omitted,
            r#"{"type":"tool_use","id":"a","name":"t","input":{"z":1.0,"a":1e3}}"#,
        ]
    );
    assert_accepted(&history, "thinking");
}

#[test]
fn c21_blocks_that_come_on_several_lines_are_stored_on_one() {
    let (medium, store) = support::crash_store();
    let mut session = session_with(&store, &[]);
    let blocks = "[\n  {\n    \"type\": \"thinking\",\n    \"thinking\": \"a\\nb\",\n    \"signature\": \"s\"\n  },\n  {\n    \"type\": \"text\",\n    \"text\": \"c\"\n  }\n]";
    session.save_turn("hi", blocks).unwrap();
    let bytes = medium.read(session.path()).unwrap();
    let kinds: Vec<String> = scan(&bytes).records.iter().map(|record| record.kind().to_owned()).collect();
    assert_eq!(kinds, ["session", "user", "assistant", "assistant", "turn"]);
    assert_eq!(scan(&bytes).report.notes, []);
    let history = restored(&store).history;
    let thinking = json!({"type": "thinking", "thinking": "a\nb", "signature": "s"});
    assert_eq!(sent(&history)[1], assistant(json!([thinking, {"type": "text", "text": "c"}])));
}

#[test]
fn thinking_that_nothing_follows_is_left_out() {
    let (_medium, store) = support::crash_store();
    let thought = |msg: &str, signature: &str| {
        let block = json!([{"type": "thinking", "thinking": "hm", "signature": signature}]);
        Draft::assistant(Some(msg), &block.to_string())
    };
    let text = |msg: &str| Draft::assistant(Some(msg), r#"[{"type":"text","text":"so"}]"#);
    // Aborted behind the thinking; then once more, and the answer that comes was given without the first thought.
    let aborted = [Draft::user("hi"), thought("m1", "one"), Draft::turn("aborted"), Draft::user("again")];
    let more = [thought("m2", "two"), Draft::turn("aborted"), thought("m3", "three"), text("m3"), Draft::user("go on")];
    let mut session = session_with(&store, &aborted);
    assert_eq!(sent(&restored(&store).history).as_array().map(Vec::len), Some(1));
    session.append(&more).unwrap();
    let history = restored(&store).history;
    let thinking = json!({"type": "thinking", "thinking": "hm", "signature": "three"});
    assert_eq!(sent(&history)[1], assistant(json!([thinking, {"type": "text", "text": "so"}])));
    assert_accepted(&history, "thinking alone");
}

#[test]
fn c23_redacted_thinking_is_kept_in_its_place() {
    let (medium, store) = support::crash_store();
    let redacted = r#"{"data":"EmwKAhgB/+==","type":"redacted_thinking"}"#;
    let content = format!(r#"[{THINKING},{redacted},{{"type":"text","text":"done"}}]"#);
    session_with(&store, &[Draft::user("hi"), Draft::assistant(Some("m1"), &content)]);
    let (_, store) = after_power_loss(&medium);
    let history = restored(&store).history;
    assert_eq!(history.messages[1].blocks, [THINKING, redacted, r#"{"type":"text","text":"done"}"#]);
    assert_eq!(repairs(&history), []);
    assert_accepted(&history, "redacted thinking");
}

#[test]
fn c24_after_a_switch_of_the_model_only_its_own_thinking_is_sent() {
    let (medium, store) = support::crash_store();
    let mut session = session_with(&store, &[context("be kind", TOOLS, "claude-opus-5"), Draft::user("hi")]);
    let of_model = |msg: &str, signature: &str, model: &str| {
        Draft::assistant(Some(msg), &thought(signature, "ok")).text("model", model)
    };
    session.append(&[of_model("m1", "sig-a", "claude-opus-5")]).unwrap();
    session.append(&[context("be kind", TOOLS, STRICT), Draft::user("and now?")]).unwrap();
    session.append(&[of_model("m2", "sig-b", STRICT)]).unwrap();
    let history = session.history(&Limits::default()).unwrap().history;
    assert_eq!(history.model.as_deref(), Some(STRICT));
    assert_eq!(
        sent(&history),
        json!([
            user(json!([text("hi")])),
            assistant(json!([text("ok")])),
            user(json!([text("and now?")])),
            assistant(json!([{"type": "thinking", "thinking": "hm", "signature": "sig-b"}, text("ok")])),
        ])
    );
    assert_eq!(repairs(&history), [thinking_left_out(3)]);
    let bytes = medium.read(session.path()).unwrap();
    let models: Vec<String> = scan(&bytes)
        .records
        .iter()
        .filter_map(|record| match &record.body {
            Body::Assistant { model, .. } => model.as_deref().map(str::to_owned),
            _ => None,
        })
        .collect();
    assert_eq!(models, ["claude-opus-5", STRICT]);
}

#[test]
fn c25_thinking_stays_as_long_as_the_beginning_does() {
    let (medium, issued) = thinking_turn();
    let (_, store) = after_power_loss(&medium);
    opened(&store).append(&[Draft::user("and now?")]).unwrap();
    let history = restored(&store).history;
    assert_eq!(sent(&history)[1]["content"][0]["signature"], "sig");
    answer_of(&history, &strict(&issued)).unwrap();
}

#[test]
fn c25_thinking_of_before_another_system_prompt_is_left_out() {
    let (medium, issued) = thinking_turn();
    let (_, store) = after_power_loss(&medium);
    let naive = with_words(restored(&store).history.to_request(STRICT, 1024), "system", json!("It is Tuesday."));
    opened(&store).append(&[context("It is Tuesday.", TOOLS, STRICT), Draft::user("and now?")]).unwrap();
    let history = restored(&store).history;
    assert_eq!(history.system.as_deref(), Some("\"It is Tuesday.\""));
    assert_bound_elsewhere(&naive, &history, &issued);
}

#[test]
fn c25_a_context_that_says_the_same_again_changes_nothing() {
    let (medium, issued) = thinking_turn();
    let (_, store) = after_power_loss(&medium);
    opened(&store).append(&[context("It is Monday.", TOOLS, STRICT), Draft::user("and now?")]).unwrap();
    let history = restored(&store).history;
    assert_eq!(sent(&history)[1]["content"][0]["signature"], "sig");
    assert_eq!(repairs(&history), []);
    answer_of(&history, &strict(&issued)).unwrap();
}

#[test]
fn c26_thinking_of_before_other_tools_is_left_out() {
    let (medium, issued) = thinking_turn();
    let (_, store) = after_power_loss(&medium);
    let upgraded = TOOLS.replace("does it", "does it well");
    let tools: Value = serde_json::from_str(&upgraded).unwrap();
    let naive = with_words(restored(&store).history.to_request(STRICT, 1024), "tools", tools);
    opened(&store).append(&[context("It is Monday.", &upgraded, STRICT), Draft::user("and now?")]).unwrap();
    let history = restored(&store).history;
    assert_eq!(history.tools.as_deref(), Some(upgraded.as_str()));
    assert_bound_elsewhere(&naive, &history, &issued);
}

#[test]
fn c27_every_request_begins_with_the_bytes_of_the_one_before_it() {
    let (mut medium, store) = support::crash_store();
    drop(session_with(&store, &[context("be kind", TOOLS, STRICT)]));
    let spelled = r#"{ "z":1.0, "a":12345678901234567890123, "s":"\u00e9\/" , "e":1E5 }"#;
    let said = format!(r#"[{THINKING},{{ "text":"I look\u2028", "type":"text" }}]"#);
    let turns: [&[Draft]; 8] = [
        &[Draft::user("hi \u{2028} \u{1f600}")],
        &[
            Draft::assistant(Some("m1"), &said),
            Draft::tool_use(Some("m1"), "a", "t", spelled),
            Draft::tool_use(Some("m1"), "b|2", "t", "{}"),
            Draft::user("typed meanwhile"),
            Draft::tool_result("b|2", r#"[{"type":"text","text":"two"},{"type":"text","text":"blocks"}]"#),
            Draft::tool_result("a", r#"{"any":["json",1.50]}"#),
        ],
        &[Draft::assistant(Some("m2"), &thought("sig2", "ok")), Draft::turn("done"), Draft::user("next")],
        &[Draft::new("error").text("message", "overloaded"), Draft::turn("aborted"), Draft::user("still there?")],
        &[Draft::assistant(Some("m3"), "[]"), Draft::assistant(Some("m3"), "\" \""), Draft::user("hello?")],
        &[Draft::tool_use(Some("m4"), "a", "t", "{}"), Draft::title("a title")],
        &[Draft::assistant(Some("m5"), &words("it failed")), Draft::user("never mind")],
        &[Draft::assistant(Some("m6"), &words("bye")), Draft::user("bye")],
    ];
    let mut before = String::new();
    for (at, drafts) in turns.iter().enumerate() {
        let (next, store) = after_power_loss(&medium);
        medium = next;
        opened(&store).append(drafts).unwrap();
        let history = restored(&store).history;
        assert_accepted(&history, &format!("request {at}"));
        let request = history.to_request(STRICT, 1024);
        assert!(request.starts_with(&before), "request {at} begins anew:\n{before}\n{request}");
        assert!(request.len() > before.len());
        before = request.strip_suffix("]}]}").unwrap().to_owned();
    }
    assert!(before.contains(spelled) && before.contains(THINKING), "{before}");
}

/// A transcript in which the strict model thought once, and what the server remembers of it.
fn thinking_turn() -> (CrashMedium, HashMap<String, String>) {
    let (medium, store) = support::crash_store();
    let mut session = session_with(&store, &[context("It is Monday.", TOOLS, STRICT), Draft::user("hi")]);
    let request = session.history(&Limits::default()).unwrap().history.to_request(STRICT, 1024);
    let request: Value = serde_json::from_str(&request).unwrap();
    let issued = HashMap::from([("sig".to_owned(), rules::prefix_hash(&request, 1))]);
    session.append(&[Draft::assistant(Some("m1"), &thought("sig", "ok")), Draft::turn("done")]).unwrap();
    (medium, issued)
}

fn strict(issued: &HashMap<String, String>) -> rules::Server<'_> {
    rules::Server { model: STRICT, known_prefixes: Some(issued), ..rules::Server::default() }
}

/// The request with another member and the user's next words: what a rebuild that knows no binding sends.
fn with_words(request: String, member: &str, value: Value) -> String {
    let mut body: Value = serde_json::from_str(&request).unwrap();
    body[member] = value;
    body["messages"].as_array_mut().unwrap().push(json!({"role": "user", "content": "and now?"}));
    body.to_string()
}

/// Sees that the server refuses the naive request, and takes ours, which lacks the thinking.
fn assert_bound_elsewhere(naive: &str, history: &History<'_>, issued: &HashMap<String, String>) {
    let rejection = rules::check(naive.as_bytes(), &strict(issued)).unwrap_err();
    assert!(rejection.message.contains("bound to a different conversation"), "{rejection}");
    answer_of(history, &strict(issued)).unwrap();
    assert_eq!(
        sent(history),
        json!([user(json!([text("hi")])), assistant(json!([text("ok")])), user(json!([text("and now?")]))])
    );
    assert_eq!(repairs(history), [thinking_left_out(3)]);
}

fn thinking_left_out(n: u64) -> (u64, RepairKind) {
    (n, RepairKind::ThinkingLeftOut("it belongs to another beginning of the conversation".to_owned()))
}

fn context(system: &str, tools: &str, model: &str) -> Draft {
    Draft::new("context").text("system", system).raw("tools", tools).text("model", model)
}

/// Thinking with that signature, then words.
fn thought(signature: &str, words: &str) -> String {
    json!([{"type": "thinking", "thinking": "hm", "signature": signature}, text(words)]).to_string()
}

#[test]
fn z10_masking_leaves_signatures_alone_and_is_the_same_each_time() {
    let secret = concat!("ghp_", "0123456789abcdefghijABCDEFGHIJ012345");
    let signature = "AKIA0123456789ABCDEF".repeat(5);
    let block = format!(r#"{{"type":"thinking","thinking":"{secret}","signature":"{signature}"}}"#);
    let raw = format!(r#"{{"type":"assistant","content":[{block}]}}"#);
    let masked = unforget_core::masked::mask_json(&raw, 0);
    assert!(masked.contains(&signature) && !masked.contains(secret), "{masked}");
    assert_eq!(unforget_core::masked::mask_json(&raw, 0), masked);
    assert_eq!(unforget_core::masked::mask_json(&masked, 0), masked);
}
