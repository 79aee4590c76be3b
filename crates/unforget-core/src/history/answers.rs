//! A call and its result, as the API wants them: ids that are well formed and unique, arguments that are an object,
//! a result for every call.
//!
//! Which result belongs to which call is decided in `steps`; here both become what is sent. A call that was
//! never answered gets an answer that says so, because the API refuses a call without one.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::block::{self, Block, Call, Element, Kind};
use super::messages::{Piece, ResultContent};
use super::path::Trims;
use super::repair::{RepairKind, Repairs};
use super::steps::{Given, Placed};
use super::{AMBIGUOUS, CUT_OFF, MAX_DEPTH, MAX_NAME, MAX_TEXT, Role, SHORT_TEXT, UNKNOWN_OUTCOME};
use crate::{encode, json};

/// Longest id of a call that is sent as it is; the API's own are not half as long.
const MAX_ID: usize = 128;
/// What a call and a result consist of that are sent byte for byte.
const CALL: [&str; 5] = ["type", "id", "name", "input", "caller"];
const RESULT: [&str; 4] = ["type", "tool_use_id", "content", "is_error"];

/// About how many bytes a call and its result are in a request.
pub(super) fn size(placed: &Placed<'_>, trims: &Trims) -> usize {
    let answer = placed
        .answer
        .as_ref()
        .map_or(UNKNOWN_OUTCOME.len(), |given| trims.cap(given.n, content_size(given.answer.content)));
    let (id, name) = (placed.call.id.len().min(MAX_ID), placed.call.name.len().min(MAX_NAME));
    trims.cap(placed.n, placed.call.input.len().min(MAX_TEXT))
        + id * 2
        + name
        + placed.call.caller.map_or(0, str::len)
        + answer
        + 120
}

fn content_size(raw: &str) -> usize {
    const TEXT_BLOCK: &str = "{\"type\":\"text\"";
    if raw.starts_with('"') || raw.len() <= MAX_TEXT && raw.starts_with("[{\"type\":") {
        return raw.len().min(MAX_TEXT);
    }
    if raw.starts_with("[{\"type\":") {
        let size = |block: &&str| if block.starts_with(TEXT_BLOCK) { block.len().min(MAX_TEXT) } else { block.len() };
        return json::elements(raw).unwrap_or_default().iter().map(size).sum();
    }
    // It becomes the text of itself, in which every quotation mark takes two bytes.
    if raw.len() > MAX_TEXT { MAX_TEXT } else { json::quoted_len(raw) }
}

