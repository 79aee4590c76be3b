//! What is wrong with a transcript, and a copy in which it is put right.
//!
//! Claude Code resumes almost anything, and says nothing of what it leaves out: a branch that a second window wrote, a turn whose line
//! is missing, a call that was never answered. Here a transcript is looked at as a whole, and everything that resuming would lose, or
//! send in another shape, is told with its line. Looking changes nothing; [`repair`] makes the lines of a new session, and the old
//! one stays as it is.
//!
//! Everything is a pure function of the bytes. Whether a file exists, what time it is and what new lines are called is asked of the caller.

use std::collections::{HashMap, HashSet};
use std::fmt;

use unforget_core::history::{RepairKind, foreign_messages};
use unforget_core::lines;
use unforget_core::scan::scan;

use crate::row::{Kind, Parent};

mod mend;
mod repair;
#[cfg(test)]
mod tests;
mod tree;

pub use repair::{Refusal, Stamp, repair};
use tree::{Conversation, Tree};

/// Whether somebody is writing the transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// Nobody is.
    Ended,
    /// Somebody is, so that the last calls may still be answered and the last line may still be written.
    Live,
}

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The line, from one.
    pub line: u64,
    /// What is wrong.
    pub problem: Problem,
}

/// What can be wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// A call of a tool that has no result.
    OrphanedCall {
        /// The call.
        id: String,
        /// The tool.
        tool: String,
    },
    /// A result of a call that is not there.
    StrayResult {
        /// The call.
        id: String,
    },
    /// The line continues one that is not there, or does not say which.
    BrokenParent {
        /// Which one, if it is said.
        parent: Option<String>,
    },
    /// Resuming leaves this out: the conversation went on from somewhere else.
    DroppedBranch {
        /// Its last line, from one.
        last_line: u64,
        /// How many times a person said something in it.
        prompts: u64,
        /// How many lines of it are words, calls or results.
        messages: u64,
        /// How its first words begin.
        words: String,
    },
    /// An earlier line has the same identity and other content; resuming takes the later one.
    DifferentDouble {
        /// The identity.
        uuid: String,
        /// The line before it that has it, from one.
        earlier_line: u64,
    },
    /// The API would refuse what resuming sends of the line, or two readers would understand it differently.
    NotSendable {
        /// A short name of what has to be put right.
        kind: &'static str,
        /// What has to be put right.
        why: String,
    },
    /// The line is no JSON object.
    NotAnObject,
    /// The last line has no line feed: older versions add to it and lose what they add.
    NoFinalLineFeed,
    /// The line refers to a file that is not there.
    MissingFile {
        /// An absolute path as the line has it, or the side of an agent such as `subagents/agent-1`.
        name: String,
    },
}

/// The words of a branch behind a colon; nothing if it has none.
pub fn quoted(words: &str) -> String {
    if words.is_empty() { String::new() } else { format!(": `{words}`") }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OrphanedCall { id, tool } => write!(f, "the call of {tool} ({id}) was never answered"),
            Self::StrayResult { id } => write!(f, "a result answers the call {id}, which is not there"),
            Self::BrokenParent { parent: Some(parent) } => write!(f, "it continues line {parent}, which is not there"),
            Self::BrokenParent { parent: None } => write!(f, "it does not say which line it continues"),
            Self::DroppedBranch { last_line, prompts, messages, words } => {
                let many = if *prompts == 1 { "" } else { "s" };
                let counts =
                    format!("{prompts} prompt{many}, {messages} message{}", if *messages == 1 { "" } else { "s" });
                write!(f, "resuming leaves out a branch up to line {last_line} ({counts}){}", quoted(words))
            }
            Self::DifferentDouble { uuid, earlier_line } => {
                write!(
                    f,
                    "line {earlier_line} has the same identity ({uuid}) and says something else; resuming takes this one"
                )
            }
            Self::NotSendable { why, .. } => write!(f, "the API refuses it as it is: {why}"),
            Self::NotAnObject => write!(f, "it is no JSON object, so that nobody reads it"),
            Self::NoFinalLineFeed => write!(f, "the file does not end with a line feed"),
            Self::MissingFile { name } => write!(f, "it refers to `{name}`, which is not there"),
        }
    }
}

