//! Time and identity, injected: nothing else in this crate asks a clock or rolls dice.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

/// Tells the time and makes session ids.
pub trait Source: Send + Sync {
    /// Milliseconds since the Unix epoch.
    fn now_ms(&self) -> i64;
    /// An id that nobody has had before, for a session that began at that time.
    fn new_id(&self, created_ms: i64) -> SessionId;
}

/// The system's clock and random UUIDs of version 7, which sort by creation time.
#[derive(Debug, Clone, Copy, Default)]
pub struct System;

impl Source for System {
    fn now_ms(&self) -> i64 {
        Timestamp::now().as_millisecond()
    }

    fn new_id(&self, created_ms: i64) -> SessionId {
        // Made now, ids rise also within a millisecond; a time that is still to come is none that a session began at.
        if created_ms >= self.now_ms().saturating_sub(1) {
            return SessionId(uuid::Uuid::now_v7().to_string());
        }
        let ms = u64::try_from(created_ms).unwrap_or(0);
        let nanoseconds = u32::try_from(ms % 1000).unwrap_or(0) * 1_000_000;
        let time = uuid::Timestamp::from_unix(uuid::NoContext, ms / 1000, nanoseconds);
        SessionId(uuid::Uuid::new_v7(time).to_string())
    }
}

/// A shared [`Source`].
pub type SharedSource = Arc<dyn Source>;

/// The name of a session: a UUID, or the id that a foreign program gave it.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(String);

impl SessionId {
    /// The longest id.
    pub const MAX: usize = 128;

    /// Takes an id if it is safe as a file name: letters, digits, `_` and `-`, and it begins with a letter or digit.
    pub fn parse(text: &str) -> Option<Self> {
        let safe = text.len() <= Self::MAX
            && text.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric)
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
        safe.then(|| Self(text.to_owned()))
    }

    /// The id's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// `2026-01-01T00:00:00.000Z`.
pub fn rfc3339(ms: i64) -> String {
    match Timestamp::from_millisecond(ms) {
        Ok(timestamp) => format!("{timestamp:.3}"),
        Err(_) => "1970-01-01T00:00:00.000Z".to_owned(),
    }
}

/// Milliseconds since the epoch of an RFC 3339 text.
pub fn parse_rfc3339(text: &str) -> Option<i64> {
    text.parse::<Timestamp>().ok().map(Timestamp::as_millisecond)
}
