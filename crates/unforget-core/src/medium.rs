//! The only module that touches the file system.
//!
//! Everything the store does to a disk goes through [`Medium`] (a directory tree) and [`Handle`] (an open
//! file): a dozen small operations, each one system call or the shortest safe sequence of them. Tests put
//! another medium in place that fails, tears or "loses power" at the k-th operation.
//!
//! All paths are relative to the medium's root. On Linux the kernel resolves them beneath the root and
//! refuses symbolic links on the way (`openat2` with `RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS`), so a planted
//! link can neither redirect a write nor leak a read; the root itself may be a link. Files are created
//! 0600 and directories 0700, whatever the umask allows.
//!
//! This module knows nothing of lines, records or sessions.

use std::collections::HashMap;
use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

mod locks;
mod os;
pub use os::Os;

/// What `stat` tells about a file that the store cares for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Device and inode: the identity of the file behind a name.
    pub identity: (u64, u64),
    /// Number of names; zero once the file has been unlinked.
    pub links: u64,
    /// Length in bytes.
    pub len: u64,
    /// Modification time, nanoseconds since the Unix epoch.
    pub modified_ns: i64,
    /// Permission bits.
    pub mode: u32,
    /// The user id that the file belongs to.
    pub uid: u32,
    /// Regular file, directory, or something that does not belong in a store.
    pub kind: FileKind,
}

/// The kind of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, socket, device, ...: never followed, never opened.
    Other,
}

/// What a file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reading an existing file.
    Read,
    /// Reading, and writing at the end, of an existing file (`O_APPEND`).
    Append,
    /// As `Append`, on a file that must not exist yet (`O_EXCL`).
    CreateNew,
}

