//! A transcript with its secrets masked: a copy that says so, and whose checksums hold.
//!
//! Strings are masked where they stand in the JSON text, so that everything else stays byte for byte. Ids, hashes,
//! signatures and images are left alone: they are no words, and changing them would break what they are for. Payloads are masked
//! like lines, get other hashes by that, and are referred to by those. A line that is no JSON is masked as plain text.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::blob::{BlobRef, references};
use crate::encode::sha256_hex;
use crate::json;
use crate::lines;
use crate::mask::mask;
use crate::rechain::Rechain;
use crate::record::{Body, Record};

/// Members of a record that name or number something.
const OF_THE_RECORD: [&str; 7] = ["type", "ts", "id", "tool_use_id", "msg", "crc", "blobs"];
/// How ids begin that calls and messages have, wherever they stand.
const ID_STARTS: [&str; 5] = ["toolu_", "srvtoolu_", "call_", "msg_", "fc_"];
/// How long base64 text or a hash is at least.
const DATA_FROM: usize = 64;
/// How much of a payload stands in the line.
const PREVIEW_CHARS: usize = 200;

/// A masked copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Masked {
    /// The transcript.
    pub transcript: Vec<u8>,
    /// The masked payloads by their new hash.
    pub payloads: BTreeMap<String, Vec<u8>>,
    /// Payloads that are not there.
    pub missing: u64,
}

/// Masks a transcript; `payload` reads one by its hash.
pub fn masked(bytes: &[u8], payload: impl Fn(&str) -> Option<Vec<u8>>) -> Masked {
    let mut out = Masked { transcript: Vec::new(), payloads: BTreeMap::new(), missing: 0 };
    let mut copy = Rechain::default();
    let mut told = false;
    for line in lines::split(bytes, 0) {
        let text = String::from_utf8_lossy(line.bytes);
        let Ok(record) = Record::parse(&text, 0, 0) else {
            copy.push(&mask(&text));
            continue;
        };
        let mut changed = mask_json(&text, 0).into_owned();
        for reference in references(&record).into_iter().flatten() {
            changed = repoint(&changed, &reference, &payload, &mut out);
        }
        if matches!(record.body, Body::Session(_)) && !told {
            told = true;
            changed = saying_so(&changed);
        }
        copy.push(&changed);
    }
    out.transcript = copy.finish().into_bytes();
    out
}

/// The header with `masked`, before its checksum.
fn saying_so(header: &str) -> String {
    match header.rfind(",\"crc\":\"").or_else(|| header.rfind('}')) {
        Some(at) => format!("{},\"masked\":true{}", &header[..at], &header[at..]),
        None => header.to_owned(),
    }
}

/// Masks a payload and points the line to the masked one.
fn repoint(line: &str, old: &BlobRef, payload: &impl Fn(&str) -> Option<Vec<u8>>, out: &mut Masked) -> String {
    let Some(text) = payload(&old.sha256).and_then(|bytes| String::from_utf8(bytes).ok()) else {
        out.missing += 1;
        return line.to_owned();
    };
    let masked = mask_json(&text, 1).into_owned();
    let from = format!("{{\"sha256\":\"{}\",\"bytes\":{},\"preview\":", old.sha256, old.bytes);
    let new = sha256_hex(masked.as_bytes());
    // The beginning of a payload may end in the middle of a secret, where nothing would find it.
    let words = json::string(&masked);
    let preview: String = words.as_deref().unwrap_or(&masked).chars().take(PREVIEW_CHARS).collect();
    let to = format!("{{\"sha256\":\"{new}\",\"bytes\":{},\"preview\":{}", masked.len(), json::quote(&preview));
    out.payloads.insert(new, masked.clone().into_bytes());
    let mut pieces = line.split(from.as_str());
    let mut changed = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let end = string_end(piece.as_bytes(), 0).unwrap_or(0);
        changed.push_str(&to);
        changed.push_str(&piece[end..]);
    }
    changed
}

/// JSON text with the words in its strings masked; `depth` is how deep in a record it stands.
pub fn mask_json(raw: &str, mut depth: usize) -> Cow<'_, str> {
    let bytes = raw.as_bytes();
    let mut out = String::new();
    let (mut copied, mut at) = (0, 0);
    // The name of the member that a string is the value of; in a list, that of the list.
    let mut name: Cow<'_, str> = Cow::Borrowed("");
    while let Some(byte) = bytes.get(at) {
        let start = at;
        at += 1;
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                let Some(end) = string_end(bytes, start) else { break };
                at = end;
                let is_name = bytes[end..].iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b':');
                let Some(text) = json::string(&raw[start..end]) else { continue };
                if is_name {
                    name = text;
                } else if is_words(&name, &text, depth)
                    && let Cow::Owned(masked) = mask(&text)
                {
                    out.push_str(&raw[copied..start]);
                    out.push_str(&json::quote(&masked));
                    copied = end;
                }
            }
            _ => {}
        }
    }
    if copied == 0 {
        return Cow::Borrowed(raw);
    }
    out.push_str(&raw[copied..]);
    Cow::Owned(out)
}

/// Whether a string says something, as opposed to being an id, a hash, a signature or an image.
fn is_words(name: &str, text: &str, depth: usize) -> bool {
    let is_id = OF_THE_RECORD.contains(&name) && (depth == 1 || ID_STARTS.iter().any(|start| text.starts_with(start)));
    let is_base64 = || text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='));
    let is_data = matches!(name, "data" | "signature" | "sha256" | "digest") && text.len() >= DATA_FROM && is_base64();
    !is_id && !is_data
}

/// Where the string ends whose quotation mark is at `start`.
fn string_end(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        match bytes.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = concat!("ghp_", "0123456789abcdefghijABCDEFGHIJ012345");

    #[test]
    fn words_are_masked_and_ids_and_images_are_not() {
        let data = "AKIA".repeat(20);
        let raw = format!(
            r#"{{"id":"{SECRET}","a":["x {SECRET}"],"n":1.50,"data":"{data}","b":{{"id":"{SECRET}","data":"\n{SECRET}"}}}}"#
        );
        let masked = mask(SECRET);
        assert_ne!(masked, SECRET);
        let want = format!(
            r#"{{"id":"{SECRET}","a":["x {masked}"],"n":1.50,"data":"{data}","b":{{"id":"{masked}","data":"\n{masked}"}}}}"#
        );
        assert_eq!(mask_json(&raw, 0), want);
        assert!(matches!(mask_json(r#"{"a":"b"}"#, 0), Cow::Borrowed(_)));
        for broken in ["\"", "{\"a\":\"b\\", "\\\"", ""] {
            assert_eq!(mask_json(broken, 0), broken);
        }
    }
}
