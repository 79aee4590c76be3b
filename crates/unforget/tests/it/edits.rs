//! One table of edits through every front end: the chat, the command, HTTP, the pipe, and the requests of the page's client.
//!
//! Each front end gets a copy of the same store and the same edits, one after the other. What it appends and what it refuses, with
//! which words, must be what the others append and refuse.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use serde_json::{Value, json};
use unforget_testkit::serving::owner_token;

use crate::scene::Scene;
use crate::serve::{owner, serve};
use crate::support::Home;

/// The table: an edit in JSON, the same as words behind `unforget edit REF`, as a line of the chat, and as what the page's client is asked for
/// and sends. The chat and the page have no word for some. That the client does send it, `web/units/edits.ts` proves.
const TABLE: &str = include_str!("../../../../web/units/edits.json");

#[derive(serde::Deserialize)]
struct Row {
    edit: Value,
    command: Vec<String>,
    chat: Option<String>,
    /// Method, what stands behind the session in the path, and body.
    request: Option<(String, String, Value)>,
}

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

fn by_command(seed: &Seed, table: &[Row]) -> Vec<Came> {
    let scene = seed.scene();
    let one = |words: &[String]| {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let said = scene.run(&[&["edit", seed.id.as_str()], words.as_slice()].concat());
        let why = said.err.lines().next().and_then(|line| line.strip_prefix("error: "));
        assert_eq!(said.code == 0, why.is_none(), "{said:?}");
        why.map(str::to_owned)
    };
    table.iter().map(|row| seed.watch(&scene, || one(&row.command))).collect()
}

/// By HTTP, each edit as the request that is made of it.
fn by_http(seed: &Seed, table: &[Row], request: impl Fn(&Row) -> (String, String, Value)) -> Vec<Came> {
    let scene = seed.scene();
    let server = serve(&scene, &[]);
    let host = server.url.strip_prefix("http://").unwrap();
    let token = owner_token(&server.url).unwrap();
    let head = format!("Host: {host}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n");
    let one = |(method, rest, body): (String, String, Value)| {
        let line = format!("{method} /v1/sessions/{}{rest}", seed.id);
        let (status, answer) = owner::ask(&server.url, &line, &head, &body.to_string());
        let body: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
        assert_eq!(status == 200, body["error"].is_null(), "{answer}");
        body["error"]["message"].as_str().map(str::to_owned)
    };
    table.iter().map(|row| seed.watch(&scene, || one(request(row)))).collect()
}

fn by_pipe(seed: &Seed, table: &[Row]) -> Vec<Came> {
    let scene = seed.scene();
    let mut child = scene.command(&["store", "--stdio"]).stdin(Stdio::piped()).spawn().unwrap();
    let (mut input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut answers = BufReader::new(output).lines();
    let mut one = |edit: &Value| {
        let request = json!({ "op": "edit", "id": 1, "session_id": seed.id, "edits": [edit] });
        writeln!(input, "{request}").unwrap();
        let answer: Value = serde_json::from_str(&answers.next().unwrap().unwrap()).unwrap();
        assert!(answer["ok"].is_object() || answer["err"].is_string(), "{answer}");
        answer["err"].as_str().map(str::to_owned)
    };
    let came = table.iter().map(|row| seed.watch(&scene, || one(&row.edit))).collect();
    drop(input);
    assert!(child.wait().unwrap().success());
    came
}

/// What the chat has no word for is none.
fn by_chat(seed: &Seed, table: &[Row]) -> Vec<Option<Came>> {
    let scene = seed.scene();
    let mut terminal = scene.chat();
    let mut one = |line: &str| {
        let told = terminal.say(line);
        told.lines().find_map(|line| line.trim().strip_prefix("error: ").map(str::to_owned))
    };
    table.iter().map(|row| row.chat.as_deref().map(|line| seed.watch(&scene, || one(line)))).collect()
}

#[test]
fn every_front_end_appends_and_refuses_the_same() {
    let (seed, table) = (Seed::new(), serde_json::from_str::<Vec<Row>>(TABLE).unwrap());
    let commands = by_command(&seed, &table);
    let plain = |row: &Row| ("POST".to_owned(), "/edits".to_owned(), json!({ "edits": [row.edit] }));
    let http = by_http(&seed, &table, plain);
    // What the page has no button for is done all the same, so that what comes behind it finds the same session.
    let page = by_http(&seed, &table, |row| row.request.clone().unwrap_or_else(|| plain(row)));
    let (pipe, chat) = (by_pipe(&seed, &table), by_chat(&seed, &table));
    for (at, Row { edit, .. }) in table.iter().enumerate() {
        assert_eq!(http[at], commands[at], "{at}: {edit} by HTTP");
        assert_eq!(page[at], commands[at], "{at}: {edit} by the page's client");
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
