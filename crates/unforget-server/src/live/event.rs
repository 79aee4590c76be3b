//! What happens in a live session, as those who watch are told.
//!
//! Records are not carried here: they are in the transcript, and [`Event::Published`] says how far it may be read. What is carried
//! is what is in no file (a delta, a question, a tool that runs) or what a client waits for. An event is cheap to copy.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use unforget_core::session::Position;

use crate::agent::ClientId;
use crate::error::Problem;

/// What words survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// This machine's loss of power.
    Disk,
    /// This machine's loss.
    Remote,
}

impl Durability {
    /// The name in the protocol.
    pub fn name(self) -> &'static str {
        match self {
            Durability::Disk => "disk",
            Durability::Remote => "remote",
        }
    }
}

/// What kind of text a delta adds to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// What the model says.
    Text,
    /// What it thinks.
    Thinking,
    /// The arguments of a call.
    Input,
}

impl Kind {
    /// The name in the protocol.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Text => "text",
            Kind::Thinking => "thinking",
            Kind::Input => "input",
        }
    }
}

/// A call of a tool, for those who watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Called {
    /// The call's id.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// JSON text of the arguments.
    pub input: String,
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// What the client called the prompt; none if the conversation went on by itself.
    pub client_id: Option<ClientId>,
    /// `done`, `aborted` or `out_of_steps`.
    pub state: &'static str,
    /// The last record.
    pub n: u64,
    /// The record of the words that were answered, if it is known.
    pub said: Option<u64>,
    /// What the model said last.
    pub text: String,
    /// Why the model stopped.
    pub stop_reason: Option<String>,
    /// JSON text of the usage of the last call.
    pub usage: Option<String>,
    /// What it survives.
    pub durability: Durability,
}

/// Something that happened.
#[derive(Debug, Clone)]
pub enum Event {
    /// The transcript may be read up to here.
    Published(Position),
    /// A prompt was accepted and has to wait.
    Accepted {
        /// Which.
        client_id: ClientId,
        /// How many are before it.
        position: usize,
    },
    /// A turn began.
    Started(Option<ClientId>),
    /// The model begins to answer; what was heard of an answer before is void.
    Answering,
    /// The model says more.
    Delta {
        /// Which part of the answer.
        block: usize,
        /// What kind.
        kind: Kind,
        /// What is added.
        text: Arc<str>,
    },
    /// Something worth telling: a retry, that room was made.
    Notice(Arc<str>),
    /// A tool runs.
    ToolStarted(Arc<Called>),
    /// A tool has ended.
    ToolEnded {
        /// Which call.
        id: Arc<str>,
        /// Whether it failed.
        is_error: bool,
        /// How long it took.
        took: Duration,
    },
    /// Somebody has to say whether a call may run.
    Question(Arc<Called>),
    /// Somebody did.
    Answered {
        /// Which call.
        id: Arc<str>,
        /// Whether it may.
        allowed: bool,
    },
    /// Everything up to a record is safe.
    Saved {
        /// The record.
        n: u64,
        /// From what.
        durability: Durability,
    },
    /// A turn ended.
    Done(Arc<Outcome>),
    /// A turn failed.
    Failed {
        /// Which prompt.
        client_id: Option<ClientId>,
        /// Why.
        problem: Problem,
    },
    /// Nobody is told anything any more: attach again, here or elsewhere.
    Over(Problem),
}

impl Event {
    /// As a message of the protocol; none for what is told by the records.
    pub fn to_json(&self) -> Option<Value> {
        Some(match self {
            Event::Published(_) => return None,
            Event::Accepted { client_id, position } => {
                json!({ "type": "queued", "client_id": client_id.as_str(), "position": position })
            }
            Event::Started(client_id) => json!({ "type": "started", "client_id": id(client_id.as_ref()) }),
            Event::Answering => json!({ "type": "answering" }),
            Event::Delta { block, kind, text } => {
                json!({ "type": "delta", "block": block, "kind": kind.name(), "text": &**text })
            }
            Event::Notice(text) => json!({ "type": "notice", "message": &**text }),
            Event::ToolStarted(call) => tool("tool_started", call),
            Event::ToolEnded { id, is_error, took } => {
                let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
                json!({ "type": "tool_ended", "call_id": &**id, "is_error": is_error, "ms": ms })
            }
            Event::Question(call) => tool("question", call),
            Event::Answered { id, allowed } => json!({ "type": "answered", "call_id": &**id, "allowed": allowed }),
            Event::Saved { n, durability } => json!({ "type": "saved", "n": n, "durability": durability.name() }),
            Event::Done(outcome) => outcome.to_json(),
            Event::Failed { client_id, problem } => {
                json!({ "type": "failed", "client_id": id(client_id.as_ref()), "error": problem.to_json() })
            }
            Event::Over(problem) => json!({ "type": "error", "error": problem.to_json(), "client_id": null }),
        })
    }
}

impl Outcome {
    /// As the message `done`.
    pub fn to_json(&self) -> Value {
        let usage = self.usage.as_deref().and_then(|raw| serde_json::from_str::<Value>(raw).ok());
        json!({
            "type": "done",
            "client_id": id(self.client_id.as_ref()),
            "state": self.state,
            "n": self.n,
            "text": self.text,
            "stop_reason": self.stop_reason,
            "usage": usage,
            "durability": self.durability.name(),
        })
    }
}

fn id(client_id: Option<&ClientId>) -> Option<&str> {
    client_id.map(ClientId::as_str)
}

fn tool(kind: &str, call: &Called) -> Value {
    // What a model sends as arguments may be no JSON at all.
    let input = serde_json::from_str::<Value>(&call.input).unwrap_or_else(|_| Value::from(call.input.as_str()));
    json!({ "type": kind, "call_id": call.id, "name": call.name, "input": input })
}
