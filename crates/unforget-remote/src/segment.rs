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
//!
//! Sizes are not believed either. A head that claims more than a writer may send is refused before its body is looked at, and a body is
//! [unpacked](Entries) entry by entry, with a bounded window: a few bytes that stand for gigabytes cost one line of memory.

use std::io::{BufReader, Cursor, Read};

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use sha2::{Digest as _, Sha256};
use unforget_core::encode;
use unforget_core::frontier::Frontier;

use crate::error::{Error, Result};
use crate::seal::{KEY_ID, Key, NONCE, Sealing};
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
/// The longest line that goes to a remote or comes from one: 30 MB, as an agent's largest entries have, and what is around them.
pub(crate) const MAX_SENT_LINE: u64 = 29 << 20;
/// The most bytes that the lines of one segment have, those included that are kept apart.
pub(crate) const MAX_LINES: u64 = 64 << 20;
/// The most lines of one segment: proving each costs a digest.
const MAX_COUNT: u64 = 1 << 20;
/// The most bytes of the entries of a body, unpacked: a longest line and what it takes beside.
const MAX_ENTRIES: u64 = MAX_SENT_LINE + (1 << 20);
/// The most bytes of a body, or of a line that is kept apart, as it is stored.
pub(crate) const MAX_BODY: u64 = MAX_ENTRIES + (1 << 20);
/// The largest window that a body may ask its reader to remember, as a power of two: what [`LEVEL`] makes.
const WINDOW_LOG: u32 = 21;
/// How much is unpacked at once.
const UNPACKED: usize = 64 << 10;

/// What a segment says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) stream: Stream,
    pub(crate) before: Frontier,
    pub(crate) after: Frontier,
}

/// A line of a segment.
#[derive(Debug, Clone)]
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

    /// Reads a head that must be of this stream, as it was found at a place.
    pub(crate) fn decode(bytes: &[u8], stream: &Stream, sealing: &Sealing, place: &str) -> Result<Self> {
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
        let is_sealed = Self::is_sealed(bytes);
        if !is_sealed && matches!(sealing, Sealing::Sealed(_)) {
            let (what, place) = (stream.to_string(), place.to_owned());
            return Err(Error::NotSealed { what, line: before.lines, place });
        }
        let opened;
        let digests = if is_sealed {
            let (id, sealed) = rest.split_at_checked(KEY_ID).ok_or_else(|| corrupt("a segment's head is cut off"))?;
            let wrong = |has_key| Error::WrongKey { what: stream.to_string(), has_key };
            let key = sealing.key().ok_or_else(|| wrong(false))?;
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
        let (lines, bytes) = (after.lines.checked_sub(before.lines), after.bytes.checked_sub(before.bytes));
        let (Some(lines), Some(bytes)) = (lines, bytes) else {
            return Err(corrupt("a segment ends before it begins"));
        };
        // Each line has a byte at least: its line feed.
        if bytes > MAX_LINES || lines > bytes || lines > MAX_COUNT {
            let reason = format!("a segment claims {lines} lines of {bytes} bytes, more than any has");
            return Err(corrupt(&reason));
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
    if plain.len() as u64 > MAX_ENTRIES {
        let len = plain.len();
        return Err(Error::Invalid(format!("{len} bytes are too many for one segment: {MAX_ENTRIES} at the most")));
    }
    shut(&plain, head, key)
}

/// Whether a body of this length has no more bytes than the lines that its head claims can take.
pub(crate) fn is_plausible(head: &[u8], body: u64) -> bool {
    let claimed = lines_of(head).zip(bytes_of(head));
    let room = claimed.and_then(|((first, end), bytes)| Some(room(end.checked_sub(first)?, bytes)));
    // What does not compress becomes a little longer, and a seal adds a nonce and a tag.
    room.is_some_and(|room| body <= room + room / 128 + 4096)
}

/// How many bytes the entries of so many lines take, at the most.
fn room(lines: u64, bytes: u64) -> u64 {
    bytes.saturating_add(lines.saturating_mul(ENTRY)).min(MAX_ENTRIES)
}

/// The entries of a body, unpacked one at a time. What is kept apart is still to be fetched.
pub(crate) struct Entries {
    stream: Stream,
    unpacked: BufReader<std::io::Take<zstd::Decoder<'static, Cursor<Vec<u8>>>>>,
    /// How many more entries there must be.
    left: u64,
}

impl Entries {
    /// Opens a body that belongs to a head.
    pub(crate) fn open(body: Bytes, head: &[u8], said: &Head, key: Option<&Key>) -> Result<Self> {
        let stream = said.stream.clone();
        let corrupt = |reason: String| Error::Corrupt { what: stream.to_string(), reason };
        let key = key.filter(|_| Head::is_sealed(head));
        let left = said.after.lines - said.before.lines;
        let room = room(left, said.after.bytes - said.before.bytes);
        // One byte more than there may be shows that there are more.
        let unpacked = decoder(body, head, key).map_err(corrupt)?.take(room + 1);
        Ok(Self { stream, unpacked: BufReader::with_capacity(UNPACKED, unpacked), left })
    }

    /// The next entry; none behind the last one.
    pub(crate) fn next(&mut self) -> Result<Option<Entry>> {
        let entry = self.read();
        entry.map_err(|reason| Error::Corrupt { what: self.stream.to_string(), reason })
    }

    fn read(&mut self) -> Result<Option<Entry>, String> {
        let mut kind = [0];
        let is_end = self.unpacked.read(&mut kind).map_err(|error| error.to_string())? == 0;
        match (is_end, self.left) {
            (true, 0) => return Ok(None),
            (true, _) | (false, 0) => return Err("a segment has another number of lines than it says".to_owned()),
            (false, _) => self.left -= 1,
        }
        match kind {
            [0] => {
                let len = self.varint()?;
                self.line(len).map(|line| Some(Entry::Line(line)))
            }
            [1] => {
                let mut name = [0; 32];
                self.unpacked.read_exact(&mut name).map_err(cut_off)?;
                Ok(Some(Entry::Apart { name, len: self.varint()? }))
            }
            _ => Err("a segment has an entry of a kind that is not known here".to_owned()),
        }
    }

    fn line(&mut self, len: u64) -> Result<Bytes, String> {
        let line = exactly(&mut self.unpacked, len)?;
        line.ok_or_else(|| "a segment's lines are cut off, or longer than it says".to_owned())
    }

    fn varint(&mut self) -> Result<u64, String> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let mut byte = [0];
            self.unpacked.read_exact(&mut byte).map_err(cut_off)?;
            let part = u64::from(byte[0] & 0x7f);
            let shifted = part.checked_shl(shift).filter(|shifted| shifted >> shift == part);
            number |= shifted.ok_or("a segment has a number that is too large")?;
            if byte[0] & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err("a segment has a number that is too large".to_owned())
    }
}

fn cut_off(error: std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof => "a segment's lines are cut off".to_owned(),
        _ => error.to_string(),
    }
}

