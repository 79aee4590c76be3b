//! Two servers and one session, when one of them is cut off from the world and does not know it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use unforget_core::frontier::Frontier;
use unforget_remote::memory::Memory;
use unforget_remote::{BoxFuture, Error, Listing, Page, Prefix, Remote, Result, Stream};

use crate::scene::{Scene, Setting};

/// A remote that one of its users can be cut off from.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) to: Arc<dyn Remote>,
    pub(crate) is_cut: Arc<AtomicBool>,
}

impl Line {
    /// To a remote in memory.
    pub(crate) fn to_memory() -> Self {
        Self { to: Arc::new(Memory::default().remote()), is_cut: Arc::default() }
    }

    pub(crate) fn cut(&self, is_cut: bool) {
        self.is_cut.store(is_cut, Ordering::SeqCst);
    }

    fn check(&self) -> Result<()> {
        match self.is_cut.load(Ordering::SeqCst) {
            true => {
                let (place, reason) = ("the remote".to_owned(), "the line is cut".to_owned());
                Err(Error::Unavailable { place, reason, wait: None })
            }
            false => Ok(()),
        }
    }
}

impl Remote for Line {
    fn frontier<'a>(&'a self, stream: &'a Stream) -> BoxFuture<'a, Result<Frontier>> {
        Box::pin(async move {
            self.check()?;
            self.to.frontier(stream).await
        })
    }

    fn append<'a>(
        &'a self,
        stream: &'a Stream,
        after: &'a Frontier,
        lines: &'a [Bytes],
    ) -> BoxFuture<'a, Result<Frontier>> {
        Box::pin(async move {
            self.check()?;
            self.to.append(stream, after, lines).await
        })
    }

    fn read<'a>(&'a self, stream: &'a Stream, from: u64) -> BoxFuture<'a, Result<Page>> {
        Box::pin(async move {
            self.check()?;
            self.to.read(stream, from).await
        })
    }

    fn list<'a>(&'a self, prefix: &'a Prefix, cursor: Option<&'a str>) -> BoxFuture<'a, Result<Listing>> {
        Box::pin(async move {
            self.check()?;
            self.to.list(prefix, cursor).await
        })
    }

    fn delete<'a>(&'a self, stream: &'a Stream) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            self.check()?;
            self.to.delete(stream).await
        })
    }
}

#[test]
fn s09_a_server_that_was_cut_off_cannot_write_behind_the_one_that_took_over() {
    let remote: Arc<dyn Remote> = Arc::new(Memory::default().remote());
    let line = Line { to: remote.clone(), is_cut: Arc::default() };
    let lease = Duration::from_secs(2);
    let old = Scene::with(Setting { remote: Some(Arc::new(line.clone())), lease, ..Setting::default() });
    let mut zombie = old.connect();
    zombie.say(&json!({ "type": "prompt", "prompt": "first" }));
    let id = zombie.until("done")[0]["session_id"].as_str().unwrap().to_owned();
    zombie.say(&json!({ "type": "prompt", "prompt": "hold what nobody will hear" }));
    zombie.until("delta");
    line.is_cut.store(true, Ordering::SeqCst);

    let new = Scene::with(Setting { remote: Some(remote), lease, ..Setting::default() });
    let own = new.home().join(format!("agents/main/sessions/{id}.jsonl"));
    // While the lease holds, the old one is asked; whoever comes back finds the new one.
    new.wait("the other takes over", || {
        let mut client = new.connect();
        client.say(&json!({ "type": "attach", "session_id": id, "from": "end" }));
        client.hear().is_some_and(|told| told["type"] == "attached") && own.exists()
    });
    // What the old one had accepted and not begun to answer is answered by the new one, first.
    new.puppet.let_go();
    let mut client = new.connect();
    client.say(&json!({ "type": "prompt", "prompt": "second", "session_id": id, "client_id": "s" }));
    let done = loop {
        let done = client.until("done").pop().unwrap();
        if done["client_id"] == "s" {
            break done;
        }
    };
    assert_eq!(done["durability"], "remote");
    line.is_cut.store(false, Ordering::SeqCst);
    old.puppet.let_go();
    loop {
        let told = zombie.hear();
        let Some(told) = told else { break };
        assert_ne!(told["type"], "done", "a turn that nobody can read did not end well: {told}");
        if told["type"] == "failed" || told["type"] == "error" {
            break;
        }
    }
    client.say(&json!({ "type": "prompt", "prompt": "recall" }));
    let told = client.until("done").pop().unwrap()["text"].as_str().unwrap().to_owned();
    assert!(told.starts_with("first | ") && told.ends_with("second | recall"), "{told}");
    let lines = new.transcript(&id);
    let answers = lines.iter().filter(|line| line.to_string().contains("you said: hold what nobody")).count();
    // By the new one, if the words had come as far as the remote before the line was cut; never by the old one.
    let is_known = lines.iter().any(|line| line["content"] == "hold what nobody will hear");
    assert_eq!(answers, usize::from(is_known), "{lines:#?}");
    let numbers: Vec<u64> = lines.iter().map(|line| line["n"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..lines.len() as u64).collect::<Vec<_>>());
}

#[test]
fn s04_a_server_that_stops_sends_what_it_has_before_it_goes() {
    let line = Line::to_memory();
    let mut scene = Scene::with(Setting {
        remote: Some(Arc::new(line.clone())),
        is_awaited: false,
        limits: unforget_server::Limits { linger: Duration::from_secs(60), ..Setting::default().limits },
        ..Setting::default()
    });
    let mut client = scene.connect();
    client.say(&json!({ "type": "prompt", "prompt": "first" }));
    let id = client.until("done")[0]["session_id"].as_str().unwrap().to_owned();
    line.cut(true);
    client.say(&json!({ "type": "prompt", "prompt": "second" }));
    assert_eq!(client.until("done").pop().unwrap()["durability"], "disk");
    drop(client);
    line.cut(false);
    scene.stop();
    let own = scene.transcript(&id);
    // A machine that has nothing but the remote has all of it, to the last line.
    let other = Scene::with(Setting { remote: Some(line.to.clone()), ..Setting::default() });
    let mut client = other.connect();
    let heard = client.attach(&id, None);
    let there: Vec<_> = heard.iter().filter(|told| told["type"] == "record").map(|told| &told["record"]).collect();
    assert_eq!(there[..own.len()], own.iter().collect::<Vec<_>>()[..]);
}
