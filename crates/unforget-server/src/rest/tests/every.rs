//! The types of requests and answers and the document have the same members, for every operation
//! there is.

use std::collections::BTreeSet;

use super::document::{DOCUMENT, resolved};
use super::*;

/// Operations of browsers, which other tests ask as a browser does (`login`), and one that needs a
/// turn that was interrupted.
const ELSEWHERE: [&str; 4] = ["POST /v1/login", "POST /v1/logout", "POST /v1/links", "POST /v1/sessions/{id}/resume"];
/// A member that no request has.
const UNKNOWN: &str = "zz";

/// Every operation, as `GET /v1/path`, and what the document says of it.
fn operations() -> impl Iterator<Item = (String, &'static Value)> {
    let paths = DOCUMENT["paths"].as_object().unwrap().iter();
    paths.flat_map(|(path, methods)| {
        let methods = methods.as_object().unwrap().iter();
        methods.map(move |(method, operation)| (format!("{} {path}", method.to_uppercase()), operation))
    })
}

/// The members that a request may have: the refusal of another one names them.
fn named(refusal: &Answer) -> BTreeSet<String> {
    let message = refusal.is(400)["error"]["message"].as_str().unwrap().to_owned();
    let (_, known) = message.split_once(&format!("unknown field `{UNKNOWN}`, ")).unwrap_or_else(|| panic!("{message}"));
    known.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_has_the_members_that_the_document_names() {
    let server = Server::new().await;
    let id = uuid::Uuid::now_v7().to_string();
    for (name, operation) in operations().filter(|(name, _)| !ELSEWHERE[..2].contains(&name.as_str())) {
        let (method, path) = name.split_once(' ').unwrap();
        let method: Method = method.parse().unwrap();
        let path = path.strip_prefix(PREFIX).unwrap().replace("{id}", &id);
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        let query: BTreeSet<String> = parameters
            .map(resolved)
            .filter(|it| it["in"] == "query")
            .map(|it| it["name"].as_str().unwrap().to_owned())
            .collect();
        let refusal = server.ask_as(&server.realm, method.clone(), &format!("{path}?{UNKNOWN}=1"), None).await;
        assert_eq!(named(&refusal), query, "{name}: the query");
        let Some(body) = operation.get("requestBody") else { continue };
        let schema = resolved(&body["content"]["application/json"]["schema"]);
        let members: BTreeSet<String> = schema["properties"].as_object().unwrap().keys().cloned().collect();
        let refusal = server.ask_as(&server.realm, method, &path, Some(&json!({ UNKNOWN: 1 }).to_string())).await;
        assert_eq!(named(&refusal), members, "{name}: the body");
    }
}

/// Each answer is held against the document as it comes (`document::check`); this sees to it that
/// all of them come.
#[tokio::test(flavor = "multi_thread")]
async fn every_operation_answers_as_the_document_says() {
    let server = Server::new().await;
    let id = server.begin().await;
    server.say(&id, "hello").await;
    server.say(&id, "and again").await;
    let key = json!({ "project_key": "p", "session_id": "s" });
    let message = json!({ "role": "user", "content": "added" });
    let asked: Vec<(&str, Value)> = vec![
        ("GET /v1/health", Value::Null),
        ("GET /v1/openapi.json", Value::Null),
        ("GET /v1/agents", Value::Null),
        ("GET /v1/me", Value::Null),
        ("POST /v1/sessions", json!({ "key": "main:web:other" })),
        ("GET /v1/sessions", Value::Null),
        ("GET /v1/sessions/{id}", Value::Null),
        ("PATCH /v1/sessions/{id}", json!({ "title": "a title" })),
        ("GET /v1/sessions/{id}/records", Value::Null),
        ("GET /v1/sessions/{id}/messages", Value::Null),
        ("POST /v1/sessions/{id}/messages", json!({ "messages": [message] })),
        ("GET /v1/sessions/{id}/path", Value::Null),
        ("GET /v1/sessions/{id}/context", Value::Null),
        ("POST /v1/sessions/{id}/checkpoint", json!({ "name": "here" })),
        ("GET /v1/sessions/{id}/tree", Value::Null),
        ("GET /v1/sessions/{id}/checkpoints", Value::Null),
        ("GET /v1/sessions/{id}/export", Value::Null),
        ("POST /v1/sessions/{id}/fork", json!({ "label": "fork" })),
        ("POST /v1/sessions/{id}/edits", json!({ "edits": [{ "edit": "undo" }] })),
        ("POST /v1/sessions/{id}/rewind", json!({ "to": "here" })),
        ("POST /v1/sessions/{id}/branch", json!({ "name": "side" })),
        ("POST /v1/sessions/{id}/pin", json!({ "n": 2, "pinned": true })),
        ("POST /v1/sessions/{id}/compact", json!({})),
        ("POST /v1/sessions/{id}/abort", json!({})),
        ("GET /v1/search?q=hello", Value::Null),
        ("GET /v1/usage", Value::Null),
        ("POST /v1/entries/append", json!({ "key": key, "entries": [{ "type": "user" }] })),
        ("POST /v1/entries/load", json!({ "key": key })),
        ("POST /v1/entries/read", json!({ "key": key })),
        ("POST /v1/entries/list_sessions", json!({ "project_key": "p" })),
        ("POST /v1/entries/list_session_summaries", json!({ "project_key": "p" })),
        ("POST /v1/entries/list_subkeys", json!({ "key": key })),
        ("POST /v1/entries/delete", json!({ "key": key })),
        ("DELETE /v1/sessions/{id}", Value::Null),
        ("POST /v1/sessions/{id}/undelete", Value::Null),
    ];
    let mut answered: BTreeSet<String> = ELSEWHERE.map(str::to_owned).into();
    for (name, body) in asked {
        let (method, path) = name.split_once(' ').unwrap();
        let body = Some(body).filter(|body| !body.is_null()).map(|body| body.to_string());
        let path = path.strip_prefix(PREFIX).unwrap().replace("{id}", &id);
        let answer = server.ask_as(&server.realm, method.parse().unwrap(), &path, body.as_deref()).await;
        assert!(answer.status.is_success(), "{name}: {}", answer.text());
        answered.insert(name.split('?').next().unwrap().to_owned());
    }
    assert_eq!(answered, operations().map(|(name, _)| name).collect());
}
