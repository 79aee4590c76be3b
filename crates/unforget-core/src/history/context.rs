//! System prompt and tools, as the API takes them.
//!
//! Both come from the program that ran the conversation and are sent as they are, but for cache breakpoints. What
//! could not be sent, because it was written wrongly or damaged on disk, is left out and reported: a conversation
//! without its system prompt can go on, one whose requests are refused cannot.

use std::borrow::Cow;

use super::block::{self, Element, Kind};
use super::repair::{RepairKind, Repairs};
use super::{MAX_DEPTH, MAX_NAME, Role};
use crate::json;

/// The system prompt behind JSON text of a string or of text blocks.
pub(super) fn system<'a>(raw: &'a str, n: u64, repairs: &mut Repairs) -> Option<Cow<'a, str>> {
    let sent = block::unmarked(block::sendable(Cow::Borrowed(raw)), n, repairs);
    let mut found = Repairs::default();
    let elements = block::elements(&sent, Role::User, n, &mut found);
    let count = elements.len();
    let texts: Vec<Cow<'_, str>> = elements.into_iter().filter_map(text).collect();
    if found.0.is_empty() && texts.len() == count && sent.starts_with(['"', '[']) && !texts.is_empty() {
        return Some(sent);
    }
    repairs.0.append(&mut found.0);
    if texts.is_empty() {
        repairs.add(n, RepairKind::RecordLeftOut("context: `system` has no text".to_owned()));
        return None;
    }
    Some(Cow::Owned(format!("[{}]", texts.join(","))))
}

fn text(element: Element<'_>) -> Option<Cow<'_, str>> {
    match element {
        Element::Block(block) if block.kind == (Kind::Text { blank: false }) => Some(block.json),
        _ => None,
    }
}

/// The tools behind JSON text of a list.
pub(super) fn tools<'a>(raw: &'a str, n: u64, repairs: &mut Repairs) -> Option<Cow<'a, str>> {
    let sent = block::unmarked(block::sendable(Cow::Borrowed(raw)), n, repairs);
    let Some(elements) = json::elements(&sent) else {
        repairs.add(n, RepairKind::RecordLeftOut("context: `tools` is not a list".to_owned()));
        return None;
    };
    let tools: Vec<&str> = elements.iter().copied().filter(|tool| is_tool(tool)).collect();
    if tools.len() == elements.len() {
        return Some(sent);
    }
    let count = elements.len() - tools.len();
    repairs.add(n, RepairKind::RecordLeftOut(format!("context: {count} of `tools` without a proper name or form")));
    Some(Cow::Owned(format!("[{}]", tools.join(","))))
}

fn is_tool(raw: &str) -> bool {
    let members = json::members(raw).unwrap_or_default();
    let name = json::member(&members, "name").and_then(json::string).unwrap_or_default();
    (1..=MAX_NAME).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
        && !json::deeper_than(raw, MAX_DEPTH)
}
