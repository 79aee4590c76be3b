//! Sessions of other programs, taken into the store.
//!
//! Both tutorial layouts and their record formats are understood, sessions of pi, OpenClaw and Codex, and what this program
//! exported: transcripts and bundles. An import never touches its source. The records become native ones in the order in which things
//! happened; the original file goes into the blob store byte for byte and the header refers to it, so that nothing
//! that could not be understood is lost, and the same file is not imported twice.

use std::path::Path;

use crate::directory::{Directory, Listing};
use crate::encode;
use crate::error::{Error, IoContext as _, Result};
use crate::import::recognise::HEAD;
use crate::json;
use crate::key::Key;
use crate::medium::{Medium, read_small};
use crate::reader::LogReader;
use crate::record::{Body, Record};
use crate::report::{NoteKind, Report};
use crate::scan::scan;
use crate::session;
use crate::stamp::SessionId;

mod bundle;
mod codex;
mod content;
mod conversion;
mod convert;
mod find;
mod foreign;
mod native;
mod object;
mod pi;
mod programs;
mod recognise;
mod rekey;

pub use find::{Candidate, Search, find};
pub use recognise::{Format, recognise};

/// How many damaged places are told one by one.
const TOLD: usize = 10;

/// What became of a candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is a session now.
    Imported {
        /// The new session.
        id: SessionId,
        /// Its key.
        key: String,
        /// How many records it has.
        records: u64,
        /// What was put right on the way.
        put_right: Vec<String>,
        /// What has no place in a session here; the original copy has it.
        left_out: Vec<String>,
        /// What could not be understood; the original copy has it.
        damage: Vec<String>,
    },
    /// It was here already and had grown since: the new lines were added.
    Updated {
        /// The session.
        id: SessionId,
        /// How many records were added.
        added: u64,
        /// What has no place in a session here; the original copy has it.
        left_out: Vec<String>,
        /// What is missing or damaged.
        damage: Vec<String>,
    },
    /// The same file was imported before.
    Known {
        /// As this session.
        id: String,
    },
    /// There is nothing in it.
    Empty,
    /// It belongs to someone else than it seems to.
    Refused {
        /// Why.
        why: String,
    },
}

/// Imports one candidate.
pub fn import(store: &Directory, listing: &Listing, from: &dyn Medium, candidate: &Candidate) -> Result<Outcome> {
    let head = read_small(from, &candidate.path, HEAD).context("read", &candidate.path)?;
    let format = recognise(&head);
    if format == Some(Format::Bundle) {
        return bundle::import(store, listing, from, candidate);
    }
    let bytes = LogReader::open(from, &candidate.path)?.read_all()?;
    if let Some(format @ (Format::Pi | Format::OpenClaw | Format::Codex)) = format {
        let format = candidate.format.unwrap_or(format);
        return foreign::import(store, listing, candidate, format, &bytes);
    }
    let sha256 = encode::sha256_hex(&bytes);
    let scanned = scan(&bytes);
    let Some(first) = scanned.records.first() else {
        return Ok(match scanned.report.damage_count() {
            0 => Outcome::Empty,
            _ => Outcome::Refused { why: "there is no record in it".to_owned() },
        });
    };
    // Any text has a line or two that look like records.
    let strange =
        scanned.report.damage().filter(|note| is_strange(&note.kind)).count() as u64 + scanned.report.unlisted;
    if strange > scanned.records.len() as u64 {
        return Ok(Outcome::Refused { why: "most of its lines are no records".to_owned() });
    }
    if first.version > 0 {
        return native::import(store, listing, from, candidate, &bytes, &scanned);
    }
    let key = match (&candidate.under, key_of(candidate, &scanned.records)) {
        (Some(under), _) => under.clone(),
        (None, Ok(key)) => key,
        (None, Err(why)) => return Ok(Outcome::Refused { why }),
    };
    let under = candidate.under.as_ref().map(Key::to_string);
    let known = listing
        .entries
        .iter()
        .find(|entry| entry.row.origin.as_deref() == Some(&sha256) && (under.is_none() || entry.row.key == under));
    if let Some(entry) = known {
        return Ok(Outcome::Known { id: entry.row.id.clone() });
    }
    let converted = convert::convert(&scanned.records);
    let created_ms = scanned.records.iter().find_map(Record::time_ms).or(candidate.created_ms);
    let now_ms = store.source().now_ms();
    let created_ms = created_ms.map_or(now_ms, |ms| ms.min(now_ms));
    store.blobs().put(&bytes)?;
    let origin = format!(
        "{{\"format\":\"tutorial\",\"id\":{},\"file\":{},\"sha256\":\"{sha256}\",\"bytes\":{},\"damaged\":{}}}",
        json::quote(&old_id(candidate, &scanned.records)),
        json::quote(&candidate.path.display().to_string()),
        bytes.len(),
        scanned.report.damage_count()
    );
    let id = store.source().new_id(created_ms);
    let header =
        session::header_draft(&id, &key, candidate.label.as_deref()).raw("origin", &origin).dated(Some(created_ms));
    let text = session::encode_all(&store.blobs(), &header, &converted.drafts, store.source().now_ms())?;
    store.adopt(&key, &id, text.as_bytes())?;
    let damage = told(&scanned.report);
    Ok(Outcome::Imported {
        id,
        key: key.to_string(),
        records: converted.drafts.len() as u64 + 1,
        put_right: converted.put_right,
        left_out: Vec::new(),
        damage,
    })
}

