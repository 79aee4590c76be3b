//! A long life in short: 2,000 turns with tools in a small window, through the real binary, killed again and again.
//!
//! The kills come at moments that are recognised and not at random times: a request has arrived and is not answered, half of
//! an answer was shown, a tool says that it runs, a record was acknowledged. What must hold is checked on the way and
//! at the end: no request is refused, nothing acknowledged is lost, no call is run twice, the beginning of a request is
//! that of the one before it unless a record says why not, and what a person said is in the log once.
//!
//! `prompts` is what is said, `program` runs the binary, `requests` looks at what arrives, `log` at what is kept.

mod log;
mod program;
mod prompts;
mod requests;

use std::time::{Duration, Instant};

use unforget_testkit::api::{FakeApi, Options, Reply};
use unforget_testkit::generate::Dice;

use crate::support::Home;
use log::Log;
use program::{Program, Setting};
use prompts::Prompts;
use requests::{Requests, Trap};

const SEED: u64 = 2_026;
const TURNS: usize = 2_000;
const WINDOW: u64 = 30_000;
const MODEL: &str = "claude-opus-5";
/// How many turns a process has at most before something happens to it.
const TURNS_OF_A_PROCESS: usize = 24;
/// How often each kind of kill must have happened.
const KILLS_OF_A_KIND: usize = 20;
const KILLS: usize = 100;
const COMPACTIONS: usize = 10;
/// After so many processes everything is counted, so that a fault is told soon after it happened.
const ACCOUNT_EVERY: usize = 10;

/// When the program is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kill {
    /// A request has arrived and is not answered.
    Unanswered,
    /// Half of an answer has been shown.
    InStream,
    /// A tool runs.
    InTool,
    /// A record was acknowledged.
    AfterSaved,
}

const KINDS: [Kill; 4] = [Kill::Unanswered, Kill::InStream, Kill::InTool, Kill::AfterSaved];

struct Soak {
    setting: Setting,
    api: FakeApi,
    dice: Dice,
    prompts: Prompts,
    requests: Requests,
    log: Log,
    kills: [usize; KINDS.len()],
    restarts: usize,
    /// After how many turns which time had passed, and the peak memory of the program in kilobytes where it is known.
    times: Vec<(usize, Duration, Option<u64>)>,
}

#[test]
fn two_thousand_turns_survive_kills_in_every_part_of_a_turn() {
    let home = Home::new();
    let id = home.ok(&["new", "--key", "main:cli:soak"]).trim().to_owned();
    let (refused, note_refusals) = requests::refusals();
    let api = FakeApi::start(Options {
        window: WINDOW,
        model: MODEL.to_owned(),
        log: Some(note_refusals),
        ..Options::default()
    })
    .unwrap();
    let log = Log::new(home.transcript(&id));
    let requests = Requests::watch(&api, &log);
    let setting = Setting::new(home, &api, MODEL, WINDOW);
    let mut soak = Soak {
        setting,
        api,
        dice: Dice::new(SEED),
        prompts: Prompts::default(),
        requests,
        log,
        kills: [0; KINDS.len()],
        restarts: 0,
        times: Vec::new(),
    };
    println!("seed {SEED}");
    let begun = Instant::now();
    while soak.prompts.said.len() < TURNS {
        soak.live(begun);
        let refusals = refused.lock().unwrap();
        assert!(refusals.is_empty(), "after {} turns: {refusals:?}", soak.prompts.said.len());
    }
    soak.finish(begun);
}

impl Soak {
    /// Some turns of one process, and perhaps a kill.
    fn live(&mut self, begun: Instant) {
        let turns = 1 + self.dice.below(TURNS_OF_A_PROCESS);
        let kind = KINDS[self.dice.below(KINDS.len())];
        let mut program = Program::in_a_pipe(&self.setting);
        for _ in 0..turns {
            let line = self.prompts.line(&mut self.dice);
            program.say(&line);
        }
        let killed = match kind {
            // These two need no events, so that they can hit a process that has been running for a while.
            Kill::Unanswered if self.dice.one_in(2) => self.kill_unanswered(program),
            Kill::InTool if self.dice.one_in(2) => self.kill_in_tool(program),
            _ => {
                program.end();
                self.look();
                let program = Program::for_one_prompt(&self.setting);
                match kind {
                    Kill::Unanswered => self.kill_unanswered(program),
                    Kill::InStream => self.kill_in_stream(program),
                    Kill::InTool => self.kill_in_tool(program),
                    Kill::AfterSaved => self.kill_after_saved(program),
                }
            }
        };
        self.restarts += 1;
        self.kills[kind as usize] += usize::from(killed.is_some());
        self.look();
        if self.restarts.is_multiple_of(ACCOUNT_EVERY) {
            self.log.account(&self.prompts.said, &self.setting.ran());
        }
        self.times.push((self.prompts.said.len(), begun.elapsed(), killed.flatten()));
    }

