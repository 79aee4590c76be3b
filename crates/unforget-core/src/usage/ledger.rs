//! Calls added up by hour and model: a fold that can be stopped anywhere and gone on with.
//!
//! An hour is the smallest step that every report is made of: days begin at another moment for everyone, but almost
//! everywhere on the hour. Lines of two ledgers add up to the lines of one, so that a cache may keep the lines of a session
//! and feed only what was appended since; what the fold has to remember between two feedings is a [`Carry`].
//!
//! It guards against counting twice (records that a fork copied) and against losing what has no time or no model: such
//! a record counts at the last time that is known, and under [`UNKNOWN_MODEL`].

use std::collections::BTreeMap;
use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use super::{Tokens, first_own, of_call};
use crate::json;
use crate::layout::AgentDir;
use crate::record::{Body, Record};

/// The model of calls that do not say which one was asked.
pub const UNKNOWN_MODEL: &str = "unknown";
/// A prompt of more tokens is a long one; some models charge more for those.
pub const LONG_PROMPT: u64 = 100_000;

const HOUR_MS: i64 = 3_600_000;
/// How much of a model's name is kept: it comes from a server or an imported file.
const MODEL_CHARS: usize = 200;

/// What happened in one hour with one model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Line {
    /// Tokens of all calls.
    pub tokens: Tokens,
    /// Those of them that belong to calls with more than [`LONG_PROMPT`] tokens in the prompt.
    #[serde(default)]
    pub long: Tokens,
    /// Calls of the model.
    pub calls: u64,
    /// How often the user spoke.
    pub turns: u64,
    /// Calls of tools.
    pub tools: u64,
}

impl AddAssign for Line {
    fn add_assign(&mut self, other: Self) {
        self.tokens += other.tokens;
        self.long += other.long;
        self.calls = self.calls.saturating_add(other.calls);
        self.turns = self.turns.saturating_add(other.turns);
        self.tools = self.tools.saturating_add(other.tools);
    }
}

/// What sessions of one agent took together, with one model.
#[derive(Debug, Clone, Copy)]
pub struct Sum<'s> {
    /// The hour, or the first one of a day.
    pub hour: i64,
    /// The agent's directory.
    pub dir: &'s AgentDir,
    /// The model.
    pub model: &'s str,
    /// What they took.
    pub line: Line,
}

/// What the fold remembers of the records before, besides its lines.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Carry {
    /// Number of the first record that is no copy; none before the header.
    pub first_own: Option<u64>,
    /// The last time that a record told, in milliseconds since the epoch.
    pub last_ms: Option<i64>,
    /// The model in force.
    pub model: Option<String>,
}

/// Calls by hour (since the epoch) and model.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ledger {
    lines: BTreeMap<(i64, String), Line>,
    carry: Carry,
}

impl Ledger {
    /// An empty ledger that goes on where another one stopped.
    pub fn after(carry: Carry) -> Self {
        Self { lines: BTreeMap::new(), carry }
    }

    /// What a later feeding has to know.
    pub fn carry(&self) -> &Carry {
        &self.carry
    }

    /// Takes the next record.
    pub fn feed(&mut self, record: &Record<'_>) {
        if let Some(ms) = record.time_ms() {
            self.carry.last_ms = Some(ms);
        }
        match &record.body {
            Body::Session(header) if self.carry.first_own.is_none() => {
                self.carry.first_own = Some(first_own(header));
            }
            Body::Context { model: Some(model), .. } | Body::Turn { model: Some(model), .. } => {
                self.carry.model = Some(model.chars().take(MODEL_CHARS).collect());
            }
            _ => {}
        }
        if let Some(model) = record.foreign.as_deref().and_then(|foreign| foreign.model.as_deref()) {
            self.carry.model = Some(model.chars().take(MODEL_CHARS).collect());
        }
        if record.n < self.carry.first_own.unwrap_or(0) {
            return;
        }
        let is_first = record.foreign.as_deref().is_none_or(|foreign| foreign.begins_message);
        let line = match &record.body {
            Body::User { content } if is_said(content) => Line { turns: 1, ..Line::default() },
            // Another program writes what a message took on its calls, too.
            body => match (of_call(record), u64::from(matches!(body, Body::ToolUse(_)))) {
                (Some(tokens), tools) => {
                    let long = if tokens.prompt() > LONG_PROMPT { tokens } else { Tokens::default() };
                    Line { tokens, long, calls: u64::from(is_first), tools, ..Line::default() }
                }
                (None, 0) => return,
                (None, tools) => Line { tools, ..Line::default() },
            },
        };
        // A call is charged to the model that was asked; words and tools to the one in force.
        let model = match &record.body {
            Body::Turn { model: None, .. } => None,
            _ => self.carry.model.clone(),
        };
        let hour = self.carry.last_ms.unwrap_or(0).div_euclid(HOUR_MS);
        self.add(hour, model.as_deref().filter(|name| !name.is_empty()).unwrap_or(UNKNOWN_MODEL), line);
    }

