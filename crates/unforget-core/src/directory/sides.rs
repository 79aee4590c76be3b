//! What a session has besides its transcript: transcripts of sub-agents, and files.
//!
//! Sessions of another program consist of more than one file. Those that only grow, line by line, are kept as they are, each as a *side
//! transcript* under its name. Everything else is a *kept file*: its bytes are a payload, and a side transcript in this program's own
//! format says in `file` records which file had which content when. So nothing that was once kept is overwritten. Every home writes
//! such a list of its own ([`FILES`] and the home's name), so two machines never disagree about one; what was said last counts.
//!
//! Sides stay where they are while their session is in the trash, and go when it goes for good. Names are data: which path
//! one becomes elsewhere is not known here.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::blob::{BlobRef, references};
use crate::directory::Directory;
use crate::encode;
use crate::error::{Error, IoContext as _, Result};
use crate::files::{self, Seen};
use crate::json;
use crate::layout::{self, AgentDir};
use crate::medium::{FileKind, publish_durable, publish_written, read_small};
use crate::reader::LogReader;
use crate::recent::End;
use crate::record::{Body, Draft};
use crate::replica::Intake;
use crate::scan::Scanner;
use crate::session::encode_next;
use crate::stamp::SessionId;

/// What the names of side transcripts begin with that say which files there are.
pub const FILES: &str = "@files-";
/// How long a home's name is.
const NAME_DIGITS: usize = 12;
/// The longest content of the file that holds it.
const MAX_NAME: u64 = 64;
/// The largest file that is kept.
pub const MAX_FILE: u64 = 256 << 20;

/// A file of a session, as it was kept last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptFile {
    /// Where its bytes are; none if they were not kept.
    pub payload: Option<BlobRef>,
    /// When it was modified where it came from, in nanoseconds since the epoch.
    pub modified_ns: i64,
    /// How long it was there.
    pub bytes: u64,
}

/// A file of a session that is to be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileNote {
    /// What it is called.
    pub name: String,
    /// What is in it.
    pub seen: Seen,
    /// How long it is.
    pub bytes: u64,
    /// When it was modified, in nanoseconds since the epoch.
    pub modified_ns: i64,
}

impl Directory {
    /// Names of a session's side transcripts, in order.
    pub fn sides(&self, dir: &AgentDir, id: &SessionId) -> Result<Vec<String>> {
        let folder = dir.sides(id);
        let entries = match self.shared.medium.list(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            other => other.context("list", &folder)?,
        };
        let files = entries.into_iter().filter(|(_, kind)| *kind == FileKind::File);
        let mut names: Vec<String> = files.filter_map(|(name, _)| layout::side_name(&name)).collect();
        names.sort();
        Ok(names)
    }

    /// Opens a side transcript to add lines; there is one when this returns.
    pub fn open_side(&self, dir: &AgentDir, id: &SessionId, name: &str) -> Result<Intake> {
        let path = side_path(dir, id, name)?;
        if self.shared.medium.stat(&path).is_err() {
            self.begin(&path, |_| Ok(()))?;
        }
        Intake::open(self.shared.medium.clone(), &path)
    }

    /// Begins a session of another program with all that is written; `false` if there is one already.
    pub fn begin_foreign(
        &self,
        dir: &AgentDir,
        id: &SessionId,
        write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>,
    ) -> Result<bool> {
        self.begin(&dir.transcript(id), write)
    }

    fn begin(&self, path: &Path, write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>) -> Result<bool> {
        let folder = crate::medium::parent(path);
        self.shared.medium.create_dir(folder).context("create", folder)?;
        publish_written(self.shared.medium.as_ref(), path, write).context("write", path)
    }

    /// Writes down what files of a session have in them now; says how many were new.
    pub fn keep_files(&self, dir: &AgentDir, id: &SessionId, notes: &[FileNote]) -> Result<u64> {
        if notes.is_empty() {
            return Ok(0);
        }
        let mut intake = self.open_side(dir, id, &format!("{FILES}{}", self.home_name()?))?;
        let mut end = End::of(&intake.reader()?)?;
        let mut text = String::new();
        let now_ms = self.shared.source.now_ms();
        for note in notes {
            let draft = Draft::new("file")
                .text("path", &note.name)
                .raw("after", &note.seen.to_json())
                .raw("modified_ns", &note.modified_ns.to_string())
                .raw("bytes", &note.bytes.to_string());
            draft.check()?;
            let (slim, pointers) = self.blobs().extract(&draft)?;
            text.push_str(&encode_next(&mut end, &slim, &pointers, now_ms)?);
        }
        intake.append(text.as_bytes())?;
        intake.close();
        Ok(notes.len() as u64)
    }

