//! Sessions of the pi coding agent, version 1 to 3, and of OpenClaw, which writes the same.
//!
//! The file is a tree: entries have an `id` and a `parentId` (version 1 has neither, every entry follows the one before), and
//! the last line is where the conversation stands. An entry becomes no record, one, or several; entries are
//! remembered by the record that stands behind them, so that a child of an entry without a record finds its place
//! too. pi's own settings (model, thinking level, state of extensions) have no place here: the model goes with every answer.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::import::content::{self, Usage};
use crate::import::conversion::Conversion;
use crate::import::object::Object;
use crate::json;
use crate::record::Draft;
use crate::session::block_draft;

/// How far back the first kept entry of a compaction is looked for.
const KEPT_REACH: usize = 100_000;
/// The interface whose signatures the Messages API takes back.
const SIGNED_BY: &str = "anthropic-messages";

/// What is known of the entries so far.
#[derive(Debug, Default)]
pub(super) struct Pi {
    places: Vec<Place>,
    by_id: HashMap<String, usize>,
    has_header: bool,
}

/// An entry, and what became of it.
#[derive(Debug, Clone, Copy)]
struct Place {
    parent: Option<usize>,
    /// The first record that it became.
    first: Option<u64>,
    /// The record that the conversation stands at behind it.
    at: u64,
}

impl Pi {
    /// Takes the next line.
    pub(super) fn take(&mut self, entry: &Object<'_>, out: &mut Conversion) {
        let kind = entry.text("type").unwrap_or_default();
        out.at_time(entry.time_ms("timestamp"));
        if kind == "session" {
            return self.header(entry, out);
        }
        let parent = self.parent(entry, out);
        out.go_to(parent.map_or(0, |place| self.places[place].at));
        let first = out.next();
        self.entry(&kind, entry, parent, out);
        let first = (out.next() > first).then_some(first);
        if let Some(id) = entry.text("id") {
            self.by_id.insert(id.into_owned(), self.places.len());
        }
        self.places.push(Place { parent, first, at: out.head() });
    }

    fn header(&mut self, entry: &Object<'_>, out: &mut Conversion) {
        if std::mem::replace(&mut self.has_header, true) {
            return out.leave_out("another session header");
        }
        out.about.id = entry.text("id").map(Cow::into_owned);
        out.about.folder = entry.text("cwd").map(Cow::into_owned);
        out.about.created_ms = entry.time_ms("timestamp");
    }

    /// The entry that this one follows.
    fn parent(&self, entry: &Object<'_>, out: &mut Conversion) -> Option<usize> {
        let before = self.places.len().checked_sub(1);
        if !entry.has("parentId") {
            return before;
        }
        let id = entry.text("parentId")?;
        let found = self.by_id.get(id.as_ref()).copied();
        if found.is_none() {
            let own = entry.text("id").unwrap_or_default();
            out.tell(format!("entry {own}: its parent {id} is not in the file; it follows the entry before it"));
        }
        found.or(before)
    }

    fn entry(&self, kind: &str, entry: &Object<'_>, parent: Option<usize>, out: &mut Conversion) {
        match kind {
            "message" => match entry.object("message") {
                Some(message) => message_of(entry, &message, out),
                None => out.leave_out("message without content"),
            },
            "compaction" => {
                let Some(summary) = entry.text("summary").filter(|summary| !summary.trim().is_empty()) else {
                    return out.leave_out("compaction without a summary");
                };
                let kept = entry.text("firstKeptEntryId").and_then(|id| self.first_kept(&id, parent));
                let draft = Draft::compaction(&summary, kept);
                out.push(match entry.number("tokensBefore") {
                    Some(before) => draft.raw("before", &before.to_string()),
                    None => draft,
                });
            }
            "branch_summary" => match entry.text("summary").filter(|summary| !summary.trim().is_empty()) {
                Some(summary) => out.push(branch_summary(&summary)),
                None => out.leave_out("branch_summary without a summary"),
            },
            "custom_message" => user(entry.raw("content"), out, |draft| draft.text("by", "rule")),
            "label" => match entry.text("targetId").and_then(|id| self.record_of(&id)) {
                Some(n) => out.push(Draft::label(Some(n), &entry.text("label").unwrap_or_default())),
                None => out.leave_out("label of an entry that is not a record"),
            },
            "session_info" => match entry.text("name").filter(|name| !name.trim().is_empty()) {
                Some(name) => out.push(Draft::title(&name)),
                None => out.leave_out("session_info without a name"),
            },
            "" => out.leave_out("entry without a type"),
            other => out.leave_out(&format!("entry of type {other}")),
        }
    }

