//! What is said in the model's lives, and what is looked for.
//!
//! Texts are rows of words from a short list. Which of them a query finds is written down here by hand, so that nothing of the
//! program decides what is right.

/// Words of several scripts, and names of code.
pub(super) const WORDS: [&str; 8] =
    ["zebra", "lantern", "parse_record", "HttpServer", "部署数据库", "東京都", "한국어검색", "Grüße"];

/// Names of sessions and steps.
pub(super) const NAMES: [&str; 3] = ["keep", "Omega", "kept"];

/// A query, and whether it finds a text of these words.
pub(super) type Query = (&'static str, fn(&[&str]) -> bool);

fn has(words: &[&str], word: &str) -> bool {
    words.contains(&word)
}

fn follow(words: &[&str], first: &str, second: &str) -> bool {
    words.windows(2).any(|pair| pair == [first, second])
}

pub(super) const QUERIES: [Query; 17] = [
    ("zebra", |words| has(words, "zebra")),
    ("LANTERN", |words| has(words, "lantern")),
    ("lant*", |words| has(words, "lantern")),
    ("parse_record", |words| has(words, "parse_record")),
    ("record", |words| has(words, "parse_record")),
    ("server", |words| has(words, "HttpServer")),
    ("httpserver", |words| has(words, "HttpServer")),
    ("数据", |words| has(words, "部署数据库")),
    ("京都", |words| has(words, "東京都")),
    ("검색", |words| has(words, "한국어검색")),
    ("grusse", |words| has(words, "Grüße")),
    ("zebra lantern", |words| has(words, "zebra") && has(words, "lantern")),
    ("\"zebra lantern\"", |words| follow(words, "zebra", "lantern")),
    ("zebra OR 東京", |words| has(words, "zebra") || has(words, "東京都")),
    ("lantern -zebra", |words| has(words, "lantern") && !has(words, "zebra")),
    ("ke*", |words| has(words, "keep") || has(words, "kept")),
    ("omega", |words| has(words, "Omega")),
];
