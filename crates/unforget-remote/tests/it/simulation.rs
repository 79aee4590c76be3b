//! Machines, a network between them and a remote, and everything that can happen to either, from a seed.
//!
//! Each run has three machines that talk in the same sessions, each on a disk of its own that may lose what was not synced. Requests are
//! late, lost, doubled, or arrive long after their sender gave up; answers are lost; machines are cut off, killed in the middle of a
//! call, and copied, so that one of them wakes up with an old state later. When it is over, the history is checked: whatever was confirmed
//! can be read, in the order in which it was said, once, and every word that a machine acknowledged is in some session.
//!
//! `UNFORGET_SEED=n` runs one seed again, `UNFORGET_RUNS=n` as many as wanted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use unforget_core::encode;
use unforget_core::scan::scan;
use unforget_core::stamp::SessionId;
use unforget_remote::memory::Memory;
use unforget_remote::sync::{pull, push, resolve_by_fork, resolve_by_rebase};
use unforget_remote::uplink::PushRules;
use unforget_remote::{Error, Remote as _};
use unforget_testkit::crash::{Fault, FaultKind, Survival};
use unforget_testkit::generate::Dice;

mod network;

use network::Network;

use crate::machine::{Machine, NOW, dir, linked, stream, there, unwatched};

const RUNS: u64 = 1_000;
const MACHINES: u64 = 3;
const STEPS: usize = 14;
/// How often both sides are brought together at the end.
const ROUNDS: usize = 12;
/// Longer than any request is on its way.
const ALL_ARRIVED: Duration = Duration::from_secs(100);

/// What everybody knows who watches from outside.
#[derive(Debug, Default)]
struct History {
    /// Words that were acknowledged to whoever said them.
    acknowledged: BTreeSet<String>,
    /// Words that a remote confirmed, by session.
    confirmed: BTreeMap<SessionId, BTreeSet<String>>,
    /// Sessions that someone tried to delete there.
    deleted: BTreeSet<SessionId>,
    /// All sessions that were ever begun.
    sessions: Vec<SessionId>,
}

/// A machine with somebody at it.
struct Actor {
    seed: u64,
    machine: Machine,
    network: Network,
    place: Memory,
    dice: Dice,
    history: Arc<Mutex<History>>,
    /// A copy of another machine, which may hold words that the other one has said elsewhere.
    is_copy: bool,
    words: u64,
    restarts: u64,
}

impl Actor {
    fn new(seed: u64, number: u64, place: &Memory, history: &Arc<Mutex<History>>) -> Self {
        Self::on(seed, Machine::new(number), place, history)
    }

    fn on(seed: u64, machine: Machine, place: &Memory, history: &Arc<Mutex<History>>) -> Self {
        let dice = |salt: u64| Dice::new(seed.wrapping_mul(1_000).wrapping_add(machine.number * 10 + salt));
        let network = Network {
            remote: Arc::new(place.remote()),
            dice: Mutex::new(dice(1)),
            is_cut: Mutex::default(),
            is_calm: false,
        };
        let (place, history, dice) = (place.clone(), history.clone(), dice(2));
        Self { seed, machine, network, place, dice, history, is_copy: false, words: 0, restarts: 0 }
    }

