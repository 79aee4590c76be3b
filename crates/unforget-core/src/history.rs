//! From records to messages that the API accepts: the only way a request is built.
//!
//! [`rebuild`] is a total, pure function. Whatever the records are, the messages obey the API's rules:
//! roles alternate, every call is answered in the next message, ids are unique and well formed, nothing is
//! empty, nothing is larger than a request may be. What had to be put right is listed as repairs; the
//! transcript itself is never changed. The same records always give the same bytes, and a transcript with
//! more records gives the same bytes and then more, unless a record says otherwise (compaction, trim, undo,
//! context, head) or the limits force the beginning out.
//!
//! `path` chooses the records, `block` looks at single content blocks, `context` at system prompt and tools, `steps` puts
//! calls and results in their places, `answers` says what they say, `messages` makes roles alternate, `limits` drops and
//! `fit` shortens what does not fit. `foreign` does the same for a session of Claude Code, and `layout` puts its messages together as that
//! program does.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use crate::json;
use crate::record::{Body, Record};

mod answers;
mod block;
mod context;
mod fit;
mod foreign;
mod layout;
mod limits;
mod messages;
mod path;
mod repair;
mod steps;

pub use foreign::{ForeignHistory, Part, foreign_messages, foreign_parts};
pub use limits::Limits;
pub use path::{Path, Trims, path};
pub use repair::{Repair, RepairKind};
pub use steps::pins;

/// Deepest nesting that is sent.
const MAX_DEPTH: usize = 100;
/// Longest single text that is sent whole, in bytes.
const MAX_TEXT: usize = 4 * 1024 * 1024;
/// How much of a longer text is sent, in bytes at each end.
const SHORT_TEXT: usize = MAX_TEXT / 8;
/// Longest name of a tool.
const MAX_NAME: usize = 64;

/// What a call without a result is answered with.
pub const UNKNOWN_OUTCOME: &str =
    "[interrupted: the result of this call was never saved, so its outcome is unknown; it was not run again]";
/// What a call whose arguments were cut off is answered with.
const CUT_OFF: &str = "[the arguments of this call were cut off; it was not run]";
/// What a call with two arguments of the same name is answered with.
const AMBIGUOUS: &str = "[the arguments of this call have one name twice; it was not run]";
/// What stands for everything that was left out at the beginning.
const EARLIER: &str = "[Earlier messages of this conversation are not included.]";
/// What a summary is introduced with.
const SUMMARY: &str = "[Summary of the conversation so far]";
/// What pinned texts are introduced with.
const PINNED: &str = "[Pinned earlier in the conversation, word for word]";

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The user, and the tools.
    User,
    /// The model.
    Assistant,
}

impl Role {
    /// The role's name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Role::User => "user",
            Role::Assistant => "assistant",
        }
    }
}

/// One message of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message<'a> {
    /// Who speaks.
    pub role: Role,
    /// JSON text of each content block.
    pub blocks: Vec<Cow<'a, str>>,
}

/// The messages of a conversation and what had to be put right in them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History<'a> {
    /// The messages, roles alternating.
    pub messages: Vec<Message<'a>>,
    /// What was put right, in the order in which it was met.
    pub repairs: Vec<Repair>,
    /// JSON text of the system prompt in force.
    pub system: Option<Cow<'a, str>>,
    /// JSON text of the tool definitions in force.
    pub tools: Option<Cow<'a, str>>,
    /// The model in force.
    pub model: Option<Cow<'a, str>>,
    /// Calls that have no saved result and wait for nobody, as `(tool_use_id, record)`.
    pub unanswered: Vec<(String, u64)>,
    /// Calls that wait for a person's approval, as `(tool_use_id, record)`.
    pub pending: Vec<(String, u64)>,
}

