//! Every message of the server against `docs/protocol.schema.json`, in both directions.

use std::collections::BTreeSet;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::runtime::{BrokenOff, Health, Invoked, Refusal};
use super::server::{Accepted, AgentName, Hello};
use super::*;
use crate::error::{Code, Problem};

const SCHEMA: &str = include_str!("../../../../docs/protocol.schema.json");

/// What messages borrow. Each member that may be null has a value.
struct Parts {
    id: ClientId,
    problem: Problem,
    record: Box<RawValue>,
    attached: Attached,
    call: Called,
    outcome: Outcome,
}

impl Parts {
    fn new() -> Self {
        let id = ClientId::parse("c1").unwrap();
        let interrupted = Interrupted { n: 3, client_id: Some(id.clone()), is_touched: true };
        Self {
            problem: Problem { retry_after: Some(9), ..Problem::new(Code::TooMany, "wait") },
            record: RawValue::from_string(r#"{"n":4,"cost":1.00}"#.to_owned()).unwrap(),
            attached: Attached {
                session_id: "s".to_owned(),
                agent: "main".to_owned(),
                agent_kind: "built-in",
                n: Some(4),
                turn: Some(RunningTurn { client_id: Some(id.clone()) }),
                queued: 1,
                interrupted: Some(interrupted),
            },
            call: Called { id: "t".to_owned(), name: "read".to_owned(), input: r#"{"path":"a"}"#.to_owned() },
            outcome: Outcome {
                client_id: Some(id.clone()),
                state: TurnState::Done,
                n: 5,
                said: Some(4),
                text: "yes".to_owned(),
                stop_reason: Some("end_turn".to_owned()),
                usage: Some(r#"{"input_tokens":1}"#.to_owned()),
                durability: Durability::Disk,
            },
            id,
        }
    }

    /// The same, with null wherever that may be.
    fn bare() -> Self {
        let full = Self::new();
        Self {
            attached: Attached { n: None, turn: None, interrupted: None, ..full.attached },
            outcome: Outcome { client_id: None, stop_reason: None, usage: None, ..full.outcome },
            ..full
        }
    }

    /// A message of each variant. Where it may have no `client_id`, it has this one.
    fn messages<'a>(&'a self, client_id: Option<&'a ClientId>) -> Vec<ServerMessage<'a>> {
        let (id, n, durability) = (&self.id, 4, Durability::Disk);
        vec![
            ServerMessage::Hello(Hello::new("ada", vec![AgentName { name: "main", kind: "built-in" }])),
            ServerMessage::Attached(&self.attached),
            ServerMessage::Record { n, record: &self.record },
            ServerMessage::Damage { n, offset: 100, bytes: 7 },
            ServerMessage::CaughtUp { n: client_id.map(|_| n) },
            ServerMessage::Accepted(Accepted {
                client_id: id,
                session_id: "s",
                state: PromptState::Queued,
                is_duplicate: false,
                durability,
            }),
            ServerMessage::Queued { client_id: id, position: 1 },
            ServerMessage::Started { client_id },
            ServerMessage::Answering,
            ServerMessage::Delta { block: 0, kind: Kind::Text, text: "y" },
            ServerMessage::Notice { message: "retry" },
            ServerMessage::ToolStarted(&self.call),
            ServerMessage::ToolEnded { call_id: "t", is_error: false, ms: 12 },
            ServerMessage::Question(&self.call),
            ServerMessage::Answered { call_id: "t", allowed: true },
            ServerMessage::Saved { n, durability },
            ServerMessage::Done(&self.outcome),
            ServerMessage::Failed { client_id, error: &self.problem },
            ServerMessage::Aborting { running: true },
            ServerMessage::Detached,
            ServerMessage::Pong,
            ServerMessage::Error { error: &self.problem, client_id },
        ]
    }
}

/// The `type` of a variant. A new one has to be named here, and then also belongs in
/// [`Parts::messages`].
fn type_of(message: &ServerMessage<'_>) -> &'static str {
    match message {
        ServerMessage::Hello(_) => "hello",
        ServerMessage::Attached(_) => "attached",
        ServerMessage::Record { .. } => "record",
        ServerMessage::Damage { .. } => "damage",
        ServerMessage::CaughtUp { .. } => "caught_up",
        ServerMessage::Accepted(_) => "accepted",
        ServerMessage::Queued { .. } => "queued",
        ServerMessage::Started { .. } => "started",
        ServerMessage::Answering => "answering",
        ServerMessage::Delta { .. } => "delta",
        ServerMessage::Notice { .. } => "notice",
        ServerMessage::ToolStarted(_) => "tool_started",
        ServerMessage::ToolEnded { .. } => "tool_ended",
        ServerMessage::Question(_) => "question",
        ServerMessage::Answered { .. } => "answered",
        ServerMessage::Saved { .. } => "saved",
        ServerMessage::Done(_) => "done",
        ServerMessage::Failed { .. } => "failed",
        ServerMessage::Aborting { .. } => "aborting",
        ServerMessage::Detached => "detached",
        ServerMessage::Pong => "pong",
        ServerMessage::Error { .. } => "error",
    }
}

fn schema() -> Value {
    serde_json::from_str(SCHEMA).unwrap()
}

/// The definitions that the schema offers for what a server says, by their types.
fn definitions(schema: &Value) -> Vec<(&str, &Value)> {
    let all = schema["$defs"]["server"]["oneOf"].as_array().unwrap().iter();
    let all = all.map(|choice| resolved(schema, choice));
    all.map(|found| (found["properties"]["type"]["const"].as_str().unwrap(), found)).collect()
}

fn resolved<'a>(schema: &'a Value, at: &'a Value) -> &'a Value {
    match at["$ref"].as_str() {
        Some(path) => schema.pointer(path.strip_prefix('#').unwrap()).unwrap(),
        None => at,
    }
}

/// Sees that a value has exactly the members that a definition names, at every depth.
fn has_the_members_of(schema: &Value, definition: &Value, value: &Value, at: &str) {
    let definition = resolved(schema, definition);
    if let Some(known) = definition["properties"].as_object() {
        let members = value.as_object().unwrap_or_else(|| panic!("{at} is no object: {value}"));
        let (said, known_): (BTreeSet<_>, BTreeSet<_>) = (members.keys().collect(), known.keys().collect());
        assert_eq!(said, known_, "the members of {at}, in the code and in the schema");
        known.iter().for_each(|(name, inner)| {
            has_the_members_of(schema, inner, &members[name], &format!("{at}.{name}"));
        });
    }
    if let Some(elements) = value.as_array() {
        elements.iter().for_each(|element| has_the_members_of(schema, &definition["items"], element, at));
    }
}

#[test]
fn every_message_is_as_the_schema_says_and_the_schema_has_no_other() {
    let mut schema = schema();
    let (full, bare) = (Parts::new(), Parts::bare());
    let messages = full.messages(Some(&full.id));
    let own: Vec<&str> = messages.iter().map(type_of).collect();
    let known: Vec<&str> = definitions(&schema).into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(own, known, "the messages of the code, and those of the schema");
    for (message, (kind, definition)) in messages.iter().zip(definitions(&schema)) {
        let value: Value = serde_json::from_str(&message.encode()).unwrap();
        assert_eq!(value["type"], kind);
        has_the_members_of(&schema, definition, &value, kind);
    }
    let members = schema.as_object_mut().unwrap();
    members.remove("anyOf").unwrap();
    members.insert("$ref".to_owned(), json!("#/$defs/server"));
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    for message in messages.into_iter().chain(bare.messages(None)) {
        let value: Value = serde_json::from_str(&message.encode()).unwrap();
        let faults: Vec<String> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
        assert!(faults.is_empty(), "{value:#}\n{faults:#?}");
    }
}

#[test]
fn every_name_is_in_the_schema_and_no_other() {
    let schema = schema();
    let at = |path: &str| &schema["$defs"][path];
    let [accepted, delta, done] =
        [("accepted", "state"), ("delta", "kind"), ("done", "state")].map(|(kind, member)| {
            let definition = at(&format!("server_{kind}"));
            &definition["properties"][member]["enum"]
        });
    let states =
        [PromptState::Queued, PromptState::Running, PromptState::Done, PromptState::Failed, PromptState::Known];
    assert_eq!(accepted, &json!(states));
    assert_eq!(delta, &json!([Kind::Text, Kind::Thinking, Kind::Input]));
    assert_eq!(done, &json!([TurnState::Done, TurnState::Aborted, TurnState::OutOfSteps]));
    let durabilities = [Durability::Disk, Durability::Remote];
    assert_eq!(at("durability")["enum"], json!(durabilities));
    assert_eq!(json!(durabilities), json!(durabilities.map(Durability::name)));
    assert_eq!(at("problem")["properties"]["code"]["enum"], json!(Code::ALL));
}

#[test]
fn json_of_others_keeps_its_bytes_on_one_line() {
    let input = |text: &str| {
        let call = Called { id: "t".to_owned(), name: "x".to_owned(), input: text.to_owned() };
        ServerMessage::Question(&call).encode()
    };
    let with = |input: &str| format!(r#"{{"type":"question","call_id":"t","name":"x","input":{input}}}"#);
    assert_eq!(input(r#"{"n":1.00,"big":1e999,"n":2}"#), with(r#"{"n":1.00,"big":1e999,"n":2}"#));
    assert_eq!(input("{\n\t\"a\":\r\n \"b\\n\"}\n"), with("{ \t\"a\":   \"b\\n\"}"));
    assert_eq!(input("{\"a\":\"b\nc\"}"), with(r#""{\"a\":\"b\nc\"}""#), "a line break in a string is no JSON");
    assert_eq!(input("{\"path\":"), with(r#""{\"path\":""#));
}

#[test]
fn answers_of_the_runtime_have_its_names() {
    let Parts { problem, outcome, .. } = Parts::new();
    let invoked = json!({
        "response": "yes", "session_id": "s", "client_id": "c1", "state": "done", "n": 5,
        "stop_reason": "end_turn", "usage": { "input_tokens": 1 }, "durability": "disk",
    });
    assert_eq!(json!(Invoked::new("s", &outcome)), invoked);
    assert_eq!(json!(Refusal::new(&problem)), json!({ "error": "wait", "code": "too_many" }));
    let refused = json!({ "error": "Invalid JSON", "details": "why", "code": "invalid" });
    assert_eq!(json!(Refusal::invalid_json("why")), refused);
    let broken = json!({ "type": "error", "error": "wait", "error_type": "too_many", "message": "wait" });
    assert_eq!(serde_json::from_str::<Value>(&BrokenOff::new(&problem).encode()).unwrap(), broken);
    let health = json!({ "status": "HealthyBusy", "time_of_last_update": 1 });
    assert_eq!(json!(Health::new(true, 1999)), health);
}
