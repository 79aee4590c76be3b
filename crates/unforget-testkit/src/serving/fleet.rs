//! Several servers, one remote, and one of them killed again and again: what clients were told, held against what the remote has at the end.
//!
//! In the manner of Jepsen: clients do one thing at a time, send it again under the same name until they are told how it ended, and write
//! down what they were told. At the end everything that was acknowledged must be in the transcript at the remote: once, in the order of its
//! client, with its own answer, and nothing in between its words and their answer. What was only accepted must be there, too: some clients do not send such a
//! prompt again when they lose their connection, because sending it again would hide that it was lost. Prompts that ended otherwise are counted. What was never
//! acknowledged may be there once or not at all.
//!
//! A server is killed without warning and started again with its home and a new address, as a container is. Sometimes it is only put to sleep for longer than its
//! lease: then it wakes up as one that believes to hold what others have taken.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::{Client, Heard, Result, Server, Transcript, plant_cluster_key};
use crate::generate::Dice;

/// How long a client waits for a word before it tries elsewhere.
const SILENCE: Duration = Duration::from_secs(6);
/// How long after the last kill everything must have been answered.
const GRACE: Duration = Duration::from_secs(90);
/// One of so many prompts that were accepted is left to whoever accepted it.
const LEFT: usize = 3;
/// How long it takes at most until a prompt that was accepted is run by whoever accepted it, when everybody is up.
const TAKEN_UP: Duration = Duration::from_secs(30);
/// How long a client waits before it sends something again.
const AGAIN: Duration = Duration::from_millis(150);

/// What is done.
#[derive(Debug, Clone)]
pub struct Options {
    /// The program.
    pub program: PathBuf,
    /// The remote's address.
    pub remote: String,
    /// The model's address.
    pub api: String,
    /// Where the homes are.
    pub folder: PathBuf,
    /// How many servers.
    pub servers: usize,
    /// How many sessions.
    pub sessions: usize,
    /// How many clients each session has.
    pub clients: usize,
    /// For how long.
    pub time: Duration,
    /// How often a server is killed or put to sleep.
    pub every: Duration,
    /// How long a lease holds, in seconds.
    pub lease: u64,
    /// What decides who is killed when.
    pub seed: u64,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Report {
    /// Prompts that were acknowledged as done.
    pub done: usize,
    /// How often something was sent again.
    pub again: usize,
    /// Prompts that were accepted, whatever became of them.
    pub accepted: usize,
    /// Of them, those that their client did not send again when it lost its connection.
    pub left: usize,
    /// Prompts whose turn ended without an answer under their name: which, and what was told.
    pub skipped: Vec<String>,
    /// Servers killed, and put to sleep.
    pub killed: usize,
    /// Servers put to sleep for longer than their lease.
    pub paused: usize,
    /// How often a server took a session over from one that did not give it back.
    pub taken_over: usize,
    /// Sessions that keep what could not be sent in time.
    pub forks: usize,
    /// Half of the prompts were answered in this time, in milliseconds.
    pub p50_ms: u128,
    /// The longest that a client waited, in milliseconds.
    pub longest_ms: u128,
    /// Prompts that were left to whoever accepted them, and were not in their session when everybody was up again for a while.
    pub late: usize,
    /// What does not hold.
    pub violations: Vec<String>,
}

/// A prompt that was acknowledged.
#[derive(Debug, Clone)]
struct Done {
    session: String,
    client: usize,
    name: String,
    words: String,
    answer: String,
    took: Duration,
}

/// A prompt that was accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Accepted {
    session: String,
    name: String,
}

/// Where the servers are; none of one that is down.
type Places = Arc<Mutex<Vec<Option<String>>>>;

#[derive(Default)]
struct Log {
    done: Vec<Done>,
    again: usize,
    accepted: Vec<Accepted>,
    left: Vec<Accepted>,
    skipped: Vec<String>,
    trouble: Vec<String>,
}

