//! What is left of a conversation when no model can say it: a digest by rule.
//!
//! It needs no network, gives the same for the same records, and is as small as it is told to be. Requests tell best what a
//! conversation was about, so they come first: the first one, the newest ones, then what the model said last, the files and names
//! that occurred, and what is still open.

use std::collections::HashMap;

use unforget_core::speech::bounded;

use super::Plan;

/// Most bytes of a summary, so that a chain of compactions does not grow.
pub const MAX_SUMMARY: usize = 12_000;
/// Most bytes of the latest request that a summary repeats.
pub const MAX_REQUEST: usize = 4000;
/// Most names that are added to a summary.
pub const MAX_NAMES: usize = 40;
/// Longest name.
const MAX_NAME: usize = 120;
/// Names are looked for in at most so many bytes of what is replaced, newest first.
const NAMES_REACH: usize = 1024 * 1024;
/// Most bytes of one request in a digest.
const REQUEST: usize = 300;
/// Most requests in a digest.
const REQUESTS: usize = 20;
/// Most open tasks in a digest.
const TASKS: usize = 15;
/// How many open tasks are looked at when one is ticked off; older ones are forgotten.
const TASKS_REACH: usize = 20 * TASKS;

/// A summary without a model, of at most about `most` bytes.
pub fn digest(plan: &Plan, most: usize) -> String {
    let mut out = String::from("(Written by rule, without a model.)");
    let mut add = |heading: &str, text: &str| {
        let room = most.saturating_sub(out.len() + heading.len() + 2);
        if room > 40 && !text.trim().is_empty() {
            out.push_str(&format!("\n{heading} {}", bounded(text.trim(), room)));
        }
    };
    if let Some(earlier) = &plan.earlier {
        add("Earlier:", &bounded(earlier, most / 3));
    }
    let requests: Vec<&str> =
        plan.replaced.iter().filter(|said| said.who == "User").map(|said| said.text.as_str()).collect();
    let one_line = |text: &str| bounded(&text.split_whitespace().collect::<Vec<_>>().join(" "), REQUEST);
    if let Some(first) = requests.first().filter(|_| plan.earlier.is_none()) {
        add("The user first asked:", &one_line(first));
    }
    let newest = requests.iter().skip(1.max(requests.len().saturating_sub(REQUESTS)));
    let listed: Vec<String> = newest.map(|text| format!("- {}", one_line(text))).collect();
    if !listed.is_empty() {
        add("The user's later requests, oldest first:\n", &listed.join("\n"));
    }
    if let Some(last) = plan.replaced.iter().rev().find(|said| said.who == "Assistant") {
        add("The assistant last said:", &bounded(&last.text, 600));
    }
    let tasks = open_tasks(plan);
    if !tasks.is_empty() {
        add("Open tasks:\n", &tasks.join("\n"));
    }
    let calls = calls(plan);
    if !calls.is_empty() {
        add("Tools were called:", &calls);
    }
    out
}

/// How often each tool was called.
fn calls(plan: &Plan) -> String {
    let mut counts: Vec<(&str, u64)> = Vec::new();
    for said in plan.replaced.iter().filter(|said| said.who == "Tool call") {
        let name = said.text.split('(').next().unwrap_or_default();
        match counts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => counts.push((name, 1)),
        }
    }
    counts.iter().map(|(name, count)| format!("{name} x{count}")).collect::<Vec<_>>().join(", ")
}

/// Lines that say that something is still to be done, newest last.
fn open_tasks(plan: &Plan) -> Vec<String> {
    let is_open = |line: &&str| {
        let line = line.trim_start();
        line.starts_with("- [ ]") || line.starts_with("* [ ]") || line.starts_with("TODO") || line.contains("TODO:")
    };
    let said = plan.replaced.iter().filter(|said| said.who == "User" || said.who == "Assistant");
    let mut tasks: Vec<String> = Vec::new();
    for line in plan.earlier.iter().map(String::as_str).chain(said.map(|said| said.text.as_str())).flat_map(str::lines)
    {
        // A task that was ticked off later is open no longer.
        if let Some(done) = line.trim_start().strip_prefix("- [x]") {
            tasks.retain(|task| !task.ends_with(done.trim()));
        }
        if is_open(&line) {
            let task = bounded(line.trim(), REQUEST);
            tasks.retain(|known| *known != task);
            tasks.push(task);
            if tasks.len() > TASKS_REACH {
                tasks.remove(0);
            }
        }
    }
    tasks.split_off(tasks.len().saturating_sub(TASKS))
}

/// Exact names that occurred: paths, addresses, ids; the most frequent and newest first.
pub fn names(plan: &Plan) -> Vec<String> {
    let mut seen: HashMap<&str, (u64, usize)> = HashMap::new();
    let mut order = 0;
    let mut reach = NAMES_REACH;
    let texts = plan.replaced.iter().rev().map(|said| said.text.as_str()).chain(plan.earlier.as_deref());
    for text in texts {
        if text.len() > reach {
            break;
        }
        reach -= text.len();
        for word in text.split(|c: char| c.is_whitespace() || "\"'`()[]{}<>,;|=".contains(c)) {
            let word = word.trim_matches(|c: char| ".:!?*#…。、，".contains(c)).trim_end_matches("\\n");
            if is_name(word) {
                order += 1;
                seen.entry(word).or_insert((0, order)).0 += 1;
            }
        }
    }
    let mut names: Vec<(&str, (u64, usize))> = seen.into_iter().collect();
    names.sort_by_key(|(_, (count, order))| (std::cmp::Reverse(*count), *order));
    names.into_iter().map(|(name, _)| name.to_owned()).collect()
}

/// Whether a word is a name that must not be spelled otherwise.
fn is_name(word: &str) -> bool {
    if !(4..=MAX_NAME).contains(&word.len()) || !word.is_ascii() {
        return false;
    }
    let has = |test: fn(&u8) -> bool| word.as_bytes().iter().any(test);
    let is_address = word.contains("://");
    let is_path = word.contains('/') && has(u8::is_ascii_alphabetic) && !word.ends_with('/') || {
        let extension = word.rsplit_once('.').map(|(stem, extension)| (!stem.is_empty(), extension));
        extension
            .is_some_and(|(stem, e)| stem && (1..=5).contains(&e.len()) && e.bytes().all(|b| b.is_ascii_lowercase()))
            && !word.contains("..")
    };
    let is_identifier = word.len() >= 7
        && has(u8::is_ascii_digit)
        && has(u8::is_ascii_alphabetic)
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    is_address || is_path || is_identifier
}