/// A directory tree that the store lives in.
pub trait Medium: Debug + Send + Sync {
    /// Opens a regular file.
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn Handle>>;
    /// Tells about a name, without following a link.
    fn stat(&self, path: &Path) -> io::Result<Stat>;
    /// Names and kinds of a directory's entries, in no order.
    fn list(&self, dir: &Path) -> io::Result<Vec<(String, FileKind)>>;
    /// Names of a directory's entries with what [`Medium::stat`] tells of each; what vanishes meanwhile is left out.
    fn list_stats(&self, dir: &Path) -> io::Result<Vec<(String, Stat)>> {
        let mut stats = Vec::new();
        for (name, _) in self.list(dir)? {
            match self.stat(&dir.join(&name)) {
                Ok(stat) => stats.push((name, stat)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(stats)
    }
    /// Names and kinds of a directory's entries with the number (inode) that the directory has for each; nothing is asked of a
    /// file where the system tells both by itself. Some file systems say another number here than [`Medium::stat`] does.
    fn list_numbers(&self, dir: &Path) -> io::Result<Vec<(String, FileKind, u64)>> {
        let stats = self.list_stats(dir)?;
        Ok(stats.into_iter().map(|(name, stat)| (name, stat.kind, stat.identity.1)).collect())
    }
    /// Reads a whole file into `buffer`, in place of what is there, unless it is longer than that; says whether it was read.
    fn read_whole(&self, path: &Path, most: u64, buffer: &mut Vec<u8>) -> io::Result<bool> {
        let file = self.open(path, Access::Read)?;
        fill(file.as_ref(), file.stat()?.len, most, buffer)
    }
    /// Creates a directory and its missing parents, and makes their names durable.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;
    /// Renames over whatever is at `to`.
    fn replace(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Renames; fails with `AlreadyExists` if `to` exists.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file's name.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Sets a file's or directory's permission bits.
    fn set_mode(&self, path: &Path, mode: u32) -> io::Result<()>;
    /// Names the process that holds the lock on a file, where the system tells.
    fn lock_holder(&self, stat: &Stat) -> Option<String>;
    /// Who holds which file's lock, by the file's identity; none where the system does not tell.
    fn lock_holders(&self) -> Option<HashMap<(u64, u64), String>> {
        None
    }
    /// The root, for messages.
    fn root(&self) -> PathBuf;
}

/// An open file.
pub trait Handle: Debug + Send {
    /// One `write()` at the end of the file; may write less than all.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;
    /// One positioned read; zero at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Makes the file's content and length durable (`fdatasync`).
    fn sync_data(&self) -> io::Result<()>;
    /// Cuts the file.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Tells about the open file, whatever its name is now.
    fn stat(&self) -> io::Result<Stat>;
    /// Takes the exclusive lock; `false` if another descriptor holds it. Released when the handle drops.
    fn try_lock(&self) -> io::Result<bool>;
    /// Takes the lock together with others; `false` if another descriptor holds it alone.
    fn try_lock_shared(&self) -> io::Result<bool> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Fills as much of `buffer` as the file has from `offset` on.
pub fn read_full(file: &dyn Handle, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Reads a file of that length into `buffer`, unless it is longer than `most`. The buffer is made larger and never cleared
/// first: for many files in a row only the longest costs anything but its reading.
fn fill(file: &dyn Handle, len: u64, most: u64, buffer: &mut Vec<u8>) -> io::Result<bool> {
    if len > most {
        return Ok(false);
    }
    buffer.resize(usize::try_from(len).map_err(io::Error::other)?, 0);
    let filled = read_full(file, buffer, 0)?;
    buffer.truncate(filled);
    Ok(true)
}

/// Writes all of `bytes`, normally with one `write()`.
///
/// A short write is followed up, because only the next call tells why it was short.
pub fn write_full(file: &mut dyn Handle, bytes: &[u8]) -> io::Result<()> {
    let mut rest = bytes;
    while !rest.is_empty() {
        match file.write(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => rest = &rest[count..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads a whole small file, at most `limit` bytes of it.
pub fn read_small(medium: &dyn Medium, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = medium.open(path, Access::Read)?;
    let len = file.stat()?.len.min(limit);
    let mut bytes = vec![0; usize::try_from(len).map_err(io::Error::other)?];
    let filled = read_full(file.as_ref(), &mut bytes, 0)?;
    bytes.truncate(filled);
    Ok(bytes)
}

/// Creates a file with this content, durable when this returns; fails if it exists.
///
/// A crash on the way may leave a part of it, so the name must be one that nobody reads before it is renamed.
pub fn create_durable(medium: &dyn Medium, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = medium.open(path, Access::CreateNew)?;
    let written = write_full(file.as_mut(), bytes).and_then(|()| file.sync_data());
    if let Err(error) = written {
        // A half-written new file has no reader yet; the first error is the one to tell.
        return Err(match medium.remove(path) {
            Ok(()) => error,
            Err(second) => io::Error::new(error.kind(), format!("{error} (and removing the rest failed: {second})")),
        });
    }
    medium.sync_dir(parent(path))
}

/// Replaces a file's content: temporary file in the same directory, sync, rename, sync of the directory.
pub fn replace_durable(medium: &dyn Medium, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = temporary_name(path);
    create_durable(medium, &temporary, bytes)?;
    medium.replace(&temporary, path)?;
    medium.sync_dir(parent(path))
}

/// Replaces a file's content, for readers and for the death of the process; a power cut may leave anything.
pub fn replace_atomic(medium: &dyn Medium, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = temporary_name(path);
    let mut file = medium.open(&temporary, Access::CreateNew)?;
    write_full(file.as_mut(), bytes)?;
    medium.replace(&temporary, path)
}

/// Creates a file that is whole or absent after a crash; `false` if it was there already.
pub fn publish_durable(medium: &dyn Medium, path: &Path, bytes: &[u8]) -> io::Result<bool> {
    let temporary = temporary_name(path);
    create_durable(medium, &temporary, bytes)?;
    match medium.rename(&temporary, path) {
        Ok(()) => medium.sync_dir(parent(path)).map(|()| true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => medium.remove(&temporary).map(|()| false),
        Err(error) => Err(error),
    }
}

/// Creates a file that is whole or absent after a crash, of bytes that are made on the way; `false` if it was there already.
pub fn publish_written(
    medium: &dyn Medium,
    path: &Path,
    write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>,
) -> io::Result<bool> {
    let temporary = temporary_name(path);
    let mut writer = HandleWriter(medium.open(&temporary, Access::CreateNew)?);
    let published = write(&mut writer)
        .and_then(|()| writer.0.sync_data())
        .and_then(|()| medium.rename(&temporary, path))
        .and_then(|()| medium.sync_dir(parent(path)));
    match published {
        Ok(()) => Ok(true),
        Err(error) => {
            let exists = error.kind() == io::ErrorKind::AlreadyExists;
            match medium.remove(&temporary) {
                Ok(()) if exists => Ok(false),
                // Behind the rename there is nothing left to remove: the first error is the one to tell.
                _ => Err(error),
            }
        }
    }
}

/// Replaces a file by bytes that are made on the way: there is always the old one or the whole new one.
pub fn replace_written(
    medium: &dyn Medium,
    path: &Path,
    write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>,
) -> io::Result<()> {
    let temporary = temporary_name(path);
    let mut writer = HandleWriter(medium.open(&temporary, Access::CreateNew)?);
    let replaced = {
        let mut buffered = io::BufWriter::with_capacity(WRITE_BYTES, &mut writer);
        write(&mut buffered).and_then(|()| io::Write::flush(&mut buffered))
    }
    .and_then(|()| writer.0.sync_data())
    .and_then(|()| medium.replace(&temporary, path))
    .and_then(|()| medium.sync_dir(parent(path)));
    match replaced {
        Ok(()) => Ok(()),
        Err(error) => match medium.remove(&temporary) {
            // The first error is the one to tell.
            Ok(()) | Err(_) => Err(error),
        },
    }
}

/// A file that is written piece by piece, and takes the place of another when it is whole and durable.
pub struct Replacement {
    medium: Arc<dyn Medium>,
    path: PathBuf,
    temporary: PathBuf,
    file: Box<dyn Handle>,
    is_finished: bool,
}

impl Replacement {
    /// Begins a file; its directory has to be there.
    pub fn begin(medium: Arc<dyn Medium>, path: &Path) -> io::Result<Self> {
        let temporary = temporary_name(path);
        let file = medium.open(&temporary, Access::CreateNew)?;
        Ok(Self { medium, path: path.to_path_buf(), temporary, file, is_finished: false })
    }

    /// Writes some more.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        write_full(self.file.as_mut(), bytes)
    }

    /// Puts it in its place.
    pub fn finish(mut self) -> io::Result<()> {
        self.file.sync_data()?;
        self.medium.replace(&self.temporary, &self.path)?;
        self.is_finished = true;
        self.medium.sync_dir(parent(&self.path))
    }
}

impl std::fmt::Debug for Replacement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replacement").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if !self.is_finished {
            // What stays behind has a temporary name, and `gc` removes it.
            drop(self.medium.remove(&self.temporary));
        }
    }
}

/// How much is written at a time.
const WRITE_BYTES: usize = 1 << 20;

/// An open file as a place to write to.
struct HandleWriter(Box<dyn Handle>);

impl io::Write for HandleWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What the names of unfinished files contain.
pub const TEMPORARY: &str = ".tmp-";

/// A name beside `path` that nobody else uses: process numbers repeat, in containers and after a restart.
fn temporary_name(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!("{TEMPORARY}{}", uuid::Uuid::now_v7().simple()));
    path.with_file_name(name)
}

/// The directory part of a relative path; the root for a bare name.
pub fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}