/// Ids that the API accepts, no two alike.
pub(super) fn unique_ids(calls: &[Placed<'_>], repairs: &mut Repairs) -> Vec<String> {
    let mut used: HashSet<String> = HashSet::with_capacity(calls.len());
    // Where counting goes on for an id that was met before: from the start it would take ever longer.
    let mut copies: HashMap<String, u64> = HashMap::new();
    let mut ids = Vec::with_capacity(calls.len());
    for placed in calls {
        let from = placed.call.id.as_ref();
        let well_formed = from.len() <= MAX_ID
            && from.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
        let base = if well_formed {
            from.to_owned()
        } else {
            let safe: String =
                from.chars().take(40).map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect();
            format!("{safe}_{}", &encode::sha256_hex(from.as_bytes())[..12])
        };
        let mut to = base.clone();
        if !used.insert(to.clone()) {
            let copy = copies.entry(base.clone()).or_insert(1);
            while !used.insert(to.clone()) {
                *copy += 1;
                to = format!("{base}_{copy}");
            }
        }
        if to != from {
            repairs.add(placed.n, RepairKind::CallRenamed { from: from.to_owned(), to: to.clone() });
        }
        ids.push(to);
    }
    ids
}

pub(super) fn call_and_result<'a>(placed: Placed<'a>, id: &str, repairs: &mut Repairs) -> (Block<'a>, Piece<'a>) {
    let Placed { call, n, answer } = placed;
    let (input, not_run) = arguments(&call, n, repairs);
    let name = tool_name(&call.name, n, repairs);
    let is_same = call.id == id && call.name == name && matches!(input, Cow::Borrowed(same) if same == call.input);
    let json = match call.verbatim.filter(|raw| is_same && is_whole_call(raw)) {
        Some(raw) => Cow::Borrowed(raw),
        None => Cow::Owned(call_json(&call, id, &name, &input)),
    };
    let head = format!("{{\"type\":\"tool_result\",\"tool_use_id\":\"{id}\",\"content\":");
    let result_n = answer.as_ref().map_or(n, |given| given.n);
    const FAILED: &str = ",\"is_error\":true}";
    let block = Block { json, kind: Kind::Call, n };
    let spelled = answer.as_ref().filter(|given| not_run.is_none() && given.answer.id == id).and_then(spelling);
    if let (Some((head, tail)), Some(given)) = (spelled, &answer) {
        let (head, content) = (head.to_owned(), result_content(given, repairs));
        return (block, Piece::Result { head, content, tail: Cow::Borrowed(tail), n: result_n });
    }
    // That the call was not run is known; a stand-in that says less adds nothing.
    let answer = answer.filter(|given| not_run.is_none() || !given.answer.is_repair);
    let (content, tail) = match (answer, not_run) {
        (None, Some(why)) => (ResultContent::Text(Cow::Owned(json::quote(why))), FAILED),
        (None, None) => {
            repairs.add(n, RepairKind::ResultAdded(call.id.into_owned()));
            (ResultContent::Text(Cow::Owned(json::quote(UNKNOWN_OUTCOME))), FAILED)
        }
        (Some(given), not_run) => {
            let is_error = given.answer.is_error;
            let content = result_content(&given, repairs);
            if let Some(why) = not_run {
                let mut blocks = vec![block::note(why, n)];
                match content {
                    ResultContent::Text(text) if text != "\"\"" => blocks.push(Block {
                        json: Cow::Owned(format!("{{\"type\":\"text\",\"text\":{text}}}")),
                        kind: Kind::Text { blank: false },
                        n: given.n,
                    }),
                    ResultContent::Text(_) => {}
                    ResultContent::Blocks(more) => blocks.extend(more),
                }
                (ResultContent::Blocks(blocks), FAILED)
            } else {
                (content, if is_error { FAILED } else { "}" })
            }
        }
    };
    (block, Piece::Result { head, content, tail: Cow::Borrowed(tail), n: result_n })
}

fn call_json(call: &Call<'_>, id: &str, name: &str, input: &str) -> String {
    let mut json = format!("{{\"type\":\"tool_use\",\"id\":\"{id}\",\"name\":\"{name}\",\"input\":{input}");
    if let Some(caller) = call.caller.filter(|caller| is_caller(caller)) {
        json.push_str(",\"caller\":");
        json.push_str(&json::sendable(caller));
    }
    json.push('}');
    json
}

fn is_caller(caller: &str) -> bool {
    caller.starts_with('{') && !json::deeper_than(caller, MAX_DEPTH)
}

/// Whether a call's block can be sent byte for byte.
fn is_whole_call(raw: &str) -> bool {
    let members = json::members(raw).unwrap_or_default();
    block::is_plain(raw, &members, &CALL) && json::member(&members, "caller").is_none_or(is_caller)
}

/// What stands before and behind the content of a result that can be sent as it is spelled.
fn spelling<'a>(given: &Given<'a>) -> Option<(&'a str, &'a str)> {
    let raw = given.answer.verbatim?;
    let members = json::members(raw)?;
    let content = json::member(&members, "content")?;
    let is_error = json::member(&members, "is_error").is_none_or(|flag| matches!(flag, "true" | "false" | "null"));
    let is_plain = is_error && members.iter().all(|(name, _)| RESULT.contains(&name.as_ref()));
    // The content is a piece of the block.
    let start = content.as_ptr() as usize - raw.as_ptr() as usize;
    let (head, tail) = (raw.get(..start)?, raw.get(start + content.len()..)?);
    let is_sendable = |text| matches!(json::sendable(text), Cow::Borrowed(_));
    (is_plain && members.len() <= RESULT.len() && is_sendable(head) && is_sendable(tail)).then_some((head, tail))
}

