//! The lines of a transcript, by their numbers, for those who watch and for `records`.
//!
//! A record of ours says its number; a line of another program has the number of lines before it.
//! To find the place behind a number, a transcript of ours is read from its end, so that whoever
//! was away for a moment costs a moment, and further back it is bisected (`seek`); another
//! program's is counted from its beginning. A line that is no record is told as damage, with its
//! place, and has the number that it should have had.

use unforget_core::json;
use unforget_core::lines;
use unforget_core::reader::LogReader;
use unforget_core::session::Position;

use crate::error::Result;

mod seek;

/// How many bytes are read at once at the most, unless one line is longer.
pub(crate) const AT_ONCE: u64 = 256 * 1024;

/// A line of a transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Its number.
    pub n: u64,
    /// Its text: a JSON object; none if it is damaged.
    pub text: Option<String>,
    /// Where it begins.
    pub offset: u64,
    /// Its length.
    pub len: u64,
}

/// How a transcript is numbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numbering {
    /// Each record says its own.
    Own,
    /// By counting.
    Counted,
}

/// The number that a line of ours says, without a look at the rest of it.
fn own(text: &str) -> Option<u64> {
    // Every line of ours begins like this; one of the tutorials' does not, and is looked at as a
    // whole.
    if let Some(rest) = text.strip_prefix("{\"v\":1,\"n\":") {
        let digits = rest.find(|byte: char| !byte.is_ascii_digit())?;
        return rest[..digits].parse().ok();
    }
    json::number(json::member(&json::members(text)?, "n")?)
}

fn number(text: Option<&str>, numbering: Numbering, next: u64) -> u64 {
    match numbering {
        Numbering::Counted => next,
        // A damaged line, or one of a version without numbers, is where it is.
        Numbering::Own => text.and_then(own).unwrap_or(next),
    }
}

fn text(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    lines::is_object(bytes).then(|| text.to_owned())
}

/// The number of a line, of which any bytes may be damaged, behind lines that have all numbers
/// below `next`.
pub(crate) fn number_of(bytes: &[u8], numbering: Numbering, next: u64) -> u64 {
    let text = std::str::from_utf8(bytes).ok().filter(|_| numbering == Numbering::Own && lines::is_object(bytes));
    number(text, numbering, next)
}

/// The place behind the line of a number; the beginning if there is none, or none is asked for.
pub(crate) fn behind(reader: &LogReader, after: Option<u64>, numbering: Numbering) -> Result<Position> {
    let Some(after) = after else { return Ok(Position::default()) };
    if numbering == Numbering::Counted {
        let (mut forward, mut at) = (reader.forward(0), Position::default());
        while at.next <= after
            && let Some(line) = forward.next()?.filter(|line| line.terminated)
        {
            at = Position { offset: line.end(), next: at.next + 1 };
        }
        return Ok(at);
    }
    seek::behind(reader, after, seek::NEAR)
}

/// The end of a transcript: behind its last whole line.
pub(crate) fn end(reader: &LogReader, numbering: Numbering) -> Result<Position> {
    if numbering == Numbering::Counted {
        return behind(reader, Some(u64::MAX - 1), numbering);
    }
    let mut backward = reader.backward();
    let mut offset = reader.len();
    while let Some(line) = backward.next()? {
        if !line.terminated {
            offset = line.offset;
            continue;
        }
        // Damage at the end has no number; what is before it tells.
        if let Some(n) = std::str::from_utf8(line.bytes).ok().and_then(own) {
            return Ok(Position { offset, next: n.saturating_add(1) });
        }
    }
    Ok(Position { offset, next: 0 })
}

/// Some lines from a place on and not behind another, and the place behind them.
pub(crate) fn read(
    reader: &LogReader,
    from: Position,
    to: u64,
    most: usize,
    numbering: Numbering,
) -> Result<(Vec<Line>, Position)> {
    let mut forward = reader.forward(from.offset);
    let (mut found, mut at) = (Vec::new(), from);
    while at.offset < to
        && at.offset - from.offset < AT_ONCE
        && found.len() < most
        && let Some(line) = forward.next()?.filter(|line| line.terminated)
    {
        let text = text(line.bytes);
        let n = number(text.as_deref(), numbering, at.next);
        at = Position { offset: line.end(), next: n.saturating_add(1) };
        if line.len > 0 {
            found.push(Line { n, text, offset: line.offset, len: line.len });
        }
    }
    Ok((found, at))
}
