//! Which sessions there are, answered by the index if it can and by the files if not. The answers are the same.
//!
//! An index that is damaged or of an older version is set aside and built anew; one that is busy, that a newer version of the program made, or that cannot be
//! written where it should be, is done without. What is shown is compared with its files first.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::directory::{Directory, Entry, Listing, describe};
use crate::error::{Error, Result};
use crate::index::{self, Asked, Caught, Depth, Index, Trouble};
use crate::key::Key;
use crate::layout::Place;
use crate::listing::{self, ListQuery, Page};
use crate::snapshot::Written;
use crate::summary::State;

mod builder;
mod collect;
mod search;
mod sessions;
mod spent;

pub use builder::Builder;
pub use collect::{Facts, Reach, Unread, collect};
pub use search::{Scan, Way};

/// How often a page is asked for anew because something in it had changed.
const ATTEMPTS: usize = 4;

/// Who holds which file's lock.
pub type Holders = HashMap<(u64, u64), String>;

/// The sessions of a directory.
#[derive(Debug, Clone)]
pub struct Store {
    directory: Directory,
    index: Option<Arc<Index>>,
}

/// An answer, and what was odd on the way to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer<T> {
    /// The answer.
    pub value: T,
    /// What is worth telling.
    pub notes: Notes,
}

/// What was odd about the way to an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Notes {
    /// Caches that were of no use, with the reason.
    pub unusable: Vec<(PathBuf, String)>,
    /// Caches that a newer version of the program made, with which one: they were left alone.
    pub newer: Vec<(PathBuf, String)>,
    /// Folders that could not be looked into, with the reason.
    pub unreadable: Vec<(PathBuf, String)>,
    /// Transcripts of which more records are remembered than there are, with both counts.
    pub shortened: Vec<(PathBuf, u64, u64)>,
}

impl Notes {
    fn add(&mut self, caught: Caught) {
        self.shortened.extend(caught.shortened);
        self.unreadable.extend(caught.unreadable);
    }
}

impl Store {
    /// The files of its sessions.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// The index, if there is to be one.
    pub fn index(&self) -> Option<&Arc<Index>> {
        self.index.as_ref()
    }

    /// Asks the index, up to date; if it cannot answer, the files.
    pub(crate) fn ask<T>(
        &self,
        depth: Depth,
        notes: &mut Notes,
        progress: &mut dyn FnMut(&Path, u64),
        mut by_index: impl FnMut(&Index, &mut Caught) -> Asked<T>,
        by_files: impl FnOnce(&mut dyn FnMut(&Path, u64), &mut Notes) -> Result<T>,
    ) -> Result<T> {
        let Some(index) = self.index() else { return by_files(progress, notes) };
        let found = std::cell::Cell::new(None);
        let mut attempt = |progress: &mut dyn FnMut(&Path, u64), notes: &mut Notes| -> Asked<T> {
            for _ in 0..ATTEMPTS {
                found.set(index.identity()?);
                let before = index.birth()?;
                // If someone deleted it meanwhile, another one was asked than was brought up to date.
                let is_same = || index.birth().is_ok_and(|birth| birth == before);
                let mut caught = match index.catch_up(&self.directory, depth, progress) {
                    Err(Trouble::Busy) if !is_same() => continue,
                    other => other?,
                };
                let answer = by_index(index, &mut caught);
                notes.add(caught);
                if answer.is_err() || is_same() {
                    return answer;
                }
            }
            Err(Trouble::Busy)
        };
        match attempt(progress, notes) {
            Ok(answer) => return Ok(answer),
            Err(Trouble::Unusable(why)) => {
                notes.unusable.push((PathBuf::from(crate::layout::INDEX), why));
                if index.replace(found.get()).is_ok()
                    && let Ok(answer) = attempt(progress, notes)
                {
                    return Ok(answer);
                }
            }
            Err(trouble @ Trouble::Newer { .. }) => {
                notes.newer.push((PathBuf::from(crate::layout::INDEX), trouble.to_string()));
            }
            Err(Trouble::Store(error)) => return Err(error),
            Err(Trouble::Absent | Trouble::Busy | Trouble::Refused(_)) => {}
        }
        by_files(progress, notes)
    }

    /// A part of the list.
    pub fn page(&self, ask: &ListQuery, progress: &mut dyn FnMut(&Path, u64)) -> Result<(Answer<Page>, Holders)> {
        let holders = self.directory.medium().lock_holders().unwrap_or_default();
        let mut notes = Notes::default();
        let value = self.ask(
            Depth::Changed,
            &mut notes,
            progress,
            |index, caught| {
                let mut page = index.page(ask, &holders)?;
                for _ in 1..ATTEMPTS {
                    let stale: Vec<_> = page.iter().filter(|indexed| !index.is_current(indexed)).collect();
                    if stale.is_empty() {
                        break;
                    }
                    index.look_again(stale.into_iter(), caught)?;
                    page = index.page(ask, &holders)?;
                }
                Ok(listing::close(page.into_iter().map(|indexed| indexed.entry).collect(), ask))
            },
            |progress, notes| {
                let entries = self.by_files(ask.place, progress, notes)?;
                let is_live = |entry: &Entry| {
                    let stat =
                        self.directory.path(entry).ok().and_then(|path| self.directory.medium().stat(&path).ok());
                    stat.is_some_and(|stat| holders.contains_key(&stat.identity))
                };
                Ok(listing::cut(entries, ask, is_live))
            },
        )?;
        Ok((Answer { value, notes }, holders))
    }

