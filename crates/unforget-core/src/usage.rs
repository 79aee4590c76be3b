//! What calls took, as the API counted it: a fold over `turn` records.
//!
//! One `turn` record with a usage is one call. Records that a fork copied were paid for in the session that they come from
//! and are not counted again. What a token costs is nobody's business here: prices change, and people have their own.
//! `ledger` adds calls up by hour and model. [`crate::store`] reads transcripts for it.

use crate::json;
use crate::record::{Body, Header, Record};

mod ledger;

pub use crate::record::Tokens;
pub use ledger::{Carry, LONG_PROMPT, Ledger, Line, Sum, UNKNOWN_MODEL};

/// The tokens of the call that a record is about, if it is about one.
pub fn of_call(record: &Record<'_>) -> Option<Tokens> {
    match &record.body {
        Body::Turn { usage: Some(usage), .. } => Tokens::parse(usage),
        // Each line of a message counts what the lines before it did not.
        _ => record.foreign.as_deref().and_then(|foreign| foreign.spent),
    }
}

/// Number of the first record that is the session's own: those before it were copied by a fork.
pub fn first_own(header: &Header<'_>) -> u64 {
    let copied = || json::member(&json::members(header.origin?)?, "copied").and_then(json::number);
    copied().unwrap_or(0)
}
