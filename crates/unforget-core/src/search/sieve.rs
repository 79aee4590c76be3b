//! Raw bytes first: what cannot match is not even parsed.
//!
//! A sieve looks at bytes as they are in a file, a line or a payload, and says "no" only if no text in them can match. A word of
//! ASCII must be there in some case, a run of a dense script byte by byte; unless there is something in the bytes that hides
//! words: an escaped character, a letter that folds to another, a mark, a joiner. Then the bytes are looked at closer, and
//! so are lines whose payloads are elsewhere. What is absent from a text cannot be seen here: `NOT` lets everything pass.
//!
//! The failure to guard against is a "no" that is wrong; a property test compares it with the exact answer. A "maybe" costs time only.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use regex::bytes::Regex;

use super::letters::{self, Class};
use super::query::{Node, Query};

/// How a line is recognised that has payloads elsewhere.
static ELSEWHERE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"blobs\""));
static ESCAPE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\\u"));
static HIDING: LazyLock<Hiding> = LazyLock::new(Hiding::new);

/// A query, as far as raw bytes can answer it.
#[derive(Debug, Clone)]
pub struct Sieve {
    root: Gate,
}

#[derive(Debug, Clone)]
enum Gate {
    /// All of these are somewhere.
    Needles(Vec<Needle>),
    All(Vec<Gate>),
    Any(Vec<Gate>),
    Open,
}

#[derive(Debug, Clone)]
enum Needle {
    /// These letters, large or small.
    Letters(Regex),
    /// These bytes.
    Bytes(Box<Finder<'static>>),
    /// Anything that is not ASCII: letters whose other case has other bytes.
    Foreign,
}

impl Needle {
    fn of(token: &str) -> Self {
        if token.is_ascii() {
            // The pattern is letters and digits: it can fail only if it is too large, and then everything passes.
            let anything = |_| Needle::Bytes(Box::new(Finder::new(b"").into_owned()));
            return Regex::new(&format!("(?i-u){}", regex::escape(token))).map_or_else(anything, Needle::Letters);
        }
        let is_same_in_raw = |character| matches!(letters::class(character), Class::Dense | Class::Symbol);
        if token.chars().all(is_same_in_raw) {
            Needle::Bytes(Box::new(Finder::new(token).into_owned()))
        } else {
            Needle::Foreign
        }
    }

    fn is_in(&self, bytes: &[u8]) -> bool {
        match self {
            Needle::Letters(pattern) => pattern.is_match(bytes),
            Needle::Bytes(finder) => finder.find(bytes).is_some(),
            Needle::Foreign => !bytes.is_ascii(),
        }
    }
}

impl Sieve {
    /// The sieve of a query.
    pub fn new(query: &Query) -> Self {
        Self { root: gate(query.root()) }
    }

    /// Whether a text in these bytes could match, all of them taken together: a line and its payloads, say.
    pub fn may_match(&self, pieces: &[&[u8]]) -> bool {
        is_open(&self.root, pieces) || pieces.iter().any(|bytes| hides_words(bytes))
    }

    /// Whether a line, or a whole file, has payloads elsewhere that would have to be looked at, too.
    pub fn refers_elsewhere(bytes: &[u8]) -> bool {
        ELSEWHERE.find(bytes).is_some()
    }
}

fn gate(node: &Node) -> Gate {
    match node {
        Node::Term(term) => {
            let mut tokens: Vec<&String> = term.tokens.iter().collect();
            // The longest is the rarest, and one that is not there is enough.
            tokens.sort_by_key(|token| std::cmp::Reverse(token.len()));
            tokens.dedup();
            Gate::Needles(tokens.into_iter().map(|token| Needle::of(token)).collect())
        }
        Node::And(nodes) => Gate::All(nodes.iter().map(gate).collect()),
        Node::Or(nodes) => Gate::Any(nodes.iter().map(gate).collect()),
        Node::Not(_) => Gate::Open,
    }
}

fn is_open(gate: &Gate, pieces: &[&[u8]]) -> bool {
    match gate {
        Gate::Needles(needles) => needles.iter().all(|needle| pieces.iter().any(|bytes| needle.is_in(bytes))),
        Gate::All(gates) => gates.iter().all(|gate| is_open(gate, pieces)),
        Gate::Any(gates) => gates.iter().any(|gate| is_open(gate, pieces)),
        Gate::Open => true,
    }
}

/// Whether there are words in the bytes that the bytes do not show.
fn hides_words(bytes: &[u8]) -> bool {
    let hidden_by_escape = || ESCAPE.find_iter(bytes).any(|at| escape_hides(&bytes[at..]));
    if bytes.is_ascii() { hidden_by_escape() } else { HIDING.is_in(bytes) || hidden_by_escape() }
}

/// Whether the escape at the beginning is that of anything but a sign that separates words.
fn escape_hides(escape: &[u8]) -> bool {
    let digits = escape.get(2..6).and_then(|digits| std::str::from_utf8(digits).ok());
    let character = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()).and_then(char::from_u32);
    character.is_none_or(|character| letters::class(character) != Class::Apart)
}

