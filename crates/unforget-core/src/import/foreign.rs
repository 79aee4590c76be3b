//! A file of another program as a session of this one: new, known, or carried on.
//!
//! The original goes into the blob store byte for byte, and the header's `origin` names it by its hash. The same bytes are known when they
//! come again. A file that begins with the bytes of an earlier import has grown: it is converted anew, and if the
//! session here is the beginning of what that gives, the rest is appended, with one more `session` record for the new
//! original. If the session went on here meanwhile, both sides' words count, and the file becomes a second session.

use std::collections::HashMap;

use sha2::{Digest as _, Sha256};

use crate::directory::{Directory, Entry, Listing};
use crate::encode;
use crate::error::Result;
use crate::import::codex::Codex;
use crate::import::content::last_part;
use crate::import::conversion::{About, Conversion};
use crate::import::object::Object;
use crate::import::pi::Pi;
use crate::import::{Candidate, Format, Outcome, TOLD};
use crate::json;
use crate::key::Key;
use crate::lines;
use crate::record::{Body, Draft, Record};
use crate::scan::scan;
use crate::session::{encode_all, header_draft};

/// A foreign file as it was imported once.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mark {
    bytes: u64,
    /// The `session` record that names it.
    header: Draft,
}

/// A file and what it becomes.
struct Converted {
    conversion: Conversion,
    /// Lines that are no JSON objects, with their places.
    damage: Vec<(u64, &'static str)>,
    understood: u64,
}

/// Where a file comes from, and under which name it is known.
struct Source<'a> {
    format: Format,
    bytes: &'a [u8],
    sha256: String,
    file: String,
}

/// Imports a file of another program.
pub(super) fn import(
    store: &Directory,
    listing: &Listing,
    candidate: &Candidate,
    format: Format,
    bytes: &[u8],
) -> Result<Outcome> {
    let file = candidate.path.display().to_string();
    let source = Source { format, bytes, sha256: encode::sha256_hex(bytes), file };
    if let Some(entry) = earlier(listing, candidate, &source.sha256) {
        return Ok(Outcome::Known { id: entry.row.id.clone() });
    }
    if let Some(outcome) = grown(store, listing, candidate, &source)? {
        return Ok(outcome);
    }
    let now_ms = store.source().now_ms();
    let converted = convert(&source, first_time(bytes).unwrap_or(now_ms), &[]);
    let damaged = converted.damage.len() as u64;
    if converted.conversion.drafts().is_empty() {
        return Ok(Outcome::Empty);
    }
    if damaged > converted.understood {
        return Ok(Outcome::Refused { why: "most of its lines are no JSON objects".to_owned() });
    }
    let about = &converted.conversion.about;
    let key = match &candidate.under {
        Some(key) => key.clone(),
        None => key_of(candidate, format, about),
    };
    store.blobs().put(bytes)?;
    let created_ms = about.created_ms.or_else(|| first_time(bytes)).map_or(now_ms, |ms| ms.min(now_ms));
    let id = store.source().new_id(created_ms);
    let header = header_draft(&id, &key, candidate.label.as_deref())
        .raw("origin", &source.origin(about, damaged))
        .dated(Some(created_ms));
    let drafts = converted.conversion.drafts();
    let text = encode_all(&store.blobs(), &header, drafts, now_ms)?;
    store.adopt(&key, &id, text.as_bytes())?;
    Ok(Outcome::Imported {
        id,
        key: key.to_string(),
        records: drafts.len() as u64 + 1,
        put_right: converted.conversion.put_right(),
        left_out: converted.conversion.left_out(),
        damage: told(&converted.damage),
    })
}

impl Source<'_> {
    fn origin(&self, about: &About, damaged: u64) -> String {
        let id = about.id.as_deref().or_else(|| last_part(&self.file)).unwrap_or_default();
        let folder = about.folder.as_ref().map_or(String::new(), |cwd| format!(",\"cwd\":{}", json::quote(cwd)));
        format!(
            "{{\"format\":\"{}\",\"id\":{},\"file\":{},\"sha256\":\"{}\",\"bytes\":{},\"damaged\":{damaged}{folder}}}",
            self.format.name(),
            json::quote(id),
            json::quote(&self.file),
            self.sha256,
            self.bytes.len(),
        )
    }
}

/// The session that a file with that hash was imported as.
fn earlier<'l>(listing: &'l Listing, candidate: &Candidate, sha256: &str) -> Option<&'l Entry> {
    let wanted = candidate.under.as_ref().map(Key::to_string);
    listing
        .entries
        .iter()
        .find(|entry| entry.row.origin.as_deref() == Some(sha256) && (wanted.is_none() || entry.row.key == wanted))
}