type Shared = Arc<Mutex<Log>>;

fn with<T, R>(shared: &Mutex<T>, change: impl FnOnce(&mut T) -> R) -> R {
    change(&mut shared.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The command of a server with a home of its own.
pub fn command(options: &Options, home: &Path) -> Command {
    let lease = format!("lease={}", options.lease);
    let mut command = Command::new(&options.program);
    command
        .env_clear()
        .env("UNFORGET_HOME", home)
        .env("XDG_CONFIG_HOME", home.with_extension("config"))
        .env("HOME", home.with_extension("person"))
        .env("ANTHROPIC_BASE_URL", &options.api)
        .env("ANTHROPIC_API_KEY", "sk-ant-fake")
        .args([
            "serve",
            "--json",
            "--listen",
            "127.0.0.1:0",
            "--ack",
            "remote",
            "--limit",
            &lease,
            "--limit",
            "linger=2",
        ])
        .args(["--remote", &options.remote])
        .arg("--cluster-key")
        .arg(home.join("server/cluster.key"))
        .stderr(Stdio::null());
    command
}

/// Lets it all happen.
pub fn run(options: &Options) -> Result<Report> {
    let homes: Vec<PathBuf> =
        (0..options.servers).map(|number| options.folder.join(format!("home-{number}"))).collect();
    let mut servers: Vec<Server> = Vec::new();
    for home in &homes {
        plant_cluster_key(home)?;
        servers.push(Server::start(&mut command(options, home))?);
    }
    let places: Places = Arc::new(Mutex::new(servers.iter().map(|server| Some(server.url.clone())).collect()));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let log = Shared::default();
    let mut sessions = Vec::new();
    for number in 0..options.sessions {
        let place = servers[number % servers.len()].url.clone();
        sessions.push(runtime.block_on(begin(&place, number))?);
    }
    let end = Instant::now() + options.time;
    let mut talking = Vec::new();
    for session in &sessions {
        for client in 0..options.clients {
            let seed = options.seed ^ ((talking.len() as u64 + 1) << 8);
            let (session, places, log) = (session.clone(), places.clone(), log.clone());
            talking.push(runtime.spawn(talk(session, client, places, log, end, seed)));
        }
    }
    let mut report = Report::default();
    disturb(options, &homes, &mut servers, &places, end, &mut report)?;
    for one in talking {
        runtime.block_on(one).map_err(|error| error.to_string())?;
    }
    let left = with(&log, |log| log.left.clone());
    for Accepted { session, name } in &left {
        if !runtime.block_on(is_taken_up(session, name, &places)) {
            // It may be in a fork, which is looked for at the end.
            report.late += 1;
        }
    }
    for server in &servers {
        server.terminate();
    }
    for server in &mut servers {
        if server.ends(GRACE).is_none_or(|ended| !ended.success()) {
            report.violations.push("a server did not end well".to_owned());
        }
    }
    let log = std::mem::take(&mut *log.lock().unwrap_or_else(PoisonError::into_inner));
    (report.again, report.left) = (log.again, log.left.len());
    report.skipped = log.skipped;
    report.violations.extend(log.trouble);
    check(options, &sessions, &log.done, &log.accepted, &mut report)?;
    Ok(report)
}

/// Begins a session.
async fn begin(place: &str, number: usize) -> Result<String> {
    let mut client = Client::connect(place).await?;
    client.say(&json!({ "type": "attach", "key": format!("main:fleet:session-{number}") })).await?;
    match timeout(SILENCE, client.hear()).await {
        Ok(Heard::Said(message)) if message["type"] == "attached" => {
            Ok(message["session_id"].as_str().unwrap_or_default().to_owned())
        }
        other => Err(format!("a session was not begun: {other:?}")),
    }
}

/// Kills servers and puts them to sleep until the time is over; everybody is awake then.
fn disturb(
    options: &Options,
    homes: &[PathBuf],
    servers: &mut [Server],
    places: &Places,
    end: Instant,
    report: &mut Report,
) -> Result {
    let mut dice = Dice::new(options.seed);
    loop {
        let next = Instant::now() + options.every;
        if next >= end {
            break;
        }
        std::thread::sleep(options.every);
        let which = dice.below(servers.len());
        if dice.one_in(4) {
            servers[which].pause();
            std::thread::sleep(Duration::from_secs(options.lease + 1));
            servers[which].wake();
            report.paused += 1;
            continue;
        }
        with(places, |places| places[which] = None);
        servers[which].kill();
        report.killed += 1;
        std::thread::sleep(Duration::from_millis(dice.below(1500) as u64));
        servers[which] = Server::start(&mut command(options, &homes[which]))?;
        with(places, |places| places[which] = Some(servers[which].url.clone()));
    }
    std::thread::sleep(end.saturating_duration_since(Instant::now()));
    Ok(())
}

/// One client: says one thing after the other, each until it was answered.
async fn talk(session: String, client: usize, places: Places, log: Shared, end: Instant, seed: u64) {
    let mut dice = Dice::new(seed);
    for turn in 0.. {
        if Instant::now() >= end {
            return;
        }
        let name = format!("c{client} t{turn}");
        let words = format!("{name} of {session}.");
        let begun = Instant::now();
        let mut why = "no server was there".to_owned();
        let is_to_be_left = dice.one_in(LEFT);
        let mut is_accepted = false;
        let answer = loop {
            if Instant::now() > end + GRACE {
                let trouble = format!("{name} in {session} was never answered: {why}");
                return with(&log, |log| log.trouble.push(trouble));
            }
            let up: Vec<String> = with(&places, |places| places.iter().flatten().cloned().collect());
            if !up.is_empty() {
                let was_accepted = is_accepted;
                let asked = ask(&up[dice.below(up.len())], &session, &name, &words, &mut is_accepted).await;
                let accepted = || Accepted { session: session.clone(), name: name.clone() };
                if is_accepted && !was_accepted {
                    with(&log, |log| log.accepted.push(accepted()));
                }
                match asked {
                    Ok(answer) => break answer,
                    Err(Trouble::Lost(_)) if is_accepted && is_to_be_left => {
                        with(&log, |log| log.left.push(accepted()));
                        break Value::Null;
                    }
                    Err(Trouble::Again(said) | Trouble::Lost(said)) => why = said,
                    Err(Trouble::Over(said)) => {
                        // It is in the conversation without an answer, and will not be answered any more.
                        with(&log, |log| log.skipped.push(format!("{name} in {session}: {said}")));
                        break Value::Null;
                    }
                }
            }
            with(&log, |log| log.again += 1);
            sleep(AGAIN).await;
        };
        if answer.is_null() {
            continue;
        }
        let text = |name: &str| answer[name].as_str().unwrap_or_default().to_owned();
        if text("state") != "done" || text("durability") != "remote" {
            with(&log, |log| log.trouble.push(format!("{name} in {session} ended oddly ({why}): {answer}")));
        }
        let (session, answer, took) = (session.clone(), text("text"), begun.elapsed());
        with(&log, |log| log.done.push(Done { session, client, name, words, answer, took }));
    }
}

/// Why a prompt was not answered.
enum Trouble {
    /// It is to be sent again.
    Again(String),
    /// The connection was lost, and nobody said what became of it.
    Lost(String),
    /// It will not be answered under this name.
    Over(String),
}

/// Sends a prompt and waits for its end; notes whether it was accepted.
async fn ask(place: &str, session: &str, name: &str, words: &str, is_accepted: &mut bool) -> Result<Value, Trouble> {
    let connecting = timeout(SILENCE, Client::connect(place)).await;
    let mut client = match connecting {
        Ok(Ok(client)) => client,
        Ok(Err(error)) => return Err(Trouble::Again(error)),
        Err(_) => return Err(Trouble::Again("the server does not answer".to_owned())),
    };
    let prompt = json!({ "type": "prompt", "session_id": session, "client_id": name, "prompt": words });
    client.say(&prompt).await.map_err(Trouble::Again)?;
    loop {
        match timeout(SILENCE, client.hear()).await {
            Ok(Heard::Said(message)) => match message["type"].as_str().unwrap_or_default() {
                "accepted" if message["client_id"] == name => *is_accepted = true,
                "done" if message["client_id"] == name && message["state"] == "done" => return Ok(message),
                // A server that was told to end, or lost the session, aborts what runs; it is asked for again.
                "done" if message["client_id"] == name => return Err(Trouble::Over(message.to_string())),
                "failed" if message["client_id"] == name && message["error"]["code"] == "conflict" => {
                    return Err(Trouble::Over(message.to_string()));
                }
                "failed" if message["client_id"] == name => return Err(Trouble::Again(message.to_string())),
                "error" => return Err(Trouble::Again(message.to_string())),
                _ => {}
            },
            Ok(Heard::Closed(code)) => return Err(Trouble::Lost(format!("closed: {code:?}"))),
            Err(_) => return Err(Trouble::Lost("silence".to_owned())),
        }
    }
}

/// Whether the words of a prompt come into its session, and its turn to an end, without anybody sending them again.
async fn is_taken_up(session: &str, name: &str, places: &Places) -> bool {
    let deadline = Instant::now() + TAKEN_UP;
    while Instant::now() < deadline {
        let up: Vec<String> = with(places, |places| places.iter().flatten().cloned().collect());
        for place in up {
            if is_ended_at(&place, session, name).await {
                return true;
            }
        }
        sleep(AGAIN).await;
    }
    false
}

/// Whether a server tells a prompt and its end in a session, as far as the session goes now.
async fn is_ended_at(place: &str, session: &str, name: &str) -> bool {
    let Ok(Ok(mut client)) = timeout(SILENCE, Client::connect(place)).await else { return false };
    if client.say(&json!({ "type": "attach", "session_id": session })).await.is_err() {
        return false;
    }
    let mut is_there = false;
    while let Ok(Heard::Said(message)) = timeout(SILENCE, client.hear()).await {
        let record = &message["record"];
        match message["type"].as_str().unwrap_or_default() {
            "record" if record["type"] == "user" => is_there = record["client_id"] == name,
            "record" if is_there && record["type"] == "turn" && record["state"] != "interrupted" => return true,
            "caught_up" | "error" => return false,
            _ => {}
        }
    }
    false
}

/// Fetches everything to a new machine, and holds it against what clients were told.
fn check(options: &Options, sessions: &[String], done: &[Done], accepted: &[Accepted], report: &mut Report) -> Result {
    let home = options.folder.join("after");
    let mut pull = command(options, &home);
    pull = {
        let mut fetching = Command::new(pull.get_program());
        fetching.env_clear().envs(pull.get_envs().filter_map(|(name, value)| Some((name, value?))));
        fetching
    };
    let pulled =
        pull.args(["pull", "--all", "--remote", &options.remote]).output().map_err(|error| error.to_string())?;
    if !pulled.status.success() {
        return Err(format!("the sessions cannot be fetched: {}", String::from_utf8_lossy(&pulled.stderr)));
    }
    let folder = home.join("agents/main/sessions");
    let mut transcripts: BTreeMap<&str, Transcript> = BTreeMap::new();
    for session in sessions {
        transcripts.insert(session, Transcript::read(&folder.join(format!("{session}.jsonl")))?);
    }
    report.forks = names(&folder).len().saturating_sub(sessions.len());
    (report.done, report.accepted) = (done.len(), accepted.len());
    // What a server could not send is a fork of its own home first.
    let mut forks = Vec::new();
    let homes = (0..options.servers).map(|number| options.folder.join(format!("home-{number}/agents/main/sessions")));
    for folder in homes.chain([folder.clone()]) {
        let is_fork = |name: &&String| !sessions.iter().any(|session| **name == format!("{session}.jsonl"));
        for name in names(&folder).iter().filter(is_fork) {
            forks.push(Transcript::read(&folder.join(name))?);
        }
    }
    let waiting: Vec<String> =
        (0..options.servers).flat_map(|number| waiting(&options.folder.join(format!("home-{number}")))).collect();
    let mut took: Vec<u128> = done.iter().map(|done| done.took.as_millis()).collect();
    took.sort_unstable();
    report.p50_ms = took.get(took.len() / 2).copied().unwrap_or(0);
    report.longest_ms = took.last().copied().unwrap_or(0);
    for (session, transcript) in &transcripts {
        report.taken_over += transcript.taken_over;
        report.violations.extend(judge(session, transcript, done));
        report.violations.extend(kept(session, transcript, &forks, &waiting, accepted));
    }
    Ok(())
}

/// The words of prompts that a server has accepted and not been able to run: somebody watches or talks in their sessions at another one.
#[expect(clippy::disallowed_methods, reason = "looked at as anybody can, without the server that wrote it")]
fn waiting(home: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(home.join("server/accepted.jsonl")).unwrap_or_default();
    let lines: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let is_ended = |id: &Value| lines.iter().any(|line| line["end"] == *id);
    let open = lines.iter().filter(|line| line["accept"].is_string() && !is_ended(&line["accept"]));
    open.filter_map(|line| line["prompt"].as_str().map(str::to_owned)).collect()
}

/// Prompts of a session that were accepted, and are neither in it nor in a fork, nor wait at the server that accepted them.
fn kept(
    session: &str,
    transcript: &Transcript,
    forks: &[Transcript],
    waiting: &[String],
    accepted: &[Accepted],
) -> Vec<String> {
    let own = accepted.iter().filter(|accepted| accepted.session == session);
    let words = |name: &str| format!("{name} of {session}.");
    let is_forked = |name: &str| forks.iter().any(|fork| fork.named(name).iter().any(|said| said.words == words(name)));
    let is_waiting = |name: &str| waiting.contains(&words(name));
    own.filter(|it| transcript.named(&it.name).is_empty() && !is_forked(&it.name) && !is_waiting(&it.name))
        .map(|accepted| format!("{session}: {} was accepted and is nowhere", accepted.name))
        .collect()
}

/// The transcripts in a folder.
#[expect(clippy::disallowed_methods, reason = "looked at as anybody can, without the store that wrote it")]
fn names(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.map(|name| name.to_string_lossy().into_owned()).filter(|name| name.ends_with(".jsonl")).collect()
}

/// What does not hold in a session.
fn judge(session: &str, transcript: &Transcript, done: &[Done]) -> Vec<String> {
    let mut wrong: Vec<String> = transcript.gaps.iter().map(|gap| format!("{session}: {gap}")).collect();
    let place = |name: &str| transcript.prompts.iter().position(|said| said.client_id.as_deref() == Some(name));
    let mut last: BTreeMap<usize, usize> = BTreeMap::new();
    for done in done.iter().filter(|done| done.session == session) {
        let Done { name, words, answer, client, .. } = done;
        let found = transcript.named(name);
        let [said] = found.as_slice() else {
            wrong.push(format!("{session}: {name} was acknowledged and is there {} times", found.len()));
            continue;
        };
        if said.words != *words {
            wrong.push(format!("{session}: {name} said {words:?}, and {:?} is there", said.words));
        }
        // The model repeats what it hears: an answer to something else would show.
        if !answer.ends_with(words.as_str()) {
            wrong.push(format!("{session}: {name} was answered with {answer:?}"));
        }
        if said.end.as_deref() != Some("done") || said.ends != 1 || !said.answer.ends_with(answer.as_str()) {
            wrong.push(format!("{session}: {name} was answered with {answer:?}, and there is {said:?}"));
        }
        let (here, before) = (place(name), last.get(client).copied());
        if let (Some(here), Some(before)) = (here, before)
            && here <= before
        {
            wrong.push(format!("{session}: {name} is before what its client said before it"));
        }
        if let Some(here) = here {
            last.insert(*client, here);
        }
    }
    let mut seen = BTreeMap::new();
    for name in transcript.prompts.iter().filter_map(|said| said.client_id.as_deref()) {
        *seen.entry(name).or_insert(0) += 1;
    }
    wrong.extend(
        seen.into_iter()
            .filter(|(_, times)| *times > 1)
            .map(|(name, times)| format!("{session}: {name} is there {times} times")),
    );
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serving::Said;

    fn said(name: &str, answer: &str) -> Said {
        let (words, answer) = (format!("{name} of s."), answer.to_owned());
        Said { client_id: Some(name.to_owned()), words, answer, end: Some("done".to_owned()), ends: 1 }
    }

    fn done(name: &str) -> Done {
        let (words, answer) = (format!("{name} of s."), format!("ECHO: {name} of s."));
        Done { session: "s".to_owned(), client: 0, name: name.to_owned(), words, answer, took: Duration::ZERO }
    }

    fn judged(prompts: Vec<Said>, done: &[Done]) -> usize {
        judge("s", &Transcript { prompts, ..Transcript::default() }, done).len()
    }

    #[test]
    fn the_judge_finds_what_it_looks_for() {
        let (one, two) = (said("c0 t0", "ECHO: c0 t0 of s."), said("c0 t1", "ECHO: c0 t1 of s."));
        let told = [done("c0 t0"), done("c0 t1")];
        assert_eq!(judged(vec![one.clone(), two.clone()], &told), 0);
        assert_eq!(judged(vec![one.clone()], &told), 1, "one is lost");
        assert_eq!(judged(vec![one.clone(), two.clone(), two.clone()], &told), 2, "one is there twice");
        assert_eq!(judged(vec![two.clone(), one.clone()], &told), 1, "the order is wrong");
        assert_eq!(judged(vec![one.clone(), said("c0 t1", "ECHO: another")], &told), 1, "the answer is another's");
        let cut = Said { end: None, ends: 0, ..two };
        assert_eq!(judged(vec![one, cut], &told), 1, "the turn did not end");
    }

    #[test]
    fn what_was_accepted_is_looked_for_in_the_session_and_in_forks() {
        let accepted = |name: &str| Accepted { session: "s".to_owned(), name: name.to_owned() };
        let transcript = |names: &[&str]| Transcript {
            prompts: names.iter().map(|name| said(name, "")).collect(),
            ..Transcript::default()
        };
        let all =
            [accepted("c0 t0"), accepted("c0 t1"), Accepted { session: "t".to_owned(), name: "c0 t2".to_owned() }];
        let found = |own: &[&str], fork: &[&str]| kept("s", &transcript(own), &[transcript(fork)], &[], &all).len();
        assert_eq!(found(&["c0 t0", "c0 t1"], &[]), 0);
        assert_eq!(found(&["c0 t0"], &["c0 t1"]), 0, "one is in a fork");
        assert_eq!(found(&["c0 t0"], &[]), 1, "one is nowhere");
        let waiting = ["c0 t1 of s.".to_owned()];
        assert_eq!(kept("s", &transcript(&["c0 t0"]), &[], &waiting, &all).len(), 0, "one waits where it was accepted");
        let other = Transcript {
            prompts: vec![Said { words: "c0 t1 of t.".to_owned(), ..said("c0 t1", "") }],
            ..Transcript::default()
        };
        assert_eq!(
            kept("s", &transcript(&["c0 t0"]), &[other], &[], &all).len(),
            1,
            "a fork of another session does not count"
        );
    }
}
