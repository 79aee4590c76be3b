//! Sealing what lies at a remote in plain, after a person has seen it.
//!
//! With a key, a reader refuses every line that is not sealed ([`Sealing`](crate::Sealing)). A tenant that was written without a key before is brought
//! over here, stream by stream, through two views of one remote: one that also reads what lies in plain, and one that takes sealed lines only.
//!
//! A stream cannot be sealed in place: its segments are immutable. So it is copied to a sealed stage, deleted, and written anew from the
//! stage, with the same lines, positions and digests. The stage's first line says whose lines these are and where they end:
//!
//! ```text
//! {"stream":["tenant","place","session","side"],"lines":12,"bytes":3456,"digest":"…"}
//! ```
//! At any moment the stream or a whole stage is there. Interrupted anywhere, [`finish`] goes on from what it finds; repeated, nothing is left to do.
//!
//! It must not decide what is genuine: anybody who could write to the remote may have written what lies there in plain.

use bytes::Bytes;
use unforget_core::frontier::Frontier;
use unforget_core::{encode, json};

use crate::error::{Error, Result};
use crate::remote::{Remote, each_page};
use crate::stream::Stream;
use crate::sync::digest;

/// Where the stages of a tenant are.
const PLACE: &str = "@unforget";
const STAGES: &str = "@migrating";

/// One remote, seen twice.
#[derive(Debug, Clone, Copy)]
pub struct Views<'a> {
    /// Reads what is sealed and what is not; writes sealed lines.
    pub either: &'a dyn Remote,
    /// Reads and writes sealed lines only.
    pub sealed: &'a dyn Remote,
}

/// Whether a stream is a stage of a migration that was interrupted.
pub fn is_stage(stream: &Stream) -> bool {
    (stream.place(), stream.session()) == (PLACE, STAGES)
}

/// Whether all lines of a stream are sealed. Reads all of it.
pub async fn is_sealed(views: &Views<'_>, stream: &Stream) -> Result<bool> {
    match each_page(views.sealed, stream, 0, async |_| Ok(())).await {
        Ok(_) => Ok(true),
        Err(Error::NotSealed { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Seals a stream that has lines in plain; tells where it ends.
pub async fn seal(views: &Views<'_>, stream: &Stream) -> Result<Frontier> {
    let stage = stage_of(stream)?;
    let end = views.either.frontier(stream).await?;
    // An earlier stage that is whole was finished before this, so what is there is of no use.
    views.sealed.delete(&stage).await?;
    let first = Bytes::from(encode_first(stream, &end));
    let mut at = views.sealed.append(&stage, &Frontier::default(), &[first]).await?;
    let copied = each_page(views.either, stream, 0, async |page| {
        at = views.sealed.append(&stage, &at, &page.lines).await?;
        Ok(())
    })
    .await?;
    if copied != end || views.either.frontier(stream).await? != end {
        views.sealed.delete(&stage).await?;
        let reason = "another machine writes to it; stop it there, and migrate again".to_owned();
        return Err(Error::Unavailable { place: stream.to_string(), reason, wait: None });
    }
    views.either.delete(stream).await?;
    bring_back(views, &stage, stream, &end).await?;
    Ok(end)
}

/// Goes on with a stage that an interrupted migration left; tells the stream that is sealed now, if it is.
pub async fn finish(views: &Views<'_>, stage: &Stream) -> Result<Option<Stream>> {
    let first = match views.sealed.read(stage, 0).await {
        Err(Error::NotFound { .. }) => return Ok(None),
        page => page?,
    };
    let of = first.lines.first().and_then(|line| decode_first(line));
    let (stream, end) = of.ok_or_else(|| damaged(stage, "its first line does not say whose lines it has"))?;
    if stage_of(&stream)? != *stage || stream.tenant() != stage.tenant() {
        return Err(damaged(stage, "it has the lines of another stream than it is named after"));
    }
    let mut staged = Frontier::default();
    each_page(views.sealed, stage, 1, async |page| {
        staged = page.lines.iter().fold(staged, |frontier, line| frontier.after(line));
        Ok(())
    })
    .await?;
    if staged != end {
        // The stage is not whole, so the stream was not touched.
        views.sealed.delete(stage).await?;
        return Ok(None);
    }
    let found = match views.either.frontier(&stream).await {
        Ok(found) => found,
        Err(Error::NotFound { .. }) => {
            // A deletion that was cut off leaves segments behind that are seen no more, in plain.
            views.either.delete(&stream).await?;
            Frontier::default()
        }
        Err(error) => return Err(error),
    };
    if found != Frontier::default() && !is_sealed(views, &stream).await? {
        if found != end {
            // It grew since: what was staged is a beginning of it at the best, and it is staged anew.
            views.sealed.delete(stage).await?;
            return Ok(None);
        }
        views.either.delete(&stream).await?;
    }
    bring_back(views, stage, &stream, &end).await?;
    Ok(Some(stream))
}

/// Writes a stream anew from its stage, from where it ends, and removes the stage.
async fn bring_back(views: &Views<'_>, stage: &Stream, stream: &Stream, end: &Frontier) -> Result<()> {
    let mut at = match views.sealed.frontier(stream).await {
        Ok(at) => at,
        Err(Error::NotFound { .. }) => Frontier::default(),
        Err(error) => return Err(error),
    };
    if at.lines < end.lines {
        each_page(views.sealed, stage, at.lines + 1, async |page| {
            at = views.sealed.append(stream, &at, &page.lines).await?;
            Ok(())
        })
        .await?;
    }
    // Whoever went on from a part of it wrote other lines: then both stay, and a person decides.
    let is_whole = match views.sealed.read(stream, end.lines).await {
        Ok(page) => page.before == *end,
        Err(Error::Conflict { .. }) => false,
        Err(error) => return Err(error),
    };
    if !is_whole {
        return Err(damaged(stage, &format!("{stream} went on differently meanwhile; the lines that it had are here")));
    }
    views.sealed.delete(stage).await
}

fn stage_of(stream: &Stream) -> Result<Stream> {
    let name = encode::sha256_hex(stream.parts().join("\n").as_bytes());
    Stream::new(stream.tenant(), PLACE, STAGES)?.side_stream(&name)
}

fn encode_first(stream: &Stream, end: &Frontier) -> String {
    let [tenant, place, session, side] = stream.parts().map(json::quote);
    let (lines, bytes, digest) = (end.lines, end.bytes, end.hex());
    format!(
        "{{\"stream\":[{tenant},{place},{session},{side}],\"lines\":{lines},\"bytes\":{bytes},\"digest\":\"{digest}\"}}"
    )
}

fn decode_first(line: &[u8]) -> Option<(Stream, Frontier)> {
    let members = json::members(std::str::from_utf8(line).ok()?)?;
    let number = |name| json::number(json::member(&members, name)?);
    let parts = json::elements(json::member(&members, "stream")?)?;
    let parts: Vec<_> = parts.into_iter().map(json::string).collect::<Option<_>>()?;
    let [tenant, place, session, side] = parts.as_slice() else { return None };
    let digest = digest(&json::string(json::member(&members, "digest")?)?)?;
    let end = Frontier { lines: number("lines")?, bytes: number("bytes")?, digest };
    Some((Stream::of([tenant, place, session, side]).ok()?, end))
}

fn damaged(stream: &Stream, reason: &str) -> Error {
    Error::Corrupt { what: stream.to_string(), reason: reason.to_owned() }
}
