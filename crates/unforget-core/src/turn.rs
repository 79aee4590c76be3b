//! A finished turn, saved by one append: the user's words, the model's answer, the calls in it and their results.
//!
//! For a program that asks its model by itself and keeps what came of it. A program that must not lose the words of a
//! turn that fails in the middle appends a [`Draft`] for each step as it happens, as `unforget-agent` does.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::json;
use crate::record::Draft;
use crate::session::{Session, block_draft};

/// A finished turn.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Turn {
    words: String,
    steps: Vec<Step>,
}

/// What follows the user's words.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    /// Words or a call of the model.
    Said(Draft),
    /// The JSON text of a content block of the model.
    Block(String),
    /// The result of a call.
    Result(Draft),
}

impl Turn {
    /// Begins a turn with the user's words.
    pub fn new(words: &str) -> Self {
        Self { words: words.to_owned(), steps: Vec::new() }
    }

    /// Adds words of the model.
    pub fn answer(self, text: &str) -> Self {
        self.with(Step::Said(Draft::assistant(None, &json::quote(text))))
    }

    /// Adds a call of a tool; `input` is the JSON text of an object.
    pub fn call(self, id: &str, name: &str, input: &str) -> Self {
        self.with(Step::Said(Draft::tool_use(None, id, name, input)))
    }

    /// Adds what the tool of a call gave back.
    pub fn result(self, id: &str, output: &str) -> Self {
        self.with(Step::Result(Draft::tool_result(id, &json::quote(output))))
    }

    /// Adds content blocks as the Messages API has them: the JSON text of an array.
    pub fn blocks(mut self, blocks: &str) -> Result<Self> {
        let blocks =
            json::elements(blocks).ok_or_else(|| Error::Invalid("content blocks must be a JSON array".to_owned()))?;
        self.steps.extend(blocks.into_iter().map(|block| Step::Block(block.to_owned())));
        Ok(self)
    }

    fn with(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }
}

impl Session {
    /// Saves a turn: all of it is durable when this returns, or nothing of it was written.
    pub fn save(&mut self, turn: &Turn) -> Result<Range<u64>> {
        // The head rises along a conversation, so no message before this turn has the same name.
        let head = self.head().unwrap_or(0);
        let mut messages = 0;
        let mut drafts = vec![Draft::user(&turn.words)];
        for step in &turn.steps {
            let name = format!("turn-{head}-{messages}");
            drafts.push(match step {
                Step::Said(draft) => draft.clone().text("msg", &name),
                Step::Block(block) => block_draft(&name, block),
                Step::Result(draft) => {
                    messages += 1;
                    draft.clone()
                }
            });
        }
        drafts.push(Draft::turn("done"));
        self.append(&drafts)
    }
}
