//! The messages of a session of Claude Code, as that program sends them.
//!
//! Its transcript has all of them: lines of one role are one message, what it adds by itself (the date, the folder, the tools) is kept as it was
//! rendered, and a compaction names what it kept. The rules were found by comparing the files of two versions of the real program with its
//! real requests, and the tests do that still. Where the versions differ, the newer one counts; what an older one makes up anew for each request
//! is in no file.
//!
//! It is for showing and for exporting: nothing here is sent. A call that was never answered is left out, and of two answers to one call the
//! first counts, as there.

use std::collections::{HashMap, HashSet};

use crate::json;
use crate::record::{Body, Parent, Record};

/// What the program wraps around its own words.
const OPEN: &str = "<system-reminder>\n";
const CLOSE: &str = "\n</system-reminder>";

/// The messages as JSON texts, in order.
pub fn foreign_messages(records: &[Record<'_>]) -> Vec<String> {
    let chosen = sequence(records);
    let answered: HashSet<&str> = chosen
        .iter()
        .filter_map(|record| match &record.body {
            Body::ToolResult(result) => Some(result.id.as_ref()),
            _ => None,
        })
        .collect();
    let mut out = Out { answered, ..Out::default() };
    for record in chosen {
        out.take(record);
    }
    out.end_turn();
    out.end_answer();
    out.messages
}

/// The lines that are sent, in order: the way to the last one, from the newest compaction on and with what that kept.
fn sequence<'r, 'a>(records: &'r [Record<'a>]) -> Vec<&'r Record<'a>> {
    let places: HashMap<u64, usize> =
        records.iter().enumerate().filter(|(_, record)| record.is_step()).map(|(at, record)| (record.n, at)).collect();
    let mut before: Option<usize> = None;
    let mut parents: Vec<Option<usize>> = Vec::with_capacity(records.len());
    for (at, record) in records.iter().enumerate() {
        let parent = match record.parent {
            Parent::Record(n) => places.get(&n).copied().filter(|parent| *parent < at),
            Parent::Previous | Parent::Head(_) => before,
            Parent::Nothing => None,
        };
        parents.push(parent);
        if record.is_step() {
            before = Some(at);
        }
    }
    let mut chain = Vec::new();
    while let Some(at) = before {
        chain.push(&records[at]);
        before = parents[at];
    }
    chain.reverse();
    let newest = chain.iter().rposition(|record| matches!(record.body, Body::Compaction { .. }));
    let Some(summary) = newest else { return chain };
    let is_boundary = |record: &&Record<'_>| record.kind() == "compact_boundary";
    let boundary = chain[..summary].iter().rposition(is_boundary).unwrap_or(summary);
    let kept = kept_by(chain[boundary]);
    let is_kept = |record: &&&Record<'_>| {
        let uuid = record.foreign.as_deref().and_then(|foreign| foreign.uuid.as_deref());
        uuid.is_some_and(|uuid| kept.contains(uuid))
    };
    let preserved = chain[..boundary].iter().filter(is_kept);
    chain[boundary..=summary].iter().chain(preserved).chain(&chain[summary + 1..]).copied().collect()
}

/// The names of the lines that a compaction kept.
fn kept_by(boundary: &Record<'_>) -> HashSet<String> {
    let inner = |raw: &str, name: &str| {
        json::members(raw).and_then(|members| json::member(&members, name).map(str::to_owned)).unwrap_or_default()
    };
    let listed = inner(&inner(&inner(boundary.raw, "compactMetadata"), "preservedMessages"), "uuids");
    json::elements(&listed).unwrap_or_default().into_iter().filter_map(json::string).map(Into::into).collect()
}

/// The messages as they come together.
#[derive(Default)]
struct Out<'r> {
    messages: Vec<String>,
    /// Calls that have an answer.
    answered: HashSet<&'r str>,
    /// Answers that were taken.
    taken: HashSet<String>,
    turn: Turn,
    /// Blocks of the model's message.
    answer: Vec<String>,
}

/// What goes to the model between two of its messages.
#[derive(Default)]
struct Turn {
    /// What the program says for itself.
    system: Vec<String>,
    /// What it puts before everything else.
    front: Vec<String>,
    /// Files that it read by itself.
    files: Vec<String>,
    blocks: Vec<Piece>,
}

enum Piece {
    Text(String),
    Other(String),
}

