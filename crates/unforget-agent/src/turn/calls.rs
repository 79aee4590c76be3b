//! The calls of a response: allowed or not, run once, answered on the disk before anyone reads it.
//!
//! A tool that asks first has its question in the log before it is asked, and the answer before it runs. So after a crash a question
//! that was still open is asked again, and what was allowed is not run a second time.
//!
//! A transcript may come from somebody else, and with it a question that nobody here has seen. So what is found open in the log is
//! asked whatever the tool, and what was allowed in advance does not count for it.

use std::collections::HashMap;
use std::time::Instant;

use unforget_core::blob::{self, BlobRef};
use unforget_core::history::{History, Limits, Path, UNKNOWN_OUTCOME};
use unforget_core::json;
use unforget_core::record::{Body, Draft, Record};
use unforget_core::session::Session;

use super::{ABORTED, Turn, failed_result};
use crate::error::Result;
use crate::host::{Answer, Notice};
use crate::tools::{Call, Made, Output, READ_OUTPUT, shorten};

/// How many bytes of a long output are read at once, if the settings let the model see so many.
const READ_AT_ONCE: usize = 12 * 1024;
/// So many are read in any case: less would not be worth a call.
const READ_LEAST: usize = 1024;
/// Bytes that a piece takes beside its text.
const READ_HEAD: usize = 128;

/// Where calls come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum From {
    /// The model, just now.
    Model,
    /// The log, where they waited for an answer.
    Log,
}

impl Turn<'_, '_> {
    /// Runs calls one after the other. Once the turn is aborted, the rest is answered as not run.
    pub(super) async fn run_calls(&mut self, session: &mut Session, calls: &[Call], from: From) -> Result<()> {
        for call in calls {
            if self.abort.is_cancelled() {
                session.append(&[failed_result(&call.id, ABORTED)])?;
                continue;
            }
            if let Some(refusal) = self.refusal(session, call, from).await? {
                session.append(&[failed_result(&call.id, &refusal)])?;
                let output = Output::failed(refusal);
                self.host.tell(Notice::ToolEnded { call, output: &output, took: std::time::Duration::ZERO });
                continue;
            }
            self.host.tell(Notice::ToolStarted(call));
            let begun = Instant::now();
            let (output, correction) = match call.name.as_str() {
                READ_OUTPUT => {
                    let (limits, most) = (self.agent.limits(), self.agent.settings.tool_output);
                    (read_output(session, &limits, &call.input, most)?, None)
                }
                _ => self.run_tool(session, call).await?,
            };
            let took = begun.elapsed();
            let draft = self.result(call, &output).raw("ms", &took.as_millis().to_string());
            session.append(&correction.into_iter().chain([draft]).collect::<Vec<_>>())?;
            self.host.tell(Notice::ToolEnded { call, output: &output, took });
        }
        Ok(())
    }

    /// Runs a tool. What it is about to do to a file is in the log before it is done; if it comes otherwise, the record of
    /// what is in the file instead goes with the result.
    async fn run_tool(&mut self, session: &mut Session, call: &Call) -> Result<(Output, Option<Draft>)> {
        match self.tools.prepare(call, self.abort).await {
            None => Ok((self.tools.run(call, self.abort).await, None)),
            Some(Err(output)) => Ok((output, None)),
            Some(Ok(prepared)) => {
                session.append(&[prepared.draft(&call.id)])?;
                let Made { output, correction } = prepared.make().await;
                Ok((output, correction.map(|draft| draft.text("tool_use_id", &call.id))))
            }
        }
    }

    /// The record of a result; of a long output the model sees both ends.
    fn result(&self, call: &Call, output: &Output) -> Draft {
        let rest = format!("read the rest with {READ_OUTPUT}, tool_use_id {}", call.id);
        let draft = match shorten(&output.text, self.agent.settings.tool_output, &rest) {
            // A piece of an output is as long as it is: a piece of a piece would be read for ever.
            Some(short) if call.name != READ_OUTPUT => {
                Draft::tool_result(&call.id, &json::quote(&short)).text(blob::FULL, &output.text)
            }
            _ => Draft::tool_result(&call.id, &json::quote(&output.text)),
        };
        if output.is_error { draft.raw("is_error", "true") } else { draft }
    }

