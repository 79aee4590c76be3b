//! What goes back to a client, before it is HTTP: a status, headers, and steps on the wire.
//!
//! Planned trouble and ordinary answers meet here. Whether a client wants events or one object is decided here alone,
//! so that every reply has both forms.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use serde_json::{Value, json};

use super::answer::Answer;
use super::cache::Charge;
use super::events::{Events, Head};
use super::prompt;
use super::script::CutIn;
use super::state::Shared;
use super::wire::{Step, Wire, pieces};
use crate::rules::Rejection;

/// An answer that is ready to be sent.
pub(super) struct Outcome {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) steps: Vec<Step>,
    /// What the rules found wrong with the request.
    pub(super) refusal: Option<Rejection>,
}

/// A request that was accepted, and what its answer needs to know of it.
pub(super) struct Accepted<'a> {
    pub(super) body: &'a Value,
    pub(super) message_id: String,
    pub(super) request_id: String,
    pub(super) charge: Charge,
    /// The tokens that the client is told of instead of those that it is charged for.
    pub(super) claimed: Option<u64>,
    pub(super) window: u64,
}

impl Outcome {
    pub(super) fn json(status: u16, value: &Value) -> Self {
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        Self { status, headers, steps: vec![Step::Send(Bytes::from(value.to_string()))], refusal: None }
    }

    pub(super) fn error(status: u16, kind: &str, message: &str, request_id: &str) -> Self {
        Self::json(status, &envelope(kind, message, request_id))
    }

    pub(super) fn refusal(rejection: Rejection, request_id: &str) -> Self {
        let outcome = Self::error(rejection.status, rejection.kind, &rejection.message, request_id);
        Self { refusal: Some(rejection), ..outcome }
    }

    pub(super) fn into_response(self, shared: &Arc<Shared>, request_id: &str, releases: u64) -> Response {
        let body = match self.steps.as_slice() {
            [] => Body::empty(),
            // Known as a whole, hence with its length.
            [Step::Send(bytes)] => Body::from(bytes.clone()),
            _ => Body::from_stream(Wire::new(Arc::clone(shared), self.steps, releases, shared.options.pace)),
        };
        let mut response = Response::new(body);
        *response.status_mut() = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in headers.chain([("request-id", request_id)]) {
            // A header that HTTP cannot carry is left out: only a planned reply can have one.
            if let (Ok(name), Ok(value)) = (name.parse::<axum::http::HeaderName>(), HeaderValue::try_from(value)) {
                response.headers_mut().append(name, value);
            }
        }
        response
    }
}