    fn by_files(&self, place: Place, progress: &mut dyn FnMut(&Path, u64), notes: &mut Notes) -> Result<Vec<Entry>> {
        match place {
            Place::Trash => self.directory.deleted(),
            Place::Agents => {
                let listing = self.directory.list_with(progress)?;
                notes.newer.extend(listing.newer);
                notes.unreadable.extend(listing.unreadable);
                notes.shortened.extend(listing.shortened);
                Ok(listing.entries)
            }
        }
    }

    /// All sessions of a place, most recently used first, each compared with its file.
    pub fn all(&self, place: Place, progress: &mut dyn FnMut(&Path, u64)) -> Result<Answer<Vec<Entry>>> {
        let mut notes = Notes::default();
        let value = self.ask(
            Depth::Everything,
            &mut notes,
            progress,
            |index, _| index.all(place),
            |progress, notes| self.by_files(place, progress, notes),
        )?;
        Ok(Answer { value, notes })
    }

    /// The session that a name means: id, key, id prefix, label or title prefix.
    pub fn resolve(&self, place: Place, name: &str, progress: &mut dyn FnMut(&Path, u64)) -> Result<Answer<Entry>> {
        let mut notes = Notes::default();
        let entries = self.ask(
            Depth::Changed,
            &mut notes,
            progress,
            |index, caught| {
                let mut found = index::candidates(index, place, name)?;
                let stale: Vec<_> = found.iter().filter(|indexed| !index.is_current(indexed)).collect();
                if !stale.is_empty() {
                    index.look_again(stale.into_iter(), caught)?;
                    found = index::candidates(index, place, name)?;
                }
                Ok(found.into_iter().map(|indexed| indexed.entry).collect())
            },
            |progress, notes| self.by_files(place, progress, notes),
        )?;
        let listing = Listing { entries, ..Listing::default() };
        let value = self.directory.resolve(&listing, name)?;
        let key = name.parse::<Key>().ok().map(|key| key.to_string());
        let same = listing.entries.iter().filter(|entry| place == Place::Trash && entry.row.key == value.row.key);
        let same: Vec<&Entry> = same.filter(|entry| entry.row.key == key).collect();
        if same.len() > 1 {
            // A key has one current session, but nobody is current in the trash.
            let candidates = same.iter().map(|entry| describe(entry)).collect();
            return Err(Error::Ambiguous { name: name.to_owned(), candidates });
        }
        Ok(Answer { value, notes })
    }

    /// The session of a key that was used last and can be used now.
    pub fn last_used(&self, key: &Key, progress: &mut dyn FnMut(&Path, u64)) -> Result<Answer<Option<Entry>>> {
        let name = key.to_string();
        let mut notes = Notes::default();
        let value = self.ask(
            Depth::Changed,
            &mut notes,
            progress,
            |index, caught| {
                let mut found = index.of_key(&name)?;
                let stale: Vec<_> = found.iter().filter(|indexed| !index.is_current(indexed)).collect();
                if !stale.is_empty() {
                    index.look_again(stale.into_iter(), caught)?;
                    found = index.of_key(&name)?;
                }
                Ok(found.into_iter().map(|indexed| indexed.entry).next())
            },
            |progress, notes| {
                let entries = self.by_files(Place::Agents, progress, notes)?;
                let is_it = |entry: &Entry| entry.row.key.as_ref() == Some(&name) && entry.row.state == State::Ok;
                Ok(entries.into_iter().find(is_it))
            },
        )?;
        Ok(Answer { value, notes })
    }

    /// The current session of a key, and the unreadable sessions, of which one may be it.
    fn about(&self, key: &Key) -> Result<Listing> {
        let name = key.to_string();
        let entries = self.ask(
            Depth::Changed,
            &mut Notes::default(),
            &mut |_, _| {},
            |index, caught| {
                let mut found = index.current_of_key(&name)?;
                for _ in 1..ATTEMPTS {
                    let stale: Vec<_> = found.iter().filter(|indexed| !index.is_current(indexed)).collect();
                    if stale.is_empty() {
                        break;
                    }
                    index.look_again(stale.into_iter(), caught)?;
                    found = index.current_of_key(&name)?;
                }
                let current = found.into_iter().map(|indexed| indexed.entry);
                Ok(current.chain(index.unreadable()?).collect())
            },
            |progress, notes| self.by_files(Place::Agents, progress, notes),
        )?;
        Ok(Listing { entries, ..Listing::default() })
    }

    /// Writes the snapshots that are out of date; without an index there is nothing that knows which.
    pub fn refresh(&self) -> Result<Notes> {
        let mut notes = Notes::default();
        let Some(index) = self.index() else { return Ok(notes) };
        let snapshots = match index.snapshots(crate::snapshot::ROWS) {
            Ok(snapshots) => snapshots,
            Err(Trouble::Store(error)) => return Err(error),
            Err(_) => return Ok(notes),
        };
        for (dir, rows) in snapshots {
            match self.directory.write_snapshot(&dir, &rows)? {
                Written::Whole => {}
                Written::SetAside(why) => notes.unusable.push((dir.snapshot(), why)),
                Written::Left(why) => notes.newer.push((dir.snapshot(), why)),
            }
            match index.snapshot_written(&dir) {
                Err(Trouble::Store(error)) => return Err(error),
                // It is written once more next time.
                _ => continue,
            }
        }
        Ok(notes)
    }
}
