//! What is around a turn: a screen that shows what happens, and a person who answers.

use std::time::Duration;

use crate::model::{BoxFuture, Event};
use crate::tools::{Call, Output};

/// Shows what happens in a turn and answers its questions.
pub trait Host: Send {
    /// Something happened.
    fn tell(&mut self, notice: Notice<'_>);

    /// The answer that is known without asking, if there is one.
    fn standing(&self, call: &Call) -> Option<Answer>;

    /// Whether a call may run. Dropping the future withdraws the question.
    fn approve<'a>(&'a mut self, call: &'a Call) -> BoxFuture<'a, Answer>;
}

/// What happens in a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice<'a> {
    /// A request leaves.
    Asking,
    /// The model says something.
    Model(&'a Event),
    /// A tool begins to run.
    ToolStarted(&'a Call),
    /// A tool has ended; its result is in the log.
    ToolEnded {
        /// The call.
        call: &'a Call,
        /// What it gave back.
        output: &'a Output,
        /// How long it took.
        took: Duration,
    },
    /// The conversation was made smaller, or could not be: one line.
    Guard(&'a str),
    /// Everything up to this record is on the disk.
    Saved {
        /// The record's number.
        n: u64,
    },
}

/// Whether a call may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It may; who said so.
    Allowed {
        /// `person`, `always` or `setting`.
        by: &'static str,
    },
    /// It may not; who said so, and what the model is told.
    Denied {
        /// `person` or `setting`.
        by: &'static str,
        /// Words for the model, if any.
        reason: Option<String>,
    },
}
