//! What the server says: one variant for each `type`, in the order of the schema.
//!
//! JSON that others wrote (a record, the arguments of a call, a model's usage) goes out as its own
//! bytes. It is never parsed into a value, which would round its numbers. A message is one line,
//! because an event of a stream ends at a line break.

use std::borrow::Cow;

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::{ClientId, Durability, PROTOCOL};
use crate::error::Problem;

/// A message of the server; docs/protocol.md says what each means.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum ServerMessage<'a> {
    Hello(Hello<'a>),
    Attached(&'a Attached),
    Record { n: u64, record: &'a RawValue },
    Damage { n: u64, offset: u64, bytes: u64 },
    CaughtUp { n: Option<u64> },
    Accepted(Accepted<'a>),
    Queued { client_id: &'a ClientId, position: usize },
    Started { client_id: Option<&'a ClientId> },
    Answering,
    Delta { block: usize, kind: Kind, text: &'a str },
    Notice { message: &'a str },
    ToolStarted(&'a Called),
    ToolEnded { call_id: &'a str, is_error: bool, ms: u64 },
    Question(&'a Called),
    Answered { call_id: &'a str, allowed: bool },
    Saved { n: u64, durability: Durability },
    Done(&'a Outcome),
    Failed { client_id: Option<&'a ClientId>, error: &'a Problem },
    Aborting { running: bool },
    Detached,
    Pong,
    Error { error: &'a Problem, client_id: Option<&'a ClientId> },
}

impl ServerMessage<'_> {
    /// The message as JSON text.
    pub(crate) fn encode(&self) -> String {
        // It has no maps and no foreign types, so there is nothing in it that JSON cannot say.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Which server this is, and for whom.
#[derive(Debug, Serialize)]
pub(crate) struct Hello<'a> {
    protocol: u32,
    server: &'static str,
    pub(crate) actor: &'a str,
    pub(crate) agents: Vec<AgentName<'a>>,
}

/// An agent that a session may have.
#[derive(Debug, Serialize)]
pub(crate) struct AgentName<'a> {
    pub(crate) name: &'a str,
    pub(crate) kind: &'a str,
}

impl<'a> Hello<'a> {
    pub(crate) fn new(actor: &'a str, agents: Vec<AgentName<'a>>) -> Self {
        Self { protocol: PROTOCOL, server: concat!("unforget/", env!("CARGO_PKG_VERSION")), actor, agents }
    }
}

/// That the words of a prompt are safe.
#[derive(Debug, Serialize)]
pub(crate) struct Accepted<'a> {
    pub(crate) client_id: &'a ClientId,
    pub(crate) session_id: &'a str,
    pub(crate) state: PromptState,
    /// Whether it had been sent before.
    #[serde(rename = "duplicate")]
    pub(crate) is_duplicate: bool,
    pub(crate) durability: Durability,
}

/// How a session stands when a viewer begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Attached {
    /// Which session.
    pub session_id: String,
    /// The agent's name.
    pub agent: String,
    /// What kind of agent.
    pub agent_kind: &'static str,
    /// The last record that there is.
    pub n: Option<u64>,
    /// The turn that is running.
    pub turn: Option<RunningTurn>,
    /// How many prompts wait.
    pub queued: usize,
    /// The last turn, if it never came to its end.
    pub interrupted: Option<Interrupted>,
}

/// A turn that is running.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunningTurn {
    /// What the client called its prompt; none if the conversation goes on by itself.
    pub client_id: Option<ClientId>,
}

/// A turn that never came to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Interrupted {
    /// The user's words.
    pub n: u64,
    /// What the client called them.
    pub client_id: Option<ClientId>,
    /// Whether anything came after them: then the turn may have done things, and is not simply run
    /// again.
    #[serde(rename = "touched")]
    pub is_touched: bool,
}

/// How it stands with a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptState {
    /// It waits.
    Queued,
    /// Its turn is running.
    Running,
    /// Its turn ended.
    Done,
    /// Its turn failed.
    Failed,
    /// It is in the transcript.
    Known,
}

/// What kind of text a delta adds to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// What the model says.
    Text,
    /// What it thinks.
    Thinking,
    /// The arguments of a call.
    Input,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Called {
    /// The call's id.
    #[serde(rename = "call_id")]
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments as the model sent them, which may be no JSON at all; then they are a string.
    #[serde(serialize_with = "json_or_text")]
    pub input: String,
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// What the client called the prompt; none if the conversation went on by itself.
    pub client_id: Option<ClientId>,
    /// In which way.
    pub state: TurnState,
    /// The last record.
    pub n: u64,
    /// The record of the words that were answered, if it is known.
    #[serde(skip)]
    pub said: Option<u64>,
    /// What the model said last.
    pub text: String,
    /// Why the model stopped.
    pub stop_reason: Option<String>,
    /// JSON text of the usage of the last call.
    #[serde(serialize_with = "json_or_null")]
    pub usage: Option<String>,
    /// What it survives.
    pub durability: Durability,
}

/// In which way a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnState {
    /// The model had said all.
    Done,
    /// It was aborted.
    Aborted,
    /// The model was not done after as many steps as it may take.
    OutOfSteps,
}

fn json_or_text<S: Serializer>(text: &str, to: S) -> Result<S::Ok, S::Error> {
    match one_line(text) {
        Some(json) => json.serialize(to),
        None => to.serialize_str(text),
    }
}

pub(super) fn json_or_null<S: Serializer>(text: &Option<String>, to: S) -> Result<S::Ok, S::Error> {
    text.as_deref().and_then(one_line).serialize(to)
}

/// JSON text in one line; none if it is no JSON.
fn one_line(text: &str) -> Option<Cow<'_, RawValue>> {
    let json: &RawValue = serde_json::from_str(text).ok()?;
    if !json.get().contains(['\n', '\r']) {
        return Some(Cow::Borrowed(json));
    }
    // A string of JSON has no line breaks, so they stand between tokens, where a space means the
    // same.
    RawValue::from_string(json.get().replace(['\n', '\r'], " ")).ok().map(Cow::Owned)
}
