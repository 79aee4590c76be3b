//! Three servers, one PostgreSQL: a session is served by one of them at a time, and survives each of them.

use std::time::{Duration, Instant};

use serde_json::Value;
use unforget_testkit::api::{FakeApi, Reply};
use unforget_testkit::servers::postgres::shared;
use unforget_testkit::serving::fleet::{self, Options};
use unforget_testkit::serving::{Heard, Server, Transcript, plant_cluster_key, until};

use super::{PATIENCE, Person, serve, session, told, transcript};
use crate::scene::Scene;
use crate::support::files;

/// Leases, in seconds: one that ends in the test, and not because the machine stood still for a moment; and one that does not end.
const SHORT: u32 = 6;
const LONG: u32 = 600;

/// Machines that share a remote and a model.
struct Fleet {
    machines: Vec<Scene>,
    remote: String,
}

impl Fleet {
    fn new(schema: &str, count: usize) -> Self {
        let first = Scene::online();
        let api = first.api().url();
        let mut machines = vec![first];
        while machines.len() < count {
            let scene = Scene::offline().with("ANTHROPIC_BASE_URL", &api);
            machines.push(scene.with("ANTHROPIC_API_KEY", crate::scene::SECRET));
        }
        Self { machines, remote: shared().url(schema) }
    }

    /// A server whose sessions are somebody else's when nothing was heard of it for as many seconds.
    fn start(&self, which: usize, lease: u32) -> Server {
        let lease = format!("lease={lease}");
        let key = plant_cluster_key(&self.machines[which].home.path("home")).unwrap();
        let key = key.to_str().unwrap();
        let more = ["--remote", &self.remote, "--cluster-key", key, "--ack", "remote", "--limit", &lease];
        serve(&self.machines[which], &[&more[..], &["--limit", "linger=1"]].concat())
    }

    /// What the remote has of a session, as a machine sees it that was never there.
    fn remote(&self, id: &str) -> Transcript {
        let stranger = Scene::offline();
        let said = stranger.run(&["pull", "--all", "--remote", &self.remote]);
        assert_eq!(said.code, 0, "{said:?}");
        transcript(&stranger, id)
    }
}

/// Sends a prompt to one server after the other until it is answered.
fn insist(servers: &[&Server], id: &str, name: &str, words: &str) -> Value {
    let deadline = Instant::now() + PATIENCE;
    for server in servers.iter().cycle() {
        assert!(Instant::now() < deadline, "{name} is never answered");
        let mut person = Person::at(&server.url);
        person.prompt(Some(id), name, words);
        loop {
            match person.hear() {
                Heard::Said(message) if message["type"] == "done" && message["client_id"] == name => return message,
                Heard::Said(message) if message["type"] == "error" || message["type"] == "failed" => break,
                Heard::Said(_) => {}
                Heard::Closed(_) => break,
            }
        }
        // Who does not serve it yet would say so a thousand times a second.
        std::thread::sleep(Duration::from_millis(100));
    }
    unreachable!("there is a server")
}

#[test]
fn a_session_is_reached_through_every_server() {
    let fleet = Fleet::new("serve_every", 3);
    let servers = [fleet.start(0, LONG), fleet.start(1, LONG), fleet.start(2, LONG)];
    let mut watcher = Person::at(&servers[0].url);
    watcher.prompt(None, "c0", "hello 0");
    let id = session(&watcher.until_type("done"));
    for (number, server) in servers.iter().enumerate().skip(1) {
        let mut person = Person::at(&server.url);
        let name = format!("c{number}");
        person.prompt(Some(&id), &name, &format!("hello {number}"));
        let done = person.answer(&name);
        assert_eq!((&done["state"], &done["durability"]), (&"done".into(), &"remote".into()), "{done}");
        // Who watches at the holder hears it, too.
        assert_eq!(watcher.answer(&name)["text"], done["text"]);
    }
    let wanted = [
        ("c0", "done", "ECHO(1 messages): hello 0"),
        ("c1", "done", "ECHO(3 messages): hello 1"),
        ("c2", "done", "ECHO(5 messages): hello 2"),
    ];
    assert_eq!(told(&fleet.remote(&id)), wanted);
}

