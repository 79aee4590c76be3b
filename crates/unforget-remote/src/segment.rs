//! Segments: some lines of a stream, packed, with a proof of where they belong.
//!
//! ```text
//! head   "ufr1"  flags:u8
//!        tenant place session side           each as length:u16 and UTF-8
//!        before.lines before.bytes after.lines after.bytes   u64
//!        before.digest after.digest          32 bytes each; sealed: key:8 and both together, sealed
//! body   zstd of the entries; sealed: sealed with the head as what it belongs to
//! entry  0 length:varint bytes               a line
//!        1 name:32 length:varint             a line that is kept apart
//! ```
//! All numbers are little endian. Nothing that is read is believed: names and positions must be those that were asked for, and the lines
//! must add up to the digest.

use std::io::Read as _;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use sha2::{Digest as _, Sha256};
use unforget_core::encode;
use unforget_core::frontier::Frontier;

use crate::error::{Error, Result};
use crate::seal::{KEY_ID, Key, NONCE};
use crate::stream::{MAX_PART, Stream};

const MAGIC: &[u8; 4] = b"ufr1";
const SEALED: u8 = 1;
/// The length of an authentication tag.
const TAG: usize = 16;
/// Text compresses about as well as it will at this level, and fast.
const LEVEL: i32 = 3;
/// What an entry takes beside its bytes, at the most.
const ENTRY: u64 = 64;
/// The longest head.
pub(crate) const MAX_HEAD: usize = 4 + 1 + 4 * (2 + MAX_PART) + 32 + KEY_ID + NONCE + 64 + TAG;
/// The largest segment that is unpacked.
const MAX_SEGMENT: u64 = 4 << 30;

/// What a segment says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) stream: Stream,
    pub(crate) before: Frontier,
    pub(crate) after: Frontier,
}

/// A line of a segment.
pub(crate) enum Entry {
    Line(Bytes),
    /// It is kept apart, under this name.
    Apart {
        name: [u8; 32],
        len: u64,
    },
}

/// Whose stream a head is of; positions and digests are not looked at.
pub(crate) fn stream_of(head: &[u8]) -> Option<Stream> {
    let mut rest = head.strip_prefix(MAGIC)?.get(1..)?;
    let mut parts: [&str; 4] = [""; 4];
    for part in &mut parts {
        *part = name(&mut rest)?;
    }
    Stream::of(parts).ok()
}

/// The first line of a segment and the one behind its last, as its head says.
pub(crate) fn lines_of(head: &[u8]) -> Option<(u64, u64)> {
    let mut rest = head.strip_prefix(MAGIC)?.get(1..)?;
    for _ in 0..4 {
        name(&mut rest)?;
    }
    let first = rest.try_get_u64_le().ok()?;
    rest.try_get_u64_le().ok()?;
    Some((first, rest.try_get_u64_le().ok()?))
}

/// How many bytes the lines of a segment have, as its head says.
pub(crate) fn bytes_of(head: &[u8]) -> Option<u64> {
    let mut rest = head.strip_prefix(MAGIC)?.get(1..)?;
    for _ in 0..4 {
        name(&mut rest)?;
    }
    rest.try_get_u64_le().ok()?;
    let before = rest.try_get_u64_le().ok()?;
    rest.try_get_u64_le().ok()?;
    rest.try_get_u64_le().ok()?.checked_sub(before)
}

fn name<'h>(rest: &mut &'h [u8]) -> Option<&'h str> {
    let len = usize::from(rest.try_get_u16_le().ok()?);
    let (name, tail) = rest.split_at_checked(len)?;
    *rest = tail;
    std::str::from_utf8(name).ok()
}

