//! What a line means.
//!
//! A [`Record`] borrows its line: the envelope is decoded, bodies stay as the bytes they are. Version 1 is
//! the native format (docs/format.md); lines without `"v"` are version 0, the records of both tutorials,
//! and get their number and parent from their place in the file. A type or version that is not known
//! here is [`Body::Unknown`]: kept, shown, exported byte for byte, and never sent to a model.
//!
//! Lines of Claude Code are read in place, too (`claude`): they keep their bytes, and mean the same kinds of things.
//!
//! `parse` finds the members of a line, `draft` makes lines. Nothing here reads files or decides what a conversation is.

use std::borrow::Cow;

use crate::json;

mod claude;
mod draft;
mod parse;
mod tokens;

pub use claude::Foreign;
pub use draft::{Draft, Envelope};
use parse::{Field, Fields};
pub use tokens::Tokens;

/// The version that this program writes.
pub const VERSION: u64 = 1;

/// The types that mean something to this program.
const KNOWN_TYPES: [&str; 18] = [
    "session",
    "user",
    "assistant",
    "tool_use",
    "tool_result",
    "compaction",
    "context",
    "turn",
    "error",
    "approval",
    "head",
    "label",
    "title",
    "trim",
    "undo",
    "pin",
    "expire",
    "file",
];

/// What a line means.
#[derive(Debug, Clone, PartialEq)]
pub struct Record<'a> {
    /// Where the line begins in its file.
    pub offset: u64,
    /// The line, without its line feed.
    pub raw: &'a str,
    /// Format version; 0 for the tutorials' records.
    pub version: u64,
    /// The record's number, which is its id.
    pub n: u64,
    /// The record that this one follows.
    pub parent: Parent,
    /// When it was written, as it says; information, never order.
    pub ts: Option<&'a str>,
    /// Checksum of this line chained to the one before it.
    pub crc: Option<u32>,
    /// JSON pointers of the payloads that are in the blob store.
    pub blobs: Vec<Cow<'a, str>>,
    /// What it says.
    pub body: Body<'a>,
    /// What else a line of another program says; none for the lines of this one.
    pub foreign: Option<Box<Foreign<'a>>>,
}

/// What a record follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parent {
    /// The record with this number.
    Record(u64),
    /// Whatever the conversation stands on: bookkeeping never moves it, whichever number the record names.
    Head(u64),
    /// The record before it in the file (version 0, or a native one that does not say).
    Previous,
    /// Nothing: the record is about the session, not a step of the conversation.
    Nothing,
}

