//! What a model's name says about the rules that apply to it.
//!
//! Names carry the version after the family (`claude-opus-4-6`) or before it (`claude-3-7-sonnet-20250219`), possibly
//! followed by a date, an `@` revision or a `[1m]` suffix. A name without a version counts as newer than all others, so
//! that an unknown model is held to the strictest rules.

const UNKNOWN_VERSION: (u8, u8) = (9, 0);

pub(super) struct Model<'a> {
    name: &'a str,
    version: (u8, u8),
}

impl<'a> Model<'a> {
    pub(super) fn named(name: &'a str) -> Self {
        Self { name, version: version(name).unwrap_or(UNKNOWN_VERSION) }
    }

    pub(super) fn refuses_prefill(&self) -> bool {
        self.version >= (4, 6)
    }

    pub(super) fn takes_system_messages(&self) -> bool {
        (self.version >= (5, 0) || self.name.contains("opus-4-8")) && !self.name.ends_with("sonnet-5")
    }

    /// Later models stop at the end of the window instead of refusing a request that might reach it.
    pub(super) fn refuses_possible_overflow(&self) -> bool {
        self.version < (4, 5)
    }

    pub(super) fn binds_thinking(&self) -> bool {
        self.is_one_of(&["opus-5-5", "fable-5-1"])
    }

    pub(super) fn refuses_forced_tools(&self) -> bool {
        self.is_one_of(&["opus-5-5", "fable-5-1", "mythos-5-1"])
    }

    pub(super) fn refuses_manual_thinking(&self) -> bool {
        self.version >= (4, 7)
    }

    pub(super) fn refuses_adaptive_thinking(&self) -> bool {
        self.version <= (4, 5)
    }

    pub(super) fn refuses_sampling(&self) -> bool {
        self.version >= (4, 7)
    }

    fn is_one_of(&self, families: &[&str]) -> bool {
        families.iter().any(|family| self.name.contains(family))
    }
}

fn version(name: &str) -> Option<(u8, u8)> {
    let mut parts = name.split('-').skip(1).peekable();
    while let Some(part) = parts.next() {
        let (digits, revision) = match part.split_once(['@', '[']) {
            Some((digits, revision)) => (digits, Some(revision)),
            None => (part, None),
        };
        let Some(major) = version_number(digits) else { continue };
        // A revision ends the version: what follows it is no minor number.
        let follower = parts.peek().filter(|_| revision.is_none());
        let minor = follower.and_then(|next| version_number(next.split(['@', '[']).next().unwrap_or_default()));
        return Some((major, minor.unwrap_or(0)));
    }
    None
}

/// Longer runs of digits are dates.
fn version_number(digits: &str) -> Option<u8> {
    let is_number = (1..=2).contains(&digits.len()) && digits.bytes().all(|digit| digit.is_ascii_digit());
    if is_number { digits.parse().ok() } else { None }
}
