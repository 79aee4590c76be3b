//! The records of a session as they are, page by page.
//!
//! A page ends with the number of its last record, and the next one begins behind it. So that no
//! record is left out and no page comes twice, a page ends neither with a line that has no number
//! of its own nor before one whose number was used before.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use unforget_core::blob::Blobs;
use unforget_core::json;
use unforget_core::masked::mask_json;
use unforget_core::reader::LogReader;
use unforget_core::record::Record;

use super::{Access, InSession, Verb, check, raw};
use crate::error::{Problem, Result};
use crate::realm::Realm;
use crate::transcript::lines::{self, Line, Numbering};

/// How many records a page has if the request does not say, and at the most.
const USUAL: usize = 100;
const MOST: usize = 1000;
/// A page with more bytes than this gets no further record.
const PAGE_BYTES: usize = 8 << 20;
/// How many bytes of a transcript are read for one page.
const BYTES_READ: u64 = 64 << 20;
/// How many kinds one request names at the most.
const MAX_KINDS: usize = 32;

/// Asks for a page of records.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListRecords {
    after: Option<u64>,
    limit: Option<u64>,
    payloads: Option<bool>,
    masked: Option<bool>,
    kinds: Option<String>,
}

/// A checked request.
struct Checked {
    after: Option<u64>,
    limit: usize,
    with_payloads: bool,
    is_masked: bool,
    kinds: Vec<String>,
}

/// A page of records.
#[derive(Debug, Serialize)]
pub struct RecordPage {
    /// The records, in the order of the file.
    pub records: Vec<NumberedRecord>,
    /// The number that the next page begins behind; none if this is the last one.
    pub next: Option<u64>,
}

/// A record and its number, or the place of a line that is none.
#[derive(Debug, Serialize)]
pub struct NumberedRecord {
    pub n: u64,
    /// The record, byte for byte unless payloads were put back or secrets masked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<Box<RawValue>>,
    /// In place of a record: where the damaged line is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub damage: Option<DamagedPlace>,
}

/// Where a damaged line is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DamagedPlace {
    /// Where it begins in the file.
    pub offset: u64,
    pub bytes: u64,
}

impl ListRecords {
    fn check(self) -> Result<Checked> {
        let kinds: Vec<String> = self.kinds.iter().flat_map(|kinds| kinds.split(',')).map(str::to_owned).collect();
        if kinds.len() > MAX_KINDS || kinds.iter().any(String::is_empty) {
            return Err(Problem::invalid(format!(
                "`kinds` is a list of at most {MAX_KINDS} names, with commas between them"
            )));
        }
        let limit = check::bounded("limit", self.limit, USUAL, MOST)?;
        let (with_payloads, is_masked) = (self.payloads == Some(true), self.masked == Some(true));
        Ok(Checked { after: self.after, limit, with_payloads, is_masked, kinds })
    }
}

impl<H: Access> Verb<H> for InSession<ListRecords> {
    type Answer = RecordPage;

    async fn call(self, host: &Arc<H>, realm: &Arc<Realm>) -> Result<RecordPage> {
        let checked = self.what.check()?;
        let id = host.reach(realm, &self.session).await?;
        let page = host.blocking(realm, move |realm| {
            let entry = realm.entry(&id)?;
            let numbering = if entry.dir.has_sides() { Numbering::Counted } else { Numbering::Own };
            page(&realm.store().read(&entry)?, numbering, &realm.store().blobs(), &checked)
        });
        page.await
    }
}

fn page(reader: &LogReader, numbering: Numbering, blobs: &Blobs, checked: &Checked) -> Result<RecordPage> {
    let mut at = lines::behind(reader, checked.after, numbering)?;
    let from = at.offset;
    let mut records: Vec<NumberedRecord> = Vec::new();
    let (mut bytes, mut last) = (0, None);
    loop {
        let (found, behind) = lines::read(reader, at, reader.len(), usize::MAX, numbering)?;
        if behind == at {
            return Ok(RecordPage { records, next: None });
        }
        for line in &found {
            let is_full = records.len() >= checked.limit || bytes >= PAGE_BYTES || line.offset - from >= BYTES_READ;
            let is_numbered = line.text.is_some() && last.is_none_or(|last| line.n > last);
            if is_full && is_numbered && last.is_some() {
                return Ok(RecordPage { records, next: last });
            }
            last = last.max(Some(line.n));
            if is_of(line, &checked.kinds) {
                let shown = shown(line, blobs, checked)?;
                bytes += shown.record.as_ref().map_or(0, |record| record.get().len());
                records.push(shown);
            }
        }
        at = behind;
    }
}

fn is_of(line: &Line, kinds: &[String]) -> bool {
    let Some(text) = line.text.as_deref().filter(|_| !kinds.is_empty()) else { return true };
    let members = json::members(text.trim_ascii()).unwrap_or_default();
    let kind = json::member(&members, "type").and_then(json::string);
    kind.is_some_and(|kind| kinds.iter().any(|wanted| *wanted == kind))
}

fn shown(line: &Line, blobs: &Blobs, checked: &Checked) -> Result<NumberedRecord> {
    let n = line.n;
    let Some(text) = &line.text else {
        let damage = DamagedPlace { offset: line.offset, bytes: line.len };
        return Ok(NumberedRecord { n, record: None, damage: Some(damage) });
    };
    let restored = match Record::parse(text, line.offset, n) {
        // A missing payload is named in its place.
        Ok(record) if checked.with_payloads => blobs.restore(&record, &mut Vec::new())?,
        _ => None,
    };
    let text = restored.as_ref().unwrap_or(text);
    let text = if checked.is_masked { mask_json(text, 0).into_owned() } else { text.clone() };
    Ok(NumberedRecord { n, record: Some(raw(text)?), damage: None })
}
