//! What a test wants the server to say next.
//!
//! Replies wait in a queue, each with a condition, and the oldest whose condition holds is used up. A request that the
//! rules refuse uses up nothing: a broken request must show as such, not as the trouble that was planned for it.

use std::collections::VecDeque;

use serde_json::Value;

use super::record::Recorded;

/// How many replies may wait at a time; more than this is a test that runs away, and the rest is dropped.
const MAX_WAITING: usize = 10_000;

/// A planned reply.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// Answers with an HTTP error.
    Error {
        /// The HTTP status.
        status: u16,
        /// The `error.type`.
        kind: String,
        /// The `error.message`.
        message: String,
        /// The seconds of the header `retry-after`, if there is to be one.
        retry_after: Option<u64>,
    },
    /// Begins to answer with this text, then sends an `error` event instead of the rest.
    ErrorEvent {
        /// The text before the error; if empty, no block is begun.
        after_text: String,
        /// The `error.type`.
        kind: String,
        /// The `error.message`.
        message: String,
    },
    /// Closes the connection in the middle of a block.
    Cut {
        /// What of the block is sent: text, thinking, or the beginning of a call's arguments.
        text: String,
        /// The kind of the block.
        block: CutIn,
    },
    /// Sends this text, then nothing until the client goes away or `FakeApi::release` is called.
    Stall {
        /// The text before the stall; if empty, no block is begun.
        text: String,
    },
    /// Sends nothing at all, not even a status, until `FakeApi::release` is called, then answers as if unplanned.
    Silence,
    /// Answers with these blocks; ids of calls and signatures of thinking are added where they are missing.
    Blocks {
        /// The content.
        blocks: Vec<Value>,
        /// The `stop_reason`.
        stop_reason: String,
    },
    /// Answers with a call whose arguments end too early, because of `max_tokens`.
    CutInput {
        /// The tool.
        name: String,
        /// The beginning of the JSON text of its arguments.
        input: String,
    },
    /// Answers with exactly this.
    Raw {
        /// The HTTP status.
        status: u16,
        /// The headers beside `request-id`.
        headers: Vec<(String, String)>,
        /// The body.
        body: Vec<u8>,
    },
}

/// The kind of block in which an answer is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutIn {
    /// A text.
    Text,
    /// A call of a tool.
    ToolUse,
    /// Thinking, before its signature.
    Thinking,
}

/// Says which requests a planned reply is for.
pub(super) type Condition = Box<dyn Fn(&Recorded) -> bool + Send>;

/// The replies that wait.
#[derive(Default)]
pub(super) struct Script(VecDeque<(Condition, Reply)>);

impl Script {
    pub(super) fn push(&mut self, condition: Condition, reply: Reply) {
        if self.0.len() < MAX_WAITING {
            self.0.push_back((condition, reply));
        }
    }

    /// Takes the oldest reply that is meant for this request.
    pub(super) fn take(&mut self, request: &Recorded) -> Option<Reply> {
        let at = self.0.iter().position(|(condition, _)| condition(request))?;
        self.0.remove(at).map(|(_, reply)| reply)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
