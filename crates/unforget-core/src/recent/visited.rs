//! The lines that a backward walk read, kept so that the forward scan reads none of them again.
//!
//! The walk chooses some lines for the view and passes the others, for example those of abandoned branches. The
//! scanner must meet all of them, in file order. Memory stays bounded: lines that the walk passed are kept up to
//! [`KEPT_ASIDES`]; beyond that the scan reads the range from the file once more.

use crate::error::Result;
use crate::lines::Physical;
use crate::reader::LogReader;
use crate::scan::Scanner;

/// How many bytes of lines that the walk did not choose are kept.
const KEPT_ASIDES: usize = 4 << 20;

/// Lines of a backward walk, from the newest to the oldest.
#[derive(Default)]
pub(super) struct Visited {
    lines: Vec<Line>,
    /// How many bytes of `lines` the walk did not choose.
    asides: usize,
    /// Whether `lines` lacks some of what the walk passed.
    has_gaps: bool,
}

struct Line {
    offset: u64,
    /// Empty if it is over-long.
    bytes: Vec<u8>,
    len: u64,
    terminated: bool,
    is_chosen: bool,
}

impl Visited {
    pub(super) fn push(&mut self, line: &Physical<'_>, is_chosen: bool) {
        let Physical { offset, bytes, len, terminated } = *line;
        if !is_chosen {
            self.asides += bytes.len() + size_of::<Line>();
            self.has_gaps |= self.asides > KEPT_ASIDES;
            if self.has_gaps {
                return;
            }
        }
        self.lines.push(Line { offset, bytes: bytes.to_vec(), len, terminated, is_chosen });
    }

    /// Feeds every visited line to `scanner` in file order, and appends the chosen ones to `chosen`.
    pub(super) fn scan(
        self,
        reader: &LogReader,
        begin: u64,
        mut scanner: Scanner,
        chosen: &mut Vec<(u64, Vec<u8>)>,
    ) -> Result<Scanner> {
        if self.has_gaps {
            let mut forward = reader.forward(begin);
            while let Some(line) = forward.next()? {
                scanner.feed(&line, drop);
            }
        }
        for Line { offset, bytes, len, terminated, is_chosen } in self.lines.into_iter().rev() {
            if !self.has_gaps {
                scanner.feed(&Physical { offset, bytes: &bytes, len, terminated }, drop);
            }
            if is_chosen {
                chosen.push((offset, bytes));
            }
        }
        Ok(scanner)
    }
}
