//! Rows of the list in and out of the database.
//!
//! What a row is found by is in columns, the rest of it in one text, and nothing is there twice. A checksum is over the whole:
//! SQLite does not notice a changed byte, and a list must not show one. Length and time of the file are not under it,
//! because they prove themselves whenever the file is looked at.
//!
//! How a short transcript was folded is not kept: reading it again costs less than having it lie in the index for ever.

use std::io;

use rusqlite::{Connection, OptionalExtension as _, Row as Columns, params};

use super::look::Folded;
use super::{Asked, Place, Trouble, proof};
use crate::directory::Entry;
use crate::key::Key;
use crate::layout::AgentDir;
use crate::summary::{Row, State};

/// The columns that [`entry`] needs, in its order.
pub(super) const COLUMNS: &str = "row, crc, dir, place, number, device, inode, id, key, label, created_ms, updated_ms, \
    bytes, modified_ns, sessions.damage, origin, pinned";
/// Transcripts up to this length are read again from the beginning when they have grown, instead of being remembered.
pub(super) const SHORT: u64 = 64 << 10;

/// What of a row is in no column as it is: title, time of the last record, turns, records, tokens, model, head, expiry and state.
type Rest = (Option<String>, Option<i64>, u64, u64, u64, Option<String>, Option<u64>, Option<String>, State);

/// The state, in the database, of a session in the trash that could not be read.
pub(super) const UNREAD: &str = "unread";

/// A session as the index knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Indexed {
    /// The session.
    pub entry: Entry,
    /// Where it is.
    pub place: Place,
    /// Its number in the index.
    pub(crate) number: i64,
    /// Device and inode of its file.
    pub identity: (u64, u64),
}

pub(super) fn entry(columns: &Columns<'_>) -> Asked<Indexed> {
    let rest = columns.get_ref(0)?.as_str().map_err(|error| Trouble::Unusable(error.to_string()))?;
    let rest: Rest = serde_json::from_str(rest).map_err(|error| Trouble::Unusable(error.to_string()))?;
    let (title, written_ms, turns, records, tokens, model, head, expires, state) = rest;
    let row = Row {
        id: columns.get(7)?,
        key: columns.get(8)?,
        label: columns.get(9)?,
        title,
        created_ms: columns.get(10)?,
        updated_ms: columns.get(11)?,
        written_ms,
        turns,
        records,
        tokens,
        model,
        head,
        expires,
        pinned: columns.get(16)?,
        bytes: columns.get::<_, i64>(12)?.cast_unsigned(),
        modified_ns: columns.get(13)?,
        damage: columns.get::<_, i64>(14)?.cast_unsigned(),
        origin: columns.get(15)?,
        state,
    };
    let (dir, place): (String, i64) = (columns.get(2)?, columns.get(3)?);
    if checksum(&row, &dir, place)? != columns.get::<_, i64>(1)? {
        return Err(Trouble::Unusable("a row is not what was written".to_owned()));
    }
    let (device, inode): (i64, i64) = (columns.get(5)?, columns.get(6)?);
    Ok(Indexed {
        entry: Entry { dir: AgentDir::found(&dir), row },
        place: Place::of(place),
        number: columns.get(4)?,
        identity: (device.cast_unsigned(), inode.cast_unsigned()),
    })
}

/// The checksum of what a row says and of where it is, whatever its file is like.
fn checksum(row: &Row, dir: &str, place: i64) -> Asked<i64> {
    let mut crc = Checksum(crc32fast::Hasher::new());
    let row = (
        (
            &row.id,
            &row.key,
            &row.label,
            &row.title,
            row.created_ms,
            row.updated_ms,
            row.written_ms,
            row.turns,
            row.records,
        ),
        (row.tokens, &row.model, row.head, &row.expires, row.pinned, row.damage, &row.origin, &row.state, dir, place),
    );
    serde_json::to_writer(&mut crc, &row).map_err(|error| Trouble::Refused(error.to_string()))?;
    Ok(i64::from(crc.0.finalize()))
}

/// Takes the checksum of what is written to it.
struct Checksum(crc32fast::Hasher);

