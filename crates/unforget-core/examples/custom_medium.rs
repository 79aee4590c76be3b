//! A medium of one's own: everything that a store does to its disk passes here. This one counts.
//!
//! Others fail, tear or lose power at the k-th operation, as the tests of this crate do. All operations but the four
//! that are looked at go through to the real file system.
//!
//! ```console
//! $ cargo run -p unforget-core --example custom_medium
//! ```

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use unforget_core::medium::{Access, FileKind, Handle, Medium, Os, Stat};
use unforget_core::{OnMissing, Store, Turn};

/// What was counted.
#[derive(Debug, Default)]
struct Counts {
    writes: AtomicU64,
    bytes: AtomicU64,
    syncs: AtomicU64,
}

#[derive(Debug)]
struct Counting {
    os: Os,
    counts: Arc<Counts>,
}

#[derive(Debug)]
struct CountingFile {
    file: Box<dyn Handle>,
    counts: Arc<Counts>,
}

#[rustfmt::skip] // What only goes through takes one line.
impl Handle for CountingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.counts.writes.fetch_add(1, Ordering::Relaxed);
        self.counts.bytes.fetch_add(written as u64, Ordering::Relaxed);
        Ok(written)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.counts.syncs.fetch_add(1, Ordering::Relaxed);
        self.file.sync_data()
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> { self.file.read_at(buffer, offset) }
    fn set_len(&self, len: u64) -> io::Result<()> { self.file.set_len(len) }
    fn stat(&self) -> io::Result<Stat> { self.file.stat() }
    fn try_lock(&self) -> io::Result<bool> { self.file.try_lock() }
    fn try_lock_shared(&self) -> io::Result<bool> { self.file.try_lock_shared() }
}

#[rustfmt::skip]
impl Medium for Counting {
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn Handle>> {
        let file = self.os.open(path, access)?;
        Ok(Box::new(CountingFile { file, counts: Arc::clone(&self.counts) }))
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.counts.syncs.fetch_add(1, Ordering::Relaxed);
        self.os.sync_dir(dir)
    }
    fn stat(&self, path: &Path) -> io::Result<Stat> { self.os.stat(path) }
    fn list(&self, dir: &Path) -> io::Result<Vec<(String, FileKind)>> { self.os.list(dir) }
    fn create_dir(&self, dir: &Path) -> io::Result<()> { self.os.create_dir(dir) }
    fn replace(&self, from: &Path, to: &Path) -> io::Result<()> { self.os.replace(from, to) }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> { self.os.rename(from, to) }
    fn remove(&self, path: &Path) -> io::Result<()> { self.os.remove(path) }
    fn set_mode(&self, path: &Path, mode: u32) -> io::Result<()> { self.os.set_mode(path, mode) }
    fn lock_holder(&self, stat: &Stat) -> Option<String> { self.os.lock_holder(stat) }
    fn root(&self) -> PathBuf { self.os.root() }
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let (writes, bytes, syncs) = run(folder.path())?;
    #[expect(clippy::print_stdout, reason = "an example shows what it does")]
    {
        println!("a turn of two messages: {writes} write of {bytes} bytes, {syncs} sync");
    }
    Ok(())
}

/// Saves a turn and tells what it took: writes, bytes, syncs.
pub(crate) fn run(dir: &Path) -> Result<(u64, u64, u64), Box<dyn Error>> {
    let counts = Arc::new(Counts::default());
    let medium = Counting { os: Os::new(dir), counts: Arc::clone(&counts) };
    // SQLite would read and write the index by itself, past this medium.
    let store = Store::builder(dir).medium(Arc::new(medium)).without_index().open()?;
    let mut session = store.load(&"main:cli:ada".parse()?, OnMissing::Create)?;

    let seen = || [&counts.writes, &counts.bytes, &counts.syncs].map(|count| count.load(Ordering::Relaxed));
    let before = seen();
    session.save(&Turn::new("What is 6 x 7?").answer("42"))?;
    let after = seen();
    Ok((after[0] - before[0], after[1] - before[1], after[2] - before[2]))
}
