//! The way to a step: which records a conversation is made of, so that a long one can be shown
//! piece by piece.
//!
//! One way through the transcript finds the steps from the root to a point, as runs of numbers,
//! what on it was replaced by summaries, and what else belongs between them: names and moves of the
//! head, and damage. Nothing that was said is kept, so memory grows with branches and not with
//! records. Numbers are those that `records` tells. What another program writes has its own tree;
//! here it is one row of lines.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use unforget_core::edit::Target;
use unforget_core::json;
use unforget_core::reader::LogReader;
use unforget_core::record::{Body, Record};
use unforget_core::report::NoteKind;
use unforget_core::scan::Scanner;
use unforget_core::tree::{Place, Trail, Tree};

use super::{Access, InSession, Verb};
use crate::error::{Problem, Result};
use crate::realm::Realm;
use crate::transcript::lines::{self, Numbering};

/// How many records beside the way are told, the newest.
const MAX_NOTES: usize = 1000;
/// How many compactions are told, and how many can be taken back, the newest.
const MAX_COMPACTIONS: usize = 10_000;

/// The longest name of a point, in characters.
const MAX_POINT: usize = 200;

/// Asks for the way to a step; to the head if none is named.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShowWay {
    at: Option<String>,
}

/// The way from the root to a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SessionWay {
    pub at: Option<u64>,
    /// The record that the conversation goes on from.
    pub head: Option<u64>,
    pub last: Option<u64>,
    /// The records on the way, as runs of numbers.
    pub ranges: Vec<[u64; 2]>,
    pub compactions: Vec<WayCompaction>,
    pub damage: Vec<WayDamage>,
    /// The newest records beside the way: names, titles, moves of the head.
    pub notes: Vec<u64>,
}

/// A compaction, as it says itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WayCompaction {
    pub n: u64,
    /// The first record that it kept word for word.
    pub first_kept: Option<u64>,
    /// How many tokens the conversation had before.
    pub before: Option<u64>,
    pub after: Option<u64>,
    /// `model` or `rule`.
    pub by: Option<String>,
    pub undone: bool,
}

/// A damaged place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WayDamage {
    /// The number that a record there would have.
    pub n: u64,
    /// Where it begins in the file.
    pub offset: u64,
    pub bytes: u64,
    pub kind: &'static str,
    pub message: String,
}

impl<H: Access> Verb<H> for InSession<ShowWay> {
    type Answer = SessionWay;

    async fn call(self, host: &Arc<H>, realm: &Arc<Realm>) -> Result<SessionWay> {
        let at = self.what.at;
        if at.as_ref().is_some_and(|at| at.chars().count() > MAX_POINT) {
            return Err(Problem::invalid(format!("`at` has at most {MAX_POINT} characters")));
        }
        let at = at.as_deref().map(str::parse::<Target>).transpose()?;
        let id = host.reach(realm, &self.session).await?;
        let way = host.blocking(realm, move |realm: &Realm| {
            let entry = realm.entry(&id)?;
            let numbering = if entry.dir.has_sides() { Numbering::Counted } else { Numbering::Own };
            Seen::of(&realm.store().read(&entry)?, numbering)?.way(at.as_ref())
        });
        way.await
    }
}

/// What one way through a transcript saw.
#[derive(Debug)]
struct Seen {
    numbering: Numbering,
    tree: Tree,
    last: Option<u64>,
    compactions: VecDeque<(Place, WayCompaction)>,
    undone: VecDeque<(Place, u64)>,
    damage: Vec<WayDamage>,
    notes: VecDeque<u64>,
}

impl Seen {
    fn of(reader: &LogReader, numbering: Numbering) -> Result<Self> {
        let mut seen = Self {
            numbering,
            tree: Tree::default(),
            last: None,
            compactions: VecDeque::new(),
            undone: VecDeque::new(),
            damage: Vec::new(),
            notes: VecDeque::new(),
        };
        let (mut scanner, mut forward, mut next) = (Scanner::default(), reader.forward(0), 0);
        while let Some(line) = forward.next()? {
            // A last line without its end is being written, or was torn: it counts only as damage.
            if !line.terminated && unforget_core::lines::is_object(line.bytes) {
                break;
            }
            let (before, mut own) = (scanner.report.notes.len(), None);
            scanner.feed(&line, |record| {
                own = own.or(Some(record.n));
                if line.terminated {
                    seen.take(&record);
                }
            });
            let is_sound = scanner.report.notes.len() == before;
            let n = match own {
                Some(own) if is_sound && numbering == Numbering::Own => own,
                _ => lines::number_of(line.bytes, numbering, next),
            };
            for note in scanner.report.notes.iter().skip(before).filter(|note| note.kind.is_damage()) {
                let n = if let NoteKind::Gap { first, .. } = note.kind { first } else { n };
                let (kind, message) = (note.kind.name(), note.kind.to_string());
                seen.damage.push(WayDamage { n, offset: note.offset, bytes: note.len, kind, message });
            }
            next = n.saturating_add(1);
            if numbering == Numbering::Counted && line.terminated {
                seen.last = Some(n);
            }
        }
        Ok(seen)
    }

