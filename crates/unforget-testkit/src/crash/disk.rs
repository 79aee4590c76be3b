//! Inodes and the tree of names over them, live and durable.
//!
//! This module owns the structure: which name leads to which inode in the image that programs see and in the one
//! on the platter, how many names and handles keep an inode, and how many bytes fit. What may be done to names is
//! in `names`, what a crash leaves in `survival`; it knows nothing of faults or locks. The failure it guards
//! against is a full disk that is not full to the byte, or that keeps no room for a file still open.

use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path};

use unforget_core::medium::{Access, FileKind, Stat};

use super::fault::no_space;
use super::file::FileData;

pub(super) const ROOT_INODE: u64 = 1;

const DEVICE: u64 = 1;
pub(super) const DIRECTORY_MODE: u32 = 0o700;
pub(super) const FILE_MODE: u32 = 0o600;

#[derive(Debug, Clone, Default)]
pub(super) struct Directory {
    pub(super) live: BTreeMap<String, u64>,
    pub(super) durable: BTreeMap<String, u64>,
    pub(super) modified_ns: i64,
}

#[derive(Debug, Clone)]
pub(super) enum Node {
    File(FileData),
    Directory(Directory),
}

#[derive(Debug, Clone)]
pub(super) struct Inode {
    pub(super) mode: u32,
    /// Live names.
    pub(super) links: u64,
    /// Open handles, which keep the bytes of an unlinked file on the disk.
    pub(super) handles: u64,
    pub(super) node: Node,
}

#[derive(Debug)]
pub(super) struct Disk {
    pub(super) inodes: BTreeMap<u64, Inode>,
    pub(super) last_inode: u64,
    pub(super) clock_ns: i64,
    pub(super) capacity: u64,
}

impl Disk {
    pub(super) fn new() -> Self {
        let root = Inode { mode: DIRECTORY_MODE, links: 1, handles: 0, node: Node::Directory(Directory::default()) };
        Self { inodes: BTreeMap::from([(ROOT_INODE, root)]), last_inode: ROOT_INODE, clock_ns: 0, capacity: u64::MAX }
    }

    pub(super) fn set_capacity(&mut self, bytes: u64) {
        self.capacity = bytes;
    }

    /// Bytes that still fit.
    fn room(&self) -> u64 {
        if self.capacity == u64::MAX {
            return u64::MAX;
        }
        let kept = self.inodes.values().filter(|inode| inode.links > 0 || inode.handles > 0);
        self.capacity.saturating_sub(kept.map(Inode::len).sum())
    }

    pub(super) fn opened(&mut self, number: u64) {
        if let Some(inode) = self.inodes.get_mut(&number) {
            inode.handles += 1;
        }
    }

    pub(super) fn closed(&mut self, number: u64) {
        if let Some(inode) = self.inodes.get_mut(&number) {
            inode.handles = inode.handles.saturating_sub(1);
        }
    }

    /// The inode that a path leads to.
    pub(super) fn resolve(&self, path: &Path) -> io::Result<u64> {
        parts(path)?.into_iter().try_fold(ROOT_INODE, |at, name| self.lookup(at, name))
    }

