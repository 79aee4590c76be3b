//! A session as a file: its lines as they are, one JSON document, or a bundle with its payloads.
//!
//! Text that looks like a secret is masked unless the request says otherwise: most exports are for
//! another person.

use std::sync::Arc;

use serde::Deserialize;
use unforget_core::Error;
use unforget_core::bundle::{Contents, EXTENSION, pack};
use unforget_core::layout::Place;
use unforget_core::lines;
use unforget_core::masked::{self, mask_json};
use unforget_core::record::Record;
use unforget_core::stamp::SessionId;

use super::listed::{self, Present};
use super::{Access, InSession, IntoJson as _};
use crate::error::{Code, Problem, Result};
use crate::realm::Realm;

/// Asks for a session as a file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExportSession {
    format: Option<Format>,
    redact: Option<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Format {
    #[default]
    Jsonl,
    Json,
    Bundle,
}

/// Whether secrets are masked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Secrets {
    Masked,
    Shown,
}

/// A file.
#[derive(Debug)]
pub(crate) struct ExportedFile {
    pub(crate) name: String,
    /// Its media type.
    pub(crate) media: &'static str,
    pub(crate) bytes: Vec<u8>,
}

impl InSession<ExportSession> {
    /// The session in the format that the request names.
    pub(crate) async fn export<H: Access>(self, host: &Arc<H>, realm: &Arc<Realm>) -> Result<ExportedFile> {
        let format = self.what.format.unwrap_or_default();
        let secrets = if self.what.redact == Some(false) { Secrets::Shown } else { Secrets::Masked };
        let id = host.reach(realm, &self.session).await?;
        let (media, extension) = match format {
            Format::Jsonl => ("application/x-ndjson", "jsonl"),
            Format::Json => ("application/json", "json"),
            Format::Bundle => ("application/x-tar", EXTENSION),
        };
        // An id has no character that a file name or a header would have to quote.
        let name = format!("{id}.{extension}");
        let present = host.present(realm);
        let bytes = host.blocking(realm, move |realm| match format {
            Format::Jsonl => jsonl(realm, &id, secrets),
            Format::Json => document(realm, &id, secrets, &present),
            Format::Bundle => bundle(realm, &id, secrets),
        });
        Ok(ExportedFile { name, media, bytes: bytes.await? })
    }
}

fn jsonl(realm: &Realm, id: &SessionId, secrets: Secrets) -> Result<Vec<u8>> {
    let bytes = realm.store().read(&realm.entry(id)?)?.read_all()?;
    Ok(match secrets {
        Secrets::Shown => bytes,
        Secrets::Masked => masked::masked(&bytes, |hash| realm.store().blobs().get(hash).ok()).transcript,
    })
}

/// The session and all its records, payloads put back.
fn document(realm: &Realm, id: &SessionId, secrets: Secrets, present: &Present) -> Result<Vec<u8>> {
    let (entry, is_held) = listed::find(realm, Place::Agents, id)?;
    let bytes = realm.store().read(&entry)?.read_all()?;
    let blobs = realm.store().blobs();
    let clean = |text: &str| match secrets {
        Secrets::Shown => text.to_owned(),
        Secrets::Masked => mask_json(text, 0).into_owned(),
    };
    let session = clean(&present.show(realm, &entry, is_held).into_json()?);
    let mut out = format!("{{\"session\":{session},\"records\":[");
    let mut is_first = true;
    // A line that is no object has no place in a document; the list of records tells of it.
    for line in lines::split(&bytes, 0).filter(|line| lines::is_object(line.bytes)) {
        let Ok(text) = std::str::from_utf8(line.bytes) else { continue };
        let restored = match Record::parse(text, line.offset, 0) {
            Ok(record) => blobs.restore(&record, &mut Vec::new())?,
            Err(_) => None,
        };
        out.push_str(if std::mem::take(&mut is_first) { "" } else { "," });
        out.push_str(&clean(restored.as_deref().unwrap_or(text)));
    }
    out.push_str("]}\n");
    Ok(out.into_bytes())
}

fn bundle(realm: &Realm, id: &SessionId, secrets: Secrets) -> Result<Vec<u8>> {
    let entry = realm.entry(id)?;
    if entry.dir.has_sides() {
        return Err(Problem::new(Code::Conflict, "a bundle is for sessions of this program; ask for jsonl"));
    }
    let reader = realm.store().read(&entry)?;
    let blobs = realm.store().blobs();
    let copy = match secrets {
        Secrets::Shown => None,
        Secrets::Masked => Some(masked::masked(&reader.read_all()?, |hash| blobs.get(hash).ok())),
    };
    let contents = copy.as_ref().map_or(Contents::Stored(&reader), |copy| Contents::Masked(&copy.transcript));
    let mut payload = |hash: &str| match &copy {
        None => blobs.get(hash),
        Some(copy) => {
            let missing = || Error::NotFound { what: "blob", name: hash.to_owned() };
            copy.payloads.get(hash).cloned().ok_or_else(missing)
        }
    };
    let mut out = Vec::new();
    pack(&contents, &mut payload, &mut out)?;
    Ok(out)
}