impl Accepted<'_> {
    /// A whole answer, cut where `max_tokens` or the window ends.
    pub(super) fn answer(&self, mut answer: Answer) -> Outcome {
        let max_tokens = self.body.get("max_tokens").and_then(Value::as_u64).unwrap_or(u64::MAX);
        let room = self.window.saturating_sub(self.charge.total());
        let cut_input = limit(&mut answer.blocks, max_tokens.min(room));
        if let Some((_, used)) = &cut_input {
            let reason = if room < max_tokens { "model_context_window_exceeded" } else { "max_tokens" };
            reason.clone_into(&mut answer.stop_reason);
            return self.tell(&answer, cut_input.as_ref().and_then(|(input, _)| input.as_deref()), *used);
        }
        let used = prompt::tokens(answer.blocks.iter().map(weight).sum());
        self.tell(&answer, None, used)
    }

    /// Exactly these blocks, the arguments of the last one told as `input`.
    pub(super) fn tell(&self, answer: &Answer, input: Option<&str>, output_tokens: u64) -> Outcome {
        let usage = self.usage(output_tokens.max(1));
        if !self.is_streaming() {
            let message = json!({
                "id": self.message_id, "type": "message", "role": "assistant", "model": self.model(),
                "content": answer.blocks, "stop_reason": answer.stop_reason, "stop_sequence": null, "usage": usage,
            });
            return Outcome::json(200, &message);
        }
        let mut events = self.start();
        let last = answer.blocks.len().saturating_sub(1);
        for (index, block) in answer.blocks.iter().enumerate() {
            events.block(block, input.filter(|_| index == last));
        }
        events.end(&answer.stop_reason, &usage);
        stream(pieces(&events.bytes))
    }

    /// The beginning of an answer, then an error.
    pub(super) fn error_event(&self, after_text: &str, kind: &str, message: &str) -> Outcome {
        if !self.is_streaming() {
            return Outcome::error(500, kind, message, &self.request_id);
        }
        let mut events = self.begin(after_text);
        events.event(&envelope(kind, message, &self.request_id));
        stream(pieces(&events.bytes))
    }

    /// The beginning of a block, then nothing more, for good.
    pub(super) fn cut(&self, text: &str, within: CutIn, call: &Value) -> Outcome {
        if !self.is_streaming() {
            let half = Step::Send(Bytes::from_static(b"{\"type\":\"message\",\"content\":["));
            return Outcome { steps: vec![half, Step::Break], ..Outcome::json(200, &Value::Null) };
        }
        let mut events = self.start();
        match within {
            CutIn::Text => events.open_block(&json!({"type": "text", "text": text}), None),
            CutIn::Thinking => events.open_block(&json!({"type": "thinking", "thinking": text}), None),
            CutIn::ToolUse => events.open_block(call, Some(text)),
        }
        let mut steps = pieces(&events.bytes);
        steps.push(Step::Break);
        stream(steps)
    }

    /// The beginning of an answer, then a wait, then its end.
    pub(super) fn stall(&self, text: &str) -> Outcome {
        let output_tokens = prompt::tokens(prompt::weight_of_text(text)).max(1);
        let blocks = if text.is_empty() { Vec::new() } else { vec![json!({"type": "text", "text": text})] };
        if !self.is_streaming() {
            let answer = Answer { blocks, stop_reason: "end_turn".to_owned() };
            let mut outcome = self.tell(&answer, None, output_tokens);
            outcome.steps.insert(0, Step::Wait);
            return outcome;
        }
        let mut events = self.begin(text);
        let mut steps = pieces(&std::mem::take(&mut events.bytes));
        steps.push(Step::Wait);
        if !blocks.is_empty() {
            events.close_block();
        }
        events.end("end_turn", &self.usage(output_tokens));
        steps.extend(pieces(&events.bytes));
        stream(steps)
    }

    fn usage(&self, output_tokens: u64) -> Value {
        let claimed = self.claimed.map(|input| Charge { input, created: 0, read: 0 });
        claimed.unwrap_or(self.charge).usage(output_tokens)
    }

    fn begin(&self, text: &str) -> Events {
        let mut events = self.start();
        if !text.is_empty() {
            events.open_block(&json!({"type": "text", "text": text}), None);
        }
        events
    }

    fn start(&self) -> Events {
        Events::start(&Head { id: &self.message_id, model: self.model(), usage: self.usage(1) })
    }

    fn is_streaming(&self) -> bool {
        self.body.get("stream") == Some(&Value::Bool(true))
    }

    fn model(&self) -> &Value {
        self.body.get("model").unwrap_or(&Value::Null)
    }
}

fn stream(steps: Vec<Step>) -> Outcome {
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let headers = vec![header("content-type", "text/event-stream; charset=utf-8"), header("cache-control", "no-cache")];
    Outcome { status: 200, headers, steps, refusal: None }
}

fn envelope(kind: &str, message: &str, request_id: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": request_id})
}

/// Cuts blocks off behind that many tokens. If something was cut, says what is left of the arguments of the last block,
/// if it is a call, and how many tokens there are now.
fn limit(blocks: &mut Vec<Value>, allowed: u64) -> Option<(Option<String>, u64)> {
    let mut used = 0;
    for at in 0..blocks.len() {
        let block = blocks.get_mut(at)?;
        let before = used;
        used += weight(block);
        if prompt::tokens(used) <= allowed {
            continue;
        }
        let left = allowed - prompt::tokens(before);
        let mut input = None;
        let mut is_empty = left == 0;
        for member in ["text", "thinking"] {
            if let Some(text) = block.get(member).and_then(Value::as_str) {
                let cut = prompt::cut_to(text, left).to_owned();
                is_empty = cut.is_empty();
                block[member] = json!(cut);
            }
        }
        if let Some(whole) = block.get("input").map(Value::to_string) {
            input = Some(prompt::cut_to(&whole, left).to_owned());
            block["input"] = json!({});
        }
        blocks.truncate(if is_empty { at } else { at + 1 });
        return Some((input.filter(|_| !is_empty), allowed));
    }
    None
}

/// What a block of an answer costs, in thousandths of a token.
fn weight(block: &Value) -> u64 {
    let texts = ["text", "thinking", "name"].iter().filter_map(|name| block.get(name)?.as_str());
    let input = block.get("input").map(Value::to_string).unwrap_or_default();
    texts.map(prompt::weight_of_text).sum::<u64>() + prompt::weight_of_text(&input)
}
