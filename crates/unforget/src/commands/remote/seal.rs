//! Whether a tenant's sessions are sealed, for those who forgot to say so.
//!
//! Whoever sends something sealed leaves a sealed line in the stream `@unforget/@sealed` first. A machine without the key cannot
//! read that line, and so learns, before a word leaves it, that words are not to lie open there. What is read needs no such
//! check: it says itself whether it is sealed.

use bytes::Bytes;
use unforget_core::frontier::Frontier;
use unforget_remote::{Error, Prefix, Remote, Result, Stream};

fn stream(tenant: &str) -> Result<Stream> {
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
        // Another machine with the same key was faster, or the check fails there and here alike.
        Ok(_) | Err(Error::Conflict { .. }) => {}
        Err(error) => return Err(error),
    }
    if !is_first {
        tracing::warn!(tenant, "what was sent before lies there open; `remote rm` and `push --again` send it sealed");
    }
    Ok(())
}
