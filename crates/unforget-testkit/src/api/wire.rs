//! How the bytes of an answer reach the client: in which pieces, and how they end.
//!
//! The pieces of a stream have nothing to do with its events, and whenever a character of several bytes is near, a
//! piece ends inside it: a client that decodes piece by piece loses text here, not one day in production. Each piece is
//! a write of its own. The list of steps is fixed before the first is taken; a step may wait for the test or break the
//! connection.
//!
//! A body that is dropped before its last step means that the client went away.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Bytes;
use futures_core::Stream;

use super::state::Shared;

/// The lengths of pieces in bytes, one after the other.
const PIECE_LENGTHS: &[usize] = &[120, 37, 211, 90, 300];
/// How far ahead a piece looks for a character to end in.
const NEAR: usize = 24;
/// From this many pieces on, they are longer, so that long answers stay cheap.
const MANY_PIECES: usize = 1000;
const LONG_PIECE: usize = 16 * 1024;

/// What happens next on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Send(Bytes),
    /// Waits until the test releases what waits.
    Wait,
    /// Breaks the connection.
    Break,
}

/// Cuts bytes into pieces.
pub(super) fn pieces(bytes: &[u8]) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut rest = bytes;
    let mut lengths = PIECE_LENGTHS.iter().copied().cycle().take(MANY_PIECES);
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(piece_end(rest, lengths.next().unwrap_or(LONG_PIECE)));
        steps.push(Step::Send(Bytes::copy_from_slice(piece)));
        rest = after;
    }
    steps
}

fn piece_end(bytes: &[u8], length: usize) -> usize {
    let near = bytes.iter().enumerate().skip(length).take(NEAR);
    let inside = near.filter(|(_, byte)| (0x80..0xc0).contains(*byte)).map(|(at, _)| at).next();
    inside.unwrap_or(length).min(bytes.len())
}

/// Counts a client that goes away before it has everything.
pub(super) struct Attention {
    shared: Arc<Shared>,
    is_over: bool,
}

impl Attention {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, is_over: false }
    }

    pub(super) fn end(&mut self) {
        self.is_over = true;
    }
}

impl Drop for Attention {
    fn drop(&mut self) {
        if !self.is_over {
            self.shared.note_hang_up();
        }
    }
}

type Pause = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The body of an answer.
pub(super) struct Wire {
    steps: VecDeque<Step>,
    pause: Option<Pause>,
    /// What was released before this answer does not count.
    releases: u64,
    pace: Duration,
    attention: Attention,
}

impl Wire {
    pub(super) fn new(shared: Arc<Shared>, steps: Vec<Step>, releases: u64, pace: Duration) -> Self {
        Self { steps: steps.into(), pause: None, releases, pace, attention: Attention::new(shared) }
    }

    /// What lies between two steps: at least one round of the scheduler, in which the server writes what it has.
    fn pause_after_send(&self) -> Pause {
        let pace = self.pace;
        if pace.is_zero() { Box::pin(tokio::task::yield_now()) } else { Box::pin(tokio::time::sleep(pace)) }
    }
}

impl Stream for Wire {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        // Each turn ends a pause or takes a step.
        loop {
            if let Some(pause) = &mut self.pause {
                match pause.as_mut().poll(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(()) => self.pause = None,
                }
            }
            match self.steps.pop_front() {
                Some(Step::Send(bytes)) => {
                    self.pause = Some(self.pause_after_send());
                    if self.steps.is_empty() {
                        // Who has the last piece may go; there is nothing left to miss.
                        self.attention.end();
                    }
                    return Poll::Ready(Some(Ok(bytes)));
                }
                Some(Step::Wait) => {
                    self.pause = Some(Box::pin(Shared::released(self.attention.shared.clone(), self.releases)));
                }
                Some(Step::Break) => {
                    self.attention.end();
                    return Poll::Ready(Some(Err(io::Error::other("the connection is broken on purpose"))));
                }
                None => return Poll::Ready(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_end_inside_characters_and_lose_nothing() {
        let text = "記憶は再起動を生き延びる。".repeat(40);
        let steps = pieces(text.as_bytes());
        let sent: Vec<&Bytes> = steps
            .iter()
            .map(|step| match step {
                Step::Send(bytes) => bytes,
                Step::Wait | Step::Break => panic!("{step:?}"),
            })
            .collect();
        assert!(sent.len() > 5);
        assert!(sent.iter().rev().skip(1).all(|bytes| str::from_utf8(bytes).is_err()));
        assert_eq!(sent.iter().flat_map(|bytes| bytes.iter().copied()).collect::<Vec<u8>>(), text.as_bytes());
    }
}
