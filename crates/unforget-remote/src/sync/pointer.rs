//! From a key to its session, for a machine that has never seen either.
//!
//! Every key has a stream of its own beside the sessions: `@key` in place of the session, the key's
//! text as its side. The last line names the session. A machine that sends a session late leads the
//! key by time ([`point`]): the session that was created last keeps it, as on a disk. A server that
//! begins one leads the key by comparison ([`claim`]): of two that begin at the same moment, the
//! first one has the key, and the other one joins it.
//!
//! Names that begin with `@` are never sessions; who lists a remote leaves them out.

use bytes::Bytes;
use unforget_core::encode;
use unforget_core::frontier::Frontier;
use unforget_core::json;
use unforget_core::key::Key;
use unforget_core::stamp::{self, SessionId};

use crate::error::{Error, Result};
use crate::remote::{Remote, last_line};
use crate::stream::{MAX_PART, Stream};

/// What stands in place of a session in the names of the keys' streams.
pub const KEYS: &str = "@key";
/// How often a key is read again because another machine was faster.
const ATTEMPTS: usize = 8;

/// Which session a key leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pointer {
    /// The session.
    pub session: SessionId,
    /// When it was created, in milliseconds.
    pub created_ms: i64,
}

/// Whether a stream is a session or a part of one, and not a book-keeping of this program's.
pub fn is_session(stream: &Stream) -> bool {
    !stream.session().starts_with('@')
}

/// The session that a key leads to; none if no session was ever created for it.
pub async fn find_by_key(remote: &dyn Remote, tenant: &str, key: &Key) -> Result<Option<Pointer>> {
    Ok(last(remote, &stream(tenant, key)?).await?.0)
}

/// Leads a key to a session, unless it leads to one that was created later; tells where it leads
/// then.
pub async fn point(remote: &dyn Remote, tenant: &str, key: &Key, to: &Pointer) -> Result<Pointer> {
    let stream = stream(tenant, key)?;
    for _ in 0..ATTEMPTS {
        let (now, at) = last(remote, &stream).await?;
        if let Some(now) = now.filter(|now| (now.created_ms, &now.session) >= (to.created_ms, &to.session)) {
            return Ok(now);
        }
        match remote.append(&stream, &at, &[line_of(to)]).await {
            Ok(_) => return Ok(to.clone()),
            Err(Error::Conflict { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Err(contested(&stream))
}

/// Leads a key to a session if it still leads where the caller saw it lead; tells where it leads
/// then. Of several callers that saw the same, the first one wins, whatever their clocks say.
pub async fn claim(
    remote: &dyn Remote,
    tenant: &str,
    key: &Key,
    to: &Pointer,
    seen: Option<&SessionId>,
) -> Result<Pointer> {
    let stream = stream(tenant, key)?;
    for _ in 0..ATTEMPTS {
        let (now, at) = last(remote, &stream).await?;
        match &now {
            Some(now) if now.session == to.session || Some(&now.session) != seen => return Ok(now.clone()),
            // It leads where the caller saw it lead, or nowhere: its stream was deleted with its
            // session.
            Some(_) | None => {}
        }
        // Machines that lead it by time alone must not lead it back.
        let created_ms = now.map_or(to.created_ms, |now| to.created_ms.max(now.created_ms.saturating_add(1)));
        let to = Pointer { session: to.session.clone(), created_ms };
        match remote.append(&stream, &at, &[line_of(&to)]).await {
            Ok(_) => return Ok(to),
            Err(Error::Conflict { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Err(contested(&stream))
}

fn line_of(pointer: &Pointer) -> Bytes {
    let session = json::quote(pointer.session.as_str());
    Bytes::from(format!("{{\"session\":{session},\"ts\":\"{}\"}}", stamp::rfc3339(pointer.created_ms)))
}

fn contested(stream: &Stream) -> Error {
    let reason = "other machines keep moving the key".to_owned();
    Error::Unavailable { place: stream.to_string(), reason, wait: None }
}

fn stream(tenant: &str, key: &Key) -> Result<Stream> {
    let text = key.to_string();
    let side = if text.len() > MAX_PART { format!("sha256:{}", encode::sha256_hex(text.as_bytes())) } else { text };
    Stream::new(tenant, key.agent(), KEYS)?.side_stream(&side)
}

async fn last(remote: &dyn Remote, stream: &Stream) -> Result<(Option<Pointer>, Frontier)> {
    let Some((line, at)) = last_line(remote, stream).await? else { return Ok((None, Frontier::default())) };
    let pointer = pointer(&line);
    let corrupt = || Error::Corrupt { what: stream.to_string(), reason: "its last line names no session".to_owned() };
    Ok((Some(pointer.ok_or_else(corrupt)?), at))
}

fn pointer(line: &[u8]) -> Option<Pointer> {
    let members = json::members(std::str::from_utf8(line).ok()?)?;
    let text = |name| json::string(json::member(&members, name)?);
    Some(Pointer { session: SessionId::parse(&text("session")?)?, created_ms: stamp::parse_rfc3339(&text("ts")?)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_names_no_session_is_no_pointer() {
        let good = br#"{"session":"0199-a","ts":"2026-01-01T00:00:00.000Z"}"#;
        assert_eq!(pointer(good).map(|pointer| pointer.session), SessionId::parse("0199-a"));
        for line in [&b"{}"[..], b"", b"\xff", br#"{"session":"../../x","ts":"2026-01-01T00:00:00Z"}"#] {
            assert_eq!(pointer(line), None);
        }
    }
}