    fn watched(&self) -> std::sync::MutexGuard<'_, History> {
        self.history.lock().unwrap()
    }

    async fn live(mut self) -> Self {
        for _ in 0..STEPS {
            tokio::time::sleep(Duration::from_millis(self.dice.below(100) as u64)).await;
            if self.dice.one_in(8) {
                let at = self.machine.medium.operations() + 1 + self.dice.below(80) as u64;
                self.machine.medium.inject(Fault { at, kind: FaultKind::PowerCut, sticky: false });
            }
            match self.dice.below(16) {
                0..=5 => self.say(),
                6..=9 => self.save().await,
                10..=12 => self.pull().await,
                13 => {
                    let is_cut = self.dice.one_in(3);
                    *self.network.is_cut.lock().unwrap() = is_cut;
                }
                14 => self.restart(),
                _ => self.delete().await,
            }
            if !self.is_up() {
                self.restart();
            }
        }
        self
    }

    fn is_up(&self) -> bool {
        unforget_core::medium::Medium::stat(&self.machine.medium, std::path::Path::new("")).is_ok()
    }

    /// Loses all that was in memory, and what the disk had not synced.
    fn restart(&mut self) {
        self.restarts += 1;
        let medium = self.machine.medium.restart(self.dice.pick(&Survival::ALL));
        self.machine = Machine::on(self.machine.number, medium, self.restarts * 10_000_000);
        self.network.remote = Arc::new(self.place.remote());
    }

    /// A session that this machine has.
    fn any_here(&mut self) -> Option<SessionId> {
        let known: Vec<SessionId> = self.watched().sessions.clone();
        let here: Vec<SessionId> = known.into_iter().filter(|id| self.machine.bytes(id).is_some()).collect();
        (!here.is_empty()).then(|| here[self.dice.below(here.len())].clone())
    }

    fn say(&mut self) {
        let id = match self.any_here().filter(|_| !self.dice.one_in(8)) {
            Some(id) => id,
            None => {
                let Ok(session) = self.machine.store.create(&unforget_core::key::Key::default(), None) else { return };
                let id = session.id().clone();
                self.watched().sessions.push(id.clone());
                id
            }
        };
        self.words += 1;
        let word = format!("w{}-{:04}", self.machine.number, self.words);
        if self.machine.say(&id, &word).is_ok() {
            self.watched().acknowledged.insert(word);
        }
    }

    async fn save(&mut self) {
        let Some(id) = self.any_here() else { return };
        let machine = self.machine.clone();
        match machine.send(&self.network, &id, &PushRules::default()).await {
            Ok(pushed) => self.confirm(&id, pushed.at.bytes),
            Err(Error::Deleted { .. }) if self.dice.one_in(2) => drop(machine.bookmarks.forget(&dir(), &id)),
            Err(error) => self.meet(&id, error).await,
        }
    }

    /// Notes that the remote has confirmed the beginning of a session.
    fn confirm(&self, id: &SessionId, bytes: u64) {
        let text = self.machine.text(id);
        let words = words(&text[..usize::try_from(bytes).unwrap()]);
        self.watched().confirmed.entry(id.clone()).or_default().extend(words);
    }

    async fn pull(&mut self) {
        let known = self.watched().sessions.clone();
        if known.is_empty() {
            return;
        }
        let id = known[self.dice.below(known.len())].clone();
        let confirmed = self.watched().confirmed.get(&id).cloned().unwrap_or_default();
        let machine = self.machine.clone();
        let pulled = linked!(machine, &self.network, &id, |link| pull(&link, &mut unwatched()).await);
        match pulled {
            Ok(_) if !self.watched().deleted.contains(&id) => {
                let here: BTreeSet<String> = words(&machine.text(&id)).into_iter().collect();
                let missing: Vec<&String> = confirmed.difference(&here).collect();
                assert!(missing.is_empty(), "seed {}: {missing:?} of {id} was confirmed and cannot be read", self.seed);
            }
            Ok(_) => {}
            Err(error) => self.meet(&id, error).await,
        }
    }

    /// Deals with what a call may well answer; anything else is a failure.
    async fn meet(&mut self, id: &SessionId, error: Error) {
        match error {
            Error::Diverged { .. } => self.resolve(id).await,
            // Only what someone deleted and someone else wrote anew may be less than it was; a person takes it as it is.
            Error::Rewound { .. } if self.watched().deleted.contains(id) => self.accept_loss(id).await,
            Error::Unavailable { .. } | Error::NotFound { .. } | Error::Deleted { .. } | Error::Conflict { .. } => {}
            Error::Local(unforget_core::Error::NotFound { .. }) => {}
            Error::Local(error) if !self.is_up() => drop(error),
            other => panic!("seed {}: {other:?}", self.seed),
        }
    }

    async fn resolve(&mut self, id: &SessionId) {
        let machine = self.machine.clone();
        let by_fork = self.is_copy || self.dice.one_in(2);
        let resolved = linked!(machine, &self.network, id, |link| match by_fork {
            true => resolve_by_fork(&link, &machine.outbox, NOW, &mut unwatched())
                .await
                .map(|forked| forked.map(|forked| forked.branch)),
            false => resolve_by_rebase(&link, &machine.outbox, NOW, &mut unwatched()).await.map(|_| None),
        });
        // A branch counts also if its maker was killed behind it.
        let branches: Vec<SessionId> = machine.outbox.list().unwrap_or_default().into_iter().map(|it| it.id).collect();
        for branch in branches.into_iter().chain(resolved.as_ref().ok().cloned().flatten()) {
            let mut history = self.history.lock().unwrap();
            if !history.sessions.contains(&branch) {
                history.sessions.push(branch);
            }
        }
        match resolved {
            Ok(_) | Err(Error::Unavailable { .. } | Error::NotFound { .. } | Error::Conflict { .. }) => {}
            Err(Error::Rewound { .. }) if self.watched().deleted.contains(id) => self.accept_loss(id).await,
            Err(Error::Local(error)) if !self.is_up() => drop(error),
            Err(other) => panic!("seed {}: {other:?}", self.seed),
        }
    }

    async fn accept_loss(&self, id: &SessionId) {
        drop(self.machine.bookmarks.forget(&dir(), id));
        drop(unforget_remote::sync::head::remove(&self.network, &stream(id)).await);
    }

    async fn delete(&mut self) {
        let Some(id) = self.any_here().filter(|_| self.dice.one_in(3)) else { return };
        self.watched().deleted.insert(id.clone());
        drop(self.network.delete(&stream(&id)).await);
    }

    /// All sessions on this machine, whoever knows of them.
    fn all_here(&self) -> Vec<SessionId> {
        let entries = self.machine.store.list().unwrap().entries;
        entries.iter().map(|entry| SessionId::parse(&entry.row.id).unwrap()).collect()
    }

    /// Brings all sessions here and there together; says whether nothing was left to do.
    async fn settle(&mut self) -> bool {
        let mut is_settled = true;
        for id in self.all_here() {
            let machine = self.machine.clone();
            let pulled = linked!(machine, &self.network, &id, |link| pull(&link, &mut unwatched()).await);
            match pulled {
                Ok(pulled) => is_settled &= pulled.lines == 0,
                Err(Error::NotFound { .. }) => {}
                Err(error) => {
                    is_settled = false;
                    self.meet(&id, error).await;
                }
            }
            let pushed = linked!(machine, &self.network, &id, |link| push(&link, &mut unwatched()).await);
            match pushed {
                Ok(pushed) => is_settled &= pushed.lines == 0,
                Err(error) => {
                    is_settled = false;
                    if let Error::Deleted { .. } = error {
                        machine.bookmarks.forget(&dir(), &id).unwrap();
                    }
                    self.meet(&id, error).await;
                }
            }
        }
        is_settled
    }
}

