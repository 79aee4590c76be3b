//! A directory as a remote that may not be mounted.
//!
//! Whether it is there is asked before each operation: a mount point that is gone is a remote that cannot be reached, like a database that is down.
//! What was open before would go on writing somewhere that nobody looks at any more, and a directory that is made anew is an empty
//! remote in which everything seems to be deleted.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use unforget_core::frontier::Frontier;
use unforget_core::medium::Os;
use unforget_remote::file::Folder;
use unforget_remote::{BoxFuture, Compacted, Error, Listing, Page, Prefix, Remote, Result, Sealing, Stream};

/// A remote in a directory.
#[derive(Debug)]
pub(super) struct Mounted {
    path: PathBuf,
    inner: Box<dyn Remote>,
}

impl Mounted {
    pub(super) fn new(path: &Path, sealing: Sealing) -> Self {
        let inner = Box::new(Folder::new(Arc::new(Os::new(path))).remote().sealing(sealing));
        Self { path: path.to_path_buf(), inner }
    }

    /// Sees that it is there, and then does it.
    fn there<'a, T: Send + 'a>(&'a self, work: BoxFuture<'a, Result<T>>) -> BoxFuture<'a, Result<T>> {
        if self.path.is_dir() {
            return work;
        }
        let reason = format!(
            "there is no directory {}; one that is not mounted cannot be asked, a new one is made by `mkdir -p`",
            self.path.display()
        );
        let place = format!("file://{}", self.path.display());
        Box::pin(std::future::ready(Err(Error::Unavailable { place, reason, wait: None })))
    }
}

impl Remote for Mounted {
    fn frontier<'a>(&'a self, stream: &'a Stream) -> BoxFuture<'a, Result<Frontier>> {
        self.there(self.inner.frontier(stream))
    }

    fn append<'a>(
        &'a self,
        stream: &'a Stream,
        after: &'a Frontier,
        lines: &'a [Bytes],
    ) -> BoxFuture<'a, Result<Frontier>> {
        self.there(self.inner.append(stream, after, lines))
    }

    fn read<'a>(&'a self, stream: &'a Stream, from: u64) -> BoxFuture<'a, Result<Page>> {
        self.there(self.inner.read(stream, from))
    }

    fn list<'a>(&'a self, prefix: &'a Prefix, cursor: Option<&'a str>) -> BoxFuture<'a, Result<Listing>> {
        self.there(self.inner.list(prefix, cursor))
    }

    fn delete<'a>(&'a self, stream: &'a Stream) -> BoxFuture<'a, Result<()>> {
        self.there(self.inner.delete(stream))
    }

    fn compact<'a>(&'a self, stream: &'a Stream) -> BoxFuture<'a, Result<Compacted>> {
        self.there(self.inner.compact(stream))
    }
}