impl Head {
    /// The bytes of a head.
    pub(crate) fn encode(&self, key: Option<&Key>) -> Result<Bytes> {
        let mut head = BytesMut::with_capacity(256);
        head.put_slice(MAGIC);
        head.put_u8(if key.is_some() { SEALED } else { 0 });
        for part in self.stream.parts() {
            // No part is longer than `MAX_PART`.
            head.put_u16_le(u16::try_from(part.len()).unwrap_or(u16::MAX));
            head.put_slice(part.as_bytes());
        }
        for number in [self.before.lines, self.before.bytes, self.after.lines, self.after.bytes] {
            head.put_u64_le(number);
        }
        let digests = [self.before.digest, self.after.digest].concat();
        match key {
            None => head.put_slice(&digests),
            Some(key) => {
                head.put_slice(&key.id());
                let sealed = key.seal(&digests, &head)?;
                head.put_slice(&sealed);
            }
        }
        Ok(head.freeze())
    }

    /// Reads a head that must be of this stream.
    pub(crate) fn decode(bytes: &[u8], stream: &Stream, key: Option<&Key>) -> Result<Self> {
        let corrupt = |reason: &str| Error::Corrupt { what: stream.to_string(), reason: reason.to_owned() };
        if stream_of(bytes).as_ref() != Some(stream) {
            return Err(corrupt("a segment does not say that it belongs there"));
        }
        let names: usize = stream.parts().iter().map(|part| 2 + part.len()).sum();
        let mut rest = bytes.get(MAGIC.len() + 1 + names..).unwrap_or_default();
        let mut number = || rest.try_get_u64_le().map_err(|_| corrupt("a segment's head is cut off"));
        let (mut before, mut after) = (Frontier::default(), Frontier::default());
        for place in [&mut before.lines, &mut before.bytes, &mut after.lines, &mut after.bytes] {
            *place = number()?;
        }
        let is_sealed = bytes.get(MAGIC.len()).is_some_and(|flags| flags & SEALED != 0);
        let opened;
        let digests = if is_sealed {
            let (id, sealed) = rest.split_at_checked(KEY_ID).ok_or_else(|| corrupt("a segment's head is cut off"))?;
            let wrong = |has_key| Error::WrongKey { what: stream.to_string(), has_key };
            let key = key.ok_or_else(|| wrong(false))?;
            if key.id() != id {
                return Err(wrong(true));
            }
            let belongs = &bytes[..bytes.len() - sealed.len()];
            opened = key.open(sealed, belongs).ok_or_else(|| corrupt("a segment's head was changed"))?;
            opened.as_slice()
        } else {
            rest
        };
        let (first, second) = digests.split_at_checked(32).ok_or_else(|| corrupt("a segment's head is cut off"))?;
        before.digest = first.try_into().map_err(|_| corrupt("a segment's head is cut off"))?;
        after.digest = second.try_into().map_err(|_| corrupt("a segment's head has another length"))?;
        if after.lines < before.lines || after.bytes < before.bytes {
            return Err(corrupt("a segment ends before it begins"));
        }
        Ok(Self { stream: stream.clone(), before, after })
    }

    /// Whether a head is sealed.
    pub(crate) fn is_sealed(bytes: &[u8]) -> bool {
        bytes.get(MAGIC.len()).is_some_and(|flags| flags & SEALED != 0)
    }
}

/// Packs entries into a body.
pub(crate) fn pack(entries: &[Entry], head: &[u8], key: Option<&Key>) -> Result<Bytes> {
    let mut plain = Vec::new();
    for entry in entries {
        match entry {
            Entry::Line(line) => {
                plain.push(0);
                put_varint(&mut plain, line.len() as u64);
                plain.extend_from_slice(line);
            }
            Entry::Apart { name, len } => {
                plain.push(1);
                plain.extend_from_slice(name);
                put_varint(&mut plain, *len);
            }
        }
    }
    shut(&plain, head, key)
}

