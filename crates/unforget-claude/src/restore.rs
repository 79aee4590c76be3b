//! Restoring: a session of the store, into a directory where Claude Code finds it.
//!
//! Any directory, any project: the program looks for a session under the name of its working directory, so that is where it is put. First what
//! the transcript refers to, then the transcript, whole or not at all; its time is the time of restoring, because the program throws away
//! what looks old, and takes the newest for the one to go on with.
//!
//! What is there is never lost. A transcript with lines that are not kept stays as it is, and so does one that someone is
//! writing; a file with another content is left alone and told.

use std::borrow::Cow;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use unforget_core::json;
use unforget_core::medium::{Medium, parent, read_small, replace_written};
use unforget_core::reader::LogReader;
use unforget_core::stamp::SessionId as Kept;
use unforget_core::store::{FILES, MAX_FILE};

use crate::copy::{self, Mark};
use crate::error::{Error, Result};
use crate::footprint::{file_path, side_path};
use crate::id::SessionId;
use crate::keep::{Keeper, agent, kept_id};
use crate::live::{self, Writer};
use crate::place::{PROJECTS, transcript};
use crate::project::ProjectKey;
use crate::rewrite::Rewrite;
use crate::tail::{Step, Tail};

/// How a session is to be restored.
#[derive(Debug)]
pub struct Wish<'a> {
    /// Under which project.
    pub project: &'a ProjectKey,
    /// What is put right in its lines.
    pub rewrite: Option<&'a Rewrite>,
    /// How much of its transcript.
    pub extent: Extent,
}

/// How much of a transcript is restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Extent {
    /// All of it.
    #[default]
    Whole,
    /// What resuming needs: everything since the last compaction.
    Tail,
}

/// What was restored.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Restored {
    /// The transcript.
    pub path: PathBuf,
    /// Its lines.
    pub lines: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Whether that is only the end of what is kept.
    pub is_tail: bool,
    /// Transcripts of sub-agents.
    pub sides: u64,
    /// Files.
    pub files: u64,
    /// What was left as it is, one sentence each.
    pub left_alone: Vec<String>,
}

impl Keeper {
    /// Restores a session that is kept.
    pub fn restore(&self, id: &SessionId, wish: &Wish<'_>, is_alive: &dyn Fn(&Writer) -> bool) -> Result<Restored> {
        let kept = kept_id(id)?;
        let reader = LogReader::open(self.store.medium().as_ref(), &agent().transcript(&kept))?;
        let target = self.target(id, wish.project, is_alive)?;
        self.check_newer(&target, Some(&reader))?;
        let mut restored = self.restore_parts(id, &kept, wish)?;
        let lines = match wish.extent {
            Extent::Whole => None,
            Extent::Tail => tail_of(&reader)?,
        };
        restored.is_tail = lines.is_some();
        let source = lines.map_or(Source::Kept(&reader), Source::Lines);
        self.write(&target, wish.rewrite, &source, Rest::Here(reader.len()), &mut restored)?;
        Ok(restored)
    }

    /// Puts the end of a session in its place, of which the rest is not here: nothing of it is saved before that is.
    pub fn restore_end(
        &self,
        id: &SessionId,
        wish: &Wish<'_>,
        lines: Vec<Vec<u8>>,
        is_alive: &dyn Fn(&Writer) -> bool,
    ) -> Result<Restored> {
        let target = self.target(id, wish.project, is_alive)?;
        self.check_newer(&target, None)?;
        let mut restored = Restored { is_tail: true, ..Restored::default() };
        self.write(&target, wish.rewrite, &Source::Lines(lines), Rest::Elsewhere, &mut restored)?;
        Ok(restored)
    }

    /// Where a session goes; refused while someone writes it, or where it is somewhere else in the same directory.
    fn target(&self, id: &SessionId, project: &ProjectKey, is_alive: &dyn Fn(&Writer) -> bool) -> Result<PathBuf> {
        if let Some(writer) = live::live(&self.config, id, is_alive)?.writers.into_iter().next() {
            return Err(Error::Live { id: id.to_string(), writer: writer.to_string() });
        }
        let target = transcript(project, id);
        match self.config.find(id)?.sessions.into_iter().find(|found| found.path != target) {
            Some(found) => Err(Error::Elsewhere { path: self.config.medium().root().join(found.path) }),
            None => Ok(target),
        }
    }

    /// Refuses to put something in the place of a transcript that has lines which are not kept.
    fn check_newer(&self, target: &Path, kept: Option<&LogReader>) -> Result<()> {
        let medium = self.config.medium();
        let there = match LogReader::open(medium, target) {
            Err(error) if error.is_io(io::ErrorKind::NotFound) => return Ok(()),
            other => other?,
        };
        let absolute = medium.root().join(target);
        let mark = self.marks.get(&absolute);
        let is_newer = match kept {
            Some(kept) => !copy::news(&there, kept, mark.as_ref())?.is_empty(),
            None => match mark.as_ref().map(|mark| copy::since(&there, mark)).transpose()?.flatten() {
                Some(news) => !news.is_empty(),
                None => true,
            },
        };
        if is_newer { Err(Error::Newer { path: absolute }) } else { Ok(()) }
    }