/// The key that a tutorial's session goes under; an error if its header and its index disagree.
fn key_of(candidate: &Candidate, records: &[Record<'_>]) -> std::result::Result<Key, String> {
    let header = records.iter().find_map(|record| match &record.body {
        Body::Session(header) => Some(header),
        _ => None,
    });
    let stated = header.and_then(|header| header.key.as_deref());
    if let (Some(stated), Some(listed)) = (stated, candidate.key.as_deref())
        && stated != listed
    {
        return Err(format!("its header says key `{stated}`, the index says `{listed}`"));
    }
    if let (Some(stated), Some(listed)) = (header.and_then(|header| header.id.as_deref()), candidate.id.as_deref())
        && stated != listed
    {
        return Err(format!("its header says session `{stated}`, the index says `{listed}`"));
    }
    let text = stated.or(candidate.key.as_deref()).or(candidate.guessed_key.as_deref());
    match text {
        Some(text) => {
            text.parse().or_else(|_| Key::new("main", "import", None, text)).map_err(|error| error.to_string())
        }
        None => Ok(Key::default()),
    }
}

fn old_id(candidate: &Candidate, records: &[Record<'_>]) -> String {
    let stated = records.iter().find_map(|record| match &record.body {
        Body::Session(header) => header.id.as_deref().map(str::to_owned),
        _ => None,
    });
    let stem = || candidate.path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    stated.or(candidate.id.clone()).unwrap_or_else(stem)
}

/// Whether a line is no record at all, as opposed to one that something happened to.
fn is_strange(kind: &NoteKind) -> bool {
    matches!(kind, NoteKind::Malformed(_) | NoteKind::NotAnObject | NoteKind::InvalidUtf8)
}

/// The damage in a file, the first places one by one.
fn told(report: &Report) -> Vec<String> {
    let mut lines: Vec<String> =
        report.damage().take(TOLD).map(|note| format!("{}: {}", note.place(), note.kind)).collect();
    let more = report.damage_count() - lines.len() as u64;
    if more > 0 {
        lines.push(format!("and {more} more damaged places"));
    }
    lines
}

/// Whether a file looks like a transcript.
pub(crate) fn is_transcript(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "jsonl")
}

/// An error for a path where nothing can be imported from.
pub(crate) fn nothing_at(root: &Path) -> Error {
    Error::NotFound { what: "transcript", name: root.display().to_string() }
}
