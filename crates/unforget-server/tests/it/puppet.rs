//! A model that does as it is told: it repeats what it hears, and the words say what else.
//!
//! `hold`: the first half of the answer, then nothing until the test lets it go on. `panic`: it panics. `fail`: it refuses. `tool NAME JSON`:
//! it calls a tool. `long N`: N words. `recall`: everything that people said. `blab`: it panics and repeats what it heard. `steps N`: N times 256 KB, and
//! before each but the first it waits for the test. `stumble`: it is not there the first time that it is asked for anything.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Semaphore;
use unforget_agent::model::{BoxFuture, Delta, Event, Model, ModelError, Request, Sink};
use unforget_core::history::Role;

#[derive(Clone)]
pub(crate) struct Puppet {
    /// One permit lets one held answer go on.
    pub(crate) gate: Arc<Semaphore>,
    /// How many answers were begun.
    pub(crate) asked: Arc<std::sync::atomic::AtomicUsize>,
}

impl Puppet {
    pub(crate) fn new() -> Self {
        Self { gate: Arc::new(Semaphore::new(0)), asked: Arc::default() }
    }

    pub(crate) fn let_go(&self) {
        self.gate.add_permits(1);
    }
}

/// What people said, and whether the last thing is a result of a tool.
fn heard(request: &Request<'_>) -> (Vec<String>, bool) {
    let (mut said, mut is_result) = (Vec::new(), false);
    for message in request.history.messages.iter().filter(|message| message.role == Role::User) {
        is_result = false;
        for block in &message.blocks {
            let block: Value = serde_json::from_str(block).unwrap();
            match block["type"].as_str() {
                Some("text") => {
                    said.push(block["text"].as_str().unwrap().to_owned());
                    // New words may stand behind old results, in one message.
                    is_result = false;
                }
                Some("tool_result") => is_result = true,
                _ => {}
            }
        }
    }
    (said, is_result)
}

impl Model for Puppet {
    fn name(&self) -> &str {
        "puppet"
    }

    fn window(&self) -> u64 {
        200_000
    }

    fn respond<'a>(&'a self, request: &'a Request<'a>, sink: Sink<'a>) -> BoxFuture<'a, Result<(), ModelError>> {
        Box::pin(async move {
            let asked = self.asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            let (said, is_result) = heard(request);
            let last = said.last().cloned().unwrap_or_default();
            assert!(!last.contains("panic"), "as it was told");
            assert!(!last.contains("blab"), "it heard: {last}");
            if last.contains("fail") || last.contains("stumble") && asked == 0 {
                return Err(ModelError::Rejected { status: 400, message: "as it was told".to_owned() });
            }
            let usage = json!({ "input_tokens": 10, "output_tokens": 5 }).to_string();
            sink(Event::Started {
                id: format!("msg_{}", said.len()),
                model: "puppet".to_owned(),
                usage: usage.clone(),
            });
            let steps = last.strip_prefix("steps ").map(|count| count.trim().parse::<usize>().unwrap());
            let text = match last.strip_prefix("long ") {
                Some(count) => "word ".repeat(count.trim().parse().unwrap()),
                None if steps.is_some() => ("x".repeat(4095) + " ").repeat(64 * steps.unwrap()),
                None if last == "recall" => said.join(" | "),
                None => format!("you said: {last}"),
            };
            let begins = json!({ "type": "text", "text": "" }).to_string();
            sink(Event::BlockStarted { index: 0, block: begins });
            let words: Vec<&str> = text.split_inclusive(' ').collect();
            for (at, word) in words.iter().enumerate() {
                if at == words.len() / 2 && last.contains("hold") || steps.is_some() && at > 0 && at % 64 == 0 {
                    self.gate.acquire().await.unwrap().forget();
                }
                sink(Event::Delta { index: 0, delta: Delta::Text((*word).to_owned()) });
            }
            sink(Event::BlockEnded { index: 0 });
            let mut reason = "end_turn";
            if let Some(call) = last.strip_prefix("tool ").filter(|_| !is_result) {
                let (name, input) = call.split_once(' ').unwrap();
                let id = format!("toolu_{}", said.len());
                let begins = json!({ "type": "tool_use", "id": id, "name": name, "input": {} }).to_string();
                sink(Event::BlockStarted { index: 1, block: begins });
                sink(Event::Delta { index: 1, delta: Delta::Input(input.to_owned()) });
                sink(Event::BlockEnded { index: 1 });
                reason = "tool_use";
            }
            sink(Event::Ended { stop_reason: Some(reason.to_owned()), usage });
            Ok(())
        })
    }

    fn count<'a>(&'a self, _: &'a Request<'a>) -> BoxFuture<'a, Result<u64, ModelError>> {
        Box::pin(async { Ok(10) })
    }
}
