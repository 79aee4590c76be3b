//! How new a transcript is, by its bytes.
//!
//! A search ranks its newest hits. Once there are enough of them, a file in which everything is older cannot add any, however
//! often it has the words; this tells so without parsing a line. Each `"ts"` in the bytes is looked at, wherever it stands: a record's own
//! time is one of them, and others can only make the file look newer than it is.
//!
//! The failure to guard against is a "yes" that is wrong, which would lose a hit. Whatever is not understood at once (a name or a time with an
//! escape in it, a number, another way to write times) is a "no", which costs time only.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use crate::stamp;

static NAME: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"ts\""));
/// An escape that a `t` or an `s` could be written with.
static ESCAPED: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\\u007"));

/// Whether no record in these bytes can say a time from `ms` on, in milliseconds since the epoch.
pub(super) fn is_before(bytes: &[u8], ms: i64) -> bool {
    if ms <= 0 || ESCAPED.find(bytes).is_some() {
        // A record without any time counts as said at 0.
        return false;
    }
    let limit = stamp::rfc3339(ms);
    NAME.find_iter(bytes)
        .all(|at| time(&bytes[at + NAME.needle().len()..]).is_some_and(|text| is_older(text, &limit, ms)))
}

/// The text of the time behind a name.
fn time(rest: &[u8]) -> Option<&str> {
    let rest = rest.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start().strip_prefix(b"\"")?;
    let len = memchr::memchr2(b'"', b'\\', rest)?;
    std::str::from_utf8(&rest[..len]).ok().filter(|_| rest[len] == b'"')
}

fn is_older(text: &str, limit: &str, ms: i64) -> bool {
    // As this program writes it, the order of times is that of their letters; other letters in the place of digits are no time at all.
    match is_plain(text.as_bytes()) && is_plain(limit.as_bytes()) {
        true => text < limit,
        false => stamp::parse_rfc3339(text).is_none_or(|time| time < ms),
    }
}

/// Whether it has the shape of `2026-01-31T12:00:00.000Z`.
fn is_plain(text: &[u8]) -> bool {
    let at = |place: usize| text.get(place).copied();
    text.len() == 24
        && at(0).is_some_and(|first| first.is_ascii_digit())
        && [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':'), (19, b'.'), (23, b'Z')]
            .iter()
            .all(|(place, sign)| at(*place) == Some(*sign))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::scan;

    const LIMIT: &str = "2026-01-31T12:00:00.000Z";

    fn is_old(bytes: &str) -> bool {
        is_before(bytes.as_bytes(), stamp::parse_rfc3339(LIMIT).unwrap())
    }

    #[test]
    fn older_times_are_seen_in_any_place() {
        for old in [
            r#"{"ts":"2026-01-31T11:59:59.999Z"}"#,
            r#"{"ts" : "2025-01-31T11:59:59Z"}{"x":{"ts":"2026-01-31T12:59:59+01:00"}}"#,
            r#"{"n":1}"#,
            r#"{"ts":"no time"}"#,
        ] {
            assert!(is_old(old), "{old}");
        }
    }

    #[test]
    fn what_is_new_or_not_understood_is_not_old() {
        for new in [
            r#"{"ts":"2026-01-31T12:00:00.000Z"}"#,
            r#"{"ts":"2025-01-31T00:00:00.000Z"}{"ts":"2026-02-01T00:00:00.000Z"}"#,
            r#"{"ts":"2026-01-31 12:00:00.000Z"}"#,
            r#"{"ts":"+002026-02-01T00:00:00Z"}"#,
            r#"{"ts":"2025-01-31T11:59:59-9999"}{"ts":1}"#,
            r#"{"\u0074s":"2026-02-01T00:00:00.000Z"}"#,
            r#"{"ts":"\u0032026-02-01T00:00:00.000Z"}"#,
            r#"{"ts":"2025"#,
        ] {
            assert!(!is_old(new), "{new}");
        }
        assert!(!is_before(b"{}", 0));
    }

    proptest! {
        #[test]
        fn no_record_of_an_old_file_is_new(
            times in prop::collection::vec((-10_i64..10, 0..4_usize), 1..6),
        ) {
            let limit = stamp::parse_rfc3339(LIMIT).unwrap();
            let line = |(n, (seconds, how)): (usize, &(i64, usize))| {
                let ms = limit + seconds * 1000;
                let time = match how {
                    0 => format!("\"{}\"", stamp::rfc3339(ms)),
                    1 => format!("{}", ms / 1000),
                    2 => format!("\"{}\"", stamp::rfc3339(ms).replace('T', " ")),
                    _ => format!("\"\\u0032{}\"", &stamp::rfc3339(ms)[1..]),
                };
                format!("{{\"v\":1,\"n\":{n},\"type\":\"user\",\"ts\":{time},\"content\":\"hi\"}}\n")
            };
            let text: String = times.iter().enumerate().map(line).collect();
            let is_new = scan::scan(text.as_bytes()).records.iter().any(|record| record.time_ms() >= Some(limit));
            prop_assert!(!(is_new && is_before(text.as_bytes(), limit)));
            prop_assert!(times.iter().any(|(seconds, how)| *seconds >= 0 || *how != 0 && *how != 2) || is_before(text.as_bytes(), limit));
        }
    }
}
