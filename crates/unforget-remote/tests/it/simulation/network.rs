//! A network that delays, loses and doubles what it carries, and delivers some of it when nobody waits any more.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use unforget_core::frontier::Frontier;
use unforget_remote::{BoxFuture, Error, Listing, Page, Prefix, Remote, Result, Stream};
use unforget_testkit::generate::Dice;

/// The way of one machine to the remote.
#[derive(Debug)]
pub(super) struct Network {
    pub(super) remote: Arc<dyn Remote>,
    pub(super) dice: Mutex<Dice>,
    pub(super) is_cut: Mutex<bool>,
    /// Whether everything arrives at once.
    pub(super) is_calm: bool,
}

impl Network {
    fn throw(&self, n: usize) -> usize {
        self.dice.lock().unwrap().below(n)
    }

    fn lost<T>(&self) -> Result<T> {
        Err(Error::Unavailable { place: "the remote".to_owned(), reason: "lost".to_owned(), wait: None })
    }

    /// Carries a call there and its answer back; `late` makes the call that arrives when nobody waits for it any more.
    async fn carry<'a, T>(&self, call: impl Fn() -> BoxFuture<'a, Result<T>>, late: impl Fn(Duration)) -> Result<T> {
        if self.is_calm {
            return call().await;
        }
        tokio::time::sleep(Duration::from_millis(self.throw(40) as u64)).await;
        if *self.is_cut.lock().unwrap() {
            return self.lost();
        }
        match self.throw(14) {
            0 => return self.lost(),
            1 => {
                late(Duration::from_millis(self.throw(3_000) as u64));
                return self.lost();
            }
            2 => drop(call().await),
            _ => {}
        }
        let answer = call().await;
        tokio::time::sleep(Duration::from_millis(self.throw(40) as u64)).await;
        if self.throw(14) == 0 { self.lost() } else { answer }
    }
}

impl Remote for Network {
    fn frontier<'a>(&'a self, stream: &'a Stream) -> BoxFuture<'a, Result<Frontier>> {
        Box::pin(self.carry(move || self.remote.frontier(stream), |_| {}))
    }

    fn append<'a>(
        &'a self,
        stream: &'a Stream,
        after: &'a Frontier,
        lines: &'a [Bytes],
    ) -> BoxFuture<'a, Result<Frontier>> {
        let late = move |delay: Duration| {
            let (remote, stream, after, lines) = (self.remote.clone(), stream.clone(), *after, lines.to_vec());
            tokio::spawn(async move {
                tokio::time::sleep(delay).await;
                drop(remote.append(&stream, &after, &lines).await);
            });
        };
        Box::pin(self.carry(move || self.remote.append(stream, after, lines), late))
    }

    fn read<'a>(&'a self, stream: &'a Stream, from: u64) -> BoxFuture<'a, Result<Page>> {
        Box::pin(self.carry(move || self.remote.read(stream, from), |_| {}))
    }

    fn list<'a>(&'a self, prefix: &'a Prefix, cursor: Option<&'a str>) -> BoxFuture<'a, Result<Listing>> {
        self.remote.list(prefix, cursor)
    }

    fn delete<'a>(&'a self, stream: &'a Stream) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.carry(move || self.remote.delete(stream), |_| {}))
    }
}
