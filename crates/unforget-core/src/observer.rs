//! What those who write sessions tell the index, and ask of it, without knowing it.
//!
//! A session says that it will write before its first append, and how far it came when it closes. It asks for the folds of
//! its transcript, so that opening reads only what no fold has seen. An observer never makes a session fail.

use std::fmt::Debug;
use std::sync::Arc;

use crate::error::Result;
use crate::layout::AgentDir;
use crate::reader::LogReader;
use crate::scan::Scanner;
use crate::stamp::SessionId;
use crate::summary::Fold;

/// A session that was written to, and the mark that says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Touched {
    /// Its agent's directory.
    pub dir: AgentDir,
    /// The session.
    pub id: SessionId,
    /// The mark.
    pub token: String,
}

/// Whether a session will be written again by the same writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Yes.
    Open,
    /// No: its lock will be free now.
    Closed,
}

/// Why an observer did not take in what was written. It looks at the transcript by itself later.
#[derive(Debug, thiserror::Error)]
#[error("the index was not told: {0}")]
pub struct NotObserved(pub String);

/// What a transcript amounts to, up to a place in it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Folds {
    pub(crate) scanner: Scanner,
    pub(crate) fold: Fold,
    /// Up to which byte, always behind a line feed.
    pub(crate) scanned: u64,
    /// Damage met before the scanner was stored.
    pub(crate) damage: u64,
}

impl Folds {
    /// Goes on to the end of the transcript.
    pub(crate) fn read_on(&mut self, reader: &LogReader) -> Result<()> {
        let mut forward = reader.forward(self.scanned);
        while let Some(line) = forward.next()? {
            self.scanner.feed(&line, |record| self.fold.feed(&record));
        }
        self.scanned = reader.len();
        Ok(())
    }

    /// Takes lines that were appended.
    pub(crate) fn feed(&mut self, lines: &str) {
        for line in crate::lines::split(lines.as_bytes(), self.scanned) {
            self.scanner.feed(&line, |record| self.fold.feed(&record));
        }
        self.scanned += lines.len() as u64;
    }
}

/// Hears of sessions that change, and knows their folds.
pub(crate) trait SessionObserver: Debug + Send + Sync {
    /// A session is about to change.
    fn will_write(&self, session: &Touched);
    /// A session changed.
    fn written(&self, session: &Touched, ending: Ending) -> std::result::Result<(), NotObserved>;
    /// The folds of a transcript, if its beginning is still what they were made of.
    fn folds(&self, dir: &AgentDir, id: &SessionId, reader: &LogReader) -> Option<Folds>;
    /// Sessions moved to the trash.
    fn trashed(&self, sessions: &[(&AgentDir, &SessionId)]);
    /// A session left the trash for good. An observer that cannot note it now lists the session as missing.
    fn purged(&self, dir: &AgentDir, id: &SessionId);
    /// A user wants no row any more for a session whose transcript is gone.
    fn dropped(&self, dir: &AgentDir, id: &str) -> Result<()>;
}

/// One writer's word to an observer: once before its first append, and once when it is done.
pub(crate) struct Notice {
    observer: Arc<dyn SessionObserver>,
    touched: Touched,
    is_given: bool,
}

impl Notice {
    pub(crate) fn new(observer: Arc<dyn SessionObserver>, dir: AgentDir, id: SessionId) -> Self {
        let token = uuid::Uuid::now_v7().to_string();
        Self { observer, touched: Touched { dir, id, token }, is_given: false }
    }

    /// Says, once, that the session changes.
    pub(crate) fn give(&mut self) {
        if !self.is_given {
            self.observer.will_write(&self.touched);
            self.is_given = true;
        }
    }

    /// What the observer has been told of; none before it was told.
    pub(crate) fn touched(&self) -> Option<&Touched> {
        self.is_given.then_some(&self.touched)
    }

    /// Says that the writer is done, while it still holds the session's lock: no other writer's mark is taken.
    pub(crate) fn close(&self) -> std::result::Result<(), NotObserved> {
        if self.is_given { self.observer.written(&self.touched, Ending::Closed) } else { Ok(()) }
    }

    /// What the observer knows of the transcript.
    pub(crate) fn folds(&self, reader: &LogReader) -> Option<Folds> {
        self.observer.folds(&self.touched.dir, &self.touched.id, reader)
    }
}

impl Debug for Notice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Notice").field(&self.touched).finish()
    }
}
