//! What a command says, in bounded memory.
//!
//! The first and the last half of the room are kept and what came between is only counted, so that neither the beginning
//! of a build nor its last error is lost, however much a command prints.

use std::collections::VecDeque;

/// The beginning and the end of what came.
#[derive(Debug)]
pub(super) struct Capture {
    half: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
}

impl Capture {
    /// Keeps at most `room` bytes.
    pub(super) fn new(room: usize) -> Self {
        Self { half: room / 2, head: Vec::new(), tail: VecDeque::new(), total: 0 }
    }

    /// Takes more bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.total = self.total.saturating_add(bytes.len() as u64);
        let (first, rest) = bytes.split_at(bytes.len().min(self.half - self.head.len()));
        self.head.extend_from_slice(first);
        let rest = rest.get(rest.len().saturating_sub(self.half)..).unwrap_or_default();
        let excess = (self.tail.len() + rest.len()).saturating_sub(self.half);
        self.tail.drain(..excess);
        self.tail.extend(rest);
    }

    /// The text, with a line in the place of what is missing.
    pub(super) fn into_text(self) -> String {
        let kept = self.head.len() + self.tail.len();
        let missing = self.total - kept as u64;
        let tail = Vec::from(self.tail);
        if missing == 0 {
            return String::from_utf8_lossy(&[self.head, tail].concat()).into_owned();
        }
        let (head, tail) = (String::from_utf8_lossy(&self.head), String::from_utf8_lossy(&tail));
        let advice = "redirect the output to a file to have all of it";
        format!("{}\n[… {missing} bytes left out; {advice}]\n{}", head.trim_end_matches('\n'), tail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_comes_back_whole() {
        let mut capture = Capture::new(8);
        for byte in "aäbc".as_bytes() {
            capture.push(&[*byte]);
        }
        assert_eq!(capture.into_text(), "aäbc");
    }

    #[test]
    fn beginning_and_end_are_kept_and_the_rest_is_counted() {
        for piece in 1..30 {
            let mut capture = Capture::new(8);
            b"0123456789abcdefghij".chunks(piece).for_each(|bytes| capture.push(bytes));
            assert!(capture.head.len() + capture.tail.len() <= 8);
            let text = capture.into_text();
            assert!(text.starts_with("0123\n[… 12 bytes left out;") && text.ends_with("\nghij"), "{text}");
        }
    }
}
