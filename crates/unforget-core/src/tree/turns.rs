//! What the user said, turn by turn, and how the turns hang together: what a picture of branches is drawn from.
//!
//! A tree keeps no steps, so it is fed the same records here and watched: of every turn its number is kept, and of
//! the newest ones their first words. Secrets are masked before words are cut: half a secret would not be known for
//! one.

use std::collections::VecDeque;

use serde::Serialize;

use super::{Place, Tree, words};
use crate::record::{Body, Record};

/// How many compactions are told, the newest.
const MAX_COMPACTIONS: usize = 10_000;

/// How much of a state's name is kept.
const STATE_CHARS: usize = 20;

/// Something that the user said, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Turn {
    /// The step.
    pub n: u64,
    /// The turn before it on its way.
    pub parent: Option<u64>,
    /// When, in milliseconds since the epoch.
    pub ms: Option<i64>,
    /// Its first words, without secrets.
    pub words: String,
    /// The step that it follows.
    pub before: Option<u64>,
    /// The last step of what came of it.
    pub end: u64,
    /// How it ended, as its last `turn` record says: `done`, `failed`, `aborted`.
    pub state: Option<String>,
    /// How many calls of tools failed in it.
    pub errors: u64,
}

/// A tree with the newest of its turns.
#[derive(Debug, Default)]
pub struct Turns {
    tree: Tree,
    most: usize,
    newest: VecDeque<Turn>,
    is_cut: bool,
    compactions: VecDeque<u64>,
    segments: Vec<OfSegment>,
}

/// The turns of a segment.
#[derive(Debug, Default)]
struct OfSegment {
    /// The last one before it.
    before: Option<u64>,
    numbers: Vec<u64>,
}

impl Turns {
    /// Keeps so many turns, the newest.
    pub fn newest(most: usize) -> Self {
        Self { most, ..Self::default() }
    }

    /// Takes the next record, in the order of the file.
    pub fn feed(&mut self, record: &Record<'_>) {
        self.tree.feed(record);
        let Some(place) = self.tree.last().filter(|_| record.is_step()) else { return };
        while self.segments.len() <= place.segment {
            let parent = self.tree.segments.get(self.segments.len()).and_then(|segment| segment.parent);
            let before = parent.and_then(|parent| self.last_at(parent));
            self.segments.push(OfSegment { before, numbers: Vec::new() });
        }
        if matches!(record.body, Body::Compaction { .. }) {
            keep(&mut self.compactions, record.n, MAX_COMPACTIONS);
        }
        if words::is_said(record) {
            let parent = self.last_at(place);
            if let Some(segment) = self.segments.get_mut(place.segment) {
                segment.numbers.push(place.n);
            }
            let words = words::masked(record).unwrap_or_default();
            let (n, before) = (record.n, self.before(place));
            let turn = Turn { n, parent, ms: record.time_ms(), words, before, end: n, state: None, errors: 0 };
            self.is_cut |= keep(&mut self.newest, turn, self.most);
        } else if let Some(turn) = self.last_at(place)
            && let Some(turn) = self.newest.iter_mut().rev().find(|known| known.n == turn)
        {
            turn.end = place.n;
            match &record.body {
                Body::Turn { state, .. } => turn.state = Some(state.chars().take(STATE_CHARS).collect()),
                Body::ToolResult(result) => turn.errors += u64::from(result.is_error),
                _ => {}
            }
        }
    }

    /// The step before one.
    fn before(&self, place: Place) -> Option<u64> {
        let segment = self.tree.segments.get(place.segment)?;
        if place.n > segment.first { place.n.checked_sub(1) } else { segment.parent.map(|parent| parent.n) }
    }

    /// The last turn that is known at a place or before it.
    fn last_at(&self, place: Place) -> Option<u64> {
        let segment = self.segments.get(place.segment)?;
        let behind = segment.numbers.partition_point(|n| *n <= place.n);
        behind.checked_sub(1).and_then(|at| segment.numbers.get(at)).copied().or(segment.before)
    }

    /// The turn that a step belongs to, by descent: numbers alone may mislead where ways were left and taken up again.
    pub fn of(&self, n: u64) -> Option<u64> {
        self.tree.find(n).0.and_then(|place| self.last_at(place))
    }

    /// The tree.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// The newest turns, in the order of the file.
    pub fn turns(&self) -> &VecDeque<Turn> {
        &self.newest
    }

    /// Whether there are more of them.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// The compactions, in the order of the file.
    pub fn compactions(&self) -> &VecDeque<u64> {
        &self.compactions
    }
}

/// Keeps the newest of many; tells whether one had to go.
fn keep<T>(all: &mut VecDeque<T>, one: T, most: usize) -> bool {
    all.push_back(one);
    all.len() > most && all.pop_front().is_some()
}
