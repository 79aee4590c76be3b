//! What a line of Claude Code means.
//!
//! Its transcripts are a tree like ours, spelled differently: a step names its parent by `uuid`, an assistant's message has one
//! line a content block, and a good deal of what is in the file was said by nobody (snapshots of prompts, requests, counters).
//! Types change with every release of that program, so a line that is not understood is an [`Body::Aside`], never damage: it is kept
//! and means nothing here.
//!
//! One line is looked at alone. Which record a `uuid` means, and what belongs to one message, is for [`crate::scan`] to say.

use std::borrow::Cow;

use crate::json;
use crate::record::{Body, Parent, Record, Tokens, ToolResult, ToolUse};

/// What the program puts before words that are its own: commands typed at its prompt, and what they printed.
const COMMANDS: [&str; 7] = [
    "<command-name>",
    "<command-message>",
    "<local-command-stdout>",
    "<local-command-stderr>",
    "<local-command-caveat>",
    "<bash-input>",
    "<bash-stdout>",
];

type Members<'a> = Vec<(Cow<'a, str>, &'a str)>;

/// What a line of another program says besides its words.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Foreign<'a> {
    /// The line's name in its tree; none if it is no part of it.
    pub uuid: Option<Cow<'a, str>>,
    /// The name of the line that it follows: of a compaction, the last one before it.
    pub parent: Option<Cow<'a, str>>,
    /// The name of the first line that a compaction kept.
    pub first_kept: Option<Cow<'a, str>>,
    /// The message of the API that the line is a block of.
    pub message: Option<Cow<'a, str>>,
    /// The model that said it.
    pub model: Option<Cow<'a, str>>,
    /// Where the program was working.
    pub cwd: Option<Cow<'a, str>>,
    /// Whether it is about a sub-agent.
    pub is_sidechain: bool,
    /// Whether a model gave the title, and no person.
    pub by_model: bool,
    /// What the API counted for the whole message, as far as it was known when the line was written.
    pub counted: Option<Tokens>,
    /// What the message took beyond what its earlier lines said; [`crate::scan`] knows.
    pub spent: Option<Tokens>,
    /// Whether the line is the first of its message.
    pub begins_message: bool,
}

/// A line of Claude Code as a record; its parent is found by [`crate::scan`].
pub(super) fn parse(raw: &str, offset: u64, place: u64) -> Record<'_> {
    let line = Line { members: json::members(raw).unwrap_or_default() };
    let message = Line { members: line.get("message").and_then(json::members).unwrap_or_default() };
    let kind = line.text("type").unwrap_or_default();
    let metadata = line.get("compactMetadata").and_then(json::members).unwrap_or_default();
    let preserved = json::member(&metadata, "preservedMessages").and_then(json::members).unwrap_or_default();
    let preserved = json::member(&preserved, "uuids").and_then(json::elements).unwrap_or_default();
    // What was copied from another session was counted there.
    let is_copy = line.get("forkedFrom").is_some_and(|from| from != "null");
    let foreign = Foreign {
        uuid: line.text("uuid"),
        parent: line.text("logicalParentUuid").or_else(|| line.text("parentUuid")),
        first_kept: preserved.first().copied().and_then(json::string),
        message: message.text("id"),
        model: message.text("model").filter(|model| !model.starts_with('<')),
        cwd: line.text("cwd"),
        is_sidechain: line.is_true("isSidechain"),
        by_model: kind != "custom-title",
        counted: message.get("usage").filter(|_| !is_copy).and_then(Tokens::parse),
        spent: None,
        begins_message: false,
    };
    let body = body(kind, &line, &message, &foreign);
    Record {
        offset,
        raw,
        version: 0,
        n: place,
        parent: Parent::Nothing,
        ts: line.get("timestamp"),
        crc: None,
        blobs: Vec::new(),
        body,
        foreign: Some(Box::new(foreign)),
    }
}

/// The members of an object.
struct Line<'a> {
    members: Members<'a>,
}

