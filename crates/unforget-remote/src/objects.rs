//! A shelf on named objects: a bucket, a directory, a map.
//!
//! ```text
//! <tenant>/<place>/<session>/<side>/<life><first>               a segment, or what is left of one
//! <tenant>/<place>/<session>/<side>/m<level><life><first><end>  segments that were merged, or where they went
//! <tenant>/@kept/<name>/bytes                                   a large line, once for a tenant
//! <tenant>/@kept/<name>/<stream><life>                          that this stream refers to it
//! <tenant>/@keeps/<stream>/<life><name>                         the same, from the other side
//! <tenant>/@gone/<stream>/<life>                                the life that a swept stream would begin with
//! ```
//! Names are spelled by `encode::file_name`, which never begins with `@`; the main stream's side is `@`. The numbers are
//! counted down, in sixteen hexadecimal digits each, so that the newest segment is the first name of a directory and the one
//! that holds a line is the first name from that line's on.
//!
//! An object is created once and its name stays used, or a machine that slept could go on from where it fell asleep. So deleting a
//! stream takes the next number (nobody can add to it any more), then leaves a mark in place of each segment; who comes later
//! begins another life. [Merging](merge) segments leaves marks as well. Only a stream that was deleted long ago is
//! [swept](remove) away altogether.
//!
//! This module holds what a place of objects has to be able to do; it knows nothing of streams.

mod merge;
mod name;
mod object;
mod remove;
mod shelf;

#[cfg(test)]
mod tests;

use std::fmt::Debug;

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::segment::{MAX_BODY, MAX_HEAD};

pub(crate) use shelf::ObjectShelf;

/// What a shelf of objects needs of a place.
pub trait Objects: Debug + Send + Sync + 'static {
    /// What the place is called in messages.
    fn name(&self) -> String;
    /// Creates an object, durably; `false` if there is one of that name.
    fn create(&self, path: &str, bytes: Bytes) -> impl Future<Output = Result<bool>> + Send;
    /// Puts other bytes in an object's place, durably.
    fn replace(&self, path: &str, bytes: Bytes) -> impl Future<Output = Result<()>> + Send;
    /// An object, or no more than its first bytes; none if there is none.
    fn read(&self, path: &str, part: Part) -> impl Future<Output = Result<Option<Bytes>>> + Send;
    /// Some names of a kind in a directory behind a name. Objects come in ascending order, directories in an order of the place's own.
    fn names(
        &self,
        dir: &str,
        kind: Kind,
        behind: Option<&str>,
        most: usize,
    ) -> impl Future<Output = Result<Names>> + Send;
    /// Removes an object; it is no error if there is none.
    fn remove(&self, path: &str) -> impl Future<Output = Result<()>> + Send;
}

/// How much of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Whole,
    /// As much as a segment's head may take.
    Start,
}

impl Part {
    /// How many bytes, at the most. A whole object that has more is damage: see [`too_large`].
    pub fn limit(self) -> u64 {
        match self {
            Self::Whole => 2 + MAX_HEAD as u64 + MAX_BODY,
            Self::Start => (2 + MAX_HEAD) as u64,
        }
    }
}

/// The error for an object that has more bytes than any that this program writes.
pub(crate) fn too_large(place: &str, path: &str) -> Error {
    let reason = format!("it has more than {} bytes", Part::Whole.limit());
    Error::Corrupt { what: format!("the object `{path}` of {place}"), reason }
}

/// What a name is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An object.
    Object,
    /// A directory that has any objects.
    Directory,
}

/// Some names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Names {
    /// The names, without their directory.
    pub names: Vec<String>,
    /// Whether there may be more behind the last one.
    pub has_more: bool,
}

/// How many names are asked for at once where all are wanted.
pub(crate) const NAMES: usize = 1_000;
