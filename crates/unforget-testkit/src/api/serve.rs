//! A request from its arrival to its answer.
//!
//! The order is that of the real server as far as it is known: path, key, version, rules. Only a request that passes
//! all of them is answered, as planned or by itself; only such a request is charged and remembered by the cache.

use std::cell::RefCell;
use std::sync::Arc;

use axum::body::to_bytes;
use axum::extract::{Request, State as Extract};
use axum::response::Response;
use serde_json::{Value, json};

use super::answer::{Answer, answer, claimed_tokens};
use super::counting;
use super::directive::{self, Tools};
use super::outcome::{Accepted, Outcome};
use super::prompt;
use super::record::Recorded;
use super::script::Reply;
use super::state::{Shared, State, base36};
use super::wire::{Attention, Step};
use super::{COUNT_TOKENS, MESSAGES};
use crate::rules::{self, Rejection, Server};

/// More than any request may have, so that the rules can say so; what is beyond is not even read.
const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;
const BINDING_CONTROLS: &str = "thinking-binding-controls-2026-08-01";
const PER_TURN_CONTROL: &str = "per-turn-control-2026-07-01";

pub(super) async fn handle(Extract(shared): Extract<Arc<Shared>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, MAX_BODY_BYTES).await;
    let is_readable = body.is_ok();
    let releases = shared.releases();
    let mut recorded = shared.arrive(|number| {
        Recorded::new(number, parts.method.as_str(), parts.uri.to_string(), &parts.headers, body.unwrap_or_default())
    });
    let request_id = format!("req_{}", base36(recorded.number));
    let mut outcome = if is_readable {
        decide(&shared, &recorded, &request_id)
    } else {
        Some(Outcome::error(413, "request_too_large", "Request exceeds the maximum size", &request_id))
    };
    if outcome.is_none() {
        let mut attention = Attention::new(Arc::clone(&shared));
        Shared::released(Arc::clone(&shared), releases).await;
        attention.end();
        outcome = decide(&shared, &recorded, &request_id);
    }
    // Two silences in a row are one.
    let outcome = outcome.unwrap_or_else(|| Outcome::error(500, "api_error", "silence", &request_id));
    recorded.status = Some(outcome.status);
    recorded.refusal.clone_from(&outcome.refusal);
    shared.note_answer(&recorded);
    if let Some(log) = &shared.options.log {
        log(&recorded);
    }
    outcome.into_response(&shared, &request_id, releases)
}

/// Says what a request is answered with; nothing if it is to wait in silence first.
fn decide(shared: &Shared, request: &Recorded, request_id: &str) -> Option<Outcome> {
    let error = |status, kind, message| Some(Outcome::error(status, kind, message, request_id));
    let route = request.route();
    match (request.method.as_str(), route) {
        ("GET" | "HEAD", "/") => return Some(Outcome::json(200, &json!({}))),
        ("POST", MESSAGES | COUNT_TOKENS) => {}
        (_, MESSAGES | COUNT_TOKENS) => return error(405, "invalid_request_error", "Method Not Allowed"),
        _ => return error(404, "not_found_error", "Not found"),
    }
    if let Err(message) = check_key(request, shared.options.key.as_deref()) {
        return error(401, "authentication_error", message);
    }
    if request.header("anthropic-version").is_none() {
        return error(400, "invalid_request_error", "anthropic-version: header is required");
    }
    let mut state = shared.lock();
    if route == COUNT_TOKENS {
        return Some(count_tokens(shared, &state, request, request_id));
    }
    match accept(shared, &state, request) {
        Ok(body) => reply(shared, &mut state, request, &body, request_id),
        Err(rejection) => Some(Outcome::refusal(rejection, request_id)),
    }
}

fn check_key(request: &Recorded, wanted: Option<&str>) -> Result<(), &'static str> {
    let bearer = request.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
    match request.header("x-api-key").or(bearer).filter(|key| !key.is_empty()) {
        None => Err("x-api-key header is required"),
        Some(key) if wanted.is_some_and(|wanted| wanted != key) => Err("invalid x-api-key"),
        Some(_) => Ok(()),
    }
}

