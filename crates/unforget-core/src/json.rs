//! Small things about JSON text that is kept as text.
//!
//! Bodies are never parsed into trees and printed again: that would change numbers, key order and
//! escapes. What must be looked at is decoded for looking; what must be changed is changed in place.

use std::borrow::Cow;
use std::sync::LazyLock;

use memchr::memmem;
use serde::Deserialize as _;
use serde_json::value::RawValue;

use crate::stamp;

mod duplicate;

pub use duplicate::{Duplicate, duplicate};

/// The string behind raw JSON text; `None` if it is not a string. Lone surrogates become U+FFFD.
pub fn string(raw: &str) -> Option<Cow<'_, str>> {
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Some(Cow::Borrowed(inner));
    }
    serde_json::from_str(&without_lone_surrogates(raw)).ok().map(Cow::Owned)
}

/// A whole number that is not negative.
pub fn number(raw: &str) -> Option<u64> {
    raw.parse().ok()
}

/// JSON text of a string. Control, bidirectional and line-separating characters are escaped, so that
/// neither `cat` nor a program that splits on Unicode line ends is led astray.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            character if needs_care(character) => out.push_str(&format!("\\u{:04x}", u32::from(character))),
            character => out.push(character),
        }
    }
    out.push('"');
    out
}

/// Length of what [`quote`] makes of a text.
pub fn quoted_len(text: &str) -> usize {
    let more = |character: char| match character {
        '"' | '\\' | '\n' | '\r' | '\t' => 1,
        character if needs_care(character) => 6 - character.len_utf8(),
        _ => 0,
    };
    text.len() + 2 + text.chars().map(more).sum::<usize>()
}

/// Whether a character can change how a terminal or an editor shows its neighbours.
pub fn needs_care(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// Whether raw JSON text nests deeper than `limit`.
pub fn deeper_than(raw: &str, limit: usize) -> bool {
    let bytes = raw.as_bytes();
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(byte) = bytes.get(at) {
        at += 1;
        match byte {
            // Most of it is strings, which are passed over many bytes at a time.
            b'"' => {
                while let Some(found) = bytes.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
                    at += found + 1;
                    if bytes[at - 1] == b'"' {
                        break;
                    }
                    at += 1;
                }
            }
            b'{' | b'[' => {
                depth += 1;
                if depth > limit {
                    return true;
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

/// Raw JSON text as an API takes it: lone surrogates and NUL escapes become `\ufffd`, all else stays.
pub fn sendable(raw: &str) -> Cow<'_, str> {
    static UNICODE_ESCAPE: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new("\\u"));
    if UNICODE_ESCAPE.find(raw.as_bytes()).is_none() { Cow::Borrowed(raw) } else { replace_escapes(raw, true) }
}

fn without_lone_surrogates(raw: &str) -> Cow<'_, str> {
    replace_escapes(raw, false)
}

fn replace_escapes(raw: &str, nul_too: bool) -> Cow<'_, str> {
    let bytes = raw.as_bytes();
    let unit = |at: usize| -> Option<u32> {
        let digits = raw.get(at + 2..at + 6).filter(|_| bytes.get(at..at + 2) == Some(b"\\u".as_slice()))?;
        u32::from_str_radix(digits, 16).ok()
    };
    let mut out = String::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(found) = memchr::memchr(b'\\', &bytes[at..]) {
        let start = at + found;
        at = start + 2;
        let Some(code) = unit(start) else { continue };
        at = start + 6;
        let bad = match code {
            0xd800..=0xdbff => {
                let paired = unit(at).is_some_and(|low| (0xdc00..=0xdfff).contains(&low));
                at += if paired { 6 } else { 0 };
                !paired
            }
            0xdc00..=0xdfff => true,
            0 => nul_too,
            _ => false,
        };
        if bad {
            out.push_str(&raw[copied..start]);
            out.push_str("\\ufffd");
            copied = start + 6;
        }
        at = at.min(bytes.len());
    }
    if copied == 0 {
        return Cow::Borrowed(raw);
    }
    out.push_str(&raw[copied..]);
    Cow::Owned(out)
}

/// The elements of raw JSON array text; `None` if it is not an array.
pub fn elements(raw: &str) -> Option<Vec<&str>> {
    if !raw.starts_with('[') {
        return None;
    }
    let elements: Vec<&RawValue> = serde_json::from_str(raw).ok()?;
    Some(elements.into_iter().map(RawValue::get).collect())
}

/// The members of raw JSON object text, in order; `None` if it is not an object.
pub fn members(raw: &str) -> Option<Vec<(Cow<'_, str>, &str)>> {
    struct Members;
    impl<'de> serde::de::Visitor<'de> for Members {
        type Value = Vec<(Cow<'de, str>, &'de str)>;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut members = Vec::new();
            while let Some(name) = map.next_key::<&RawValue>()? {
                let value = map.next_value::<&RawValue>()?;
                members.push((string(name.get()).unwrap_or_default(), value.get()));
            }
            Ok(members)
        }
    }
    if !raw.starts_with('{') {
        return None;
    }
    serde::Deserializer::deserialize_map(&mut serde_json::Deserializer::from_str(raw), Members).ok()
}