impl<'a> Line<'a> {
    fn get(&self, name: &str) -> Option<&'a str> {
        json::member(&self.members, name)
    }

    fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        self.get(name).and_then(json::string)
    }

    fn is_true(&self, name: &str) -> bool {
        self.get(name) == Some("true")
    }
}

fn body<'a>(kind: Cow<'a, str>, line: &Line<'a>, message: &Line<'a>, foreign: &Foreign<'a>) -> Body<'a> {
    let aside = |kind: Cow<'a, str>| Body::Aside { kind };
    let title = |title: Option<Cow<'a, str>>, kind| title.map_or_else(|| aside(kind), |title| Body::Title { title });
    match kind.as_ref() {
        "user" if line.is_true("isCompactSummary") => match message.get("content").map(text_of) {
            Some(summary) if !summary.trim().is_empty() => Body::Compaction { summary, first_kept: None, pinned: None },
            _ => aside(kind),
        },
        "user" if line.is_true("isMeta") || line.is_true("isVisibleInTranscriptOnly") => aside(kind),
        "user" => match message.get("content") {
            Some(content) => user(content, kind),
            None => Body::Invalid { kind, why: "`message.content` is missing" },
        },
        "assistant" => match message.get("content") {
            Some(content) if line.is_true("isApiErrorMessage") => Body::Error { message: text_of(content) },
            Some(content) => assistant(content, foreign),
            None => Body::Invalid { kind, why: "`message.content` is missing" },
        },
        "custom-title" => title(line.text("customTitle"), kind),
        "ai-title" => title(line.text("aiTitle"), kind),
        "summary" => title(line.text("summary"), kind),
        "tag" => line.text("tag").map_or_else(|| aside(kind), |name| Body::Label { to: None, name }),
        "system" => aside(line.text("subtype").unwrap_or(kind)),
        _ => aside(kind),
    }
}

/// Words of a person, or what a tool gave back.
fn user<'a>(content: &'a str, kind: Cow<'a, str>) -> Body<'a> {
    let is_command = |text: &str| COMMANDS.iter().any(|start| text.trim_start().starts_with(start));
    if json::string(content).is_some_and(|text| is_command(&text)) {
        return Body::Aside { kind };
    }
    match json::elements(content).as_deref() {
        Some([block]) => {
            let block = Line { members: json::members(block).unwrap_or_default() };
            match (block.text("type").as_deref(), block.text("tool_use_id")) {
                (Some("tool_result"), Some(id)) => Body::ToolResult(ToolResult {
                    id,
                    content: block.get("content").unwrap_or("\"\""),
                    is_error: block.is_true("is_error"),
                    is_repair: false,
                }),
                (Some("text"), _) if block.text("text").is_some_and(|text| is_command(&text)) => Body::Aside { kind },
                _ => Body::User { content },
            }
        }
        _ => Body::User { content },
    }
}

/// One block of a message, as a rule; several are left together.
fn assistant<'a>(content: &'a str, foreign: &Foreign<'a>) -> Body<'a> {
    let (msg, model) = (foreign.message.clone(), foreign.model.clone());
    if let Some([block]) = json::elements(content).as_deref() {
        let block = Line { members: json::members(block).unwrap_or_default() };
        if let (Some("tool_use"), Some(id), Some(name), Some(input)) =
            (block.text("type").as_deref(), block.text("id"), block.text("name"), block.get("input"))
        {
            return Body::ToolUse(ToolUse { id, name, input, msg, caller: block.get("caller") });
        }
    }
    Body::Assistant { content, msg, model }
}

/// The words in a string or in blocks.
fn text_of(content: &str) -> Cow<'_, str> {
    if let Some(text) = json::string(content) {
        return text;
    }
    let texts = json::elements(content).unwrap_or_default().into_iter().filter_map(|block| {
        let members = json::members(block)?;
        json::member(&members, "text").and_then(json::string)
    });
    Cow::Owned(texts.collect::<Vec<_>>().join("\n"))
}
