//! Reading a transcript: forward, backward from the end, or from an offset.
//!
//! A reader takes no lock, never writes, and sees the file as long as it was when it was opened; what a
//! live writer adds later is read by a later reader. Memory is bounded by the longest line, and that by
//! [`MAX_LINE`]. Lines come as they are ([`Physical`]); what is in them is for others to say.

use std::io;
use std::path::{Path, PathBuf};

use memchr::{memchr, memrchr};

use crate::error::{Error, IoContext as _, Result};
use crate::lines::{MAX_LINE, Physical};
use crate::medium::{Access, Handle, Medium, read_full, write_full};

const FORWARD_BLOCK: usize = 256 * 1024;
/// The first block of a way forward, which often ends at the header; each later one is twice as long.
const FIRST_BLOCK: usize = 16 * 1024;
const BACKWARD_BLOCK: usize = 64 * 1024;

/// The longest file that is read as a whole.
const MAX_WHOLE: u64 = 16 << 30;

/// Files that are no transcripts, by how they begin.
const FOREIGN: [(&[u8], &str); 8] = [
    (b"\x1f\x8b", "gzip data"),
    (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"\xfd7zXZ\0", "xz data"),
    (b"BZh", "bzip2 data"),
    (b"PK\x03\x04", "a zip archive"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"age-encryption.org/", "an age-encrypted file"),
    (b"-----BEGIN ", "an armoured (encrypted or signed) file"),
];

/// What a file is that begins so, if it is recognisably no transcript.
pub(crate) fn foreign(head: &[u8]) -> Option<&'static str> {
    FOREIGN.iter().find(|(magic, _)| head.starts_with(magic)).map(|(_, format)| *format)
}

/// A transcript opened for reading.
#[derive(Debug)]
pub struct LogReader {
    file: Box<dyn Handle>,
    path: PathBuf,
    len: u64,
    modified_ns: i64,
    identity: (u64, u64),
}

impl LogReader {
    /// Opens a transcript; a file that is recognisably something else is refused.
    pub fn open(medium: &dyn Medium, path: &Path) -> Result<Self> {
        let file = medium.open(path, Access::Read).context("open", path)?;
        let stat = file.stat().context("look at", path)?;
        let mut head = [0; 32];
        let filled = read_full(file.as_ref(), &mut head, 0).context("read", path)?;
        if let Some(format) = foreign(&head[..filled]) {
            return Err(Error::Foreign { path: path.to_path_buf(), format });
        }
        Ok(Self {
            file,
            path: path.to_path_buf(),
            len: stat.len,
            modified_ns: stat.modified_ns,
            identity: stat.identity,
        })
    }

    /// The same file as it was when it ended there. A reader of its first lines does not read what follows them.
    #[must_use]
    pub fn until(self, end: u64) -> Self {
        Self { len: self.len.min(end), ..self }
    }

    /// Length of the file when it was opened.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the file was empty when it was opened.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Modification time of the file when it was opened, in nanoseconds.
    pub fn modified_ns(&self) -> i64 {
        self.modified_ns
    }

    /// Where the transcript is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Device and inode of the file.
    pub fn identity(&self) -> (u64, u64) {
        self.identity
    }

    /// The bytes from `from` on, at most `len` of them.
    pub fn bytes(&self, from: u64, len: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        let filled = read_full(self.file.as_ref(), &mut bytes, from).context("read", &self.path)?;
        bytes.truncate(filled);
        Ok(bytes)
    }

    /// Reads the whole file into memory; one that is far too long for that is refused.
    pub fn read_all(&self) -> Result<Vec<u8>> {
        if self.len > MAX_WHOLE {
            let (path, len) = (self.path.display(), self.len);
            return Err(Error::Invalid(format!("`{path}` has {len} bytes, too many to be read as a whole")));
        }
        let mut bytes = vec![0; usize::try_from(self.len).unwrap_or(usize::MAX)];
        let filled = read_full(self.file.as_ref(), &mut bytes, 0).context("read", &self.path)?;
        bytes.truncate(filled);
        Ok(bytes)
    }

