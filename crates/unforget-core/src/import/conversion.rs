//! Native records in the making, out of the lines of a foreign file.
//!
//! The lines are taken one after the other, and what a line becomes depends only on the lines before it: a file that has
//! grown becomes the same records and then more, byte for byte, which is how an import is carried on. Where a foreign
//! entry follows another one than the last, a `head` record goes there first, so that branches stay branches and
//! the head is always said. What has no place in a native session is counted by its kind, never dropped
//! without a word; the original copy has it.

use std::collections::BTreeMap;

use crate::record::Draft;

/// How many single things are told; the rest is counted.
const TOLD: usize = 20;
/// How many kinds of left-out things are told apart: kinds come from the file, which may invent them.
const MAX_KINDS: usize = 50;
/// Longest name of a kind that is repeated.
const MAX_KIND: usize = 100;

/// What a foreign file says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct About {
    pub(super) id: Option<String>,
    /// The folder that was worked in.
    pub(super) folder: Option<String>,
    pub(super) created_ms: Option<i64>,
}

/// The records so far.
#[derive(Debug)]
pub(super) struct Conversion {
    pub(super) about: About,
    drafts: Vec<Draft>,
    /// The record that the next step follows.
    head: u64,
    /// The time of the line that is being read, or of the last one that had any.
    time_ms: i64,
    left_out: BTreeMap<String, u64>,
    put_right: Vec<String>,
    untold: u64,
}

impl Conversion {
    /// Nothing yet; records without a time of their own are dated `time_ms`.
    pub(super) fn new(time_ms: i64) -> Self {
        Self {
            about: About::default(),
            drafts: Vec::new(),
            head: 0,
            time_ms,
            left_out: BTreeMap::new(),
            put_right: Vec::new(),
            untold: 0,
        }
    }

    /// The number that the next record gets; the header has the first one.
    pub(super) fn next(&self) -> u64 {
        self.drafts.len() as u64 + 1
    }

    /// The record that the conversation stands at.
    pub(super) fn head(&self) -> u64 {
        self.head
    }

    /// Dates what follows.
    pub(super) fn at_time(&mut self, ms: Option<i64>) {
        self.time_ms = ms.unwrap_or(self.time_ms);
    }

    /// Goes on behind another record, if that is not where the conversation stands.
    pub(super) fn go_to(&mut self, n: u64) {
        if n != self.head {
            self.push(Draft::head((n > 0).then_some(n), "import"));
            self.head = n;
        }
    }

    /// Adds a record; one that could not be read back is left out.
    pub(super) fn push(&mut self, draft: Draft) {
        if let Err(error) = draft.check() {
            return self.leave_out(&error.to_string());
        }
        if draft.is_step() {
            self.head = self.next();
        }
        self.drafts.push(draft.dated(Some(self.time_ms)));
    }

    /// Adds a record that has its own time.
    pub(super) fn push_as_it_is(&mut self, draft: Draft) {
        self.drafts.push(draft);
    }

    /// Counts something that has no place here.
    pub(super) fn leave_out(&mut self, what: &str) {
        let what: String = what.chars().take(MAX_KIND).collect();
        let is_new = !self.left_out.contains_key(&what);
        let what = if is_new && self.left_out.len() >= MAX_KINDS { "other things".to_owned() } else { what };
        *self.left_out.entry(what).or_default() += 1;
    }

    /// Tells of something that was put right.
    pub(super) fn tell(&mut self, what: String) {
        if self.put_right.len() < TOLD {
            self.put_right.push(what);
        } else {
            self.untold += 1;
        }
    }

    /// The records.
    pub(super) fn drafts(&self) -> &[Draft] {
        &self.drafts
    }

    /// What was put right, ready to be told.
    pub(super) fn put_right(&self) -> Vec<String> {
        let more = (self.untold > 0).then(|| format!("and {} more things", self.untold));
        self.put_right.iter().cloned().chain(more).collect()
    }

    /// What was left out, ready to be told.
    pub(super) fn left_out(&self) -> Vec<String> {
        self.left_out.iter().map(|(what, count)| format!("{count} × {what}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn going_elsewhere_is_said_and_staying_is_not() {
        let mut conversion = Conversion::new(0);
        conversion.push(Draft::user("a"));
        conversion.go_to(1);
        conversion.push(Draft::user("b"));
        conversion.go_to(1);
        conversion.push(Draft::title("t"));
        conversion.go_to(0);
        let kinds: Vec<&str> = conversion.drafts().iter().map(Draft::kind).collect();
        assert_eq!(kinds, ["user", "user", "head", "title", "head"]);
        assert_eq!((conversion.head(), conversion.next()), (0, 6));
    }

    #[test]
    fn what_a_file_invents_does_not_fill_the_screen() {
        let mut conversion = Conversion::new(0);
        for count in 0..1000 {
            conversion.leave_out(&format!("kind {count}"));
            conversion.tell(format!("thing {count}"));
        }
        assert_eq!(conversion.left_out().len(), MAX_KINDS + 1);
        assert_eq!(conversion.put_right().last().map(String::as_str), Some("and 980 more things"));
    }
}