/// How many bytes are seen at once to be ASCII.
const RUN: usize = 32;

/// The characters that hide words, as a table.
struct Hiding {
    /// Whether a character that begins with this byte may hide something.
    leads: [bool; 256],
    /// A bit for each character of the first plane.
    plane: Vec<u64>,
}

impl Hiding {
    fn new() -> Self {
        let mut table = Self { leads: [false; 256], plane: vec![0; 0x1_0000 / 64] };
        for code in 0x80..0x1_0000_u32 {
            let Some(character) = char::from_u32(code).filter(|character| letters::hides(*character)) else { continue };
            let place = code as usize;
            table.plane[place / 64] |= 1 << (place % 64);
            let mut bytes = [0; 4];
            character.encode_utf8(&mut bytes);
            table.leads[usize::from(bytes[0])] = true;
        }
        // Other planes are asked each time; bytes that begin no character may hide anything.
        table.leads[0xf0..].fill(true);
        table
    }

    fn has(&self, character: char) -> bool {
        let place = u32::from(character) as usize;
        match self.plane.get(place / 64) {
            Some(bits) => bits >> (place % 64) & 1 == 1,
            None => letters::hides(character),
        }
    }

    fn is_in(&self, bytes: &[u8]) -> bool {
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            if byte.is_ascii() {
                // Most of a transcript, and in long runs.
                at += match bytes[at..].first_chunk::<RUN>() {
                    Some(run) if run.is_ascii() => RUN,
                    Some(run) => run.iter().position(|byte| !byte.is_ascii()).unwrap_or(RUN),
                    None => 1,
                };
            } else if !self.leads[usize::from(*byte)] {
                at += 1;
            } else {
                match first_character(&bytes[at..]) {
                    Some(character) if !self.has(character) => at += character.len_utf8(),
                    _ => return true,
                }
            }
        }
        false
    }
}

