//! Records said again on top of what someone else said meanwhile.
//!
//! Two machines went on from the same line. The remote's lines stay as they are, because others have them; the records that only
//! this machine has come behind them, under new numbers, with their times, and with their references led along. References to the
//! part that both have keep their numbers. So the conversation reads as if this machine had spoken last.
//!
//! It is a pure function: where the result goes, and what becomes of the file that it was made of, is not known here.
//! It guards against a merge that invents an order inside the common part, or that lets two records have one number.

use std::collections::HashMap;
use std::ops::Range;

use crate::error::Result;
use crate::fork::Again;
use crate::lines::split;
use crate::recent::End;
use crate::record::{Body, VERSION};
use crate::scan::Scanner;

/// What comes behind the remote's lines.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rebased {
    /// Whole lines.
    pub bytes: Vec<u8>,
    /// How many records they are.
    pub records: u64,
    /// How many records could not be said again: headers, and those of newer versions.
    pub left_out: u64,
    /// How many places of the tail were no records.
    pub damaged: u64,
}

/// Says the records again that stand behind the first `common` lines of a transcript, now behind `onto`.
pub fn rebase(transcript: &[u8], common: u64, onto: End, now_ms: i64) -> Result<Rebased> {
    let mut scanner = Scanner::default();
    let (mut shared, mut own) = (0, Vec::new());
    let (mut damaged_before, mut lines) = (0, Vec::new());
    for (at, line) in split(transcript, 0).filter(|line| line.terminated).enumerate() {
        let is_shared = (at as u64) < common;
        scanner.feed(&line, |record| match is_shared {
            true => shared = shared.max(record.n.saturating_add(1)),
            false => own.push(record),
        });
        if !is_shared {
            let end = line.offset + line.len;
            lines.push(place(line.offset)..place(end));
        }
        if is_shared {
            damaged_before = scanner.report.damage_count();
        }
    }
    if scanner.is_foreign() {
        return Ok(verbatim(transcript, &lines));
    }
    let mut end = onto;
    let mut numbers = HashMap::new();
    let mut rebased = Rebased { damaged: scanner.report.damage_count() - damaged_before, ..Rebased::default() };
    for record in own {
        if record.version > VERSION || matches!(record.body, Body::Session(_)) {
            rebased.left_out += 1;
            continue;
        }
        let new = |n: u64| if n < shared { Some(n) } else { numbers.get(&n).copied() };
        let again = Again::of(&record, now_ms);
        let n = end.next;
        rebased.bytes.extend_from_slice(again.encode(&mut end, new, now_ms)?.as_bytes());
        numbers.insert(record.n, n);
        rebased.records += 1;
    }
    Ok(rebased)
}

/// Lines of another program name each other, so they mean the same wherever they stand; whatever is in them, they stay as they are.
fn verbatim(transcript: &[u8], lines: &[Range<usize>]) -> Rebased {
    let mut rebased = Rebased::default();
    for line in lines.iter().filter_map(|range| transcript.get(range.clone())) {
        rebased.bytes.extend_from_slice(line);
        rebased.bytes.push(b'\n');
        rebased.records += 1;
    }
    rebased
}

/// A place in a file as one in a buffer that holds all of it.
fn place(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Draft;
    use crate::scan::scan;
    use crate::session::encode_next;

    fn lines(end: &mut End, drafts: &[Draft]) -> String {
        drafts.iter().map(|draft| encode_next(end, draft, &[], 0).unwrap()).collect()
    }

    #[test]
    fn own_records_come_behind_the_others_with_numbers_and_references_of_their_own() {
        let mut end = End::default();
        let header = Draft::new("session").text("id", "a").text("key", "main:cli:user");
        let common = lines(&mut end, &[header, Draft::user("both")]);
        let mut theirs_end = end;
        let theirs = lines(&mut theirs_end, &[Draft::user("theirs 1"), Draft::user("theirs 2")]);
        let mine = lines(
            &mut end,
            &[
                Draft::user("mine 1"),
                Draft::label(Some(2), "mine"),
                Draft::head(Some(1), "rewind"),
                Draft::user("mine 2"),
            ],
        );
        let rebased = rebase(format!("{common}{mine}").as_bytes(), 2, theirs_end, 0).unwrap();
        assert_eq!((rebased.records, rebased.left_out, rebased.damaged), (4, 0, 0));
        let own = String::from_utf8(rebased.bytes.clone()).unwrap();
        let whole = format!("{common}{theirs}{own}");
        let scanned = scan(whole.as_bytes());
        assert_eq!(scanned.report.damage_count(), 0, "{:?}", scanned.report);
        assert_eq!(scanned.records.iter().map(|record| record.n).collect::<Vec<_>>(), (0..8).collect::<Vec<_>>());
        let said: Vec<&str> = scanned.records[4..].iter().map(|record| record.raw).collect();
        assert!(said[0].contains("mine 1") && said[0].contains("\"parent\":3"), "{}", said[0]);
        assert!(said[1].contains("\"to\":4"), "the label follows its record: {}", said[1]);
        assert!(said[2].contains("\"to\":1"), "what both have keeps its number: {}", said[2]);
        assert!(said[3].contains("mine 2") && said[3].contains("\"parent\":1"), "{}", said[3]);
    }
}
