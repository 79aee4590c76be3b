//! The tree of a transcript, and which of its lines the conversation is made of.
//!
//! The rules are those of Claude Code, as it was seen to follow them. Where the conversation ends is said by the last `last-prompt` line
//! behind the newest boundary, if the last line of the file does not go on from there; otherwise it ends at the last line. From there it goes back from parent to parent; at a boundary, what was said before it is
//! reached by another name. An answer of several blocks is several lines, and the results of calls that ran together each hang
//! below their own call: all of them belong to the conversation, though only one is on the way.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use unforget_core::json;

use crate::row::{Kind, Members, Parent, Row, members, object, text};

/// How much of what was said is kept to show it.
const WORDS: usize = 60;
/// How many lines in a row that nobody said may hang below another one.
const MAX_BESIDE: usize = 64;

/// A line of the tree.
#[derive(Debug)]
pub(super) struct Node {
    /// Which line it is, from zero.
    pub(super) line: usize,
    /// Which line it is read from: of several with one identity the last one counts, in the place of the first.
    pub(super) source: usize,
    pub(super) row: Row,
    pub(super) said: Said,
}

/// What a line says.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// The answer that it is a block of.
    pub(super) message: Option<String>,
    /// Calls of tools: their ids and the tools.
    pub(super) calls: Vec<(String, String)>,
    /// Calls that it has the results of.
    pub(super) results: Vec<String>,
    /// Whether there is something besides results.
    pub(super) has_more: bool,
    /// How it begins, if a person said it.
    pub(super) prompt: Option<String>,
    /// Files that it refers to: an absolute path, or the side of an agent.
    pub(super) files: Vec<String>,
}

/// A line with an identity that another line has, too.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Double {
    pub(super) line: usize,
    pub(super) uuid: String,
    pub(super) other: usize,
    pub(super) differs: bool,
}

/// The lines of a transcript as a tree.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) nodes: Vec<Node>,
    pub(super) by_uuid: HashMap<String, usize>,
    pub(super) children: Vec<Vec<usize>>,
    pub(super) doubles: Vec<Double>,
    /// Lines that are no JSON objects, and are not blank.
    pub(super) broken: Vec<usize>,
    /// The last line of the file that is not an agent's.
    last: Option<usize>,
    /// Where the conversation is said to end.
    checkpoint: Option<Checkpoint>,
}

/// Where the conversation is said to end.
#[derive(Debug)]
struct Checkpoint {
    uuid: String,
    /// A person chose it, and nothing was said since.
    is_chosen: bool,
}

/// Which lines the conversation is made of.
#[derive(Debug)]
pub(super) struct Conversation {
    /// For each node, whether it belongs to the conversation.
    pub(super) holds: Vec<bool>,
    /// Nodes that one of its boundaries names: nobody looks for their parents.
    pub(super) named: HashSet<usize>,
    /// Nodes whose parent is not there, and the one that takes its place.
    pub(super) bridges: HashMap<usize, usize>,
}

impl Tree {
    pub(super) fn read(lines: &[&[u8]]) -> Self {
        let mut tree = Self::default();
        for (line, bytes) in lines.iter().enumerate() {
            let Some(members) = members(bytes) else {
                if !bytes.trim_ascii().is_empty() {
                    tree.broken.push(line);
                }
                continue;
            };
            let Some(row) = Row::of(&members) else {
                tree.note_checkpoint(&members);
                continue;
            };
            if let Some(checkpoint) = tree.checkpoint.as_mut().filter(|_| !row.is_sidechain) {
                checkpoint.is_chosen = false;
            }
            if row.boundary.is_some() && !row.is_sidechain {
                tree.checkpoint = None;
            }
            let (is_sidechain, said) = (row.is_sidechain, Said::of(row.kind, &members));
            let index = match tree.by_uuid.entry(row.uuid.clone()) {
                Entry::Occupied(place) => {
                    let node = &mut tree.nodes[*place.get()];
                    let differs = lines[node.source].trim_ascii() != bytes.trim_ascii();
                    tree.doubles.push(Double { line, uuid: row.uuid.clone(), other: node.source, differs });
                    (node.source, node.row, node.said) = (line, row, said);
                    *place.get()
                }
                Entry::Vacant(place) => {
                    place.insert(tree.nodes.len());
                    tree.nodes.push(Node { line, source: line, row, said });
                    tree.nodes.len() - 1
                }
            };
            if !is_sidechain {
                tree.last = Some(index);
            }
        }
        // The transcript of an agent is a conversation, too.
        if tree.last.is_none() {
            tree.nodes.iter_mut().for_each(|node| node.row.is_sidechain = false);
            tree.last = tree.nodes.len().checked_sub(1);
        }
        tree.children = vec![Vec::new(); tree.nodes.len()];
        for index in 0..tree.nodes.len() {
            if let Some(parent) = tree.parent(index) {
                tree.children[parent].push(index);
            }
        }
        tree
    }