/// Builds the messages of a conversation from the records on its path.
pub fn rebuild<'a>(path: &Path<'_, 'a>, limits: &Limits) -> History<'a> {
    let mut history = History::default();
    let mut arranged = steps::Steps::default();
    let mut approvals: HashMap<&str, &str> = HashMap::new();
    for record in &path.records {
        if let Body::Approval { tool_use_id, state } = &record.body {
            approvals.insert(tool_use_id, state);
        }
        if let Body::Context { system, tools, model } = &record.body
            && steps::duplicate(record).is_none()
        {
            history.system = system.and_then(|system| context::system(system, record.n, arranged.repairs()));
            history.tools = tools.and_then(|tools| context::tools(tools, record.n, arranged.repairs()));
            history.model.clone_from(model);
        }
        arranged.take(record);
    }
    let mut thinking_from = path.thinking_from;
    let context = [&history.system, &history.tools].into_iter().flatten().map(|text| text.len()).sum();
    let room = limits::room(limits, context);
    if limits::apply(&mut arranged, limits, room, path) {
        thinking_from = thinking_from.max(arranged.last_words());
    }
    let waits = |call: &(String, u64)| approvals.get(call.0.as_str()).copied() == Some("pending");
    (history.pending, history.unanswered) = arranged.unanswered().into_iter().partition(waits);
    let tools = history.tools.as_deref().map(tool_names).unwrap_or_default();
    let mut messages = arranged.messages(thinking_from, &tools);
    fit::trim(&mut messages.list, &path.trims);
    limits::images(&mut messages.list, &mut messages.repairs);
    fit::fit(&mut messages.list, room, &mut messages.repairs);
    history.messages = messages.list.into_iter().map(messages::Outgoing::render).collect();
    history.repairs = messages.repairs.0;
    history
}

fn tool_names(tools: &str) -> HashSet<String> {
    let name = |tool: &str| json::member(&json::members(tool)?, "name").and_then(json::string).map(Cow::into_owned);
    json::elements(tools).unwrap_or_default().into_iter().filter_map(name).collect()
}

/// Selects the path of a whole transcript and builds its messages.
pub fn rebuild_all<'a>(records: &[Record<'a>], limits: &Limits) -> History<'a> {
    rebuild(&path(records), limits)
}

impl History<'_> {
    /// The messages as one JSON array.
    pub fn to_json(&self) -> String {
        let size: usize = self.messages.iter().flat_map(|message| &message.blocks).map(|block| block.len() + 1).sum();
        let mut out = String::with_capacity(size + self.messages.len() * 40 + 2);
        out.push('[');
        for (i, message) in self.messages.iter().enumerate() {
            if i > 0 {
                out.push(',');
            }
            out.push_str("{\"role\":\"");
            out.push_str(message.role.name());
            out.push_str("\",\"content\":[");
            for (j, block) in message.blocks.iter().enumerate() {
                if j > 0 {
                    out.push(',');
                }
                out.push_str(block);
            }
            out.push_str("]}");
        }
        out.push(']');
        out
    }

    /// A request body. Messages come last, so that a longer conversation only adds to it.
    pub fn to_request(&self, model: &str, max_tokens: u32) -> String {
        let mut out = format!("{{\"model\":{},\"max_tokens\":{max_tokens}", json::quote(model));
        for (name, value) in [("system", &self.system), ("tools", &self.tools)] {
            if let Some(value) = value {
                out.push_str(&format!(",\"{name}\":{value}"));
            }
        }
        out.push_str(",\"messages\":");
        out.push_str(&self.to_json());
        out.push('}');
        out
    }

    /// The same history, independent of the buffer that it was read from.
    pub fn into_owned(self) -> History<'static> {
        let own = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        History {
            messages: self
                .messages
                .into_iter()
                .map(|message| Message {
                    role: message.role,
                    blocks: message.blocks.into_iter().map(|block| Cow::Owned(block.into_owned())).collect(),
                })
                .collect(),
            repairs: self.repairs,
            system: self.system.map(own),
            tools: self.tools.map(own),
            model: self.model.map(own),
            unanswered: self.unanswered,
            pending: self.pending,
        }
    }
}
