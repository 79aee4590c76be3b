//! The one way from a text to the tokens that are searched.
//!
//! A token has ASCII letters, digits, `_` and characters beyond ASCII, nothing else, so that an index can keep tokens apart by
//! blanks and change none of them. Words are folded (`letters`). A run of a script without blanks becomes
//! overlapping pairs and its last character alone: `ABC` gives `AB BC C`, and any piece of it of two or more characters is a row
//! of pairs. The parts of identifiers (`session_id`, `parseRecord`) follow behind the whole text, each group after a `_` that no
//! query can ask for: were they among the words, a phrase would have to know how the text spells `GitHub`.
//!
//! The failure to guard against is a text and a query that are cut differently; both are cut by `pieces`.

use std::ops::Range;

use super::common;
use super::letters::{self, Class};

/// The longest token, in characters; longer ones are cut.
pub const MAX_TOKEN: usize = 64;
/// Identifiers of more bytes than this have no parts.
const MAX_SPLIT: usize = 256;
/// Stands before the parts of an identifier.
const GAP: &str = "_";

/// A token, and the part of the text that it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece<'t> {
    pub(super) token: &'t str,
    pub(super) range: Range<usize>,
    pub(super) kind: Kind,
}

/// What a token is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A word or a symbol.
    Whole,
    /// Two characters of a run.
    Pair,
    /// The last character of a run.
    Last,
    /// Part of an identifier, or the gap before it.
    Part,
}

/// The tokens of a text, kept for matching.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Words {
    /// The tokens with a blank before and behind each.
    padded: String,
    len: usize,
}

impl Words {
    /// Cuts a text.
    pub fn of(text: &str) -> Self {
        let mut words = Self { padded: String::with_capacity(text.len() + text.len() / 2 + 2), len: 0 };
        words.padded.push(' ');
        tokens(text, |token| {
            words.padded.push_str(token);
            words.padded.push(' ');
            words.len += 1;
        });
        words
    }

    /// How many tokens there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The tokens, joined by single blanks.
    pub fn joined(&self) -> &str {
        self.padded.trim_matches(' ')
    }

    /// What an index keeps: the tokens, and those of pairs of very frequent ones.
    pub(crate) fn indexed(&self) -> String {
        common::with_pairs(self.joined())
    }

    pub(super) fn padded(&self) -> &str {
        &self.padded
    }
}

/// Hands out the tokens of a text in order.
pub fn tokens(text: &str, mut each: impl FnMut(&str)) {
    pieces(text, |piece| each(piece.token));
}

/// Hands out the tokens of a text in order, with their places.
pub(super) fn pieces(text: &str, each: impl FnMut(Piece<'_>)) {
    let mut cutter = Cutter { each, scratch: String::new(), parts: Parts::default(), run: Run::default() };
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if !is_inside(bytes[at]) {
            at += 1;
            continue;
        }
        let len = bytes[at..].iter().position(|byte| !is_inside(*byte)).unwrap_or(bytes.len() - at);
        let stretch = &text[at..at + len];
        if stretch.is_ascii() {
            cutter.plain(stretch, at);
        } else {
            cutter.mixed(stretch, at);
        }
        at += len;
    }
    cutter.finish();
}

/// Whether a byte does not end a stretch of words: everything but blanks and punctuation of ASCII.
fn is_inside(byte: u8) -> bool {
    byte >= 0x80 || byte.is_ascii_alphanumeric() || byte == b'_'
}

struct Cutter<F> {
    each: F,
    /// A folded token.
    scratch: String,
    parts: Parts,
    run: Run,
}

/// What has been read of the current word or run.
#[derive(Default)]
struct Run {
    /// The folded word; empty outside of one.
    word: String,
    /// For each of its clusters: where it is in `word`, where it is in the text, and how it is written.
    letters: Vec<(usize, usize, Case)>,
    end: usize,
    /// The last character of a dense run that was read, with its place.
    dense: Option<(char, Range<usize>)>,
}

/// How a letter of an identifier is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Case {
    Upper,
    Lower,
    Digit,
    Gap,
}

impl Case {
    fn of(character: char) -> Self {
        match character {
            '_' => Case::Gap,
            'a'..='z' => Case::Lower,
            'A'..='Z' => Case::Upper,
            '0'..='9' => Case::Digit,
            character if character.is_uppercase() => Case::Upper,
            character if character.is_numeric() => Case::Digit,
            _ => Case::Lower,
        }
    }
}

/// Parts of identifiers, until the whole text was read.
#[derive(Default)]
struct Parts {
    text: String,
    found: Vec<(Range<usize>, Range<usize>)>,
}