/// Room for bytes that is given back to the system when they are dropped.
///
/// An allocator keeps what was given to a thread for that thread, up to a size (glibc: 32 MiB). On a server the largest segment would then be
/// kept once for each of its threads. Room beyond that size is mapped for itself, and what nothing is written to is no memory.
pub(crate) fn room_for(bytes: usize) -> Vec<u8> {
    const LARGE: usize = 1 << 20;
    const KEPT: usize = 33 << 20;
    Vec::with_capacity(if bytes < LARGE { bytes } else { bytes.max(KEPT) })
}

/// So many bytes; none if there are fewer, or more than a line may have.
fn exactly(unpacked: &mut impl Read, len: u64) -> Result<Option<Bytes>, String> {
    let Some(room) = usize::try_from(len).ok().filter(|_| len <= MAX_SENT_LINE) else { return Ok(None) };
    // Memory that nothing is written to is none: a length alone costs nothing.
    let mut bytes = room_for(room);
    unpacked.take(len).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    Ok((bytes.len() == room).then(|| bytes.into()))
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
pub(crate) fn unpack_apart(bytes: Bytes, name: &[u8; 32], len: u64, key: Option<&Key>) -> Result<Bytes> {
    let corrupt = |reason: String| Error::Corrupt { what: format!("the line `{}`", encode::hex(name)), reason };
    let mut unpacked = decoder(bytes, name, key).map_err(corrupt)?;
    let line = exactly(&mut unpacked, len).map_err(corrupt)?;
    let is_end = unpacked.read(&mut [0]).map_err(|error| corrupt(error.to_string()))? == 0;
    match line.filter(|line| is_end && name_of(line, key) == *name) {
        Some(line) => Ok(line),
        None => Err(corrupt("it is not the one that was kept".to_owned())),
    }
}

/// Refuses lines that are more than a segment may have.
pub(crate) fn check_size(lines: &[Bytes]) -> Result<()> {
    if let Some(line) = lines.iter().find(|line| line.len() as u64 > MAX_SENT_LINE) {
        let len = line.len();
        return Err(Error::Invalid(format!(
            "a line of {len} bytes is too long to be sent: {MAX_SENT_LINE} at the most"
        )));
    }
    let bytes: u64 = lines.iter().map(|line| line.len() as u64 + 1).sum();
    if bytes > MAX_LINES || lines.len() as u64 > MAX_COUNT {
        let count = lines.len();
        return Err(Error::Invalid(format!(
            "{count} lines of {bytes} bytes are too many to be sent at once: {MAX_LINES} at the most"
        )));
    }
    Ok(())
}

fn shut(plain: &[u8], belongs: &[u8], key: Option<&Key>) -> Result<Bytes> {
    let packed =
        zstd::bulk::compress(plain, LEVEL).map_err(|error| Error::Invalid(format!("cannot compress: {error}")))?;
    match key {
        None => Ok(packed.into()),
        Some(key) => Ok(key.seal(&packed, belongs)?.into()),
    }
}

fn decoder(bytes: Bytes, belongs: &[u8], key: Option<&Key>) -> Result<zstd::Decoder<'static, Cursor<Vec<u8>>>, String> {
    let packed = match key {
        // Bytes that nobody else holds are not copied.
        None => Vec::from(bytes),
        Some(key) => key.open(&bytes, belongs).ok_or("its seal is broken")?,
    };
    let mut decoder = zstd::Decoder::with_buffer(Cursor::new(packed)).map_err(|error| error.to_string())?;
    decoder.window_log_max(WINDOW_LOG).map_err(|error| error.to_string())?;
    Ok(decoder)
}

fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}
