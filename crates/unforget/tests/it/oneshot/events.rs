//! `--json`: every line is an event, and each event has the members that scripts rely on.

use serde_json::{Value, json};
use unforget_testkit::api::Reply;

use crate::scene::{Scene, refusal};

fn events(out: &str) -> Vec<Value> {
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn names(events: &[Value]) -> Vec<&str> {
    let mut names: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    names.dedup();
    names
}

/// The names of an object's members.
fn members(event: &Value) -> Vec<&str> {
    event.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn an_answer_is_a_session_something_saved_text_and_an_end() {
    let scene = Scene::online();
    let said = scene.run(&["chat", "--json", "-p", "hello"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    let events = events(&said.out);
    assert_eq!(names(&events), ["session", "saved", "text", "saved", "end"], "{}", said.out);
    let id = &scene.sessions()[0];
    let session = json!({"event": "session", "id": id, "key": "main:cli:user", "model": "claude-sonnet-4-5"});
    assert_eq!(events[0], session);
    let records = scene.records();
    let user = records.iter().find(|record| record["type"] == "user").unwrap();
    assert_eq!(events[1], json!({"event": "saved", "n": user["n"]}));
    let texts = events.iter().filter(|event| event["event"] == "text");
    let text: String = texts.map(|event| event["text"].as_str().unwrap()).collect();
    assert_eq!(text, "ECHO(1 messages): hello");
    let end = events.last().unwrap();
    assert_eq!(members(end), ["event", "n", "state", "stop_reason", "text", "usage"]);
    assert_eq!((&end["state"], &end["stop_reason"]), (&json!("done"), &json!("end_turn")));
    assert_eq!((&end["text"], &end["n"]), (&json!(text), &records.last().unwrap()["n"]));
    assert!(end["usage"]["input_tokens"].is_u64() && end["usage"]["output_tokens"].is_u64(), "{end}");
}

#[test]
fn tools_have_a_call_and_a_result() {
    let scene = Scene::online();
    let said = scene.run(&["chat", "--json", "--allow", "bash", "-p", "[[bash:echo it works]]"]);
    let events = events(&said.out);
    let call = events.iter().find(|event| event["event"] == "tool_call").unwrap();
    assert_eq!(members(call), ["event", "id", "input", "name"]);
    assert_eq!((&call["name"], &call["input"]), (&json!("bash"), &json!({"command": "echo it works"})));
    let result = events.iter().find(|event| event["event"] == "tool_result").unwrap();
    assert_eq!(members(result), ["event", "id", "is_error", "ms", "text"]);
    assert_eq!((&result["id"], &result["is_error"]), (&call["id"], &json!(false)));
    assert_eq!(result["text"], "it works\n[exit code 0]");
    assert!(result["ms"].is_u64());
}

#[test]
fn an_error_is_an_event_too() {
    let scene = Scene::online();
    scene.api().push(refusal(400, "invalid_request_error", "no \"such\" thing"));
    let said = scene.run(&["chat", "--json", "-p", "hello"]);
    assert_eq!(said.code, 1);
    let events = events(&said.out);
    let error = events.last().unwrap();
    assert_eq!((members(error), &error["event"]), (vec!["event", "message"], &json!("error")));
    assert!(error["message"].as_str().unwrap().contains("no \"such\" thing"), "{error}");
    assert!(said.err.starts_with("error: "), "{said:?}");
}

#[test]
fn thinking_and_retries_are_events() {
    let scene = Scene::online();
    let again = |status, kind: &str| Reply::Error {
        status,
        kind: kind.to_owned(),
        message: "wait".to_owned(),
        retry_after: Some(0),
    };
    scene.api().push(again(429, "rate_limit_error"));
    let said = scene.run(&["chat", "--json", "-p", "[[think]]"]);
    assert_eq!(said.code, 0, "{said:?}");
    let events = events(&said.out);
    let retry = events.iter().find(|event| event["event"] == "retry").unwrap();
    assert_eq!(members(retry), ["attempt", "event", "message", "of", "wait_ms"]);
    assert_eq!(retry["attempt"], 1);
    let thinking: String =
        events.iter().filter(|one| one["event"] == "thinking").map(|one| one["text"].as_str().unwrap()).collect();
    assert_eq!(thinking, "Let me think about it.");
}
