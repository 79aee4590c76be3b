//! The contracts of the store that Claude's SDKs ask for, over HTTP: the fourteen of the SDK's own suite, and what that leaves out.

use super::*;

impl Server {
    /// An operation; what is in `ok`.
    async fn store(&self, operation: &str, body: Value) -> Value {
        let answer = self.post(&format!("/entries/{operation}"), body).await.is(200);
        let is_append = operation == "append";
        assert_eq!(answer.as_object().unwrap().len(), if is_append { 2 } else { 1 });
        assert!(!is_append || answer["durability"] == "disk");
        answer["ok"].clone()
    }

    async fn append(&self, key: &Value, entries: Value) {
        assert_eq!(self.store("append", json!({ "key": key, "entries": entries })).await, Value::Null);
    }

    async fn load(&self, key: &Value) -> Value {
        self.store("load", json!({ "key": key })).await
    }

    async fn ids(&self, project: &str) -> Vec<String> {
        let listed = self.store("list_sessions", json!({ "project_key": project })).await;
        let mut ids: Vec<String> =
            listed.as_array().unwrap().iter().map(|it| it["session_id"].as_str().unwrap().to_owned()).collect();
        ids.sort();
        ids
    }
}

fn key(project: &str, session: &str) -> Value {
    json!({ "project_key": project, "session_id": session })
}

fn beneath(project: &str, session: &str, subpath: &str) -> Value {
    json!({ "project_key": project, "session_id": session, "subpath": subpath })
}

fn entry(n: u32) -> Value {
    json!({ "type": "x", "n": n })
}

#[tokio::test(flavor = "multi_thread")]
async fn contracts_1_to_4_entries_come_back_in_the_order_of_the_calls() {
    let server = Server::new().await;
    let proj = key("proj", "sess");
    assert_eq!(server.load(&proj).await, Value::Null);
    server.append(&proj, json!([])).await;
    assert_eq!(server.load(&proj).await, Value::Null, "nothing was written");
    let first = json!([{ "type": "x", "uuid": "b", "n": 1 }, { "type": "x", "uuid": "a", "n": 2 }]);
    server.append(&proj, first.clone()).await;
    assert_eq!(server.load(&proj).await, first);
    assert_eq!(server.load(&beneath("proj", "sess", "nope")).await, Value::Null);
    server.append(&proj, json!([entry(3)])).await;
    server.append(&proj, json!([entry(4), entry(5)])).await;
    server.append(&proj, json!([])).await;
    let numbers: Vec<Value> = server.load(&proj).await.as_array().unwrap().iter().map(|it| it["n"].clone()).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5]);
}

