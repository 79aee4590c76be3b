//! The protocol as it is written down: `docs/protocol.schema.json` for programs, `docs/protocol.md` for people.
//!
//! Neither may lag behind the code. Every message that a client of any test says or hears goes
//! through the schema, which knows no member that is not in it; what the schema has is in the
//! document. That the server can say what the schema has and nothing else is a unit test (`protocol`).

use std::collections::BTreeSet;
use std::sync::LazyLock;

use jsonschema::Validator;
use serde_json::{Value, json};
use unforget_server::error::Code;

use crate::scene::{Scene, Setting};

const SCHEMA: &str = include_str!("../../../../docs/protocol.schema.json");
const DOCUMENT: &str = include_str!("../../../../docs/protocol.md");

static PARSED: LazyLock<Value> = LazyLock::new(|| serde_json::from_str(SCHEMA).unwrap());
static CLIENT: LazyLock<Validator> = LazyLock::new(|| validator("client"));
static SERVER: LazyLock<Validator> = LazyLock::new(|| validator("server"));

fn validator(which: &str) -> Validator {
    let mut schema = PARSED.clone();
    let members = schema.as_object_mut().unwrap();
    members.remove("anyOf").unwrap();
    members.insert("$ref".to_owned(), json!(format!("#/$defs/{which}")));
    jsonschema::draft202012::new(&schema).unwrap()
}

#[track_caller]
fn check(validator: &Validator, message: &Value) {
    if validator.is_valid(message) {
        return;
    }
    // Which member it is, is told by the definition of the type, and not by the choice between all types.
    let kind = message["type"].as_str().unwrap_or("none");
    let faults: Vec<String> = validator.iter_errors(message).map(|error| error.to_string()).collect();
    panic!("a message `{kind}` is not as the schema says: {message:#}\n{faults:#?}");
}

/// What a client says.
#[track_caller]
pub(crate) fn said(message: &Value) {
    check(&CLIENT, message);
}

/// What a client is told.
#[track_caller]
pub(crate) fn heard(message: &Value) {
    check(&SERVER, message);
}

/// The types of one direction in the schema.
fn types(direction: &str) -> BTreeSet<String> {
    let all = PARSED["$defs"].as_object().unwrap().iter();
    let own = all.filter(|(name, _)| name.starts_with(&format!("{direction}_")));
    own.filter_map(|(_, schema)| schema["properties"]["type"]["const"].as_str().map(str::to_owned)).collect()
}

#[test]
fn every_message_of_the_schema_is_in_the_document() {
    for kind in types("server").union(&types("client")) {
        assert!(DOCUMENT.contains(&format!("\"type\": \"{kind}\"")), "`{kind}` is not in docs/protocol.md");
    }
}

#[test]
fn every_message_that_the_code_understands_is_in_the_schema() {
    let scene = Scene::new();
    let mut client = scene.connect();
    client.blurt(r#"{"type":"nonsense"}"#);
    let refused = client.hear().unwrap();
    let words = refused["error"]["message"].as_str().unwrap();
    // "unknown variant `nonsense`, expected one of `hello`, …"
    let known: BTreeSet<String> = words.split('`').skip(3).step_by(2).map(str::to_owned).collect();
    assert_eq!(known, types("client"), "{words}");
}

#[test]
fn every_code_is_in_both_documents() {
    let listed = PARSED["$defs"]["problem"]["properties"]["code"]["enum"].as_array().unwrap();
    let codes: Vec<Value> = Code::ALL.iter().map(|code| json!(code.name())).collect();
    assert_eq!(listed, &codes);
    for code in Code::ALL {
        assert!(DOCUMENT.contains(&format!("| `{}` |", code.name())), "`{}` is not in docs/protocol.md", code.name());
    }
}

#[test]
fn every_example_in_the_document_is_as_the_schema_says() {
    let mut count = 0;
    for block in DOCUMENT.split("```").skip(1).step_by(2) {
        let Some((language, text)) = block.split_once('\n') else { continue };
        let check = match language {
            "json client" => said,
            "json server" => heard,
            _ => continue,
        };
        for line in text.lines().filter(|line| !line.is_empty()) {
            let message: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            check(&message);
            count += 1;
        }
    }
    assert!(count > 30, "only {count} examples");
}

#[test]
fn the_schema_refuses_what_is_not_in_it() {
    let refused = [
        json!({ "type": "pong", "more": 1 }),
        json!({ "type": "delta", "block": 0, "kind": "song", "text": "" }),
        json!({ "type": "saved", "n": -1, "durability": "disk" }),
        json!({ "type": "error", "error": { "code": "odd", "message": "m" }, "client_id": null }),
        json!({ "type": "nothing" }),
    ];
    for message in refused {
        assert!(!SERVER.is_valid(&message), "{message}");
    }
    for message in [json!({ "type": "attach", "actor": "bob" }), json!({ "type": "prompt" }), json!({})] {
        assert!(!CLIENT.is_valid(&message), "{message}");
    }
    assert!(CLIENT.is_valid(&json!({ "prompt": "p", "whatever": true })));
}

#[test]
fn what_has_no_other_test_is_said_once_so_that_the_schema_sees_it() {
    let scene = Scene::with(Setting::of(&["ada"]));
    let mut client = scene.connect();
    client.say(&json!({ "type": "auth", "token": scene.token("ada") }));
    client.say(&json!({ "type": "hello", "protocol": 1 }));
    let hello = client.hear().unwrap();
    assert_eq!((&hello["actor"], &hello["protocol"]), (&json!("ada"), &json!(1)));
    client.say(&json!({ "type": "ping" }));
    assert_eq!(client.hear().unwrap(), json!({ "type": "pong" }));
    client.say(&json!({ "type": "prompt", "prompt": "hold on", "client_id": "c1" }));
    client.until("delta");
    client.say(&json!({ "type": "prompt", "prompt": "next", "client_id": "c2" }));
    let queued = client.until("queued").pop().unwrap();
    assert_eq!((&queued["client_id"], &queued["position"]), (&json!("c2"), &json!(1)));
    client.say(&json!({ "type": "abort", "client_id": "c2" }));
    assert_eq!(client.until("aborting").pop().unwrap()["running"], false, "it only waits");
    scene.puppet.let_go();
    client.until("done");
    client.until("done");
    client.say(&json!({ "type": "detach" }));
    client.until("detached");
    client.blurt(r#"{"type":"hello","protocol":2}"#);
    assert_eq!(client.until("error").pop().unwrap()["error"]["code"], "invalid");
    client.say(&json!({ "type": "abort" }));
    assert_eq!(client.until("error").pop().unwrap()["error"]["code"], "invalid", "nothing is watched any more");
}
