//! Many sessions at once: what a turn costs around the model call, what a session costs in memory, and whether a kill in the middle loses anything.
//!
//! Every session has a connection of its own and says something at its own time, so that turns come evenly. A contestant is a program that prints where it
//! listens; all of them are driven alike, one after the other, by the same clients, with the same [`model`](super::model), which says in
//! its answer how long it took itself. Overhead is everything else: from the moment a prompt is sent to the moment its `done` is read. Again and again it is counted
//! how many answers are being heard at that moment.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::time::{sleep_until, timeout};

use super::model::own_time;
use super::{Client, Heard, Result, Server, Transcript, until};

/// Longer than anything should take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often it is counted how many answers are being heard.
const COUNT: Duration = Duration::from_millis(100);
/// How many connections are opened at a time: a listener's queue is short.
const AT_A_TIME: usize = 64;

/// How much.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Sessions, each with a connection.
    pub sessions: usize,
    /// For how long prompts are sent, after each session has had its first.
    pub time: Duration,
    /// Prompts in a second, all sessions together.
    pub rate: f64,
}

impl Options {
    /// How long it takes until every session had its turn.
    fn period(&self) -> Duration {
        Duration::from_secs_f64(self.sessions as f64 / self.rate)
    }
}

/// What a contestant did.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Figures {
    /// Turns that ended well, the first ones of their sessions included.
    pub turns: usize,
    /// Prompts that were refused, or whose connection broke.
    pub failed: usize,
    /// Turns in a second.
    pub rate: f64,
    /// Half of the first turns, which begin a session, cost no more around the model call, in milliseconds.
    pub first_ms: f64,
    /// Half of the later turns.
    pub p50_ms: f64,
    /// All but one of a hundred of them.
    pub p99_ms: f64,
    /// The model's own time, half of the turns, in milliseconds.
    pub model_ms: f64,
    /// How many answers were heard at the same time, half of the moments at least, behind the first round.
    pub at_once: usize,
    /// Memory with nobody there, in bytes.
    pub empty: u64,
    /// Memory at the end, in bytes.
    pub full: u64,
}

impl Figures {
    /// What a session costs in memory, in bytes.
    pub fn per_session(&self, sessions: usize) -> u64 {
        self.full.saturating_sub(self.empty) / (sessions.max(1) as u64)
    }
}

/// What became of a prompt, as its client was told.
#[derive(Debug, Clone, Default)]
pub struct Prompt {
    /// In which session; none if that was never told.
    pub session: Option<String>,
    /// Whether it was accepted.
    pub is_accepted: bool,
    /// The answer, if it was told.
    pub answer: Option<String>,
}

/// The prompts of a run, by the names that their clients gave them.
pub type History = HashMap<String, Prompt>;

/// How long turns took, and how they ended.
#[derive(Default)]
struct Log {
    history: History,
    first: Vec<Duration>,
    overhead: Vec<Duration>,
    model: Vec<Duration>,
    failed: usize,
    /// Answers that are being heard now, and that were at each count.
    heard: usize,
    counts: Vec<usize>,
}

type Shared = Arc<Mutex<Log>>;

