//! The bytes of a segment as the payload of events.
//!
//! ```text
//! payload    "inline", base64 of the body
//!            "parts", lines of "<event> <SHA-256> <length>"      the body is in these events, in this order
//! part       base64 of some of the body
//! ```
//! Every item is a blob that is a JSON string: nobody knows whether other JSON comes back as it was. An event may have ten megabytes, so
//! a larger body is cut; its parts are written first, and the event that names them, and makes a segment of them, is written last.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::Value;
use unforget_core::encode;

use super::wire::{Event, Item};
use crate::segment;

/// How much of a body one event takes; in base64 it is a third more, and stays below ten megabytes.
pub(super) const PART: usize = 7_000_000;
/// How many parts a segment may have: more than the largest segment needs.
const MAX_PARTS: usize = 1_024;

/// Where a part of a body is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) id: String,
    pub(super) digest: String,
    pub(super) length: usize,
}

/// Where a body is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Body {
    Inline(Bytes),
    Parts(Vec<Part>),
}

impl Body {
    /// How many bytes it has, as far as it says so.
    pub(super) fn length(&self) -> u64 {
        match self {
            Self::Inline(bytes) => bytes.len() as u64,
            Self::Parts(parts) => parts.iter().map(|part| part.length as u64).sum(),
        }
    }
}

fn blob(text: impl Into<String>) -> Item {
    Item::Blob(Value::String(text.into()))
}

/// The payload of a part.
pub(super) fn part(bytes: &[u8]) -> Vec<Item> {
    vec![blob(STANDARD.encode(bytes))]
}

/// The payload of a segment.
pub(super) fn payload(body: &Body) -> Vec<Item> {
    match body {
        Body::Inline(bytes) => vec![blob("inline"), blob(STANDARD.encode(bytes))],
        Body::Parts(parts) => {
            let lines: Vec<String> =
                parts.iter().map(|part| format!("{} {} {}", part.id, part.digest, part.length)).collect();
            vec![blob("parts"), blob(lines.join("\n"))]
        }
    }
}

fn texts(event: &Event) -> Option<Vec<&str>> {
    let text = |item: &'_ Item| match item {
        Item::Blob(Value::String(_)) => true,
        Item::Blob(_) | Item::Conversational(_) | Item::Json(_) => false,
    };
    let items = event.payload.as_ref()?;
    if !items.iter().all(text) {
        return None;
    }
    Some(
        items
            .iter()
            .filter_map(|item| if let Item::Blob(Value::String(text)) = item { Some(text.as_str()) } else { None })
            .collect(),
    )
}

/// Reads the payload of a segment; an error says what is wrong with it.
pub(super) fn body(event: &Event) -> Result<Body, &'static str> {
    match texts(event).as_deref() {
        Some(["inline", bytes]) => {
            STANDARD.decode(bytes).map(|bytes| Body::Inline(bytes.into())).map_err(|_| "its lines cannot be read")
        }
        Some(["parts", lines]) => {
            let parts: Option<Vec<Part>> = lines.split('\n').take(MAX_PARTS + 1).map(read_part).collect();
            parts.filter(|parts| parts.len() <= MAX_PARTS).map(Body::Parts).ok_or("it does not say where its lines are")
        }
        _ => Err("it has no lines"),
    }
}

fn read_part(line: &str) -> Option<Part> {
    let mut words = line.split(' ');
    let (id, digest) = (words.next()?.to_owned(), words.next()?.to_owned());
    let length = words.next()?.parse().ok().filter(|length| *length <= PART)?;
    Some(Part { id, digest, length })
}

/// Reads a part of a body and proves that it is the one.
pub(super) fn read(event: &Event, part: &Part) -> Result<Bytes, &'static str> {
    let Some(&[text]) = texts(event).as_deref() else { return Err("a part of it has no lines") };
    let mut bytes = segment::room_for(text.len());
    STANDARD.decode_vec(text, &mut bytes).map_err(|_| "a part of it cannot be read")?;
    if bytes.len() != part.length || encode::sha256_hex(&bytes) != part.digest {
        return Err("a part of it is not the one that was written");
    }
    Ok(bytes.into())
}
