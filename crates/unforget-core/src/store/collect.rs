//! What every session took, by reading all transcripts: slow, and right whatever the caches say.
//!
//! One transcript is in memory at a time, and of it only its lines in the ledger; whoever asks adds them up and forgets
//! them. Sessions in the trash took what they took, and count. One that cannot be read is told of and does not hide the others.

use std::path::{Path, PathBuf};

use crate::directory::Directory;
use crate::error::Result;
use crate::layout::{self, AgentDir};
use crate::reader::LogReader;
use crate::scan::Scanner;
use crate::stamp::SessionId;
use crate::summary::Fold;
use crate::usage::Ledger;

/// Which transcripts are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// All of them.
    All,
    /// Those that were written to since then, in milliseconds since the epoch: in others nothing is newer.
    TouchedSince(i64),
}

/// Which session a ledger is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The session's id.
    pub id: SessionId,
    /// Its agent's directory.
    pub dir: AgentDir,
    /// Its key, if its header is not lost.
    pub key: Option<String>,
    /// Its label.
    pub label: Option<String>,
    /// Its title.
    pub title: Option<String>,
    /// Whether it is in the trash.
    pub trashed: bool,
}

/// A transcript that could not be read, and why.
pub type Unread = (PathBuf, String);

/// Hands the ledger of each session to `visit`; `progress` hears of each transcript first.
pub fn collect(
    store: &Directory,
    reach: Reach,
    mut progress: impl FnMut(&Path),
    mut visit: impl FnMut(Facts, Ledger),
) -> Result<Vec<Unread>> {
    let mut unread = Vec::new();
    for (root, trashed) in [(layout::AGENTS, false), (layout::TRASH, true)] {
        for dir in store.agents(Path::new(root))? {
            let folder = if trashed { dir.trash() } else { dir.sessions() };
            for (id, path, stat) in store.files(&folder)? {
                let is_old = matches!(reach, Reach::TouchedSince(ms) if stat.modified_ns / 1_000_000 < ms);
                // A session that came back by an import is counted where it is used, not in the trash as well.
                let is_elsewhere = trashed && store.medium().stat(&dir.transcript(&id)).is_ok();
                if is_old || is_elsewhere {
                    continue;
                }
                progress(&path);
                match read(store, &path) {
                    Ok((fold, ledger)) => {
                        let row = fold.finish(id.as_str(), 0, 0, 0);
                        let facts =
                            Facts { id, dir: dir.clone(), key: row.key, label: row.label, title: row.title, trashed };
                        visit(facts, ledger);
                    }
                    Err(error) => unread.push((path, error.to_string())),
                }
            }
        }
    }
    Ok(unread)
}

/// What one transcript took.
pub(super) fn read(store: &Directory, path: &Path) -> Result<(Fold, Ledger)> {
    let reader = LogReader::open(store.medium().as_ref(), path)?;
    let (mut scanner, mut fold, mut ledger) = (Scanner::default(), Fold::default(), Ledger::default());
    let mut forward = reader.forward(0);
    while let Some(line) = forward.next()? {
        scanner.feed(&line, |record| {
            fold.feed(&record);
            ledger.feed(&record);
        });
    }
    Ok((fold, ledger))
}
