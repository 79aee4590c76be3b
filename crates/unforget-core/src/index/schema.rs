//! The tables. A change of any of them, or of what a fold puts into them, takes a new [`VERSION`]: an index of an older one is built anew, and one of a newer one is left to the
//! program that made it.

use rusqlite::Connection;

use super::{Asked, Trouble, proof, spent, sums, text};

/// Says that a database is ours: `unfg`.
const APPLICATION: i64 = 0x756e_6667;
/// The version of the tables and of the folds behind them.
const VERSION: i64 = 7;

/// How much of the database a writer has in memory at the most.
const CACHE_KB: i64 = 32 << 10;

const TABLES: &str = "
-- A number that no other database has: device and inode are given to another file as soon as nobody has one open.
CREATE TABLE birth (number INTEGER NOT NULL);
INSERT INTO birth VALUES (random());

-- Directories of transcripts, as they were when their names were last looked at.
CREATE TABLE dirs (
    place INTEGER NOT NULL, dir TEXT NOT NULL,
    stamp INTEGER,              -- modification time in nanoseconds; none: every file is to be compared
    seen_ms INTEGER NOT NULL,   -- when that was
    changed INTEGER NOT NULL,   -- whether sessions.json is out of date
    PRIMARY KEY (place, dir)
) WITHOUT ROWID;

CREATE TABLE sessions (
    number INTEGER PRIMARY KEY,
    place INTEGER NOT NULL, dir TEXT NOT NULL, id TEXT NOT NULL,
    key TEXT, agent TEXT, channel TEXT, peer TEXT,
    label TEXT, label_folded TEXT, title_folded TEXT,
    created_ms INTEGER, updated_ms INTEGER,
    turns INTEGER NOT NULL, records INTEGER NOT NULL, tokens INTEGER NOT NULL,
    bytes INTEGER NOT NULL, modified_ns INTEGER NOT NULL, device INTEGER NOT NULL, inode INTEGER NOT NULL,
    damage INTEGER NOT NULL, state TEXT NOT NULL, origin TEXT, pinned INTEGER NOT NULL,
    row TEXT NOT NULL, crc INTEGER NOT NULL,    -- what of the row is in no column, and a checksum over all of it
    proof INTEGER NOT NULL,                     -- what it adds to `proofs`
    texted INTEGER NOT NULL DEFAULT 0,          -- how far its words are in `words`
    hearing INTEGER NOT NULL DEFAULT (random()), -- another one whenever they are forgotten
    UNIQUE (place, dir, id)
);
CREATE INDEX by_updated ON sessions (place, updated_ms, id, dir);
CREATE INDEX by_created ON sessions (place, created_ms, id);
CREATE INDEX by_agent ON sessions (place, agent, updated_ms, id);
CREATE INDEX by_channel ON sessions (place, channel, updated_ms, id);
CREATE INDEX by_peer ON sessions (place, peer, updated_ms, id);
CREATE INDEX by_state ON sessions (place, state, updated_ms, id) WHERE state NOT IN ('ok', 'deleted');
CREATE INDEX by_damage ON sessions (place, updated_ms, id) WHERE damage > 0;
CREATE INDEX by_pinned ON sessions (place, updated_ms, id) WHERE pinned = 1;
CREATE INDEX by_dir ON sessions (place, dir, updated_ms, id);
CREATE INDEX by_file ON sessions (inode, device);
-- All that is compared with a directory's names.
CREATE INDEX by_name ON sessions (place, dir, id, inode, state);
CREATE INDEX by_key ON sessions (key, updated_ms);
CREATE INDEX by_key_created ON sessions (key, created_ms, id);
CREATE INDEX by_id ON sessions (id);
CREATE INDEX by_label ON sessions (label_folded) WHERE label_folded IS NOT NULL;
CREATE INDEX by_title ON sessions (title_folded) WHERE title_folded IS NOT NULL;
CREATE INDEX by_origin ON sessions (origin) WHERE origin IS NOT NULL;
CREATE INDEX unsure ON sessions (dir) WHERE state = 'unreadable';
CREATE INDEX unread ON sessions (dir) WHERE state = 'unread';
CREATE INDEX untexted ON sessions (updated_ms) WHERE texted < bytes;

-- How a session was folded so far, to go on from there.
CREATE TABLE folds (
    session INTEGER PRIMARY KEY REFERENCES sessions (number) ON DELETE CASCADE,
    scanned INTEGER NOT NULL,   -- up to which byte
    rest INTEGER NOT NULL,      -- how many bytes are behind it, in a line without its end
    tail BLOB NOT NULL,         -- the bytes before it
    damage INTEGER NOT NULL,
    fold TEXT                   -- none of a short transcript, which is read again
);
CREATE INDEX unfinished ON folds (session) WHERE rest > 0;

-- Marks of writers.
CREATE TABLE dirty (dir TEXT NOT NULL, id TEXT NOT NULL, token TEXT NOT NULL, PRIMARY KEY (dir, id)) WITHOUT ROWID;
";

/// Makes a new database ours, or sees that it is.
pub(super) fn prepare(connection: &Connection) -> Asked<()> {
    if is_new(connection)? {
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.execute_batch("BEGIN IMMEDIATE")?;
        // Another process may have been faster.
        let made = match is_new(connection) {
            Ok(true) => connection
                .execute_batch(&[TABLES, proof::TABLES, spent::TABLES, sums::TABLES, text::TABLES].concat())
                .and_then(|()| connection.pragma_update(None, "application_id", APPLICATION))
                .and_then(|()| connection.pragma_update(None, "user_version", VERSION)),
            Ok(false) => Ok(()),
            Err(error) => Err(error),
        };
        connection.execute_batch(if made.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
        made?;
    }
    check(connection)?;
    connection.pragma_update(None, "foreign_keys", "on")?;
    // Triggers may fail in the middle of a statement, so SQLite notes what it changes for each of them: not in a file.
    connection.pragma_update(None, "temp_store", "memory")?;
    connection.pragma_update(None, "cache_size", -CACHE_KB)?;
    Ok(())
}

fn is_new(connection: &Connection) -> rusqlite::Result<bool> {
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", (), |row| row.get(0))?;
    Ok(version == 0 && tables == 0)
}

/// Sees that a database is one that this program understands.
pub(super) fn check(connection: &Connection) -> Asked<()> {
    connection.set_prepared_statement_cache_capacity(64);
    let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    match (number("application_id")?, number("user_version")?) {
        (APPLICATION, VERSION) => Ok(()),
        (APPLICATION, version) if version > VERSION => Err(Trouble::Newer { version, known: VERSION }),
        (APPLICATION, version) => {
            Err(Trouble::Unusable(format!("it has version {version}, and this program knows {VERSION}")))
        }
        _ if is_new(connection)? => Err(Trouble::Absent),
        _ => Err(Trouble::Unusable("it is another program's database".to_owned())),
    }
}

/// The number that a database got when it was made.
pub(super) fn birth(connection: &Connection) -> Asked<i64> {
    Ok(connection.prepare_cached("SELECT number FROM birth")?.query_row((), |row| row.get(0))?)
}