fn note<T>(log: &Shared, change: impl FnOnce(&mut Log) -> T) -> T {
    change(&mut log.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Drives a server that keeps running.
pub fn drive(server: &Server, options: Options) -> Result<(Figures, History)> {
    let empty = server.memory();
    let log = Shared::default();
    let begun = run(&server.url, options, &log)?;
    let full = server.memory();
    let mut log = std::mem::take(&mut *log.lock().unwrap_or_else(PoisonError::into_inner));
    let turns = log.overhead.len() + log.first.len();
    let rate = log.overhead.len() as f64 / begun.saturating_sub(options.period()).as_secs_f64();
    let (p50_ms, p99_ms) = (at(&mut log.overhead, 0.5), at(&mut log.overhead, 0.99));
    let (first_ms, model_ms) = (at(&mut log.first, 0.5), at(&mut log.model, 0.5));
    log.counts.sort_unstable();
    let at_once = log.counts.get(log.counts.len() / 2).copied().unwrap_or(0);
    let failed = log.failed;
    let figures = Figures { turns, failed, rate, first_ms, p50_ms, p99_ms, model_ms, at_once, empty, full };
    Ok((figures, log.history))
}

/// A share of durations is not longer than this, in milliseconds.
fn at(durations: &mut [Duration], share: f64) -> f64 {
    durations.sort_unstable();
    let place = ((durations.len().saturating_sub(1)) as f64 * share).round() as usize;
    durations.get(place).map_or(0.0, |time| time.as_secs_f64() * 1000.0)
}

/// Connects everybody, lets them talk, and says for how long they did.
fn run(url: &str, options: Options, log: &Shared) -> Result<Duration> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let mut clients = Vec::with_capacity(options.sessions);
        while clients.len() < options.sessions {
            let more = AT_A_TIME.min(options.sessions - clients.len());
            let connecting: Vec<_> = (0..more).map(|_| tokio::spawn(connected(url.to_owned()))).collect();
            for one in connecting {
                clients.push(one.await.map_err(|error| error.to_string())??);
            }
        }
        let period = options.period();
        let begin = tokio::time::Instant::now() + Duration::from_millis(50);
        let counting = tokio::spawn(count(begin + period, begin + period + options.time, log.clone()));
        let talking: Vec<_> = clients
            .into_iter()
            .enumerate()
            .map(|(number, client)| {
                let first = begin + period.mul_f64(number as f64 / options.sessions as f64);
                tokio::spawn(talk(client, number, first, period, begin + period + options.time, log.clone()))
            })
            .collect();
        for one in talking {
            one.await.map_err(|error| error.to_string())?;
        }
        let took = begin.elapsed();
        counting.abort();
        Ok(took)
    })
}

/// Counts how many answers are being heard, again and again.
async fn count(from: tokio::time::Instant, to: tokio::time::Instant, log: Shared) {
    let mut at = from;
    while at < to {
        sleep_until(at).await;
        note(&log, |log| log.counts.push(log.heard));
        at += COUNT;
    }
}

async fn connected(url: String) -> Result<Client> {
    timeout(PATIENCE, Client::connect(&url)).await.map_err(|_| "the server does not answer".to_owned())?
}

/// One session: says something at its time, and waits for the answer.
async fn talk(
    mut client: Client,
    number: usize,
    first: tokio::time::Instant,
    period: Duration,
    end: tokio::time::Instant,
    log: Shared,
) {
    let (mut due, mut session) = (first, None);
    for turn in 0.. {
        if due >= end {
            return;
        }
        sleep_until(due).await;
        due += period;
        let name = format!("s{number} t{turn}");
        note(&log, |log| log.history.insert(name.clone(), Prompt { session: session.clone(), ..Prompt::default() }));
        let sent = Instant::now();
        let prompt = json!({ "type": "prompt", "client_id": name, "prompt": format!("this is {name}.") });
        if client.say(&prompt).await.is_err() {
            return note(&log, |log| log.failed += 1);
        }
        let mut is_heard = false;
        loop {
            let Ok(Heard::Said(message)) = timeout(PATIENCE, client.hear()).await else {
                return note(&log, |log| {
                    log.failed += 1;
                    log.heard -= usize::from(is_heard);
                });
            };
            let entry = |log: &mut Log, change: &dyn Fn(&mut Prompt)| {
                change(log.history.entry(name.clone()).or_default());
            };
            match message["type"].as_str().unwrap_or_default() {
                "attached" => {
                    session = message["session_id"].as_str().map(str::to_owned);
                    note(&log, |log| entry(log, &|prompt| prompt.session.clone_from(&session)));
                }
                "delta" if !is_heard => {
                    is_heard = true;
                    note(&log, |log| log.heard += 1);
                }
                // It may be that of the prompt before, whose answer was faster.
                "accepted" => {
                    let named = message["client_id"].as_str().unwrap_or_default().to_owned();
                    note(&log, |log| log.history.entry(named).or_default().is_accepted = true);
                }
                "done" => {
                    let (took, text) = (sent.elapsed(), message["text"].as_str().unwrap_or_default().to_owned());
                    let own = own_time(&text).unwrap_or_default();
                    note(&log, |log| {
                        entry(log, &|prompt| prompt.answer = Some(text.clone()));
                        let times = if turn == 0 { &mut log.first } else { &mut log.overhead };
                        times.push(took.saturating_sub(own));
                        log.model.push(own);
                        log.heard -= usize::from(is_heard);
                    });
                    break;
                }
                "error" | "failed" => {
                    note(&log, |log| {
                        log.failed += 1;
                        log.heard -= usize::from(is_heard);
                    });
                    break;
                }
                _ => {}
            }
        }
        // A turn that took longer than its time is not made up for: the next one has its own.
        while due < tokio::time::Instant::now() {
            due += period;
        }
    }
}

