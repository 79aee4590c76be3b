//! Who plays beside the real parts: a clock, a tool and a person.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use unforget_agent::host::{Answer, Host, Notice};
use unforget_agent::model::BoxFuture;
use unforget_agent::tools::{Call, Output, Tool};
use unforget_core::stamp::{SessionId, Source};

use super::{lines_of, transcript};

/// A clock that ticks one second a call, and ids that count up.
#[derive(Debug, Default)]
pub(crate) struct Ticking {
    time: AtomicU64,
    ids: AtomicU64,
}

impl Source for Ticking {
    fn now_ms(&self) -> i64 {
        1_767_225_600_000 + i64::try_from(self.time.fetch_add(1000, Ordering::Relaxed)).unwrap()
    }

    fn new_id(&self, _: i64) -> SessionId {
        let count = self.ids.fetch_add(1, Ordering::Relaxed);
        SessionId::parse(&format!("01900000-0000-7000-8000-{count:012}")).unwrap()
    }
}

/// What the tool has done, and whom it woke.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    commands: Mutex<Vec<String>>,
    /// The transcript as it was when a command looked at it.
    looks: Mutex<Vec<Vec<Value>>>,
    pub(crate) began: Notify,
}

impl Runs {
    pub(crate) fn commands(&self) -> Vec<String> {
        self.commands.lock().unwrap().clone()
    }

    pub(crate) fn looks(&self) -> Vec<Vec<Value>> {
        self.looks.lock().unwrap().clone()
    }
}

/// The tool: `echo X`, `long N` (lines), `cjk N` (characters), `fail`, `wait` (until aborted), `look` (at the file).
pub(super) struct Bench {
    pub(super) runs: Arc<Runs>,
    pub(super) root: PathBuf,
    pub(super) kit: Kit,
}

/// How the tool presents itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kit {
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
    pub(crate) asks: Asks,
}

/// Whether the tool asks before it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asks {
    Never,
    First,
}

impl Tool for Bench {
    fn name(&self) -> &'static str {
        self.kit.name
    }

    fn description(&self) -> &'static str {
        self.kit.description
    }

    fn schema(&self) -> &'static str {
        r#"{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}"#
    }

    fn asks_first(&self) -> bool {
        self.kit.asks == Asks::First
    }

    fn run<'a>(&'a self, input: &'a Value, abort: &'a CancellationToken) -> BoxFuture<'a, Output> {
        let command = input["command"].as_str().unwrap_or_default().to_owned();
        self.runs.commands.lock().unwrap().push(command.clone());
        self.runs.began.notify_one();
        Box::pin(async move {
            let (word, rest) = command.split_once(' ').unwrap_or((&command, ""));
            match word {
                "long" => Output::ok(numbered(rest.parse().unwrap())),
                "cjk" => Output::ok("記".repeat(rest.parse().unwrap())),
                "fail" => Output::failed("it failed"),
                "wait" => {
                    abort.cancelled().await;
                    Output::failed("[aborted by the user]")
                }
                "look" => {
                    let lines = lines_of(&transcript(&self.root));
                    self.runs.looks.lock().unwrap().push(lines);
                    Output::ok("looked")
                }
                _ => Output::ok(rest),
            }
        })
    }
}

/// So many numbered lines of fifty bytes each.
pub(crate) fn numbered(count: usize) -> String {
    (0..count).map(|line| format!("line {line:08} {}\n", "abcdefgh ".repeat(4).trim_end())).collect()
}

/// A person who answers by script and notes what is told.
#[derive(Debug, Default)]
pub(crate) struct Person {
    pub(crate) answers: VecDeque<Answer>,
    /// What is answered when the script has ended; without it the person never answers.
    pub(crate) otherwise: Option<Answer>,
    pub(crate) asked: Vec<Call>,
    pub(crate) guard: Vec<String>,
    pub(crate) retries: u32,
    /// Is woken when a question is open that the script has no answer to.
    pub(crate) ponders: Arc<Notify>,
    /// Is woken by every piece of text.
    pub(crate) hears: Arc<Notify>,
}

impl Host for Person {
    fn tell(&mut self, notice: Notice<'_>) {
        use unforget_agent::model::{Delta, Event};
        match notice {
            Notice::Guard(line) => self.guard.push(line.to_owned()),
            Notice::Model(Event::Retrying { .. }) => self.retries += 1,
            Notice::Model(Event::Delta { delta: Delta::Text(_), .. }) => self.hears.notify_one(),
            _ => {}
        }
    }

    fn standing(&self, _: &Call) -> Option<Answer> {
        None
    }

    fn approve<'a>(&'a mut self, call: &'a Call) -> BoxFuture<'a, Answer> {
        self.asked.push(call.clone());
        let answer = self.answers.pop_front().or_else(|| self.otherwise.clone());
        let ponders = Arc::clone(&self.ponders);
        Box::pin(async move {
            match answer {
                Some(answer) => answer,
                None => {
                    ponders.notify_one();
                    std::future::pending().await
                }
            }
        })
    }
}
