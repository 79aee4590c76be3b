//! A session on its way here: a file beside its place that nobody reads before it is whole.
//!
//! Each page is proved before it is written, and what lines refer to is here before they are. The file is not synced before it is whole: what
//! a crash leaves is proved again by its digest, and gone on from or begun anew. It holds nothing that the remote has not, so it may be
//! cut and removed at will; the transcript may not.
//!
//! One process at a time fetches a session; the lock is the file's own.

use std::io;
use std::path::Path;

use unforget_core::frontier::Frontier;
use unforget_core::medium::{Access, Handle, parent, write_full};
use unforget_core::reader::LogReader;

use crate::error::{Error, Result};
use crate::sync::bookmark::Bookmark;
use crate::sync::compare::proved;
use crate::sync::head;
use crate::sync::{Link, Local, Progress, Watch, payload};

/// How many bytes are written at once, unless a line has more.
const WRITTEN: usize = 1 << 20;

/// A file with everything that the remote had when it was asked.
pub(super) struct Part {
    /// The file, whose lock is held.
    pub(super) file: Box<dyn Handle>,
    /// Its end.
    pub(super) end: Bookmark,
    /// How many lines were fetched now.
    pub(super) lines: u64,
    /// How many bytes.
    pub(super) bytes: u64,
    /// Payloads that are nowhere to be found.
    pub(super) missing: Vec<String>,
}

impl Part {
    /// Fetches everything that the remote has.
    pub(super) async fn fetch(link: &Link<'_>, watch: Watch<'_>) -> Result<Self> {
        let (there, witnesses) = head::frontier(link).await?;
        let mut part = Self::open(link.local)?;
        let path = link.local.part();
        let start = Bookmark::start(part.end.file());
        // What a crash or another remote left may be something else, or more than the remote has.
        if part.end.end.lines >= there.lines && part.end.end != there {
            part.cut(link.local, start)?;
        }
        while part.end.end.lines < there.lines {
            let page = match link.remote.read(link.stream, part.end.end.lines).await {
                // It was deleted and begun anew meanwhile.
                Err(Error::Conflict { .. }) => {
                    let reason = "it became shorter while it was read".to_owned();
                    return Err(Error::Unavailable { place: link.stream.to_string(), reason, wait: None });
                }
                page => page?,
            };
            if page.before != part.end.end && part.end.end.lines > 0 && part.lines == 0 {
                part.cut(link.local, start)?;
                continue;
            }
            proved(link.stream, &part.end.end, &page)?;
            witnesses.check_page(link.stream, &page)?;
            if page.lines.is_empty() {
                break;
            }
            part.missing.extend(payload::fetch(link, &page.lines).await?);
            let before = part.end.end;
            let mut bytes = Vec::new();
            for line in page.lines {
                bytes.extend_from_slice(&line);
                bytes.push(b'\n');
                part.end.pass(&line);
                // A page may be long: it is not in memory twice.
                if bytes.len() >= WRITTEN {
                    write_full(part.file.as_mut(), &bytes).map_err(|source| failed("write", &path, source))?;
                    bytes.clear();
                }
            }
            write_full(part.file.as_mut(), &bytes).map_err(|source| failed("write", &path, source))?;
            part.lines += part.end.end.lines - before.lines;
            part.bytes += part.end.end.bytes - before.bytes;
            watch(Progress { lines: part.lines, bytes: part.bytes, of_bytes: there.bytes });
        }
        if part.end.end.lines == there.lines && part.end.end != there {
            part.cut(link.local, start)?;
            let reason = "its lines are not those that it says it has".to_owned();
            return Err(Error::Corrupt { what: link.stream.to_string(), reason });
        }
        part.file.sync_data().map_err(|source| failed("make durable", &path, source))?;
        if let Err(error) = link.local.check(&path) {
            part.cut(link.local, start)?;
            return Err(match error {
                unforget_core::Error::Io { .. } => error.into(),
                other => Error::Corrupt { what: link.stream.to_string(), reason: other.to_string() },
            });
        }
        Ok(part)
    }

    /// Opens what is there of the file, which may be nothing.
    fn open(local: &dyn Local) -> Result<Self> {
        let (medium, path) = (local.medium(), local.part());
        medium.create_dir(parent(&path)).map_err(|source| failed("create", parent(&path), source))?;
        let file = match medium.open(&path, Access::CreateNew) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => medium.open(&path, Access::Append),
            file => file,
        };
        let file = file.map_err(|source| failed("open", &path, source))?;
        if !file.try_lock().map_err(|source| failed("lock", &path, source))? {
            let holder = file.stat().ok().and_then(|stat| medium.lock_holder(&stat));
            let holder = holder.unwrap_or_else(|| "another process".to_owned());
            return Err(unforget_core::Error::Busy { path, holder }.into());
        }
        let stat = file.stat().map_err(|source| failed("look at", &path, source))?;
        // Whoever held the lock before may have put the file in its place, or removed it.
        let named = medium.stat(&path).map_err(|source| failed("look at", &path, source))?;
        if named.identity != stat.identity {
            return Err(unforget_core::Error::Busy { path, holder: "another process".to_owned() }.into());
        }
        let start = Bookmark::start(stat.identity);
        let mut part = Self { file, end: start, lines: 0, bytes: 0, missing: Vec::new() };
        match LogReader::open(medium.as_ref(), &path).map(|reader| start.walk(&reader, 0)) {
            Ok(Ok((end, _))) => part.end = end,
            Err(error @ unforget_core::Error::Io { .. }) => return Err(error.into()),
            // What it holds is no transcript.
            Ok(Err(_)) | Err(_) => {}
        }
        if part.end.end.bytes < stat.len {
            let end = part.end;
            part.cut(local, end)?;
        }
        Ok(part)
    }

    /// Keeps only what is before a place.
    fn cut(&mut self, local: &dyn Local, at: Bookmark) -> Result<()> {
        let path = local.part();
        self.file.set_len(at.end.bytes).map_err(|source| failed("cut", &path, source))?;
        self.end = at;
        Ok(())
    }

    /// Removes the file.
    pub(super) fn remove(self, local: &dyn Local) -> Result<()> {
        let path = local.part();
        local.medium().remove(&path).map_err(|source| failed("remove", &path, source))
    }

    /// Adds lines of this side.
    pub(super) fn extend(&mut self, local: &dyn Local, lines: &[u8]) -> Result<()> {
        let path = local.part();
        let written = write_full(self.file.as_mut(), lines).and_then(|()| self.file.sync_data());
        written.map_err(|source| failed("write", &path, source))
    }

    /// What it holds.
    pub(super) fn frontier(&self) -> Frontier {
        self.end.end
    }
}

pub(super) fn failed(action: &'static str, path: &Path, source: io::Error) -> Error {
    unforget_core::Error::Io { action, path: path.to_path_buf(), source }.into()
}
