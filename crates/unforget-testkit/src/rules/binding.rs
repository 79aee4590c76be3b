//! What the signature of a thinking block is bound to.
//!
//! A signature holds for one conversation: the system prompt, the tools and every message before its block. Thinking
//! blocks and `cache_control` do not count, so cache breakpoints may move and old thinking may be left out. The hash is
//! taken of parsed values, hence neither spacing nor, with serde_json's sorted map, the order of keys counts, nor whether
//! a text stands alone or in a list.

use std::collections::HashMap;

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::Rejection;
use super::blocks::{Block, Message};
use super::schema::invalid;

const HASH_BYTES: usize = 8;

/// Hashes what the signatures of the thinking blocks in the message at `message_index` are bound to.
pub fn prefix_hash(body: &Value, message_index: usize) -> String {
    let mut prefix = Prefix::of(body.get("system"), body.get("tools"));
    for message in body.get("messages").and_then(Value::as_array).into_iter().flatten().take(message_index) {
        prefix.push(message);
    }
    prefix.hash()
}

pub(super) fn check(
    body: &Map<String, Value>,
    messages: &[Message<'_>],
    known: &HashMap<String, String>,
    drop_mismatched: bool,
) -> Result<(), Rejection> {
    let mut prefix = Prefix::of(body.get("system"), body.get("tools"));
    let values = body.get("messages").and_then(Value::as_array).into_iter().flatten();
    for (message, (Message { blocks, .. }, value)) in messages.iter().zip(values).enumerate() {
        for (index, block) in blocks.iter().enumerate() {
            let Block::Thinking { signature } = block else { continue };
            let path = format!("messages.{message}.content.{index}");
            let Some(bound_to) = known.get(*signature) else {
                return Err(invalid(&path, "Invalid `signature` in `thinking` block"));
            };
            if !drop_mismatched && *bound_to != prefix.hash() {
                let reason = "Invalid `signature` in `thinking` block. The block is bound to a different conversation. \
                              Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to \
                              \"drop_block\".";
                return Err(invalid(&path, reason));
            }
        }
        prefix.push(value);
    }
    Ok(())
}

/// Grows with the conversation, so that checking a long one does not hash its beginning once per block.
struct Prefix(Sha256);

impl Prefix {
    fn of(system: Option<&Value>, tools: Option<&Value>) -> Self {
        let mut prefix = Self(Sha256::new());
        prefix.push(&as_blocks("content", system.cloned().unwrap_or(Value::Null)));
        prefix.push(tools.unwrap_or(&Value::Null));
        prefix
    }

    fn push(&mut self, value: &Value) {
        // No JSON text holds a line feed of its own, so two values cannot run together.
        self.0.update(format!("{}\n", bare(value)));
    }

    fn hash(&self) -> String {
        self.0.clone().finalize().iter().take(HASH_BYTES).map(|byte| format!("{byte:02x}")).collect()
    }
}

fn bare(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members.iter().filter(|(name, _)| *name != "cache_control");
            Value::Object(kept.map(|(name, member)| (name.clone(), as_blocks(name, bare(member)))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().filter(|item| !is_thinking(item)).map(bare).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// A text alone and a list with one text block say the same: clients go from one to the other to set a breakpoint.
fn as_blocks(name: &str, value: Value) -> Value {
    match value {
        Value::String(text) if name == "content" => json!([{"type": "text", "text": text}]),
        value => value,
    }
}

fn is_thinking(value: &Value) -> bool {
    matches!(value.get("type").and_then(Value::as_str), Some("thinking" | "redacted_thinking"))
}