impl<F: FnMut(Piece<'_>)> Cutter<F> {
    /// A stretch of ASCII: one word.
    fn plain(&mut self, word: &str, at: usize) {
        self.scratch.clear();
        self.scratch.push_str(word);
        self.scratch.make_ascii_lowercase();
        let whole = &self.scratch[..word.len().min(MAX_TOKEN)];
        if word.bytes().all(|byte| byte == b'_') {
            return;
        }
        (self.each)(Piece { token: whole, range: at..at + word.len(), kind: Kind::Whole });
        let bytes = word.as_bytes();
        // Most words are all small, or capital at the beginning only.
        if bytes[1..].iter().any(u8::is_ascii_uppercase) || bytes.contains(&b'_') {
            let letters = word.char_indices().map(|(index, character)| (index, at + index, Case::of(character)));
            self.parts.add(&self.scratch, letters, at + word.len());
        }
    }

    /// A stretch that is not only ASCII.
    fn mixed(&mut self, stretch: &str, base: usize) {
        let mut at = 0;
        let mut folded = String::new();
        while at < stretch.len() {
            if let Some(character) = letters::settled(&stretch[at..]) {
                let range = base + at..base + at + character.len_utf8();
                at += character.len_utf8();
                self.dense(character, &range);
                continue;
            }
            let cluster = &stretch[at..at + letters::cluster(&stretch[at..])];
            let range = base + at..base + at + cluster.len();
            at += cluster.len();
            folded.clear();
            letters::fold(cluster, &mut folded);
            let mut case = cluster.chars().next().map_or(Case::Lower, Case::of);
            for character in folded.chars() {
                match letters::class(character) {
                    Class::Word => self.letter(character, case, &range),
                    Class::Dense => self.dense(character, &range),
                    Class::Mark if !self.run.word.is_empty() => self.letter(character, Case::Lower, &range),
                    Class::Mark if self.run.dense.is_some() => self.dense(character, &range),
                    Class::Symbol => {
                        self.end_run();
                        let token = character.encode_utf8(&mut [0; 4]).to_owned();
                        (self.each)(Piece { token: &token, range: range.clone(), kind: Kind::Whole });
                    }
                    Class::Mark | Class::Ignored => {}
                    Class::Apart => self.end_run(),
                }
                case = Case::Lower;
            }
        }
        self.end_run();
    }

    fn letter(&mut self, character: char, case: Case, range: &Range<usize>) {
        if self.run.dense.is_some() {
            self.end_run();
        }
        self.run.letters.push((self.run.word.len(), range.start, case));
        self.run.word.push(character);
        self.run.end = range.end;
    }

    fn dense(&mut self, character: char, range: &Range<usize>) {
        if !self.run.word.is_empty() {
            self.end_run();
        }
        if let Some((before, from)) = self.run.dense.replace((character, range.clone())) {
            self.scratch.clear();
            self.scratch.push(before);
            self.scratch.push(character);
            (self.each)(Piece { token: &self.scratch, range: from.start..range.end, kind: Kind::Pair });
        }
    }

    fn end_run(&mut self) {
        if let Some((last, range)) = self.run.dense.take() {
            let mut bytes = [0; 4];
            (self.each)(Piece { token: last.encode_utf8(&mut bytes), range, kind: Kind::Last });
        }
        let run = &mut self.run;
        if run.word.chars().any(|character| character != '_') {
            let cut = run.word.char_indices().nth(MAX_TOKEN).map_or(run.word.len(), |(at, _)| at);
            let start = run.letters.first().map_or(0, |(_, start, _)| *start);
            (self.each)(Piece { token: &run.word[..cut], range: start..run.end, kind: Kind::Whole });
            self.parts.add(&run.word, run.letters.iter().copied(), run.end);
        }
        run.word.clear();
        run.letters.clear();
    }

    /// The parts of all identifiers, behind everything else.
    fn finish(mut self) {
        for (part, range) in &self.parts.found {
            (self.each)(Piece { token: &self.parts.text[part.clone()], range: range.clone(), kind: Kind::Part });
        }
    }
}

