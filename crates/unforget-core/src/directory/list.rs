//! Which sessions there are: names from the directory, rows from the snapshot where they are current, the rest by reading.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::directory::{Directory, Entry, Listing};
use crate::error::{Error, IoContext as _, Result};
use crate::key::Key;
use crate::layout::{self, AgentDir};
use crate::medium::{FileKind, Stat};
use crate::reader::LogReader;
use crate::session;
use crate::snapshot::{self, Found, Written};
use crate::stamp::SessionId;
use crate::summary::{self, Row, State};

impl Directory {
    /// A session by its full id, found without looking at any other; only its header is read.
    pub fn entry(&self, id: &SessionId) -> Result<Option<Entry>> {
        let mut misplaced = None;
        for dir in self.agents(Path::new(layout::AGENTS))? {
            let path = dir.transcript(id);
            match self.shared.medium.stat(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                other => other.context("look at", &path)?,
            };
            let header = session::header(&LogReader::open(self.shared.medium.as_ref(), &path)?)?.unwrap_or_default();
            let state = match header.id {
                Some(found) if found != id.as_str() => State::Mismatch,
                _ => State::Ok,
            };
            let row = Row { id: id.to_string(), key: header.key, origin: header.origin, state, ..Row::default() };
            let entry = Entry { row: placed(row, &dir), dir };
            if entry.row.state == State::Ok {
                return Ok(Some(entry));
            }
            misplaced = Some(entry);
        }
        Ok(misplaced)
    }

    /// All sessions that are not deleted.
    pub fn list(&self) -> Result<Listing> {
        self.list_with(|_, _| {})
    }

    /// All sessions; `progress` hears of each transcript that has to be read, and how many bytes it has.
    pub fn list_with(&self, mut progress: impl FnMut(&Path, u64)) -> Result<Listing> {
        let mut listing = Listing::default();
        let agents = Path::new(layout::AGENTS);
        for dir in self.agents(agents)? {
            self.list_agent(&dir, &mut listing, &mut progress)?;
        }
        for (name, kind) in self.shared.medium.list(agents).unwrap_or_default() {
            if kind == FileKind::Other {
                listing.unreadable.push((agents.join(name), "it is a link, which a store never follows".to_owned()));
            }
        }
        sort(&mut listing.entries);
        Ok(listing)
    }

