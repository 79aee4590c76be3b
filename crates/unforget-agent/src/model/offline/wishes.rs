//! Which work a request asks for: "read a.txt and b.txt", "run `cargo test`", "replace A with B in FILE".
//!
//! What is quoted in a request (a command, the text of a file) is taken as it stands; everything else is looked at in
//! clauses, so that one request can ask for several things.

use super::text::{after_any, bare, behind_any, has_any, lower};

/// How many things one request can ask for.
const MAX_WISHES: usize = 8;

/// Work for a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wish {
    Read(String),
    List(String),
    Time,
    Run(String),
    Write { path: String, text: String },
    Edit { path: String, old: String, new: String },
}

const COURTESIES: [&str; 10] =
    ["please ", "can you ", "could you ", "would you ", "now ", "then ", "and ", "also ", "just ", "let's "];
const READ: [&str; 13] = [
    "read ",
    "show me ",
    "show ",
    "open ",
    "cat ",
    "print ",
    "look at ",
    "view ",
    "what is in ",
    "what's in ",
    "读取",
    "读一下",
    "打开",
];
/// What asks for files, whatever follows.
const LIST_FILES: [&str; 10] = [
    "list files",
    "list the files",
    "list all files",
    "list directory",
    "list the directory",
    "list folder",
    "what files",
    "which files",
    "show files",
    "show me the files",
];
const TIME: [&str; 16] = [
    "what time",
    "what's the time",
    "the current time",
    "current time",
    "tell me the time",
    "what day is it",
    "what is the date",
    "what's the date",
    "today's date",
    "几点",
    "现在时间",
    "现在的时间",
    "今天几号",
    "何時",
    "今日の日付",
    "몇 시",
];
const RUN: [&str; 6] = ["run ", "execute ", "exec ", "$ ", "run:", "运行"];
const WRITE: [&str; 4] = ["write ", "create ", "save ", "put "];
const EDIT: [&str; 4] = ["replace ", "change ", "edit ", "in "];
/// What stands between a verb and the name of a file.
const FILLERS: [&str; 16] = [
    "the",
    "a",
    "file",
    "files",
    "folder",
    "directory",
    "new",
    "content",
    "contents",
    "of",
    "in",
    "both",
    "me",
    "called",
    "named",
    "also",
];

/// What a request asks for, in order; nothing if it asks for no work.
pub(super) fn of(request: &str) -> Vec<Wish> {
    let request = without_courtesies(request);
    if let Some(wish) = edit(request).or_else(|| write(request)) {
        return vec![wish];
    }
    if let Some(commands) = run(request) {
        return commands;
    }
    let mut wishes: Vec<Wish> = Vec::new();
    for clause in clauses(request) {
        let clause = without_courtesies(clause);
        let found = match (run(clause).unwrap_or_else(|| plain(clause)), wishes.last()) {
            // "read a.txt and b.txt": the verb goes on.
            (found, Some(Wish::Read(_))) if found.is_empty() => paths(clause).into_iter().map(Wish::Read).collect(),
            (found, _) => found,
        };
        wishes.extend(found);
    }
    let mut once = Vec::new();
    for wish in wishes {
        if once.len() < MAX_WISHES && !once.contains(&wish) {
            once.push(wish);
        }
    }
    once
}

fn without_courtesies(text: &str) -> &str {
    let mut text = text.trim();
    for _ in 0..COURTESIES.len() {
        match after_any(text, &COURTESIES) {
            Some(rest) => text = rest.trim_start(),
            None => break,
        }
    }
    text
}

/// The parts of a request between commas and "and".
fn clauses(request: &str) -> Vec<&str> {
    const BETWEEN: [&str; 9] = [". ", "! ", " and then ", " and ", ", ", "; ", " then ", "\n", "，"];
    let mut parts = vec![request];
    for mark in BETWEEN {
        parts = parts.into_iter().flat_map(|part| part.split(mark)).collect();
    }
    parts
}

/// Work that one clause asks for by itself.
fn plain(clause: &str) -> Vec<Wish> {
    if has_any(&lower(clause), &TIME) {
        return vec![Wish::Time];
    }
    if let Some(folder) = listed(clause) {
        return vec![Wish::List(folder)];
    }
    match after_any(clause, &READ) {
        Some(rest) => paths(rest).into_iter().map(Wish::Read).collect(),
        None => Vec::new(),
    }
}

/// The folder whose files a clause asks for.
fn listed(clause: &str) -> Option<String> {
    let here = || ".".to_owned();
    if ["ls", "dir"].contains(&lower(bare(clause)).as_str()) {
        return Some(here());
    }
    if let Some(rest) = after_any(clause, &LIST_FILES) {
        let named = behind_any(rest, &["in ", "of "]).and_then(|rest| words(rest).into_iter().next());
        return Some(named.or_else(|| paths(rest).into_iter().next()).unwrap_or_else(here));
    }
    if let Some(rest) = after_any(clause, &["ls ", "dir "]) {
        return Some(words(rest).into_iter().find(|word| !word.starts_with('-')).unwrap_or_else(here));
    }
    after_any(clause, &["list "]).and_then(|rest| paths(rest).into_iter().next())
}

