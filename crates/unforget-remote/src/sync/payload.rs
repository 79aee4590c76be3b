//! Payloads: what lines refer to goes ahead of them, both ways.
//!
//! A payload is a side stream `blob/<sha256>` of its session, in lines of base64. Its name proves it, so whoever wrote it first has written
//! what everybody would write: one that is there is left alone, one that is there in part is carried on. On the way back it is proved by its hash
//! before it is kept. A payload that nobody has any more is told, and is no reason to withhold a conversation.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use unforget_core::blob::{BlobRef, MAX_BLOB};
use unforget_core::encode;
use unforget_core::frontier::Frontier;
use unforget_core::layout;

use crate::error::{Error, Result};
use crate::sync::Link;
use crate::sync::bookmark::BATCH_BYTES;
use crate::sync::compare::proved;
use crate::sync::part::failed;

/// How much of a payload is in a line, before it is encoded: a multiple of three, so that only the last line is padded.
const LINE: usize = 3 << 18;
/// How often a payload that others send, too, is carried on.
const ATTEMPTS: usize = 8;

/// Sends the payloads that lines refer to; tells those that are not here.
pub(super) async fn send(link: &Link<'_>, lines: &[Bytes]) -> Result<Vec<String>> {
    let mut missing = Vec::new();
    for reference in references(link, lines) {
        match link.local.payload(&reference.sha256)? {
            Some(payload) => send_one(link, &reference, &payload).await?,
            None => missing.push(reference.sha256),
        }
    }
    Ok(missing)
}

/// Fetches the payloads that lines refer to and that are not here; tells those that are not there either.
pub(super) async fn fetch(link: &Link<'_>, lines: &[Bytes]) -> Result<Vec<String>> {
    let mut missing = Vec::new();
    for reference in references(link, lines) {
        if link.local.payload(&reference.sha256)?.is_some() {
            continue;
        }
        match fetch_one(link, &reference).await {
            Ok(()) => {}
            Err(Error::NotFound { .. }) => missing.push(reference.sha256),
            Err(error) => return Err(error),
        }
    }
    Ok(missing)
}

fn references(link: &Link<'_>, lines: &[Bytes]) -> Vec<BlobRef> {
    let mut seen = BTreeSet::new();
    let all = lines.iter().flat_map(|line| link.local.payloads(line));
    all.filter(|reference| seen.insert(reference.sha256.clone())).collect()
}

/// What the names of payloads begin with.
const PAYLOADS: &str = "blob/";

fn side(reference: &BlobRef) -> String {
    format!("{PAYLOADS}{}", reference.sha256)
}

/// Whether a side stream holds a payload.
pub(super) fn is_payload(side: &str) -> bool {
    side.starts_with(PAYLOADS)
}

async fn send_one(link: &Link<'_>, reference: &BlobRef, payload: &[u8]) -> Result<()> {
    let stream = link.stream.side_stream(&side(reference))?;
    let mut found = match link.remote.frontier(&stream).await {
        Ok(found) => found,
        Err(Error::NotFound { .. }) => Frontier::default(),
        Err(error) => return Err(error),
    };
    for _ in 0..ATTEMPTS {
        let mut at = Frontier::default();
        let mut batch: Vec<Bytes> = Vec::new();
        let mut after = Frontier::default();
        let mut conflict = None;
        for chunk in payload.chunks(LINE) {
            let line = Bytes::from(STANDARD.encode(chunk));
            let next = at.after(&line);
            if next.lines > found.lines {
                if at.lines == found.lines && at != found {
                    return Err(Error::Corrupt {
                        what: stream.to_string(),
                        reason: "it is another payload".to_owned(),
                    });
                }
                if batch.is_empty() {
                    after = at;
                }
                batch.push(line);
            }
            at = next;
            let is_full = at.bytes - after.bytes >= BATCH_BYTES;
            if is_full && !batch.is_empty() && at.lines > found.lines {
                match link.remote.append(&stream, &after, &batch).await {
                    Ok(_) => batch.clear(),
                    Err(Error::Conflict { found }) => {
                        conflict = Some(found);
                        break;
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        if conflict.is_none() && !batch.is_empty() {
            match link.remote.append(&stream, &after, &batch).await {
                Ok(_) => {}
                Err(Error::Conflict { found }) => conflict = Some(found),
                Err(error) => return Err(error),
            }
        }
        match conflict {
            None if found.lines <= at.lines && (found.lines < at.lines || found == at) => return Ok(()),
            None => {
                return Err(Error::Corrupt { what: stream.to_string(), reason: "it is another payload".to_owned() });
            }
            Some(elsewhere) => found = elsewhere,
        }
    }
    Err(Error::Unavailable {
        place: stream.to_string(),
        reason: "others are writing the same payload".to_owned(),
        wait: None,
    })
}

/// Fetches a payload piece by piece into a file, which takes its place when its hash is proved.
async fn fetch_one(link: &Link<'_>, reference: &BlobRef) -> Result<()> {
    let stream = link.stream.side_stream(&side(reference))?;
    let corrupt = |reason: &str| Error::Corrupt { what: stream.to_string(), reason: reason.to_owned() };
    let limit = reference.bytes.min(MAX_BLOB);
    let (mut file, mut hasher, mut len) = (None, Sha256::new(), 0_u64);
    let mut at = Frontier::default();
    // Ends with the payload's length, which a remote cannot stretch.
    while len < limit {
        let page = link.remote.read(&stream, at.lines).await?;
        proved(&stream, &at, &page)?;
        if page.lines.is_empty() {
            break;
        }
        for line in &page.lines {
            let part = STANDARD.decode(line).map_err(|_| corrupt("it is not base64"))?;
            len += part.len() as u64;
            if part.is_empty() || len > limit {
                return Err(corrupt("it is longer than it should be"));
            }
            if file.is_none() {
                file = link.local.begin_payload(&reference.sha256)?;
            }
            hasher.update(&part);
            if let Some(file) = &mut file {
                file.write(&part).map_err(|source| failed("write", &layout::blob(&reference.sha256), source))?;
            }
        }
        at = page.after;
    }
    if len < reference.bytes && len > 0 {
        // Its sender was interrupted, or is at it: the lines that refer to it come later, or they would not be there.
        return Err(Error::NotFound { what: stream.to_string() });
    }
    if encode::hex(&hasher.finalize()) != reference.sha256 {
        return Err(corrupt("its content does not match its name"));
    }
    let file = match file {
        None if len == 0 => link.local.begin_payload(&reference.sha256)?,
        file => file,
    };
    match file {
        Some(file) => file.finish().map_err(|source| failed("write", &layout::blob(&reference.sha256), source)),
        None => Ok(()),
    }
}
