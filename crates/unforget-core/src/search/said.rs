//! What a record says that can be found.
//!
//! Words of people and models, calls with all that is in their arguments, results, summaries, titles and names. Thinking is
//! not searched: nobody remembers it, and it is not shown. Payloads in the blob store are searched like everything else, each
//! record up to [`MAX_TEXT`]; one that cannot be read, or is far too large, counts by the beginning that its line has.
//!
//! A result does not say which tool it comes from. Its call does, so records are heard in the order of the file by an [`Ear`].
//! The scan and the index hear with the same ear: a text that one of them saw otherwise would be a hit that only one has.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::blob::{self, BlobRef, Blobs, FULL};
use crate::error::Result;
use crate::json;
use crate::record::{Body, Record};

/// How much of what a record says is searched, in bytes.
pub const MAX_TEXT: usize = 1 << 20;
/// Payloads that are longer are not read for a search.
const MAX_PAYLOAD: u64 = 64 << 20;
/// How many calls an ear remembers while it waits for their results.
const MAX_CALLS: usize = 4096;
/// Members whose values are for machines.
const OPAQUE: [&str; 3] = ["signature", "encrypted_content", "encrypted_index"];
/// A value of `data` that is longer than this and has no blank is an encoded file.
const ENCODED: usize = 256;

/// Who says something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// The user.
    User,
    /// The model.
    Assistant,
    /// The model calls a tool.
    ToolUse,
    /// A tool gives something back.
    ToolResult,
    /// A compaction.
    Summary,
    /// The session's title.
    Title,
    /// A name of the session, a checkpoint or a branch.
    Label,
}

impl Role {
    /// All of them.
    pub const ALL: [Role; 7] =
        [Role::User, Role::Assistant, Role::ToolUse, Role::ToolResult, Role::Summary, Role::Title, Role::Label];

    /// The name for machines and tables.
    pub fn name(self) -> &'static str {
        match self {
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::ToolUse => "tool_use",
            Role::ToolResult => "tool_result",
            Role::Summary => "summary",
            Role::Title => "title",
            Role::Label => "label",
        }
    }

    /// Whether it is said in a step of the conversation, which can be left behind.
    pub(crate) fn is_step(self) -> bool {
        !matches!(self, Role::Title | Role::Label)
    }

    /// The role of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }
}

/// What a record says in one role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said<'a> {
    /// Who says it.
    pub role: Role,
    /// The tool, of calls and results.
    pub tool: Option<String>,
    /// When, in milliseconds since the epoch; as the record before if it does not say.
    pub at_ms: i64,
    /// What is said.
    pub text: Cow<'a, str>,
}

/// Hears the records of one session, in the order of its file.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Ear {
    calls: Calls,
    at_ms: i64,
}

/// Which tool a call is for.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Calls {
    names: HashMap<String, String>,
    order: VecDeque<String>,
}

impl Calls {
    fn add(&mut self, id: &str, name: &str) {
        if self.names.insert(id.to_owned(), name.to_owned()).is_none() {
            self.order.push_back(id.to_owned());
        }
        if self.order.len() > MAX_CALLS
            && let Some(oldest) = self.order.pop_front()
        {
            self.names.remove(&oldest);
        }
    }
}

impl Ear {
    /// Takes notice of a record without hearing what it says.
    pub fn pass(&mut self, record: &Record<'_>) {
        self.at_ms = record.time_ms().unwrap_or(self.at_ms);
        match &record.body {
            Body::ToolUse(call) => self.calls.add(&call.id, &call.name),
            Body::Assistant { content, .. } if content.contains("tool_use") => {
                self.blocks(content, Role::Assistant, &mut Voices::default());
            }
            _ => {}
        }
    }

    /// Takes notice of a record whose calls may be in a payload: they must be known when their results come.
    pub(crate) fn pass_all(&mut self, record: &Record<'_>, blobs: &Blobs) -> Result<()> {
        if !record.blobs.is_empty() && matches!(record.body, Body::Assistant { .. }) {
            self.hear(record, blobs)?;
        } else {
            self.pass(record);
        }
        Ok(())
    }

