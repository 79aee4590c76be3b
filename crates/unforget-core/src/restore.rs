//! A conversation as it would be sent, read from a transcript: the newest records, their payloads put back, and the history of both.
//!
//! The one way from a file to a request, for a live session, for the next process and for someone who only looks.

use std::path::Path;

use crate::blob::Blobs;
use crate::error::Result;
use crate::history::{self, History, Limits};
use crate::medium::Medium;
use crate::reader::LogReader;
use crate::report::Report;
use crate::view;

/// A history, and how it went.
#[derive(Debug)]
pub struct Restored {
    /// The messages and their repairs.
    pub history: History<'static>,
    /// Damage met in what was read.
    pub report: Report,
}

/// Rebuilds the conversation of a transcript, payloads put back.
pub fn restore(medium: &dyn Medium, path: &Path, blobs: &Blobs, limits: &Limits) -> Result<Restored> {
    view(medium, path, blobs, limits, |path, report| Restored {
        history: history::rebuild(path, limits).into_owned(),
        report,
    })
}

/// Shows the records that the conversation of a transcript goes on from, payloads put back.
pub fn view<T>(
    medium: &dyn Medium,
    path: &Path,
    blobs: &Blobs,
    limits: &Limits,
    look: impl FnOnce(&history::Path<'_, '_>, Report) -> T,
) -> Result<T> {
    view::look(&LogReader::open(medium, path)?, blobs, limits, false, look).map(|(seen, _)| seen)
}
