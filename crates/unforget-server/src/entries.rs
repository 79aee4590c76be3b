//! The session store that SDKs of agents ask for: entries of transcripts, appended and loaded, byte for byte.
//!
//! These are not the sessions that this program keeps itself, and they are in an area of their own, `entries` beneath the realm. A transcript
//! that is kept by copying Claude Code's own file is that file, line by line, and whoever restores it relies on that. What an SDK hands over is the same
//! conversation without some of its lines, under a key of the SDK's choosing: one session id may come in two projects, ids and
//! projects may be any text, and what is deleted has to be gone with everything beneath it, so that the same key can begin anew. Both in one place would be
//! two histories of one file that contradict each other. Apart, each keeps its promise: nothing is shared, and a project's name is exact.
//!
//! What is on this machine is in `here`; with a remote, `there` has it fetched before it is asked for and sent when it was appended. What is said
//! of entries is what both say together, and never that there is nothing because there was no answer.
//!
//! Nothing here knows HTTP or a pipe.

use std::sync::Arc;

use crate::error::{Code, Problem, Result};
use crate::protocol::Durability;
use crate::realm::Realm;

mod fold;
mod here;
mod known;
mod merge;
mod page;
mod place;
mod there;

pub use fold::Spelling;
use here::Here;
pub use here::Listed;
pub use page::Page;
pub use place::Key;
use place::Place;
pub use there::Settings;
use there::There;

/// The store.
#[derive(Debug, Default)]
pub struct Entries {
    here: Arc<Here>,
    there: Option<Arc<There>>,
}

impl Entries {
    /// Entries that are here and there.
    pub fn with_remote(settings: Settings) -> Self {
        Self { here: Arc::default(), there: Some(Arc::new(There::new(settings))) }
    }

