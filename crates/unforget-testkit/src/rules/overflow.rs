//! When a request is too long, and how its error is told from all others.
//!
//! Only two texts and one status mean overflow. Rate limits also speak of tokens, so a classifier that looks for such a
//! word would answer a busy server with the loss of a conversation's beginning.

use serde_json::Value;

use super::model::Model;
use super::{Rejection, Server};

/// The literal parts of the error texts; a number stands between two parts.
const PROMPT_TOO_LONG: &[&str] = &["prompt is too long: ", " tokens > ", " maximum"];
const OUTPUT_TOO_LONG: &[&[&str]] = &[
    &["input length and `max_tokens` exceed context limit: ", " + ", " > ", ""],
    &["input length and max_tokens exceed context limit: ", " + ", " > ", ""],
    &["input length and `max_tokens exceed context limit: ", " + ", " > ", ""],
    &["input length and max_tokens` exceed context limit: ", " + ", " > ", ""],
];

/// Tells whether an error says that the request was too long, so that only a shorter one can succeed.
pub fn is_overflow(status: u16, kind: &str, message: &str) -> bool {
    match (status, kind) {
        (413, "request_too_large") => true,
        (400, "invalid_request_error") => {
            holds(message, PROMPT_TOO_LONG) || OUTPUT_TOO_LONG.iter().any(|parts| holds(message, parts))
        }
        _ => false,
    }
}

pub(super) fn check(body: &Value, max_tokens: i128, server: &Server<'_>, model: &Model<'_>) -> Result<(), Rejection> {
    let Some(count) = server.count else { return Ok(()) };
    let (input, window) = (count(body), server.window);
    if input > window {
        return Err(Rejection::invalid(format!("prompt is too long: {input} tokens > {window} maximum")));
    }
    if i128::from(input) + max_tokens > i128::from(window) && model.refuses_possible_overflow() {
        return Err(Rejection::invalid(format!(
            "input length and `max_tokens` exceed context limit: {input} + {max_tokens} > {window}, decrease input \
             length or `max_tokens` and try again"
        )));
    }
    Ok(())
}

fn holds(message: &str, parts: &[&str]) -> bool {
    let Some((first, others)) = parts.split_first() else {
        return false;
    };
    message.match_indices(first).any(|(offset, _)| {
        let after_first = message.get(offset + first.len()..);
        others.iter().try_fold(after_first.unwrap_or_default(), after_number_and).is_some()
    })
}

fn after_number_and<'a>(text: &'a str, part: &&str) -> Option<&'a str> {
    let after_number = text.trim_start_matches(|digit: char| digit.is_ascii_digit());
    if after_number.len() == text.len() { None } else { after_number.strip_prefix(part) }
}