/// Holds a request against the rules, and returns what they have read.
fn accept(shared: &Shared, state: &State, request: &Recorded) -> Result<Value, Rejection> {
    let read = RefCell::new(Value::Null);
    let count = |body: &Value| {
        read.replace(body.clone());
        prompt::count(body)
    };
    rules::check(&request.body, &server(shared, state, request, &count))?;
    let body = read.into_inner();
    counting::check_model(&body)?;
    Ok(body)
}

fn server<'a>(
    shared: &'a Shared,
    state: &'a State,
    request: &Recorded,
    count: &'a dyn Fn(&Value) -> u64,
) -> Server<'a> {
    let has_beta = |name: &str| request.header("anthropic-beta").is_some_and(|betas| betas.contains(name));
    let behaviour = request.json().pointer("/thinking/block_binding/prefix_mismatch_behavior").cloned();
    Server {
        model: &shared.options.model,
        window: shared.options.window,
        count: Some(count),
        known_prefixes: Some(&state.signatures),
        drop_mismatched: has_beta(BINDING_CONTROLS) && behaviour == Some(json!("drop_block")),
        per_turn_control: has_beta(PER_TURN_CONTROL),
    }
}

fn count_tokens(shared: &Shared, state: &State, request: &Recorded, request_id: &str) -> Outcome {
    let server = Server { count: None, ..server(shared, state, request, &prompt::count) };
    match counting::check(&request.body, &server) {
        Err(rejection) => Outcome::refusal(rejection, request_id),
        Ok(_) if state.fails_counts => Outcome::error(500, "api_error", "Internal server error", request_id),
        Ok(body) => Outcome::json(200, &json!({"input_tokens": prompt::count(&body)})),
    }
}

/// Answers a request that was accepted.
fn reply(shared: &Shared, state: &mut State, request: &Recorded, body: &Value, request_id: &str) -> Option<Outcome> {
    match state.script.take(request) {
        Some(Reply::Silence) => None,
        Some(Reply::Error { status, kind, message, retry_after }) => {
            let mut outcome = Outcome::error(status, &kind, &message, request_id);
            outcome.headers.extend(retry_after.map(|seconds| ("retry-after".to_owned(), seconds.to_string())));
            Some(outcome)
        }
        Some(Reply::Raw { status, headers, body }) => {
            Some(Outcome { status, headers, steps: vec![Step::Send(body.into())], refusal: None })
        }
        planned => {
            let accepted = Accepted {
                body,
                message_id: format!("msg_{}", base36(request.number)),
                request_id: request_id.to_owned(),
                charge: state.cache.charge(body),
                claimed: claimed_tokens(body),
                window: shared.options.window,
            };
            Some(message(state, &accepted, planned))
        }
    }
}

/// Answers with a message, or with as much of one as was planned.
fn message(state: &mut State, accepted: &Accepted<'_>, planned: Option<Reply>) -> Outcome {
    let body = accepted.body;
    let mut signed = |mut blocks: Vec<Value>| {
        state.sign(&mut blocks, body);
        blocks
    };
    match planned {
        Some(Reply::ErrorEvent { after_text, kind, message }) => accepted.error_event(&after_text, &kind, &message),
        Some(Reply::Cut { text, block }) => {
            let call = signed(vec![Tools::of(body).bash("")]).pop().unwrap_or_default();
            accepted.cut(&text, block, &call)
        }
        Some(Reply::Stall { text }) => accepted.stall(&text),
        Some(Reply::Blocks { blocks, stop_reason }) => {
            let answer = Answer { blocks: signed(blocks), stop_reason };
            let text = Value::from(answer.blocks.clone()).to_string();
            accepted.tell(&answer, None, prompt::tokens(prompt::weight_of_text(&text)))
        }
        Some(Reply::CutInput { name, input }) => {
            let blocks = signed(vec![directive::call(&name, json!({}))]);
            let answer = Answer { blocks, stop_reason: "max_tokens".to_owned() };
            accepted.tell(&answer, Some(&input), prompt::tokens(prompt::weight_of_text(&input)))
        }
        None | Some(Reply::Silence | Reply::Error { .. } | Reply::Raw { .. }) => {
            let Answer { blocks, stop_reason } = answer(body);
            accepted.answer(Answer { blocks: signed(blocks), stop_reason })
        }
    }
}
