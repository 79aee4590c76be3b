//! The name of a session: a UUID, spelt as its file spells it.
//!
//! Claude Code takes nothing else for a session. An id becomes a part of file names, so that only what has this shape is let through.

use std::fmt;

/// Where the hyphens of a UUID are.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];
const LEN: usize = 36;

/// The name of a session of Claude Code.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(String);

impl SessionId {
    /// Takes a text that is a UUID with hyphens, in letters of either case.
    pub fn parse(text: &str) -> Option<Self> {
        let fits =
            |(at, byte): (usize, u8)| if HYPHENS.contains(&at) { byte == b'-' } else { byte.is_ascii_hexdigit() };
        (text.len() == LEN && text.bytes().enumerate().all(fits)).then(|| Self(text.to_owned()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_uuid_is_a_session() {
        for (text, is_one) in [
            ("0f7a4c52-8e5d-4f0a-9a57-1c2d3e4f5a6b", true),
            ("0F7A4C52-8E5D-4F0A-9A57-1C2D3E4F5A6B", true),
            ("0f7a4c52-8e5d-4f0a-9a57-1c2d3e4f5a6", false),
            ("0f7a4c528e5d-4f0a-9a57-1c2d3e4f5a6b-", false),
            ("../a4c52-8e5d-4f0a-9a57-1c2d3e4f5a6b", false),
            ("agent-abc", false),
            ("", false),
        ] {
            assert_eq!(SessionId::parse(text).is_some(), is_one, "{text}");
        }
    }
}
