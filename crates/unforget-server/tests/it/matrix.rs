//! Everybody at every door of every store: no actor reads or changes what is another's.
//!
//! Two actors and nobody, every operation of `docs/openapi.json` and the places that are not in it, on each place where sessions can be. What bob is told about
//! ada's session is what he is told about one that nobody ever had, byte for byte, and afterwards all that is ada's is what it was.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use unforget_core::medium::Os;
use unforget_remote::Remote;
use unforget_remote::file::Folder;
use unforget_remote::postgres::{Limits, Postgres};
use unforget_remote::{agentcore, s3};
use unforget_testkit::agentcore::FakeMemory;
use unforget_testkit::servers::moto::Moto;
use unforget_testkit::servers::postgres;

use crate::scene::{Answer, Scene, Setting};

const OPENAPI: &str = include_str!("../../../../docs/openapi.json");
/// A word that only ada said.
const WORD: &str = "marzipan";
/// What the Claude SDK calls ada's project.
const PROJECT: &str = "the-project-of-ada";
/// Places that say nothing about anybody.
const PUBLIC: [&str; 2] = ["/v1/health", "/v1/openapi.json"];

/// Places that are for the page of the server only.
const OF_THE_PAGE: [&str; 2] = ["/v1/login", "/v1/logout"];

/// A request; the body for a session of this id.
struct Asking {
    method: String,
    path: String,
    body: Option<Value>,
}

/// Every operation of the document, about this session.
fn operations(id: &str) -> Vec<Asking> {
    let document: Value = serde_json::from_str(OPENAPI).unwrap();
    let mut all = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap().iter().filter(|(name, _)| *name != "parameters") {
            let query = match path.as_str() {
                "/v1/search" => format!("?q={WORD}"),
                _ => String::new(),
            };
            let key = json!({ "project_key": PROJECT, "session_id": id });
            let body = match path.rsplit('/').next().unwrap() {
                "sessions" if method == "post" => Some(json!({ "key": "main:web:ada" })),
                "{id}" if method == "patch" => Some(json!({ "title": "mine now" })),
                "edits" => Some(json!({ "edits": [{ "edit": "undo" }] })),
                "rewind" => Some(json!({ "to": 1 })),
                "pin" => Some(json!({ "n": 1, "pinned": true })),
                "checkpoint" | "branch" => Some(json!({ "name": "mine" })),
                "append" => Some(json!({ "key": key, "entries": [{ "type": "x", "uuid": "of-bob" }] })),
                "messages" if method == "post" => {
                    Some(json!({ "messages": [{ "role": "user", "content": "mine now" }] }))
                }
                "load" | "read" | "delete" | "list_subkeys" => Some(json!({ "key": key })),
                "list_sessions" | "list_session_summaries" => Some(json!({ "project_key": PROJECT })),
                _ if operation.get("requestBody").is_some() => Some(json!({})),
                _ => None,
            };
            all.push(Asking { method: method.to_uppercase(), path: path.replace("{id}", id) + &query, body });
        }
    }
    assert!(all.len() > 25, "the document has {} operations", all.len());
    let invoke = |body: Value| Asking { method: "POST".to_owned(), path: "/invocations".to_owned(), body: Some(body) };
    all.push(invoke(json!({ "prompt": "mine now", "session_id": id })));
    all.push(invoke(json!({ "prompt": "mine now", "session_id": id, "stream": true })));
    all.push(Asking { method: "GET".to_owned(), path: "/metrics".to_owned(), body: None });
    all
}

/// Every file of an actor's sessions, with its bytes.
fn kept(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![folder.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            match entry.file_type().unwrap().is_dir() {
                true => folders.push(path),
                // Locks and lists are written by whoever reads.
                false if path.extension().is_some_and(|kind| kind == "jsonl") => {
                    let bytes = std::fs::read(&path).unwrap();
                    found.insert(path, bytes);
                }
                false => {}
            }
        }
    }
    found
}

