//! What a request costs: counts, usage and the cache.

use serde_json::{Value, json};

use super::{ask, assistant, count, request, say, start, user, with};

fn usage(body: &Value, api: &super::FakeApi) -> [u64; 3] {
    let heard = ask(api, body);
    let events = heard.events();
    let end = events.iter().find(|event| event["type"] == "message_delta").unwrap();
    let members = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"];
    for member in members {
        assert_eq!(events[0]["message"]["usage"][member], end["usage"][member]);
    }
    members.map(|member| end["usage"][member].as_u64().unwrap())
}

fn counted(body: &Value, api: &super::FakeApi) -> u64 {
    let mut body = body.clone();
    for member in ["max_tokens", "stream"] {
        body.as_object_mut().unwrap().remove(member);
    }
    count(api, &body).json()["input_tokens"].as_u64().unwrap()
}

fn marked(text: &str) -> Value {
    json!([{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}])
}

#[test]
fn usage_adds_up_and_a_grown_conversation_reads_from_the_cache() {
    let api = start();
    let first = with(request(&[user(marked("hello"))]), "system", marked("You are terse."));
    let [input, created, read] = usage(&first, &api);
    assert_eq!((input, created, read), (0, counted(&first, &api), 0));
    let mut grown = first;
    let messages = [user(json!([{"type": "text", "text": "hello"}])), assistant(json!("hi")), user(marked("again"))];
    grown["messages"] = json!(messages);
    let [input, more, read] = usage(&grown, &api);
    assert_eq!((input, read), (0, created));
    assert_eq!(more + read, counted(&grown, &api));
    grown["system"] = marked("You are verbose.");
    assert_eq!(usage(&grown, &api)[2], 0);
    grown["cache_control"] = json!({"type": "ephemeral"});
    assert_eq!(usage(&grown, &api)[1], 0);
}

#[test]
fn without_breakpoints_all_tokens_are_input() {
    let api = start();
    let body = say("hello");
    assert_eq!(usage(&body, &api), [counted(&body, &api), 0, 0]);
}

#[test]
fn what_is_refused_is_not_cached() {
    let api = start();
    let good = request(&[user(marked("hello"))]);
    assert_eq!(ask(&api, &with(good.clone(), "nonsense", json!(1))).status, 400);
    assert_eq!(usage(&good, &api)[2], 0);
}

#[test]
fn scripts_and_images_have_their_price() {
    let api = start();
    let tokens = |content: Value| counted(&request(&[user(content)]), &api);
    let latin = tokens(json!("lighthouse ".repeat(33)));
    let wide = tokens(json!("記".repeat(370)));
    assert!((60..=85).contains(&latin), "{latin}");
    assert!((330..=345).contains(&wide), "{wide}");
    // The head of a PNG of 300 by 250 pixels.
    let head = "iVBORw0KGgoAAAANSUhEUgAAASwAAAD6CAIAAAA=";
    let source = json!({"type": "base64", "media_type": "image/png", "data": head});
    let image = tokens(json!([{"type": "image", "source": source}]));
    assert!((100..=110).contains(&image), "{image}");
}

#[test]
fn a_count_refuses_what_the_real_one_refuses() {
    let api = start();
    let body = json!({"model": "m", "messages": [user(json!("hi"))]});
    let url = json!([{"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}]);
    let search = json!([{"type": "web_search_20250305", "name": "web_search"}]);
    for (body, wanted) in [
        (with(body.clone(), "max_tokens", json!(1)), "max_tokens: Extra inputs are not permitted"),
        (with(body.clone(), "stream", json!(true)), "stream: Extra inputs are not permitted"),
        (with(body.clone(), "messages", json!([])), "messages: at least one message is required"),
        (json!({}), "messages: at least one message is required"),
        (json!([]), "body: Input should be a valid dictionary"),
        (json!({"messages": [user(json!("hi"))]}), "model: Field required"),
        (with(body.clone(), "messages", json!([user(url)])), "messages.0.content.0.source: 'url' sources are not"),
        (with(body.clone(), "tools", search), "tools.0: tools of type 'web_search_20250305' are not"),
    ] {
        let (status, kind, message) = count(&api, &body).error();
        assert_eq!((status, kind.as_str()), (400, "invalid_request_error"), "{body}");
        assert!(message.starts_with(wanted), "{body}: {message}");
    }
    assert_eq!(count(&api, &body).status, 200);
}

#[test]
fn what_is_too_long_can_be_counted() {
    let api = super::start_as("claude-opus-5", 10);
    let body = json!({"model": "m", "messages": [user(json!("hello ".repeat(100)))]});
    assert_eq!(count(&api, &body).status, 200);
}

#[test]
fn counts_fail_on_demand() {
    let api = start();
    let body = json!({"model": "m", "messages": [user(json!("hi"))]});
    api.fail_counts(true);
    assert_eq!(count(&api, &body).error().1, "api_error");
    api.fail_counts(false);
    assert_eq!(count(&api, &body).status, 200);
}