/// Looks at a transcript; `exists` is asked for absolute paths and for sides of the session.
pub fn examine(bytes: &[u8], activity: Activity, exists: &dyn Fn(&str) -> bool) -> Vec<Finding> {
    let (lines, terminated) = cut(bytes);
    let tree = Tree::read(&lines);
    let conversation = tree.conversation();
    let mut findings = Vec::new();
    let mut add = |line: usize, problem| findings.push(Finding { line: number(line), problem });
    for line in &tree.broken {
        let is_being_written = activity == Activity::Live && !terminated && *line + 1 == lines.len();
        if !is_being_written {
            add(*line, Problem::NotAnObject);
        }
    }
    for double in tree.doubles.iter().filter(|double| double.differs) {
        let (uuid, earlier_line) = (double.uuid.clone(), number(double.other));
        add(double.line, Problem::DifferentDouble { uuid, earlier_line });
    }
    for (index, node) in tree.nodes.iter().enumerate() {
        if conversation.is_adrift(&tree, index) {
            let parent = match &node.row.parent {
                Parent::Of(parent) => Some(parent.clone()),
                Parent::Root | Parent::Unsaid => None,
            };
            add(node.line, Problem::BrokenParent { parent });
        }
    }
    let loose = Loose::find(&tree, &conversation);
    let last_prompt = tree.nodes.iter().rposition(|node| node.said.prompt.is_some()).unwrap_or(0);
    for (index, id, tool) in loose.calls {
        if activity == Activity::Ended || index < last_prompt {
            add(tree.nodes[index].line, Problem::OrphanedCall { id, tool });
        }
    }
    for (index, id) in loose.results {
        add(tree.nodes[index].line, Problem::StrayResult { id });
    }
    for (first, problem) in branches(&tree, &conversation) {
        add(tree.nodes[first].line, problem);
    }
    let known: HashSet<u64> = findings.iter().map(|finding| finding.line).collect();
    for (line, kind) in not_sendable(bytes, activity) {
        let is_known = known.contains(&number(line)) && matches!(kind, RepairKind::OrphanResult(_));
        if !is_known {
            let problem = Problem::NotSendable { kind: kind.name(), why: kind.to_string() };
            findings.push(Finding { line: number(line), problem });
        }
    }
    let mut add = |line: usize, problem| findings.push(Finding { line: number(line), problem });
    let mut asked = HashSet::new();
    for node in &tree.nodes {
        for name in node.said.files.iter().filter(|name| asked.insert(name.as_str())) {
            if !exists(name) {
                add(node.line, Problem::MissingFile { name: name.clone() });
            }
        }
    }
    if !terminated && activity == Activity::Ended {
        add(lines.len().saturating_sub(1), Problem::NoFinalLineFeed);
    }
    findings.sort_by_key(|finding| finding.line);
    findings
}

/// The lines of a file, and whether the last one is ended; a file without bytes lacks nothing.
fn cut(bytes: &[u8]) -> (Vec<&[u8]>, bool) {
    let terminated = bytes.last().is_none_or(|byte| *byte == b'\n');
    (lines::split(bytes, 0).map(|line| line.bytes).collect(), terminated)
}

/// Where the lines begin.
fn starts(bytes: &[u8]) -> Vec<u64> {
    lines::split(bytes, 0).map(|line| line.offset).collect()
}

