//! Calls and results in their places.
//!
//! A step is one message of the model, the results of its calls, and the user's words after them. Records
//! come in the order in which they were written, which is not always the order in which the API wants them:
//! the user types while a tool runs, the tutorials wrote results before their calls, a crash took a
//! result with it. A result goes to the latest step with an open call of its id; a result that answers nothing stays
//! out. Every record costs about the same, whatever came before it: a small file must not take minutes.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet, VecDeque};

use super::answers::{self, call_and_result, unique_ids};
use super::block::{self, Answer, Block, Call, Element, Kind};
use super::messages::{Messages, NOTHING_FOLLOWS, Piece};
use super::path::Trims;
use super::repair::{RepairKind, Repairs};
use super::{MAX_TEXT, PINNED, Role, SHORT_TEXT, SUMMARY};
use crate::json;
use crate::record::{Body, Record};
use crate::report::visible;

/// A name that a record has twice, if that record is for the model: two readers would understand it differently.
///
/// A call whose arguments alone are so is sent without them instead, so that its result keeps its place.
pub(super) fn duplicate(record: &Record<'_>) -> Option<json::Duplicate> {
    ambiguous(record).filter(|_| record.is_sent())
}

/// The same, whether the record is for the model or not.
pub(super) fn ambiguous(record: &Record<'_>) -> Option<json::Duplicate> {
    let found = json::duplicate(record.raw)?;
    match &record.body {
        Body::ToolUse(call) if json::duplicate(call.input).is_some() => None,
        _ => Some(found),
    }
}

/// A message of the model with everything up to its next one.
#[derive(Debug, Default)]
pub(super) struct Step<'a> {
    parts: Vec<Part<'a>>,
    calls: Vec<Placed<'a>>,
    pub(super) words: Vec<Block<'a>>,
    msg: Option<Cow<'a, str>>,
    /// Whether a result came while this was the last step.
    answered: bool,
}

#[derive(Debug)]
enum Part<'a> {
    Block(Block<'a>),
    Call(usize),
}

#[derive(Debug)]
pub(super) struct Placed<'a> {
    pub(super) call: Call<'a>,
    pub(super) n: u64,
    pub(super) answer: Option<Given<'a>>,
}

/// A result and where it came from.
#[derive(Debug)]
pub(super) struct Given<'a> {
    pub(super) answer: Answer<'a>,
    pub(super) n: u64,
    version: u64,
}

/// All steps of a conversation.
#[derive(Debug)]
pub(super) struct Steps<'a> {
    pub(super) list: Vec<Step<'a>>,
    /// Calls without a result by their id: for each step with such calls, which ones.
    open: HashMap<Cow<'a, str>, Vec<(usize, VecDeque<usize>)>>,
    early: Early<'a>,
    known: HashSet<Cow<'a, str>>,
    /// Ids of calls that came inside a message's content since the user last spoke.
    in_content: HashSet<Cow<'a, str>>,
    repairs: Repairs,
}

/// Results that came before any call of their id.
#[derive(Debug, Default)]
struct Early<'a> {
    /// As they came; none where a call turned up.
    list: Vec<Option<Given<'a>>>,
    /// Those of version 0, whose calls may come later, by their id.
    waiting: HashMap<Cow<'a, str>, VecDeque<usize>>,
}

impl<'a> Early<'a> {
    fn push(&mut self, given: Given<'a>) {
        if given.version == 0 {
            self.waiting.entry(given.answer.id.clone()).or_default().push_back(self.list.len());
        }
        self.list.push(Some(given));
    }

    fn take(&mut self, id: &str) -> Option<Given<'a>> {
        let at = self.waiting.get_mut(id)?.pop_front()?;
        self.list[at].take()
    }
}

impl Default for Steps<'_> {
    fn default() -> Self {
        Self {
            list: vec![Step::default()],
            open: HashMap::new(),
            early: Early::default(),
            known: HashSet::new(),
            in_content: HashSet::new(),
            repairs: Repairs::default(),
        }
    }
}

