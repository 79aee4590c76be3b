//! Several servers that share a remote: which of them serves a session, and what the others know of
//! it.
//!
//! There is no consensus of our own. Whoever takes up a session takes its [`lease`] at the remote,
//! which decides by compare-and-append between two who try, and fetches what others wrote.
//! Everything that concerns the session happens at its holder; the others lead their clients there,
//! if the holder signed the lease with the key of the cluster ([`peers`](crate::peers)). A lease
//! ends by itself, so that the sessions of a server that died move on.
//!
//! A lease is a matter of clocks, and a server that slept may believe that it holds one. What keeps
//! such a zombie out is the transcript: whoever takes over from somebody who did not give the lease
//! back appends a record first (`served`), and from then on the remote refuses what the zombie
//! appends behind lines that are no longer the last ones. What it had written and not sent is kept
//! at its place as a fork.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use unforget_core::directory::Directory;
use unforget_core::key::Key;
use unforget_core::layout::AgentDir;
use unforget_core::stamp::{SessionId, SharedSource};
use unforget_remote::lease::{self, Acquired};
use unforget_remote::sync::{self, Bookmarks, Native, Outbox, Pointer};
use unforget_remote::{Error, Remote, Stream};

use crate::actor::ActorId;
use crate::entries;
use crate::error::{Code, Problem, Result};
use crate::peers::{ClusterKey, Peers};
use crate::realm::{Name, Realm};

/// How often a key is claimed because it leads to sessions that are gone.
const CLAIMS: usize = 4;

mod elsewhere;
mod hold;
mod others;
mod parcel;
#[cfg(test)]
mod tests;

pub use elsewhere::Elsewhere;
pub(crate) use hold::Hold;
use parcel::{Fetching, Parcel};

/// The other servers, as far as one has to know of them.
pub struct Fleet {
    remote: Arc<dyn Remote>,
    /// Whose the owner's sessions are there.
    tenant: String,
    /// What the remote is called in a home.
    known_as: String,
    /// Where other servers reach this one.
    address: String,
    /// This run of this server.
    run: String,
    /// This home, whatever address it is served at.
    home: String,
    source: SharedSource,
    is_awaited: bool,
    lease: Duration,
    /// The servers that requests are forwarded to.
    peers: Option<Arc<Peers>>,
    /// When the sessions of an actor were looked for last.
    refreshed: Mutex<HashMap<ActorId, Instant>>,
    fetching: Fetching,
}

/// What a fleet is made of.
pub struct Settings {
    /// The remote.
    pub remote: Arc<dyn Remote>,
    /// Whose the owner's sessions are there.
    pub tenant: String,
    /// What the remote is called in a home.
    pub known_as: String,
    /// Where other servers reach this one: `http://host:port`.
    pub address: String,
    /// What tells this home from others: nobody else serves it while this server does.
    pub home: String,
    /// The clock.
    pub source: SharedSource,
    /// Whether a turn counts as saved only when the remote has it.
    pub is_awaited: bool,
    /// How long a lease holds without a sign of life.
    pub lease: Duration,
    /// The secret of the cluster; without it no other server is asked.
    pub cluster_key: Option<ClusterKey>,
}

impl Settings {
    /// What leads the entries of SDKs to the same remote.
    pub fn entries(&self) -> entries::Settings {
        entries::Settings {
            remote: self.remote.clone(),
            tenant: self.tenant.clone(),
            known_as: self.known_as.clone(),
            source: self.source.clone(),
            is_awaited: self.is_awaited,
        }
    }
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fleet").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Where a key led when a server decided to begin a session of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Seen {
    /// There, if anywhere.
    At(Option<SessionId>),
    /// The server did not look: the session is to be the key's, wherever that leads.
    Anywhere,
}

/// Whether this server serves a session.
pub(crate) enum Taken {
    Held(Arc<Hold>),
    Elsewhere(Elsewhere),
}

