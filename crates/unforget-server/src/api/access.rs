//! How verbs reach sessions: the server through its live sessions, the pipe through the files.
//!
//! Reading never waits for a turn. A change of a session goes through the one writer that a session
//! has: in the server its live session, between two turns; over the pipe the file that this process
//! opens.

use std::sync::Arc;

use unforget_core::Error;
use unforget_core::directory::OnMissing;
use unforget_core::edit::EditScope;
use unforget_core::history::Limits;
use unforget_core::key::Key;
use unforget_core::report::Report;
use unforget_core::session::Session;
use unforget_core::stamp::SessionId;

use super::listed::Present;
use crate::app::App;
use crate::error::{Problem, Result};
use crate::hub::Watching;
use crate::live::Viewer;
use crate::protocol::After;
use crate::protocol::Durability;
use crate::realm::Realm;

/// Which session: its id, or the current one of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SessionRef {
    /// The session of an id.
    Id(SessionId),
    /// The current session of a key.
    Key(Key),
}

impl SessionRef {
    /// Reads the members `session_id` and `key`, of which a request has one.
    pub(crate) fn read(session_id: Option<&str>, key: Option<&str>) -> Result<Self> {
        match (session_id, key) {
            (Some(id), None) => SessionId::parse(id).map(Self::Id).ok_or_else(Problem::no_session),
            (None, Some(key)) => Ok(Self::Key(key.parse::<Key>().map_err(Error::from)?)),
            _ => Err(Problem::invalid("say which session: `session_id` or `key`, one of them")),
        }
    }

    /// The id, or the key, as text.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Id(id) => id.to_string(),
            Self::Key(key) => key.to_string(),
        }
    }
}

/// A session that was changed.
#[derive(Debug)]
pub(crate) struct Changed<T> {
    /// Its id.
    pub(crate) session: SessionId,
    /// What came of the change.
    pub(crate) value: T,
    /// What the change survives, where that differs from call to call.
    pub(crate) durability: Option<Durability>,
}

/// What verbs need of the process that they run in.
pub(crate) trait Access: Send + Sync + Sized + 'static {
    /// Brings the names of sessions in that other servers wrote, before a list or a search.
    fn refresh(&self, realm: &Arc<Realm>) -> impl Future<Output = ()> + Send;

    /// Brings a session in that other machines wrote, and says its id.
    fn reach(&self, realm: &Arc<Realm>, session: &SessionRef) -> impl Future<Output = Result<SessionId>> + Send;

    /// Runs what waits for the disk on a thread that may wait.
    fn blocking<T: Send + 'static>(
        &self,
        realm: &Arc<Realm>,
        work: impl FnOnce(&Realm) -> Result<T> + Send + 'static,
    ) -> impl Future<Output = Result<T>> + Send;

    /// Changes a session through its one writer; `bytes` is how much the change adds at most, for
    /// quotas.
    fn change<T: Send + 'static>(
        self: &Arc<Self>,
        realm: &Arc<Realm>,
        session: &SessionRef,
        missing: OnMissing,
        bytes: usize,
        work: impl FnOnce(&mut Session, &EditScope) -> Result<T> + Send + 'static,
    ) -> impl Future<Output = Result<Changed<T>>> + Send;

    /// Whether a call may have to be repeated because the remote did not answer, so that what it
    /// adds needs a name.
    fn needs_names(&self) -> bool {
        false
    }

    /// What this process knows of the sessions that are live in it.
    fn present(&self, realm: &Realm) -> Present;

    /// Counts what a reader met in a transcript.
    fn count(&self, report: &Report);
}

impl Access for App {
    async fn refresh(&self, realm: &Arc<Realm>) {
        self.hub.refresh(realm).await;
    }

    async fn reach(&self, realm: &Arc<Realm>, session: &SessionRef) -> Result<SessionId> {
        match session {
            SessionRef::Id(id) => {
                self.hub.fetch(realm, id).await?;
                Ok(id.clone())
            }
            SessionRef::Key(key) => {
                let key = key.clone();
                let current = self.hub.blocking(realm, move |realm| Ok(realm.catalog().current(&key)?)).await?;
                current.and_then(|entry| SessionId::parse(&entry.row.id)).ok_or_else(Problem::no_session)
            }
        }
    }

    async fn blocking<T: Send + 'static>(
        &self,
        realm: &Arc<Realm>,
        work: impl FnOnce(&Realm) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.hub.blocking(realm, work).await
    }

    async fn change<T: Send + 'static>(
        self: &Arc<Self>,
        realm: &Arc<Realm>,
        session: &SessionRef,
        _missing: OnMissing,
        bytes: usize,
        work: impl FnOnce(&mut Session, &EditScope) -> Result<T> + Send + 'static,
    ) -> Result<Changed<T>> {
        if bytes > 0 {
            self.hub.ask_store(realm, bytes).await?;
        }
        let id = self.reach(realm, session).await?;
        let held = hold(self, realm, &id).await?;
        let live = held.live();
        let room = self.hub.agents().of(&live.name().dir).room();
        let scope = EditScope { limits: room.map_or_else(Limits::default, |room| room.reach), files: None };
        let value = live.edit(move |session| work(session, &scope)).await?;
        Ok(Changed { session: id, value, durability: None })
    }

    fn present(&self, realm: &Realm) -> Present {
        Present::new(self.hub.live_ones(realm.actor()), self.prices.clone())
    }

    fn count(&self, report: &Report) {
        self.hub.shared().metrics.read(report);
    }
}

/// Watches a live session for as long as a verb works with it: the hub lets go of a session without
/// viewers.
pub(super) async fn hold(app: &App, realm: &Arc<Realm>, id: &SessionId) -> Result<Box<Viewer>> {
    match app.hub.attach(realm, id, After::End).await? {
        Watching::Here(_, viewer) => Ok(viewer),
        Watching::There(elsewhere) => Err(elsewhere.moved()),
    }
}
