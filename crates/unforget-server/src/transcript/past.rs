//! What a transcript tells about its last turns, when a session is taken up: which prompts it has,
//! by the names that their clients gave them, and whether the last of them ever came to an end.
//!
//! Read from the end to the last prompt, and not far behind it: a prompt that is sent a second time
//! was sent a moment ago.

use unforget_core::json as raw;
use unforget_core::reader::LogReader;
use unforget_core::record::{Body, Record};

use super::lines::{self, Numbering};
use crate::error::Result;
use crate::protocol::{ClientId, Durability, Interrupted, Outcome, TurnState};

/// How far back it is looked behind the last prompt at the most, in bytes and in prompts.
const FAR: u64 = 4 << 20;
const PROMPTS: usize = 512;

/// How a turn stands that a server left when it stopped.
pub(crate) const INTERRUPTED: &str = "interrupted";

/// What a transcript tells.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Past {
    /// The named prompts, the oldest first, with their records.
    pub(crate) prompts: Vec<(ClientId, u64)>,
    pub(crate) interrupted: Option<Interrupted>,
}

/// That a prompt is in a transcript, and how far its turn came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Said {
    /// Its line.
    pub n: u64,
    /// Whether its turn came to an end, or the conversation went on without one.
    pub is_ended: bool,
    /// Whether its turn may have been in the middle of something: anything came behind the words,
    /// or behind a stop that interrupted it.
    pub is_touched: bool,
}

/// Looks at the end of a transcript. Another program's has no names and no ends of turns.
pub(crate) fn read(reader: &LogReader, numbering: Numbering) -> Result<Past> {
    let mut past = Past::default();
    if numbering == Numbering::Counted {
        return Ok(past);
    }
    let (mut is_ended, mut is_touched, mut is_met) = (false, false, false);
    let mut backward = reader.backward();
    while let Some(line) = backward.next()? {
        // However much came of it, the last prompt is found: it is the one that is sent again.
        if is_met && (reader.len() - line.offset > FAR || past.prompts.len() >= PROMPTS) {
            break;
        }
        let Ok(text) = std::str::from_utf8(line.bytes) else { continue };
        let Ok(record) = Record::parse(text, line.offset, 0) else { continue };
        match &record.body {
            Body::Turn { state, .. } if is_end(state) => is_ended = true,
            Body::Assistant { .. } | Body::ToolUse(_) | Body::ToolResult(_) => is_touched = true,
            // Whoever moved the head has looked at it, and left that turn behind.
            Body::Head { .. } => is_ended = true,
            Body::User { .. } if is_by_rule(text) => is_touched = true,
            Body::User { .. } => {
                let client_id = client_id(text);
                if !is_ended {
                    past.interrupted = Some(Interrupted { n: record.n, client_id: client_id.clone(), is_touched });
                    is_ended = true;
                }
                past.prompts.extend(client_id.map(|id| (id, record.n)));
                is_met = true;
            }
            _ => {}
        }
    }
    past.prompts.reverse();
    Ok(past)
}

/// Whether a turn is over in this state. One that was interrupted goes on, or is told of.
fn is_end(state: &str) -> bool {
    !matches!(state, "running" | INTERRUPTED)
}

/// Looks for a prompt, as far back as it takes. Another program's transcript has no names: its
/// agent knows what it was told.
pub(crate) fn find_prompt(reader: &LogReader, wanted: &ClientId) -> Result<Option<Said>> {
    let mut found = Said { n: 0, is_ended: false, is_touched: false };
    let mut is_stopped = false;
    let mut backward = reader.backward();
    while let Some(line) = backward.next()? {
        let Ok(text) = std::str::from_utf8(line.bytes) else { continue };
        let Ok(record) = Record::parse(text, line.offset, 0) else { continue };
        match &record.body {
            Body::Turn { state, .. } if is_end(state) => found.is_ended = true,
            // A server that stopped left it there, and it ran nothing any more: a call without a
            // result is answered, and not run again, when it goes on.
            Body::Turn { state, .. } if state.as_ref() == INTERRUPTED => is_stopped = true,
            Body::Head { .. } => found.is_ended = true,
            Body::Assistant { .. } | Body::ToolUse(_) | Body::ToolResult(_) => found.is_touched |= !is_stopped,
            Body::User { .. } if client_id(text).as_ref() == Some(wanted) => {
                return Ok(Some(Said { n: record.n, ..found }));
            }
            Body::User { .. } if is_by_rule(text) => found.is_touched |= !is_stopped,
            Body::User { .. } => found.is_ended = true,
            _ => {}
        }
    }
    Ok(None)
}

/// Whether nobody said it: what stands for words where the API needs some.
fn is_by_rule(text: &str) -> bool {
    let members = raw::members(text).unwrap_or_default();
    raw::member(&members, "by").and_then(raw::string).as_deref() == Some("rule")
}

/// What the client called the words of a record.
fn client_id(text: &str) -> Option<ClientId> {
    let members = raw::members(text)?;
    ClientId::parse(&raw::string(raw::member(&members, "client_id")?)?)
}

/// How the turn of a prompt ended, as the transcript has it; none if it has not ended.
pub(crate) fn answer_to(reader: &LogReader, prompt: u64) -> Result<Option<Outcome>> {
    let mut at = lines::behind(reader, Some(prompt.saturating_sub(1)), Numbering::Own)?;
    let (mut client, mut text, mut is_in) = (None, String::new(), false);
    loop {
        let (found, next) = lines::read(reader, at, reader.len(), usize::MAX, Numbering::Own)?;
        if next == at {
            return Ok(None);
        }
        at = next;
        for line in found.iter().filter_map(|line| line.text.as_deref()) {
            let Ok(record) = Record::parse(line, 0, 0) else { continue };
            match &record.body {
                Body::User { .. } if record.n == prompt => (client, is_in) = (client_id(line), true),
                // The words of the next prompt.
                Body::User { .. } if is_in && !is_by_rule(line) => return Ok(None),
                Body::Assistant { content, .. } if is_in => text = spoken(content),
                Body::ToolResult(_) => text.clear(),
                Body::Turn { state, usage, .. } if is_in && is_end(state) => {
                    let members = raw::members(line).unwrap_or_default();
                    let said = |name| raw::member(&members, name).and_then(raw::string);
                    let state = match (state.as_ref(), said("reason").as_deref()) {
                        ("done", Some("max_steps")) => TurnState::OutOfSteps,
                        ("done", _) => TurnState::Done,
                        ("aborted", _) => TurnState::Aborted,
                        _ => return Ok(None),
                    };
                    let stop = said("stop_reason").map(std::borrow::Cow::into_owned);
                    return Ok(Some(Outcome {
                        client_id: client,
                        state,
                        n: record.n,
                        said: Some(prompt),
                        text,
                        stop_reason: stop,
                        usage: usage.map(str::to_owned),
                        durability: Durability::Disk,
                    }));
                }
                _ => {}
            }
        }
    }
}

/// The words in the content of a message.
fn spoken(content: &str) -> String {
    if let Some(text) = raw::string(content) {
        return text.into_owned();
    }
    let blocks = raw::elements(content).unwrap_or_default();
    let text = |block: &&str| {
        let members = raw::members(block)?;
        raw::string(raw::member(&members, "text")?).map(std::borrow::Cow::into_owned)
    };
    blocks.iter().filter(|block| raw::has_type(block, &["text"])).filter_map(text).collect()
}
