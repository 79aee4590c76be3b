//! Two servers and a session between them, without their sockets.
#![allow(clippy::disallowed_methods, reason = "the tests write as another program does")]

use std::io::Write as _;
use std::path::PathBuf;

use bytes::Bytes;
use serde_json::json;
use unforget_core::frontier::Frontier;
use unforget_core::layout::CLAUDE_AGENT;
use unforget_core::stamp::System;
use unforget_remote::memory::Memory;
use unforget_remote::{BoxFuture, Listing, Page, Prefix};

use super::*;
use crate::realm::Realms;

const ID: &str = "0199a8e5-6f5e-7d2a-9f43-1c8f1b6f0a11";

struct Machine {
    fleet: Fleet,
    realm: Arc<Realm>,
    name: Name,
    _home: tempfile::TempDir,
}

impl Machine {
    fn new(remote: &Arc<dyn Remote>, agent: &str) -> Self {
        Self::at(remote, agent, Arc::new(System))
    }

    fn at(remote: &Arc<dyn Remote>, agent: &str, source: SharedSource) -> Self {
        let home = tempfile::tempdir().unwrap();
        let fleet = Fleet::new(Settings {
            remote: remote.clone(),
            tenant: "the-owner".to_owned(),
            known_as: "elsewhere".to_owned(),
            address: "http://127.0.0.1:1".to_owned(),
            home: home.path().to_string_lossy().into_owned(),
            source,
            is_awaited: true,
            lease: Duration::from_secs(600),
            cluster_key: ClusterKey::from_text("a key that is as long as it needs!".replace(' ', "-").as_str()),
        })
        .unwrap();
        let realm = Realms::new(home.path().to_path_buf(), Arc::new(System)).of(&ActorId::verified("ada").unwrap());
        let name = Name { dir: AgentDir::of(agent), id: SessionId::parse(ID).unwrap() };
        Self { fleet, realm, name, _home: home }
    }

    fn path(&self) -> PathBuf {
        self.realm.store().medium().root().join(self.name.dir.transcript(&self.name.id))
    }

    /// Writes a line as the program does.
    fn write(&self, uuid: &str, parent: Option<&str>) {
        let line = json!({
            "type": "user",
            "uuid": uuid,
            "parentUuid": parent,
            "sessionId": ID,
            "cwd": "/work",
            "timestamp": "2026-01-01T00:00:00.000Z",
            "message": { "role": "user", "content": uuid },
        });
        std::fs::create_dir_all(self.path().parent().unwrap()).unwrap();
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(self.path()).unwrap();
        file.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// Begins a session of our own, and tells which.
    async fn begin(&self) -> SessionId {
        let key = Key::new("main", "web", None, "test").unwrap();
        let session = self.realm.store().create(&key, None).unwrap();
        let name = Name { dir: AgentDir::of("main"), id: session.id().clone() };
        session.close().unwrap();
        self.fleet.begun(&self.realm, &name, &key, Seen::Anywhere).await.unwrap()
    }

    async fn take(&self) -> Arc<Hold> {
        match self.fleet.take(&self.realm, &self.name).await.unwrap() {
            Taken::Held(hold) => hold,
            Taken::Elsewhere(elsewhere) => panic!("{elsewhere:?}"),
        }
    }

    fn lines(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path()).unwrap();
        let uuid =
            |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["uuid"].as_str().map(str::to_owned);
        text.lines().filter_map(uuid).collect()
    }
}

#[tokio::test]
async fn lines_behind_the_last_turn_are_sent_before_a_session_is_given_back() {
    let remote: Arc<dyn Remote> = Arc::new(Memory::default().remote());
    let (first, second) = (Machine::new(&remote, CLAUDE_AGENT), Machine::new(&remote, CLAUDE_AGENT));
    first.write("a", None);
    let hold = first.take().await;
    hold.push().await.unwrap();
    assert!(!hold.parcel().is_marked());
    first.write("b", Some("a"));
    hold.release().await;
    second.take().await;
    assert_eq!(second.lines(), ["a", "b"]);
}

