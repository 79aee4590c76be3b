//! Saving all the while: what Claude Code writes is kept a moment later.
//!
//! The system tells which files change (inotify); changes that come together are saved together, at most [`DELAY`] after the first of them, so
//! a machine that is killed loses no more than the line that was being written. What the system does not tell (a full queue, a file system that
//! cannot) is found by looking at everything now and then. What the program deletes is not deleted here: that is what saving is for.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecursiveMode, Watcher as _};

use crate::error::{Error, Result};
use crate::id::SessionId;
use crate::keep::{Keeper, Rewritten, Saved};
use crate::place::Found;

/// How long changes are gathered before they are saved.
pub const DELAY: Duration = Duration::from_millis(200);
/// How long it takes at most until a change is found that nobody told of.
pub const SWEEP: Duration = Duration::from_secs(10);

/// What the program's directory is watched for.
const WATCHED: [&str; 2] = ["projects", "file-history"];

/// One saving.
#[derive(Debug)]
pub struct Kept {
    /// The session.
    pub found: Found,
    /// What was new, or why it could not be saved; it is tried again then.
    pub outcome: Result<Saved>,
}

/// A directory that is kept all the while.
pub struct Mirror {
    keeper: Keeper,
    events: Receiver<PathBuf>,
    /// Dropped, nobody tells any more.
    _watcher: Option<notify::RecommendedWatcher>,
    changed: BTreeSet<SessionId>,
    /// Changed lines that were told: a change of blanks alone is found again each time.
    told: BTreeSet<(SessionId, String)>,
    /// How long and how old each transcript was when it was looked at last.
    seen: BTreeMap<SessionId, (u64, i64)>,
    swept: Instant,
}

impl std::fmt::Debug for Mirror {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mirror").field("changed", &self.changed).finish_non_exhaustive()
    }
}

impl Mirror {
    /// Begins to watch a directory, which is made if it is not there yet.
    pub fn begin(keeper: &Keeper) -> Result<Self> {
        let root = keeper.config().medium().root();
        let (send, events) = channel();
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Reading is no change, and saving reads.
            let changes = event.into_iter().filter(|event| !is_reading(&event.kind));
            for path in changes.flat_map(|event| event.paths) {
                // Without a receiver nobody wants to know any more.
                drop(send.send(path));
            }
        });
        let watcher = match watcher.map_err(|error| error.to_string()) {
            Ok(mut watcher) => {
                for part in WATCHED {
                    let medium = keeper.config().medium();
                    medium.create_dir(Path::new(part)).map_err(|source| Error::Io {
                        action: "create",
                        path: root.join(part),
                        source,
                    })?;
                    if let Err(error) = watcher.watch(&root.join(part), RecursiveMode::Recursive) {
                        tracing::warn!(%error, part, "changes are not told; they are looked for");
                    }
                }
                Some(watcher)
            }
            Err(error) => {
                tracing::warn!(%error, "changes are not told; they are looked for");
                None
            }
        };
        Ok(Self {
            keeper: keeper.clone(),
            events,
            _watcher: watcher,
            changed: BTreeSet::new(),
            told: BTreeSet::new(),
            seen: BTreeMap::new(),
            swept: Instant::now(),
        })
    }

    /// Waits for changes, at most that long, and saves them; only of sessions that are wanted.
    pub fn turn(&mut self, wait: Duration, is_wanted: &dyn Fn(&Found) -> bool) -> Result<Vec<Kept>> {
        let end = Instant::now() + wait;
        while self.changed.is_empty() {
            let until = end.min(self.swept + SWEEP);
            match self.events.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(path) => self.note(&path),
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(DELAY.min(wait)),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.swept.elapsed() >= SWEEP {
                return self.sweep(is_wanted);
            }
            if self.changed.is_empty() && Instant::now() >= end {
                return Ok(Vec::new());
            }
        }
        let gather = Instant::now() + DELAY;
        while let Ok(path) = self.events.recv_timeout(gather.saturating_duration_since(Instant::now())) {
            self.note(&path);
        }
        let mut kept = Vec::new();
        // One that cannot be looked for now is looked for again.
        for id in self.changed.clone() {
            for found in self.keeper.config().find(&id)?.sessions {
                if is_wanted(&found) {
                    kept.push(self.save(found, Keeper::save_added));
                }
            }
            self.changed.remove(&id);
        }
        Ok(kept)
    }

    /// Looks at everything, and saves what changed since it was looked at last.
    pub fn sweep(&mut self, is_wanted: &dyn Fn(&Found) -> bool) -> Result<Vec<Kept>> {
        self.swept = Instant::now();
        while let Ok(path) = self.events.try_recv() {
            self.note(&path);
        }
        let mut kept = Vec::new();
        for found in self.keeper.config().sessions()?.sessions {
            let now = (found.stat.len, found.stat.modified_ns);
            let is_new = self.seen.get(&found.id) != Some(&now) || self.changed.contains(&found.id);
            if is_new && is_wanted(&found) {
                kept.push(self.save(found, Keeper::save));
            }
        }
        self.changed.clear();
        Ok(kept)
    }

    /// Saves these sessions once more, whatever was told: what lies beside a transcript may have changed alone.
    pub fn last(&mut self, sessions: &BTreeSet<SessionId>) -> Result<Vec<Kept>> {
        let mut kept = Vec::new();
        for id in sessions {
            for found in self.keeper.config().find(id)?.sessions {
                kept.push(self.save(found, Keeper::save));
            }
        }
        Ok(kept)
    }

    fn save(&mut self, found: Found, save: impl Fn(&Keeper, &Found) -> Result<Saved>) -> Kept {
        let mut outcome = save(&self.keeper, &found);
        if let Ok(saved) = &mut outcome {
            let mut is_news = |rewritten: &Rewritten| {
                self.told.insert((found.id.clone(), rewritten.to_string())) || !rewritten.rewrite.is_blank
            };
            saved.rewritten.retain(&mut is_news);
        }
        match &outcome {
            Ok(_) => drop(self.seen.insert(found.id.clone(), (found.stat.len, found.stat.modified_ns))),
            // It is looked at again, told or not.
            Err(_) => drop(self.seen.remove(&found.id)),
        }
        Kept { found, outcome }
    }

    fn note(&mut self, path: &Path) {
        let root = self.keeper.config().medium().root();
        let inside = path.strip_prefix(&root).unwrap_or(path);
        let names: Vec<&str> = inside
            .components()
            .filter_map(|part| match part {
                Component::Normal(name) => name.to_str(),
                _ => None,
            })
            .collect();
        let name = match names.as_slice() {
            ["projects", _, name, ..] => name.strip_suffix(".jsonl").unwrap_or(name),
            ["file-history", name, ..] => name,
            _ => return,
        };
        self.changed.extend(SessionId::parse(name));
    }
}

/// Whether someone only looked: a file that was written to and closed is told as such.
fn is_reading(kind: &EventKind) -> bool {
    matches!(kind, EventKind::Access(access) if !matches!(access, AccessKind::Close(AccessMode::Write)))
}