    pub(crate) fn agents(&self, within: &Path) -> Result<Vec<AgentDir>> {
        let entries = match self.shared.medium.list(within) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            other => other.context("list", within)?,
        };
        let mut dirs: Vec<AgentDir> = entries
            .into_iter()
            .filter(|(_, kind)| *kind == FileKind::Directory)
            .map(|(name, _)| AgentDir::found(&name))
            .collect();
        dirs.sort();
        Ok(dirs)
    }

    fn list_agent(&self, dir: &AgentDir, listing: &mut Listing, progress: &mut impl FnMut(&Path, u64)) -> Result<()> {
        let mut known: HashMap<String, Row> = HashMap::new();
        match snapshot::read(self.shared.medium.as_ref(), &dir.snapshot()) {
            Found::Rows(rows) => known.extend(rows.into_iter().map(|row| (row.id.clone(), row))),
            Found::Nothing => {}
            Found::Unusable(why) => {
                listing.unusable.push((dir.snapshot(), why));
                listing.stale.insert(dir.clone());
            }
            Found::Newer(why) => listing.newer.push((dir.snapshot(), why)),
        }
        let transcripts = match self.transcripts(&dir.sessions()) {
            Ok(transcripts) => transcripts,
            // One folder that is none (a link, a file) hides nobody else's sessions; a disk that fails is an error.
            Err(error) if error.is_io(io::ErrorKind::NotADirectory) => {
                listing.unreadable.push((dir.sessions(), error.to_string()));
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        for (id, path, stat) in transcripts {
            let cached = known.remove(id.as_str());
            let row = match cached {
                Some(row) if row.bytes == stat.len && row.modified_ns == stat.modified_ns && row.is_lasting() => row,
                cached => {
                    progress(&path, stat.len);
                    listing.stale.insert(dir.clone());
                    let row = self.row(&path, &id);
                    let remembered = cached.as_ref().map_or(0, |known| known.records);
                    if remembered > row.records && row.state == State::Ok {
                        listing.shortened.push((path.clone(), remembered, row.records));
                    }
                    match (cached, &row.state) {
                        // What cannot be read now still is the session that it was.
                        (Some(known), State::Unreadable(_)) => {
                            Row { state: row.state, bytes: row.bytes, modified_ns: row.modified_ns, ..known }
                        }
                        // A header that was damaged since does not make the session forget whose it is.
                        (Some(known), State::Ok) if row.key.is_none() => {
                            Row { key: known.key, label: known.label, origin: known.origin, ..row }
                        }
                        _ => row,
                    }
                }
            };
            listing.entries.push(Entry { row: placed(row, dir), dir: dir.clone() });
        }
        for (id, row) in known {
            let Some(id) = SessionId::parse(&id) else { continue };
            if self.shared.medium.stat(&dir.trashed(&id)).is_ok() {
                listing.stale.insert(dir.clone());
                continue;
            }
            listing.entries.push(Entry { dir: dir.clone(), row: Row { state: State::Missing, ..row } });
        }
        Ok(())
    }

    pub(super) fn row(&self, path: &Path, id: &SessionId) -> Row {
        match LogReader::open(self.shared.medium.as_ref(), path)
            .and_then(|reader| summary::summarise(&reader, id.as_str()))
        {
            Ok((row, _)) => row,
            Err(error) => {
                let mut row = summary::unreadable(id.as_str(), &error);
                if let Ok(stat) = self.shared.medium.stat(path) {
                    (row.bytes, row.modified_ns) = (stat.len, stat.modified_ns);
                }
                row
            }
        }
    }

    pub(super) fn transcripts(&self, dir: &Path) -> Result<Vec<(SessionId, PathBuf, Stat)>> {
        let entries = match self.shared.medium.list_stats(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            other => other.context("list", dir)?,
        };
        Ok(entries
            .into_iter()
            .filter(|(_, stat)| stat.kind != FileKind::Directory)
            .filter_map(|(name, stat)| layout::transcript_id(&name).map(|id| (id, dir.join(name), stat)))
            .collect())
    }

    /// The transcripts in a directory that are plain files, by their ids; none if there is no such directory.
    pub(crate) fn files(&self, dir: &Path) -> Result<Vec<(SessionId, PathBuf, Stat)>> {
        let mut found = match self.transcripts(dir) {
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotADirectory => Vec::new(),
            other => other?,
        };
        found.retain(|(_, _, stat)| stat.kind == FileKind::File);
        found.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(found)
    }

    /// The sessions whose transcripts are in a directory, with what `stat` tells of each.
    pub(crate) fn names(&self, dir: &Path) -> Result<Vec<(SessionId, Stat)>> {
        Ok(self.transcripts(dir)?.into_iter().map(|(id, _, stat)| (id, stat)).collect())
    }

    /// The sessions whose transcripts are in a directory, with the number that the directory has for each, by id.
    pub(crate) fn numbers(&self, dir: &Path) -> Result<Vec<(SessionId, u64)>> {
        let entries = match self.shared.medium.list_numbers(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            other => other.context("list", dir)?,
        };
        let files = entries.into_iter().filter(|(_, kind, _)| *kind != FileKind::Directory);
        let mut found: Vec<(SessionId, u64)> =
            files.filter_map(|(name, _, number)| Some((layout::transcript_id(&name)?, number))).collect();
        found.sort_unstable();
        Ok(found)
    }

    /// Replaces an agent's snapshot; one that was of no use is kept beside it.
    pub(crate) fn write_snapshot(&self, dir: &AgentDir, rows: &[Row]) -> Result<Written> {
        snapshot::write(self.shared.medium.as_ref(), &dir.snapshot(), rows, self.shared.source.now_ms())
    }

    /// Brings the snapshots up to date that a listing found stale.
    pub fn refresh(&self, listing: &Listing) -> Result<()> {
        for dir in &listing.stale {
            let mut rows: Vec<Row> =
                listing.entries.iter().filter(|entry| entry.dir == *dir).map(|entry| entry.row.clone()).collect();
            rows.truncate(snapshot::ROWS);
            rows.sort_by(|a, b| a.id.cmp(&b.id));
            self.write_snapshot(dir, &rows)?;
        }
        Ok(())
    }
}

/// A transcript in another agent's folder is out of place, whatever its header says.
pub(crate) fn placed(row: Row, dir: &AgentDir) -> Row {
    let agent = row.key.as_deref().and_then(|key| key.parse::<Key>().ok()).map(|key| AgentDir::of(key.agent()));
    match (&row.state, agent) {
        (State::Ok, Some(agent)) if agent != *dir => Row { state: State::Mismatch, ..row },
        _ => row,
    }
}

pub(super) fn sort(entries: &mut [Entry]) {
    entries.sort_by(|a, b| b.row.updated_ms.cmp(&a.row.updated_ms).then_with(|| b.row.id.cmp(&a.row.id)));
}
