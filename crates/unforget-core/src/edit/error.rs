//! Why an edit cannot be. Nothing was appended then.

use crate::error::Error;
use crate::tree::Kind;

/// Why an edit cannot be.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// The text cannot be a name, label or title.
    #[error("{0}")]
    InvalidName(&'static str),
    /// Another thing has that name.
    #[error("there is a {kind} `{name}` already")]
    NameTaken {
        /// The name.
        name: String,
        /// What has it.
        kind: Kind,
    },
    /// No step has that number.
    #[error("record {0} is no step of this conversation")]
    NoSuchStep(u64),
    /// Nothing has that name.
    #[error("there is no {} `{name}`", kind.map_or("branch or checkpoint".to_owned(), |kind| kind.to_string()))]
    NoSuchName {
        /// The name.
        name: String,
        /// What was looked for; none for either.
        kind: Option<Kind>,
        /// The names that there are.
        known: Vec<String>,
    },
    /// The name is one of something else.
    #[error("`{name}` is a {kind}")]
    WrongKind {
        /// The name.
        name: String,
        /// What it is.
        kind: Kind,
    },
    /// The conversation has no step yet.
    #[error("nothing was said yet")]
    Empty,
    /// No turn can be taken back.
    #[error("{}", if *compacted { "the last turn is behind a summary" } else { "there is nothing to take back" })]
    NothingToUndo {
        /// Whether a summary stands for the turns.
        compacted: bool,
    },
    /// No move can be redone.
    #[error("there is nothing to go forward to: no undo, or words since it")]
    NothingToRedo,
    /// The conversation has no question yet.
    #[error("there is nothing to answer again")]
    NothingToRetry,
    /// No compaction is in effect.
    #[error("nothing was compacted here")]
    NothingCompacted,
    /// The record has no words.
    #[error("record {0} says nothing that could be pinned")]
    NotPinnable(u64),
    /// The model does not see the record.
    #[error("there is no record {0} in what the model sees")]
    NotInView(u64),
    /// All pins together would be too large.
    #[error("pinned texts may have {limit} bytes in all")]
    PinsTooLarge {
        /// How many bytes they may have.
        limit: usize,
    },
    /// The edit depends on the conversation as the model sees it, and an edit before it changes that.
    #[error("`{0}` must be the first of the edits: it depends on the conversation as it is")]
    NotFirst(&'static str),
    /// The store refused.
    #[error(transparent)]
    Store(#[from] Error),
}

impl EditError {
    /// Whether the request itself is wrong, whatever the session holds.
    pub fn is_invalid(&self) -> bool {
        matches!(self, Self::InvalidName(_) | Self::NoSuchStep(_) | Self::NoSuchName { .. } | Self::NotPinnable(_))
            || matches!(self, Self::WrongKind { .. } | Self::NotFirst(_))
    }
}
