//! A copy of a transcript, as a new session, in which everything has its place.
//!
//! The copy holds the conversation that resuming would find, with what was said before its summaries. Lines keep their identities, as in
//! a fork of Claude Code's own, and their bytes except for the session's id and for parents that had to be changed. What is not in the
//! copy (other branches, lines that cannot be read) is in the original, which nobody touches.
//!
//! A copy is never worse than the original. What the API would refuse is mended (`mend`), and before the copy is handed out it is looked at
//! as the original was: nothing is wrong with it, its messages need no repair, and they have every word that the messages of the original
//! have, apart from lines that a finding names. Otherwise there is no copy, and the reason is told.

use std::collections::{HashMap, HashSet};
use std::fmt;

use unforget_core::history::foreign_parts;
use unforget_core::json;
use unforget_core::scan::scan;

use super::mend::mend;
use super::tree::{Conversation, Tree};
use super::{Activity, Loose, cut, examine, number, starts};
use crate::id::SessionId;
use crate::row::{Members, Parent, members, text, trimmed};

/// What a call is answered with that has no result.
const NO_RESULT: &str = "No result of this call was recorded: the session ended before it was written down. Whether the tool ran, and what it did, is not known.";

/// The line that says where the conversation ends. The copy has one of its own, so that nobody has to guess.
const END: &str = "last-prompt";
/// Members that an added line takes over from the line that it answers.
const TAKEN_OVER: [&str; 5] = ["userType", "entrypoint", "cwd", "version", "gitBranch"];
/// Members by which a line beside the tree refers to one in it.
const REFERS: [&str; 3] = ["leafUuid", "messageId", "snapshotMessageId"];
/// Members that say which session a line is of.
const SESSION: [&str; 2] = ["sessionId", "session_id"];

/// Who and when a new line is.
pub struct Stamp<'a> {
    /// The session that the copy is.
    pub session: &'a SessionId,
    /// Makes the identity of a new line, a UUID.
    pub new_uuid: &'a mut dyn FnMut() -> String,
    /// The time, such as `2026-01-01T00:00:00.000Z`.
    pub now: &'a str,
}

/// Why there is no repaired copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The line of the original that it is about, from one.
    pub line: Option<u64>,
    /// What is wrong.
    pub why: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.why),
            None => write!(f, "{}", self.why),
        }
    }
}

/// The lines of the repaired copy; each is to be ended by a line feed, the last one too.
pub fn repair(bytes: &[u8], stamp: &mut Stamp<'_>) -> Result<Vec<String>, Refusal> {
    let (lines, _) = cut(bytes);
    let tree = Tree::read(&lines);
    let conversation = tree.conversation();
    let plan = Plan::new(&tree, &conversation, stamp.new_uuid);
    let copy = mend(rearranged(&lines, &plan, stamp)).map_err(|why| Refusal { line: None, why })?;
    check(bytes, &plan, &copy)?;
    Ok(copy)
}

/// Whether a copy is as good as it is meant to be.
fn check(bytes: &[u8], plan: &Plan<'_>, copy: &[String]) -> Result<(), Refusal> {
    let text: String = copy.iter().map(|line| format!("{line}\n")).collect();
    let wrong = examine(text.as_bytes(), Activity::Ended, &|_| true);
    if let Some(finding) = wrong.into_iter().next() {
        return Err(Refusal { line: None, why: format!("in the copy, {}", finding.problem) });
    }
    let (parts, _) = foreign_parts(&scan(text.as_bytes()).records);
    let mut said: HashSet<String> = parts.iter().flat_map(|part| strings(&part.json)).collect();
    // Where the conversation is said to end before the last line, resuming finds more than is shown.
    let lines: Vec<&[u8]> = copy.iter().map(String::as_bytes).collect();
    let tree = Tree::read(&lines);
    let conversation = tree.conversation();
    let held = tree.nodes.iter().enumerate().filter(|(index, _)| conversation.holds[*index]);
    said.extend(held.flat_map(|(_, node)| strings(&copy[node.source])));
    let scanned = scan(bytes);
    let starts = starts(bytes);
    let line_of: HashMap<u64, usize> = scanned
        .records
        .iter()
        .map(|record| (record.n, starts.partition_point(|start| *start <= record.offset).saturating_sub(1)))
        .collect();
    let raw_of: HashMap<u64, &str> = scanned.records.iter().map(|record| (record.n, record.raw)).collect();
    let accounted = plan.accounted();
    let (parts, _) = foreign_parts(&scanned.records);
    for part in &parts {
        let Some(line) = line_of.get(&part.n).filter(|line| !accounted.contains(line)) else { continue };
        let missing: Vec<String> = strings(&part.json).into_iter().filter(|text| !said.contains(text)).collect();
        if missing.is_empty() {
            continue;
        }
        // A note that stands for something in what is shown is no word of the line.
        let own: HashSet<String> = strings(raw_of.get(&part.n).copied().unwrap_or_default()).into_iter().collect();
        if missing.iter().any(|text| own.contains(text)) {
            return Err(Refusal {
                line: Some(number(*line)),
                why: "its words would be missing in the copy".to_owned(),
            });
        }
    }
    Ok(())
}