/// The words in a text, in order.
fn words(text: &str) -> Vec<String> {
    let starts = text.match_indices("\"w");
    starts
        .filter_map(|(at, _)| Some(text[at + 1..].split_once('"')?.0.to_owned()))
        .filter(|word| word.contains('-'))
        .collect()
}

/// One run; gives back a digest of everything that the remote has in the end.
async fn run(seed: u64) -> String {
    let place = Memory::default();
    let history = Arc::new(Mutex::new(History::default()));
    let mut actors: Vec<Actor> = (1..=MACHINES).map(|number| Actor::new(seed, number, &place, &history)).collect();
    let mut dice = Dice::new(seed ^ 0x5eed);
    for _ in 0..2 {
        let mut lives = tokio::task::JoinSet::new();
        for actor in actors.drain(..) {
            lives.spawn(actor.live());
        }
        while let Some(actor) = lives.join_next().await {
            actors.push(actor.unwrap_or_else(|error| panic!("seed {seed}: {error}")));
        }
        actors.sort_by_key(|actor| actor.machine.number);
        // A machine is copied; the copy wakes up in the next round, with the state of now.
        if actors.len() as u64 == MACHINES && dice.one_in(2) {
            let original = dice.below(actors.len());
            let stopped = actors[original].machine.medium.clone();
            actors[original].restart_as(&stopped, Survival::Everything);
            let copy = Machine::on(MACHINES + 1, stopped.restart(Survival::Everything), 0);
            let mut copy = Actor::on(seed, copy, &place, &history);
            copy.is_copy = true;
            actors.push(copy);
        }
    }
    tokio::time::sleep(ALL_ARRIVED).await;
    for actor in &mut actors {
        actor.machine.medium.clear();
        actor.restart();
        actor.network.is_calm = true;
    }
    let mut is_settled = false;
    for _ in 0..ROUNDS {
        is_settled = true;
        for actor in &mut actors {
            is_settled &= actor.settle().await;
        }
        if is_settled {
            break;
        }
    }
    assert!(is_settled, "seed {seed}: both sides never came together");
    check(seed, &place, &actors, &history).await;
    let objects = place.objects();
    // The mark of a deletion says when that was, by a clock that goes on between two runs.
    let told =
        |bytes: &[u8]| if bytes.starts_with(&[0, 0]) { bytes[..bytes.len().min(3)].to_vec() } else { bytes.to_vec() };
    let all: Vec<u8> = objects.iter().flat_map(|(path, bytes)| [path.as_bytes(), &told(bytes)].concat()).collect();
    encode::sha256_hex(&all)
}

