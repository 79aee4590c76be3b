//! Calls and results in their places.
//!
//! A step is one message of the model, the results of its calls, and the user's words after them. Records
//! come in the order in which they were written, which is not always the order in which the API wants them:
//! the user types while a tool runs, the tutorials wrote results before their calls, a crash took a
//! result with it. A result goes to the latest step with an open call of its id; a call that stays
//! open gets a result that says so; a result that answers nothing stays out.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::block::{self, Answer, Block, Call, Element, Kind};
use super::repair::{RepairKind, Repairs};
use super::{CUT_OFF, MAX_DEPTH, MAX_TEXT, Message, Role, SUMMARY, UNKNOWN_OUTCOME};
use crate::record::{Body, Record};
use crate::{encode, json};

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
struct Placed<'a> {
    call: Call<'a>,
    n: u64,
    answer: Option<Given<'a>>,
}

/// A result and where it came from.
#[derive(Debug)]
struct Given<'a> {
    answer: Answer<'a>,
    n: u64,
    version: u64,
}

/// All steps of a conversation.
#[derive(Debug)]
pub(super) struct Steps<'a> {
    pub(super) list: Vec<Step<'a>>,
    open: HashMap<Cow<'a, str>, Vec<(usize, usize)>>,
    /// Results that came before any call of their id.
    early: Vec<Given<'a>>,
    known: HashSet<Cow<'a, str>>,
    /// Ids of calls that came inside a message's content since the user last spoke.
    in_content: HashSet<Cow<'a, str>>,
    repairs: Repairs,
}

impl Default for Steps<'_> {
    fn default() -> Self {
        Self {
            list: vec![Step::default()],
            open: HashMap::new(),
            early: Vec::new(),
            known: HashSet::new(),
            in_content: HashSet::new(),
            repairs: Repairs::default(),
        }
    }
}

/// Messages on their way out.
pub(super) struct Messages<'a> {
    pub(super) list: Vec<Outgoing<'a>>,
    pub(super) repairs: Repairs,
}

/// A message before its blocks become text.
pub(super) struct Outgoing<'a> {
    role: Role,
    pub(super) pieces: Vec<Piece<'a>>,
}

/// A block, or a result with the blocks in it.
pub(super) enum Piece<'a> {
    Block(Block<'a>),
    Result { head: String, content: ResultContent<'a>, tail: &'static str },
}