impl Out<'_> {
    fn take(&mut self, record: &Record<'_>) {
        let members = json::members(record.raw).unwrap_or_default();
        let text = |name| json::member(&members, name).and_then(json::string);
        let message = json::member(&members, "message").and_then(json::members).unwrap_or_default();
        match text("type").as_deref() {
            Some("user") => self.user(json::member(&message, "content").unwrap_or("[]")),
            Some("assistant") if json::member(&members, "isApiErrorMessage") != Some("true") => {
                self.assistant(json::member(&message, "content").unwrap_or("[]"));
            }
            Some("system") if text("subtype").as_deref() == Some("local_command") => {
                self.end_answer();
                self.turn.blocks.extend(text("content").map(|text| Piece::Text(text.into_owned())));
            }
            Some("attachment") => {
                let rendered = json::member(&members, "rendered").and_then(json::elements).unwrap_or_default();
                let is_beside = json::member(&members, "renderedBesideToolResult") == Some("true");
                let role = text("renderedRole");
                for one in rendered {
                    let one = json::members(one).unwrap_or_default();
                    let Some(said) = json::member(&one, "content").and_then(json::string) else { continue };
                    self.end_answer();
                    match (role.as_deref(), is_beside) {
                        (Some("system"), _) => self.turn.system.push(unwrapped(&said).to_owned()),
                        (_, true) => self.turn.front.push(said.into_owned()),
                        (_, false) => self.turn.files.push(said.into_owned()),
                    }
                }
            }
            _ => {}
        }
    }

    fn user(&mut self, content: &str) {
        self.end_answer();
        if let Some(text) = json::string(content) {
            self.turn.blocks.push(Piece::Text(text.into_owned()));
            return;
        }
        for block in json::elements(content).unwrap_or_default() {
            let members = json::members(block).unwrap_or_default();
            let text = |name| json::member(&members, name).and_then(json::string);
            match text("type").as_deref() {
                Some("text") => self.turn.blocks.push(Piece::Text(text("text").unwrap_or_default().into_owned())),
                Some("tool_result") => {
                    if self.taken.insert(text("tool_use_id").unwrap_or_default().into_owned()) {
                        self.turn.blocks.push(Piece::Other(block.to_owned()));
                    }
                }
                _ => self.turn.blocks.push(Piece::Other(block.to_owned())),
            }
        }
    }

    fn assistant(&mut self, content: &str) {
        let mut blocks = Vec::new();
        for block in json::elements(content).unwrap_or_default() {
            let members = json::members(block).unwrap_or_default();
            let text = |name| json::member(&members, name).and_then(json::string);
            let is_open = text("type").as_deref() == Some("tool_use")
                && !text("id").is_some_and(|id| self.answered.contains(id.as_ref()));
            if !is_open {
                blocks.push(block.to_owned());
            }
        }
        if !blocks.is_empty() {
            self.end_turn();
            self.answer.extend(blocks);
        }
    }

    fn end_answer(&mut self) {
        if !self.answer.is_empty() {
            let blocks = std::mem::take(&mut self.answer).join(",");
            self.messages.push(format!("{{\"role\":\"assistant\",\"content\":[{blocks}]}}"));
        }
    }

    fn end_turn(&mut self) {
        let Turn { system, front, files, blocks } = std::mem::take(&mut self.turn);
        let mut files = files.into_iter();
        if let Some(first) = files.next() {
            self.messages.push(said("user", &first));
        }
        let files: Vec<Piece> = files.map(Piece::Text).collect();
        let file_count = files.len();
        let has_front = !front.is_empty();
        let pieces: Vec<Piece> = files.into_iter().chain(front.into_iter().map(Piece::Text)).chain(blocks).collect();
        match pieces.as_slice() {
            [] => {}
            [Piece::Text(text)] => self.messages.push(said("user", text)),
            pieces => {
                let mut parts = Vec::new();
                for (at, piece) in pieces.iter().enumerate() {
                    let is_before_text = matches!(pieces.get(at + 1), Some(Piece::Text(_)));
                    // Between the files and what stands in front there is none.
                    let is_last_file = has_front && at + 1 == file_count;
                    let end = if is_before_text && !is_last_file { "\n" } else { "" };
                    parts.push(match piece {
                        Piece::Text(text) => {
                            format!("{{\"type\":\"text\",\"text\":{}}}", json::quote(&format!("{text}{end}")))
                        }
                        Piece::Other(raw) => raw.clone(),
                    });
                }
                self.messages.push(format!("{{\"role\":\"user\",\"content\":[{}]}}", parts.join(",")));
            }
        }
        if !system.is_empty() {
            self.messages.push(said("system", &system.join("\n\n")));
        }
    }
}

fn said(role: &str, text: &str) -> String {
    format!("{{\"role\":\"{role}\",\"content\":{}}}", json::quote(text))
}

fn unwrapped(text: &str) -> &str {
    text.strip_prefix(OPEN).and_then(|text| text.strip_suffix(CLOSE)).unwrap_or(text)
}
