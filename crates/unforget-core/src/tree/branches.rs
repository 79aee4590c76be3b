//! Which branches there are: chains of segments, and the names on them.
//!
//! Where several steps follow the same one, the first of them goes on with the line and each later one begins a
//! branch. So a line that was drawn once stays where it is, whatever is said later elsewhere.

use std::collections::HashMap;

use serde::Serialize;

use super::{Kind, Place, Tree};

/// A branch: a line of steps to a tip, or a named place where one may begin.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Branch {
    /// Its last step.
    pub tip: u64,
    /// The step that it hangs on; none if it begins at the root.
    pub from: Option<u64>,
    /// Its first own step; none if nothing was said on it yet.
    pub first: Option<u64>,
    /// Its names, in the order of their spelling.
    pub names: Vec<String>,
    /// How many steps of its own it has.
    pub records: u64,
    /// How often the user spoke on it.
    pub turns: u64,
    /// When its last step was written, in milliseconds since the epoch.
    pub last_ms: Option<i64>,
    /// The user's first words on it.
    pub words: Option<String>,
    /// Whether the conversation goes on from its tip.
    pub is_head: bool,
}

/// Segments that follow each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chain {
    pub(super) from: Option<Place>,
    pub(super) segments: Vec<usize>,
}

/// All chains, and which one each segment is part of.
#[derive(Debug, Default)]
pub(super) struct Chains {
    pub(super) list: Vec<Chain>,
    pub(super) of_segment: Vec<usize>,
}

impl Chains {
    pub(super) fn of(tree: &Tree) -> Self {
        let mut chains = Self::default();
        let mut continued = vec![false; tree.segments.len()];
        for (at, segment) in tree.segments.iter().enumerate() {
            let parent = segment.parent.filter(|parent| parent.segment < at);
            let goes_on = parent.filter(|parent| {
                let is_end = tree.segments.get(parent.segment).is_some_and(|it| it.last == parent.n);
                is_end && !std::mem::replace(&mut continued[parent.segment], true)
            });
            let chain = match goes_on {
                Some(parent) => chains.of_segment[parent.segment],
                None => {
                    chains.list.push(Chain { from: parent, segments: Vec::new() });
                    chains.list.len() - 1
                }
            };
            chains.of_segment.push(chain);
            chains.list[chain].segments.push(at);
        }
        chains
    }
}

impl Tree {
    /// The branches, in the order in which they were begun; then the named places where nothing was said yet.
    pub fn branches(&self) -> Vec<Branch> {
        let chains = Chains::of(self);
        let mut tips = Vec::with_capacity(chains.list.len());
        let mut branches: Vec<Branch> = Vec::with_capacity(chains.list.len());
        for chain in &chains.list {
            let segments = || chain.segments.iter().filter_map(|at| Some((*at, self.segments.get(*at)?)));
            let Some((at, end)) = segments().next_back() else { continue };
            let tip = Place { segment: at, n: end.last };
            tips.push(tip);
            branches.push(Branch {
                tip: tip.n,
                from: chain.from.map(|place| place.n),
                first: segments().next().map(|(_, it)| it.first),
                records: segments().map(|(_, it)| it.last.saturating_sub(it.first) + 1).fold(0, u64::saturating_add),
                turns: segments().map(|(_, it)| it.turns.len() as u64).fold(0, u64::saturating_add),
                last_ms: segments().filter_map(|(_, it)| it.last_ms).next_back(),
                words: segments().find_map(|(_, it)| it.words.clone()),
                is_head: self.head == Some(tip),
                names: Vec::new(),
            });
        }
        let mut known: HashMap<Place, usize> = tips.iter().enumerate().map(|(at, tip)| (*tip, at)).collect();
        for (name, it) in self.names.iter().filter(|(_, it)| it.kind == Kind::Branch) {
            let Some(place) = self.place_of(name, it) else { continue };
            let at = *known.entry(place).or_insert_with(|| {
                let is_head = self.head == Some(place);
                branches.push(Branch { tip: place.n, from: Some(place.n), is_head, ..Branch::default() });
                branches.len() - 1
            });
            branches[at].names.push(name.clone());
        }
        branches
    }
}