/// What is in a result.
pub(super) enum ResultContent<'a> {
    Text(Cow<'a, str>),
    Blocks(Vec<Block<'a>>),
}

impl<'a> Steps<'a> {
    /// Takes the next record of the path.
    pub(super) fn take(&mut self, record: &Record<'a>) {
        let n = record.n;
        if record.is_sent() && matches!(json::sendable(record.raw), Cow::Owned(_)) {
            self.repairs.add(n, RepairKind::CharactersReplaced);
        }
        match &record.body {
            Body::User { content } => {
                for element in block::elements(content, Role::User, n, &mut self.repairs) {
                    match element {
                        Element::Block(block) => self.words(block),
                        Element::Answer(answer) => self.answer(Given { answer, n, version: record.version }),
                        Element::Call(_) => {}
                    }
                }
            }
            Body::Assistant { content, msg, .. } => {
                let elements = block::elements(content, Role::Assistant, n, &mut self.repairs);
                for element in elements {
                    match element {
                        Element::Block(block) => {
                            let step = self.step_for_words(msg);
                            step.parts.push(Part::Block(block));
                        }
                        Element::Call(call) => {
                            self.in_content.insert(call.id.clone());
                            self.call(call, msg, n, record.version);
                        }
                        Element::Answer(_) => {}
                    }
                }
            }
            Body::ToolUse(call) => {
                if self.in_content.contains(call.id.as_ref()) {
                    self.repairs.add(n, RepairKind::CallWrittenTwice(call.id.clone().into_owned()));
                    return;
                }
                let placed =
                    Call { id: call.id.clone(), name: call.name.clone(), input: call.input, caller: call.caller };
                self.call(placed, &call.msg, n, record.version);
            }
            Body::ToolResult(result) => {
                let (id, content) = (result.id.clone(), result.content);
                let answer = Answer { id, content, is_error: result.is_error, is_repair: result.is_repair };
                self.answer(Given { answer, n, version: record.version });
            }
            Body::Compaction { summary, .. } => {
                let text = if summary.len() > MAX_TEXT { Cow::Owned(block::shorten(summary)) } else { summary.clone() };
                self.words(block::note(&format!("{SUMMARY}\n{text}"), n));
            }
            Body::Invalid { kind, why } => {
                self.repairs.add(n, RepairKind::RecordLeftOut(format!("{kind}: {why}")));
            }
            _ => {}
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
        let last = self.last();
        let same_message = msg.is_some() && last.msg == *msg;
        if !last.words.is_empty() || (!last.calls.is_empty() && !same_message) {
            self.list.push(Step::default());
        }
        let last = self.last();
        last.msg = msg.clone().or(last.msg.take());
        last
    }

    fn call(&mut self, call: Call<'a>, msg: &Option<Cow<'a, str>>, n: u64, version: u64) {
        let last = self.last();
        let same_message = msg.is_some() && last.msg == *msg;
        let other_message = msg.is_some() && last.msg.is_some() && !same_message;
        if !last.words.is_empty() || (last.answered && !same_message) || (other_message && !last.calls.is_empty()) {
            self.list.push(Step::default());
        }
        let early = match version {
            0 => self.early.iter().position(|given| given.version == 0 && given.answer.id == call.id),
            _ => None,
        };
        let answer = early.map(|at| self.early.remove(at));
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
            self.open.entry(id).or_default().push((step_index, call_index));
        }
    }

    fn answer(&mut self, given: Given<'a>) {
        let id = given.answer.id.clone();
        let Some(open) = self.open.get_mut(&id).filter(|open| !open.is_empty()) else {
            if self.known.contains(&id) {
                self.repairs.add(given.n, RepairKind::SecondResult(id.into_owned()));
            } else {
                self.early.push(given);
            }
            return;
        };
        let latest = open[open.len() - 1].0;
        let first = open.iter().position(|(step, _)| *step == latest).unwrap_or(0);
        let (step, call) = open.remove(first);
        let is_last = step + 1 == self.list.len() && self.list[step].words.is_empty();
        if is_last {
            self.list[step].answered = true;
        } else {
            self.repairs.add(given.n, RepairKind::ResultMoved(id.into_owned()));
        }
        self.list[step].calls[call].answer = Some(given);
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
        for given in std::mem::take(&mut self.early) {
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

impl<'a> Step<'a> {
    /// A step in which only the user speaks.
    pub(super) fn of_words(words: Vec<Block<'a>>) -> Self {
        Self { words, ..Self::default() }
    }

    /// About how many bytes the step is in a request.
    pub(super) fn size(&self) -> usize {
        let parts = self.parts.iter().map(|part| match part {
            Part::Block(block) => block.json.len(),
            Part::Call(_) => 0,
        });
        let calls = self.calls.iter().map(|placed| {
            let answer =
                placed.answer.as_ref().map_or(UNKNOWN_OUTCOME.len(), |given| given.answer.content.len().min(MAX_TEXT));
            placed.call.input.len() + placed.call.id.len() * 2 + placed.call.name.len() + answer + 120
        });
        parts.chain(calls).sum::<usize>() + self.words.iter().map(|block| block.json.len()).sum::<usize>() + 80
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
        out.push(Role::Assistant, pieces);
        results.extend(self.words.into_iter().map(Piece::Block));
        out.push(Role::User, results);
    }
}

/// Ids that the API accepts, no two alike.
fn unique_ids(calls: &[Placed<'_>], repairs: &mut Repairs) -> Vec<String> {
    let mut used: HashSet<String> = HashSet::new();
    let mut ids = Vec::with_capacity(calls.len());
    for placed in calls {
        let from = placed.call.id.as_ref();
        let well_formed = from.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
        let base = if well_formed {
            from.to_owned()
        } else {
            let safe: String =
                from.chars().take(40).map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect();
            format!("{safe}_{}", &encode::sha256_hex(from.as_bytes())[..12])
        };
        let mut to = base.clone();
        let mut copy = 2_u64;
        while !used.insert(to.clone()) {
            to = format!("{base}_{copy}");
            copy += 1;
        }
        if to != from {
            repairs.add(placed.n, RepairKind::CallRenamed { from: from.to_owned(), to: to.clone() });
        }
        ids.push(to);
    }
    ids
}

fn call_and_result<'a>(placed: Placed<'a>, id: &str, repairs: &mut Repairs) -> (Block<'a>, Piece<'a>) {
    let Placed { call, n, answer } = placed;
    let (input, cut_off) = arguments(&call, n, repairs);
    let name = tool_name(&call.name, n, repairs);
    let mut json = format!("{{\"type\":\"tool_use\",\"id\":\"{id}\",\"name\":\"{name}\",\"input\":{input}");
    if let Some(caller) = call.caller.filter(|caller| caller.starts_with('{') && !json::deeper_than(caller, MAX_DEPTH))
    {
        json.push_str(",\"caller\":");
        json.push_str(&json::sendable(caller));
    }
    json.push('}');
    let head = format!("{{\"type\":\"tool_result\",\"tool_use_id\":\"{id}\",\"content\":");
    const FAILED: &str = ",\"is_error\":true}";
    // That the call was not run is known; a stand-in that says less adds nothing.
    let (content, tail) = match answer.filter(|given| !(cut_off && given.answer.is_repair)) {
        None if cut_off => (ResultContent::Text(Cow::Owned(json::quote(CUT_OFF))), FAILED),
        None => {
            repairs.add(n, RepairKind::ResultAdded(call.id.into_owned()));
            (ResultContent::Text(Cow::Owned(json::quote(UNKNOWN_OUTCOME))), FAILED)
        }
        Some(given) => {
            let is_error = given.answer.is_error;
            let content = result_content(&given, repairs);
            if cut_off {
                let mut blocks = vec![block::note(CUT_OFF, n)];
                match content {
                    ResultContent::Text(text) if text != "\"\"" => blocks.push(Block {
                        json: Cow::Owned(format!("{{\"type\":\"text\",\"text\":{text}}}")),
                        kind: Kind::Other,
                        n: given.n,
                    }),
                    ResultContent::Text(_) => {}
                    ResultContent::Blocks(more) => blocks.extend(more),
                }
                (ResultContent::Blocks(blocks), FAILED)
            } else {
                (content, if is_error { FAILED } else { "}" })
            }
        }
    };
    (Block { json: Cow::Owned(json), kind: Kind::Other, n }, Piece::Result { head, content, tail })
}

/// The arguments as an object, and whether they were cut off.
fn arguments<'a>(call: &Call<'a>, n: u64, repairs: &mut Repairs) -> (Cow<'a, str>, bool) {
    if call.input.starts_with('{') {
        if json::deeper_than(call.input, MAX_DEPTH) {
            repairs.add(n, RepairKind::TooDeep);
            return (Cow::Borrowed("{\"not_sent\":\"nested too deeply\"}"), false);
        }
        if call.input.len() > MAX_TEXT {
            repairs.add(n, RepairKind::Shortened { bytes: call.input.len() as u64 });
            return (Cow::Borrowed("{\"not_sent\":\"too long; the transcript has it\"}"), false);
        }
        return (json::sendable(call.input), false);
    }
    // Some programs store the arguments as the text that the model streamed.
    if let Some(text) = json::string(call.input)
        && text.trim_start().starts_with('{')
        && serde_json::from_str::<&serde_json::value::RawValue>(&text).is_ok()
        && !json::deeper_than(&text, MAX_DEPTH)
        && text.len() <= MAX_TEXT
    {
        repairs.add(n, RepairKind::InputDecoded(call.id.clone().into_owned()));
        return (Cow::Owned(json::sendable(text.trim()).into_owned()), false);
    }
    repairs.add(n, RepairKind::InputCutOff(call.id.clone().into_owned()));
    (Cow::Borrowed("{}"), true)
}

fn tool_name(name: &str, n: u64, repairs: &mut Repairs) -> String {
    let to: String = name
        .chars()
        .take(64)
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' })
        .collect();
    if to != name {
        repairs.add(n, RepairKind::ToolRenamed { from: name.to_owned(), to: to.clone() });
    }
    to
}

/// What a tool gave back: text stays text, content blocks stay blocks, other JSON becomes its own text.
fn result_content<'a>(given: &Given<'a>, repairs: &mut Repairs) -> ResultContent<'a> {
    let raw = given.answer.content;
    let as_text = |text: &str, repairs: &mut Repairs| {
        if text.len() <= MAX_TEXT {
            return ResultContent::Text(Cow::Owned(json::sendable(&json::quote(text)).into_owned()));
        }
        repairs.add(given.n, RepairKind::Shortened { bytes: text.len() as u64 });
        ResultContent::Text(Cow::Owned(json::sendable(&json::quote(&block::shorten(text))).into_owned()))
    };
    if raw.starts_with('"') {
        if raw.len() <= MAX_TEXT {
            return ResultContent::Text(json::sendable(raw));
        }
        return as_text(&json::string(raw).unwrap_or_default(), repairs);
    }
    let nested = |block: &&str| {
        json::members(block)
            .and_then(|members| json::member(&members, "type").and_then(json::string))
            .is_some_and(|kind| matches!(kind.as_ref(), "text" | "image" | "document" | "search_result"))
    };
    match json::elements(raw) {
        Some(blocks) if blocks.iter().all(nested) => {
            let elements = block::elements(raw, Role::User, given.n, repairs);
            ResultContent::Blocks(
                elements
                    .into_iter()
                    .filter_map(|element| match element {
                        Element::Block(block) => Some(block),
                        Element::Call(_) | Element::Answer(_) => None,
                    })
                    .collect(),
            )
        }
        _ => as_text(raw, repairs),
    }
}

impl<'a> Messages<'a> {
    /// Leaves out server tool calls that were still open when the user spoke: only their result could follow them.
    ///
    /// From the end, because a message that is left empty lets its neighbours meet, which may close a call before it.
    /// A call at the very end goes on if the request has its tool.
    fn close_server_calls(&mut self, tools: &HashSet<String>) {
        let mut reversed: Vec<Outgoing<'a>> = Vec::with_capacity(self.list.len());
        for mut message in std::mem::take(&mut self.list).into_iter().rev() {
            let next = reversed.last_mut();
            match (message.role, next) {
                (Role::User, Some(next)) if next.role == Role::User => {
                    message.pieces.append(&mut next.pieces);
                    reversed.pop();
                }
                (Role::Assistant, Some(next)) if next.pieces.iter().any(|piece| matches!(piece, Piece::Block(_))) => {
                    self.leave_out_open(&mut message.pieces, |_| true);
                }
                (Role::Assistant, None) => self.leave_out_open(&mut message.pieces, |name| !is_declared(name, tools)),
                _ => {}
            }
            if !message.pieces.iter().all(is_blank) {
                reversed.push(message);
            }
        }
        reversed.reverse();
        self.list = reversed;
    }

    fn leave_out_open(&mut self, pieces: &mut Vec<Piece<'a>>, which: impl Fn(&str) -> bool) {
        let done: HashSet<String> = pieces.iter().filter_map(server_result).collect();
        pieces.retain(|piece| match piece {
            Piece::Block(Block { kind: Kind::ServerUse { id, name }, n, .. })
                if !done.contains(id.as_ref()) && which(name) =>
            {
                self.repairs.add(*n, RepairKind::ServerCallLeftOut(id.clone().into_owned()));
                false
            }
            _ => true,
        });
    }

    /// Adds to the last message if it is of the same role; leaves out what has no words.
    fn push(&mut self, role: Role, pieces: Vec<Piece<'a>>) {
        if pieces.iter().all(is_blank) {
            for piece in &pieces {
                if let Piece::Block(block) = piece {
                    self.repairs.add(block.n, RepairKind::Empty);
                }
            }
            return;
        }
        match self.list.last_mut() {
            Some(last) if last.role == role => last.pieces.extend(pieces),
            _ => self.list.push(Outgoing { role, pieces }),
        }
    }
}

/// One declared tool may act under several names: `code_execution` also as `bash_code_execution`.
fn is_declared(name: &str, tools: &HashSet<String>) -> bool {
    let suffixes = name.match_indices('_').map(|(at, _)| &name[at + 1..]);
    std::iter::once(name).chain(suffixes).any(|name| tools.contains(name))
}

fn is_blank(piece: &Piece<'_>) -> bool {
    matches!(piece, Piece::Block(Block { kind: Kind::Text { blank: true }, .. }))
}

fn server_result(piece: &Piece<'_>) -> Option<String> {
    match piece {
        Piece::Block(Block { kind: Kind::ServerResult { id }, .. }) => Some(id.clone().into_owned()),
        _ => None,
    }
}

impl<'a> Outgoing<'a> {
    /// The message with its blocks as text.
    pub(super) fn render(self) -> Message<'a> {
        let blocks = self.pieces.into_iter().map(|piece| match piece {
            Piece::Block(block) => block.json,
            Piece::Result { mut head, content, tail } => {
                match content {
                    ResultContent::Text(text) => {
                        head.reserve_exact(text.len() + tail.len());
                        head.push_str(&text);
                    }
                    ResultContent::Blocks(blocks) => {
                        head.push('[');
                        for (i, block) in blocks.iter().enumerate() {
                            if i > 0 {
                                head.push(',');
                            }
                            head.push_str(&block.json);
                        }
                        head.push(']');
                    }
                }
                head.push_str(tail);
                Cow::Owned(head)
            }
        });
        Message { role: self.role, blocks: blocks.collect() }
    }
}
