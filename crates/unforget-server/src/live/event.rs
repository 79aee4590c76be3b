//! What happens in a live session, as those who watch are told.
//!
//! Records are not carried here: they are in the transcript, and [`Event::Published`] says how far it may be read. What is carried
//! is what is in no file (a delta, a question, a tool that runs) or what a client waits for. An event is cheap to copy.

use std::sync::Arc;
use std::time::Duration;

use unforget_core::session::Position;

use crate::error::Problem;
use crate::protocol::{Called, ClientId, Durability, Kind, Outcome, ServerMessage};

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
    pub(crate) fn message(&self) -> Option<ServerMessage<'_>> {
        Some(match self {
            Event::Published(_) => return None,
            Event::Accepted { client_id, position } => ServerMessage::Queued { client_id, position: *position },
            Event::Started(client_id) => ServerMessage::Started { client_id: client_id.as_ref() },
            Event::Answering => ServerMessage::Answering,
            Event::Delta { block, kind, text } => ServerMessage::Delta { block: *block, kind: *kind, text },
            Event::Notice(message) => ServerMessage::Notice { message },
            Event::ToolStarted(call) => ServerMessage::ToolStarted(call),
            Event::ToolEnded { id, is_error, took } => {
                let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
                ServerMessage::ToolEnded { call_id: id, is_error: *is_error, ms }
            }
            Event::Question(call) => ServerMessage::Question(call),
            Event::Answered { id, allowed } => ServerMessage::Answered { call_id: id, allowed: *allowed },
            Event::Saved { n, durability } => ServerMessage::Saved { n: *n, durability: *durability },
            Event::Done(outcome) => ServerMessage::Done(outcome),
            Event::Failed { client_id, problem } => {
                ServerMessage::Failed { client_id: client_id.as_ref(), error: problem }
            }
            Event::Over(problem) => ServerMessage::Error { error: problem, client_id: None },
        })
    }
}
