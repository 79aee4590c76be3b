//! What happens to the index, to the times that it goes by, and to files behind everyone's back.

use std::time::{Duration, SystemTime};

use unforget_core::index::Depth;
use unforget_core::layout::Place;

use super::super::operation::Harm;
use super::World;

/// How long ago a directory was changed that was left alone.
const LONG_AGO: Duration = Duration::from_secs(1_000_000_000);
const FOLDERS: [&str; 4] = ["agents/main/sessions", "agents/work/sessions", "trash/main", "trash/work"];
const INDEX: &str = "index.sqlite";

impl World {
    pub(super) fn take_in_words(&self, who: usize, sessions: Option<usize>) {
        let index = self.processes[who].index().unwrap();
        if sessions.is_none() {
            // As the chat does it while nobody waits.
            drop(index.catch_up(self.processes[who].directory(), Depth::Changed, &mut |_, _| {}));
        }
        let mut left = sessions.unwrap_or(usize::MAX);
        let taken = index.take_in_words(&mut |_, _| {
            left = left.saturating_sub(1);
            left > 0
        });
        // Without an index, or with one that is of no use, there is nothing to do; the next question finds out.
        drop(taken);
    }

    pub(super) fn harm(&mut self, harm: Harm) {
        let path = self.home().join(INDEX);
        if !path.exists() {
            return;
        }
        if let Harm::Deleted | Harm::DeletedAlone = harm {
            std::fs::remove_file(&path).unwrap();
            if matches!(harm, Harm::Deleted) {
                for ending in ["-wal", "-shm"] {
                    std::fs::remove_file(self.home().join(format!("{INDEX}{ending}"))).unwrap_or_default();
                }
            }
            return;
        }
        // Everything is in one file first, or nothing would be harmed; another harm may be there already.
        let connection = rusqlite::Connection::open(&path).unwrap();
        drop(connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)"));
        let len = std::fs::metadata(&path).unwrap().len();
        match harm {
            Harm::Cut => {
                std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(len / 2).unwrap();
            }
            Harm::Overwritten => std::fs::write(&path, "no database\n".repeat(1000)).unwrap(),
            Harm::Noise => {
                let mut bytes = std::fs::read(&path).unwrap();
                let from = bytes.len().min(4096);
                bytes[from..].fill(0xa5);
                std::fs::write(&path, bytes).unwrap();
            }
            Harm::OtherVersion => drop(connection.execute_batch("PRAGMA user_version = 1")),
            Harm::Deleted | Harm::DeletedAlone => {}
        }
    }

    /// Someone takes the last records out of a file. Nobody was told, so the next to look looks at everything.
    pub(super) fn cut(&mut self, who: usize, session: usize, records: usize) {
        let Some(at) = self.pick(session, false) else { return };
        let session = &self.model.sessions[at];
        if session.is_torn || self.open.contains_key(&session.id) {
            return;
        }
        // The index knows all words of it first, or there would be none to forget.
        self.take_in_words(who, None);
        let session = &self.model.sessions[at];
        let left = session.records.len().saturating_sub(records).max(1);
        let path = self.path_of(session);
        let bytes = std::fs::read(&path).unwrap();
        let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
        assert_eq!(lines.len(), session.records.len());
        std::fs::write(&path, lines[..left].concat()).unwrap();
        self.model.sessions[at].records.truncate(left);
        self.processes[who].all(Place::Agents, &mut |_, _| {}).unwrap();
    }

    /// Gives a directory a time of long ago that it never had before.
    pub(super) fn age(&mut self, place: usize) {
        let Ok(folder) = std::fs::File::open(self.home().join(FOLDERS[place])) else { return };
        self.aged += 1;
        folder.set_modified(SystemTime::UNIX_EPOCH + LONG_AGO + Duration::from_secs(self.aged.into())).unwrap();
    }
}
