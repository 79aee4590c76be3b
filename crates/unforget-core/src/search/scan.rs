//! The way to hits that needs nothing but the transcripts.
//!
//! A file's bytes go through the [`Sieve`] first, then each line; only what may match is heard and cut into words. A file
//! without a needle is never parsed, and neither is one that has only older records than those that are ranked. A session that changes or vanishes meanwhile is read as far as it was there; one that
//! cannot be read is told of, and hides no other.

use std::io;

use super::lineage::{Lineage, Step};
use super::said::{Ear, Said};
use super::sieve::Sieve;
use super::words::Words;
use super::{CANDIDATES, Found, Hit, Place, SearchQuery, age};
use crate::blob::{self, Blobs};
use crate::directory::Directory;
use crate::error::{Error, IoContext as _, Result};
use crate::lines::{self, Physical};
use crate::reader::{self, LogReader};
use crate::record::{Body, Record};
use crate::scan::Scanner;
use crate::summary;

/// Longer files are read line by line, twice, instead of as a whole.
const MAX_WHOLE: u64 = 32 << 20;

/// Looks into the transcripts of these sessions.
pub fn scan<'p>(store: &Directory, sessions: impl IntoIterator<Item = &'p Place>, request: &SearchQuery) -> Found {
    let looking = Looking { store, blobs: store.blobs(), sieve: Sieve::new(&request.query), request };
    let mut found = Found::default();
    let mut buffer = Vec::new();
    for place in sessions {
        match looking.look_into(place, &mut buffer, &mut found) {
            Ok(()) | Err(Error::Foreign { .. }) => {}
            Err(error) if error.is_io(io::ErrorKind::NotFound) => {}
            Err(error) => found.miss(&place.transcript(), error.to_string()),
        }
    }
    found
}

struct Looking<'s> {
    store: &'s Directory,
    blobs: Blobs,
    sieve: Sieve,
    request: &'s SearchQuery,
}

impl Looking<'_> {
    fn look_into(&self, place: &Place, buffer: &mut Vec<u8>, found: &mut Found) -> Result<()> {
        let path = place.transcript();
        let medium = self.store.medium().as_ref();
        let mut session = Session::new(self);
        if medium.read_whole(&path, MAX_WHOLE, buffer).context("read", &path)? {
            let bytes = buffer.as_slice();
            if let Some(format) = reader::foreign(bytes) {
                return Err(Error::Foreign { path, format });
            }
            let is_elsewhere = Sieve::refers_elsewhere(bytes);
            if !is_elsewhere
                && (!self.sieve.may_match(&[bytes]) || found.floor_ms.is_some_and(|ms| age::is_before(bytes, ms)))
            {
                return Ok(());
            }
            for line in lines::split(bytes, 0) {
                session.feed(&line)?;
            }
        } else {
            let reader = LogReader::open(medium, &path)?;
            if !self.any_line_may_match(&reader)? {
                return Ok(());
            }
            let mut forward = reader.forward(0);
            while let Some(line) = forward.next()? {
                session.feed(&line)?;
            }
        }
        session.finish(place, found);
        Ok(())
    }

    fn any_line_may_match(&self, reader: &LogReader) -> Result<bool> {
        let mut forward = reader.forward(0);
        while let Some(line) = forward.next()? {
            if self.may_match(line.bytes) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn may_match(&self, bytes: &[u8]) -> bool {
        Sieve::refers_elsewhere(bytes) || self.sieve.may_match(&[bytes])
    }

    /// Whether a record may match with its payloads; those that cannot be had decide nothing.
    fn may_match_with_payloads(&self, record: &Record<'_>) -> bool {
        let payloads = blob::references(record).into_iter().map(|payload| self.blobs.get(&payload?.sha256).ok());
        let Some(payloads) = payloads.collect::<Option<Vec<Vec<u8>>>>() else { return true };
        let pieces: Vec<&[u8]> =
            [record.raw.as_bytes()].into_iter().chain(payloads.iter().map(Vec::as_slice)).collect();
        self.sieve.may_match(&pieces)
    }
}

/// What is known of a session while its lines come in.
struct Session<'l> {
    looking: &'l Looking<'l>,
    scanner: Scanner,
    ear: Ear,
    lineage: Lineage,
    row: summary::Fold,
    hits: Vec<Candidate>,
    count: u64,
}

/// A hit before the end of the file is known.
struct Candidate {
    n: u64,
    offset: u64,
    step: Option<Step>,
    said: Said<'static>,
    len: usize,
}

impl<'l> Session<'l> {
    fn new(looking: &'l Looking<'l>) -> Self {
        Self {
            looking,
            scanner: Scanner::default(),
            ear: Ear::default(),
            lineage: Lineage::default(),
            row: summary::Fold::default(),
            hits: Vec::new(),
            count: 0,
        }
    }

    fn feed(&mut self, line: &Physical<'_>) -> Result<()> {
        let is_close = self.looking.may_match(line.bytes);
        let Self { looking, scanner, ear, lineage, row, hits, count } = self;
        let mut failed = None;
        scanner.feed(line, |record| {
            row.feed(&record);
            let step = lineage.feed(&record);
            // A call inside of a payload must be known when its result comes.
            let has_calls = !record.blobs.is_empty() && matches!(record.body, Body::Assistant { .. });
            let has_payloads = is_close && !record.blobs.is_empty();
            if !has_calls && (!is_close || (has_payloads && !looking.may_match_with_payloads(&record))) {
                return ear.pass(&record);
            }
            match ear.hear(&record, &looking.blobs) {
                Ok(said) => {
                    for said in said {
                        let Some(len) = looking.len_of_match(&said) else { continue };
                        *count += 1;
                        let said = Said { text: String::new().into(), ..said };
                        hits.push(Candidate { n: record.n, offset: record.offset, step, said, len });
                    }
                }
                Err(error) => failed = Some(error),
            }
        });
        if self.hits.len() >= 2 * CANDIDATES {
            self.hits.sort_by_key(|hit| std::cmp::Reverse((hit.said.at_ms, hit.n, hit.said.role)));
            self.hits.truncate(CANDIDATES);
        }
        failed.map_or(Ok(()), Err)
    }

    fn finish(self, place: &Place, found: &mut Found) {
        if self.hits.is_empty() {
            return;
        }
        let row = self.row.finish(place.id.as_str(), 0, 0, self.scanner.report.damage_count());
        if !self.looking.request.filter.takes_key(row.key.as_deref()) {
            return;
        }
        let path = self.lineage.path();
        found.count += self.count - self.hits.len() as u64;
        for hit in self.hits {
            found.push(Hit {
                place: place.clone(),
                key: row.key.clone(),
                title: row.title.clone(),
                n: hit.n,
                offset: hit.offset,
                at_ms: hit.said.at_ms,
                role: hit.said.role,
                tool: hit.said.tool,
                len: hit.len,
                // The label in a header is the session's, wherever the head is.
                is_abandoned: hit.said.role.is_step() && hit.step.is_some_and(|step| path.leaves_out(step)),
            });
        }
    }
}

impl Looking<'_> {
    /// How many tokens something has that counts and matches.
    fn len_of_match(&self, said: &Said<'_>) -> Option<usize> {
        if !self.request.filter.takes(said.role, said.tool.as_deref(), said.at_ms) {
            return None;
        }
        let words = Words::of(&said.text);
        self.request.query.matches(&words).then(|| words.len())
    }
}
