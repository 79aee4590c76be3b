//! What can go wrong, sorted by what the caller can do about it.

use std::io;
use std::path::{Path, PathBuf};

/// The result of everything that touches the directory.
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
    /// A name that came from elsewhere leads out of its place, or nowhere.
    #[error("`{}` is no name for a file of a session: {reason}", name.escape_debug())]
    Unsafe {
        /// The name.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// There is more than anybody would have, so that something is wrong with the place.
    #[error("`{}` holds more than {limit} {what}", path.display())]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// How much is looked at.
        limit: usize,
    },
    /// Someone is writing the session.
    #[error("session `{id}` is being written by {writer}")]
    Live {
        /// The session.
        id: String,
        /// Who it is.
        writer: String,
    },
    /// A file has lines that are not kept.
    #[error("`{}` has lines that are not kept", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
    },
    /// The session is in another project of the same directory.
    #[error("the session is in another project already: `{}`", path.display())]
    Elsewhere {
        /// Its transcript there.
        path: PathBuf,
    },
    /// Only the end of the session is here.
    #[error("only the end of session `{id}` is on this machine; nothing of it is kept before the rest is")]
    Partial {
        /// The session.
        id: String,
    },
    /// The session was deleted from the store on purpose.
    #[error("session `{id}` is in the trash; nothing of it is kept until it is brought back")]
    Deleted {
        /// The session.
        id: String,
    },
    /// The store said so.
    #[error(transparent)]
    Store(#[from] unforget_core::Error),
    /// The caller's input cannot be worked with.
    #[error("{0}")]
    Invalid(String),
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

/// What there is, or `None` where there is nothing.
pub(crate) fn if_there<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
