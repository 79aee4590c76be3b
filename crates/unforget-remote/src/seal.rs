//! Sealing: what leaves the machine is unreadable, and a piece cannot be changed, swapped or moved without being noticed.
//!
//! XChaCha20-Poly1305 with a random nonce for each piece; where a piece belongs (stream, position, length) is its associated
//! data. A key has a name, so that the wrong one is told from damage, and neither is ever taken for "empty".
//!
//! [`Sealing`] decides which pieces count. With a key, only sealed ones do: the remote's own bytes are never asked whether a seal is
//! needed, or its operator could answer "no" and forge a conversation. Pieces in plain are read by a migration alone.
//!
//! A seal proves a piece and not a whole: an operator who removes the last pieces of a stream leaves a shorter one in which every
//! seal is good. The watermarks of this machine (`sync::bookmark`) and the head that writers leave at the remote (`sync::head`) show
//! that; docs/remote.md says when they do and when they cannot.

use chacha20poly1305::aead::{Aead as _, KeyInit as _, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use hmac::{Hmac, Mac as _};
use sha2::Sha256;
use unforget_core::encode;

use crate::error::{Error, Result};

/// How many bytes of a key's name are kept beside what it seals.
pub(crate) const KEY_ID: usize = 8;
/// The length of a nonce.
pub(crate) const NONCE: usize = 24;
/// The length of a key.
pub(crate) const KEY_LEN: usize = 32;

/// A key that seals lines before they leave the machine.
#[derive(Clone)]
pub struct Key {
    cipher: XChaCha20Poly1305,
    names: [u8; KEY_LEN],
    id: [u8; KEY_ID],
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Key").field("id", &encode::hex(&self.id)).finish_non_exhaustive()
    }
}

impl Key {
    /// A key of these bytes. Each use has a key of its own, derived from them.
    pub fn new(secret: &[u8; KEY_LEN]) -> Self {
        let derived = |use_of_it: &[u8]| mac(secret, use_of_it);
        let mut id = [0; KEY_ID];
        id.copy_from_slice(&derived(b"unforget: name of the key")[..KEY_ID]);
        let cipher = XChaCha20Poly1305::new(&derived(b"unforget: seal").into());
        Self { cipher, names: derived(b"unforget: names of what is kept"), id }
    }

    /// The text of a new key.
    pub fn generate() -> Result<String> {
        let mut secret = [0; KEY_LEN];
        getrandom::fill(&mut secret)
            .map_err(|error| Error::Invalid(format!("no random numbers for a key: {error}")))?;
        Ok(encode::hex(&secret))
    }

    /// A key of hexadecimal digits.
    pub fn parse(text: &str) -> Result<Self> {
        let digits = text.trim().as_bytes();
        let wrong = || Error::Invalid(format!("a key is {} hexadecimal digits", KEY_LEN * 2));
        if digits.len() != KEY_LEN * 2 {
            return Err(wrong());
        }
        let mut secret = [0; KEY_LEN];
        for (byte, pair) in secret.iter_mut().zip(digits.chunks(2)) {
            let pair = std::str::from_utf8(pair).ok().filter(|pair| pair.bytes().all(|b| b.is_ascii_hexdigit()));
            *byte = pair.and_then(|pair| u8::from_str_radix(pair, 16).ok()).ok_or_else(wrong)?;
        }
        Ok(Self::new(&secret))
    }

    /// The name of the key.
    pub(crate) fn id(&self) -> [u8; KEY_ID] {
        self.id
    }

    /// A name for bytes that says nothing about them to those who lack the key.
    pub(crate) fn name_of(&self, digest: &[u8; 32]) -> [u8; 32] {
        mac(&self.names, digest)
    }

    /// Seals bytes; the nonce stands before them.
    pub(crate) fn seal(&self, plain: &[u8], belongs: &[u8]) -> Result<Vec<u8>> {
        let failed = |reason: String| Error::Invalid(format!("cannot seal: {reason}"));
        let mut nonce = [0; NONCE];
        getrandom::fill(&mut nonce).map_err(|error| failed(error.to_string()))?;
        let sealed = self
            .cipher
            .encrypt(&XNonce::from(nonce), Payload { msg: plain, aad: belongs })
            .map_err(|error| failed(error.to_string()))?;
        Ok([nonce.as_slice(), &sealed].concat())
    }

    /// Opens what [`Key::seal`] made; none if any byte of it, or where it belongs, is another.
    pub(crate) fn open(&self, sealed: &[u8], belongs: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = sealed.split_at_checked(NONCE)?;
        let nonce: [u8; NONCE] = nonce.try_into().ok()?;
        self.cipher.decrypt(&XNonce::from(nonce), Payload { msg: sealed, aad: belongs }).ok()
    }
}

/// How a writer leaves lines at a remote, and which ones count for a reader.
#[derive(Debug, Clone, Default)]
pub enum Sealing {
    /// There is no key: lines are written in plain, and sealed ones cannot be read.
    #[default]
    Plain,
    /// Lines are sealed, and a reader refuses what is not.
    Sealed(Key),
    /// Lines are sealed, and a reader also takes what lies there in plain. For a migration, after a person has seen it.
    Migrating(Key),
}

impl Sealing {
    /// The key, if there is one.
    pub fn key(&self) -> Option<&Key> {
        match self {
            Self::Plain => None,
            Self::Sealed(key) | Self::Migrating(key) => Some(key),
        }
    }
}

impl From<Option<Key>> for Sealing {
    fn from(key: Option<Key>) -> Self {
        key.map_or(Self::Plain, Self::Sealed)
    }
}

fn mac(key: &[u8; KEY_LEN], message: &[u8]) -> [u8; 32] {
    // A key shorter than a block is filled up with zeros, as the standard says.
    let mut block = [0; 64];
    block[..KEY_LEN].copy_from_slice(key);
    Hmac::<Sha256>::new(&block.into()).chain_update(message).finalize().into_bytes().into()
}
