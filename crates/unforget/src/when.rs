//! Times as people say them: `2026-01-31`, `7d`, `yesterday`.
//!
//! One parser for every `--since` and `--until`. The clock and the time zone are handed in. A day is meant from its beginning or
//! to its end, depending on which of the two is asked for.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ToSpan as _, Zoned};

use crate::failure::{Failure, Result};

/// Which end of a day is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Edge {
    Begin,
    End,
}

/// The time that a text means, in milliseconds since the epoch, in the person's time zone.
pub(crate) fn parse(text: &str, now_ms: i64, edge: Edge) -> Result<i64> {
    let now = Timestamp::from_millisecond(now_ms).unwrap_or(Timestamp::UNIX_EPOCH).to_zoned(TimeZone::system());
    meant(text.trim(), &now, edge).ok_or_else(|| {
        Failure::usage(format!("`{text}` is no time")).hint(
            "say `2026-01-31`, `2026-01-31T14:05`, `today`, `yesterday`, or how long ago: `45m`, `3h`, `7d`, `2w`, `6mo`, `1y`",
        )
    })
}

fn meant(text: &str, now: &Zoned, edge: Edge) -> Option<i64> {
    let zone = now.time_zone();
    let day = match text {
        "now" => return Some(now.timestamp().as_millisecond()),
        "today" => Some(now.date()),
        "yesterday" => now.date().checked_sub(1.day()).ok(),
        _ => text.parse::<Date>().ok().filter(|_| text.len() == "2026-01-31".len()),
    };
    if let Some(day) = day {
        let begin = |day: Date| day.to_zoned(zone.clone()).ok().map(|time| time.timestamp().as_millisecond());
        return match edge {
            Edge::Begin => begin(day),
            Edge::End => begin(day.tomorrow().ok()?).map(|next| next - 1),
        };
    }
    if let Some(ago) = ago_ms(text) {
        return now.timestamp().as_millisecond().checked_sub(ago);
    }
    if let Some(span) = months(text) {
        return Some(now.checked_sub(span).ok()?.timestamp().as_millisecond());
    }
    if let Ok(time) = text.parse::<Timestamp>() {
        return Some(time.as_millisecond());
    }
    let time = text.parse::<DateTime>().ok()?.to_zoned(zone.clone()).ok()?;
    Some(time.timestamp().as_millisecond())
}

/// Milliseconds in `45m`, `3h`, `7d`, `2w`.
fn ago_ms(text: &str) -> Option<i64> {
    let unit = text.chars().next_back()?;
    let count: i64 = text.strip_suffix(unit)?.parse().ok().filter(|count| *count >= 0)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        'w' => 7 * 86_400,
        _ => return None,
    };
    count.checked_mul(seconds)?.checked_mul(1000)
}

/// The months or years in `6mo`, `1y`: how long these are depends on when.
fn months(text: &str) -> Option<Span> {
    let (count, years) = match text.strip_suffix("mo") {
        Some(count) => (count, false),
        None => (text.strip_suffix('y')?, true),
    };
    let count: i64 = count.parse().ok().filter(|count| *count >= 0)?;
    if years { Span::new().try_years(count).ok() } else { Span::new().try_months(count).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str, edge: Edge) -> Option<String> {
        let now: Zoned = "2026-02-01T12:00:00+02:00[+02:00]".parse().unwrap();
        meant(text, &now, edge).map(|ms| Timestamp::from_millisecond(ms).unwrap().to_string())
    }

    #[test]
    fn days_are_meant_in_the_zone_of_the_person() {
        assert_eq!(at("2026-01-31", Edge::Begin).as_deref(), Some("2026-01-30T22:00:00Z"));
        assert_eq!(at("2026-01-31", Edge::End).as_deref(), Some("2026-01-31T21:59:59.999Z"));
        assert_eq!(at("yesterday", Edge::Begin), at("2026-01-31", Edge::Begin));
        assert_eq!(at("today", Edge::End), at("2026-02-01", Edge::End));
    }

    #[test]
    fn times_and_how_long_ago() {
        assert_eq!(at("7d", Edge::End).as_deref(), Some("2026-01-25T10:00:00Z"));
        assert_eq!(at("90m", Edge::Begin).as_deref(), Some("2026-02-01T08:30:00Z"));
        assert_eq!(at("2w", Edge::Begin).as_deref(), Some("2026-01-18T10:00:00Z"));
        assert_eq!(at("1mo", Edge::Begin).as_deref(), Some("2026-01-01T10:00:00Z"));
        assert_eq!(at("1y", Edge::End).as_deref(), Some("2025-02-01T10:00:00Z"));
        assert_eq!(at("now", Edge::Begin).as_deref(), Some("2026-02-01T10:00:00Z"));
        assert_eq!(at("2026-01-31T14:05", Edge::Begin).as_deref(), Some("2026-01-31T12:05:00Z"));
        assert_eq!(at("2026-01-31 14:05:09", Edge::Begin).as_deref(), Some("2026-01-31T12:05:09Z"));
        assert_eq!(at("2026-01-31T14:05:00Z", Edge::Begin).as_deref(), Some("2026-01-31T14:05:00Z"));
    }

    #[test]
    fn what_is_no_time_is_none() {
        for text in [
            "",
            "d",
            "-1d",
            "7x",
            "2026-13-01",
            "2026-02-30",
            "soon",
            "mo",
            "-1mo",
            "99999999999999999999y",
            "20000y",
            "99999999999999999999d",
            "9223372036854775807w",
            "é",
        ] {
            assert_eq!(at(text, Edge::Begin), None, "{text}");
        }
    }
}