/// What a kill in the middle came to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Survived {
    /// Prompts that were accepted.
    pub accepted: usize,
    /// Of them, those whose answer was told.
    pub answered: usize,
    /// Those that were accepted before the kill and answered after it, by themselves.
    pub recovered: usize,
    /// What does not hold.
    pub violations: Vec<String>,
}

/// Kills a server in the middle of its work, starts it again with the same command, and looks for everything that was acknowledged.
pub fn kill_in_the_middle(command: &mut Command, home: &Path, options: Options) -> Result<Survived> {
    let mut server = Server::start(command)?;
    let log = Shared::default();
    let (url, shared) = (server.url.clone(), log.clone());
    let talking = std::thread::spawn(move || run(&url, options, &shared));
    let half = (options.sessions as f64 + options.rate * options.time.as_secs_f64()) / 2.0;
    // And somebody waits for an answer: a kill between two answers proves nothing.
    let is_open = |prompt: &Prompt| prompt.is_accepted && prompt.answer.is_none();
    until(PATIENCE + options.period() + options.time, || {
        note(&log, |log| (log.overhead.len() + log.first.len()) as f64 >= half && log.history.values().any(is_open))
    });
    server.kill();
    drop(talking.join());
    let history = std::mem::take(&mut *log.lock().unwrap_or_else(PoisonError::into_inner)).history;
    let mut server = Server::start(command)?;
    let mut survived = Survived::default();
    until(PATIENCE, || {
        survived = look(home, &history);
        survived.violations.is_empty()
    });
    if survived.recovered == 0 {
        survived
            .violations
            .push("the kill was in the middle of nothing: no accepted prompt was left to be answered".to_owned());
    }
    server.terminate();
    if server.ends(PATIENCE).is_none_or(|ended| !ended.success()) {
        survived.violations.push("the server did not end well".to_owned());
    }
    Ok(survived)
}

/// Holds what clients were told against what the files have.
fn look(home: &Path, history: &History) -> Survived {
    let mut survived = Survived::default();
    let mut known: HashMap<&str, Result<Transcript>> = HashMap::new();
    for (name, prompt) in history {
        let Some(session) = prompt.session.as_deref().filter(|_| prompt.is_accepted) else { continue };
        let transcript = known
            .entry(session)
            .or_insert_with(|| Transcript::read(&home.join("agents/main/sessions").join(format!("{session}.jsonl"))));
        survived.accepted += 1;
        let found = match transcript {
            Ok(transcript) => transcript.named(name),
            Err(error) => {
                survived.violations.push(format!("{name} was accepted, and its session cannot be read: {error}"));
                continue;
            }
        };
        let [said] = found.as_slice() else {
            survived.violations.push(format!("{name} was accepted and is there {} times", found.len()));
            continue;
        };
        match &prompt.answer {
            Some(answer) if said.answer != *answer => {
                survived
                    .violations
                    .push(format!("{name} was answered with {answer:?}, and {:?} is there", said.answer));
            }
            Some(_) => survived.answered += 1,
            None if said.end.as_deref() == Some("done") => survived.recovered += 1,
            None => survived.violations.push(format!("{name} was accepted and not answered: {:?}", said.end)),
        }
    }
    survived
}