/// Lines of which something has to be put right before it can be sent, from zero. What the program itself leaves out is not among them.
fn not_sendable(bytes: &[u8], activity: Activity) -> Vec<(usize, RepairKind)> {
    let scanned = scan(bytes);
    let repairs = foreign_messages(&scanned.records).repairs;
    if repairs.is_empty() {
        return Vec::new();
    }
    let starts = starts(bytes);
    let offsets: HashMap<u64, u64> = scanned.records.iter().map(|record| (record.n, record.offset)).collect();
    let counts = |kind: &RepairKind| match kind {
        RepairKind::CallLeftOut(_) | RepairKind::SecondResult(_) => false,
        // What comes next is not written yet.
        RepairKind::ThinkingLeftOut(_) | RepairKind::Empty => activity == Activity::Ended,
        kind => !mend::is_about_size(kind),
    };
    let repairs = repairs.into_iter().filter(|repair| counts(&repair.kind));
    repairs
        .map(|repair| {
            let offset = offsets.get(&repair.n).copied().unwrap_or(0);
            (starts.partition_point(|start| *start <= offset).saturating_sub(1), repair.kind)
        })
        .collect()
}

fn number(line: usize) -> u64 {
    line as u64 + 1
}

/// Calls and results of a conversation that miss each other.
struct Loose {
    /// The node, the call and the tool.
    calls: Vec<(usize, String, String)>,
    /// The node and the call.
    results: Vec<(usize, String)>,
}

impl Loose {
    fn find(tree: &Tree, conversation: &Conversation) -> Self {
        let held = || tree.nodes.iter().enumerate().filter(|(index, _)| conversation.holds[*index]);
        let called: HashSet<&str> = held().flat_map(|(_, node)| &node.said.calls).map(|(id, _)| id.as_str()).collect();
        let answered: HashSet<&str> = held().flat_map(|(_, node)| &node.said.results).map(String::as_str).collect();
        let calls = held().flat_map(|(index, node)| node.said.calls.iter().map(move |call| (index, call)));
        let results = held().flat_map(|(index, node)| node.said.results.iter().map(move |id| (index, id)));
        Self {
            calls: calls
                .filter(|(_, (id, _))| !answered.contains(id.as_str()))
                .map(|(index, (id, tool))| (index, id.clone(), tool.clone()))
                .collect(),
            results: results
                .filter(|(_, id)| !called.contains(id.as_str()))
                .map(|(index, id)| (index, id.clone()))
                .collect(),
        }
    }
}

/// Branches that the conversation does not hold: their first nodes, and what there is to say of them.
fn branches(tree: &Tree, conversation: &Conversation) -> Vec<(usize, Problem)> {
    let is_dropped = |index: usize| {
        let row = &tree.nodes[index].row;
        !conversation.holds[index] && !row.is_sidechain && row.kind != Kind::Other
    };
    let mut members: HashMap<usize, Vec<usize>> = HashMap::new();
    let mut first_of: HashMap<usize, usize> = HashMap::new();
    for index in (0..tree.nodes.len()).filter(|index| is_dropped(*index)) {
        // Up to the first line that the conversation does not hold; lines that name each other end it, too.
        let (mut first, mut at) = (index, index);
        for _ in 0..tree.nodes.len() {
            let Some(parent) = tree.parent(at).filter(|parent| !conversation.holds[*parent]) else { break };
            at = parent;
            if let Some(known) = first_of.get(&at) {
                first = *known;
                break;
            }
            if is_dropped(at) {
                first = at;
            }
        }
        first_of.insert(index, first);
        members.entry(first).or_default().push(index);
    }
    let mut branches: Vec<(usize, Problem)> = members
        .into_iter()
        .map(|(first, members)| {
            let prompts: Vec<&String> =
                members.iter().filter_map(|index| tree.nodes[*index].said.prompt.as_ref()).collect();
            let last = members.last().copied().unwrap_or(first);
            let problem = Problem::DroppedBranch {
                last_line: number(tree.nodes[last].line),
                prompts: prompts.len() as u64,
                messages: members.len() as u64,
                words: prompts.first().map(|words| (*words).clone()).unwrap_or_default(),
            };
            (first, problem)
        })
        .collect();
    branches.sort_by_key(|(first, _)| *first);
    branches
}
