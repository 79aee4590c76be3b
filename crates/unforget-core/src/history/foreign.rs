//! The messages of a session of Claude Code, as that program sends them.
//!
//! Its transcript has all of them: lines of one role are one message, what it adds by itself (the date, the folder, the tools) is kept as it was
//! rendered, and a compaction names what it kept. The rules were found by comparing the files of two versions of the real program with its
//! real requests, and the tests do that still. Where the versions differ, the newer one counts; what an older one makes up anew for each request
//! is in no file.
//!
//! It is for showing and for exporting: nothing here is sent. A call that was never answered is left out, and of two answers to one call the
//! first counts, as there.
//!
//! Whatever the lines are, the messages obey the API's rules. `steps`, `block` and `answers` see to that for this history as for a native
//! one; here is which lines are sent and, in `layout`, how that program puts them together. Every repair is listed with its record.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::block::{self, Element};
use super::layout::{Sort, lay_out};
use super::messages::{Messages, Piece};
use super::path::Path;
use super::repair::{Repair, RepairKind};
use super::steps::{self, Steps};
use super::{Limits, Role, fit, limits};
use crate::json;
use crate::record::{Body, Parent, Record};
use crate::report::visible;

/// Fewer than the API takes: a step of that program is up to four messages.
const MAX_MESSAGES: usize = 40_000;

/// The messages of a session of another program, and what had to be put right in them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ForeignHistory {
    /// The messages as JSON texts, in order.
    pub messages: Vec<String>,
    /// What was put right, in the order in which it was met.
    pub repairs: Vec<Repair>,
}

/// A content block that is sent, and the record that it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The record.
    pub n: u64,
    /// Who says it.
    pub role: Role,
    /// JSON text of the block.
    pub json: String,
}

/// The messages as JSON texts, in order.
pub fn foreign_messages(records: &[Record<'_>]) -> ForeignHistory {
    let (mut messages, sorts) = arrange(records);
    let texts = lay_out(messages.list, &sorts, &mut messages.repairs);
    ForeignHistory { messages: texts, repairs: messages.repairs.0 }
}

/// The content blocks of the messages, each with its record, and what had to be put right.
pub fn foreign_parts(records: &[Record<'_>]) -> (Vec<Part>, Vec<Repair>) {
    let (mut messages, sorts) = arrange(records);
    let mut parts = Vec::new();
    for message in &messages.list {
        let role = message.role;
        let part = |piece: &Piece<'_>| Part { n: piece.n(), role, json: piece.clone().render().into_owned() };
        parts.extend(message.pieces.iter().map(part));
    }
    // What laying out has to put right counts as well.
    lay_out(messages.list, &sorts, &mut messages.repairs);
    (parts, messages.repairs.0)
}

/// What is sent, as pieces in their places, and of what sort the records are that nobody typed.
fn arrange<'a>(records: &[Record<'a>]) -> (Messages<'a>, HashMap<u64, Sort>) {
    let mut taker = Taker::default();
    for record in sequence(records) {
        taker.take(record);
    }
    taker.end_turn();
    let Taker { mut steps, sorts, .. } = taker;
    steps.leave_out_unanswered();
    let limits = Limits { messages: MAX_MESSAGES, ..Limits::default() };
    let room = limits::room(&limits, 0);
    let is_cut = limits::apply(&mut steps, &limits, room, &Path::default());
    let thinking_from = if is_cut { steps.last_words() } else { 0 };
    let mut messages = steps.messages(thinking_from, &HashSet::new());
    limits::images(&mut messages.list, &mut messages.repairs);
    fit::fit(&mut messages.list, room, &mut messages.repairs);
    (messages, sorts)
}

/// The lines that are sent, in order: the way to the last one, from the newest compaction on and with what that kept.
///
/// Of several lines with one `uuid` the last one counts, in the place of the first, as in that program.
fn sequence<'r, 'a>(records: &'r [Record<'a>]) -> Vec<&'r Record<'a>> {
    let places: HashMap<u64, usize> =
        records.iter().enumerate().filter(|(_, record)| record.is_step()).map(|(at, record)| (record.n, at)).collect();
    let mut before: Option<usize> = None;
    let mut parents: Vec<Option<usize>> = Vec::with_capacity(records.len());
    let mut newest_form: HashMap<&str, usize> = HashMap::new();
    for (at, record) in records.iter().enumerate() {
        let parent = match record.parent {
            Parent::Record(n) => places.get(&n).copied().filter(|parent| *parent < at),
            Parent::Previous | Parent::Head(_) => before,
            Parent::Nothing => None,
        };
        parents.push(parent);
        if let Some(uuid) = uuid(record).filter(|_| !is_sidechain(record)) {
            newest_form.insert(uuid, at);
        }
        if record.is_step() {
            before = Some(at);
        }
    }
    let mut chain = Vec::new();
    while let Some(at) = before {
        let form = uuid(&records[at]).and_then(|uuid| newest_form.get(uuid).copied());
        chain.push(&records[form.unwrap_or(at)]);
        before = parents[at];
    }
    chain.reverse();
    let newest = chain.iter().rposition(|record| matches!(record.body, Body::Compaction { .. }));
    let Some(summary) = newest else { return chain };
    let is_boundary = |record: &&Record<'_>| record.kind() == "compact_boundary";
    let boundary = chain[..summary].iter().rposition(is_boundary).unwrap_or(summary);
    let kept = kept_by(chain[boundary]);
    let is_kept = |record: &&&Record<'_>| uuid(record).is_some_and(|uuid| kept.contains(uuid));
    let preserved = chain[..boundary].iter().filter(is_kept);
    chain[boundary..=summary].iter().chain(preserved).chain(&chain[summary + 1..]).copied().collect()
}

