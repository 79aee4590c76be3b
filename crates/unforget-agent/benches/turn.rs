//! What a turn costs around the call of the model.
//!
//! The model of this bench answers at once, so a turn here is everything else: reading the conversation from the log, building
//! the request, and two appends that wait for the disk. Beside it stand the least that it can cost (two writes of the same
//! bytes, synced or not) and the call alone. They take turns in one process, and their ratio is what can be compared
//! between machines. The length of a session must not matter, only what the model sees of it.
//!
//! ```text
//! cargo bench -p unforget-agent                 everything
//! cargo bench -p unforget-agent -- --quick      fewer rounds
//! ```
//!
//! The start of the program is measured if it was built in the same profile. Nothing here is a test.

#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "the bare limits are plain file operations, the table is the product, and a failure ends the run"
)]

use std::fs::{File, OpenOptions};
use std::future::ready;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;
use unforget_agent::guard::Agent;
use unforget_agent::host::{Answer, Host, Notice};
use unforget_agent::model::assembly::Assembly;
use unforget_agent::model::{BoxFuture, Delta, Event, Model, ModelError, Request, Sink, Thinking};
use unforget_agent::settings::Settings;
use unforget_agent::tools::{Call, Commands, Toolbox, Workspace, standard};
use unforget_agent::turn::{Input, run_turn};
use unforget_core::directory::{Directory, OnMissing};
use unforget_core::key::Key;
use unforget_core::log::Durability;
use unforget_core::medium::Os;
use unforget_core::record::Draft;
use unforget_core::session::Session;
use unforget_core::stamp::System;
use unforget_testkit::generate::{self, Dice};

const WORDS: &str = "What did we decide about the handover of the keys, and who has to be told?";
const ANSWER: &str = "On Thursday, after the review. The list of people is in notes/handover.md.";
/// Large enough that no view of this bench is made smaller.
const WINDOW: u64 = 400_000;
/// What the model sees, in tokens.
const VIEWS: [u64; 3] = [6_000, 40_000, 107_000];
/// Turns before the measurement begins.
const WARM_UP: usize = 3;
/// How many records are appended at a time while a session is prepared.
const BATCH: usize = 300;

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let rounds = if quick { 60 } else { 400 };
    println!("W8  one turn around the model call, {rounds} rounds");
    println!("{:<44} {:>10} {:>10} {:>10} {:>10} {:>7} {:>7}", "", "p50", "p99", "bare p50", "bare p99", "p50", "p99");
    for durability in [Durability::PowerLoss, Durability::ProcessDeath] {
        for size in [10, 1_000, 10_000].map(Size::Records).into_iter().chain(VIEWS.map(Size::Tokens)) {
            Scene::new(size, durability).measure(rounds);
        }
    }
    start_up(rounds.div_ceil(4));
}

/// How long a session is.
#[derive(Clone, Copy)]
enum Size {
    /// So many records, compacted at the end: the model sees little.
    Records(usize),
    /// So many tokens, all of which the model sees.
    Tokens(u64),
}

/// A session, and a bare file that grows by the same bytes.
struct Scene {
    name: String,
    durability: Durability,
    session: Session,
    tools: Toolbox,
    bare: File,
    transcript: PathBuf,
    runtime: Runtime,
    _home: TempDir,
}

impl Scene {
    fn new(size: Size, durability: Durability) -> Self {
        let home = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let (store_folder, work) = (home.path().join("store"), home.path().join("work"));
        std::fs::create_dir_all(&store_folder).unwrap();
        std::fs::create_dir_all(&work).unwrap();
        let key: Key = "main:bench:turn".parse().unwrap();
        let store = |durability| Directory::new(Arc::new(Os::new(&store_folder)), Arc::new(System), durability);
        let mut session = store(Durability::ProcessDeath).create(&key, None).unwrap();
        fill(&mut session, size);
        drop(session);
        let session = store(durability).load(&key, OnMissing::Fail).unwrap();
        let transcript = transcript(&store_folder, session.id().as_str());
        let bare = home.path().join("bare");
        std::fs::copy(&transcript, &bare).unwrap();
        let bare = OpenOptions::new().append(true).open(bare).unwrap();
        bare.sync_all().unwrap();
        let tools = Toolbox::new(standard(
            Workspace::open(&work, &store_folder).unwrap(),
            Commands::default(),
            Arc::new(System),
        ));
        let what = match size {
            Size::Records(count) => format!("{count} records"),
            Size::Tokens(count) => format!("a view of {count} tokens"),
        };
        let how = if durability == Durability::PowerLoss { "durable" } else { "unsynced" };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let name = format!("{how}, {what}");
        Self { name, durability, session, tools, bare, transcript, runtime, _home: home }
    }

    fn measure(&mut self, rounds: usize) {
        for _ in 0..WARM_UP {
            self.turn();
        }
        let before = std::fs::metadata(&self.transcript).unwrap().len();
        self.turn();
        let bytes = std::fs::metadata(&self.transcript).unwrap().len() - before;
        let piece = vec![b'x'; usize::try_from(bytes / 2).unwrap()];
        let (mut ours, mut bare, mut calls) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..rounds {
            ours.push(timed(|| self.turn()));
            bare.push(timed(|| self.write_twice(&piece)));
            calls.push(self.call_alone());
        }
        row(&self.name, &mut ours, &mut bare);
        if self.durability == Durability::ProcessDeath {
            row("    the same turn, against the call alone", &mut ours, &mut calls);
        }
    }

    fn turn(&mut self) {
        let settings = Settings::default();
        let agent = Agent { model: &AtOnce, settings: &settings };
        let abort = CancellationToken::new();
        let mut host = Silent;
        let turn = run_turn(&mut self.session, Input::Words(WORDS), &agent, &self.tools, &mut host, &abort);
        self.runtime.block_on(turn).unwrap();
    }

