//! Content blocks, one at a time: what the API takes as it is, what must be trimmed, what must stay out.
//!
//! A block that the API takes is spliced into the request byte for byte. The tables say which types and
//! members those are; everything else is put right here and reported. What blocks mean to each other
//! (calls and results, turns) is for `steps` to know.

use std::borrow::Cow;
use std::collections::HashSet;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::repair::{RepairKind, Repairs};
use super::{MAX_DEPTH, MAX_TEXT, Role, SHORT_TEXT};
use crate::json;

/// Largest image that the API takes, in bytes of its base64 text.
const MAX_IMAGE: usize = 10 * 1024 * 1024;
/// Largest side of an image, in pixels.
const MAX_SIDE: usize = 8000;
/// How much of an image's base64 text is decoded to find its size: a multiple of four.
const IMAGE_HEAD: usize = 512 * 1024;
/// Largest document that is sent, in bytes of its block: some are files of several megabytes.
const MAX_DOCUMENT: usize = 20 * 1024 * 1024;
/// How many names of members a repair lists.
const LISTED_NAMES: usize = 20;
/// The kinds of images that the API takes.
const MEDIA_TYPES: [&str; 4] = ["image/jpeg", "image/png", "image/gif", "image/webp"];
/// Longest id of a server tool call.
const MAX_SERVER_ID: usize = 200;
/// Padding may be missing: some programs strip it.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A block that can be sent.
#[derive(Debug, Clone)]
pub(super) struct Block<'a> {
    pub(super) json: Cow<'a, str>,
    pub(super) kind: Kind<'a>,
    /// The record that it comes from.
    pub(super) n: u64,
}

/// What the rest of the history must know about a block.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind<'a> {
    Text {
        blank: bool,
    },
    Thinking,
    Image {
        largest_side: usize,
    },
    ServerUse {
        id: Cow<'a, str>,
        name: Cow<'a, str>,
    },
    ServerResult {
        id: Cow<'a, str>,
    },
    /// A call of a tool of this side.
    Call,
    Other,
}

/// A call inside a message's content.
#[derive(Debug, Clone)]
pub(super) struct Call<'a> {
    pub(super) id: Cow<'a, str>,
    pub(super) name: Cow<'a, str>,
    pub(super) input: &'a str,
    pub(super) caller: Option<&'a str>,
    /// The block itself, where it is sent byte for byte if nothing in it has to be put right.
    pub(super) verbatim: Option<&'a str>,
}

/// A result inside a message's content.
#[derive(Debug, Clone)]
pub(super) struct Answer<'a> {
    pub(super) id: Cow<'a, str>,
    pub(super) content: &'a str,
    pub(super) is_error: bool,
    /// Whether it stands in for a result that was never saved.
    pub(super) is_repair: bool,
    /// The block itself, where it is sent byte for byte if nothing in it has to be put right.
    pub(super) verbatim: Option<&'a str>,
}

