//! The place behind a number in a transcript whose records say their own.
//!
//! Meant is the place behind the last line whose number is not greater. Near the end it is found by
//! reading backwards. Further back the bytes are bisected, which is right as long as numbers rise;
//! what is landed on has to say so at every step. Where numbers were used again or fall, the way
//! back is gone to its end, as near the end.

use unforget_core::lines::Physical;
use unforget_core::reader::{Backward, LogReader};

use super::own;
use crate::error::Result;
use unforget_core::session::Position;

/// How many bytes from the end are read before the rest is bisected.
pub(super) const NEAR: u64 = 1 << 20;
/// So many bytes are read in a row in the end.
const NARROW: u64 = 256 * 1024;

/// The place behind the last line whose number is at most `after`; the beginning if there is none.
pub(super) fn behind(reader: &LogReader, after: u64, near: u64) -> Result<Position> {
    let mut back = Back { backward: reader.backward(), offset: reader.len(), first: None };
    if let Some(found) = back.find(after, reader.len().saturating_sub(near))? {
        return Ok(found);
    }
    if let Some(found) = bisect(reader, after, back.offset, back.first)? {
        return Ok(found);
    }
    Ok(back.find(after, 0)?.unwrap_or_default())
}

/// The way back.
struct Back<'r> {
    backward: Backward<'r>,
    /// Where the earliest line begins that was looked at.
    offset: u64,
    /// The number of the earliest one that has one.
    first: Option<u64>,
}

impl Back<'_> {
    /// Looks for the place, not further back than `stop`.
    fn find(&mut self, after: u64, stop: u64) -> Result<Option<Position>> {
        while self.offset > stop
            && let Some(line) = self.backward.next()?
        {
            let n = number(&line);
            if let Some(n) = n.filter(|n| *n <= after) {
                return Ok(Some(Position { offset: self.offset, next: n.saturating_add(1) }));
            }
            self.offset = line.offset;
            self.first = n.or(self.first);
        }
        Ok(None)
    }
}

fn number(line: &Physical<'_>) -> Option<u64> {
    std::str::from_utf8(line.bytes).ok().and_then(own)
}

/// The place, if it is before `high`, from where on all numbers are greater, the first of them
/// `high_n`; none if numbers do not rise.
fn bisect(reader: &LogReader, after: u64, mut high: u64, mut high_n: Option<u64>) -> Result<Option<Position>> {
    // Behind a line whose number is not greater.
    let mut low = Position::default();
    let mut low_n = None;
    while high.saturating_sub(low.offset) > NARROW {
        let middle = low.offset + (high - low.offset) / 2;
        let Some((start, found)) = line_from(reader, middle, high)? else { break };
        let Some((n, end)) = found else {
            // Nothing there has a number.
            high = start;
            continue;
        };
        if low_n.is_some_and(|low| n <= low) || high_n.is_some_and(|high| n >= high) {
            return Ok(None);
        }
        if n <= after {
            (low, low_n) = (Position { offset: end, next: n.saturating_add(1) }, Some(n));
        } else {
            (high, high_n) = (start, Some(n));
        }
    }
    let mut forward = reader.forward(low.offset);
    let mut last = low_n;
    while let Some(line) = forward.next()?.filter(|line| line.offset < high) {
        let Some(n) = number(&line) else { continue };
        if last.is_some_and(|last| n <= last) || high_n.is_some_and(|high| n >= high) {
            return Ok(None);
        }
        last = Some(n);
        if n <= after {
            low = Position { offset: line.end(), next: n.saturating_add(1) };
        }
    }
    Ok(Some(low))
}

/// Where the first line from `middle` on begins, and the number and the end of the first that has
/// one, before `high`; none if no line begins there.
#[expect(clippy::type_complexity, reason = "a place, and what was found there")]
fn line_from(reader: &LogReader, middle: u64, high: u64) -> Result<Option<(u64, Option<(u64, u64)>)>> {
    // A line that ends right before the middle shows that one begins there.
    let mut forward = reader.forward(middle.saturating_sub(1));
    let Some(start) = forward.next()?.map(|line| line.end()).filter(|start| *start < high) else { return Ok(None) };
    while let Some(line) = forward.next()?.filter(|line| line.offset < high) {
        if let Some(n) = number(&line) {
            return Ok(Some((start, Some((n, line.end())))));
        }
    }
    Ok(Some((start, None)))
}

#[cfg(test)]
mod tests {
    use unforget_core::medium::{Os, replace_durable};
    use unforget_testkit::counting::Counting;

