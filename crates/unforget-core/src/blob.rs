//! Payloads too large for a line, in files named by their content.
//!
//! A value over the limit is written to `blobs/<xx>/<sha256>` before the line that refers to it, and the
//! line keeps its hash, size and the beginning of it. The places where such references stand are listed in the line's
//! `blobs` member, which only the writer sets: an object that merely looks like a reference, in a model's
//! arguments or a tool's output, stays what it is.

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::encode;
use crate::error::{Error, IoContext as _, Result};
use crate::json;
use crate::layout;
use crate::medium::{Medium, Replacement, parent, read_small, replace_durable};
use crate::record::{Body, Draft, Record};
use crate::report::{Note, NoteKind};

/// Values longer than this leave the line.
pub const BLOB_LIMIT: usize = 256 * 1024;
/// The members that hold payloads; all others stay in the line.
const PAYLOADS: [&str; 6] = ["content", "output", "input", "system", "tools", FULL];
/// The whole output of a tool, of which `output` has the ends. It leaves the line whatever its size, and comes back only
/// when someone asks for it: the model sees `output`.
pub const FULL: &str = "full";
/// What was and what is in a file of the workspace, in `file` records: kept outside of the line like `full`.
pub const FILE_PAYLOADS: [&str; 2] = ["before", "after"];
/// The largest blob that is read back.
pub const MAX_BLOB: u64 = 1 << 30;
/// How much of a payload stays in the line.
const PREVIEW_CHARS: usize = 200;

/// The blob store.
#[derive(Debug, Clone)]
pub struct Blobs {
    medium: Arc<dyn Medium>,
}

/// The reference that stands in a line in place of a payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobRef {
    /// SHA-256 of the payload, in hexadecimal.
    pub sha256: String,
    /// Its length.
    pub bytes: u64,
}

impl BlobRef {
    /// Reads a reference from its JSON text.
    pub fn parse(raw: &str) -> Option<Self> {
        let members = json::members(raw)?;
        let sha256 = json::string(json::member(&members, "sha256")?)?.into_owned();
        let is_hash = sha256.len() == 64 && sha256.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        is_hash.then_some(())?;
        Some(Self { sha256, bytes: json::number(json::member(&members, "bytes")?)? })
    }
}

impl Blobs {
    /// The blob store of a medium.
    pub fn new(medium: Arc<dyn Medium>) -> Self {
        Self { medium }
    }

    /// Stores a payload durably and returns its hash.
    pub fn put(&self, bytes: &[u8]) -> Result<String> {
        let hash = encode::sha256_hex(bytes);
        let path = layout::blob(&hash);
        if bytes.len() as u64 > MAX_BLOB {
            return Err(Error::Invalid(format!("a payload of {} bytes is too large to be kept", bytes.len())));
        }
        self.medium.create_dir(parent(&path)).context("create", parent(&path))?;
        match self.get(&hash) {
            // One that is there is written again, which makes it young: nobody may take it for one that is referred to no more.
            // Named by its content, a damaged one can only be mended by being replaced.
            Ok(_) | Err(Error::NotFound { .. } | Error::Invalid(_)) => {
                replace_durable(self.medium.as_ref(), &path, bytes).context("write", &path)?;
            }
            Err(error) => return Err(error),
        }
        Ok(hash)
    }

    /// Begins a payload that comes piece by piece; whoever writes it proves its hash before it is finished.
    pub fn begin(&self, hash: &str) -> Result<Replacement> {
        let path = layout::blob(hash);
        self.medium.create_dir(parent(&path)).context("create", parent(&path))?;
        Replacement::begin(self.medium.clone(), &path).context("write", &path)
    }

    /// Writes a payload again that a new transcript is about to refer to, so that nobody takes it for one that is referred
    /// to no more; says whether it is there, and whole.
    pub(crate) fn renew(&self, hash: &str) -> Result<bool> {
        match self.get(hash) {
            Ok(bytes) => self.put(&bytes).map(|_| true),
            Err(_) => Ok(false),
        }
    }

    /// [`Blobs::restore`] for a view: none for a line none of whose payloads a model is shown. It says where they are.
    pub(crate) fn restore_shown(&self, record: &Record<'_>, notes: &mut Vec<Note>) -> Result<Option<String>> {
        let stays = |pointer: &Cow<'_, str>| pointer.strip_prefix('/').is_some_and(|name| stays_aside(record, name));
        if record.blobs.iter().all(stays) { Ok(None) } else { self.restore(record, notes) }
    }

