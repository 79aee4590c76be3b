//! The branches of a conversation: a fold that knows every step's place and keeps none of the steps.
//!
//! Most steps follow the one before them. Runs of such steps are one segment each, with the place that it hangs on,
//! so a session of a million records and three branches takes a handful of them: memory grows with branches, names
//! and holes in the numbers, and by four bytes with each turn, never with what was said. The rules are those of the
//! history (a parent that is not there is replaced by the step with the next smaller number; of records with the same
//! number the latest counts), and tests hold both against each other: a picture that disagrees with what is sent
//! would be worse than none.
//!
//! Names are `label` records. A checkpoint stays on its step. A branch moves on with the conversation while it is the
//! current one; the first line of a session is the branch [`MAIN`]. A tree can be stored and fed on later; what comes
//! out of a store may be anything, so no index is trusted. Nothing here asks a clock or knows how a tree is drawn;
//! [`Tree::read`] alone reads a file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::json;
use crate::reader::LogReader;
use crate::record::{Body, Parent, Record};
use crate::scan::Scanner;

mod branches;
mod outline;
mod trail;
mod turns;
mod words;

pub use branches::Branch;
pub use outline::{Detail, Line, Named, Outline, Said, Stretch};
pub use trail::Trail;
pub use turns::{Turn, Turns};

/// The branch that a conversation begins on.
pub const MAIN: &str = "main";
/// What the member `as` of a `label` record says if the name is that of a branch.
pub(crate) const AS_BRANCH: &str = "branch";
/// What it says if the name is given up.
pub(crate) const AS_DROPPED: &str = "dropped";
/// The reason of a `head` record that takes back the one before it.
pub(crate) const REDO: &str = "redo";
/// How much of a name is kept, in characters.
const NAME_CHARS: usize = 200;
/// How many moves of the head can be taken back one after the other.
const MAX_MOVES: usize = 100;

/// The branches, names and head of a session, as far as its records were fed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tree {
    segments: Vec<Segment>,
    /// Segments whose numbers are greater than all before them.
    rising: Vec<usize>,
    /// Numbers that were used again, with their latest segment.
    again: BTreeMap<u64, usize>,
    /// The step that was fed last.
    last: Option<Place>,
    head: Option<Place>,
    names: BTreeMap<String, Name>,
    /// The branch that the conversation is on; where it has come is the head.
    current: Option<String>,
    /// The moves that led back on the way they came from, newest last; empty once something was said.
    undone: Vec<Moved>,
}

/// Steps in a row: consecutive numbers, each the child of the one before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Segment {
    first: u64,
    last: u64,
    parent: Option<Place>,
    /// Where the user speaks: how far each such step is behind the one before it, the first behind `first`.
    turns: Vec<u32>,
    /// The last such step, or else the first one of all.
    spoke: u64,
    last_ms: Option<i64>,
    words: Option<String>,
}

impl Segment {
    /// The steps up to one in which the user speaks.
    fn turns_to(&self, last: u64) -> impl Iterator<Item = u64> + '_ {
        let numbers = self.turns.iter().scan(self.first, |at, gap| {
            *at = at.saturating_add(u64::from(*gap));
            Some(*at)
        });
        numbers.take_while(move |n| *n <= last)
    }
}

/// Where a step is: numbers alone may be used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Place {
    segment: usize,
    /// The step's number.
    pub n: u64,
}

/// What a name means.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Name {
    kind: Kind,
    place: Option<Place>,
    /// Where a branch was begun.
    begun: Option<u64>,
    n: u64,
    ms: Option<i64>,
}

/// What a name is a name of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A line of conversation; it moves on while it is the current one.
    Branch,
    /// A step.
    Checkpoint,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Kind::Branch => "branch",
            Kind::Checkpoint => "checkpoint",
        })
    }
}

/// A name and what it means.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Label {
    /// The name.
    pub name: String,
    /// What it is a name of.
    #[serde(rename = "as")]
    pub kind: Kind,
    /// The step that it stands for now; none for the very beginning.
    pub to: Option<u64>,
    /// Where a branch was begun.
    pub begun: Option<u64>,
    /// The record that gave the name.
    pub n: u64,
    /// When that was, in milliseconds since the epoch.
    pub ms: Option<i64>,
}

/// Where a conversation is, or was: the step and the branch.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HeadState {
    /// The step; none for the very beginning.
    pub head: Option<u64>,
    /// The branch; none if it is on none.
    pub branch: Option<String>,
    /// The record that has the files of that moment, if they were taken back with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<u64>,
}

/// A move of the head that can be taken back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moved {
    /// The `head` record.
    pub n: u64,
    /// Where the conversation was before it.
    pub from: HeadState,
}

