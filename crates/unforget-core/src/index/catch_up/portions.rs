//! Sessions read a portion at a time, so that no more than one lies in memory for each that is written down.
//!
//! It only reads: what a session's row was is asked before its file is, and whether that still is so, by whoever writes.

use super::super::look::{Looked, Task};
use super::super::{Asked, Index, Place};
use crate::layout::AgentDir;
use crate::stamp::SessionId;

/// How much is read between two transactions.
pub(super) const PORTION_SESSIONS: usize = 512;
const PORTION_BYTES: u64 = 16 << 20;

/// Sessions that were read, in portions.
pub(super) struct Portions<'i> {
    index: &'i Index,
    sessions: std::vec::IntoIter<(Place, AgentDir, SessionId)>,
    /// What of them is being looked at.
    tasks: Vec<Task>,
}

/// A session that was read, and how long its file is.
pub(super) struct Read {
    pub(super) task: Task,
    pub(super) looked: Looked,
    pub(super) len: u64,
}

impl<'i> Portions<'i> {
    pub(super) fn new(index: &'i Index, sessions: Vec<(Place, AgentDir, SessionId)>) -> Self {
        Self { index, sessions: sessions.into_iter(), tasks: Vec::new() }
    }
}

impl Iterator for Portions<'_> {
    type Item = Asked<Vec<Read>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.tasks.is_empty() {
            let portion: Vec<_> = self.sessions.by_ref().take(PORTION_SESSIONS).collect();
            let tasks = self.index.read(|connection| {
                let gather = |(place, dir, id): &(_, _, _)| self.index.gather(connection, *place, dir, id);
                portion.iter().rev().map(gather).collect::<Asked<Vec<Task>>>()
            });
            match tasks {
                Ok(tasks) => self.tasks = tasks,
                Err(trouble) => return Some(Err(trouble)),
            }
        }
        let (mut portion, mut bytes) = (Vec::new(), 0);
        while bytes <= PORTION_BYTES
            && let Some(task) = self.tasks.pop()
        {
            let len = self.index.medium.stat(&task.place.transcript(&task.dir, &task.id)).map_or(0, |stat| stat.len);
            bytes += len;
            match self.index.read_file(&task) {
                Ok(looked) => portion.push(Read { task, looked, len }),
                Err(error) => return Some(Err(error.into())),
            }
        }
        (!portion.is_empty()).then_some(Ok(portion))
    }
}
