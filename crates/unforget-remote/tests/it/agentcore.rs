//! AgentCore Memory, against the strict stand-in: the suite, the faults, the rates, the races that tokens do not stop.
#![allow(clippy::unwrap_used, reason = "tests may fail loudly")]

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use serde_json::json;
use unforget_core::frontier::Frontier;
use unforget_remote::agentcore::{AgentCore, Clock, Rates, Settings, SystemClock, Texts};
use unforget_remote::{BoxFuture, Error, Key, Packed, Prefix, Remote as _, Stream, conformance};
use unforget_testkit::agentcore::{FakeMemory, Fault, Keys, Operation, Options, Rates as Limits};

mod hostile;

const SECRET: [u8; 32] = [7; 32];
const DAY: u64 = 24 * 3600;
const REGION: &str = "eu-central-1";

fn keys() -> Keys {
    Keys { access: "AKIDEXAMPLE".to_owned(), secret: "s3cret".to_owned(), region: REGION.to_owned() }
}

/// A server that checks signatures.
fn server() -> FakeMemory {
    FakeMemory::start(Options { keys: Some(keys()), ..Options::default() }).unwrap()
}

fn settings(server: &FakeMemory) -> Settings {
    let values = [
        ("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"),
        ("AWS_SECRET_ACCESS_KEY", "s3cret"),
        ("AWS_EC2_METADATA_DISABLED", "true"),
        ("AWS_REGION", REGION),
        ("AWS_ENDPOINT_URL_BEDROCK_AGENTCORE", &server.url()),
    ];
    let environment = values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let memory = server.memory("notes", 30);
    let found = Settings::find(Some(&memory), environment, None, Texts::default()).unwrap();
    Settings { rates: None, ..found }
}

fn client(server: &FakeMemory) -> Packed<AgentCore> {
    AgentCore::new(&settings(server)).unwrap().remote()
}

fn client_at(server: &FakeMemory, clock: Arc<dyn Clock>) -> Packed<AgentCore> {
    AgentCore::with_clock(&settings(server), clock).unwrap().remote()
}

fn stream(session: &str) -> Stream {
    Stream::new("tenant", "main", session).unwrap()
}

fn lines(texts: &[&str]) -> Vec<Bytes> {
    texts.iter().map(|text| Bytes::copy_from_slice(text.as_bytes())).collect()
}

/// A clock that only sleepers and tests move.
#[derive(Debug, Clone)]
struct Hands(Arc<AtomicU64>);

impl Hands {
    fn new() -> Self {
        Self(Arc::new(AtomicU64::new(1_800_000_000_000)))
    }

    fn advance(&self, time: Duration) {
        self.0.fetch_add(time.as_millis() as u64, Ordering::SeqCst);
    }

    /// A server that has the same clock, and therefore looks at no signature.
    fn server(&self, options: Options) -> FakeMemory {
        let hands = self.clone();
        FakeMemory::start(Options { keys: None, clock: Arc::new(move || hands.now()), ..options }).unwrap()
    }
}

impl Clock for Hands {
    fn now(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::SeqCst))
    }

    fn sleep(&self, pause: Duration) -> BoxFuture<'_, ()> {
        self.advance(pause);
        Box::pin(std::future::ready(()))
    }
}

/// A clock that is always an hour behind.
#[derive(Debug)]
struct Late;

impl Clock for Late {
    fn now(&self) -> Duration {
        SystemClock.now() - Duration::from_secs(3600)
    }

