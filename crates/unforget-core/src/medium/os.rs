//! The real file system, beneath one root directory.

use std::collections::HashMap;
use std::fs::{File, TryLockError};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags};

use super::locks::{locks, process, read_locks};
use super::{Access, FileKind, Handle, Medium, Stat, fill, parent};

const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// The real file system, beneath one root directory.
///
/// The root is opened on first use and created only by the first operation that writes, so reading from a
/// store that does not exist finds nothing and leaves nothing behind.
#[derive(Debug)]
pub struct Os {
    root: PathBuf,
    directory: OnceLock<OwnedFd>,
}

impl Os {
    /// A medium beneath `root`, which may not exist yet.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), directory: OnceLock::new() }
    }

    fn directory(&self) -> io::Result<&OwnedFd> {
        if let Some(directory) = self.directory.get() {
            return Ok(directory);
        }
        let opened = rustix::fs::open(&self.root, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(self.directory.get_or_init(|| opened))
    }

    fn create_root(&self) -> io::Result<()> {
        let mut missing = Vec::new();
        for ancestor in self.root.ancestors().filter(|path| !path.as_os_str().is_empty()) {
            match rustix::fs::stat(ancestor) {
                Ok(_) => break,
                Err(rustix::io::Errno::NOENT) => missing.push(ancestor.to_path_buf()),
                Err(error) => return Err(error.into()),
            }
        }
        for path in missing.into_iter().rev() {
            ignore_exists(rustix::fs::mkdir(&path, Mode::from_raw_mode(DIRECTORY_MODE)))?;
            if let Some(above) = path.parent() {
                let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
                let opened = rustix::fs::open(above, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
                rustix::fs::fsync(opened)?;
            }
        }
        Ok(())
    }

    fn open_beneath(&self, path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        let relative = checked(path)?;
        let directory = self.directory()?;
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::ResolveFlags;
            let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
            match rustix::fs::openat2(directory, relative, flags, mode, resolve) {
                // Kernels before 5.6 and some sandboxes lack openat2; the last component is guarded all the same.
                Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) => {}
                Err(rustix::io::Errno::LOOP) => return Err(symlink_refused(path)),
                other => return Ok(other?),
            }
        }
        match rustix::fs::openat(directory, relative, flags, mode) {
            Err(rustix::io::Errno::LOOP) => Err(symlink_refused(path)),
            other => Ok(other?),
        }
    }

    /// Opens a regular file and tells its length.
    fn open_file(&self, path: &Path, flags: OFlags, mode: Mode) -> io::Result<(OsFile, u64)> {
        let file = File::from(self.open_beneath(path, flags, mode)?);
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("`{}` is not a regular file", path.display()),
            ));
        }
        Ok((OsFile(file), metadata.len()))
    }

    /// The directory that holds `path`, opened, and the name in it.
    fn parent_of<'p>(&self, path: &'p Path) -> io::Result<(OwnedFd, &'p std::ffi::OsStr)> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let directory = self.open_beneath(parent(path), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
        Ok((directory, name))
    }
}

/// Refuses absolute paths and `..`; the empty path is the root.
fn checked(path: &Path) -> io::Result<&Path> {
    if path.components().any(|part| !matches!(part, Component::Normal(_) | Component::CurDir)) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("`{}` leaves the store", path.display())));
    }
    Ok(if path.as_os_str().is_empty() { Path::new(".") } else { path })
}

fn symlink_refused(path: &Path) -> io::Error {
    io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!("`{}` is or goes through a symbolic link, which a store never follows", path.display()),
    )
}

