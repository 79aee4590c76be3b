//! Records before they are written: what the writer is asked to say, and how it becomes a line.
//!
//! A draft has a type and members with raw JSON values. The envelope (`v`, `n`, `parent`, `ts`, `crc`) is
//! the writer's alone: a draft that tries to bring its own is refused, so that no caller and no imported
//! file can forge a number, a checksum or a blob reference.

use std::borrow::Cow;

use super::Record;
use crate::error::{Error, Result};
use crate::json;
use crate::report::visible;

/// Members that only the writer sets.
const RESERVED: [&str; 6] = ["v", "n", "parent", "ts", "crc", "blobs"];

/// Types that are about the session and have no parent; a `pin` is if it names no record.
const ABOUT_THE_SESSION: [&str; 5] = ["session", "head", "label", "title", "expire"];

/// What the last member of a native line looks like: `,"crc":"1a2b3c4d"}`.
const CRC_MEMBER: &str = ",\"crc\":\"";
/// Length of that member with its value and the closing brace.
const CRC_TAIL: usize = CRC_MEMBER.len() + 10;

/// About how long a line without members is.
const ENVELOPE_BYTES: usize = 128;

/// A record before it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    kind: String,
    members: Vec<(String, String)>,
    ts_ms: Option<i64>,
}

/// What the writer knows and the draft does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Envelope {
    /// The record's number.
    pub n: u64,
    /// The record that it follows, if it is a step of the conversation.
    pub parent: Option<u64>,
    /// The time, in milliseconds since the epoch.
    pub now_ms: i64,
    /// Checksum of the line before it; 0 if there is none.
    pub previous_crc: u32,
}

impl Draft {
    /// An empty record of that type.
    pub fn new(kind: &str) -> Self {
        Self { kind: kind.to_owned(), members: Vec::new(), ts_ms: None }
    }

    /// Words of the user.
    pub fn user(text: &str) -> Self {
        Self::new("user").text("content", text)
    }

    /// Words of the model, as content blocks or a string in JSON text.
    pub fn assistant(msg: Option<&str>, content: &str) -> Self {
        Self::new("assistant").maybe_text("msg", msg).raw("content", content)
    }

    /// A tool call; `input` is JSON text.
    pub fn tool_use(msg: Option<&str>, id: &str, name: &str, input: &str) -> Self {
        Self::new("tool_use").maybe_text("msg", msg).text("tool_use_id", id).text("name", name).raw("input", input)
    }

    /// A tool's result; `output` is JSON text.
    pub fn tool_result(id: &str, output: &str) -> Self {
        Self::new("tool_result").text("tool_use_id", id).raw("output", output)
    }

    /// The end of a turn.
    pub fn turn(state: &str) -> Self {
        Self::new("turn").text("state", state)
    }

    /// A summary in place of everything before `first_kept`.
    pub fn compaction(summary: &str, first_kept: Option<u64>) -> Self {
        let draft = Self::new("compaction").text("summary", summary);
        match first_kept {
            Some(n) => draft.raw("first_kept", &n.to_string()),
            None => draft,
        }
    }

    /// Some records shortened to about `keep` bytes each in what the model sees.
    pub fn trim(records: &[u64], keep: u64) -> Self {
        let numbers: Vec<String> = records.iter().map(u64::to_string).collect();
        Self::new("trim").raw("records", &format!("[{}]", numbers.join(","))).raw("keep", &keep.to_string())
    }

    /// An earlier compaction or trim without effect from here on.
    pub fn undo(of: u64) -> Self {
        Self::new("undo").raw("of", &of.to_string())
    }

    /// Something that every compaction keeps; without a text it is kept no longer.
    pub fn pin(to: u64, text: Option<&str>) -> Self {
        Self::new("pin").raw("to", &to.to_string()).maybe_text("text", text)
    }

    /// The session is kept at the top of the list, or no longer.
    pub fn pinned(on: bool) -> Self {
        Self::new("pin").raw("on", if on { "true" } else { "false" })
    }

    /// The conversation goes on from record `to`, or from the beginning.
    pub fn head(to: Option<u64>, reason: &str) -> Self {
        Self::new("head").raw("to", &to.map_or("null".to_owned(), |n| n.to_string())).text("reason", reason)
    }

    /// A session's title.
    pub fn title(title: &str) -> Self {
        Self::new("title").text("title", title)
    }