#[tokio::test(flavor = "multi_thread")]
async fn contracts_5_to_8_projects_and_subpaths_are_apart() {
    let server = Server::new().await;
    server.append(&key("A", "sess"), json!([entry(1)])).await;
    server.append(&beneath("A", "sess", "subagents/agent-1"), json!([entry(2)])).await;
    server.append(&key("B", "sess"), json!([entry(3)])).await;
    server.append(&key("A", "other"), json!([entry(4)])).await;
    assert_eq!(server.load(&key("A", "sess")).await, json!([entry(1)]));
    assert_eq!(server.load(&beneath("A", "sess", "subagents/agent-1")).await, json!([entry(2)]));
    assert_eq!(server.load(&key("B", "sess")).await, json!([entry(3)]));
    assert_eq!(
        (server.ids("A").await, server.ids("B").await),
        (vec!["other".to_owned(), "sess".to_owned()], vec!["sess".to_owned()])
    );
    assert_eq!(server.ids("never").await, Vec::<String>::new());
    let listed = server.store("list_sessions", json!({ "project_key": "A" })).await;
    assert!(listed.as_array().unwrap().iter().all(|it| it["mtime"].as_i64().unwrap() > 1_000_000_000_000), "{listed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn contracts_9_to_11_what_is_deleted_is_gone_and_nothing_else() {
    let server = Server::new().await;
    let delete = async |key: Value| assert_eq!(server.store("delete", json!({ "key": key })).await, Value::Null);
    delete(key("proj", "never")).await;
    for (project, session) in [("proj", "a"), ("proj", "b"), ("other", "a")] {
        server.append(&key(project, session), json!([entry(1)])).await;
        for side in ["subagents/1", "subagents/2"] {
            server.append(&beneath(project, session, side), json!([entry(2)])).await;
        }
    }
    delete(beneath("proj", "b", "subagents/1")).await;
    assert_eq!(server.load(&beneath("proj", "b", "subagents/1")).await, Value::Null);
    assert_eq!(server.load(&beneath("proj", "b", "subagents/2")).await, json!([entry(2)]));
    assert_eq!(server.load(&key("proj", "b")).await, json!([entry(1)]));
    delete(key("proj", "a")).await;
    assert_eq!(server.load(&key("proj", "a")).await, Value::Null);
    assert_eq!(server.load(&beneath("proj", "a", "subagents/1")).await, Value::Null);
    assert_eq!(server.store("list_subkeys", json!({ "key": key("proj", "a") })).await, json!([]));
    assert_eq!(server.ids("proj").await, ["b"]);
    assert_eq!(server.load(&key("other", "a")).await, json!([entry(1)]));
    assert_eq!(server.load(&beneath("other", "a", "subagents/2")).await, json!([entry(2)]));
    // The same key begins anew, also with uuids that it had.
    server.append(&key("proj", "a"), json!([entry(9)])).await;
    assert_eq!(server.load(&key("proj", "a")).await, json!([entry(9)]));
    assert_eq!(server.store("list_subkeys", json!({ "key": key("proj", "a") })).await, json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn contracts_12_and_13_subkeys_are_exact() {
    let server = Server::new().await;
    let subkeys = async |key: Value| server.store("list_subkeys", json!({ "key": key })).await;
    server.append(&key("proj", "a"), json!([entry(1)])).await;
    for side in ["subagents/agent-2", "subagents/agent-1", "x/../é😀"] {
        server.append(&beneath("proj", "a", side), json!([entry(2)])).await;
    }
    server.append(&beneath("proj", "b", "subagents/agent-3"), json!([entry(2)])).await;
    assert_eq!(subkeys(key("proj", "a")).await, json!(["subagents/agent-1", "subagents/agent-2", "x/../é😀"]));
    assert_eq!(subkeys(key("proj", "never")).await, json!([]));
    assert_eq!(server.ids("proj").await, ["a"], "what is beneath is no session");
    let odd = json!({ "key": beneath("proj", "a", "a\nb"), "entries": [] });
    server.post("/entries/append", odd).await.fails(400, "invalid");
}

#[tokio::test(flavor = "multi_thread")]
async fn contract_14_summaries_are_folded_from_the_session_alone() {
    let server = Server::new().await;
    let summaries = async || server.store("list_session_summaries", json!({ "project_key": "proj" })).await;
    let user = |words: &str| json!({ "type": "user", "timestamp": "2026-01-01T00:00:00Z", "cwd": "/w", "message": { "content": words } });
    server.append(&key("proj", "a"), json!([user("first words")])).await;
    server.append(&key("other", "a"), json!([user("elsewhere")])).await;
    let before = summaries().await;
    assert_eq!(before.as_array().unwrap().len(), 1);
    let want = json!({
        "is_sidechain": false, "created_at": 1_767_225_600_000_i64, "cwd": "/w", "first_prompt": "first words", "first_prompt_locked": true,
    });
    assert_eq!((&before[0]["session_id"], &before[0]["data"]), (&json!("a"), &want));
    let listed = server.store("list_sessions", json!({ "project_key": "proj" })).await;
    assert!(before[0]["mtime"].as_i64() >= listed[0]["mtime"].as_i64());
    server.append(&beneath("proj", "a", "subagents/1"), json!([user("of an agent")])).await;
    assert_eq!(summaries().await[0]["data"], want);
    server.append(&key("proj", "a"), json!([{ "type": "custom-title", "customTitle": "named" }])).await;
    assert_eq!(summaries().await[0]["data"]["custom_title"], "named");
    // One that is lost, or of another file, is made again.
    let area = server.realm.root().join("entries");
    let medium = unforget_core::medium::Os::new(area);
    use unforget_core::medium::Medium as _;
    for (folder, _) in medium.list(std::path::Path::new("")).unwrap_or_default() {
        for (name, _) in medium.list(folder.as_ref()).unwrap() {
            if name.ends_with(".summary") {
                medium.remove(&std::path::Path::new(&folder).join(name)).unwrap();
            }
        }
    }
    assert_eq!(summaries().await[0]["data"]["custom_title"], "named");
    assert_eq!(server.store("list_session_summaries", json!({ "project_key": "never" })).await, json!([]));
    server.store("delete", json!({ "key": key("proj", "a") })).await;
    assert_eq!(summaries().await, json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_bytes_come_back_unchanged() {
    let server = Server::new().await;
    let deep = format!("{{\"type\":\"deep\",\"d\":{}{}}}", "[".repeat(3000), "]".repeat(3000));
    let entries = [
        r#"{"z":1,"type":"x","a":{"c":1,"b":2}}"#,
        r#"{"type":"x","nul":"\u0000","lone":"\ud800","pair":"\ud83d\ude00","low":"\udc00\ud800"}"#,
        r#"{"type":"x","n":[1e400,-0,1.0,1E+2,0.10,123456789012345678901234567890]}"#,
        r#"{ "type" : "x" ,	"spaced":true }"#,
        r#"{"type":"x","é":"日本語 \/ \u00e9 "}"#,
        "{\"type\":\"x\",\"line\":\"\u{2028}\u{2029}\u{85}\u{7f}\"}",
        r#"{"type":"x","uuid":"\ud800"}"#,
        r#"{"type":"x","uuid":"\ud801"}"#,
        r#"{"type":"x","uuid":7}"#,
        r#"{"type":"x","uuid":""}"#,
        r#"{}"#,
        &deep,
    ];
    let of = key("p", "s");
    let body = format!("{{\"key\":{of},\"entries\":[{}]}}", entries.join(","));
    server.ask_as(&server.realm, Method::POST, "/entries/append", Some(&body)).await.is(200);
    let loaded = server.post("/entries/load", json!({ "key": of })).await;
    assert_eq!(loaded.text(), format!("{{\"ok\":[{}]}}", entries.join(",")));
    let twice = format!("{{\"key\":{of},\"entries\":[{{\"type\":\"x\",\"type\":\"y\"}}]}}");
    server.ask_as(&server.realm, Method::POST, "/entries/append", Some(&twice)).await.is(400);
    let body = format!("{{\"key\":{of},\"entries\":[{{\n\"type\":\r\n\"lines\"}}]}}");
    server.ask_as(&server.realm, Method::POST, "/entries/append", Some(&body)).await.is(200);
    let loaded = server.post("/entries/load", json!({ "key": of })).await.text();
    assert!(loaded.ends_with(",{ \"type\":  \"lines\"}]}"), "a line is a line");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_with_a_uuid_is_appended_once_within_its_session() {
    let server = Server::new().await;
    let named = |uuid: &str, n: u32| json!({ "type": "x", "uuid": uuid, "n": n });
    let (one, two) = (key("p", "one"), key("p", "two"));
    server.append(&one, json!([named("a", 1), named("b", 2), named("a", 3), entry(4), entry(4)])).await;
    server.append(&one, json!([named("b", 5), named("c", 6), entry(4)])).await;
    server.append(&two, json!([named("a", 7)])).await;
    server.append(&beneath("p", "one", "side"), json!([named("a", 8)])).await;
    let want = json!([named("a", 1), named("b", 2), entry(4), entry(4), named("c", 6), entry(4)]);
    assert_eq!(server.load(&one).await, want);
    assert_eq!(server.load(&two).await, json!([named("a", 7)]));
    assert_eq!(server.load(&beneath("p", "one", "side")).await, json!([named("a", 8)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_entries_in_batches_that_are_sent_again() {
    let server = Server::new().await;
    let of = key("p", "large");
    let all: Vec<Value> = (0..10_000).map(|n| json!({ "type": "user", "uuid": format!("u{n}"), "n": n })).collect();
    for (number, batch) in all.chunks(500).enumerate() {
        server.append(&of, json!(batch)).await;
        if number % 3 == 0 {
            server.append(&of, json!(batch)).await;
        }
    }
    // A server that was started anew knows as much.
    let anew = Server { router: routes().with_state(server.app.clone()), ..server };
    anew.append(&of, json!(all)).await;
    assert_eq!(anew.load(&of).await, json!(all));
}

#[tokio::test(flavor = "multi_thread")]
async fn several_at_once_lose_and_repeat_nothing() {
    let server = Arc::new(Server::new().await);
    let of = key("p", "shared");
    let tasks = (0..8).map(|writer| {
        let (server, of) = (server.clone(), of.clone());
        tokio::spawn(async move {
            for n in 0..10 {
                // Each is sent twice, and half of them by everybody.
                let own = json!({ "type": "x", "uuid": format!("{writer}-{n}") });
                let shared = json!({ "type": "x", "uuid": format!("all-{n}") });
                server.append(&of, json!([own, shared])).await;
                server.append(&of, json!([own])).await;
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    let loaded = server.load(&of).await;
    let mut uuids: Vec<&str> = loaded.as_array().unwrap().iter().map(|it| it["uuid"].as_str().unwrap()).collect();
    assert_eq!(uuids.len(), 8 * 10 + 10);
    uuids.sort_unstable();
    uuids.dedup();
    assert_eq!(uuids.len(), 8 * 10 + 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn z02_a_store_of_somebody_else_is_empty() {
    let server = Server::new().await;
    let bob = server.of("bob");
    server.append(&key("p", "s"), json!([entry(1)])).await;
    let ask = async |operation: &str, body: Value| {
        let path = format!("/entries/{operation}");
        server.ask_as(&bob, Method::POST, &path, Some(&body.to_string())).await.is(200)["ok"].clone()
    };
    assert_eq!(ask("load", json!({ "key": key("p", "s") })).await, Value::Null);
    assert_eq!(ask("list_sessions", json!({ "project_key": "p" })).await, json!([]));
    ask("append", json!({ "key": key("p", "s"), "entries": [entry(2)] })).await;
    ask("delete", json!({ "key": key("p", "s") })).await;
    assert_eq!(server.load(&key("p", "s")).await, json!([entry(1)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_operation_is_refused() {
    let server = Server::new().await;
    let of = key("p", "s");
    let wrong = [
        ("append", json!({ "key": of })),
        ("append", json!({ "key": of, "entries": [1] })),
        ("append", json!({ "key": of, "entries": [[]] })),
        ("append", json!({ "key": of, "entries": [], "actor": "bob" })),
        ("append", json!({ "key": beneath("p", "s", ""), "entries": [] })),
        ("append", json!({ "key": { "project_key": "", "session_id": "s" }, "entries": [] })),
        ("append", json!({ "key": { "project_key": "p", "session_id": "x".repeat(4097) }, "entries": [] })),
        ("load", json!({ "key": { "project_key": "p" } })),
        ("load", json!({})),
        ("delete", json!({ "key": "p" })),
        ("list_subkeys", json!({ "key": beneath("p", "s", "x") })),
        ("list_sessions", json!({})),
        ("list_session_summaries", json!({ "project_key": 1 })),
    ];
    for (operation, body) in wrong {
        server.post(&format!("/entries/{operation}"), body).await.fails(400, "invalid");
    }
    server.get("/entries/load").await.fails(405, "method_not_allowed");
    server.post("/entries/get_summary", json!({})).await.fails(404, "not_found");
}

#[tokio::test]
async fn pages_are_read_on_and_summaries_are_spelled_as_asked() {
    let server = Server::new().await;
    let of = key("p", "s");
    assert_eq!(server.store("read", json!({ "key": of })).await, Value::Null);
    server.append(&of, json!([{ "type": "x", "uuid": "1", "cwd": "/a", "customTitle": "t" }])).await;
    let page = server.store("read", json!({ "key": of, "cursor": null })).await;
    assert_eq!((page["entries"].as_array().unwrap().len(), &page["again"]), (1, &json!(false)));
    server.append(&of, json!([{ "type": "relocated", "relocatedCwd": "/b" }])).await;
    let page = server.store("read", json!({ "key": of, "cursor": page["cursor"] })).await;
    assert_eq!(page["entries"], json!([{ "type": "relocated", "relocatedCwd": "/b" }]));
    let data = |spelling: &'static str| {
        let (server, asked) = (&server, json!({ "project_key": "p", "spelling": spelling }));
        async move { server.store("list_session_summaries", asked).await[0]["data"].clone() }
    };
    assert_eq!(data("python").await, json!({ "is_sidechain": false, "cwd": "/a", "custom_title": "t" }));
    assert_eq!(data("typescript").await, json!({ "isSidechain": false, "cwd": "/b", "customTitle": "t" }));
    server
        .post("/entries/list_session_summaries", json!({ "project_key": "p", "spelling": "cobol" }))
        .await
        .fails(400, "invalid");
}
