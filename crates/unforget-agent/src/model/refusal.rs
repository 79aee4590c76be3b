//! What an error of the API means: a pure function of status, headers and body.
//!
//! Two decisions hang on it. Whether the conversation must become shorter: that loses something, so it is decided by the
//! server's exact words for it and by nothing that merely speaks of tokens or context, as rate limits, expired logins
//! and wrong parameters do. And whether to try again: a busy server is waited for, but an account that has spent all it
//! may spend answers the same tomorrow, and looping on it helps nobody.
//!
//! This module sends nothing and waits for nobody. The time comes in, because some headers name a moment.

use std::time::Duration;

use reqwest::header::HeaderMap;
use unforget_core::{json, stamp};

use super::{Limit, ModelError};

/// How much is quoted of a body that is not an error of the API, in characters.
const MAX_QUOTE: usize = 200;
/// How much is kept of what the API says, in characters.
const MAX_MESSAGE: usize = 2000;

/// The literal parts of the two texts that mean overflow; a number stands between two parts, and nothing around them.
const OVERFLOWS: [&[&str]; 2] = [
    &["prompt is too long: ", " tokens > ", " maximum"],
    &[
        "input length and `max_tokens` exceed context limit: ",
        " + ",
        " > ",
        ", decrease input length or `max_tokens` and try again",
    ],
];

/// The limits whose headers say when they are reset.
const LIMITS: [&str; 4] = ["requests", "tokens", "input-tokens", "output-tokens"];

/// An error, and what can be done about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) error: ModelError,
    pub(super) again: Again,
}

/// Whether the same request may be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Again {
    /// It would be refused again.
    Never,
    /// After a while.
    Later,
    /// After the time that the server named.
    After(Duration),
}

impl Refusal {
    /// An error that would be the same the next time.
    pub(super) fn last(error: ModelError) -> Self {
        Self { error, again: Again::Never }
    }

    /// An error that may be gone the next time.
    pub(super) fn passing(error: ModelError) -> Self {
        Self { error, again: Again::Later }
    }

    /// The server said something that is not the API's language.
    pub(super) fn protocol(message: impl Into<String>) -> Self {
        Self::last(ModelError::Protocol { message: message.into() })
    }

    /// The answer broke off.
    pub(super) fn cut(message: impl Into<String>) -> Self {
        Self::passing(ModelError::Cut { message: message.into() })
    }
}

/// What a response with an error status says.
pub(super) fn of_response(status: u16, headers: &HeaderMap, body: &str, now_ms: i64) -> Refusal {
    let (kind, message) = match said(body) {
        Some((kind, message)) => (kind, message),
        None if body.trim().is_empty() => (String::new(), format!("HTTP {status} without a body")),
        None => (String::new(), format!("HTTP {status}: {}", quote(body))),
    };
    // The server's own clock, if it says what it is: that of this machine may be wrong.
    let now_ms = moment(headers, "date").unwrap_or(now_ms);
    let wait = retry_after(headers, now_ms).or_else(|| if status == 429 { reset(headers, now_ms) } else { None });
    let mut refusal = classify(status, &kind, message, wait);
    match headers.get("x-should-retry").map(reqwest::header::HeaderValue::as_bytes) {
        Some(b"false") => refusal.again = Again::Never,
        Some(b"true") if !refusal.error.is_overflow() => refusal.again = wait.map_or(Again::Later, Again::After),
        _ => {}
    }
    refusal
}

/// What an error says that comes where an answer was expected: as an event of a stream, or as the body of a success.
/// `None` if it is not an error.
pub(super) fn of_event(data: &str) -> Option<Refusal> {
    let (kind, message) = said(data)?;
    let status = match kind.as_str() {
        "invalid_request_error" => 400,
        "authentication_error" => 401,
        "billing_error" => 402,
        "permission_error" => 403,
        "not_found_error" => 404,
        "request_too_large" => 413,
        "rate_limit_error" => 429,
        "api_error" => 500,
        "timeout_error" => 504,
        "overloaded_error" => 529,
        _ => return Some(Refusal::last(ModelError::Unavailable { message: format!("{kind}: {message}") })),
    };
    let mut refusal = classify(status, &kind, message, None);
    if status == 429 {
        // An event has no headers, so their absence says nothing.
        refusal.again = Again::Later;
    }
    Some(refusal)
}

