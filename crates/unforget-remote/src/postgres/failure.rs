//! What a database says when it does not answer, sorted by what can be done about it.
//!
//! The sorting decides what becomes of a turn: what passes is tried again and kept until then, what is refused is told to the
//! user. Nothing here is ever "not there": a missing table is damage, a missing database is a refusal, since whoever took them for
//! a missing session would begin an empty one. A message holds what the server said in one line and its code, never its details,
//! which quote values.

use std::error::Error as _;

use tokio_postgres::error::SqlState;

use crate::error::{Error, printable};

/// What to do about a server that is not trusted.
const TLS: &str = "no password was sent; in the address, `sslrootcert=FILE` names the server's root certificate, \
                   `sslmode=require` encrypts without proving the server, `sslmode=prefer` allows no encryption";

/// A question that got no answer.
#[derive(Debug)]
pub(super) struct Failure {
    error: Error,
    code: Option<SqlState>,
}

impl Failure {
    /// The database could not be asked.
    pub(super) fn unavailable(place: &str, reason: impl Into<String>) -> Self {
        Self { error: Error::Unavailable { place: place.to_owned(), reason: reason.into(), wait: None }, code: None }
    }

    /// What the client library reports.
    pub(super) fn of(place: &str, error: &tokio_postgres::Error) -> Self {
        let place = place.to_owned();
        let Some(said) = error.as_db_error() else {
            let reason = printable(&with_causes(error));
            // The library does not say which kind an error is but in words.
            let is_refused = ["error performing TLS handshake", "authentication error", "invalid configuration"]
                .iter()
                .any(|kind| reason.starts_with(kind));
            let error = if is_refused && !is_cut_off(error) {
                let is_tls = reason.starts_with("error performing TLS handshake");
                Error::Denied { place, reason: if is_tls { format!("{reason} ({TLS})") } else { reason } }
            } else {
                Error::Unavailable { place, reason, wait: None }
            };
            return Self { error, code: None };
        };
        let code = said.code().clone();
        let reason = format!("{} ({})", printable(said.message()), printable(code.code()));
        let error = match sort(code.code()) {
            Sort::Passing => Error::Unavailable { place, reason, wait: None },
            Sort::Refused => Error::Denied { place, reason },
            Sort::Damaged => {
                Error::Corrupt { what: place, reason: format!("its tables are not as they were made: {reason}") }
            }
            Sort::Impossible => Error::Invalid(format!("{place} cannot hold this: {reason}")),
        };
        Self { error, code: Some(code) }
    }

    /// Whether a row refers to one that is gone.
    pub(super) fn is_broken_reference(&self) -> bool {
        self.code == Some(SqlState::FOREIGN_KEY_VIOLATION)
    }

    /// Whether a table, or its schema, was never made.
    pub(super) fn is_missing_table(&self) -> bool {
        [SqlState::UNDEFINED_TABLE, SqlState::INVALID_SCHEMA_NAME].iter().any(|code| self.code.as_ref() == Some(code))
    }

    /// Whether somebody else is making the same tables.
    pub(super) fn is_made_by_another(&self) -> bool {
        [
            SqlState::UNIQUE_VIOLATION,
            SqlState::DUPLICATE_SCHEMA,
            SqlState::DUPLICATE_TABLE,
            SqlState::DUPLICATE_OBJECT,
            SqlState::T_R_SERIALIZATION_FAILURE,
            SqlState::T_R_DEADLOCK_DETECTED,
            // "tuple concurrently updated"
            SqlState::INTERNAL_ERROR,
        ]
        .iter()
        .any(|code| self.code.as_ref() == Some(code))
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        failure.error
    }
}

/// What can be done.
#[derive(Debug, PartialEq, Eq)]
enum Sort {
    /// Asking again.
    Passing,
    /// Asking as somebody else, or somebody else.
    Refused,
    /// Looking what became of the tables.
    Damaged,
    /// Nothing.
    Impossible,
}

fn sort(code: &str) -> Sort {
    match code {
        // Names that a database's encoding has no letters for, and values that are too long.
        "22P05" | "22021" | "22001" => Sort::Impossible,
        // A standby that was not told yet that it is in charge.
        "25006" => Sort::Passing,
        // A table, column or schema that is gone or another.
        "42P01" | "42703" | "3F000" | "42804" => Sort::Damaged,
        _ => match code.get(..2).unwrap_or_default() {
            // Connections, transactions rolled back, resources, objects in use, operators, the system, the inside.
            "08" | "40" | "53" | "55" | "57" | "58" | "XX" | "25" => Sort::Passing,
            "54" => Sort::Impossible,
            // Wrong passwords (28), missing rights (42501), missing databases (3D000), and all that was not thought of.
            _ => Sort::Refused,
        },
    }
}

/// Whether a handshake ended because the connection did.
fn is_cut_off(error: &tokio_postgres::Error) -> bool {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<std::io::Error>() {
            return !matches!(error.kind(), std::io::ErrorKind::InvalidData | std::io::ErrorKind::InvalidInput);
        }
        cause = error.source();
    }
    false
}

/// An error with what it was caused by.
pub(super) fn with_causes(error: &dyn std::error::Error) -> String {
    /// How deep causes are followed.
    const DEPTH: usize = 8;
    let mut text = error.to_string();
    let mut cause = error.source();
    for _ in 0..DEPTH {
        let Some(error) = cause else { break };
        let said = error.to_string();
        if !text.ends_with(&said) {
            text = format!("{text}: {said}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_is_told_from_what_does_not() {
        for code in ["40001", "40P01", "57P01", "57P03", "53300", "08006", "25006", "57014", "XX000"] {
            assert_eq!(sort(code), Sort::Passing, "{code}");
        }
        for code in ["28P01", "28000", "42501", "3D000", "42601", "0A000", ""] {
            assert_eq!(sort(code), Sort::Refused, "{code}");
        }
        assert_eq!(sort("42P01"), Sort::Damaged);
        assert_eq!(sort("22P05"), Sort::Impossible);
    }
}