impl<'a> Steps<'a> {
    /// Takes the next record of the path.
    pub(super) fn take(&mut self, record: &Record<'a>) {
        let n = record.n;
        if record.is_sent() && matches!(json::sendable(record.raw), Cow::Owned(_)) {
            self.repairs.add(n, RepairKind::CharactersReplaced);
        }
        if let Some(twice) = duplicate(record) {
            let why = format!("it has the member `{}` twice in one object", visible(&twice.name));
            self.repairs.add(n, RepairKind::RecordLeftOut(why));
            return;
        }
        match &record.body {
            Body::User { content } => {
                for element in block::elements(content, Role::User, n, &mut self.repairs) {
                    self.hear(element, n, record.version);
                }
            }
            Body::Assistant { content, msg, .. } => {
                let elements = block::elements(content, Role::Assistant, n, &mut self.repairs);
                for element in elements {
                    self.say(element, msg, n, record.version);
                }
            }
            Body::ToolUse(call) => {
                if self.in_content.contains(call.id.as_ref()) {
                    self.repairs.add(n, RepairKind::CallWrittenTwice(call.id.clone().into_owned()));
                    return;
                }
                let (id, name) = (call.id.clone(), call.name.clone());
                let placed = Call { id, name, input: call.input, caller: call.caller, verbatim: None };
                self.call(placed, &call.msg, n, record.version);
            }
            Body::ToolResult(result) => {
                let (id, content) = (result.id.clone(), result.content);
                let (is_error, is_repair) = (result.is_error, result.is_repair);
                let answer = Answer { id, content, is_error, is_repair, verbatim: None };
                self.answer(Given { answer, n, version: record.version });
            }
            Body::Compaction { summary, pinned, .. } => {
                let text = if summary.len() > MAX_TEXT {
                    Cow::Owned(block::shorten(summary, SHORT_TEXT))
                } else {
                    summary.clone()
                };
                self.words(block::note(&format!("{SUMMARY}\n{text}"), n));
                let texts: Vec<String> =
                    pins(pinned.unwrap_or_default()).into_iter().map(|(_, text)| text.into_owned()).collect();
                if !texts.is_empty() {
                    self.words(block::note(&format!("{PINNED}\n{}", texts.join("\n---\n")), n));
                }
            }
            Body::Invalid { kind, why } => {
                self.repairs.add(n, RepairKind::RecordLeftOut(format!("{kind}: {why}")));
            }
            _ => {}
        }
    }

    /// Takes a piece of what the user says.
    pub(super) fn hear(&mut self, element: Element<'a>, n: u64, version: u64) {
        match element {
            Element::Block(block) => self.words(block),
            Element::Answer(answer) => self.answer(Given { answer, n, version }),
            Element::Call(_) => {}
        }
    }

    /// Takes a piece of the model's message `msg`.
    pub(super) fn say(&mut self, element: Element<'a>, msg: &Option<Cow<'a, str>>, n: u64, version: u64) {
        match element {
            Element::Block(block) => {
                let step = self.step_for_words(msg);
                step.parts.push(Part::Block(block));
            }
            Element::Call(call) => {
                self.in_content.insert(call.id.clone());
                self.call(call, msg, n, version);
            }
            Element::Answer(_) => {}
        }
    }

    /// Leaves out calls without a result, for a program that does so.
    pub(super) fn leave_out_unanswered(&mut self) {
        for step in &mut self.list {
            let is_open: Vec<bool> = step.calls.iter().map(|placed| placed.answer.is_none()).collect();
            if !is_open.contains(&true) {
                continue;
            }
            let parts = std::mem::take(&mut step.parts);
            let mut calls: Vec<Option<Placed<'a>>> = std::mem::take(&mut step.calls).into_iter().map(Some).collect();
            for part in parts {
                match part {
                    Part::Block(block) => step.parts.push(Part::Block(block)),
                    Part::Call(at) => {
                        let Some(placed) = calls[at].take() else { continue };
                        if is_open[at] {
                            self.repairs.add(placed.n, RepairKind::CallLeftOut(placed.call.id.into_owned()));
                            continue;
                        }
                        step.parts.push(Part::Call(step.calls.len()));
                        step.calls.push(placed);
                    }
                }
            }
        }
    }

