//! A remote in a database that speaks PostgreSQL's protocol.
//!
//! This module is the shelf: which statement answers which question. What the tables look like is in `tables`, what a URL
//! may say in `options`, how a server is trusted in `tls`, how connections are had and given up in `connections`, and what an answer
//! means that is none in `failure`.
//!
//! The database does the work that must not be left to a client's good luck. The primary key of a segment is the
//! compare-and-append: of two who add at a position, one inserts a row. Each life of a stream has a number of its own, so a
//! writer that slept through a deletion adds to a stream that is no more. Foreign keys hold the rest together: a segment cannot outlive
//! its stream nor refer to a large line that is gone, whoever deletes what at the same moment. Locks are always taken in one
//! order (stream, then large lines by name), so that writers and deletions wait for each other and do not lock each other up.
//!
//! Every question is one statement that needs nothing from an earlier one: no prepared statement, no setting, no lock outlives a
//! transaction. So a pooler that hands out another server connection for each transaction does no harm.

mod connections;
mod failure;
mod options;
mod tables;
mod tls;

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::OnceCell;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use url::form_urlencoded;

use crate::error::{Error, Result};
use crate::packed::Packed;
use crate::remote::Listing;
use crate::segment::{self, MAX_BODY};
use crate::shelf::{Placed, Put, Segment, Shelf};
use crate::stream::{Prefix, Stream};
use connections::{Connections, Parameter};
use options::Options;
use tables::Statements;

/// How many streams a page lists.
const STREAMS: usize = 1_000;
/// The most bytes of one value: the protocol's messages end at 1 GiB.
const MAX_VALUE: usize = 1_000_000_000;
/// How many names of large lines one statement of a deletion takes.
const NAMES: usize = 1_000;

/// How long a database is waited for, and how many connections to it there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// For a connection, with its handshake.
    pub connect: Duration,
    /// For a statement; more where many bytes go out.
    pub statement: Duration,
    /// Connections at the same time.
    pub connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { connect: Duration::from_secs(10), statement: Duration::from_secs(30), connections: 4 }
    }
}

/// Segments in a database.
pub struct Postgres {
    connections: Connections,
    statements: Statements,
    /// Whether the tables are there.
    prepared: OnceCell<()>,
}

impl Postgres {
    /// Reads a URL; nothing is asked of the database yet, so this succeeds also where it cannot be reached.
    ///
    /// Beside what the protocol's own URLs know, the query may have `schema=` (`unforget` without it),
    /// `sslmode=disable|prefer|require|verify-full` (`verify-full` without it, `prefer` on this machine) and `sslrootcert=` (a file, or
    /// `system`).
    pub fn open(url: &str, limits: Limits) -> Result<Self> {
        let options = Options::parse(url)?;
        let statements = Statements::new(&options.schema);
        Ok(Self { connections: Connections::new(options, limits)?, statements, prepared: OnceCell::new() })
    }

    /// A remote on this place.
    pub fn remote(self) -> Packed<Self> {
        Packed::new(self)
    }

    /// The connections, to a database that has the tables.
    async fn database(&self) -> Result<&Connections> {
        self.prepared.get_or_try_init(|| tables::prepare(&self.connections, &self.statements)).await?;
        Ok(&self.connections)
    }

    fn damaged(&self, reason: &str) -> Error {
        Error::Corrupt { what: self.connections.name().to_owned(), reason: reason.to_owned() }
    }

    /// A column's value, which the database may have in another type than was agreed.
    fn value<'r, T: tokio_postgres::types::FromSql<'r>>(&self, row: &'r Row, column: usize) -> Result<T> {
        row.try_get(column).map_err(|_| self.damaged("a table has another shape than it should"))
    }

    fn number(&self, row: &Row, column: usize) -> Result<u64> {
        u64::try_from(self.value::<i64>(row, column)?).map_err(|_| self.damaged("a number in a table is negative"))
    }

    /// Which lines a segment has and its head, from three columns that must say the same.
    fn position(&self, row: &Row, column: usize, stream: &Stream) -> Result<(u64, u64, Bytes)> {
        let (first, end) = (self.number(row, column)?, self.number(row, column + 1)?);
        let head = Bytes::from(self.value::<Vec<u8>>(row, column + 2)?);
        if segment::lines_of(&head) != Some((first, end)) {
            let reason = format!("the segment at line {first} is no segment, or another");
            return Err(Error::Corrupt { what: stream.to_string(), reason });
        }
        Ok((first, end, head))
    }
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Postgres({})", self.connections.name())
    }
}