    /// A name for a record; without one, the session's own label.
    pub fn label(to: Option<u64>, name: &str) -> Self {
        let draft = Self::new("label");
        match to {
            Some(to) => draft.raw("to", &to.to_string()).text("name", name),
            None => draft.text("name", name),
        }
    }

    /// How long the session is kept after its last record: `30d`, `never`, or nothing for what the settings say.
    pub fn expire(after: Option<&str>) -> Self {
        Self::new("expire").raw("after", &after.map_or("null".to_owned(), json::quote))
    }

    /// What a record says, to be said again under a number of its own.
    pub(crate) fn again(record: &Record<'_>) -> Self {
        let members = json::members(record.raw).unwrap_or_default().into_iter();
        let members = members.filter(|(name, _)| name != "type" && !RESERVED.contains(&name.as_ref()));
        let mut again: Vec<(String, String)> = Vec::new();
        // Of members with the same name the last one counts, as for every reader here. Only then is it looked for.
        let is_twice = json::duplicate(record.raw).is_some();
        for (name, value) in members {
            if is_twice {
                again.retain(|(known, _)| *known != name);
            }
            again.push((name.into_owned(), value.to_owned()));
        }
        Self { kind: record.kind().to_owned(), members: again, ts_ms: None }
    }

    /// Adds a member with a string.
    #[must_use]
    pub fn text(mut self, name: &str, value: &str) -> Self {
        self.members.push((name.to_owned(), json::quote(value)));
        self
    }

    /// Adds a member with JSON text.
    #[must_use]
    pub fn raw(mut self, name: &str, value: &str) -> Self {
        self.members.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Dates the record otherwise than now, as an import does.
    #[must_use]
    pub fn dated(mut self, ms: Option<i64>) -> Self {
        self.ts_ms = ms;
        self
    }

    fn maybe_text(self, name: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.text(name, value),
            None => self,
        }
    }

    /// The record's type.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The members and their JSON text.
    pub fn members(&self) -> &[(String, String)] {
        &self.members
    }

    /// The same draft with other members, for payloads that moved to the blob store.
    pub(crate) fn with_members(&self, members: Vec<(String, String)>) -> Self {
        Self { kind: self.kind.clone(), members, ts_ms: self.ts_ms }
    }

    /// A draft from a JSON object that has a `type`; unknown members are kept as they are.
    pub fn from_json(text: &str) -> Result<Self> {
        let invalid = |why: String| Error::Invalid(why);
        let text = text.trim();
        if let Err(error) = serde_json::from_str::<&serde_json::value::RawValue>(text) {
            return Err(invalid(format!("not JSON: {error}")));
        }
        refuse_duplicate(text, "the record")?;
        let members = json::members(text).ok_or_else(|| invalid("a record must be a JSON object".to_owned()))?;
        if let Some((name, _)) = members.iter().find(|(name, _)| RESERVED.contains(&name.as_ref()) && name != "ts") {
            return Err(invalid(format!("`{name}` is set by the writer; leave it out")));
        }
        let kind = json::member(&members, "type")
            .and_then(json::string)
            .filter(|kind| !kind.is_empty())
            .ok_or_else(|| invalid("a record needs a `type`, which is a string".to_owned()))?;
        let ts_ms = json::member(&members, "ts").and_then(json::timestamp_ms);
        let draft = Self {
            kind: kind.into_owned(),
            ts_ms,
            members: members
                .iter()
                .filter(|(name, _)| name != "type" && name != "ts")
                .map(|(name, value)| (name.clone().into_owned(), compact(value).into_owned()))
                .collect(),
        };
        if draft.kind == "session" {
            return Err(invalid("a session record is the header, which the writer sets".to_owned()));
        }
        draft.check()?;
        let input = draft.members.iter().find(|(name, _)| name == "input");
        if draft.kind == "tool_use" && input.is_some_and(|(_, input)| !input.starts_with('{')) {
            return Err(invalid("`input` of a tool_use record must be an object".to_owned()));
        }
        Ok(draft)
    }

    /// Refuses what could not be read back as a usable record.
    pub fn check(&self) -> Result<()> {
        let mut fields = super::parse::Fields::none();
        for (name, value) in &self.members {
            if RESERVED.contains(&name.as_str()) || name == "type" {
                return Err(Error::Invalid(format!("`{name}` is set by the writer; leave it out")));
            }
            if serde_json::from_str::<&serde_json::value::RawValue>(value).is_err() {
                return Err(Error::Invalid(format!("`{name}` of the {} record is not JSON", self.kind)));
            }
            fields.set(name, value.trim_ascii());
        }
        match fields.body(Cow::Borrowed(&self.kind)) {
            super::Body::Invalid { kind, why } => Err(Error::Invalid(format!("a {kind} record is not valid: {why}"))),
            _ => Ok(()),
        }
    }

