//! A live session whose task does not run: what its state says at each moment.

use std::sync::Arc;

use futures_util::FutureExt as _;
use unforget_agent::model::offline::Offline;
use unforget_agent::settings::Settings;
use unforget_agent::tools::Toolbox;
use unforget_core::key::Key;
use unforget_core::record::Draft;
use unforget_core::stamp::System;

use super::*;
use crate::activity::Activity;
use crate::actor::ActorId;
use crate::agent::Native;
use crate::ledger::Ledger;
use crate::limits::Limits;
use crate::protocol::{Durability, Outcome, TurnState};
use crate::realm::Realms;

mod reads;

struct Scene {
    live: Arc<Live>,
    _home: tempfile::TempDir,
}

impl Scene {
    async fn new(limits: Limits) -> Self {
        let home = tempfile::tempdir().unwrap();
        let (source, root) = (Arc::new(System), home.path().to_path_buf());
        let (ledger, _) = Ledger::open(&root).unwrap();
        let activity = Arc::new(Activity::new(source.clone()));
        let shared = Arc::new(Shared::new(limits, ledger, Vec::new(), activity, None));
        let agent = Arc::new(Native {
            name: "main".to_owned(),
            model: Arc::new(Offline::new(100_000)),
            settings: Arc::new(Settings::default()),
            tools: Arc::new(|_, _| Ok(Toolbox::new(Vec::new()))),
        });
        let realm = Realms::new(root, source).of(&ActorId::verified("ada").unwrap());
        let name = agent.begin(&realm, &Key::new("main", "web", None, "a").unwrap(), None).await.unwrap();
        let live = Arc::new(Live::new(name, realm, agent, shared));
        live.load().unwrap();
        Self { live, _home: home }
    }

    fn append(&self, drafts: &[Draft]) {
        let (realm, name) = (&self.live.realm, &self.live.name);
        realm.store().open(&realm.entry(&name.id).unwrap()).unwrap().append(drafts).unwrap();
    }
}

fn id(text: &str) -> ClientId {
    ClientId::parse(text).unwrap()
}

#[tokio::test]
async fn whoever_attaches_gets_a_record_or_its_pieces_and_never_both() {
    let scene = Scene::new(Limits::default()).await;
    let live = &scene.live;
    let mut turn = Running::new(None, None, CancellationToken::new());
    turn.partial.push(Partial { block: 0, kind: Kind::Text, text: "half an ans".to_owned() });
    live.lock().turn = Some(turn);
    let deltas = || live.snapshot(&live.lock()).iter().filter(|event| matches!(event, Event::Delta { .. })).count();
    live.publish().unwrap();
    assert_eq!(deltas(), 1, "nothing was written yet");
    scene.append(&[Draft::user("half an answer")]);
    assert_eq!(deltas(), 1, "it cannot be read yet");
    live.publish().unwrap();
    assert_eq!(deltas(), 0);
}

#[tokio::test]
async fn a_prompt_that_is_sent_twice_is_acknowledged_to_nobody_before_it_is_safe() {
    let scene = Scene::new(Limits::default()).await;
    let live = &scene.live;
    let say = || Box::pin(live.prompt(id("c1"), "hello".to_owned(), true, None));
    let (mut first, mut second) = (say(), say());
    assert!(first.as_mut().now_or_never().is_none() && second.as_mut().now_or_never().is_none());
    let Some(Job::Turn(Prompt { saved: Some(saved), .. })) = live.lock().queue.pop_front() else {
        panic!("it is queued once, and somebody waits for its words");
    };
    assert!(live.lock().queue.is_empty());
    // Its words cannot be written: neither of both was taken.
    live.lock().seen.forget(&id("c1"));
    live.lock().saving.clear();
    saved.send(Err(Problem::new(Code::Storage, "the disk is full"))).unwrap();
    assert_eq!(first.await.unwrap_err().code, Code::Storage);
    assert_eq!(second.await.unwrap_err().code, Code::Storage);

    // And again, with room on the disk.
    let (mut first, mut second) = (say(), say());
    assert!(first.as_mut().now_or_never().is_none() && second.as_mut().now_or_never().is_none());
    let Some(Job::Turn(Prompt { saved: Some(saved), .. })) = live.lock().queue.pop_front() else {
        panic!("it is queued again");
    };
    saved.send(Ok(7)).unwrap();
    assert!(!first.await.unwrap().is_duplicate);
    assert!(second.await.unwrap().is_duplicate);
}

