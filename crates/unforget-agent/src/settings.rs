//! What an agent is told about how to work; the program that runs it decides.

use std::time::Duration;

use crate::model::Thinking;

/// How an agent works.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The system prompt.
    pub system: String,
    /// How long an answer may be, in tokens.
    pub max_tokens: u32,
    /// Whether the model may think before it answers.
    pub thinking: Thinking,
    /// At which part of the context window the conversation is made smaller before a call.
    pub compact_at: f64,
    /// How many tokens of the newest conversation a compaction keeps; none for at least a fifth and four messages.
    pub keep_tokens: Option<u64>,
    /// How often the model may call tools in one turn.
    pub max_steps: u32,
    /// How many bytes of a tool's output the model sees.
    pub tool_output: usize,
    /// How long one call of the summariser may take.
    pub summary_timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            system: SYSTEM.to_owned(),
            max_tokens: 8096,
            thinking: Thinking::Default,
            compact_at: 0.85,
            keep_tokens: None,
            max_steps: 100,
            tool_output: 16 * 1024,
            summary_timeout: Duration::from_secs(120),
        }
    }
}

/// The system prompt if nobody sets another. It holds nothing that changes from day to day: a changed prompt is another
/// beginning of the conversation, which costs its cache and its thinking.
const SYSTEM: &str = "You are a helpful assistant in a terminal. The conversation is saved and may go on after a \
restart, days later or on another machine. Answer concisely, in the user's language, in Markdown. Use the tools when \
they help: file tools work inside the user's workspace, paths are relative to it. When a tool result says that its \
outcome is unknown, look at the state of things before you do it again.";