impl Tree {
    /// The tree of a whole transcript.
    pub fn read(reader: &LogReader) -> Result<Self> {
        let mut tree = Self::default();
        let mut scanner = Scanner::default();
        let mut forward = reader.forward(0);
        while let Some(line) = forward.next()? {
            scanner.feed(&line, |record| tree.feed(&record));
        }
        Ok(tree)
    }

    /// Takes the next record, in the order of the file.
    pub fn feed(&mut self, record: &Record<'_>) {
        if record.is_step() {
            self.step(record);
            return;
        }
        match &record.body {
            Body::Head { to } => self.move_head(*to, record),
            Body::Label { to: Some(to), name } if !name.is_empty() => self.give_name(*to, name, record),
            _ => {}
        }
    }

    fn step(&mut self, record: &Record<'_>) {
        let parent = match record.parent {
            Parent::Previous => self.last,
            Parent::Head(_) => self.head,
            Parent::Nothing => None,
            Parent::Record(n) if self.last.is_some_and(|last| last.n == n) => self.last,
            Parent::Record(n) => self.find(n).0,
        };
        let n = record.n;
        if self.segments.is_empty() {
            let main = Name { kind: Kind::Branch, place: None, begun: None, n, ms: record.time_ms() };
            self.names.insert(MAIN.to_owned(), main);
            self.current = Some(MAIN.to_owned());
        }
        let is_rising = self.rising.last().and_then(|at| self.segments.get(*at)).is_none_or(|last| n > last.last);
        let follows = parent.is_some() && parent == self.last && n.checked_sub(1) == self.last.map(|last| last.n);
        // A number that was used again stands alone, so that the latest place of each is known.
        let extends = follows && is_rising && self.rising.last().is_some_and(|at| at + 1 == self.segments.len());
        let segment = if extends { self.segments.len() - 1 } else { self.segments.len() };
        if !extends {
            self.segments.push(Segment {
                first: n,
                last: n,
                parent,
                turns: Vec::new(),
                spoke: n,
                last_ms: None,
                words: None,
            });
            if is_rising {
                self.rising.push(segment);
            } else {
                self.again.insert(n, segment);
            }
        }
        if let Some(grown) = self.segments.get_mut(segment) {
            grown.last = n;
            grown.last_ms = record.time_ms().or(grown.last_ms);
            if words::is_said(record) {
                let gap = n.saturating_sub(grown.spoke);
                grown.turns.push(u32::try_from(gap).unwrap_or(u32::MAX));
                grown.spoke = n;
                grown.words = grown.words.take().or_else(|| words::of(record));
            }
        }
        self.last = Some(Place { segment, n });
        self.head = self.last;
        // Files that come along with a move of the head say nothing.
        if !matches!(record.body, Body::File(_)) {
            self.undone.clear();
        }
    }

    fn move_head(&mut self, to: Option<u64>, record: &Record<'_>) {
        let members = json::members(record.raw).unwrap_or_default();
        let number = |name| json::member(&members, name).and_then(json::number);
        let from = HeadState { files: number("files"), ..self.state() };
        let before = self.head;
        if let Some(branch) = json::member(&members, "branch") {
            let branch = json::string(branch).map(|name| shortened(&name));
            if branch != self.current {
                self.leave();
                self.current = branch.filter(|name| self.names.get(name).is_some_and(|it| it.kind == Kind::Branch));
            }
        }
        self.head = to.and_then(|to| self.find(to).0);
        let undoes = number("undoes").and_then(|n| self.undone.iter().position(|it| it.n == n));
        if let Some(at) = undoes {
            self.undone.truncate(at);
        } else if json::member(&members, "reason").and_then(json::string).as_deref() == Some(REDO) {
            self.undone.pop();
        } else if self.head != before {
            // Only the way forward again is a redo. A move sideways or forward begins anew.
            if !self.head.is_none_or(|head| Trail::to(self, before).holds(head)) {
                self.undone.clear();
                return;
            }
            if self.undone.len() == MAX_MOVES {
                self.undone.remove(0);
            }
            self.undone.push(Moved { n: record.n, from });
        }
    }

