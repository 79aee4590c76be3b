//! What comes over a WebSocket, counted before anything is made of it: bytes, and the frames that they are.
//!
//! The WebSocket library bounds a frame and a message by their size. It says nothing of a message in two hundred thousand frames before the last one came, and its bounds
//! are the same before a client has said who it is as after. So the bytes pass through here first. [`Heads`] reads the heads of frames and skips what is in them; it
//! needs no memory but that of one head. A client that is not known yet may send [`handshake_bytes`](Limits::handshake_bytes) in all, heads and pings included.
//!
//! A client may send more right behind its `auth`, in the same packet even, without waiting for an answer. So nothing behind the first message is read until
//! the server knows the client: each read of a stranger takes what the frame at hand lacks and no byte more. The rest waits in the kernel, which stops the client
//! when its buffer is full, and counts under the client's own terms later.
//!
//! Bytes are charged to their sender ([`budget`](crate::budget)) until the message that they belong to was dealt with.
//!
//! What is over a bound never reaches the library: the read fails with the [`Problem`], once and for all.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};

use crate::budget::Claim;
use crate::error::{Code, Problem, Result};
use crate::limits::Limits;
use crate::quotas::Account;

/// The longest head of a frame that a client sends: two bytes, eight of length, four of mask.
const HEAD: usize = 14;
const FINAL: u8 = 0x80;
const CONTROL: u8 = 0x08;
const MASKED: u8 = 0x80;
/// The most that one read takes of a client that is not known yet.
const SIP: usize = 1024;

/// The head of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Head {
    is_final: bool,
    is_control: bool,
    length: u64,
}

/// Finds the heads of frames among the bytes of a connection, in whatever pieces they come.
#[derive(Debug, Default)]
struct Heads {
    head: [u8; HEAD],
    /// How much of the head is here.
    have: usize,
    /// How much is left of what is in the frame.
    left: u64,
}

impl Heads {
    /// The next head that ends in these bytes; none if they end before one does. What was looked at is taken off the bytes.
    fn next(&mut self, bytes: &mut &[u8]) -> Option<Head> {
        loop {
            let skipped = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
            *bytes = &bytes[skipped..];
            self.left -= skipped as u64;
            let (first, rest) = bytes.split_first()?;
            *bytes = rest;
            self.head[self.have] = *first;
            self.have += 1;
            if let Some(head) = self.whole() {
                (self.have, self.left) = (0, head.length);
                return Some(head);
            }
        }
    }

    /// The head, if all of it is here.
    fn whole(&self) -> Option<Head> {
        let [first, second, ..] = self.head;
        if self.have < self.size() {
            return None;
        }
        let extended = self.extended();
        let number = self.head[2..2 + extended].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        let length = if extended == 0 { u64::from(second & !MASKED) } else { number };
        Some(Head { is_final: first & FINAL != 0, is_control: first & CONTROL != 0, length })
    }

    /// How long the head is, as far as the bytes that are here tell.
    fn size(&self) -> usize {
        match self.have {
            0 | 1 => 2,
            _ => 2 + self.extended() + if self.head[1] & MASKED == 0 { 0 } else { 4 },
        }
    }

    /// How many bytes of the head are a length that did not fit into its second one.
    fn extended(&self) -> usize {
        match self.head[1] & !MASKED {
            126 => 2,
            127 => 8,
            _ => 0,
        }
    }

    /// How many bytes certainly belong to the frame at hand and are not here yet; never none.
    fn lacks(&self) -> u64 {
        match self.left {
            0 => (self.size() - self.have) as u64,
            left => left,
        }
    }

    /// Whether the frame at hand is here to its end.
    fn is_between(&self) -> bool {
        self.have == 0 && self.left == 0
    }
}

/// What a connection may send.
#[derive(Debug, Clone)]
enum Terms {
    /// So many bytes in all, and one message, until it is known who it is.
    Stranger { left: usize, most: usize, message: Introduction },
    /// Messages in so many frames, as fast as its actor may.
    Known { fragments: usize, account: Arc<Account> },
}

