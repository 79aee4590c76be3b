//! How the pipe reaches the sessions of this program: the files of its home, and with a remote what
//! other machines wrote.
//!
//! With a remote, a session is fetched before it is read or changed, and sent afterwards. Lines
//! that could not be sent wait in the outbox, as those of the chat do.

use std::sync::Arc;
use std::time::Duration;

use unforget_core::directory::OnMissing;
use unforget_core::edit::EditScope;
use unforget_core::key::Key;
use unforget_core::layout::AgentDir;
use unforget_core::report::Report;
use unforget_core::session::Session;
use unforget_core::stamp::SessionId;
use unforget_core::store::Store;
use unforget_remote::lease;
use unforget_remote::sync::{self, Bookmarks, Native, Outbox};
use unforget_remote::uplink::{Divergence, Lead, PushRules, Uplink};
use unforget_remote::{Error as RemoteError, Stream};

use super::ask::Pipe;
use crate::api::listed::Present;
use crate::api::{Access, Changed, SessionRef};
use crate::entries::Settings;
use crate::error::{Code, Problem, Result};
use crate::protocol::Durability;
use crate::realm::Realm;

/// How long a remote is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often, and after which pause, this asks for a session that another program writes: five
/// seconds in all.
const ATTEMPTS: usize = 100;
const PAUSE: Duration = Duration::from_millis(50);

impl Access for Pipe {
    async fn refresh(&self, _realm: &Arc<Realm>) {}

    async fn reach(&self, realm: &Arc<Realm>, session: &SessionRef) -> Result<SessionId> {
        if let Some(there) = &self.there {
            unless_away(fetch(realm, there, session).await)?;
        }
        let session = session.clone();
        blocking(realm, move |realm| match session {
            SessionRef::Id(id) => Ok(id),
            SessionRef::Key(key) => current(realm.catalog(), &key)?.ok_or_else(Problem::no_session),
        })
        .await
    }

    async fn blocking<T: Send + 'static>(
        &self,
        realm: &Arc<Realm>,
        work: impl FnOnce(&Realm) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        blocking(realm, work).await
    }

    async fn change<T: Send + 'static>(
        self: &Arc<Self>,
        realm: &Arc<Realm>,
        session: &SessionRef,
        missing: OnMissing,
        _bytes: usize,
        work: impl FnOnce(&mut Session, &EditScope) -> Result<T> + Send + 'static,
    ) -> Result<Changed<T>> {
        if let Some(there) = &self.there {
            match fetch(realm, there, session).await {
                // A key that may have a session elsewhere gets no second one.
                Err(problem) if problem.code == Code::Unavailable && !is_here(realm, session).await? => {
                    return Err(problem);
                }
                fetched => unless_away(fetched)?,
            }
            unless_away(unless_held(realm, there, session).await)?;
        }
        let (of, there) = (session.clone(), self.there.clone());
        let (dir, id, value) = blocking(realm, move |realm| {
            let mut session = open(realm, &of, missing)?;
            let (dir, id) = (AgentDir::of(session.key().agent()), session.id().clone());
            if let Some(there) = &there {
                Outbox::new(realm.store().medium().clone(), &there.known_as).add(&dir, &id, there.source.now_ms())?;
            }
            let value = work(&mut session, &EditScope::default())?;
            if let Err(error) = session.close() {
                tracing::debug!(%error, "the index finds out by itself");
            }
            Ok((dir, id, value))
        })
        .await?;
        let durability = match &self.there {
            None => Durability::Disk,
            Some(there) => match send(realm, there, &dir, &id).await {
                Ok(()) => Durability::Remote,
                Err(problem) if there.is_awaited => return Err(problem),
                Err(problem) => {
                    tracing::warn!(%problem, "saved locally, not yet uploaded");
                    Durability::Disk
                }
            },
        };
        Ok(Changed { session: id, value, durability: Some(durability) })
    }

    fn needs_names(&self) -> bool {
        self.there.as_ref().is_some_and(|there| there.is_awaited)
    }

    fn present(&self, _realm: &Realm) -> Present {
        Present::default()
    }

    fn count(&self, _report: &Report) {}
}

/// Opens a session for writing; one that another program writes is asked for again for a while.
fn open(realm: &Realm, of: &SessionRef, missing: OnMissing) -> Result<Session> {
    let once = || -> Result<Session> {
        let store = realm.store();
        match (of, missing) {
            (SessionRef::Id(id), _) => Ok(store.open(&realm.entry(id)?)?),
            (SessionRef::Key(key), OnMissing::Create) => Ok(realm.catalog().load(key, OnMissing::Create)?),
            (SessionRef::Key(key), OnMissing::Fail) => {
                let id = current(realm.catalog(), key)?.ok_or_else(Problem::no_session)?;
                Ok(store.open(&realm.entry(&id)?)?)
            }
        }
    };
    for _ in 1..ATTEMPTS {
        match once() {
            Err(problem) if problem.code == Code::Busy => std::thread::sleep(PAUSE),
            opened => return opened,
        }
    }
    once()
}

async fn blocking<T: Send + 'static>(
    realm: &Arc<Realm>,
    work: impl FnOnce(&Realm) -> Result<T> + Send + 'static,
) -> Result<T> {
    let realm = realm.clone();
    let done = tokio::task::spawn_blocking(move || work(&realm)).await;
    done.unwrap_or_else(|error| Err(Problem::fallen("the store", &error)))
}

