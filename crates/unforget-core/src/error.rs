//! What can go wrong, sorted by what the caller can do about it.
//!
//! Reading damaged bytes is not an error: it is a value with a [`Report`](crate::report::Report). An error
//! means that nothing was done, or that nothing more can safely be done.

use std::io;
use std::path::{Path, PathBuf};

use crate::key::KeyError;

/// The result of everything that touches the store.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error("cannot {action} `{}`: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another writer has the session.
    #[error("`{}` is being written by {holder}", path.display())]
    Busy {
        /// The transcript.
        path: PathBuf,
        /// Who holds its lock, as far as the system tells.
        holder: String,
    },
    /// The file system does not keep two writers apart.
    #[error("the file lock on `{}` keeps nobody out (a network file system?)", path.display())]
    LockIneffective {
        /// The transcript that the probe was made on.
        path: PathBuf,
    },
    /// The transcript was changed behind the writer's back.
    #[error("`{}` {change} while it was open for writing; nothing was written to it", path.display())]
    Changed {
        /// The transcript.
        path: PathBuf,
        /// How it changed.
        change: Change,
    },
    /// A failed sync left the descriptor in an unknown state.
    #[error("`{}` must be reopened: an earlier write could not be made durable", path.display())]
    Poisoned {
        /// The transcript.
        path: PathBuf,
    },
    /// The file is something else: compressed, encrypted, a database.
    #[error("`{}` is not a transcript: it looks like {format}", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What it looks like.
        format: &'static str,
    },
    /// The transcript is another program's: it is kept and read here, and only that program goes on with it.
    #[error("`{}` is a session of {owner}: nothing is written into it here", path.display())]
    NotOurs {
        /// The transcript.
        path: PathBuf,
        /// Whose it is.
        owner: &'static str,
    },
    /// A transcript's header belongs to another session.
    #[error("`{}` says that it is `{found}`, which it should not be: no key leads to it", path.display())]
    Mismatch {
        /// The transcript.
        path: PathBuf,
        /// The id or key in its header.
        found: String,
    },
    /// Nothing by that name.
    #[error("no {what} matches `{name}`")]
    NotFound {
        /// Kind of thing: session, blob, deleted session.
        what: &'static str,
        /// What was asked for.
        name: String,
    },
    /// Several sessions by that name.
    #[error("`{name}` matches {} sessions", candidates.len())]
    Ambiguous {
        /// What was asked for.
        name: String,
        /// What it could mean, ready to show.
        candidates: Vec<String>,
    },
    /// The session is known, but its transcript is gone.
    #[error("the transcript of session `{id}` is missing: `{}` does not exist", path.display())]
    Missing {
        /// The session.
        id: String,
        /// Where its transcript should be.
        path: PathBuf,
    },
    /// Something is already there.
    #[error("`{}` already exists", path.display())]
    Exists {
        /// The file in the way.
        path: PathBuf,
    },
    /// The caller's input cannot be stored.
    #[error("{0}")]
    Invalid(String),
    /// The text is no session key.
    #[error(transparent)]
    Key(#[from] KeyError),
}

/// How a transcript changed under its writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Its name is gone.
    Unlinked,
    /// Its name leads to another file.
    Replaced,
    /// It is shorter than what was written.
    Shortened,
    /// Someone without the lock added to it.
    Grown,
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Change::Unlinked => "was deleted",
            Change::Replaced => "was replaced by another file",
            Change::Shortened => "was shortened",
            Change::Grown => "was added to by another program",
        })
    }
}

/// Adds the action and the path to an I/O error.
pub(crate) trait IoContext<T> {
    fn context(self, action: &'static str, path: &Path) -> Result<T>;
}

impl<T> IoContext<T> for io::Result<T> {
    fn context(self, action: &'static str, path: &Path) -> Result<T> {
        self.map_err(|source| Error::Io { action, path: path.to_path_buf(), source })
    }
}

impl Error {
    /// Whether this is an I/O error of the given kind.
    pub fn is_io(&self, kind: io::ErrorKind) -> bool {
        matches!(self, Error::Io { source, .. } if source.kind() == kind)
    }
}
