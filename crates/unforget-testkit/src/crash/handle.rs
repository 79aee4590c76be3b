//! An open file of a crash medium.
//!
//! A handle points to an inode, not to a name, so it outlives renames and removals as a descriptor does. This
//! module owns what one descriptor may do and the lock it may hold; it knows no paths. The failure it guards
//! against is a store that goes on writing to a file that nobody can find any more.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use unforget_core::medium::{Access, Handle, Stat};

use super::fault::{Landing, Operation, no_space};
use super::{State, locked};

/// `errno` of a write to a descriptor that was opened for reading.
const BAD_DESCRIPTOR: i32 = 9;

pub(super) struct CrashHandle {
    state: Arc<Mutex<State>>,
    inode: u64,
    id: u64,
    access: Access,
}

impl CrashHandle {
    pub(super) fn new(state: Arc<Mutex<State>>, inode: u64, id: u64, access: Access) -> Self {
        Self { state, inode, id, access }
    }

    fn admitted(&self, operation: Operation) -> io::Result<MutexGuard<'_, State>> {
        let mut state = locked(&self.state);
        state.plan.admit(operation)?;
        Ok(state)
    }
}

impl fmt::Debug for CrashHandle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("CrashHandle")
            .field("inode", &self.inode)
            .field("access", &self.access)
            .finish_non_exhaustive()
    }
}

impl Drop for CrashHandle {
    fn drop(&mut self) {
        let mut state = locked(&self.state);
        state.disk.closed(self.inode);
        if state.locks.holders.get(&self.inode) == Some(&self.id) {
            state.locks.holders.remove(&self.inode);
        }
    }
}

impl Handle for CrashHandle {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = locked(&self.state);
        let Landing { len, then } = state.plan.admit_write(bytes.len());
        if self.access == Access::Read {
            return then.and(Err(io::Error::from_raw_os_error(BAD_DESCRIPTOR)));
        }
        let landed = state.disk.append(self.inode, &bytes[..len])?;
        then?;
        // A full disk tells so only when nothing fits; before that it writes less.
        if landed == 0 && len > 0 { Err(no_space()) } else { Ok(landed) }
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let state = self.admitted(Operation::ReadAt)?;
        let bytes = state.disk.file(self.inode)?.bytes();
        let start = usize::try_from(offset).map_or(bytes.len(), |offset| offset.min(bytes.len()));
        let count = buffer.len().min(bytes.len() - start);
        buffer[..count].copy_from_slice(&bytes[start..start + count]);
        Ok(count)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.admitted(Operation::SyncData)?.disk.sync_file(self.inode)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.admitted(Operation::SetLen)?;
        if self.access == Access::Read {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        state.disk.set_len(self.inode, len)
    }

    fn stat(&self) -> io::Result<Stat> {
        self.admitted(Operation::Stat)?.disk.stat(self.inode)
    }

    fn try_lock(&self) -> io::Result<bool> {
        let mut state = self.admitted(Operation::TryLock)?;
        if state.locks.ineffective {
            return Ok(true);
        }
        Ok(*state.locks.holders.entry(self.inode).or_insert(self.id) == self.id)
    }
}
