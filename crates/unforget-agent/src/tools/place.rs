//! A file's place in the workspace: reading what is there, and replacing it as a whole.
//!
//! A place is an open folder and a name in it, with all links already followed. Only regular files are touched: a FIFO
//! would block for ever, a device would act. A file is replaced by a new one beside it that is safe on the disk before it
//! takes the name, so that a crash leaves the old content or the new one, never half of it, and a replacement is refused if
//! somebody else changed the file since it was looked at.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{Access, AtFlags, FileType, Gid, Mode, OFlags, RenameFlags, Stat, Uid};
use rustix::io::Errno;

/// The mode of new files, before the process's mask.
const FILE_MODE: u32 = 0o666;
/// The mode of a file that takes another's place, until it has that one's.
const PRIVATE_MODE: u32 = 0o600;
/// How many names are tried for the new file.
const MAX_NAMES: usize = 64;

/// Numbers the new files of this process.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Device and inode: which file it is, whatever it is called.
pub(super) type Identity = (u64, u64);

/// Why a path cannot be used, in words for the model.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PathError {
    #[error("it leads out of the workspace; give a path inside it (absolute links count as leading out)")]
    Outside,
    #[error("the stored conversations are out of reach of tools")]
    Store,
    #[error("it holds keys, tokens, settings or credentials, which tools never see")]
    Private,
    #[error("the store of the conversations cannot be found, and without it no path can be told from one into it")]
    StoreUnknown,
    #[error("there is no such file or folder; list_directory shows what there is")]
    Missing,
    #[error("it is a folder, not a file; list_directory shows what is in it")]
    Folder,
    #[error("it, or a part of its path, is not a folder")]
    NotFolder,
    #[error("it is a {0}; only regular files can be read and written")]
    Special(&'static str),
    #[error("permission denied; the mode of the file or of a folder above it does not allow this")]
    Denied,
    #[error("too many symbolic links, or one that must not be followed")]
    Links,
    #[error("somebody else changed it at the same time and nothing was written; read it again")]
    Changed,
    #[error("{0}")]
    Io(io::Error),
}

impl From<Errno> for PathError {
    fn from(error: Errno) -> Self {
        match error {
            Errno::XDEV => PathError::Outside,
            Errno::NOENT => PathError::Missing,
            Errno::ISDIR => PathError::Folder,
            Errno::NOTDIR => PathError::NotFolder,
            Errno::ACCESS | Errno::PERM => PathError::Denied,
            Errno::LOOP => PathError::Links,
            other => PathError::Io(other.into()),
        }
    }
}

impl From<io::Error> for PathError {
    fn from(error: io::Error) -> Self {
        match Errno::from_io_error(&error) {
            Some(errno) => errno.into(),
            None => PathError::Io(error),
        }
    }
}

/// What a file was when it was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Version {
    identity: Identity,
    pub(super) len: u64,
    times: [i64; 4],
    /// The permission bits.
    pub(super) mode: u32,
    owner: (u32, u32),
}

/// A file's place: an open folder and a name in it.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) directory: OwnedFd,
    pub(super) name: OsString,
}

impl Place {
    /// Opens the file for reading.
    pub(super) fn open(&self) -> Result<(File, Version), PathError> {
        // Looked at before it is opened, because opening alone makes some devices act.
        self.version()?.ok_or(PathError::Missing)?;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(&self.directory, &self.name, flags, Mode::empty())?);
        let version = regular(&rustix::fs::fstat(&file)?)?;
        Ok((file, version))
    }

    /// What is there: none if nothing is, an error if it is no regular file.
    pub(super) fn version(&self) -> Result<Option<Version>, PathError> {
        match rustix::fs::statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => regular(&stat).map(Some),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Puts a file with this content in place of the one that was there, whose mode it gets, or where none was; there it
    /// gets the mode given.
    pub(super) fn replace(&self, content: &[u8], before: Option<&Version>, mode: Option<u32>) -> Result<(), PathError> {
        if before.is_some() {
            // Taking the name needs no permission on the file itself, but one that is read-only is so on purpose.
            rustix::fs::accessat(&self.directory, &self.name, Access::WRITE_OK, AtFlags::EACCESS)?;
        }
        let (mut draft, mut file) = Draft::new(self, if before.is_some() { PRIVATE_MODE } else { FILE_MODE })?;
        file.write_all(content)?;
        match (before, mode) {
            (Some(before), _) => take_over(&file, before)?,
            // A mode that was written down lends nobody's rights to anybody.
            (None, Some(mode)) => rustix::fs::fchmod(&file, Mode::from_raw_mode(mode & 0o777))?,
            (None, None) => {}
        }
        file.sync_all()?;
        if self.version()?.as_ref() != before {
            return Err(PathError::Changed);
        }
        draft.publish(before)?;
        sync_folder(&self.directory)
    }

    /// Removes the file that was there.
    pub(super) fn remove(&self, before: &Version) -> Result<(), PathError> {
        rustix::fs::accessat(&self.directory, &self.name, Access::WRITE_OK, AtFlags::EACCESS)?;
        if self.version()?.as_ref() != Some(before) {
            return Err(PathError::Changed);
        }
        rustix::fs::unlinkat(&self.directory, &self.name, AtFlags::empty())?;
        sync_folder(&self.directory)
    }
}

