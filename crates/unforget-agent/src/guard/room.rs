//! Which records to shorten, and to how much: pure arithmetic over a path.

use unforget_core::history::Path;
use unforget_core::record::{Body, Record};

use crate::gauge;

/// How many bytes of a shortened result stay.
const KEEP: usize = 1024;
/// A record is made no smaller than this.
const LEAST: usize = 512;
/// The newest results are what the model is looking at: they give way last.
const NEWEST: usize = 2;

/// Records to be shortened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Trim {
    pub(super) records: Vec<u64>,
    pub(super) keep: usize,
    /// Estimated tokens of the conversation afterwards.
    pub(super) tokens: u64,
}

/// The oldest large results, as many as are needed to get from `tokens` to `target`.
pub(super) fn results(path: &Path<'_, '_>, scaled: impl Fn(u64) -> u64, tokens: u64, target: u64) -> Option<Trim> {
    let mut large: Vec<(u64, u64)> = Vec::new();
    for record in &path.records {
        let Body::ToolResult(result) = &record.body else { continue };
        let size = path.trims.cap(record.n, result.content.len());
        if size > KEEP * 2 {
            let cost = gauge::cost(record, &path.trims, path.thinking_from);
            let kept = unforget_core::tokens::of_bytes(KEEP);
            large.push((record.n, scaled(cost.saturating_sub(kept))));
        }
    }
    let newest = large.split_off(large.len().saturating_sub(NEWEST));
    let mut trim = Trim { records: Vec::new(), keep: KEEP, tokens };
    for (n, saved) in large.into_iter().chain(newest) {
        if trim.tokens <= target {
            break;
        }
        trim.records.push(n);
        trim.tokens = trim.tokens.saturating_sub(saved);
    }
    Some(trim).filter(|trim| !trim.records.is_empty())
}

/// Bytes of everything that was said.
pub(super) fn bytes(path: &Path<'_, '_>) -> usize {
    path.records.iter().filter_map(|record| size(record, path)).sum()
}

/// Every record that is larger than all would be if they shared `room` bytes fairly.
pub(super) fn largest(path: &Path<'_, '_>, room: usize) -> Option<Trim> {
    let mut sizes: Vec<usize> = path.records.iter().filter_map(|record| size(record, path)).collect();
    sizes.sort_unstable();
    let mut left = room;
    let count = sizes.len();
    let keep = sizes.into_iter().enumerate().find_map(|(at, size)| {
        let share = left / (count - at);
        if size > share {
            return Some(share.max(LEAST));
        }
        left -= size;
        None
    })?;
    let too_large = |record: &&&Record<'_>| size(record, path).is_some_and(|size| size > keep);
    let records: Vec<u64> = path.records.iter().filter(too_large).map(|record| record.n).collect();
    Some(Trim { records, keep, tokens: 0 }).filter(|trim| !trim.records.is_empty())
}

/// Bytes of what a record says to the model, as far as they can be made fewer.
fn size(record: &Record<'_>, path: &Path<'_, '_>) -> Option<usize> {
    let size = match &record.body {
        // Thinking that is not sent takes no room, and shortening it would make none.
        Body::Assistant { .. } if gauge::is_left_out(record, path.thinking_from) => return None,
        Body::User { content } | Body::Assistant { content, .. } => content.len(),
        Body::ToolUse(call) => call.input.len(),
        Body::ToolResult(result) => result.content.len(),
        _ => return None,
    };
    Some(path.trims.cap(record.n, size))
}