    /// Adds one line.
    pub fn add(&mut self, hour: i64, model: &str, line: Line) {
        *self.lines.entry((hour, model.to_owned())).or_default() += line;
    }

    /// Adds all lines of another ledger.
    pub fn merge(&mut self, other: &Self) {
        other.lines().for_each(|(hour, model, line)| self.add(hour, model, *line));
    }

    /// The lines by hour and then by model.
    pub fn lines(&self) -> impl Iterator<Item = (i64, &str, &Line)> {
        self.lines.iter().map(|((hour, model), line)| (*hour, model.as_str(), line))
    }

    /// All lines in one.
    pub fn total(&self) -> Line {
        let mut total = Line::default();
        self.lines.values().for_each(|line| total += *line);
        total
    }
}

/// Whether a user's record says something, and does not only hand over tool results.
fn is_said(content: &str) -> bool {
    let Some(blocks) = json::elements(content) else { return true };
    let kind = |block: &str| {
        json::members(block).and_then(|members| json::member(&members, "type").and_then(json::string).map(Into::into))
    };
    blocks.iter().any(|block| kind(block).is_none_or(|kind: String| kind != "tool_result"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan;

    fn ledger(lines: &[&str]) -> Ledger {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let mut ledger = Ledger::default();
        scan::scan(text.as_bytes()).records.iter().for_each(|record| ledger.feed(record));
        ledger
    }

    const HEADER: &str = r#"{"v":1,"n":0,"type":"session","ts":"2026-01-01T00:00:00.000Z","id":"a"}"#;
    const CALL: &str = r#"{"v":1,"n":3,"parent":2,"type":"turn","ts":"2026-01-01T01:30:00.000Z","state":"done","model":"m","usage":{"input_tokens":10,"output_tokens":5,"cache_creation_input_tokens":7,"cache_read_input_tokens":9,"cache_creation":{"ephemeral_1h_input_tokens":3}}}"#;

    fn hour(of: &str) -> i64 {
        crate::stamp::parse_rfc3339(of).unwrap() / HOUR_MS
    }

    #[test]
    fn calls_turns_and_tools_are_counted_in_their_hour_and_under_their_model() {
        let ledger = ledger(&[
            HEADER,
            r#"{"v":1,"n":1,"parent":0,"type":"context","ts":"2026-01-01T00:59:00.000Z","model":"m"}"#,
            r#"{"v":1,"n":2,"parent":1,"type":"user","ts":"2026-01-01T00:59:59.999Z","content":"hi"}"#,
            CALL,
            r#"{"v":1,"n":4,"parent":3,"type":"tool_use","ts":"2026-01-01T01:31:00.000Z","tool_use_id":"t","name":"x","input":{}}"#,
            r#"{"v":1,"n":5,"parent":4,"type":"user","ts":"2026-01-01T01:31:00.000Z","content":[{"type":"tool_result","tool_use_id":"t"}]}"#,
        ]);
        let first = hour("2026-01-01T00:00:00Z");
        let tokens = Tokens { input: 10, output: 5, cache_write: 7, cache_write_hour: 3, cache_read: 9 };
        let lines: Vec<(i64, &str, Line)> = ledger.lines().map(|(hour, model, line)| (hour, model, *line)).collect();
        assert_eq!(
            lines,
            [
                (first, "m", Line { turns: 1, ..Line::default() }),
                (first + 1, "m", Line { tokens, calls: 1, tools: 1, ..Line::default() }),
            ]
        );
    }

    #[test]
    fn what_a_fork_copied_is_not_counted_again() {
        let header = r#"{"v":1,"n":0,"type":"session","ts":"2026-01-01T00:00:00.000Z","id":"a","origin":{"copied":4}}"#;
        let own = CALL.replace("\"n\":3", "\"n\":4");
        assert_eq!(ledger(&[header, CALL, &own]).total().calls, 1);
        assert_eq!(ledger(&[HEADER, CALL, &own]).total().calls, 2);
    }

    #[test]
    fn a_call_without_a_model_or_a_time_is_still_counted() {
        let nameless = r#"{"v":1,"n":4,"parent":3,"type":"turn","state":"done","usage":{"input_tokens":1}}"#;
        let ledger = ledger(&[HEADER, CALL, nameless]);
        let last = ledger.lines().last().unwrap();
        assert_eq!((last.0, last.1, last.2.calls), (hour("2026-01-01T01:00:00Z"), UNKNOWN_MODEL, 1));
    }

    #[test]
    fn calls_with_a_long_prompt_are_known_apart() {
        let long = CALL.replace("\"input_tokens\":10", "\"input_tokens\":100000");
        let total = ledger(&[HEADER, CALL, &long]).total();
        assert_eq!((total.tokens.input, total.long.input, total.long.output), (100_010, 100_000, 5));
    }
}