    fn restore_parts(&self, id: &SessionId, kept: &Kept, wish: &Wish<'_>) -> Result<Restored> {
        let mut restored = Restored::default();
        let (dir, medium) = (agent(), self.config.medium());
        for name in self.store.sides(&dir, kept)?.iter().filter(|name| !name.starts_with(FILES)) {
            let target = side_path(name, wish.project, id)?;
            let reader = LogReader::open(self.store.medium().as_ref(), &dir.side(kept, name))?;
            match self.check_newer(&target, Some(&reader)) {
                Ok(()) => {
                    let source = Source::Kept(&reader);
                    let rest = Rest::Here(reader.len());
                    self.write(&target, wish.rewrite, &source, rest, &mut Restored::default())?;
                    restored.sides += 1;
                }
                Err(Error::Newer { path }) => {
                    restored.left_alone.push(format!("{} has lines that are not kept", path.display()));
                }
                Err(error) => return Err(error),
            }
        }
        for (name, file) in self.store.kept_files(&dir, kept)? {
            let target = file_path(&name, wish.project, id)?;
            let Some(bytes) = self.store.kept_bytes(&file)? else {
                restored.left_alone.push(format!("{name}: its content was not kept, or is not here"));
                continue;
            };
            match read_small(medium, &target, MAX_FILE) {
                Ok(there) if there == bytes => continue,
                Ok(_) => {
                    restored.left_alone.push(format!("{} has another content", medium.root().join(&target).display()));
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(source) => return Err(Error::Io { action: "read", path: target, source }),
            }
            put(medium, &target, |out| out.write_all(&bytes))?;
            restored.files += 1;
        }
        Ok(restored)
    }

    /// Writes a transcript and remembers that all of it is kept.
    fn write(
        &self,
        target: &Path,
        rewrite: Option<&Rewrite>,
        source: &Source<'_>,
        rest: Rest,
        restored: &mut Restored,
    ) -> Result<()> {
        let medium = self.config.medium();
        put(medium, target, |out| {
            source.each(&mut |line| {
                let right = match (rewrite, std::str::from_utf8(line)) {
                    (Some(rewrite), Ok(text)) => rewrite.line(text),
                    _ => Cow::Borrowed(""),
                };
                let line = if right.is_empty() { line } else { right.as_bytes() };
                restored.lines += 1;
                restored.bytes += line.len() as u64 + 1;
                out.write_all(line)?;
                out.write_all(b"\n")
            })
        })?;
        restored.path = medium.root().join(target);
        let written = LogReader::open(medium, target)?;
        let (is_part, kept) = match rest {
            Rest::Here(kept) => (false, kept),
            Rest::Elsewhere => (true, 0),
        };
        let mark = Mark { is_part, ..Mark::at(&written, written.len(), kept)? };
        self.marks.put(&restored.path, &mark);
        Ok(())
    }
}

/// Where a session was at work.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkedIn {
    /// The folder.
    pub folder: Option<String>,
    /// The program's directory, as far as the session's lines tell.
    pub config_dir: Option<String>,
}

impl Keeper {
    /// Where a session was at work before.
    pub fn worked_in(&self, id: &SessionId) -> Result<WorkedIn> {
        let path = agent().transcript(&kept_id(id)?);
        let reader = LogReader::open(self.store.medium().as_ref(), &path)?;
        let mut worked = WorkedIn::default();
        let mut forward = reader.forward(0);
        while let Some(line) = forward.next()? {
            let Ok(text) = std::str::from_utf8(line.bytes) else { continue };
            if worked.folder.is_none() {
                let members = json::members(text).unwrap_or_default();
                worked.folder = json::member(&members, "cwd").and_then(json::string).map(Cow::into_owned);
            }
            let Some(folder) = &worked.folder else { continue };
            // Its own directory is only named where it kept something beside the transcript.
            let needle = format!("/{PROJECTS}/{}/{id}", ProjectKey::of(folder));
            if let Some(at) = text.find(&needle) {
                let begins = text[..at].rfind(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '(' | '='));
                let config = &text[begins.map_or(0, |begins| begins + 1)..at];
                let config = config.rsplit_once("\\n").map_or(config, |(_, last)| last);
                worked.config_dir = Some(config.to_owned()).filter(|config| config.starts_with('/'));
                break;
            }
        }
        Ok(worked)
    }
}

/// Where lines come from.
enum Source<'r> {
    /// All that is kept.
    Kept(&'r LogReader),
    /// Some of it, or the end of what is not here.
    Lines(Vec<Vec<u8>>),
}

/// Where the lines are that are not restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// In a copy of this length.
    Here(u64),
    Elsewhere,
}

impl Source<'_> {
    fn each(&self, take: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        match self {
            Source::Lines(lines) => lines.iter().try_for_each(|line| take(line)),
            Source::Kept(reader) => {
                let mut forward = reader.forward(0);
                while let Some(line) = forward.next().map_err(io::Error::other)? {
                    if line.is_overlong() {
                        let len = usize::try_from(line.len).map_err(io::Error::other)?;
                        take(&reader.bytes(line.offset, len).map_err(io::Error::other)?)?;
                    } else {
                        take(line.bytes)?;
                    }
                }
                Ok(())
            }
        }
    }
}

/// The lines that resuming needs; none if it needs all of them, or if it cannot be told which.
fn tail_of(reader: &LogReader) -> Result<Option<Vec<Vec<u8>>>> {
    let mut tail = Tail::default();
    let mut backward = reader.backward();
    while let Some(line) = backward.next()? {
        if line.is_overlong() {
            return Ok(None);
        }
        if tail.feed(line.bytes) == Step::Enough {
            return Ok(Some(tail.finish().lines));
        }
    }
    Ok(None)
}

fn put(medium: &dyn Medium, path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let failed = |source| Error::Io { action: "write", path: path.to_path_buf(), source };
    medium.create_dir(parent(path)).map_err(failed)?;
    replace_written(medium, path, write).map_err(failed)
}
