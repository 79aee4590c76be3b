//! A disk in memory that fails on demand.
//!
//! Tests run a scripted workload on a [`CrashMedium`], let the k-th operation fail, tear, fill the disk or
//! pull the plug, for every k, then start the machine again and look at what survived. This module owns the
//! test's side of that loop and the [`Medium`] that a store sees; its parts own one thing each: `fault` which
//! operation fails and how, `disk` and `names` the tree, `file` the bytes, `survival` what a crash leaves.
//!
//! The disk keeps two images: *live*, what a running program sees, and *durable*, what is on the platter. Only
//! `sync_data` moves bytes and only `sync_dir` and `create_dir` move names from the first to the second. The
//! model is as mean as POSIX allows, meaner than most file systems: syncing a file does not save its name, and
//! a rename between directories is saved in two halves. It is kinder in two points, to stay predictable:
//! permission bits are durable at once, and a failed sync leaves its bytes unsynced for the next one to save.
//!
//! It knows nothing of what a store writes; what a store promised is for the test to check. The failure it
//! guards against is a write path that is right only as long as nothing goes wrong in the middle of it.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use unforget_core::medium::{Access, FileKind, Handle, Medium, Stat};

mod disk;
mod fault;
mod file;
mod handle;
mod names;
mod survival;
#[cfg(test)]
mod tests;

use disk::Disk;
use fault::{Operation, Plan};
use handle::CrashHandle;
use names::Existing;

pub use fault::{Fault, FaultKind, Keep, Scope, is_power_cut};
pub use survival::Survival;

const ROOT: &str = "/crash-medium";
const LOCK_HOLDER: &str = "process 1 (test)";

/// An in-memory directory tree with planned faults; clones share it, as processes share a disk.
#[derive(Clone)]
pub struct CrashMedium {
    state: Arc<Mutex<State>>,
}

struct State {
    disk: Disk,
    plan: Plan,
    locks: Locks,
}

/// Which handle holds the lock of which inode.
#[derive(Default)]
struct Locks {
    holders: BTreeMap<u64, u64>,
    handles: u64,
    ineffective: bool,
}

impl CrashMedium {
    /// Makes an empty medium that counts every operation.
    pub fn new() -> Self {
        Self::counting(Scope::All)
    }

    /// Makes an empty medium that counts, and so can fail, the operations in `scope`.
    pub fn counting(scope: Scope) -> Self {
        Self::with(Disk::new(), scope, Locks::default())
    }

    /// Plans a fault; of several for the same operation, the first one planned happens.
    pub fn inject(&self, fault: Fault) {
        self.state().plan.inject(fault);
    }

    /// Drops all planned and sticky faults; power that is cut stays cut.
    pub fn clear(&self) {
        self.state().plan.clear();
    }

    /// Counts the operations in scope so far, the failed ones included, up to the power cut.
    pub fn operations(&self) -> u64 {
        self.state().plan.operations()
    }

    /// Limits the bytes of all files together, from now on; a higher limit frees the disk again.
    pub fn capacity(&self, bytes: u64) {
        self.state().disk.set_capacity(bytes);
    }

    /// Makes every lock attempt succeed from now on, as on a network file system that ignores locks.
    pub fn ignore_locks(&self) {
        let mut state = self.state();
        state.locks.holders.clear();
        state.locks.ineffective = true;
    }

    /// Stops this medium and its handles for good and starts a new one from what survived.
    ///
    /// The new one has no faults and no locks and counts from 1; its scope, capacity and kind of locks stay.
    /// One stopped medium can be started any number of times, to look at each survival of the same crash.
    pub fn restart(&self, survival: Survival) -> Self {
        let mut state = self.state();
        state.plan.cut_power();
        let locks = Locks { ineffective: state.locks.ineffective, ..Locks::default() };
        Self::with(state.disk.survive(survival), state.plan.scope(), locks)
    }

    /// Reads the live bytes of a file past all faults, uncounted; `None` if there is no such file.
    pub fn read(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        let state = self.state();
        let number = state.disk.resolve(path.as_ref()).ok()?;
        Some(state.disk.file(number).ok()?.bytes().to_vec())
    }

    /// Sets a file's whole content past all faults, uncounted and durable at once, making missing parents.
    pub fn write_file(&self, path: impl AsRef<Path>, bytes: &[u8]) -> io::Result<()> {
        self.state().disk.place(path.as_ref(), bytes)
    }

    /// Names the live regular files, sorted.
    pub fn paths(&self) -> Vec<String> {
        self.state().disk.paths()
    }

    fn with(disk: Disk, scope: Scope, locks: Locks) -> Self {
        Self { state: Arc::new(Mutex::new(State { disk, plan: Plan::new(scope), locks })) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    /// Lets the plan have its say, then hands out the disk.
    fn admitted(&self, operation: Operation) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.state();
        state.plan.admit(operation)?;
        Ok(state)
    }
}

/// Takes the state even after a panic: a failed assertion in one thread must not hide what the others saw.
fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Default for CrashMedium {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for CrashMedium {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the bytes: a failed assertion that prints the medium has to stay readable.
        let state = self.state();
        formatter
            .debug_struct("CrashMedium")
            .field("plan", &state.plan)
            .field("paths", &state.disk.paths())
            .finish_non_exhaustive()
    }
}

impl Medium for CrashMedium {
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn Handle>> {
        let mut state = self.admitted(match access {
            Access::CreateNew => Operation::Create,
            Access::Read | Access::Append => Operation::Open,
        })?;
        let inode = match access {
            Access::CreateNew => state.disk.create_file(path)?,
            Access::Read | Access::Append => state.disk.find_file(path, access)?,
        };
        state.disk.opened(inode);
        state.locks.handles += 1;
        let id = state.locks.handles;
        Ok(Box::new(CrashHandle::new(Arc::clone(&self.state), inode, id, access)))
    }

    fn stat(&self, path: &Path) -> io::Result<Stat> {
        let state = self.admitted(Operation::Stat)?;
        state.disk.stat(state.disk.resolve(path)?)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<(String, FileKind)>> {
        self.admitted(Operation::List)?.disk.list(dir)
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.admitted(Operation::CreateDir)?.disk.create_dir(dir).map(|_| ())
    }

    fn replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.admitted(Operation::Replace)?.disk.rename(from, to, Existing::Replaced)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.admitted(Operation::Rename)?.disk.rename(from, to, Existing::Refused)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.admitted(Operation::Remove)?.disk.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.admitted(Operation::SyncDir)?.disk.sync_dir(dir)
    }

    fn set_mode(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.admitted(Operation::SetMode)?.disk.set_mode(path, mode)
    }

    fn lock_holder(&self, stat: &Stat) -> Option<String> {
        let (_, inode) = stat.identity;
        self.state().locks.holders.contains_key(&inode).then(|| LOCK_HOLDER.to_owned())
    }

    fn root(&self) -> PathBuf {
        PathBuf::from(ROOT)
    }
}
