//! How a session is sent: what is there after a failure at each step, and when the mark goes.

use unforget_core::key::Key;
use unforget_remote::memory::Memory;
use unforget_remote::sync::find_by_key;
use unforget_remote::uplink::{Lead, PushRules};
use unforget_remote::{BoxFuture, Error, Listing, Page, Prefix, Remote, Result, Stream};

use bytes::Bytes;
use unforget_core::frontier::Frontier;

use crate::machine::{Machine, NOW, TENANT, dir, stream};

/// A remote that takes sessions and no keys.
#[derive(Debug)]
struct Keyless<R>(R);

impl<R: Remote> Remote for Keyless<R> {
    fn frontier<'a>(&'a self, stream: &'a Stream) -> BoxFuture<'a, Result<Frontier>> {
        self.0.frontier(stream)
    }

    fn append<'a>(
        &'a self,
        stream: &'a Stream,
        after: &'a Frontier,
        lines: &'a [Bytes],
    ) -> BoxFuture<'a, Result<Frontier>> {
        if stream.session().starts_with('@') {
            let error = Error::Unavailable { place: stream.to_string(), reason: "no keys".to_owned(), wait: None };
            return Box::pin(std::future::ready(Err(error)));
        }
        self.0.append(stream, after, lines)
    }

    fn read<'a>(&'a self, stream: &'a Stream, from: u64) -> BoxFuture<'a, Result<Page>> {
        self.0.read(stream, from)
    }

    fn list<'a>(&'a self, prefix: &'a Prefix, cursor: Option<&'a str>) -> BoxFuture<'a, Result<Listing>> {
        self.0.list(prefix, cursor)
    }

    fn delete<'a>(&'a self, stream: &'a Stream) -> BoxFuture<'a, Result<()>> {
        self.0.delete(stream)
    }
}

fn created() -> PushRules<'static> {
    PushRules { lead: Lead::Created { key: Key::default(), created_ms: NOW }, ..PushRules::default() }
}

#[tokio::test]
async fn a_session_whose_key_does_not_lead_to_it_still_waits() {
    let (memory, machine) = (Memory::default(), Machine::new(1));
    let id = machine.begin(&["one"]);
    let sent = machine.send(&Keyless(memory.remote()), &id, &created()).await;
    assert!(matches!(sent, Err(Error::Unavailable { .. })), "{sent:?}");
    assert!(machine.outbox.has(&dir(), &id), "its lines are there and no machine finds them");
    assert_eq!(find_by_key(&memory.remote(), TENANT, &Key::default()).await.unwrap(), None);
    machine.send(&memory.remote(), &id, &created()).await.unwrap();
    assert!(!machine.outbox.has(&dir(), &id));
    let pointer = find_by_key(&memory.remote(), TENANT, &Key::default()).await.unwrap();
    assert_eq!(pointer.map(|pointer| pointer.session), Some(id));
}

#[tokio::test]
async fn the_mark_stays_while_more_is_being_written() {
    let (memory, machine) = (Memory::default(), Machine::new(1));
    let id = machine.begin(&["one"]);
    machine.send(&memory.remote(), &id, &PushRules { is_open: &|| true, ..PushRules::default() }).await.unwrap();
    assert!(machine.outbox.has(&dir(), &id));
    machine.send(&memory.remote(), &id, &PushRules::default()).await.unwrap();
    assert!(!machine.outbox.has(&dir(), &id));
}

#[tokio::test]
async fn a_session_that_the_remote_has_lost_is_not_taken_for_sent() {
    let (memory, machine) = (Memory::default(), Machine::new(1));
    let id = machine.begin(&["one"]);
    machine.send(&memory.remote(), &id, &PushRules::default()).await.unwrap();
    memory.remote().delete(&stream(&id)).await.unwrap();
    assert_eq!(machine.send(&memory.remote(), &id, &PushRules::default()).await.unwrap().lines, 0, "it was not asked");
    let sent = machine.send(&memory.remote(), &id, &PushRules { is_proved: true, ..PushRules::default() }).await;
    assert!(matches!(sent, Err(Error::Deleted { .. })), "{sent:?}");
    assert!(machine.outbox.has(&dir(), &id), "a person decides what becomes of it");
}
