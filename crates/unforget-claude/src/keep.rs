//! Saving: what Claude Code has of a session, into the store.
//!
//! The store's copy is the truth from then on: it survives the clean-up after thirty days, it is listed and searched, and it is what a
//! remote gets. Saving is incremental and may be done at any moment, also while the program is writing: whole lines are
//! taken and the program is never waited for. First what the transcript refers to (sub-agents, large outputs, file versions), then the transcript.
//!
//! Nothing here knows where a session goes next, and nothing in the program's own directory is ever changed.

use std::path::Path;
use std::time::{Duration, Instant};

use unforget_core::files::Seen;
use unforget_core::layout::{AgentDir, CLAUDE_AGENT};
use unforget_core::medium::{Medium, read_small};
use unforget_core::reader::LogReader;
use unforget_core::replica::Intake;
use unforget_core::stamp::SessionId as Kept;
use unforget_core::store::{FileNote, MAX_FILE, Store};

use crate::copy::{self, Mark, Marks, News, Taken};
use crate::error::{Error, Result};
use crate::footprint::{Part, footprint, memory};
use crate::id::SessionId;
use crate::place::{ConfigDir, Found};

/// How many files' contents are written down at once, by their length.
const NOTES_BYTES: u64 = 32 << 20;
/// How long someone is waited for who has the copy open, and between two looks. Nobody has it for longer than a copy takes.
const WAIT: Duration = Duration::from_secs(5);
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
    /// What could not be taken, one sentence each.
    pub left_out: Vec<String>,
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
    pub(crate) store: Store,
    pub(crate) config: ConfigDir,
    pub(crate) marks: Marks,
    with_memory: bool,
}

impl Keeper {
    /// A keeper of a directory's sessions.
    pub fn new(store: &Store, config: ConfigDir) -> Self {
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
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Saves what is new of a session. Whoever saves it at the same time, such as a hook beside a watcher, is waited for.
    pub fn save(&self, found: &Found) -> Result<Saved> {
        let deadline = Instant::now() + WAIT;
        loop {
            match self.save_now(found) {
                Err(Error::Store(unforget_core::Error::Busy { .. })) if Instant::now() < deadline => {
                    std::thread::sleep(PAUSE);
                }
                saved => return saved,
            }
        }
    }

    fn save_now(&self, found: &Found) -> Result<Saved> {
        let (dir, id) = (agent(), kept_id(&found.id)?);
        let mut saved = Saved::default();
        let medium = self.config.medium();
        self.save_parts(found, &dir, &id, &mut saved)?;
        let file = LogReader::open(medium, &found.path)?;
        if self.store.medium().stat(&dir.transcript(&id)).is_err() {
            let end = copy::whole_end(&file)?;
            if end == 0 {
                return Ok(saved);
            }
            // What only goes on from the rest would stand here as if it were all.
            if self.marks.get(&medium.root().join(&found.path)).is_some_and(|mark| mark.is_part) {
                return Err(Error::Partial { id: found.id.to_string() });
            }
            saved.is_new = self.store.begin_foreign(&dir, &id, |out| copy::write_whole(&file, end, out))?;
        }
        let taken = self.follow(&file, &found.path, || Ok(self.store.intake(&dir, &id)?))?;
        saved.lines = if saved.is_new { lines(&self.store, &dir, &id)? } else { taken.lines };
        saved.is_merged = taken.is_merged;
        Ok(saved)
    }

    /// Adds what is new in a file of lines to what is kept of it. Where nothing is new, nobody's lock is asked for.
    fn follow(&self, file: &LogReader, path: &Path, open: impl Fn() -> Result<Intake>) -> Result<Taken> {
        let absolute = self.config.medium().root().join(path);
        let mark = self.marks.get(&absolute);
        if let Some(News::From { start, end }) =
            mark.as_ref().map(|mark| copy::since(file, mark)).transpose()?.flatten()
            && start >= end
        {
            return Ok(Taken::default());
        }
        let mut intake = open()?;
        let news = copy::news(file, &intake.reader()?, mark.as_ref())?;
        let taken = copy::take_in(file, &mut intake, &news)?;
        let kept = intake.reader()?.len();
        intake.close();
        self.marks.put(&absolute, &Mark::at(file, news.end(), kept)?);
        Ok(taken)
    }

    fn save_parts(&self, found: &Found, dir: &AgentDir, id: &Kept, saved: &mut Saved) -> Result<()> {
        let medium = self.config.medium();
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
                Part::Transcript { side, path, .. } => {
                    let file = LogReader::open(medium, &path)?;
                    let taken = self.follow(&file, &path, || Ok(self.store.open_side(dir, id, &side)?))?;
                    saved.side_lines += taken.lines;
                }
                Part::File { name, path, stat } => {
                    let is_known = known
                        .get(&name)
                        .is_some_and(|file| (file.bytes, file.modified_ns) == (stat.len, stat.modified_ns));
                    if is_known {
                        continue;
                    }
                    let Some(note) = self.look(&name, &path, medium)? else { continue };
                    // Copied elsewhere or touched, it may be what it was.
                    let is_same = known.get(&name).is_some_and(|file| {
                        file.payload.as_ref().map(|payload| &payload.sha256) == note.seen.sha256().as_ref()
                    });
                    if is_same {
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

    /// What is in a file; none if it is gone by now.
    fn look(&self, name: &str, path: &Path, medium: &dyn Medium) -> Result<Option<FileNote>> {
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

fn lines(store: &Store, dir: &AgentDir, id: &Kept) -> Result<u64> {
    let reader = LogReader::open(store.medium().as_ref(), &dir.transcript(id))?;
    let mut count = 0;
    let mut forward = reader.forward(0);
    while forward.next()?.is_some() {
        count += 1;
    }
    Ok(count)
}