/// One element of a message's content.
#[derive(Debug, Clone)]
pub(super) enum Element<'a> {
    Block(Block<'a>),
    Call(Call<'a>),
    Answer(Answer<'a>),
}

/// Which members a block may have; `None` for types whose members are not checked.
fn allowed_members(kind: &str) -> Option<&'static [&'static str]> {
    match kind {
        "text" => Some(&["type", "text", "citations"]),
        "thinking" => Some(&["type", "thinking", "signature"]),
        "redacted_thinking" => Some(&["type", "data"]),
        "image" => Some(&["type", "source"]),
        _ => None,
    }
}

/// Whether a block has these members and no others, each of them once, and nothing that cannot be sent.
pub(super) fn is_plain(raw: &str, members: &[(Cow<'_, str>, &str)], allowed: &[&str]) -> bool {
    let mut seen: HashSet<&str> = HashSet::with_capacity(members.len());
    members.iter().all(|(name, _)| allowed.contains(&name.as_ref()) && seen.insert(name))
        && matches!(json::sendable(raw), Cow::Borrowed(_))
}

/// The elements of a message's content: JSON text of a string, of a list of blocks, or of one block.
pub(super) fn elements<'a>(raw: &'a str, role: Role, n: u64, repairs: &mut Repairs) -> Vec<Element<'a>> {
    if raw.starts_with('"') {
        return text_block(raw, n, repairs).map(Element::Block).into_iter().collect();
    }
    // Nearly every message of the model is a list of one text.
    if let Some(only) = raw.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'))
        && let Some(blank) = plain_text(only)
    {
        return sized_text(Cow::Borrowed(only), blank, n, repairs).map(Element::Block).into_iter().collect();
    }
    let single;
    let blocks: &[&str] = match json::elements(raw) {
        Some(blocks) => {
            single = blocks;
            &single
        }
        None => &[raw],
    };
    blocks.iter().filter_map(|block| element(block, role, n, repairs)).collect()
}

fn element<'a>(raw: &'a str, role: Role, n: u64, repairs: &mut Repairs) -> Option<Element<'a>> {
    if let Some(blank) = plain_text(raw) {
        return sized_text(Cow::Borrowed(raw), blank, n, repairs).map(Element::Block);
    }
    let mut leave_out = |why: String| {
        repairs.add(n, RepairKind::BlockLeftOut(why));
        None
    };
    let Some(members) = json::members(raw) else { return leave_out("it is not an object".to_owned()) };
    let text = |name| json::member(&members, name).and_then(json::string);
    let Some(kind) = text("type") else { return leave_out("it has no type".to_owned()) };
    let wrong_role =
        |kind: &str| format!("{kind} in a message of the {}", if role == Role::User { "user" } else { "model" });
    match (kind.as_ref(), role) {
        ("tool_use", Role::Assistant) => match (text("id"), text("name"), json::member(&members, "input")) {
            (Some(id), Some(name), Some(input)) if !id.is_empty() && !name.is_empty() => {
                let caller = json::member(&members, "caller");
                Some(Element::Call(Call { id, name, input, caller, verbatim: None }))
            }
            _ => leave_out("a tool_use without id, name or input".to_owned()),
        },
        ("tool_result", Role::User) => match text("tool_use_id") {
            Some(id) if !id.is_empty() => Some(Element::Answer(Answer {
                id,
                content: json::member(&members, "content").unwrap_or("\"\""),
                is_error: json::member(&members, "is_error") == Some("true"),
                is_repair: false,
                verbatim: None,
            })),
            _ => leave_out("a tool_result without tool_use_id".to_owned()),
        },
        ("text", _) => match json::member(&members, "text") {
            Some(value) if value.starts_with('"') => {
                let blank = json::string(value).is_none_or(|text| is_blank(&text));
                // The words are worth more than what is nested beside them.
                let trimmed = if json::deeper_than(raw, MAX_DEPTH) {
                    repairs.add(n, RepairKind::TooDeep);
                    Cow::Owned(["{\"type\":\"text\",\"text\":", value, "}"].concat())
                } else {
                    trim(raw, &members, n, repairs)
                };
                sized_text(trimmed, blank, n, repairs).map(Element::Block)
            }
            _ => leave_out("a text block without text".to_owned()),
        },
        ("thinking", Role::Assistant) => {
            let signed = text("signature").is_some_and(|signature| !signature.is_empty());
            if !signed || text("thinking").is_none() {
                return leave_out("thinking without a signature".to_owned());
            }
            Some(Element::Block(Block { json: trim(raw, &members, n, repairs), kind: Kind::Thinking, n }))
        }
        ("redacted_thinking", Role::Assistant) => {
            if text("data").is_none() {
                return leave_out("redacted thinking without data".to_owned());
            }
            Some(Element::Block(Block { json: trim(raw, &members, n, repairs), kind: Kind::Thinking, n }))
        }
        ("image", Role::User) => Some(Element::Block(image(raw, &members, n, repairs))),
        ("document", Role::User) if json::member(&members, "source").is_none_or(|source| source == "null") => {
            leave_out("a document without source".to_owned())
        }
        ("search_result", Role::User)
            if ["source", "content"]
                .iter()
                .any(|name| json::member(&members, name).is_none_or(|raw| raw == "null")) =>
        {
            leave_out("a search_result without source or content".to_owned())
        }
        ("document" | "search_result", Role::User) | ("compaction", Role::Assistant) => {
            Some(Element::Block(whole(raw, &members, Kind::Other, n, repairs)))
        }
        ("server_tool_use", Role::Assistant) => match (text("id"), text("name"), json::member(&members, "input")) {
            (Some(id), Some(name), Some(input)) if is_server_id(&id) && input.starts_with('{') => {
                Some(Element::Block(whole(raw, &members, Kind::ServerUse { id, name }, n, repairs)))
            }
            _ => leave_out("a server_tool_use without a proper id, name or input".to_owned()),
        },
        (other, Role::Assistant) if other.ends_with("_tool_result") => match text("tool_use_id") {
            Some(id) => Some(Element::Block(whole(raw, &members, Kind::ServerResult { id }, n, repairs))),
            None => leave_out(format!("a {other} without tool_use_id")),
        },
        (
            "tool_use" | "tool_result" | "thinking" | "redacted_thinking" | "image" | "document" | "search_result"
            | "compaction" | "server_tool_use",
            _,
        ) => leave_out(wrong_role(&kind)),
        (other, _) => leave_out(format!("unknown type {other}")),
    }
}

