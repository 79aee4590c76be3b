//! How long something is kept: `30d`, `12h`, `6mo`, `1y`.
//!
//! A time to keep is read once and strictly, because a wrong one removes what somebody wanted. Nothing, zero and less than
//! nothing are refused, and so is anything under an hour: `6m` is six minutes and was meant as six months.

use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The shortest time that is believed.
const LEAST_MS: i64 = 60 * 60 * 1000;
/// The longest text that is read.
const LONGEST: usize = 64;

/// A time to keep something.
#[derive(Debug, Clone)]
pub struct Period {
    text: String,
    span: Span,
}

impl PartialEq for Period {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Period {}

impl std::fmt::Display for Period {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl Period {
    /// Reads a time to keep.
    pub fn parse(text: &str) -> Result<Self> {
        let text = text.trim();
        let shown: String = text.chars().take(LONGEST).collect();
        let wrong = |why: &str| Err(Error::Invalid(format!("`{shown}` is no time to keep something: {why}")));
        let how = "it looks like `30d`, `12h`, `6mo` or `1y`";
        if text.len() > LONGEST {
            return wrong(how);
        }
        let Ok(span) = text.parse::<Span>() else { return wrong(how) };
        if span.is_negative() || span.is_zero() {
            return wrong("it must be longer than nothing; `never` keeps for ever");
        }
        let period = Self { text: text.to_owned(), span };
        match period.after(0) {
            Some(end) if end < LEAST_MS => {
                wrong("that is less than an hour (`m` are minutes; months are `mo`, days `d`)")
            }
            _ => Ok(period),
        }
    }

    /// When it is over for something that happened then, in milliseconds since the epoch; `None` if that is beyond all dates.
    pub fn after(&self, ms: i64) -> Option<i64> {
        // Days and months are those of UTC: the same store expires at the same moment, wherever it is looked at from.
        let then = Timestamp::from_millisecond(ms).ok()?.to_zoned(TimeZone::UTC);
        then.checked_add(self.span).ok().map(|end| end.timestamp().as_millisecond())
    }

    /// The moment from which on something is younger; `None` if that is before all dates.
    pub fn before(&self, ms: i64) -> Option<i64> {
        let then = Timestamp::from_millisecond(ms).ok()?.to_zoned(TimeZone::UTC);
        then.checked_sub(self.span).ok().map(|begin| begin.timestamp().as_millisecond())
    }
}

/// How long something is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Keep {
    /// That long after it was last used.
    For(Period),
    /// For ever.
    Never,
}

impl Keep {
    /// Reads `never` or a time.
    pub fn parse(text: &str) -> Result<Self> {
        match text.trim() {
            "never" => Ok(Keep::Never),
            text => Period::parse(text).map(Keep::For),
        }
    }

    /// When something that was last used then may go; `None` for never.
    pub fn after(&self, ms: i64) -> Option<i64> {
        match self {
            Keep::For(period) => period.after(ms),
            Keep::Never => None,
        }
    }
}

impl TryFrom<String> for Keep {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        Self::parse(&text)
    }
}

impl From<Keep> for String {
    fn from(keep: Keep) -> Self {
        keep.to_string()
    }
}

impl std::fmt::Display for Keep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Keep::For(period) => period.fmt(f),
            Keep::Never => f.write_str("never"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400_000;

    #[test]
    fn times_are_read_as_people_write_them() {
        for (text, days) in [("30d", 30), ("48h", 2), ("2 weeks", 14), ("1mo", 31), ("1y", 365), ("P1D", 1)] {
            assert_eq!(Period::parse(text).unwrap().after(0), Some(days * DAY), "{text}");
        }
        assert_eq!(Period::parse("1d").unwrap().before(3 * DAY), Some(2 * DAY));
        assert_eq!(Keep::parse(" never ").unwrap(), Keep::Never);
    }

    #[test]
    fn nothing_zero_negative_and_too_short_times_are_refused() {
        for text in ["", "0", "0d", "-5d", "30", "d", "5d ago", "6m", "59m", "1s", "soon", "1e9y", "∞", "never"] {
            assert!(Period::parse(text).is_err(), "{text} was taken");
        }
        assert!(Period::parse("6m").unwrap_err().to_string().contains("months are `mo`"));
        assert!(Keep::parse("0").is_err());
    }

    #[test]
    fn a_time_beyond_all_dates_never_ends() {
        assert_eq!(Period::parse("9000y").unwrap().after(4_000_000_000_000), None);
    }
}
