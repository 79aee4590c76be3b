//! Whether a tenant's sessions are sealed, for those who forgot to say so.
//!
//! Whoever sends something sealed leaves a sealed line in the stream `@unforget/@sealed` first. A machine without the key cannot
//! read that line, and so learns, before a word leaves it, that words are not to lie open there. A machine with the key needs no such
//! line to read: it takes nothing that is not sealed.

use bytes::Bytes;
use unforget_core::frontier::Frontier;
use unforget_remote::{Error, Prefix, Remote, Result, Stream};

pub(super) fn stream(tenant: &str) -> Result<Stream> {
    Stream::new(tenant, "@unforget", "@sealed")
}

/// Whether what this tenant has there is sealed. Asked without a key.
pub(super) async fn is_sealed(remote: &dyn Remote, tenant: &str) -> crate::failure::Result<bool> {
    match remote.read(&stream(tenant)?, 0).await {
        Err(Error::WrongKey { .. }) => Ok(true),
        Ok(_) | Err(Error::NotFound { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Sees that this machine seals what others seal, and says so to others if it seals first.
pub(super) async fn check(remote: &dyn Remote, tenant: &str, has_key: bool) -> Result<()> {
    let stream = stream(tenant)?;
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

#[cfg(test)]
mod tests {
    use unforget_remote::memory::Memory;
    use unforget_remote::{Key, Page};

    use super::*;

    /// A remote that has nothing yet when it is first read, as for somebody who was slower.
    #[derive(Debug)]
    struct Late<R>(R, std::sync::atomic::AtomicBool);

    impl<R: Remote> Remote for Late<R> {
        fn frontier<'a>(&'a self, stream: &'a Stream) -> unforget_remote::BoxFuture<'a, Result<Frontier>> {
            self.0.frontier(stream)
        }

        fn append<'a>(
            &'a self,
            stream: &'a Stream,
            after: &'a Frontier,
            lines: &'a [Bytes],
        ) -> unforget_remote::BoxFuture<'a, Result<Frontier>> {
            self.0.append(stream, after, lines)
        }

        fn read<'a>(&'a self, stream: &'a Stream, from: u64) -> unforget_remote::BoxFuture<'a, Result<Page>> {
            if self.1.swap(false, std::sync::atomic::Ordering::Relaxed) {
                return Box::pin(std::future::ready(Err(Error::NotFound { what: stream.to_string() })));
            }
            self.0.read(stream, from)
        }

        fn list<'a>(
            &'a self,
            prefix: &'a Prefix,
            cursor: Option<&'a str>,
        ) -> unforget_remote::BoxFuture<'a, Result<unforget_remote::Listing>> {
            self.0.list(prefix, cursor)
        }

        fn delete<'a>(&'a self, stream: &'a Stream) -> unforget_remote::BoxFuture<'a, Result<()>> {
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
