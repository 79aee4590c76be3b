//! What one actor has: a store, an index and payloads in a directory of their own, and a tenant of their own at the remote.
//!
//! A [`Realm`] is got with an [`ActorId`] and nothing else, and everything that reads or writes sessions takes a realm. So whose a session is needs
//! no check anywhere: an id of somebody else's session is an id that is not in this store.
//!
//! The owner's realm is the home itself, so that a server on one's own machine shows the conversations of one's own terminal. Everybody
//! else's is `actors/<name>` beneath it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use unforget_core::directory::{Directory, Entry};
use unforget_core::encode;
use unforget_core::layout::AgentDir;
use unforget_core::medium::{Medium as _, Os};
use unforget_core::stamp::{SessionId, SharedSource};
use unforget_core::store::Store;
use unforget_core::view::ViewCache;

use crate::actor::ActorId;
use crate::error::{Problem, Result};

/// The directory beneath the home that holds one directory per actor.
const ACTORS: &str = "actors";
/// The directory beneath a realm's that holds one directory of work per session, for tools.
const WORK: &str = "work";

/// Which session, within a realm.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name {
    /// The agent's directory.
    pub dir: AgentDir,
    /// The session.
    pub id: SessionId,
}

/// What one actor has.
#[derive(Debug)]
pub struct Realm {
    actor: ActorId,
    root: PathBuf,
    catalog: Store,
}

impl Realm {
    /// Whose it is.
    pub fn actor(&self) -> &ActorId {
        &self.actor
    }

    /// Where it is.
    pub fn root(&self) -> &PathBuf {
        &self.root
    }

    /// The sessions.
    pub fn store(&self) -> &Directory {
        self.catalog.directory()
    }

    /// The sessions, to be asked for.
    pub fn catalog(&self) -> &Store {
        &self.catalog
    }

    /// The folder that the tools of a session's agent work in.
    pub fn workspace(&self, session: &SessionId) -> PathBuf {
        self.root.join(WORK).join(session.as_str())
    }

    /// That folder, which is there then.
    pub fn work(&self, session: &SessionId) -> std::io::Result<PathBuf> {
        let beneath = Path::new(WORK).join(session.as_str());
        self.store().medium().create_dir(&beneath)?;
        Ok(self.root.join(beneath))
    }

    /// A session by its id.
    pub fn entry(&self, id: &SessionId) -> Result<Entry> {
        self.store().entry(id)?.ok_or_else(Problem::no_session)
    }

    /// Puts a session into the trash that has no words, if it has a transcript at all.
    pub(crate) fn discard(&self, id: &SessionId) -> Result<()> {
        match self.store().entry(id)? {
            Some(entry) => Ok(self.store().delete(&entry).map(drop)?),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
impl Realm {
    /// One whose store a test made.
    pub(crate) fn on(actor: ActorId, root: PathBuf, catalog: Store) -> Self {
        Self { actor, root, catalog }
    }
}

/// The realms of a home, those that are in use.
#[derive(Debug)]
pub struct Realms {
    home: PathBuf,
    source: SharedSource0,
    /// The memory that all open sessions of the server share.
    views: Arc<ViewCache>,
    open: Mutex<HashMap<ActorId, Weak<Realm>>>,
}

/// A source that can be shown.
#[derive(Clone)]
struct SharedSource0(SharedSource);

impl std::fmt::Debug for SharedSource0 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Source")
    }
}

impl Realms {
    /// The realms beneath a home.
    pub fn new(home: PathBuf, source: SharedSource) -> Self {
        Self { home, source: SharedSource0(source), views: Arc::default(), open: Mutex::default() }
    }

    /// The home.
    pub fn home(&self) -> &PathBuf {
        &self.home
    }

    /// The clock and source of ids.
    pub fn source(&self) -> &SharedSource {
        &self.source.0
    }

    /// The realms that are in use.
    pub fn in_use(&self) -> Vec<Arc<Realm>> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.values().filter_map(Weak::upgrade).collect()
    }

    /// All realms that there are on the disk.
    pub fn all(&self) -> Vec<Arc<Realm>> {
        let home = Os::new(self.home.clone());
        let names = match home.list(Path::new(ACTORS)) {
            Ok(names) => names,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => {
                tracing::warn!(%error, "the actors of this home cannot be listed");
                Vec::new()
            }
        };
        // One whose name is hashed cannot be told from here; it is looked at when its actor comes.
        let actors = names.iter().filter_map(|(name, _)| ActorId::verified(&encode::decode_file_name(name)?));
        std::iter::once(ActorId::owner()).chain(actors).map(|actor| self.of(&actor)).collect()
    }

    /// What an actor has. Nothing is read or created before it is used.
    pub fn of(&self, actor: &ActorId) -> Arc<Realm> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(realm) = open.get(actor).and_then(Weak::upgrade) {
            return realm;
        }
        open.retain(|_, realm| realm.strong_count() > 0);
        let root = match actor.directory() {
            None => self.home.clone(),
            Some(name) => self.home.join(ACTORS).join(name),
        };
        let catalog = Store::builder(&root).clock(self.source.0.clone()).views(self.views.clone()).unopened();
        let realm = Arc::new(Realm { actor: actor.clone(), root, catalog });
        open.insert(actor.clone(), Arc::downgrade(&realm));
        realm
    }
}
