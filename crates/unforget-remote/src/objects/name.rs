//! How objects are called. It asks nobody: a name is a pure function of what it names, and back.
//!
//! What it guards against: a name from a place is untrusted, so one that is not spelled exactly as it would be here is none of ours.

use unforget_core::encode;

use crate::stream::Stream;

/// The side of a main stream.
const MAIN: &str = "@";
const KEPT: &str = "@kept";
const KEEPS: &str = "@keeps";
const GONE: &str = "@gone";
/// The bytes of a large line.
pub(super) const BYTES: &str = "bytes";
/// What the name of merged segments begins with; it stands behind every number.
const MERGED: &str = "m";

/// Where the segments of a stream are.
pub(super) fn directory(stream: &Stream) -> String {
    let [tenant, place, session, side] = stream.parts();
    let side = if side.is_empty() { MAIN.to_owned() } else { encode::file_name(side) };
    [encode::file_name(tenant), encode::file_name(place), encode::file_name(session), side].join("/")
}

/// The stream of a directory, where its name says it.
pub(super) fn stream_of(dir: &str) -> Option<Stream> {
    let parts: Vec<&str> = dir.split('/').collect();
    let &[tenant, place, session, side] = parts.as_slice() else { return None };
    let [tenant, place, session] = [tenant, place, session].map(encode::decode_file_name);
    let side = if side == MAIN { Some(String::new()) } else { encode::decode_file_name(side) };
    Stream::of([&tenant?, &place?, &session?, &side?]).ok()
}

/// Where a large line is.
pub(super) fn kept(stream: &Stream, name: &str) -> String {
    format!("{}/{KEPT}/{name}", encode::file_name(stream.tenant()))
}

/// Where the names of a stream's large lines are.
pub(super) fn keeps(stream: &Stream) -> String {
    format!("{}/{KEEPS}/{}", encode::file_name(stream.tenant()), digest(&directory(stream)))
}

/// The name of a stream's claim on a large line, in one of its lives.
pub(super) fn claim(stream: &Stream, life: u64) -> String {
    format!("{}{}", digest(&directory(stream)), down(life))
}

/// Where it is said that a stream has a claim on a large line.
pub(super) fn claimed(stream: &Stream, life: u64, name: &str) -> String {
    format!("{}/{}{name}", keeps(stream), down(life))
}

/// Where it is said in which life a stream would begin that was swept away.
pub(super) fn gone(dir: &str) -> String {
    format!("{}/{GONE}/{}", dir.split('/').next().unwrap_or_default(), digest(dir))
}

/// A name for a directory that is no path.
pub(super) fn digest(dir: &str) -> String {
    encode::sha256_hex(dir.as_bytes())
}

/// A number that is counted down.
pub(super) fn down(number: u64) -> String {
    format!("{:016x}", u64::MAX - number)
}

/// The number behind a text of [`down`].
pub(super) fn up(digits: &str) -> Option<u64> {
    let is_ours = |digit: u8| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit);
    let digits = Some(digits).filter(|digits| digits.len() == 16 && digits.bytes().all(is_ours))?;
    u64::from_str_radix(digits, 16).ok().map(|number| u64::MAX - number)
}

/// A segment as it was put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Number {
    pub(super) life: u64,
    pub(super) first: u64,
}

impl Number {
    pub(super) fn spelled(self) -> String {
        format!("{}{}", down(self.life), down(self.first))
    }

    pub(super) fn parse(name: &str) -> Option<Self> {
        let (life, first) = name.split_at_checked(16)?;
        Some(Self { life: up(life)?, first: up(first)? })
    }
}

/// Segments that were merged: the lines from `first` up to `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Merged {
    pub(super) level: u8,
    pub(super) life: u64,
    pub(super) first: u64,
    pub(super) end: u64,
}

impl Merged {
    pub(super) fn spelled(self) -> String {
        format!("{}{}", Self::from(self.level, self.life, self.first), down(self.end))
    }

    pub(super) fn parse(name: &str) -> Option<Self> {
        let (level, rest) = name.strip_prefix(MERGED)?.split_at_checked(1)?;
        let (life, rest) = rest.split_at_checked(16)?;
        let (first, end) = rest.split_at_checked(16)?;
        let level = u8::from_str_radix(level, 16).ok()?;
        let merged = Self { level, life: up(life)?, first: up(first)?, end: up(end)? };
        (merged.first < merged.end && merged.spelled() == name).then_some(merged)
    }

    /// What stands before all names of a level and life.
    pub(super) fn of_life(level: u8, life: u64) -> String {
        format!("{MERGED}{:x}{}", level & 15, down(life))
    }

    /// What stands before the names of a level and life that begin with this line or an earlier one.
    pub(super) fn from(level: u8, life: u64, first: u64) -> String {
        format!("{}{}", Self::of_life(level, life), down(first))
    }

    /// What stands before all merged ones and behind all numbers.
    pub(super) fn all() -> &'static str {
        MERGED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_and_sort_newest_first() {
        let number = |life, first| Number { life, first }.spelled();
        assert_eq!(Number::parse(&number(3, 77)), Some(Number { life: 3, first: 77 }));
        let mut names = vec![number(0, 0), number(0, 5), number(1, 0), number(0, 300)];
        names.sort();
        assert_eq!(names, [number(1, 0), number(0, 300), number(0, 5), number(0, 0)]);
        let merged = Merged { level: 2, life: 1, first: 16, end: 32 };
        assert_eq!(Merged::parse(&merged.spelled()), Some(merged));
        assert!(merged.spelled().as_str() > number(0, 0).as_str());
        assert!(Merged::from(2, 1, 16) < merged.spelled());
        assert!(Merged::from(2, 1, 16) > Merged { first: 17, end: 40, ..merged }.spelled());
    }

    #[test]
    fn what_is_not_ours_is_no_name() {
        for odd in ["", "m", "bytes", "+fffffffffffffff0000000000000000", &"F".repeat(32), &"0".repeat(31), "é"] {
            assert_eq!(Number::parse(odd), None, "{odd}");
            assert_eq!(Merged::parse(odd), None, "{odd}");
        }
        assert_eq!(Merged::parse(&Merged { level: 1, life: 0, first: 4, end: 4 }.spelled()), None);
    }

    #[test]
    fn a_directory_names_its_stream_unless_it_is_hashed() {
        let main = Stream::new("Tenant", "a/b", "会").unwrap();
        for stream in [main.clone(), main.side_stream("x y").unwrap()] {
            assert_eq!(stream_of(&directory(&stream)), Some(stream));
        }
        assert_eq!(stream_of("a/b/c"), None);
        assert_eq!(stream_of(&directory(&Stream::new("t", &"x".repeat(400), "s").unwrap())), None);
    }
}
