//! Transcripts of this program, from an export or from another home: same id, same bytes.
//!
//! One that is here already is carried on if the file has everything that is here and more; a file that says something else
//! is refused, because both sides' words count. Payloads come along, from the folder beside an export or from the
//! other home's blob store, and are proved by their hash. Under a key that someone asks for, it is a copy (`rekey`).

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::blob::references;
use crate::directory::{Directory, Listing};
use crate::encode;
use crate::error::Result;
use crate::import::{Candidate, Outcome, rekey, told};
use crate::key::Key;
use crate::layout::{self, AgentDir};
use crate::medium::{Medium, read_small};
use crate::reader::LogReader;
use crate::record::Body;
use crate::scan::Scan;
use crate::stamp::SessionId;

pub(super) fn import(
    store: &Directory,
    listing: &Listing,
    from: &dyn Medium,
    candidate: &Candidate,
    bytes: &[u8],
    scanned: &Scan<'_>,
) -> Result<Outcome> {
    let header = scanned.records.iter().find_map(|record| match &record.body {
        Body::Session(header) => Some(header),
        _ => None,
    });
    let id = header.and_then(|header| header.id.as_deref()).and_then(SessionId::parse);
    let key: Option<Key> = header.and_then(|header| header.key.as_deref()).and_then(|key| key.parse().ok());
    let (Some(id), Some(key)) = (id, key) else {
        return Ok(Outcome::Refused { why: "its header has no usable id and key".to_owned() });
    };
    let mut damage = payloads(store, from, candidate, scanned)?;
    if let Some(under) = &candidate.under {
        return rekey::import(store, listing, under, &id, rekey::Copy { candidate, bytes, scanned, missing: damage });
    }
    damage.extend(told(&scanned.report));
    let dir = AgentDir::of(key.agent());
    if store.medium().stat(&dir.transcript(&id)).is_ok() {
        return carry_on(store, &dir, id, bytes, damage);
    }
    store.adopt(&key, &id, bytes)?;
    let records = scanned.records.len() as u64;
    Ok(Outcome::Imported { id, key: key.to_string(), records, put_right: Vec::new(), left_out: Vec::new(), damage })
}

/// Adds what the file has and the session here has not.
fn carry_on(store: &Directory, dir: &AgentDir, id: SessionId, bytes: &[u8], damage: Vec<String>) -> Result<Outcome> {
    let here = LogReader::open(store.medium().as_ref(), &dir.transcript(&id))?.read_all()?;
    if here.starts_with(bytes) {
        return Ok(Outcome::Known { id: id.to_string() });
    }
    if !bytes.starts_with(&here) || here.last() != Some(&b'\n') {
        let at = here.iter().zip(bytes).take_while(|(ours, theirs)| ours == theirs).count();
        let why = format!("session {id} is here already and goes on differently from byte {at}");
        return Ok(Outcome::Refused { why });
    }
    // Only whole lines: a torn one at the end of the file is damage there, and would be damage here.
    let end = memchr::memrchr(b'\n', bytes).map_or(0, |at| at + 1);
    let new = bytes.get(here.len()..end).unwrap_or_default();
    if !store.carry_on(dir, &id, &here, new)? {
        return Ok(Outcome::Refused { why: format!("session {id} was written to just now") });
    }
    let added = memchr::memchr_iter(b'\n', new).count() as u64;
    Ok(Outcome::Updated { id, added, left_out: Vec::new(), damage })
}

/// Brings the payloads along that the records refer to; tells which are nowhere to be found.
fn payloads(store: &Directory, from: &dyn Medium, candidate: &Candidate, scanned: &Scan<'_>) -> Result<Vec<String>> {
    let beside: PathBuf = candidate.path.with_extension("jsonl.blobs");
    let mut missing = Vec::new();
    let mut renewed: BTreeSet<String> = BTreeSet::new();
    for record in &scanned.records {
        for reference in references(record).into_iter().flatten() {
            if renewed.contains(&reference.sha256) {
                continue;
            }
            if store.blobs().renew(&reference.sha256)? {
                renewed.insert(reference.sha256);
                continue;
            }
            let places = [beside.join(&reference.sha256), layout::blob(&reference.sha256)];
            let found = places.iter().find_map(|place| {
                let payload = read_small(from, place, u64::MAX).ok()?;
                (encode::sha256_hex(&payload) == reference.sha256).then_some(payload)
            });
            match found {
                Some(payload) => drop(store.blobs().put(&payload)?),
                None => missing.push(format!("record {}: its payload {} is not there", record.n, reference.sha256)),
            }
        }
    }
    Ok(missing)
}