/// Unpacks a body. What is kept apart is still to be fetched.
pub(crate) fn unpack(body: &[u8], head: &[u8], said: &Head, key: Option<&Key>) -> Result<Vec<Entry>> {
    let corrupt = |reason: &str| Error::Corrupt { what: said.stream.to_string(), reason: reason.to_owned() };
    let key = if Head::is_sealed(head) { key } else { None };
    let count = said.after.lines - said.before.lines;
    let room = (said.after.bytes - said.before.bytes).saturating_add(count.saturating_mul(ENTRY));
    let plain = Bytes::from(reopen(body, head, key, room).map_err(|reason| corrupt(&reason))?);
    let (mut entries, mut rest) = (Vec::new(), plain);
    let cut = || corrupt("a segment's lines are cut off");
    while rest.has_remaining() {
        let entry = match rest.get_u8() {
            0 => {
                let len = usize::try_from(varint(&mut rest).ok_or_else(cut)?).map_err(|_| cut())?;
                if len > rest.remaining() {
                    return Err(cut());
                }
                Entry::Line(rest.split_to(len))
            }
            1 if rest.remaining() >= 32 => {
                let mut name = [0; 32];
                rest.copy_to_slice(&mut name);
                Entry::Apart { name, len: varint(&mut rest).ok_or_else(cut)? }
            }
            _ => return Err(corrupt("a segment has an entry of a kind that is not known here")),
        };
        entries.push(entry);
    }
    if entries.len() as u64 != count {
        return Err(corrupt("a segment has another number of lines than it says"));
    }
    Ok(entries)
}

/// The name of a line that is kept apart.
pub(crate) fn name_of(line: &[u8], key: Option<&Key>) -> [u8; 32] {
    let digest: [u8; 32] = Sha256::digest(line).into();
    key.map_or(digest, |key| key.name_of(&digest))
}

/// Packs a line that is kept apart.
pub(crate) fn pack_apart(line: &[u8], name: &[u8; 32], key: Option<&Key>) -> Result<Bytes> {
    shut(line, name, key)
}

/// Unpacks a line that is kept apart and proves that it is the one.
pub(crate) fn unpack_apart(bytes: &[u8], name: &[u8; 32], len: u64, key: Option<&Key>) -> Result<Bytes> {
    let corrupt = |reason: String| Error::Corrupt { what: format!("the line `{}`", encode::hex(name)), reason };
    let line = reopen(bytes, name, key, len).map_err(corrupt)?;
    if line.len() as u64 != len || name_of(&line, key) != *name {
        return Err(corrupt("it is not the one that was kept".to_owned()));
    }
    Ok(line.into())
}

fn shut(plain: &[u8], belongs: &[u8], key: Option<&Key>) -> Result<Bytes> {
    let packed =
        zstd::bulk::compress(plain, LEVEL).map_err(|error| Error::Invalid(format!("cannot compress: {error}")))?;
    match key {
        None => Ok(packed.into()),
        Some(key) => Ok(key.seal(&packed, belongs)?.into()),
    }
}

fn reopen(bytes: &[u8], belongs: &[u8], key: Option<&Key>, room: u64) -> Result<Vec<u8>, String> {
    let opened = match key {
        None => None,
        Some(key) => Some(key.open(bytes, belongs).ok_or("its seal is broken")?),
    };
    let packed = opened.as_deref().unwrap_or(bytes);
    let room = room.min(MAX_SEGMENT);
    let mut plain = Vec::new();
    let decoder = zstd::Decoder::with_buffer(packed).map_err(|error| error.to_string())?;
    // One byte more than there may be shows that there are more.
    decoder.take(room + 1).read_to_end(&mut plain).map_err(|error| error.to_string())?;
    if plain.len() as u64 > room {
        return Err("it is longer than it says".to_owned());
    }
    Ok(plain)
}

fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn varint(rest: &mut Bytes) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = rest.try_get_u8().ok()?;
        let part = u64::from(byte & 0x7f);
        number |= part.checked_shl(shift).filter(|shifted| shifted >> shift == part)?;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}
