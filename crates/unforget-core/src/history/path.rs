//! Which records a conversation consists of: from the root to the head, and past the last compaction.
//!
//! Every step names its parent; the head is the last step, or what a later `head` record points to. A
//! parent that is not there (damage, a copy gone wrong) is replaced by the step before it in the file, so
//! that a hole costs what is in it and nothing else.

use std::collections::HashMap;

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
}

/// Selects the records from the root to the head.
pub fn path<'r, 'a>(records: &'r [Record<'a>]) -> Path<'r, 'a> {
    let mut notes = Vec::new();
    let mut place_of: HashMap<u64, usize> = HashMap::new();
    let mut parents: Vec<Option<usize>> = Vec::with_capacity(records.len());
    let mut last_step: Option<usize> = None;
    let mut head: Option<usize> = None;
    for (place, record) in records.iter().enumerate() {
        let mut parent = None;
        if record.is_step() {
            parent = match record.parent {
                Parent::Previous => last_step,
                Parent::Nothing => None,
                Parent::Record(n) => match last_step {
                    Some(last) if records[last].n == n => last_step,
                    _ => {
                        let known = place_of.get(&n).copied();
                        if known.is_none() {
                            let note = Note { offset: record.offset, len: 0, kind: NoteKind::UnknownParent(n) };
                            notes.push(note);
                        }
                        known.or(last_step)
                    }
                },
            };
            place_of.insert(record.n, place);
            last_step = Some(place);
            head = Some(place);
        } else if let Body::Head { to } = record.body {
            head = match to {
                None => None,
                Some(n) => match place_of.get(&n) {
                    Some(place) => Some(*place),
                    None => {
                        notes.push(Note { offset: record.offset, len: 0, kind: NoteKind::UnknownParent(n) });
                        head
                    }
                },
            };
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

/// Drops what the last compaction replaced.
pub(super) fn from_compaction<'r, 'a>(chosen: Vec<&'r Record<'a>>) -> Path<'r, 'a> {
    let mut thinking_from = 0;
    for record in &chosen {
        if matches!(record.body, Body::Compaction { .. } | Body::Context { .. }) {
            thinking_from = thinking_from.max(record.n);
        }
    }
    let compaction = chosen.iter().enumerate().rev().find_map(|(at, record)| match record.body {
        Body::Compaction { first_kept, .. } => Some((at, first_kept)),
        _ => None,
    });
    let records = match compaction {
        None => chosen,
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
                .chain(chosen[at + 1..].iter().copied())
                .collect()
        }
    };
    Path { records, thinking_from, ..Path::default() }
}