#[tokio::test]
async fn who_was_still_reading_when_a_turn_and_all_of_it_ended_is_told() {
    let scene = Scene::new(Limits { events: 8, ..Limits::default() }).await;
    let live = &scene.live;
    scene.append(&[Draft::user("one"), Draft::user("two")]);
    live.publish().unwrap();
    live.lock().turn = Some(Running::new(Some(id("c7")), None, CancellationToken::new()));
    let (attached, mut viewer) = live.attach(After::Line(None)).unwrap();
    assert_eq!(attached.turn, Some(RunningTurn { client_id: Some(id("c7")) }));
    let outcome = Arc::new(Outcome {
        client_id: Some(id("c7")),
        state: TurnState::Done,
        n: 2,
        said: Some(2),
        text: "yes".to_owned(),
        stop_reason: None,
        usage: None,
        durability: Durability::Disk,
    });
    let delta = |text: &str| Event::Delta { block: 0, kind: Kind::Text, text: text.into() };
    {
        let mut state = live.lock();
        ["y", "e", "s"].iter().for_each(|text| live.tell(&state, delta(text)));
        state.turn = None;
        live.tell(&state, Event::Done(outcome.clone()));
    }
    live.end(Problem::new(Code::NotFound, "the session was deleted"));
    let mut told = Vec::new();
    let gone = loop {
        match viewer.next().await {
            Ok(next) => told.extend(next.message().map(|message| serde_json::to_value(message).unwrap())),
            Err(Gone(problem)) => break problem,
        }
    };
    assert_eq!(gone.code, Code::NotFound);
    let kinds: Vec<&str> = told.iter().map(|message| message["type"].as_str().unwrap()).collect();
    assert_eq!(kinds.last(), Some(&"done"), "{told:#?}");
    assert!(kinds.contains(&"caught_up") && !kinds.contains(&"delta"), "{kinds:?}");
}

#[tokio::test]
async fn the_last_prompt_is_found_however_much_came_of_it() {
    let scene = Scene::new(Limits::default()).await;
    scene.append(&[Draft::user("do a lot").text("client_id", "c7")]);
    let n = scene.live.publish().unwrap().next - 1;
    let step = || {
        Draft::new("assistant").raw("content", &format!("[{{\"type\":\"text\",\"text\":\"{}\"}}]", "x".repeat(30_000)))
    };
    for _ in 0..18 {
        scene.append(&(0..10).map(|_| step()).collect::<Vec<_>>());
    }
    scene.live.load().unwrap();
    let state = scene.live.lock();
    assert!(state.published.offset > 5 << 20, "{:?}", state.published);
    let left = Some(Interrupted { n, client_id: Some(id("c7")), is_touched: true });
    assert_eq!(state.interrupted, left);
    assert_eq!(state.seen.get(&id("c7")), Some(Standing::Known(n)));
}

#[tokio::test]
async fn no_prompt_overtakes_one_that_has_to_wait() {
    let scene = Scene::new(Limits::default()).await;
    let live = &scene.live;
    let accepted = |name: &str| crate::ledger::Accepted {
        id: name.to_owned(),
        actor: live.realm.actor().clone(),
        session: live.name.clone(),
        client_id: id(name),
        prompt: name.to_owned(),
        is_attended: true,
    };
    for name in ["c1", "c2", "c3"] {
        assert_eq!(live.recover(&accepted(name)).unwrap(), Recovered::Runs);
    }
    let Some(Job::Turn(Prompt { accepted: Some(first), .. })) = live.lock().queue.pop_front() else {
        panic!("the first is the first");
    };
    task::wait(live, *first, &Problem::new(Code::Busy, "somebody writes it"));
    assert!(live.lock().queue.is_empty());
    let waiting: Vec<String> = live.shared.take_stranded().0.into_iter().map(|kept| kept.id).collect();
    assert_eq!(waiting, ["c1", "c2", "c3"]);
    assert_eq!(live.lock().seen.get(&id("c2")), None);
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "another process writes the file")]
async fn what_a_turn_wrote_is_published_without_a_look_at_the_file() {
    let scene = Scene::new(Limits::default()).await;
    let live = &scene.live;
    let store = live.realm.store();
    let entry = live.realm.entry(&live.name.id).unwrap();
    let path = scene._home.path().join("actors/ada").join(store.path(&entry).unwrap());
    let mut session = store.open(&entry).unwrap();
    live.follow(session.follow());
    session.append(&[Draft::user("one")]).unwrap();
    let (first, end) = (live.publish().unwrap(), session.position());
    assert_eq!((first, first.next), (end, 2));
    // Longer than what was acknowledged: only a look at the file would tell.
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.extend_from_slice(b"not acknowledged\n");
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(live.publish().unwrap(), first);
    drop(session);
    assert!(live.publish().unwrap().offset > first.offset, "a closed session may be written by others");
}
