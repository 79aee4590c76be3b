//! How much memory the views of open sessions may take together.
//!
//! A server has thousands of sessions open and most of them rest. Their views share one budget: the view that no turn has
//! used for the longest time leaves first, and the next turn of its session reads it again. A cache outlives no session: a
//! [`Slot`] takes its view along, because only the session that holds the lock knows that nothing else was appended.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::View;

/// The budget of a store that is given none, in bytes.
pub const BUDGET: usize = 256 << 20;

/// The views of open sessions, of one store or of several.
#[derive(Debug)]
pub struct ViewCache {
    budget: usize,
    views: Mutex<Views>,
}

/// Views by the time of their last use, which is a number that only rises.
#[derive(Debug, Default)]
struct Views {
    by_use: BTreeMap<u64, (View, usize)>,
    bytes: usize,
    uses: u64,
}

impl Default for ViewCache {
    fn default() -> Self {
        Self::new(BUDGET)
    }
}

impl ViewCache {
    /// A cache of at most so many bytes. It keeps one view however large that is.
    pub fn new(budget: usize) -> Self {
        Self { budget, views: Mutex::default() }
    }

    /// How many bytes the views take now, roughly.
    pub fn bytes(&self) -> usize {
        self.lock().bytes
    }

    fn lock(&self) -> MutexGuard<'_, Views> {
        self.views.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, view: View) -> u64 {
        let bytes = view.bytes();
        let mut views = self.lock();
        views.uses += 1;
        let used = views.uses;
        views.by_use.insert(used, (view, bytes));
        views.bytes += bytes;
        while views.bytes > self.budget && views.by_use.len() > 1 {
            let Some((_, (_, bytes))) = views.by_use.pop_first() else { break };
            views.bytes -= bytes;
        }
        used
    }

    fn take(&self, used: u64) -> Option<View> {
        let mut views = self.lock();
        let (view, bytes) = views.by_use.remove(&used)?;
        views.bytes -= bytes;
        Some(view)
    }
}

/// The place of one session's view in a cache.
#[derive(Debug)]
pub(crate) struct Slot {
    cache: Arc<ViewCache>,
    used: Mutex<Option<u64>>,
}

impl Slot {
    pub(crate) fn new(cache: Arc<ViewCache>) -> Self {
        Self { cache, used: Mutex::default() }
    }

    /// Takes the view out, so that one that fails half-way is not used again.
    pub(crate) fn take(&self) -> Option<View> {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        self.cache.take(used)
    }

    pub(crate) fn put(&self, view: View) {
        let used = self.cache.put(view);
        let before = self.used.lock().unwrap_or_else(PoisonError::into_inner).replace(used);
        if let Some(before) = before {
            self.cache.take(before);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.take();
    }
}