    /// Does what waits for the disk, beside.
    async fn blocking<T: Send + 'static>(
        &self,
        realm: &Arc<Realm>,
        work: impl FnOnce(&Here, &Realm) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (here, realm) = (self.here.clone(), realm.clone());
        let done = tokio::task::spawn_blocking(move || work(&here, &realm)).await;
        done.unwrap_or_else(|error| Err(Problem::fallen("the store of entries", &error)))
    }

    /// Appends entries, each the text of a JSON object. They are on the disk when this returns, all of them, and tells whether they are at the remote.
    pub async fn append<E>(&self, realm: &Arc<Realm>, key: &Key, entries: Vec<E>) -> Result<Durability>
    where
        E: AsRef<str> + Send + 'static,
    {
        let Some(there) = self.there.clone() else {
            self.append_here(realm, key, entries, None).await?;
            return Ok(Durability::Disk);
        };
        if entries.is_empty() && !there.is_awaited() {
            return Ok(Durability::Disk);
        }
        let wanted = key.clone();
        if !self.blocking(realm, move |here, realm| here.has(realm, &wanted)).await? {
            // Others may have begun it. If nobody answers, both are put together later.
            match there.bring(realm, key).await {
                Err(problem) if problem.code == Code::Unavailable => tracing::debug!(%problem, "begun without a look"),
                brought => brought?,
            }
        }
        // What was refused for lack of the remote is here already.
        let batch = (there.is_awaited() && !entries.is_empty()).then(|| here::digest(&entries));
        let is_new = batch.is_none_or(|batch| !there.was_refused(realm, key, batch));
        if is_new && !entries.is_empty() {
            self.append_here(realm, key, entries, Some(there.clone())).await?;
        }
        match there.send(realm, key).await {
            Ok(()) => Ok(Durability::Remote),
            Err(problem) if there.is_awaited() => {
                if let Some(batch) = batch {
                    there.refuse(realm, key, batch);
                }
                Err(problem)
            }
            Err(problem) => {
                tracing::warn!(%problem, "saved here, not yet there");
                Ok(Durability::Disk)
            }
        }
    }

    async fn append_here<E>(
        &self,
        realm: &Arc<Realm>,
        key: &Key,
        entries: Vec<E>,
        there: Option<Arc<There>>,
    ) -> Result<()>
    where
        E: AsRef<str> + Send + 'static,
    {
        let (key, marked) = (key.clone(), realm.clone());
        self.blocking(realm, move |here, realm| {
            let entries: Vec<&str> = entries.iter().map(AsRef::as_ref).collect();
            here::check(&entries)?;
            if let Some(there) = &there {
                there.mark(&marked, &key)?;
            }
            here.append(realm, &key, &entries)?;
            // Whoever saw the mark and not yet the entries may have taken it away.
            there.map_or(Ok(()), |there| there.mark(&marked, &key))
        })
        .await
    }

    /// Has here what is there of a key, if there is a remote. Without an answer, what is here is all that can be said, if there is anything.
    async fn bring(&self, realm: &Arc<Realm>, key: &Key) -> Result<()> {
        let Some(there) = &self.there else { return Ok(()) };
        let brought = there.bring(realm, key).await;
        let wanted = key.clone();
        self.unless_here(brought, realm, move |here, realm| here.has(realm, &wanted)).await
    }

    async fn unless_here(
        &self,
        brought: Result<()>,
        realm: &Arc<Realm>,
        is_here: impl FnOnce(&Here, &Realm) -> Result<bool> + Send + 'static,
    ) -> Result<()> {
        match brought {
            Err(problem) if problem.code == Code::Unavailable && self.blocking(realm, is_here).await? => {
                tracing::warn!(%problem, "what is here is all that is known now");
                Ok(())
            }
            other => other,
        }
    }

    /// The entries, as the text of a JSON list; none if nothing was ever written.
    pub async fn load(&self, realm: &Arc<Realm>, key: &Key) -> Result<Option<String>> {
        self.bring(realm, key).await?;
        let key = key.clone();
        self.blocking(realm, move |here, realm| here.load(realm, &key)).await
    }

    /// A page of entries behind a cursor; none if nothing was ever written.
    pub async fn read(&self, realm: &Arc<Realm>, key: &Key, cursor: Option<String>) -> Result<Option<Page>> {
        // What comes behind a page that said that there is more is here already.
        self.bring(realm, key).await?;
        let key = key.clone();
        self.blocking(realm, move |_, realm| page::read(realm.store().medium().as_ref(), &key, cursor.as_deref())).await
    }

    /// The sessions of a project.
    pub async fn list(&self, realm: &Arc<Realm>, project_key: &str, spelling: Spelling) -> Result<Vec<Listed>> {
        if Key::new(project_key.to_owned(), "any".to_owned(), None).is_err() {
            // Nothing can be there.
            return Ok(Vec::new());
        }
        let project = project_key.to_owned();
        if let Some(there) = &self.there {
            let (brought, project) = (there.bring_project(realm, project_key).await, project.clone());
            self.unless_here(brought, realm, move |here, realm| here.has_project(realm, &project)).await?;
        }
        self.blocking(realm, move |here, realm| here.list(realm, &project, spelling)).await
    }

    /// What there is beneath a session.
    pub async fn list_subkeys(&self, realm: &Arc<Realm>, key: &Key) -> Result<Vec<String>> {
        let key = key.clone();
        if let Some(there) = &self.there {
            let (brought, wanted) = (there.bring_sides(realm, &key).await, key.clone());
            self.unless_here(brought, realm, move |here, realm| here.has(realm, &wanted)).await?;
        }
        self.blocking(realm, move |here, realm| here.list_subkeys(realm, &key)).await
    }

    /// Deletes a session with everything beneath it, or one thing beneath it. What was never written is deleted already.
    pub async fn delete(&self, realm: &Arc<Realm>, key: &Key) -> Result<()> {
        match &self.there {
            Some(there) => there.delete(&self.here, realm, key).await,
            None => {
                let place = Place::of(key);
                self.blocking(realm, move |here, realm| here.delete(realm, &place)).await
            }
        }
    }

    /// Looks whether an earlier process left something that is not there yet.
    pub fn look(&self, realm: &Arc<Realm>) -> Result<()> {
        self.there.as_ref().map_or(Ok(()), |there| there.look(realm))
    }

    /// Sends what may not be there yet; to be called now and then. Tells whether all of it is there.
    pub async fn tend(&self) -> bool {
        match &self.there {
            Some(there) => there.tend(false).await,
            None => true,
        }
    }

    /// The same, when nothing is appended any more.
    pub async fn end(&self) -> bool {
        match &self.there {
            Some(there) => there.tend(true).await,
            None => true,
        }
    }

    /// Whether something may not be there yet.
    pub fn is_behind(&self) -> bool {
        self.there.as_ref().is_some_and(|there| there.is_behind())
    }
}

#[cfg(test)]
mod tests;
