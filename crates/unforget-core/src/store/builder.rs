//! How a store is opened: the medium, the clock, what an acknowledged write survives, and whether there is an index.
//!
//! The commands, the server, the benchmarks and a program of one's own all open a store here, so a session that one of
//! them closed is up to date for the others.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::Store;
use crate::directory::Directory;
use crate::error::{Error, Result};
use crate::index::Index;
use crate::log::Durability;
use crate::medium::{Medium, Os};
use crate::observer::SessionObserver;
use crate::stamp::{SharedSource, System};
use crate::view::ViewCache;

/// A store before it is opened.
#[must_use]
pub struct Builder {
    medium: Arc<dyn Medium>,
    clock: SharedSource,
    durability: Durability,
    has_index: bool,
    views: Arc<ViewCache>,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("root", &self.medium.root()).finish_non_exhaustive()
    }
}

impl Store {
    /// Opens the store in a directory: with the system's clock, writes that survive a power cut, and an index.
    ///
    /// A directory that does not exist is an empty store. The first write creates it.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self> {
        Self::builder(dir).open()
    }

    /// The same store, of which something is to be different.
    pub fn builder(dir: impl AsRef<Path>) -> Builder {
        Builder {
            medium: Arc::new(Os::new(dir.as_ref())),
            clock: Arc::new(System),
            durability: Durability::PowerLoss,
            has_index: true,
            views: Arc::default(),
        }
    }
}

impl Builder {
    /// Sets what an acknowledged write survives.
    pub fn durability(self, durability: Durability) -> Self {
        Self { durability, ..self }
    }

    /// Sets what touches the files, instead of the file system.
    ///
    /// SQLite reads and writes the index by itself, below [`Medium::root`]. A medium whose files are not there goes
    /// with [`Builder::without_index`].
    pub fn medium(self, medium: Arc<dyn Medium>) -> Self {
        Self { medium, ..self }
    }

    /// Sets what tells the time and makes session ids.
    pub fn clock(self, clock: SharedSource) -> Self {
        Self { clock, ..self }
    }

    /// Does without an index: every answer is read from the files, and writers leave no marks for one.
    ///
    /// A program that writes without an index beside others that have one is found out by the sizes and times of its
    /// files.
    pub fn without_index(self) -> Self {
        Self { has_index: false, ..self }
    }

    /// Sets the memory that the views of open sessions share, perhaps with the sessions of other stores.
    pub fn views(self, views: Arc<ViewCache>) -> Self {
        Self { views, ..self }
    }

    /// Opens the store. Nothing is created; a file in the place of the directory is an error.
    pub fn open(self) -> Result<Store> {
        let root = self.medium.root();
        match self.medium.stat(Path::new("")) {
            Ok(_) => Ok(self.unopened()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(self.unopened()),
            Err(source) => Err(Error::Io { action: "open the store", path: root, source }),
        }
    }

    /// The store, of which nothing is looked at before it is used.
    pub fn unopened(self) -> Store {
        let index = self.has_index.then(|| Arc::new(Index::new(self.medium.clone(), self.clock.clone())));
        let observer = index.clone().map(|index| index as Arc<dyn SessionObserver>);
        let directory = Directory::new(self.medium, self.clock, self.durability).observed(observer).viewed(self.views);
        Store { directory, index }
    }
}
