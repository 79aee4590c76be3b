//! Where a request asks the server to remember its beginning: a pure function from a history to text.
//!
//! A conversation is sent whole each time, and a server that has seen its beginning before answers sooner and for less.
//! The marks stand at the end of the tools, at the end of the system prompt, and at the end of the last two user
//! messages. Of those two, the earlier one was the last one of the request before: what was remembered then is found
//! again, also after a restart, because the log gives the same bytes. The later one is for the request after.
//!
//! The server looks for what it remembers at each mark and a number of blocks before it. If more than that lies between
//! the last two marks (many calls at once), one more mark goes in between. There are four at most; when they do not
//! suffice, that of the tools goes first, since the tools come before the system prompt, whose mark includes them.
//!
//! Marks are never stored, and they change nothing but themselves: a [`History`] comes without any, and the request
//! with its marks taken out again is the history, byte for byte. A mark where the API takes none (thinking, empty text)
//! would be an error that ends the conversation, so blocks of unknown kinds get none.

use std::borrow::Cow;

use unforget_core::history::{History, Role};
use unforget_core::json;

/// Most marks of a request.
const MAX_MARKS: usize = 4;
/// How many user messages are marked, from the end.
const MARKED_MESSAGES: usize = 2;
/// How many blocks before a mark the server looks for what it remembers.
const LOOK_BACK: usize = 20;

const MARK: &str = r#""cache_control":{"type":"ephemeral"}"#;
/// The kinds of blocks that can be marked; a text, only if it says something.
const KINDS: [&str; 6] = ["text", "image", "document", "search_result", "tool_use", "tool_result"];

/// Parts of a request as JSON text, with their marks.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Marked<'a> {
    pub(super) system: Option<Cow<'a, str>>,
    pub(super) tools: Option<Cow<'a, str>>,
    pub(super) messages: String,
}

/// Where a block is: its message, and its place in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    message: usize,
    block: usize,
}

/// Marks a history.
pub(super) fn mark<'a>(history: &'a History<'_>) -> Marked<'a> {
    let system = history.system.as_deref();
    let tools = history.tools.as_deref();
    let marked_system = system.and_then(mark_system);
    let marked_tools = tools.and_then(mark_tools);
    let mut places = last_places(history);
    places.extend(between(history, &places));
    let others = places.len() + usize::from(marked_system.is_some());
    let marked_tools = marked_tools.filter(|_| others < MAX_MARKS);
    Marked {
        system: marked_system.map(Cow::Owned).or(system.map(Cow::Borrowed)),
        tools: marked_tools.map(Cow::Owned).or(tools.map(Cow::Borrowed)),
        messages: write(history, &places),
    }
}

/// The ends of the last user messages, the last one first.
fn last_places(history: &History<'_>) -> Vec<Place> {
    let from_the_end = history.messages.iter().enumerate().rev();
    let users = from_the_end.filter(|(_, message)| message.role == Role::User);
    let ends = users.filter_map(|(number, message)| {
        let block = message.blocks.iter().rposition(|block| takes_mark(block))?;
        Some(Place { message: number, block })
    });
    ends.take(MARKED_MESSAGES).collect()
}

/// A place between the last mark and the one before it, if the server would not look that far.
fn between(history: &History<'_>, places: &[Place]) -> Option<Place> {
    let &[last, before] = places else { return None };
    let blocks = history.messages.iter().enumerate().flat_map(|(number, message)| {
        message.blocks.iter().enumerate().map(move |(block, text)| (Place { message: number, block }, text))
    });
    let inner: Vec<_> =
        blocks.skip_while(|(place, _)| *place != before).skip(1).take_while(|(place, _)| *place != last).collect();
    // The last mark is one block further than the last of these.
    let reach = (inner.len() + 1).checked_sub(LOOK_BACK)?;
    inner[..reach].iter().rev().find(|(_, text)| takes_mark(text)).map(|(place, _)| *place)
}

fn write(history: &History<'_>, places: &[Place]) -> String {
    if places.is_empty() {
        return history.to_json();
    }
    let size: usize = history.messages.iter().flat_map(|message| &message.blocks).map(|block| block.len() + 1).sum();
    let mut out = String::with_capacity(size + history.messages.len() * 40 + MAX_MARKS * MARK.len());
    for (number, message) in history.messages.iter().enumerate() {
        out.push_str(if number == 0 { "[" } else { "," });
        out.push_str(&format!("{{\"role\":\"{}\",\"content\":[", message.role.name()));
        for (at, block) in message.blocks.iter().enumerate() {
            if at > 0 {
                out.push(',');
            }
            let is_place = places.contains(&Place { message: number, block: at });
            out.push_str(&if is_place { with_mark(block) } else { Cow::Borrowed(block.as_ref()) });
        }
        out.push_str("]}");
    }
    out.push(']');
    out
}

fn mark_system(raw: &str) -> Option<String> {
    match json::string(raw) {
        Some(text) => has_words(&text).then(|| format!("[{{\"type\":\"text\",\"text\":{raw},{MARK}}}]")),
        None => mark_last(raw, takes_mark),
    }
}

fn mark_tools(raw: &str) -> Option<String> {
    // Tools that are loaded when they are looked for are no part of the beginning.
    let is_there = |tool: &str| {
        json::members(tool)
            .is_some_and(|members| !members.is_empty() && json::member(&members, "defer_loading") != Some("true"))
    };
    mark_last(raw, is_there)
}

/// A list whose last fitting element is marked.
fn mark_last(raw: &str, fits: impl Fn(&str) -> bool) -> Option<String> {
    let elements = json::elements(raw)?;
    let chosen = elements.iter().rposition(|element| fits(element))?;
    let mut marked: Vec<Cow<'_, str>> = elements.into_iter().map(Cow::Borrowed).collect();
    marked[chosen] = with_mark(&marked[chosen]).into_owned().into();
    Some(format!("[{}]", marked.join(",")))
}

fn takes_mark(block: &str) -> bool {
    let members = json::members(block).unwrap_or_default();
    let text = |name| json::member(&members, name).and_then(json::string);
    match text("type").as_deref() {
        Some("text") => text("text").is_some_and(|text| has_words(&text)),
        Some(kind) => KINDS.contains(&kind),
        None => false,
    }
}

fn has_words(text: &str) -> bool {
    !text.trim().is_empty()
}

/// An object that has members, with the mark as its last one.
fn with_mark(object: &str) -> Cow<'_, str> {
    match object.trim_end().strip_suffix('}') {
        Some(open) => Cow::Owned(format!("{open},{MARK}}}")),
        None => Cow::Borrowed(object),
    }
}

#[cfg(test)]
mod tests;
