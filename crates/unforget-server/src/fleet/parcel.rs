//! One session on its way between this server and the remote: sent, fetched, and put together where it went two ways.
//!
//! Knows nothing of leases: whoever calls has made sure that it may.

use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;

use unforget_core::stamp::SharedSource;
use unforget_remote::sync::{self, Bookmarks, Link, Local as _, Native, Outbox};
use unforget_remote::uplink::{Divergence, PushRules, Uplink};
use unforget_remote::{Error, Remote, Stream};

/// One at a time fetches a session, because there is one file for what is on its way; sessions share a few locks.
pub(super) type Fetching = Arc<[tokio::sync::Mutex<()>; 64]>;

/// A session, as it is sent.
pub(super) struct Parcel {
    pub(super) remote: Arc<dyn Remote>,
    pub(super) local: Native,
    pub(super) stream: Stream,
    pub(super) bookmarks: Bookmarks,
    pub(super) outbox: Outbox,
    pub(super) source: SharedSource,
    pub(super) fetching: Fetching,
}

impl Parcel {
    pub(super) fn link(&self) -> Link<'_> {
        Link { local: &self.local, remote: self.remote.as_ref(), stream: &self.stream, bookmarks: &self.bookmarks }
    }

    /// Whether there is a transcript here; one of another program has none before its first word.
    pub(super) fn is_here(&self) -> bool {
        self.local.medium().stat(&self.local.path()).is_ok()
    }

    /// Whether something may not have been sent.
    pub(super) fn is_marked(&self) -> bool {
        self.outbox.has(self.local.dir(), self.local.id())
    }

    fn uplink(&self) -> Uplink<'_> {
        Uplink {
            remote: self.remote.as_ref(),
            tenant: self.stream.tenant(),
            bookmarks: &self.bookmarks,
            outbox: &self.outbox,
            clock: self.source.as_ref(),
        }
    }

    pub(super) async fn send(&self) -> Result<(), Error> {
        self.uplink().push(&self.local, &self.stream, &PushRules::default(), &mut |_| {}).await.map(drop)
    }

    /// Whoever fetches waits for this.
    fn turn(&self) -> &tokio::sync::Mutex<()> {
        let mut hasher = std::hash::DefaultHasher::new();
        self.stream.to_string().hash(&mut hasher);
        let at = usize::try_from(hasher.finish() % self.fetching.len() as u64).unwrap_or_default();
        &self.fetching[at]
    }

    /// Has what is there here.
    pub(super) async fn pull(&self) -> Result<(), Error> {
        let _turn = self.turn().lock().await;
        self.uplink().pull(&self.local, &self.stream, Divergence::Report, &mut |_| {}).await.map(drop)
    }

    /// Brings together what went on here and there. Lines of another program name their parents, so those of both are one session, one behind the
    /// other; of a session of our own, what does not fit becomes a fork.
    pub(super) async fn resolve(&self) -> Result<(), Error> {
        if !self.local.dir().has_sides() {
            return self.fork().await;
        }
        self.rebase().await?;
        // What belongs to it besides its transcript was not fetched as long as that went two ways.
        self.pull().await?;
        self.send().await
    }

    /// Follows the remote, and says again what was only said here.
    pub(super) async fn rebase(&self) -> Result<(), Error> {
        let _turn = self.turn().lock().await;
        sync::resolve_by_rebase(&self.link(), &self.outbox, self.source.now_ms(), &mut |_| {}).await.map(drop)
    }

    /// Keeps what is only here and does not fit as a session of its own, and follows the remote.
    async fn fork(&self) -> Result<(), Error> {
        let _turn = self.turn().lock().await;
        let forked = sync::resolve_by_fork(&self.link(), &self.outbox, self.source.now_ms(), &mut |_| {}).await?;
        if let Some(forked) = forked {
            let (fork, at) = (&forked.branch, forked.at);
            tracing::warn!(session = %self.local.id(), %fork, at, "what was not sent in time is kept as a fork");
        }
        Ok(())
    }
}
