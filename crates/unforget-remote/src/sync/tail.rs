//! The end of a session first: what a context needs, before the rest is here.
//!
//! It stays in memory. On disk there is a session only when all of it is there: a file with its beginning missing would be a second kind of
//! transcript, and every reader would have to know it. So a machine that takes over shows and sends the tail at once, pulls the whole
//! session meanwhile, and opens it for writing when it is there.

use std::collections::VecDeque;

use bytes::Bytes;
use unforget_core::frontier::Frontier;

use crate::error::{Error, Result};
use crate::remote::Remote;
use crate::stream::Stream;
use crate::sync::compare::proved;

/// How often the way back is lengthened.
const REACHES: usize = 40;

/// The end of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tail {
    /// What is before it.
    pub before: Frontier,
    /// Its lines.
    pub lines: Vec<Bytes>,
    /// All of the stream.
    pub end: Frontier,
}

/// Fetches the last lines of a stream: as many whole ones as the budget holds, and at least one.
pub async fn tail(remote: &dyn Remote, stream: &Stream, budget_bytes: u64) -> Result<Tail> {
    let end = remote.frontier(stream).await?;
    let average = (end.bytes / end.lines.max(1)).max(1);
    let mut reach = (budget_bytes / average).max(1);
    for _ in 0..REACHES {
        let from = end.lines.saturating_sub(reach);
        let tail = behind(remote, stream, from, &end, budget_bytes).await?;
        let is_whole = tail.before.lines > from || from == 0;
        if is_whole || tail.end.bytes - tail.before.bytes >= budget_bytes {
            return Ok(tail);
        }
        reach = reach.saturating_mul(2);
    }
    behind(remote, stream, 0, &end, budget_bytes).await
}

/// The lines from one on; those that are beyond the budget are let go from the front.
async fn behind(remote: &dyn Remote, stream: &Stream, from: u64, end: &Frontier, budget: u64) -> Result<Tail> {
    let mut kept: VecDeque<(Frontier, Bytes)> = VecDeque::new();
    let mut at: Option<Frontier> = None;
    while at.map_or(from, |at| at.lines) < end.lines {
        let page = remote.read(stream, at.map_or(from, |at| at.lines)).await?;
        let mut next = at.unwrap_or(page.before);
        proved(stream, &next, &page)?;
        if page.lines.is_empty() {
            break;
        }
        for line in page.lines {
            kept.push_back((next, line.clone()));
            next = next.after(&line);
            while kept.len() > 1 && kept.front().is_some_and(|(before, _)| next.bytes - before.bytes > budget) {
                kept.pop_front();
            }
        }
        at = Some(next);
    }
    let end = at.ok_or_else(|| Error::NotFound { what: stream.to_string() })?;
    let before = kept.front().map_or(end, |(before, _)| *before);
    Ok(Tail { before, lines: kept.into_iter().map(|(_, line)| line).collect(), end })
}
