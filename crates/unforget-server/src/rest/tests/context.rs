//! What fills the window.

use unforget_core::record::Draft;

use super::path::{put, written};
use super::*;

fn total(context: &Value) -> u64 {
    context["parts"].as_object().unwrap().values().map(|tokens| tokens.as_u64().unwrap()).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_window_is_that_of_the_agents_model() {
    let server = Server::new().await;
    let id = server.begin().await;
    let empty = server.get(&format!("/sessions/{id}/context")).await.is(200);
    assert_eq!((&empty["tokens"], &empty["largest"], &empty["cut"]), (&json!(0), &json!([]), &Value::Null));
    server.say(&id, "my name is Ada").await;
    let context = server.get(&format!("/sessions/{id}/context")).await.is(200);
    assert_eq!((&context["model"], &context["window"]), (&json!("offline"), &json!(100_000)));
    assert!(context["limit"].as_u64().unwrap() < 100_000);
    assert_eq!(context["messages"], 2);
    assert!(context["tokens"].as_u64().unwrap() > 0);
    assert_eq!(total(&context), context["tokens"].as_u64().unwrap());
    assert_eq!((&context["repairs"], &context["pins"], &context["cut"]), (&json!([]), &json!([]), &Value::Null));
    server.get(&format!("/sessions/{id}/context?a=1")).await.fails(400, "invalid");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_behind_a_summary_is_not_in_the_window() {
    let server = Server::new().await;
    let mut session = written(&server);
    let id = session.id().to_string();
    let secret = concat!("ghp_", "0123456789abcdefghijABCDEFGHIJ012345");
    session.append(&[Draft::user(&"old words ".repeat(1000)), Draft::pin(1, Some(secret))]).unwrap();
    let kept = session.append(&[Draft::user("kept"), Draft::tool_use(None, "toolu_1", "bash", "{}")]).unwrap().start;
    session
        .append(&[
            Draft::compaction("in short", Some(kept)).raw("pinned", &json!([{ "n": 1, "text": secret }]).to_string())
        ])
        .unwrap();
    drop(session);
    let context = server.get(&format!("/sessions/{id}/context")).await;
    assert!(!context.text().contains(secret));
    let context = context.is(200);
    assert!(context["tokens"].as_u64().unwrap() < 500, "{context}");
    assert_eq!(total(&context), context["tokens"].as_u64().unwrap());
    assert!(context["parts"]["summary"].as_u64().unwrap() > 0);
    assert_eq!((&context["cut"], &context["pins"][0]["n"]), (&json!(kept), &json!(1)));
    assert_eq!(context["repairs"][0]["n"], kept + 1, "a call without a result: {context}");
    let called = context["largest"].as_array().unwrap().iter().find(|it| it["kind"] == "tool_use").unwrap();
    assert_eq!((&called["n"], &called["name"]), (&json!(kept + 1), &json!("bash")));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_another_program_only_its_lines_are_known() {
    let server = Server::new().await;
    let id = uuid::Uuid::now_v7().to_string();
    let line = |n: u64, parent: &str, kind: &str, content: &str| {
        format!(
            r#"{{"parentUuid":{parent},"sessionId":"{id}","type":"{kind}","uuid":"u{n}","timestamp":"2026-01-01T00:00:00.000Z","message":{{"role":"{kind}","model":"claude-opus-5","content":{content}}}}}"#
        )
    };
    let call = r#"[{"type":"tool_use","id":"toolu_1","name":"Bash","input":{"command":"ls"}}]"#;
    let result = format!(r#"[{{"type":"tool_result","tool_use_id":"toolu_1","content":"{}"}}]"#, "a file ".repeat(500));
    let lines = [
        line(0, "null", "user", "\"which files?\""),
        "no record".to_owned(),
        line(1, "\"u0\"", "assistant", call),
        line(2, "\"u1\"", "user", &result),
    ];
    put(&server, "claude", &id, format!("{}\n", lines.join("\n")).as_bytes());
    let context = server.get(&format!("/sessions/{id}/context")).await.is(200);
    assert_eq!(
        (&context["model"], &context["window"], &context["limit"]),
        (&json!("claude-opus-5"), &Value::Null, &Value::Null)
    );
    assert_eq!((&context["largest"][0]["n"], &context["largest"][0]["name"]), (&json!(3), &json!("Bash")));
    assert_eq!(total(&context), context["tokens"].as_u64().unwrap());
    assert!(context["parts"]["results"].as_u64().unwrap() > context["parts"]["user"].as_u64().unwrap() * 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn words_are_pinned_and_let_go() {
    let server = Server::new().await;
    let id = server.begin().await;
    let path = format!("/sessions/{id}");
    server.say(&id, "the port is 8080").await;
    let records = server.get(&format!("{path}/records")).await.is(200);
    let of = |kind: &str| {
        let found = records["records"].as_array().unwrap().iter().find(|it| it["record"]["type"] == kind);
        found.unwrap()["n"].as_u64().unwrap()
    };
    let said = of("user");
    let pin =
        async |n: u64, pinned: bool| server.post(&format!("{path}/pin"), json!({ "n": n, "pinned": pinned })).await;
    let pins = async || server.get(&format!("{path}/context")).await.is(200)["pins"].clone();
    let count = async || server.get(&path).await.is(200)["records"].as_u64().unwrap();
    assert_eq!(pin(said, true).await.is(200), json!({ "n": said, "pinned": true }));
    assert_eq!(pins().await, json!([{ "n": said, "text": "the port is 8080" }]));
    let before = count().await;
    pin(said, true).await.is(200);
    assert_eq!(count().await, before, "it is so already");
    assert_eq!(pin(said, false).await.is(200), json!({ "n": said, "pinned": false }));
    assert_eq!(pins().await, json!([]));
    let before = count().await;
    pin(said, false).await.is(200);
    assert_eq!(count().await, before);
    pin(of("turn"), true).await.fails(400, "invalid");
    pin(99_999, true).await.fails(409, "conflict");
    for wrong in [json!({}), json!({ "n": 1 }), json!({ "n": "1", "pinned": true }), json!({ "n": 1, "pinned": 1 })] {
        server.post(&format!("{path}/pin"), wrong).await.fails(400, "invalid");
    }
    server.say(&id, &"long words ".repeat(2500)).await;
    let last = server.get(&format!("{path}/tree")).await.is(200)["turns"][1]["n"].as_u64().unwrap();
    pin(last, true).await.is(200);
    server.say(&id, &"long words ".repeat(2500)).await;
    let last = server.get(&format!("{path}/tree")).await.is(200)["turns"][2]["n"].as_u64().unwrap();
    pin(last, true).await.fails(409, "conflict");
}