/// Hands out the members of raw JSON object text in order, each name without its quotation marks.
///
/// Takes only what this program itself writes: no blanks between members, no escapes in names. `None` says that
/// the text is something else, valid or not, and that whatever was handed out does not count.
pub(crate) fn plain_members<'a>(raw: &'a str, mut take: impl FnMut(&'a str, &'a str)) -> Option<()> {
    let bytes = raw.as_bytes();
    let mut at = 0;
    let mut opens = b'{';
    loop {
        if bytes.get(at..at + 2)? != [opens, b'"'] {
            return None;
        }
        opens = b',';
        let name = at + 1..string_end(bytes, at + 1)?;
        let name = &raw[name.start + 1..name.end - 1];
        at += name.len() + 3;
        if name.contains('\\') || bytes.get(at) != Some(&b':') {
            return None;
        }
        let value = &raw[at + 1..];
        let len = match value.as_bytes().first()? {
            b'"' => string_end(value.as_bytes(), 0)?,
            b'1'..=b'9' => value.bytes().take_while(u8::is_ascii_digit).count(),
            b'0' => 1,
            b' ' | b'\t' | b'\r' | b'\n' => return None,
            _ => <&RawValue>::deserialize(&mut serde_json::Deserializer::from_str(value)).ok()?.get().len(),
        };
        take(name, &value[..len]);
        at += 1 + len;
        if bytes.get(at..) == Some(b"}") {
            return Some(());
        }
    }
}

/// Where the JSON string ends whose quotation mark is at `start`; `None` if it is not a valid one.
pub(crate) fn string_end(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes[at] == b'"' {
            break;
        }
        at += match bytes.get(at + 1)? {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => 2,
            b'u' if bytes.get(at + 2..at + 6)?.iter().all(u8::is_ascii_hexdigit) => 6,
            _ => return None,
        };
    }
    // Without a way out of the loop, so that it is done many bytes at a time.
    let has_control = bytes[start + 1..at].iter().fold(false, |found, byte| found | (*byte < 0x20));
    (!has_control).then_some(at + 1)
}

/// The last member of that name, as a reader that lets the last one win sees it.
pub fn member<'a>(members: &[(Cow<'a, str>, &'a str)], name: &str) -> Option<&'a str> {
    members.iter().rev().find(|(candidate, _)| candidate == name).map(|(_, value)| *value)
}

/// Whether a content block is of one of these types, wherever in it that is said.
pub fn has_type(block: &str, types: &[&str]) -> bool {
    let members = members(block).unwrap_or_default();
    member(&members, "type").and_then(string).is_some_and(|found| types.contains(&found.as_ref()))
}