#[tokio::test]
async fn a_session_of_another_program_that_went_two_ways_is_one_again() {
    let remote: Arc<dyn Remote> = Arc::new(Memory::default().remote());
    let (first, second) = (Machine::new(&remote, CLAUDE_AGENT), Machine::new(&remote, CLAUDE_AGENT));
    first.write("a", None);
    first.take().await.release().await;
    first.write("here", Some("a"));
    let hold = second.take().await;
    second.write("there", Some("a"));
    hold.release().await;
    let hold = first.take().await;
    assert_eq!(first.lines(), ["a", "there", "here"]);
    hold.release().await;
    let hold = second.take().await;
    assert_eq!(second.lines(), ["a", "there", "here"]);

    // The same of what was left behind and is found later.
    hold.release().await;
    let hold = first.take().await;
    first.write("later", Some("there"));
    hold.release().await;
    second.write("beside", Some("here"));
    let outbox = Outbox::new(second.realm.store().medium().clone(), "elsewhere");
    outbox.add(&second.name.dir, &second.name.id, 1).unwrap();
    // Not while another server has it: that one would be told that it lost the session.
    let hold = first.take().await;
    second.fleet.send_left(&second.realm, |_| false).await.unwrap();
    assert_eq!(second.lines(), ["a", "there", "here", "beside"]);
    hold.release().await;
    second.fleet.send_left(&second.realm, |_| false).await.unwrap();
    assert_eq!(second.lines(), ["a", "there", "here", "later", "beside"]);
    assert!(!second.fleet.is_behind(second.realm.store()));
    first.take().await;
    assert_eq!(first.lines(), second.lines());
}

#[tokio::test]
async fn a_key_of_another_programs_session_without_a_word_leads_to_it_only_where_it_was_begun() {
    let remote: Arc<dyn Remote> = Arc::new(Memory::default().remote());
    let (first, second) = (Machine::new(&remote, CLAUDE_AGENT), Machine::new(&remote, CLAUDE_AGENT));
    let key = Key::new(CLAUDE_AGENT, "code", None, "test").unwrap();
    assert_eq!(first.fleet.begun(&first.realm, &first.name, &key, Seen::At(None)).await.unwrap(), first.name.id);
    let here = Some((first.name.id.clone(), Some(1)));
    assert_eq!(first.fleet.current(&first.realm, &key, here).await.unwrap().0, Some(first.name.id.clone()));
    let (found, seen) = second.fleet.current(&second.realm, &key, None).await.unwrap();
    assert_eq!(found, None);
    // Nothing was ever said in it, so nobody misses it; also if the other's clock was ahead.
    let ahead = Pointer { session: first.name.id.clone(), created_ms: i64::from(u32::MAX) * 1000 };
    sync::point(remote.as_ref(), &second.fleet.tenant(&second.realm), &key, &ahead).await.unwrap();
    let name = Name { id: SessionId::parse("0199a8e5-6f5e-7d2a-9f43-1c8f1b6f0a22").unwrap(), ..second.name.clone() };
    assert_eq!(second.fleet.begun(&second.realm, &name, &key, seen).await.unwrap(), name.id);
}

#[tokio::test(flavor = "multi_thread")]
async fn f1_one_new_key_at_two_servers_is_one_conversation() {
    let remote: Arc<dyn Remote> = Arc::new(Memory::default().remote());
    let servers = [Machine::new(&remote, "main"), Machine::new(&remote, "main")];
    let begin = async |server: &Machine, key: &Key| {
        // Both look before either begins.
        let (found, seen) = server.fleet.current(&server.realm, key, None).await.unwrap();
        let session = server.realm.store().create(key, None).unwrap();
        let name = Name { dir: AgentDir::of("main"), id: session.id().clone() };
        session.close().unwrap();
        let led = match found {
            Some(found) => found,
            None => server.fleet.begun(&server.realm, &name, key, seen).await.unwrap(),
        };
        if led != name.id {
            server.fleet.discard(&server.realm, &name).await.unwrap();
        }
        led
    };
    for number in 0..200 {
        let key = Key::new("main", "web", None, &number.to_string()).unwrap();
        let [first, second] = &servers;
        let (one, other) = tokio::join!(begin(first, &key), begin(second, &key));
        assert_eq!(one, other, "{key}");
        for server in &servers {
            let here = server.realm.catalog().last_used(&key, &mut |_, _| {}).unwrap().value;
            let here = here.and_then(|entry| Some((SessionId::parse(&entry.row.id)?, entry.row.created_ms)));
            let (found, _) = server.fleet.current(&server.realm, &key, here).await.unwrap();
            assert_eq!(found.as_ref(), Some(&one), "{key}");
        }
    }
}

/// A remote that hands lines out when it is told to, and those of sessions not at all as long as it is told so.
#[derive(Debug)]
struct Reluctant {
    to: Arc<dyn Remote>,
    gate: tokio::sync::Semaphore,
    is_away: std::sync::atomic::AtomicBool,
}

impl Reluctant {
    fn new(to: Arc<dyn Remote>, permits: usize, is_away: bool) -> Arc<Self> {
        Arc::new(Self { to, gate: tokio::sync::Semaphore::new(permits), is_away: is_away.into() })
    }
}