/// Carries a session on whose file has grown; none if there is no such session.
fn grown(store: &Directory, listing: &Listing, candidate: &Candidate, source: &Source<'_>) -> Result<Option<Outcome>> {
    let Some(entry) = earlier_version(listing, candidate, source.bytes) else { return Ok(None) };
    let here = store.read(entry)?.read_all()?;
    let scanned = scan(&here);
    let Some(header) = scanned.records.first().filter(|record| matches!(record.body, Body::Session(_))) else {
        return Ok(None);
    };
    let marks: Vec<Mark> = scanned.records.iter().skip(1).filter_map(mark).collect();
    let id = crate::stamp::SessionId::parse(&entry.row.id);
    let key: Option<Key> = entry.row.key.as_deref().and_then(|key| key.parse().ok());
    let (Some(id), Some(key)) = (id, key) else { return Ok(None) };
    let created_ms = header.time_ms().unwrap_or_else(|| store.source().now_ms());
    let converted = convert(source, first_time(source.bytes).unwrap_or(created_ms), &marks);
    let damaged = converted.damage.len() as u64;
    let mut drafts = converted.conversion.drafts().to_vec();
    let first = Draft::again(header).dated(header.time_ms());
    let text = encode_all(&store.blobs(), &first, &drafts, created_ms)?;
    if here.starts_with(text.as_bytes()) {
        return Ok(Some(Outcome::Known { id: id.to_string() }));
    }
    if !text.as_bytes().starts_with(&here) {
        return Ok(None);
    }
    store.blobs().put(source.bytes)?;
    let again = header_draft(&id, &key, None).raw("origin", &source.origin(&converted.conversion.about, damaged));
    drafts.push(again.dated(Some(store.source().now_ms())));
    let text = encode_all(&store.blobs(), &first, &drafts, created_ms)?;
    let new = text.as_bytes().get(here.len()..).unwrap_or_default();
    if !store.carry_on(&entry.dir, &id, &here, new)? {
        return Ok(None);
    }
    let added = memchr::memchr_iter(b'\n', new).count() as u64;
    let left_out = converted.conversion.left_out();
    Ok(Some(Outcome::Updated { id, added, left_out, damage: told(&converted.damage) }))
}

/// The session of an earlier import whose file was the beginning of this one.
fn earlier_version<'l>(listing: &'l Listing, candidate: &Candidate, bytes: &[u8]) -> Option<&'l Entry> {
    let wanted = candidate.under.as_ref().map(Key::to_string);
    let known: HashMap<&str, &Entry> = listing
        .entries
        .iter()
        .filter(|entry| wanted.is_none() || entry.row.key == wanted)
        .filter_map(|entry| Some((entry.row.origin.as_deref()?, entry)))
        .collect();
    if known.is_empty() {
        return None;
    }
    let mut hasher = Sha256::new();
    let mut found = None;
    for line in lines::split(bytes, 0).filter(|line| line.terminated) {
        let range = usize::try_from(line.offset).ok()?..usize::try_from(line.end()).ok()?;
        hasher.update(bytes.get(range)?);
        found = known.get(encode::hex(&hasher.clone().finalize()).as_str()).copied().or(found);
    }
    found
}

/// A later `session` record that says how the foreign file had grown.
fn mark(record: &Record<'_>) -> Option<Mark> {
    let Body::Session(header) = &record.body else { return None };
    let origin = header.origin.and_then(json::members)?;
    let bytes = json::member(&origin, "bytes").and_then(json::number)?;
    Some(Mark { bytes, header: Draft::again(record).dated(record.time_ms()) })
}

/// Converts a file; the marks come where the file ended at those times.
fn convert(source: &Source<'_>, time_ms: i64, marks: &[Mark]) -> Converted {
    let mut out = Converted { conversion: Conversion::new(time_ms), damage: Vec::new(), understood: 0 };
    let (mut pi, mut codex) = (Pi::default(), Codex::default());
    let mut marks = marks.iter().peekable();
    for line in lines::split(source.bytes, 0) {
        while let Some(mark) = marks.next_if(|mark| mark.bytes <= line.offset) {
            out.conversion.push_as_it_is(mark.header.clone());
        }
        if line.len == 0 {
            continue;
        }
        if line.is_overlong() {
            out.damage.push((line.offset, "too long"));
            continue;
        }
        match Object::of_line(line.bytes) {
            Ok(object) => {
                out.understood += 1;
                match source.format {
                    Format::Codex => codex.take(&object, &mut out.conversion),
                    _ => pi.take(&object, &mut out.conversion),
                }
            }
            Err(why) => out.damage.push((line.offset, why)),
        }
    }
    for mark in marks {
        out.conversion.push_as_it_is(mark.header.clone());
    }
    out
}

/// The first time that a file tells.
fn first_time(bytes: &[u8]) -> Option<i64> {
    lines::split(bytes, 0).find_map(|line| Object::of_line(line.bytes).ok()?.time_ms("timestamp"))
}

/// The key of a session that nobody gave one: which program, and which project.
fn key_of(candidate: &Candidate, format: Format, about: &About) -> Key {
    if let Some(key) = candidate.guessed_key.as_deref().and_then(|key| key.parse().ok()) {
        return key;
    }
    let project = about.folder.as_deref().and_then(last_part).or(about.id.as_deref()).unwrap_or("unknown");
    // A name that makes no key must not lead to the conversation that people have by default.
    [project, "unknown"].iter().find_map(|peer| Key::new("main", format.name(), None, peer).ok()).unwrap_or_default()
}

fn told(damage: &[(u64, &'static str)]) -> Vec<String> {
    let mut told: Vec<String> = damage.iter().take(TOLD).map(|(offset, why)| format!("byte {offset}: {why}")).collect();
    let more = damage.len().saturating_sub(TOLD);
    if more > 0 {
        told.push(format!("and {more} more damaged places"));
    }
    told
}
