//! Saving: what Claude Code has of a session, into the store.
//!
//! The store's copy is the truth from then on: it survives the clean-up after thirty days, it is listed and searched, and it is what a
//! remote gets. Saving is incremental and may be done at any moment, also while the program is writing: whole lines are
//! taken and nothing is waited for. First what the transcript refers to (sub-agents, large outputs, file versions), then the transcript.
//!
//! Nothing here knows where a session goes next, and nothing in the program's own directory is ever changed.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use unforget_core::directory::{Directory, FileNote, MAX_FILE, side_path};
use unforget_core::files::Seen;
use unforget_core::layout::{AgentDir, CLAUDE_AGENT};
use unforget_core::medium::{Access, Handle, parent, read_small};
use unforget_core::reader::LogReader;
use unforget_core::replica::Intake;
use unforget_core::stamp::SessionId as Kept;

use crate::copy::{self, Look, Mark, Marks, Rewrite, Taken};
use crate::error::{Error, Result};
use crate::footprint::{Part, footprint, memory};
use crate::id::SessionId;
use crate::place::{ConfigDir, Found};

/// How many files' contents are written down at once, by their length.
const NOTES_BYTES: u64 = 32 << 20;

/// How often, and after which pause, a copy that someone else is adding to is asked for: two seconds in all.
const ATTEMPTS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(20);

/// What was saved of a session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Saved {
    /// Lines of its transcript that are new here.
    pub lines: u64,
    /// Lines of its sub-agents' transcripts.
    pub side_lines: u64,
    /// Files with new content.
    pub files: u64,
    /// Whether it was not here before.
    pub is_new: bool,
    /// Whether it had gone on differently from what is kept; both are kept now.
    pub is_merged: bool,
    /// Lines that the program changed in place after they were saved.
    pub rewritten: Vec<Rewritten>,
    /// What could not be taken, one sentence each.
    pub left_out: Vec<String>,
}

/// A line that was changed in place after it was saved. Unless only blanks are others, both forms are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewritten {
    /// The side of a sub-agent; none in the transcript itself.
    pub side: Option<String>,
    /// The line.
    pub rewrite: Rewrite,
}

impl fmt::Display for Rewritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(side) = &self.side {
            write!(f, "{side}, ")?;
        }
        let Rewrite { line, uuid, is_blank } = &self.rewrite;
        match is_blank {
            true => write!(f, "line {line} ({uuid}) has other blanks at its ends than before; it stays as it was kept"),
            false => write!(f, "line {line} ({uuid}) was changed after it was saved; both forms are kept"),
        }
    }
}

impl Saved {
    /// Whether there was anything to save.
    pub fn is_empty(&self) -> bool {
        self.lines + self.side_lines + self.files == 0 && !self.is_new
    }
}

/// The directory that sessions of Claude Code are kept in.
pub fn agent() -> AgentDir {
    AgentDir::of(CLAUDE_AGENT)
}

/// The name under which a session is kept.
pub fn kept_id(id: &SessionId) -> Result<Kept> {
    Kept::parse(id.as_str()).ok_or_else(|| Error::Invalid(format!("`{id}` cannot be kept under that name")))
}

/// Keeps what one configuration directory has in a store.
#[derive(Debug, Clone)]
pub struct Keeper {
    pub(crate) store: Directory,
    pub(crate) config: ConfigDir,
    pub(crate) marks: Marks,
    pub(crate) with_memory: bool,
}

impl Keeper {
    /// A keeper of a directory's sessions.
    pub fn new(store: &Directory, config: ConfigDir) -> Self {
        Self { store: store.clone(), config, marks: Marks::new(store.medium().clone()), with_memory: false }
    }

    /// The same, that keeps what is remembered of a project, too.
    #[must_use]
    pub fn with_memory(self) -> Self {
        Self { with_memory: true, ..self }
    }

    /// The directory.
    pub fn config(&self) -> &ConfigDir {
        &self.config
    }

    /// The store.
    pub fn store(&self) -> &Directory {
        &self.store
    }

    /// Lines of the program's file that are kept in another form only.
    pub fn rewritten(&self, found: &Found) -> Result<Vec<Rewrite>> {
        let file = LogReader::open(self.config.medium(), &found.path)?;
        let kept = LogReader::open(self.store.medium().as_ref(), &agent().transcript(&kept_id(&found.id)?))?;
        let mark = self.marks.get(&self.config.medium().root().join(&found.path));
        Ok(copy::rewritten(&file, &kept, mark.as_ref())?)
    }