/// What a record says.
#[derive(Debug, Clone, PartialEq)]
pub enum Body<'a> {
    /// The header: which session this is.
    Session(Header<'a>),
    /// Words of the user: JSON text of a string or of content blocks.
    User {
        /// The content.
        content: &'a str,
    },
    /// Words of the model: JSON text of a string or of content blocks.
    Assistant {
        /// The content.
        content: &'a str,
        /// The API message that it is part of.
        msg: Option<Cow<'a, str>>,
        /// The model that said it.
        model: Option<Cow<'a, str>>,
    },
    /// The model calls a tool.
    ToolUse(ToolUse<'a>),
    /// What came back.
    ToolResult(ToolResult<'a>),
    /// Everything before `first_kept` is replaced by a summary in what the model sees.
    Compaction {
        /// The summary.
        summary: Cow<'a, str>,
        /// The first record that stays verbatim; none if only what follows does.
        first_kept: Option<u64>,
        /// JSON text of what people pinned, as a list of `{"n":…,"text":…}`.
        pinned: Option<&'a str>,
    },
    /// Some records are shortened in what the model sees.
    Trim {
        /// JSON text of the list of their numbers.
        records: &'a str,
        /// About how many bytes of each stay, half of them at each end.
        keep: u64,
    },
    /// An earlier compaction or trim is without effect from here on.
    Undo {
        /// That record.
        of: u64,
    },
    /// Something that every compaction keeps, word for word.
    Pin {
        /// The record that says it.
        to: u64,
        /// What it says; none if it is pinned no longer.
        text: Option<Cow<'a, str>>,
    },
    /// The session is one that a person keeps at the top of the list.
    Pinned {
        /// Whether it is, from here on.
        on: bool,
    },
    /// System prompt, tools or model from here on.
    Context {
        /// JSON text of the system prompt.
        system: Option<&'a str>,
        /// JSON text of the tool definitions.
        tools: Option<&'a str>,
        /// The model's name.
        model: Option<Cow<'a, str>>,
    },
    /// The end, or a state, of a turn.
    Turn {
        /// `done`, `aborted`, ...
        state: Cow<'a, str>,
        /// JSON text of the usage that the API reported.
        usage: Option<&'a str>,
        /// The model that was asked.
        model: Option<Cow<'a, str>>,
    },
    /// Something failed; shown to people, never to the model.
    Error {
        /// What was said.
        message: Cow<'a, str>,
    },
    /// A tool call waits for a person, or a person answered.
    Approval {
        /// The call.
        tool_use_id: Cow<'a, str>,
        /// `pending`, `allowed` or `denied`.
        state: Cow<'a, str>,
    },
    /// The conversation goes on from another record.
    Head {
        /// That record; none for the very beginning.
        to: Option<u64>,
    },
    /// How long the session is kept.
    Expire {
        /// How long after its last record (`30d`), `never`, or nothing: as the settings say.
        after: Option<Cow<'a, str>>,
    },
    /// A tool changed a file of the workspace.
    File(FileChange<'a>),
    /// A name for a record.
    Label {
        /// That record; none if it is the session's own label.
        to: Option<u64>,
        /// The name.
        name: Cow<'a, str>,
    },
    /// The session's title.
    Title {
        /// The title.
        title: Cow<'a, str>,
    },
    /// Something that another program keeps for itself: it may be a step, but nobody said it.
    Aside {
        /// What it is called there.
        kind: Cow<'a, str>,
    },
    /// A type or version that is not known here.
    Unknown {
        /// The type's name.
        kind: Cow<'a, str>,
    },
    /// A known type that lacks something, or has it in the wrong form.
    Invalid {
        /// The type's name.
        kind: Cow<'a, str>,
        /// What is wrong.
        why: &'static str,
    },
}

impl Body<'_> {
    /// Whether this is a step of the conversation by what it is, and not about the session as a whole.
    fn is_said(&self) -> bool {
        match self {
            Body::User { .. }
            | Body::Assistant { .. }
            | Body::ToolUse(_)
            | Body::ToolResult(_)
            | Body::Compaction { .. }
            | Body::Trim { .. }
            | Body::Undo { .. }
            | Body::Pin { .. }
            | Body::Context { .. }
            | Body::Turn { .. }
            | Body::Error { .. }
            | Body::File(_)
            | Body::Approval { .. } => true,
            Body::Session(_)
            | Body::Head { .. }
            | Body::Expire { .. }
            | Body::Pinned { .. }
            | Body::Label { .. }
            | Body::Title { .. }
            | Body::Aside { .. }
            | Body::Unknown { .. }
            | Body::Invalid { .. } => false,
        }
    }
}

impl Body<'_> {
    /// Whether the record only tells about the conversation: what it follows changes nothing that the model sees.
    fn is_bookkeeping(&self) -> bool {
        match self {
            Body::User { .. }
            | Body::Assistant { .. }
            | Body::ToolUse(_)
            | Body::ToolResult(_)
            | Body::Compaction { .. }
            | Body::Trim { .. }
            | Body::Undo { .. }
            | Body::Context { .. } => false,
            Body::Turn { .. }
            | Body::Error { .. }
            | Body::File(_)
            | Body::Pin { .. }
            | Body::Approval { .. }
            | Body::Session(_)
            | Body::Head { .. }
            | Body::Expire { .. }
            | Body::Pinned { .. }
            | Body::Label { .. }
            | Body::Title { .. }
            | Body::Aside { .. }
            | Body::Unknown { .. }
            | Body::Invalid { .. } => true,
        }
    }
}

/// The header of a session.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Header<'a> {
    /// The session's id.
    pub id: Option<Cow<'a, str>>,
    /// Its key.
    pub key: Option<Cow<'a, str>>,
    /// The label that it was created with.
    pub label: Option<Cow<'a, str>>,
    /// JSON text: where it was imported or forked from.
    pub origin: Option<&'a str>,
    /// Whether it was written again because the first one was lost.
    pub is_repair: bool,
}

impl Header<'_> {
    /// SHA-256 of the file that the session was imported from.
    pub fn origin_sha256(&self) -> Option<String> {
        let members = self.origin.and_then(json::members)?;
        json::member(&members, "sha256").and_then(json::string).map(Cow::into_owned)
    }
}

/// A tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolUse<'a> {
    /// The call's id.
    pub id: Cow<'a, str>,
    /// The tool.
    pub name: Cow<'a, str>,
    /// JSON text of the arguments; an object unless they were cut off.
    pub input: &'a str,
    /// The API message that the call is part of.
    pub msg: Option<Cow<'a, str>>,
    /// JSON text of the block's `caller`, which newer API versions add.
    pub caller: Option<&'a str>,
}

