//! What the built-in model sees of a request: who said what, which tools there are, what came back.

use std::borrow::Cow;

use serde_json::Value;
use unforget_core::history::{History, Role};
use unforget_core::json;

/// What a summary is introduced with in a history.
const SUMMARY: &str = "[Summary of the conversation so far]";
/// How notes in a history begin that nobody said.
const NOTES: [&str; 2] = ["[Earlier messages of this conversation are not included.]", "[interrupted"];

/// A request, taken apart.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    /// The text of the system prompt.
    pub(super) system: String,
    /// The tools that may be called.
    pub(super) tools: Vec<Tool>,
    /// What the user and the model said, in order.
    pub(super) said: Vec<Said>,
    /// The summaries of what came before, in order.
    pub(super) summaries: Vec<String>,
    /// What the calls of the last answer gave back.
    pub(super) results: Vec<Outcome>,
    /// How many messages there are.
    pub(super) messages: usize,
    ends_with_words: bool,
}

/// Words of the user or of the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) role: Role,
    pub(super) text: String,
}

/// A tool that may be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tool {
    pub(super) name: String,
    /// The names of its arguments.
    pub(super) arguments: Vec<String>,
}

/// A call and what it gave back.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Outcome {
    pub(super) name: String,
    pub(super) input: Value,
    pub(super) text: String,
    pub(super) is_error: bool,
}

impl Conversation {
    /// Takes a history apart. What is not understood is not seen.
    pub(super) fn of(history: &History<'static>) -> Self {
        let mut seen = Self {
            system: history.system.as_deref().map(all_text).unwrap_or_default(),
            tools: history.tools.as_deref().map(tools).unwrap_or_default(),
            messages: history.messages.len(),
            ..Self::default()
        };
        let mut calls: Vec<(String, String, Value)> = Vec::new();
        for message in &history.messages {
            seen.results.clear();
            seen.ends_with_words = false;
            for block in &message.blocks {
                let Ok(block) = serde_json::from_str::<Value>(block) else { continue };
                let member = |name: &str| block[name].as_str().unwrap_or_default().to_owned();
                match block["type"].as_str() {
                    Some("text") => seen.hear(message.role, member("text")),
                    Some("tool_use") => calls.push((member("id"), member("name"), block["input"].clone())),
                    Some("tool_result") => {
                        let call = calls.iter().rev().find(|(id, _, _)| *id == member("tool_use_id"));
                        let (name, input) =
                            call.map_or((String::new(), Value::Null), |(_, name, input)| (name.clone(), input.clone()));
                        let text = all_text(&block["content"].to_string());
                        let is_error = block["is_error"] == Value::Bool(true);
                        seen.results.push(Outcome { name, input, text, is_error });
                    }
                    _ => {}
                }
            }
        }
        seen
    }

    fn hear(&mut self, role: Role, text: String) {
        if let Some(summary) = text.strip_prefix(SUMMARY) {
            self.summaries.push(summary.trim().to_owned());
        } else if !NOTES.iter().any(|note| text.starts_with(note)) {
            self.ends_with_words = role == Role::User;
            self.said.push(Said { role, text });
        }
    }

    /// What the user wants now; none if only results came back.
    pub(super) fn request(&self) -> Option<&str> {
        if !self.ends_with_words && !self.results.is_empty() {
            return None;
        }
        Some(self.said.iter().rev().find(|said| said.role == Role::User).map_or("", |said| said.text.trim()))
    }

    /// What the user said before the present request, in order.
    pub(super) fn earlier(&self) -> Vec<&str> {
        let words = self.said.iter().filter(|said| said.role == Role::User).map(|said| said.text.trim());
        let mut words: Vec<&str> = words.collect();
        words.pop();
        words
    }
}

/// The text behind JSON text of a string or of content blocks.
fn all_text(raw: &str) -> String {
    if let Some(text) = json::string(raw) {
        return text.into_owned();
    }
    let text = |block: &str| json::member(&json::members(block)?, "text").and_then(json::string).map(Cow::into_owned);
    let texts: Vec<String> = json::elements(raw).unwrap_or_default().into_iter().filter_map(text).collect();
    texts.join("\n")
}

fn tools(raw: &str) -> Vec<Tool> {
    let Ok(Value::Array(definitions)) = serde_json::from_str(raw) else { return Vec::new() };
    let tool = |definition: &Value| {
        let arguments = definition["input_schema"]["properties"].as_object();
        let arguments = arguments.map(|properties| properties.keys().cloned().collect()).unwrap_or_default();
        Some(Tool { name: definition["name"].as_str()?.to_owned(), arguments })
    };
    definitions.iter().filter_map(tool).collect()
}