    /// Looks at everything that has changed.
    fn look(&mut self) {
        self.log.check();
        self.requests.check(&self.log);
    }

    /// Kills the program; its log must have at least what it had before.
    fn kill(&mut self, program: Program, saved: Option<u64>) -> Option<Option<u64>> {
        self.log.check();
        let memory = program.peak_memory();
        let killed = program.kill();
        self.log.check();
        if let Some(n) = saved {
            assert!(self.log.last() >= n, "record {n} was acknowledged, and the last one is {}", self.log.last());
        }
        killed.then_some(memory)
    }

    fn kill_unanswered(&mut self, mut program: Program) -> Option<Option<u64>> {
        let which = 1 + self.dice.below(3);
        let (marker, text) = self.prompts.chain(&mut self.dice);
        let trap = Trap::set(&self.api, &marker, which, |_| true, Reply::Silence);
        program.say(&text);
        program.finish_saying_if_one();
        trap.wait(|| self.log.tail());
        self.kill(program, None)
    }

    fn kill_in_stream(&mut self, mut program: Program) -> Option<Option<u64>> {
        let which = 1 + self.dice.below(3);
        let (marker, text) = self.prompts.chain(&mut self.dice);
        let half = "half of an answer, and";
        let trap =
            Trap::set(&self.api, &marker, which, requests::is_of_conversation, Reply::Stall { text: half.to_owned() });
        program.say(&text);
        program.finish_saying_if_one();
        trap.wait(|| self.log.tail());
        // It comes in pieces; the calls before it have no text.
        program.wait_for_line(|line| line.starts_with("{\"event\":\"text\""));
        let saved = program.saved();
        self.kill(program, saved)
    }

    fn kill_in_tool(&mut self, mut program: Program) -> Option<Option<u64>> {
        let (token, text) = self.prompts.waiting(&mut self.dice);
        program.say(&text);
        program.finish_saying_if_one();
        self.setting.wait_for_tool(&token);
        self.kill(program, None)
    }

    fn kill_after_saved(&mut self, mut program: Program) -> Option<Option<u64>> {
        let which = 1 + self.dice.below(3);
        let (_, text) = self.prompts.chain(&mut self.dice);
        program.say(&text);
        program.finish_saying_if_one();
        for _ in 0..which {
            program.wait_for_line(|line| line.starts_with("{\"event\":\"saved\""));
        }
        let saved = program.saved();
        self.kill(program, saved)
    }

    /// The last process ends by itself; then everything is counted.
    fn finish(mut self, begun: Instant) {
        let mut program = Program::in_a_pipe(&self.setting);
        program.say(&self.prompts.line(&mut self.dice));
        program.end();
        self.look();
        let ran = self.setting.ran();
        let found = self.log.account(&self.prompts.said, &ran);
        let kills: usize = self.kills.iter().sum();
        println!(
            "{} turns, {} restarts, {kills} kills {:?}, {} records, {} commands run, {} requests of the conversation, \
             {} others, {} new beginnings, {} compactions, {} trims, {:.1} s",
            self.prompts.said.len(),
            self.restarts,
            KINDS.iter().zip(self.kills).collect::<Vec<_>>(),
            found.records,
            ran.len(),
            self.requests.compared,
            self.requests.others,
            self.requests.new_beginnings,
            found.compactions,
            found.trims,
            begun.elapsed().as_secs_f64(),
        );
        println!("turns 200-300: {}; last 100: {}", self.speed(200, 300), self.speed(TURNS - 100, TURNS));
        assert!(kills >= KILLS && self.kills.iter().all(|count| *count >= KILLS_OF_A_KIND), "{:?}", self.kills);
        assert!(found.compactions >= COMPACTIONS, "{} compactions", found.compactions);
        let said = self.setting.home.run(&["doctor"]);
        assert_eq!(said.code, 0, "{said:?}");
    }

    /// What a turn took in a part of the session, and how much memory a process had.
    fn speed(&self, from: usize, to: usize) -> String {
        let within: Vec<_> = self.times.iter().filter(|(turn, ..)| (from..=to).contains(turn)).collect();
        let (Some(first), Some(last)) = (within.first(), within.last()) else { return "unknown".to_owned() };
        let ms = (last.1 - first.1).as_secs_f64() * 1000.0 / (last.0 - first.0).max(1) as f64;
        let memory = within.iter().filter_map(|(_, _, memory)| *memory).max();
        format!("{ms:.1} ms a turn, peak memory {} kB", memory.unwrap_or(0))
    }
}
