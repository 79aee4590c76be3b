//! What is done beside a chat: the index hears of each turn, catches up with what it lacks (words to be found by, too), and the readable snapshots follow.
//!
//! It works in a thread of its own, on files that are safe already. A turn never waits for it: if it has too much to do it
//! is told nothing, and the mark that the session left in the index tells it later. Nothing here can fail a chat.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use unforget_core::index::Depth;
use unforget_core::observer::{Ending, Touched};
use unforget_core::store::Store;

/// How many turns it may be behind.
const BEHIND: usize = 16;
/// How often the snapshots are written at most: each is a few hundred kilobytes and a sync.
const SNAPSHOT_PAUSE: Duration = Duration::from_secs(30);

/// How long the end of a chat waits for it.
const GOODBYE: Duration = Duration::from_secs(1);

/// The thread that looks after the caches.
pub(super) struct Caretaker {
    turns: Option<SyncSender<Touched>>,
    /// That the chat ends.
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Caretaker {
    /// Starts it; a system that has no more threads does without.
    pub(super) fn start(catalog: Store) -> Self {
        let (sender, receiver) = sync_channel(BEHIND);
        let ends = Arc::new(AtomicBool::new(false));
        let seen = ends.clone();
        let thread = std::thread::Builder::new().name("caretaker".to_owned()).spawn(move || {
            work(&catalog, &receiver, &seen);
        });
        Self { turns: Some(sender), ends, thread: thread.ok() }
    }

    /// Tells of a session that was written to.
    pub(super) fn turned(&self, touched: Option<&Touched>) {
        if let (Some(turns), Some(touched)) = (&self.turns, touched) {
            match turns.try_send(touched.clone()) {
                // Behind, or gone: the session's mark is in the index.
                Ok(()) | Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
            }
        }
    }
}

impl Drop for Caretaker {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        self.turns = None;
        if let Some(thread) = self.thread.take() {
            // It stops after the portion that it works on. A whole index that is being built is not waited for: what it
            // did is safe, and the rest is done another time.
            let begin = Instant::now();
            while !thread.is_finished() && begin.elapsed() < GOODBYE {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

fn work(catalog: &Store, turns: &Receiver<Touched>, ends: &AtomicBool) {
    let Some(index) = catalog.index() else { return };
    settle(catalog, ends);
    ignore(catalog.refresh());
    let mut refreshed = Instant::now();
    // A turn at a time; the newest of several that wait for the same session says it all.
    while let Ok(mut touched) = turns.recv() {
        while let Ok(next) = turns.try_recv() {
            if next.id != touched.id {
                ignore(index.update(&touched, Ending::Open));
            }
            touched = next;
        }
        ignore(index.update(&touched, Ending::Open));
        settle(catalog, ends);
        if refreshed.elapsed() > SNAPSHOT_PAUSE {
            ignore(catalog.refresh());
            refreshed = Instant::now();
        }
    }
}

/// Brings everything up to date that others left behind.
fn settle(catalog: &Store, ends: &AtomicBool) {
    let Some(index) = catalog.index() else { return };
    if ends.load(Ordering::Relaxed) {
        return;
    }
    ignore(index.catch_up(catalog.directory(), Depth::Changed, &mut |_, _| {}));
    ignore(index.sum_up());
    ignore(index.take_in_words(&mut |_, _| !ends.load(Ordering::Relaxed)));
}

/// What a cache could not do now, it does when it is asked next.
fn ignore<T, E>(result: Result<T, E>) {
    match result {
        Ok(_) | Err(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_chat_does_not_wait_for_an_index_that_is_being_built() {
        let (sender, _receiver) = sync_channel(BEHIND);
        let (release, held) = std::sync::mpsc::channel::<()>();
        let (done, ended) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || done.send(held.recv().is_err()).unwrap());
        drop(Caretaker { turns: Some(sender), ends: Arc::default(), thread: Some(thread) });
        assert!(ended.try_recv().is_err(), "it still works when nobody waits any more");
        drop(release);
        assert!(ended.recv().unwrap());
    }
}
