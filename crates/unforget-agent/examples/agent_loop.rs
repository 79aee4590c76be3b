//! An agent of one's own: a model, a tool and a host, and the turn that writes everything down in the right order.
//!
//! The model here is a function that needs no key. One that talks to a server does the same: it takes a request, and
//! hands over its answer piece by piece.
//!
//! ```console
//! $ cargo run -p unforget-agent --example agent_loop
//! ```

use std::error::Error;
use std::path::Path;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use unforget_agent::guard::Agent;
use unforget_agent::host::{Answer, Host, Notice};
use unforget_agent::model::{BoxFuture, Delta, Event, Model, ModelError, Request, Sink};
use unforget_agent::settings::Settings;
use unforget_agent::tools::{Call, Output, Tool, Toolbox};
use unforget_agent::turn::{Input, run_turn};
use unforget_core::{Key, OnMissing, Store};

/// Calls `multiply` with the numbers in a question, and tells what came back.
struct Arithmetic;

#[rustfmt::skip] // What only says something takes one line.
impl Model for Arithmetic {
    fn name(&self) -> &str { "arithmetic" }
    fn window(&self) -> u64 { 100_000 }
    fn respond<'a>(&'a self, request: &'a Request<'a>, sink: Sink<'a>) -> BoxFuture<'a, Result<(), ModelError>> {
        Box::pin(async move {
            let messages = &request.history.messages;
            let last = messages.last().and_then(|message| message.blocks.last()).map_or("null", |block| block.as_ref());
            let last: Value =
                serde_json::from_str(last).map_err(|error| ModelError::Protocol { message: error.to_string() })?;
            let number = messages.len();
            let (block, delta, stop_reason) = if last["type"] == "tool_result" {
                let result = last["content"].as_str().or(last["content"][0]["text"].as_str()).unwrap_or("nothing");
                (json!({"type": "text", "text": ""}), Delta::Text(format!("It is {result}.")), "end_turn")
            } else {
                let words = last["text"].as_str().unwrap_or_default().split(|c: char| !c.is_ascii_digit());
                let factors: Vec<u64> = words.filter_map(|word| word.parse().ok()).collect();
                let block =
                    json!({"type": "tool_use", "id": format!("call_{number}"), "name": "multiply", "input": {}});
                (block, Delta::Input(json!({ "factors": factors }).to_string()), "tool_use")
            };
            let usage = || json!({"input_tokens": 10 * number, "output_tokens": 10}).to_string();
            sink(Event::Started { id: format!("msg_{number}"), model: self.name().to_owned(), usage: usage() });
            sink(Event::BlockStarted { index: 0, block: block.to_string() });
            sink(Event::Delta { index: 0, delta });
            sink(Event::BlockEnded { index: 0 });
            sink(Event::Ended { stop_reason: Some(stop_reason.to_owned()), usage: usage() });
            Ok(())
        })
    }

    fn count<'a>(&'a self, request: &'a Request<'a>) -> BoxFuture<'a, Result<u64, ModelError>> {
        Box::pin(async move { Ok(10 * request.history.messages.len() as u64) })
    }
}

struct Multiply;

#[rustfmt::skip]
impl Tool for Multiply {
    fn name(&self) -> &'static str { "multiply" }
    fn description(&self) -> &'static str { "Multiplies whole numbers." }
    fn schema(&self) -> &'static str { r#"{"type":"object","properties":{"factors":{"type":"array","items":{"type":"integer"}}},"required":["factors"]}"# }
    fn asks_first(&self) -> bool { true }
    fn run<'a>(&'a self, input: &'a Value, _abort: &'a CancellationToken) -> BoxFuture<'a, Output> {
        let mut factors = input["factors"].as_array().into_iter().flatten().filter_map(Value::as_u64);
        let product = factors.try_fold(1, u64::checked_mul);
        Box::pin(async move { product.map_or_else(|| Output::failed("too large"), |it| Output::ok(it.to_string())) })
    }
}

/// Allows every call and notes what it was asked. A terminal shows the notices and asks a person.
#[derive(Default)]
struct Notes(Vec<String>);

#[rustfmt::skip]
impl Host for Notes {
    fn tell(&mut self, notice: Notice<'_>) {
        if let Notice::ToolEnded { call, output, .. } = notice {
            self.0.push(format!("{} {} gave {}", call.name, call.input, output.text));
        }
    }

    fn standing(&self, _call: &Call) -> Option<Answer> { None }
    fn approve<'a>(&'a mut self, call: &'a Call) -> BoxFuture<'a, Answer> {
        self.0.push(format!("{} was allowed", call.name));
        Box::pin(async { Answer::Allowed { by: "person" } })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    #[expect(clippy::print_stdout, reason = "an example shows what it does")]
    for line in run(folder.path()).await? {
        println!("{line}");
    }
    Ok(())
}

/// Asks two questions, each as a process of its own would, and tells what happened.
pub(crate) async fn run(dir: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let key: Key = "main:cli:ada".parse()?;
    let settings = Settings { system: "You calculate.".to_owned(), ..Settings::default() };
    let agent = Agent { model: &Arithmetic, settings: &settings };
    let tools = Toolbox::new(vec![Box::new(Multiply)]);
    let mut host = Notes::default();
    for words in ["What is 6 x 7?", "And 12 x 12?"] {
        // Nothing is carried over but the file: what the model sees is built from it.
        let mut session = Store::open(dir)?.load(&key, OnMissing::Create)?;
        let abort = CancellationToken::new();
        let ended = run_turn(&mut session, Input::Words(words), &agent, &tools, &mut host, &abort).await?;
        host.0.push(format!("{words} {}", ended.text));
        session.close()?;
    }
    Ok(host.0)
}
