//! The stand-in of AgentCore Memory itself: signatures, traffic of the official clients, and one of them in person.
#![allow(clippy::unwrap_used, reason = "tests may fail loudly")]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use unforget_testkit::agentcore::signature::Signed;
use unforget_testkit::agentcore::{FakeMemory, Keys, Options};

fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/agentcore").join(name);
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn signatures_are_those_of_botocore() {
    let vectors: Value = serde_json::from_str(&fixture("sigv4.json")).unwrap();
    let text = |name: &str| vectors[name].as_str().unwrap().to_owned();
    let keys = Keys { access: text("access_key"), secret: text("secret_key"), region: text("region") };
    let vectors = vectors["vectors"].as_array().unwrap();
    assert_eq!(vectors.len(), 3);
    for vector in vectors {
        let url = url::Url::parse(vector["url"].as_str().unwrap()).unwrap();
        let headers = vector["headers"].as_object().unwrap().iter();
        let signed = Signed {
            method: vector["method"].as_str().unwrap(),
            path: url.path(),
            query: url.query().unwrap_or_default(),
            headers: headers.map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned())).collect(),
            body: vector["body"].as_str().unwrap().as_bytes(),
        };
        assert_eq!(keys.sign(&signed), vector["signature"].as_str().unwrap(), "{url}");
    }
}

/// Ids of then and of now: those of memories and events are made by the server.
#[derive(Default)]
struct Ids(Vec<(String, String)>);

impl Ids {
    fn now(&self, text: &str) -> String {
        let encoded = |id: &str| id.replace('#', "%23");
        self.0
            .iter()
            .fold(text.to_owned(), |text, (then, now)| text.replace(then, now).replace(&encoded(then), &encoded(now)))
    }

    fn learn(&mut self, then: Option<&str>, now: Option<&str>) {
        if let (Some(then), Some(now)) = (then, now) {
            self.0.push((then.to_owned(), now.to_owned()));
        }
    }
}

