//! Summaries and titles, made by rules from what a request holds.
//!
//! A summary is what is left of a conversation, so it keeps what people ask for later: the first and the last request,
//! names, files, numbers, what is still to do. It is always shorter than what it stands for, and a summary of a summary keeps the first
//! request of the first one.

use std::collections::HashSet;

use unforget_core::history::Role;
use unforget_core::title;

use super::conversation::Conversation;
use super::name;
use super::text::{bare, brief, has_any, lower};

/// What the lines of a summary begin with.
pub(super) const FIRST: &str = "First request: ";
pub(super) const LAST: &str = "Last request: ";
pub(super) const NAME: &str = "Name: ";
const FILES: &str = "Files: ";
const NUMBERS: &str = "Numbers: ";
const OPEN: &str = "Open: ";
const ALSO: &str = "Also said: ";

/// How much of a request a summary keeps, in characters.
const MAX_REQUEST: usize = 160;
/// How many files, and how many numbers, a summary keeps.
const MAX_NAMES: usize = 12;
/// How many open tasks a summary keeps.
const MAX_TASKS: usize = 5;
/// How many other things that were said a summary keeps, and how much of each.
const MAX_ALSO: usize = 12;
const MAX_ALSO_CHARS: usize = 80;
/// What a title is if nothing says anything.
const NO_TITLE: &str = "Conversation";

/// The summary or title that a request without tools asks for in its system prompt.
pub(super) fn asked(conversation: &Conversation) -> Option<String> {
    if !conversation.tools.is_empty() {
        return None;
    }
    let system = lower(&conversation.system);
    let place = |words: &[&str]| words.iter().filter_map(|word| system.find(word)).min();
    let (summary, title) =
        (place(&["summar", "compact", "摘要", "总结", "要約", "요약"]), place(&["title", "标题", "タイトル", "제목"]));
    match (summary, title) {
        (None, None) => None,
        (Some(summary), Some(title)) if title < summary => Some(title_of(conversation)),
        (None, Some(_)) => Some(title_of(conversation)),
        (Some(_), _) => Some(of(conversation)),
    }
}

fn title_of(conversation: &Conversation) -> String {
    let pieces = pieces(conversation);
    pieces.iter().find_map(|piece| title::from_words(piece)).unwrap_or_else(|| NO_TITLE.to_owned())
}

/// A summary of everything in a request.
pub(super) fn of(conversation: &Conversation) -> String {
    let everything: Vec<&str> = conversation
        .summaries
        .iter()
        .map(String::as_str)
        .chain(conversation.said.iter().map(|said| quoted(&said.text)))
        .collect();
    let all = everything.join("\n");
    let pieces = pieces(conversation);
    let mut lines = Vec::new();
    let mut add = |lead: &str, text: String| {
        if !text.is_empty() {
            lines.push(format!("{lead}{text}"));
        }
    };
    let first = line(&all, FIRST).map(str::to_owned).or_else(|| pieces.first().cloned()).unwrap_or_default();
    let last = pieces.last().cloned().unwrap_or_default();
    add(FIRST, brief(&first, MAX_REQUEST));
    if pieces.len() > 1 || first != last {
        add(LAST, brief(&last, MAX_REQUEST));
    }
    let name = name::known(conversation)
        .or_else(|| line(&all, NAME).map(str::to_owned))
        .or_else(|| pieces.iter().rev().find_map(|piece| name::said_in(piece)));
    add(NAME, name.unwrap_or_default());
    add(OPEN, tasks(&all).join("; "));
    add(FILES, once(words(&all).filter(|word| is_file(word)), MAX_NAMES).join(", "));
    add(NUMBERS, once(words(&all).filter(|word| is_number(word)), MAX_NAMES).join(", "));
    let between = pieces.iter().skip(1).take(pieces.len().saturating_sub(2)).rev().take(MAX_ALSO).rev();
    let kept = line(&all, ALSO).into_iter().flat_map(|kept| kept.split(" | ")).map(str::to_owned);
    let also: Vec<String> = kept.chain(between.map(|piece| brief(piece, MAX_ALSO_CHARS))).collect();
    add(ALSO, also[also.len().saturating_sub(MAX_ALSO)..].join(" | "));
    shorter_than(lines, everything.iter().map(|text| text.len()).sum())
}

/// As many of the lines as are together shorter than that many bytes, and at least something.
fn shorter_than(lines: Vec<String>, bytes: usize) -> String {
    let mut out = String::new();
    for line in lines {
        let gap = usize::from(!out.is_empty());
        if out.len() + gap + line.len() < bytes {
            out.push_str(if gap == 1 { "\n" } else { "" });
            out.push_str(&line);
        } else if out.is_empty() {
            // Of very few words, the words themselves without the label are the most that fits.
            let words = line.strip_prefix(FIRST).unwrap_or(&line);
            out.push_str(&words[..words.floor_char_boundary(bytes.saturating_sub(1))]);
        }
    }
    if out.is_empty() { "-".to_owned() } else { out }
}

