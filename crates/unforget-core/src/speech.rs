//! What records say, in words: for people, for a summariser, and for pins.
//!
//! Thinking and pictures are left out, results are shortened at both ends. The full text stays in the transcript.

use std::borrow::Cow;

use crate::history::{self, Path};
use crate::json;
use crate::record::{Body, Record};

/// Most bytes of all pinned texts together.
pub const MAX_PINNED: usize = 32 * 1024;
/// How much of a result is read, in bytes.
const RESULT: usize = 2000;
/// How much of a call's arguments.
const INPUT: usize = 1000;
/// How much of a single text.
const TEXT: usize = 24_000;

/// What a record says, and its speaker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Utterance {
    /// The record.
    pub n: u64,
    /// `User`, `Assistant`, `Tool call` or `Tool result`.
    pub who: &'static str,
    /// The words.
    pub text: String,
}

impl Utterance {
    /// `User: the words`.
    pub fn line(&self) -> String {
        format!("{}: {}", self.who, self.text)
    }
}

/// What a record says; none if it has no words.
pub fn utterance(record: &Record<'_>) -> Option<Utterance> {
    let n = record.n;
    let (who, text) = match &record.body {
        Body::User { .. } => ("User", bounded(&words_of_user(record)?, TEXT)),
        Body::Assistant { content, .. } => ("Assistant", bounded(&words(content)?, TEXT)),
        Body::ToolUse(call) => ("Tool call", format!("{}({})", call.name, bounded(call.input, INPUT))),
        Body::ToolResult(result) => {
            let text = words(result.content).unwrap_or_else(|| result.content.to_owned());
            let text = bounded(&text, RESULT);
            ("Tool result", if result.is_error { format!("[failed] {text}") } else { text })
        }
        _ => return None,
    };
    Some(Utterance { n, who, text })
}

/// The user's words in a record; none if it holds none.
pub fn words_of_user(record: &Record<'_>) -> Option<String> {
    match &record.body {
        Body::User { content } => words(content),
        _ => None,
    }
}

/// What is pinned at the end of a path: the records, and their words.
pub fn pins(path: &Path<'_, '_>) -> Vec<(u64, String)> {
    let mut pins: Vec<(u64, String)> = Vec::new();
    for record in &path.records {
        match &record.body {
            Body::Compaction { pinned: Some(raw), .. } => {
                pins.extend(history::pins(raw).into_iter().map(|(n, text)| (n, text.into_owned())));
            }
            Body::Pin { to, text } => {
                pins.retain(|(n, _)| n != to);
                pins.extend(text.as_ref().map(|text| (*to, text.clone().into_owned())));
            }
            _ => {}
        }
    }
    pins
}

/// The text, or both ends of it, in at most `most` bytes.
pub fn bounded(text: &str, most: usize) -> String {
    const GAP: &str = " […] ";
    if text.len() <= most {
        return text.to_owned();
    }
    let half = most.saturating_sub(GAP.len()) / 2;
    let head = text.floor_char_boundary(half);
    let tail = text.ceil_char_boundary(text.len() - half);
    format!("{}{GAP}{}", &text[..head], &text[tail..])
}

/// The text in content: a string, or the text blocks of a list.
fn words(content: &str) -> Option<String> {
    if let Some(text) = json::string(content) {
        return Some(text.into_owned()).filter(|text| !text.trim().is_empty());
    }
    let texts: Vec<String> = json::elements(content)?
        .into_iter()
        .filter_map(|block| {
            let members = json::members(block)?;
            let kind = json::member(&members, "type").and_then(json::string)?;
            match kind.as_ref() {
                "text" => json::member(&members, "text").and_then(json::string).map(Cow::into_owned),
                "image" | "document" => Some(format!("[{kind}]")),
                _ => None,
            }
        })
        .filter(|text| !text.trim().is_empty())
        .collect();
    Some(texts.join("\n")).filter(|text| !text.is_empty())
}
