//! Text into names: injective, lower case, safe on every file system and in every backend.
//!
//! A key part or an agent's name is data, never a path. [`file_name`] keeps `a-z 0-9 _ -` and writes any
//! other byte as `%xx`; what gets too long, or is a name that Windows reserves, becomes `~` and the
//! SHA-256 of the text. [`identifier`] does the same for backends that know only `[a-zA-Z0-9_-]`.

use sha2::{Digest as _, Sha256};

/// The longest file name that is spelled out.
const MAX_NAME: usize = 100;

/// Bytes in lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]])
        .map(char::from)
        .collect()
}

/// SHA-256 in hexadecimal.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// A file name for any text; different texts have different names, also where case is ignored.
pub fn file_name(text: &str) -> String {
    let name = escape(text, '%');
    if name.len() > MAX_NAME || name.is_empty() || is_reserved(&name) {
        format!("~{}", sha256_hex(text.as_bytes()))
    } else {
        name
    }
}

/// The text behind a name made by [`file_name`], unless it was hashed.
pub fn decode_file_name(name: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = match (first, tail) {
            (b'%', [high, low, tail @ ..]) => {
                let digits = [*high, *low];
                bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
                tail
            }
            (b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-', _) => {
                bytes.push(*first);
                tail
            }
            _ => return None,
        };
    }
    let text = String::from_utf8(bytes).ok()?;
    (file_name(&text) == name).then_some(text)
}

/// An identifier of at most `max` (64 or more) characters from `[a-zA-Z0-9_-]` that begins with a letter.
pub fn identifier(text: &str, max: usize) -> String {
    let spelled = format!("k-{}", escape(text, '_'));
    if spelled.len() > max {
        let digest = sha256_hex(text.as_bytes());
        format!("h-{}", &digest[..digest.len().min(max.saturating_sub(2))])
    } else {
        spelled
    }
}

fn escape(text: &str, mark: char) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' => out.push(char::from(byte)),
            b'_' if mark != '_' => out.push('_'),
            other => {
                out.push(mark);
                out.push_str(&hex(&[other]));
            }
        }
    }
    out
}

fn is_reserved(name: &str) -> bool {
    let numbered = |stem: &str| name.strip_prefix(stem).is_some_and(|rest| matches!(rest.as_bytes(), [b'1'..=b'9']));
    matches!(name, "con" | "prn" | "aux" | "nul") || numbered("com") || numbered("lpt")
}
