//! What the tools did to the files of a workspace: a fold over the `file` records of a session.
//!
//! A `file` record is written before the change that it tells of, with the content before and the content after, so it is
//! a promise until the call has its result. The fold keeps the changes of each file in the order in which they
//! were written. It follows the file and not the conversation's path: a rewind takes words back, but the disk stays as it
//! is, and what was on it at record N is what the changes up to N left there, on whichever branch they were made.
//!
//! Contents are compared by the hashes of their payloads, never by their bytes. Only a reference that the
//! writer listed is believed; whatever else stands there is [`Content::Unknown`], and nothing is done with it. Paths and
//! modes come from the transcript, too, and may be anybody's: whoever touches a disk has to confine them.
//!
//! Nothing here reads a workspace. `plan` compares what was found there with what is wanted.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::blob::{BlobRef, FILE_PAYLOADS};
use crate::error::Result;
use crate::json;
use crate::reader::LogReader;
use crate::record::{Body, Record};
use crate::scan::Scanner;

mod content;
mod plan;
#[cfg(test)]
mod tests;

pub use content::{Content, MAX_KEPT, Seen, bytes};
pub use plan::{Action, Found, Plan, Standing, Step};

/// One change of a file, as a record tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The record.
    pub n: u64,
    /// What was in the file.
    pub before: Content,
    /// What is in it now.
    pub after: Content,
    /// The file's permission bits, if it was there before.
    pub mode: Option<u32>,
    /// How many folders above the file had to be made for it.
    pub folders: usize,
    /// Whether the change is known to have been made, and not only announced.
    pub is_settled: bool,
    /// Whether it is part of a restore. No result says of those that they were made.
    pub is_restore: bool,
}

/// The changes of one file, in the order in which they were written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes(Vec<Change>);

impl Changes {
    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Change> {
        self.0.iter()
    }

    /// The last one.
    pub fn last(&self) -> Option<&Change> {
        self.0.last()
    }

    /// What was in the file when record `n` was the last one, as far as records tell.
    pub fn at(&self, n: u64) -> Content {
        let Some(last) = self.0.iter().rposition(|change| change.n <= n) else {
            return self.0.first().map_or(Content::Unknown, |first| first.before.clone());
        };
        let (change, next) = (&self.0[last], self.0.get(last + 1));
        // A change that a crash prevented: the next one found the file as it had been.
        // Of a restore that cannot be told from one that was made and undone by hand, and what it was meant to be counts.
        let is_open = !change.is_settled && !change.is_restore;
        let prevented = is_open && next.is_some_and(|next| next.before == change.before);
        if prevented { change.before.clone() } else { change.after.clone() }
    }

    /// Whether the file was changed behind record `n`.
    pub fn is_changed_since(&self, n: u64) -> bool {
        self.0.iter().any(|change| change.n > n)
    }

    /// Whether this content is one that the last change left, or may have left if it was never made.
    fn explains(&self, content: &Content) -> bool {
        self.last().is_some_and(|last| *content == last.after || (!last.is_settled && *content == last.before))
    }

    /// The permission bits that the file had last when it was there, up to record `n` or else behind it.
    fn mode_at(&self, n: u64) -> Option<u32> {
        let before = self.0.iter().rev().filter(|change| change.n <= n).find_map(|change| change.mode);
        before.or_else(|| self.0.iter().find_map(|change| change.mode))
    }
}

/// The fold: which files were changed, in which workspace, and how.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Files {
    roots: BTreeMap<String, BTreeMap<String, Changes>>,
    /// Calls whose result is still to come, with the change that they announced.
    open: HashMap<String, Vec<(String, String, usize)>>,
    /// The workspace of the last change.
    last_root: Option<String>,
}

impl Files {
    /// The changes that a transcript tells of.
    pub fn read(reader: &LogReader) -> Result<Self> {
        let (mut files, mut scanner) = (Self::default(), Scanner::default());
        let mut forward = reader.forward(0);
        while let Some(line) = forward.next()? {
            scanner.feed(&line, |record| files.feed(&record));
        }
        Ok(files)
    }

