//! Which program wrote a file, by what its first lines look like.
//!
//! Only looks: nothing is converted here and nothing is read from a disk. A file that is none of the known kinds is nobody's,
//! and is left to the reader of the tutorials' records, which takes or refuses it line by line. A format is
//! recognised by members that its program always writes, never by the file's name: people rename and copy files.

use crate::import::object::Object;
use crate::lines;

/// How many lines are looked at: the first ones may be damaged.
const LOOKED_AT: usize = 20;
/// How much of a file is enough to recognise it, first lines with long instructions included.
pub(crate) const HEAD: u64 = 1 << 20;
/// Where a tar archive says that it is one, and what.
const TAR_MAGIC: (usize, &[u8]) = (257, b"ustar");
/// What a line of a Codex rollout can be.
const ROLLOUT: [&str; 5] = ["session_meta", "response_item", "event_msg", "turn_context", "compacted"];

/// What a file was written by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// This program: a transcript.
    Native,
    /// This program: a transcript with its payloads in one file.
    Bundle,
    /// The pi coding agent.
    Pi,
    /// OpenClaw, which writes pi's format and has keys of its own.
    OpenClaw,
    /// Codex.
    Codex,
}

impl Format {
    /// The name that a session's `origin` has for it.
    pub fn name(self) -> &'static str {
        match self {
            Format::Native | Format::Bundle => "unforget",
            Format::Pi => "pi",
            Format::OpenClaw => "openclaw",
            Format::Codex => "codex",
        }
    }
}

/// Tells what wrote a file from its first bytes; none if that is not known.
pub fn recognise(head: &[u8]) -> Option<Format> {
    if head.get(TAR_MAGIC.0..TAR_MAGIC.0 + TAR_MAGIC.1.len()) == Some(TAR_MAGIC.1) {
        return Some(Format::Bundle);
    }
    let lines = lines::split(head, 0).take(LOOKED_AT);
    lines.filter_map(|line| Object::of_line(line.bytes).ok()).find_map(|line| line_of(&line))
}

fn line_of(line: &Object<'_>) -> Option<Format> {
    if line.raw("v").is_some() {
        return Some(Format::Native);
    }
    let kind = line.text("type");
    match kind.as_deref() {
        Some("session") if line.text("timestamp").is_some() && (line.has("version") || line.has("cwd")) => {
            Some(Format::Pi)
        }
        Some(kind) if ROLLOUT.contains(&kind) && line.object("payload").is_some() => Some(Format::Codex),
        // Codex before 2025-09: a bare first line, and bare items behind it.
        None if line.text("timestamp").is_some() && line.text("id").is_some() && line.has("instructions") => {
            Some(Format::Codex)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_is_recognised_by_its_first_usable_line() {
        for (head, format) in [
            (
                r#"{"type":"session","version":3,"id":"a","timestamp":"2026-01-01T00:00:00Z","cwd":"/x"}"#,
                Some(Format::Pi),
            ),
            (r#"{"type":"session","id":"a","timestamp":"2026-01-01T00:00:00Z","cwd":"/x"}"#, Some(Format::Pi)),
            ("rubbish\n{\"timestamp\":\"t\",\"type\":\"session_meta\",\"payload\":{}}", Some(Format::Codex)),
            (r#"{"id":"a","timestamp":"t","instructions":null}"#, Some(Format::Codex)),
            (r#"{"v":1,"n":0,"type":"session"}"#, Some(Format::Native)),
            (r#"{"type": "session", "id": "a", "key": "main:cli:user", "created": "t"}"#, None),
            (r#"{"type":"user","content":"x"}"#, None),
            ("", None),
        ] {
            assert_eq!(recognise(head.as_bytes()), format, "{head}");
        }
    }
}
