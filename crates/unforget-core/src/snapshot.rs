//! `sessions.json`: a readable list of an agent's sessions, for people and as a cache. Never truth.
//!
//! A row counts only while its file has the length and modification time that the row says. A snapshot that is
//! missing, cut, damaged or from a newer version is as good as none: everything in it can be read from the
//! transcripts, except that a session once existed whose file is now gone. One from a newer version is never replaced: the program that wrote it needs it.

use std::fmt;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{IoContext as _, Result};
use crate::medium::{Medium, read_small, replace_durable};
use crate::summary::Row;

const VERSION: u64 = 1;
/// How many sessions a snapshot has at most, the most recently used: writing it must not cost more as sessions grow.
pub const ROWS: usize = 1000;
/// A snapshot larger than this is not worth reading.
const MAX_SNAPSHOT: u64 = 1 << 30;

#[derive(Debug, Serialize, Deserialize)]
struct Wire {
    version: u64,
    sessions: Vec<Row>,
}

/// What was found in place of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// Rows that may be current.
    Rows(Vec<Row>),
    /// No file.
    Nothing,
    /// A file that is no snapshot, and why.
    Unusable(String),
    /// A snapshot that a newer version of the program wrote, and which.
    Newer(String),
}

/// What became of a snapshot that was to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// It was written.
    Whole,
    /// It was written; what was there was of no use, for this reason, and is kept beside it.
    SetAside(String),
    /// It was not, because a newer version of the program wrote the one that is there.
    Left(String),
}

/// Says of a cache that a newer version of the program made it.
pub(crate) fn newer(version: impl fmt::Display, known: impl fmt::Display) -> String {
    format!("a newer version of unforget made it (version {version}, and this program knows {known})")
}

/// Reads a snapshot, whatever is there.
pub fn read(medium: &dyn Medium, path: &Path) -> Found {
    let bytes = match read_small(medium, path, MAX_SNAPSHOT) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Found::Nothing,
        Err(error) => return Found::Unusable(error.to_string()),
    };
    if bytes.is_empty() {
        return Found::Unusable("it is empty".to_owned());
    }
    #[derive(Deserialize)]
    struct Version {
        version: u64,
    }
    let newer = |version| Found::Newer(self::newer(version, VERSION));
    match serde_json::from_slice::<Wire>(&bytes) {
        Ok(wire) if wire.version > VERSION => newer(wire.version),
        Ok(wire) => Found::Rows(wire.sessions),
        Err(error) => match serde_json::from_slice::<Version>(&bytes) {
            Ok(Version { version }) if version > VERSION => newer(version),
            _ => Found::Unusable(error.to_string()),
        },
    }
}

/// Replaces a snapshot, unless a newer version of the program wrote it; one that was unusable is kept beside it.
pub fn write(medium: &dyn Medium, path: &Path, rows: &[Row], now_ms: i64) -> Result<Written> {
    let written = match read(medium, path) {
        Found::Newer(why) => return Ok(Written::Left(why)),
        Found::Unusable(why) => Written::SetAside(why),
        Found::Rows(_) | Found::Nothing => Written::Whole,
    };
    if let Written::SetAside(_) = written {
        let bad = path.with_extension(format!("json.bad-{now_ms}"));
        match medium.rename(path, &bad) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).context("set aside", path),
        }
    }
    // One row a line, so that `grep` and `diff` work on it.
    let mut text = format!("{{\"version\":{VERSION},\"sessions\":[");
    for (index, row) in rows.iter().enumerate() {
        text.push_str(if index == 0 { "\n" } else { ",\n" });
        let row = serde_json::to_string(row).map_err(io::Error::other).context("encode", path)?;
        text.push_str(&row);
    }
    text.push_str("\n]}\n");
    replace_durable(medium, path, text.as_bytes()).context("write", path)?;
    Ok(written)
}
