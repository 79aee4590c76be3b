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
use std::time::Duration;

use unforget_core::directory::{FILES, MAX_FILE};
use unforget_core::json;
use unforget_core::medium::{Medium, parent, read_small, replace_written};
use unforget_core::reader::LogReader;
use unforget_core::stamp::SessionId as Kept;

use crate::copy::{self, Look, Mark};
use crate::error::{Error, Result};
use crate::footprint::{file_path, side_path};
use crate::id::SessionId;
use crate::keep::{Keeper, agent, kept_id};
use crate::live::{self, Writer};
use crate::place::{PROJECTS, transcript};
use crate::project::ProjectKey;
use crate::rewrite::Rewrite;
use crate::tail::{Step, Tail};

/// A transcript that was written longer ago is written anew: Claude Code throws away what looks old.
const YOUNG_MS: i64 = 24 * 60 * 60 * 1000;
/// How long a file that is just being written is waited for.
const MOMENT: Duration = Duration::from_millis(50);
/// What the names of a project's memory begin with.
const MEMORY: &str = "memory/";

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
    /// Whether it was there already, as it is kept.
    pub was_in_place: bool,
    /// Transcripts of sub-agents.
    pub sides: u64,
    /// Files.
    pub files: u64,
    /// What was left as it is, one sentence each.
    pub left_alone: Vec<String>,
    /// Companion files whose names cannot be where they say, one sentence each. Nothing of them was written.
    pub refused: Vec<String>,
}

/// What was found in the place of a file: which one, and how long it was. Whatever is put there later must find the same.
type Standing = Option<((u64, u64), u64)>;

impl Keeper {
    /// Restores a session that is kept.
    pub fn restore(&self, id: &SessionId, wish: &Wish<'_>, is_alive: &dyn Fn(&Writer) -> bool) -> Result<Restored> {
        let kept = kept_id(id)?;
        let reader = LogReader::open(self.store.medium().as_ref(), &agent().transcript(&kept))?;
        // Asked twice: early, so that nothing is done in vain, and again right before the transcript, which is what counts.
        let target = self.target(id, wish.project, &reader, is_alive)?;
        self.check_newer(&target, Some(&reader))?;
        let mut restored = self.restore_parts(id, &kept, wish)?;
        let lines = match wish.extent {
            Extent::Whole => None,
            Extent::Tail => tail_of(&reader)?,
        };
        restored.is_tail = lines.is_some();
        let source = lines.map_or(Source::Kept(&reader), Source::Lines);
        let target = self.target(id, wish.project, &reader, is_alive)?;
        let standing = self.check_newer(&target, Some(&reader))?;
        if !restored.is_tail && wish.rewrite.is_none() && self.is_in_place(&target, &reader)? {
            let path = self.config.medium().root().join(&target);
            return Ok(Restored { path, bytes: reader.len(), was_in_place: true, ..restored });
        }
        self.write(&target, wish.rewrite, &source, Some(&reader), standing, &mut restored)?;
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
        self.check_alive(id, is_alive)?;
        let target = transcript(wish.project, id);
        if let Some(found) = self.config.find(id)?.sessions.into_iter().find(|found| found.path != target) {
            return Err(Error::Elsewhere { path: self.config.medium().root().join(found.path) });
        }
        let standing = self.check_newer(&target, None)?;
        let mut restored = Restored { is_tail: true, ..Restored::default() };
        self.write(&target, wish.rewrite, &Source::Lines(lines), None, standing, &mut restored)?;
        Ok(restored)
    }

    /// Where a session goes; refused while someone writes it, or where another project has lines of it that are not kept.
    fn target(
        &self,
        id: &SessionId,
        project: &ProjectKey,
        kept: &LogReader,
        is_alive: &dyn Fn(&Writer) -> bool,
    ) -> Result<PathBuf> {
        self.check_alive(id, is_alive)?;
        let target = transcript(project, id);
        for found in self.config.find(id)?.sessions.into_iter().filter(|found| found.path != target) {
            match self.check_newer(&found.path, Some(kept)) {
                Err(Error::Newer { path }) => return Err(Error::Elsewhere { path }),
                other => other?,
            };
        }
        Ok(target)
    }

    fn check_alive(&self, id: &SessionId, is_alive: &dyn Fn(&Writer) -> bool) -> Result<()> {
        let mut live = live::live(&self.config, id, is_alive)?;
        if !live.unreadable.is_empty() {
            // One that is just being written is whole a moment later.
            std::thread::sleep(MOMENT);
            live = live::live(&self.config, id, is_alive)?;
        }
        match live.writers.into_iter().next() {
            Some(writer) => Err(Error::Live { id: id.to_string(), writer: writer.to_string() }),
            None => Ok(()),
        }
    }

    /// Refuses to put something in the place of a transcript that has lines which are not kept; tells what is there.
    fn check_newer(&self, target: &Path, kept: Option<&LogReader>) -> Result<Standing> {
        let medium = self.config.medium();
        let there = match LogReader::open(medium, target) {
            Err(error) if error.is_io(io::ErrorKind::NotFound) => return Ok(None),
            other => other?,
        };
        let absolute = medium.root().join(target);
        let mark = self.marks.get(&absolute);
        let is_newer = match kept {
            Some(kept) => !copy::news(&there, kept, mark.as_ref(), Look::Whole)?.is_empty(),
            None => match mark.as_ref().map(|mark| copy::since(&there, mark)).transpose()?.flatten() {
                Some(news) => !news.is_empty(),
                None => true,
            },
        };
        if is_newer { Err(Error::Newer { path: absolute }) } else { Ok(Some((there.identity(), there.len()))) }
    }

