//! What a backend has to know: how to put a segment where none is yet.
//!
//! Segments of a stream are numbered by the line that they begin with. Whoever advances a stream from a position creates the
//! segment of that number; of two who try, one is told that it is [taken](Put::Taken). So a number that was once used must stay used
//! as long as the stream lives, also when segments are merged.

use std::fmt::Debug;

use bytes::Bytes;

use crate::error::Result;
use crate::remote::Listing;
use crate::stream::{Prefix, Stream};

/// A place for segments.
pub trait Shelf: Debug + Send + Sync + 'static {
    /// What the place is called in messages.
    fn name(&self) -> String;

    /// Lines from this length on are kept apart, once for a tenant; none if the place cannot.
    fn large_line(&self) -> Option<usize> {
        Some(LARGE_LINE)
    }

    /// The last segment of a stream, if it has any.
    fn last(&self, stream: &Stream) -> impl Future<Output = Result<Option<Placed>>> + Send;

    /// Adds a segment behind the one that is believed to be the last, or as the first of a stream; durable when this returns.
    fn put(
        &self,
        stream: &Stream,
        behind: Option<&Placed>,
        segment: &Segment,
    ) -> impl Future<Output = Result<Put>> + Send;

    /// The same for a segment that refers to what was [kept](Self::keep) under these names. A place that can tell answers
    /// [`Put::Taken`] if one of them was removed meanwhile, and the caller keeps them again.
    fn put_referring(
        &self,
        stream: &Stream,
        behind: Option<&Placed>,
        segment: &Segment,
        _names: &[String],
    ) -> impl Future<Output = Result<Put>> + Send {
        self.put(stream, behind, segment)
    }

    /// The segment that holds a line; none if there is no such line.
    fn holding(&self, stream: &Stream, line: u64) -> impl Future<Output = Result<Option<Segment>>> + Send;

    /// Some of the streams that match.
    fn list(&self, prefix: &Prefix, cursor: Option<&str>) -> impl Future<Output = Result<Listing>> + Send;

    /// Removes a stream, and what was kept for no other.
    fn delete(&self, stream: &Stream) -> impl Future<Output = Result<()>> + Send;

    /// Keeps bytes under a name for a stream, once for a tenant.
    fn keep(&self, stream: &Stream, name: &str, bytes: Bytes) -> impl Future<Output = Result<()>> + Send;

    /// What was kept for a stream under a name.
    fn kept(&self, stream: &Stream, name: &str) -> impl Future<Output = Result<Option<Bytes>>> + Send;

    /// What is to be done next so that a stream has fewer segments; none if nothing is, or the place needs no merging.
    fn step(&self, _stream: &Stream) -> impl Future<Output = Result<Option<Step>>> + Send {
        async { Ok(None) }
    }

    /// Stores what a run was merged into, beside the run; if somebody else did already, nothing is changed and theirs is the answer.
    fn store(
        &self,
        _stream: &Stream,
        _run: &Run,
        _merged: &Segment,
    ) -> impl Future<Output = Result<Option<Segment>>> + Send {
        async { Ok(None) }
    }

    /// Replaces the segments of a run by what they were merged into, which is stored. Their numbers stay used.
    fn point(&self, _stream: &Stream, _run: &Run) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }
}

/// What is to be done next so that a stream has fewer segments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Merge these, store the outcome and point to it.
    Merge(Run),
    /// Point to this one, which was stored by somebody who came no further.
    Point(Run),
}

/// Segments that follow each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The segments.
    pub segments: Vec<Segment>,
    /// How often their lines will have been merged.
    pub level: u8,
    /// What the shelf needs to know to find them again.
    pub mark: u64,
}

impl Run {
    /// The first line and the one behind the last.
    pub(crate) fn lines(&self) -> (u64, u64) {
        let ends = self.segments.first().zip(self.segments.last());
        ends.map_or((0, 0), |(first, last)| (first.first, last.end))
    }
}

/// Lines of this length and more are kept apart.
pub(crate) const LARGE_LINE: usize = 64 * 1024;

/// Some lines of a stream, as they are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// The number of its first line.
    pub first: u64,
    /// The number of the line behind its last one.
    pub end: u64,
    /// What it says of itself.
    pub head: Bytes,
    /// Its lines.
    pub body: Bytes,
}

/// The last segment of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// The number of its first line.
    pub first: u64,
    /// The number of the line behind its last one.
    pub end: u64,
    /// What it says of itself.
    pub head: Bytes,
    /// What the shelf needs to know to put another one behind it.
    pub mark: u64,
}

/// What became of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Put {
    /// It is there.
    Done(Placed),
    /// Another one is there, or the one before it is gone.
    Taken,
}