/// A file that has not taken its name yet, and is removed if it never does.
struct Draft<'a> {
    place: &'a Place,
    name: String,
    published: bool,
}

impl<'a> Draft<'a> {
    fn new(place: &'a Place, mode: u32) -> Result<(Self, File), PathError> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for _ in 0..MAX_NAMES {
            let name = format!(".unforget-{}-{}.tmp", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
            match rustix::fs::openat(&place.directory, &name, flags, Mode::from_raw_mode(mode)) {
                Ok(file) => return Ok((Self { place, name, published: false }, File::from(file))),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Errno::EXIST.into())
    }

    fn publish(&mut self, before: Option<&Version>) -> Result<(), PathError> {
        let (directory, name) = (&self.place.directory, &self.place.name);
        let rename = || rustix::fs::renameat(directory, &self.name, directory, name);
        let renamed = if before.is_some() {
            rename()
        } else {
            match rustix::fs::renameat_with(directory, &self.name, directory, name, RenameFlags::NOREPLACE) {
                // Not every file system knows the flag.
                Err(Errno::INVAL | Errno::NOSYS) => rename(),
                other => other,
            }
        };
        match renamed {
            Ok(()) => self.published = true,
            Err(Errno::EXIST) => return Err(PathError::Changed),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if !self.published {
            // The error that ended the replacement is the one that is told; a draft left behind is named as one.
            rustix::fs::unlinkat(&self.place.directory, &self.name, AtFlags::empty()).ok();
        }
    }
}

/// Gives a new file the owner and mode of the one that it replaces.
fn take_over(file: &File, before: &Version) -> Result<(), PathError> {
    let own = rustix::fs::fstat(file)?;
    let mut mode = before.mode;
    if (own.st_uid, own.st_gid) != before.owner {
        let (user, group) = (Uid::from_raw(before.owner.0), Gid::from_raw(before.owner.1));
        if rustix::fs::fchown(file, Some(user), Some(group)).is_err() {
            // Only root may give files away. Whoever owns the new file must not lend its rights to those who run it.
            mode &= 0o777;
        }
    }
    Ok(rustix::fs::fchmod(file, Mode::from_raw_mode(mode))?)
}

/// Makes the names in a folder durable.
pub(super) fn sync_folder(directory: &OwnedFd) -> Result<(), PathError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = match rustix::fs::openat(directory, ".", flags, Mode::empty()) {
        // A folder that may be written but not listed cannot be synced.
        Err(Errno::ACCESS) => return Ok(()),
        other => other?,
    };
    match rustix::fs::fsync(opened) {
        // Some file systems do not sync folders.
        Ok(()) | Err(Errno::INVAL) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn regular(stat: &Stat) -> Result<Version, PathError> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(version(stat)),
        FileType::Directory => Err(PathError::Folder),
        // A link where none was a moment ago.
        FileType::Symlink => Err(PathError::Changed),
        other => Err(PathError::Special(kind(other))),
    }
}

/// What a name stands for, in a word.
pub(super) fn kind(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "file",
        FileType::Directory => "folder",
        FileType::Symlink => "link",
        FileType::Fifo => "FIFO",
        FileType::Socket => "socket",
        FileType::CharacterDevice | FileType::BlockDevice => "device",
        FileType::Unknown => "file of unknown kind",
    }
}

#[expect(clippy::unnecessary_cast, reason = "the fields' types differ between platforms")]
pub(super) fn identity(stat: &Stat) -> Identity {
    (stat.st_dev as u64, stat.st_ino as u64)
}

#[expect(clippy::unnecessary_cast, reason = "the fields' types differ between platforms")]
fn version(stat: &Stat) -> Version {
    Version {
        identity: identity(stat),
        len: u64::try_from(stat.st_size).unwrap_or(0),
        times: [stat.st_mtime as i64, stat.st_mtime_nsec as i64, stat.st_ctime as i64, stat.st_ctime_nsec as i64],
        mode: stat.st_mode as u32 & 0o7777,
        owner: (stat.st_uid, stat.st_gid),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::tests::Scene;

    #[test]
    fn a_file_that_changed_since_it_was_looked_at_is_not_replaced() {
        let scene = Scene::new();
        scene.write("file", "one");
        let place = scene.workspace().place("file").unwrap();
        let before = place.version().unwrap();
        scene.write("file", "two!");
        assert!(matches!(place.replace(b"mine", before.as_ref(), None), Err(PathError::Changed)));
        assert_eq!(scene.read("file"), "two!");
        assert_eq!(scene.names("."), ["file", "store"]);
    }

    #[test]
    fn a_file_that_appeared_meanwhile_is_not_replaced() {
        let scene = Scene::new();
        let place = scene.workspace().place("file").unwrap();
        scene.write("file", "theirs");
        assert!(matches!(place.replace(b"mine", None, None), Err(PathError::Changed)));
        assert_eq!(scene.read("file"), "theirs");
    }

    #[test]
    fn a_draft_never_takes_a_name_that_is_there() {
        let scene = Scene::new();
        let place = scene.workspace().place("file").unwrap();
        let (mut draft, _file) = Draft::new(&place, FILE_MODE).unwrap();
        scene.write("file", "theirs");
        assert!(matches!(draft.publish(None), Err(PathError::Changed)));
        drop(draft);
        assert_eq!(scene.names("."), ["file", "store"]);
        assert_eq!(scene.read("file"), "theirs");
    }
}
