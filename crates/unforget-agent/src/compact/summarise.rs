//! A summary by a model, in pieces that always fit.
//!
//! What is replaced may be larger than the model's window. It is read in chunks of a bounded size, and each chunk updates the
//! summary of those before it: so every call is bounded, and so is the summary. There are at most so many chunks; if
//! there is more, the oldest part enters as a digest by rule. A chunk that is still too large for the model is halved.

use tokio_util::sync::CancellationToken;
use unforget_core::history::{History, Message, Role};
use unforget_core::speech::bounded;
use unforget_core::{json, tokens};

use super::digest::{self, MAX_SUMMARY};
use super::{Plan, Refused};
use crate::model::assembly::Assembly;
use crate::model::{Model, ModelError, Request, Thinking};
use crate::settings::Settings;

/// Most calls of the model for one summary.
const MAX_CHUNKS: usize = 12;
/// Tokens of a summary.
const SUMMARY_TOKENS: u32 = 2048;
/// How often a chunk that is too large is halved.
const HALVINGS: u32 = 4;
/// Which part of the window a chunk may take, in percent.
const CHUNK_PERCENT: u64 = 40;

/// What the summariser is told.
const SYSTEM: &str = "You write the summary of a conversation between a user and an assistant with tools, so that the \
assistant can go on without the original. Be factual and concise. Keep exactly as they are: names, paths, ids, numbers, \
commands, error messages, decisions and their reasons, preferences of the user. Say what was asked, what was done and \
with which result, what is still open, and what the latest request is. Write in the conversation's language. Answer \
with the summary only.";

/// Summarises what a plan replaces.
pub async fn summarise(
    plan: &Plan,
    model: &dyn Model,
    settings: &Settings,
    instructions: Option<&str>,
    abort: &CancellationToken,
) -> Result<String, Refused> {
    let room = (model.window() * CHUNK_PERCENT / 100).max(1000);
    let mut summary = plan.earlier.clone();
    let mut chunks = chunks(plan, room);
    if chunks.len() > MAX_CHUNKS {
        // What is too much for the model is left to the rules, so that the newest part still gets a real summary.
        let surplus = chunks.len() - MAX_CHUNKS;
        chunks.drain(..surplus);
        summary = Some(digest::digest(plan, MAX_SUMMARY / 2));
    }
    for chunk in &chunks {
        summary = Some(update(summary.as_deref(), chunk, model, settings, instructions, abort).await?);
    }
    match summary.filter(|summary| !summary.trim().is_empty()) {
        Some(summary) => Ok(summary),
        None => Err(Refused::Empty),
    }
}

/// What is replaced, in texts of at most `room` estimated tokens each.
fn chunks(plan: &Plan, room: u64) -> Vec<String> {
    let mut chunks: Vec<String> = Vec::new();
    let mut size = u64::MAX;
    for said in &plan.replaced {
        let line = said.line();
        let cost = tokens::estimate(line.as_bytes());
        match chunks.last_mut() {
            Some(chunk) if size.saturating_add(cost) <= room => {
                chunk.push_str("\n\n");
                chunk.push_str(&line);
                size += cost;
            }
            _ => {
                chunks.push(line);
                size = cost;
            }
        }
    }
    chunks
}

/// The summary so far and one more chunk, as one summary.
async fn update(
    before: Option<&str>,
    chunk: &str,
    model: &dyn Model,
    settings: &Settings,
    instructions: Option<&str>,
    abort: &CancellationToken,
) -> Result<String, Refused> {
    let mut most = chunk.len();
    for _ in 0..=HALVINGS {
        let mut prompt = String::new();
        if let Some(before) = before {
            prompt.push_str("The summary so far:\n\n");
            prompt.push_str(&bounded(before, MAX_SUMMARY));
            prompt.push_str("\n\nUpdate it with the part of the conversation that follows.\n\n");
        }
        prompt.push_str("<conversation>\n");
        prompt.push_str(&bounded(chunk, most));
        prompt.push_str("\n</conversation>\n\nWrite the summary of everything up to here.");
        if let Some(instructions) = instructions {
            prompt.push_str(&format!(" {instructions}"));
        }
        match ask(&prompt, SYSTEM, SUMMARY_TOKENS, model, settings, abort).await {
            Err(Refused::Model(ModelError::Overflow { .. })) => most /= 2,
            other => return other,
        }
    }
    Err(Refused::Model(ModelError::Overflow {
        limit: crate::model::Limit::Tokens,
        message: "a part of the conversation is too long for the summariser".to_owned(),
    }))
}

/// Asks a model one thing, outside of the conversation.
pub(crate) async fn ask(
    prompt: &str,
    system: &str,
    max_tokens: u32,
    model: &dyn Model,
    settings: &Settings,
    abort: &CancellationToken,
) -> Result<String, Refused> {
    let block = format!("{{\"type\":\"text\",\"text\":{}}}", json::sendable(&json::quote(prompt)));
    let history = History {
        messages: vec![Message { role: Role::User, blocks: vec![block.into()] }],
        system: Some(json::quote(system).into()),
        ..History::default()
    };
    let request = Request { history: &history, max_tokens, thinking: Thinking::Default };
    let mut assembly = Assembly::default();
    let mut sink = |event| assembly.feed(&event);
    let answer = model.respond(&request, &mut sink);
    tokio::select! {
        biased;
        () = abort.cancelled() => return Err(Refused::Aborted),
        answered = tokio::time::timeout(settings.summary_timeout, answer) => match answered {
            Ok(answered) => answered?,
            Err(_) => return Err(Refused::TimedOut(settings.summary_timeout.as_secs())),
        },
    }
    let text = assembly.text();
    if text.trim().is_empty() { Err(Refused::Empty) } else { Ok(text) }
}
