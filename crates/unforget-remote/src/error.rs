//! What can go wrong, sorted by what the caller can do about it.
//!
//! The difference that matters most is the one between "it is not there" and "it could not be asked": whoever takes the
//! second for the first begins an empty session under an old name, and later saves it over the full one.

use std::time::Duration;

use unforget_core::frontier::Frontier;

/// The result of everything that asks a remote.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The stream is not where the caller believes: somebody else wrote to it, or deleted it.
    #[error("somebody else wrote to it: it has {} lines", found.lines)]
    Conflict {
        /// Where it is.
        found: Frontier,
    },
    /// The remote was asked, and has no such stream.
    #[error("{what} is not there")]
    NotFound {
        /// What was asked for.
        what: String,
    },
    /// The remote could not be asked, or did not answer. Whether something was changed is not known; asking again is safe.
    #[error("{place} cannot be reached: {reason}")]
    Unavailable {
        /// Which remote.
        place: String,
        /// What happened.
        reason: String,
        /// How long it wants to be left alone.
        wait: Option<Duration>,
    },
    /// The remote does not let this caller.
    #[error("{place} refuses: {reason}")]
    Denied {
        /// Which remote.
        place: String,
        /// What it said.
        reason: String,
    },
    /// What the remote holds is not what was written to it.
    #[error("{what} is damaged: {reason}")]
    Corrupt {
        /// The stream, or a part of it.
        what: String,
        /// What does not fit.
        reason: String,
    },
    /// The stream is sealed, and the key at hand does not open it.
    #[error("{what} is sealed with {}", if *has_key { "another key" } else { "a key, and none was given" })]
    WrongKey {
        /// The stream.
        what: String,
        /// Whether there was a key to try.
        has_key: bool,
    },
    /// There is a key, and what the remote has is not sealed with any: anybody who can write there may have written it.
    #[error("{what} at {place} is not sealed, from line {line} on, and was not taken")]
    NotSealed {
        /// The stream.
        what: String,
        /// The first line that lies there in plain.
        line: u64,
        /// Which remote.
        place: String,
    },
    /// The remote had more lines of the stream than it has, or other ones: its end was cut off, or an old state was put in its place.
    /// Nothing was taken.
    #[error("{what} lost lines at the remote: {witness} {seen} there, {}", loss(*seen, *found))]
    Rewound {
        /// The stream.
        what: String,
        /// Who knows better.
        witness: Witness,
        /// How many lines it had.
        seen: u64,
        /// How many it has, up to where they differ.
        found: u64,
    },
    /// Both sides went on from the same line, each in its own way. Nothing was changed on either.
    #[error("it went on differently here and there, from line {at} on: {} lines here, {} there", local.lines, remote.lines)]
    Diverged {
        /// How many lines both have.
        at: u64,
        /// What is here.
        local: Frontier,
        /// What is there.
        remote: Frontier,
    },
    /// The remote had the stream, and somebody deleted it there. Nothing is sent again before someone says so.
    #[error("{what} was deleted there")]
    Deleted {
        /// The stream.
        what: String,
    },
    /// What is on this machine could not be read or written.
    #[error(transparent)]
    Local(#[from] unforget_core::Error),
    /// What was asked for cannot be done anywhere.
    #[error("{0}")]
    Invalid(String),
}

/// Who has seen what a remote had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Witness {
    /// This machine.
    Local,
    /// The head that a writer left at the remote.
    Remote,
}

impl std::fmt::Display for Witness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Local => "this machine saw",
            Self::Remote => "its writers left",
        })
    }
}

fn loss(seen: u64, found: u64) -> String {
    match found < seen {
        true => format!("and {found} are left"),
        false => "and they are other lines now".to_owned(),
    }
}

impl Error {
    /// Whether trying the same again may help.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }
}

/// The longest text of a remote that is passed on.
const MAX_TEXT: usize = 1_000;

/// What a remote said, in one line that no terminal takes for commands.
#[cfg_attr(
    not(any(feature = "postgres", feature = "s3")),
    expect(dead_code, reason = "for backends that answer in words")
)]
pub(crate) fn printable(text: &str) -> String {
    text.chars().take(MAX_TEXT).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
