//! A medium that counts what is open and what is read, and may write little at a time.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use unforget_core::medium::{Access, FileKind, Handle, Medium, Stat};

/// Passes everything on to another medium, and counts.
#[derive(Debug, Clone)]
pub struct Counting {
    inner: Arc<dyn Medium>,
    counts: Arc<Counts>,
    most_written: usize,
}

#[derive(Debug, Default)]
struct Counts {
    open: AtomicU64,
    most_open: AtomicU64,
    read: AtomicU64,
    asked: AtomicU64,
    opened: AtomicU64,
    /// Which bytes were read, of which files.
    reads: Mutex<Vec<(PathBuf, Range<u64>)>>,
}

/// What was read of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reads {
    pub bytes: u64,
    /// Those among them that had been read before.
    pub again: u64,
}

#[derive(Debug)]
struct Counted {
    inner: Box<dyn Handle>,
    path: PathBuf,
    counts: Arc<Counts>,
    most_written: usize,
}

impl Counting {
    pub fn new(inner: impl Medium + 'static) -> Self {
        Self { inner: Arc::new(inner), counts: Arc::default(), most_written: usize::MAX }
    }

    /// The same, writing no more than that many bytes with one call.
    pub fn writing_at_most(self, most_written: usize) -> Self {
        Self { most_written, ..self }
    }

    /// The most files that were open at the same time.
    pub fn most_open(&self) -> u64 {
        self.counts.most_open.load(Ordering::Relaxed)
    }

    /// How many names were asked what they stand for, one by one.
    pub fn asked(&self) -> u64 {
        self.counts.asked.load(Ordering::Relaxed)
    }

    /// How many files were opened.
    pub fn opened(&self) -> u64 {
        self.counts.opened.load(Ordering::Relaxed)
    }

    /// How many bytes were read.
    pub fn bytes_read(&self) -> u64 {
        self.counts.read.load(Ordering::Relaxed)
    }

    /// What was read of one file since [`Counting::forget`].
    pub fn reads_of(&self, path: &Path) -> Reads {
        let reads = self.counts.reads.lock().unwrap_or_else(PoisonError::into_inner);
        let mut ranges: Vec<_> = reads.iter().filter(|(of, _)| of == path).map(|(_, range)| range.clone()).collect();
        ranges.sort_by_key(|range| range.start);
        let (mut seen, mut found) = (0, Reads::default());
        for Range { start, end } in ranges {
            found.bytes += end - start;
            found.again += seen.min(end).saturating_sub(start);
            seen = seen.max(end);
        }
        found
    }

    /// Begins to count reads of files anew.
    pub fn forget(&self) {
        self.counts.reads.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Medium for Counting {
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn Handle>> {
        let inner = self.inner.open(path, access)?;
        self.counts.opened.fetch_add(1, Ordering::Relaxed);
        let open = self.counts.open.fetch_add(1, Ordering::Relaxed) + 1;
        self.counts.most_open.fetch_max(open, Ordering::Relaxed);
        let (path, counts) = (path.to_owned(), self.counts.clone());
        Ok(Box::new(Counted { inner, path, counts, most_written: self.most_written }))
    }

    fn stat(&self, path: &Path) -> io::Result<Stat> {
        self.counts.asked.fetch_add(1, Ordering::Relaxed);
        self.inner.stat(path)
    }

    fn list_stats(&self, dir: &Path) -> io::Result<Vec<(String, Stat)>> {
        let stats = self.inner.list_stats(dir)?;
        self.counts.asked.fetch_add(stats.len() as u64, Ordering::Relaxed);
        Ok(stats)
    }

    fn list_numbers(&self, dir: &Path) -> io::Result<Vec<(String, FileKind, u64)>> {
        self.inner.list_numbers(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<(String, FileKind)>> {
        self.inner.list(dir)
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.inner.create_dir(dir)
    }

    fn replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.replace(from, to)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.inner.sync_dir(dir)
    }

    fn set_mode(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.inner.set_mode(path, mode)
    }

    fn lock_holder(&self, stat: &Stat) -> Option<String> {
        self.inner.lock_holder(stat)
    }

    fn root(&self) -> PathBuf {
        self.inner.root()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.counts.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Handle for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner.write(&bytes[..bytes.len().min(self.most_written)])
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let count = self.inner.read_at(buffer, offset)?;
        self.counts.read.fetch_add(count as u64, Ordering::Relaxed);
        if count > 0 {
            let mut reads = self.counts.reads.lock().unwrap_or_else(PoisonError::into_inner);
            reads.push((self.path.clone(), offset..offset + count as u64));
        }
        Ok(count)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.inner.sync_data()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.inner.set_len(len)
    }

    fn stat(&self) -> io::Result<Stat> {
        self.inner.stat()
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.inner.try_lock()
    }

    fn try_lock_shared(&self) -> io::Result<bool> {
        self.inner.try_lock_shared()
    }
}
