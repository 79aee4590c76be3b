//! What the server does not accept.

use serde_json::{Value, json};

use super::{
    FakeApi, KEY, MESSAGES, Options, VERSION, ask, assistant, hear, open, request, say, start, start_as, user,
};
use super::{post, with};

fn asked(api: &FakeApi, request_line: &str, headers: &str) -> (u16, String, String) {
    hear(open(api, request_line, headers, say("hi").to_string().as_bytes())).error()
}

fn error(status: u16, kind: &str, message: &str) -> (u16, String, String) {
    (status, kind.to_owned(), message.to_owned())
}

#[test]
fn a_broken_request_is_refused_in_the_words_of_the_server() {
    let api = start();
    let call = json!([{"type": "tool_use", "id": "t1", "name": "bash", "input": {}}]);
    let heard = ask(&api, &request(&[user(json!("hi")), assistant(call), user(json!("go on"))]));
    let message = "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: t1. Each \
                   `tool_use` block must have a corresponding `tool_result` block in the next message.";
    assert_eq!(heard.error(), error(400, "invalid_request_error", message));
    assert!(heard.head.contains(&format!("request-id: {}", heard.json()["request_id"].as_str().unwrap())));
    let refusals = api.refusals();
    assert_eq!(refusals.len(), 1);
    assert_eq!(refusals[0].status, Some(400));
    assert_eq!(refusals[0].refusal.as_ref().unwrap().message, message);
}

#[test]
fn a_request_without_a_key_is_refused() {
    let api = start();
    let missing = error(401, "authentication_error", "x-api-key header is required");
    assert_eq!(asked(&api, "POST /v1/messages", VERSION), missing);
    assert_eq!(asked(&api, "POST /v1/messages/count_tokens", VERSION), missing);
    let bearer = format!("authorization: Bearer t\r\n{VERSION}");
    assert_eq!(hear(open(&api, "POST /v1/messages", &bearer, say("hi").to_string().as_bytes())).status, 200);
    let strict = FakeApi::start(Options { key: Some("other".to_owned()), ..Options::default() }).unwrap();
    let wrong = error(401, "authentication_error", "invalid x-api-key");
    assert_eq!(asked(&strict, "POST /v1/messages", &format!("{KEY}{VERSION}")), wrong);
    assert!(api.refusals().is_empty());
}

#[test]
fn a_request_without_a_version_or_model_is_refused() {
    let api = start();
    let version = error(400, "invalid_request_error", "anthropic-version: header is required");
    assert_eq!(asked(&api, "POST /v1/messages", KEY), version);
    let mut body = say("hi");
    body.as_object_mut().unwrap().remove("model");
    assert_eq!(ask(&api, &body).error().2, "model: Field required");
}

#[test]
fn paths_and_methods_are_told_apart() {
    let api = start();
    let both = format!("{KEY}{VERSION}");
    assert_eq!(asked(&api, "POST /v1/complete", &both), error(404, "not_found_error", "Not found"));
    assert_eq!(asked(&api, "GET /v1/messages", &both).0, 405);
    for probe in ["GET /", "HEAD /"] {
        let heard = hear(open(&api, probe, "", b""));
        assert_eq!(heard.status, 200, "{probe}");
        assert!(heard.head.contains("request-id: "), "{probe}");
    }
    assert_eq!(hear(post(&api, &format!("{MESSAGES}?beta=true"), &say("hi"))).status, 200);
    let recorded = api.requests();
    assert_eq!(recorded[4].path, "/v1/messages?beta=true");
    assert_eq!(recorded[4].header("anthropic-version"), Some("2023-06-01"));
    assert_eq!(api.messages().len(), 1);
}

#[test]
fn the_window_is_enforced() {
    let long = say(&"hello ".repeat(100));
    let (status, kind, message) = ask(&start_as("claude-opus-5", 100), &long).error();
    assert_eq!((status, kind.as_str()), (400, "invalid_request_error"));
    assert_eq!(message, "prompt is too long: 131 tokens > 100 maximum");
    let wide = with(long, "max_tokens", json!(200));
    let message = ask(&start_as("claude-opus-4-1", 300), &wide).error().2;
    assert!(message.starts_with("input length and `max_tokens` exceed context limit: 131 + 200 > 300"), "{message}");
    assert_eq!(ask(&start_as("claude-opus-5", 300), &wide).status, 200);
}

#[test]
fn a_body_beyond_all_limits_is_too_large() {
    let api = start();
    let body = vec![b' '; 33 * 1024 * 1024];
    let heard = hear(open(&api, "POST /v1/messages", &format!("{KEY}{VERSION}"), &body));
    assert_eq!(heard.error(), error(413, "request_too_large", "Request exceeds the maximum size"));
}

/// A conversation whose answer begins with thinking.
fn thought(api: &FakeApi, prompt: &str) -> Value {
    let body = with(say(prompt), "stream", json!(false));
    let answer = ask(api, &body).json()["content"].clone();
    assert_eq!(answer[0]["type"], "thinking");
    request(&[user(json!(prompt)), assistant(answer), user(json!("go on"))])
}

#[test]
fn thinking_is_accepted_again_and_refused_elsewhere() {
    let api = start_as("claude-opus-5-5", 200_000);
    let conversation = thought(&api, "[[think]]");
    assert_eq!(ask(&api, &conversation).status, 200);
    let mut changed = conversation.clone();
    changed["messages"][0]["content"] = json!("[[think]]!");
    let message = ask(&api, &changed).error().2;
    let wanted = "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different";
    assert!(message.starts_with(wanted), "{message}");
    let mut forged = conversation;
    forged["messages"][1]["content"][0]["signature"] = json!("c2lnbmF0dXJl");
    assert_eq!(ask(&api, &forged).error().2, "messages.1.content.0: Invalid `signature` in `thinking` block");
    let dropping = json!({"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}});
    let changed = with(changed, "thinking", dropping).to_string();
    let controls = format!("{KEY}{VERSION}anthropic-beta: thinking-binding-controls-2026-08-01\r\n");
    assert_eq!(hear(open(&api, "POST /v1/messages", &controls, changed.as_bytes())).status, 200);
}

#[test]
fn old_models_think_whenever_they_have_a_budget() {
    let api = start_as("claude-sonnet-4-5", 200_000);
    let manual = json!({"type": "enabled", "budget_tokens": 1024});
    let heard = ask(&api, &with(say("hi"), "thinking", manual));
    assert_eq!(heard.started_blocks()[0]["type"], "thinking");
}

#[test]
fn a_system_message_has_an_output_config_only_with_its_beta() {
    let api = start();
    let system = json!({"role": "system", "content": "be brief", "output_config": {"effort": "low"}});
    let body = request(&[user(json!("hi")), system]);
    assert_eq!(ask(&api, &body).error().2, "messages.1.output_config: Extra inputs are not permitted");
    let control = format!("{KEY}{VERSION}anthropic-beta: a,per-turn-control-2026-07-01,b\r\n");
    let sent = |body: &Value| hear(open(&api, "POST /v1/messages", &control, body.to_string().as_bytes()));
    assert_eq!(sent(&body).status, 200);
    let person = json!({"role": "user", "content": "hi", "output_config": {"effort": "low"}});
    assert_eq!(sent(&request(&[person])).error().2, "messages.0.output_config: Extra inputs are not permitted");
}