/// A text block from JSON text of a string.
fn text_block<'a>(quoted: &str, n: u64, repairs: &mut Repairs) -> Option<Block<'a>> {
    let blank = json::string(quoted).is_none_or(|text| is_blank(&text));
    sized_text(Cow::Owned(["{\"type\":\"text\",\"text\":", quoted, "}"].concat()), blank, n, repairs)
}

/// Whether a text has no words in it, as the API sees it.
fn is_blank(text: &str) -> bool {
    text.chars().all(|character| character.is_whitespace() || matches!(character, '\u{1c}'..='\u{1f}'))
}

/// A text block from any text.
pub(super) fn note<'a>(text: &str, n: u64) -> Block<'a> {
    let json = format!("{{\"type\":\"text\",\"text\":{}}}", json::quote(text));
    Block { json: sendable(Cow::Owned(json)), kind: Kind::Text { blank: false }, n }
}

/// Whether the block is exactly `{"type":"text","text":"…"}`, and if so, whether the text is blank.
///
/// Nearly all blocks are; this spares them a parse.
fn plain_text(raw: &str) -> Option<bool> {
    let rest = raw.strip_prefix("{\"type\":\"text\",\"text\":\"")?;
    let end = string_end(rest.as_bytes())?;
    if &rest[end..] != "\"}" {
        return None;
    }
    Some(match rest.as_bytes().first() {
        Some(b'"') => true,
        Some(byte) if byte.is_ascii_graphic() && *byte != b'\\' => false,
        _ => json::string(&raw["{\"type\":\"text\",\"text\":".len()..raw.len() - 1]).is_none_or(|text| is_blank(&text)),
    })
}

/// Index of the quotation mark that ends a JSON string, given what follows the first one.
fn string_end(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += memchr::memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes[at] == b'"' {
            return Some(at);
        }
        at += 2;
    }
}

/// Leaves out an empty text block, shortens a huge one, and makes any other sendable.
fn sized_text<'a>(raw: Cow<'a, str>, blank: bool, n: u64, repairs: &mut Repairs) -> Option<Block<'a>> {
    if blank && json::member(&json::members(&raw)?, "text") == Some("\"\"") {
        repairs.add(n, RepairKind::Empty);
        return None;
    }
    if raw.len() > MAX_TEXT {
        let text = json::member(&json::members(&raw)?, "text").and_then(json::string).unwrap_or_default().into_owned();
        repairs.add(n, RepairKind::Shortened { bytes: text.len() as u64 });
        return Some(note(&shorten(&text, SHORT_TEXT), n));
    }
    Some(Block { json: sendable(raw), kind: Kind::Text { blank }, n })
}

