//! Facts about what the server remembers: which conversation a signature belongs to.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::{ACCEPTED, ask, assistant, body, text, thinking, user, with};
use crate::rules::{Server, prefix_hash};

const UNKNOWN: &str = "messages.1.content.0: Invalid `signature` in `thinking` block";
const ELSEWHERE: &str = "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a \
                         different conversation. Remove the block, or set \
                         `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\".";

fn conversation() -> Value {
    with(body([user("hi"), assistant([thinking("S"), text("a")]), user("go")]), "system", "s")
}

fn changed(pointer: &str, value: Value) -> Value {
    let mut body = conversation();
    *body.pointer_mut(pointer).unwrap() = value;
    body
}

#[test]
fn thinking_is_bound_to_what_came_before() {
    let known = HashMap::from([("S".to_owned(), prefix_hash(&conversation(), 1))]);
    let binding = Server { model: "claude-fable-5-1", known_prefixes: Some(&known), ..Server::default() };
    let dropping = Server { drop_mismatched: true, ..binding };
    let unbound = Server { model: "claude-opus-5", ..binding };
    let other_system = changed("/system", json!("t"));
    let forged = changed("/messages/1/content/0/signature", json!("T"));
    for (server, request, wanted) in [
        (&binding, conversation(), ACCEPTED),
        (&binding, with(conversation(), "max_tokens", 99), ACCEPTED),
        (&binding, changed("/messages/2/content", json!("on")), ACCEPTED),
        (&binding, other_system.clone(), ELSEWHERE),
        (&binding, with(conversation(), "tools", json!([{"name": "x"}])), ELSEWHERE),
        (&binding, changed("/messages/0/content", json!("hello")), ELSEWHERE),
        (&binding, forged.clone(), UNKNOWN),
        (&dropping, other_system.clone(), ACCEPTED),
        (&dropping, forged.clone(), UNKNOWN),
        (&unbound, other_system, ACCEPTED),
        (&unbound, forged, ACCEPTED),
    ] {
        assert_eq!(ask(&request, server), wanted, "{request}");
    }
}

#[test]
fn the_prefix_hash_ignores_thinking_and_cache_breakpoints() {
    let plain = body([user([text("hi")]), assistant([text("a")]), user("go")]);
    let mut same = with(plain.clone(), "max_tokens", 99);
    same["messages"][0]["content"][0]["cache_control"] = json!({"type": "ephemeral"});
    same["messages"][1] = assistant([thinking("S"), text("a")]);
    assert_eq!(prefix_hash(&same, 2), prefix_hash(&plain, 2));
}

#[test]
fn the_prefix_hash_ends_before_its_message() {
    let plain = body([user("hi"), assistant("a"), user("go")]);
    let mut edited = plain.clone();
    edited["messages"][1] = assistant("b");
    assert_eq!(prefix_hash(&edited, 1), prefix_hash(&plain, 1));
    assert_ne!(prefix_hash(&edited, 2), prefix_hash(&plain, 2));
    assert_ne!(prefix_hash(&plain, 1), prefix_hash(&plain, 2));
}

#[test]
fn anything_has_a_prefix_hash() {
    assert_eq!(prefix_hash(&json!(7), 5), prefix_hash(&json!({"messages": "x"}), 0));
}
