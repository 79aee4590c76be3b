//! What records say, in words: for a summariser to read.
//!
//! Thinking and pictures are left out, results are shortened: their ends tell most, and a summary is no archive. The
//! transcript is.

use unforget_core::json;
use unforget_core::record::{Body, Record};

use super::digest::bounded;

/// How much of a result a summariser reads, in bytes.
const RESULT: usize = 2000;
/// How much of a call's arguments.
const INPUT: usize = 1000;
/// How much of a single text.
const TEXT: usize = 24_000;

/// What a record says, and who says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// The record.
    pub n: u64,
    /// `User`, `Assistant`, `Tool call` or `Tool result`.
    pub who: &'static str,
    /// What is said.
    pub text: String,
}

impl Said {
    /// `User: what is said`.
    pub fn line(&self) -> String {
        format!("{}: {}", self.who, self.text)
    }
}

/// What a record says; none if that is nothing a summary would be about.
pub fn said(record: &Record<'_>) -> Option<Said> {
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
    Some(Said { n, who, text })
}

/// The user's words in a record; none if it holds none.
pub(super) fn words_of_user(record: &Record<'_>) -> Option<String> {
    match &record.body {
        Body::User { content } => words(content),
        _ => None,
    }
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
                "text" => json::member(&members, "text").and_then(json::string).map(std::borrow::Cow::into_owned),
                "image" | "document" => Some(format!("[{kind}]")),
                _ => None,
            }
        })
        .filter(|text| !text.trim().is_empty())
        .collect();
    Some(texts.join("\n")).filter(|text| !text.is_empty())
}
