//! Patterns on session keys: `main:cli:*`, `*:telegram:*`, `*`.
//!
//! A pattern has the parts of a key, and `*` in a part stands for any characters of that part, but never for a colon. A
//! single `*` is every key. Parts are compared as they are written in a key, so `%3A` stands for a colon inside of one. Of two patterns that
//! match, the one with more parts without a star is the more specific, then the one with more characters.

use crate::error::{Error, Result};
use crate::key::{Key, MAX_KEY};

/// A pattern on session keys.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pattern {
    text: String,
}

impl std::fmt::Display for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl Pattern {
    /// Reads a pattern.
    pub fn parse(text: &str) -> Result<Self> {
        let parts: Vec<&str> = text.split(':').collect();
        let is_long = parts.len() == 5 && parts[0] == "agent";
        let fits = text == "*" || parts.len() == 3 || is_long;
        if !fits || parts.iter().any(|part| part.is_empty()) || text.len() > MAX_KEY {
            let shown: String = text.chars().take(MAX_KEY).collect();
            return Err(Error::Invalid(format!(
                "`{shown}` is no pattern for keys: it looks like `main:cli:*`, `agent:main:*:group:*`, or `*` for every key"
            )));
        }
        Ok(Self { text: text.to_owned() })
    }

    /// Whether a key matches.
    pub fn matches(&self, key: &str) -> bool {
        if self.text == "*" {
            return true;
        }
        let (mut wanted, mut given) = (self.text.split(':'), key.split(':'));
        loop {
            match (wanted.next(), given.next()) {
                (None, None) => return true,
                (Some(pattern), Some(part)) if matches_part(pattern.as_bytes(), part.as_bytes()) => {}
                _ => return false,
            }
        }
    }

    /// The one key that it stands for, if there is no star in it.
    pub fn exact(&self) -> Option<Key> {
        if self.text.contains('*') { None } else { self.text.parse().ok() }
    }

    /// The higher, the fewer keys it is meant for.
    pub fn specificity(&self) -> (usize, usize) {
        let exact = self.text.split(':').filter(|part| !part.contains('*')).count();
        (exact, self.text.chars().filter(|c| *c != '*').count())
    }
}

/// Whether a part matches; on a mismatch the last star takes one more character, so this needs no recursion.
fn matches_part(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(byte) if *byte == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    p = at + 1;
                    t = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, key: &str) -> bool {
        Pattern::parse(pattern).unwrap().matches(key)
    }

    #[test]
    fn a_star_stays_within_its_part() {
        assert!(matches("main:cli:*", "main:cli:user"));
        assert!(matches("main:cli:*", "main:cli:"));
        assert!(!matches("main:cli:*", "main:web:user"));
        assert!(!matches("main:*:user", "main:a:b:user"));
        assert!(matches("agent:*:tele*:group:*a*c", "agent:main:telegram:group:abxc"));
        assert!(!matches("*:*:*", "agent:main:telegram:group:g"));
        assert!(matches("*", "agent:main:telegram:group:g"));
        assert!(!matches("main:cli:ab*ba", "main:cli:aba"));
        assert!(!matches("Main:cli:*", "main:cli:user"));
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for text in ["", "main", "main:cli", "trash", "a:b:c:d", "x:a:b:group:c", "main::*", "**:cli"] {
            assert!(Pattern::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn fewer_stars_are_more_specific() {
        let of = |text: &str| Pattern::parse(text).unwrap().specificity();
        assert!(of("main:cli:ada") > of("main:cli:*"));
        assert!(of("main:cli:*") > of("main:*:*"));
        assert!(of("main:c*:*") > of("main:*:*"));
        assert!(of("*:*:*") > of("*"));
    }
}
