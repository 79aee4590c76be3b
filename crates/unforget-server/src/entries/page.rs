//! Entries by pages, each from where the last one ended: what was read once is not read again.
//!
//! A cursor names the file that it was cut from. If that is another one now (it was deleted and begun anew, or put together with what somebody else
//! wrote), what was read before does not count any more, and reading begins anew.

use unforget_core::json;
use unforget_core::lines;
use unforget_core::medium::Medium;
use unforget_core::reader::LogReader;

use super::place::{Header, Key, Place};
use crate::error::Result;

/// A page with more bytes than this is not added to.
const PAGE_BYTES: usize = 4 << 20;

/// Some entries, and where to go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The entries, as the text of a JSON list.
    pub entries: String,
    /// What the next page begins behind.
    pub cursor: String,
    /// Whether there is a next page now.
    pub more: bool,
    /// Whether this is the beginning, although a cursor said otherwise.
    pub again: bool,
}

impl Page {
    /// As a JSON object.
    pub fn to_json(&self) -> String {
        let Self { entries, cursor, more, again } = self;
        format!("{{\"entries\":{entries},\"cursor\":{},\"more\":{more},\"again\":{again}}}", json::quote(cursor))
    }
}

/// A page behind a cursor; none if nothing was ever written.
pub(super) fn read(medium: &dyn Medium, key: &Key, cursor: Option<&str>) -> Result<Option<Page>> {
    let path = Place::of(key).file();
    let reader = match LogReader::open(medium, &path) {
        Err(error) if error.is_io(std::io::ErrorKind::NotFound) => return Ok(None),
        other => other?,
    };
    let Some(header) = Header::first(&reader)? else { return Ok(None) };
    let (device, number) = reader.identity();
    let of_file = format!("{}.{device}.{number}.", header.born);
    let wanted = cursor.and_then(|text| text.strip_prefix(&of_file)?.parse::<u64>().ok());
    let from = wanted.filter(|offset| *offset <= reader.len());
    let (entries, end, more) = entries(&reader, from.unwrap_or(0), PAGE_BYTES)?;
    let again = cursor.is_some() && from.is_none();
    Ok(Some(Page { entries, cursor: format!("{of_file}{end}"), more, again }))
}

/// The entries from an offset on, as the text of a JSON list, up to about so many bytes; where they end, and whether there are more.
pub(super) fn entries(reader: &LogReader, from: u64, most: usize) -> Result<(String, u64, bool)> {
    let mut out = String::from("[");
    let mut end = from;
    let mut forward = reader.forward(from);
    while let Some(line) = forward.next()? {
        // What a crash left half-written was never acknowledged.
        if !line.terminated {
            break;
        }
        if out.len() > most {
            out.push(']');
            return Ok((out, end, true));
        }
        end = line.end();
        let text = std::str::from_utf8(line.bytes).ok().filter(|_| lines::is_object(line.bytes));
        // The first line is no entry.
        let Some(text) = text.filter(|_| line.offset > 0) else { continue };
        out.push_str(if out.len() > 1 { "," } else { "" });
        out.push_str(text);
    }
    out.push(']');
    Ok((out, end, false))
}