fn uuid<'r>(record: &'r Record<'_>) -> Option<&'r str> {
    record.foreign.as_deref()?.uuid.as_deref()
}

fn is_sidechain(record: &Record<'_>) -> bool {
    record.foreign.as_deref().is_some_and(|foreign| foreign.is_sidechain)
}

/// The names of the lines that a compaction kept.
fn kept_by(boundary: &Record<'_>) -> HashSet<String> {
    let inner = |raw: &str, name: &str| {
        json::members(raw).and_then(|members| json::member(&members, name).map(str::to_owned)).unwrap_or_default()
    };
    let listed = inner(&inner(&inner(boundary.raw, "compactMetadata"), "preservedMessages"), "uuids");
    json::elements(&listed).unwrap_or_default().into_iter().filter_map(json::string).map(Into::into).collect()
}

/// Takes the lines one by one.
#[derive(Default)]
struct Taker<'a> {
    steps: Steps<'a>,
    /// Of what sort the records are that the program says by itself.
    sorts: HashMap<u64, Sort>,
    /// What the program says by itself since the model spoke; it stands behind the results, wherever its lines are.
    beside: Vec<Element<'a>>,
}

impl<'a> Taker<'a> {
    fn take(&mut self, record: &Record<'a>) {
        let members = json::members(record.raw).unwrap_or_default();
        let text = |name| json::member(&members, name).and_then(json::string);
        let message = json::member(&members, "message").and_then(json::members).unwrap_or_default();
        let content = json::member(&message, "content").unwrap_or("[]");
        match text("type").as_deref() {
            Some("user") if self.is_clear(record, content) => self.user(content, record.n),
            Some("assistant")
                if json::member(&members, "isApiErrorMessage") != Some("true") && self.is_clear(record, content) =>
            {
                let name = json::member(&message, "id").and_then(json::string);
                self.assistant(content, &name, record.n);
            }
            Some("system") if text("subtype").as_deref() == Some("local_command") => {
                let content = json::member(&members, "content").unwrap_or("[]");
                if self.is_clear(record, content) {
                    self.user(content, record.n);
                }
            }
            Some("attachment") => {
                let rendered = json::member(&members, "rendered").unwrap_or("[]");
                let is_beside = json::member(&members, "renderedBesideToolResult") == Some("true");
                let sort = match (text("renderedRole").as_deref(), is_beside) {
                    (Some("system"), _) => Sort::System,
                    (_, true) => Sort::Front,
                    (_, false) => Sort::File,
                };
                let rendered = json::elements(rendered).unwrap_or_default();
                if !rendered.is_empty() && self.is_clear(record, &rendered.join(",")) {
                    self.attachment(&rendered, sort, record.n);
                }
            }
            _ => {}
        }
    }

    /// Whether two readers would understand a record alike; notes what cannot be sent of its content.
    fn is_clear(&mut self, record: &Record<'_>, content: &str) -> bool {
        let repairs = self.steps.repairs();
        if let Some(twice) = steps::ambiguous(record) {
            let why = format!("it has the member `{}` twice in one object", visible(&twice.name));
            repairs.add(record.n, RepairKind::RecordLeftOut(why));
            return false;
        }
        if matches!(json::sendable(content), Cow::Owned(_)) {
            repairs.add(record.n, RepairKind::CharactersReplaced);
        }
        true
    }

    fn user(&mut self, content: &'a str, n: u64) {
        for element in self.elements(content, Role::User, n) {
            self.steps.hear(element, n, 0);
        }
    }

    fn assistant(&mut self, content: &'a str, message: &Option<Cow<'a, str>>, n: u64) {
        let elements = self.elements(content, Role::Assistant, n);
        if !elements.is_empty() {
            self.end_turn();
        }
        for element in elements {
            self.steps.say(element, message, n, 0);
        }
    }

    fn attachment(&mut self, rendered: &[&'a str], sort: Sort, n: u64) {
        self.sorts.insert(n, sort);
        for one in rendered {
            let members = json::members(one).unwrap_or_default();
            let content = json::member(&members, "content").unwrap_or("[]");
            let elements = self.elements(content, Role::User, n);
            for element in elements {
                match element {
                    Element::Block(block) if super::messages::is_blank(&Piece::Block(block.clone())) => {
                        self.steps.repairs().add(n, RepairKind::Empty);
                    }
                    Element::Block(_) => self.beside.push(element),
                    Element::Call(_) | Element::Answer(_) => {
                        let why = "a call or a result that the program says by itself".to_owned();
                        self.steps.repairs().add(n, RepairKind::BlockLeftOut(why));
                    }
                }
            }
        }
    }

    /// The elements of a content, each with its own spelling.
    fn elements(&mut self, content: &'a str, role: Role, n: u64) -> Vec<Element<'a>> {
        let repairs = self.steps.repairs();
        let Some(blocks) = json::elements(content) else { return block::elements(content, role, n, repairs) };
        let mut out = Vec::with_capacity(blocks.len());
        for raw in blocks {
            let mut found = block::elements(raw, role, n, repairs);
            match found.as_mut_slice() {
                [Element::Call(call)] => call.verbatim = Some(raw),
                [Element::Answer(answer)] => answer.verbatim = Some(raw),
                _ => {}
            }
            out.append(&mut found);
        }
        out
    }

    /// What the program says by itself stands behind what was said before it.
    fn end_turn(&mut self) {
        for element in std::mem::take(&mut self.beside) {
            self.steps.hear(element, 0, 0);
        }
    }
}
