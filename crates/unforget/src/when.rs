//! Points in time as people say them: `2026-01-31`, `2026-01-31T14:05`, `7d`, `3h`, `yesterday`.
//!
//! A date is the beginning of that day where the person is; a span is so long ago.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ToSpan as _, Zoned};

use crate::failure::{Failure, Result};
use crate::screen;

/// The point in time that a text means, in milliseconds since the epoch.
pub(crate) fn parse(text: &str, now_ms: i64) -> Result<i64> {
    parse_in(text, now_ms, TimeZone::system()).ok_or_else(|| {
        Failure::usage(format!("`{}` is no point in time", screen::one_line(text)))
            .hint("say 2026-01-31, 2026-01-31T14:05, today, yesterday, or how long ago: 45m, 3h, 7d, 2w, 6mo, 1y")
    })
}

fn parse_in(text: &str, now_ms: i64, zone: TimeZone) -> Option<i64> {
    let text = text.trim();
    let now = Timestamp::from_millisecond(now_ms).ok()?.to_zoned(zone.clone());
    let at = |zoned: Zoned| Some(zoned.timestamp().as_millisecond());
    let day = |date: Date| at(date.to_zoned(zone.clone()).ok()?);
    match text {
        "now" => return Some(now_ms),
        "today" => return day(now.date()),
        "yesterday" => return day(now.date().yesterday().ok()?),
        _ => {}
    }
    if let Ok(timestamp) = text.parse::<Timestamp>() {
        return Some(timestamp.as_millisecond());
    }
    if let Ok(time) = text.parse::<DateTime>().or_else(|_| text.replacen(' ', "T", 1).parse::<DateTime>()) {
        return at(time.to_zoned(zone).ok()?);
    }
    let span: Span = text.trim_end_matches(" ago").parse().ok()?;
    // A time to come is none that something was used since.
    let earlier = now.checked_sub(span).ok().filter(|then| *then <= now)?;
    (span.compare(0.seconds()).is_ok_and(std::cmp::Ordering::is_gt) || !span.is_negative()).then_some(())?;
    at(earlier)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_say_times_in_many_ways() {
        let now: Timestamp = "2026-03-10T12:30:00Z".parse().unwrap();
        let parse = |text| {
            let ms = parse_in(text, now.as_millisecond(), TimeZone::UTC)?;
            Some(Timestamp::from_millisecond(ms).unwrap().to_string())
        };
        for (text, expected) in [
            ("2026-01-31", "2026-01-31T00:00:00Z"),
            ("2026-01-31T14:05", "2026-01-31T14:05:00Z"),
            ("2026-01-31 14:05:09", "2026-01-31T14:05:09Z"),
            ("2026-01-31T14:05:00+02:00", "2026-01-31T12:05:00Z"),
            ("today", "2026-03-10T00:00:00Z"),
            ("yesterday", "2026-03-09T00:00:00Z"),
            ("now", "2026-03-10T12:30:00Z"),
            ("45m", "2026-03-10T11:45:00Z"),
            ("3h", "2026-03-10T09:30:00Z"),
            ("7d", "2026-03-03T12:30:00Z"),
            ("2w ago", "2026-02-24T12:30:00Z"),
            ("1mo", "2026-02-10T12:30:00Z"),
            ("1y", "2025-03-10T12:30:00Z"),
        ] {
            assert_eq!(parse(text).as_deref(), Some(expected), "{text}");
        }
        for text in ["", "soon", "7", "-7d", "2026-13-01", "99999999y"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