    /// Why a call may not run; none if it may.
    async fn refusal(&mut self, session: &mut Session, call: &Call, from: From) -> Result<Option<String>> {
        if !self.tools.find(&call.name).is_some_and(|tool| from == From::Log || tool.asks_first()) {
            return Ok(None);
        }
        let standing = self.host.standing(call);
        let answer = match standing.filter(|answer| from == From::Model || matches!(answer, Answer::Denied { .. })) {
            Some(answer) => answer,
            None => {
                session.append(&[Draft::new("approval").text("tool_use_id", &call.id).text("state", "pending")])?;
                tokio::select! {
                    biased;
                    () = self.abort.cancelled() => Answer::Denied { by: "abort", reason: None },
                    answer = self.host.approve(call) => answer,
                }
            }
        };
        let (state, by) = match &answer {
            Answer::Allowed { by } => ("allowed", *by),
            Answer::Denied { by, .. } => ("denied", *by),
        };
        session.append(&[approval(&call.id, state, by)])?;
        Ok(match answer {
            Answer::Allowed { .. } => None,
            Answer::Denied { by: "abort", .. } => Some(ABORTED.to_owned()),
            Answer::Denied { by: "person", reason: Some(reason) } => {
                Some(format!("[not run: the user said: {reason}]"))
            }
            Answer::Denied { by: "person", reason: None } => Some("[not run: the user did not allow it]".to_owned()),
            Answer::Denied { reason: Some(reason), .. } => Some(format!("[not run: {reason}]")),
            Answer::Denied { by, .. } => Some(format!("[not run: not allowed by the {by}]")),
        })
    }

    /// Asks again what was still open when the program ended.
    pub(super) async fn pending(&mut self, session: &mut Session, history: &History<'_>) -> Result<()> {
        if history.pending.is_empty() {
            return Ok(());
        }
        let mut found = calls_of(session, &self.agent.limits())?;
        let (mut calls, mut lost) = (Vec::new(), Vec::new());
        for (id, n) in &history.pending {
            match found.remove(n) {
                Some(call) => calls.push(call),
                None => lost.push(failed_result(id, UNKNOWN_OUTCOME)),
            }
        }
        session.append(&lost)?;
        self.run_calls(session, &calls, From::Log).await
    }
}

pub(super) fn approval(id: &str, state: &str, by: &str) -> Draft {
    Draft::new("approval").text("tool_use_id", id).text("state", state).text("by", by)
}

/// The calls of the conversation by the numbers of their records.
fn calls_of(session: &Session, limits: &Limits) -> Result<HashMap<u64, Call>> {
    Ok(session.view(limits, |path, _| {
        let call = |record: &&Record<'_>| match &record.body {
            Body::ToolUse(call) => {
                let (id, name) = (call.id.clone().into_owned(), call.name.clone().into_owned());
                Some((record.n, Call { id, name, input: call.input.to_owned() }))
            }
            _ => None,
        };
        path.records.iter().filter_map(call).collect()
    })?)
}

/// A piece of a long output of this conversation.
fn read_output(session: &Session, limits: &Limits, input: &str, most: usize) -> Result<Output> {
    let members = json::members(input).unwrap_or_default();
    let Some(id) = json::member(&members, "tool_use_id").and_then(json::string) else {
        return Ok(Output::failed("`tool_use_id` must name the call whose output is to be read"));
    };
    let offset = json::member(&members, "offset").and_then(json::number).unwrap_or(0);
    let Some(reference) = full_output(session, limits, &id)? else {
        return Ok(Output::failed(format!("there is no longer output of the call `{id}` in this conversation")));
    };
    let text = match session.blobs().get(&reference.sha256) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => return Ok(Output::failed(format!("the output cannot be read: {error}"))),
    };
    let text = json::string(&text).map_or_else(|| text.clone(), std::borrow::Cow::into_owned);
    let from = text.floor_char_boundary(usize::try_from(offset).unwrap_or(usize::MAX).min(text.len()));
    let most = most.saturating_sub(READ_HEAD).clamp(READ_LEAST, READ_AT_ONCE);
    let to = text.floor_char_boundary((from + most).min(text.len()));
    let rest = if to < text.len() { format!("read on with offset {to}") } else { "this is the end".to_owned() };
    Ok(Output::ok(format!("[bytes {from} to {to} of {}; {rest}]\n{}", text.len(), &text[from..to])))
}

/// Where the whole output of a call is: in the view, or else looked for from the end of the transcript.
fn full_output(session: &Session, limits: &Limits, id: &str) -> Result<Option<BlobRef>> {
    let shown = |path: &Path<'_, '_>| path.records.iter().rev().find_map(|record| full_in(record.raw, id));
    if let Some(found) = session.view(limits, |path, _| shown(path))? {
        return Ok(Some(found));
    }
    let reader = session.reader()?;
    let mut backward = reader.backward();
    while let Some(line) = backward.next()? {
        if let Some(found) = std::str::from_utf8(line.bytes).ok().and_then(|text| full_in(text, id)) {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// The whole output in the record of a result, if it is the one of that call.
fn full_in(text: &str, id: &str) -> Option<BlobRef> {
    // Cheap first: most lines are not it.
    if !text.contains("\"full\":") || !text.contains(id) {
        return None;
    }
    let members = json::members(text)?;
    let is_it = json::member(&members, "tool_use_id").and_then(json::string).is_some_and(|found| found == id);
    let listed = json::member(&members, "blobs").is_some_and(|blobs| blobs.contains("\"/full\""));
    json::member(&members, blob::FULL).filter(|_| is_it && listed).and_then(BlobRef::parse)
}
