//! The lines that resuming needs, from the end of a transcript.
//!
//! A conversation that was summarised begins anew at its boundary: what is sent after resuming is made from the boundary on, plus a few
//! lines from before it that the boundary names. With these lines alone Claude Code (2.1.325, 2.1.197) sends the same request as with
//! all of them, byte for byte, however long the conversation was. So a session of hundreds of megabytes can go on elsewhere when its
//! end is there.
//!
//! Where a line behind the boundary continues one from before it that the boundary does not name, because a second window did not know
//! of the summary, the boundary alone is not enough: then more is needed, and all of it if no older boundary is before those lines.
//! So what is taken is closed: no line in it continues one that was left out, except those that the boundary names. Lines come newest
//! first; memory is bounded by those that are needed.

use std::collections::HashSet;

use crate::row::{Parent, Row, members, text};

/// Lines beside the tree of which the newest counts; one from before the boundary is kept if it is met on the way.
const NEWEST_COUNTS: [&str; 12] = [
    "last-prompt",
    "custom-title",
    "ai-title",
    "tag",
    "agent-name",
    "agent-color",
    "agent-setting",
    "mode",
    "permission-mode",
    "relocated",
    "worktree-state",
    "pr-link",
];
/// Lines about files as they were when a message was said, which go with the message.
const OF_MESSAGE: [&str; 2] = ["file-history-snapshot", "file-history-delta"];

/// What comes after a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The line before it is needed, too, if there is one.
    More,
    /// Nothing before it is needed.
    Enough,
}

/// What resuming needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needed {
    /// The lines, in the order of the file.
    pub lines: Vec<Vec<u8>>,
    /// Lines that the boundary names and that were not met. If there are any, the whole transcript is the better choice.
    pub missing: Vec<String>,
    /// How many lines that were met are left out.
    pub left_out: u64,
}

/// Collects lines from the end of a transcript.
#[derive(Debug, Default)]
pub struct Tail {
    /// Newest first.
    kept: Vec<Vec<u8>>,
    left_out: u64,
    /// Lines of the tree that were met.
    met: HashSet<String>,
    /// Lines that others continue, and that were not met yet.
    open: HashSet<String>,
    /// What is still looked for, once the boundary was met.
    origin: Option<Origin>,
    seen_types: HashSet<String>,
}

/// What a boundary asks for from before it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Origin {
    listed: HashSet<String>,
    /// All that was listed, found or not.
    named: HashSet<String>,
    /// The first line of a run, and the one that is looked for next.
    run: Option<(String, String)>,
}

impl Tail {
    /// Takes the line before the ones that were taken, without its line feed.
    pub fn feed(&mut self, line: &[u8]) -> Step {
        if self.is_enough() {
            return Step::Enough;
        }
        let members = members(line);
        let row = members.as_ref().and_then(Row::of);
        let keep = match (&mut self.origin, &row, &members) {
            (None, ..) => true,
            (Some(origin), Some(row), _) => origin.takes(row),
            (Some(origin), None, Some(members)) => {
                let type_ = text(members, "type").unwrap_or_default();
                let of = text(members, "messageId").unwrap_or_default();
                let is_newest = NEWEST_COUNTS.contains(&type_.as_str()) && !self.seen_types.contains(&type_);
                is_newest || (OF_MESSAGE.contains(&type_.as_str()) && origin.named.contains(&of))
            }
            (Some(_), None, None) => false,
        };
        if keep {
            self.kept.push(line.to_vec());
        } else {
            self.left_out += 1;
        }
        if let (None, Some(type_)) = (&row, members.and_then(|members| text(&members, "type"))) {
            self.seen_types.insert(type_);
        }
        if let Some(row) = row.filter(|_| self.origin.is_none()) {
            self.close(row);
        }
        if self.is_enough() { Step::Enough } else { Step::More }
    }

    /// What was collected.
    pub fn finish(self) -> Needed {
        let origin = self.origin.unwrap_or_default();
        let mut missing: Vec<String> = origin.listed.into_iter().chain(origin.run.map(|(_, next)| next)).collect();
        missing.sort();
        let mut lines = self.kept;
        lines.reverse();
        Needed { lines, missing, left_out: self.left_out }
    }

    fn is_enough(&self) -> bool {
        self.origin.as_ref().is_some_and(|origin| origin.listed.is_empty() && origin.run.is_none())
    }

    /// Takes note of what a line continues; a boundary ends the search if nothing behind it continues anything before it.
    fn close(&mut self, row: Row) {
        self.open.remove(&row.uuid);
        if let Parent::Of(parent) = row.parent
            && !self.met.contains(&parent)
        {
            self.open.insert(parent);
        }
        self.met.insert(row.uuid);
        let Some(boundary) = row.boundary.filter(|_| !row.is_sidechain) else { return };
        // Lines that are named may be continued: they are kept.
        let is_closed = self.open.iter().all(|uuid| boundary.preserved.contains(uuid));
        if is_closed {
            let named: HashSet<String> = boundary.preserved.into_iter().collect();
            let listed = named.difference(&self.met).cloned().collect();
            self.origin = Some(Origin { listed, named, run: boundary.segment });
        }
    }
}