/// The character at the beginning, if it is a whole one.
fn first_character(bytes: &[u8]) -> Option<char> {
    let is_inner = |byte: u8| byte & 0xc0 == 0x80;
    let inner = |byte: u8| u32::from(byte & 0x3f);
    let len = match *bytes {
        [] => return None,
        // Kana, Hangul and Han, where nothing has to be seen but that the bytes go on.
        [lead @ (0xe1..=0xec | 0xee..=0xef), second, third, ..] if is_inner(second) && is_inner(third) => {
            return char::from_u32(u32::from(lead & 0x0f) << 12 | inner(second) << 6 | inner(third));
        }
        [0x00..=0x7f, ..] => 1,
        [0xc2..=0xdf, ..] => 2,
        [0xe0..=0xef, ..] => 3,
        _ => 4,
    };
    std::str::from_utf8(bytes.get(..len)?).ok()?.chars().next()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::search::words::Words;

    fn passes(query: &str, raw: &str) -> bool {
        Sieve::new(&Query::parse(query).unwrap()).may_match(&[raw.as_bytes()])
    }

    #[test]
    fn what_is_not_there_does_not_pass() {
        for (query, raw) in [
            ("needle", r#"{"content":"hay \n \t \" and more hay, 日本語、「引用」，！ \u001b[0m €"}"#),
            ("東京", r#"{"content":"京東 tokyo 大阪"}"#),
            ("needle hay", r#"{"content":"hay"}"#),
            ("(needle OR pin) -hay", r#"{"content":"straw"}"#),
            ("жук", r#"{"content":"beetle"}"#),
        ] {
            assert!(!passes(query, raw), "{query}");
        }
    }

    #[test]
    fn what_may_be_hidden_passes() {
        for raw in ["NEEDLE", "n\\u0065edle", "needl\u{e9}", "ｎｅｅｄｌｅ", "nee\u{ad}dle", "x_needleY", "needles"]
        {
            assert!(passes("needle", raw), "{raw}");
        }
        for raw in ["が", "か\u{3099}", "ｶﾞ", "\\u304c"] {
            assert!(passes("が", raw), "{raw}");
        }
        assert!(passes("жук", "ЖУК") && passes("hay -needle", "hay needle"));
        let sieve = Sieve::new(&Query::parse("needle hay").unwrap());
        assert!(sieve.may_match(&[b"hay", b"needle"]) && !sieve.may_match(&[b"hay", b"hay"]));
    }

    #[test]
    fn bytes_that_are_no_text_are_looked_at_closer() {
        let sieve = Sieve::new(&Query::parse("needle").unwrap());
        for bytes in [b"\xff".as_slice(), b"\xc3", b"\xf0\x9f\x8e", b"\xe2\x80"] {
            assert!(sieve.may_match(&[bytes]), "{bytes:?}");
        }
        assert!(Sieve::refers_elsewhere(br#"{"blobs":["/content"]}"#) && !Sieve::refers_elsewhere(b"blobs"));
    }

    #[test]
    fn every_character_is_read_as_it_is() {
        for character in '\0'..=char::MAX {
            let text = format!("{character}\u{10ffff}");
            assert_eq!(first_character(text.as_bytes()), Some(character));
            assert_eq!(first_character(&text.as_bytes()[..character.len_utf8() - 1]), None, "{character:?}");
        }
    }

    /// The text as JSON, as one of several programs writes it.
    fn encoded(text: &str, how: usize) -> String {
        match how {
            0 => crate::json::quote(text),
            1 => serde_json::to_string(text).unwrap(),
            2 => text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect(),
            3 => {
                let escape = |c: char| match c.is_ascii_alphanumeric() {
                    true => c.to_string(),
                    false => c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04X}")).collect(),
                };
                text.chars().map(escape).collect()
            }
            _ => crate::json::quote(&text.to_uppercase()),
        }
    }

    fn wide(text: &str) -> String {
        text.chars()
            .map(|c| match c {
                '!'..='~' => char::from_u32(u32::from(c) + 0xfee0).unwrap_or(c),
                _ => c,
            })
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn bytes_are_characters_only_if_they_are(bytes in prop::collection::vec(prop_oneof![any::<u8>(), 0x80..=0xef_u8], 1..5)) {
            let text = String::from_utf8_lossy(&bytes);
            let first = text.chars().next().filter(|first| bytes.starts_with(first.to_string().as_bytes()));
            prop_assert_eq!(first_character(&bytes), first);
        }

        #[test]
        fn what_hides_is_found_behind_anything(before in "[a-z日本가が]{0,80}", after in "[a-z日本]{0,80}", hidden in any::<bool>()) {
            let text = format!("{before}{}{after}", if hidden { "é" } else { "" });
            prop_assert_eq!(HIDING.is_in(text.as_bytes()), hidden);
        }

        #[test]
        fn what_matches_passes(
            text in "([a-cA-C_1éÉßſK東京가ガがж🎉 ._\"\u{301}\u{ad}\u{200d}\u{3099}ｶﾞ\u{1112}\u{1161}\n]|ab|東京|e\u{301}){0,16}",
            query in "([a-c_1e東京가ガж🎉]|ab|東京|OR |-){1,4}( [a-c東ガ]{1,3}\\*?)?",
            how in 0_usize..5,
            is_wide in any::<bool>(),
        ) {
            let text = if is_wide { wide(&text) } else { text };
            let Ok(query) = Query::parse(&query) else { return Ok(()) };
            let text = if how == 4 { text.to_uppercase() } else { text };
            if query.matches(&Words::of(&text)) {
                prop_assert!(Sieve::new(&query).may_match(&[encoded(&text, how).as_bytes()]));
            }
        }
    }
}
