//! Where a conversation may be cut, and where it should be.
//!
//! A cut goes right before words of the user or before a message of the model, and never while a call that is answered later
//! is open: its result would answer nothing. The newest part stays: at least a fifth of the messages and four of them, but not more than
//! half, or what a number of tokens holds.

use std::collections::HashMap;

use unforget_core::history::Path;
use unforget_core::record::{Body, Record};
use unforget_core::speech::words_of_user;

use crate::gauge;

/// At least so many messages stay.
const LEAST_KEPT: u64 = 4;
/// One in so many messages stays at least.
const KEPT_SHARE: u64 = 5;

/// How much of the newest conversation stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// At least four messages and a fifth of them, at most half, and if possible no more than so many tokens.
    Share {
        /// How many tokens what stays should have at most.
        tokens: u64,
    },
    /// As much as so many tokens hold, and at least the newest step.
    Tokens(u64),
}

/// A place to cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cut {
    /// Index of the first record that stays.
    pub(super) at: usize,
    /// Its number.
    pub(super) n: u64,
    /// How many messages stay.
    pub(super) kept_messages: u64,
    /// Estimated tokens of what stays.
    kept_tokens: u64,
}

/// The best place to cut, if there is any that leaves something to replace.
pub(super) fn choose(path: &Path<'_, '_>, keep: Keep, scaled: impl Fn(u64) -> u64) -> Option<Cut> {
    let (cuts, messages) = cuts(path, scaled);
    match keep {
        Keep::Tokens(most) => cuts.iter().find(|cut| cut.kept_tokens <= most).or(cuts.last()).copied(),
        Keep::Share { tokens } => {
            let least = LEAST_KEPT.max(messages.div_ceil(KEPT_SHARE));
            let half = messages / 2;
            let mut fitting = cuts.iter().filter(|cut| (least..=half.max(least)).contains(&cut.kept_messages));
            let latest = fitting.clone().next_back();
            fitting.find(|cut| cut.kept_tokens <= tokens).or(latest).copied()
        }
    }
}

/// All places to cut, oldest first, and the number of messages.
fn cuts(path: &Path<'_, '_>, scaled: impl Fn(u64) -> u64) -> (Vec<Cut>, u64) {
    let records = &path.records;
    // Where the results of each id are, in order: an id may be used again.
    let mut answers: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, record) in records.iter().enumerate() {
        // A stand-in may come much later than its call. Without the call it stays out, and nothing is lost.
        if let Body::ToolResult(result) = &record.body
            && !result.is_repair
        {
            answers.entry(result.id.as_ref()).or_default().push(at);
        }
    }
    let answer_behind = |id: &str, at: usize| {
        let places = answers.get(id)?;
        places.get(places.partition_point(|place| *place <= at)).copied()
    };
    let mut cuts: Vec<Cut> = Vec::new();
    let (mut tokens, mut messages) = (0, 0);
    let mut role = None;
    let mut message: Option<&str> = None;
    // Up to this record, a call is open that is answered there.
    let mut open_until = 0;
    for (at, record) in records.iter().enumerate() {
        let begins = begins_message(record, message);
        if begins && at >= open_until && at > 0 && messages > 0 {
            cuts.push(Cut { at, n: record.n, kept_messages: messages, kept_tokens: tokens });
        }
        match &record.body {
            Body::ToolUse(call) => {
                message = call.msg.as_deref();
                open_until = open_until.max(answer_behind(call.id.as_ref(), at).map_or(0, |at| at + 1));
            }
            Body::Assistant { msg, .. } => message = msg.as_deref(),
            Body::User { .. } => message = None,
            _ => {}
        }
        tokens += scaled(gauge::cost(record, &path.trims, path.thinking_from));
        let speaker = match record.body {
            Body::Assistant { .. } | Body::ToolUse(_) => "assistant",
            Body::User { .. } | Body::ToolResult(_) | Body::Compaction { .. } => "user",
            _ => continue,
        };
        messages += u64::from(role.replace(speaker) != Some(speaker));
    }
    for cut in &mut cuts {
        // So far these were counts of what comes before; a cut before words in an answered message splits none.
        cut.kept_messages = messages - cut.kept_messages;
        cut.kept_tokens = tokens - cut.kept_tokens;
    }
    // What stands before the first message of the conversation is a summary at most: replacing it alone is no gain.
    let first_said = records.iter().position(|record| {
        matches!(record.body, Body::User { .. } | Body::Assistant { .. } | Body::ToolUse(_) | Body::ToolResult(_))
    });
    cuts.retain(|cut| first_said.is_some_and(|first| cut.at > first));
    (cuts, messages)
}

fn begins_message(record: &Record<'_>, message: Option<&str>) -> bool {
    match &record.body {
        Body::User { .. } => words_of_user(record).is_some(),
        Body::Assistant { msg, .. } => msg.is_none() || msg.as_deref() != message,
        Body::ToolUse(call) => call.msg.is_some() && call.msg.as_deref() != message,
        _ => false,
    }
}