impl Fleet {
    /// A server among others.
    ///
    /// # Errors
    ///
    /// The HTTP client for the other servers cannot be made.
    pub fn new(settings: Settings) -> reqwest::Result<Self> {
        let Settings { remote, tenant, known_as, address, home, source, is_awaited, lease, cluster_key } = settings;
        let peers = cluster_key.map(|key| Peers::new(key, &address, source.clone())).transpose()?.map(Arc::new);
        let run = uuid::Uuid::now_v7().to_string();
        let refreshed = Mutex::default();
        let fetching = Arc::new(std::array::from_fn(|_| tokio::sync::Mutex::new(())));
        Ok(Self { remote, tenant, known_as, address, run, home, source, is_awaited, lease, peers, refreshed, fetching })
    }

    /// Whether a turn counts as saved only when the remote has it.
    pub fn is_awaited(&self) -> bool {
        self.is_awaited
    }

    /// The servers that requests are forwarded to, if this one has the key of a cluster.
    pub(crate) fn peers(&self) -> Option<&Arc<Peers>> {
        self.peers.as_ref()
    }

    /// What this server calls itself in the lease of a stream: its address, its home, this run of
    /// it, and with a key a signature of these.
    fn holder(&self, stream: &Stream) -> String {
        let plain = format!("{}#{}#{}", self.address, self.home, self.run);
        match &self.peers {
            Some(peers) => format!("{plain}#{}", peers.sign_holder(&stream.to_string(), &plain)),
            None => plain,
        }
    }

    /// Which server to ask for a session that another holder has. Only a server that signed its
    /// address is asked; a program is never.
    fn elsewhere(&self, name: &Name, stream: &Stream, holder: &str) -> Result<Taken> {
        let address = holder.split('#').next().unwrap_or_default();
        if !address.contains("://") {
            let message = format!("`{address}` is writing this session; try again when it has ended");
            return Err(Problem::new(Code::Busy, message));
        }
        let is_peer = self.peers.as_ref().is_some_and(|peers| {
            let signed = holder.rsplit_once('#');
            signed.is_some_and(|(plain, signature)| peers.is_signed(&stream.to_string(), plain, signature))
        });
        if is_peer {
            return Ok(Taken::Elsewhere(Elsewhere { address: address.to_owned(), session: name.id.clone() }));
        }
        tracing::warn!(holder, session = %name.id, "the holder of a lease is no server of this cluster; nothing is sent to it");
        let why = match &self.peers {
            Some(_) => "a server that is not of this cluster, or has another `--cluster-key`, serves this session",
            None => "another server serves this session, and this one has no `--cluster-key` to know it by",
        };
        Err(Problem::new(Code::Busy, format!("{why}; try again when that server has let it go")))
    }

    /// Whether a holder is an earlier run of this very server, which is no more: its home is locked
    /// by this one.
    fn is_own(&self, holder: &str) -> bool {
        holder.split('#').nth(1) == Some(&self.home)
    }

    fn tenant(&self, realm: &Realm) -> String {
        realm.actor().tenant(&self.tenant)
    }

    fn stream(&self, realm: &Realm, name: &Name) -> Result<Stream> {
        let agent = name.dir.agent().unwrap_or_else(|| name.dir.as_str().to_owned());
        Ok(Stream::new(&self.tenant(realm), &agent, name.id.as_str())?)
    }

    fn parcel(&self, realm: &Realm, name: &Name) -> Result<Parcel> {
        let medium = realm.store().medium().clone();
        Ok(Parcel {
            remote: self.remote.clone(),
            local: Native::new(realm.store(), &name.dir, &name.id),
            stream: self.stream(realm, name)?,
            bookmarks: Bookmarks::new(medium.clone(), &self.known_as),
            outbox: Outbox::new(medium, &self.known_as),
            source: self.source.clone(),
            fetching: self.fetching.clone(),
        })
    }

