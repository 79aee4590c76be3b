//! What answers: a request in, a stream of events out.
//!
//! A [`Model`] is asked with a history that was built from the log, and tells what it says piece by piece. It keeps no
//! state between requests and writes nothing down: whoever asks decides what becomes of the pieces, also of half an
//! answer when the stream is cut or the person has heard enough.

use std::time::Duration;

use unforget_core::history::{History, Message, Role};
use unforget_core::json;

pub mod anthropic;
pub mod assembly;
mod body;
mod cache;
pub mod offline;
mod refusal;
pub mod retry;
mod sse;
mod wire;

pub use futures_core::future::BoxFuture;

/// Takes the pieces of an answer as they come.
pub type Sink<'a> = &'a mut (dyn FnMut(Event) + Send);

/// Something that answers.
pub trait Model: Send + Sync {
    /// The model's name, as the API knows it.
    fn name(&self) -> &str;

    /// How many tokens a request and its answer may have together.
    fn window(&self) -> u64;

    /// Asks, and hands over the answer piece by piece. Dropping the future gives up.
    fn respond<'a>(&'a self, request: &'a Request<'a>, sink: Sink<'a>) -> BoxFuture<'a, Result<(), ModelError>>;

    /// How many tokens the request has, as the model counts.
    fn count<'a>(&'a self, request: &'a Request<'a>) -> BoxFuture<'a, Result<u64, ModelError>>;
}

/// What a model is asked.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// System prompt, tools and messages.
    pub history: &'a History<'static>,
    /// How long the answer may be, in tokens.
    pub max_tokens: u32,
    /// Whether the model may think before it answers.
    pub thinking: Thinking,
}

/// How a model thinks before it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Thinking {
    /// As the model does by itself.
    #[default]
    Default,
    /// As much as the model finds right.
    Adaptive,
    /// With a budget of tokens, for models before 4.6.
    Budget(u32),
}

impl Thinking {
    /// How the model may think about this conversation: with a budget, its last turn must begin with thinking, which a
    /// compaction or another model may have cost it.
    #[must_use]
    pub fn with(self, history: &History<'_>) -> Self {
        match self {
            Thinking::Budget(_) if !last_turn_thinks(&history.messages) => Thinking::Default,
            setting => setting,
        }
    }
}

/// Whether the model's last turn begins with thinking. What it says between results belongs to the turn that the first
/// call began.
fn last_turn_thinks(messages: &[Message<'_>]) -> bool {
    let Some(mut at) = messages.iter().rposition(|message| message.role == Role::Assistant) else { return true };
    while at >= 2 && messages[at - 1].blocks.iter().all(|block| json::has_type(block, &["tool_result"])) {
        at -= 2;
    }
    let first = messages[at].blocks.first();
    first.is_some_and(|block| json::has_type(block, &["thinking", "redacted_thinking"]))
}

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Nothing came yet, and it is being tried again after a wait.
    Retrying {
        /// Which retry this is, from one.
        attempt: u32,
        /// How many there are at most.
        of: u32,
        /// How long the wait is.
        wait: Duration,
        /// What went wrong.
        why: String,
    },
    /// The answer begins.
    Started {
        /// The message's id.
        id: String,
        /// The model that answers.
        model: String,
        /// JSON text of the usage so far.
        usage: String,
    },
    /// A content block begins.
    BlockStarted {
        /// Which one.
        index: usize,
        /// JSON text of the block as it begins.
        block: String,
    },
    /// More of a content block.
    Delta {
        /// Which one.
        index: usize,
        /// What is added.
        delta: Delta,
    },
    /// A content block is complete.
    BlockEnded {
        /// Which one.
        index: usize,
    },
    /// The answer is complete.
    Ended {
        /// Why the model stopped.
        stop_reason: Option<String>,
        /// JSON text of the usage.
        usage: String,
    },
}

/// What is added to a content block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta {
    /// Text.
    Text(String),
    /// Thinking.
    Thinking(String),
    /// The signature of the thinking.
    Signature(String),
    /// A piece of the JSON text of a call's arguments.
    Input(String),
    /// JSON text of a delta of another kind.
    Other(String),
}

/// Why there is no answer, or only half of one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The request is too large for the model: the one error that a smaller request cures.
    #[error("the conversation is too long for the model: {message}")]
    Overflow {
        /// Which limit it is.
        limit: Limit,
        /// What the server said.
        message: String,
    },
    /// The key is missing, wrong or may not do this.
    #[error("the API refused the key: {message}")]
    Denied {
        /// What the server said.
        message: String,
    },
    /// Too many requests, or all that was paid for is used up.
    #[error("the API's rate limit is reached: {message}")]
    RateLimited {
        /// What the server said.
        message: String,
        /// How long to wait; none if waiting does not help.
        retry_after: Option<Duration>,
    },
    /// The server has trouble, and kept having it.
    #[error("the API is not available: {message}")]
    Unavailable {
        /// What the server said.
        message: String,
    },
    /// The request was refused for another reason.
    #[error("the API refused the request: {message}")]
    Rejected {
        /// The HTTP status.
        status: u16,
        /// What the server said.
        message: String,
    },
    /// The answer broke off.
    #[error("the answer broke off: {message}")]
    Cut {
        /// What happened.
        message: String,
    },
    /// The server could not be reached.
    #[error("the API cannot be reached: {message}")]
    Unreachable {
        /// What happened.
        message: String,
    },
    /// The server said something that is not the API's language.
    #[error("the API's answer was not understood: {message}")]
    Protocol {
        /// What is wrong with it.
        message: String,
    },
}

/// What a request is too large for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// The context window, in tokens.
    Tokens,
    /// The size of a request, in bytes.
    Bytes,
}

impl ModelError {
    /// Whether a smaller request would be answered.
    pub fn is_overflow(&self) -> bool {
        matches!(self, ModelError::Overflow { .. })
    }

    /// What the server said or what happened, to be put in other words.
    fn message_mut(&mut self) -> &mut String {
        match self {
            ModelError::Overflow { message, .. }
            | ModelError::Denied { message }
            | ModelError::RateLimited { message, .. }
            | ModelError::Unavailable { message }
            | ModelError::Rejected { message, .. }
            | ModelError::Cut { message }
            | ModelError::Unreachable { message }
            | ModelError::Protocol { message } => message,
        }
    }
}