/// Members whose values are no words.
const NO_WORDS: [&str; 5] = ["id", "tool_use_id", "type", "signature", "caller"];

/// The texts in a JSON value that are words.
fn strings(raw: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut waiting = vec![raw];
    while let Some(raw) = waiting.pop() {
        if let Some(text) = json::string(raw) {
            if !text.trim().is_empty() {
                found.push(text.into_owned());
            }
        } else if let Some(elements) = json::elements(raw) {
            waiting.extend(elements);
        } else {
            let members = json::members(raw).unwrap_or_default();
            waiting
                .extend(members.iter().filter(|(name, _)| !NO_WORDS.contains(&name.as_ref())).map(|(_, value)| value));
        }
    }
    found
}

/// The lines of the conversation, in their places.
fn rearranged(lines: &[&[u8]], plan: &Plan<'_>, stamp: &mut Stamp<'_>) -> Vec<String> {
    let tree = plan.tree;
    let at_line: HashMap<usize, usize> =
        tree.nodes.iter().enumerate().map(|(index, node)| (node.line, index)).collect();
    let doubles: HashSet<usize> = tree.doubles.iter().map(|double| double.line).collect();
    let (mut copy, mut last_words) = (Vec::new(), None);
    for (number, bytes) in lines.iter().enumerate().filter(|(number, _)| !doubles.contains(number)) {
        let node = at_line.get(&number).copied();
        let bytes = node.map_or(*bytes, |index| lines[tree.nodes[index].source]);
        let Some((line, members)) = trimmed(bytes).zip(members(bytes)) else { continue };
        if text(&members, "type").as_deref() == Some(END) {
            last_words = json::member(&members, "lastPrompt").or(last_words);
            continue;
        }
        let is_in = match node {
            Some(index) => plan.holds[index],
            None => plan.holds_what_it_refers_to(&members),
        };
        if !is_in {
            continue;
        }
        let session = json::quote(stamp.session.as_str());
        let mut edits: Vec<(&str, String)> = Vec::new();
        edits.extend(
            SESSION.iter().filter(|name| json::member(&members, name).is_some()).map(|name| (*name, session.clone())),
        );
        if let Some(parent) = node.and_then(|index| plan.new_parent(index)) {
            edits.push(("parentUuid", parent));
        }
        copy.push(edited(line, &members, edits));
        for call in node.and_then(|index| plan.answered_behind.get(&index)).into_iter().flatten() {
            let node = &tree.nodes[*call];
            let source = members_of(lines[node.source]);
            for (id, uuid) in &plan.answers[call] {
                copy.push(answer(&source, &node.row.uuid, id, uuid, stamp));
            }
        }
    }
    if let Some(end) = plan.end() {
        let words = last_words.map(|words| format!(",\"lastPrompt\":{words}")).unwrap_or_default();
        let (end, session) = (json::quote(&end), json::quote(stamp.session.as_str()));
        copy.push(format!(r#"{{"type":"{END}"{words},"leafUuid":{end},"explicit":true,"sessionId":{session}}}"#));
    }
    copy
}

/// What is in the copy, and what is new in it.
struct Plan<'t> {
    tree: &'t Tree,
    conversation: &'t Conversation,
    /// For each node, whether the copy has it.
    holds: Vec<bool>,
    /// By the node of a call: calls without a result, and the identities of the lines that answer them.
    answers: HashMap<usize, Vec<(String, String)>>,
    /// By the last block of a message: the nodes of its calls that are answered behind it.
    answered_behind: HashMap<usize, Vec<usize>>,
}

impl<'t> Plan<'t> {
    fn new(tree: &'t Tree, conversation: &'t Conversation, new_uuid: &mut dyn FnMut() -> String) -> Self {
        let loose = Loose::find(tree, conversation);
        let mut strays: HashMap<usize, usize> = HashMap::new();
        for (index, _) in &loose.results {
            *strays.entry(*index).or_default() += 1;
        }
        // A line that has nothing but results of calls which are not there would be refused by the API.
        let is_stray = |index: usize| {
            let said = &tree.nodes[index].said;
            !said.has_more && strays.get(&index).is_some_and(|strays| *strays == said.results.len())
        };
        let is_in =
            |index: usize| tree.nodes[index].row.is_sidechain || (conversation.holds[index] && !is_stray(index));
        let holds = (0..tree.nodes.len()).map(is_in).collect();
        let mut answers: HashMap<usize, Vec<(String, String)>> = HashMap::new();
        let mut answered_behind: HashMap<usize, Vec<usize>> = HashMap::new();
        for (index, id, _) in loose.calls {
            let of_call = answers.entry(index).or_default();
            if of_call.is_empty() {
                let message = &tree.nodes[index].said.message;
                let last = tree.nodes.iter().rposition(|node| message.is_some() && node.said.message == *message);
                answered_behind.entry(last.unwrap_or(index)).or_default().push(index);
            }
            of_call.push((id, new_uuid()));
        }
        Self { tree, conversation, holds, answers, answered_behind }
    }

    /// Lines of the tree that are not in the copy, from zero: a finding names each of them, or another line says the same.
    fn accounted(&self) -> HashSet<usize> {
        let mut lines: HashSet<usize> =
            self.tree.doubles.iter().flat_map(|double| [double.line, double.other]).collect();
        let nodes = self.tree.nodes.iter().enumerate();
        lines.extend(nodes.filter(|(index, _)| !self.conversation.holds[*index]).map(|(_, node)| node.line));
        lines
    }

    /// Whether the copy has the lines of the tree that a line beside it refers to, if it refers to any.
    fn holds_what_it_refers_to(&self, members: &Members<'_>) -> bool {
        let uuids = REFERS.iter().filter_map(|name| text(members, name));
        uuids.filter_map(|uuid| self.tree.by_uuid.get(&uuid)).all(|index| self.holds[*index])
    }

    /// Where the copy's conversation ends.
    fn end(&self) -> Option<String> {
        let end = self.tree.end()?;
        let at = if self.holds[end] { end } else { self.held_above(end)? };
        let answer = self.answers.get(&at).and_then(|answers| answers.last());
        Some(answer.map_or(&self.tree.nodes[at].row.uuid, |(_, uuid)| uuid).clone())
    }

    fn above(&self, index: usize) -> Option<usize> {
        self.conversation.bridges.get(&index).copied().or_else(|| self.tree.parent(index))
    }

    /// What a line continues in the copy, as JSON, if that is something else than in the original.
    fn new_parent(&self, index: usize) -> Option<String> {
        let node = &self.tree.nodes[index];
        if node.row.is_sidechain || (self.above(index).is_none() && !self.conversation.is_adrift(self.tree, index)) {
            return None;
        }
        let Some(above) = self.held_above(index) else {
            // Nothing is before it: it is the beginning.
            return Some("null".to_owned());
        };
        let is_same_message = node.said.message.is_some() && node.said.message == self.tree.nodes[above].said.message;
        // What goes on behind a call that is answered now goes on behind the answer.
        let answer = self.answers.get(&above).and_then(|answers| answers.last());
        let parent = match answer {
            Some((_, uuid)) if node.said.results.is_empty() && !is_same_message => uuid,
            _ => &self.tree.nodes[above].row.uuid,
        };
        (node.row.parent != Parent::Of(parent.clone())).then(|| json::quote(parent))
    }

    /// The nearest node on the way back that the copy has.
    fn held_above(&self, index: usize) -> Option<usize> {
        let way_back = std::iter::successors(self.above(index), |above| self.above(*above));
        way_back.take(self.tree.nodes.len()).find(|above| self.holds[*above])
    }
}

fn members_of(line: &[u8]) -> Members<'_> {
    members(line).unwrap_or_default()
}