    /// In which directory a session is that only the remote knows.
    pub(crate) async fn locate(&self, realm: &Realm, agents: &[String], id: &SessionId) -> Result<AgentDir> {
        for agent in agents {
            let stream = Stream::new(&self.tenant(realm), agent, id.as_str())?;
            match self.remote.frontier(&stream).await {
                Ok(_) => return Ok(AgentDir::of(agent)),
                Err(Error::NotFound { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Problem::no_session())
    }

    /// Takes up a session: the right to write it, and what others wrote.
    pub(crate) async fn take(&self, realm: &Arc<Realm>, name: &Name) -> Result<Taken> {
        let parcel = self.parcel(realm, name)?;
        let holder = self.holder(&parcel.stream);
        let before = lease::look(self.remote.as_ref(), &parcel.stream).await?;
        let mut now_ms = self.source.now_ms();
        if let Some(claim) = before.as_ref().filter(|claim| claim.until_ms > now_ms)
            && claim.holder != holder
        {
            if !self.is_own(&claim.holder) {
                return self.elsewhere(name, &parcel.stream, &claim.holder);
            }
            now_ms = claim.until_ms.saturating_add(1);
        }
        let acquired = lease::acquire(self.remote.as_ref(), &parcel.stream, &holder, now_ms, self.lease).await?;
        let held = match acquired {
            Acquired::Held(held) => held,
            Acquired::Taken { holder, .. } => return self.elsewhere(name, &parcel.stream, &holder),
        };
        // Also from this very server, if it could not do all that there was to do: the record that
        // keeps a zombie out does no harm twice.
        let was_left = before.is_some_and(|claim| claim.until_ms > 0);
        let hold = Arc::new(Hold::new(parcel, held, was_left, self.lease / 4));
        if self.was_there(realm, name)?
            && matches!(self.remote.frontier(&hold.parcel().stream).await, Err(Error::NotFound { .. }))
        {
            hold.give_back().await;
            self.follow_deletion(realm, name)?;
            return Err(Problem::no_session());
        }
        match hold.catch_up(realm, name).await {
            Ok(()) => Ok(Taken::Held(hold)),
            Err(problem) => {
                hold.release().await;
                Err(problem)
            }
        }
    }

    /// The current session of a key, here or at the remote, whichever was begun later; and where
    /// the key leads.
    pub(crate) async fn current(
        &self,
        realm: &Arc<Realm>,
        key: &Key,
        here: Option<(SessionId, Option<i64>)>,
    ) -> Result<(Option<SessionId>, Seen)> {
        let name = |id: &SessionId| Name { dir: AgentDir::of(key.agent()), id: id.clone() };
        let pointer = sync::find_by_key(self.remote.as_ref(), &self.tenant(realm), key).await?;
        let seen = Seen::At(pointer.as_ref().map(|pointer| pointer.session.clone()));
        let there = match pointer {
            Some(pointer) => {
                let is_begun = here.as_ref().is_some_and(|(id, _)| *id == pointer.session);
                self.is_somewhere(realm, &name(&pointer.session), is_begun).await?.then_some(pointer)
            }
            None => None,
        };
        let Some((id, here_ms)) = here else { return Ok((there.map(|pointer| pointer.session), seen)) };
        let is_theirs = |pointer: &Pointer| pointer.session == id || here_ms.is_none_or(|ms| pointer.created_ms > ms);
        if there.as_ref().is_some_and(is_theirs) || !self.is_somewhere(realm, &name(&id), true).await? {
            return Ok((there.map(|pointer| pointer.session), seen));
        }
        // It was begun while the remote was away, or before there was one: the others do not know
        // of it.
        let led = self.begun(realm, &name(&id), key, seen).await?;
        Ok((Some(led.clone()), Seen::At(Some(led))))
    }

    /// Whether a session that a key leads to can be taken up. A key outlives its session, which may
    /// have been deleted; and one of another program is nowhere before its first word, except where
    /// it was begun.
    async fn is_somewhere(&self, realm: &Realm, name: &Name, is_begun: bool) -> Result<bool> {
        match self.remote.frontier(&self.stream(realm, name)?).await {
            Ok(_) => Ok(true),
            Err(Error::NotFound { .. }) => {
                let is_here = is_begun || realm.store().medium().stat(&name.dir.transcript(&name.id)).is_ok();
                Ok(is_here && !self.was_there(realm, name)?)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Leads a key to a session that was begun here, and sends it; tells where the key leads then.
    /// If another server was faster, its session is the key's.
    pub(crate) async fn begun(&self, realm: &Arc<Realm>, name: &Name, key: &Key, seen: Seen) -> Result<SessionId> {
        let parcel = self.parcel(realm, name)?;
        if parcel.is_here() {
            parcel.send().await?;
        }
        let (remote, tenant) = (self.remote.as_ref(), self.tenant(realm));
        let mut seen = match seen {
            Seen::At(seen) => seen,
            Seen::Anywhere => sync::find_by_key(remote, &tenant, key).await?.map(|pointer| pointer.session),
        };
        let to = Pointer { session: name.id.clone(), created_ms: self.source.now_ms() };
        for _ in 0..CLAIMS {
            let led = sync::claim(remote, &tenant, key, &to, seen.as_ref()).await?.session;
            let other = Name { dir: name.dir.clone(), id: led };
            if other.id == name.id || self.is_somewhere(realm, &other, false).await? {
                return Ok(other.id);
            }
            // It leads to a session that was deleted.
            seen = Some(other.id);
        }
        Err(Problem::new(
            Code::Unavailable,
            "other servers keep beginning and deleting sessions of this key; try again",
        ))
    }

    /// Sends what an earlier run of this server left behind. What does not fit any more, because
    /// another server went on, is kept beside what that one wrote: unless it is live here, where
    /// whoever writes it finds out.
    pub(crate) async fn send_left(&self, realm: &Arc<Realm>, is_live: impl Fn(&SessionId) -> bool) -> Result<()> {
        let outbox = Outbox::new(realm.store().medium().clone(), &self.known_as);
        for waiting in outbox.list()? {
            let name = Name { dir: waiting.dir, id: waiting.id };
            if realm.store().medium().stat(&name.dir.transcript(&name.id)).is_err() {
                outbox.remove(&name.dir, &name.id)?;
                continue;
            }
            let parcel = self.parcel(realm, &name)?;
            let sent = match parcel.send().await {
                Err(Error::Diverged { .. }) if !is_live(&name.id) => match self.is_served(&parcel.stream).await {
                    // Whoever serves it now is not disturbed; it is put together when that one has
                    // let go.
                    Ok(true) => continue,
                    Ok(false) => parcel.resolve().await,
                    Err(error) => Err(error),
                },
                sent => sent,
            };
            if let Err(error) = sent {
                tracing::debug!(%error, session = %name.id, "what was left behind is not there yet");
            }
        }
        Ok(())
    }

    /// Whether another server, or a program, holds the right to write a session now.
    async fn is_served(&self, stream: &Stream) -> Result<bool, Error> {
        let claim = lease::look(self.remote.as_ref(), stream).await?;
        Ok(claim.is_some_and(|claim| claim.until_ms > self.source.now_ms() && !self.is_own(&claim.holder)))
    }

    /// Has a session here that others wrote, to be read; who writes it here needs nothing.
    pub(crate) async fn fetch(&self, realm: &Arc<Realm>, agents: &[String], id: &SessionId) -> Result<()> {
        let known = realm.store().entry(id)?.map(|entry| entry.dir);
        let dir = match known {
            Some(dir) => dir,
            None => self.locate(realm, agents, id).await?,
        };
        let name = Name { dir, id: id.clone() };
        match self.parcel(realm, &name)?.pull().await {
            Ok(()) => Ok(()),
            Err(Error::NotFound { .. }) if self.was_there(realm, &name)? => {
                self.follow_deletion(realm, &name)?;
                Err(Problem::no_session())
            }
            // What is here is shown; whoever takes it up finds out more.
            Err(error) if realm.store().entry(id)?.is_some() => {
                tracing::debug!(%error, session = %id, "not fetched");
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Whether something is not there yet.
    pub(crate) fn is_behind(&self, store: &Directory) -> bool {
        Outbox::new(store.medium().clone(), &self.known_as).list().is_ok_and(|waiting| !waiting.is_empty())
    }
}
