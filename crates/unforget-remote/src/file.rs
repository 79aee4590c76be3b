//! A remote in a directory: a shared disk, or a place for tests. Written with the same care as the transcripts themselves.

use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use unforget_core::medium::{Access, FileKind, Medium, parent, publish_durable, read_full, replace_durable};

use crate::error::{Error, Result};
use crate::objects::{Kind, Names, ObjectShelf, Objects, Part, too_large};
use crate::packed::Packed;
use crate::segment::room_for;

/// Objects in a directory.
#[derive(Debug, Clone)]
pub struct Folder {
    medium: Arc<dyn Medium>,
}

impl Folder {
    /// Objects in the directory that a medium is of.
    pub fn new(medium: Arc<dyn Medium>) -> Self {
        Self { medium }
    }

    /// A remote on this place.
    pub fn remote(&self) -> Packed<ObjectShelf<Self>> {
        Packed::new(ObjectShelf::new(self.clone()))
    }

    /// Does something with files where waiting for them holds up nobody.
    async fn wait<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Medium) -> io::Result<T> + Send + 'static,
    ) -> Result<T> {
        let medium = self.medium.clone();
        let done = tokio::task::spawn_blocking(move || work(medium.as_ref())).await;
        let done = done.unwrap_or_else(|error| Err(io::Error::other(error)));
        done.map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Error::Denied { place: self.name(), reason: error.to_string() }
            }
            _ => Error::Unavailable { place: self.name(), reason: error.to_string(), wait: None },
        })
    }
}

impl Objects for Folder {
    fn name(&self) -> String {
        format!("`{}`", self.medium.root().display())
    }

    async fn create(&self, path: &str, bytes: Bytes) -> Result<bool> {
        let path = Path::new(path).to_path_buf();
        self.wait(move |medium| {
            medium.create_dir(parent(&path))?;
            publish_durable(medium, &path, &bytes)
        })
        .await
    }

    async fn replace(&self, path: &str, bytes: Bytes) -> Result<()> {
        let path = Path::new(path).to_path_buf();
        self.wait(move |medium| replace_durable(medium, &path, &bytes)).await
    }

    async fn read(&self, path: &str, part: Part) -> Result<Option<Bytes>> {
        let named = path;
        let path = Path::new(path).to_path_buf();
        let read = self.wait(move |medium| {
            let file = match medium.open(&path, Access::Read) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                file => file?,
            };
            let len = file.stat()?.len;
            if part == Part::Whole && len > part.limit() {
                return Ok(Some(None));
            }
            let most = usize::try_from(len.min(part.limit())).map_err(io::Error::other)?;
            let mut bytes = room_for(most);
            bytes.resize(most, 0);
            let filled = read_full(file.as_ref(), &mut bytes, 0)?;
            bytes.truncate(filled);
            Ok(Some(Some(Bytes::from(bytes))))
        });
        match read.await? {
            Some(None) => Err(too_large(&self.name(), named)),
            found => Ok(found.flatten()),
        }
    }

    async fn names(&self, dir: &str, kind: Kind, behind: Option<&str>, most: usize) -> Result<Names> {
        let (dir, behind) = (Path::new(dir).to_path_buf(), behind.map(str::to_owned));
        self.wait(move |medium| {
            let listed = match medium.list(&dir) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
                listed => listed?,
            };
            // What is still being written has a name with a dot in it.
            let wanted = if kind == Kind::Object { FileKind::File } else { FileKind::Directory };
            let is_wanted = |name: &str, kind: FileKind| kind == wanted && !name.contains('.');
            let mut names: Vec<String> = listed
                .into_iter()
                .filter(|(name, kind)| is_wanted(name, *kind) && behind.as_ref().is_none_or(|behind| name > behind))
                .map(|(name, _)| name)
                .collect();
            names.sort();
            let has_more = names.len() > most;
            names.truncate(most);
            Ok(Names { names, has_more })
        })
        .await
    }

    async fn remove(&self, path: &str) -> Result<()> {
        let path = Path::new(path).to_path_buf();
        self.wait(move |medium| match medium.remove(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.and_then(|()| medium.sync_dir(parent(&path))),
        })
        .await
    }
}
