//! What the Anthropic Messages API accepts and rejects, as one offline function.
//!
//! Every conversation that is rebuilt from a log is meant to be sent, so the tests ask [`check`] what the server would
//! say to it. The texts are those of the server, because telling an overflow from a broken request depends on them.
//!
//! The rules run in the order size, JSON, schema, content, pairing, thinking, tokens, and the first one broken is the
//! answer. After the schema pass nothing is a loose JSON value any more: the later passes work on typed blocks and
//! cannot meet a member of the wrong type. This module knows no log, no store and no network; what a server remembers
//! comes in through [`Server`].
//!
//! # Beyond the errors on record
//!
//! Most rules are errors that the server is known to have given. These follow from its documentation alone, and where
//! it quotes no text the wording is ours:
//!
//! - A member of the wrong JSON type, or one that its block needs and lacks (the `source` of an image, the `thinking`
//!   or `data` of a thinking block), is a schema error. `true` is no integer, and neither is a `max_tokens` beyond
//!   64 bits.
//! - Members that the API does not know, in the request, its messages, its `system` and the commonest blocks:
//!   `Extra inputs are not permitted`. An empty `cache_control` on a thinking block is one of them.
//! - Identifiers and tool names match their pattern to the end: a trailing line feed is no match.
//! - Images are measured from their own bytes and must be jpeg, png, gif or webp; those inside a `tool_result` obey the
//!   same limits as those outside. The blocks inside a `tool_result` must be of a kind that may stand there.
//! - A signature that the server never issued is refused even when mismatched blocks are to be dropped.
//! - `tool_choice`, `thinking` and the sampling parameters are held against the model; in manual thinking the last
//!   assistant turn begins with a thinking block; an open server tool must still be declared.
//! - A system message may have an `output_config`, if the client names the beta `per-turn-control-2026-07-01`: the
//!   Claude CLI sends one and goes without when it is refused.
//! - `NaN` and `Infinity` are not JSON, and neither is a body nested deeper than serde_json reads (128 levels).
//!
//! # Looser than the server
//!
//! The largest `max_tokens` of each model, the page limits of PDFs, `thinking.type: "disabled"` on models that always
//! think, and thinking blocks that were edited or left out in the middle need knowledge that a request does not carry.
//! Numbers beyond an `f64` are legal JSON and are read as the largest power of ten that fits.

mod binding;
mod blocks;
mod body;
mod cache;
mod content;
mod images;
mod model;
mod overflow;
mod pairing;
mod parameters;
mod schema;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;

use serde_json::{Value, json};

pub use self::binding::prefix_hash;
use self::model::Model;
pub use self::overflow::is_overflow;

/// Describes who is asked: the model, its context window, and what the server remembers.
#[derive(Clone, Copy)]
pub struct Server<'a> {
    /// Names the model; its version decides which rules apply, whatever the body says.
    pub model: &'a str,
    /// Gives the context window in tokens.
    pub window: u64,
    /// Counts the tokens of a body; without it no request is too long.
    pub count: Option<&'a dyn Fn(&Value) -> u64>,
    /// Maps each signature that was issued to the [`prefix_hash`] it is bound to; without it no signature is checked.
    pub known_prefixes: Option<&'a HashMap<String, String>>,
    /// Tells that thinking blocks of another conversation are dropped instead of rejected.
    pub drop_mismatched: bool,
    /// Tells that a system message may set `output_config` for what follows it, which a beta allows.
    pub per_turn_control: bool,
}

impl Default for Server<'_> {
    fn default() -> Self {
        Self {
            model: "claude-opus-5",
            window: 200_000,
            count: None,
            known_prefixes: None,
            drop_mismatched: false,
            per_turn_control: false,
        }
    }
}

/// Holds the error that the server answers with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// Is the HTTP status.
    pub status: u16,
    /// Is the `error.type` of the envelope.
    pub kind: &'static str,
    /// Is the `error.message` of the envelope.
    pub message: String,
}

impl Rejection {
    fn invalid(message: impl Into<String>) -> Self {
        Self { status: 400, kind: "invalid_request_error", message: message.into() }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}: {}", self.status, self.kind, self.message)
    }
}

impl std::error::Error for Rejection {}

/// Tells whether the server accepts a request with this body.
pub fn check(body: &[u8], server: &Server<'_>) -> Result<(), Rejection> {
    check_value(&body::parse(body)?, server)
}

/// Tells whether the default [`Server`] accepts a JSON array of messages, with nothing else in the request.
pub fn check_messages(messages: &[u8]) -> Result<(), Rejection> {
    let server = Server::default();
    let messages = body::parse(messages)?;
    check_value(&json!({"model": server.model, "max_tokens": 1024, "messages": messages}), &server)
}

fn check_value(body: &Value, server: &Server<'_>) -> Result<(), Rejection> {
    let model = Model::named(server.model);
    let request = schema::read(body, server)?;
    images::check_together(&request.pictures, server.window)?;
    content::check_roles(&request.messages, &model)?;
    content::check_empty(&request.messages)?;
    let turns = pairing::turns(&request.messages);
    pairing::check_tools(&turns)?;
    pairing::check_server_tools(&turns)?;
    if let Some(last) = request.messages.last() {
        pairing::check_end(last, &request.tools, &model)?;
    }
    parameters::check(request.body, &turns, &model)?;
    if let Some(known) = server.known_prefixes.filter(|_| model.binds_thinking()) {
        binding::check(request.body, &request.messages, known, server.drop_mismatched)?;
    }
    overflow::check(body, request.max_tokens, server, &model)
}
