//! Writing a bundle: the transcript is read twice, once to know what it is and once to be copied.
//!
//! A session that someone writes to meanwhile grows behind what is read here; if what was read itself changes, nothing is published.

use std::collections::BTreeSet;
use std::io::{self, Write};

use super::ustar::{self, Head};
use super::{BLOBS, FORMAT, MANIFEST, Manifest, Member, Survey, TRANSCRIPT, VERSION};
use crate::blob::references;
use crate::error::{Error, Result};
use crate::lines;
use crate::reader::LogReader;
use crate::record::{Body, Record};
use crate::scan::Scanner;
use crate::stamp;
use crate::summary::{Fold, Row};

/// A payload and where it is read from.
type Payload<'a> = &'a mut dyn FnMut(&str) -> Result<Vec<u8>>;

/// The transcript that goes into a bundle.
#[derive(Debug)]
pub enum Contents<'a> {
    /// One that is on a disk, as it is.
    Stored(&'a LogReader),
    /// A copy with its secrets masked.
    Masked(&'a [u8]),
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packed {
    /// What is in the bundle.
    pub manifest: Manifest,
    /// Its size.
    pub bytes: u64,
}

/// Writes a bundle; `payload` reads one by its hash.
pub fn pack(contents: &Contents<'_>, payload: Payload<'_>, out: &mut dyn Write) -> Result<Packed> {
    let (row, wanted) = look(contents)?;
    let (Some(key), false) = (row.key.clone(), row.id.is_empty()) else {
        return Err(Error::Invalid("the transcript has no header with an id and a key; export it as jsonl".to_owned()));
    };
    let mut survey = Survey::new();
    write_transcript(contents, &mut survey).map_err(failed)?;
    let transcript = Member { name: TRANSCRIPT.to_owned(), bytes: survey.bytes, sha256: survey.sha256() };
    let mut manifest = Manifest {
        format: FORMAT.to_owned(),
        version: VERSION,
        id: row.id,
        key,
        title: row.title,
        created: row.created_ms.map(stamp::rfc3339),
        records: row.records,
        masked: matches!(contents, Contents::Masked(_)),
        frontier: survey.extent(),
        members: vec![transcript],
        missing: Vec::new(),
    };
    for sha256 in wanted {
        match payload(&sha256) {
            Ok(bytes) => {
                let bytes = bytes.len() as u64;
                manifest.members.push(Member { name: format!("{BLOBS}{sha256}"), bytes, sha256 });
            }
            Err(Error::NotFound { .. } | Error::Invalid(_)) => manifest.missing.push(sha256),
            Err(error) => return Err(error),
        }
    }
    let text = serde_json::to_string_pretty(&manifest).map_err(|error| Error::Invalid(error.to_string()))? + "\n";
    let mut counted = Counted { out, bytes: 0 };
    let time = row.updated_ms.unwrap_or(0);
    let head = |name: &str, size| Head { name: name.to_owned(), size };
    ustar::write_head(&mut counted, &head(MANIFEST, text.len() as u64), time).map_err(failed)?;
    counted.write_all(text.as_bytes()).map_err(failed)?;
    ustar::write_padding(&mut counted, text.len() as u64).map_err(failed)?;
    for member in &manifest.members {
        ustar::write_head(&mut counted, &head(&member.name, member.bytes), time).map_err(failed)?;
        let mut copied = Survey::new();
        let mut both = Both(&mut counted, &mut copied);
        match member.name.strip_prefix(BLOBS) {
            Some(sha256) => both.write_all(&payload(sha256)?),
            None => write_transcript(contents, &mut both),
        }
        .map_err(failed)?;
        if copied.sha256() != member.sha256 {
            return Err(Error::Invalid(format!("`{}` changed while it was written to the bundle", member.name)));
        }
        ustar::write_padding(&mut counted, member.bytes).map_err(failed)?;
    }
    ustar::write_end(&mut counted).map_err(failed)?;
    Ok(Packed { manifest, bytes: counted.bytes })
}

/// What the transcript says about itself, and which payloads it needs.
fn look(contents: &Contents<'_>) -> Result<(Row, BTreeSet<String>)> {
    let mut scanner = Scanner::default();
    let mut fold = Fold::default();
    let mut wanted = BTreeSet::new();
    let mut id = String::new();
    let mut take = |record: Record<'_>| {
        wanted.extend(references(&record).into_iter().flatten().map(|reference| reference.sha256));
        if let Body::Session(header) = &record.body {
            // The file that it was imported from; a masked copy does not bring it along.
            let original = header.origin_sha256().filter(|_| matches!(contents, Contents::Stored(_)));
            wanted.extend(original.filter(|sha256| is_hash(sha256)));
            if id.is_empty() {
                id = header.id.as_deref().unwrap_or_default().to_owned();
            }
        }
        fold.feed(&record);
    };
    match contents {
        Contents::Stored(reader) => {
            let mut forward = reader.forward(0);
            while let Some(line) = forward.next()? {
                scanner.feed(&line, &mut take);
            }
        }
        Contents::Masked(bytes) => lines::split(bytes, 0).for_each(|line| scanner.feed(&line, &mut take)),
    }
    Ok((fold.finish(&id, 0, 0, scanner.report.damage_count()), wanted))
}

pub(super) fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn write_transcript(contents: &Contents<'_>, out: &mut dyn Write) -> io::Result<()> {
    match contents {
        Contents::Stored(reader) => reader.write_to(out),
        Contents::Masked(bytes) => out.write_all(bytes),
    }
}

fn failed(source: io::Error) -> Error {
    Error::Io { action: "write", path: "the bundle".into(), source }
}

/// Counts what goes through.
struct Counted<'a> {
    out: &'a mut dyn Write,
    bytes: u64,
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.out.write(bytes)?;
        self.bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Two places at once; the second one takes everything.
struct Both<'a, 'b>(&'a mut Counted<'b>, &'a mut Survey);

impl Write for Both<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.0.write(bytes)?;
        self.1.write_all(&bytes[..count])?;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