/// The arguments as an object, and why the call was not run if they are not what the model meant.
fn arguments<'a>(call: &Call<'a>, n: u64, repairs: &mut Repairs) -> (Cow<'a, str>, Option<&'static str>) {
    let ambiguous = |repairs: &mut Repairs| {
        repairs.add(n, RepairKind::InputAmbiguous(call.id.clone().into_owned()));
        (Cow::Borrowed("{}"), Some(AMBIGUOUS))
    };
    if call.input.starts_with('{') {
        if json::duplicate(call.input).is_some() {
            return ambiguous(repairs);
        }
        if json::deeper_than(call.input, MAX_DEPTH) {
            repairs.add(n, RepairKind::TooDeep);
            return (Cow::Borrowed("{\"not_sent\":\"nested too deeply\"}"), None);
        }
        if call.input.len() > MAX_TEXT {
            repairs.add(n, RepairKind::Shortened { bytes: call.input.len() as u64 });
            return (Cow::Borrowed("{\"not_sent\":\"too long; the transcript has it\"}"), None);
        }
        return (json::sendable(call.input), None);
    }
    // Some programs store the arguments as the text that the model streamed.
    if let Some(text) = json::string(call.input)
        && text.trim_start().starts_with('{')
        && serde_json::from_str::<&serde_json::value::RawValue>(&text).is_ok()
        && !json::deeper_than(&text, MAX_DEPTH)
        && text.len() <= MAX_TEXT
    {
        if json::duplicate(&text).is_some() {
            return ambiguous(repairs);
        }
        repairs.add(n, RepairKind::InputDecoded(call.id.clone().into_owned()));
        return (Cow::Owned(json::sendable(text.trim()).into_owned()), None);
    }
    repairs.add(n, RepairKind::InputCutOff(call.id.clone().into_owned()));
    (Cow::Borrowed("{}"), Some(CUT_OFF))
}

fn tool_name(name: &str, n: u64, repairs: &mut Repairs) -> String {
    let to: String = name
        .chars()
        .take(MAX_NAME)
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' })
        .collect();
    if to != name {
        repairs.add(n, RepairKind::ToolRenamed { from: name.to_owned(), to: to.clone() });
    }
    to
}

/// What a tool gave back: text stays text, content blocks stay blocks, other JSON becomes its own text.
fn result_content<'a>(given: &Given<'a>, repairs: &mut Repairs) -> ResultContent<'a> {
    let raw = given.answer.content;
    let as_text = |text: &str, repairs: &mut Repairs| {
        if text.len() <= MAX_TEXT {
            return ResultContent::Text(Cow::Owned(json::sendable(&json::quote(text)).into_owned()));
        }
        repairs.add(given.n, RepairKind::Shortened { bytes: text.len() as u64 });
        ResultContent::Text(Cow::Owned(json::sendable(&json::quote(&block::shorten(text, SHORT_TEXT))).into_owned()))
    };
    if raw.starts_with('"') {
        if raw.len() <= MAX_TEXT {
            return ResultContent::Text(json::sendable(raw));
        }
        return as_text(&json::string(raw).unwrap_or_default(), repairs);
    }
    let nested = |block: &&str| {
        json::members(block)
            .and_then(|members| json::member(&members, "type").and_then(json::string))
            .is_some_and(|kind| matches!(kind.as_ref(), "text" | "image" | "document" | "search_result"))
    };
    // Names of tools that the model asked for; the program that wrote them declares those tools.
    let is_reference = |block: &&str| {
        let members = json::members(block).unwrap_or_default();
        json::member(&members, "type") == Some("\"tool_reference\"")
            && block::is_plain(block, &members, &["type", "tool_name"])
    };
    match json::elements(raw) {
        Some(blocks) if given.answer.verbatim.is_some() && !blocks.is_empty() && blocks.iter().all(is_reference) => {
            let whole = |raw| Block { json: Cow::Borrowed(raw), kind: Kind::Other, n: given.n };
            ResultContent::Blocks(blocks.into_iter().map(whole).collect())
        }
        Some(blocks) if blocks.iter().all(nested) => {
            let elements = block::elements(raw, Role::User, given.n, repairs);
            ResultContent::Blocks(
                elements
                    .into_iter()
                    .filter_map(|element| match element {
                        Element::Block(block) => Some(block),
                        Element::Call(_) | Element::Answer(_) => None,
                    })
                    .collect(),
            )
        }
        _ => as_text(raw, repairs),
    }
}