/// How far the first message of a client has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Introduction {
    /// More frames of it are to come.
    Awaited,
    /// Its last frame is coming.
    Ending,
    /// It is here: the server decides on it before anything else is read.
    Here,
}

/// A connection whose bytes are counted.
#[derive(Debug)]
pub(super) struct Metered<S> {
    stream: S,
    heads: Heads,
    terms: Terms,
    claim: Claim,
    /// Frames of the message that is coming.
    frames: usize,
    /// Why nothing is taken in any more.
    refused: Option<Problem>,
    /// The reader that waits until the client is known.
    waiting: Option<Waker>,
}

impl<S> Metered<S> {
    /// A connection of somebody who is not known yet.
    pub(super) fn new(stream: S, limits: &Limits, claim: Claim) -> Self {
        let most = limits.handshake_bytes;
        let terms = Terms::Stranger { left: most, most, message: Introduction::Awaited };
        Self { stream, heads: Heads::default(), terms, claim, frames: 0, refused: None, waiting: None }
    }

    /// It is known now whose connection it is.
    pub(super) fn recognise(&mut self, limits: &Limits, claim: Claim, account: Arc<Account>) {
        (self.terms, self.claim) = (Terms::Known { fragments: limits.fragments, account }, claim);
        if let Some(reader) = self.waiting.take() {
            reader.wake();
        }
    }

    /// Whether nothing is read any more until the client is known.
    pub(super) fn is_held(&self) -> bool {
        matches!(self.terms, Terms::Stranger { message: Introduction::Here, .. })
    }

    /// What has come was dealt with.
    pub(super) fn settle(&self) {
        self.claim.clear();
    }

    /// A sign of life was dealt with, which may have come in the middle of a message.
    pub(super) fn settle_sign(&self) {
        if self.frames == 0 {
            self.claim.clear();
        }
    }

    fn weigh(&mut self, mut bytes: &[u8]) -> Result<()> {
        if let Some(problem) = &self.refused {
            return Err(problem.clone());
        }
        self.claim.add(bytes.len())?;
        if let Terms::Stranger { left, most, .. } = &mut self.terms {
            *left = left.checked_sub(bytes.len()).ok_or_else(|| unintroduced(*most))?;
        }
        let (mut frames, mut pings) = (0, 0);
        while let Some(head) = self.heads.next(&mut bytes) {
            frames += 1;
            pings += usize::from(head.is_control);
            match &mut self.terms {
                Terms::Stranger { left, most, .. } if head.length > *left as u64 => return Err(unintroduced(*most)),
                Terms::Stranger { message, .. } if head.is_final && !head.is_control => *message = Introduction::Ending,
                Terms::Known { fragments, .. } if !head.is_control && self.frames >= *fragments => {
                    let message =
                        format!("a message came in more than {fragments} frames (`fragments`); use larger ones");
                    return Err(Problem::new(Code::TooLarge, message));
                }
                Terms::Stranger { .. } | Terms::Known { .. } => {}
            }
            if !head.is_control {
                self.frames = if head.is_final { 0 } else { self.frames + 1 };
            }
        }
        match &mut self.terms {
            Terms::Known { account, .. } => account.frames(frames, pings)?,
            Terms::Stranger { message: message @ Introduction::Ending, .. } if self.heads.is_between() => {
                *message = Introduction::Here;
            }
            Terms::Stranger { .. } => {}
        }
        Ok(())
    }
}

fn unintroduced(most: usize) -> Problem {
    let message = format!(
        "more than {most} bytes came before it was known who sends them (`handshake_bytes`); send `auth` first"
    );
    Problem::new(Code::TooLarge, message)
}