    /// The directory that holds a path, and the name in it.
    pub(super) fn locate<'path>(&self, path: &'path Path) -> io::Result<(u64, &'path str)> {
        let mut parts = parts(path)?;
        let name = parts.pop().ok_or(io::ErrorKind::InvalidInput)?;
        let directory = parts.into_iter().try_fold(ROOT_INODE, |at, name| self.lookup(at, name))?;
        self.directory(directory)?;
        Ok((directory, name))
    }

    pub(super) fn lookup(&self, directory: u64, name: &str) -> io::Result<u64> {
        Ok(*self.directory(directory)?.live.get(name).ok_or(io::ErrorKind::NotFound)?)
    }

    pub(super) fn directory(&self, number: u64) -> io::Result<&Directory> {
        match self.inodes.get(&number).map(|inode| &inode.node) {
            Some(Node::Directory(directory)) => Ok(directory),
            Some(Node::File(_)) => Err(io::ErrorKind::NotADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    pub(super) fn directory_mut(&mut self, number: u64) -> io::Result<&mut Directory> {
        match self.inodes.get_mut(&number).map(|inode| &mut inode.node) {
            Some(Node::Directory(directory)) => Ok(directory),
            Some(Node::File(_)) => Err(io::ErrorKind::NotADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    pub(super) fn file(&self, number: u64) -> io::Result<&FileData> {
        match self.inodes.get(&number).map(|inode| &inode.node) {
            Some(Node::File(data)) => Ok(data),
            Some(Node::Directory(_)) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    pub(super) fn file_mut(&mut self, number: u64) -> io::Result<&mut FileData> {
        match self.inodes.get_mut(&number).map(|inode| &mut inode.node) {
            Some(Node::File(data)) => Ok(data),
            Some(Node::Directory(_)) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// A time later than all before it.
    pub(super) fn tick(&mut self) -> i64 {
        self.clock_ns += 1;
        self.clock_ns
    }

    pub(super) fn allocate(&mut self, mode: u32, node: Node) -> u64 {
        self.last_inode += 1;
        self.inodes.insert(self.last_inode, Inode { mode, links: 0, handles: 0, node });
        self.last_inode
    }

    pub(super) fn attach(&mut self, directory: u64, name: &str, number: u64) -> io::Result<()> {
        self.detach(directory, name)?;
        self.directory_mut(directory)?.live.insert(name.to_owned(), number);
        if let Some(inode) = self.inodes.get_mut(&number) {
            inode.links += 1;
        }
        Ok(())
    }

    pub(super) fn detach(&mut self, directory: u64, name: &str) -> io::Result<()> {
        let now_ns = self.tick();
        let holder = self.directory_mut(directory)?;
        holder.modified_ns = now_ns;
        let Some(number) = holder.live.remove(name) else {
            return Ok(());
        };
        if let Some(inode) = self.inodes.get_mut(&number) {
            inode.links = inode.links.saturating_sub(1);
        }
        Ok(())
    }

    pub(super) fn find_file(&self, path: &Path, access: Access) -> io::Result<u64> {
        let number = self.resolve(path)?;
        match self.file(number) {
            Ok(_) => Ok(number),
            // A directory can be opened for reading; only then is it seen not to be a regular file.
            Err(error) if error.kind() == io::ErrorKind::IsADirectory && access == Access::Read => {
                Err(io::ErrorKind::InvalidInput.into())
            }
            Err(error) => Err(error),
        }
    }

    pub(super) fn stat(&self, number: u64) -> io::Result<Stat> {
        let inode = self.inodes.get(&number).ok_or(io::ErrorKind::NotFound)?;
        let (kind, modified_ns) = match &inode.node {
            Node::File(data) => (FileKind::File, data.modified_ns()),
            Node::Directory(directory) => (FileKind::Directory, directory.modified_ns),
        };
        let (identity, links, len, mode) = ((DEVICE, number), inode.links, inode.len(), inode.mode);
        let uid = rustix::process::geteuid().as_raw();
        Ok(Stat { identity, links, len, modified_ns, mode, uid, kind })
    }

    pub(super) fn set_mode(&mut self, path: &Path, mode: u32) -> io::Result<()> {
        let number = self.resolve(path)?;
        self.inodes.get_mut(&number).ok_or(io::ErrorKind::NotFound)?.mode = mode & 0o7777;
        Ok(())
    }

    /// Appends what fits, and tells how much that was.
    pub(super) fn append(&mut self, number: u64, bytes: &[u8]) -> io::Result<usize> {
        let fits = usize::try_from(self.room()).map_or(bytes.len(), |room| room.min(bytes.len()));
        if fits > 0 {
            let now_ns = self.tick();
            self.file_mut(number)?.append(&bytes[..fits], now_ns);
        }
        Ok(fits)
    }

    pub(super) fn set_len(&mut self, number: u64, len: u64) -> io::Result<()> {
        let growth = len.saturating_sub(self.file(number)?.bytes().len() as u64);
        // A cut has to work on a full disk: it is how a store takes back half a line.
        if growth > 0 && growth > self.room() {
            return Err(no_space());
        }
        let len = usize::try_from(len).map_err(|_| no_space())?;
        let now_ns = self.tick();
        self.file_mut(number)?.set_len(len, now_ns);
        Ok(())
    }

    pub(super) fn sync_file(&mut self, number: u64) -> io::Result<()> {
        self.file_mut(number)?.sync();
        Ok(())
    }

    pub(super) fn count_links(&mut self) {
        let mut links = BTreeMap::from([(ROOT_INODE, 1)]);
        for inode in self.inodes.values() {
            let Node::Directory(directory) = &inode.node else {
                continue;
            };
            for number in directory.live.values() {
                *links.entry(*number).or_default() += 1;
            }
        }
        for (number, inode) in &mut self.inodes {
            inode.links = links.get(number).copied().unwrap_or(0);
        }
    }
}

impl Inode {
    fn len(&self) -> u64 {
        match &self.node {
            Node::File(data) => data.bytes().len() as u64,
            Node::Directory(_) => 0,
        }
    }
}

/// The names along a path; refuses one that leaves the root, and takes the empty path for the root.
pub(super) fn parts(path: &Path) -> io::Result<Vec<&str>> {
    let mut parts = Vec::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::Normal(name) => parts.push(name.to_str().ok_or(io::ErrorKind::InvalidInput)?),
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(io::ErrorKind::InvalidInput.into());
            }
        }
    }
    Ok(parts)
}
