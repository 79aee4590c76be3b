//! `serve`, from outside: the real program, real sockets, real signals. What is inside a server is tested in its own crate.

mod beside;
mod cluster;
mod ending;
#[cfg(feature = "postgres")]
mod fleet;
mod full;
mod kill;
mod load;
#[cfg(target_os = "linux")]
mod memory;
pub(crate) mod owner;

use std::time::Duration;

use serde_json::{Value, json};
use tokio::runtime::Runtime;
use unforget_testkit::serving::{Client, Heard, Server, Transcript};

use crate::scene::Scene;

/// Longer than anything should take, and only waited for if something hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const SERVE: [&str; 4] = ["serve", "--json", "--listen", "127.0.0.1:0"];

/// Starts a server on a scene's home, with more arguments.
pub(crate) fn serve(scene: &Scene, more: &[&str]) -> Server {
    let mut command = scene.command(&SERVE);
    Server::start(command.args(more).stderr(std::process::Stdio::inherit())).unwrap()
}

/// What a scene's home has of a session.
pub(crate) fn transcript(scene: &Scene, id: &str) -> Transcript {
    Transcript::read(&scene.home.transcript(id)).unwrap()
}

/// Each prompt by its name, how its turn ended, and what was answered.
pub(crate) fn told(transcript: &Transcript) -> Vec<(&str, &str, &str)> {
    let of = |text: &'_ Option<String>| text.clone().unwrap_or_default();
    assert_eq!(transcript.gaps, Vec::<String>::new());
    let told = transcript.prompts.iter().map(|said| (of(&said.client_id), of(&said.end), said.answer.as_str()));
    told.map(|(name, end, answer)| (name.leak() as &str, end.leak() as &str, answer)).collect()
}

/// Somebody with a connection.
pub(crate) struct Person {
    runtime: Runtime,
    client: Client,
}

impl Person {
    pub(crate) fn at(url: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let client = runtime.block_on(Client::connect(url)).unwrap();
        Self { runtime, client }
    }

    pub(crate) fn say(&mut self, message: &Value) {
        self.runtime.block_on(self.client.say(message)).unwrap();
    }

    /// A prompt in a session; in the one that is watched if none is named.
    pub(crate) fn prompt(&mut self, session: Option<&str>, name: &str, words: &str) {
        self.say(&json!({ "type": "prompt", "session_id": session, "client_id": name, "prompt": words }));
    }

    pub(crate) fn hear(&mut self) -> Heard {
        let heard = async { tokio::time::timeout(PATIENCE, self.client.hear()).await };
        self.runtime.block_on(heard).expect("nothing was told")
    }

    /// All messages up to one that is meant, that one included.
    pub(crate) fn until(&mut self, is_it: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut heard = Vec::new();
        loop {
            match self.hear() {
                Heard::Said(message) => {
                    let is_last = is_it(&message);
                    heard.push(message);
                    if is_last {
                        return heard;
                    }
                }
                Heard::Closed(code) => panic!("closed ({code:?}) after {heard:#?}"),
            }
        }
    }

    pub(crate) fn until_type(&mut self, kind: &str) -> Vec<Value> {
        self.until(|message| message["type"] == kind)
    }

    /// How a prompt was answered: `done`, `failed` or an error.
    pub(crate) fn answer(&mut self, name: &str) -> Value {
        let ends = |message: &Value| {
            matches!(message["type"].as_str(), Some("done" | "failed" | "error")) && message["client_id"] == name
        };
        self.until(ends).pop().unwrap()
    }

    /// Everything up to the end of the connection, and its code.
    pub(crate) fn rest(&mut self) -> (Vec<Value>, Option<u16>) {
        let mut heard = Vec::new();
        loop {
            match self.hear() {
                Heard::Said(message) => heard.push(message),
                Heard::Closed(code) => return (heard, code),
            }
        }
    }

    /// Watches a session behind a record; what was told until all was told that was there.
    pub(crate) fn attach(&mut self, session: &str, after: Option<u64>) -> Vec<Value> {
        self.say(&json!({ "type": "attach", "session_id": session, "after": after }));
        self.until_type("caught_up")
    }
}

/// The session that a connection was told of first.
pub(crate) fn session(heard: &[Value]) -> String {
    let attached = heard.iter().find(|message| message["type"] == "attached").unwrap();
    attached["session_id"].as_str().unwrap().to_owned()
}

/// The records among messages.
pub(crate) fn records(heard: &[Value]) -> Vec<&Value> {
    heard.iter().filter(|message| message["type"] == "record").map(|message| &message["record"]).collect()
}
