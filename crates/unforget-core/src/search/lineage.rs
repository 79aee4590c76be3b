//! Which records the conversation still stands on.
//!
//! A record that is not between the beginning and the head was left behind by a rewind: it is found, and marked. A compaction
//! leaves nothing behind. As in [`crate::history`], a parent that is not there is replaced by the step with the next smaller number.

use std::collections::BTreeMap;

use crate::record::{Body, Parent, Record};

/// The steps of a session and what each of them follows.
#[derive(Debug, Default)]
pub struct Lineage {
    /// For each step, the place of its parent in this list.
    parents: Vec<Option<usize>>,
    /// The latest step of each number.
    numbers: BTreeMap<u64, usize>,
    head: Option<usize>,
}

/// A step of a session, in the order of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step(usize);

/// Which steps are on the way to the head.
#[derive(Debug)]
pub struct Path(Vec<bool>);

impl Lineage {
    /// Takes the next record; none if it is no step of the conversation, and so cannot be left behind.
    pub fn feed(&mut self, record: &Record<'_>) -> Option<Step> {
        if let Body::Head { to } = record.body {
            self.head = to.and_then(|n| self.find(n));
        }
        if !record.is_step() {
            return None;
        }
        let place = self.parents.len();
        let parent = match record.parent {
            Parent::Previous => place.checked_sub(1),
            Parent::Head(_) => self.head,
            Parent::Nothing => None,
            Parent::Record(n) => self.find(n),
        };
        self.parents.push(parent);
        self.numbers.insert(record.n, place);
        self.head = Some(place);
        Some(Step(place))
    }

    /// The way to where the conversation goes on.
    pub fn path(&self) -> Path {
        let mut on_path = vec![false; self.parents.len()];
        let mut at = self.head;
        // Parents come before their children, so that this ends.
        while let Some(place) = at {
            on_path[place] = true;
            at = self.parents[place];
        }
        Path(on_path)
    }

    fn find(&self, n: u64) -> Option<usize> {
        self.numbers.range(..=n).next_back().map(|(_, place)| *place)
    }
}

impl Path {
    /// Whether a step was left behind.
    pub fn leaves_out(&self, step: Step) -> bool {
        !self.0.get(step.0).copied().unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::scan;

    fn left_behind(lines: &[&str]) -> Vec<u64> {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let mut lineage = Lineage::default();
        let scanned = scan(text.as_bytes());
        let steps: Vec<_> = scanned.records.iter().filter_map(|r| Some((r.n, lineage.feed(r)?))).collect();
        let path = lineage.path();
        steps.iter().filter(|(_, step)| path.leaves_out(*step)).map(|(n, _)| *n).collect()
    }

    #[test]
    fn a_rewind_leaves_behind_what_came_after() {
        let lines = [
            r#"{"v":1,"n":0,"type":"session","id":"x","key":"main:cli:user"}"#,
            r#"{"v":1,"n":1,"parent":0,"type":"user","content":"a"}"#,
            r#"{"v":1,"n":2,"parent":1,"type":"user","content":"b"}"#,
            r#"{"v":1,"n":3,"type":"head","to":1,"reason":"rewind"}"#,
            r#"{"v":1,"n":4,"parent":1,"type":"user","content":"c"}"#,
            r#"{"v":1,"n":5,"parent":4,"type":"compaction","summary":"s"}"#,
        ];
        assert!(left_behind(&lines[..3]).is_empty());
        assert_eq!(left_behind(&lines[..4]), [2]);
        assert_eq!(left_behind(&lines), [2]);
        let to_nothing = r#"{"v":1,"n":6,"type":"head","to":null,"reason":"rewind"}"#;
        assert_eq!(left_behind(&[&lines[..], &[to_nothing]].concat()), [0, 1, 2, 4, 5]);
    }

    #[test]
    fn a_hole_costs_what_is_in_it() {
        let lines = [
            r#"{"v":1,"n":1,"parent":0,"type":"user","content":"a"}"#,
            r#"{"v":1,"n":9,"parent":8,"type":"user","content":"b"}"#,
        ];
        assert!(left_behind(&lines).is_empty());
        assert!(left_behind(&[r#"{"type":"user","content":"a"}"#, r#"{"type":"user","content":"b"}"#]).is_empty());
    }
}