    /// Reads a payload back and proves that it is the one.
    pub fn get(&self, hash: &str) -> Result<Vec<u8>> {
        let path: PathBuf = layout::blob(hash);
        let bytes = match read_small(self.medium.as_ref(), &path, MAX_BLOB) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(Error::NotFound { what: "blob", name: hash.to_owned() });
            }
            other => other.context("read", &path)?,
        };
        if encode::sha256_hex(&bytes) != hash {
            return Err(Error::Invalid(format!(
                "`{}` is damaged: its content does not match its name",
                path.display()
            )));
        }
        Ok(bytes)
    }

    /// Moves the large payloads of a draft out of it; the pointers say where references stand now.
    pub(crate) fn extract(&self, draft: &Draft) -> Result<(Draft, Vec<String>)> {
        let mut pointers = Vec::new();
        let mut members = Vec::with_capacity(draft.members().len());
        for (name, value) in draft.members() {
            let is_file = draft.kind() == "file" && FILE_PAYLOADS.contains(&name.as_str());
            let slim = if name == FULL || (is_file && is_content(value)) {
                pointers.push(format!("/{name}"));
                self.reference(value)?
            } else if value.len() > BLOB_LIMIT && PAYLOADS.contains(&name.as_str()) {
                self.slim(name, value, &mut pointers)?
            } else {
                value.clone()
            };
            members.push((name.clone(), slim));
        }
        Ok((draft.with_members(members), pointers))
    }

    fn slim(&self, name: &str, value: &str, pointers: &mut Vec<String>) -> Result<String> {
        if let Some(elements) = json::elements(value) {
            let mut kept = Vec::with_capacity(elements.len());
            let mut found = Vec::new();
            for (index, element) in elements.iter().enumerate() {
                if element.len() > BLOB_LIMIT {
                    found.push(format!("/{name}/{index}"));
                    kept.push(self.reference(element)?);
                } else {
                    kept.push((*element).to_owned());
                }
            }
            let slim = format!("[{}]", kept.join(","));
            if slim.len() <= BLOB_LIMIT {
                pointers.extend(found);
                return Ok(slim);
            }
        }
        pointers.push(format!("/{name}"));
        self.reference(value)
    }

    fn reference(&self, value: &str) -> Result<String> {
        let hash = self.put(value.as_bytes())?;
        let text = json::string(value);
        let preview: String = text.as_deref().unwrap_or(value).chars().take(PREVIEW_CHARS).collect();
        let preview = json::quote(&preview);
        Ok(format!("{{\"sha256\":\"{hash}\",\"bytes\":{},\"preview\":{preview}}}", value.len()))
    }

    /// The line with its payloads put back; one that is missing or damaged is replaced by a note.
    ///
    /// A disk that fails to answer is an error: a later read would give another history.
    pub fn restore(&self, record: &Record<'_>, notes: &mut Vec<Note>) -> Result<Option<String>> {
        if record.blobs.is_empty() {
            return Ok(None);
        }
        let members = json::members(record.raw).unwrap_or_default();
        let mut parts = Vec::with_capacity(members.len());
        for (name, value) in &members {
            if name == "blobs" {
                continue;
            }
            let whole = format!("/{name}");
            let restored = if stays_aside(record, name) {
                (*value).to_owned()
            } else if record.blobs.iter().any(|pointer| *pointer == whole) {
                self.payload(value, name, record, notes)?
            } else if record.blobs.iter().any(|pointer| pointer.starts_with(&format!("{whole}/"))) {
                let elements = json::elements(value).unwrap_or_default();
                let mut restored = Vec::with_capacity(elements.len());
                for (index, element) in elements.iter().enumerate() {
                    let here = format!("{whole}/{index}");
                    restored.push(if record.blobs.iter().any(|pointer| *pointer == here) {
                        self.payload(element, "", record, notes)?
                    } else {
                        (*element).to_owned()
                    });
                }
                format!("[{}]", restored.join(","))
            } else {
                (*value).to_owned()
            };
            parts.push(format!("{}:{restored}", json::quote(name)));
        }
        Ok(Some(format!("{{{}}}", parts.join(","))))
    }

    /// The payload behind a reference, or a note in the form that its place asks for.
    fn payload(&self, raw: &str, name: &str, record: &Record<'_>, notes: &mut Vec<Note>) -> Result<String> {
        let read = BlobRef::parse(raw)
            .ok_or_else(|| Error::Invalid("a blob reference without hash and size".to_owned()))
            .and_then(|reference| self.get(&reference.sha256))
            .and_then(|bytes| String::from_utf8(bytes).map_err(|error| Error::Invalid(error.to_string())));
        match read {
            Ok(text) => Ok(text),
            Err(error @ Error::Io { .. }) => Err(error),
            Err(error) => {
                let kind = NoteKind::BlobUnreadable(error.to_string());
                notes.push(Note { offset: record.offset, len: record.raw.len() as u64, line: None, kind });
                let lost = json::quote(&format!("[a payload is missing here: {error}]"));
                Ok(match name {
                    "input" => format!("{{\"not_sent\":{lost}}}"),
                    "" => format!("{{\"type\":\"text\",\"text\":{lost}}}"),
                    _ => lost,
                })
            }
        }
    }
}

/// Whether the JSON text in a draft is a content that goes to the blob store.
pub(crate) fn is_content(value: &str) -> bool {
    value.starts_with('"') || value.starts_with("{\"base64\":")
}

/// The references in a record; `None` for one that is not well formed.
pub fn references(record: &Record<'_>) -> Vec<Option<BlobRef>> {
    if record.blobs.is_empty() {
        return Vec::new();
    }
    let members = json::members(record.raw).unwrap_or_default();
    let at = |pointer: &str| {
        let (name, index) = match pointer.strip_prefix('/')?.split_once('/') {
            Some((name, index)) => (name, Some(index.parse::<usize>().ok()?)),
            None => (&pointer[1..], None),
        };
        let value = json::member(&members, name)?;
        let value = match index {
            Some(index) => json::elements(value)?.get(index).copied()?,
            None => value,
        };
        BlobRef::parse(value)
    };
    record.blobs.iter().map(|pointer| at(pointer)).collect()
}

/// Whether a member's payload is for people and tools, not for the model.
fn stays_aside(record: &Record<'_>, name: &str) -> bool {
    name == FULL || (matches!(record.body, Body::File(_)) && FILE_PAYLOADS.contains(&name))
}