    /// Copies everything from `start` on to another file.
    pub(crate) fn copy_from(&self, start: u64, to: &mut dyn Handle) -> io::Result<()> {
        let mut block = vec![0; FORWARD_BLOCK];
        let mut at = start;
        while at < self.len {
            let want = usize::try_from(self.len - at).unwrap_or(usize::MAX).min(block.len());
            let filled = read_full(self.file.as_ref(), &mut block[..want], at)?;
            if filled == 0 {
                break;
            }
            write_full(to, &block[..filled])?;
            at += filled as u64;
        }
        Ok(())
    }

    /// Writes the whole file, as long as it was when it was opened.
    pub fn write_to(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let mut block = vec![0; FORWARD_BLOCK];
        let mut at = 0;
        while at < self.len {
            let want = usize::try_from(self.len - at).unwrap_or(usize::MAX).min(block.len());
            let filled = read_full(self.file.as_ref(), &mut block[..want], at)?;
            if filled < want {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file became shorter while it was read"));
            }
            out.write_all(&block[..filled])?;
            at += filled as u64;
        }
        Ok(())
    }

    /// Where the bytes behind the last line feed begin, and those bytes unless they are over-long.
    pub(crate) fn unterminated_tail(&self) -> Result<Option<(u64, Option<Vec<u8>>)>> {
        let mut backward = self.backward();
        match backward.next()? {
            Some(line) if !line.terminated => {
                let bytes = if line.is_overlong() { None } else { Some(line.bytes.to_vec()) };
                Ok(Some((line.offset, bytes)))
            }
            _ => Ok(None),
        }
    }

    /// Reads lines from `offset`, which should be the start of one, to the end.
    pub fn forward(&self, offset: u64) -> Forward<'_> {
        Forward { reader: self, buffer: Vec::new(), start: 0, offset, read_to: offset, block: FIRST_BLOCK }
    }

    /// Reads lines from the end to the beginning.
    pub fn backward(&self) -> Backward<'_> {
        Backward { reader: self, buffer: Vec::new(), begin: self.len, end: self.len, block: BACKWARD_BLOCK }
    }
}

/// Lines from an offset to the end of a transcript.
#[derive(Debug)]
pub struct Forward<'r> {
    reader: &'r LogReader,
    buffer: Vec<u8>,
    /// Index in the buffer of the next line.
    start: usize,
    /// Offset in the file of the next line.
    offset: u64,
    /// Offset in the file behind the buffer.
    read_to: u64,
    /// How much is read next.
    block: usize,
}

impl Forward<'_> {
    /// The next line, or `None` at the end.
    #[expect(clippy::should_implement_trait, reason = "the line borrows the reader's buffer")]
    pub fn next(&mut self) -> Result<Option<Physical<'_>>> {
        let mut searched = self.start;
        loop {
            if let Some(at) = memchr(b'\n', &self.buffer[searched..]) {
                let (start, end) = (self.start, searched + at);
                return Ok(Some(self.take(start, end, true)));
            }
            searched = self.buffer.len();
            if searched - self.start > MAX_LINE {
                return self.skip_overlong().map(Some);
            }
            let before = self.start;
            if !self.fill()? {
                let (start, end) = (self.start, self.buffer.len());
                return Ok(if start == end { None } else { Some(self.take(start, end, false)) });
            }
            searched -= before;
        }
    }

    fn take(&mut self, start: usize, end: usize, terminated: bool) -> Physical<'_> {
        let len = (end - start) as u64;
        let offset = self.offset;
        self.start = end + usize::from(terminated);
        self.offset = offset + len + u64::from(terminated);
        Physical::new(offset, &self.buffer[start..end], terminated)
    }

    /// Drops what was handed out and reads one more block; `false` at the end of the file.
    fn fill(&mut self) -> Result<bool> {
        self.buffer.drain(..self.start);
        self.start = 0;
        let left = usize::try_from(self.reader.len.saturating_sub(self.read_to)).unwrap_or(usize::MAX);
        // Blocks grow with the line, so that a long one is not copied over and over.
        let want = left.min(self.block.max(self.buffer.len()));
        self.block = FORWARD_BLOCK.min(self.block.saturating_mul(2));
        let have = self.buffer.len();
        self.buffer.resize(have + want, 0);
        let filled = read_full(self.reader.file.as_ref(), &mut self.buffer[have..], self.read_to)
            .context("read", &self.reader.path)?;
        self.buffer.truncate(have + filled);
        self.read_to += filled as u64;
        Ok(filled > 0)
    }

    /// Passes over a line that is too long to keep.
    fn skip_overlong(&mut self) -> Result<Physical<'_>> {
        let offset = self.offset;
        loop {
            self.start = self.buffer.len();
            if !self.fill()? {
                let len = self.read_to - offset;
                self.offset = self.read_to;
                return Ok(Physical { offset, bytes: &[], len, terminated: false });
            }
            if let Some(at) = memchr(b'\n', &self.buffer) {
                let len = self.read_to - self.buffer.len() as u64 + at as u64 - offset;
                self.start = at + 1;
                self.offset = offset + len + 1;
                return Ok(Physical { offset, bytes: &[], len, terminated: true });
            }
        }
    }
}