    /// The node that a node continues, if it is there.
    pub(super) fn parent(&self, index: usize) -> Option<usize> {
        match &self.nodes[index].row.parent {
            Parent::Of(uuid) => self.by_uuid.get(uuid).copied(),
            Parent::Root | Parent::Unsaid => None,
        }
    }

    /// Whether a node continues another one, and nobody knows which.
    fn is_adrift(&self, index: usize) -> bool {
        self.nodes[index].row.parent != Parent::Root && self.parent(index).is_none()
    }

    /// The nodes that a boundary names.
    pub(super) fn named(&self, index: usize) -> impl Iterator<Item = usize> {
        let boundary = self.nodes[index].row.boundary.iter();
        boundary.flat_map(|boundary| &boundary.preserved).filter_map(|uuid| self.by_uuid.get(uuid).copied())
    }

    /// Finds the conversation.
    pub(super) fn conversation(&self) -> Conversation {
        let holds = vec![false; self.nodes.len()];
        let mut found = Conversation { holds, named: HashSet::new(), bridges: HashMap::new() };
        let mut at = self.end();
        while let Some(index) = at.filter(|index| !found.holds[*index]) {
            found.holds[index] = true;
            found.named.extend(self.named(index));
            at = self.parent(index).or_else(|| match &self.nodes[index].row.boundary {
                Some(boundary) => boundary.before.as_ref().and_then(|uuid| self.by_uuid.get(uuid).copied()),
                None if found.is_adrift(self, index) => {
                    // What continues it cannot be what it continues.
                    let is_before = |before: &usize| {
                        !self.nodes[*before].row.is_sidechain && !self.stands_behind(*before, index, &found.bridges)
                    };
                    let before = (0..index).rev().find(is_before)?;
                    found.bridges.insert(index, before);
                    Some(before)
                }
                None => None,
            });
        }
        self.complete(&mut found.holds);
        for index in (0..self.nodes.len()).filter(|index| found.holds[*index]) {
            if found.is_adrift(self, index)
                && !found.bridges.contains_key(&index)
                && let Some(before) = (0..index)
                    .rev()
                    .find(|before| found.holds[*before] && !self.stands_behind(*before, index, &found.bridges))
            {
                found.bridges.insert(index, before);
            }
        }
        found
    }

    /// Whether the way back from a node leads over another one.
    fn stands_behind(&self, index: usize, other: usize, bridges: &HashMap<usize, usize>) -> bool {
        let above = |index: &usize| bridges.get(index).copied().or_else(|| self.parent(*index));
        std::iter::successors(Some(index), above).take(self.nodes.len()).any(|above| above == other)
    }

    /// Whether nobody says anything below a node, as far as one looks.
    fn leads_nowhere(&self, index: usize) -> bool {
        let mut at = index;
        for _ in 0..MAX_BESIDE {
            match self.children[at].as_slice() {
                [] => return true,
                [only] if self.nodes[*only].row.kind == Kind::Other => at = *only,
                _ => return false,
            }
        }
        false
    }

    fn note_checkpoint(&mut self, members: &Members<'_>) {
        if text(members, "type").as_deref() != Some("last-prompt") {
            return;
        }
        let is_chosen = json::member(members, "explicit") == Some("true");
        match (text(members, "leafUuid"), is_chosen) {
            (Some(uuid), is_chosen) => self.checkpoint = Some(Checkpoint { uuid, is_chosen }),
            // Withdrawn.
            (None, true) => self.checkpoint = None,
            (None, false) => {}
        }
    }

    /// The last line of the conversation.
    pub(super) fn end(&self) -> Option<usize> {
        let named = self.checkpoint.as_ref().and_then(|checkpoint| {
            let index = *self.by_uuid.get(&checkpoint.uuid)?;
            Some((index, checkpoint.is_chosen)).filter(|_| !self.nodes[index].row.is_sidechain)
        });
        let Some((named, is_chosen)) = named else {
            // A line that was written again at the end is not the end of what follows it.
            let last = self.last?;
            return (0..self.nodes.len()).rev().find(|index| {
                !self.nodes[*index].row.is_sidechain && self.way_back(*index).any(|above| above == last)
            });
        };
        if is_chosen {
            return Some(named);
        }
        // Calls that ran together have one end each; whoever goes on behind one of them goes on behind all.
        let message = self.way_back(named).find(|index| self.nodes[*index].row.kind == Kind::Assistant);
        let message = message.and_then(|index| self.nodes[index].said.message.as_ref());
        let goes_on =
            |above: usize| above == named || (message.is_some() && self.nodes[above].said.message.as_ref() == message);
        self.last.filter(|last| self.way_back(*last).any(goes_on)).or(Some(named))
    }