/// The names of files among words.
fn paths(text: &str) -> Vec<String> {
    words(text).into_iter().filter(|word| is_path(word)).collect()
}

fn words(text: &str) -> Vec<String> {
    let words = text.split_whitespace().map(bare).filter(|word| !word.is_empty());
    words.filter(|word| !FILLERS.contains(&lower(word).as_str())).map(str::to_owned).collect()
}

/// Whether a word can be the name of a file: it has a point or a slash in it, or is written like one.
fn is_path(word: &str) -> bool {
    const KNOWN: [&str; 8] = ["README", "LICENSE", "Makefile", "Dockerfile", "CHANGELOG", "TODO", "src", "tests"];
    let inner = word.trim_matches('.');
    let has_mark = inner.contains('.') || word.contains('/') || word == "." || word == "..";
    let is_address = word.contains("://");
    let is_number = word.chars().all(|c| c.is_ascii_digit() || c == '.');
    KNOWN.contains(&word)
        || word.starts_with('.') && word.len() > 1
        || has_mark && !is_address && (!is_number || word.contains('/') || inner.is_empty())
}

/// `run COMMAND`, or the commands between backticks.
fn run(request: &str) -> Option<Vec<Wish>> {
    let rest = after_any(request, &RUN)?.trim();
    let between: Vec<&str> = rest.split('`').skip(1).step_by(2).filter(|command| !command.trim().is_empty()).collect();
    if !between.is_empty() && rest.matches('`').count() % 2 == 0 {
        return Some(
            between.into_iter().take(MAX_WISHES).map(|command| Wish::Run(command.trim().to_owned())).collect(),
        );
    }
    // "run the tests" says nothing that a shell understands.
    let is_prose = after_any(rest, &["the ", "a ", "an ", "my ", "all ", "it"]).is_some();
    let command = rest.trim_end_matches(['?', '。']).trim();
    (!is_prose && !command.is_empty()).then(|| vec![Wish::Run(command.to_owned())])
}

/// `write FILE: TEXT`, `create FILE with TEXT`, `write "TEXT" to FILE`.
fn write(request: &str) -> Option<Wish> {
    let mut rest = after_any(request, &WRITE)?.trim_start();
    for _ in 0..FILLERS.len() {
        let (word, after) = rest.split_once(char::is_whitespace)?;
        if !FILLERS.contains(&lower(word).as_str()) && !["to", "into"].contains(&lower(word).as_str()) {
            break;
        }
        rest = after.trim_start();
    }
    let first = rest.split_whitespace().next()?;
    let path = bare(first);
    if is_path(path) {
        let behind = rest[first.len()..].trim_start();
        let text = match first.ends_with(':') {
            true => Some(behind),
            false => after_any(
                behind,
                &[
                    ": ",
                    ":\n",
                    "with the text ",
                    "with the content ",
                    "with content ",
                    "with ",
                    "containing ",
                    "saying ",
                ],
            ),
        };
        return Some(Wish::Write { path: path.to_owned(), text: unquoted(text?).to_owned() });
    }
    let (text, target) = [" into ", " to ", " in "].iter().find_map(|mark| {
        let at = lower(rest).rfind(mark)?;
        Some((&rest[..at], &rest[at + mark.len()..]))
    })?;
    let path = words(target).into_iter().next().filter(|path| is_path(path))?;
    Some(Wish::Write { path, text: unquoted(text).to_owned() })
}

/// `replace A with B in FILE`, `in FILE replace A with B`, `edit FILE: replace A with B`.
fn edit(request: &str) -> Option<Wish> {
    let rest = after_any(request, &EDIT)?;
    if let Some(change) = after_any(request, &["replace ", "change "]) {
        let at = lower(change).rfind(" in ")?;
        let path = words(&change[at + 4..]).into_iter().next().filter(|path| is_path(path))?;
        let (old, new) = swap(&change[..at])?;
        return Some(Wish::Edit { path, old, new });
    }
    let path = words(rest).into_iter().next().filter(|path| is_path(path))?;
    let at = ["replace ", "change "].iter().find_map(|verb| lower(rest).find(verb).map(|at| at + verb.len()))?;
    let (old, new) = swap(&rest[at..])?;
    Some(Wish::Edit { path, old, new })
}

fn swap(text: &str) -> Option<(String, String)> {
    let (old, new) =
        text.split_once(" with ").or_else(|| text.split_once(" by ")).or_else(|| text.split_once(" to "))?;
    Some((unquoted(old).to_owned(), unquoted(new).to_owned())).filter(|(old, _)| !old.is_empty())
}

/// What stands between quotation marks or in a fence; everything if there are none.
fn unquoted(text: &str) -> &str {
    let text = text.trim();
    if let Some(inner) = text.strip_prefix("```").and_then(|text| text.strip_suffix("```")) {
        return inner.split_once('\n').map_or(inner, |(_, code)| code);
    }
    for (open, close) in [('`', '`'), ('"', '"'), ('\'', '\''), ('“', '”'), ('「', '」')] {
        if let Some(inner) = text.strip_prefix(open).and_then(|text| text.strip_suffix(close)) {
            return inner;
        }
    }
    text
}
