//! Points of a conversation by the words that people use for them: a record's number, a branch, a checkpoint.
//!
//! A number is always a record's number, as `/history`, `show` and `tree` print it. So a name must not look like one.

use unforget_core::tree::{Kind, Label, Tree};

use crate::failure::{Failure, Result};

/// The longest name, in characters.
const MAX_NAME: usize = 60;
/// How many names a hint lists.
const LISTED: usize = 12;

/// The step that a text means.
pub(crate) fn step(tree: &Tree, text: &str) -> Result<u64> {
    if let Ok(n) = text.parse::<u64>() {
        return numbered(tree, n);
    }
    match tree.label(text) {
        Some(label) => Ok(label.to.unwrap_or(0)),
        None => Err(unknown(tree, text, None)),
    }
}

/// The step with that number.
pub(crate) fn numbered(tree: &Tree, n: u64) -> Result<u64> {
    match tree.has_step(n) {
        true => Ok(n),
        false => Err(Failure::usage(format!("record {n} is no step of this conversation"))
            .hint("`/tree` and `/history` (`unforget tree`, `unforget show`) print the numbers")),
    }
}

/// What a name of that kind means.
pub(crate) fn named(tree: &Tree, name: &str, kind: Kind) -> Result<Label> {
    match tree.label(name) {
        Some(label) if label.kind == kind => Ok(label),
        Some(label) => Err(Failure::usage(match label.kind {
            Kind::Branch => format!("`{name}` is a branch: /switch-branch {name} goes there"),
            Kind::Checkpoint => format!("`{name}` is a checkpoint: /restore {name} goes there"),
        })),
        None => Err(unknown(tree, name, Some(kind))),
    }
}

fn unknown(tree: &Tree, name: &str, kind: Option<Kind>) -> Failure {
    let labels = tree.labels().into_iter().filter(|label| kind.is_none_or(|kind| kind == label.kind));
    let names: Vec<String> = labels.map(|label| label.name).collect();
    let what = match kind {
        Some(Kind::Branch) => "branch",
        Some(Kind::Checkpoint) => "checkpoint",
        None => "branch or checkpoint",
    };
    let failure = Failure::usage(format!("there is no {what} `{name}`"));
    let more = if names.len() > LISTED { ", …" } else { "" };
    match names.len() {
        0 => failure,
        _ => failure.hint(format!("there are: {}{more}", names[..names.len().min(LISTED)].join(", "))),
    }
}

/// A name that can be given: short, on one line, and not to be mistaken for a number.
pub(crate) fn new_name(text: &str) -> Result<&str> {
    let text = text.trim();
    let wrong = if text.is_empty() {
        "a name is needed"
    } else if text.bytes().all(|byte| byte.is_ascii_digit()) {
        "a name must not be a number: those are records"
    } else if text.starts_with('-') {
        "a name must not begin with a hyphen"
    } else if text.chars().count() > MAX_NAME {
        "a name has at most 60 characters"
    } else if text.chars().any(unforget_core::json::needs_care) {
        "a name must not have control characters"
    } else {
        return Ok(text);
    };
    Err(Failure::usage(wrong))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_short_and_no_number() {
        assert_eq!(new_name(" before the hotels ").unwrap(), "before the hotels");
        for wrong in ["", "  ", "12", "--files", "a\u{1b}[2J", &"x".repeat(61)] {
            assert!(new_name(wrong).is_err(), "{wrong:?}");
        }
    }
}
