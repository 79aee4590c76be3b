//! What a request may hold at most, and what gives way.
//!
//! The API refuses bodies over 32 MB, more than 100,000 messages and too many or too large images. Whole
//! steps give way from the beginning, with a note in their place; images give way to notes, oldest first
//! and several at a time, so that not every further image changes the beginning of the request. The newest step
//! always stays; if it is too large by itself, `fit` shortens what is in it.

use super::EARLIER;
use super::block::{self, Block, Kind};
use super::messages::{Outgoing, Piece, ResultContent};
use super::path::Path;
use super::repair::{RepairKind, Repairs};
use super::steps::{Step, Steps};
use crate::tokens;

/// More than this many images, and none may be larger than [`MANY_SIDE`].
const MANY_IMAGES: usize = 20;
const MANY_SIDE: usize = 2000;
/// Most images in a request.
const MAX_IMAGES: usize = 100;
/// How many images give way at once.
const IMAGE_STRIDE: usize = 20;

/// Most blocks of a message that is too large: so many that each of them, made as small as it can be, still fits.
const MAX_BLOCKS: usize = 10_000;
/// Bytes of system prompt and tools that the limit for the messages leaves room for.
const CONTEXT_ROOM: usize = 1024 * 1024;

/// What a request may hold at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all messages together.
    pub bytes: usize,
    /// Number of messages.
    pub messages: usize,
    /// Estimated tokens of all messages together.
    pub tokens: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { bytes: 30 * 1024 * 1024, messages: 99_000, tokens: None }
    }
}

impl Limits {
    /// The API's limits and a token budget.
    pub fn tokens(budget: u64) -> Self {
        Self { tokens: Some(budget), ..Self::default() }
    }
}

/// Bytes that the messages may take beside a system prompt and tools of `context` bytes.
pub(super) fn room(limits: &Limits, context: usize) -> usize {
    // A context that takes everything is refused by the API whatever is done to the messages.
    limits.bytes.saturating_sub(context.saturating_sub(CONTEXT_ROOM)).max(limits.bytes / 2)
}

/// Drops steps from the beginning until the rest fits; tells whether the beginning is missing.
pub(super) fn apply(steps: &mut Steps<'_>, limits: &Limits, room: usize, path: &Path<'_, '_>) -> bool {
    let newest = steps.list.last_mut().filter(|newest| newest.size(&path.trims) > room);
    let left_out = newest.map_or(0, |newest| newest.keep_newest(MAX_BLOCKS));
    if left_out > 0 {
        let why = format!("{left_out} blocks before the newest {MAX_BLOCKS} of their message");
        let n = steps.last_words();
        steps.repairs().add(n, RepairKind::BlockLeftOut(why));
    }
    let (mut bytes, mut tokens) = (0_usize, 0_u64);
    let mut start = steps.list.len();
    while start > 0 {
        let size = steps.list[start - 1].size(&path.trims);
        bytes = bytes.saturating_add(size);
        tokens = tokens.saturating_add(tokens::of_bytes(size));
        let count = (steps.list.len() - start + 1) * 2 + 1;
        if bytes > room || count > limits.messages || limits.tokens.is_some_and(|budget| tokens > budget) {
            break;
        }
        start -= 1;
    }
    if start == 0 && !path.begins_late {
        return false;
    }
    // The newest step stays whatever its size; a cut goes right before words of the user if there are any.
    let newest = steps.list.len().saturating_sub(1);
    let start = start.min(newest);
    let from = (start.max(1)..=newest).find(|at| !steps.list[at - 1].words.is_empty()).unwrap_or(start);
    let from = if start == 0 { 0 } else { from };
    let words = match from.checked_sub(1) {
        Some(before) => std::mem::take(&mut steps.list[before].words),
        None => Vec::new(),
    };
    steps.list.drain(..from);
    let n = words.first().map_or(0, |block| block.n);
    steps.list.insert(0, Step::of_words(std::iter::once(block::note(EARLIER, n)).chain(words).collect()));
    steps.repairs().add(n, RepairKind::EarlierLeftOut);
    true
}

/// Replaces images that a request may not hold by notes.
pub(super) fn images(messages: &mut [Outgoing<'_>], repairs: &mut Repairs) {
    let mut images: Vec<&mut Block<'_>> = messages
        .iter_mut()
        .flat_map(|message| &mut message.pieces)
        .flat_map(|piece| match piece {
            Piece::Block(block) => std::slice::from_mut(block).iter_mut(),
            Piece::Result { content: ResultContent::Blocks(blocks), .. } => blocks.iter_mut(),
            Piece::Result { .. } => [].iter_mut(),
        })
        .filter(|block| matches!(block.kind, Kind::Image { .. }))
        .collect();
    let mut replace = |block: &mut Block<'_>, why: &str| {
        repairs.add(block.n, RepairKind::ImageReplaced(why.to_owned()));
        *block = block::note(&format!("[image not sent: {why}]"), block.n);
    };
    if images.len() > MANY_IMAGES {
        for image in &mut images {
            if matches!(image.kind, Kind::Image { largest_side } if largest_side > MANY_SIDE) {
                replace(image, "over 2000 pixels in a conversation with more than 20 images");
            }
        }
        images.retain(|block| matches!(block.kind, Kind::Image { .. }));
    }
    if images.len() > MAX_IMAGES {
        let surplus = (images.len() - MAX_IMAGES).next_multiple_of(IMAGE_STRIDE);
        for image in images.iter_mut().take(surplus) {
            replace(image, "one of the oldest of more than 100 images");
        }
    }
}
