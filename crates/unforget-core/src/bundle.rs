//! A session in one file: `manifest.json`, `transcript.jsonl` byte for byte, and `blobs/<sha256>`, in a tar archive.
//!
//! The manifest comes first and has the hash and size of every other member, so that a reader can prove each one before it believes
//! any. Nothing is compressed: `tar tvf` and `tar xf` are all that it takes to look inside without this program. `pack` writes
//! one, `verify` proves one; what a proved bundle means for a store is for `import` to decide. Every byte of a bundle is
//! untrusted: names, counts and sizes have limits, and no name becomes a path.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::encode;
use crate::error::Error;
use crate::frontier::Frontier;

mod pack;
mod ustar;
mod verify;

pub use pack::{Contents, Packed, pack};
pub use verify::{Verified, verify};

/// What the manifest says that the file is.
const FORMAT: &str = "unforget-bundle";
/// The version that this program writes.
const VERSION: u64 = 1;
/// The names of the members that every bundle has.
const MANIFEST: &str = "manifest.json";
const TRANSCRIPT: &str = "transcript.jsonl";
/// Where payloads are.
const BLOBS: &str = "blobs/";

/// How a bundle's name ends.
pub const EXTENSION: &str = "unforget";

/// What is in a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Manifest {
    /// What the file is.
    pub format: String,
    /// Its version.
    pub version: u64,
    /// The session's id.
    pub id: String,
    /// Its key.
    pub key: String,
    /// Its title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// When it was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    /// How many records it has.
    pub records: u64,
    /// Whether secrets were masked: then it is not what was said, word for word.
    #[serde(default)]
    pub masked: bool,
    /// How much of the transcript is in it.
    pub frontier: Extent,
    /// The other members.
    pub members: Vec<Member>,
    /// Payloads that the records refer to and that were not there when it was written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

/// A frontier as text.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Extent {
    /// Whole lines.
    pub lines: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Their chained digest.
    pub digest: String,
}

/// A member of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// SHA-256 of its content.
    pub sha256: String,
}

/// What a transcript's bytes add up to, computed on their way through.
#[derive(Debug, Default)]
struct Survey {
    whole: Sha256,
    bytes: u64,
    frontier: Frontier,
    /// The line that has not ended yet.
    line: Sha256,
    line_bytes: u64,
}

impl Survey {
    fn new() -> Self {
        let mut survey = Self::default();
        survey.line.update(survey.frontier.digest);
        survey
    }

    fn sha256(&self) -> String {
        encode::hex(&self.whole.clone().finalize())
    }

    fn extent(&self) -> Extent {
        Extent { lines: self.frontier.lines, bytes: self.frontier.bytes, digest: self.frontier.hex() }
    }
}

impl Write for Survey {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.whole.update(bytes);
        self.bytes += bytes.len() as u64;
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.update(piece);
            self.line_bytes += piece.len() as u64;
            if piece.ends_with(b"\n") {
                let digest: [u8; 32] = std::mem::take(&mut self.line).finalize().into();
                self.frontier = Frontier {
                    lines: self.frontier.lines + 1,
                    bytes: self.frontier.bytes + std::mem::take(&mut self.line_bytes),
                    digest,
                };
                self.line.update(digest);
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn refused(member: &str, why: impl std::fmt::Display) -> Error {
    Error::Invalid(format!("the bundle cannot be trusted: `{member}`: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_survey_has_the_frontier_of_the_lines_however_they_are_cut() {
        let text = b"one\ntwo\n\nthree";
        let want = Frontier::default().after(b"one").after(b"two").after(b"");
        for size in 1..=text.len() {
            let mut survey = Survey::new();
            for piece in text.chunks(size) {
                survey.write_all(piece).unwrap();
            }
            assert_eq!((survey.frontier, survey.bytes), (want, text.len() as u64));
            assert_eq!(survey.sha256(), encode::sha256_hex(text));
        }
    }
}
