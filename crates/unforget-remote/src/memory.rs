//! A remote in memory, for tests: what it holds is gone with the process.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::error::Result;
use crate::objects::{Kind, Names, ObjectShelf, Objects, Part, too_large};
use crate::packed::Packed;

/// Objects in memory; clones are the same place.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    objects: Arc<Mutex<BTreeMap<String, Bytes>>>,
}

impl Memory {
    /// A remote on this place.
    pub fn remote(&self) -> Packed<ObjectShelf<Self>> {
        Packed::new(ObjectShelf::new(self.clone()))
    }

    /// All objects by their paths.
    pub fn objects(&self) -> MutexGuard<'_, BTreeMap<String, Bytes>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Objects for Memory {
    fn name(&self) -> String {
        "the memory".to_owned()
    }

    async fn create(&self, path: &str, bytes: Bytes) -> Result<bool> {
        let mut objects = self.objects();
        let is_new = !objects.contains_key(path);
        if is_new {
            objects.insert(path.to_owned(), bytes);
        }
        Ok(is_new)
    }

    async fn replace(&self, path: &str, bytes: Bytes) -> Result<()> {
        self.objects().insert(path.to_owned(), bytes);
        Ok(())
    }

    async fn read(&self, path: &str, part: Part) -> Result<Option<Bytes>> {
        let limit = usize::try_from(part.limit()).unwrap_or(usize::MAX);
        match self.objects().get(path) {
            Some(bytes) if part == Part::Whole && bytes.len() > limit => Err(too_large(&self.name(), path)),
            found => Ok(found.map(|bytes| bytes.slice(..bytes.len().min(limit)))),
        }
    }

    async fn names(&self, dir: &str, kind: Kind, behind: Option<&str>, most: usize) -> Result<Names> {
        let prefix = format!("{dir}/");
        let objects = self.objects();
        let from = format!("{prefix}{}", if kind == Kind::Object { behind.unwrap_or_default() } else { "" });
        let names = objects.range(from..).map_while(|(path, _)| path.strip_prefix(&prefix));
        let is_behind = |name: &&str| behind.is_none_or(|behind| *name > behind);
        let mut names: Vec<String> = match kind {
            Kind::Object => {
                names.filter(|name| !name.contains('/')).filter(is_behind).take(most + 1).map(str::to_owned).collect()
            }
            Kind::Directory => {
                names.filter_map(|rest| Some(rest.split_once('/')?.0)).filter(is_behind).map(str::to_owned).collect()
            }
        };
        // `a-b` stands before `a/c`, so names of directories may come back in another order than their paths.
        names.sort();
        names.dedup();
        let has_more = names.len() > most;
        names.truncate(most);
        Ok(Names { names, has_more })
    }

    async fn remove(&self, path: &str) -> Result<()> {
        self.objects().remove(path);
        Ok(())
    }
}