    /// A node, its parent, and so on.
    fn way_back(&self, index: usize) -> impl Iterator<Item = usize> {
        // Lines that name each other would have no end.
        std::iter::successors(Some(index), |index| self.parent(*index)).take(self.nodes.len())
    }

    /// Adds what belongs to lines that are held: what a boundary names, other blocks of an answer, results, attachments.
    fn complete(&self, holds: &mut [bool]) {
        let mut blocks: HashMap<&str, Vec<usize>> = HashMap::new();
        for (index, node) in self.nodes.iter().enumerate() {
            if let Some(message) = node.said.message.as_deref().filter(|_| !node.row.is_sidechain) {
                blocks.entry(message).or_default().push(index);
            }
        }
        let mut waiting: Vec<usize> = (0..holds.len()).filter(|index| holds[*index]).collect();
        while let Some(index) = waiting.pop() {
            let node = &self.nodes[index];
            let others = node.said.message.as_deref().and_then(|message| blocks.get(message)).into_iter().flatten();
            let below = self.children[index].iter().filter(|below| {
                let child = &self.nodes[**below];
                let is_result = node.row.kind == Kind::Assistant && !child.said.results.is_empty();
                // What hangs below a result without being said by anybody was put there with it.
                let is_beside =
                    child.row.kind == Kind::User && child.said.prompt.is_none() && !node.said.results.is_empty();
                is_result || is_beside || (child.row.kind == Kind::Other && self.leads_nowhere(**below))
            });
            for other in self.named(index).chain(others.copied()).chain(below.copied()).collect::<Vec<_>>() {
                if !holds[other] && !self.nodes[other].row.is_sidechain {
                    holds[other] = true;
                    waiting.push(other);
                }
            }
        }
    }
}

impl Conversation {
    /// Whether a node continues another one, nobody knows which, and somebody would have to.
    pub(super) fn is_adrift(&self, tree: &Tree, index: usize) -> bool {
        tree.is_adrift(index) && !self.named.contains(&index)
    }
}

impl Said {
    fn of(kind: Kind, members: &Members<'_>) -> Self {
        if kind == Kind::Other {
            return Self::default();
        }
        let message = object(members, "message");
        let mut said = Self { message: text(&message, "id"), ..Self::default() };
        let mut words = text(&message, "content");
        for block in json::member(&message, "content").and_then(json::elements).unwrap_or_default() {
            let block = json::members(block).unwrap_or_default();
            match text(&block, "type").as_deref() {
                Some("tool_use") => {
                    said.has_more = true;
                    let call = text(&block, "id").zip(text(&block, "name"));
                    said.calls.extend(call);
                }
                Some("tool_result") => {
                    said.results.extend(text(&block, "tool_use_id"));
                    said.files.extend(text(&block, "content").as_deref().and_then(put_aside));
                }
                Some(_) => {
                    said.has_more = true;
                    words = words.or_else(|| text(&block, "text"));
                }
                None => said.has_more = true,
            }
        }
        let is_by_person = kind == Kind::User
            && ["isMeta", "isCompactSummary"].iter().all(|flag| json::member(members, flag) != Some("true"));
        said.prompt = words.filter(|words| is_by_person && !is_command(words)).map(|words| shortened(&words));
        let result = object(members, "toolUseResult");
        said.files.extend(text(&result, "agentId").map(|agent| format!("subagents/agent-{agent}")));
        said
    }
}

/// The file that a large output was put into, if a result says so.
fn put_aside(result: &str) -> Option<String> {
    let said = result.strip_prefix("<persisted-output>")?;
    let (_, path) = said.split_once("saved to: ")?;
    path.lines().next().map(|path| path.trim().to_owned()).filter(|path| path.starts_with('/'))
}

/// Whether a text is what Claude Code writes down of one of its own commands.
fn is_command(words: &str) -> bool {
    ["<command-", "<local-command-", "<bash-", "[Request interrupted"].iter().any(|start| words.starts_with(start))
}

fn shortened(words: &str) -> String {
    let plain: String =
        words.chars().map(|character| if json::needs_care(character) { ' ' } else { character }).collect();
    let plain = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    match plain.char_indices().nth(WORDS) {
        Some((end, _)) => format!("{}…", &plain[..end]),
        None => plain,
    }
}
