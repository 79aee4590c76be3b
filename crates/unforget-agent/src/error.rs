//! Why a turn did not end well.

use crate::model::ModelError;

/// Why a turn did not end well. What had happened until then is in the log.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The log could not be read or written: nothing that depends on it was done.
    #[error(transparent)]
    Store(#[from] unforget_core::Error),
    /// The model did not answer.
    #[error(transparent)]
    Model(#[from] ModelError),
}

/// What a turn gives back.
pub type Result<T, E = Error> = std::result::Result<T, E>;
