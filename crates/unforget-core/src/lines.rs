//! Bytes into lines: pure, total, and accounting for every byte.
//!
//! Only the byte 0x0A separates lines. [`split`] cuts a buffer into physical lines; [`salvage`] looks
//! inside one that is not a plain JSON object and tells, piece by piece, what can be kept and what must be
//! skipped and why. Between them every byte of a file is either in a line, a separator, or in a
//! [`Piece::Skip`]. What the objects mean is not known here.

use std::ops::Range;

use memchr::{memchr, memchr_iter, memmem};
use serde_json::value::RawValue;

use crate::json;
use crate::report::NoteKind;

/// The longest line that is read into memory; payloads beyond the blob limit never reach a line.
pub const MAX_LINE: usize = 64 * 1024 * 1024;

/// How many places in a broken line are tried as the start of a record that was glued to it.
const RESYNC_ATTEMPTS: usize = 64;

/// How a record begins, as this program and the tutorials' Python write it.
const RECORD_STARTS: [&[u8]; 3] = [b"{\"v\":", b"{\"type\":", b"{\"parentUuid\":"];

/// Members of which every record has one: version or time, in its own spelling.
const RECORD_MEMBERS: [&str; 4] = ["v", "ts", "created", "timestamp"];

/// What lies between two line feeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Physical<'a> {
    /// Where it begins in the file.
    pub offset: u64,
    /// Its bytes, without the line feed; empty if it is over-long.
    pub bytes: &'a [u8],
    /// Its length, without the line feed.
    pub len: u64,
    /// Whether a line feed ends it; only the last line of a file may lack one.
    pub terminated: bool,
}

impl<'a> Physical<'a> {
    /// The line with these bytes, which are not kept if they are over-long.
    pub(crate) fn new(offset: u64, bytes: &'a [u8], terminated: bool) -> Self {
        let kept = if bytes.len() > MAX_LINE { &[] } else { bytes };
        Self { offset, bytes: kept, len: bytes.len() as u64, terminated }
    }

    /// Whether the line was too long to be read.
    pub fn is_overlong(&self) -> bool {
        self.len > self.bytes.len() as u64
    }

    /// The offset just behind the line and its line feed.
    pub fn end(&self) -> u64 {
        self.offset + self.len + u64::from(self.terminated)
    }
}

/// Cuts a buffer that begins at `base` of a file into physical lines.
pub fn split(buffer: &[u8], base: u64) -> impl Iterator<Item = Physical<'_>> {
    let mut rest = buffer;
    let mut offset = base;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (bytes, terminated, behind) = match memchr(b'\n', rest) {
            Some(end) => (&rest[..end], true, &rest[end + 1..]),
            None => (rest, false, &rest[rest.len()..]),
        };
        let line = Physical::new(offset, bytes, terminated);
        offset = line.end();
        rest = behind;
        Some(line)
    })
}

/// What a physical line holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// A whole JSON object.
    Object(Range<usize>),
    /// Bytes that are no part of an object.
    Skip(Range<usize>, NoteKind),
}

/// Takes a physical line apart that may be anything; the pieces cover all of it.
pub fn salvage(line: &Physical<'_>, first: bool) -> Vec<Piece> {
    if line.is_overlong() {
        return vec![Piece::Skip(0..usize::try_from(line.len).unwrap_or(usize::MAX), NoteKind::TooLong)];
    }
    let bytes = line.bytes;
    let mut pieces = Vec::new();
    let mut at = 0;
    if first && bytes.starts_with(b"\xef\xbb\xbf") {
        pieces.push(Piece::Skip(0..3, NoteKind::ByteOrderMark));
        at = 3;
    }
    let mut resynced = false;
    while at < bytes.len() {
        let nuls = bytes[at..].iter().take_while(|byte| **byte == 0).count();
        if nuls > 0 {
            pieces.push(Piece::Skip(at..at + nuls, NoteKind::Nul));
            at += nuls;
            continue;
        }
        let blanks = bytes[at..].iter().take_while(|byte| is_blank(**byte)).count();
        if blanks > 0 {
            // Blanks behind an object (a carriage return) are part of its line, if JSON takes them for blanks.
            let rest = &bytes[at..];
            let is_end = rest.len() == blanks && rest.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r'));
            if let (Some(Piece::Object(range)), true) = (pieces.last_mut(), is_end) {
                range.end = bytes.len();
            } else {
                pieces.push(Piece::Skip(at..at + blanks, NoteKind::Blank));
            }
            at += blanks;
            continue;
        }
        if let Some(end) = object_at(bytes, at) {
            pieces.push(Piece::Object(at..end));
            at = end;
            continue;
        }
        let next = if resynced { None } else { resync(bytes, at + 1) };
        resynced = true;
        let end = next.unwrap_or(bytes.len());
        pieces.push(Piece::Skip(at..end, name_damage(&bytes[at..end], line.terminated || next.is_some())));
        at = end;
    }
    pieces
}

