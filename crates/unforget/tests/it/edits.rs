//! One table of edits through every front end: the chat, the command, HTTP, and the pipe.
//!
//! Each front end gets a copy of the same store and the same edits, one after the other. What it appends and what it refuses, with
//! which words, must be what the others append and refuse. The page sends the same requests (`web/tests/steering.test.mjs`).

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use serde_json::{Value, json};
use unforget_testkit::serving::owner_token;

use crate::scene::Scene;
use crate::serve::{owner, serve};
use crate::support::Home;

/// An edit in JSON, the same as words behind `unforget edit REF`, and as a line of the chat (none: the chat has no word for it).
const TABLE: &[(&str, &[&str], Option<&str>)] = &[
    (r#"{"edit":"redo"}"#, &["redo"], Some("/redo")),
    (r#"{"edit":"undo"}"#, &["undo"], Some("/undo")),
    (r#"{"edit":"undo"}"#, &["undo"], Some("/undo")),
    (r#"{"edit":"redo"}"#, &["redo"], Some("/redo")),
    (r#"{"edit":"redo"}"#, &["redo"], Some("/redo")),
    (r#"{"edit":"redo"}"#, &["redo"], Some("/redo")),
    (r#"{"edit":"checkpoint","name":"late"}"#, &["checkpoint", "late"], Some("/checkpoint late")),
    (r#"{"edit":"rewind","to":3}"#, &["rewind", "3"], Some("/rewind 3")),
    (r#"{"edit":"rewind","to":99}"#, &["rewind", "99"], Some("/rewind 99")),
    (r#"{"edit":"checkpoint","name":"early"}"#, &["checkpoint", "early"], Some("/checkpoint early")),
    (r#"{"edit":"restore","name":"late"}"#, &["restore", "late"], Some("/restore late")),
    (r#"{"edit":"redo"}"#, &["redo"], Some("/redo")),
    (r#"{"edit":"restore","name":"early"}"#, &["restore", "early"], Some("/restore early")),
    (r#"{"edit":"redo"}"#, &["redo"], Some("/redo")),
    (r#"{"edit":"branch","name":"side"}"#, &["branch", "side"], Some("/branch side")),
    (r#"{"edit":"branch","name":"late"}"#, &["branch", "late"], Some("/branch late")),
    (r#"{"edit":"checkpoint","name":"side"}"#, &["checkpoint", "side"], Some("/checkpoint side")),
    (r#"{"edit":"switch","to":"late"}"#, &["switch", "late"], Some("/switch-branch late")),
    (r#"{"edit":"switch","to":"nowhere"}"#, &["switch", "nowhere"], Some("/switch-branch nowhere")),
    (r#"{"edit":"rewind","to":"early"}"#, &["rewind", "early"], Some("/rewind early")),
    (r#"{"edit":"switch","to":"main"}"#, &["switch", "main"], Some("/switch-branch main")),
    (r#"{"edit":"switch","to":"main"}"#, &["switch", "main"], Some("/switch-branch main")),
    (r#"{"edit":"pin","n":1}"#, &["pin", "1"], Some("/pin 1")),
    (r#"{"edit":"pin","n":1}"#, &["pin", "1"], Some("/pin 1")),
    (r#"{"edit":"pin"}"#, &["pin"], Some("/pin")),
    (r#"{"edit":"pin","n":77}"#, &["pin", "77"], Some("/pin 77")),
    (r#"{"edit":"unpin","n":1}"#, &["unpin", "1"], Some("/pin off 1")),
    (r#"{"edit":"undo_compaction"}"#, &["undo-compaction"], Some("/undo-compact")),
    (r#"{"edit":"undo"}"#, &["undo"], Some("/undo")),
    (r#"{"edit":"undo"}"#, &["undo"], Some("/undo")),
    (r#"{"edit":"undo"}"#, &["undo"], Some("/undo")),
    (r#"{"edit":"undo"}"#, &["undo"], Some("/undo")),
    (r#"{"edit":"redo"}"#, &["redo"], Some("/redo")),
    (r#"{"edit":"title","title":"mine"}"#, &["title", "mine"], Some("/title mine")),
    (r#"{"edit":"label","label":"kept"}"#, &["label", "kept"], Some("/label kept")),
    (r#"{"edit":"label","label":null}"#, &["label"], Some("/label off")),
    (r#"{"edit":"expire","after":"30d"}"#, &["expire", "30d"], Some("/expire 30d")),
    (r#"{"edit":"expire","after":null}"#, &["expire"], Some("/expire default")),
    (r#"{"edit":"drop_name","name":"late"}"#, &["drop-name", "late"], None),
    (r#"{"edit":"drop_name","name":"late"}"#, &["drop-name", "late"], None),
    (r#"{"edit":"pin_session","on":true}"#, &["pin-session"], None),
];

/// What came of an edit: the records that it appended, or the words of the refusal.
type Came = Result<Vec<Value>, String>;

/// A store with a conversation of three turns; the id is the same everywhere.
struct Seed {
    home: Home,
    id: String,
}

impl Seed {
    fn new() -> Self {
        let home = Home::new();
        let id = home.ok(&["new", "--key", "main:cli:user"]).trim().to_owned();
        let turn = |n: usize| {
            format!(
                "{{\"type\":\"user\",\"content\":\"question {n}\"}}\n\
                 {{\"type\":\"assistant\",\"content\":[{{\"type\":\"text\",\"text\":\"answer {n}\"}}]}}\n\
                 {{\"type\":\"turn\",\"state\":\"done\"}}\n"
            )
        };
        assert_eq!(home.feed(&["append", &id], &(0..3).map(turn).collect::<String>()).code, 0);
        Self { home, id }
    }

    /// The same store for another front end.
    fn scene(&self) -> Scene {
        let scene = Scene::offline();
        let to = scene.home.transcript(&self.id);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(self.home.transcript(&self.id), to).unwrap();
        scene
    }

    /// The records from one on, without what differs with the clock.
    fn records(&self, scene: &Scene, from: usize) -> Vec<Value> {
        let records = scene.records_of(&self.id).into_iter().skip(from);
        let plain = |mut record: Value| {
            let members = record.as_object_mut().unwrap();
            members.retain(|name, _| !["ts", "crc"].contains(&name.as_str()));
            record
        };
        records.map(plain).collect()
    }

    /// Runs one edit, and tells what came of it; `edit` returns the words of a refusal.
    fn watch(&self, scene: &Scene, edit: impl FnOnce() -> Option<String>) -> Came {
        let before = scene.records_of(&self.id).len();
        let refusal = edit();
        let appended = self.records(scene, before);
        match refusal {
            Some(why) => {
                assert!(appended.is_empty(), "refused ({why}), and yet: {appended:?}");
                Err(why)
            }
            None => Ok(appended),
        }
    }
}

fn by_command(seed: &Seed) -> Vec<Came> {
    let scene = seed.scene();
    let one = |words: &[&str]| {
        let said = scene.run(&[&["edit", &seed.id], words].concat());
        let why = said.err.lines().next().and_then(|line| line.strip_prefix("error: "));
        assert_eq!(said.code == 0, why.is_none(), "{said:?}");
        why.map(str::to_owned)
    };
    TABLE.iter().map(|(_, words, _)| seed.watch(&scene, || one(words))).collect()
}

fn by_http(seed: &Seed) -> Vec<Came> {
    let scene = seed.scene();
    let server = serve(&scene, &[]);
    let host = server.url.strip_prefix("http://").unwrap();
    let token = owner_token(&server.url).unwrap();
    let head = format!("Host: {host}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n");
    let line = format!("POST /v1/sessions/{}/edits", seed.id);
    let one = |edit: &str| {
        let (status, answer) = owner::ask(&server.url, &line, &head, &format!("{{\"edits\":[{edit}]}}"));
        let body: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
        assert_eq!(status == 200, body["error"].is_null(), "{answer}");
        body["error"]["message"].as_str().map(str::to_owned)
    };
    TABLE.iter().map(|(edit, ..)| seed.watch(&scene, || one(edit))).collect()
}

fn by_pipe(seed: &Seed) -> Vec<Came> {
    let scene = seed.scene();
    let mut child = scene.command(&["store", "--stdio"]).stdin(Stdio::piped()).spawn().unwrap();
    let (mut input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut answers = BufReader::new(output).lines();
    let mut one = |edit: &str| {
        let edit: Value = serde_json::from_str(edit).unwrap();
        let request = json!({ "op": "edit", "id": 1, "session_id": seed.id, "edits": [edit] });
        writeln!(input, "{request}").unwrap();
        let answer: Value = serde_json::from_str(&answers.next().unwrap().unwrap()).unwrap();
        assert!(answer["ok"].is_object() || answer["err"].is_string(), "{answer}");
        answer["err"].as_str().map(str::to_owned)
    };
    let came = TABLE.iter().map(|(edit, ..)| seed.watch(&scene, || one(edit))).collect();
    drop(input);
    assert!(child.wait().unwrap().success());
    came
}

/// What the chat has no word for is none.
fn by_chat(seed: &Seed) -> Vec<Option<Came>> {
    let scene = seed.scene();
    let mut terminal = scene.chat();
    let mut one = |line: &str| {
        let told = terminal.say(line);
        told.lines().find_map(|line| line.trim().strip_prefix("error: ").map(str::to_owned))
    };
    TABLE.iter().map(|(_, _, line)| line.map(|line| seed.watch(&scene, || one(line)))).collect()
}

#[test]
fn every_front_end_appends_and_refuses_the_same() {
    let seed = Seed::new();
    let commands = by_command(&seed);
    let (http, pipe, chat) = (by_http(&seed), by_pipe(&seed), by_chat(&seed));
    for (at, (edit, ..)) in TABLE.iter().enumerate() {
        assert_eq!(http[at], commands[at], "{at}: {edit} by HTTP");
        assert_eq!(pipe[at], commands[at], "{at}: {edit} by the pipe");
        match &chat[at] {
            // The chat says why nothing was to be done.
            Some(Err(why)) if commands[at] == Ok(Vec::new()) => assert!(why.contains("is not pinned"), "{edit}: {why}"),
            Some(came) => assert_eq!(came, &commands[at], "{at}: {edit} in the chat"),
            None => {}
        }
    }
    let refused = commands.iter().filter(|came| came.is_err()).count();
    let silent = commands.iter().filter(|came| **came == Ok(Vec::new())).count();
    assert!(refused >= 10 && silent >= 2, "{refused} refused, {silent} were so already: {commands:#?}");
}
