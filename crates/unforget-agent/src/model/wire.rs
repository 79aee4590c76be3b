//! From what the API streams to the pieces of an answer.
//!
//! [`Answer`] is told one event of the stream after the other and says what they mean. It knows no network and no
//! clock. The API grows: events that are not known are passed over, blocks and deltas that are not known are handed on
//! as the text they are, and a member that is missing is an error only where nothing can be done without it.
//!
//! The beginning of the answer is held back until there is something behind it. A busy server often says so right after
//! it began, and as long as nothing was handed over the request can be sent again without anyone seeing two beginnings.
//!
//! An answer that comes in one piece, from a server or a proxy that does not stream, is told like a streamed one.

use std::borrow::Cow;

use unforget_core::json;
use unforget_core::report::visible;

use super::refusal::{self, Refusal};
use super::sse::Message;
use super::{Delta, Event};

type Members<'a> = Vec<(Cow<'a, str>, &'a str)>;

/// An answer as far as it came.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// The beginning, until there is something behind it.
    held: Option<Event>,
    has_begun: bool,
    has_shown: bool,
    has_ended: bool,
    stop_reason: Option<String>,
    /// JSON text of the usage so far.
    usage: Usage,
}

impl Answer {
    /// Whether something was handed over.
    pub(super) fn has_shown(&self) -> bool {
        self.has_shown
    }

    /// Whether the answer is complete.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// What an event of the stream says.
    pub(super) fn take(&mut self, message: &Message) -> Result<Vec<Event>, Refusal> {
        let members = json::members(message.data.trim())
            .ok_or_else(|| Refusal::protocol(format!("an event is not JSON: {}", refusal::quote(&message.data))))?;
        if let Some(twice) = json::duplicate(&message.data) {
            let name = visible(&twice.name);
            return Err(Refusal::protocol(format!("an event has the member `{name}` twice in one object")));
        }
        let kind = string(&members, "type").unwrap_or(Cow::Borrowed(&message.name));
        let event = match kind.as_ref() {
            "error" => return Err(error(&message.data)),
            "message_start" => {
                self.begin(&required(&members, "message", "message_start")?);
                return Ok(Vec::new());
            }
            "content_block_start" => Event::BlockStarted {
                index: index(&members, &kind)?,
                block: member(&members, "content_block", &kind)?.to_owned(),
            },
            "content_block_delta" => {
                Event::Delta { index: index(&members, &kind)?, delta: delta(member(&members, "delta", &kind)?) }
            }
            "content_block_stop" => Event::BlockEnded { index: index(&members, &kind)? },
            "message_delta" => {
                self.note(&required(&members, "delta", &kind)?, json::member(&members, "usage"));
                return Ok(Vec::new());
            }
            "message_stop" => self.end(),
            _ => return Ok(Vec::new()),
        };
        if !self.has_begun {
            return Err(Refusal::protocol(format!("`{kind}` comes before `message_start`")));
        }
        Ok(self.hand_over([event]))
    }

    /// What an answer in one piece says.
    pub(super) fn take_whole(&mut self, body: &str) -> Result<Vec<Event>, Refusal> {
        if let Some(refusal) = refusal::of_event(body) {
            return Err(refusal);
        }
        let not_an_answer = || Refusal::protocol(format!("this is not a message: {}", refusal::quote(body)));
        let members = json::members(body.trim()).ok_or_else(not_an_answer)?;
        let blocks = json::member(&members, "content").and_then(json::elements).ok_or_else(not_an_answer)?;
        self.begin(&members);
        self.note(&members, None);
        let mut events = Vec::new();
        for (index, block) in blocks.into_iter().enumerate() {
            let (block, deltas) = unfold(block);
            events.push(Event::BlockStarted { index, block });
            events.extend(deltas.into_iter().map(|delta| Event::Delta { index, delta }));
            events.push(Event::BlockEnded { index });
        }
        events.push(self.end());
        Ok(self.hand_over(events))
    }

    fn begin(&mut self, message: &Members<'_>) {
        self.has_begun = true;
        self.usage = Usage::default();
        self.usage.merge(json::member(message, "usage"));
        let text = |name| string(message, name).unwrap_or_default().into_owned();
        self.held = Some(Event::Started { id: text("id"), model: text("model"), usage: self.usage.to_json() });
    }

    fn note(&mut self, delta: &Members<'_>, usage: Option<&str>) {
        self.stop_reason = string(delta, "stop_reason").map(Cow::into_owned).or_else(|| self.stop_reason.take());
        self.usage.merge(usage);
    }