#[test]
fn s09_what_a_dead_server_had_accepted_is_answered_by_another_exactly_once() {
    let fleet = Fleet::new("serve_dead", 3);
    let mut holder = fleet.start(0, SHORT);
    let others = [fleet.start(1, SHORT), fleet.start(2, SHORT)];
    let mut person = Person::at(&holder.url);
    person.prompt(None, "c0", "hello");
    let id = session(&person.until_type("done"));
    insist(&[&others[0]], &id, "c1", "one");
    fleet.machines[0].api().push(Reply::Stall { text: "Once upon".to_owned() });
    // Its client is at another server, which leads to the holder.
    let mut person = Person::at(&others[0].url);
    person.prompt(Some(&id), "c2", "a story");
    person.until_type("delta");
    holder.kill();
    let (heard, code) = person.rest();
    assert_eq!((heard.last().unwrap()["error"]["code"].as_str(), code), (Some("moved"), Some(1012)), "{heard:#?}");
    let done = insist(&[&others[0], &others[1]], &id, "c2", "a story");
    assert_eq!(done["text"], "ECHO(5 messages): a story");
    // The first machine comes back with another address while others serve.
    let back = fleet.start(0, SHORT);
    let done = insist(&[&back], &id, "c3", "and on");
    assert_eq!(done["text"], "ECHO(7 messages): and on");
    let remote = fleet.remote(&id);
    let named: Vec<_> = told(&remote).iter().map(|(name, end, _)| (*name, *end)).collect();
    assert_eq!(named, [("c0", "done"), ("c1", "done"), ("c2", "done"), ("c3", "done")]);
}

#[test]
fn s09_a_server_that_slept_is_refused_and_its_words_are_kept() {
    let fleet = Fleet::new("serve_zombie", 2);
    let (zombie, other) = (fleet.start(0, SHORT), fleet.start(1, SHORT));
    let api = fleet.machines[0].api();
    let mut person = Person::at(&zombie.url);
    person.prompt(None, "c0", "hello");
    let id = session(&person.until_type("done"));
    api.push(Reply::Stall { text: "The zombie says".to_owned() });
    person.prompt(None, "c1", "a story");
    person.until_type("delta");
    zombie.pause();
    let done = insist(&[&other], &id, "c2", "I go on");
    assert_eq!(done["state"], "done");
    zombie.wake();
    api.release();
    // Whoever watched there is told, and led elsewhere.
    let (heard, code) = person.rest();
    assert_eq!(code, Some(1012), "{heard:#?}");
    assert!(heard.iter().any(|message| message["error"]["code"] == "moved"), "{heard:#?}");
    // Its half answer is not in the session, and not lost.
    let home = fleet.machines[0].home.path("home/agents/main/sessions");
    let has_fork = || {
        let names = files(&home);
        let others = names.iter().filter(|name| name.ends_with(".jsonl") && !name.starts_with(&id));
        others.into_iter().any(|name| {
            let text = std::fs::read_to_string(home.join(name)).unwrap_or_default();
            text.contains("The zombie says")
        })
    };
    assert!(until(PATIENCE, has_fork), "{:?}", files(&home));
    let remote = fleet.remote(&id);
    assert!(!remote.prompts.iter().any(|said| said.answer.contains("The zombie says")), "{remote:#?}");
    let named = told(&remote);
    assert_eq!(named.last().map(|(name, end, _)| (*name, *end)), Some(("c2", "done")), "{remote:#?}");
    assert!(remote.taken_over >= 1);
}

#[test]
fn killing_one_of_three_servers_again_and_again_loses_nothing() {
    let api = FakeApi::start(unforget_testkit::api::Options::default()).unwrap();
    // How much is done in a time is the machine's matter: one that stands still gets more of it.
    for (attempt, seconds) in [8, 30, 90].into_iter().enumerate() {
        let folder = tempfile::tempdir().unwrap();
        let report = fleet::run(&Options {
            program: env!("CARGO_BIN_EXE_unforget").into(),
            remote: shared().url(&format!("serve_fleet_{attempt}")),
            api: api.url(),
            folder: folder.path().to_owned(),
            servers: 3,
            sessions: 4,
            clients: 2,
            time: Duration::from_secs(seconds),
            every: Duration::from_millis(1500),
            lease: 1,
            seed: 7,
        });
        let report = report.unwrap();
        assert_eq!(report.violations, Vec::<String>::new(), "{report:#?}");
        // Most of them are answered: a run in which everything was left or given up would prove nothing.
        let is_much = report.done > 20 && report.accepted > 20 && report.skipped.len() * 4 <= report.done;
        if is_much && report.killed + report.paused >= 2 {
            return;
        }
        eprintln!("{report:#?}");
    }
    panic!("too little was done to prove anything");
}
