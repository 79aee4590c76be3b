//! A remote that gets no line before it is known that nothing goes in plain where others encrypt.
//!
//! A machine that encrypts leaves an encrypted line in the stream `@unforget/@sealed` first. A
//! machine without the key cannot read that line, and so learns, before a word leaves it, that
//! words do not go there in plain. A machine with the key needs no such line to read: it takes
//! nothing that is not encrypted.
//!
//! A machine that starts while the remote is away cannot ask. So [`Guarded`] asks before the first
//! append, whenever that is.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::OnceCell;
use unforget_core::frontier::Frontier;

use crate::error::{Error, Result};
use crate::observed::{Metrics, Observed};
use crate::remote::{BoxFuture, Compacted, Listing, Page, Remote};
use crate::stream::{Prefix, Stream};

/// Where the line is that says that a tenant encrypts.
pub fn encryption_mark(tenant: &str) -> Result<Stream> {
    Stream::new(tenant, "@unforget", "@sealed")
}

/// Whether a tenant's lines there are encrypted, asked without a key.
pub async fn is_encrypted(remote: &dyn Remote, tenant: &str) -> Result<bool> {
    match remote.read(&encryption_mark(tenant)?, 0).await {
        Err(Error::WrongKey { .. }) => Ok(true),
        Ok(_) | Err(Error::NotFound { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Sees that this machine encrypts where others do, and says so to others if it is the first.
async fn check(remote: &dyn Remote, tenant: &str, has_key: bool) -> Result<()> {
    let stream = encryption_mark(tenant)?;
    match remote.read(&stream, 0).await {
        Err(Error::NotFound { .. }) if has_key => {}
        Ok(_) | Err(Error::NotFound { .. }) => return Ok(()),
        Err(error) => return Err(error),
    }
    let is_first = remote.list(&Prefix::tenant(tenant)?, None).await?.streams.is_empty();
    match remote.append(&stream, &Frontier::default(), &[Bytes::from_static(b"{\"sealed\":true}")]).await {
        Ok(_) => {}
        // Another machine was faster: whether its key is this one, its line tells.
        Err(Error::Conflict { .. }) => return remote.read(&stream, 0).await.map(drop),
        Err(error) => return Err(error),
    }
    if !is_first {
        tracing::warn!(
            tenant,
            "what was sent before lies there in plain and is not read any more; `unforget remote migrate` shows it and seals it"
        );
    }
    Ok(())
}

/// A remote of one tenant that is asked about encryption before the first append.
#[derive(Clone)]
pub struct Guarded(Arc<Inner>);

struct Inner {
    remote: Observed,
    tenant: String,
    has_key: bool,
    checked: OnceCell<()>,
}

impl std::fmt::Debug for Guarded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guarded").field("tenant", &self.0.tenant).finish_non_exhaustive()
    }
}

impl Guarded {
    /// Guards a remote that was opened with a key, or without one.
    pub fn new(remote: Observed, tenant: &str, has_key: bool) -> Self {
        Self(Arc::new(Inner { remote, tenant: tenant.to_owned(), has_key, checked: OnceCell::new() }))
    }

    /// Asks now, once.
    pub async fn ready(&self) -> Result<()> {
        let Inner { remote, tenant, has_key, checked } = &*self.0;
        checked.get_or_try_init(|| check(remote, tenant, *has_key)).await.copied()
    }

    /// What the remote was asked so far.
    pub fn metrics(&self) -> &Arc<Metrics> {
        self.0.remote.metrics()
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
            self.ready().await?;
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

#[cfg(test)]
mod tests {
    use crate::memory::Memory;
    use crate::seal::Key;

    use super::*;

    /// A remote that has nothing yet when it is first read, as for a machine that was slower.
    #[derive(Debug)]
    struct Late<R>(R, std::sync::atomic::AtomicBool);

    impl<R: Remote> Remote for Late<R> {
        fn frontier<'a>(&'a self, stream: &'a Stream) -> BoxFuture<'a, Result<Frontier>> {
            self.0.frontier(stream)
        }

        fn append<'a>(
            &'a self,
            stream: &'a Stream,
            after: &'a Frontier,
            lines: &'a [Bytes],
        ) -> BoxFuture<'a, Result<Frontier>> {
            self.0.append(stream, after, lines)
        }

        fn read<'a>(&'a self, stream: &'a Stream, from: u64) -> BoxFuture<'a, Result<Page>> {
            if self.1.swap(false, std::sync::atomic::Ordering::Relaxed) {
                return Box::pin(std::future::ready(Err(Error::NotFound { what: stream.to_string() })));
            }
            self.0.read(stream, from)
        }

        fn list<'a>(&'a self, prefix: &'a Prefix, cursor: Option<&'a str>) -> BoxFuture<'a, Result<Listing>> {
            self.0.list(prefix, cursor)
        }

        fn delete<'a>(&'a self, stream: &'a Stream) -> BoxFuture<'a, Result<()>> {
            self.0.delete(stream)
        }
    }

    #[test]
    fn of_two_that_seal_first_with_different_keys_one_is_refused() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let memory = Memory::default();
        let key = |byte: u8| Some(Key::parse(&format!("{byte:02x}").repeat(32)).unwrap());
        let late = |key| Late(memory.remote().sealed(key), true.into());
        runtime.block_on(async {
            check(&memory.remote().sealed(key(1)), "ann", true).await.unwrap();
            check(&late(key(1)), "ann", true).await.unwrap();
            assert!(matches!(check(&late(key(2)), "ann", true).await, Err(Error::WrongKey { .. })));
            assert!(matches!(check(&memory.remote(), "ann", false).await, Err(Error::WrongKey { .. })));
            check(&memory.remote(), "bob", false).await.unwrap();
        });
    }
}
