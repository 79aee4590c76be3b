//! The last look at the size of a request: what is still too large gives way in part.
//!
//! Whole steps give way in `limits`, but the newest one has to stay: without it the conversation would be stuck for
//! ever, because every further request would be refused for the same step. So its largest pieces are shortened, all
//! to the same size, until the rest fits. Sizes are those of the text that is sent, since quoting can double a result.
//! Calls and results keep their ids, so that they still answer each other.

use std::borrow::Cow;

use super::block::{self, Block, Kind};
use super::messages::{Outgoing, Piece, ResultContent};
use super::path::Trims;
use super::repair::{RepairKind, Repairs};
use crate::json;

/// Bytes of a message around its pieces.
const FRAME: usize = 40;
/// No piece is made smaller than about this, because the note in its place takes as much.
const LEAST: usize = 512;
/// Bytes that the note in the middle of a shortened text takes at most.
const NOTE: usize = 160;
/// What stands for arguments that do not fit.
const NO_ARGUMENTS: &str = "{\"not_sent\":\"too long; the transcript has it\"}";

/// Shortens the largest pieces until all messages together fit into `room` bytes.
pub(super) fn fit(messages: &mut [Outgoing<'_>], room: usize, repairs: &mut Repairs) {
    let frames = messages.len() * FRAME;
    let sizes = || messages.iter().flat_map(|message| &message.pieces).map(size);
    if sizes().sum::<usize>() + frames <= room {
        return;
    }
    let cap = cap(sizes().collect(), room.saturating_sub(frames));
    for piece in messages.iter_mut().flat_map(|message| &mut message.pieces) {
        if size(piece) > cap {
            shrink(piece, cap, repairs);
        }
    }
}

/// Shortens the pieces that a `trim` record names. That is recorded, so it is no repair.
pub(super) fn trim(messages: &mut [Outgoing<'_>], trims: &Trims) {
    if trims.is_empty() {
        return;
    }
    let mut recorded = Repairs::default();
    for piece in messages.iter_mut().flat_map(|message| &mut message.pieces) {
        let cap = trims.cap(piece.n(), usize::MAX);
        if size(piece) > cap {
            shrink(piece, cap.max(LEAST), &mut recorded);
        }
    }
}

/// Bytes of a piece in the request, with the comma behind it.
fn size(piece: &Piece<'_>) -> usize {
    match piece {
        Piece::Block(block) => block.json.len() + 1,
        Piece::Result { head, content, tail, .. } => head.len() + content_size(content) + tail.len() + 1,
    }
}

fn content_size(content: &ResultContent<'_>) -> usize {
    match content {
        ResultContent::Text(text) => text.len(),
        ResultContent::Blocks(blocks) => blocks.iter().map(|block| block.json.len() + 1).sum::<usize>() + 2,
    }
}

/// The largest size such that all pieces fit when none is larger.
fn cap(mut sizes: Vec<usize>, room: usize) -> usize {
    sizes.sort_unstable();
    let mut left = room;
    for (at, size) in sizes.iter().enumerate() {
        let share = left / (sizes.len() - at);
        if *size > share {
            return share.max(LEAST);
        }
        left -= size;
    }
    usize::MAX
}

fn shrink(piece: &mut Piece<'_>, cap: usize, repairs: &mut Repairs) {
    match piece {
        Piece::Block(block) => shrink_block(block, cap, repairs),
        Piece::Result { head, content, tail, n } => {
            let room = cap.saturating_sub(head.len() + tail.len() + 1);
            shrink_content(content, room, *n, repairs);
        }
    }
}

fn shrink_content(content: &mut ResultContent<'_>, room: usize, n: u64, repairs: &mut Repairs) {
    match content {
        ResultContent::Text(quoted) => {
            let text = json::string(quoted).unwrap_or_default();
            repairs.add(n, RepairKind::Shortened { bytes: text.len() as u64 });
            let shorter = shortened(&text, room);
            *quoted = Cow::Owned(shorter);
        }
        ResultContent::Blocks(blocks) if blocks.len() * LEAST > room => {
            let bytes: usize = blocks.iter().map(|block| block.json.len()).sum();
            repairs.add(n, RepairKind::Shortened { bytes: bytes as u64 });
            *blocks = vec![block::note(&format!("[{} content blocks are too many to be sent]", blocks.len()), n)];
        }
        ResultContent::Blocks(blocks) => {
            let cap = cap(blocks.iter().map(|block| block.json.len() + 1).collect(), room.saturating_sub(2));
            for block in blocks.iter_mut().filter(|block| block.json.len() >= cap) {
                shrink_block(block, cap, repairs);
            }
        }
    }
}

fn shrink_block(block: &mut Block<'_>, cap: usize, repairs: &mut Repairs) {
    let bytes = block.json.len() as u64;
    let members = json::members(&block.json).unwrap_or_default();
    let raw = |name| json::member(&members, name).unwrap_or("\"\"");
    let text = match &block.kind {
        Kind::Text { .. } => {
            let text = json::string(raw("text")).unwrap_or_default();
            let around = "{\"type\":\"text\",\"text\":},".len();
            format!("{{\"type\":\"text\",\"text\":{}}}", shortened(&text, cap.saturating_sub(around)))
        }
        Kind::Call | Kind::ServerUse { .. } => {
            let (kind, id, name) = (raw("type"), raw("id"), raw("name"));
            format!("{{\"type\":{kind},\"id\":{id},\"name\":{name},\"input\":{NO_ARGUMENTS}}}")
        }
        // Its own way to say that there is nothing, so that the call before it stays answered.
        Kind::ServerResult { .. } => {
            let (kind, id) = (json::string(raw("type")).unwrap_or_default(), raw("tool_use_id"));
            let error = json::quote(&format!("{kind}_error"));
            let kind = json::quote(&kind);
            let content = format!("{{\"type\":{error},\"error_code\":\"unavailable\"}}");
            format!("{{\"type\":{kind},\"tool_use_id\":{id},\"content\":{content}}}")
        }
        Kind::Thinking | Kind::Image { .. } | Kind::Other => {
            let what = match &block.kind {
                Kind::Thinking => "thinking",
                Kind::Image { .. } => "image",
                _ => "content",
            };
            let note = block::note(&format!("[{what} of {bytes} bytes is too large to be sent]"), block.n);
            repairs.add(block.n, RepairKind::Shortened { bytes });
            *block = note;
            return;
        }
    };
    repairs.add(block.n, RepairKind::Shortened { bytes });
    block.json = Cow::Owned(text);
}

/// JSON text of a string with head and tail of the text, no longer than `room` unless that is less than the note.
fn shortened(text: &str, room: usize) -> String {
    let mut keep = room.saturating_sub(NOTE) / 2;
    loop {
        let quoted = json::sendable(&json::quote(&block::shorten(text, keep))).into_owned();
        if quoted.len() <= room || keep == 0 {
            return quoted;
        }
        keep /= 2;
    }
}
