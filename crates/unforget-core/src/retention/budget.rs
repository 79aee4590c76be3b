//! Room for a disk budget: the oldest of the trash leaves it, and if that is not enough the oldest sessions go to the trash.
//!
//! They leave the disk with a later run, a day later at the earliest, so that there is time to notice and to bring them back. Nothing
//! that was used or deleted within the last day is touched; the budget is then exceeded, which the plan says.

use std::collections::BTreeSet;

use super::{Candidate, Plan, Trashed, Why};
use crate::stamp::SessionId;

/// Adds to a plan what the budget asks for. `spare` and `rest` are what may go, with the time that they are ordered by.
pub(super) fn within(
    budget: u64,
    plan: &mut Plan,
    mut spare: Vec<(i64, &Candidate)>,
    mut rest: Vec<(i64, &Trashed)>,
    trash: &[Trashed],
) {
    let sum = |bytes: u64, more: u64| bytes.saturating_add(more);
    let leaving = plan.purge.iter().map(|(trashed, _)| trashed.bytes).fold(0, sum);
    let mut excess = plan.bytes.saturating_sub(leaving).saturating_sub(budget);
    let mut chosen: BTreeSet<String> = BTreeSet::new();
    rest.sort_by(|a, b| (a.0, &a.1.id).cmp(&(b.0, &b.1.id)));
    for (_, trashed) in rest {
        if excess == 0 {
            break;
        }
        excess = excess.saturating_sub(trashed.bytes);
        chosen.insert(trashed.id.to_string());
        plan.purge.push((trashed.clone(), Why::Budget));
    }
    // What stays in the trash for now, or goes there anyway, makes room another time.
    let purged: BTreeSet<&SessionId> = plan.purge.iter().map(|(trashed, _)| &trashed.id).collect();
    let staying = trash.iter().filter(|trashed| !purged.contains(&trashed.id)).map(|trashed| trashed.bytes);
    let moving = plan.expire.iter().map(|(entry, _)| entry.row.bytes);
    plan.over_budget = excess;
    let mut missing = excess.saturating_sub(staying.chain(moving).fold(0, sum));
    spare.sort_by(|a, b| (a.0, &a.1.entry.row.id).cmp(&(b.0, &b.1.entry.row.id)));
    for (_, candidate) in spare {
        if missing == 0 {
            break;
        }
        let row = &candidate.entry.row;
        missing = missing.saturating_sub(row.bytes);
        chosen.insert(row.id.clone());
        plan.expire.push((candidate.entry.clone(), Why::Budget));
    }
    plan.kept.retain(|(id, _)| !chosen.contains(id));
}