    fn record_of(&self, id: &str) -> Option<u64> {
        let place = self.places[*self.by_id.get(id)?];
        place.first.or((place.at > 0).then_some(place.at))
    }

    /// The first record from the kept entry on, on the way to the compaction.
    fn first_kept(&self, id: &str, parent: Option<usize>) -> Option<u64> {
        let kept = *self.by_id.get(id)?;
        let mut first = None;
        let mut at = parent;
        for _ in 0..KEPT_REACH {
            let place = self.places[at?];
            first = place.first.or(first);
            if at == Some(kept) {
                return first;
            }
            at = place.parent;
        }
        None
    }
}

fn message_of(entry: &Object<'_>, message: &Object<'_>, out: &mut Conversion) {
    match message.text("role").as_deref() {
        Some("user") => user(message.raw("content"), out, |draft| draft),
        Some("assistant") => assistant(entry, message, out),
        Some("toolResult") => {
            let Some(id) = message.text("toolCallId") else { return out.leave_out("tool result without an id") };
            let draft = Draft::tool_result(&id, &content::joined(&blocks(message, out)));
            out.push(if message.is_true("isError") { draft.raw("is_error", "true") } else { draft });
        }
        Some("bashExecution") if message.is_true("excludeFromContext") => {
            out.leave_out("command that was kept out of the conversation");
        }
        Some("bashExecution") => out.push(command(message)),
        Some("custom" | "hookMessage") => user(message.raw("content"), out, |draft| draft.text("by", "rule")),
        Some("branchSummary") => out.push(branch_summary(&message.text("summary").unwrap_or_default())),
        other => out.leave_out(&format!("message of role {}", other.unwrap_or("none"))),
    }
}

fn user(raw: Option<&str>, out: &mut Conversion, finish: impl FnOnce(Draft) -> Draft) {
    let content = match raw {
        Some(raw) if raw.starts_with('"') => raw.to_owned(),
        Some(raw) => {
            let elements = json::elements(raw).unwrap_or_default();
            let blocks: Vec<String> = elements.iter().filter_map(|block| block_of(block, out)).collect();
            if blocks.is_empty() {
                return out.leave_out("message without content");
            }
            content::joined(&blocks)
        }
        None => return out.leave_out("message without content"),
    };
    out.push(finish(Draft::new("user").raw("content", &content)));
}

fn assistant(entry: &Object<'_>, message: &Object<'_>, out: &mut Conversion) {
    let msg = entry.text("id").map_or_else(|| format!("pi-{}", out.next()), Cow::into_owned);
    let model = message.text("model");
    let signed = message.text("api").as_deref() == Some(SIGNED_BY);
    let mut drafts = Vec::new();
    match message.raw("content") {
        Some(raw) if raw.starts_with('"') => drafts.push(Draft::assistant(Some(&msg), raw)),
        Some(raw) => {
            for block in json::elements(raw).unwrap_or_default() {
                if let Some(said) = said_block(block, signed, out) {
                    drafts.push(block_draft(&msg, &said));
                }
            }
        }
        None => {}
    }
    for draft in drafts {
        out.push(match &model {
            Some(model) if draft.kind() == "assistant" => draft.text("model", model),
            _ => draft,
        });
    }
    let stop = message.text("stopReason");
    if let Some(error) = message.text("errorMessage").filter(|error| !error.is_empty()) {
        out.push(Draft::new("error").text("message", &error));
    }
    let state = match stop.as_deref() {
        Some("toolUse") => "running",
        Some("error") => "failed",
        Some("aborted") => "aborted",
        _ => "done",
    };
    let mut turn = Draft::turn(state);
    if let Some(usage) = message.object("usage") {
        turn = turn.raw("usage", &usage_of(&usage).to_json());
    }
    if let Some(model) = &model {
        turn = turn.text("model", model);
    }
    if let Some(stop) = &stop {
        turn = turn.text("stop_reason", stop);
    }
    out.push(turn);
}

