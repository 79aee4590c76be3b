//! A remote that nothing is sent to before it is known that nothing is sent open to where others seal.
//!
//! Whoever starts while the remote is away cannot look; so it is looked before the first lines go, whenever that is.

use bytes::Bytes;
use unforget_core::frontier::Frontier;
use unforget_remote::{BoxFuture, Compacted, Listing, Page, Prefix, Remote, Result, Stream};

use super::Place;

/// A remote, and what has to be so before anything is sent.
pub(crate) struct Guarded(pub(crate) Place);

impl std::fmt::Debug for Guarded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Guarded({})", self.0.address)
    }
}

impl Remote for Guarded {
    fn frontier<'a>(&'a self, stream: &'a Stream) -> BoxFuture<'a, Result<Frontier>> {
        self.0.remote.frontier(stream)
    }

    fn append<'a>(
        &'a self,
        stream: &'a Stream,
        after: &'a Frontier,
        lines: &'a [Bytes],
    ) -> BoxFuture<'a, Result<Frontier>> {
        Box::pin(async move {
            self.0.ready().await?;
            self.0.remote.append(stream, after, lines).await
        })
    }

    fn read<'a>(&'a self, stream: &'a Stream, from: u64) -> BoxFuture<'a, Result<Page>> {
        self.0.remote.read(stream, from)
    }

    fn list<'a>(&'a self, prefix: &'a Prefix, cursor: Option<&'a str>) -> BoxFuture<'a, Result<Listing>> {
        self.0.remote.list(prefix, cursor)
    }

    fn delete<'a>(&'a self, stream: &'a Stream) -> BoxFuture<'a, Result<()>> {
        self.0.remote.delete(stream)
    }

    fn compact<'a>(&'a self, stream: &'a Stream) -> BoxFuture<'a, Result<Compacted>> {
        self.0.remote.compact(stream)
    }
}