    /// Has a session, so that no other program that asks here runs it; that ends with the handle.
    pub fn reserve(&self, id: &SessionId) -> Result<Box<dyn Handle>> {
        let medium = self.store.medium();
        let path = PathBuf::from("copies").join(format!("{id}.run"));
        let open = || {
            medium.create_dir(parent(&path))?;
            let file = match medium.open(&path, Access::CreateNew) {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => medium.open(&path, Access::Append),
                other => other,
            }?;
            let is_ours = file.try_lock()?;
            Ok((file, is_ours))
        };
        let (file, is_ours) = open().map_err(|source| Error::Io { action: "reserve", path: path.clone(), source })?;
        if is_ours {
            return Ok(file);
        }
        let holder = file.stat().ok().and_then(|stat| medium.lock_holder(&stat));
        Err(Error::Live { id: id.to_string(), writer: holder.unwrap_or_else(|| "another process".to_owned()) })
    }

    /// Saves what is new of a session. What else belongs to it comes first; a part that cannot be saved is told, and keeps no words from
    /// being saved. All of a file is compared if it was written since that was done last.
    pub fn save(&self, found: &Found) -> Result<Saved> {
        self.save_as(found, Look::Whole)
    }

    /// The same, where only what was added is looked at: for savings that follow each other within a second.
    pub fn save_added(&self, found: &Found) -> Result<Saved> {
        self.save_as(found, Look::End)
    }

    fn save_as(&self, found: &Found, look: Look) -> Result<Saved> {
        let (dir, id) = (agent(), kept_id(&found.id)?);
        let mut saved = Saved::default();
        let medium = self.config.medium();
        let kept = dir.transcript(&id);
        let is_kept = self.store.medium().stat(&kept).is_ok();
        if !is_kept {
            if self.store.medium().stat(&dir.trashed(&id)).is_ok() {
                return Err(Error::Deleted { id: found.id.to_string() });
            }
            // What only goes on from the rest would stand here as if it were all.
            if self.marks.get(&medium.root().join(&found.path)).is_some_and(|mark| mark.is_part) {
                return Err(Error::Partial { id: found.id.to_string() });
            }
        }
        self.save_parts(found, &dir, &id, look, &mut saved)?;
        let file = LogReader::open(medium, &found.path)?;
        if !is_kept {
            let end = copy::whole_end(&file)?;
            if end == 0 {
                return Ok(saved);
            }
            saved.is_new = self.store.begin_foreign(&dir, &id, |out| copy::write_whole(&file, end, out))?;
        }
        let (taken, rewrites) = self.follow(&file, &found.path, &kept, look, || Ok(self.store.intake(&dir, &id)?))?;
        saved.rewritten.extend(rewrites.into_iter().map(|rewrite| Rewritten { side: None, rewrite }));
        saved.lines = if saved.is_new { lines(&self.store, &dir, &id)? } else { taken.lines };
        saved.is_merged = taken.is_merged;
        Ok(saved)
    }

    /// Adds what is new in a file of lines to what is kept of it. Where nothing is new, nobody's lock is asked for.
    fn follow(
        &self,
        file: &LogReader,
        path: &Path,
        kept: &Path,
        look: Look,
        open: impl Fn() -> Result<Intake>,
    ) -> Result<(Taken, Vec<Rewrite>)> {
        let absolute = self.config.medium().root().join(path);
        let put = |mark: Mark, before: Option<&Mark>| {
            let (restored, digest) =
                before.map(|mark| (mark.restored, mark.restored_digest.clone())).unwrap_or_default();
            let mark = Mark { restored, restored_digest: digest, ..mark };
            let mark = match look {
                Look::Whole => mark.compared_at(file, self.store.source().now_ms()),
                Look::End => mark,
            };
            if before != Some(&mark) {
                self.marks.put(&absolute, &mark);
            }
        };
        if let Some(mark) = self.marks.get(&absolute)
            && let Ok(copy) = LogReader::open(self.store.medium().as_ref(), kept)
            && let news = copy::news(file, &copy, Some(&mark), look)?
            && news.is_empty()
            && copy::since(file, &mark)?.is_some_and(|news| news.is_empty())
        {
            if look == Look::Whole && mark.compared != Some(file.modified_ns()) {
                put(Mark { compared: None, ..mark.clone() }, Some(&mark));
            }
            return Ok((Taken::default(), news.rewrites().to_vec()));
        }
        let mut intake = patiently(open)?;
        // Read behind the lock: whoever had it may have moved the mark.
        let mark = self.marks.get(&absolute);
        let news = copy::news(file, &intake.reader()?, mark.as_ref(), look)?;
        let taken = copy::take_in(file, &mut intake, &news)?;
        let mark = mark.filter(|mark| copy::since(file, mark).is_ok_and(|since| since.is_some()));
        put(Mark::at(file, news.end(), Some(&intake.reader()?))?, mark.as_ref());
        // The index has its mark, and looks for itself when someone asks: a session that grows all the while is not read as a whole each time.
        drop(intake);
        Ok((taken, news.rewrites().to_vec()))
    }