/// A change that a tool made to a file of the workspace.
#[derive(Debug, Clone, PartialEq)]
pub struct FileChange<'a> {
    /// The file, relative to the workspace.
    pub path: Cow<'a, str>,
    /// JSON text of a reference to what was in it; none if there was no such file.
    pub before: Option<&'a str>,
    /// JSON text of a reference to what is in it now; none if it is gone.
    pub after: Option<&'a str>,
}

/// What a tool gave back.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResult<'a> {
    /// The call's id.
    pub id: Cow<'a, str>,
    /// JSON text of what came back: a string, content blocks, or anything else.
    pub content: &'a str,
    /// Whether the tool failed.
    pub is_error: bool,
    /// Whether it stands in for a result that was never saved.
    pub is_repair: bool,
}

impl<'a> Record<'a> {
    /// Decodes a line; `place` is its number if it does not carry one.
    pub fn parse(raw: &'a str, offset: u64, place: u64) -> Result<Self, serde_json::Error> {
        let fields = Fields::parse(raw)?;
        let version = fields.number(Field::V).unwrap_or(0);
        if version == 0 && fields.is_foreign() {
            return Ok(claude::parse(raw, offset, place));
        }
        let kind = fields.text(Field::Type).unwrap_or_default();
        let body = if version > VERSION { Body::Unknown { kind } } else { fields.body(kind) };
        let parent = match (version, fields.number(Field::Parent)) {
            (0, _) => Parent::Previous,
            (_, Some(_)) if matches!(body, Body::Head { .. }) => Parent::Nothing,
            (_, Some(parent)) if body.is_bookkeeping() => Parent::Head(parent),
            (_, Some(parent)) => Parent::Record(parent),
            // Words without a parent were not written by this program, but they were said.
            (VERSION, None) if body.is_said() => Parent::Previous,
            (_, None) => Parent::Nothing,
        };
        let blobs = match fields.get(Field::Blobs).filter(|_| version > 0).and_then(json::elements) {
            Some(pointers) => pointers.into_iter().filter_map(json::string).collect(),
            None => Vec::new(),
        };
        Ok(Self {
            offset,
            raw,
            version,
            n: fields.number(Field::N).filter(|_| version > 0).unwrap_or(place),
            parent,
            ts: fields.get(Field::Ts).or(fields.get(Field::Created)),
            crc: fields.text(Field::Crc).and_then(|hex| u32::from_str_radix(&hex, 16).ok()),
            blobs,
            body,
            foreign: None,
        })
    }

    /// The record as another text of it says, with its payloads put back; itself if there is none.
    pub fn with_text(&self, text: Option<&'a str>) -> Self {
        match text.map(|text| Record::parse(text, self.offset, self.n)) {
            Some(Ok(full)) => full,
            _ => self.clone(),
        }
    }

    /// Whether the record is a step of the conversation, one that a head can stand on.
    pub fn is_step(&self) -> bool {
        // A header that was added later, because the first one was lost, is no step.
        self.parent != Parent::Nothing || (self.n == 0 && matches!(self.body, Body::Session(_)))
    }

    /// Whether the model gets to see what the record says.
    pub fn is_sent(&self) -> bool {
        matches!(
            self.body,
            Body::User { .. }
                | Body::Assistant { .. }
                | Body::ToolUse(_)
                | Body::ToolResult(_)
                | Body::Compaction { .. }
                | Body::Context { .. }
        )
    }

    /// The type's name as it stands in the line.
    pub fn kind(&self) -> &str {
        match &self.body {
            Body::Session(_) => "session",
            Body::User { .. } => "user",
            Body::Assistant { .. } => "assistant",
            Body::ToolUse(_) => "tool_use",
            Body::ToolResult(_) => "tool_result",
            Body::Compaction { .. } => "compaction",
            Body::Context { .. } => "context",
            Body::Turn { .. } => "turn",
            Body::Error { .. } => "error",
            Body::Approval { .. } => "approval",
            Body::Head { .. } => "head",
            Body::Label { .. } => "label",
            Body::Title { .. } => "title",
            Body::Trim { .. } => "trim",
            Body::Undo { .. } => "undo",
            Body::Pin { .. } | Body::Pinned { .. } => "pin",
            Body::Expire { .. } => "expire",
            Body::File(_) => "file",
            Body::Aside { kind } | Body::Unknown { kind } | Body::Invalid { kind, .. } => kind,
        }
    }

    /// Whether this program knows what records of that type mean.
    pub fn is_known_type(kind: &str) -> bool {
        KNOWN_TYPES.contains(&kind)
    }

    /// When it was written, in milliseconds since the epoch.
    pub fn time_ms(&self) -> Option<i64> {
        self.ts.and_then(json::timestamp_ms)
    }
}
