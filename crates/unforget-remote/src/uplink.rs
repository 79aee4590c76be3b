//! The one way from a home to a remote: how a session is sent, and how it is fetched.
//!
//! Every front end sends in the same order. A durable mark in the outbox comes first: whatever
//! happens then, the next process knows what to send. The lines follow, with what they refer to
//! before them. The key of the session leads to it afterwards, and only then does the mark go: for
//! another machine, a session without a key is not there. If lines went on at both sides,
//! [`Divergence`] says what becomes of them.
//!
//! The uplink knows lines, positions and keys, and nothing of threads, pauses or people: when it is
//! called, and what a person hears of it, is for its callers.

use unforget_core::key::Key;
use unforget_core::stamp::{SessionId, Source};

use crate::error::{Error, Result};
use crate::remote::Remote;
use crate::stream::Stream;
use crate::sync::{self, Bookmarks, Link, Local, Outbox, Pointer, Pulled, Pushed, Rebased, Watch, head};

/// How old the time may be by which a key's last session is known, in milliseconds.
const USED_MS: i64 = 5 * 60 * 1000;

/// A home and a remote of one tenant.
#[derive(Clone, Copy)]
pub struct Uplink<'a> {
    /// The remote.
    pub remote: &'a dyn Remote,
    /// Whose sessions they are there.
    pub tenant: &'a str,
    /// How far the remote has each session, as this home knows it.
    pub bookmarks: &'a Bookmarks,
    /// Which sessions the remote may not have whole.
    pub outbox: &'a Outbox,
    /// The clock.
    pub clock: &'a dyn Source,
}

/// What becomes of lines that went on at both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Divergence {
    /// The caller hears of it and decides.
    Report,
    /// The remote's lines come first and the local ones behind them: for lines that name their
    /// parents themselves.
    Append,
}

/// Where the key of a session leads after it was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lead {
    /// Where it led before.
    Nowhere,
    /// To the session that was created last.
    Created {
        /// The key.
        key: Key,
        /// When the session was created.
        created_ms: i64,
    },
    /// To the session that was used last, which is this one.
    LastUsed(Key),
}

/// What a push does besides sending lines.
pub struct PushRules<'r> {
    /// What becomes of lines that went on at both sides.
    pub divergence: Divergence,
    /// Where the key leads.
    pub lead: Lead,
    /// Whether more is being written, so that the mark has to stay; asked when all lines are there.
    pub is_open: &'r (dyn Fn() -> bool + Sync),
    /// Whether a push that found nothing to send asks if the session is still there: what a home
    /// remembers of a remote is no proof.
    pub is_proved: bool,
    /// Whether the push leaves a head and joins small segments, as callers do that do not push soon
    /// again.
    pub is_tidy: bool,
}

impl Default for PushRules<'_> {
    fn default() -> Self {
        let (divergence, lead) = (Divergence::Report, Lead::Nowhere);
        Self { divergence, lead, is_open: &|| false, is_proved: false, is_tidy: false }
    }
}

/// What was sent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sent {
    /// The lines.
    pub pushed: Pushed,
    /// What was put behind the remote's lines, if both sides had gone on.
    pub rebased: Option<Rebased>,
}

/// What was fetched.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fetched {
    /// The lines.
    pub pulled: Pulled,
    /// What was put behind the remote's lines, if both sides had gone on.
    pub rebased: Option<Rebased>,
}

impl Uplink<'_> {
    /// Sends what the remote lacks of a session.
    pub async fn push(
        &self,
        local: &dyn Local,
        stream: &Stream,
        rules: &PushRules<'_>,
        watch: Watch<'_>,
    ) -> Result<Sent> {
        let now_ms = self.clock.now_ms();
        self.outbox.add(local.dir(), local.id(), now_ms)?;
        let link = Link { local, remote: self.remote, stream, bookmarks: self.bookmarks };
        let (pushed, rebased) = match sync::push(&link, watch).await {
            Err(Error::Diverged { .. }) if rules.divergence == Divergence::Append => {
                let rebased = sync::resolve_by_rebase(&link, self.outbox, now_ms, &mut |_| {}).await?;
                (sync::push(&link, &mut |_| {}).await?, rebased)
            }
            pushed => (pushed?, None),
        };
        if rules.is_proved
            && pushed.lines == 0
            && let Err(Error::NotFound { what }) = self.remote.frontier(stream).await
        {
            return Err(Error::Deleted { what });
        }
        self.lead(local.id(), &rules.lead).await?;
        if !(rules.is_open)() {
            self.outbox.settle(&link, &pushed, now_ms)?;
        }
        if rules.is_tidy && pushed.lines > 0 {
            head::leave_or_log(self.remote, stream, &pushed.at).await;
            if let Err(error) = self.remote.compact(stream).await {
                tracing::debug!(%stream, %error, "small segments stay as they are");
            }
        }
        Ok(Sent { pushed, rebased })
    }

    /// Fetches what the home lacks of a session.
    pub async fn pull(
        &self,
        local: &dyn Local,
        stream: &Stream,
        divergence: Divergence,
        watch: Watch<'_>,
    ) -> Result<Fetched> {
        let link = Link { local, remote: self.remote, stream, bookmarks: self.bookmarks };
        match sync::pull(&link, watch).await {
            Err(Error::Diverged { .. }) if divergence == Divergence::Append => {
                let rebased = sync::resolve_by_rebase(&link, self.outbox, self.clock.now_ms(), &mut |_| {}).await?;
                Ok(Fetched { pulled: sync::pull(&link, &mut |_| {}).await?, rebased })
            }
            pulled => Ok(Fetched { pulled: pulled?, rebased: None }),
        }
    }

    async fn lead(&self, id: &SessionId, lead: &Lead) -> Result<()> {
        let (key, to_ms) = match lead {
            Lead::Nowhere => return Ok(()),
            Lead::Created { key, created_ms } => (key, *created_ms),
            Lead::LastUsed(key) => {
                let now_ms = self.clock.now_ms();
                let now = sync::find_by_key(self.remote, self.tenant, key).await?;
                // The time says about when the session was used: another machine goes on with the
                // one that was used last.
                if now.is_some_and(|now| now.session == *id && now_ms.saturating_sub(now.created_ms) <= USED_MS) {
                    return Ok(());
                }
                (key, now_ms)
            }
        };
        sync::point(self.remote, self.tenant, key, &Pointer { session: id.clone(), created_ms: to_ms }).await.map(drop)
    }
}
