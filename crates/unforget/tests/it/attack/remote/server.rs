//! A server between people and a hostile remote.
//!
//! People list, read, search, attach, prompt and load entries while everything that the remote says is forged. The server may refuse, and has to go on
//! serving: who asks for something else is answered.

use std::fs::File;

use serde_json::json;
use unforget_testkit::attacks::memory_of;
use unforget_testkit::serving::{Heard, Server, owner_header};

use super::*;
use crate::serve::owner::ask;
use crate::serve::{Person, SERVE};

/// What people ask for; `{id}` is the session that was attacked.
const REQUESTS: [(&str, &str); 8] = [
    ("GET /v1/sessions", ""),
    ("GET /v1/sessions/{id}", ""),
    ("GET /v1/sessions/{id}/records", ""),
    ("GET /v1/sessions/{id}/export", ""),
    ("GET /v1/search?q=forged", ""),
    ("POST /v1/entries/load", r#"{"key":{"project_key":"p","session_id":"s"}}"#),
    ("POST /v1/entries/list_sessions", r#"{"project_key":"p"}"#),
    ("POST /invocations", r#"{"prompt":"hello","session_id":"{id}"}"#),
];
/// What they say over a WebSocket.
const MESSAGES: [&str; 3] = ["attach", "attach by key", "prompt"];

impl Ground {
    /// Puts every attack to a server of its own.
    pub(super) fn put_to_server(&self, suite: &str, attacks: &[Attack<'_>]) {
        let each = REQUESTS.len() + MESSAGES.len() + 2;
        let tally = Mutex::new(Tally::new(suite, attacks.len() * each));
        let next = AtomicUsize::new(0);
        let lane = || {
            while let Some(attack) = attacks.get(next.fetch_add(1, Ordering::SeqCst)) {
                let (tried, above) = self.besiege(attack);
                let mut tally = tally.lock().unwrap();
                for (name, is_refused) in tried {
                    tally.attack(&name, is_refused);
                }
                if above >= unforget_testkit::attacks::MEMORY_LIMIT {
                    println!("{}: {} MiB", attack.name, above >> 20);
                }
                tally.memory(above);
            }
        };
        std::thread::scope(|scope| (0..LANES).for_each(|_| drop(scope.spawn(lane))));
        tally.into_inner().unwrap().finish().unwrap();
    }

    /// Asks a server for everything; tells what was refused, and its memory above what it has when it is idle.
    fn besiege(&self, attack: &Attack<'_>) -> (Vec<(String, bool)>, u64) {
        let site = (attack.site)();
        let scene = site.machine();
        let (log, name) = (scene.home.path("log"), attack.name);
        let mut command = scene.command(&SERVE);
        command.args(["--remote", &site.url, "--limit", "linger=1"]).stderr(File::create(&log).unwrap());
        self.key.as_ref().map(|key| command.arg("--key-file").arg(key));
        let Ok(server) = Server::start(&mut command) else {
            // It begins nothing where it cannot believe what it reads.
            let (said, peak) = watched(command);
            let is_refused = said.code != 0 && is_tame(&std::fs::read_to_string(&log).unwrap());
            let names = REQUESTS.iter().map(|(line, _)| *line).chain(MESSAGES).chain(["what it logs", "what it keeps"]);
            return (names.map(|asked| (format!("{name} against the server, {asked}"), is_refused)).collect(), peak);
        };
        let (idle, _) = memory_of(server.id()).unwrap();
        let mut tried = Vec::new();
        let mut note = |asked: &str, heard: String| {
            let is_refused = is_tame(&heard) && !heard.contains(FORGED);
            if !is_refused {
                println!("{name} against the server, {asked}: {heard}");
            }
            tried.push((format!("{name} against the server, {asked}"), is_refused));
        };
        for (line, body) in REQUESTS {
            let (line, body) = (line.replace("{id}", &self.id), body.replace("{id}", &self.id));
            let (status, answer) = request(&server, &line, &body);
            assert!(status > 0, "{name}: {line} was not answered");
            note(&line, answer.replace('\r', ""));
        }
        for message in MESSAGES {
            note(message, self.say(&server, message));
        }
        let (status, answer) = request(&server, "GET /v1/me", "");
        assert_eq!(status, 200, "{name}: {answer}");
        let mut person = Person::at(&server.url);
        person.prompt(None, "other", "hello");
        person.until(|message| matches!(message["type"].as_str(), Some("done" | "failed" | "error")));
        let (_, peak) = memory_of(server.id()).unwrap();
        drop(server);
        let log = std::fs::read_to_string(&log).unwrap();
        note("what it logs", if is_tame(&log) { String::new() } else { log });
        let home = if has_forged(&scene.home.path("home")) { FORGED } else { "" };
        note("what it keeps", home.to_owned());
        (tried, peak.saturating_sub(idle))
    }

    /// Says something over a WebSocket; all that was heard until that was answered.
    fn say(&self, server: &Server, message: &str) -> String {
        let mut person = Person::at(&server.url);
        person.say(&match message {
            "attach" => json!({ "type": "attach", "session_id": self.id }),
            "attach by key" => json!({ "type": "attach", "key": KEY }),
            _ => json!({ "type": "prompt", "session_id": self.id, "client_id": "c", "prompt": "hello" }),
        });
        let mut heard = String::new();
        loop {
            let Heard::Said(said) = person.hear() else { return heard };
            heard.push_str(&said.to_string());
            if matches!(said["type"].as_str(), Some("caught_up" | "done" | "failed" | "error")) {
                return heard;
            }
        }
    }
}

fn request(server: &Server, line: &str, body: &str) -> (u16, String) {
    let host = server.url.strip_prefix("http://").unwrap();
    let head = format!("Host: {host}\r\nContent-Type: application/json\r\n{}", owner_header(&server.url));
    ask(&server.url, line, &head, body)
}