    /// What the next record says; at most one text a role.
    pub fn hear<'a>(&mut self, record: &'a Record<'a>, blobs: &Blobs) -> Result<Vec<Said<'a>>> {
        if record.blobs.is_empty() {
            return Ok(self.hear_line(record, None));
        }
        let is_too_much =
            |payload: &Option<BlobRef>| payload.as_ref().is_none_or(|payload| payload.bytes > MAX_PAYLOAD);
        let mut notes = Vec::new();
        if !blob::references(record).iter().any(is_too_much)
            && let Some(text) = blobs.restore(record, &mut notes)?
            && notes.is_empty()
            && let Ok(whole) = Record::parse(&text, record.offset, record.n)
        {
            let full = full(record, blobs)?;
            let said = self.hear_line(&whole, full.as_deref());
            return Ok(said
                .into_iter()
                .map(|said| Said { text: Cow::Owned(said.text.into_owned()), ..said })
                .collect());
        }
        Ok(self.hear_line(record, None))
    }

    fn hear_line<'a>(&mut self, record: &Record<'a>, full: Option<&str>) -> Vec<Said<'a>> {
        self.at_ms = record.time_ms().unwrap_or(self.at_ms);
        let mut voices = Voices::default();
        match &record.body {
            Body::User { content } => self.blocks(content, Role::User, &mut voices),
            Body::Assistant { content, .. } => self.blocks(content, Role::Assistant, &mut voices),
            Body::ToolUse(call) => {
                self.calls.add(&call.id, &call.name);
                let (name, input) = (call.name.clone().into_owned(), unless_elsewhere(call.input));
                let text = voices.of(Role::ToolUse, Some(name.clone()));
                text.push_str(&name);
                text.push('\n');
                strings(&input, text);
            }
            Body::ToolResult(result) => {
                let tool = self.calls.names.get(result.id.as_ref()).cloned();
                result_text(result.content, full, voices.of(Role::ToolResult, tool));
            }
            Body::Compaction { summary, .. } => voices.say(Role::Summary, summary.clone()),
            Body::Title { title } => voices.say(Role::Title, title.clone()),
            Body::Label { name, .. } => voices.say(Role::Label, name.clone()),
            Body::Session(header) => {
                if let Some(label) = &header.label {
                    voices.say(Role::Label, label.clone());
                }
            }
            _ => {}
        }
        voices.finish(self.at_ms)
    }

    /// Content: a string, or blocks.
    fn blocks<'a>(&mut self, content: &'a str, role: Role, voices: &mut Voices<'a>) {
        if let Some(text) = json::string(content).or_else(|| preview(content)) {
            return voices.say(role, text);
        }
        for block in json::elements(content).unwrap_or_else(|| vec![content]) {
            let members = json::members(block).unwrap_or_default();
            let text = |name| json::member(&members, name).and_then(json::string);
            match text("type").as_deref() {
                None => voices.add(role, None, &preview(block).unwrap_or_default()),
                Some("text") => voices.add(role, None, &text("text").unwrap_or_default()),
                Some("tool_use" | "server_tool_use" | "mcp_tool_use") => {
                    let name = text("name").unwrap_or_default().into_owned();
                    self.calls.add(&text("id").unwrap_or_default(), &name);
                    voices.add(Role::ToolUse, Some(&name), &name);
                    strings(json::member(&members, "input").unwrap_or(""), voices.of(Role::ToolUse, Some(name)));
                }
                Some(kind) if kind.ends_with("tool_result") => {
                    let tool = self.calls.names.get(text("tool_use_id").unwrap_or_default().as_ref()).cloned();
                    let content = json::member(&members, "content").unwrap_or("");
                    let out = voices.of(Role::ToolResult, tool);
                    result_text(content, None, out);
                    out.push('\n');
                }
                Some(_) => {}
            }
        }
    }
}

/// The texts of a record by role, as they come together.
#[derive(Default)]
struct Voices<'a> {
    /// What is said in one piece, which is most of it.
    whole: Option<(Role, Cow<'a, str>)>,
    parts: Vec<(Role, Option<String>, String)>,
}

impl<'a> Voices<'a> {
    fn say(&mut self, role: Role, text: Cow<'a, str>) {
        self.whole = Some((role, text));
    }

    fn add(&mut self, role: Role, tool: Option<&str>, text: &str) {
        let out = self.of(role, tool.map(str::to_owned));
        out.push_str(text);
        out.push('\n');
    }

    fn of(&mut self, role: Role, tool: Option<String>) -> &mut String {
        let place = match self.parts.iter().position(|(found, named, _)| *found == role && *named == tool) {
            Some(place) => place,
            None => {
                self.parts.push((role, tool, String::new()));
                self.parts.len() - 1
            }
        };
        &mut self.parts[place].2
    }

