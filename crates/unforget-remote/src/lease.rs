//! Who is writing a session, as a courtesy.
//!
//! A lease is a line in the side stream `@lease` of its session: who holds it, in which epoch, and until when. It is taken by compare-and-append, so of two who
//! try, one is told; it is renewed when a third of its time is left and something is written, given back by a line, and ends by itself.
//!
//! It is advice. It tells a second machine that it had better wait, or whom to ask. It does not keep anybody out: clocks differ, and a machine may
//! sleep between looking at its lease and writing. What keeps a zombie out is its position: whoever appends behind lines that are
//! no longer the last ones is refused, lease or no lease.
//!
//! ```text
//! {"holder":"host-a/123","epoch":4,"until_ms":1767225660000}
//! ```

use std::time::Duration;

use bytes::Bytes;
use unforget_core::frontier::Frontier;
use unforget_core::json;

use crate::error::{Error, Result};
use crate::remote::{Remote, last_line};
use crate::stream::Stream;

/// The side stream that leases are in.
pub const LEASES: &str = "@lease";
/// How often a lease is looked at again because another machine was faster.
const ATTEMPTS: usize = 8;

/// A lease that is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    stream: Stream,
    holder: String,
    epoch: u64,
    until_ms: i64,
    ttl_ms: i64,
    at: Frontier,
}

/// What became of an attempt to take a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acquired {
    /// It is held.
    Held(Lease),
    /// Someone else holds it.
    Taken {
        /// Who.
        holder: String,
        /// Until when, in milliseconds by the clock of the holder.
        until_ms: i64,
    },
}

/// What the last line of a lease's stream says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Who took it.
    pub holder: String,
    /// How often it changed hands.
    pub epoch: u64,
    /// Until when it is held, in milliseconds; zero once it was given back.
    pub until_ms: i64,
}

impl Claim {
    fn encode(&self) -> Bytes {
        let Self { holder, epoch, until_ms } = self;
        format!("{{\"holder\":{},\"epoch\":{epoch},\"until_ms\":{until_ms}}}", json::quote(holder)).into()
    }

    fn decode(line: &[u8]) -> Option<Self> {
        let members = json::members(std::str::from_utf8(line).ok()?)?;
        let number = |name| json::number(json::member(&members, name)?);
        Some(Self {
            holder: json::string(json::member(&members, "holder")?)?.into_owned(),
            epoch: number("epoch")?,
            until_ms: i64::try_from(number("until_ms")?).ok()?,
        })
    }
}

/// Who took the lease of a session last, if anybody ever did.
pub async fn look(remote: &dyn Remote, session: &Stream) -> Result<Option<Claim>> {
    Ok(last(remote, &session.side_stream(LEASES)?).await?.0)
}

async fn last(remote: &dyn Remote, stream: &Stream) -> Result<(Option<Claim>, Frontier)> {
    let Some((line, at)) = last_line(remote, stream).await? else { return Ok((None, Frontier::default())) };
    let corrupt = || Error::Corrupt { what: stream.to_string(), reason: "its last line is no lease".to_owned() };
    Ok((Some(Claim::decode(&line).ok_or_else(corrupt)?), at))
}

/// Takes the lease of a session, if nobody else holds it now.
pub async fn acquire(
    remote: &dyn Remote,
    session: &Stream,
    holder: &str,
    now_ms: i64,
    ttl: Duration,
) -> Result<Acquired> {
    let stream = session.side_stream(LEASES)?;
    let ttl_ms = i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX);
    for _ in 0..ATTEMPTS {
        let (claim, at) = last(remote, &stream).await?;
        if let Some(Claim { holder, until_ms, .. }) =
            claim.clone().filter(|claim| claim.until_ms > now_ms && claim.holder != holder)
        {
            return Ok(Acquired::Taken { holder, until_ms });
        }
        let epoch = claim.map_or(1, |claim| claim.epoch.saturating_add(1));
        let until_ms = now_ms.max(0).saturating_add(ttl_ms);
        let claim = Claim { holder: holder.to_owned(), epoch, until_ms };
        match remote.append(&stream, &at, &[claim.encode()]).await {
            Ok(at) => {
                return Ok(Acquired::Held(Lease { stream, holder: holder.to_owned(), epoch, until_ms, ttl_ms, at }));
            }
            Err(Error::Conflict { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    let reason = "other machines keep taking the lease".to_owned();
    Err(Error::Unavailable { place: stream.to_string(), reason, wait: None })
}

impl Lease {
    /// How often the lease changed hands, this time included.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Until when it is held, in milliseconds.
    pub fn until_ms(&self) -> i64 {
        self.until_ms
    }

    /// Extends the lease if no more than a third of its time is left; a [`Conflict`](Error::Conflict) says that someone else took it.
    pub async fn renew(&mut self, remote: &dyn Remote, now_ms: i64) -> Result<()> {
        if self.until_ms.saturating_sub(now_ms) > self.ttl_ms / 3 {
            return Ok(());
        }
        self.write(remote, now_ms.max(0).saturating_add(self.ttl_ms)).await
    }

    /// Gives the lease back; one that someone else took is theirs.
    pub async fn release(mut self, remote: &dyn Remote) -> Result<()> {
        match self.write(remote, 0).await {
            Ok(()) | Err(Error::Conflict { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Says until when it is held. A line that is in the way may be our own, written by a call whose answer was lost: that takes nothing
    /// from us.
    async fn write(&mut self, remote: &dyn Remote, until_ms: i64) -> Result<()> {
        let line = [self.claim(until_ms).encode()];
        let written = match remote.append(&self.stream, &self.at, &line).await {
            Err(Error::Conflict { found }) => match last(remote, &self.stream).await? {
                (Some(claim), at) if claim.holder == self.holder && claim.epoch == self.epoch => {
                    remote.append(&self.stream, &at, &line).await
                }
                _ => Err(Error::Conflict { found }),
            },
            written => written,
        };
        self.at = written?;
        self.until_ms = until_ms;
        Ok(())
    }

    fn claim(&self, until_ms: i64) -> Claim {
        Claim { holder: self.holder.clone(), epoch: self.epoch, until_ms }
    }
}
