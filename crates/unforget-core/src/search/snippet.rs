//! The few words around a hit that tell a person whether it is the one.
//!
//! Secrets are masked before anything is cut, so that no half of one slips through; blanks are collapsed; then the place is taken
//! where the most different words of the query stand together, and about [`COLUMNS`] columns of it, cut between characters as
//! people see them. Ranges say what to highlight. The text is as it was stored: whoever prints it makes it safe.

use std::ops::Range;

use super::query::{Query, Term};
use super::words::{self, Kind};
use super::{Ear, Hit, Said};
use crate::directory::Directory;
use crate::error::{Error, Result};
use crate::mask;
use crate::reader::LogReader;
use crate::scan::Scanner;
use crate::title::columns::{Clusters, cluster_width};

/// How wide a snippet usually is.
pub const COLUMNS: usize = 160;
/// How many places of a text are considered.
const MAX_MARKS: usize = 1000;
/// No cluster has more bytes than this for each of its columns, as far as the way back is concerned.
const BYTES_A_COLUMN: usize = 16;

/// Some words of a text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snippet {
    /// The words, on one line, with `…` where something was cut.
    pub text: String,
    /// What of it matched.
    pub marks: Vec<Range<usize>>,
}

/// The words around a hit; none if the record is no longer there.
pub fn snippet(store: &Directory, hit: &Hit, query: &Query, columns: usize) -> Result<Option<Snippet>> {
    let reader = match LogReader::open(store.medium().as_ref(), &hit.place.transcript()) {
        Err(error) if error.is_io(std::io::ErrorKind::NotFound) => return Ok(None),
        other => other?,
    };
    let blobs = store.blobs();
    let mut forward = reader.forward(hit.offset);
    let Some(line) = forward.next()? else { return Ok(None) };
    let mut found: Result<Option<Snippet>, Error> = Ok(None);
    Scanner::partial(hit.n).feed(&line, |record| {
        if record.n == hit.n && record.offset == hit.offset {
            found = Ear::default().hear(&record, &blobs).map(|said| {
                let mut said: Vec<Said<'_>> = said.into_iter().filter(|said| said.role == hit.role).collect();
                said.sort_by_key(|said| said.tool != hit.tool);
                said.first().map(|said| around(&said.text, query, columns))
            });
        }
    });
    found
}

/// The words of a text around what matches in it.
pub fn around(text: &str, query: &Query, columns: usize) -> Snippet {
    let masked = mask::mask(text);
    let flat = masked.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let flat = flat.collect::<Vec<_>>().join(" ");
    let found = places(&flat, &query.wanted());
    let lead = columns / 4;
    let anchor = match densest(&found, columns) {
        Some(place) => place,
        // What matched is masked, most likely.
        None => flat.find(mask::MARK).map_or(0, |at| flat[..at].rfind(' ').map_or(0, |blank| blank + 1)),
    };
    let start = if on(&flat, 0, columns) == flat.len() { 0 } else { back(&flat, anchor, lead) };
    let end = on(&flat, start, columns);
    let (before, behind) = (if start > 0 { "…" } else { "" }, if end < flat.len() { "…" } else { "" });
    let cut = &flat[start..end];
    let inside = |range: &Range<usize>| {
        let (from, to) = (range.start.max(start), range.end.min(end));
        (from < to).then(|| from - start + before.len()..to - start + before.len())
    };
    let mut marks: Vec<Range<usize>> = Vec::new();
    for mark in found.iter().filter_map(|(range, _)| inside(range)) {
        match marks.last_mut() {
            Some(last) if mark.start <= last.end => last.end = last.end.max(mark.end),
            _ => marks.push(mark),
        }
    }
    Snippet { text: format!("{before}{cut}{behind}"), marks }
}

/// Where the terms are, in the order of the text, each with the number of its term.
fn places(text: &str, terms: &[&Term]) -> Vec<(Range<usize>, usize)> {
    let mut tokens: Vec<(String, Range<usize>, Kind)> = Vec::new();
    words::pieces(text, |piece| tokens.push((piece.token.to_owned(), piece.range, piece.kind)));
    let mut found = Vec::new();
    for (number, term) in terms.iter().enumerate() {
        let len = term.tokens.len();
        let rows = tokens.windows(len).filter(|row| {
            let (last, others) = (len - 1, row.iter().zip(&term.tokens));
            others.enumerate().all(|(at, ((token, _, _), wanted))| {
                if at == last && term.is_prefix { token.starts_with(wanted.as_str()) } else { token == wanted }
            })
        });
        for row in rows.take(MAX_MARKS) {
            let (Some((_, first, _)), Some((token, last, kind))) = (row.first(), row.last()) else { continue };
            let goes_on = *kind == Kind::Pair && term.tokens.last().is_some_and(|wanted| wanted.len() < token.len());
            // Of a pair that only begins as asked, the first character is meant.
            let end = if goes_on {
                last.start + text[last.start..].chars().next().map_or(0, char::len_utf8)
            } else {
                last.end
            };
            found.push((first.start..end, number));
        }
    }
    found.sort_by_key(|(range, _)| (range.start, range.end));
    found.truncate(MAX_MARKS);
    found
}