impl Shelf for Postgres {
    fn name(&self) -> String {
        self.connections.name().to_owned()
    }

    async fn last(&self, stream: &Stream) -> Result<Option<Placed>> {
        let parts = stream.parts();
        let rows = self.database().await?.rows(&self.statements.last, &texts(&parts), 0).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let (first, end, head) = self.position(row, 1, stream)?;
        Ok(Some(Placed { mark: self.number(row, 0)?, first, end, head }))
    }

    async fn put(&self, stream: &Stream, behind: Option<&Placed>, segment: &Segment) -> Result<Put> {
        self.put_referring(stream, behind, segment, &[]).await
    }

    async fn put_referring(
        &self,
        stream: &Stream,
        behind: Option<&Placed>,
        segment: &Segment,
        names: &[String],
    ) -> Result<Put> {
        let (first, end) = (stored(segment.first)?, stored(segment.end)?);
        let (head, body) = (segment.head.as_ref(), segment.body.as_ref());
        check_size(body)?;
        // All who lock several lines do it in the same order.
        let mut names = names.to_vec();
        names.sort();
        names.dedup();
        let tenant = stream.tenant();
        let values: [Parameter<'_>; 6] = [
            (&first, Type::INT8),
            (&end, Type::INT8),
            (&head, Type::BYTEA),
            (&body, Type::BYTEA),
            (&tenant, Type::TEXT),
            (&names, Type::TEXT_ARRAY),
        ];
        let database = self.database().await?;
        let answer = match behind {
            Some(placed) => {
                let (life, before) = (stored(placed.mark)?, stored(placed.first)?);
                let known: [Parameter<'_>; 2] = [(&life, Type::INT8), (&before, Type::INT8)];
                database.rows(&self.statements.put, &[values.as_slice(), &known].concat(), body.len()).await
            }
            None => {
                let life = number_of_a_life()?;
                let [_, place, session, side] = stream.parts();
                let known: [Parameter<'_>; 4] =
                    [(&life, Type::INT8), (&place, Type::TEXT), (&session, Type::TEXT), (&side, Type::TEXT)];
                database.rows(&self.statements.begin, &[values.as_slice(), &known].concat(), body.len()).await
            }
        };
        let rows = match answer {
            Ok(rows) => rows,
            // The stream, or a line that it refers to, was deleted at this very moment.
            Err(failure) if failure.is_broken_reference() => return Ok(Put::Taken),
            Err(failure) => return Err(failure.into()),
        };
        let Some(row) = rows.first() else { return Ok(Put::Taken) };
        let mark = self.number(row, 0)?;
        Ok(Put::Done(Placed { first: segment.first, end: segment.end, head: segment.head.clone(), mark }))
    }

    async fn holding(&self, stream: &Stream, line: u64) -> Result<Option<Segment>> {
        let line = stored(line)?;
        let parts = stream.parts();
        let mut asked = texts(&parts);
        asked.push((&line, Type::INT8));
        let rows = self.database().await?.rows(&self.statements.holding, &asked, 0).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let (first, end, head) = self.position(row, 0, stream)?;
        let body: &[u8] = self.value(row, 3)?;
        if !segment::is_plausible(&head, body.len() as u64) {
            let reason = format!("the segment at line {first} has more bytes than its lines can take");
            return Err(Error::Corrupt { what: stream.to_string(), reason });
        }
        let mut copy = segment::room_for(body.len());
        copy.extend_from_slice(body);
        Ok(Some(Segment { first, end, head, body: copy.into() }))
    }

    async fn list(&self, prefix: &Prefix, cursor: Option<&str>) -> Result<Listing> {
        let parts = prefix.parts();
        let tenant = parts.first().copied().unwrap_or_default();
        let (place, session) = (parts.get(1).copied(), parts.get(2).copied());
        let behind = cursor.map(parts_of_cursor).transpose()?;
        let [after_place, after_session, after_side] = behind.unwrap_or_default();
        // One more than a page shows whether there are more.
        let limit = STREAMS as i64 + 1;
        let asked: [Parameter<'_>; 7] = [
            (&tenant, Type::TEXT),
            (&place, Type::TEXT),
            (&session, Type::TEXT),
            (&after_place, Type::TEXT),
            (&after_session, Type::TEXT),
            (&after_side, Type::TEXT),
            (&limit, Type::INT8),
        ];
        // Nothing sorts before the first of a page: no place has an empty name.
        let rows = self.database().await?.rows(&self.statements.list, &asked, 0).await?;
        let mut listing = Listing::default();
        for row in rows.iter().take(STREAMS) {
            let [place, session, side]: [&str; 3] = [self.value(row, 0)?, self.value(row, 1)?, self.value(row, 2)?];
            let stream = Stream::of([tenant, place, session, side])
                .map_err(|_| self.damaged("a stream has a name that none can have"))?;
            if rows.len() > STREAMS {
                listing.next = Some(cursor_at(&stream));
            }
            listing.streams.push(stream);
        }
        Ok(listing)
    }

    async fn delete(&self, stream: &Stream) -> Result<()> {
        self.database().await?.delete(&self.statements, stream).await
    }

    async fn keep(&self, stream: &Stream, name: &str, bytes: Bytes) -> Result<()> {
        check_size(&bytes)?;
        let tenant = stream.tenant();
        let database = self.database().await?;
        // What is there already is not sent again; whether it stays, the segment that refers to it will find out.
        let named: [Parameter<'_>; 2] = [(&tenant, Type::TEXT), (&name, Type::TEXT)];
        if !database.rows(&self.statements.is_kept, &named, 0).await?.is_empty() {
            return Ok(());
        }
        let life = number_of_a_life()?;
        let bytes = bytes.as_ref();
        let parts = stream.parts();
        let mut values = texts(&parts);
        values.extend::<[Parameter<'_>; 3]>([(&name, Type::TEXT), (&bytes, Type::BYTEA), (&life, Type::INT8)]);
        match database.rows(&self.statements.keep, &values, bytes.len()).await {
            // The stream that it is meant for is begun or deleted at this very moment, so nothing is kept.
            Ok(rows) if rows.is_empty() => Err(database.meanwhile()),
            Ok(_) => Ok(()),
            Err(failure) if failure.is_broken_reference() => Err(database.meanwhile()),
            Err(failure) => Err(failure.into()),
        }
    }

    async fn kept(&self, stream: &Stream, name: &str) -> Result<Option<Bytes>> {
        let tenant = stream.tenant();
        let named: [Parameter<'_>; 2] = [(&tenant, Type::TEXT), (&name, Type::TEXT)];
        let rows = self.database().await?.rows(&self.statements.kept, &named, 0).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let bytes: &[u8] = self.value(row, 0)?;
        if bytes.len() as u64 > MAX_BODY {
            return Err(self.damaged(&format!("the large line `{name}` has more than {MAX_BODY} bytes")));
        }
        Ok(Some(Bytes::copy_from_slice(bytes)))
    }
}

fn texts<'a>(parts: &'a [&'a str; 4]) -> Vec<Parameter<'a>> {
    parts.iter().map(|part| (part as _, Type::TEXT)).collect()
}

/// A number as a table has it.
fn stored(number: u64) -> Result<i64> {
    i64::try_from(number).map_err(|_| Error::Invalid(format!("the number {number} is more than a table holds")))
}

/// A number that no other life of any stream has. A sequence would be one more thing that every write waits for, and that a database of
/// many machines does slowly.
fn number_of_a_life() -> Result<i64> {
    let random = getrandom::u64().map_err(|error| Error::Invalid(format!("there is no randomness here: {error}")))?;
    Ok((random >> 1).cast_signed())
}

fn check_size(value: &[u8]) -> Result<()> {
    if value.len() > MAX_VALUE {
        return Err(Error::Invalid(format!("{} bytes at once are more than a database takes", value.len())));
    }
    Ok(())
}

const CURSOR: [&str; 3] = ["place", "session", "side"];

fn cursor_at(stream: &Stream) -> String {
    let [_, parts @ ..] = stream.parts();
    form_urlencoded::Serializer::new(String::new()).extend_pairs(CURSOR.into_iter().zip(parts)).finish()
}

fn parts_of_cursor(cursor: &str) -> Result<[String; 3]> {
    let mut pairs = form_urlencoded::parse(cursor.as_bytes());
    let mut part = |name: &str| pairs.next().filter(|(key, _)| key == name).map(|(_, value)| value.into_owned());
    match CURSOR.map(&mut part) {
        [Some(place), Some(session), Some(side)] => Ok([place, session, side]),
        _ => Err(Error::Invalid("this is no place to go on listing from".to_owned())),
    }
}
