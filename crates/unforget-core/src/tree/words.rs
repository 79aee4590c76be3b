//! The first words of what someone said: enough to recognise a branch by, never more.

use crate::json;
use crate::mask::mask;
use crate::record::{Body, Record};

/// How much of what was said is kept, in characters.
const WORDS_CHARS: usize = 80;
/// How much of a text is looked at, in bytes.
const MAX_LOOK: usize = 1024;

/// Whether the user speaks in a record. A string says so by its first byte, however long it is.
pub(super) fn is_said(record: &Record<'_>) -> bool {
    let Body::User { content } = record.body else { return false };
    content.starts_with('"') || first_words(content, one_line).is_some()
}

/// What the user says in a record, shortened to one line; none if nobody speaks in it.
pub(super) fn of(record: &Record<'_>) -> Option<String> {
    let Body::User { content } = record.body else { return None };
    first_words(content, one_line)
}

/// The same without secrets.
pub(super) fn masked(record: &Record<'_>) -> Option<String> {
    let Body::User { content } = record.body else { return None };
    first_words(content, |text| one_line(&mask(beginning(text))))
}

/// What the model says in a record, shortened to one line.
pub(super) fn of_answer(record: &Record<'_>) -> Option<String> {
    let Body::Assistant { content, .. } = record.body else { return None };
    first_words(content, one_line).filter(|words| !words.is_empty())
}

fn first_words(content: &str, one_line: impl Fn(&str) -> String) -> Option<String> {
    // A payload that is elsewhere has its beginning here.
    let preview = |raw| json::member(&json::members(raw)?, "preview").and_then(json::string);
    if let Some(text) = json::string(content).or_else(|| preview(content)) {
        return Some(one_line(&text));
    }
    let mut other = None;
    for block in json::elements(content)? {
        let Some(members) = json::members(block) else { continue };
        let kind = json::member(&members, "type").and_then(json::string);
        let text = match kind.as_deref() {
            None => preview(block),
            Some("text") => json::member(&members, "text").and_then(json::string),
            Some("tool_result" | "thinking" | "redacted_thinking" | "tool_use") => None,
            Some(kind) => {
                other = other.or_else(|| Some(one_line(&format!("[{kind}]"))));
                None
            }
        };
        if let Some(text) = text {
            return Some(one_line(&text));
        }
    }
    other
}

fn beginning(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_LOOK)]
}

fn one_line(text: &str) -> String {
    let line = beginning(text).split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(WORDS_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
