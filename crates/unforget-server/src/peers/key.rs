//! The secret of a cluster, and what is signed with it.
//!
//! A signature is an HMAC-SHA256 over a purpose and a text. A token is a JSON text in base64url, a full stop and its signature.

use std::fmt;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, crypto};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};
use unforget_core::encode;
use unforget_core::medium::{self, Access, FileKind, Medium};

/// The fewest characters of a key: 128 bits, written as hexadecimal digits.
const LEAST: usize = 32;
/// The longest file that is read for a key.
const MAX_FILE: usize = 4096;
/// Permission bits of other users.
const OTHERS: u32 = 0o077;
/// The longest token that is looked at.
const MAX_TOKEN: usize = 16 * 1024;

/// The secret that all servers of a cluster have.
pub struct ClusterKey {
    sign: EncodingKey,
    verify: DecodingKey,
}

impl fmt::Debug for ClusterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterKey")
    }
}

/// Why a file is not the key of a cluster.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// There is no such file.
    #[error("there is no cluster key in `{}`", .0.display())]
    Missing(PathBuf),
    /// The file cannot be read.
    #[error("the cluster key in `{}` cannot be read: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Other users of this machine can open the file.
    #[error("other users can open the cluster key in `{}` ({mode:04o})", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// The file has too few characters, or others than printable ones.
    #[error("`{}` is no cluster key: it needs {LEAST} printable characters or more, in one line", .0.display())]
    Weak(PathBuf),
}

impl ClusterKey {
    /// Reads a key from a file that only this user, or root, can open.
    pub fn read(medium: &dyn Medium, path: &Path) -> Result<Self, KeyError> {
        let place = medium.root().join(path);
        let io = |source: std::io::Error| match source.kind() {
            std::io::ErrorKind::NotFound => KeyError::Missing(place.clone()),
            _ => KeyError::Io { path: place.clone(), source },
        };
        let file = medium.open(path, Access::Read).map_err(io)?;
        let stat = file.stat().map_err(io)?;
        if stat.kind != FileKind::File {
            return Err(KeyError::Weak(place));
        }
        if stat.mode & OTHERS != 0 {
            return Err(KeyError::Exposed { path: place, mode: stat.mode });
        }
        let mut bytes = vec![0; MAX_FILE];
        let filled = medium::read_full(file.as_ref(), &mut bytes, 0).map_err(io)?;
        let text = std::str::from_utf8(&bytes[..filled]).unwrap_or_default().trim();
        Self::from_text(text).ok_or(KeyError::Weak(place))
    }

    /// Takes a text as the key; none if it is short, or does not look like one.
    pub fn from_text(text: &str) -> Option<Self> {
        let is_sound = text.len() >= LEAST && text.len() < MAX_FILE && text.bytes().all(|byte| byte.is_ascii_graphic());
        is_sound.then(|| Self {
            sign: EncodingKey::from_secret(text.as_bytes()),
            verify: DecodingKey::from_secret(text.as_bytes()),
        })
    }

    /// Signs a text for a purpose. The library does not fail for this algorithm; if it did, the result is no signature of anything.
    pub(super) fn sign(&self, purpose: &str, text: &str) -> String {
        crypto::sign(&message(purpose, text), &self.sign, Algorithm::HS256).unwrap_or_default()
    }

    /// Whether this text was signed for this purpose.
    pub(super) fn verify(&self, purpose: &str, text: &str, signature: &str) -> bool {
        crypto::verify(signature, &message(purpose, text), &self.verify, Algorithm::HS256).unwrap_or(false)
    }

    /// Makes a token of a value; none if it cannot be written as JSON.
    pub(super) fn seal<T: Serialize>(&self, purpose: &str, value: &T) -> Option<String> {
        let payload = URL_SAFE_NO_PAD.encode(serde_json::to_string(value).ok()?);
        let signature = self.sign(purpose, &payload);
        (!signature.is_empty()).then(|| format!("{payload}.{signature}"))
    }

    /// Reads the value of a token; none if it was not signed with this key for this purpose.
    pub(super) fn open<T: DeserializeOwned>(&self, purpose: &str, token: &str) -> Option<T> {
        let (payload, signature) = token.split_once('.').filter(|_| token.len() <= MAX_TOKEN)?;
        if !self.verify(purpose, payload, signature) {
            return None;
        }
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()
    }
}

fn message(purpose: &str, text: &str) -> Vec<u8> {
    format!("unforget {purpose}\n{text}").into_bytes()
}

/// The SHA-256 of some bytes, in hexadecimal digits.
pub(crate) fn digest(bytes: &[u8]) -> String {
    encode::hex(&Sha256::digest(bytes))
}