/// Milliseconds since the epoch of a `ts` value: RFC 3339 text or seconds as a number.
pub fn timestamp_ms(raw: &str) -> Option<i64> {
    if let Some(text) = string(raw) {
        return stamp::parse_rfc3339(&text);
    }
    let seconds: f64 = raw.parse().ok()?;
    // Beyond these bounds it is no time of day that anyone lived through.
    (0.0..1e11).contains(&seconds).then_some((seconds * 1000.0) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lone_surrogates_and_nul_escapes_are_replaced() {
        for (raw, want) in [
            (r#""plain""#, r#""plain""#),
            (r#""\ud83d""#, r#""\ufffd""#),
            (r#""\ud83d\ude00""#, r#""\ud83d\ude00""#),
            (r#""\ude00\ud83d""#, r#""\ufffd\ufffd""#),
            (r#""\ud83d\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#),
            (r#""\\ud83d""#, r#""\\ud83d""#),
            (r#""\\\ud83d\u0000""#, r#""\\\ufffd\ufffd""#),
            (r#""\u0041é\n""#, r#""\u0041é\n""#),
        ] {
            assert_eq!(sendable(raw), want);
        }
    }

    #[test]
    fn a_string_with_a_lone_surrogate_can_still_be_shown() {
        assert_eq!(string(r#""x\ud83d""#).as_deref(), Some("x\u{fffd}"));
        assert_eq!(string(r#""a\u0000b""#).as_deref(), Some("a\0b"));
        assert_eq!(string("12"), None);
    }

    #[test]
    fn quoting_hides_controls_and_survives_a_round_trip() {
        let text = "a\u{1b}[2J\u{202e}\u{85}\u{2028}\"\\\n日本語";
        let quoted = quote(text);
        assert_eq!(string(&quoted).as_deref(), Some(text));
        assert!(!quoted.chars().any(needs_care));
    }

    #[test]
    fn depth_ignores_brackets_in_strings() {
        assert!(!deeper_than(r#"{"a":"[[[[\"[[["}"#, 2));
        assert!(deeper_than("[[[1]]]", 2));
    }

    #[test]
    fn plain_members_are_those_that_a_parser_sees() {
        for raw in [
            r#"{"v":1,"n":0,"type":"user","content":"a \"b\" \\ \u00e9 é","x":[1,{"y":"]"}],"z":{"a":-1.5e3},"t":true,"e":""}"#,
            r#"{"a":null,"a":2}"#,
        ] {
            let mut plain = Vec::new();
            assert_eq!(plain_members(raw, |name, value| plain.push((Cow::Borrowed(name), value))), Some(()));
            assert_eq!(Some(plain), members(raw));
        }
        for raw in [
            "",
            "{",
            "{}",
            r#"{"a":1,}"#,
            r#"{"a":1}}"#,
            r#"{"a":01}"#,
            r#"{"a":1.5}"#,
            r#"{"a":tru}"#,
            r#"{"a":"\x"}"#,
            r#"{"a":"\u12g4"}"#,
            "{\"a\":\"\n\"}",
            "{\"a\u{1}\":1}",
            r#"{"a" :1}"#,
            r#"{"a": 1}"#,
            r#"{"a": {"b":1}"#,
            r#"{"\u0061":1}"#,
            r#"{"a":"b"#,
            r#"["a":1}"#,
        ] {
            assert_eq!(plain_members(raw, |_, _| {}), None, "{raw}");
        }
    }

    #[test]
    fn members_keep_order_and_duplicates() {
        let members = members(r#"{"b":1,"a":{"x":2},"b":3}"#).unwrap();
        assert_eq!(
            members.iter().map(|(name, value)| (name.as_ref(), *value)).collect::<Vec<_>>(),
            [("b", "1"), ("a", r#"{"x":2}"#), ("b", "3")]
        );
        assert_eq!(member(&members, "b"), Some("3"));
    }
}