    fn last(&mut self) -> &mut Step<'a> {
        if self.list.is_empty() {
            self.list.push(Step::default());
        }
        let last = self.list.len() - 1;
        &mut self.list[last]
    }

    fn words(&mut self, block: Block<'a>) {
        self.in_content.clear();
        self.last().words.push(block);
    }

    /// The step that a block of the model's message `msg` belongs to.
    fn step_for_words(&mut self, msg: &Option<Cow<'a, str>>) -> &mut Step<'a> {
        self.end_message(msg);
        let last = self.last();
        let same_message = msg.is_some() && last.msg == *msg;
        if !last.words.is_empty() || (!last.calls.is_empty() && !same_message) {
            self.list.push(Step::default());
        }
        let last = self.last();
        last.msg = msg.clone().or(last.msg.take());
        last
    }

    /// Leaves out the thinking that the last message ended with, if another one begins.
    ///
    /// It was not sent when the other one was said, and may not be slipped in before it.
    fn end_message(&mut self, msg: &Option<Cow<'a, str>>) {
        let Some(last) = self.list.last_mut() else { return };
        if msg.is_none() || last.msg.is_none() || last.msg == *msg {
            return;
        }
        while let Some(Part::Block(Block { kind: Kind::Thinking, n, .. })) = last.parts.last() {
            self.repairs.add(*n, RepairKind::ThinkingLeftOut(NOTHING_FOLLOWS.to_owned()));
            last.parts.pop();
        }
    }

    fn call(&mut self, call: Call<'a>, msg: &Option<Cow<'a, str>>, n: u64, version: u64) {
        self.end_message(msg);
        let last = self.last();
        let same_message = msg.is_some() && last.msg == *msg;
        let other_message = msg.is_some() && last.msg.is_some() && !same_message;
        if !last.words.is_empty() || (last.answered && !same_message) || (other_message && !last.calls.is_empty()) {
            self.list.push(Step::default());
        }
        let answer = if version == 0 { self.early.take(&call.id) } else { None };
        if let Some(given) = &answer {
            self.repairs.add(given.n, RepairKind::ResultMoved(given.answer.id.clone().into_owned()));
        }
        let step_index = self.list.len().saturating_sub(1);
        self.known.insert(call.id.clone());
        let id = call.id.clone();
        let last = self.last();
        last.msg = msg.clone().or(last.msg.take());
        let call_index = last.calls.len();
        let is_open = answer.is_none();
        last.calls.push(Placed { call, n, answer });
        last.parts.push(Part::Call(call_index));
        if is_open {
            let open = self.open.entry(id).or_default();
            match open.last_mut() {
                Some((step, calls)) if *step == step_index => calls.push_back(call_index),
                _ => open.push((step_index, VecDeque::from([call_index]))),
            }
        }
    }

    fn answer(&mut self, given: Given<'a>) {
        let id = given.answer.id.clone();
        let Some((step, call)) = self.first_open(&id) else {
            if self.known.contains(&id) {
                self.repairs.add(given.n, RepairKind::SecondResult(id.into_owned()));
            } else {
                self.early.push(given);
            }
            return;
        };
        let is_last = step + 1 == self.list.len() && self.list[step].words.is_empty();
        if is_last {
            self.list[step].answered = true;
        } else {
            self.repairs.add(given.n, RepairKind::ResultMoved(id.into_owned()));
        }
        self.list[step].calls[call].answer = Some(given);
    }

    /// The first open call of that id in the latest step that has one; it is open no longer.
    fn first_open(&mut self, id: &str) -> Option<(usize, usize)> {
        let open = self.open.get_mut(id)?;
        let (step, calls) = open.last_mut()?;
        let found = calls.pop_front().map(|call| (*step, call));
        if calls.is_empty() {
            open.pop();
        }
        found
    }

    /// Calls without a saved result.
    pub(super) fn unanswered(&self) -> Vec<(String, u64)> {
        let calls = self.list.iter().flat_map(|step| &step.calls).filter(|placed| placed.answer.is_none());
        calls.map(|placed| (placed.call.id.clone().into_owned(), placed.n)).collect()
    }

    /// The number of the last record with words of the user.
    pub(super) fn last_words(&self) -> u64 {
        self.list.iter().rev().find_map(|step| step.words.last()).map_or(0, |block| block.n)
    }

    pub(super) fn repairs(&mut self) -> &mut Repairs {
        &mut self.repairs
    }

    /// The messages; thinking before record `thinking_from` stays out. `tools` are those that the request declares.
    pub(super) fn messages(mut self, thinking_from: u64, tools: &HashSet<String>) -> Messages<'a> {
        for given in self.early.list.into_iter().flatten() {
            self.repairs.add(given.n, RepairKind::OrphanResult(given.answer.id.into_owned()));
        }
        let mut out = Messages { list: Vec::new(), repairs: self.repairs };
        let mut server_calls: HashSet<String> = HashSet::new();
        for step in self.list {
            step.emit(thinking_from, &mut server_calls, &mut out);
        }
        out.close_server_calls(tools);
        out
    }
}

