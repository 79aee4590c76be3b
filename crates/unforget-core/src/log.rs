//! The writer of a transcript: one process, whole lines, acknowledged only when they are safe.
//!
//! Opening takes the kernel's lock on the file (it dies with the process, so there is nothing stale to
//! clean up), proves that the lock keeps others out, and seals a torn tail. Each append checks that the
//! file is still the one that was opened and as long as it was left, writes the whole batch with one
//! `write()`, and syncs. When an append fails, the file is cut back to where it was; after a failed sync
//! the log refuses further work, because a second sync on the same descriptor may report success for
//! pages that were dropped. Reopening starts from what is really there.
//!
//! Nothing here looks inside a line, except to see whether a tail without a line feed is a whole one.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Change, Error, IoContext as _, Result};
use crate::lines;
use crate::medium::{Access, Handle, Medium, Stat, parent, write_full};
use crate::reader::LogReader;

/// How often, and after which pause, a lock that someone has is asked for: a tenth of a second in all. Who only looks has one for a moment, and so has a child
/// that was forked by another thread until it runs its own program.
const LOCK_ATTEMPTS: u32 = 50;
const LOCK_PAUSE: std::time::Duration = std::time::Duration::from_millis(2);

/// What an acknowledged append survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// The death of the process, the kernel and the power supply: `fdatasync` before the acknowledgement.
    #[default]
    PowerLoss,
    /// The death of the process only: the kernel has the bytes, the disk may not.
    ProcessDeath,
}

/// Bytes that a crash left half-written and that were moved aside, or a line that lacked only its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sealed {
    /// The tail was no whole line: its bytes are now in this file.
    MovedAside {
        /// The `.torn-<n>` file, relative to the store.
        to: PathBuf,
        /// How many bytes it holds.
        bytes: u64,
    },
    /// The tail was a whole line without its line feed, which was added.
    Completed,
}

impl std::fmt::Display for Sealed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Sealed::MovedAside { to, bytes } => {
                write!(f, "{bytes} bytes of a half-written line are now in {}", to.display())
            }
            Sealed::Completed => f.write_str("the last line lacked its end, which was added"),
        }
    }
}

/// The writer of a transcript.
#[derive(Debug)]
pub struct Log {
    medium: Arc<dyn Medium>,
    path: PathBuf,
    file: Box<dyn Handle>,
    identity: (u64, u64),
    len: u64,
    durability: Durability,
    poisoned: bool,
    /// Bytes that a failed append left and that could not be cut off.
    left_behind: Option<Range<u64>>,
}

impl Log {
    /// Opens a transcript for writing and seals its tail.
    pub fn open(medium: Arc<dyn Medium>, path: &Path, durability: Durability) -> Result<(Self, Option<Sealed>)> {
        Self::open_known(medium, path, durability, None)
    }

    /// The same, of a file that this process opened before, by its identity: that its name is durable need not be seen to again.
    pub fn open_known(
        medium: Arc<dyn Medium>,
        path: &Path,
        durability: Durability,
        known: Option<(u64, u64)>,
    ) -> Result<(Self, Option<Sealed>)> {
        LogReader::open(medium.as_ref(), path)?;
        let file = medium.open(path, Access::Append).context("open for writing", path)?;
        let stat = lock(medium.as_ref(), path, file.as_ref())?;
        if known != Some(stat.identity) {
            name_durably(medium.as_ref(), path)?;
        }
        let mut log = Self {
            medium,
            path: path.to_path_buf(),
            file,
            identity: stat.identity,
            len: stat.len,
            durability,
            poisoned: false,
            left_behind: None,
        };
        let sealed = log.seal()?;
        Ok((log, sealed))
    }

    /// Opens the transcript anew on a fresh descriptor, as after a failed sync, and seals its tail.
    pub fn reopen(&mut self) -> Result<Option<Sealed>> {
        self.poisoned = true;
        // Dropping the old descriptor gives its lock up, which the new one then takes.
        self.file = self.medium.open(&self.path, Access::Append).context("open for writing", &self.path)?;
        let stat = lock(self.medium.as_ref(), &self.path, self.file.as_ref())?;
        name_durably(self.medium.as_ref(), &self.path)?;
        if stat.identity != self.identity {
            self.left_behind = None;
        }
        (self.identity, self.len) = (stat.identity, stat.len);
        // What was never acknowledged goes aside, whole lines too: the caller will append it again.
        // If the file goes on behind it, someone else has taken it for granted and built on it.
        let sealed = match self.left_behind.take().filter(|left| left.start < stat.len && stat.len <= left.end) {
            Some(left) => match self.move_aside(left.start) {
                Ok(sealed) => Some(sealed),
                Err(error) => {
                    self.left_behind = Some(left);
                    return Err(error);
                }
            },
            None => self.seal()?,
        };
        self.poisoned = false;
        Ok(sealed)
    }

    /// Refuses further appends until the log is reopened.
    pub(crate) fn poison(&mut self) {
        self.poisoned = true;
    }

    /// Length of the transcript in bytes: everything before it is whole lines.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the transcript has no bytes at all.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where the transcript is, relative to the store.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends whole lines; when this returns `Ok`, they survive what the log's [`Durability`] says.
    ///
    /// On an error nothing of the batch is left in the file, as far as the disk allows it.
    pub fn append(&mut self, batch: &[u8]) -> Result<()> {
        self.append_as(batch, self.durability)
    }