/// An answer without what differs from request to request.
fn plain(answer: &Answer, id: &str) -> (u16, BTreeMap<String, String>, String) {
    let mut text = answer.text().replace(id, "ID");
    // What bob may have himself has an id and times of its own.
    if answer.status < 300
        && let Ok(value) = serde_json::from_str::<Value>(&text)
    {
        text = shape(&value).to_string();
    }
    let mut headers = answer.headers.clone();
    headers.remove("content-length");
    (answer.status, headers, text)
}

/// What a value is made of.
fn shape(value: &Value) -> Value {
    match value {
        Value::Object(members) => members.iter().map(|(name, value)| (name.clone(), shape(value))).collect(),
        Value::Array(items) => items.first().map_or_else(|| json!([]), |first| json!([shape(first)])),
        Value::Null => Value::Null,
        _ => json!("something"),
    }
}

fn matrix(remote: Option<Arc<dyn Remote>>) {
    let setting = Setting { remote: remote.clone(), ..Setting::of(&["ada", "bob"]) };
    let mut scene = Scene::with(setting.clone());
    let mut ada = scene.connect_as("ada");
    ada.say(&json!({ "type": "prompt", "prompt": WORD, "key": "main:web:ada" }));
    let live = ada.until("done")[0]["session_id"].as_str().unwrap().to_owned();
    let trashed = scene.ask_as("ada", "POST", "/v1/sessions", Some("{}")).json()["id"].as_str().unwrap().to_owned();
    assert_eq!(scene.ask_as("ada", "DELETE", &format!("/v1/sessions/{trashed}"), None).status, 204);
    let stored = uuid::Uuid::now_v7().to_string();
    let entries =
        json!({ "key": { "project_key": PROJECT, "session_id": stored }, "entries": [{ "type": "user", "w": WORD }] });
    assert_eq!(scene.ask_as("ada", "POST", "/v1/entries/append", Some(&entries.to_string())).status, 200);
    let before = kept(&scene.realm("ada"));
    assert!(before.len() >= 2, "{:?}", before.keys());

    for id in [&live, &trashed, &stored] {
        let random = uuid::Uuid::now_v7().to_string();
        for (theirs, nothing) in operations(id).iter().zip(operations(&random)) {
            let what = format!("{} {}", theirs.method, theirs.path);
            let body = |asking: &Asking| asking.body.as_ref().map(Value::to_string);
            let is_public = PUBLIC.contains(&theirs.path.as_str());
            for token in ["", "Bearer uft_0000000000000000000000000000000000000000000", "Basic YWRhOmFkYQ=="] {
                let headers: &[(&str, &str)] = if token.is_empty() { &[] } else { &[("authorization", token)] };
                let answer = scene.send(&theirs.method, &theirs.path, body(theirs).as_deref(), headers);
                let is_refused = match OF_THE_PAGE.contains(&theirs.path.as_str()) {
                    true => answer.status == 403,
                    false => matches!(answer.status, 401 | 429),
                };
                assert_eq!(is_refused, !is_public, "{what} of nobody: {} {}", answer.status, answer.text());
            }
            let of_theirs = scene.ask_as("bob", &theirs.method, &theirs.path, body(theirs).as_deref());
            let of_nothing = scene.ask_as("bob", &nothing.method, &nothing.path, body(&nothing).as_deref());
            assert_eq!(plain(&of_theirs, id), plain(&of_nothing, &random), "{what}");
            assert!(!of_theirs.text().contains(WORD), "{what}: {}", of_theirs.text());
            // What bob puts into a store of his own under the same name is his own.
            if !theirs.path.contains("/entries/") {
                let shown = of_theirs.text();
                assert!(!shown.contains(id.as_str()), "{what}: {shown}");
            }
            if theirs.path.contains("{id}") || theirs.path.contains(id.as_str()) {
                assert_eq!(of_theirs.status, 404, "{what}: {}", of_theirs.text());
            }
        }
        for message in [
            json!({ "type": "attach", "session_id": id }),
            json!({ "type": "prompt", "prompt": "mine now", "session_id": id }),
            json!({ "prompt": "mine now", "session_id": id }),
        ] {
            let mut bob = scene.connect_as("bob");
            bob.say(&message);
            let told = bob.hear().unwrap();
            assert_eq!(told["error"]["code"], "not_found", "{message}: {told}");
        }
    }
    let mut bob = scene.connect_as("bob");
    bob.say(&json!({ "type": "attach", "key": "main:web:ada" }));
    assert_ne!(bob.until("attached").pop().unwrap()["session_id"], json!(live), "a key is the actor's own");
    drop(bob);

    assert_eq!(kept(&scene.realm("ada")), before, "all that is ada's is what it was");
    ada.say(&json!({ "type": "prompt", "prompt": "recall" }));
    assert_eq!(ada.until("done").pop().unwrap()["text"], format!("{WORD} | recall"));
    drop(ada);
    scene.stop();
    if remote.is_none() {
        return;
    }
    // A machine that has nothing but the remote: to ada it shows her session, to bob that there is none.
    let fresh = Scene::with(setting);
    let mut bob = fresh.connect_as("bob");
    bob.say(&json!({ "type": "attach", "session_id": live }));
    assert_eq!(bob.hear().unwrap()["error"]["code"], "not_found");
    let mut ada = fresh.connect_as("ada");
    let heard = ada.attach(&live, None);
    assert!(heard.iter().any(|message| message["record"]["content"] == WORD), "{heard:#?}");
    bob.say(&json!({ "type": "attach", "session_id": live }));
    assert_eq!(bob.hear().unwrap()["error"]["code"], "not_found");
    assert!(!fresh.realm("bob").join("agents/main/sessions").join(format!("{live}.jsonl")).exists());
    // And so with what an SDK of hers kept.
    let load = json!({ "key": { "project_key": PROJECT, "session_id": stored } }).to_string();
    assert!(!fresh.ask_as("bob", "POST", "/v1/entries/load", Some(&load)).text().contains(WORD));
    assert!(fresh.ask_as("ada", "POST", "/v1/entries/load", Some(&load)).text().contains(WORD));
}

