//! From the bytes of a request to a JSON value.
//!
//! serde_json refuses two things that need care here. A lone surrogate escape (`\ud83d`) is an error with a text of its
//! own, because a transcript cut in the middle of an emoji produces exactly that. A number beyond an `f64` is legal
//! JSON that the server accepts inside a tool's input. Both are replaced in a copy of the text, and only if the text as
//! it stands cannot be read, so that ordinary bodies are scanned once.

use serde_json::Value;
use serde_json::error::Category;
use serde_json::value::RawValue;

use super::Rejection;

const MAX_BODY_BYTES: usize = 32 * 1024 * 1024;
/// The length of `\uXXXX`.
const UNIT_LENGTH: usize = 6;

pub(super) fn parse(bytes: &[u8]) -> Result<Value, Rejection> {
    if bytes.len() > MAX_BODY_BYTES {
        let message = "Request exceeds the maximum size".to_owned();
        return Err(Rejection { status: 413, kind: "request_too_large", message });
    }
    let text = str::from_utf8(bytes).map_err(|_| not_json("invalid UTF-8"))?;
    if let Ok(value) = serde_json::from_str(text) {
        return Ok(value);
    }
    let readable = Readable::of(text);
    let value = serde_json::from_str(&readable.text).map_err(|error| syntax(&readable.text, &error))?;
    match readable.lone_surrogate {
        Some(offset) => Err(not_json(&format!("no low surrogate in string: {}", place(text, offset)))),
        None => Ok(value),
    }
}

fn not_json(reason: &str) -> Rejection {
    Rejection::invalid(format!("The request body is not valid JSON: {reason}"))
}

fn syntax(text: &str, error: &serde_json::Error) -> Rejection {
    let line_start: usize = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
    let place = place(text, line_start + error.column().saturating_sub(1));
    if error.classify() == Category::Eof {
        return not_json(&format!("unexpected end of data: {place}"));
    }
    let full = error.to_string();
    let reason = full.rsplit_once(" at line ").map_or(full.as_str(), |(reason, _)| reason);
    not_json(&format!("{reason}: {place}"))
}

/// Counts characters, not bytes, as the server does.
fn place(text: &str, offset: usize) -> String {
    let (before, _) = text.split_at(text.floor_char_boundary(offset));
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|&character| character != '\n').count() + 1;
    format!("line {line} column {column} (char {})", before.chars().count())
}

/// A copy of a text in which serde_json finds nothing to refuse but real errors of syntax.
struct Readable {
    text: String,
    lone_surrogate: Option<usize>,
}

impl Readable {
    fn of(text: &str) -> Self {
        let bytes = text.as_bytes();
        let mut readable = Self { text: String::with_capacity(text.len()), lone_surrogate: None };
        let (mut copied, mut offset, mut in_string) = (0, 0, false);
        while let Some(&byte) = bytes.get(offset) {
            let start = offset;
            let mut replacement = None;
            match byte {
                b'"' => {
                    in_string = !in_string;
                    offset += 1;
                }
                b'\\' if in_string => match code_unit(text, offset) {
                    Some(0xD800..=0xDBFF) if matches!(code_unit(text, offset + UNIT_LENGTH), Some(0xDC00..=0xDFFF)) => {
                        offset += 2 * UNIT_LENGTH;
                    }
                    Some(0xD800..=0xDFFF) => {
                        readable.lone_surrogate.get_or_insert(offset);
                        replacement = Some("\\ufffd");
                        offset += UNIT_LENGTH;
                    }
                    Some(_) => offset += UNIT_LENGTH,
                    None => offset += 2,
                },
                b'-' | b'0'..=b'9' if !in_string => {
                    offset += number_length(&bytes[offset..]);
                    replacement = text.get(start..offset).and_then(stand_in);
                }
                _ => offset += 1,
            }
            if let Some(replacement) = replacement {
                readable.text.push_str(text.get(copied..start).unwrap_or_default());
                readable.text.push_str(replacement);
                copied = offset;
            }
        }
        readable.text.push_str(text.get(copied..).unwrap_or_default());
        readable
    }
}

fn code_unit(text: &str, offset: usize) -> Option<u16> {
    let digits = text.get(offset..offset + UNIT_LENGTH)?.strip_prefix("\\u")?;
    // from_str_radix would take a sign.
    if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    u16::from_str_radix(digits, 16).ok()
}

fn number_length(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E')).count()
}

/// Replaces a number that only its size makes unreadable; one that breaks the grammar stays as it is.
fn stand_in(token: &str) -> Option<&'static str> {
    // A raw value is held against the grammar alone.
    let is_number = serde_json::from_str::<&RawValue>(token).is_ok();
    if !is_number || serde_json::from_str::<Value>(token).is_ok() {
        return None;
    }
    Some(if token.starts_with('-') { "-1e308" } else { "1e308" })
}