    fn end(&mut self) -> Event {
        self.has_ended = self.has_begun;
        Event::Ended { stop_reason: self.stop_reason.take(), usage: self.usage.to_json() }
    }

    fn hand_over(&mut self, events: impl IntoIterator<Item = Event>) -> Vec<Event> {
        self.has_shown = true;
        self.held.take().into_iter().chain(events).collect()
    }
}

/// What was used, as members of a JSON object in the order in which they were first met.
#[derive(Debug, Default)]
struct Usage(Vec<(String, String)>);

impl Usage {
    /// Counts only ever grow, so the larger one is the later one; of all else the later one counts, unless it is null.
    fn merge(&mut self, raw: Option<&str>) {
        for (name, value) in raw.and_then(json::members).unwrap_or_default() {
            match self.0.iter_mut().find(|(known, _)| *known == name) {
                None => self.0.push((name.into_owned(), value.to_owned())),
                Some((_, known)) if replaces(value, known) => value.clone_into(known),
                Some(_) => {}
            }
        }
    }

    fn to_json(&self) -> String {
        let members: Vec<String> =
            self.0.iter().map(|(name, value)| format!("{}:{value}", json::quote(name))).collect();
        format!("{{{}}}", members.join(","))
    }
}

fn replaces(value: &str, known: &str) -> bool {
    match (json::number(value), json::number(known)) {
        (Some(value), Some(known)) => value > known,
        _ => value != "null",
    }
}

fn delta(raw: &str) -> Delta {
    let members = json::members(raw).unwrap_or_default();
    let text = |name| string(&members, name).map(Cow::into_owned);
    let known = match string(&members, "type").as_deref() {
        Some("text_delta") => text("text").map(Delta::Text),
        Some("thinking_delta") => text("thinking").map(Delta::Thinking),
        Some("signature_delta") => text("signature").map(Delta::Signature),
        Some("input_json_delta") => text("partial_json").map(Delta::Input),
        _ => None,
    };
    known.unwrap_or_else(|| Delta::Other(raw.to_owned()))
}

/// A whole block as a stream tells it: as it begins, and what is added to it.
fn unfold(raw: &str) -> (String, Vec<Delta>) {
    let members = json::members(raw).unwrap_or_default();
    let text = |name| string(&members, name).map(Cow::into_owned);
    let (emptied, deltas): (&[(&str, &str)], _) = match string(&members, "type").as_deref() {
        Some("text") => (&[("text", "\"\"")], vec![text("text").map(Delta::Text)]),
        Some("thinking") => (
            &[("thinking", "\"\""), ("signature", "\"\"")],
            vec![text("thinking").map(Delta::Thinking), text("signature").map(Delta::Signature)],
        ),
        Some("tool_use") => {
            let input = json::member(&members, "input").map(|input| Delta::Input(input.to_owned()));
            (&[("input", "{}")], vec![input])
        }
        _ => return (raw.to_owned(), Vec::new()),
    };
    let begins = members.iter().map(|(name, value)| {
        let value = emptied.iter().find(|(member, _)| member == name).map_or(*value, |(_, empty)| empty);
        format!("{}:{value}", json::quote(name))
    });
    (format!("{{{}}}", begins.collect::<Vec<_>>().join(",")), deltas.into_iter().flatten().collect())
}

fn error(data: &str) -> Refusal {
    refusal::of_event(data)
        .unwrap_or_else(|| Refusal::protocol(format!("an error that says nothing: {}", refusal::quote(data))))
}

fn string<'a>(members: &Members<'a>, name: &str) -> Option<Cow<'a, str>> {
    json::member(members, name).and_then(json::string)
}

fn member<'a>(members: &Members<'a>, name: &str, kind: &str) -> Result<&'a str, Refusal> {
    json::member(members, name).ok_or_else(|| Refusal::protocol(format!("`{kind}` has no `{name}`")))
}

fn required<'a>(members: &Members<'a>, name: &str, kind: &str) -> Result<Members<'a>, Refusal> {
    json::members(member(members, name, kind)?)
        .ok_or_else(|| Refusal::protocol(format!("`{name}` of `{kind}` is not an object")))
}

fn index(members: &Members<'_>, kind: &str) -> Result<usize, Refusal> {
    member(members, "index", kind)?
        .parse()
        .map_err(|_| Refusal::protocol(format!("`index` of `{kind}` is not a whole number")))
}

#[cfg(test)]
mod tests;