/// Whether the bytes are one whole JSON object with nothing but blanks around it.
pub fn is_object(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().first() == Some(&b'{') && serde_json::from_slice::<&RawValue>(bytes).is_ok()
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | 0x0b | 0x0c)
}

/// The end of the JSON object that begins at `at`, if there is one.
fn object_at(bytes: &[u8], at: usize) -> Option<usize> {
    if bytes.get(at) != Some(&b'{') {
        return None;
    }
    let mut values = serde_json::Deserializer::from_slice(&bytes[at..]).into_iter::<&RawValue>();
    match values.next() {
        Some(Ok(_)) => Some(at + values.byte_offset()),
        _ => None,
    }
}

/// The first place from `from` on where a record begins that fills the rest of the line.
///
/// An object nested in the broken one is not mistaken for a record: it ends before the line does, or, where the line was
/// cut right behind it, has none of the members that every record has.
fn resync(bytes: &[u8], from: usize) -> Option<usize> {
    let mut starts: Vec<usize> = RECORD_STARTS
        .iter()
        .flat_map(|start| memmem::find_iter(&bytes[from..], start).map(|at| from + at).take(RESYNC_ATTEMPTS))
        .collect();
    starts.sort_unstable();
    starts.into_iter().take(RESYNC_ATTEMPTS).find(|at| {
        object_at(bytes, *at).is_some_and(|end| {
            let fills_the_line = bytes[end..].iter().all(|byte| is_blank(*byte) || *byte == 0);
            fills_the_line && is_like_a_record(&bytes[*at..end])
        })
    })
}

fn is_like_a_record(object: &[u8]) -> bool {
    let members = std::str::from_utf8(object).ok().and_then(json::members).unwrap_or_default();
    RECORD_MEMBERS.iter().any(|name| json::member(&members, name).is_some())
}

fn name_damage(bytes: &[u8], terminated: bool) -> NoteKind {
    if !terminated {
        return NoteKind::Torn;
    }
    if memchr_iter(0, bytes).count() * 2 > bytes.len() {
        return NoteKind::Nul;
    }
    if std::str::from_utf8(bytes).is_err() {
        return NoteKind::InvalidUtf8;
    }
    match serde_json::from_slice::<&RawValue>(bytes) {
        Ok(_) => NoteKind::NotAnObject,
        Err(error) => NoteKind::Malformed(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &[u8], terminated: bool) -> Vec<Piece> {
        salvage(&Physical { offset: 0, bytes: text, len: text.len() as u64, terminated }, true)
    }

    #[test]
    fn a_glued_record_is_kept_and_the_torn_one_before_it_is_named() {
        let text = br#"{"type":"user","content":"lost{"type":"user","content":"kept","ts":1}"#;
        let glued = 30;
        assert!(matches!(
            pieces(text, true).as_slice(),
            [Piece::Skip(skip, NoteKind::Malformed(_)), Piece::Object(object)]
                if *skip == (0..glued) && *object == (glued..text.len())
        ));
    }

    #[test]
    fn two_whole_records_on_one_line_are_both_kept() {
        assert_eq!(pieces(b"{\"a\":1}{\"b\":2}", true), [Piece::Object(0..7), Piece::Object(7..14)]);
    }

    #[test]
    fn an_object_nested_in_a_broken_line_is_not_taken_for_a_record() {
        let text = br#"{"v":1,"bad":tru,"content":[{"type":"tool_result","tool_use_id":"x"}]}"#;
        assert!(matches!(pieces(text, true).as_slice(), [Piece::Skip(range, _)] if *range == (0..text.len())));
    }

    #[test]
    fn a_block_at_the_end_of_a_line_that_was_cut_is_not_taken_for_a_record() {
        let text = br#"{"v":1,"n":2,"type":"assistant","content":[{"type":"text","text":"x"}"#;
        assert_eq!(pieces(text, false), [Piece::Skip(0..text.len(), NoteKind::Torn)]);
    }

    #[test]
    fn a_carriage_return_belongs_to_its_line() {
        assert_eq!(pieces(b"{\"a\":1}\r", true), [Piece::Object(0..8)]);
    }

    #[test]
    fn an_unterminated_whole_object_is_kept_and_a_part_of_one_is_torn() {
        assert_eq!(pieces(b"{\"a\":1}", false), [Piece::Object(0..7)]);
        assert_eq!(pieces(b"{\"a\":", false), [Piece::Skip(0..5, NoteKind::Torn)]);
    }
}
