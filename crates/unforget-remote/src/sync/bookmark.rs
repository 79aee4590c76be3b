//! How much of a session a remote has confirmed: one small file for each session and remote.
//!
//! ```text
//! {"v":1,"lines":12,"bytes":3456,"digest":"…","last":3300,"before":"…","file":[64769,1234],"check":"0123456789abcdef"}
//! ```
//! `check` is the beginning of the SHA-256 of everything before that member.
//!
//! With it, only what is new is read. It is believed as long as the transcript is the same file, is not shorter, and its line at `last`
//! leads from the digest `before` to the digest of the whole; anything else costs one full read. It is replaced atomically but not
//! synced: after a power cut it may be old or unreadable, and neither can do harm, because the remote compares positions itself.
//!
//! It guards against a cost that grows with the session. It is also this machine's witness of what the remote had: see [`head`](super::head).
//! `"gone":true` says that the session was deleted at the remote from here, so its absence is no loss.

use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use unforget_core::frontier::Frontier;
use unforget_core::layout::{self, AgentDir};
use unforget_core::medium::{FileKind, Medium, parent, read_small, replace_atomic};
use unforget_core::reader::LogReader;
use unforget_core::stamp::SessionId;
use unforget_core::{encode, json};

use crate::error::{Error, Result};
use crate::sync::Local;

/// The longest bookmark that is read.
const MAX_BOOKMARK: u64 = 4096;
/// What stands before the digits that prove the rest.
const CHECK: &str = ",\"check\":\"";
const CHECK_DIGITS: usize = 16;
/// How much is sent at once.
pub(super) const BATCH_BYTES: u64 = 4 << 20;
pub(super) const BATCH_LINES: usize = 5_000;

/// A place in a transcript that can be found again and proved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bookmark {
    /// Everything before it.
    pub end: Frontier,
    /// Where the last line before it begins.
    last: u64,
    /// The digest before that line.
    before: [u8; 32],
    /// Device and inode of the file.
    file: (u64, u64),
    /// Whether this machine deleted the session at the remote.
    is_gone: bool,
}

impl Bookmark {
    /// Whether this machine deleted the session at the remote.
    pub fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// The beginning of a file.
    pub(super) fn start(file: (u64, u64)) -> Self {
        Self { file, ..Self::default() }
    }

    /// Device and inode of the file.
    pub(super) fn file(&self) -> (u64, u64) {
        self.file
    }

    /// Goes past one more line.
    pub(super) fn pass(&mut self, line: &[u8]) {
        (self.last, self.before) = (self.end.bytes, self.end.digest);
        self.end = self.end.after(line);
    }

    /// Whether a transcript still has, in front of this place, what it had.
    fn is_in(&self, reader: &LogReader) -> Result<bool> {
        if self.file != reader.identity() || reader.len() < self.end.bytes || self.end.lines == 0 {
            return Ok(false);
        }
        let before = Frontier { lines: self.end.lines - 1, bytes: self.last, digest: self.before };
        let mut forward = reader.forward(self.last);
        Ok(match forward.next()? {
            Some(line) if line.terminated && !line.is_overlong() => before.after(line.bytes) == self.end,
            _ => false,
        })
    }

    /// The whole lines behind this place, at most a batch of them, and the place behind those.
    pub(super) fn batch(&self, reader: &LogReader) -> Result<(Vec<Bytes>, Self)> {
        let (mut lines, mut next) = (Vec::new(), *self);
        let mut forward = reader.forward(self.end.bytes);
        while let Some(line) = forward.next()? {
            if !line.terminated {
                break;
            }
            if line.is_overlong() {
                return Err(too_long(line.len));
            }
            let is_full = lines.len() >= BATCH_LINES || line.end() - self.end.bytes > BATCH_BYTES;
            if is_full && !lines.is_empty() {
                break;
            }
            lines.push(Bytes::copy_from_slice(line.bytes));
            next.pass(line.bytes);
        }
        Ok((lines, next))
    }

    /// Goes to the end of the whole lines of a transcript; tells the place behind `crossing` lines, if there are as many.
    pub(super) fn walk(mut self, reader: &LogReader, crossing: u64) -> Result<(Self, Option<Self>)> {
        let mut crossed = (self.end.lines == crossing).then_some(self);
        let mut forward = reader.forward(self.end.bytes);
        while let Some(line) = forward.next()? {
            if !line.terminated {
                break;
            }
            if line.is_overlong() {
                return Err(too_long(line.len));
            }
            self.pass(line.bytes);
            if self.end.lines == crossing {
                crossed = Some(self);
            }
        }
        Ok((self, crossed))
    }

    fn encode(&self) -> String {
        let Frontier { lines, bytes, .. } = self.end;
        let gone = if self.is_gone { ",\"gone\":true" } else { "" };
        let text = format!(
            "{{\"v\":1,\"lines\":{lines},\"bytes\":{bytes},\"digest\":\"{}\",\"last\":{},\"before\":\"{}\",\"file\":[{},{}]{gone}",
            self.end.hex(),
            self.last,
            encode::hex(&self.before),
            self.file.0,
            self.file.1
        );
        format!("{text}{CHECK}{}\"}}\n", check(&text))
    }

