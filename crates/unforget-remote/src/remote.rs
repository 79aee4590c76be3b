//! What a remote can do: five things, on lines.

use std::fmt::Debug;

use bytes::Bytes;
use unforget_core::frontier::Frontier;

use crate::error::{Error, Result};
use crate::stream::{Prefix, Stream};

pub use futures_core::future::BoxFuture;

/// How often the end of a small stream is looked for while others add to it.
const LOOKS: usize = 8;

/// A place that another machine can reach.
///
/// Every method may be called again after an error that [passes](crate::Error::is_passing), also where it is not known what
/// the first call did. The module `conformance` (feature `testing`) holds what else is promised.
pub trait Remote: Debug + Send + Sync {
    /// How much of a stream is there; [`NotFound`](crate::Error::NotFound) if nothing ever was, or it was deleted.
    fn frontier<'a>(&'a self, stream: &'a Stream) -> BoxFuture<'a, Result<Frontier>>;

    /// Adds lines (without their line feeds) behind `after`, all or none, and says where the stream is then. They are safe
    /// when this returns. If the stream is anywhere else, nothing is changed and the answer is
    /// [`Conflict`](crate::Error::Conflict), unless these very lines are what was added there last.
    fn append<'a>(
        &'a self,
        stream: &'a Stream,
        after: &'a Frontier,
        lines: &'a [Bytes],
    ) -> BoxFuture<'a, Result<Frontier>>;

    /// Some lines from a number on: at least one if there is one, and no more than memory has room for.
    fn read<'a>(&'a self, stream: &'a Stream, from: u64) -> BoxFuture<'a, Result<Page>>;

    /// Some of the streams that match, in an order of the remote's own.
    fn list<'a>(&'a self, prefix: &'a Prefix, cursor: Option<&'a str>) -> BoxFuture<'a, Result<Listing>>;

    /// Removes a stream and all that only it refers to. It is no error if there is none.
    fn delete<'a>(&'a self, stream: &'a Stream) -> BoxFuture<'a, Result<()>>;

    /// Does some of what makes a stream that was written in small pieces faster to read, and changes nothing else. Where
    /// there is nothing to gain, nothing is done.
    fn compact<'a>(&'a self, _stream: &'a Stream) -> BoxFuture<'a, Result<Compacted>> {
        Box::pin(std::future::ready(Ok(Compacted { merged: 0, is_done: true })))
    }
}

/// What came of compacting a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compacted {
    /// How many times pieces were merged.
    pub merged: usize,
    /// Whether there was no more to do.
    pub is_done: bool,
}

/// Some lines of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The frontier before the first of them.
    pub before: Frontier,
    /// The lines, without their line feeds.
    pub lines: Vec<Bytes>,
    /// The frontier behind the last of them. If there are none, this is the end of the stream.
    pub after: Frontier,
}

/// Some streams.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listing {
    /// The streams.
    pub streams: Vec<Stream>,
    /// Where to go on, if there may be more.
    pub next: Option<String>,
}

/// How many bytes the streams of a list may take: some hundred thousand of them. A remote whose list has no end fills no memory.
const MAX_LISTED: usize = 32 << 20;
/// What a stream takes beside its names.
const PER_STREAM: usize = 128;

/// The streams of a list, put together page by page.
#[derive(Debug, Default)]
pub struct Gathering {
    streams: Vec<Stream>,
    bytes: usize,
    asked: Option<String>,
}

impl Gathering {
    /// Takes in a page; tells where to go on, if there is more.
    pub fn add(&mut self, page: Listing) -> Result<Option<&str>> {
        for stream in page.streams {
            self.bytes += PER_STREAM + stream.parts().iter().map(|part| part.len()).sum::<usize>();
            if self.bytes > MAX_LISTED {
                let (tenant, count) = (stream.tenant(), self.streams.len());
                let reason = format!("more than {count} streams are listed, more than there is room for");
                return Err(Error::Corrupt { what: format!("the list of `{tenant}`"), reason });
            }
            self.streams.push(stream);
        }
        // A remote that goes in circles would be asked for ever.
        let next = page.next.filter(|next| self.asked.as_ref() != Some(next));
        self.asked = next;
        Ok(self.asked.as_deref())
    }

    /// All streams of the pages.
    pub fn streams(self) -> Vec<Stream> {
        self.streams
    }
}

/// All streams that match.
pub async fn every_stream(remote: &dyn Remote, prefix: &Prefix) -> Result<Vec<Stream>> {
    let mut gathering = Gathering::default();
    let mut page = remote.list(prefix, None).await?;
    while let Some(next) = gathering.add(page)? {
        page = remote.list(prefix, Some(next)).await?;
    }
    Ok(gathering.streams())
}

/// Hands all pages of a stream from a line on to `take`, and proves that each goes on from the one before.
pub async fn each_page(
    remote: &dyn Remote,
    stream: &Stream,
    from: u64,
    mut take: impl AsyncFnMut(Page) -> Result<()>,
) -> Result<Frontier> {
    let mut at: Option<Frontier> = None;
    // Every page has a line at least, and the stream ends where its last segment says.
    loop {
        let next = at.map_or(from, |at| at.lines);
        let page = remote.read(stream, next).await?;
        let before = at.or((from == 0).then(Frontier::default));
        if before.is_some_and(|before| before != page.before) {
            let reason = format!("the lines from {next} on do not go on from those before");
            return Err(Error::Corrupt { what: stream.to_string(), reason });
        }
        let after = page.after;
        if page.lines.is_empty() {
            return Ok(after);
        }
        at = Some(after);
        take(page).await?;
    }
}

/// The last line of a small stream, and its end; none if there is no such stream.
pub(crate) async fn last_line(remote: &dyn Remote, stream: &Stream) -> Result<Option<(Bytes, Frontier)>> {
    let mut from = match remote.frontier(stream).await {
        Ok(end) => end.lines.saturating_sub(1),
        Err(Error::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut found = None;
    for _ in 0..LOOKS {
        let page = match remote.read(stream, from).await {
            Ok(page) => page,
            Err(Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        match page.lines.last() {
            Some(line) => found = Some((line.clone(), page.after)),
            None => return Ok(found),
        }
        from = page.after.lines;
        // Nearly always the end; others may have added lines since it was asked for.
        if let Some(found) = found.as_ref().filter(|_| page.lines.len() == 1) {
            return Ok(Some(found.clone()));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s7_a_list_without_an_end_is_damage_and_fills_no_memory() {
        let page = |number: usize| {
            let stream = |at: usize| Stream::new("tenant", "main", &format!("{number}-{at}-{}", "x".repeat(400)));
            let streams = (0..1000).map(|at| stream(at).unwrap()).collect();
            Listing { streams, next: Some(number.to_string()) }
        };
        let mut gathering = Gathering::default();
        let refused = (0..1000).find_map(|number| gathering.add(page(number)).err());
        assert!(matches!(refused, Some(Error::Corrupt { .. })), "{refused:?}");
        assert!(gathering.streams.len() < 100_000);
    }

    #[test]
    fn a_list_that_goes_in_circles_ends() {
        let page = || Listing { streams: Vec::new(), next: Some("same".to_owned()) };
        let mut gathering = Gathering::default();
        assert_eq!(gathering.add(page()).unwrap(), Some("same"));
        assert_eq!(gathering.add(page()).unwrap(), None);
    }
}