impl Remote for Reluctant {
    fn frontier<'a>(&'a self, stream: &'a Stream) -> BoxFuture<'a, Result<Frontier, Error>> {
        self.to.frontier(stream)
    }

    fn append<'a>(
        &'a self,
        stream: &'a Stream,
        after: &'a Frontier,
        lines: &'a [Bytes],
    ) -> BoxFuture<'a, Result<Frontier, Error>> {
        self.to.append(stream, after, lines)
    }

    fn read<'a>(&'a self, stream: &'a Stream, from: u64) -> BoxFuture<'a, Result<Page, Error>> {
        Box::pin(async move {
            drop(self.gate.acquire().await.unwrap());
            match stream.side().is_empty() && self.is_away.load(std::sync::atomic::Ordering::SeqCst) {
                true => Err(Error::Unavailable { place: "it".to_owned(), reason: "away".to_owned(), wait: None }),
                false => self.to.read(stream, from).await,
            }
        })
    }

    fn list<'a>(&'a self, prefix: &'a Prefix, cursor: Option<&'a str>) -> BoxFuture<'a, Result<Listing, Error>> {
        self.to.list(prefix, cursor)
    }

    fn delete<'a>(&'a self, stream: &'a Stream) -> BoxFuture<'a, Result<(), Error>> {
        self.to.delete(stream)
    }
}

#[tokio::test]
async fn a_session_that_two_ask_for_at_once_is_fetched_for_both() {
    let remote: Arc<dyn Remote> = Arc::new(Memory::default().remote());
    let id = Machine::new(&remote, "main").begin().await;
    let reluctant = Reluctant::new(remote, 0, false);
    let served: Arc<dyn Remote> = reluctant.clone();
    let second = Machine::new(&served, "main");
    let agents = ["main".to_owned()];
    let fetch = || second.fleet.fetch(&second.realm, &agents, &id);
    // They are begun in this order, each as far as it comes.
    let (one, other, ()) = tokio::join!(fetch(), fetch(), async { reluctant.gate.add_permits(1) });
    assert_eq!((one, other), (Ok(()), Ok(())));
}

/// A clock that stands still, long ago.
#[derive(Debug)]
struct LongAgo;

impl unforget_core::stamp::Source for LongAgo {
    fn now_ms(&self) -> i64 {
        1_000_000_000_000
    }

    fn new_id(&self, created_ms: i64) -> SessionId {
        System.new_id(created_ms)
    }
}

#[tokio::test]
async fn a_takeover_that_failed_half_way_is_not_taken_for_one_that_was_not_needed() {
    let remote: Arc<dyn Remote> = Arc::new(Memory::default().remote());
    let mut died = Machine::at(&remote, "main", Arc::new(LongAgo));
    died.name.id = died.begin().await;
    died.take().await;
    let reluctant = Reluctant::new(remote.clone(), 1, true);
    let served: Arc<dyn Remote> = reluctant.clone();
    let mut second = Machine::new(&served, "main");
    second.name.id = died.name.id.clone();
    assert!(second.fleet.take(&second.realm, &second.name).await.is_err());
    reluctant.is_away.store(false, std::sync::atomic::Ordering::SeqCst);
    let hold = second.take().await;
    assert!(hold.was_left(), "somebody died, and what it left is still to be seen to");
    let text = std::fs::read_to_string(second.path()).unwrap();
    assert!(text.contains("\"served\""), "{text}");
    // Let go before what was left was seen to: whoever comes next has to know.
    hold.release().await;
    let mut third = Machine::new(&remote, "main");
    third.name.id = died.name.id.clone();
    assert!(matches!(third.fleet.take(&third.realm, &third.name).await, Ok(Taken::Elsewhere(_))));
    let hold = second.take().await;
    assert!(hold.was_left());
    hold.taken_over();
    hold.release().await;
    assert!(!third.take().await.was_left());
}

#[tokio::test]
async fn a_program_that_has_a_session_is_named_and_nobody_is_led_there() {
    let remote: Arc<dyn Remote> = Arc::new(Memory::default().remote());
    let mut server = Machine::new(&remote, "main");
    server.name.id = server.begin().await;
    let stream = server.fleet.stream(&server.realm, &server.name).unwrap();
    let now_ms = unforget_core::stamp::Source::now_ms(&System);
    let hour = Duration::from_secs(3600);
    lease::acquire(remote.as_ref(), &stream, "laptop/4711@home", now_ms, hour).await.unwrap();
    let Err(problem) = server.fleet.take(&server.realm, &server.name).await else { panic!("it is not free") };
    assert_eq!(problem.code, Code::Busy);
    assert!(problem.message.contains("`laptop/4711@home`"), "{problem}");
}