    /// Takes the next record, in file order; its payloads must not have been put back.
    pub fn feed(&mut self, record: &Record<'_>) {
        match &record.body {
            Body::File(_) => self.change(record),
            Body::ToolResult(result) => {
                for (root, path, at) in self.open.remove(result.id.as_ref()).unwrap_or_default() {
                    let changes = self.roots.get_mut(&root).and_then(|files| files.get_mut(&path));
                    if let Some(change) = changes.and_then(|changes| changes.0.get_mut(at)) {
                        // A stand-in is written by someone who does not know how the call ended.
                        change.is_settled = !result.is_repair;
                    }
                }
            }
            _ => {}
        }
    }

    fn change(&mut self, record: &Record<'_>) {
        let members = json::members(record.raw).unwrap_or_default();
        let text = |name| json::member(&members, name).and_then(json::string);
        let content = |name: &str| {
            let is_listed = record.blobs.iter().any(|pointer| pointer.strip_prefix('/') == Some(name));
            match json::member(&members, name) {
                None => Content::Unknown,
                Some("null") => Content::Absent,
                Some(raw) if is_listed => {
                    BlobRef::parse(raw).map_or(Content::Unknown, |found| Content::Kept { sha256: found.sha256 })
                }
                Some(raw) => Content::not_kept(raw),
            }
        };
        let Some(path) = text("path").filter(|path| !path.is_empty()) else { return };
        let root = text("root").unwrap_or_default().into_owned();
        let folders = json::member(&members, "folders").and_then(json::number).unwrap_or(0);
        let change = Change {
            n: record.n,
            before: content(FILE_PAYLOADS[0]),
            after: content(FILE_PAYLOADS[1]),
            mode: text("mode").and_then(|mode| u32::from_str_radix(&mode, 8).ok()),
            folders: usize::try_from(folders).unwrap_or(usize::MAX),
            is_settled: false,
            is_restore: text("by").as_deref() == Some("restore"),
        };
        // Restored in another folder: from here on the files there have the history of those.
        let moved = text("from").filter(|_| !self.roots.contains_key(&root));
        if let Some(files) = moved.and_then(|from| self.roots.get(from.as_ref())).cloned() {
            self.roots.insert(root.clone(), files);
        }
        let files = self.roots.entry(root.clone()).or_default();
        let changes = files.entry(path.clone().into_owned()).or_default();
        changes.0.push(change);
        if let Some(call) = text("tool_use_id") {
            let place = (root.clone(), path.into_owned(), changes.0.len() - 1);
            self.open.entry(call.into_owned()).or_default().push(place);
        }
        self.last_root = Some(root);
    }

    /// The workspaces in which something was changed.
    pub fn roots(&self) -> impl Iterator<Item = &str> {
        self.roots.keys().map(String::as_str)
    }

    /// The workspace of the last change.
    pub fn last_root(&self) -> Option<&str> {
        self.last_root.as_deref()
    }

    /// The files of a workspace that were changed, by path.
    pub fn of(&self, root: &str) -> impl Iterator<Item = (&str, &Changes)> {
        self.roots.get(root).into_iter().flatten().map(|(path, changes)| (path.as_str(), changes))
    }

    /// What has to be done to have the files of a workspace as they were at record `at`, given what is on the disk.
    pub fn plan(&self, root: &str, at: u64, disk: &BTreeMap<String, Found>) -> Plan {
        let step = |(path, changes): (&str, &Changes)| {
            let found = disk.get(path).cloned().unwrap_or(Found::Content(Content::Unknown));
            plan::step(path, changes, at, found)
        };
        let mut folders = BTreeSet::new();
        for (path, changes) in self.of(root) {
            let made = changes.iter().filter(|change| change.n > at).map(|change| change.folders).max().unwrap_or(0);
            folders.extend(plan::above(path).take(made).map(str::to_owned));
        }
        // A folder comes behind those in it.
        let folders = folders.into_iter().rev().collect();
        Plan { root: root.to_owned(), at, steps: self.of(root).map(step).collect(), folders }
    }
}
