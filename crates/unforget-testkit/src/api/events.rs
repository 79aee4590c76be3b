//! An answer as server-sent events.
//!
//! Blocks are told in small deltas of uneven length, as the real server does, with a ping at the beginning. A test may
//! end the telling anywhere, so every event is written the moment it is asked for, and nothing checks that a message
//! is whole.

use serde_json::{Value, json};

/// The lengths of deltas in characters, one after the other.
const DELTA_LENGTHS: &[usize] = &[3, 1, 7, 12, 2, 5];
/// From this many deltas of a block on, they are longer, so that long answers stay cheap.
const MANY_DELTAS: usize = 400;
const LONG_DELTA: usize = 200;

/// The members of a message beside its content.
pub(super) struct Head<'a> {
    pub(super) id: &'a str,
    pub(super) model: &'a Value,
    /// The `usage` when the answer begins.
    pub(super) usage: Value,
}

/// Writes events.
#[derive(Default)]
pub(super) struct Events {
    pub(super) bytes: Vec<u8>,
    next_block: usize,
}

impl Events {
    /// Begins a message.
    pub(super) fn start(head: &Head<'_>) -> Self {
        let mut events = Self::default();
        let message = json!({
            "id": head.id, "type": "message", "role": "assistant", "model": head.model, "content": [],
            "stop_reason": null, "stop_sequence": null, "usage": head.usage,
        });
        events.event(&json!({"type": "message_start", "message": message}));
        events.event(&json!({"type": "ping"}));
        events
    }

    /// Tells a whole block. The arguments of a call are told as `input`, if there is one.
    pub(super) fn block(&mut self, block: &Value, input: Option<&str>) {
        self.open_block(block, input);
        self.close_block();
    }

    /// Tells a block, all but its end.
    pub(super) fn open_block(&mut self, block: &Value, input: Option<&str>) {
        let text_of = |name: &str| block.get(name).and_then(Value::as_str).unwrap_or_default();
        let mut start = block.clone();
        match text_of("type") {
            "text" => {
                start["text"] = json!("");
                let citations = block.get("citations").and_then(Value::as_array);
                if citations.is_some() {
                    start["citations"] = json!([]);
                }
                self.start_block(&start);
                self.deltas("text_delta", "text", text_of("text"));
                for citation in citations.into_iter().flatten() {
                    self.delta(&json!({"type": "citations_delta", "citation": citation}));
                }
            }
            "thinking" => {
                start["thinking"] = json!("");
                start["signature"] = json!("");
                self.start_block(&start);
                self.deltas("thinking_delta", "thinking", text_of("thinking"));
                if block.get("signature").is_some() {
                    self.delta(&json!({"type": "signature_delta", "signature": text_of("signature")}));
                }
            }
            "tool_use" | "server_tool_use" => {
                start["input"] = json!({});
                self.start_block(&start);
                let whole = block.get("input").map(Value::to_string).unwrap_or_default();
                self.delta(&json!({"type": "input_json_delta", "partial_json": ""}));
                self.deltas("input_json_delta", "partial_json", input.unwrap_or(&whole));
            }
            _ => self.start_block(&start),
        }
    }

    /// Ends the block that was told last.
    pub(super) fn close_block(&mut self) {
        self.event(&json!({"type": "content_block_stop", "index": self.next_block}));
        self.next_block += 1;
    }

    /// Ends the message.
    pub(super) fn end(&mut self, stop_reason: &str, usage: &Value) {
        let delta = json!({"stop_reason": stop_reason, "stop_sequence": null});
        self.event(&json!({"type": "message_delta", "delta": delta, "usage": usage}));
        self.event(&json!({"type": "message_stop"}));
    }

    /// Writes an event; its name is its type.
    pub(super) fn event(&mut self, data: &Value) {
        let name = data.get("type").and_then(Value::as_str).unwrap_or_default();
        self.bytes.extend_from_slice(format!("event: {name}\ndata: {data}\n\n").as_bytes());
    }

    fn start_block(&mut self, block: &Value) {
        self.event(&json!({"type": "content_block_start", "index": self.next_block, "content_block": block}));
    }

    fn delta(&mut self, delta: &Value) {
        self.event(&json!({"type": "content_block_delta", "index": self.next_block, "delta": delta}));
    }

    fn deltas(&mut self, kind: &str, member: &str, text: &str) {
        let mut rest = text;
        let mut lengths = DELTA_LENGTHS.iter().copied().cycle().take(MANY_DELTAS);
        while !rest.is_empty() {
            let length = lengths.next().unwrap_or(LONG_DELTA);
            let end = rest.char_indices().nth(length).map_or(rest.len(), |(end, _)| end);
            let (piece, after) = rest.split_at(end);
            self.delta(&json!({"type": kind, member: piece}));
            rest = after;
        }
    }
}