    fn finish(self, at_ms: i64) -> Vec<Said<'a>> {
        let whole = self.whole.map(|(role, text)| (role, None, text));
        let parts = self.parts.into_iter().map(|(role, tool, text)| (role, tool, Cow::Owned(text)));
        let all = whole.into_iter().chain(parts).filter(|(_, _, text)| !text.trim().is_empty());
        all.map(|(role, tool, text)| Said { role, tool, at_ms, text: bounded(text) }).collect()
    }
}

/// The text, or as much of its beginning as is searched.
fn bounded(text: Cow<'_, str>) -> Cow<'_, str> {
    if text.len() <= MAX_TEXT {
        return text;
    }
    let end = text.floor_char_boundary(MAX_TEXT);
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(&text[..end]),
        Cow::Owned(mut text) => {
            text.truncate(end);
            Cow::Owned(text)
        }
    }
}

/// What a tool gave back: all of it if that was kept, or else what the model saw.
fn result_text(content: &str, full: Option<&str>, out: &mut String) {
    match full {
        Some(full) if full.len() <= MAX_TEXT => readable(full, out),
        Some(full) => {
            // Too long to be searched: its beginning, and what the model saw has its end.
            readable(content, out);
            out.push('\n');
            let mut whole = String::new();
            readable(full, &mut whole);
            out.push_str(&whole[..whole.floor_char_boundary(MAX_TEXT.saturating_sub(out.len()))]);
        }
        None => readable(content, out),
    }
}

/// The text in a string, and everything that is text in anything else.
fn readable(raw: &str, out: &mut String) {
    match json::string(raw) {
        Some(text) => out.push_str(&text),
        None => strings(&unless_elsewhere(raw), out),
    }
}

/// JSON text, or the beginning of it if the rest is elsewhere.
fn unless_elsewhere(raw: &str) -> Cow<'_, str> {
    match preview(raw) {
        Some(text) => Cow::Owned(json::quote(&text)),
        None => Cow::Borrowed(raw),
    }
}

/// The beginning of a payload that is elsewhere.
fn preview(raw: &str) -> Option<Cow<'_, str>> {
    BlobRef::parse(raw)?;
    json::member(&json::members(raw)?, "preview").and_then(json::string)
}

/// The whole output of a tool, of which the line has the ends.
fn full(record: &Record<'_>, blobs: &Blobs) -> Result<Option<String>> {
    let members = json::members(record.raw).unwrap_or_default();
    let is_elsewhere = record.blobs.iter().any(|pointer| pointer.strip_prefix('/') == Some(FULL));
    let Some(payload) = json::member(&members, FULL).filter(|_| is_elsewhere).and_then(BlobRef::parse) else {
        return Ok(None);
    };
    match blobs.get(&payload.sha256) {
        Ok(bytes) => Ok(String::from_utf8(bytes).ok()),
        Err(error @ crate::Error::Io { .. }) => Err(error),
        Err(_) => Ok(None),
    }
}

/// Adds every name, string and number in JSON text, a value a line.
///
/// It takes tokens as they come and nests nothing, so that depth is no concern.
fn strings(raw: &str, out: &mut String) {
    let bytes = raw.as_bytes();
    let mut name = String::new();
    let mut at = 0;
    while at < bytes.len() && out.len() < MAX_TEXT {
        match bytes[at] {
            b'"' => {
                let Some(end) = json::string_end(bytes, at) else { return };
                let text = json::string(&raw[at..end]).unwrap_or_default();
                at = end;
                let is_name = bytes[at..].iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b':');
                if is_name {
                    name = text.into_owned();
                    out.push_str(&name);
                    out.push_str(": ");
                } else {
                    out.push_str(if is_opaque(&name, &text) { "" } else { &text });
                    out.push('\n');
                }
            }
            b'0'..=b'9' => {
                let len =
                    bytes[at..].iter().position(|byte| !matches!(byte, b'0'..=b'9' | b'.')).unwrap_or(bytes.len() - at);
                out.push_str(&raw[at..at + len]);
                out.push('\n');
                at += len;
            }
            _ => at += 1,
        }
    }
}

fn is_opaque(name: &str, value: &str) -> bool {
    OPAQUE.contains(&name) || (name == "data" && value.len() > ENCODED && !value.contains(char::is_whitespace))
}

#[cfg(test)]
mod tests;
