//! A tree with what is needed to draw it: the stretches between its forks and named branches.
//!
//! The tree alone cannot tell how many turns there are between two forks, for it keeps no steps. A second look at the
//! same records can: an [`Outline`] is fed them once more, knows by then where the forks are, and counts.

use serde::Serialize;

use super::branches::Chains;
use super::{Kind, Place, Tree, words};
use crate::record::{Body, Record};

/// How much an outline keeps of what was said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// The first words of each stretch.
    Folded,
    /// The first words of each turn.
    EveryTurn,
}

/// What the user said in one step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Said {
    /// The step.
    pub n: u64,
    /// Its first words.
    pub words: String,
    /// When, in milliseconds since the epoch.
    pub ms: Option<i64>,
}

/// A name on a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Named {
    /// The step.
    pub n: u64,
    /// The name.
    pub name: String,
    /// What it is a name of.
    pub kind: Kind,
}

/// Steps without a fork or the end of a named branch among them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Stretch {
    /// Number of its first step.
    pub first: u64,
    /// Number of its last step.
    pub last: u64,
    /// How many steps there are.
    pub records: u64,
    /// How often the user spoke.
    pub turns: u64,
    /// What the user said: the first time, or every time.
    pub said: Vec<Said>,
    /// When its last step was written.
    pub last_ms: Option<i64>,
    /// Steps that replaced what was before them by a summary.
    pub compactions: Vec<u64>,
    /// The first words of an answer, if the user said nothing before it.
    pub answer: Option<String>,
    /// Names on its steps, in the order of the steps.
    pub names: Vec<Named>,
    /// The head, if it is on one of its steps.
    pub head: Option<u64>,
    /// The lines that hang on its last step.
    pub children: Vec<usize>,
}

/// A line of a tree, in stretches.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Line {
    /// The step that it hangs on.
    pub from: Option<u64>,
    /// Its stretches.
    pub stretches: Vec<Stretch>,
}

/// A tree that is looked at once more.
#[derive(Debug)]
pub struct Outline<'t> {
    tree: &'t Tree,
    chains: Chains,
    /// The same tree, as far as it was fed by now: it tells which step a record is.
    now: Tree,
    /// For each line the steps that a stretch ends with.
    forks: Vec<Vec<Place>>,
    lines: Vec<Line>,
    detail: Detail,
}

impl<'t> Outline<'t> {
    /// An outline of a tree, to be fed the records that the tree was fed.
    pub fn new(tree: &'t Tree, detail: Detail) -> Self {
        let chains = Chains::of(tree);
        let mut forks: Vec<Vec<Place>> = vec![Vec::new(); chains.list.len()];
        // A branch that was named is one to be seen, also where nothing forks yet.
        let named = tree.names.iter().filter(|(_, it)| it.kind == Kind::Branch);
        let named = named.filter_map(|(name, it)| tree.place_of(name, it));
        for place in chains.list.iter().filter_map(|chain| chain.from).chain(named) {
            if let Some(forks) = chains.of_segment.get(place.segment).and_then(|chain| forks.get_mut(*chain)) {
                forks.push(place);
            }
        }
        let mut lines = Vec::with_capacity(chains.list.len());
        for (chain, forks) in chains.list.iter().zip(&mut forks) {
            forks.sort_unstable();
            forks.dedup();
            let stretches = vec![Stretch::default(); forks.len() + 1];
            lines.push(Line { from: chain.from.map(|place| place.n), stretches });
        }
        Self { tree, chains, now: Tree::default(), forks, lines, detail }
    }

    /// Takes the next record.
    pub fn feed(&mut self, record: &Record<'_>) {
        self.now.feed(record);
        if !record.is_step() {
            return;
        }
        let detail = self.detail;
        let Some(stretch) = self.now.last().and_then(|place| self.stretch(place)) else { return };
        if stretch.records == 0 {
            stretch.first = record.n;
        }
        stretch.last = record.n;
        stretch.records += 1;
        stretch.last_ms = record.time_ms().or(stretch.last_ms);
        if matches!(record.body, Body::Compaction { .. }) {
            stretch.compactions.push(record.n);
        }
        if words::is_said(record) {
            stretch.turns += 1;
            if stretch.said.is_empty() || detail == Detail::EveryTurn {
                let words = words::of(record).unwrap_or_default();
                stretch.said.push(Said { n: record.n, words, ms: record.time_ms() });
            }
        } else if stretch.said.is_empty() && stretch.answer.is_none() {
            stretch.answer = words::of_answer(record);
        }
    }

    /// The lines; the first one begins at the root, and a stretch knows which lines hang on its end.
    pub fn finish(mut self) -> Vec<Line> {
        let tree = self.tree;
        let named = tree.names.iter().filter_map(|(name, it)| Some((tree.place_of(name, it)?, name, it.kind)));
        let mut named: Vec<(Place, &String, Kind)> = named.collect();
        named.sort_unstable_by_key(|(place, ..)| *place);
        for (place, name, kind) in named {
            if let Some(stretch) = self.stretch(place) {
                stretch.names.push(Named { n: place.n, name: name.clone(), kind });
            }
        }
        if let Some(head) = tree.head
            && let Some(stretch) = self.stretch(head)
        {
            stretch.head = Some(head.n);
        }
        for line in 0..self.lines.len() {
            let from = self.chains.list.get(line).and_then(|chain| chain.from);
            if let Some(stretch) = from.and_then(|place| self.stretch(place)) {
                stretch.children.push(line);
            }
        }
        // A line that ends where others hang on it has nothing behind that.
        for line in &mut self.lines {
            line.stretches.retain(|stretch| stretch.records > 0);
        }
        self.lines
    }

    fn stretch(&mut self, place: Place) -> Option<&mut Stretch> {
        let chain = *self.chains.of_segment.get(place.segment)?;
        let at = self.forks.get(chain)?.partition_point(|fork| *fork < place);
        self.lines.get_mut(chain)?.stretches.get_mut(at)
    }
}
