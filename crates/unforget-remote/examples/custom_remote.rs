//! A remote of one's own: the five methods of [`Remote`], and the suite that says whether they keep its promises.
//!
//! This one is a map in memory. A real one asks a server: a table with the columns stream, number and line does, if it
//! can add rows only where the last one has a certain number. A place that keeps whole objects needs less: see
//! `unforget_remote::file`.
//!
//! ```console
//! $ cargo run -p unforget-remote --example custom_remote
//! ```

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use unforget_core::frontier::Frontier;
use unforget_remote::{BoxFuture, Error, Listing, Page, Prefix, Remote, Result, Stream, conformance};

/// How many bytes a page has, if its first line is no longer.
const PAGE_BYTES: usize = 1 << 20;

/// Streams in memory; clones are other clients of the same place.
#[derive(Debug, Clone, Default)]
struct Streams(Arc<Mutex<BTreeMap<Stream, Kept>>>);

/// The lines of a stream.
#[derive(Debug, Default)]
struct Kept {
    lines: Vec<Bytes>,
    /// The frontier behind each line. A frontier is how much of a stream somebody has: lines, bytes and a digest.
    behind: Vec<Frontier>,
    /// How many lines there were before the last append.
    before_last: usize,
}

impl Kept {
    /// The frontier behind so many lines.
    fn at(&self, lines: usize) -> Frontier {
        lines.checked_sub(1).and_then(|last| self.behind.get(last)).copied().unwrap_or_default()
    }

    fn end(&self) -> Frontier {
        self.at(self.lines.len())
    }
}

impl Streams {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Stream, Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Compare-and-append: all lines behind the very bytes that the caller knows, or none.
    fn add(&self, stream: &Stream, after: &Frontier, lines: &[Bytes]) -> Result<Frontier> {
        if lines.iter().any(|line| line.contains(&b'\n')) {
            return Err(Error::Invalid("a line has a line feed in it".to_owned()));
        }
        let mut streams = self.lock();
        let nothing = Kept::default();
        let kept = streams.get(stream).unwrap_or(&nothing);
        let found = kept.end();
        // The answer to the same call may have been lost on its way: repeating it changes nothing.
        let is_repeated =
            !lines.is_empty() && *after == kept.at(kept.before_last) && *lines == kept.lines[kept.before_last..];
        if is_repeated || (lines.is_empty() && *after == found) {
            return Ok(found);
        }
        if *after != found {
            return Err(Error::Conflict { found });
        }
        let kept = streams.entry(stream.clone()).or_default();
        kept.before_last = kept.lines.len();
        for line in lines {
            kept.behind.push(kept.end().after(line));
            kept.lines.push(line.clone());
        }
        Ok(kept.end())
    }

    fn page(&self, stream: &Stream, from: u64) -> Result<Page> {
        let streams = self.lock();
        let kept = streams.get(stream).ok_or_else(|| Error::NotFound { what: stream.to_string() })?;
        let first = usize::try_from(from).ok().filter(|first| *first <= kept.lines.len());
        let first = first.ok_or(Error::Conflict { found: kept.end() })?;
        let mut bytes = 0;
        let fits = |line: &&Bytes| {
            bytes += line.len();
            bytes <= PAGE_BYTES || bytes == line.len()
        };
        let lines: Vec<Bytes> = kept.lines[first..].iter().take_while(fits).cloned().collect();
        Ok(Page { before: kept.at(first), after: kept.at(first + lines.len()), lines })
    }
}

impl Remote for Streams {
    fn frontier<'a>(&'a self, stream: &'a Stream) -> BoxFuture<'a, Result<Frontier>> {
        let found = self.lock().get(stream).map(Kept::end);
        Box::pin(async move { found.ok_or_else(|| Error::NotFound { what: stream.to_string() }) })
    }

    fn append<'a>(&'a self, to: &'a Stream, after: &'a Frontier, new: &'a [Bytes]) -> BoxFuture<'a, Result<Frontier>> {
        Box::pin(async move { self.add(to, after, new) })
    }

    fn read<'a>(&'a self, stream: &'a Stream, from: u64) -> BoxFuture<'a, Result<Page>> {
        Box::pin(async move { self.page(stream, from) })
    }

    fn list<'a>(&'a self, prefix: &'a Prefix, _cursor: Option<&'a str>) -> BoxFuture<'a, Result<Listing>> {
        let streams = self.lock().keys().filter(|stream| prefix.matches(stream)).cloned().collect();
        Box::pin(async move { Ok(Listing { streams, next: None }) })
    }

    fn delete<'a>(&'a self, stream: &'a Stream) -> BoxFuture<'a, Result<()>> {
        self.lock().remove(stream);
        Box::pin(async { Ok(()) })
    }
}

/// Puts the remote to the suite, as two machines at the same place.
pub(crate) async fn run() {
    let place = Streams::default();
    conformance::all(&place, &place.clone(), "ada").await;
}

#[tokio::main]
async fn main() {
    run().await;
    #[expect(clippy::print_stdout, reason = "an example shows what it does")]
    {
        println!("this remote keeps every promise");
    }
}
