//! Compaction: the oldest part of a conversation becomes a summary, the newest stays word for word.
//!
//! In three steps, so that nothing is held while a model thinks. [`plan`] reads the conversation and decides what is
//! kept; [`summarise`] asks a model, in bounded pieces, or [`digest`] does without one; [`Plan::record`] appends one record
//! with the summary and the number of the first record that is kept. Nothing is copied, rewritten or deleted, what arrives meanwhile comes
//! behind the kept records, and an `undo` record brings everything back.
//!
//! Whatever the model writes, some things are added by rule: what was pinned, the latest request if it is not among
//! what is kept, and names that the summary forgot (paths, ids, addresses). A summary that is empty, or leaves the
//! conversation as large as it was, is refused.

use unforget_core::history::{Limits, Path};
use unforget_core::json;
use unforget_core::record::{Body, Draft};
use unforget_core::session::Session;
use unforget_core::speech::{self, Utterance};

use crate::error::Result;
use crate::gauge::{self, Gauge};

mod cut;
pub mod digest;
pub mod summarise;

pub use cut::Keep;

/// What a compaction would replace, and what it would keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The first record that stays.
    pub first_kept: u64,
    /// The summary of an earlier compaction, which the new one takes over.
    pub earlier: Option<String>,
    /// What is replaced, oldest first.
    pub replaced: Vec<Utterance>,
    /// Number of messages before and after.
    pub messages: (u64, u64),
    /// Estimated tokens of everything before.
    pub before: u64,
    /// Estimated tokens of what is kept, system prompt and tools included.
    pub kept: u64,
    /// The user's latest words, if they are not among what is kept.
    pub latest_request: Option<String>,
    /// What people pinned, with the records that said it.
    pub pinned: Vec<(u64, String)>,
}

/// Who wrote a summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// The model.
    Model,
    /// Nobody: it is a digest.
    Rule {
        /// How often in a row the model failed to write one, and turns since; the next one may rather not ask.
        tried: (u64, u64),
    },
}

/// What a compaction did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compacted {
    /// The record that says so; undoing it brings everything back.
    pub n: u64,
    /// Number of messages before and after.
    pub messages: (u64, u64),
    /// Estimated tokens before and after.
    pub tokens: (u64, u64),
}

/// Why there is no summary.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It says nothing.
    #[error("the summary is empty")]
    Empty,
    /// It saves nothing.
    #[error("the summary is not smaller than what it stands for")]
    NotSmaller,
    /// It took too long.
    #[error("the summary took longer than {0} seconds")]
    TimedOut(u64),
    /// The person had enough of it.
    #[error("it was aborted")]
    Aborted,
    /// The model failed.
    #[error("{0}")]
    Model(#[from] crate::model::ModelError),
}

/// Decides what a compaction replaces; none if there is too little to replace.
pub fn plan(session: &Session, limits: &Limits, model: &str, keep: Keep) -> Result<Option<Plan>> {
    Ok(session.view(limits, |path, _| plan_path(path, model, keep))?)
}

/// The same for the records of a path.
pub fn plan_path(path: &Path<'_, '_>, model: &str, keep: Keep) -> Option<Plan> {
    let gauge = Gauge::of(path, model);
    let cut = cut::choose(path, keep, |cost| gauge.scaled(cost))?;
    let (old, new) = path.records.split_at(cut.at);
    let costs = |records: &[&unforget_core::record::Record<'_>]| -> u64 {
        records.iter().map(|record| gauge::cost(record, &path.trims, path.thinking_from)).sum()
    };
    let earlier = old.iter().find_map(|record| match &record.body {
        Body::Compaction { summary, .. } => Some(summary.clone().into_owned()),
        _ => None,
    });
    let has_words = |record: &&&unforget_core::record::Record<'_>| speech::words_of_user(record).is_some();
    let latest_request = match new.iter().any(|record| has_words(&record)) {
        true => None,
        // In a long turn the words themselves may already be part of the earlier summary.
        false => old.iter().rev().find_map(|record| speech::words_of_user(record).or_else(|| carried_request(record))),
    };
    Some(Plan {
        first_kept: cut.n,
        earlier,
        replaced: old.iter().filter_map(|record| speech::utterance(record)).collect(),
        // The summary is the user's part of a message: words of the user behind it are of the same one.
        messages: (gauge.messages, cut.kept_messages + u64::from(!matches!(new[0].body, Body::User { .. }))),
        before: gauge.tokens,
        kept: gauge.scaled(costs(new)) + gauge.context,
        latest_request,
        pinned: speech::pins(path),
    })
}

/// The request that a compaction carries on because no kept record has it.
fn carried_request(record: &unforget_core::record::Record<'_>) -> Option<String> {
    let Body::Compaction { .. } = record.body else { return None };
    let members = json::members(record.raw)?;
    json::member(&members, "request").and_then(json::string).map(std::borrow::Cow::into_owned)
}

impl Plan {
    /// Appends the compaction.
    ///
    /// One that saves nothing is refused.
    pub fn record(&self, session: &mut Session, summary: &str, by: By) -> Result<Result<Compacted, Refused>> {
        if summary.trim().is_empty() {
            return Ok(Err(Refused::Empty));
        }
        let summary = self.with_what_must_stay(summary);
        let pinned: usize = self.pinned.iter().map(|(_, text)| text.len()).sum();
        let after =
            self.kept + unforget_core::tokens::estimate(summary.as_bytes()) + unforget_core::tokens::of_bytes(pinned);
        if after >= self.before {
            return Ok(Err(Refused::NotSmaller));
        }
        let mut draft = Draft::compaction(&summary, Some(self.first_kept))
            .raw("before", &self.before.to_string())
            .raw("after", &after.to_string());
        draft = match by {
            By::Model => draft.text("by", "model"),
            By::Rule { tried: (failures, turns) } => {
                draft.text("by", "rule").raw("failures", &failures.to_string()).raw("turns", &turns.to_string())
            }
        };
        if let Some(request) = &self.latest_request {
            draft = draft.text("request", &speech::bounded(request, digest::MAX_REQUEST));
        }
        if !self.pinned.is_empty() {
            let pin = |(n, text): &(u64, String)| format!("{{\"n\":{n},\"text\":{}}}", json::quote(text));
            let pins: Vec<String> = self.pinned.iter().map(pin).collect();
            draft = draft.raw("pinned", &format!("[{}]", pins.join(",")));
        }
        let numbers = session.append(&[draft])?;
        Ok(Ok(Compacted { n: numbers.start, messages: self.messages, tokens: (self.before, after) }))
    }

    /// The summary with the latest request and the names that it forgot.
    fn with_what_must_stay(&self, summary: &str) -> String {
        let mut out = speech::bounded(summary.trim(), digest::MAX_SUMMARY);
        if let Some(request) = &self.latest_request {
            let request = speech::bounded(request, digest::MAX_REQUEST);
            if !out.contains(request.as_str()) {
                out.push_str("\n\nThe user's latest request, word for word, which is being worked on:\n");
                out.push_str(&request);
            }
        }
        let forgotten = digest::names(self).into_iter().filter(|name| !out.contains(name.as_str()));
        let forgotten: Vec<String> = forgotten.take(digest::MAX_NAMES).collect();
        if !forgotten.is_empty() {
            out.push_str("\n\nNames that occurred (exact): ");
            out.push_str(&forgotten.join(" "));
        }
        out
    }
}
