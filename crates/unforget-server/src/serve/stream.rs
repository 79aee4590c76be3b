//! A connection that gives up on somebody who does not read.
//!
//! A response waits in the kernel and then here until its reader takes it. Without a bound, one that never reads would keep its connection, and what was to be
//! sent over it, for ever. So a write that makes no progress for a while fails, and the connection with it. It knows nothing of
//! requests: what is read, and what is written, is not looked at.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// A stream whose writes fail when nothing of them is taken for some time.
#[derive(Debug)]
pub(super) struct Impatient<S> {
    stream: S,
    patience: Duration,
    /// When the write that waits now is given up; none if none waits.
    until: Option<Pin<Box<Sleep>>>,
}

impl<S> Impatient<S> {
    pub(super) fn new(stream: S, patience: Duration) -> Self {
        Self { stream, patience, until: None }
    }

    /// How a write stands: one that made progress has all its time again.
    fn progress<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.until = None;
            return written;
        }
        let until =
            self.until.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + self.patience)));
        ready!(until.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "nobody reads what is sent")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Impatient<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Impatient<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.progress(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.progress(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        if flushed.is_pending() {
            return self.progress(context, flushed);
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn who_does_not_read_is_not_waited_for() {
        let (near, _far) = tokio::io::duplex(4);
        let mut near = Impatient::new(near, Duration::from_millis(20));
        let given_up = near.write_all(&[7; 12]).await.map_err(|error| error.kind());
        assert_eq!(given_up, Err(io::ErrorKind::TimedOut));
    }

    #[tokio::test]
    async fn who_reads_something_has_all_the_time_again() {
        let (near, mut far) = tokio::io::duplex(4);
        let mut near = Impatient::new(near, Duration::from_secs(3600));
        near.write_all(&[7; 4]).await.unwrap();
        let write = async |near: &mut Impatient<_>| {
            std::future::poll_fn(|context| Poll::Ready(Pin::new(&mut *near).poll_write(context, &[7; 4]).is_ready()))
                .await
        };
        assert!(!write(&mut near).await && near.until.is_some(), "it waits, and not for ever");
        far.read_exact(&mut [0; 4]).await.unwrap();
        assert!(write(&mut near).await && near.until.is_none());
        assert!(!write(&mut near).await && near.until.is_some());
    }
}