#[test]
fn z02_nobody_reaches_what_is_anothers_on_a_disk() {
    matrix(None);
}

#[test]
fn z02_nobody_reaches_what_is_anothers_in_a_directory() {
    let folder = tempfile::tempdir().unwrap();
    matrix(Some(Arc::new(Folder::new(Arc::new(Os::new(folder.path()))).remote())));
}

#[test]
fn z02_nobody_reaches_what_is_anothers_in_a_database() {
    let url = postgres::shared().url("matrix_of_actors");
    matrix(Some(Arc::new(Postgres::open(&url, Limits::default()).unwrap().remote())));
}

#[test]
fn z02_nobody_reaches_what_is_anothers_in_a_bucket() {
    let (server, bucket) = (Moto::open(), "matrix-of-actors");
    server.make(bucket);
    let options = [("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "s3cret")];
    let settings = s3::Settings {
        bucket: bucket.to_owned(),
        prefix: "some/prefix".to_owned(),
        region: Some("us-east-1".to_owned()),
        endpoint: Some(format!("http://127.0.0.1:{}", server.port)),
        options: options.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        ..s3::Settings::default()
    };
    matrix(Some(Arc::new(s3::Bucket::open(&settings).unwrap().remote())));
}

#[test]
fn z02_nobody_reaches_what_is_anothers_in_the_memory_of_agentcore() {
    let server = FakeMemory::start(unforget_testkit::agentcore::Options::default()).unwrap();
    let values = [
        ("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"),
        ("AWS_SECRET_ACCESS_KEY", "s3cret"),
        ("AWS_EC2_METADATA_DISABLED", "true"),
        ("AWS_REGION", "eu-central-1"),
        ("AWS_ENDPOINT_URL_BEDROCK_AGENTCORE", &server.url()),
    ];
    let environment = values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let memory = server.memory("notes", 30);
    let found = agentcore::Settings::find(Some(&memory), environment, None, agentcore::Texts::default()).unwrap();
    let settings = agentcore::Settings { rates: None, ..found };
    matrix(Some(Arc::new(agentcore::AgentCore::new(&settings).unwrap().remote())));
}
