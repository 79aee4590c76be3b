//! What is known of a file of entries: which uuids it has, what a list shows of it, and how far that was read.
//!
//! A file only grows, so it is read on from where it was left; another file under the same name is read from its beginning.

use std::collections::HashSet;

use sha2::{Digest as _, Sha256};
use unforget_core::json;
use unforget_core::lines;
use unforget_core::reader::LogReader;

use super::fold::Fold;

/// The beginning of a digest: of so many bits no two are alike.
type Mark = u128;

/// What is known of a file.
#[derive(Debug, Default)]
pub(super) struct Known {
    identity: Option<(u64, u64)>,
    is_written: bool,
    /// Its first line, which says when it began.
    born: Option<Mark>,
    read: u64,
    uuids: HashSet<Mark>,
    fold: Fold,
}

impl Known {
    /// Reads what came since; the first line is no entry.
    pub(super) fn catch_up(&mut self, reader: &LogReader) -> Result<(), unforget_core::Error> {
        // A file that was deleted may have left its number to one that was begun anew.
        let born = first_line(reader)?;
        if self.identity != Some(reader.identity()) || self.read > reader.len() || self.born != born {
            *self = Self { identity: Some(reader.identity()), born, ..Self::default() };
        }
        let mut forward = reader.forward(self.read);
        while let Some(line) = forward.next()?.filter(|line| line.terminated) {
            self.read = line.end();
            if line.offset > 0
                && lines::is_object(line.bytes)
                && let Ok(entry) = std::str::from_utf8(line.bytes)
            {
                self.uuids.extend(mark(entry));
                self.fold.feed(entry);
            }
        }
        Ok(())
    }

    /// Those of the entries that the file does not have yet.
    pub(super) fn fresh<'e>(&self, entries: &[&'e str]) -> Vec<&'e str> {
        let mut batch = HashSet::new();
        let is_fresh = |entry: &&&str| mark(entry).is_none_or(|mark| !self.uuids.contains(&mark) && batch.insert(mark));
        entries.iter().filter(is_fresh).copied().collect()
    }

    /// The file, if this process has written it: then its name is durable.
    pub(super) fn written(&self) -> Option<(u64, u64)> {
        self.identity.filter(|_| self.is_written)
    }

    /// This process has written the file.
    pub(super) fn wrote(&mut self) {
        self.is_written = true;
    }

    /// How many bytes it is about.
    pub(super) fn bytes(&self) -> u64 {
        self.read
    }

    /// What a list shows.
    pub(super) fn fold(&self) -> &Fold {
        &self.fold
    }
}

/// What tells the first line of a file from others.
fn first_line(reader: &LogReader) -> Result<Option<Mark>, unforget_core::Error> {
    let mut forward = reader.forward(0);
    Ok(forward.next()?.map(|line| digest(line.bytes)))
}

fn digest(bytes: &[u8]) -> Mark {
    let digest: [u8; 32] = Sha256::digest(bytes).into();
    let mut beginning = [0; 16];
    beginning.copy_from_slice(&digest[..16]);
    Mark::from_be_bytes(beginning)
}

/// What tells an entry from others, if it says so.
fn mark(entry: &str) -> Option<Mark> {
    let members = json::members(entry)?;
    let raw = json::member(&members, "uuid")?;
    let text = json::string(raw).filter(|text| !text.is_empty())?;
    // Where something could not be read, what was written tells it apart.
    let told = if text.contains('\u{fffd}') { raw } else { &text };
    Some(digest(told.as_bytes()))
}