fn ignore_exists(result: rustix::io::Result<()>) -> io::Result<()> {
    match result {
        Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

impl Medium for Os {
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn Handle>> {
        let flags = match access {
            // A FIFO or device in place of a transcript must not block or act; it is refused below.
            Access::Read => OFlags::RDONLY | OFlags::NONBLOCK,
            Access::Append => OFlags::RDWR | OFlags::APPEND | OFlags::NONBLOCK,
            Access::CreateNew => OFlags::RDWR | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL,
        };
        // `openat2` refuses a mode where nothing is created.
        let mode = if access == Access::CreateNew { Mode::from_raw_mode(FILE_MODE) } else { Mode::empty() };
        let (file, _) = self.open_file(path, flags, mode)?;
        Ok(Box::new(file))
    }

    /// Four system calls a file: a search through many is mostly this.
    fn read_whole(&self, path: &Path, most: u64, buffer: &mut Vec<u8>) -> io::Result<bool> {
        let (file, len) = self.open_file(path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty())?;
        fill(&file, len, most, buffer)
    }

    fn stat(&self, path: &Path) -> io::Result<Stat> {
        let opened = self.open_beneath(path, OFlags::PATH, Mode::empty())?;
        Ok(convert(&File::from(opened).metadata()?))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<(String, FileKind)>> {
        Ok(self.list_numbers(dir)?.into_iter().map(|(name, kind, _)| (name, kind)).collect())
    }

    fn list_numbers(&self, dir: &Path) -> io::Result<Vec<(String, FileKind, u64)>> {
        let opened = self.open_beneath(dir, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
        let mut entries = Vec::new();
        for (name, kind, number) in names(&opened)? {
            let kind = match kind {
                // Some file systems tell the kind only when asked for each name.
                FileType::Unknown => match stat_in(&opened, &name)? {
                    Some(stat) => stat.kind,
                    None => continue,
                },
                known => file_kind(known),
            };
            entries.push((name, kind, number));
        }
        Ok(entries)
    }

    /// One system call an entry: a list of many sessions is mostly this.
    fn list_stats(&self, dir: &Path) -> io::Result<Vec<(String, Stat)>> {
        let opened = self.open_beneath(dir, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
        let mut stats = Vec::new();
        for (name, _, _) in names(&opened)? {
            if let Some(stat) = stat_in(&opened, &name)? {
                stats.push((name, stat));
            }
        }
        Ok(stats)
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        if self.directory.get().is_none() {
            self.create_root()?;
        }
        let mut so_far = PathBuf::new();
        for part in checked(dir)?.components() {
            let above = so_far.clone();
            so_far.push(part);
            match self.stat(&so_far) {
                Ok(stat) if stat.kind == FileKind::Directory => {}
                Ok(_) => {
                    let message = format!("`{}` is not a directory", so_far.display());
                    return Err(io::Error::new(io::ErrorKind::NotADirectory, message));
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let (directory, name) = self.parent_of(&so_far)?;
                    ignore_exists(rustix::fs::mkdirat(&directory, name, Mode::from_raw_mode(DIRECTORY_MODE)))?;
                }
                Err(error) => return Err(error),
            }
            // Also where it exists: whoever made it may have died before this.
            self.sync_dir(&above)?;
        }
        Ok(())
    }

    fn replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        let ((from_dir, from_name), (to_dir, to_name)) = (self.parent_of(from)?, self.parent_of(to)?);
        Ok(rustix::fs::renameat(from_dir, from_name, to_dir, to_name)?)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let ((from_dir, from_name), (to_dir, to_name)) = (self.parent_of(from)?, self.parent_of(to)?);
        match rustix::fs::renameat_with(&from_dir, from_name, &to_dir, to_name, RenameFlags::NOREPLACE) {
            // Not every file system knows the flag: a hard link refuses an existing name just as atomically.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
                rustix::fs::linkat(&from_dir, from_name, &to_dir, to_name, AtFlags::empty())?;
                Ok(rustix::fs::unlinkat(&from_dir, from_name, AtFlags::empty())?)
            }
            other => Ok(other?),
        }
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let (directory, name) = self.parent_of(path)?;
        Ok(rustix::fs::unlinkat(directory, name, AtFlags::empty())?)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let opened = self.open_beneath(dir, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
        Ok(rustix::fs::fsync(opened)?)
    }

    fn set_mode(&self, path: &Path, mode: u32) -> io::Result<()> {
        let opened = self.open_beneath(path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty())?;
        Ok(rustix::fs::fchmod(opened, Mode::from_raw_mode(mode))?)
    }

    fn lock_holder(&self, stat: &Stat) -> Option<String> {
        let pid = locks(&read_locks()?).find_map(|(file, pid)| (file == stat.identity).then_some(pid))?;
        Some(process(pid))
    }

    fn lock_holders(&self) -> Option<HashMap<(u64, u64), String>> {
        let text = read_locks()?;
        let mut names: HashMap<u32, String> = HashMap::new();
        let mut name = |pid| names.entry(pid).or_insert_with(|| process(pid)).clone();
        Some(locks(&text).map(|(file, pid)| (file, name(pid))).collect())
    }

    fn root(&self) -> PathBuf {
        self.root.clone()
    }
}

fn convert(metadata: &std::fs::Metadata) -> Stat {
    Stat {
        identity: (metadata.dev(), metadata.ino()),
        links: metadata.nlink(),
        len: metadata.len(),
        modified_ns: metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec()),
        mode: metadata.mode() & 0o7777,
        uid: metadata.uid(),
        kind: if metadata.is_file() {
            FileKind::File
        } else if metadata.is_dir() {
            FileKind::Directory
        } else {
            FileKind::Other
        },
    }
}

#[expect(clippy::useless_conversion, clippy::unnecessary_cast, reason = "the fields' types differ between platforms")]
fn from_raw(stat: &rustix::fs::Stat) -> Stat {
    let seconds = stat.st_mtime as i64;
    Stat {
        identity: (stat.st_dev as u64, stat.st_ino as u64),
        links: u64::from(stat.st_nlink),
        len: u64::try_from(stat.st_size).unwrap_or(0),
        modified_ns: seconds.saturating_mul(1_000_000_000).saturating_add(stat.st_mtime_nsec as i64),
        mode: stat.st_mode as u32 & 0o7777,
        uid: stat.st_uid,
        kind: file_kind(FileType::from_raw_mode(stat.st_mode)),
    }
}

/// Says which limit a file met, if it is one of this process and not the file system's.
fn too_large(error: io::Error) -> io::Error {
    match rustix::process::getrlimit(rustix::process::Resource::Fsize).current {
        Some(limit) => {
            let message = format!("a file of this process may have {limit} bytes (`ulimit -f`)");
            io::Error::new(io::ErrorKind::FileTooLarge, message)
        }
        None => error,
    }
}

fn file_kind(kind: FileType) -> FileKind {
    match kind {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        _ => FileKind::Other,
    }
}

/// The names in a directory. Those that are not UTF-8 were not written by a store and match none of its names.
fn names(directory: &OwnedFd) -> io::Result<Vec<(String, FileType, u64)>> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(directory)? {
        let entry = entry?;
        match entry.file_name().to_str() {
            Ok("." | "..") | Err(_) => {}
            Ok(name) => names.push((name.to_owned(), entry.file_type(), entry.ino())),
        }
    }
    Ok(names)
}

/// What a name in a directory stands for; none if it vanished meanwhile.
fn stat_in(directory: &OwnedFd, name: &str) -> io::Result<Option<Stat>> {
    match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(from_raw(&stat))),
        Err(rustix::io::Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[derive(Debug)]
struct OsFile(File);

impl Handle for OsFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(|error| match error.kind() {
            io::ErrorKind::FileTooLarge => too_large(error),
            _ => error,
        })
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn stat(&self) -> io::Result<Stat> {
        Ok(convert(&self.0.metadata()?))
    }

    fn try_lock(&self) -> io::Result<bool> {
        match self.0.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn try_lock_shared(&self) -> io::Result<bool> {
        match self.0.try_lock_shared() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}