/// An answer without what differs from run to run: times of the server, tokens, strategies' ids, and the order of events of one millisecond.
fn comparable(mut answer: Value, status: u64) -> Value {
    if status >= 400 {
        // Words differ; what a client acts on does not.
        return json!({"reason": answer["reason"], "has a message": answer["message"].is_string()});
    }
    fn mask(value: &mut Value) {
        match value {
            Value::Object(members) => {
                for (name, member) in members.iter_mut() {
                    match name.as_str() {
                        "createdAt" | "updatedAt" | "nextToken" | "strategyId" => *member = json!("masked"),
                        "eventTimestamp" => *member = json!(format!("{:.3}", member.as_f64().unwrap())),
                        _ => mask(member),
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(mask),
            _ => {}
        }
    }
    mask(&mut answer);
    for list in ["events", "memories", "sessionSummaries", "actorSummaries"] {
        if let Some(items) = answer.get_mut(list).and_then(Value::as_array_mut) {
            items.sort_by_key(Value::to_string);
        }
    }
    answer
}

async fn replay(name: &str) {
    let server = FakeMemory::start(Options::default()).unwrap();
    let http = reqwest::Client::new();
    let mut ids = Ids::default();
    for (number, line) in fixture(name).lines().enumerate() {
        let then: Value = serde_json::from_str(line).unwrap();
        let text = |member: &str| then[member].as_str().unwrap();
        let address = format!("{}{}", server.url(), ids.now(text("path")));
        let method = reqwest::Method::from_bytes(text("method").as_bytes()).unwrap();
        let mut request = http.request(method, address);
        if !then["body"].is_null() {
            request = request.body(ids.now(&then["body"].to_string()));
        }
        let answer = request.send().await.unwrap();
        let status = u64::from(answer.status().as_u16());
        let error = answer.headers().get("x-amzn-ErrorType").map(|value| value.to_str().unwrap().to_owned());
        let body: Value = serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap();
        let shown = format!("{name}, line {}: {} {}\n{body}", number + 1, text("method"), text("path"));
        assert_eq!((json!(status), json!(error)), (then["status"].clone(), then["error"].clone()), "{shown}");
        let id = |value: &Value, path: &str| value.pointer(path).and_then(Value::as_str).map(str::to_owned);
        for path in ["/memory/id", "/event/eventId"] {
            let (then, now) = (id(&then["answer"], path), id(&body, path));
            ids.learn(then.as_deref(), now.as_deref());
        }
        let mut then: Value = serde_json::from_str(&ids.now(&then["answer"].to_string())).unwrap();
        // Then there were memories of other tests as well.
        if let Some(memories) = then.get_mut("memories").and_then(Value::as_array_mut) {
            memories.retain(|memory| ids.0.iter().any(|(_, now)| memory["id"] == **now));
        }
        assert_eq!(comparable(body, status), comparable(then, status), "{shown}");
    }
}

#[tokio::test]
async fn boto3_is_answered_as_it_was() {
    replay("boto3.jsonl").await;
}

#[tokio::test]
async fn the_memory_client_is_answered_as_it_was() {
    replay("memory-client.jsonl").await;
}

#[tokio::test]
async fn strands_is_answered_as_it_was() {
    replay("strands.jsonl").await;
}

#[tokio::test]
async fn the_rust_sdk_is_answered_as_it_was() {
    replay("rust-sdk.jsonl").await;
}

#[tokio::test]
async fn the_claude_session_store_is_answered_as_it_was() {
    replay("claude-session-store.jsonl").await;
}

/// Where boto3 is: put there by `cargo xtask test`, or now.
fn boto3() -> PathBuf {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/boto3");
    if !place.join("boto3").exists() {
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target"])
            .arg(&place)
            .arg("boto3==1.44.0");
        assert!(pip.status().unwrap().success(), "boto3 can be installed");
    }
    place
}

const SCRIPT: &str = r##"
import os, boto3
from botocore.exceptions import ClientError
memory = os.environ["MEMORY"]
client = boto3.client("bedrock-agentcore")
key = dict(memoryId=memory, actorId="org/team:user-1", sessionId="session-1")
def create(number, token):
    payload = [{"blob": f"line {number}"}]
    return client.create_event(eventTimestamp=1767323045.678901 + number, payload=payload, clientToken=token, **key)["event"]
made = [create(number, f"token-{number}")["eventId"] for number in range(45)]
assert made == sorted(made) and all(len(event.split("#")[0]) == 19 for event in made), made
assert create(3, "token-3")["eventId"] == made[3]
try:
    create(4, "token-3")
    raise SystemExit("a token was taken twice")
except ClientError as error:
    assert error.response["Error"]["Code"] == "ValidationException", error.response
pages = list(client.get_paginator("list_events").paginate(**key))
assert [len(page["events"]) for page in pages] == [20, 20, 5], pages
listed = [event["eventId"] for page in pages for event in page["events"]]
assert listed == made[::-1]
event = client.get_event(eventId=made[0], **key)["event"]
assert event["payload"] == [{"blob": "line 0"}] and event["branch"] == {"name": "main"}, event
assert event["eventTimestamp"].microsecond == 678000, event
client.delete_event(eventId=made[0], **key)
try:
    client.get_event(eventId=made[0], **key)
    raise SystemExit("a deleted event is there")
except client.exceptions.ResourceNotFoundException:
    pass
try:
    client.list_events(**{**key, "sessionId": "a.b"})
    raise SystemExit("a session with a dot")
except client.exceptions.ValidationException:
    pass
assert client.list_sessions(memoryId=memory, actorId="org/team:user-1")["sessionSummaries"][0]["sessionId"] == "session-1"
assert [actor["actorId"] for actor in client.list_actors(memoryId=memory)["actorSummaries"]] == ["org/team:user-1"]
"##;

#[test]
fn boto3_itself_is_content() {
    let keys = Keys { access: "AKIDEXAMPLE".into(), secret: "s3cret".into(), region: "eu-west-1".into() };
    let server = FakeMemory::start(Options { keys: Some(keys), ..Options::default() }).unwrap();
    let output = Command::new("python3")
        .args(["-c", SCRIPT])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("PYTHONPATH", boto3())
        .env("MEMORY", server.memory("notes", 30))
        .env("AWS_ENDPOINT_URL_BEDROCK_AGENTCORE", server.url())
        .env("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
        .env("AWS_SECRET_ACCESS_KEY", "s3cret")
        .env("AWS_DEFAULT_REGION", "eu-west-1")
        .env("AWS_CONFIG_FILE", "/dev/null")
        .env("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