impl Actor {
    /// Goes on from a stopped disk.
    fn restart_as(&mut self, stopped: &unforget_testkit::crash::CrashMedium, survival: Survival) {
        self.restarts += 1;
        self.machine = Machine::on(self.machine.number, stopped.restart(survival), self.restarts * 10_000_000);
        self.network.remote = Arc::new(self.place.remote());
    }
}

async fn check(seed: u64, place: &Memory, actors: &[Actor], history: &Arc<Mutex<History>>) {
    let remote = place.remote();
    let sessions: BTreeSet<SessionId> = actors.iter().flat_map(Actor::all_here).collect();
    let mut found = BTreeSet::new();
    let deleted = history.lock().unwrap().deleted.clone();
    for id in &sessions {
        let text = match remote.frontier(&stream(id)).await {
            // What was deleted there and had nothing new here was not sent again; it is still here.
            Err(Error::NotFound { .. }) if deleted.contains(id) => {
                actors.iter().map(|actor| actor.machine.text(id)).max_by_key(String::len).unwrap_or_default()
            }
            _ => there(&remote, id).await,
        };
        let said = words(&text);
        let set: BTreeSet<String> = said.iter().cloned().collect();
        // Two machines that had what was deleted may both say it again on top of what came later.
        let is_one_life = !deleted.contains(id);
        assert!(!is_one_life || set.len() == said.len(), "seed {seed}: {id} says something twice: {said:?}");
        let mut last: BTreeMap<&str, &str> = BTreeMap::new();
        for word in &said {
            let (machine, count) = word.split_once('-').unwrap();
            let before = last.insert(machine, count);
            assert!(
                !is_one_life || before.is_none_or(|before| before < count),
                "seed {seed}: {id} is out of order: {said:?}"
            );
        }
        let report = scan(text.as_bytes()).report;
        assert_eq!(report.damage_count(), 0, "seed {seed}: {id} is damaged: {report:?}");
        found.extend(set);
        for actor in actors {
            let here = actor.machine.text(id);
            // What a kill left half-written behind the last line was never acknowledged.
            let whole = &here[..here.rfind('\n').map_or(0, |at| at + 1)];
            assert!(text.starts_with(whole), "seed {seed}: {id} differs on {}", actor.machine.number);
        }
    }
    let (acknowledged, confirmed) = {
        let mut history = history.lock().unwrap();
        (std::mem::take(&mut history.acknowledged), std::mem::take(&mut history.confirmed))
    };
    let lost: Vec<&String> = acknowledged.difference(&found).collect();
    assert!(lost.is_empty(), "seed {seed}: {lost:?} was acknowledged and is nowhere");
    for (id, words) in confirmed.iter().filter(|(id, _)| !deleted.contains(id)) {
        let text = there(&remote, id).await;
        let lost: Vec<&String> = words.iter().filter(|word| !text.contains(&format!("\"{word}\""))).collect();
        assert!(lost.is_empty(), "seed {seed}: {lost:?} of {id} was confirmed and is not there");
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

#[test]
fn whatever_happens_nothing_is_lost_doubled_or_put_out_of_order() {
    if let Some(seed) = number("UNFORGET_SEED") {
        println!("seed {seed}: {}", runtime().block_on(run(seed)));
        return;
    }
    let runs = number("UNFORGET_RUNS").unwrap_or(RUNS);
    println!("seeds 0 to {runs}");
    for seed in 0..runs {
        runtime().block_on(run(seed));
    }
}

#[test]
fn a_seed_gives_the_same_run_again() {
    for seed in 0..5 {
        assert_eq!(runtime().block_on(run(seed)), runtime().block_on(run(seed)), "seed {seed}");
    }
}