/// The texts in the `pinned` member of a compaction, each with the record that said it.
pub fn pins(raw: &str) -> Vec<(u64, Cow<'_, str>)> {
    let pin = |raw| {
        let members = json::members(raw)?;
        let n = json::member(&members, "n").and_then(json::number)?;
        Some((n, json::member(&members, "text").and_then(json::string)?))
    };
    json::elements(raw).unwrap_or_default().into_iter().filter_map(pin).collect()
}

impl<'a> Step<'a> {
    /// A step in which only the user speaks.
    pub(super) fn of_words(words: Vec<Block<'a>>) -> Self {
        Self { words, ..Self::default() }
    }

    /// About how many bytes the step is in a request.
    pub(super) fn size(&self, trims: &Trims) -> usize {
        let of_block = |block: &Block<'_>| trims.cap(block.n, block.json.len());
        let parts = self.parts.iter().map(|part| match part {
            Part::Block(block) => of_block(block),
            Part::Call(_) => 0,
        });
        let calls = self.calls.iter().map(|placed| answers::size(placed, trims));
        parts.chain(calls).sum::<usize>() + self.words.iter().map(of_block).sum::<usize>() + 80
    }

    /// Keeps the newest of what the model and the user said, at most `most` of each; tells how much was left out.
    pub(super) fn keep_newest(&mut self, most: usize) -> usize {
        let parts = self.parts.len().saturating_sub(most);
        let words = self.words.len().saturating_sub(most);
        self.parts.drain(..parts);
        self.words.drain(..words);
        parts + words
    }

    fn emit(self, thinking_from: u64, server_calls: &mut HashSet<String>, out: &mut Messages<'a>) {
        let mut ids = unique_ids(&self.calls, &mut out.repairs);
        let mut calls: Vec<Option<Placed<'a>>> = self.calls.into_iter().map(Some).collect();
        let mut pieces = Vec::new();
        let mut results = Vec::new();
        for part in self.parts {
            match part {
                Part::Block(block) => match &block.kind {
                    Kind::Thinking if block.n < thinking_from => {
                        let why = "it belongs to another beginning of the conversation".to_owned();
                        out.repairs.add(block.n, RepairKind::ThinkingLeftOut(why));
                    }
                    Kind::ServerResult { id } if !server_calls.contains(id.as_ref()) => {
                        let why = format!("a server tool result that answers no call ({id})");
                        out.repairs.add(block.n, RepairKind::BlockLeftOut(why));
                    }
                    kind => {
                        if let Kind::ServerUse { id, .. } = kind {
                            server_calls.insert(id.clone().into_owned());
                        }
                        pieces.push(Piece::Block(block));
                    }
                },
                Part::Call(index) => {
                    if let Some(placed) = calls[index].take() {
                        let id = std::mem::take(&mut ids[index]);
                        let (call, result) = call_and_result(placed, &id, &mut out.repairs);
                        pieces.push(Piece::Block(call));
                        results.push(result);
                    }
                }
            }
        }
        out.leave_out_last_thinking(&mut pieces);
        out.push(Role::Assistant, pieces);
        results.extend(self.words.into_iter().map(Piece::Block));
        out.push(Role::User, results);
    }
}