    fn take(&mut self, record: &Record<'_>) {
        if self.numbering == Numbering::Counted {
            return;
        }
        self.tree.feed(record);
        self.last = self.last.max(Some(record.n));
        match (&record.body, self.tree.last()) {
            (Body::Compaction { first_kept, .. }, Some(place)) if record.is_step() => {
                let members = json::members(record.raw).unwrap_or_default();
                let number = |name| json::member(&members, name).and_then(json::number);
                let by = json::member(&members, "by").and_then(json::string);
                let compaction = WayCompaction {
                    n: place.n,
                    first_kept: *first_kept,
                    before: number("before"),
                    after: number("after"),
                    by: by.filter(|by| ["model", "rule"].contains(&by.as_ref())).map(std::borrow::Cow::into_owned),
                    undone: false,
                };
                keep(&mut self.compactions, (place, compaction), MAX_COMPACTIONS);
            }
            (Body::Undo { of }, Some(place)) if record.is_step() => {
                keep(&mut self.undone, (place, *of), MAX_COMPACTIONS);
            }
            (
                Body::Session(_)
                | Body::Title { .. }
                | Body::Label { .. }
                | Body::Head { .. }
                | Body::Expire { .. }
                | Body::Pinned { .. },
                _,
            ) if !record.is_step() => {
                keep(&mut self.notes, record.n, MAX_NOTES);
            }
            _ => {}
        }
    }

    fn way(self, at: Option<&Target>) -> Result<SessionWay> {
        if self.numbering == Numbering::Counted {
            return self.row(at);
        }
        let at = match at {
            Some(point) => Some(point.step(&self.tree)?),
            None => self.tree.head(),
        };
        let trail = match at {
            Some(n) => self.tree.path_to(n).unwrap_or_default(),
            None => Trail::default(),
        };
        let undone: HashSet<u64> =
            self.undone.iter().filter(|(place, _)| trail.holds(*place)).map(|(_, of)| *of).collect();
        let compactions = self.compactions.into_iter().filter(|(place, _)| trail.holds(*place));
        let compactions = compactions.map(|(_, it)| WayCompaction { undone: undone.contains(&it.n), ..it }).collect();
        let (head, ranges, notes) = (self.tree.head(), joined(&trail), self.notes.into());
        Ok(SessionWay { at, head, last: self.last, ranges, compactions, damage: self.damage, notes })
    }

    /// The lines of another program, as far as asked for.
    fn row(self, at: Option<&Target>) -> Result<SessionWay> {
        let last = self.last;
        let at = match at {
            None => last,
            Some(Target::Step(n)) if last.is_some_and(|last| *n <= last) => Some(*n),
            Some(_) => return Err(Problem::invalid("this conversation has no such line, and its lines have no names")),
        };
        let ranges = at.map(|at| [0, at]).into_iter().collect();
        let (compactions, notes) = (Vec::new(), Vec::new());
        Ok(SessionWay { at, head: last, last, ranges, compactions, damage: self.damage, notes })
    }
}

/// The runs of a way; those that follow each other are one.
fn joined(trail: &Trail) -> Vec<[u64; 2]> {
    let mut runs: Vec<[u64; 2]> = Vec::new();
    for run in trail.ranges() {
        match runs.last_mut() {
            Some(before) if before[1].checked_add(1) == Some(*run.start()) => before[1] = *run.end(),
            _ => runs.push([*run.start(), *run.end()]),
        }
    }
    runs
}

/// Keeps the newest of many.
fn keep<T>(all: &mut VecDeque<T>, one: T, most: usize) {
    if all.len() == most {
        all.pop_front();
    }
    all.push_back(one);
}