    fn save_parts(&self, found: &Found, dir: &AgentDir, id: &Kept, look: Look, saved: &mut Saved) -> Result<()> {
        let mut all = footprint(&self.config, &found.project, &found.id)?;
        if self.with_memory {
            let more = memory(&self.config, &found.project)?;
            all.parts.extend(more.parts);
            all.omitted.extend(more.omitted);
        }
        saved.left_out.extend(all.omitted.iter().map(|(path, why)| format!("{}: {why}", path.display())));
        let known = self.store.kept_files(dir, id)?;
        let (mut notes, mut bytes) = (Vec::new(), 0);
        for part in all.parts {
            match part {
                Part::Transcript { side, path, .. } => match self.save_side(&side, &path, dir, id, look) {
                    Ok((taken, rewrites)) => {
                        saved.side_lines += taken.lines;
                        let rewritten = |rewrite| Rewritten { side: Some(side.clone()), rewrite };
                        saved.rewritten.extend(rewrites.into_iter().map(rewritten));
                    }
                    Err(error) => saved.left_out.push(format!("{side}: {error}")),
                },
                Part::File { name, path, stat } => {
                    let seen = (stat.len, stat.modified_ns);
                    let absolute = self.config.medium().root().join(&path);
                    let before = known.get(&name);
                    let is_known = before.is_some_and(|file| (file.bytes, file.modified_ns) == seen)
                        || (before.is_some() && self.marks.seen(&absolute) == Some(seen));
                    if is_known {
                        continue;
                    }
                    let note = match self.look(&name, &path) {
                        Ok(Some(note)) => note,
                        Ok(None) => continue,
                        Err(error) => {
                            saved.left_out.push(format!("{name}: {error}"));
                            continue;
                        }
                    };
                    // Copied elsewhere or touched, it may be what it was.
                    let is_same = before.is_some_and(|file| {
                        file.payload.as_ref().map(|payload| &payload.sha256) == note.seen.sha256().as_ref()
                    });
                    if is_same {
                        self.marks.put_seen(&absolute, note.bytes, note.modified_ns);
                        continue;
                    }
                    if let Seen::Only { why, .. } = note.seen {
                        saved.left_out.push(format!("{name} ({} bytes): {why}", note.bytes));
                    }
                    bytes += note.bytes;
                    notes.push(note);
                    if bytes > NOTES_BYTES {
                        saved.files += self.store.keep_files(dir, id, &notes)?;
                        (notes, bytes) = (Vec::new(), 0);
                    }
                }
            }
        }
        saved.files += self.store.keep_files(dir, id, &notes)?;
        Ok(())
    }

    fn save_side(
        &self,
        side: &str,
        path: &Path,
        dir: &AgentDir,
        id: &Kept,
        look: Look,
    ) -> Result<(Taken, Vec<Rewrite>)> {
        let file = LogReader::open(self.config.medium(), path)?;
        let kept = side_path(dir, id, side)?;
        self.follow(&file, path, &kept, look, || Ok(self.store.open_side(dir, id, side)?))
    }

    /// What is in a file; none if it is gone by now.
    fn look(&self, name: &str, path: &Path) -> Result<Option<FileNote>> {
        let medium = self.config.medium();
        let stat = match medium.stat(path) {
            Ok(stat) => stat,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(Error::Io { action: "look at", path: path.to_path_buf(), source }),
        };
        let seen = if stat.len > MAX_FILE {
            Seen::too_large(stat.len)
        } else {
            match read_small(medium, path, MAX_FILE) {
                Ok(bytes) => Seen::Bytes(bytes),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
                Err(source) => return Err(Error::Io { action: "read", path: path.to_path_buf(), source }),
            }
        };
        Ok(Some(FileNote { name: name.to_owned(), seen, bytes: stat.len, modified_ns: stat.modified_ns }))
    }
}

/// Opens what someone else may have for a moment: another saver is done soon.
fn patiently(open: impl Fn() -> Result<Intake>) -> Result<Intake> {
    for _ in 0..ATTEMPTS {
        match open() {
            Err(Error::Store(unforget_core::Error::Busy { .. })) => std::thread::sleep(PAUSE),
            other => return other,
        }
    }
    open()
}

fn lines(store: &Directory, dir: &AgentDir, id: &Kept) -> Result<u64> {
    let reader = LogReader::open(store.medium().as_ref(), &dir.transcript(id))?;
    let mut count = 0;
    let mut forward = reader.forward(0);
    while forward.next()?.is_some() {
        count += 1;
    }
    Ok(count)
}
