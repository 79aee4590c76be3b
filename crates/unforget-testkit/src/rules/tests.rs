//! The rules as tables: each row is a request and what the server says to it.
//!
//! A row names as much of the error text as it is about; [`ACCEPTED`] stands for no error at all. This file holds the
//! pieces that requests are made of and the rows about whole conversations, its children those about the rest.

mod limits;
mod memory;
mod shape;

use serde_json::{Value, json};

use super::{Rejection, Server, check};

const ACCEPTED: &str = "accepted";

/// Asks one server about many bodies: `judge! { &server; body => text, … }`.
macro_rules! judge {
    ($server:expr; $($body:expr => $wanted:expr,)+) => {
        $crate::rules::tests::assert_rows([$(($body, $wanted)),+], $server)
    };
}
use judge;

fn assert_rows(rows: impl IntoIterator<Item = (Value, &'static str)>, server: &Server<'_>) {
    let wrong: Vec<String> = rows
        .into_iter()
        .map(|(body, wanted)| (ask(&body, server), body, wanted))
        .filter(|(said, _, wanted)| !said.contains(wanted))
        .map(|(said, body, wanted)| format!("{body}\n  wanted: {wanted}\n  said:   {said}"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn ask(body: &Value, server: &Server<'_>) -> String {
    verdict(check(body.to_string().as_bytes(), server))
}

fn verdict(outcome: Result<(), Rejection>) -> String {
    outcome.err().map_or_else(|| ACCEPTED.to_owned(), |rejection| rejection.message)
}

fn user(content: impl Into<Value>) -> Value {
    json!({"role": "user", "content": content.into()})
}

fn assistant(content: impl Into<Value>) -> Value {
    json!({"role": "assistant", "content": content.into()})
}

fn system(content: impl Into<Value>) -> Value {
    json!({"role": "system", "content": content.into()})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn call(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "x", "input": {}})
}

fn result(id: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": "r"})
}

fn thinking(signature: &str) -> Value {
    json!({"type": "thinking", "thinking": "", "signature": signature})
}

fn search(id: &str) -> Value {
    json!({"type": "server_tool_use", "id": id, "name": "web_search", "input": {}})
}

fn body(messages: impl Into<Value>) -> Value {
    json!({"max_tokens": 10, "messages": messages.into()})
}

fn hello() -> Value {
    body([user("hi")])
}

fn with(mut value: Value, name: &str, member: impl Into<Value>) -> Value {
    value[name] = member.into();
    value
}

fn asking(model: &str) -> Server<'_> {
    Server { model, ..Server::default() }
}

#[test]
fn content_may_be_empty_only_where_the_server_allows_it() {
    let (hi, go) = (|| user("hi"), || user("go"));
    let (empty, blank) = (
        "messages: text content blocks must be non-empty",
        "messages: text content blocks must contain non-whitespace text",
    );
    let nothing = "messages.0: user messages must have non-empty content";
    judge! { &Server::default();
        hello() => ACCEPTED,
        body([hi(), go()]) => ACCEPTED,
        body(json!([])) => "messages: at least one message is required",
        body([hi(), assistant([text(""), call("t")]), user([result("t")])]) => empty,
        body([hi(), assistant([text("\n\n"), call("t")]), user([result("t")])]) => ACCEPTED,
        body([hi(), assistant([text("")]), go()]) => empty,
        body([hi(), assistant([text(" ")]), go()]) => blank,
        body([hi(), assistant([text(" "), text("ok")]), go()]) => ACCEPTED,
        body([hi(), assistant(json!([])), go()]) => ACCEPTED,
        body([hi(), assistant(""), go()]) => ACCEPTED,
        body([user("\n")]) => blank,
        body([user("\u{1c}\u{2003}")]) => blank,
        body([user("\u{200b}")]) => ACCEPTED,
        body([user("")]) => nothing,
        body([user(json!([]))]) => nothing,
        body([user([text("hi"), text(" ")])]) => ACCEPTED,
        body([user([text(""), text("x")])]) => empty,
        body([hi(), system("")]) => blank,
    }
}

#[test]
fn every_call_is_answered_at_the_head_of_the_next_turn() {
    let (hi, go) = (|| user("hi"), || user("go"));
    let one = || assistant([call("t")]);
    judge! { &Server::default();
        body([hi(), one(), user([result("t")])]) => ACCEPTED,
        body([hi(), one(), user([result("t"), text("x")])]) => ACCEPTED,
        body([hi(), assistant("a"), one(), user([result("t")]), go()]) => ACCEPTED,
        body([hi(), assistant([call("a"), call("b")]), user([result("a")]), user([result("b")])]) => ACCEPTED,
        body([hi(), assistant([call("t"), call("u")]), go()]) =>
            "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: t, u. Each \
             `tool_use` block must have a corresponding `tool_result` block in the next message.",
        body([hi(), one()]) =>
            "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: t.",
        body([hi(), assistant("a"), one(), go()]) => "messages.1: `tool_use` ids were found without",
        body([hi(), one(), user([text("x"), result("t")])]) => "messages.1: `tool_use` ids were found without",
        body([user([result("t")])]) =>
            "messages.0.content.0: unexpected `tool_use_id` found in `tool_result` blocks: t. Each `tool_result` \
             block must have a corresponding `tool_use` block in the previous message.",
        body([hi(), assistant([call("t"), call("t")]), user([result("t")])]) =>
            "messages.1.content.0: `tool_use` ids must be unique",
        body([hi(), one(), user([result("t"), result("t")])]) =>
            "messages.2.content.1: each tool_use must have a single result. Found multiple `tool_result` blocks with \
             id: t",
        body([user([call("t")])]) => "messages.0.content.0: `tool_use` blocks can only be in `assistant` messages",
        body([hi(), assistant([result("t")]), go()]) => "`tool_result` blocks can only be in `user` messages",
        body([user([thinking("s")])]) => "`thinking` blocks can only be in `assistant` messages",
    }
}

#[test]
fn server_tools_carry_their_results_or_stay_open_at_the_end() {
    let found = |id: &str| json!({"type": "web_search_tool_result", "tool_use_id": id, "content": []});
    let tools = json!([{"type": "web_search_20250305", "name": "web_search"}]);
    let declared = |messages: Value| with(body(messages), "tools", tools.clone());
    let open = || assistant([search("srvtoolu_1")]);
    let mut shell = search("srvtoolu_1");
    shell["name"] = json!("bash_code_execution");
    judge! { &Server::default();
        declared(json!([user("hi"), open()])) => ACCEPTED,
        body([user("hi"), open()]) =>
            "`web_search` tool use with id `srvtoolu_1` was found but no `web_search` tool was provided",
        with(body([user("hi"), assistant([shell])]), "tools", json!([{"name": "code_execution"}])) => ACCEPTED,
        declared(json!([user("hi"), open(), user("go")])) =>
            "`web_search` tool use with id `srvtoolu_1` was found without a corresponding `web_search_tool_result` \
             block",
        declared(json!([user("hi"), assistant([search("srvtoolu_1"), call("t")]), user([result("t")])])) => ACCEPTED,
        declared(json!([user("hi"), assistant([search("srvtoolu_1"), found("srvtoolu_1")]), user("go")])) => ACCEPTED,
        declared(json!([user("hi"), assistant([search("toolu_1")])])) =>
            "messages.1.content.0.server_tool_use.id: String should match pattern '^srvtoolu_[a-zA-Z0-9_]+$'",
        declared(json!([user("hi"), assistant([search("srvtoolu_a-b")])])) => "server_tool_use.id",
        declared(json!([user("hi"), assistant([search("srvtoolu_")])])) => "server_tool_use.id",
    }
}

#[test]
fn system_messages_stand_between_a_user_and_an_assistant() {
    let misplaced = ": `system` message must follow a `user` turn and precede an `assistant` turn or end the array";
    judge! { &Server::default();
        body([user("hi"), system("x")]) => ACCEPTED,
        body([user("hi"), system("x"), assistant("a"), user("go")]) => ACCEPTED,
        body([system("x")]) => misplaced,
        body([user("hi"), system("x"), user("go")]) => misplaced,
        body([user("hi"), assistant("a"), system("x")]) => misplaced,
    }
}

#[test]
fn the_model_decides_about_prefill_and_system_messages() {
    let prefill = body([user("hi"), assistant("x")]);
    let late_system = body([user("hi"), system("x")]);
    let no_prefill =
        "This model does not support assistant message prefill. The conversation must end with a user message.";
    let no_system = "role 'system' is not supported on this model";
    for (model, on_prefill, on_system) in [
        ("claude-3-7-sonnet-20250219", ACCEPTED, no_system),
        ("claude-sonnet-4-20250514", ACCEPTED, no_system),
        ("claude-opus-4-5@20251101", ACCEPTED, no_system),
        ("claude-opus-4@latest-8", ACCEPTED, no_system),
        ("claude-opus-4-6", no_prefill, no_system),
        ("claude-opus-4-6[1m]", no_prefill, no_system),
        ("claude-opus-4-8", no_prefill, ACCEPTED),
        ("claude-sonnet-5", no_prefill, no_system),
        ("claude-opus-5", no_prefill, ACCEPTED),
        ("something-else", no_prefill, ACCEPTED),
    ] {
        let server = asking(model);
        let said = (ask(&prefill, &server), ask(&late_system, &server));
        assert_eq!(said, (on_prefill.to_owned(), on_system.to_owned()), "{model}");
    }
}

#[test]
fn parameters_are_held_against_the_model() {
    let manual = || json!({"type": "enabled", "budget_tokens": 1024});
    let adaptive = || with(hello(), "thinking", json!({"type": "adaptive"}));
    let forced = || with(hello(), "tool_choice", json!({"type": "any"}));
    let (first, second) = ([result("t")], [result("u")]);
    let thought = body([
        user("hi"),
        assistant([thinking("s"), call("t")]),
        user(first.clone()),
        assistant([call("u")]),
        user(second),
    ]);
    let unthought = body([user("hi"), assistant([call("t")]), user(first)]);
    judge! { &asking("claude-sonnet-4-5");
        adaptive() => "adaptive thinking is not supported on this model",
        unthought.clone() => ACCEPTED,
        with(thought, "thinking", manual()) => ACCEPTED,
        with(unthought, "thinking", manual()) =>
            "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`.",
        with(forced(), "thinking", manual()) => "Thinking may not be enabled when tool_choice forces tool use.",
    }
    judge! { &asking("claude-opus-4-6");
        adaptive() => ACCEPTED,
        with(hello(), "thinking", manual()) => ACCEPTED,
        with(hello(), "temperature", 0.5) => ACCEPTED,
    }
    judge! { &asking("claude-opus-5");
        with(hello(), "thinking", manual()) => "\"thinking.type.enabled\" is not supported for this model. Use ",
        with(hello(), "temperature", 0.5) => "`temperature` is deprecated for this model.",
        with(hello(), "temperature", 1) => ACCEPTED,
        with(hello(), "top_p", 0.9) => "`top_p` is deprecated for this model.",
        with(hello(), "top_k", 40) => "`top_k` is deprecated for this model.",
        forced() => ACCEPTED,
    }
    judge! { &asking("claude-opus-5-5");
        forced() => "tool_choice: type 'any' is not supported on this model",
        with(hello(), "tool_choice", json!({"type": "auto"})) => ACCEPTED,
    }
}

#[test]
fn a_text_alone_and_in_a_list_are_the_same_prefix() {
    let alone = json!({"system": "s", "messages": [{"role": "user", "content": "x"}]});
    let listed = json!({
        "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}],
    });
    assert_eq!(super::prefix_hash(&alone, 1), super::prefix_hash(&listed, 1));
    let other = json!({"system": "s", "messages": [{"role": "user", "content": "y"}]});
    assert_ne!(super::prefix_hash(&alone, 1), super::prefix_hash(&other, 1));
}
