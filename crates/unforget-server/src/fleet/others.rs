//! What other servers did to the sessions of an actor: began, wrote, deleted.
//!
//! A list is asked of the local store, which knows only what was served here. So before one is
//! made, the remote is asked which sessions there are and what is new is fetched: not more often
//! than every few seconds, not for longer than a few, and if the remote is away what is here is
//! shown.
//!
//! A deletion is one at the remote. A server that still has a copy finds out when it takes the
//! session up: what it was known to have there is not there any more, and its copy goes to its
//! trash.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use unforget_core::layout::AgentDir;
use unforget_core::stamp::SessionId;
use unforget_remote::sync;
use unforget_remote::{Error, Prefix};

use super::Fleet;
use crate::error::{Code, Problem, Result};
use crate::realm::{Name, Realm};

/// How long what was fetched is taken for everything.
const FRESH: Duration = Duration::from_secs(3);
/// How long a list waits for the remote.
const PATIENCE: Duration = Duration::from_secs(5);
/// For how many actors it is remembered when they were looked after.
const REMEMBERED: usize = 4096;

impl Fleet {
    /// Has here what others began and wrote, as far as that can be had soon.
    pub(crate) async fn refresh(&self, realm: &Arc<Realm>) {
        let now = Instant::now();
        {
            let mut refreshed = self.refreshed.lock().unwrap_or_else(PoisonError::into_inner);
            if refreshed.get(realm.actor()).is_some_and(|last| now.duration_since(*last) < FRESH) {
                return;
            }
            if refreshed.len() >= REMEMBERED {
                refreshed.clear();
            }
            refreshed.insert(realm.actor().clone(), now);
        }
        match tokio::time::timeout(PATIENCE, self.fetch_all(realm)).await {
            Ok(Ok(())) => {}
            Ok(Err(problem)) => tracing::warn!(%problem, "what other servers have is not shown"),
            Err(_) => tracing::warn!("the remote takes its time; what is here is shown"),
        }
    }

    async fn fetch_all(&self, realm: &Arc<Realm>) -> Result<()> {
        let prefix = Prefix::tenant(&self.tenant(realm))?;
        let mut cursor: Option<String> = None;
        loop {
            let page = self.remote.list(&prefix, cursor.as_deref()).await?;
            for stream in page.streams.iter().filter(|stream| sync::is_session(stream) && stream.side().is_empty()) {
                let Some(id) = SessionId::parse(stream.session()) else { continue };
                let name = Name { dir: AgentDir::of(stream.place()), id };
                let medium = realm.store().medium();
                // One that was deleted here on purpose is not brought back by the way.
                if medium.stat(&name.dir.trashed(&name.id)).is_ok() {
                    continue;
                }
                let parcel = self.parcel(realm, &name)?;
                if let Err(error) = parcel.pull().await {
                    // Somebody writes it here, or it went on differently: what is here is shown.
                    tracing::debug!(%error, session = %name.id, "not fetched");
                }
            }
            match page.next {
                Some(next) if cursor.as_ref() != Some(&next) => cursor = Some(next),
                _ => return Ok(()),
            }
        }
    }

    /// Whether a session that the remote was known to have is there no more.
    pub(super) fn was_there(&self, realm: &Realm, name: &Name) -> Result<bool> {
        let known = self.parcel(realm, name)?.bookmarks.get(&name.dir, &name.id);
        Ok(known.is_some_and(|known| known.end.lines > 0))
    }

    /// Puts the copy of a session into the trash that another server deleted.
    pub(super) fn follow_deletion(&self, realm: &Realm, name: &Name) -> Result<()> {
        let parcel = self.parcel(realm, name)?;
        // A remote that lost its memory looks the same. What nobody else has is not put away.
        if parcel.is_marked() {
            let message =
                "this session is not at the remote any more, and some of it was never sent; it is kept as it is";
            return Err(Problem::new(Code::Conflict, message));
        }
        tracing::info!(session = %name.id, "deleted by another server");
        if let Some(entry) = realm.store().entry(&name.id)? {
            realm.store().delete(&entry)?;
        }
        Ok(parcel.bookmarks.forget(&name.dir, &name.id)?)
    }

    /// Deletes a session for every server; the copy that is here is for the caller to put in the
    /// trash.
    pub(crate) async fn delete(&self, realm: &Realm, name: &Name) -> Result<()> {
        let parcel = self.parcel(realm, name)?;
        let main = &parcel.stream;
        let of_session = Prefix::tenant(main.tenant())?.place(main.place())?.session(main.session())?;
        let mut cursor: Option<String> = None;
        // The session itself goes last: as long as it is there, a deletion that was cut off can be
        // repeated.
        loop {
            let page = self.remote.list(&of_session, cursor.as_deref()).await?;
            for stream in page.streams.iter().filter(|stream| !stream.side().is_empty()) {
                self.remote.delete(stream).await?;
            }
            match page.next {
                Some(next) if cursor.as_ref() != Some(&next) => cursor = Some(next),
                _ => break,
            }
        }
        match self.remote.delete(main).await {
            Ok(()) | Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        parcel.outbox.remove(&name.dir, &name.id)?;
        Ok(parcel.bookmarks.forget(&name.dir, &name.id)?)
    }

    /// Deletes a session that lost its key to another one before anything was said in it.
    pub(crate) async fn discard(&self, realm: &Realm, name: &Name) -> Result<()> {
        if let Err(problem) = self.delete(realm, name).await {
            // It is empty, and no key leads to it.
            tracing::debug!(%problem, session = %name.id, "an empty session stays at the remote");
        }
        realm.discard(&name.id)
    }

    /// Sends a session that was brought back from the trash, all of it.
    pub(crate) async fn bring_back(&self, realm: &Realm, name: &Name) -> Result<()> {
        let parcel = self.parcel(realm, name)?;
        // Its sides, too: the files are the same ones as before, so what is remembered of them
        // would still hold.
        sync::forget(&parcel.link())?;
        parcel.send().await.map_err(Problem::from)
    }
}
