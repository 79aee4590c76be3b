//! Messages on their way out: roles alternate, nothing is blank, no server tool call stays open in the middle, and the model
//! never ends with thinking (an abort or a limit can leave it at that; sent like this, every further request is refused).
//!
//! What comes in are the pieces of one step after another. They stay pieces until the limits are applied, because a
//! result with blocks in it can give way in part; only then do they become text. What a call or a result says is
//! not known here.

use std::borrow::Cow;
use std::collections::HashSet;

use super::block::{Block, Kind};
use super::repair::{RepairKind, Repairs};
use super::{Message, Role};

/// Why thinking at the end of a message stays out.
pub(super) const NOTHING_FOLLOWS: &str = "nothing follows it";

/// Messages on their way out.
pub(super) struct Messages<'a> {
    pub(super) list: Vec<Outgoing<'a>>,
    pub(super) repairs: Repairs,
}

/// A message before its blocks become text.
pub(super) struct Outgoing<'a> {
    pub(super) role: Role,
    pub(super) pieces: Vec<Piece<'a>>,
}

/// A block, or a result with the blocks in it.
#[derive(Clone)]
pub(super) enum Piece<'a> {
    Block(Block<'a>),
    Result { head: String, content: ResultContent<'a>, tail: Cow<'a, str>, n: u64 },
}

/// What is in a result.
#[derive(Clone)]
pub(super) enum ResultContent<'a> {
    Text(Cow<'a, str>),
    Blocks(Vec<Block<'a>>),
}

impl<'a> Messages<'a> {
    /// Leaves out server tool calls that were still open when the user spoke: only their result could follow them.
    ///
    /// From the end, because a message that is left empty lets its neighbours meet, which may close a call before it.
    /// A call at the very end goes on if the request has its tool.
    pub(super) fn close_server_calls(&mut self, tools: &HashSet<String>) {
        let mut reversed: Vec<Outgoing<'a>> = Vec::with_capacity(self.list.len());
        for mut message in std::mem::take(&mut self.list).into_iter().rev() {
            // Back to front inside as well, so that what meets its neighbour is added at the end and nothing moves.
            message.pieces.reverse();
            let next = reversed.last_mut();
            match (message.role, next) {
                (Role::User, Some(next)) if next.role == Role::User => {
                    next.pieces.append(&mut message.pieces);
                    continue;
                }
                (Role::Assistant, Some(next)) if next.pieces.iter().any(|piece| matches!(piece, Piece::Block(_))) => {
                    self.leave_out_open(&mut message.pieces, |_| true);
                }
                (Role::Assistant, None) => self.leave_out_open(&mut message.pieces, |name| !is_declared(name, tools)),
                _ => {}
            }
            if message.role == Role::Assistant {
                message.pieces.reverse();
                self.leave_out_last_thinking(&mut message.pieces);
                message.pieces.reverse();
            }
            if !message.pieces.iter().all(is_blank) {
                reversed.push(message);
            }
        }
        reversed.reverse();
        for message in &mut reversed {
            message.pieces.reverse();
        }
        self.list = reversed;
    }

    /// Leaves out thinking at the end of a message of the model.
    pub(super) fn leave_out_last_thinking(&mut self, pieces: &mut Vec<Piece<'a>>) {
        while let Some(Piece::Block(Block { kind: Kind::Thinking, n, .. })) = pieces.last() {
            self.repairs.add(*n, RepairKind::ThinkingLeftOut(NOTHING_FOLLOWS.to_owned()));
            pieces.pop();
        }
    }

    fn leave_out_open(&mut self, pieces: &mut Vec<Piece<'a>>, which: impl Fn(&str) -> bool) {
        let done: HashSet<String> = pieces.iter().filter_map(server_result).collect();
        pieces.retain(|piece| match piece {
            Piece::Block(Block { kind: Kind::ServerUse { id, name }, n, .. })
                if !done.contains(id.as_ref()) && which(name) =>
            {
                self.repairs.add(*n, RepairKind::ServerCallLeftOut(id.clone().into_owned()));
                false
            }
            _ => true,
        });
    }

    /// Adds to the last message if it is of the same role; leaves out what has no words.
    pub(super) fn push(&mut self, role: Role, pieces: Vec<Piece<'a>>) {
        if pieces.iter().all(is_blank) {
            for piece in &pieces {
                if let Piece::Block(block) = piece {
                    self.repairs.add(block.n, RepairKind::Empty);
                }
            }
            return;
        }
        match self.list.last_mut() {
            Some(last) if last.role == role => last.pieces.extend(pieces),
            _ => self.list.push(Outgoing { role, pieces }),
        }
    }
}

/// One declared tool may act under several names: `code_execution` also as `bash_code_execution`.
fn is_declared(name: &str, tools: &HashSet<String>) -> bool {
    let suffixes = name.match_indices('_').map(|(at, _)| &name[at + 1..]);
    std::iter::once(name).chain(suffixes).any(|name| tools.contains(name))
}

pub(super) fn is_blank(piece: &Piece<'_>) -> bool {
    matches!(piece, Piece::Block(Block { kind: Kind::Text { blank: true }, .. }))
}

fn server_result(piece: &Piece<'_>) -> Option<String> {
    match piece {
        Piece::Block(Block { kind: Kind::ServerResult { id }, .. }) => Some(id.clone().into_owned()),
        _ => None,
    }
}

impl<'a> Outgoing<'a> {
    /// The message with its blocks as text.
    pub(super) fn render(self) -> Message<'a> {
        Message { role: self.role, blocks: self.pieces.into_iter().map(Piece::render).collect() }
    }
}

impl<'a> Piece<'a> {
    /// The record that it comes from.
    pub(super) fn n(&self) -> u64 {
        match self {
            Piece::Block(block) => block.n,
            Piece::Result { n, .. } => *n,
        }
    }

    /// The piece as text.
    pub(super) fn render(self) -> Cow<'a, str> {
        match self {
            Piece::Block(block) => block.json,
            Piece::Result { mut head, content, tail, .. } => {
                match content {
                    ResultContent::Text(text) => {
                        head.reserve_exact(text.len() + tail.len());
                        head.push_str(&text);
                    }
                    ResultContent::Blocks(blocks) => {
                        head.push('[');
                        for (i, block) in blocks.iter().enumerate() {
                            if i > 0 {
                                head.push(',');
                            }
                            head.push_str(&block.json);
                        }
                        head.push(']');
                    }
                }
                head.push_str(&tail);
                Cow::Owned(head)
            }
        }
    }
}