impl io::Write for Checksum {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What the index knows of one session.
pub(super) fn find(connection: &Connection, place: Place, dir: &AgentDir, id: &str) -> Asked<Option<Indexed>> {
    let sql = format!("SELECT {COLUMNS} FROM sessions WHERE place = ?1 AND dir = ?2 AND id = ?3");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query((place.number(), dir.as_str(), id))?;
    rows.next()?.map(entry).transpose()
}

/// How far a session was folded.
pub(super) fn folded(connection: &Connection, number: i64) -> Asked<Option<Folded>> {
    let sql = "SELECT scanned, tail, damage, fold FROM folds WHERE session = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement
        .query_row([number], |row| {
            Ok((
                row.get::<_, i64>(0)?,
                row.get::<_, Vec<u8>>(1)?,
                row.get::<_, i64>(2)?,
                row.get::<_, Option<String>>(3)?,
            ))
        })
        .optional()?;
    let Some((scanned, tail, damage, state)) = found else { return Ok(None) };
    let state = match state {
        // One that does not read any more, or is not what was written, only costs reading the file again.
        Some(state) => match checked(&state).and_then(|state| serde_json::from_str(state).ok()) {
            Some(state) => Some(state),
            None => return Ok(None),
        },
        None => None,
    };
    Ok(Some(Folded { scanned: scanned.cast_unsigned(), tail, damage: damage.cast_unsigned(), state }))
}

/// Writes what is known of a session now, and says under which number.
pub(super) fn put(
    connection: &Connection,
    place: Place,
    entry: &Entry,
    identity: (u64, u64),
    folded: Option<&Folded>,
) -> Asked<i64> {
    let row = &entry.row;
    let (counts, rest) = ((row.turns, row.records, row.tokens), (&row.model, row.head, &row.expires, &row.state));
    let text = serde_json::to_string(&(
        &row.title,
        row.written_ms,
        counts.0,
        counts.1,
        counts.2,
        rest.0,
        rest.1,
        rest.2,
        rest.3,
    ))
    .map_err(|error| Trouble::Refused(error.to_string()))?;
    let key: Option<Key> = row.key.as_deref().and_then(|key| key.parse().ok());
    // A file in the trash that could not be read is deleted all the same, and looked at again until it can be.
    let state = if place == Place::Trash && folded.is_none() { UNREAD } else { row.state.name() };
    let fold = |text: &Option<String>| text.as_ref().map(|text| text.to_lowercase());
    let sql = "INSERT INTO sessions (place, dir, id, key, agent, channel, peer, label, label_folded, title_folded,
            created_ms, updated_ms, turns, records, tokens, bytes, modified_ns, device, inode, damage, state, origin,
            row, crc, proof, pinned)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26)
        ON CONFLICT (place, dir, id) DO UPDATE SET key = excluded.key, agent = excluded.agent,
            channel = excluded.channel, peer = excluded.peer, label = excluded.label,
            label_folded = excluded.label_folded, title_folded = excluded.title_folded,
            created_ms = excluded.created_ms, updated_ms = excluded.updated_ms, turns = excluded.turns,
            records = excluded.records, tokens = excluded.tokens, bytes = excluded.bytes,
            modified_ns = excluded.modified_ns, device = excluded.device, inode = excluded.inode,
            damage = excluded.damage, state = excluded.state, origin = excluded.origin, row = excluded.row,
            crc = excluded.crc, proof = excluded.proof, pinned = excluded.pinned
        RETURNING number";
    let number = connection.prepare_cached(sql)?.query_row(
        params![
            place.number(),
            entry.dir.as_str(),
            row.id,
            row.key,
            key.as_ref().map(Key::agent),
            key.as_ref().map(Key::channel),
            key.as_ref().map(Key::peer),
            row.label,
            fold(&row.label),
            fold(&row.title),
            row.created_ms,
            row.updated_ms,
            clamp(row.turns),
            clamp(row.records),
            clamp(row.tokens),
            clamp(row.bytes),
            row.modified_ns,
            identity.0.cast_signed(),
            identity.1.cast_signed(),
            clamp(row.damage),
            state,
            row.origin,
            text,
            checksum(row, entry.dir.as_str(), place.number())?,
            proof::of(row.updated_ms, &row.id, entry.dir.as_str()),
            row.pinned,
        ],
        |row| row.get(0),
    )?;
    match folded {
        Some(folded) => {
            let state = folded.state.as_ref().filter(|_| folded.scanned > SHORT).map(serde_json::to_string).transpose();
            let state = state.map_err(|error| Trouble::Refused(error.to_string()))?;
            let sql = "INSERT OR REPLACE INTO folds (session, scanned, rest, tail, damage, fold) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
            let mut statement = connection.prepare_cached(sql)?;
            statement.execute((
                number,
                clamp(folded.scanned),
                clamp(row.bytes.saturating_sub(folded.scanned)),
                &folded.tail,
                clamp(folded.damage),
                state.as_deref().map(with_checksum),
            ))?;
        }
        None => {
            connection.prepare_cached("DELETE FROM folds WHERE session = ?1")?.execute([number])?;
        }
    }
    let sql = "UPDATE dirs SET changed = 1 WHERE place = ?1 AND dir = ?2 AND changed = 0";
    connection.prepare_cached(sql)?.execute((place.number(), entry.dir.as_str()))?;
    Ok(number)
}

/// A text behind its checksum.
fn with_checksum(text: &str) -> String {
    format!("{:08x}{text}", crc32fast::hash(text.as_bytes()))
}

/// The text behind a checksum, if it still is the one that was written.
fn checked(text: &str) -> Option<&str> {
    let (crc, text) = text.split_at_checked(8)?;
    (crc == format!("{:08x}", crc32fast::hash(text.as_bytes()))).then_some(text)
}

/// Whether a state is one that lasts as long as the file does not change.
pub(super) fn is_sure(state: &State) -> bool {
    !matches!(state, State::Unreadable(_))
}

/// SQLite's numbers have a sign; a damaged record may claim anything.
pub(super) fn clamp(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