    /// The same, of lines that are to survive more or less than what is usual for this log.
    pub fn append_as(&mut self, batch: &[u8], durability: Durability) -> Result<()> {
        if self.poisoned {
            return Err(Error::Poisoned { path: self.path.clone() });
        }
        if batch.is_empty() {
            return Ok(());
        }
        if batch.last() != Some(&b'\n') {
            return Err(Error::Invalid("a batch must end with a line feed".to_owned()));
        }
        self.check()?;
        if let Err(error) = write_full(self.file.as_mut(), batch) {
            self.roll_back(batch.len());
            return Err(error).context("append to", &self.path);
        }
        if durability == Durability::PowerLoss
            && let Err(error) = self.file.sync_data()
        {
            // The kernel may have dropped the pages and forgotten the error: no second try on this descriptor.
            self.roll_back(batch.len());
            self.poisoned = true;
            return Err(error).context("make durable the append to", &self.path);
        }
        self.len += batch.len() as u64;
        Ok(())
    }

    /// Sees whether the open file still is the one behind the name, and as long as it was left.
    fn check(&self) -> Result<()> {
        let changed = |change| Err(Error::Changed { path: self.path.clone(), change });
        let open = self.file.stat().context("look at", &self.path)?;
        let named: Option<Stat> = match self.medium.stat(&self.path) {
            Ok(stat) => Some(stat),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error).context("look at", &self.path),
        };
        match named {
            None => changed(Change::Unlinked),
            Some(named) if named.identity != self.identity => changed(Change::Replaced),
            Some(_) if open.len < self.len => changed(Change::Shortened),
            Some(_) if open.len > self.len => changed(Change::Grown),
            Some(_) => Ok(()),
        }
    }

    /// Takes back an append of `batch` bytes.
    fn roll_back(&mut self, batch: usize) {
        // If even this fails, reopening moves aside what is left; another opener seals it.
        if self.file.set_len(self.len).is_err() {
            self.poisoned = true;
            self.left_behind.get_or_insert(self.len..self.len + batch as u64);
        }
    }

    /// Makes the file end with a line feed: completes a whole last line, moves a torn one aside.
    fn seal(&mut self) -> Result<Option<Sealed>> {
        let reader = LogReader::open(self.medium.as_ref(), &self.path)?;
        let Some((start, last)) = reader.unterminated_tail()? else { return Ok(None) };
        if last.as_deref().is_some_and(lines::is_object) {
            let at = self.len;
            let healed = write_full(self.file.as_mut(), b"\n").and_then(|()| self.file.sync_data());
            if healed.is_err() {
                self.roll_back(1);
            }
            healed.context("complete the last line of", &self.path)?;
            self.len = at + 1;
            return Ok(Some(Sealed::Completed));
        }
        self.move_aside(start).map(Some)
    }

    /// Cuts the file at `start`; the bytes from there on are in a `.torn-<n>` then.
    fn move_aside(&mut self, start: u64) -> Result<Sealed> {
        let reader = LogReader::open(self.medium.as_ref(), &self.path)?;
        let to = self.set_aside(&reader, start)?;
        self.file.set_len(start).context("cut the torn tail of", &self.path)?;
        self.file.sync_data().context("make durable the cut of", &self.path)?;
        let bytes = self.len - start;
        self.len = start;
        Ok(Sealed::MovedAside { to, bytes })
    }

    /// Copies the bytes from `start` on into the next free `.torn-<n>`.
    fn set_aside(&self, reader: &LogReader, start: u64) -> Result<PathBuf> {
        for n in 1..=u32::MAX {
            let to = self.path.with_extension(format!("torn-{n}"));
            let mut copy = match self.medium.open(&to, Access::CreateNew) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error).context("create", &to),
            };
            reader.copy_from(start, copy.as_mut()).context("move the torn tail to", &to)?;
            copy.sync_data().context("make durable", &to)?;
            self.medium.sync_dir(parent(&to)).context("sync the directory of", &to)?;
            return Ok(to);
        }
        Err(Error::Invalid(format!("`{}` has no free name for its torn tail", self.path.display())))
    }
}

/// Takes the lock on an open file, and proves that it is the file behind the name and that the lock holds.
fn lock(medium: &dyn Medium, path: &Path, file: &dyn Handle) -> Result<Stat> {
    // Whoever only asks whether a lock is free has it for a moment.
    let mut attempts = 1;
    let mut is_ours = file.try_lock().context("lock", path)?;
    while !is_ours && attempts < LOCK_ATTEMPTS {
        std::thread::sleep(LOCK_PAUSE);
        is_ours = file.try_lock().context("lock", path)?;
        attempts += 1;
    }
    if !is_ours {
        let stat = file.stat().context("look at", path)?;
        let holder = medium.lock_holder(&stat).unwrap_or_else(|| "another process".to_owned());
        return Err(Error::Busy { path: path.to_path_buf(), holder });
    }
    // Between opening and locking, the name may have come to mean another file.
    let named = medium.open(path, Access::Append).context("open for writing", path)?;
    let stat = file.stat().context("look at", path)?;
    if named.stat().context("look at", path)?.identity != stat.identity {
        return Err(Error::Changed { path: path.to_path_buf(), change: Change::Replaced });
    }
    if named.try_lock().context("lock", path)? {
        return Err(Error::LockIneffective { path: path.to_path_buf() });
    }
    Ok(stat)
}

/// Whoever created a file may have died before its name was durable, and what is appended now must be found again.
fn name_durably(medium: &dyn Medium, path: &Path) -> Result<()> {
    medium.sync_dir(parent(path)).context("sync the directory of", path)
}
