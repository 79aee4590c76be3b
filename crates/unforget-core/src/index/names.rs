//! What differs between a directory and what the index knows of it.
//!
//! Two ways. By files: every transcript is asked for its length, time and identity; nothing escapes that. By names: the directory's
//! own entries, names with file numbers, beside an index that has nothing else, in one pass over both; files are asked only where the two
//! disagree. The second is for the common case, a session that came or went among very many: what a directory does not tell (a file
//! that was written in place) has its mark, or is found when it is shown.
//!
//! Must not know what is in a transcript. The failure to guard against is a session that nobody looks at: whatever is not surely
//! the same is looked at.

use std::cmp::Ordering;
use std::collections::HashMap;

use rusqlite::Connection;

use super::{Asked, Index, Place, row};
use crate::directory::Directory;
use crate::layout::AgentDir;
use crate::medium::{FileKind, Stat};
use crate::stamp::SessionId;

impl Index {
    /// The sessions of a directory that came, went or changed, each file compared.
    pub(super) fn differing_files(
        &self,
        found: Vec<(SessionId, Stat)>,
        place: Place,
        dir: &AgentDir,
    ) -> Asked<Vec<SessionId>> {
        let mut known = self.read(|connection| known(connection, place, dir))?;
        let mut differing = Vec::new();
        for (id, stat) in found {
            match known.remove(id.as_str()) {
                Some(row) if row.is_sure && row.is_of(&stat) => {}
                _ => differing.push(id),
            }
        }
        let gone = known.into_iter().filter(|(_, row)| !row.is_missing);
        differing.extend(gone.filter_map(|(id, _)| SessionId::parse(&id)));
        Ok(differing)
    }

    /// The sessions of a directory that came or went, or whose name stands for another file now.
    pub(super) fn differing_names(&self, store: &Directory, place: Place, dir: &AgentDir) -> Asked<Vec<SessionId>> {
        let found = store.numbers(&place.folder(dir))?;
        let compared = self.read(|connection| compare(connection, place, dir, &found))?;
        let mut differing = compared.sure;
        for id in compared.unsure {
            let stat = self.medium.stat(&place.transcript(dir, &id)).ok();
            let known = self.read(|connection| row::find(connection, place, dir, id.as_str()))?;
            let is_same = known.zip(stat).is_some_and(|(known, stat)| {
                let row = &known.entry.row;
                let proof = Proof {
                    bytes: row.bytes,
                    modified_ns: row.modified_ns,
                    ..Proof::of(known.identity, row.state.name())
                };
                proof.is_sure && proof.is_of(&stat)
            });
            if !is_same {
                differing.push(id);
            }
        }
        Ok(differing)
    }
}

/// What a comparison by names says.
#[derive(Debug, Default)]
struct Compared {
    /// Came or went.
    sure: Vec<SessionId>,
    /// There before and now, maybe as another file.
    unsure: Vec<SessionId>,
}

/// Goes through the names of a directory and those of the index at once; both are sorted.
fn compare(connection: &Connection, place: Place, dir: &AgentDir, found: &[(SessionId, u64)]) -> Asked<Compared> {
    let sql = "SELECT id, inode, state FROM sessions INDEXED BY by_name WHERE place = ?1 AND dir = ?2 ORDER BY id";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query((place.number(), dir.as_str()))?;
    let mut found = found.iter().peekable();
    let mut compared = Compared::default();
    while let Some(row) = rows.next()? {
        let text = |at| row.get_ref(at).and_then(|value| Ok(value.as_str()?));
        let (id, state) = (text(0)?, text(2)?);
        while let Some((new, _)) = found.next_if(|(new, _)| new.as_str() < id) {
            compared.sure.push(new.clone());
        }
        match found.peek().map(|(there, _)| there.as_str().cmp(id)) {
            Some(Ordering::Equal) => {
                let Some((there, number)) = found.next() else { continue };
                if *number != row.get::<_, i64>(1)?.cast_unsigned() || !is_sure(state) {
                    compared.unsure.push(there.clone());
                }
            }
            _ if state == MISSING => {}
            _ => compared.sure.extend(SessionId::parse(id)),
        }
    }
    compared.sure.extend(found.map(|(new, _)| new.clone()));
    Ok(compared)
}

const MISSING: &str = "missing";

/// Whether a state lasts as long as its file does not change.
fn is_sure(state: &str) -> bool {
    matches!(state, "ok" | "mismatch" | "deleted")
}

/// What a row says of its file.
struct Proof {
    bytes: u64,
    modified_ns: i64,
    identity: (u64, u64),
    is_sure: bool,
    is_missing: bool,
}

impl Proof {
    fn of(identity: (u64, u64), state: &str) -> Self {
        Self { bytes: 0, modified_ns: 0, identity, is_sure: is_sure(state), is_missing: state == MISSING }
    }

    fn is_of(&self, stat: &Stat) -> bool {
        stat.kind == FileKind::File
            && (stat.len, stat.modified_ns, stat.identity) == (self.bytes, self.modified_ns, self.identity)
    }
}

/// The rows of a directory, by id.
fn known(connection: &Connection, place: Place, dir: &AgentDir) -> Asked<HashMap<String, Proof>> {
    let sql = "SELECT id, bytes, modified_ns, device, inode, state FROM sessions WHERE place = ?1 AND dir = ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query((place.number(), dir.as_str()))?;
    let mut known = HashMap::new();
    while let Some(row) = rows.next()? {
        let (device, inode): (i64, i64) = (row.get(3)?, row.get(4)?);
        let state: String = row.get(5)?;
        let proof = Proof {
            bytes: row.get::<_, i64>(1)?.cast_unsigned(),
            modified_ns: row.get(2)?,
            ..Proof::of((device.cast_unsigned(), inode.cast_unsigned()), &state)
        };
        known.insert(row.get(0)?, proof);
    }
    Ok(known)
}
