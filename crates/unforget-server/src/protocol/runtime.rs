//! What AgentCore Runtime's contract has a container answer besides messages of the protocol.

use serde::Serialize;

use super::server::json_or_null;
use super::{ClientId, Durability, Outcome, TurnState};
use crate::error::{Code, Problem};

/// The answer to `GET /ping`.
#[derive(Debug, Serialize)]
pub(crate) struct Health {
    status: &'static str,
    /// Since when it is so, in seconds.
    time_of_last_update: i64,
}

impl Health {
    pub(crate) fn new(is_busy: bool, changed_ms: i64) -> Self {
        let status = if is_busy { "HealthyBusy" } else { "Healthy" };
        Self { status, time_of_last_update: changed_ms.div_euclid(1000) }
    }
}

/// The answer to `POST /invocations` as one object: an outcome whose text is the `response`.
#[derive(Debug, Serialize)]
pub(crate) struct Invoked<'a> {
    response: &'a str,
    session_id: &'a str,
    client_id: Option<&'a ClientId>,
    state: TurnState,
    n: u64,
    stop_reason: Option<&'a str>,
    #[serde(serialize_with = "json_or_null")]
    usage: &'a Option<String>,
    durability: Durability,
}

impl<'a> Invoked<'a> {
    pub(crate) fn new(session_id: &'a str, outcome: &'a Outcome) -> Self {
        let Outcome { client_id, state, n, said: _, text, stop_reason, usage, durability } = outcome;
        Self {
            response: text,
            session_id,
            client_id: client_id.as_ref(),
            state: *state,
            n: *n,
            stop_reason: stop_reason.as_deref(),
            usage,
            durability: *durability,
        }
    }
}

/// The body of an answer that is an error.
#[derive(Debug, Serialize)]
pub(crate) struct Refusal<'a> {
    error: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<&'a str>,
    code: Code,
}

impl<'a> Refusal<'a> {
    pub(crate) fn new(problem: &'a Problem) -> Self {
        Self { error: &problem.message, details: None, code: problem.code }
    }

    /// That a body is no JSON object.
    pub(crate) fn invalid_json(details: &'a str) -> Self {
        Self { error: "Invalid JSON", details: Some(details), code: Code::Invalid }
    }
}

/// An error in the middle of a stream, as the runtime's own package says it.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "error")]
pub(crate) struct BrokenOff<'a> {
    error: &'a str,
    error_type: Code,
    message: &'a str,
}

impl<'a> BrokenOff<'a> {
    pub(crate) fn new(problem: &'a Problem) -> Self {
        Self { error: &problem.message, error_type: problem.code, message: &problem.message }
    }

    /// The event's data.
    pub(crate) fn encode(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}