    /// The files of a session as they were kept last; those that were removed since stay.
    pub fn kept_files(&self, dir: &AgentDir, id: &SessionId) -> Result<BTreeMap<String, KeptFile>> {
        let mut said: Vec<(i64, String, KeptFile)> = Vec::new();
        for name in self.sides(dir, id)?.iter().filter(|name| name.starts_with(FILES)) {
            said.extend(self.said_of_files(&dir.side(id, name))?);
        }
        // By time, and within one list in its own order.
        said.sort_by_key(|(ms, ..)| *ms);
        Ok(said.into_iter().map(|(_, name, file)| (name, file)).collect())
    }

    fn said_of_files(&self, path: &Path) -> Result<Vec<(i64, String, KeptFile)>> {
        let reader = LogReader::open(self.shared.medium.as_ref(), path)?;
        let mut said = Vec::new();
        let mut last_ms = 0;
        let mut scanner = Scanner::default();
        let mut forward = reader.forward(0);
        while let Some(line) = forward.next()? {
            scanner.feed(&line, |record| {
                let Body::File(change) = &record.body else { return };
                last_ms = record.time_ms().unwrap_or(last_ms).max(last_ms);
                let members = json::members(record.raw).unwrap_or_default();
                let number = |name| json::member(&members, name).and_then(json::number);
                let file = KeptFile {
                    payload: references(&record).into_iter().flatten().next(),
                    modified_ns: number("modified_ns").and_then(|ns| i64::try_from(ns).ok()).unwrap_or(0),
                    bytes: number("bytes").unwrap_or(0),
                };
                said.push((last_ms, change.path.clone().into_owned(), file));
            });
        }
        Ok(said)
    }

    /// What this home is called among others: made once, and meaning nothing.
    pub fn home_name(&self) -> Result<String> {
        let path = Path::new(layout::HOME_NAME);
        let read = || {
            read_small(self.shared.medium.as_ref(), path, MAX_NAME).ok().and_then(|bytes| String::from_utf8(bytes).ok())
        };
        let is_name = |name: &String| name.len() == NAME_DIGITS && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        if let Some(name) = read().map(|name| name.trim().to_owned()).filter(is_name) {
            return Ok(name);
        }
        let random = uuid::Uuid::now_v7().simple().to_string();
        let name = random.get(random.len() - NAME_DIGITS..).unwrap_or_default().to_owned();
        self.shared.medium.create_dir(Path::new("")).context("create", Path::new(""))?;
        // Whoever was faster named it.
        publish_durable(self.shared.medium.as_ref(), path, format!("{name}\n").as_bytes()).context("write", path)?;
        Ok(read().map(|name| name.trim().to_owned()).filter(is_name).unwrap_or(name))
    }

    /// The bytes of a kept file; none if they were not kept or are not here.
    pub fn kept_bytes(&self, file: &KeptFile) -> Result<Option<Vec<u8>>> {
        let Some(payload) = &file.payload else { return Ok(None) };
        match self.blobs().get(&payload.sha256) {
            Ok(stored) => Ok(files::bytes(&stored)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes the sides of a session that is gone for good.
    pub(crate) fn remove_sides(&self, dir: &AgentDir, id: &SessionId) -> Result<()> {
        for name in self.sides(dir, id)? {
            let path = dir.side(id, &name);
            self.shared.medium.remove(&path).context("remove", &path)?;
        }
        Ok(())
    }
}

/// Where a side transcript is; a name so long that it could not be read back from its file is refused.
pub fn side_path(dir: &AgentDir, id: &SessionId, name: &str) -> Result<PathBuf> {
    match encode::decode_file_name(&encode::file_name(name)) {
        Some(_) => Ok(dir.side(id, name)),
        None => Err(Error::Invalid(format!("`{name}` cannot be the name of a side transcript"))),
    }
}
