//! What every session took: from the index, or by reading all transcripts.

use std::path::Path;

use super::{Catalog, Notes};
use crate::error::Result;
use crate::index::Depth;
use crate::stamp::SessionId;
use crate::store::Entry;
use crate::summary::State;
use crate::usage::{self, Facts, Ledger, Reach, Unread};

const HOUR_MS: i64 = 3_600_000;

impl Catalog {
    /// Hands the ledger of each session to `visit`. With a reach, lines from before it may be left out.
    pub fn spent(
        &self,
        reach: Reach,
        progress: &mut dyn FnMut(&Path, u64),
        visit: &mut dyn FnMut(Facts, Ledger),
    ) -> Result<Vec<Unread>> {
        let since_hour = match reach {
            Reach::All => i64::MIN,
            Reach::TouchedSince(ms) => ms.div_euclid(HOUR_MS),
        };
        let (ledgers, unread) = self.ask(
            Depth::Changed,
            &mut Notes::default(),
            progress,
            |index, _| {
                // Handed on only when all are there: half an answer from here and a whole one from the files would be too much.
                let mut ledgers = Vec::new();
                let mut unread = Vec::new();
                let mut hand_on = |entry: Entry, ledger: Ledger| {
                    let Some(id) = SessionId::parse(&entry.row.id) else { return };
                    let trashed = entry.row.state == State::Deleted;
                    let is_elsewhere = trashed && self.store.medium().stat(&entry.dir.transcript(&id)).is_ok();
                    if entry.row.state == State::Missing || is_elsewhere {
                        return;
                    }
                    let row = entry.row;
                    ledgers.push((
                        Facts { id, dir: entry.dir, key: row.key, label: row.label, title: row.title, trashed },
                        ledger,
                    ));
                };
                index.spent(since_hour, &mut hand_on)?;
                for entry in index.unfinished()? {
                    let path = self.store.path(&entry)?;
                    match usage::read(&self.store, &path) {
                        Ok((_, ledger)) => hand_on(entry, ledger),
                        Err(error) => unread.push((path, error.to_string())),
                    }
                }
                for entry in index.unreadable()? {
                    if let (State::Unreadable(why), Ok(path)) = (&entry.row.state, self.store.path(&entry)) {
                        unread.push((path, why.clone()));
                    }
                }
                Ok((ledgers, unread))
            },
            |progress, _| {
                let mut ledgers = Vec::new();
                let visit = |facts, ledger| ledgers.push((facts, ledger));
                let unread = usage::collect(&self.store, reach, |path| progress(path, 0), visit)?;
                Ok((ledgers, unread))
            },
        )?;
        ledgers.into_iter().for_each(|(facts, ledger)| visit(facts, ledger));
        Ok(unread)
    }
}
