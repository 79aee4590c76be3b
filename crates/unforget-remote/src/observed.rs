//! A remote that tells what is asked of it: an event for each operation, and numbers over all of them.
//!
//! Events are those of `tracing`, at `debug`: operation, stream, lines, bytes, milliseconds, and what became of it. What is tried again within an
//! operation is told by whoever tries again. It changes nothing and decides nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bytes::Bytes;
use unforget_core::frontier::Frontier;

use crate::error::{Error, Result};
use crate::remote::{BoxFuture, Compacted, Listing, Page, Remote};
use crate::stream::{Prefix, Stream};

/// What was asked of a remote so far.
#[derive(Debug, Default)]
pub struct Metrics {
    operations: AtomicU64,
    failures: AtomicU64,
    sent: [AtomicU64; 2],
    read: [AtomicU64; 2],
    micros: AtomicU64,
}

/// [`Metrics`] at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Operations.
    pub operations: u64,
    /// Those of them that failed; what is not there and who came second are answers, and no failures.
    pub failures: u64,
    /// Lines that were sent and confirmed.
    pub lines_sent: u64,
    /// Bytes of them, as they are in transcripts.
    pub bytes_sent: u64,
    /// Lines that came.
    pub lines_read: u64,
    /// Bytes of them.
    pub bytes_read: u64,
    /// How long all operations took together, in microseconds.
    pub micros: u64,
}

impl Metrics {
    /// The numbers now.
    pub fn counts(&self) -> Counts {
        let get = |number: &AtomicU64| number.load(Ordering::Relaxed);
        Counts {
            operations: get(&self.operations),
            failures: get(&self.failures),
            lines_sent: get(&self.sent[0]),
            bytes_sent: get(&self.sent[1]),
            lines_read: get(&self.read[0]),
            bytes_read: get(&self.read[1]),
            micros: get(&self.micros),
        }
    }

    fn add(numbers: &[AtomicU64; 2], lines: &[Bytes]) {
        let bytes = lines.iter().map(|line| line.len() as u64 + 1).sum();
        for (number, more) in numbers.iter().zip([lines.len() as u64, bytes]) {
            number.fetch_add(more, Ordering::Relaxed);
        }
    }
}

/// A remote with an eye on it.
#[derive(Debug)]
pub struct Observed {
    remote: Box<dyn Remote>,
    metrics: Arc<Metrics>,
}

impl Observed {
    /// Looks at a remote from now on.
    pub fn new(remote: Box<dyn Remote>) -> Self {
        Self { remote, metrics: Arc::default() }
    }

    /// The numbers.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// Waits for an operation and tells of it.
    async fn told<T>(
        &self,
        operation: &'static str,
        what: &(dyn std::fmt::Display + Sync),
        work: BoxFuture<'_, Result<T>>,
    ) -> Result<T> {
        let begin = Instant::now();
        let done = work.await;
        let micros = u64::try_from(begin.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.metrics.operations.fetch_add(1, Ordering::Relaxed);
        self.metrics.micros.fetch_add(micros, Ordering::Relaxed);
        match &done {
            Ok(_) => tracing::debug!(operation, %what, micros, "done"),
            Err(error @ (Error::NotFound { .. } | Error::Conflict { .. })) => {
                tracing::debug!(operation, %what, micros, answer = %error, "answered");
            }
            Err(error) => {
                self.metrics.failures.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(operation, %what, micros, %error, "failed");
            }
        }
        done
    }
}

impl Remote for Observed {
    fn frontier<'a>(&'a self, stream: &'a Stream) -> BoxFuture<'a, Result<Frontier>> {
        Box::pin(self.told("frontier", stream, self.remote.frontier(stream)))
    }

    fn append<'a>(
        &'a self,
        stream: &'a Stream,
        after: &'a Frontier,
        lines: &'a [Bytes],
    ) -> BoxFuture<'a, Result<Frontier>> {
        Box::pin(async move {
            let end = self.told("append", stream, self.remote.append(stream, after, lines)).await?;
            Metrics::add(&self.metrics.sent, lines);
            Ok(end)
        })
    }

    fn read<'a>(&'a self, stream: &'a Stream, from: u64) -> BoxFuture<'a, Result<Page>> {
        Box::pin(async move {
            let page = self.told("read", stream, self.remote.read(stream, from)).await?;
            Metrics::add(&self.metrics.read, &page.lines);
            Ok(page)
        })
    }

    fn list<'a>(&'a self, prefix: &'a Prefix, cursor: Option<&'a str>) -> BoxFuture<'a, Result<Listing>> {
        Box::pin(self.told("list", &"", self.remote.list(prefix, cursor)))
    }

    fn delete<'a>(&'a self, stream: &'a Stream) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.told("delete", stream, self.remote.delete(stream)))
    }

    fn compact<'a>(&'a self, stream: &'a Stream) -> BoxFuture<'a, Result<Compacted>> {
        Box::pin(self.told("compact", stream, self.remote.compact(stream)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;

    #[tokio::test]
    async fn what_is_asked_is_counted_and_answers_are_no_failures() {
        let remote = Observed::new(Box::new(Memory::default().remote()));
        let stream = Stream::new("tenant", "main", "0199-a").unwrap();
        assert!(matches!(remote.frontier(&stream).await, Err(Error::NotFound { .. })));
        let start = Frontier::default();
        let lines = [Bytes::from_static(b"one"), Bytes::from_static(b"three")];
        let end = remote.append(&stream, &start, &lines).await.unwrap();
        assert!(matches!(remote.append(&stream, &start, &lines[..1]).await, Err(Error::Conflict { .. })));
        assert_eq!(remote.read(&stream, 1).await.unwrap().after, end);
        let counts = Counts { micros: 0, ..remote.metrics().counts() };
        let expected =
            Counts { operations: 4, lines_sent: 2, bytes_sent: 10, lines_read: 1, bytes_read: 6, ..Counts::default() };
        assert_eq!(counts, expected);
    }
}
