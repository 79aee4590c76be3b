//! What is in a file: as it was seen on a disk, as it is stored, and as a record tells it.
//!
//! A content is stored as the JSON text of a string, or of `{"base64":"…"}` if it is not UTF-8. The same bytes always
//! give the same text, so the hash of the text says whether two contents are the same.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::encode;
use crate::json;

/// The largest content of a file that is kept, in bytes.
pub const MAX_KEPT: u64 = 16 * 1024 * 1024;

/// What is in a file, as far as a record tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// There is no such file.
    Absent,
    /// It is in the blob store.
    Kept {
        /// The payload's hash.
        sha256: String,
    },
    /// There is a file, whose content was not kept.
    NotKept {
        /// Its length.
        bytes: u64,
    },
    /// Nobody knows.
    Unknown,
}

impl Content {
    /// Reads what stands in a record in place of a content that was not kept.
    pub(super) fn not_kept(raw: &str) -> Self {
        let members = json::members(raw).unwrap_or_default();
        match (json::member(&members, "not_kept"), json::member(&members, "bytes").and_then(json::number)) {
            (Some(_), Some(bytes)) => Content::NotKept { bytes },
            _ => Content::Unknown,
        }
    }
}

/// What was seen of a file on a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// There is no such file.
    Nothing,
    /// All of its bytes.
    Bytes(Vec<u8>),
    /// That it is there, and why its bytes are not kept.
    Only {
        /// Its length.
        bytes: u64,
        /// Why that is all.
        why: &'static str,
    },
}

impl Seen {
    /// These bytes, if they are few enough to be kept.
    pub fn of(bytes: Vec<u8>) -> Self {
        match bytes.len() as u64 {
            0..=MAX_KEPT => Seen::Bytes(bytes),
            bytes => Seen::too_large(bytes),
        }
    }

    /// A file of so many bytes, which are too many.
    pub fn too_large(bytes: u64) -> Self {
        Seen::Only { bytes, why: "too large" }
    }

    /// The JSON text that stands for it in a draft; what is kept goes from there to the blob store.
    pub fn to_json(&self) -> String {
        match self {
            Seen::Nothing => "null".to_owned(),
            Seen::Bytes(bytes) => payload(bytes),
            Seen::Only { bytes, why } => format!("{{\"not_kept\":{},\"bytes\":{bytes}}}", json::quote(why)),
        }
    }

    /// The JSON text that stands for these bytes in a draft.
    pub fn json_of(bytes: &[u8]) -> String {
        payload(bytes)
    }

    /// The hash under which its bytes are kept, if they are.
    pub fn sha256(&self) -> Option<String> {
        match self.content() {
            Content::Kept { sha256 } => Some(sha256),
            Content::Absent | Content::NotKept { .. } | Content::Unknown => None,
        }
    }

    /// What a record would tell of it.
    pub fn content(&self) -> Content {
        match self {
            Seen::Nothing => Content::Absent,
            Seen::Bytes(bytes) => Content::Kept { sha256: encode::sha256_hex(payload(bytes).as_bytes()) },
            Seen::Only { bytes, .. } => Content::NotKept { bytes: *bytes },
        }
    }
}

/// The bytes of a file as they are stored.
fn payload(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => json::quote(text),
        Err(_) => format!("{{\"base64\":\"{}\"}}", BASE64.encode(bytes)),
    }
}

/// The bytes of a file from what is stored; none if that is no content of a file.
pub fn bytes(payload: &[u8]) -> Option<Vec<u8>> {
    let payload = std::str::from_utf8(payload).ok()?;
    if let Some(text) = json::string(payload) {
        return Some(text.into_owned().into_bytes());
    }
    let members = json::members(payload)?;
    BASE64.decode(json::string(json::member(&members, "base64")?)?.as_bytes()).ok()
}
