//! A transcript of this program under another key: a session of its own, with an id of its own.
//!
//! Numbers, parents and times stay; the header is written anew and its `origin` says where it comes from, as a fork's
//! does, so that what the copied records cost is not counted twice. The checksums follow the new header. Lines that are
//! damaged are not copied; then the original file goes to the blob store, byte for byte.

use crate::directory::{Directory, Listing};
use crate::encode;
use crate::error::Result;
use crate::import::{Candidate, Outcome, told};
use crate::json;
use crate::key::Key;
use crate::rechain::Rechain;
use crate::record::{Body, Draft, Envelope, Header, Record};
use crate::scan::Scan;
use crate::stamp::SessionId;

/// A file that is to become a session under a key.
pub(super) struct Copy<'a> {
    pub(super) candidate: &'a Candidate,
    pub(super) bytes: &'a [u8],
    pub(super) scanned: &'a Scan<'a>,
    /// Payloads that are nowhere to be found.
    pub(super) missing: Vec<String>,
}

pub(super) fn import(
    store: &Directory,
    listing: &Listing,
    key: &Key,
    old: &SessionId,
    copy: Copy<'_>,
) -> Result<Outcome> {
    let Copy { candidate, bytes, scanned, missing } = copy;
    let sha256 = encode::sha256_hex(bytes);
    let name = key.to_string();
    let same = |row: &crate::summary::Row| row.origin.as_deref() == Some(&sha256) && row.key.as_ref() == Some(&name);
    if let Some(entry) = listing.entries.iter().find(|entry| same(&entry.row)) {
        return Ok(Outcome::Known { id: entry.row.id.clone() });
    }
    let damaged = scanned.report.damage_count();
    if damaged > 0 {
        store.blobs().put(bytes)?;
    }
    let now_ms = store.source().now_ms();
    let created_ms = scanned.records.iter().find_map(Record::time_ms).map_or(now_ms, |ms| ms.min(now_ms));
    let id = store.source().new_id(created_ms);
    let copied = scanned.records.iter().map(|record| record.n).max().unwrap_or(0).saturating_add(1);
    let mut is_first = true;
    let mut lines = Rechain::default();
    for record in &scanned.records {
        let Body::Session(header) = &record.body else {
            lines.push(record.raw);
            continue;
        };
        let origin = if std::mem::replace(&mut is_first, false) {
            let file = json::quote(&candidate.path.display().to_string());
            let before = header.origin.map_or(String::new(), |origin| format!(",\"origin\":{origin}"));
            Some(format!(
                "{{\"format\":\"unforget\",\"id\":{},\"file\":{file},\"sha256\":\"{sha256}\",\"bytes\":{},\"damaged\":{damaged},\"copied\":{copied}{before}}}",
                json::quote(old.as_str()),
                bytes.len()
            ))
        } else {
            header.origin.map(str::to_owned)
        };
        let draft = rewritten(record, header, &id, key, origin.as_deref());
        let now_ms = record.time_ms().unwrap_or(created_ms);
        let envelope = Envelope { n: record.n, parent: None, now_ms, previous_crc: lines.previous() };
        lines.push(draft.encode(envelope, &[]).trim_end());
    }
    store.adopt(key, &id, lines.finish().as_bytes())?;
    let mut damage = missing;
    damage.extend(told(&scanned.report));
    let records = scanned.records.len() as u64;
    Ok(Outcome::Imported { id, key: name, records, put_right: Vec::new(), left_out: Vec::new(), damage })
}

/// A header with another id, key and origin; all else that it says stays.
fn rewritten(record: &Record<'_>, header: &Header<'_>, id: &SessionId, key: &Key, origin: Option<&str>) -> Draft {
    let old = Draft::again(record);
    let mut draft = Draft::new("session").text("id", id.as_str()).text("key", &key.to_string());
    if let Some(label) = &header.label {
        draft = draft.text("label", label);
    }
    if let Some(origin) = origin {
        draft = draft.raw("origin", origin);
    }
    let kept = old.members().iter().filter(|(name, _)| !["id", "key", "label", "origin"].contains(&name.as_str()));
    kept.fold(draft, |draft, (name, value)| draft.raw(name, value))
}