    /// The two appends of a turn, without any of their promises.
    fn write_twice(&mut self, piece: &[u8]) {
        for _ in 0..2 {
            self.bare.write_all(piece).unwrap();
            if self.durability == Durability::PowerLoss {
                self.bare.sync_data().unwrap();
            }
        }
    }

    /// The call of the model with a conversation that is in memory already.
    fn call_alone(&self) -> Duration {
        let settings = Settings::default();
        let agent = Agent { model: &AtOnce, settings: &settings };
        let history = agent.look(&self.session).unwrap().history;
        timed(|| {
            let request = Request { history: &history, max_tokens: settings.max_tokens, thinking: Thinking::Default };
            let mut assembly = Assembly::default();
            let mut sink = |event| assembly.feed(&event);
            self.runtime.block_on(AtOnce.respond(&request, &mut sink)).unwrap();
            assembly.text()
        })
    }
}

/// Writes a conversation of that size.
fn fill(session: &mut Session, size: Size) {
    let mut dice = Dice::new(8);
    let (mut records, mut tokens) = (1, 0);
    let mut drafts: Vec<Draft> = Vec::new();
    let wanted = |records: usize, tokens: u64| match size {
        Size::Records(most) => records < most,
        Size::Tokens(most) => tokens < most,
    };
    for number in 0.. {
        if !wanted(records, tokens) {
            break;
        }
        let turn = generate::turn(&mut dice, number);
        records += turn.len();
        let said = turn.iter().flat_map(Draft::members).map(|(_, value)| value);
        tokens += said.map(|value| unforget_core::tokens::estimate(value.as_bytes())).sum::<u64>();
        drafts.extend(turn);
        if drafts.len() >= BATCH {
            session.append(&std::mem::take(&mut drafts)).unwrap();
        }
    }
    session.append(&drafts).unwrap();
    if let (Size::Records(_), Some(head)) = (size, session.head()) {
        session.append(&[Draft::compaction("What was said so far.", Some(head))]).unwrap();
    }
}

/// The file of a session.
fn transcript(store: &Path, id: &str) -> PathBuf {
    let found = store.join("agents/main/sessions").join(format!("{id}.jsonl"));
    assert!(found.exists(), "{}", found.display());
    found
}

/// The start of the program to the end of an answer by its built-in model, against a program that does nothing.
fn start_up(rounds: usize) {
    let here = std::env::current_exe().unwrap();
    let Some(program) = here.parent().and_then(Path::parent).map(|folder| folder.join("unforget")) else { return };
    if !program.exists() {
        println!("no {}: build the program in this profile to see how long it takes to start", program.display());
        return;
    }
    let home = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let run = |command: &mut Command| {
        command.env_clear().env("UNFORGET_HOME", home.path().join("store")).env("HOME", home.path());
        command.current_dir(home.path()).stdin(Stdio::null()).stdout(Stdio::null());
        timed(|| assert!(command.status().unwrap().success()))
    };
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        ours.push(run(Command::new(&program).args(["chat", "--prompt", "Hello", "--model", "offline"])));
        bare.push(run(&mut Command::new("/bin/true")));
    }
    row("`unforget chat -p`, offline, against /bin/true", &mut ours, &mut bare);
}

fn timed<T>(work: impl FnOnce() -> T) -> Duration {
    let begun = Instant::now();
    std::hint::black_box(work());
    begun.elapsed()
}

/// One line of the table.
fn row(what: &str, ours: &mut [Duration], bare: &mut [Duration]) {
    let at = |times: &mut [Duration], percent: usize| {
        times.sort_unstable();
        times[(times.len() * percent / 100).min(times.len() - 1)].as_secs_f64() * 1e3
    };
    let (p50, p99) = (at(ours, 50), at(ours, 99));
    let (bare_p50, bare_p99) = (at(bare, 50), at(bare, 99));
    println!(
        "{what:<44} {p50:>7.3} ms {p99:>7.3} ms {bare_p50:>7.3} ms {bare_p99:>7.3} ms {:>6.2}x {:>6.2}x",
        p50 / bare_p50,
        p99 / bare_p99
    );
}

/// A model that has said everything before it is asked.
struct AtOnce;

impl Model for AtOnce {
    fn name(&self) -> &str {
        "at-once"
    }

    fn window(&self) -> u64 {
        WINDOW
    }

    fn respond<'a>(&'a self, _: &'a Request<'a>, sink: Sink<'a>) -> BoxFuture<'a, Result<(), ModelError>> {
        let text = || "{\"type\":\"text\",\"text\":\"\"}".to_owned();
        sink(Event::Started { id: "msg".to_owned(), model: "at-once".to_owned(), usage: "{}".to_owned() });
        sink(Event::BlockStarted { index: 0, block: text() });
        sink(Event::Delta { index: 0, delta: Delta::Text(ANSWER.to_owned()) });
        sink(Event::BlockEnded { index: 0 });
        sink(Event::Ended { stop_reason: Some("end_turn".to_owned()), usage: "{}".to_owned() });
        Box::pin(ready(Ok(())))
    }

    fn count<'a>(&'a self, _: &'a Request<'a>) -> BoxFuture<'a, Result<u64, ModelError>> {
        Box::pin(ready(Ok(0)))
    }
}

/// Nobody looks, and nobody is asked.
struct Silent;

impl Host for Silent {
    fn tell(&mut self, _: Notice<'_>) {}

    fn standing(&self, _: &Call) -> Option<Answer> {
        None
    }

    fn approve<'a>(&'a mut self, _: &'a Call) -> BoxFuture<'a, Answer> {
        Box::pin(ready(Answer::Denied { by: "setting", reason: None }))
    }
}
