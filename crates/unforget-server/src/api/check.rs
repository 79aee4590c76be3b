//! Bounds on the members of requests. A member that breaks one is a [`Problem`] that names it.

use serde::{Deserialize, Deserializer};
use unforget_core::{json, stamp};

use crate::error::{Problem, Result};

/// A member that may be `null`, which differs from one that is missing.
pub(super) fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Option<Option<T>>, D::Error> {
    Option::<T>::deserialize(from).map(Some)
}

/// A member that may be missing and is never `null`.
pub(crate) fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

/// A number from 1 to `most`; `usual` if it is missing.
pub(super) fn bounded(name: &str, asked: Option<u64>, usual: usize, most: usize) -> Result<usize> {
    match asked.map(usize::try_from) {
        None => Ok(usual),
        Some(Ok(count)) if (1..=most).contains(&count) => Ok(count),
        Some(_) => Err(Problem::invalid(format!("`{name}` is a number from 1 to {most}"))),
    }
}

/// A time, in milliseconds since the epoch.
pub(super) fn time(name: &str, text: Option<&str>) -> Result<Option<i64>> {
    let parse =
        |text| stamp::parse_rfc3339(text).ok_or_else(|| Problem::invalid(format!("`{name}` is no time of RFC 3339")));
    text.map(parse).transpose()
}

/// A text of a bounded length, without characters that control a terminal.
pub(super) fn words<'t>(name: &str, text: &'t str, most: usize) -> Result<&'t str> {
    let text = text.trim();
    if text.chars().count() > most {
        return Err(Problem::invalid(format!("`{name}` has at most {most} characters")));
    }
    if text.chars().any(json::needs_care) {
        return Err(Problem::invalid(format!("`{name}` must not have control characters")));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_bounds() {
        assert_eq!(bounded("limit", None, 5, 9).unwrap(), 5);
        assert_eq!(bounded("limit", Some(9), 5, 9).unwrap(), 9);
        for wrong in [0, 10, u64::MAX] {
            assert!(bounded("limit", Some(wrong), 5, 9).is_err(), "{wrong}");
        }
    }
}