/// Head and tail of a text that is too long to send, about `keep` bytes each.
pub(super) fn shorten(text: &str, keep: usize) -> String {
    let head = text.floor_char_boundary(keep);
    let tail = text.ceil_char_boundary(text.len() - keep.min(text.len()));
    if head >= tail {
        return text.to_owned();
    }
    format!(
        "{}\n\n[... {} of {} bytes are not shown here; the transcript has them ...]\n\n{}",
        &text[..head],
        tail - head,
        text.len(),
        &text[tail..]
    )
}

pub(super) fn sendable(raw: Cow<'_, str>) -> Cow<'_, str> {
    match raw {
        Cow::Borrowed(text) => json::sendable(text),
        Cow::Owned(text) => match json::sendable(&text) {
            Cow::Borrowed(_) => Cow::Owned(text),
            Cow::Owned(changed) => Cow::Owned(changed),
        },
    }
}

/// The block without members that the API does not take; unchanged if there are none.
fn trim<'a>(raw: &'a str, members: &[(Cow<'a, str>, &'a str)], n: u64, repairs: &mut Repairs) -> Cow<'a, str> {
    let kind = json::member(members, "type").and_then(json::string).unwrap_or_default();
    let allowed = allowed_members(&kind);
    let takes = |name: &str| name != "cache_control" && allowed.is_none_or(|allowed| allowed.contains(&name));
    let mut seen: HashSet<&str> = HashSet::with_capacity(members.len());
    if members.iter().all(|(name, _)| takes(name) && seen.insert(name)) {
        return sendable(Cow::Borrowed(raw));
    }
    let mut names: Vec<&str> = members.iter().map(|(name, _)| name.as_ref()).filter(|name| !takes(name)).collect();
    names.dedup();
    let more = names.len().saturating_sub(LISTED_NAMES);
    names.truncate(LISTED_NAMES);
    let and_more = if more > 0 { format!(" and {more} more") } else { String::new() };
    repairs.add(n, RepairKind::MembersLeftOut(names.join(", ") + &and_more));
    seen.clear();
    // Of members with the same name, the last one counts.
    let last = members.iter().rev().filter(|(name, _)| takes(name) && seen.insert(name));
    let mut kept: Vec<String> = last.map(|(name, value)| format!("{}:{value}", json::quote(name))).collect();
    kept.reverse();
    sendable(Cow::Owned(format!("{{{}}}", kept.join(","))))
}

/// The same without cache breakpoints: where those stand is for each request to say.
pub(super) fn unmarked<'a>(json: Cow<'a, str>, n: u64, repairs: &mut Repairs) -> Cow<'a, str> {
    match without_breakpoints(&json) {
        Cow::Borrowed(_) => json,
        Cow::Owned(bare) => {
            repairs.add(n, RepairKind::MembersLeftOut("cache_control".to_owned()));
            Cow::Owned(bare)
        }
    }
}