    use super::*;

    /// Reads a text as a transcript.
    fn with<T>(text: &[u8], look: impl FnOnce(&LogReader) -> T) -> T {
        let folder = tempfile::tempdir().unwrap();
        let medium = Os::new(folder.path().to_path_buf());
        replace_durable(&medium, "log".as_ref(), text).unwrap();
        look(&LogReader::open(&medium, "log".as_ref()).unwrap())
    }

    fn line(n: u64, bytes: usize) -> String {
        format!("{{\"v\":1,\"n\":{n},\"type\":\"user\",\"content\":\"{}\"}}\n", "x".repeat(bytes))
    }

    /// The way that reads everything from the end.
    fn plain(reader: &LogReader, after: u64) -> Position {
        behind(reader, after, u64::MAX).unwrap()
    }

    /// Lines of many lengths, some of them long.
    fn long_text(count: u64) -> String {
        (0..count)
            .map(|n| line(n * 2, usize::try_from(n * 7919 % 997).unwrap() + if n % 100 == 7 { 90_000 } else { 0 }))
            .collect()
    }

    #[test]
    fn every_number_is_found_where_the_way_back_finds_it() {
        let count = 3000;
        with(long_text(count).as_bytes(), |reader| {
            for after in (0..count * 2 + 3).step_by(13).chain([0, 1, 2, u64::MAX]) {
                assert_eq!(behind(reader, after, 0).unwrap(), plain(reader, after), "{after}");
                assert!(bisect(reader, after, reader.len(), None).unwrap().is_some(), "{after}: it was not bisected");
            }
        });
    }

    #[test]
    fn damage_and_holes_lead_nowhere_else() {
        let text = long_text(2000);
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        for at in [0, 1, 5, 700, 701, 702, 1500, 1999] {
            lines[at] = "{ broken".to_owned();
        }
        lines[900] = "\0".repeat(300_000);
        lines[1200] = String::new();
        lines.drain(300..400);
        lines.insert(800, "no number ".repeat(20_000));
        for end in ["", "\n", "\n{\"v\":1,\"n\":5000,\"ty"] {
            let text = format!("{}{end}", lines.join("\n"));
            with(text.as_bytes(), |reader| {
                for after in (0..4200).step_by(37).chain([0, 3, 1400, 1401, 1402, 1403, 4999, 5000]) {
                    assert_eq!(behind(reader, after, 0).unwrap(), plain(reader, after), "{after}");
                }
            });
        }
        for nothing in ["", "\n\n\n", "garbage\n"] {
            with(nothing.repeat(50_000).as_bytes(), |reader| {
                assert_eq!(behind(reader, 5, 0).unwrap(), plain(reader, 5));
            });
        }
    }

    #[test]
    fn numbers_that_fall_or_come_again_are_noticed_where_they_are_met() {
        // All of it again, backwards, and each number twice: no landing place is right.
        let again: String = (0..2000).chain(0..2000).map(|n| line(n, 500)).collect();
        let falling: String = (0..2000).rev().map(|n| line(n, 500)).collect();
        let twice: String = (0..2000).map(|n| line(n / 2, 500)).collect();
        for text in [again, falling, twice] {
            with(text.as_bytes(), |reader| {
                for after in [0, 1, 400, 999, 1000, 1500, 1999, 3000] {
                    let found = behind(reader, after, 0).unwrap();
                    let is_right = found == plain(reader, after);
                    // One that was not noticed is behind its number all the same, and nothing is
                    // left out.
                    assert!(
                        is_right || (found.next == after + 1 && found.offset < plain(reader, after).offset),
                        "{after}"
                    );
                }
            });
        }
    }

    #[test]
    fn a_place_in_the_middle_is_found_without_reading_half_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let medium = Counting::new(Os::new(folder.path().to_path_buf()));
        let text: String = (0..40_000).map(|n| line(n, 500)).collect();
        replace_durable(&medium, "log".as_ref(), text.as_bytes()).unwrap();
        let reader = LogReader::open(&medium, "log".as_ref()).unwrap();
        let read = |after: u64| {
            let before = medium.bytes_read();
            assert_eq!(behind(&reader, after, NEAR).unwrap().next, after + 1);
            medium.bytes_read() - before
        };
        assert!(reader.len() > 20 << 20);
        assert!(read(39_990) <= 64 << 10, "who was away for a moment costs a moment");
        for after in [10, 10_000, 20_000, 30_000] {
            assert!(read(after) < 5 << 20, "{after}: {}", read(after));
        }
    }
}
