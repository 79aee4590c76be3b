//! The right to write a session: a lease that is kept up, and what has to be true before it is given back.
//!
//! Two failures are guarded against. A server that takes over from one that died or sleeps makes sure first that the other one's lines are refused from
//! then on (`served`), and that a prompt which that one accepted is run; until both are done the lease is not given back, because whoever takes a lease that was given back
//! believes that there is nothing to do. And a lease is not given back as long as something was not sent.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use unforget_core::record::Draft;
use unforget_remote::Error;
use unforget_remote::lease::Lease;
use unforget_remote::sync::Local as _;

use super::parcel::Parcel;
use crate::error::{Code, Problem, Result};
use crate::realm::{Name, Realm};

/// How often it is tried to be the last who wrote.
const ATTEMPTS: usize = 5;

/// The right to write a session, as long as it is kept up.
pub(crate) struct Hold {
    parcel: Parcel,
    /// Whether it was taken from a server that did not give it back: one that died, or sleeps.
    was_left: bool,
    /// Whether what such a server left has been seen to.
    is_taken_over: AtomicBool,
    lease: tokio::sync::Mutex<Option<Lease>>,
    sending: tokio::sync::Mutex<()>,
    over: CancellationToken,
    /// Whether something is about to be sent.
    is_hurried: Mutex<bool>,
    runtime: Handle,
    every: Duration,
}

impl Hold {
    pub(super) fn new(parcel: Parcel, lease: Lease, was_left: bool, every: Duration) -> Self {
        Self {
            parcel,
            was_left,
            is_taken_over: AtomicBool::new(!was_left),
            lease: tokio::sync::Mutex::new(Some(lease)),
            sending: tokio::sync::Mutex::new(()),
            over: CancellationToken::new(),
            is_hurried: Mutex::new(false),
            runtime: Handle::current(),
            every,
        }
    }

    /// What is sent and fetched by this right.
    pub(super) fn parcel(&self) -> &Parcel {
        &self.parcel
    }

    /// Has what is there here, and keeps what is only here.
    pub(super) async fn catch_up(&self, realm: &Arc<Realm>, name: &Name) -> Result<()> {
        match self.parcel.pull().await {
            Ok(()) => {}
            Err(Error::NotFound { .. }) if self.parcel.is_here() || name.dir.has_sides() => {}
            Err(Error::Diverged { .. }) => self.parcel.resolve().await?,
            Err(error) => return Err(error.into()),
        }
        if self.was_left && self.parcel.is_here() && !name.dir.has_sides() {
            let epoch = self.lease.lock().await.as_ref().map_or(0, Lease::epoch);
            let mut session = realm.store().open(&realm.entry(&name.id)?)?;
            session.append(&[Draft::new("served").raw("epoch", &epoch.to_string())])?;
            if let Err(error) = session.close() {
                tracing::debug!(%error, "the index was not told");
            }
            self.insist().await?;
        }
        Ok(())
    }

    /// Sends that the session is served here now; what a zombie was quick enough to send is before it.
    async fn insist(&self) -> Result<()> {
        for _ in 0..ATTEMPTS {
            match self.parcel.send().await {
                Err(Error::Diverged { .. }) => self.parcel.rebase().await?,
                sent => return Ok(sent?),
            }
        }
        Err(Problem::new(Code::Unavailable, "other servers keep writing this session; try again"))
    }

    /// Whether it was taken from a server that did not give it back.
    pub(crate) fn was_left(&self) -> bool {
        self.was_left
    }

    /// What such a server left has been seen to: from now on the lease may be given back.
    pub(crate) fn taken_over(&self) {
        self.is_taken_over.store(true, Ordering::Release);
    }

    /// Waits until the lease has to be renewed; `false` once it was given back.
    pub(crate) async fn is_due(&self) -> bool {
        tokio::select! {
            () = self.over.cancelled() => false,
            () = tokio::time::sleep(self.every) => true,
        }
    }

    /// Says that the session is still served here; an error if another server has taken it.
    pub(crate) async fn renew(&self) -> Result<()> {
        let mut held = self.lease.lock().await;
        let Some(lease) = held.as_mut() else { return Ok(()) };
        match lease.renew(self.parcel.remote.as_ref(), self.parcel.source.now_ms()).await {
            Ok(()) => Ok(()),
            Err(Error::Conflict { .. }) => {
                *held = None;
                Err(Problem::new(Code::Moved, "another server took this session over; attach again"))
            }
            Err(error) => {
                // The remote is away: what is written meanwhile is refused later if somebody else was faster.
                tracing::warn!(%error, "the lease was not kept up");
                Ok(())
            }
        }
    }

    /// Sends what was written.
    pub(crate) async fn push(&self) -> Result<()> {
        let _sending = self.sending.lock().await;
        match self.parcel.send().await {
            Ok(()) => Ok(()),
            Err(Error::Conflict { .. } | Error::Diverged { .. }) => {
                Err(Problem::new(Code::Moved, "another server took this session over; attach again"))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Sends what was written soon, beside what goes on.
    pub(crate) fn hurry(self: &Arc<Self>) {
        if std::mem::replace(&mut *self.is_hurried.lock().unwrap_or_else(PoisonError::into_inner), true) {
            return;
        }
        let hold = self.clone();
        self.runtime.spawn(async move {
            let _sending = hold.sending.lock().await;
            *hold.is_hurried.lock().unwrap_or_else(PoisonError::into_inner) = false;
            if let Err(error) = hold.parcel.send().await {
                tracing::debug!(%error, "not sent yet");
            }
        });
    }

    /// Gives the lease back; not if something was not sent: who takes over from somebody who gave it back believes that everything is there.
    ///
    /// Whether something was not sent is seen by sending: lines may have come behind the last turn (another program writes some at its end), or before
    /// anybody could mark them.
    pub(crate) async fn release(&self) {
        self.over.cancel();
        if self.lease.lock().await.is_none() {
            return;
        }
        if !self.is_taken_over.load(Ordering::Acquire) {
            // It ends by itself, and whoever takes it then knows that somebody has been left behind.
            return;
        }
        if self.parcel.is_here()
            && let Err(problem) = self.push().await
        {
            tracing::warn!(%problem, session = %self.parcel.local.id(), "let go without having sent everything");
            return;
        }
        self.give_back().await;
    }

    /// Gives the lease back, whatever is here.
    pub(super) async fn give_back(&self) {
        self.over.cancel();
        let Some(lease) = self.lease.lock().await.take() else { return };
        if let Err(error) = lease.release(self.parcel.remote.as_ref()).await {
            // It ends by itself.
            tracing::debug!(%error, "the lease was not given back");
        }
    }
}
