//! A transcript written anew with some of its lines changed: numbers and times stay, checksums are made anew.
//!
//! For copies only: under another key, or with secrets masked. A copy must not pretend to be the original, so its header says what it
//! is; and its chain must hold, so that damage that comes later is noticed in it as in any transcript. A line
//! that never had a checksum gets none.

use crate::record::Record;

/// What ends a native line: the closing quotation mark and brace behind eight digits.
const END: &str = "\"}";
/// Number of digits of a checksum.
const DIGITS: usize = 8;
/// What stands before the digits.
const MEMBER: &str = ",\"crc\":\"";

/// The lines of a copy so far.
#[derive(Debug, Default)]
pub(crate) struct Rechain {
    previous: u32,
    out: String,
}

impl Rechain {
    /// The checksum that the next line is chained to.
    pub(crate) fn previous(&self) -> u32 {
        self.previous
    }

    /// Adds a line, given without its line feed.
    pub(crate) fn push(&mut self, line: &str) {
        let digits = line.len().checked_sub(END.len() + DIGITS);
        let chained = digits
            .filter(|at| line.get(..*at).is_some_and(|before| before.ends_with(MEMBER)))
            .filter(|_| line.ends_with(END))
            .and_then(|at| Some((at, Record::parse(line, 0, 0).ok().filter(|record| record.crc.is_some())?)));
        self.previous = match chained {
            Some((at, record)) => {
                let crc = record.checksum(self.previous);
                self.out.push_str(&line[..at]);
                self.out.push_str(&format!("{crc:08x}{END}"));
                crc
            }
            None => {
                self.out.push_str(line);
                0
            }
        };
        self.out.push('\n');
    }

    /// The copy.
    pub(crate) fn finish(self) -> String {
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Draft, Envelope};
    use crate::scan::scan;

    #[test]
    fn a_changed_copy_has_a_chain_that_holds() {
        let mut previous = 0;
        let mut lines = Vec::new();
        for n in 0..4 {
            let envelope = Envelope { n, parent: n.checked_sub(1), now_ms: 0, previous_crc: previous };
            let draft = if n == 0 { Draft::new("session").text("id", "a") } else { Draft::user("secret") };
            let line = draft.encode(envelope, &[]);
            previous = scan(line.as_bytes()).records[0].crc.unwrap();
            lines.push(line);
        }
        let mut copy = Rechain::default();
        for line in &lines {
            copy.push(line.trim_end().replace("secret", "******").as_str());
        }
        let copy = copy.finish();
        assert!(!copy.contains("secret"));
        let scanned = scan(copy.as_bytes());
        assert_eq!((scanned.records.len(), scanned.report.damage_count()), (4, 0), "{:?}", scanned.report);
        let changed = lines.concat().replace("secret", "******");
        assert_eq!(scan(changed.as_bytes()).report.damage_count(), 3, "without it the change is damage");
    }

    #[test]
    fn a_line_without_a_checksum_stays_as_it_is() {
        let mut copy = Rechain::default();
        copy.push("{\"type\":\"user\",\"content\":\"x\"}");
        copy.push("é\"}");
        assert_eq!(copy.finish(), "{\"type\":\"user\",\"content\":\"x\"}\né\"}\n");
    }
}