/// Whether the session is here.
async fn is_here(realm: &Arc<Realm>, of: &SessionRef) -> Result<bool> {
    let of = of.clone();
    blocking(realm, move |realm| match &of {
        SessionRef::Id(id) => Ok(realm.store().entry(id)?.is_some()),
        SessionRef::Key(key) => Ok(current(realm.catalog(), key)?.is_some()),
    })
    .await
}

/// Sees that no server or program elsewhere is writing the session: what it writes would not fit
/// behind what is added here.
async fn unless_held(realm: &Arc<Realm>, there: &Settings, of: &SessionRef) -> Result<()> {
    let of = of.clone();
    let entry = blocking(realm, move |realm| match &of {
        SessionRef::Id(id) => Ok(realm.store().entry(id)?),
        SessionRef::Key(key) => Ok(realm.catalog().current(key)?),
    });
    let Some(entry) = entry.await? else { return Ok(()) };
    let Some(id) = SessionId::parse(&entry.row.id) else { return Ok(()) };
    within(async {
        let claim = lease::look(there.remote.as_ref(), &stream(there, &entry.dir, &id)?).await?;
        match claim.filter(|claim| claim.until_ms > there.source.now_ms()) {
            None => Ok(()),
            Some(claim) => {
                let holder = claim.holder.split('#').next().unwrap_or_default();
                Err(Problem::new(Code::Busy, format!("`{holder}` is writing this session; try again")))
            }
        }
    })
    .await
}

/// What a session is called there.
fn stream(there: &Settings, dir: &AgentDir, id: &SessionId) -> Result<Stream> {
    let agent = dir.agent().unwrap_or_else(|| dir.as_str().to_owned());
    Ok(Stream::new(&there.tenant, &agent, id.as_str())?)
}

/// Sends what could not be sent before; tells whether all of it is there.
pub(super) async fn tend(realm: &Arc<Realm>, there: &Settings) -> bool {
    let waiting = match Outbox::new(realm.store().medium().clone(), &there.known_as).list() {
        Ok(waiting) => waiting,
        Err(error) => {
            tracing::debug!(%error, "what waits cannot be looked at");
            return false;
        }
    };
    let mut is_all = true;
    for one in waiting {
        if let Err(problem) = send(realm, there, &one.dir, &one.id).await {
            tracing::debug!(%problem, session = %one.id, "not there yet");
            is_all = false;
        }
    }
    is_all
}

/// The current session of a key.
fn current(store: &Store, key: &Key) -> Result<Option<SessionId>> {
    Ok(store.current(key)?.and_then(|entry| SessionId::parse(&entry.row.id)))
}

/// That the remote does not answer is no reason not to go on with what is here.
fn unless_away(fetched: Result<()>) -> Result<()> {
    match fetched {
        Err(problem) if problem.code == Code::Unavailable => {
            tracing::warn!(%problem, "what is here is all that is known now");
            Ok(())
        }
        other => other,
    }
}

async fn within<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let away = || Problem::new(Code::Unavailable, "the remote store does not answer; try again");
    tokio::time::timeout(PATIENCE, work).await.unwrap_or_else(|_| Err(away()))
}

/// Fetches what the home lacks of a session.
async fn fetch(realm: &Arc<Realm>, there: &Settings, of: &SessionRef) -> Result<()> {
    within(async {
        let (dir, id) = match of {
            SessionRef::Id(id) => match realm.store().entry(id)? {
                Some(entry) => (entry.dir, id.clone()),
                // Its id alone does not say where it is; a key leads there.
                None => return Ok(()),
            },
            SessionRef::Key(key) => match sync::find_by_key(there.remote.as_ref(), &there.tenant, key).await? {
                Some(pointer) => (AgentDir::of(key.agent()), pointer.session),
                None => return Ok(()),
            },
        };
        let (local, stream) = (Native::new(realm.store(), &dir, &id), stream(there, &dir, &id)?);
        let known = Known::of(realm, there);
        match known.uplink(there).pull(&local, &stream, Divergence::Report, &mut |_| {}).await {
            Ok(_) | Err(RemoteError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    })
    .await
}

/// Sends what the remote lacks of a session, and leads its key to it.
async fn send(realm: &Arc<Realm>, there: &Settings, dir: &AgentDir, id: &SessionId) -> Result<()> {
    within(async {
        let (local, stream) = (Native::new(realm.store(), dir, id), stream(there, dir, id)?);
        let row = realm.entry(id)?.row;
        let key = row.key.as_deref().and_then(|key| key.parse::<Key>().ok());
        let lead = match (key, row.created_ms) {
            (Some(key), Some(created_ms)) => Lead::Created { key, created_ms },
            _ => Lead::Nowhere,
        };
        let rules = PushRules { lead, ..PushRules::default() };
        Known::of(realm, there).uplink(there).push(&local, &stream, &rules, &mut |_| {}).await?;
        Ok(())
    })
    .await
}

/// What a home knows of a remote.
struct Known {
    bookmarks: Bookmarks,
    outbox: Outbox,
}

impl Known {
    fn of(realm: &Realm, there: &Settings) -> Self {
        let medium = realm.store().medium();
        Self {
            bookmarks: Bookmarks::new(medium.clone(), &there.known_as),
            outbox: Outbox::new(medium.clone(), &there.known_as),
        }
    }

    fn uplink<'a>(&'a self, there: &'a Settings) -> Uplink<'a> {
        let (remote, clock) = (there.remote.as_ref(), there.source.as_ref());
        Uplink { remote, tenant: &there.tenant, bookmarks: &self.bookmarks, outbox: &self.outbox, clock }
    }
}
