//! A bundle taken into the store: proved first, then its payloads, then its transcript.
//!
//! Nothing is adopted before every member has been proved and the transcript has been found to be what the manifest says.
//! From there on it is a transcript of this program like any other: known, carried on, refused, or under a key of its own.

use std::collections::BTreeSet;

use crate::blob::references;
use crate::bundle::{Verified, verify};
use crate::directory::{Directory, Listing};
use crate::error::{Error, IoContext as _, Result};
use crate::import::{Candidate, Outcome, native};
use crate::medium::{Access, Medium};
use crate::record::Body;
use crate::scan::{Scan, scan};

pub(super) fn import(
    store: &Directory,
    listing: &Listing,
    from: &dyn Medium,
    candidate: &Candidate,
) -> Result<Outcome> {
    let file = from.open(&candidate.path, Access::Read).context("open", &candidate.path)?;
    let bundle = match verify(file.as_ref(), &candidate.path) {
        Err(Error::Invalid(why)) => return Ok(Outcome::Refused { why }),
        other => other?,
    };
    let bytes = bundle.transcript()?;
    let scanned = scan(&bytes);
    if let Err(why) = check(&bundle, &scanned) {
        return Ok(Outcome::Refused { why });
    }
    for member in bundle.payloads() {
        store.blobs().put(&bundle.payload(member)?)?;
    }
    native::import(store, listing, from, candidate, &bytes, &scanned)
}

/// Whether the transcript is the one that the manifest describes, and every payload is one of its own.
fn check(bundle: &Verified<'_>, scanned: &Scan<'_>) -> std::result::Result<(), String> {
    let manifest = &bundle.manifest;
    let mut wanted: BTreeSet<String> = BTreeSet::new();
    let mut stated = None;
    for record in &scanned.records {
        wanted.extend(references(record).into_iter().flatten().map(|reference| reference.sha256));
        if let Body::Session(header) = &record.body {
            wanted.extend(header.origin_sha256());
            stated = stated.or(Some(header));
        }
    }
    let id = stated.and_then(|header| header.id.as_deref());
    if id != Some(manifest.id.as_str()) {
        return Err(format!("`transcript.jsonl` is not session {}, as the manifest says", manifest.id));
    }
    if stated.and_then(|header| header.key.as_deref()) != Some(manifest.key.as_str()) {
        return Err(format!("`transcript.jsonl` has another key than `{}`, as the manifest says", manifest.key));
    }
    if scanned.records.len() as u64 != manifest.records {
        let (found, stated) = (scanned.records.len(), manifest.records);
        return Err(format!("`transcript.jsonl` has {found} records and not {stated}, as the manifest says"));
    }
    match bundle.payloads().find(|member| !wanted.contains(&member.sha256)) {
        Some(member) => Err(format!("no record refers to `{}`", member.name)),
        None => Ok(()),
    }
}