impl<S: AsyncRead + AsyncWrite + Unpin> Metered<S> {
    /// Sends no more, and lets pass what still comes until the other side has ended, too.
    pub(super) async fn drain(&mut self) -> io::Result<()> {
        self.stream.shutdown().await?;
        let mut unread = [0; 4096];
        while self.stream.read(&mut unread).await? > 0 {}
        Ok(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        match &self.terms {
            Terms::Known { .. } => ready!(Pin::new(&mut self.stream).poll_read(context, into))?,
            Terms::Stranger { message: Introduction::Here, .. } => {
                self.waiting = Some(context.waker().clone());
                return Poll::Pending;
            }
            Terms::Stranger { .. } => {
                let lacks = usize::try_from(self.heads.lacks()).unwrap_or(SIP).min(SIP).min(into.remaining());
                let mut bytes = [0; SIP];
                let mut sip = ReadBuf::new(&mut bytes[..lacks]);
                ready!(Pin::new(&mut self.stream).poll_read(context, &mut sip))?;
                into.put_slice(sip.filled());
            }
        }
        if let Err(problem) = self.weigh(&into.filled()[before..]) {
            into.set_filled(before);
            self.refused = Some(problem.clone());
            return Poll::Ready(Err(io::Error::other(problem)));
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actor::ActorId;
    use crate::budget::{Budget, Sender};
    use crate::quotas::Quotas;

    /// A frame as a client sends it.
    fn frame(first: u8, bytes: &[u8]) -> Vec<u8> {
        let length = bytes.len();
        let mut frame = match length {
            0..126 => vec![first, MASKED | u8::try_from(length).unwrap()],
            126..65536 => [&[first, MASKED | 126][..], &u16::try_from(length).unwrap().to_be_bytes()].concat(),
            _ => [&[first, MASKED | 127][..], &(length as u64).to_be_bytes()].concat(),
        };
        frame.extend_from_slice(&[1, 2, 3, 4]);
        frame.extend_from_slice(bytes);
        frame
    }

    fn metered(limits: &Limits, is_known: bool) -> Metered<()> {
        let mut meter = Metered::new((), limits, claim(limits));
        if is_known {
            recognise(&mut meter, limits);
        }
        meter
    }

    fn claim(limits: &Limits) -> Claim {
        Budget::new(limits.in_flight).claim(Sender::Actor(ActorId::verified("ada").unwrap()))
    }

    fn recognise<S>(meter: &mut Metered<S>, limits: &Limits) {
        meter.recognise(limits, claim(limits), Quotas::new(*limits).of(&ActorId::owner()));
    }

    /// Reads until nothing more comes.
    fn read(meter: &mut Metered<&[u8]>) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        loop {
            let mut bytes = [0; 4096];
            let mut buffer = ReadBuf::new(&mut bytes);
            match Pin::new(&mut *meter).poll_read(&mut Context::from_waker(Waker::noop()), &mut buffer) {
                Poll::Ready(came) if buffer.filled().is_empty() => return came.map(|()| all),
                Poll::Ready(came) => came?,
                Poll::Pending => return Ok(all),
            }
            all.extend_from_slice(buffer.filled());
        }
    }

    #[test]
    fn s3_what_comes_behind_the_first_message_waits_until_the_client_is_known() {
        let limits = Limits { handshake_bytes: 1000, ..Limits::default() };
        let short = [frame(0x89, b"alive"), frame(0x81, b"auth")].concat();
        let pieces = [frame(0x01, b"au"), frame(0x89, b""), frame(0x00, &[b't'; 300]), frame(0x80, b"")].concat();
        for first in [short, pieces, frame(0x81, &[b'a'; 900])] {
            let more = [frame(0x81, &[b'x'; 100_000]), frame(0x89, b"alive")].concat();
            let all = [&first[..], &more].concat();
            let mut meter = Metered::new(&all[..], &limits, claim(&limits));
            assert_eq!(read(&mut meter).unwrap(), first);
            assert!(meter.is_held() && meter.stream.len() == more.len(), "the rest is not read at all");
            recognise(&mut meter, &limits);
            assert_eq!(read(&mut meter).unwrap(), more);
        }
        // What is no message yet is bounded all the same.
        let signs = frame(0x89, b"").repeat(1000);
        assert!(read(&mut Metered::new(&signs[..], &limits, claim(&limits))).is_err());
    }

    #[test]
    fn heads_are_found_however_the_bytes_are_cut() {
        let lengths = [0, 1, 125, 126, 127, 65535, 65536, 70000];
        let mut bytes = Vec::new();
        for (at, length) in lengths.iter().enumerate() {
            bytes.extend(frame(if at.is_multiple_of(2) { 0x81 } else { 0x09 }, &vec![7; *length]));
        }
        // Unmasked, which is no client's, and found all the same.
        bytes.extend([0x01, 3, 1, 2, 3]);
        for size in [1, 2, 3, 5, 13, 14, 15, 4096, bytes.len()] {
            let (mut heads, mut found) = (Heads::default(), Vec::new());
            for mut piece in bytes.chunks(size) {
                while let Some(head) = heads.next(&mut piece) {
                    found.push(head);
                }
            }
            let control = |at: usize| Head {
                is_final: at.is_multiple_of(2),
                is_control: !at.is_multiple_of(2),
                length: lengths[at] as u64,
            };
            let mut want: Vec<Head> = (0..lengths.len()).map(control).collect();
            want.push(Head { is_final: false, is_control: false, length: 3 });
            assert_eq!(found, want, "{size}");
        }
    }

    #[test]
    fn s3_who_is_not_known_may_send_little_in_whatever_frames() {
        let limits = Limits { handshake_bytes: 1000, ..Limits::default() };
        let one = frame(0x01, b"x");
        let mut meter = metered(&limits, false);
        let taken = (0..1000).take_while(|_| meter.weigh(&one).is_ok()).count();
        assert_eq!(taken, 1000 / one.len(), "each frame counts with its head");
        let pings = frame(0x89, b"");
        assert!((0..1000).any(|_| metered(&limits, false).weigh(&pings.repeat(200)).is_err()));
        let problem = metered(&limits, false).weigh(&frame(0x81, &[0; 2000])[..14]).unwrap_err();
        assert_eq!(problem.code, Code::TooLarge, "a frame that says that it is too long is not waited for");
        metered(&limits, true).weigh(&frame(0x81, &[0; 2000])).unwrap();
    }

    #[test]
    fn s9_a_message_has_a_bounded_number_of_frames() {
        let limits = Limits { fragments: 3, ..Limits::default() };
        let (first, more, last) = (frame(0x01, b"a"), frame(0x00, b"b"), frame(0x80, b"c"));
        let mut meter = metered(&limits, true);
        for _ in 0..10 {
            // Pings in between are no part of it.
            meter.weigh(&[&first[..], &frame(0x89, b""), &more, &last].concat()).unwrap();
        }
        meter.weigh(&[&first[..], &more, &more].concat()).unwrap();
        assert_eq!(meter.weigh(&last).unwrap_err().code, Code::TooLarge);
    }

    #[test]
    fn s9_frames_and_pings_have_a_rate() {
        let limits = Limits { pings_per_second: 10, frames_per_second: 100, ..Limits::default() };
        let ping = frame(0x89, b"");
        let mut meter = metered(&limits, true);
        meter.weigh(&ping.repeat(10)).unwrap();
        let problem = meter.weigh(&ping.repeat(10)).unwrap_err();
        assert!(problem.code == Code::TooMany && problem.message.contains("pings_per_second"), "{problem}");
        let problem = metered(&limits, true).weigh(&frame(0x81, b"x").repeat(200)).unwrap_err();
        assert!(problem.message.contains("frames_per_second"), "{problem}");
    }

    #[test]
    fn s3_what_is_not_dealt_with_is_charged() {
        let limits = Limits { in_flight: 100, ..Limits::default() };
        let mut meter = metered(&limits, true);
        meter.weigh(&frame(0x01, &[0; 40])).unwrap();
        assert_eq!(meter.weigh(&frame(0x00, &[0; 40])).unwrap_err().code, Code::TooMany);
        let mut meter = metered(&limits, true);
        for _ in 0..10 {
            meter.weigh(&frame(0x81, &[0; 40])).unwrap();
            meter.settle();
        }
    }
}
