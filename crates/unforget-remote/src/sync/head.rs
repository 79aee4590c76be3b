//! What a remote had: how a reader notices that the end of a stream was cut off, or that an old state was put in its place.
//!
//! Two witnesses know how far a stream was. The *watermark* of this machine is the bookmark of what the remote confirmed last. The *head* is a line in the side
//! stream `@head` of a session, for machines that never saw it:
//!
//! ```text
//! {"lines":640,"bytes":81234,"digest":"…"}
//! ```
//! A stream that is shorter than a witness says, or has other lines up to there, is [`Rewound`](Error::Rewound). It is never gone on from in
//! silence: a person decides.
//!
//! Writers leave a head each `EVERY` lines and when they end, so a turn still costs about one request. A head is written behind
//! the lines that it counts, and never counts fewer than the one before; of two writers who leave one at once, the longer stays. So a reader
//! who asks for the head first never sees one that is ahead of an honest stream.
//!
//! What no witness can show: the operator who rolls back a stream and its head together shows a fresh machine an old state that was
//! genuine once.

use bytes::Bytes;
use unforget_core::frontier::Frontier;
use unforget_core::json;

use crate::error::{Error, Result, Witness};
use crate::remote::{Page, Remote, last_line};
use crate::stream::Stream;
use crate::sync::bookmark::digest;
use crate::sync::{Bookmarks, Link, Local, is_session};

/// The side stream that heads are in.
pub const HEADS: &str = "@head";
/// How many lines lie between two heads of a stream that is written to all the time.
pub(super) const EVERY: u64 = 64;
/// How often a head is looked at again because another machine was faster.
const ATTEMPTS: usize = 8;

/// What a stream is known to have had.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Witnesses {
    known: Vec<(Witness, Frontier)>,
}

impl Witnesses {
    /// Asks both: this machine, and, of a session's main stream, the remote.
    pub async fn ask(remote: &dyn Remote, stream: &Stream, bookmarks: &Bookmarks, local: &dyn Local) -> Result<Self> {
        let mut witnesses = Self::local(bookmarks, local);
        if has_head(stream) {
            witnesses.known.extend(look(remote, stream).await?.map(|head| (Witness::Remote, head)));
        }
        Ok(witnesses)
    }

    /// Asks this machine alone.
    pub(super) fn local(bookmarks: &Bookmarks, local: &dyn Local) -> Self {
        let seen = bookmarks.get(local.dir(), local.id()).map(|known| known.end);
        Self { known: seen.filter(|seen| seen.lines > 0).map(|seen| (Witness::Local, seen)).into_iter().collect() }
    }

    /// Refuses a stream that ends before a witness has seen it end.
    pub fn check_end(&self, stream: &Stream, found: &Frontier) -> Result<()> {
        let shorter = self.known.iter().find(|(_, seen)| found.lines < seen.lines);
        shorter.map_or_else(|| self.check_at(stream, found), |known| Err(rewound(stream, known, found)))
    }

    /// Refuses a place in a stream that a witness has seen differently.
    pub(super) fn check_at(&self, stream: &Stream, at: &Frontier) -> Result<()> {
        match self.known.iter().find(|(_, seen)| seen.lines == at.lines && seen != at) {
            Some(known) => Err(rewound(stream, known, at)),
            None => Ok(()),
        }
    }

    /// Refuses a page that a witness has seen differently.
    pub fn check_page(&self, stream: &Stream, page: &Page) -> Result<()> {
        if !self.known.iter().any(|(_, seen)| (page.before.lines..=page.after.lines).contains(&seen.lines)) {
            return Ok(());
        }
        let mut at = page.before;
        for line in &page.lines {
            at = at.after(line);
            self.check_at(stream, &at)?;
        }
        Ok(())
    }

    /// How many lines this machine has seen.
    pub(super) fn seen(&self) -> Option<&(Witness, Frontier)> {
        self.known.iter().find(|(witness, _)| *witness == Witness::Local)
    }
}

pub(super) fn rewound(stream: &Stream, (witness, seen): &(Witness, Frontier), found: &Frontier) -> Error {
    Error::Rewound { what: stream.to_string(), witness: *witness, seen: seen.lines, found: found.lines }
}

/// Where a stream is at the remote, which is no less than what is known of it.
pub(super) async fn frontier(link: &Link<'_>) -> Result<(Frontier, Witnesses)> {
    // The head first: a writer moves the stream before its head.
    let witnesses = Witnesses::ask(link.remote, link.stream, link.bookmarks, link.local).await?;
    let found = link.remote.frontier(link.stream).await?;
    witnesses.check_end(link.stream, &found)?;
    Ok((found, witnesses))
}

/// Whether writers leave heads of a stream: of sessions, and of nothing else.
pub(super) fn has_head(stream: &Stream) -> bool {
    is_session(stream) && stream.side().is_empty()
}

/// The head that was left last at a remote, if any was.
pub async fn look(remote: &dyn Remote, session: &Stream) -> Result<Option<Frontier>> {
    Ok(last(remote, &session.side_stream(HEADS)?).await?.0)
}

/// Leaves a head: the stream has lines up to here, as the remote confirmed.
pub async fn leave(remote: &dyn Remote, session: &Stream, end: &Frontier) -> Result<()> {
    let stream = session.side_stream(HEADS)?;
    for _ in 0..ATTEMPTS {
        let (head, at) = last(remote, &stream).await?;
        if head.is_some_and(|head| head.lines >= end.lines) {
            return Ok(());
        }
        let (lines, bytes, digest) = (end.lines, end.bytes, end.hex());
        let line = format!("{{\"lines\":{lines},\"bytes\":{bytes},\"digest\":\"{digest}\"}}");
        match remote.append(&stream, &at, &[Bytes::from(line)]).await {
            Ok(_) => return Ok(()),
            Err(Error::Conflict { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    let reason = "other machines keep leaving heads".to_owned();
    Err(Error::Unavailable { place: stream.to_string(), reason, wait: None })
}

/// The same, where the next head does as well: the lines are safe either way.
pub async fn leave_or_log(remote: &dyn Remote, session: &Stream, end: &Frontier) {
    if let Err(error) = leave(remote, session, end).await {
        tracing::debug!(stream = %session, %error, "no head was left");
    }
}

/// Forgets the heads of a session, because a person takes it as it is, or it is deleted.
pub async fn remove(remote: &dyn Remote, session: &Stream) -> Result<()> {
    remote.delete(&session.side_stream(HEADS)?).await
}

async fn last(remote: &dyn Remote, stream: &Stream) -> Result<(Option<Frontier>, Frontier)> {
    let Some((line, at)) = last_line(remote, stream).await? else { return Ok((None, Frontier::default())) };
    let corrupt = || Error::Corrupt { what: stream.to_string(), reason: "its last line is no head".to_owned() };
    Ok((Some(decode(&line).ok_or_else(corrupt)?), at))
}

fn decode(line: &[u8]) -> Option<Frontier> {
    let members = json::members(std::str::from_utf8(line).ok()?)?;
    let number = |name| json::number(json::member(&members, name)?);
    let digest = digest(&json::string(json::member(&members, "digest")?)?)?;
    Some(Frontier { lines: number("lines")?, bytes: number("bytes")?, digest })
}
