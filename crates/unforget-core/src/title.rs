//! A title from the user's own words, made here and always the same.
//!
//! A list of conversations is read by people who look for one of them. What they said first is the best name that costs
//! nothing, once the greeting, the courtesies and the pasted log around it are gone. [`from_words`] is total and pure: any
//! text gives one short line or none, so that a row is the same on every machine and a hostile message makes no long one.
//!
//! `phrases` knows what says nothing, `columns` how wide a text is and where it may be cut. Nothing here knows records,
//! models or a terminal.

use crate::json::needs_care;

pub(crate) mod columns;
mod phrases;

/// How wide a title is at most, in columns of a terminal.
pub const MAX_COLUMNS: usize = 60;
/// How much of a message is looked at, in bytes.
const MAX_LOOK: usize = 16 * 1024;
/// How far a line is indented that is code and not prose.
const CODE_INDENT: &str = "    ";
/// What ends with a full stop and yet ends no sentence.
const ABBREVIATIONS: [&str; 10] = ["e.g", "i.e", "vs", "cf", "approx", "mr", "mrs", "dr", "no", "incl"];

/// The title that a user's words give; none if they are only a greeting or say nothing.
pub fn from_words(words: &str) -> Option<String> {
    let words = &words[..words.floor_char_boundary(MAX_LOOK)];
    let (prose, pasted) = sorted(words);
    prose.into_iter().chain(pasted).find_map(from_line)
}

/// Lines of prose, and lines that were pasted: code, quotations, logs.
fn sorted(words: &str) -> (Vec<&str>, Vec<&str>) {
    let (mut prose, mut pasted) = (Vec::new(), Vec::new());
    let mut fence: Option<&str> = None;
    for line in words.split(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']) {
        let bare = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| bare.starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            (Some(_), _) => pasted.push(line),
            (None, None) if is_pasted(line) => pasted.push(line),
            (None, None) => prose.push(line),
        }
    }
    (prose, pasted)
}

fn is_pasted(line: &str) -> bool {
    let bare = line.trim_start();
    let first = bare.split_whitespace().next().unwrap_or("");
    let is_level = |word: &str| ["TRACE", "DEBUG", "INFO", "WARN", "WARNING", "ERROR", "FATAL"].contains(&word);
    line.starts_with(CODE_INDENT)
        || line.starts_with('\t')
        || bare.starts_with(['>', '<', '{'])
        || bare.starts_with("Traceback (")
        || is_time(first)
        || is_level(first.trim_matches(|c: char| !c.is_ascii_uppercase()))
}

/// Whether a word is a date or a time of day, as lines of a log begin with one.
fn is_time(word: &str) -> bool {
    let word = word.trim_start_matches('[');
    let shape: String = word.chars().take(8).map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    shape == "00:00:00" || shape == "0000-00-"
}

fn from_line(line: &str) -> Option<String> {
    let line = cleaned(line);
    sentences(without_bullet(&line)).find_map(from_sentence)
}

/// The line without the mark of a heading, a list or a quotation; `--help` and `#12` are words.
fn without_bullet(line: &str) -> &str {
    match line.split_once(' ') {
        Some((mark, rest)) if mark.chars().all(|c| "#>-*+•".contains(c)) => rest,
        _ => line,
    }
}

/// The line without what could disturb the lines around it, its blanks collapsed.
fn cleaned(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut gap = false;
    for character in line.chars() {
        // A tab or an escape separates words; a direction mark or an invisible one does not.
        if character.is_whitespace() || character.is_control() {
            gap = true;
        } else if !needs_care(character) && !matches!(character, '\u{200b}' | '\u{2060}' | '\u{ad}') {
            if gap && !out.is_empty() {
                out.push(' ');
            }
            gap = false;
            out.push(character);
        }
    }
    out
}

/// The line's sentences, each with the mark that ends it.
fn sentences(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = sentence_end(rest);
        let (sentence, after) = rest.split_at(end);
        rest = after;
        Some(sentence)
    })
}

fn sentence_end(text: &str) -> usize {
    let mut characters = text.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        let ends_word = characters.peek().is_none_or(|(_, next)| *next == ' ');
        let ends = match character {
            '。' | '！' | '？' => true,
            '!' | '?' => ends_word,
            '.' => ends_word && !is_abbreviation(&text[..at]),
            _ => false,
        };
        if ends {
            return at + character.len_utf8();
        }
    }
    text.len()
}

fn is_abbreviation(before: &str) -> bool {
    let word = before.rsplit(' ').next().unwrap_or("").trim_start_matches('(').to_lowercase();
    word.chars().count() == 1 || ABBREVIATIONS.contains(&word.as_str())
}

fn from_sentence(sentence: &str) -> Option<String> {
    let whole = sentence.trim();
    let said = trimmed(phrases::without_closing(phrases::without_opening(whole)));
    if phrases::says_nothing(said) {
        return None;
    }
    let is_shorter = !whole.starts_with(said);
    let said = columns::cut(said, MAX_COLUMNS, trimmed);
    Some(if is_shorter { capitalised(&said) } else { said })
}

/// Without the marks at both ends; the question mark stays, for it says that this is one.
fn trimmed(text: &str) -> &str {
    // A full stop or a tilde at the beginning may be that of a path.
    text.trim_start_matches([' ', ',', ';', ':', '!', '，', '。', '、', '；', '：', '！', '…', '～'])
        .trim_end_matches([' ', ',', '.', ';', ':', '!', '-', '，', '。', '、', '；', '：', '！', '…', '~', '～'])
}

/// What was the middle of a sentence begins one now; a path or a name in code stays as it is.
fn capitalised(text: &str) -> String {
    let first = text.split(' ').next().unwrap_or("");
    let is_word =
        first.chars().all(|c| c.is_alphabetic() || c == '\'') && !first.chars().skip(1).any(char::is_uppercase);
    let mut characters = text.chars();
    match characters.next() {
        Some(initial) if is_word && initial.is_lowercase() && initial.to_uppercase().count() == 1 => {
            initial.to_uppercase().chain(characters).collect()
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
