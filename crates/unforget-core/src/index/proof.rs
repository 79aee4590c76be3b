//! Sees that no row is missing from a list.
//!
//! Every row has a checksum, so what is shown is what was written. But SQLite does not notice a changed bit in the keys of its trees,
//! and a row that is found too late, too early or not at all cannot say so itself. So how many sessions were used in each span of about an
//! hour is kept a second time, with the sum of a checksum over what they are sorted by. A list is believed if the spans that it touches add up and
//! its rows are those that come next. That costs as much as the page and the two spans at its ends; the database itself keeps the books.
//!
//! Only the usual list is proved so, which is sorted by the last use and leaves nothing out. A filter or another order asks columns that have no second copy; `doctor`
//! compares these.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use rusqlite::Connection;

use super::row::Indexed;
use super::{Asked, Place, Trouble};
use crate::listing::{Filter, ListQuery, Sort, Value};

/// The table, and what keeps it. The numbers are those of [`SPAN_BITS`] and [`NEVER`].
pub(super) const TABLES: &str = "
-- How many sessions were used in each span of time, and the sum of their proofs.
CREATE TABLE proofs (
    place INTEGER NOT NULL, span INTEGER NOT NULL, many INTEGER NOT NULL, total INTEGER NOT NULL,
    PRIMARY KEY (place, span)
) WITHOUT ROWID;
CREATE TRIGGER proofs_come AFTER INSERT ON sessions BEGIN
    INSERT INTO proofs VALUES (new.place, coalesce(new.updated_ms, -9223372036854775808) >> 22, 1, new.proof)
        ON CONFLICT (place, span) DO UPDATE SET many = many + 1, total = total + excluded.total;
END;
CREATE TRIGGER proofs_go AFTER DELETE ON sessions BEGIN
    UPDATE proofs SET many = many - 1, total = total - old.proof
        WHERE place = old.place AND span = coalesce(old.updated_ms, -9223372036854775808) >> 22;
    DELETE FROM proofs
        WHERE place = old.place AND span = coalesce(old.updated_ms, -9223372036854775808) >> 22 AND many = 0;
END;
CREATE TRIGGER proofs_move AFTER UPDATE OF place, updated_ms, proof ON sessions
WHEN (old.place, old.updated_ms, old.proof) IS NOT (new.place, new.updated_ms, new.proof) BEGIN
    UPDATE proofs SET many = many - 1, total = total - old.proof
        WHERE place = old.place AND span = coalesce(old.updated_ms, -9223372036854775808) >> 22;
    DELETE FROM proofs
        WHERE place = old.place AND span = coalesce(old.updated_ms, -9223372036854775808) >> 22 AND many = 0;
    INSERT INTO proofs VALUES (new.place, coalesce(new.updated_ms, -9223372036854775808) >> 22, 1, new.proof)
        ON CONFLICT (place, span) DO UPDATE SET many = many + 1, total = total + excluded.total;
END;
";

/// A span is 2^22 milliseconds, or 70 minutes.
const SPAN_BITS: u32 = 22;
/// The time of a session that tells none: before every other.
const NEVER: i64 = i64::MIN;

/// What a row is sorted by, so that the usual order is the rising one.
type Rank = (Reverse<Option<i64>>, Reverse<String>, String);

/// What a row adds to the sum of its span.
pub(super) fn of(updated_ms: Option<i64>, id: &str, dir: &str) -> i64 {
    let mut hasher = crc32fast::Hasher::new();
    let time = updated_ms.unwrap_or(NEVER).to_le_bytes();
    for part in [time.as_slice(), &[u8::from(updated_ms.is_some())], id.as_bytes(), &[0], dir.as_bytes()] {
        hasher.update(part);
    }
    i64::from(hasher.finalize())
}

fn span(updated_ms: Option<i64>) -> i64 {
    updated_ms.unwrap_or(NEVER) >> SPAN_BITS
}

/// Sees that a page, and the one row more that tells whether there is another, is what should have been found.
pub(super) fn check(connection: &Connection, ask: &ListQuery, page: &[Indexed]) -> Asked<()> {
    if ask.sort != Sort::Updated || ask.filter != Filter::default() {
        return Ok(());
    }
    let newest = match ask.after.as_ref().map(|after| &after.value) {
        None => Some(i64::MAX),
        Some(Value::Number(ms)) => Some(*ms),
        Some(Value::Nothing) => None,
        Some(Value::Text(_)) => return Ok(()),
    };
    let oldest = match page.last() {
        Some(last) if page.len() > ask.limit => last.entry.row.updated_ms,
        _ => None,
    };
    let ranks = ranks(connection, ask.place, span(oldest), span(newest))?;
    let after = ask.after.as_ref().map(|after| (Reverse(newest), Reverse(after.id.clone()), after.dir.clone()));
    let expected = ranks.into_iter().filter(|rank| after.as_ref().is_none_or(|after| rank > after));
    let found = page.iter().map(|indexed| {
        let row = &indexed.entry.row;
        (Reverse(row.updated_ms), Reverse(row.id.clone()), indexed.entry.dir.as_str().to_owned())
    });
    match expected.take(ask.limit.saturating_add(1)).eq(found) {
        true => Ok(()),
        false => Err(lost()),
    }
}

/// Sees that all rows of a place are there.
pub(super) fn check_all(connection: &Connection, place: Place) -> Asked<()> {
    ranks(connection, place, i64::MIN, i64::MAX).map(drop)
}

/// The rows of some spans, in the usual order, if they add up.
fn ranks(connection: &Connection, place: Place, first: i64, last: i64) -> Asked<Vec<Rank>> {
    let mut ranks: Vec<Rank> = Vec::new();
    let mut sums: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
    let from = first.max(NEVER >> SPAN_BITS) << SPAN_BITS;
    let to = last.min(i64::MAX >> SPAN_BITS) << SPAN_BITS | ((1 << SPAN_BITS) - 1);
    // The second part is always true: both conditions take the same values.
    let of_never = (span(None) >= first).then_some("updated_ms IS NULL AND ?2 IS NOT ?3");
    for condition in of_never.into_iter().chain(["updated_ms BETWEEN ?2 AND ?3"]) {
        let sql =
            format!("SELECT updated_ms, id, dir FROM sessions INDEXED BY by_updated WHERE place = ?1 AND {condition}");
        let mut statement = connection.prepare_cached(&sql)?;
        let mut rows = statement.query((place.number(), from, to))?;
        while let Some(row) = rows.next()? {
            let (updated_ms, id, dir): (Option<i64>, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
            let sum = sums.entry(span(updated_ms)).or_default();
            *sum = (sum.0 + 1, sum.1 + of(updated_ms, &id, &dir));
            ranks.push((Reverse(updated_ms), Reverse(id), dir));
        }
    }
    let sql = "SELECT span, many, total FROM proofs WHERE place = ?1 AND span BETWEEN ?2 AND ?3";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query((place.number(), first, last))?;
    while let Some(row) = rows.next()? {
        if sums.remove(&row.get(0)?) != Some((row.get(1)?, row.get(2)?)) {
            return Err(lost());
        }
    }
    if !sums.is_empty() {
        return Err(lost());
    }
    ranks.sort_unstable();
    Ok(ranks)
}

fn lost() -> Trouble {
    Trouble::Unusable("it has lost rows".to_owned())
}
