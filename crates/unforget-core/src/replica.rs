//! What a copy of a transcript has to know: what a line needs besides itself, and how lines of someone else are taken in.
//!
//! Lines that come from another machine were said there; they are added here byte for byte, so no session writes them. They go through the
//! same [`Log`] as everything else, under its lock, and the index is told before the first one. Which lines are right is for the caller to
//! prove: nothing here speaks to a remote.
//!
//! It guards against a second way of writing transcripts, and against lines that are visible before the payloads that they refer to.

use std::path::Path;
use std::sync::Arc;

use crate::blob::{BlobRef, references};
use crate::error::Result;
use crate::lines::Physical;
use crate::log::{Durability, Log};
use crate::medium::Medium;
use crate::observer::Notice;
use crate::reader::LogReader;
use crate::scan::Scanner;

/// The payloads that a line, given without its line feed, refers to.
pub fn payloads(line: &[u8]) -> Vec<BlobRef> {
    let mut found = Vec::new();
    // Most lines refer to none, and need not be parsed to know it.
    if memchr::memmem::find(line, b"\"blobs\"").is_none() {
        return found;
    }
    Scanner::partial(0).feed(&Physical::new(0, line, true), |record| {
        found.extend(references(&record).into_iter().flatten());
    });
    found
}

/// A transcript that takes in lines of someone else, under its lock.
#[derive(Debug)]
pub struct Intake {
    log: Log,
    medium: Arc<dyn Medium>,
    notice: Option<Notice>,
}

impl Intake {
    /// Opens a transcript that no index knows.
    pub fn open(medium: Arc<dyn Medium>, path: &Path) -> Result<Self> {
        Self::noticed(medium, path, None)
    }

    /// Opens a transcript that an index may know.
    pub(crate) fn noticed(medium: Arc<dyn Medium>, path: &Path, notice: Option<Notice>) -> Result<Self> {
        let (log, sealed) = Log::open(medium.clone(), path, Durability::PowerLoss)?;
        let mut intake = Self { log, medium, notice };
        if sealed.is_some() {
            intake.tell();
        }
        Ok(intake)
    }

    /// The transcript as it is now, all of it whole lines.
    pub fn reader(&self) -> Result<LogReader> {
        LogReader::open(self.medium.as_ref(), self.log.path())
    }

    /// Adds whole lines; they are safe when this returns.
    pub fn append(&mut self, lines: &[u8]) -> Result<()> {
        self.tell();
        self.log.append(lines)
    }

    /// Tells the index, once, that the session changes.
    pub(crate) fn tell(&mut self) {
        self.notice.iter_mut().for_each(Notice::give);
    }

    /// Ends the writing and brings the index up to date; if it cannot be now, its mark is still there.
    pub fn close(self) {
        match self.notice.as_ref().map_or(Ok(()), Notice::close) {
            Ok(()) | Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_references_are_payloads() {
        let hash = "ab".repeat(32);
        let reference = format!("{{\"sha256\":\"{hash}\",\"bytes\":3,\"preview\":\"x\"}}");
        let listed = format!("{{\"v\":1,\"n\":1,\"type\":\"user\",\"content\":{reference},\"blobs\":[\"/content\"]}}");
        assert_eq!(payloads(listed.as_bytes()), [BlobRef { sha256: hash, bytes: 3 }]);
        let unlisted =
            format!("{{\"v\":1,\"n\":1,\"type\":\"user\",\"content\":{reference},\"said\":\"\\\"blobs\\\"\"}}");
        assert_eq!(payloads(unlisted.as_bytes()), []);
        assert_eq!(payloads(b"\"blobs\" \xff"), []);
    }
}
