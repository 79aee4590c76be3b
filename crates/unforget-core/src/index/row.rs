//! Rows of the list in and out of the database.
//!
//! A row is kept whole, as JSON with a checksum, beside the columns that it is found by: SQLite does not notice a changed
//! byte in a text, and a list must not show one.

use rusqlite::{Connection, OptionalExtension as _, Row as Columns, params};

use super::look::Folded;
use super::{Asked, Place, Trouble};
use crate::key::Key;
use crate::layout::AgentDir;
use crate::store::Entry;
use crate::summary::{Row, State};

/// The columns that [`entry`] needs, in its order.
pub(super) const COLUMNS: &str = "row, crc, dir, place, number, device, inode";

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
    let text: String = columns.get(0)?;
    let crc: i64 = columns.get(1)?;
    if i64::from(crc32fast::hash(text.as_bytes())) != crc {
        return Err(Trouble::Unusable("a row is not what was written".to_owned()));
    }
    let row: Row = serde_json::from_str(&text).map_err(|error| Trouble::Unusable(error.to_string()))?;
    let dir: String = columns.get(2)?;
    let (device, inode): (i64, i64) = (columns.get(5)?, columns.get(6)?);
    Ok(Indexed {
        entry: Entry { dir: AgentDir::found(&dir), row },
        place: Place::of(columns.get(3)?),
        number: columns.get(4)?,
        identity: (device.cast_unsigned(), inode.cast_unsigned()),
    })
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
            Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?, row.get::<_, i64>(2)?, row.get::<_, String>(3)?))
        })
        .optional()?;
    let Some((scanned, tail, damage, state)) = found else { return Ok(None) };
    // A state that does not read any more, or is not what was written, only costs reading the file again.
    let Some(state) = checked(&state).and_then(|state| serde_json::from_str(state).ok()) else { return Ok(None) };
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
    let text = serde_json::to_string(row).map_err(|error| Trouble::Refused(error.to_string()))?;
    let key: Option<Key> = row.key.as_deref().and_then(|key| key.parse().ok());
    let fold = |text: &Option<String>| text.as_ref().map(|text| text.to_lowercase());
    let sql = "INSERT INTO sessions (place, dir, id, key, agent, channel, peer, label, label_folded, title_folded,
            created_ms, updated_ms, turns, records, tokens, bytes, modified_ns, device, inode, damage, state, origin,
            row, crc)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24)
        ON CONFLICT (place, dir, id) DO UPDATE SET key = excluded.key, agent = excluded.agent,
            channel = excluded.channel, peer = excluded.peer, label = excluded.label,
            label_folded = excluded.label_folded, title_folded = excluded.title_folded,
            created_ms = excluded.created_ms, updated_ms = excluded.updated_ms, turns = excluded.turns,
            records = excluded.records, tokens = excluded.tokens, bytes = excluded.bytes,
            modified_ns = excluded.modified_ns, device = excluded.device, inode = excluded.inode,
            damage = excluded.damage, state = excluded.state, origin = excluded.origin, row = excluded.row,
            crc = excluded.crc
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
            row.state.name(),
            row.origin,
            text,
            i64::from(crc32fast::hash(text.as_bytes())),
        ],
        |row| row.get(0),
    )?;
    match folded {
        Some(folded) => {
            let state = serde_json::to_string(&folded.state).map_err(|error| Trouble::Refused(error.to_string()))?;
            let sql = "INSERT OR REPLACE INTO folds (session, scanned, tail, damage, fold) VALUES (?1, ?2, ?3, ?4, ?5)";
            let mut statement = connection.prepare_cached(sql)?;
            statement.execute((
                number,
                clamp(folded.scanned),
                &folded.tail,
                clamp(folded.damage),
                with_checksum(&state),
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