/// Where the most different terms, and then the most places, are within about as many columns; the first of such places.
fn densest(found: &[(Range<usize>, usize)], columns: usize) -> Option<usize> {
    let weight = |from: usize| {
        let begin = found[from].0.start;
        let near: Vec<usize> = found[from..]
            .iter()
            .take_while(|(range, _)| range.end <= begin + columns / 2)
            .map(|(_, term)| *term)
            .collect();
        let mut different = near.clone();
        different.sort_unstable();
        different.dedup();
        (different.len(), near.len())
    };
    let mut best: Option<((usize, usize), usize)> = None;
    for (from, (range, _)) in found.iter().enumerate() {
        let weight = weight(from);
        if best.is_none_or(|(most, _)| weight > most) {
            best = Some((weight, range.start));
        }
    }
    best.map(|(_, start)| start)
}

/// The beginning of a snippet, at most so many columns before a place, and between words if there is a blank.
fn back(text: &str, place: usize, columns: usize) -> usize {
    let begin = text.floor_char_boundary(place.saturating_sub(columns * BYTES_A_COLUMN));
    let clusters: Vec<&str> = Clusters(&text[begin..place]).collect();
    let mut width = 0;
    let mut start = place;
    for cluster in clusters.iter().rev() {
        width += cluster_width(cluster);
        if width > columns {
            break;
        }
        start -= cluster.len();
    }
    if start == 0 || text[..start].ends_with(' ') {
        return start;
    }
    // Where blanks are rare, a cut inside of a word shows more than one between words.
    let near = start + (place - start) / 2;
    text[start..place].find(' ').map(|blank| start + blank + 1).filter(|word| *word <= near).unwrap_or(start)
}

/// The end of a snippet, so many columns behind its beginning, and between words if that loses little.
fn on(text: &str, start: usize, columns: usize) -> usize {
    let mut width = 0;
    let mut end = start;
    for cluster in Clusters(&text[start..]) {
        width += cluster_width(cluster);
        if width > columns {
            let fair = text.floor_char_boundary(start + (end - start) * 3 / 4);
            return text[fair..end].rfind(' ').map_or(end, |blank| fair + blank);
        }
        end += cluster.len();
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, query: &str, columns: usize) -> String {
        let snippet = around(text, &Query::parse(query).unwrap(), columns);
        let mut out = snippet.text.clone();
        for mark in snippet.marks.iter().rev() {
            out.insert(mark.end, ']');
            out.insert(mark.start, '[');
        }
        out
    }

    #[test]
    fn what_matches_is_marked() {
        assert_eq!(shown("Hello\n\n  wide   World", "world hello", 80), "[Hello] wide [World]");
        assert_eq!(shown("call parseRecord now", "record", 80), "call parse[Record] now");
        assert_eq!(shown("我住在東京都。", "東京", 80), "我住在[東京]都。");
        assert_eq!(shown("我住在東京都。", "京", 80), "我住在東[京]都。");
        assert_eq!(shown("a Crème brûlée b", "\"creme brulee\"", 80), "a [Crème brûlée] b");
        assert_eq!(shown("unclear unclean", "uncl* -x", 80), "[unclear] [unclean]");
        assert_eq!(shown("nothing of it", "else", 80), "nothing of it");
    }

    #[test]
    fn the_densest_place_is_shown() {
        let text = format!("alpha {} beta alpha {} end", "x ".repeat(100), "y ".repeat(100));
        let shown = shown(&text, "alpha beta", 40);
        assert!(shown.contains("[beta] [alpha]") && shown.starts_with('…') && shown.ends_with('…'), "{shown}");
    }

    #[test]
    fn cuts_are_between_characters_and_words() {
        let text = format!("{}needle{}", "word ".repeat(50), " tail".repeat(50));
        assert_eq!(shown(&text, "needle", 40), "…word word [needle] tail tail tail tail…");
        let text = format!("{}東京{}", "あ".repeat(100), "👨\u{200d}👩\u{200d}👧".repeat(100));
        let snippet = around(&text, &Query::parse("東京").unwrap(), 40);
        assert!(snippet.text.ends_with("👧…") && snippet.text.starts_with("…あ"), "{}", snippet.text);
    }

    #[test]
    fn a_secret_is_masked_before_the_text_is_cut() {
        let secret = format!("sk-ant-api03-{}", "a1B2".repeat(20));
        let text = format!("{} the key is {secret} indeed {}", "x ".repeat(200), "y ".repeat(200));
        for columns in 10..200 {
            for query in [secret.as_str(), "key", "indeed"] {
                let snippet = around(&text, &Query::parse(query).unwrap(), columns);
                assert!(!snippet.text.contains("a1B2"), "{columns}: {}", snippet.text);
            }
        }
        let found = around(&text, &Query::parse(&secret).unwrap(), 80).text;
        assert!(found.contains("sk-a…[masked"), "{found}");
    }
}