    fn sleep(&self, pause: Duration) -> BoxFuture<'_, ()> {
        Box::pin(tokio::time::sleep(pause))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn agentcore_keeps_every_promise() {
    let server = server();
    conformance::all(&client(&server), &client(&server), "tenant").await;
    let refused = server.requests().into_iter().filter(|request| request.status == Some(400));
    let reasons: Vec<_> = refused.filter(|request| request.operation != Some(Operation::CreateEvent)).collect();
    assert!(reasons.is_empty(), "only tokens are ever refused: {reasons:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn agentcore_keeps_every_promise_when_sealed() {
    let server = server();
    let client = || client(&server).sealed(Some(Key::new(&SECRET)));
    conformance::all(&client(), &client(), "tenant").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_depends_on_how_long_tokens_are_remembered() {
    let options = Options { keys: Some(keys()), tokens: Duration::ZERO, ..Options::default() };
    let server = FakeMemory::start(options).unwrap();
    let (first, second) = (client(&server), client(&server));
    conformance::an_append_elsewhere_is_a_conflict_and_changes_nothing(&first, &second, "tenant").await;
    conformance::a_repeated_append_changes_nothing(&first, &second, "tenant").await;
    conformance::what_is_deleted_is_gone(&first, &second, "tenant").await;
    conformance::a_writer_that_slept_through_a_deletion_is_refused(&first, &second, "tenant").await;
    for round in 0..5 {
        conformance::of_many_writers_at_one_position_one_wins(&first, &second, &format!("tenant-{round}")).await;
    }
}

#[tokio::test]
async fn the_documented_rates_are_kept() {
    let hands = Hands::new();
    let server = hands.server(Options { rates: Limits::Documented, ..Options::default() });
    let paced = Settings { rates: Some(Rates::default()), ..settings(&server) };
    let remote = AgentCore::with_clock(&paced, Arc::new(hands.clone())).unwrap().remote();
    let began = hands.now();
    let (stream, mut end) = (stream("busy"), Frontier::default());
    for number in 0..31 {
        end = remote.append(&stream, &end, &lines(&[&format!("{number}")])).await.unwrap();
    }
    assert!(hands.now() - began >= Duration::from_secs(3), "ten events a second");
    assert_eq!(conformance::read_all(&remote, &stream, 0).await.len(), 31);
    let before = hands.now();
    remote.delete(&stream).await.unwrap();
    assert!(hands.now() - before >= Duration::from_secs(6), "five deletions a second");
    assert!(server.requests().iter().all(|request| request.status != Some(429)));
    assert!(server.events().is_empty());
}

#[tokio::test]
async fn r14_what_passes_is_tried_again_and_the_order_is_kept() {
    let server = server();
    let remote = client(&server);
    let (stream, mut end) = (stream("faults"), Frontier::default());
    let operations = [Operation::CreateEvent, Operation::ListEvents, Operation::GetEvent, Operation::DeleteEvent];
    let faults = [Fault::throttled(), Fault::conflict(), Fault::broken(), Fault::CutBefore, Fault::CutAfter];
    for (number, fault) in faults.iter().enumerate() {
        for operation in operations {
            server.fail(operation, fault.clone(), 1);
        }
        end = remote.append(&stream, &end, &lines(&[&format!("{number}"), "more"])).await.unwrap();
        let read = conformance::read_all(&client(&server), &stream, 0).await;
        assert_eq!(read.len(), 2 * (number + 1), "{fault:?}");
        assert_eq!(read[2 * number], format!("{number}"));
        let other = self::stream("other");
        remote.append(&other, &Frontier::default(), &lines(&["x"])).await.unwrap();
        remote.delete(&other).await.unwrap();
    }
    assert_eq!(server.planned(), 0, "each fault happened");
    let left = server.events().len();
    assert_eq!(left, faults.len(), "nothing is there twice");
}

#[tokio::test]
async fn r14_a_part_that_is_throttled_is_sent_again_and_only_it() {
    let server = server();
    let remote = client(&server);
    let mut state = 88_172_645_463_325_252_u64;
    let noise: Bytes = (0..8_000_000)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            if state as u8 == b'\n' { 0 } else { state as u8 }
        })
        .collect();
    server.fail(Operation::CreateEvent, Fault::throttled(), 2);
    remote.append(&stream("large"), &Frontier::default(), std::slice::from_ref(&noise)).await.unwrap();
    let read = conformance::read_all(&client(&server), &stream("large"), 0).await;
    assert!(read == [noise]);
    let sizes = server.events().into_iter().map(|event| json!(event.payload).to_string().len());
    assert!(sizes.clone().all(|size| size < 10_000_000));
    assert_eq!(server.planned(), 0);
    assert_eq!(server.events().len(), 3, "two parts, and the segment that names them");
    remote.delete(&stream("large")).await.unwrap();
    assert!(server.events().is_empty(), "parts are deleted as well");
}

#[tokio::test]
async fn r04_a_lost_answer_makes_no_duplicate() {
    let server = server();
    for (name, fault) in [("after", Fault::CutAfter), ("before", Fault::CutBefore)] {
        server.fail(Operation::CreateEvent, fault, 1);
        let remote = client(&server);
        let end = remote.append(&stream(name), &Frontier::default(), &lines(&["one", "two"])).await.unwrap();
        assert_eq!(end.lines, 2);
        assert_eq!(conformance::read_all(&remote, &stream(name), 0).await, lines(&["one", "two"]));
    }
    assert_eq!(server.events().len(), 2);
}

#[tokio::test]
async fn r05_pages_are_followed_to_the_end() {
    let server = server();
    let remote = client(&server);
    let (stream, mut end, mut written) = (stream("pages"), Frontier::default(), Vec::new());
    for number in 1..=1000_u32 {
        let line = lines(&[&format!("{{\"n\":{number}}}")]);
        end = remote.append(&stream, &end, &line).await.unwrap();
        written.extend(line);
        if [99, 100, 101, 1000].contains(&number) {
            let fresh = client(&server);
            assert_eq!(fresh.frontier(&stream).await.unwrap(), end);
            let lists = server.count(Operation::ListEvents);
            assert_eq!(conformance::read_all(&fresh, &stream, 0).await, written, "{number} events");
            let lists = server.count(Operation::ListEvents) - lists;
            assert!(lists <= 6 + number as usize / 100, "{lists} lists for {number} events");
        }
    }
    remote.delete(&stream).await.unwrap();
    assert!(server.events().is_empty(), "a deletion follows the pages, too");
}

#[tokio::test]
async fn r06_and_r19_clocks_that_disagree_change_no_order() {
    let server = server();
    let (right, late) = (client(&server), client_at(&server, Arc::new(Late)));
    let (stream, mut end, mut written) = (stream("clocks"), Frontier::default(), Vec::new());
    for number in 0..12 {
        let remote = if number % 3 == 0 { &right } else { &late };
        let line = lines(&[&format!("{number}")]);
        end = remote.append(&stream, &end, &line).await.unwrap();
        written.extend(line);
    }
    assert_eq!(conformance::read_all(&client(&server), &stream, 0).await, written);
    // The server has them in the order of their times.
    let said = server.events().into_iter().map(|event| event.metadata["unforget"].string_value.clone());
    let firsts: Vec<String> = said.filter_map(|said| said.split(' ').nth(2).map(str::to_owned)).collect();
    assert_eq!(firsts, (0..12).map(|first| first.to_string()).collect::<Vec<_>>(), "times grow with every event");
}

#[tokio::test]
async fn r08_a_filter_that_lags_hides_nothing() {
    let options = Options { keys: Some(keys()), filter_lag: Duration::from_secs(DAY), ..Options::default() };
    let server = FakeMemory::start(options).unwrap();
    let stream = stream("fresh");
    client(&server).append(&stream, &Frontier::default(), &lines(&["one"])).await.unwrap();
    let other = client(&server);
    assert_eq!(conformance::read_all(&other, &stream, 0).await, lines(&["one"]));
    assert_eq!(other.list(&Prefix::tenant("tenant").unwrap(), None).await.unwrap().streams, [stream]);
    assert!(server.requests().iter().all(|request| request.body.get("filter").is_none()), "nobody filters");
}

#[tokio::test]
async fn r18_a_beginning_that_expired_is_missed() {
    let hands = Hands::new();
    let server = hands.server(Options::default());
    let settings = settings(&server);
    server.memory("notes", 7);
    let remote = AgentCore::with_clock(&settings, Arc::new(hands.clone())).unwrap().remote();
    let stream = stream("old");
    let one = remote.append(&stream, &Frontier::default(), &lines(&["one"])).await.unwrap();
    hands.advance(Duration::from_secs(4 * DAY));
    let two = remote.append(&stream, &one, &lines(&["two"])).await.unwrap();
    assert_eq!(conformance::read_all(&remote, &stream, 0).await.len(), 2);
    hands.advance(Duration::from_secs(4 * DAY));
    for remote in [&remote, &AgentCore::with_clock(&settings, Arc::new(hands.clone())).unwrap().remote()] {
        let answer = remote.read(&stream, 0).await;
        assert!(matches!(&answer, Err(Error::Corrupt { reason, .. }) if reason.contains("expired")), "{answer:?}");
        assert_eq!(remote.read(&stream, 1).await.unwrap().lines, lines(&["two"]));
        assert_eq!(remote.frontier(&stream).await.unwrap(), two);
    }
    assert_eq!(remote.append(&stream, &two, &lines(&["three"])).await.unwrap().lines, 3);
}

#[tokio::test]
async fn r19_a_clock_that_is_wrong_is_named() {
    let clock = || SystemTime::UNIX_EPOCH.elapsed().unwrap() + Duration::from_secs(20 * 60);
    let options = Options { keys: Some(keys()), clock: Arc::new(clock), ..Options::default() };
    let server = FakeMemory::start(options).unwrap();
    let answer = client(&server).frontier(&stream("any")).await;
    assert!(matches!(&answer, Err(Error::Denied { reason, .. }) if reason.contains("clock")), "{answer:?}");
}

#[tokio::test]
async fn r02_what_could_not_be_asked_is_never_not_there() {
    let server = server();
    let right = settings(&server);
    let with = |name: &str, value: &str| {
        let mut environment: HashMap<String, String> = right.environment.clone();
        environment.insert(name.to_owned(), value.to_owned());
        AgentCore::new(&Settings { environment, ..right.clone() }).unwrap().remote()
    };
    let other = Settings { memory: "other-aaaaaaaaaa".to_owned(), ..right.clone() };
    let nowhere = Settings { endpoint: Some("http://127.0.0.1:9".to_owned()), ..right.clone() };
    let frontier = async |remote: Packed<AgentCore>| remote.frontier(&stream("any")).await.unwrap_err();
    let error = frontier(with("AWS_SECRET_ACCESS_KEY", "wrong")).await;
    assert!(matches!(&error, Error::Denied { .. }) && !error.to_string().contains("wrong"), "{error}");
    let error = frontier(with("AWS_ACCESS_KEY_ID", "AKIDOTHER")).await;
    assert!(matches!(error, Error::Denied { .. }), "{error}");
    let error = frontier(AgentCore::new(&other).unwrap().remote()).await;
    assert!(matches!(error, Error::Denied { .. }), "{error}");
    let error = frontier(AgentCore::new(&nowhere).unwrap().remote()).await;
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    server.fail(Operation::ListEvents, Fault::Answer { status: 200, body: "<html>welcome</html>".to_owned() }, 9);
    let error = frontier(client(&server)).await;
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
}

#[tokio::test]
async fn r09_a_zombie_is_refused_when_no_token_is_remembered() {
    let server = server();
    let (zombie, other) = (client(&server), client_at(&server, Arc::new(Late)));
    let stream = stream("zombie");
    let early = zombie.append(&stream, &Frontier::default(), &lines(&["one"])).await.unwrap();
    let late = other.append(&stream, &early, &lines(&["two"])).await.unwrap();
    server.forget_tokens();
    let answer = zombie.append(&stream, &early, &lines(&["mine"])).await;
    assert!(matches!(answer, Err(Error::Conflict { found }) if found == late), "{answer:?}");
    assert_eq!(server.events().len(), 2, "the zombie took its event back");
    assert_eq!(conformance::read_all(&other, &stream, 0).await, lines(&["one", "two"]));
}

#[tokio::test]
async fn r09_a_zombie_with_a_slow_clock_does_not_push_out_what_was_acknowledged() {
    let server = server();
    let (zombie, other) = (client_at(&server, Arc::new(Late)), client(&server));
    let stream = stream("slow");
    let early = zombie.append(&stream, &Frontier::default(), &lines(&["one"])).await.unwrap();
    let late = other.append(&stream, &early, &lines(&["two"])).await.unwrap();
    server.forget_tokens();
    // Its event would be the older one of the two.
    let answer = zombie.append(&stream, &early, &lines(&["mine"])).await;
    assert!(matches!(answer, Err(Error::Conflict { found }) if found == late), "{answer:?}");
    assert_eq!(conformance::read_all(&other, &stream, 0).await, lines(&["one", "two"]));
    assert_eq!(server.events().len(), 2);
}

#[tokio::test]
async fn r21_what_was_altered_is_refused() {
    let server = server();
    let remote = client(&server);
    let changes: [(&str, &str); 3] = [("payload", "AAAA"), ("head", "AAAA"), ("said", "1 segment 0 9 -")];
    for (what, text) in changes {
        let stream = stream(what);
        remote.append(&stream, &Frontier::default(), &lines(&["one", "two"])).await.unwrap();
        let id = server.events().into_iter().map(|event| event.event_id).max().unwrap();
        server.tamper(&id, |mut event| {
            let mut value = json!(event);
            match what {
                "payload" => value["payload"][1]["blob"] = json!(text),
                "head" => value["metadata"]["head0"]["stringValue"] = json!(text),
                _ => value["metadata"]["unforget"]["stringValue"] = json!(text),
            }
            event = serde_json::from_value(value).unwrap();
            Some(event)
        });
        let answer = client(&server).read(&stream, 0).await;
        assert!(matches!(answer, Err(Error::Corrupt { .. })), "{what}: {answer:?}");
    }
}

#[tokio::test]
async fn a_deletion_that_was_cut_short_leaves_no_shorter_history() {
    let server = server();
    let remote = client(&server);
    let (stream, mut end) = (stream("half"), Frontier::default());
    // More than a page has.
    for number in 0..120 {
        end = remote.append(&stream, &end, &lines(&[&format!("{number}")])).await.unwrap();
    }
    server.fail(Operation::DeleteEvent, Fault::CutAfter, 1);
    server.fail(Operation::DeleteEvent, Fault::Error { status: 403, name: "AccessDeniedException".to_owned() }, 1);
    assert!(matches!(remote.delete(&stream).await, Err(Error::Denied { .. })));
    let other = client(&server);
    assert_eq!(other.frontier(&stream).await.unwrap(), end);
    assert!(matches!(other.read(&stream, 0).await, Err(Error::Corrupt { .. })));
    remote.delete(&stream).await.unwrap();
    assert!(matches!(other.frontier(&stream).await, Err(Error::NotFound { .. })));
    assert!(server.events().is_empty());
}

#[tokio::test]
async fn strangers_events_in_a_session_are_passed_over() {
    let server = FakeMemory::start(Options::default()).unwrap();
    let remote = client(&server);
    let stream = stream("shared");
    let end = remote.append(&stream, &Frontier::default(), &lines(&["one"])).await.unwrap();
    let mine = server.events().remove(0);
    // Somebody says something in the same session, and dates it into the future.
    let body = json!({
        "actorId": mine.actor_id, "sessionId": mine.session_id, "eventTimestamp": 4_000_000_000_u64,
        "payload": [{"conversational": {"role": "USER", "content": {"text": "hello"}}}],
    });
    let address = format!("{}/memories/{}/events", server.url(), mine.memory_id);
    let answer = reqwest::Client::new().post(address).body(body.to_string()).send().await.unwrap();
    assert_eq!(answer.status(), 201);
    assert_eq!(remote.append(&stream, &end, &lines(&["two"])).await.unwrap().lines, 2);
    assert_eq!(conformance::read_all(&client(&server), &stream, 0).await, lines(&["one", "two"]));
}
