//! What the server says by itself.

use serde_json::{Value, json};

use super::{ask, assistant, request, say, start, start_as, user, with};

fn types(events: &[Value]) -> Vec<&str> {
    let mut types: Vec<&str> = events.iter().filter_map(|event| event["type"].as_str()).collect();
    types.dedup();
    types
}

#[test]
fn a_stream_has_the_shape_of_the_real_one() {
    let api = start();
    let heard = ask(&api, &say("[[think]] [[bash:ls -l]]"));
    assert_eq!(heard.status, 200);
    assert!(heard.is_whole);
    assert!(heard.head.contains("content-type: text/event-stream"));
    assert!(heard.head.contains("request-id: req_"));
    let block = ["content_block_start", "content_block_delta", "content_block_stop"];
    let events = heard.events();
    let wanted = ["message_start", "ping"].into_iter().chain([block; 3].concat());
    assert_eq!(types(&events), wanted.chain(["message_delta", "message_stop"]).collect::<Vec<_>>());
    assert_eq!(events[0]["message"]["role"], "assistant");
    assert_eq!(heard.stop_reason(), "tool_use");
    let kinds: Vec<Value> = heard.started_blocks().iter().map(|block| block["type"].clone()).collect();
    assert_eq!(kinds, ["thinking", "text", "tool_use"]);
    assert_eq!(heard.told("thinking_delta", "thinking"), "Let me think about it.");
    assert!(!heard.told("signature_delta", "signature").is_empty());
    assert_eq!(heard.text(), "Running it.");
    assert_eq!(heard.input(), json!({"command": "ls -l"}));
}

#[test]
fn pieces_of_a_stream_end_inside_characters() {
    let text = "記憶は再起動を生き延びる。🦀 ".repeat(10);
    let heard = ask(&start(), &say(&text));
    assert_eq!(heard.text(), format!("ECHO(1 messages): {}", text.trim()));
    assert!(heard.pieces.iter().any(|piece| str::from_utf8(piece).is_err()));
}

#[test]
fn without_streaming_the_same_answer_is_one_object() {
    let api = start();
    let body = with(say("[[parallel:a||b]]"), "stream", json!(false));
    let heard = ask(&api, &body);
    let message = heard.json();
    assert_eq!(message["stop_reason"], "tool_use");
    let inputs: Vec<&Value> = message["content"].as_array().unwrap().iter().map(|block| &block["input"]).collect();
    assert_eq!(inputs, [&json!({"command": "a"}), &json!({"command": "b"})]);
    assert_ne!(message["content"][0]["id"], message["content"][1]["id"]);
}

#[test]
fn ids_are_never_used_twice_and_the_same_on_every_server() {
    let id = |api: &super::FakeApi| ask(api, &say("[[bash:x]]")).started_blocks()[1]["id"].clone();
    let (one, other) = (start(), start());
    let (first, second) = (id(&one), id(&one));
    assert_eq!(first, "toolu_000000000000000000000001");
    assert_ne!(first, second);
    assert_eq!(id(&other), first);
}

#[test]
fn directives_are_obeyed() {
    let api = start();
    for (text, name, input) in [
        ("[[read:a b]]", "read_file", json!({"path": "a b"})),
        ("[[write:a|b|c]]", "write_file", json!({"path": "a", "content": "b|c"})),
        ("[[list:.]]", "list_directory", json!({"path": "."})),
        ("[[tool:x|{\"y\":[1]}]]", "x", json!({"y": [1]})),
        ("[[tool:x]]", "x", json!({})),
    ] {
        let heard = ask(&api, &say(text));
        assert_eq!((&heard.started_blocks()[0]["name"], heard.input()), (&json!(name), input), "{text}");
    }
    for (text, wanted) in [
        ("[[long:3]]", "memory survives naïve"),
        ("[[think]]", "Thought about it."),
        ("[[nothing:of it]]", "ECHO(1 messages): [[nothing:of it]]"),
        ("hello <system-reminder>[[recall]]</system-reminder>", "ECHO(1 messages): hello"),
    ] {
        assert_eq!(ask(&api, &say(text)).text(), wanted, "{text}");
    }
    assert_eq!(ask(&api, &say("[[stop:refusal]]")).stop_reason(), "refusal");
}

