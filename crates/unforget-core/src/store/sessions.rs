//! What a program asks a store for most: a session by its key, the list, and what was said where.
//!
//! These are the short forms. [`Store::page`] and [`Store::search_with`] also say what was odd on the way to an answer,
//! report their progress, and let the caller choose by how many threads transcripts are read.

use super::{Store, Way};
use crate::directory::{self, Entry, OnMissing};
use crate::error::Result;
use crate::history::Limits;
use crate::key::Key;
use crate::layout::Place;
use crate::listing::{ListQuery, Page};
use crate::search::{self, Hit, Query, SearchQuery, Snippet};
use crate::session::Session;
use crate::view::Restored;

impl Store {
    /// Opens the current session of a key for writing.
    ///
    /// One writer at a time has a session; another gets [`Error::Busy`](crate::Error::Busy) at once.
    pub fn load(&self, key: &Key, on_missing: OnMissing) -> Result<Session> {
        self.directory.load_from(key, on_missing, &|| self.about(key))
    }

    /// Finds the current session of a key, which can be read while another program writes it.
    pub fn current(&self, key: &Key) -> Result<Option<Entry>> {
        Ok(directory::current(&self.about(key)?, key).cloned())
    }

    /// Creates a session, which is its key's current one from now on.
    pub fn create(&self, key: &Key, label: Option<&str>) -> Result<Session> {
        self.directory.create(key, label)
    }

    /// Finds the session that a name means: an id, a key, the beginning of an id, of a label or of a title.
    pub fn find(&self, name: &str) -> Result<Entry> {
        self.resolve(Place::Agents, name, &mut |_, _| {}).map(|answer| answer.value)
    }

    /// Opens a session that was found or listed for writing.
    pub fn open_session(&self, info: &Entry) -> Result<Session> {
        self.directory.open(info)
    }

    /// Reads a conversation as it would be sent now, also while another program writes it.
    pub fn history(&self, info: &Entry, limits: &Limits) -> Result<Restored> {
        self.directory.history(info, limits)
    }

    /// Lists sessions, a page at a time.
    pub fn list(&self, query: &ListQuery) -> Result<Page> {
        self.page(query, &mut |_, _| {}).map(|(answer, _)| answer.value)
    }

    /// Finds what was said, in any session: the best hits first.
    ///
    /// Transcripts whose words the index lacks are read. That is spared the next search by
    /// [`take_in_words`](crate::index::Index::take_in_words).
    pub fn search(&self, query: &SearchQuery) -> Result<search::Answer> {
        let scan = |places: &[search::Place]| search::scan(&self.directory, places, query);
        self.search_with(query, Way::Index, &scan, &mut |_, _| {}).map(|answer| answer.value)
    }

    /// Reads the words around a hit, with secrets masked; none if the record is no longer there.
    pub fn snippet(&self, hit: &Hit, query: &Query) -> Result<Option<Snippet>> {
        search::snippet(&self.directory, hit, query, search::snippet::COLUMNS)
    }
}