fn usage_of<'a>(usage: &Object<'a>) -> Usage<'a> {
    let number = |name| usage.number(name).unwrap_or(0);
    Usage {
        input: number("input"),
        output: number("output"),
        cache_read: number("cacheRead"),
        cache_write: number("cacheWrite"),
        cost: usage.raw("cost"),
    }
}

fn blocks(message: &Object<'_>, out: &mut Conversion) -> Vec<String> {
    match message.raw("content") {
        Some(raw) if raw.starts_with('"') => vec![content::text(raw)],
        Some(raw) => json::elements(raw).unwrap_or_default().iter().filter_map(|block| block_of(block, out)).collect(),
        None => Vec::new(),
    }
}

/// Words and images, as people and tools send them.
fn block_of(raw: &str, out: &mut Conversion) -> Option<String> {
    let block = Object::parse(raw);
    let kind = block.as_ref().and_then(|block| block.text("type"));
    match (kind.as_deref(), &block) {
        (Some("text"), Some(block)) => block.raw("text").filter(|text| text.starts_with('"')).map(content::text),
        (Some("image"), Some(block)) => Some(content::image(&block.text("mimeType")?, &block.text("data")?)),
        (other, _) => {
            out.leave_out(&format!("content of type {}", other.unwrap_or("none")));
            None
        }
    }
}

/// What the model says: words, thinking and calls.
fn said_block(raw: &str, signed: bool, out: &mut Conversion) -> Option<String> {
    let Some(block) = Object::parse(raw) else { return block_of(raw, out) };
    match block.text("type").as_deref() {
        Some("thinking") => {
            let signature = block.raw("thinkingSignature").filter(|raw| signed && raw.starts_with('"'));
            match signature {
                Some(data) if block.is_true("redacted") => {
                    Some(format!("{{\"type\":\"redacted_thinking\",\"data\":{data}}}"))
                }
                signature => {
                    let words = block.raw("thinking").filter(|words| words.starts_with('"'))?;
                    // A signature of another interface would make the API refuse the whole conversation.
                    let signature = signature.map_or(String::new(), |raw| format!(",\"signature\":{raw}"));
                    Some(format!("{{\"type\":\"thinking\",\"thinking\":{words}{signature}}}"))
                }
            }
        }
        Some("toolCall") => {
            let (id, name) = (block.raw("id")?, block.raw("name")?);
            let input = content::arguments(block.raw("arguments").unwrap_or("{}"), "arguments");
            Some(format!("{{\"type\":\"tool_use\",\"id\":{id},\"name\":{name},\"input\":{input}}}"))
        }
        _ => block_of(raw, out),
    }
}

/// A command that the person ran beside the conversation.
fn command(message: &Object<'_>) -> Draft {
    let command = message.text("command").unwrap_or_default();
    let output = message.text("output").unwrap_or_default();
    let end = match message.number("exitCode") {
        _ if message.is_true("cancelled") => "\n[stopped]".to_owned(),
        Some(0) | None => String::new(),
        Some(code) => format!("\n[exit code {code}]"),
    };
    Draft::user(&format!("[the user ran a command]\n$ {command}\n{output}{end}")).text("by", "rule")
}

fn branch_summary(summary: &str) -> Draft {
    Draft::user(&format!("[Summary of a branch of this conversation that was left]\n{summary}")).text("by", "rule")
}