    fn give_name(&mut self, to: u64, name: &str, record: &Record<'_>) {
        let (Some(place), _) = self.find(to) else { return };
        let members = json::members(record.raw).unwrap_or_default();
        let kind = json::member(&members, "as").and_then(json::string);
        let name = shortened(name);
        if kind.as_deref() == Some(AS_DROPPED) {
            self.names.remove(&name);
            self.current.take_if(|current| *current == name);
            return;
        }
        let is_branch = kind.as_deref() == Some(AS_BRANCH);
        let kind = if is_branch { Kind::Branch } else { Kind::Checkpoint };
        let begins_here = is_branch && Some(place) == self.head;
        if begins_here {
            self.leave();
            self.current = Some(name.clone());
        } else if self.current.as_ref() == Some(&name) {
            self.current = None;
        }
        let begun = is_branch.then_some(place.n);
        self.names.insert(name, Name { kind, place: Some(place), begun, n: record.n, ms: record.time_ms() });
    }

    /// The current branch stays where the head is now.
    fn leave(&mut self) {
        let head = self.head;
        if let Some(left) = self.current.as_ref().and_then(|name| self.names.get_mut(name)) {
            left.place = head;
        }
    }

    /// The latest step with that number, or else the one with the next smaller number; and whether it is the very one.
    fn find(&self, n: u64) -> (Option<Place>, bool) {
        if let Some(segment) = self.again.get(&n) {
            return (Some(Place { segment: *segment, n }), true);
        }
        let at = self.rising.partition_point(|at| self.segments.get(*at).is_some_and(|segment| segment.first <= n));
        let found = at.checked_sub(1).and_then(|at| self.rising.get(at)).copied();
        match found.and_then(|at| Some((at, self.segments.get(at)?))) {
            Some((at, segment)) => (Some(Place { segment: at, n: n.min(segment.last) }), n <= segment.last),
            None => (None, false),
        }
    }

    /// Number of the step that the conversation goes on from.
    pub fn head(&self) -> Option<u64> {
        self.head.map(|place| place.n)
    }

    /// The branch that the conversation is on, if it is on one.
    pub fn current(&self) -> Option<&str> {
        self.current.as_deref()
    }

    /// The place of the step that was fed last.
    pub fn last(&self) -> Option<Place> {
        self.last
    }

    /// Whether there is a step with that number, one that a head can stand on.
    pub fn has_step(&self, n: u64) -> bool {
        self.find(n).1
    }

    /// Where the conversation is.
    pub fn state(&self) -> HeadState {
        HeadState { head: self.head(), branch: self.current.clone(), files: None }
    }

    /// The move back that was made last, unless something was said since.
    pub fn redo(&self) -> Option<&Moved> {
        self.undone.last()
    }

    /// How often the user spoke on the path to the head.
    pub fn turns(&self) -> u64 {
        self.path().turns(self)
    }

    /// All names, in the order of their spelling.
    pub fn labels(&self) -> Vec<Label> {
        self.names.iter().map(|(name, it)| self.label_of(name, it)).collect()
    }

    /// What a name means.
    pub fn label(&self, name: &str) -> Option<Label> {
        self.names.get_key_value(shortened(name).as_str()).map(|(name, it)| self.label_of(name, it))
    }

    fn label_of(&self, name: &str, it: &Name) -> Label {
        let to = self.place_of(name, it).map(|place| place.n);
        Label { name: name.to_owned(), kind: it.kind, to, begun: it.begun, n: it.n, ms: it.ms }
    }

    /// The step that a name stands for: that of the current branch is the head.
    fn place_of(&self, name: &str, it: &Name) -> Option<Place> {
        if self.current.as_deref() == Some(name) { self.head } else { it.place }
    }

    /// The path to the head.
    pub fn path(&self) -> Trail {
        Trail::to(self, self.head)
    }

    /// The path to the latest step with that number, if there is one.
    pub fn path_to(&self, n: u64) -> Option<Trail> {
        let (place, is_exact) = self.find(n);
        is_exact.then(|| Trail::to(self, place))
    }

    /// Whether a step with that number is on the path to the head.
    pub fn is_on_path(&self, n: u64) -> bool {
        self.path().has(n)
    }

    /// The branch that goes on if the head moves to a step: the current one on the way back over its own steps, the one
    /// whose tip it is, or none.
    pub fn branch_at(&self, n: u64) -> Option<&str> {
        let place = self.find(n).0?;
        let path = self.path();
        let current = self.current.as_deref().and_then(|name| self.names.get_key_value(name)).filter(|(_, it)| {
            let is_own = it.begun.is_none_or(|begun| Trail::to(self, Some(place)).has(begun));
            is_own && path.holds(place)
        });
        let ends_here =
            || self.names.iter().find(|(name, it)| it.kind == Kind::Branch && self.place_of(name, it) == Some(place));
        current.or_else(ends_here).map(|(name, _)| name.as_str())
    }
}

/// The beginning of a name that is too long.
fn shortened(name: &str) -> String {
    name.chars().take(NAME_CHARS).collect()
}

#[cfg(test)]
mod tests;
