//! Which records a conversation consists of: from the root to the head, and past the last compaction.
//!
//! Every step names its parent; the head is the last step, or what a later `head` record points to. A
//! parent that is not there (damage, a copy gone wrong) is replaced by the last step that came before it,
//! so that a hole costs what is in it and nothing else.
//!
//! An `undo` takes a compaction or a trim out of effect again; nothing that was said since is lost by it.

use std::collections::{HashMap, HashSet};

use crate::json;
use crate::record::{Body, Parent, Record};
use crate::report::{Note, NoteKind};

/// The records of a conversation, in order.
#[derive(Debug, Clone, Default)]
pub struct Path<'r, 'a> {
    /// The records; a compaction comes first, before what it kept.
    pub records: Vec<&'r Record<'a>>,
    /// Thinking in records before this number belongs to another prefix.
    pub thinking_from: u64,
    /// Whether what came before the first record was not read.
    pub begins_late: bool,
    /// Parents that are not in the transcript.
    pub notes: Vec<Note>,
    /// Number of the record that the conversation goes on from.
    pub head: Option<u64>,
    /// Records that are shortened.
    pub trims: Trims,
}

/// Which records are shortened in what the model sees, and to how many bytes.
#[derive(Debug, Clone, Default)]
pub struct Trims(HashMap<u64, usize>);

impl Trims {
    /// Whether no record is shortened.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How large something of record `n` with that size is at most.
    pub fn cap(&self, n: u64, size: usize) -> usize {
        self.0.get(&n).map_or(size, |keep| size.min(*keep))
    }

    pub(crate) fn add(&mut self, records: &str, keep: u64) {
        let keep = usize::try_from(keep).unwrap_or(usize::MAX);
        for n in json::elements(records).unwrap_or_default().into_iter().filter_map(json::number) {
            let cap = self.0.entry(n).or_insert(keep);
            *cap = keep.min(*cap);
        }
    }
}

/// Selects the records from the root to the head.
pub fn path<'r, 'a>(records: &'r [Record<'a>]) -> Path<'r, 'a> {
    let mut notes = Vec::new();
    let mut steps = Places::default();
    let mut parents: Vec<Option<usize>> = Vec::with_capacity(records.len());
    let mut last_step: Option<usize> = None;
    let mut head: Option<usize> = None;
    for (place, record) in records.iter().enumerate() {
        let mut find = |n: u64| {
            let (found, exact) = steps.find(n);
            if !exact {
                notes.push(Note { offset: record.offset, len: 0, line: None, kind: NoteKind::UnknownParent(n) });
            }
            found
        };
        let mut parent = None;
        if record.is_step() {
            parent = match record.parent {
                Parent::Previous => last_step,
                Parent::Head(_) => head,
                Parent::Nothing => None,
                Parent::Record(n) if last_step.is_some_and(|last| records[last].n == n) => last_step,
                Parent::Record(n) => find(n),
            };
            steps.insert(record.n, place);
            last_step = Some(place);
            head = last_step;
        } else if let Body::Head { to } = record.body {
            head = to.and_then(find);
        }
        parents.push(parent);
    }
    let mut chosen = Vec::new();
    let mut at = head;
    while let Some(place) = at {
        chosen.push(&records[place]);
        at = parents[place];
    }
    chosen.reverse();
    let mut path = from_compaction(chosen);
    path.notes = notes;
    path.head = head.map(|place| records[place].n);
    path
}

/// Where the steps are, by number.
#[derive(Debug, Default)]
struct Places {
    /// Numbers that are greater than all before them, as in every file that one writer wrote.
    rising: Vec<(u64, usize)>,
    /// Numbers that were used again, with their latest place.
    again: HashMap<u64, usize>,
}

impl Places {
    fn insert(&mut self, n: u64, place: usize) {
        match self.rising.last() {
            Some((last, _)) if *last >= n => drop(self.again.insert(n, place)),
            _ => self.rising.push((n, place)),
        }
    }

    /// The latest step with that number, or else the one with the next smaller number.
    fn find(&self, n: u64) -> (Option<usize>, bool) {
        if let Some(place) = self.again.get(&n) {
            return (Some(*place), true);
        }
        match self.rising.binary_search_by_key(&n, |(number, _)| *number) {
            Ok(at) => (Some(self.rising[at].1), true),
            Err(at) => (at.checked_sub(1).map(|at| self.rising[at].1), false),
        }
    }
}

/// Drops what the last compaction replaced.
pub(super) fn from_compaction<'r, 'a>(chosen: Vec<&'r Record<'a>>) -> Path<'r, 'a> {
    let undone: HashSet<u64> = chosen
        .iter()
        .filter_map(|record| match record.body {
            Body::Undo { of } => Some(of),
            _ => None,
        })
        .collect();
    let mut thinking_from = 0;
    let mut context = None;
    for record in &chosen {
        let begins_anew = match &record.body {
            Body::Compaction { .. } | Body::Trim { .. } | Body::Undo { .. } => true,
            // One that says the same again leaves the beginning as it was.
            body @ Body::Context { .. } => context.replace(body) != Some(body),
            _ => false,
        };
        if begins_anew {
            thinking_from = thinking_from.max(record.n);
        }
    }
    let compaction = chosen.iter().enumerate().rev().find_map(|(at, record)| match record.body {
        Body::Compaction { first_kept, .. } if !undone.contains(&record.n) => Some((at, first_kept)),
        _ => None,
    });
    let records: Vec<&Record<'_>> = match compaction {
        None => chosen.into_iter().filter(|record| !matches!(record.body, Body::Compaction { .. })).collect(),
        Some((at, first_kept)) => {
            let kept = first_kept.and_then(|n| chosen[..at].iter().position(|record| record.n == n)).unwrap_or(at);
            // The context in force when the summary was made stays in force.
            let context =
                chosen[..kept].iter().rev().find(|record| matches!(record.body, Body::Context { .. })).copied();
            let kept = chosen[kept..at].iter().filter(|record| !matches!(record.body, Body::Compaction { .. }));
            [chosen[at]]
                .into_iter()
                .chain(context)
                .chain(kept.copied())
                .chain(
                    chosen[at + 1..].iter().filter(|record| !matches!(record.body, Body::Compaction { .. })).copied(),
                )
                .collect()
        }
    };
    let mut trims = Trims::default();
    for record in &records {
        if let Body::Trim { records, keep } = record.body
            && !undone.contains(&record.n)
        {
            trims.add(records, keep);
        }
    }
    Path { records, thinking_from, trims, ..Path::default() }
}
