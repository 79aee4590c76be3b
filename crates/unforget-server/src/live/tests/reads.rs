//! What a turn of a live session reads of its transcript, counted by the medium: nothing, and each
//! viewer what was written, once.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use unforget_agent::model::{BoxFuture, Delta, Event as Said, Model, ModelError, Request, Sink};
use unforget_agent::tools::{Output, Tool};
use unforget_core::Store;
use unforget_core::medium::Os;
use unforget_testkit::counting::{Counting, Reads};
use unforget_testkit::long_past::LongPast;

use super::*;

/// How often a turn calls a tool before it ends.
const CALLS: usize = 5;
/// Each time a file is opened, its beginning is looked at.
const HEAD: u64 = 32;

/// A model that calls a tool some times in each turn.
#[derive(Default)]
struct Caller(AtomicUsize);

impl Model for Caller {
    fn name(&self) -> &str {
        "caller"
    }

    fn window(&self) -> u64 {
        40_000
    }

    fn respond<'a>(&'a self, _: &'a Request<'a>, sink: Sink<'a>) -> BoxFuture<'a, std::result::Result<(), ModelError>> {
        let asked = self.0.fetch_add(1, Ordering::Relaxed);
        sink(Said::Started { id: "msg".to_owned(), model: "caller".to_owned(), usage: "{}".to_owned() });
        let is_last = asked % (CALLS + 1) == CALLS;
        if is_last {
            sink(Said::BlockStarted { index: 0, block: "{\"type\":\"text\",\"text\":\"\"}".to_owned() });
            sink(Said::Delta { index: 0, delta: Delta::Text("an answer ".repeat(500)) });
        } else {
            let block = format!("{{\"type\":\"tool_use\",\"id\":\"toolu_{asked}\",\"name\":\"echo\",\"input\":{{}}}}");
            sink(Said::BlockStarted { index: 0, block });
        }
        sink(Said::BlockEnded { index: 0 });
        let stop_reason = Some(if is_last { "end_turn" } else { "tool_use" }.to_owned());
        sink(Said::Ended { stop_reason, usage: "{}".to_owned() });
        Box::pin(std::future::ready(Ok(())))
    }

    fn count<'a>(&'a self, _: &'a Request<'a>) -> BoxFuture<'a, std::result::Result<u64, ModelError>> {
        Box::pin(std::future::ready(Ok(0)))
    }
}

struct Echo;

impl Tool for Echo {
    fn name(&self) -> &'static str {
        "echo"
    }

    fn description(&self) -> &'static str {
        "Says something."
    }

    fn schema(&self) -> &'static str {
        "{\"type\":\"object\"}"
    }

    fn asks_first(&self) -> bool {
        false
    }

    fn run<'a>(&'a self, _: &'a Value, _: &'a CancellationToken) -> BoxFuture<'a, Output> {
        Box::pin(std::future::ready(Output::ok("so it is ".repeat(300))))
    }
}

/// A live session with so much in its past, and what counts the reads of its transcript.
struct Long {
    live: Arc<Live>,
    counting: Counting,
    path: std::path::PathBuf,
    _home: tempfile::TempDir,
}

impl Long {
    fn new(past: u64) -> Self {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().to_path_buf();
        let plain = Store::builder(&root).without_index().open().unwrap();
        let session = plain.create(&Key::new("main", "web", None, "a").unwrap(), None).unwrap();
        let name = Name { dir: unforget_core::layout::AgentDir::of("main"), id: session.id().clone() };
        let path = session.path().to_owned();
        drop(session);
        let counting = Counting::new(LongPast::new(Os::new(&root), &path, past).unwrap());
        let store = Store::builder(&root).medium(Arc::new(counting.clone())).open().unwrap();
        let realm = Arc::new(Realm::on(ActorId::verified("ada").unwrap(), root.clone(), store));
        let (ledger, _) = Ledger::open(&root).unwrap();
        let activity = Arc::new(Activity::new(Arc::new(System)));
        let shared = Arc::new(Shared::new(Limits::default(), ledger, Vec::new(), activity, None));
        let agent = Arc::new(Native {
            name: "main".to_owned(),
            model: Arc::new(Caller::default()),
            settings: Arc::new(Settings::default()),
            tools: Arc::new(|_, _| Ok(Toolbox::new(vec![Box::new(Echo)]))),
        });
        let live = Arc::new(Live::new(name, realm, agent, shared));
        live.load().unwrap();
        Self { live, counting, path, _home: home }
    }

    fn len(&self) -> u64 {
        self.live.reader().unwrap().unwrap().len()
    }

    /// Runs a turn; what it wrote, what was read meanwhile, and how often a file was opened for it.
    async fn turn(&self, name: &str) -> (u64, Reads, u64) {
        let before = self.len();
        self.counting.forget();
        let opened = self.counting.opened();
        self.live.prompt(id(name), "do it".to_owned(), true, None).await.unwrap();
        self.live.quiet().await;
        let (read, opened) = (self.counting.reads_of(&self.path), self.counting.opened() - opened);
        (self.len() - before, read, opened)
    }
}

/// Hears everything until a turn is done; the records among it.
async fn hear(viewer: &mut Viewer) -> usize {
    let mut records = 0;
    loop {
        match viewer.next().await.unwrap() {
            Told::Line(_) => records += 1,
            Told::Event(Event::Done(_)) => return records,
            Told::CaughtUp(_) | Told::Event(_) => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_reads_nothing_of_its_transcript_and_a_viewer_each_line_once() {
    for past in [0, 1 << 30] {
        let long = Long::new(past);
        let running = tokio::spawn(task::run(long.live.clone()));
        // The first one opens the transcript.
        long.turn("c1").await;
        let (written, read, _) = long.turn("c2").await;
        assert!(written > 15_000, "{past}: {written}");
        assert_eq!(read, Reads::default(), "{past}: nobody watches");
        let (_, mut viewer) = long.live.attach(After::End).unwrap();
        let hearing = tokio::spawn(async move { (hear(&mut viewer).await, viewer) });
        let (written, ..) = long.turn("c3").await;
        let (records, viewer) = hearing.await.unwrap();
        assert_eq!(records, 1 + 3 * CALLS + 2, "{past}: words, calls with turns and results, an answer");
        let read = long.counting.reads_of(&long.path);
        assert!(read.bytes >= written, "{past}: {read:?} of {written}");
        assert!(read.bytes - written <= records as u64 * HEAD, "{past}: {read:?} of {written}");
        assert!(read.again <= records as u64 * HEAD, "{past}: {read:?}");
        drop(viewer);
        long.live.end(Problem::new(Code::Unavailable, "the test is over"));
        running.await.unwrap();
    }
}
