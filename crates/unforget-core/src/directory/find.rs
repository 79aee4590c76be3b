//! Which session a name means.

use crate::directory::{Entry, Listing};
use crate::error::{Error, Result};
use crate::key::Key;
use crate::summary::State;

/// The current session of a key: the one that was created last.
///
/// A session whose transcript is missing is still the current one: it must be missed, not replaced.
pub(crate) fn current<'l>(listing: &'l Listing, key: &Key) -> Option<&'l Entry> {
    let key = key.to_string();
    listing
        .entries
        .iter()
        .filter(|entry| entry.row.key.as_deref() == Some(&key) && entry.row.state != State::Mismatch)
        .max_by(|a, b| (a.row.created_ms, &a.row.id).cmp(&(b.row.created_ms, &b.row.id)))
}

/// The one session that a name means.
pub(super) fn resolve(listing: &Listing, name: &str) -> Result<Entry> {
    let exact = || listing.entries.iter().filter(|entry| entry.row.id == name);
    if let Some(entry) = exact().find(|entry| entry.row.state != State::Mismatch).or_else(|| exact().next()) {
        return Ok(entry.clone());
    }
    if let Ok(key) = name.parse::<Key>()
        && let Some(entry) = current(listing, &key)
    {
        return Ok(entry.clone());
    }
    let lower = name.to_lowercase();
    let begins = |text: &Option<String>| text.as_ref().is_some_and(|text| text.to_lowercase().starts_with(&lower));
    let stages: [&dyn Fn(&Entry) -> bool; 4] = [
        &|entry| entry.row.label.as_deref() == Some(name),
        &|entry| entry.row.id.starts_with(name),
        &|entry| begins(&entry.row.label),
        &|entry| begins(&entry.row.title),
    ];
    for stage in stages {
        let matches: Vec<&Entry> = listing.entries.iter().filter(|entry| !name.is_empty() && stage(entry)).collect();
        match matches.as_slice() {
            [] => {}
            [one] => return Ok((*one).clone()),
            several => {
                let candidates = several.iter().map(|entry| describe(entry)).collect();
                return Err(Error::Ambiguous { name: name.to_owned(), candidates });
            }
        }
    }
    Err(Error::NotFound { what: "session", name: name.to_owned() })
}

/// A session on one line, for someone who has to choose.
pub(crate) fn describe(entry: &Entry) -> String {
    let row = &entry.row;
    let name = row.label.as_deref().or(row.title.as_deref()).unwrap_or("");
    let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("{}  {}  {name}", row.id, row.key.as_deref().unwrap_or("-"))
}