#[test]
fn recall_lists_every_text_of_a_person() {
    let last = json!([{"type": "text", "text": "two"}, {"type": "text", "text": "[[recall]]"}]);
    let body = request(&[user(json!("one \"1\"")), assistant(json!("no")), user(last)]);
    assert_eq!(ask(&start(), &body).text(), r#"RECALL ["one \"1\"","two","[[recall]]"]"#);
}

fn round(messages: &mut Vec<Value>, id: &str, results: Value) {
    messages.push(assistant(json!([{"type": "tool_use", "id": id, "name": "bash", "input": {}}])));
    messages.push(user(results));
}

fn result(id: &str, content: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": content})
}

#[test]
fn results_are_quoted_beside_what_was_said() {
    let api = start();
    let mut messages = vec![user(json!("[[bash:x]]"))];
    round(&mut messages, "t1", json!([result("t1", &"y".repeat(300))]));
    let quote = format!("TOOL-DONE: {}", "y".repeat(200));
    assert_eq!(ask(&api, &request(&messages)).text(), quote);
    let mut said = messages.clone();
    said.push(user(json!("and now?")));
    assert_eq!(ask(&api, &request(&said)).text(), format!("{quote}\nECHO(4 messages): and now?"));
    // Who interrupts and asks for something else gets it.
    said.pop();
    said.push(user(json!("[[long:1]]")));
    assert_eq!(ask(&api, &request(&said)).text(), "memory");
}

#[test]
fn a_chain_calls_as_often_as_it_says() {
    let api = start();
    let mut messages = vec![user(json!("[[chain:3|date]]"))];
    for number in 0..3 {
        let heard = ask(&api, &request(&messages));
        assert_eq!((heard.stop_reason(), heard.input()), (json!("tool_use"), json!({"command": "date"})));
        let id = format!("t{number}");
        round(&mut messages, &id, json!([result(&id, "now")]));
    }
    let heard = ask(&api, &request(&messages));
    assert_eq!((heard.stop_reason(), heard.text()), (json!("end_turn"), "TOOL-DONE: now".to_owned()));
}

#[test]
fn a_summary_is_short_and_begins_as_its_input() {
    let api = start();
    let story = format!("Remember the banana of tomorrow. {}", "And so on and on. ".repeat(50));
    let body = request(&[user(json!(story)), assistant(json!("yes")), user(json!("Please summarise this."))]);
    let summary = ask(&api, &body).text();
    assert!(summary.starts_with("SUMMARY: Remember the banana of tomorrow."), "{summary}");
    assert!(summary.len() < story.len() / 3);
    let tools = json!([{"name": "bash", "input_schema": {"type": "object"}}]);
    assert!(ask(&api, &with(body, "tools", tools)).text().starts_with("ECHO(3 messages): "));
}

#[test]
fn structured_output_is_an_object_of_its_schema() {
    let members = json!({"title": {"type": "string"}, "done": {"type": "boolean"}, "count": {"type": "integer"}});
    let format = json!({"format": {"type": "json_schema", "schema": {"type": "object", "properties": members}}});
    let heard = ask(&start(), &with(say("name it"), "output_config", format));
    let object: Value = serde_json::from_str(&heard.text()).unwrap();
    assert_eq!(object, json!({"title": "Fake title", "done": false, "count": 0}));
}

#[test]
fn answers_end_with_max_tokens() {
    let api = start();
    let heard = ask(&api, &with(say("[[long:1000]]"), "max_tokens", json!(10)));
    assert_eq!(heard.stop_reason(), "max_tokens");
    assert!(heard.text().len() < 60, "{}", heard.text());
    let heard = ask(&api, &with(say("[[tool:x|{\"text\":\"abcdefghijklmnopqrstuvwxyz\"}]]"), "max_tokens", json!(5)));
    assert_eq!(heard.stop_reason(), "max_tokens");
    let input = heard.told("input_json_delta", "partial_json");
    assert!(input.starts_with("{\"text\"") && !input.ends_with('}'), "{input}");
}

#[test]
fn answers_end_with_the_window() {
    let heard = ask(&start_as("claude-opus-5", 100), &say("[[long:1000]]"));
    assert_eq!(heard.stop_reason(), "model_context_window_exceeded");
    let usage = heard.events().iter().find(|event| event["type"] == "message_delta").unwrap()["usage"].clone();
    assert_eq!(usage["input_tokens"].as_u64().unwrap() + usage["output_tokens"].as_u64().unwrap(), 100);
}

#[test]
fn an_agent_is_asked_with_the_prompt_that_was_given() {
    let tools = json!([{"name": "Agent", "input_schema": {"type": "object"}}]);
    let heard = ask(&start(), &with(say("go [[agent:look [[bash:ls]]]]"), "tools", tools));
    assert_eq!(heard.started_blocks()[0]["name"], "Agent");
    let input = heard.input();
    assert_eq!((&input["prompt"], &input["run_in_background"]), (&json!("look [[bash:ls]]"), &json!(false)));
    assert_eq!(heard.stop_reason(), "tool_use");
}

#[test]
fn a_request_has_as_many_tokens_as_it_claims() {
    let api = start();
    let used = |text: &str| {
        let usage = ask(&api, &say(text)).events()[0]["message"]["usage"].clone();
        usage["input_tokens"].as_u64().unwrap()
    };
    assert_eq!(used("[[tokens:990000]] [[recall]]"), 990_000);
    assert!(used("[[recall]]") < 100);
    // The one that compacts does not count as long again.
    assert!(used("[[tokens:990000]] create a detailed summary of all") < 100);
    let heard = ask(&api, &say("[[tokens:990000]] [[recall]]"));
    assert!(heard.text().starts_with("RECALL"), "{}", heard.text());
}

#[test]
fn a_summary_leaves_out_what_asked_for_it() {
    let messages =
        [user(json!("plums and pears")), assistant(json!("yes")), user(json!("create a detailed summary of it"))];
    let text = ask(&start(), &request(&messages)).text();
    assert_eq!(text, "<analysis>none</analysis>\n<summary>\nSUMMARY: plums and p\n</summary>");
}