fn classify(status: u16, kind: &str, message: String, wait: Option<Duration>) -> Refusal {
    let later = wait.map_or(Again::Later, Again::After);
    match status {
        413 => Refusal::last(ModelError::Overflow { limit: Limit::Bytes, message }),
        400 if kind == "invalid_request_error" && OVERFLOWS.iter().any(|parts| is_exactly(&message, parts)) => {
            Refusal::last(ModelError::Overflow { limit: Limit::Tokens, message })
        }
        401 | 403 => Refusal::last(ModelError::Denied { message }),
        402 => Refusal::last(ModelError::RateLimited { message, retry_after: None }),
        429 => Refusal {
            error: ModelError::RateLimited { message, retry_after: wait },
            // Without a time it is the account's spend cap, which waiting does not lift.
            again: wait.map_or(Again::Never, Again::After),
        },
        409 => Refusal { error: ModelError::Rejected { status, message }, again: later },
        // The 52x are those of the proxy in front of the API when it cannot reach what is behind it.
        408 | 500 | 502 | 503 | 504 | 520..=524 | 529 => {
            Refusal { error: ModelError::Unavailable { message }, again: later }
        }
        501.. => Refusal::last(ModelError::Unavailable { message }),
        _ => Refusal::last(ModelError::Rejected { status, message }),
    }
}

/// Kind and message of an error of the API.
fn said(body: &str) -> Option<(String, String)> {
    let members = json::members(body.trim())?;
    let error = json::members(json::member(&members, "error")?)?;
    let text = |name| json::member(&error, name).and_then(json::string);
    Some((text("type").unwrap_or_default().into_owned(), one_line(&text("message")?, MAX_MESSAGE)))
}

/// Whether a text is these parts with a number between each two, from its first character to its last.
fn is_exactly(text: &str, parts: &[&str]) -> bool {
    let Some((first, others)) = parts.split_first() else { return false };
    let after_number = |text: &str| text.trim_start_matches(|character: char| character.is_ascii_digit()).len();
    let mut rest = text.strip_prefix(first);
    for part in others {
        rest = rest.and_then(|rest| {
            let (number, rest) = rest.split_at(rest.len() - after_number(rest));
            if number.is_empty() { None } else { rest.strip_prefix(part) }
        });
    }
    rest == Some("")
}

fn retry_after(headers: &HeaderMap, now_ms: i64) -> Option<Duration> {
    let text = headers.get("retry-after")?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    moment(headers, "retry-after").map(|moment| until(moment, now_ms))
}

fn moment(headers: &HeaderMap, name: &str) -> Option<i64> {
    let moment = jiff::fmt::rfc2822::parse(headers.get(name)?.to_str().ok()?).ok()?;
    Some(moment.timestamp().as_millisecond())
}

/// How long it is until the limits that are used up are reset; if none says that it is, until all are.
fn reset(headers: &HeaderMap, now_ms: i64) -> Option<Duration> {
    let text = |limit: &str, what: &str| headers.get(format!("anthropic-ratelimit-{limit}-{what}"))?.to_str().ok();
    let resets = LIMITS.iter().filter_map(|limit| {
        let moment = stamp::parse_rfc3339(text(limit, "reset")?)?;
        Some((text(limit, "remaining") == Some("0"), until(moment, now_ms)))
    });
    // One that is used up counts more than any that is not.
    resets.max().map(|(_, wait)| wait)
}

fn until(moment_ms: i64, now_ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(moment_ms.saturating_sub(now_ms)).unwrap_or(0))
}

/// The beginning of a text from elsewhere, on one line.
pub(super) fn quote(text: &str) -> String {
    one_line(text, MAX_QUOTE)
}

fn one_line(text: &str, limit: usize) -> String {
    let mut out = String::new();
    // A body can be large, and only its beginning is looked at.
    for (count, word) in text.split_whitespace().take(limit).enumerate() {
        if count > 0 {
            out.push(' ');
        }
        out.extend(word.chars().take(limit + 1).filter(|character| !json::needs_care(*character)));
    }
    match out.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", &out[..end]),
        None => out,
    }
}

#[cfg(test)]
mod tests;