impl Parts {
    /// Takes the parts of an identifier, if it has any but itself; `end` is where it ends in the text.
    fn add(&mut self, word: &str, letters: impl Iterator<Item = (usize, usize, Case)> + Clone, end: usize) {
        if word.len() > MAX_SPLIT {
            return;
        }
        // Something long with capitals all over is no name, but encoded data.
        let by_case = word.len() <= MAX_TOKEN;
        let first = self.found.len();
        let mut begin: Option<(usize, usize)> = None;
        let mut before = Case::Gap;
        let mut coming = letters.clone().skip(1);
        for (at, source, case) in letters {
            let next = coming.next().map(|(_, _, case)| case);
            let turns = match (before, case, next) {
                _ if !by_case => false,
                (Case::Lower | Case::Digit, Case::Upper, _) => true,
                (Case::Upper, Case::Upper, Some(Case::Lower)) => true,
                _ => false,
            };
            if (case == Case::Gap || turns)
                && let Some((from, source_from)) = begin.take()
            {
                self.push(&word[from..at], source_from..source);
            }
            if case != Case::Gap && begin.is_none() {
                begin = Some((at, source));
            }
            before = case;
        }
        if let Some((from, source_from)) = begin {
            self.push(&word[from..], source_from..end);
        }
        let is_itself = self.found.len() == first + 1 && !word.contains(GAP);
        if is_itself {
            self.found.truncate(first);
        } else if self.found.len() > first {
            let gap = self.text.len()..self.text.len() + GAP.len();
            self.text.push_str(GAP);
            self.found.insert(first, (gap, end..end));
        }
    }

    fn push(&mut self, part: &str, source: Range<usize>) {
        let cut = part.char_indices().nth(MAX_TOKEN).map_or(part.len(), |(at, _)| at);
        let start = self.text.len();
        self.text.push_str(&part[..cut]);
        self.found.push((start..self.text.len(), source));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> String {
        Words::of(text).joined().to_owned()
    }

    #[test]
    fn words_are_folded_and_punctuation_separates() {
        assert_eq!(cut("Hello, World! foo.bar()"), "hello world foo bar");
        assert_eq!(cut("Crème brûlée à Zürich"), "creme brulee a zurich");
        assert_eq!(cut("/usr/lib/x86_64-linux"), "usr lib x86_64 linux _ x86 64");
        assert_eq!(cut("C++ _ __ 3.14 é"), "c 3 14 e");
        assert_eq!(cut(""), "");
    }

    #[test]
    fn a_run_without_blanks_becomes_pairs_and_its_last_character() {
        assert_eq!(cut("東京都"), "東京 京都 都");
        assert_eq!(cut("我用Python3写代码。好"), "我用 用 python3 写代 代码 码 好");
        assert_eq!(cut("한국어 검색"), "한국 국어 어 검색 색");
        assert_eq!(cut("ｶﾞｽ ガス カ\u{3099}ス"), "ガス ス ガス ス ガス ス");
        assert_eq!(cut("ภาษาไทย"), "ภา าษ ษา าไ ไท ทย ย");
    }

    #[test]
    fn parts_of_identifiers_follow_behind_the_text() {
        assert_eq!(cut("session_id = x"), "session_id x _ session id");
        assert_eq!(cut("parseRecord(XMLHttpRequest)"), "parserecord xmlhttprequest _ parse record _ xml http request");
        assert_eq!(cut("GitHub Actions"), "github actions _ git hub");
        assert_eq!(
            cut("__init__ _private S3Bucket HTTP2"),
            "__init__ _private s3bucket http2 _ init _ private _ s3 bucket"
        );
        assert_eq!(cut("größeMax"), "grossemax _ grosse max");
    }

    #[test]
    fn long_tokens_are_cut_and_encoded_data_has_no_parts() {
        let base64 = "aGVsbG8gd29ybGQ".repeat(10);
        assert_eq!(cut(&base64), base64.to_lowercase()[..64]);
        let name = "a_name_that_says_all_about_a_test_and_does_not_care_for_its_length_at_all";
        assert!(cut(name).ends_with(" _ a name that says all about a test and does not care for its length at all"));
        assert_eq!(cut(&"é".repeat(100)).chars().count(), 64);
    }

    #[test]
    fn emoji_are_tokens_of_their_own() {
        assert_eq!(cut("done🎉🎉 ❤\u{fe0f}ok"), "done 🎉 🎉 ❤ ok");
        assert_eq!(cut("👨\u{200d}👩"), "👨 👩");
    }

    #[test]
    fn places_are_those_of_the_text() {
        let text = "Über parseRecord 東京都";
        let mut found = Vec::new();
        pieces(text, |piece| found.push((piece.token.to_owned(), &text[piece.range.clone()])));
        let found: Vec<(&str, &str)> = found.iter().map(|(token, source)| (token.as_str(), *source)).collect();
        assert_eq!(
            found,
            [
                ("uber", "Über"),
                ("parserecord", "parseRecord"),
                ("東京", "東京"),
                ("京都", "京都"),
                ("都", "都"),
                ("_", ""),
                ("parse", "parse"),
                ("record", "Record"),
            ]
        );
    }
}