fn without_breakpoints(raw: &str) -> Cow<'_, str> {
    if memchr::memmem::find(raw.as_bytes(), b"cache_control").is_none() || json::deeper_than(raw, MAX_DEPTH) {
        return Cow::Borrowed(raw);
    }
    let same = |parts: &[Cow<'_, str>]| parts.iter().all(|part| matches!(part, Cow::Borrowed(_)));
    if let Some(elements) = json::elements(raw) {
        let bare: Vec<Cow<'_, str>> = elements.into_iter().map(without_breakpoints).collect();
        return if same(&bare) { Cow::Borrowed(raw) } else { Cow::Owned(format!("[{}]", bare.join(","))) };
    }
    let mut members = json::members(raw).unwrap_or_default();
    let before = members.len();
    members.retain(|(name, _)| name != "cache_control");
    // Only these hold further blocks; in a schema or in arguments it is a word like any other.
    let bare = members.iter().map(|(name, value)| match name.as_ref() {
        "content" | "source" => without_breakpoints(value),
        _ => Cow::Borrowed(*value),
    });
    let bare: Vec<Cow<'_, str>> = bare.collect();
    if members.len() == before && same(&bare) {
        return Cow::Borrowed(raw);
    }
    let kept = members.iter().zip(&bare).map(|((name, _), value)| format!("{}:{value}", json::quote(name)));
    Cow::Owned(format!("{{{}}}", kept.collect::<Vec<_>>().join(",")))
}

/// A block that is sent as it is, unless it is nested too deeply or too long.
fn whole<'a>(
    raw: &'a str,
    members: &[(Cow<'a, str>, &'a str)],
    kind: Kind<'a>,
    n: u64,
    repairs: &mut Repairs,
) -> Block<'a> {
    if json::deeper_than(raw, MAX_DEPTH) {
        repairs.add(n, RepairKind::TooDeep);
        return note("[content nested too deeply to be sent]", n);
    }
    let is_document = json::member(members, "type") == Some("\"document\"");
    if raw.len() > if is_document { MAX_DOCUMENT } else { MAX_TEXT } {
        repairs.add(n, RepairKind::Shortened { bytes: raw.len() as u64 });
        return note(&format!("[content of {} bytes is too long to be sent]", raw.len()), n);
    }
    let json = trim(raw, members, n, repairs);
    Block { json: unmarked(json, n, repairs), kind, n }
}

fn image<'a>(raw: &'a str, members: &[(Cow<'a, str>, &'a str)], n: u64, repairs: &mut Repairs) -> Block<'a> {
    let mut replace = |why: String| {
        let text = format!("[image not sent: {why}]");
        repairs.add(n, RepairKind::ImageReplaced(why));
        note(&text, n)
    };
    let Some(source) = json::member(members, "source").and_then(json::members) else {
        return replace("it has no source".to_owned());
    };
    let text = |name| json::member(&source, name).and_then(json::string);
    let mut largest_side = 0;
    match (text("type").as_deref(), text("media_type"), text("data")) {
        (Some("base64"), Some(media), Some(data)) => {
            if !MEDIA_TYPES.contains(&media.as_ref()) {
                return replace(format!("{media} is not a kind of image that can be sent"));
            }
            if data.len() > MAX_IMAGE {
                return replace(format!("{} bytes, over the limit of 10 MB", data.len()));
            }
            largest_side = side(&data);
        }
        (Some("url"), _, _) if text("url").is_some_and(|url| !url.is_empty()) => {}
        (Some("file"), _, _) if text("file_id").is_some_and(|id| !id.is_empty()) => {}
        _ => return replace("its source is not complete".to_owned()),
    }
    if largest_side > MAX_SIDE {
        return replace(format!("{largest_side} pixels wide or high, over the limit of {MAX_SIDE}"));
    }
    if json::deeper_than(raw, MAX_DEPTH) {
        return replace("nested too deeply".to_owned());
    }
    Block { json: trim(raw, members, n, repairs), kind: Kind::Image { largest_side }, n }
}

/// The larger of an image's width and height; 0 if it cannot be told.
fn side(base64_text: &str) -> usize {
    let text = base64_text.as_bytes();
    let decoded = BASE64.decode(&text[..text.len().min(IMAGE_HEAD)]).unwrap_or_default();
    imagesize::blob_size(&decoded).map_or(0, |size| size.width.max(size.height))
}

fn is_server_id(id: &str) -> bool {
    id.strip_prefix("srvtoolu_").is_some_and(|rest| {
        (1..=MAX_SERVER_ID).contains(&rest.len())
            && rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}