impl Origin {
    /// Whether a line from before the boundary is one that it asks for.
    fn takes(&mut self, row: &Row) -> bool {
        let is_next = self.run.as_ref().is_some_and(|(_, next)| *next == row.uuid);
        if is_next && let Some((first, _)) = self.run.take() {
            self.run = match &row.parent {
                Parent::Of(parent) if first != row.uuid => Some((first, parent.clone())),
                _ => None,
            };
            return true;
        }
        self.listed.remove(&row.uuid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(kind: &str, uuid: &str, parent: &str) -> String {
        let parent = if parent == "-" { "null".to_owned() } else { format!("\"{parent}\"") };
        format!(
            r#"{{"parentUuid":{parent},"isSidechain":false,"type":"{kind}","uuid":"{uuid}","timestamp":"2026-01-01T00:00:00.000Z"}}"#
        )
    }

    fn boundary(uuid: &str, metadata: &str) -> String {
        format!(
            r#"{{"parentUuid":null,"logicalParentUuid":"a9","isSidechain":false,"type":"system","subtype":"compact_boundary","uuid":"{uuid}","compactMetadata":{{"trigger":"manual",{metadata}}}}}"#
        )
    }

    fn listed(uuids: &str) -> String {
        format!(r#""preservedMessages":{{"anchorUuid":"s1","uuids":[{uuids}],"allUuids":[{uuids}]}}"#)
    }

    /// Feeds lines from the end; tells what is needed and how many lines were not asked for.
    fn needed(lines: &[String]) -> (Needed, usize) {
        let mut tail = Tail::default();
        let mut unasked = lines.len();
        for line in lines.iter().rev() {
            unasked -= 1;
            if tail.feed(line.as_bytes()) == Step::Enough {
                break;
            }
        }
        (tail.finish(), unasked)
    }

    fn texts(needed: &Needed) -> Vec<String> {
        needed.lines.iter().map(|line| String::from_utf8(line.clone()).unwrap()).collect()
    }

    #[test]
    fn the_tail_is_the_boundary_and_what_follows_and_the_lines_that_it_names() {
        let lines = [
            row("user", "u0", "-"),
            row("user", "u1", "u0"),
            row("assistant", "a1", "u1"),
            row("user", "u2", "a1"),
            r#"{"type":"custom-title","customTitle":"old"}"#.to_owned(),
            r#"{"type":"custom-title","customTitle":"new"}"#.to_owned(),
            r#"{"type":"cost-state"}"#.to_owned(),
            r#"{"type":"mode","mode":"normal"}"#.to_owned(),
            boundary("b1", &listed(r#""a1""#)),
            row("user", "s1", "b1"),
            r#"{"type":"mode","mode":"plan"}"#.to_owned(),
            row("assistant", "a3", "s1"),
        ];
        let (needed, unasked) = needed(&lines);
        let kept: Vec<String> = [2, 5, 8, 9, 10, 11].map(|at: usize| lines[at].clone()).to_vec();
        assert_eq!((texts(&needed), needed.missing, needed.left_out, unasked), (kept, Vec::new(), 4, 2));
    }

    #[test]
    fn the_newest_boundary_ends_it() {
        let lines = [
            boundary("b1", &listed("")),
            row("user", "s1", "b1"),
            boundary("b2", &listed(r#""s1""#)),
            row("user", "s2", "b2"),
        ];
        assert_eq!(texts(&needed(&lines).0), lines[1..]);
        let nothing_kept = [row("user", "u1", "-"), boundary("b1", "\"x\":1"), row("user", "s1", "b1")];
        assert_eq!(texts(&needed(&nothing_kept).0), nothing_kept[1..]);
    }

    #[test]
    fn a_run_that_is_named_by_its_ends_is_followed() {
        let segment = r#""preservedSegment":{"headUuid":"a1","anchorUuid":"s1","tailUuid":"a3"}"#;
        let lines = [
            row("user", "u0", "-"),
            row("assistant", "a1", "u0"),
            row("assistant", "a2", "a1"),
            row("attachment", "x", "a2"),
            row("assistant", "a3", "a2"),
            row("user", "u4", "a3"),
            boundary("b1", segment),
            row("user", "s1", "b1"),
        ];
        let kept: Vec<String> = [1, 2, 4, 6, 7].map(|at: usize| lines[at].clone()).to_vec();
        assert_eq!(texts(&needed(&lines).0), kept);
    }

    #[test]
    fn without_a_boundary_everything_is_needed() {
        let lines = [row("user", "u1", "-"), "no json".to_owned(), row("assistant", "a1", "u1")];
        assert_eq!((texts(&needed(&lines).0), needed(&lines).1), (lines.to_vec(), 0));
    }

    #[test]
    fn a_line_that_continues_one_from_before_the_boundary_brings_it_along() {
        // A second window went on from before the summary.
        let lines = [
            row("user", "u1", "-"),
            row("assistant", "a1", "u1"),
            boundary("b1", &listed("")),
            row("user", "s1", "b1"),
            row("user", "u2", "a1"),
        ];
        assert_eq!(texts(&needed(&lines).0), lines);
        let named = boundary("b1", &listed(r#""a1""#));
        let lines = [
            row("user", "u1", "-"),
            row("assistant", "a1", "u1"),
            named,
            row("user", "s1", "b1"),
            row("user", "u2", "a1"),
        ];
        assert_eq!(texts(&needed(&lines).0), lines[1..]);
    }

    #[test]
    fn a_boundary_of_an_agent_is_none() {
        let agents = boundary("b1", &listed("")).replace("\"isSidechain\":false", "\"isSidechain\":true");
        let lines = [row("user", "u1", "-"), row("assistant", "a1", "u1"), agents];
        assert_eq!(texts(&needed(&lines).0), lines);
    }

    #[test]
    fn a_line_that_the_boundary_names_and_that_is_not_there_is_told() {
        let lines = [row("user", "u1", "-"), boundary("b1", &listed(r#""gone""#)), row("user", "s1", "b1")];
        assert_eq!(needed(&lines).0.missing, ["gone"]);
    }

    #[test]
    fn lines_that_name_each_other_are_kept() {
        let lines = [row("user", "u1", "a1"), row("assistant", "a1", "u1"), row("user", "u3", "a1")];
        assert_eq!(texts(&needed(&lines).0), lines);
    }
}