/// The line with some members changed in place, and those that it lacks put in front.
pub(super) fn edited(line: &str, members: &Members<'_>, edits: Vec<(&str, String)>) -> String {
    let mut changes: Vec<(usize, usize, String)> = Vec::new();
    for (name, value) in edits {
        match json::member(members, name) {
            // Members are pieces of the line.
            Some(raw) => {
                let start = raw.as_ptr() as usize - line.as_ptr() as usize;
                changes.push((start, start + raw.len(), value));
            }
            None => changes.push((1, 1, format!("{}:{value},", json::quote(name)))),
        }
    }
    changes.sort();
    let mut out = line.to_owned();
    for (start, end, value) in changes.into_iter().rev() {
        out.replace_range(start..end, &value);
    }
    out
}

/// The line that answers a call which has no result.
fn answer(call: &Members<'_>, call_uuid: &str, id: &str, uuid: &str, stamp: &Stamp<'_>) -> String {
    let (call_uuid, uuid, id, text) =
        (json::quote(call_uuid), json::quote(uuid), json::quote(id), json::quote(NO_RESULT));
    let (now, session) = (json::quote(stamp.now), json::quote(stamp.session.as_str()));
    let taken_over: String = TAKEN_OVER
        .iter()
        .filter_map(|name| Some(format!(",{}:{}", json::quote(name), json::member(call, name)?)))
        .collect();
    format!(
        r#"{{"parentUuid":{call_uuid},"isSidechain":false,"type":"user","message":{{"role":"user","content":[{{"type":"tool_result","content":{text},"is_error":true,"tool_use_id":{id}}}]}},"uuid":{uuid},"timestamp":{now},"toolUseResult":{text},"sourceToolAssistantUUID":{call_uuid}{taken_over},"sessionId":{session}}}"#
    )
}
