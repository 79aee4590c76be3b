//! What a call took, as the API counts it.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use crate::json;

/// Tokens by what they are charged as. The numbers come from a server or an imported file, and may be any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tokens {
    /// Sent, and neither read from the cache nor written to it.
    pub input: u64,
    /// Answered.
    pub output: u64,
    /// Sent and written to the cache, for however long.
    pub cache_write: u64,
    /// The part of `cache_write` that is kept for an hour, which costs more.
    #[serde(default)]
    pub cache_write_hour: u64,
    /// Sent and read from the cache.
    pub cache_read: u64,
}

impl Tokens {
    /// The tokens of a usage as the API reports it.
    pub fn parse(usage: &str) -> Option<Self> {
        let members = json::members(usage)?;
        let number = |name| json::member(&members, name).and_then(json::number);
        let by_time = json::member(&members, "cache_creation").and_then(json::members).unwrap_or_default();
        let hour = json::member(&by_time, "ephemeral_1h_input_tokens").and_then(json::number).unwrap_or(0);
        let cache_write = number("cache_creation_input_tokens").unwrap_or(0);
        Some(Self {
            input: number("input_tokens")?,
            output: number("output_tokens").unwrap_or(0),
            cache_write,
            cache_write_hour: hour.min(cache_write),
            cache_read: number("cache_read_input_tokens").unwrap_or(0),
        })
    }

    /// Those that were sent.
    pub fn prompt(&self) -> u64 {
        [self.cache_write, self.cache_read].into_iter().fold(self.input, u64::saturating_add)
    }

    /// What is here and not yet in an earlier count.
    pub(crate) fn beyond(&self, earlier: &Self) -> Self {
        Self {
            input: self.input.saturating_sub(earlier.input),
            output: self.output.saturating_sub(earlier.output),
            cache_write: self.cache_write.saturating_sub(earlier.cache_write),
            cache_write_hour: self.cache_write_hour.saturating_sub(earlier.cache_write_hour),
            cache_read: self.cache_read.saturating_sub(earlier.cache_read),
        }
    }

    /// The larger one of each.
    pub(crate) fn or_more(&self, other: &Self) -> Self {
        Self {
            input: self.input.max(other.input),
            output: self.output.max(other.output),
            cache_write: self.cache_write.max(other.cache_write),
            cache_write_hour: self.cache_write_hour.max(other.cache_write_hour),
            cache_read: self.cache_read.max(other.cache_read),
        }
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.prompt().saturating_add(self.output)
    }
}

impl AddAssign for Tokens {
    fn add_assign(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
        self.cache_write_hour = self.cache_write_hour.saturating_add(other.cache_write_hour);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
    }
}