    fn decode(text: &str) -> Option<Self> {
        let (before, stated) = text.rsplit_once(CHECK)?;
        if stated.strip_suffix("\"}")? != check(before) {
            return None;
        }
        let members = json::members(text)?;
        let number = |name| json::number(json::member(&members, name)?);
        let digest = |name| digest(&json::string(json::member(&members, name)?)?);
        if number("v")? != 1 {
            return None;
        }
        let [device, inode] = json::elements(json::member(&members, "file")?)?.try_into().ok()?;
        Some(Self {
            end: Frontier { lines: number("lines")?, bytes: number("bytes")?, digest: digest("digest")? },
            last: number("last")?,
            before: digest("before")?,
            file: (json::number(device)?, json::number(inode)?),
            is_gone: json::member(&members, "gone") == Some("true"),
        })
    }
}

/// The bookmarks of one remote in a home directory.
#[derive(Debug, Clone)]
pub struct Bookmarks {
    medium: Arc<dyn Medium>,
    remote: String,
}

impl Bookmarks {
    /// The bookmarks of a remote that goes by a name in this home.
    pub fn new(medium: Arc<dyn Medium>, remote: &str) -> Self {
        Self { medium, remote: remote.to_owned() }
    }

    /// What the remote confirmed last, whatever the transcript is now.
    pub fn get(&self, dir: &AgentDir, id: &SessionId) -> Option<Bookmark> {
        // One that cannot be read costs a full read of the transcript, which is what it saves.
        let bytes = read_small(self.medium.as_ref(), &dir.bookmark(&self.remote, id), MAX_BOOKMARK).ok()?;
        Bookmark::decode(std::str::from_utf8(&bytes).ok()?.trim_end())
    }

    /// What the remote confirmed of the transcript that is here now.
    pub fn proved(&self, local: &dyn Local, reader: &LogReader) -> Result<Option<Bookmark>> {
        match self.get(local.dir(), local.id()) {
            Some(bookmark) if bookmark.is_in(reader)? => Ok(Some(bookmark)),
            _ => Ok(None),
        }
    }

    /// Remembers what the remote confirmed; if that cannot be done, the next call reads more.
    pub(super) fn put(&self, local: &dyn Local, bookmark: &Bookmark) {
        self.write(local.dir(), local.id(), &Bookmark { is_gone: false, ..*bookmark });
    }

    /// Remembers that this machine deleted a session at the remote.
    pub fn mark_gone(&self, dir: &AgentDir, id: &SessionId) {
        if let Some(bookmark) = self.get(dir, id) {
            self.write(dir, id, &Bookmark { is_gone: true, ..bookmark });
        }
    }

    /// The sessions that the remote has confirmed something of.
    pub fn known(&self) -> Result<Vec<(AgentDir, SessionId)>> {
        let top = Path::new(layout::REMOTES).join(encode::file_name(&self.remote));
        let mut known = Vec::new();
        for (dir, kind) in self.names(&top)? {
            // What is known of companion files is in directories that no agent has.
            let dir = Some(AgentDir::found(&dir)).filter(|_| kind == FileKind::Directory);
            let Some(dir) = dir.filter(|dir| dir.agent().is_some_and(|agent| !agent.contains('/'))) else { continue };
            for (name, _) in self.names(&top.join(dir.as_str()))? {
                known.extend(name.strip_suffix(".json").and_then(SessionId::parse).map(|id| (dir.clone(), id)));
            }
        }
        Ok(known)
    }

    fn names(&self, dir: &Path) -> Result<Vec<(String, FileKind)>> {
        match self.medium.list(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            listed => listed
                .map_err(|source| unforget_core::Error::Io { action: "list", path: dir.to_path_buf(), source }.into()),
        }
    }

    fn write(&self, dir: &AgentDir, id: &SessionId, bookmark: &Bookmark) {
        let path = dir.bookmark(&self.remote, id);
        let text = bookmark.encode();
        let replaced = match replace_atomic(self.medium.as_ref(), &path, text.as_bytes()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self
                .medium
                .create_dir(parent(&path))
                .and_then(|()| replace_atomic(self.medium.as_ref(), &path, text.as_bytes())),
            replaced => replaced,
        };
        if let Err(error) = replaced {
            tracing::warn!(path = %path.display(), %error, "what the remote confirmed is not remembered");
        }
    }

    /// Forgets what the remote confirmed, so that a session that was deleted there may be sent again.
    pub fn forget(&self, dir: &AgentDir, id: &SessionId) -> Result<()> {
        let path = dir.bookmark(&self.remote, id);
        match self.medium.remove(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(unforget_core::Error::Io { action: "remove", path, source }.into())
            }
            _ => Ok(()),
        }
    }
}

fn check(text: &str) -> String {
    let mut digits = encode::sha256_hex(text.as_bytes());
    digits.truncate(CHECK_DIGITS);
    digits
}

/// The digest that hexadecimal digits stand for.
pub(crate) fn digest(hex: &str) -> Option<[u8; 32]> {
    let mut digest = [0; 32];
    if hex.len() != 64 || !hex.is_ascii() {
        return None;
    }
    for (byte, at) in digest.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(hex.get(at..at + 2)?, 16).ok()?;
    }
    Some(digest)
}

fn too_long(len: u64) -> Error {
    Error::Invalid(format!("a line of {len} bytes is too long to be sent"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bookmark_is_read_as_it_was_written() {
        let mut bookmark = Bookmark::start((7, 8));
        bookmark.pass(b"one");
        bookmark.pass(b"two");
        assert_eq!(Bookmark::decode(bookmark.encode().trim_end()), Some(bookmark));
        for text in ["", "{}", "null", "{\"v\":2}", "{\"v\":1,\"lines\":1,\"file\":[1]}"] {
            assert_eq!(Bookmark::decode(text), None, "{text}");
        }
        let changed = bookmark.encode().replace("\"lines\":2", "\"lines\":1");
        assert_eq!(Bookmark::decode(changed.trim_end()), None);
    }
}
