//! What programs do with names: create, rename, remove, list, sync.
//!
//! This module owns the rules of those operations on the tree of `disk`: what they refuse, and which of the two
//! images they change. It answers as the real file system does, error kinds included, because a store decides by
//! them. It knows nothing of faults, locks or survivals. The failure it guards against is a name that a test
//! finds after a crash although nobody synced its directory.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use unforget_core::medium::FileKind;

use super::disk::{DIRECTORY_MODE, Directory, Disk, FILE_MODE, Node, ROOT_INODE, parts};
use super::file::FileData;

/// What a rename does with a file that has the new name already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Existing {
    Replaced,
    Refused,
}

impl Disk {
    pub(super) fn create_file(&mut self, path: &Path) -> io::Result<u64> {
        if parts(path)?.is_empty() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let (directory, name) = self.locate(path)?;
        if self.directory(directory)?.live.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let now_ns = self.tick();
        let number = self.allocate(FILE_MODE, Node::File(FileData::new(now_ns)));
        self.attach(directory, name, number)?;
        Ok(number)
    }

    pub(super) fn create_dir(&mut self, dir: &Path) -> io::Result<u64> {
        let mut at = ROOT_INODE;
        for name in parts(dir)? {
            at = match self.lookup(at, name) {
                Ok(number) => number,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let now_ns = self.tick();
                    let empty = Directory { modified_ns: now_ns, ..Directory::default() };
                    let number = self.allocate(DIRECTORY_MODE, Node::Directory(empty));
                    self.attach(at, name, number)?;
                    self.sync_name(at, name, number)?;
                    number
                }
                Err(error) => return Err(error),
            };
        }
        self.directory(at)?;
        Ok(at)
    }

    /// Makes one name durable and none of its neighbours, on whose sync nobody may rely.
    fn sync_name(&mut self, directory: u64, name: &str, number: u64) -> io::Result<()> {
        self.directory_mut(directory)?.durable.insert(name.to_owned(), number);
        Ok(())
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path, existing: Existing) -> io::Result<()> {
        let ((from_dir, from_name), (to_dir, to_name)) = (self.locate(from)?, self.locate(to)?);
        let moved = self.lookup(from_dir, from_name)?;
        let occupant = self.directory(to_dir)?.live.get(to_name).copied();
        if occupant.is_some() && existing == Existing::Refused {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        // POSIX: two names of one file are left alone, and the old one stays.
        if occupant == Some(moved) {
            return Ok(());
        }
        if parts(to)?.starts_with(&parts(from)?) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if let Some(occupant) = occupant {
            match (self.directory(moved), self.directory(occupant)) {
                (Ok(_), Ok(target)) if !target.live.is_empty() => return Err(io::ErrorKind::DirectoryNotEmpty.into()),
                (Ok(_), Err(error)) => return Err(error),
                (Err(_), Ok(_)) if parts(from)?.starts_with(&parts(to)?) => {
                    return Err(io::ErrorKind::DirectoryNotEmpty.into());
                }
                (Err(_), Ok(_)) => return Err(io::ErrorKind::IsADirectory.into()),
                (Ok(_), Ok(_)) | (Err(_), Err(_)) => {}
            }
        }
        self.attach(to_dir, to_name, moved)?;
        self.detach(from_dir, from_name)
    }

    pub(super) fn remove(&mut self, path: &Path) -> io::Result<()> {
        let (directory, name) = self.locate(path)?;
        self.file(self.lookup(directory, name)?)?;
        self.detach(directory, name)
    }

    pub(super) fn sync_dir(&mut self, dir: &Path) -> io::Result<()> {
        let number = self.resolve(dir)?;
        let directory = self.directory_mut(number)?;
        directory.durable = directory.live.clone();
        Ok(())
    }

    pub(super) fn list(&self, dir: &Path) -> io::Result<Vec<(String, FileKind)>> {
        let names = &self.directory(self.resolve(dir)?)?.live;
        names.iter().map(|(name, number)| Ok((name.clone(), self.stat(*number)?.kind))).collect()
    }

    /// Puts a file with this content on the platter, whatever the capacity.
    pub(super) fn place(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut above = parts(path)?;
        let name = above.pop().ok_or(io::ErrorKind::InvalidInput)?;
        let directory = self.create_dir(&above.iter().collect::<PathBuf>())?;
        let number = match self.lookup(directory, name) {
            Ok(number) => number,
            Err(_) => self.create_file(path)?,
        };
        let now_ns = self.tick();
        let data = self.file_mut(number)?;
        data.set_len(0, now_ns);
        data.append(bytes, now_ns);
        data.sync();
        self.sync_name(directory, name, number)
    }

    pub(super) fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        // Half-synced moves of directories can leave one beneath itself; each is walked once.
        let mut seen = BTreeSet::from([ROOT_INODE]);
        let mut pending = vec![(String::new(), ROOT_INODE)];
        while let Some((prefix, number)) = pending.pop() {
            let Ok(directory) = self.directory(number) else {
                continue;
            };
            for (name, child) in &directory.live {
                let path = format!("{prefix}{name}");
                if self.file(*child).is_ok() {
                    paths.push(path);
                } else if seen.insert(*child) {
                    pending.push((format!("{path}/"), *child));
                }
            }
        }
        paths.sort();
        paths
    }
}
