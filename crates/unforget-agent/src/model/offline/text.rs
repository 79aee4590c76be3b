//! Small things about words: looking for phrases in any case, cutting, quoting.

/// Longest text that is looked at as one question, in bytes.
const MAX_QUESTION: usize = 400;

/// The text in lower case, letter for letter: places in it are places in the original.
pub(super) fn lower(text: &str) -> String {
    text.chars().map(|c| c.to_lowercase().next().filter(|low| low.len_utf8() == c.len_utf8()).unwrap_or(c)).collect()
}

/// Whether one of the phrases is in a text that is in lower case.
pub(super) fn has_any(lower: &str, phrases: &[&str]) -> bool {
    phrases.iter().any(|phrase| has(lower, phrase))
}

/// Whether a phrase is in a text as words of its own; a phrase of a script without blanks may stand anywhere.
fn has(lower: &str, phrase: &str) -> bool {
    let is_letter = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    lower.match_indices(phrase).any(|(at, found)| {
        let (before, after) = (lower[..at].chars().next_back(), lower[at + found.len()..].chars().next());
        !(is_letter(before) && is_letter(found.chars().next())
            || is_letter(after) && is_letter(found.chars().next_back()))
    })
}

/// What follows the first of these beginnings that a text has, in any case.
pub(super) fn after_any<'a>(text: &'a str, beginnings: &[&str]) -> Option<&'a str> {
    let low = lower(text);
    beginnings.iter().find_map(|beginning| low.starts_with(beginning).then(|| &text[beginning.len()..]))
}

/// What follows one of these phrases anywhere in a text, in any case; that of the first phrase that is there.
pub(super) fn behind_any<'a>(text: &'a str, phrases: &[&str]) -> Option<&'a str> {
    let low = lower(text);
    phrases
        .iter()
        .find_map(|phrase| has(&low, phrase).then(|| low.find(phrase)).flatten().map(|at| &text[at + phrase.len()..]))
}

/// At most this many characters of a text on one line, cut at a word if there is one.
pub(super) fn brief(text: &str, chars: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let Some((end, _)) = line.char_indices().nth(chars) else { return line };
    let cut = line[..end].rfind(' ').filter(|at| *at > end / 2).unwrap_or(end);
    format!("{}…", line[..cut].trim_end())
}

/// Where a text asks its question: all of a short one, the last line of one that has something pasted into it.
pub(super) fn question(text: &str) -> &str {
    let is_long = text.len() > MAX_QUESTION;
    let last = || text.lines().rev().find(|line| !line.trim().is_empty()).filter(|line| line.len() <= MAX_QUESTION);
    if is_long { last().unwrap_or_default() } else { text }
}

/// The text as a Markdown quotation.
pub(super) fn quoted(text: &str, chars: usize) -> String {
    let end = text.char_indices().nth(chars);
    let shown = end.map_or(text, |(end, _)| &text[..end]);
    let lines: Vec<String> = shown.trim().lines().map(|line| format!("> {line}").trim_end().to_owned()).collect();
    let more = if end.is_some() { "…" } else { "" };
    format!("{}{more}", lines.join("\n"))
}

/// The text in a Markdown code fence that it cannot close.
pub(super) fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat((longest + 1).max(3));
    format!("{fence}\n{text}\n{fence}")
}

/// Without marks and quotation marks around it; `.` and `..` are names of folders.
pub(super) fn bare(text: &str) -> &str {
    let is_mark = |c: char| c.is_whitespace() || ",;:!?\"'`“”‘’「」《》。，！？、".contains(c);
    let inner = text.trim_matches(is_mark);
    if inner == "." || inner == ".." { inner } else { inner.trim_end_matches(|c| c == '.' || is_mark(c)) }
}

/// The language that a question is asked in, as far as its letters tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    English,
    Chinese,
    Japanese,
    Korean,
}

impl Language {
    pub(super) fn of(text: &str) -> Self {
        let any = |range: std::ops::RangeInclusive<char>| text.chars().any(|c| range.contains(&c));
        if any('\u{ac00}'..='\u{d7a3}') {
            Language::Korean
        } else if any('\u{3041}'..='\u{30ff}') {
            Language::Japanese
        } else if any('\u{4e00}'..='\u{9fff}') {
            Language::Chinese
        } else {
            Language::English
        }
    }
}
