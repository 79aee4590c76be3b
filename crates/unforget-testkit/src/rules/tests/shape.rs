//! Rows about the shape of a request: its JSON, the types of its members, and the members nobody knows.

use serde_json::{Value, json};

use super::{ACCEPTED, ask, assistant, body, call, hello, judge, result, text, thinking, user, verdict, with};
use crate::rules::{Server, check, check_messages};

#[test]
fn bodies_that_are_not_json_are_refused_with_their_place() {
    let nested = "[".repeat(200);
    let rows: [(&[u8], &str); 13] = [
        (
            br#"{"max_tokens":1,"messages":[{"role":"user","content":"x\ud83d"}]}"#,
            "no low surrogate in string: line 1 column 56 (char 55)",
        ),
        (b"{\"a\":\n\"\xc3\xa4\\udc00\"}", "no low surrogate in string: line 2 column 3 (char 8)"),
        (br#"["\ud83d\ud83d\ude00"]"#, "no low surrogate in string: line 1 column 3 (char 2)"),
        (b"", "unexpected end of data: line 1 column 1 (char 0)"),
        (br#"{"messages":["#, "unexpected end of data: line 1 column 13 (char 12)"),
        (br#"{"messages":["\ud83d"#, "unexpected end of data"),
        (b"\"\xff\"", "invalid UTF-8"),
        (b"[1,]", "trailing comma: line 1 column 4 (char 3)"),
        (b"[NaN]", "expected value"),
        (b"[01e400]", "invalid number"),
        (b"[1.e400]", "invalid number"),
        (b"[1e400-]", "number out of range"),
        (nested.as_bytes(), "recursion limit exceeded"),
    ];
    for (body, reason) in rows {
        let said = verdict(check(body, &Server::default()));
        let wanted = format!("The request body is not valid JSON: {reason}");
        assert!(said.starts_with(&wanted), "{}: {said}", String::from_utf8_lossy(body));
    }
}

#[test]
fn large_numbers_and_whole_surrogate_pairs_are_legal() {
    let digits = "9".repeat(400);
    let escapes = r#""1e400 \\\" \ud83d\ude00""#;
    for input in ["1e400", "-1.5E+999", "1e-999", "12345678901234567890123", &digits, escapes] {
        let messages = format!(
            r#"[{{"role":"user","content":"x"}},
               {{"role":"assistant","content":[{{"type":"tool_use","id":"t","name":"n","input":{{"a":[{input},2]}}}}]}},
               {{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t"}}]}}]"#
        );
        assert_eq!(verdict(check_messages(messages.as_bytes())), ACCEPTED, "{input}");
    }
}

#[test]
fn messages_cannot_bring_other_members_along() {
    assert_eq!(verdict(check_messages(br#"[{"role":"user","content":"x"}]"#)), ACCEPTED);
    let said = verdict(check_messages(br#"[{"role":"user","content":"x"}],"system":"s""#));
    assert!(said.starts_with("The request body is not valid JSON: trailing characters"), "{said}");
}

#[test]
fn junk_is_refused_wherever_it_stands() {
    for junk in [json!(null), json!(true), json!(7), json!(1.5), json!("x"), json!([7]), json!({"a": 7})] {
        let last = || user("go");
        for request in [
            junk.clone(),
            with(json!({"max_tokens": 1}), "messages", junk.clone()),
            body([junk.clone()]),
            body([json!({"role": junk, "content": "x"})]),
            body([user([junk.clone()])]),
            body([user([json!({"type": junk})])]),
            body([user([json!({"type": "tool_result", "tool_use_id": junk})])]),
            body([user([json!({"type": "image", "source": junk})])]),
            body([user([json!({"type": "image", "source": {"type": "base64", "data": junk}})])]),
            body([assistant([json!({"type": "tool_use", "id": junk, "name": "x", "input": {}})]), last()]),
            body([assistant([json!({"type": "thinking", "thinking": [junk], "signature": "s"})]), last()]),
            body([assistant([json!({"type": "redacted_thinking", "data": [junk]})]), last()]),
            body([assistant([json!({"type": "server_tool_use", "id": junk})]), last()]),
            body([assistant([json!({"type": "web_search_tool_result", "tool_use_id": [junk]})]), last()]),
            with(hello(), "system", json!([junk])),
            with(hello(), "tools", json!({"a": junk})),
        ] {
            assert_ne!(ask(&request, &Server::default()), ACCEPTED, "{request}");
        }
    }
}

#[test]
fn schema_errors_name_the_member() {
    let tool = |name: &str| with(hello(), "tools", json!([{"name": name, "input_schema": {}}]));
    let calling = |id: &str, name: Value, input: Value| {
        body([assistant([json!({"type": "tool_use", "id": id, "name": name, "input": input})])])
    };
    let long = "a".repeat(65);
    judge! { &Server::default();
        json!({"messages": [user("hi")]}) => "max_tokens: Field required",
        with(hello(), "max_tokens", 1.5) => "max_tokens: Field required",
        with(hello(), "max_tokens", true) => "max_tokens: Field required",
        with(hello(), "messages", json!({"a": 1})) => "messages: Input should be a valid list",
        with(hello(), "messages", json!({})) => "messages: at least one message is required",
        body([json!({"role": "user"})]) => "messages.0.content: Input should be a valid list",
        body([json!({"role": "tool", "content": "x"})]) => "messages.0.role: Input should be 'user' or 'assistant'",
        body([user([json!({"type": "text"})])]) => "messages.0.content.0.text.text: Input should be a valid string",
        body([user([json!({"type": "audio"})])]) =>
            "messages.0.content.0: Input tag 'audio' found using 'type' does not match any of the expected tags",
        calling("a:b", json!("x"), json!({})) =>
            "messages.0.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
        calling("t\n", json!("x"), json!({})) => "tool_use.id: String should match pattern",
        calling("t", json!(""), json!({})) =>
            "messages.0.content.0.tool_use.name: String should have at least 1 character",
        calling("t", json!(7), json!({})) => "messages.0.content.0.tool_use.name: Input should be a valid string",
        calling("t", json!("x"), json!("{}")) =>
            "messages.0.content.0.tool_use.input: Input should be a valid dictionary",
        body([user([with(result("a b"), "content", "r")])]) =>
            "messages.0.content.0.tool_result.tool_use_id: String should match pattern '^[a-zA-Z0-9_-]+$'",
        body([user([with(result("t"), "is_error", "no")])]) => "tool_result.is_error: Input should be a valid boolean",
        body([assistant([json!({"type": "thinking", "thinking": "t"})]), user("go")]) =>
            "messages.0.content.0.thinking.signature: Field required",
        body([assistant([json!({"type": "thinking", "signature": "s"})]), user("go")]) =>
            "messages.0.content.0.thinking.thinking: Field required",
        body([assistant([json!({"type": "redacted_thinking"})]), user("go")]) =>
            "messages.0.content.0.redacted_thinking.data: Field required",
        tool("a b") => "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'",
        tool(&long) => "tools.0.custom.name",
        tool(&long[1..]) => ACCEPTED,
    }
}

#[test]
fn unknown_members_are_not_permitted() {
    let extra = |block: Value| with(block, "foo", 1);
    let image = json!({"type": "image", "source": {"type": "url", "url": "u"}});
    let redacted = json!({"type": "redacted_thinking", "data": "d"});
    judge! { &Server::default();
        extra(hello()) => "foo: Extra inputs are not permitted",
        body([extra(user("hi"))]) => "messages.0.foo: Extra inputs are not permitted",
        body([user([text("a"), extra(text("b"))])]) => "messages.0.content.1.text.foo: Extra inputs are not permitted",
        body([assistant([extra(call("t"))])]) => "messages.0.content.0.tool_use.foo: Extra inputs",
        body([user([extra(result("t"))])]) => "messages.0.content.0.tool_result.foo: Extra inputs",
        body([user([with(result("t"), "content", [extra(text("x"))])])]) =>
            "messages.0.content.0.tool_result.content.0.text.foo: Extra inputs",
        body([assistant([extra(thinking("s"))]), user("go")]) => "messages.0.content.0.thinking.foo: Extra inputs",
        body([assistant([extra(redacted)]), user("go")]) => "messages.0.content.0.redacted_thinking.foo: Extra inputs",
        body([user([extra(image)])]) => "messages.0.content.0.image.foo: Extra inputs",
        with(hello(), "system", [extra(text("s"))]) => "system.0.foo: Extra inputs",
        with(hello(), "metadata", json!({"user_id": "u"})) => ACCEPTED,
        body([assistant([with(text("a"), "citations", json!(null))]), user("go")]) => ACCEPTED,
        body([user([json!({"type": "document", "title": "t", "source": {}})])]) => ACCEPTED,
    }
}

#[test]
fn the_system_prompt_may_be_empty_but_not_blank() {
    let prompted = |system: Value| with(hello(), "system", system);
    judge! { &Server::default();
        prompted(json!("")) => ACCEPTED,
        prompted(json!(null)) => ACCEPTED,
        prompted(json!("s")) => ACCEPTED,
        prompted(json!([])) => ACCEPTED,
        prompted(json!([text(" ")])) => ACCEPTED,
        prompted(json!("  ")) => "system: text content blocks must contain non-whitespace text",
        prompted(json!([text("")])) => "system: text content blocks must be non-empty",
        prompted(json!(["s"])) => "system.0: Input should be a valid dictionary",
        prompted(json!([{"type": "image"}])) => "system.0.type: Input should be 'text'",
        prompted(json!({})) => "system: Input should be a valid list",
    }
}

#[test]
fn tool_results_may_be_empty_but_not_malformed() {
    let answered =
        |content: Value| body([user("hi"), assistant([call("t")]), user([with(result("t"), "content", content)])]);
    judge! { &Server::default();
        answered(json!(null)) => ACCEPTED,
        answered(json!("")) => ACCEPTED,
        answered(json!([])) => ACCEPTED,
        answered(json!(" ")) => ACCEPTED,
        answered(json!([text("")])) => ACCEPTED,
        answered(json!([{"type": "document"}, {"type": "search_result"}, {"type": "tool_reference"}])) => ACCEPTED,
        answered(json!({})) => "messages.2.content.0.tool_result.content: Input should be a valid list",
        answered(json!([7])) => "messages.2.content.0.tool_result.content.0: Input should be a valid dictionary",
        answered(json!([call("t")])) => "messages.2.content.0.tool_result.content.0: Input tag 'tool_use' found",
        answered(json!([{"type": "text"}])) => "messages.2.content.0.tool_result.content.0.text.text: Input should be",
    }
}

#[test]
fn thinking_never_stands_last() {
    let refused = "messages.1: The final block in an assistant message cannot be `thinking`.";
    let told = |blocks: Value| body([user("hi"), assistant(blocks), user("more")]);
    judge! { &Server::default();
        told(json!([thinking("s")])) => refused,
        told(json!([text("a"), thinking("s")])) => refused,
        told(json!([thinking("s"), text("a")])) => ACCEPTED,
    }
}