/// Lines from the end of a transcript to its beginning.
#[derive(Debug)]
pub struct Backward<'r> {
    reader: &'r LogReader,
    /// The bytes of the file from `begin` on; those from `end` on have been handed out.
    buffer: Vec<u8>,
    begin: u64,
    end: u64,
    block: usize,
}

impl Backward<'_> {
    /// The line before the last one returned, or `None` at the beginning.
    #[expect(clippy::should_implement_trait, reason = "the line borrows the reader's buffer")]
    pub fn next(&mut self) -> Result<Option<Physical<'_>>> {
        if self.end == 0 {
            return Ok(None);
        }
        if self.end == self.begin {
            self.buffer.clear();
            self.prepend()?;
        }
        let mut used = self.used();
        let terminated = self.buffer[used - 1] == b'\n';
        loop {
            let text = used - usize::from(terminated);
            if let Some(at) = memrchr(b'\n', &self.buffer[..text]) {
                return Ok(Some(self.take(at + 1, text, terminated)));
            }
            if self.begin == 0 {
                return Ok(Some(self.take(0, text, terminated)));
            }
            if text > MAX_LINE {
                return self.skip_overlong(terminated).map(Some);
            }
            self.prepend()?;
            used = self.used();
        }
    }

    /// Offset behind the line that comes next.
    pub fn position(&self) -> u64 {
        self.end
    }

    fn used(&self) -> usize {
        usize::try_from(self.end - self.begin).unwrap_or(usize::MAX)
    }

    fn take(&mut self, start: usize, text: usize, terminated: bool) -> Physical<'_> {
        let offset = self.begin + start as u64;
        self.end = offset;
        Physical::new(offset, &self.buffer[start..text], terminated)
    }

    /// Reads the block before `begin` and puts it in front of what is still needed.
    fn prepend(&mut self) -> Result<()> {
        let used = self.used();
        let want = usize::try_from(self.begin).unwrap_or(usize::MAX).min(self.block.max(used));
        let from = self.begin - want as u64;
        let mut joined = vec![0; want + used];
        let filled =
            read_full(self.reader.file.as_ref(), &mut joined[..want], from).context("read", &self.reader.path)?;
        if filled < want {
            let source = io::Error::new(io::ErrorKind::UnexpectedEof, "the file became shorter while it was read");
            return Err(source).context("read", &self.reader.path);
        }
        joined[want..].copy_from_slice(&self.buffer[..used]);
        self.buffer = joined;
        self.begin = from;
        Ok(())
    }

    /// Passes over a line that is too long to keep.
    fn skip_overlong(&mut self, terminated: bool) -> Result<Physical<'_>> {
        let behind = self.end - u64::from(terminated);
        loop {
            self.end = self.begin;
            self.buffer.clear();
            if self.begin == 0 {
                self.end = 0;
                return Ok(Physical { offset: 0, bytes: &[], len: behind, terminated });
            }
            self.prepend()?;
            if let Some(at) = memrchr(b'\n', &self.buffer) {
                let offset = self.begin + at as u64 + 1;
                self.end = offset;
                return Ok(Physical { offset, bytes: &[], len: behind - offset, terminated });
            }
        }
    }
}