/// The line of a summary that begins like this, without its beginning.
pub(super) fn line<'a>(text: &'a str, lead: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.trim_start_matches(['-', '*', ' ']).strip_prefix(lead))
}

/// What the user said, one piece each; also where a whole conversation was put into one message.
fn pieces(conversation: &Conversation) -> Vec<String> {
    let mut users: Vec<&str> =
        conversation.said.iter().filter(|said| said.role == Role::User).map(|said| quoted(&said.text)).collect();
    // The order to do this is no part of what is to be done it to.
    if users.len() > 1 && users.last().is_some_and(|text| is_order(text)) {
        users.pop();
    }
    users.into_iter().flat_map(spoken).filter(|piece| !piece.is_empty()).collect()
}

/// A text up to the end of a conversation that is handed over whole: what follows is what to do with it.
fn quoted(text: &str) -> &str {
    text.split_once("</conversation>").map_or(text, |(inside, _)| inside)
}

fn is_order(text: &str) -> bool {
    let beginning = lower(&brief(text, MAX_REQUEST));
    has_any(&beginning, &["summarise", "summarize", "summary", "title", "recap", "总结", "要約", "요약"])
}

/// The user's words in a text: those behind `user:` if it is a conversation, or else all of it.
fn spoken(text: &str) -> Vec<String> {
    let mut pieces: Vec<String> = Vec::new();
    let (mut speaks, mut turns) = (false, 0);
    for text_line in text.lines() {
        match speaker(text_line) {
            Some((is_user, rest)) => {
                turns += 1;
                speaks = is_user;
                if speaks {
                    pieces.push(rest.trim().to_owned());
                }
            }
            None if speaks => {
                if let Some(piece) = pieces.last_mut() {
                    piece.push('\n');
                    piece.push_str(text_line);
                }
            }
            None => {}
        }
    }
    let is_conversation = turns > 1 && !pieces.is_empty();
    if is_conversation {
        pieces.into_iter().map(|piece| piece.trim().to_owned()).collect()
    } else {
        vec![text.trim().to_owned()]
    }
}

/// Who a line says that speaks, and what follows.
fn speaker(text_line: &str) -> Option<(bool, &str)> {
    let start = text_line.trim_start_matches(['#', '*', '[', '<', '-', '>', ' ']);
    let low = lower(start);
    let names = [
        ("user", true),
        ("human", true),
        ("you", true),
        ("assistant", false),
        ("model", false),
        ("tool", false),
        ("result", false),
    ];
    let (name, is_user) = names.into_iter().find(|(name, _)| low.starts_with(name))?;
    let rest = start[name.len()..].trim_start_matches(['*', '_']);
    let end =
        rest.find([':', ']', '>']).filter(|end| rest[..*end].len() < MAX_ALSO_CHARS && !rest[..*end].contains(". "))?;
    let is_marked = rest.starts_with([':', ']', '>']) || !is_user;
    is_marked.then(|| (is_user, rest[end..].trim_start_matches([':', ']', '>', '*', ' '])))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c.is_whitespace() || matches!(c, '"' | ',' | ';' | '(' | ')' | '{' | '}' | '[' | ']' | '|'))
        .map(bare)
}

fn is_file(word: &str) -> bool {
    let stem_and_ending = word.rsplit('/').next().and_then(|name| name.rsplit_once('.'));
    let has_ending = stem_and_ending.is_some_and(|(_, ending)| {
        (1..=5).contains(&ending.len())
            && ending.starts_with(|c: char| c.is_ascii_lowercase())
            && ending.chars().all(|c| c.is_ascii_alphanumeric())
    });
    let is_path = word.contains('/') && word.chars().any(char::is_alphanumeric);
    word.len() < MAX_REQUEST && !word.contains("://") && (has_ending || is_path) && !["e.g", "i.e"].contains(&word)
}

fn is_number(word: &str) -> bool {
    word.len() > 1
        && word.len() < 20
        && word.starts_with(|c: char| c.is_ascii_digit())
        && word.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | ':' | '-' | '%'))
}

/// Lines that say what is still to do.
fn tasks(text: &str) -> Vec<String> {
    let is_open = |low: &str| {
        low.trim_start_matches(['-', '*', ' ']).starts_with("[ ]")
            || has_any(low, &["todo", "to do:", "still open", "next step", "待办", "まだ"])
    };
    let open = text.lines().filter(|line| is_open(&lower(line))).map(|line| line.trim_start_matches(['-', '*', ' ']));
    let open = open.map(|line| line.strip_prefix(OPEN).unwrap_or(line));
    let carried = line(text, OPEN).into_iter().flat_map(|line| line.split("; "));
    let all: Vec<String> =
        carried.chain(open).map(|task| brief(task.trim_start_matches("[ ] "), MAX_REQUEST)).collect();
    once(all.iter().map(String::as_str), MAX_TASKS)
}

/// The first so many different ones.
fn once<'a>(words: impl Iterator<Item = &'a str>, count: usize) -> Vec<String> {
    let mut seen = HashSet::new();
    words.filter(|word| !word.is_empty() && seen.insert(*word)).take(count).map(str::to_owned).collect()
}
