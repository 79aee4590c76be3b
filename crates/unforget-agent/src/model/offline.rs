//! A small model that is built in: no key, no network, no luck.
//!
//! Someone who has just built the program and has no key should still see what it does: that a conversation is remembered
//! after a restart, that tools run and are asked about, that a full window is made smaller. So this model answers from
//! the request alone, by rules, and the same request always gives the same answer, byte for byte. It understands little,
//! says so, and never pretends to be more.
//!
//! `conversation` is what it sees of a request, `memory` answers questions (`questions`) about what was said and by whom
//! (`name`), `wishes` finds out which tools are asked for, `calls` fits them to the tools that are declared, `results` says
//! what came back, `digest` makes summaries and titles, `talk` is for all the rest. Everything here is a pure function;
//! only this module knows events.

use std::fmt::Write as _;

use serde_json::{Value, json};
use unforget_core::history::History;
use unforget_core::tokens;

use super::{BoxFuture, Delta, Event, Limit, Model, ModelError, Request, Sink, Thinking};

mod calls;
mod conversation;
mod digest;
mod memory;
mod name;
mod questions;
mod results;
mod talk;
mod text;
mod wishes;

use conversation::Conversation;

/// The model's name.
pub const NAME: &str = "offline";

/// The built-in model.
#[derive(Debug, Clone, Copy)]
pub struct Offline {
    window: u64,
}

/// What it says: words, and calls behind them.
#[derive(Debug, Clone, PartialEq, Default)]
struct Reply {
    text: String,
    calls: Vec<Call>,
}

/// A call of a declared tool.
#[derive(Debug, Clone, PartialEq)]
struct Call {
    name: String,
    input: Value,
}

impl Reply {
    fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), calls: Vec::new() }
    }
}

impl Offline {
    /// A model that takes requests of at most this many tokens.
    pub fn new(window: u64) -> Self {
        Self { window }
    }
}

impl Model for Offline {
    fn name(&self) -> &str {
        NAME
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn respond<'a>(&'a self, request: &'a Request<'a>, sink: Sink<'a>) -> BoxFuture<'a, Result<(), ModelError>> {
        Box::pin(async move {
            let input = size(request.history);
            if input > self.window {
                let message = format!("prompt is too long: {input} tokens > {} maximum", self.window);
                return Err(ModelError::Overflow { limit: Limit::Tokens, message });
            }
            let reply = answer(&Conversation::of(request.history));
            send(&reply, &fingerprint(request), input, request.max_tokens, sink);
            Ok(())
        })
    }

    fn count<'a>(&'a self, request: &'a Request<'a>) -> BoxFuture<'a, Result<u64, ModelError>> {
        Box::pin(async move { Ok(size(request.history)) })
    }
}

/// What is said to a conversation.
fn answer(conversation: &Conversation) -> Reply {
    if let Some(text) = digest::asked(conversation) {
        return Reply::text(text);
    }
    let Some(request) = conversation.request() else {
        return Reply::text(results::tell(&conversation.results));
    };
    if let Some(text) = memory::answer(conversation, request) {
        return Reply::text(text);
    }
    let wishes = wishes::of(request);
    if !wishes.is_empty() {
        return calls::make(&wishes, &conversation.tools);
    }
    if let Some(text) = memory::greet(request) {
        return Reply::text(text);
    }
    Reply::text(talk::small_talk(request).unwrap_or_else(|| talk::not_understood(conversation)))
}

/// Tokens of a request, as this model counts.
fn size(history: &History<'static>) -> u64 {
    let blocks = history.messages.iter().flat_map(|message| &message.blocks);
    let context = [&history.system, &history.tools].into_iter().flatten();
    blocks.chain(context).map(|text| tokens::estimate(text.as_bytes())).sum()
}

/// A number that is the same for the same request and another for any other, as far as 64 bits go (FNV-1a).
fn fingerprint(request: &Request<'_>) -> String {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let mut body = request.history.to_request(NAME, request.max_tokens);
    match request.thinking {
        Thinking::Default => {}
        Thinking::Adaptive => body.push_str("adaptive"),
        Thinking::Budget(budget) => body.push_str(&budget.to_string()),
    }
    let hash = body.bytes().fold(BASIS, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME));
    format!("{hash:016x}")
}

/// Sends a reply as a server does: blocks in order, each in pieces.
fn send(reply: &Reply, fingerprint: &str, input: u64, max_tokens: u32, sink: Sink<'_>) {
    let mut spent = 0;
    let usage = |spent: u64| json!({"input_tokens": input, "output_tokens": spent}).to_string();
    let id = format!("msg_offline_{fingerprint}");
    sink(Event::Started { id, model: NAME.to_owned(), usage: usage(0) });
    let mut index = 0;
    if !reply.text.is_empty() {
        let (text, is_whole) = within(&reply.text, max_tokens);
        spent += tokens::estimate(text.as_bytes()).max(1);
        let pieces = text.split_inclusive(' ').map(|word| Delta::Text(word.to_owned()));
        block(index, &json!({"type": "text", "text": ""}), pieces, sink);
        index += 1;
        if !is_whole {
            sink(Event::Ended { stop_reason: Some("max_tokens".to_owned()), usage: usage(spent) });
            return;
        }
    }
    for (number, call) in reply.calls.iter().enumerate() {
        let input = call.input.to_string();
        spent += tokens::estimate(input.as_bytes()).max(1);
        let id = format!("toolu_offline_{fingerprint}_{number}");
        let begins = json!({"type": "tool_use", "id": id, "name": call.name, "input": {}});
        let pieces = input.split_inclusive(',').map(|piece| Delta::Input(piece.to_owned()));
        block(index, &begins, pieces, sink);
        index += 1;
    }
    let stop_reason = if reply.calls.is_empty() { "end_turn" } else { "tool_use" };
    sink(Event::Ended { stop_reason: Some(stop_reason.to_owned()), usage: usage(spent) });
}

fn block(index: usize, begins: &Value, pieces: impl Iterator<Item = Delta>, sink: Sink<'_>) {
    sink(Event::BlockStarted { index, block: begins.to_string() });
    for delta in pieces {
        sink(Event::Delta { index, delta });
    }
    sink(Event::BlockEnded { index });
}

/// As much of a text as an answer may be long, and whether that is all.
fn within(text: &str, max_tokens: u32) -> (String, bool) {
    let mut out = String::new();
    for word in text.split_inclusive(' ') {
        let longer = tokens::estimate(out.as_bytes()) + tokens::estimate(word.as_bytes());
        // The first word is always said: an answer without words would be none.
        if longer > u64::from(max_tokens) && !out.is_empty() {
            return (out, false);
        }
        out.push_str(word);
    }
    (out, true)
}

/// Adds a paragraph.
fn paragraph(out: &mut String, text: std::fmt::Arguments<'_>) {
    if !out.is_empty() {
        out.push_str("\n\n");
    }
    // Writing into a string cannot fail.
    if out.write_fmt(text).is_err() {
        out.push('…');
    }
}

#[cfg(test)]
mod tests;