    /// Whether a transcript is there as it is kept, and young enough to be left as it is.
    fn is_in_place(&self, target: &Path, kept: &LogReader) -> Result<bool> {
        let Ok(there) = LogReader::open(self.config.medium(), target) else { return Ok(false) };
        let age_ms = self.store.source().now_ms().saturating_sub(there.modified_ns() / 1_000_000);
        Ok(there.len() == kept.len() && age_ms < YOUNG_MS && copy::is_same(&there, kept)?)
    }

    fn restore_parts(&self, id: &SessionId, kept: &Kept, wish: &Wish<'_>) -> Result<Restored> {
        let mut restored = Restored::default();
        let (dir, medium) = (agent(), self.config.medium());
        for name in self.store.sides(&dir, kept)?.iter().filter(|name| !name.starts_with(FILES)) {
            let target = match side_path(name, wish.project, id) {
                Ok(target) => target,
                Err(error) => {
                    restored.refused.push(error.to_string());
                    continue;
                }
            };
            let reader = LogReader::open(self.store.medium().as_ref(), &dir.side(kept, name))?;
            match self.check_newer(&target, Some(&reader)) {
                Ok(_) if wish.rewrite.is_none() && self.is_in_place(&target, &reader)? => {}
                Ok(standing) => {
                    let source = Source::Kept(&reader);
                    let mut side = Restored::default();
                    self.write(&target, wish.rewrite, &source, Some(&reader), standing, &mut side)?;
                    restored.sides += 1;
                }
                Err(Error::Newer { path }) => {
                    restored.left_alone.push(format!("{} has lines that are not kept", path.display()));
                }
                Err(error) => return Err(error),
            }
        }
        for (name, file) in self.store.kept_files(&dir, kept)? {
            // What is remembered of a project is read by every session there: it comes from elsewhere only if someone wants it.
            if name.starts_with(MEMORY) && !self.with_memory {
                restored.left_alone.push(format!("{name}: `--memory` restores it"));
                continue;
            }
            let target = match file_path(&name, wish.project, id) {
                Ok(target) => target,
                // A list from a remote may name anything: the other files are restored all the same.
                Err(error) => {
                    restored.refused.push(error.to_string());
                    continue;
                }
            };
            let absolute = medium.root().join(&target);
            let Some(bytes) = self.store.kept_bytes(&file)? else {
                restored.left_alone.push(format!("{name}: its content was not kept, or is not here"));
                continue;
            };
            match read_small(medium, &target, MAX_FILE) {
                Ok(there) if there == bytes => continue,
                Ok(_) => {
                    restored.left_alone.push(format!("{} has another content", absolute.display()));
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) if is_no_place(&error) => {
                    restored.refused.push(format!("{name}: {error}"));
                    continue;
                }
                Err(source) => return Err(Error::Io { action: "read", path: target, source }),
            }
            match put(medium, &target, |out| out.write_all(&bytes)) {
                Ok(()) => {}
                Err(Error::Io { source, .. }) if is_no_place(&source) => {
                    restored.refused.push(format!("{name}: {source}"));
                    continue;
                }
                Err(error) => return Err(error),
            }
            if let Ok(stat) = medium.stat(&target) {
                self.marks.put_seen(&absolute, stat.len, stat.modified_ns);
            }
            restored.files += 1;
        }
        Ok(restored)
    }

    /// Writes a transcript, in the place of what was found there, and remembers how it stands to the copy, if that is here.
    fn write(
        &self,
        target: &Path,
        rewrite: Option<&Rewrite>,
        source: &Source<'_>,
        kept: Option<&LogReader>,
        standing: Standing,
        restored: &mut Restored,
    ) -> Result<()> {
        let medium = self.config.medium();
        restored.path = medium.root().join(target);
        let mut is_changed = false;
        let written = put(medium, target, |out| {
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
            })?;
            // Someone may have begun to write meanwhile, and would go on in a file without a name.
            let now = medium.stat(target).ok().map(|stat| (stat.identity, stat.len));
            is_changed = now != standing;
            if is_changed { Err(io::Error::other("it changed meanwhile")) } else { Ok(()) }
        });
        if is_changed {
            return Err(Error::Newer { path: restored.path.clone() });
        }
        written?;
        let written = LogReader::open(medium, target)?;
        let is_part = matches!(source, Source::Lines(_));
        let mark = Mark { is_part, ..Mark::at(&written, written.len(), kept)?.of_restored(&written)? };
        if is_part {
            // Without it, the end would be taken for the whole.
            let failed = |source| Error::Io { action: "mark as a part", path: target.to_path_buf(), source };
            return self.marks.put_firmly(&restored.path, &mark).map_err(failed);
        }
        self.marks.put(&restored.path, &mark);
        Ok(())
    }
}

/// Whether a name cannot be that of a file: one of its directories is a file, it is a directory, or it is too long.
fn is_no_place(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidFilename, InvalidInput, IsADirectory, NotADirectory};
    matches!(error.kind(), NotADirectory | IsADirectory | InvalidFilename | InvalidInput)
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
            let needle = format!("/{PROJECTS}/{}/", ProjectKey::of(folder));
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