    /// Refuses members that have the same name, here and in everything within, so that all readers see one record.
    pub(crate) fn check_names(&self) -> Result<()> {
        let mut names: Vec<&str> = self.members.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(twice(&format!("the {} record", visible(&self.kind)), pair[0]));
        }
        for (name, value) in &self.members {
            refuse_duplicate(value, &format!("`{}` of the {} record", visible(name), visible(&self.kind)))?;
        }
        Ok(())
    }

    /// Whether the record is a step of the conversation and gets a parent.
    pub fn is_step(&self) -> bool {
        let is_named = || self.members.iter().any(|(name, value)| name == "to" && value != "null");
        !ABOUT_THE_SESSION.contains(&self.kind.as_str()) && (self.kind != "pin" || is_named())
    }

    /// Where the conversation goes on from behind this record, given its number; `None` if it stays where it is.
    pub(crate) fn moves_head_to(&self, n: u64) -> Option<Option<u64>> {
        match self.kind.as_str() {
            "head" => {
                let to = self.members.iter().rev().find(|(name, _)| name == "to");
                Some(to.and_then(|(_, to)| json::number(to.trim())))
            }
            "session" if n == 0 => Some(Some(n)),
            _ => self.is_step().then_some(Some(n)),
        }
    }

    /// The line, with its line feed.
    pub fn encode(&self, envelope: Envelope, blobs: &[String]) -> String {
        self.encode_with_checksum(envelope, blobs).0
    }

    /// The line, with its line feed, and the checksum in it.
    pub(crate) fn encode_with_checksum(&self, envelope: Envelope, blobs: &[String]) -> (String, u32) {
        let members: usize = self.members.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
        let mut line = String::with_capacity(members + ENVELOPE_BYTES);
        line.push_str(&format!("{{\"v\":{},\"n\":{}", super::VERSION, envelope.n));
        if let Some(parent) = envelope.parent.filter(|_| self.is_step()) {
            line.push_str(&format!(",\"parent\":{parent}"));
        }
        line.push_str(",\"type\":");
        line.push_str(&json::quote(&self.kind));
        line.push_str(&format!(",\"ts\":\"{}\"", crate::stamp::rfc3339(self.ts_ms.unwrap_or(envelope.now_ms))));
        for (name, value) in &self.members {
            line.push(',');
            line.push_str(&json::quote(name));
            line.push(':');
            line.push_str(&compact(value));
        }
        if !blobs.is_empty() {
            let pointers: Vec<String> = blobs.iter().map(|pointer| json::quote(pointer)).collect();
            line.push_str(&format!(",\"blobs\":[{}]", pointers.join(",")));
        }
        let crc = checksum(envelope.previous_crc, line.as_bytes());
        line.push_str(&format!("{CRC_MEMBER}{crc:08x}\"}}\n"));
        (line, crc)
    }
}

impl Record<'_> {
    /// What the line's checksum should be, given that of the line before it.
    pub fn checksum(&self, previous: u32) -> u32 {
        let end = self.raw.len().saturating_sub(CRC_TAIL);
        checksum(previous, &self.raw.as_bytes()[..end])
    }
}

/// CRC-32 of a line up to its `crc` member, begun with the checksum of the line before it.
fn checksum(previous: u32, line: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&previous.to_le_bytes());
    hasher.update(line);
    hasher.finalize()
}

fn refuse_duplicate(text: &str, whole: &str) -> Result<()> {
    json::duplicate(text).map_or(Ok(()), |found| Err(twice(whole, &found.name)))
}

fn twice(whole: &str, name: &str) -> Error {
    Error::Invalid(format!("{whole} has the member `{}` twice in one object; leave one of them out", visible(name)))
}

/// JSON text on one line: line feeds between tokens become blanks.
fn compact(raw: &str) -> Cow<'_, str> {
    // Inside strings a line feed is always escaped, so every raw one is between tokens.
    if raw.contains(['\n', '\r']) { Cow::Owned(raw.replace(['\n', '\r'], " ")) } else { Cow::Borrowed(raw) }
}
