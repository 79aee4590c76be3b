//! One session: what it says, and what changes it.

use unforget_agent::model::{self, BoxFuture, ModelError};

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_begun_named_deleted_and_brought_back() {
    let server = Server::new().await;
    let begun = server.post("/sessions", json!({ "key": "main:web:ada", "label": " work " })).await.is(201);
    let id = begun["id"].as_str().unwrap();
    assert_eq!(
        (&begun["key"], &begun["label"], &begun["state"]),
        (&json!("main:web:ada"), &json!("work"), &json!("ok"))
    );
    assert_eq!(server.get(&format!("/sessions/{id}")).await.is(200)["id"], id);
    let path = format!("/sessions/{id}");
    let patch = |body: Value| {
        let (server, path) = (&server, &path);
        async move { server.ask_as(&server.realm, Method::PATCH, path, Some(&body.to_string())).await }
    };
    let named = patch(json!({ "title": "Mine", "label": null, "expires": "30d" })).await.is(200);
    assert_eq!((&named["title"], &named["label"], &named["expires"]), (&json!("Mine"), &Value::Null, &json!("30d")));
    assert_eq!(named["pinned"], false);
    assert_eq!(server.get("/sessions?pinned=true").await.is(200)["sessions"], json!([]));
    let pinned = patch(json!({ "pinned": true })).await.is(200);
    assert_eq!((&pinned["pinned"], &pinned["updated"]), (&json!(true), &named["updated"]), "it is no use of it");
    assert_eq!(server.get("/sessions?pinned=true").await.is(200)["sessions"][0]["id"], id);
    assert_eq!(server.get("/sessions?pinned=false").await.is(200)["sessions"], json!([]));
    let notes = server.get(&format!("{path}/path")).await.is(200)["notes"].as_array().unwrap().len();
    assert_eq!(notes, 4, "title, label, expiry and pin");
    assert_eq!(patch(json!({ "pinned": false })).await.is(200)["pinned"], false);
    for wrong in [
        json!({}),
        json!({ "pinned": null }),
        json!({ "pinned": 1 }),
        json!({ "title": "" }),
        json!({ "title": 1 }),
        json!({ "expires": "soon" }),
        json!({ "actor": "bob" }),
        json!([]),
    ] {
        patch(wrong).await.fails(400, "invalid");
    }
    server.post(&format!("{path}/undelete"), json!({})).await.fails(409, "conflict");
    assert_eq!(server.ask_as(&server.realm, Method::DELETE, &path, None).await.is(204), Value::Null);
    server.get(&path).await.fails(404, "not_found");
    server.ask_as(&server.realm, Method::DELETE, &path, None).await.fails(404, "not_found");
    let trash = server.get("/sessions?deleted=true").await.is(200);
    assert_eq!((&trash["sessions"][0]["id"], &trash["sessions"][0]["state"]), (&json!(id), &json!("deleted")));
    assert_eq!(server.get("/sessions?state=deleted").await.is(200)["sessions"].as_array().unwrap().len(), 1);
    let back = server.ask_as(&server.realm, Method::POST, &format!("{path}/undelete"), None).await.is(200);
    assert_eq!((&back["id"], &back["title"]), (&json!(id), &json!("Mine")));
    assert_eq!(server.get("/sessions").await.is(200)["sessions"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_without_a_key_gets_one_of_its_own() {
    let server = Server::new().await;
    let one = server.ask_as(&server.realm, Method::POST, "/sessions", None).await.is(201);
    let two = server.post("/sessions", json!({ "peer": "ada" })).await.is(201);
    assert!(one["key"].as_str().unwrap().starts_with("main:api:"), "{one}");
    assert_eq!(two["key"], "main:api:ada");
    for wrong in [
        json!({ "key": "main:a:b", "peer": "c" }),
        json!({ "agent": "nobody" }),
        json!({ "key": "" }),
        json!({ "label": "x".repeat(201) }),
        json!({ "actor": "bob" }),
    ] {
        server.post("/sessions", wrong).await.fails(400, "invalid");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn records_are_verbatim_and_pages_have_no_gap() {
    let server = Server::new().await;
    let id = server.begin().await;
    for turn in 0..6 {
        server.say(&id, &format!("words {turn}")).await;
    }
    let stored = server.get(&format!("/sessions/{id}/export?redact=false")).await;
    let stored: Vec<String> = stored.text().lines().map(str::to_owned).collect();
    assert!(stored.len() > 12, "{stored:?}");
    let (mut pages, mut seen, mut after) = (0, Vec::new(), String::new());
    loop {
        let page = server.get(&format!("/sessions/{id}/records?limit=2{after}")).await;
        let text = page.text();
        let value = page.is(200);
        for record in value["records"].as_array().unwrap() {
            seen.push(record["n"].as_u64().unwrap());
            // Byte for byte.
            let line = &stored[seen.len() - 1];
            assert!(text.contains(&format!("\"record\":{line}")), "{line}");
        }
        pages += 1;
        match value["next"].as_u64() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert_eq!(seen, (0..stored.len() as u64).collect::<Vec<_>>());
    assert_eq!(pages, stored.len().div_ceil(2));
    let users = server.get(&format!("/sessions/{id}/records?kinds=user,title")).await.is(200);
    assert_eq!(users["records"].as_array().unwrap().iter().filter(|it| it["record"]["type"] == "user").count(), 6);
    for wrong in ["limit=0", "limit=1001", "after=-1", "payloads=perhaps", "kinds=", "actor=bob"] {
        server.get(&format!("/sessions/{id}/records?{wrong}")).await.fails(400, "invalid");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn records_are_masked_if_asked_for() {
    let server = Server::new().await;
    let id = server.begin().await;
    let secret = concat!("ghp_", "0123456789abcdefghijABCDEFGHIJ012345");
    server.say(&id, &format!("the key is {secret}")).await;
    let path = format!("/sessions/{id}/records");
    for (query, is_masked) in
        [("", false), ("?masked=false", false), ("?masked=true", true), ("?masked=true&payloads=true", true)]
    {
        let page = server.get(&format!("{path}{query}")).await;
        assert_eq!(page.text().contains(secret), !is_masked, "{query}");
        let plain = server.get(&path).await.is(200);
        // What is no secret is as it was.
        assert_eq!(page.is(200)["records"][0], plain["records"][0]);
    }
    server.get(&format!("{path}?masked=perhaps")).await.fails(400, "invalid");
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_is_told_and_never_stops_the_pages() {
    let server = Server::new().await;
    let id = server.begin().await;
    server.say(&id, "before").await;
    let path = server.realm.root().join("agents/main/sessions").join(format!("{id}.jsonl"));
    let whole = server.get(&format!("/sessions/{id}/export?redact=false")).await.text();
    let mut lines: Vec<&str> = whole.lines().collect();
    lines[2] = "{ broken";
    lines.insert(3, "\u{0}\u{0}");
    let medium = unforget_core::medium::Os::new(path.parent().unwrap().to_path_buf());
    let text = format!("{}\n", lines.join("\n"));
    unforget_core::medium::replace_durable(&medium, path.file_name().unwrap().as_ref(), text.as_bytes()).unwrap();
    let (mut damage, mut records, mut after) = (0, Vec::new(), String::new());
    for _ in 0..lines.len() + 1 {
        let page = server.get(&format!("/sessions/{id}/records?limit=1{after}")).await.is(200);
        for line in page["records"].as_array().unwrap() {
            damage += usize::from(line["damage"]["offset"].is_u64());
            records.extend(line.get("record").map(|record| record["n"].as_u64().unwrap()));
        }
        match page["next"].as_u64() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    let want: Vec<u64> = (0..lines.len() as u64 - 1).filter(|n| *n != 2).collect();
    assert_eq!((damage, records), (2, want));
    let messages = server.get(&format!("/sessions/{id}/messages")).await.is(200);
    assert!(!messages["damage"].as_array().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_what_a_model_would_get() {
    let server = Server::new().await;
    let id = server.begin().await;
    server.say(&id, "my name is Ada").await;
    let sent = server.get(&format!("/sessions/{id}/messages")).await.is(200);
    assert_eq!(sent["messages"][0]["role"], "user");
    assert_eq!(sent["messages"][0]["content"][0]["text"], "my name is Ada");
    assert_eq!(sent["messages"][1]["role"], "assistant");
    assert_eq!((&sent["repairs"], &sent["damage"]), (&json!([]), &json!([])));
    server.get(&format!("/sessions/{id}/messages?budget=5000")).await.is(200);
    server.get(&format!("/sessions/{id}/messages?budget=0")).await.fails(400, "invalid");
    server.get("/sessions/nothing/messages").await.fails(404, "not_found");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_is_forked_rewound_and_marked() {
    let server = Server::new().await;
    let id = server.begin().await;
    let path = format!("/sessions/{id}");
    server.say(&id, "one").await;
    let head = server.get(&path).await.is(200)["head"].as_u64().unwrap();
    let marked = server.post(&format!("{path}/checkpoint"), json!({ "name": "here" })).await.is(200);
    assert_eq!(marked, json!({ "name": "here", "to": head }));
    for wrong in [
        json!({ "name": "12" }),
        json!({ "name": "" }),
        json!({ "name": "x", "at": 99999 }),
        json!({}),
        json!({ "name": "x", "at": {} }),
    ] {
        server.post(&format!("{path}/checkpoint"), wrong).await.fails(400, "invalid");
    }
    server.say(&id, "two").await;
    assert_ne!(server.get(&path).await.is(200)["head"], head);
    let listed = server.get(&format!("{path}/checkpoints")).await.is(200);
    assert_eq!((&listed["checkpoints"][0]["name"], &listed["checkpoints"][0]["to"]), (&json!("here"), &json!(head)));
    let fork = server.post(&format!("{path}/fork"), json!({ "at": "here", "label": "again" })).await.is(201);
    assert_eq!((&fork["from"], &fork["at"]), (&json!(id), &json!(head)));
    let forked = server.get(&format!("/sessions/{}", fork["id"].as_str().unwrap())).await.is(200);
    assert_eq!((&forked["turns"], &forked["label"]), (&json!(1), &json!("again")));
    for wrong in [json!({ "at": "nowhere" }), json!({ "at": 99999 }), json!({ "key": "nobody:a:b" })] {
        server.post(&format!("{path}/fork"), wrong).await.fails(400, "invalid");
    }
    let back = server.post(&format!("{path}/rewind"), json!({ "to": "here" })).await.is(200);
    assert_eq!((&back["head"], &back["branch"]), (&json!(head), &json!("main")));
    assert_eq!(server.get(&path).await.is(200)["head"], head);
    server.say(&id, "three").await;
    let tree = server.get(&format!("{path}/tree")).await.is(200);
    assert_eq!(tree["branches"].as_array().unwrap().len(), 2, "{tree}");
    assert_eq!(tree["current"], "main");
    for wrong in [json!({}), json!({ "to": null }), json!({ "to": -1 }), json!({ "to": "nowhere" })] {
        server.post(&format!("{path}/rewind"), wrong).await.fails(400, "invalid");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn any_edit_is_applied_and_tells_how_to_take_it_back() {
    let server = Server::new().await;
    let id = server.begin().await;
    let path = format!("/sessions/{id}/edits");
    server.say(&id, "one").await;
    server.say(&id, "two").await;
    let edits = async |edits: Value| {
        let answer = server.post(&path, json!({ "edits": edits })).await.is(200);
        answer["applied"].as_array().unwrap().clone()
    };
    let tip = server.get(&format!("/sessions/{id}")).await.is(200)["head"].as_u64().unwrap();
    let undone = edits(json!([{ "edit": "undo" }])).await;
    assert_eq!((&undone[0]["change"], &undone[0]["words"]), (&json!("moved"), &json!("two")));
    assert_eq!(undone[0]["inverse"], json!([{ "edit": "redo" }]));
    assert_eq!(server.get(&format!("/sessions/{id}")).await.is(200)["turns"], 1);
    assert_eq!(edits(undone[0]["inverse"].clone()).await[0]["after"]["head"], tip);
    server.post(&path, json!({ "edits": [{ "edit": "redo" }] })).await.fails(409, "conflict");
    let named = edits(json!([
        { "edit": "checkpoint", "name": "here" }, { "edit": "branch", "name": "side" }, { "edit": "title", "title": "T" }
    ]));
    let changes: Vec<Value> = named.await.iter().map(|it| it["change"].clone()).collect();
    assert_eq!(changes, ["named", "named", "session"]);
    for (edit, status, code) in [
        (json!({ "edit": "checkpoint", "name": "side" }), 409, "conflict"),
        (json!({ "edit": "switch", "to": "here" }), 400, "invalid"),
        (json!({ "edit": "undo", "files": true }), 400, "invalid"),
        (json!({ "edit": "forget" }), 400, "invalid"),
    ] {
        server.post(&path, json!({ "edits": [edit] })).await.fails(status, code);
    }
    server.post(&path, json!({ "edits": [] })).await.fails(400, "invalid");
    let many: Vec<Value> = (0..101).map(|_| json!({ "edit": "undo" })).collect();
    server.post(&path, json!({ "edits": many })).await.fails(400, "invalid");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_branch_is_begun_anywhere_and_the_others_stay_where_they_are() {
    let server = Server::new().await;
    let id = server.begin().await;
    let path = format!("/sessions/{id}");
    server.say(&id, "one").await;
    let early = server.get(&path).await.is(200)["head"].as_u64().unwrap();
    server.say(&id, "two").await;
    let tip = server.get(&path).await.is(200)["head"].as_u64().unwrap();
    let begun = server.post(&format!("{path}/branch"), json!({ "name": "side", "at": early })).await.is(200);
    assert_eq!((&begun["name"], &begun["head"]), (&json!("side"), &json!(early)));
    assert_eq!(server.get(&path).await.is(200)["head"], early);
    let there = async || {
        let tree = server.get(&format!("{path}/tree")).await.is(200);
        let labels = tree["labels"].as_array().unwrap().iter();
        let to: Vec<(String, Value)> =
            labels.map(|it| (it["name"].as_str().unwrap().to_owned(), it["to"].clone())).collect();
        (tree["current"].clone(), to)
    };
    let place = |name: &str, n: u64| (name.to_owned(), json!(n));
    assert_eq!(there().await, (json!("side"), vec![place("main", tip), place("side", early)]));
    server.say(&id, "three").await;
    let head = server.get(&path).await.is(200)["head"].as_u64().unwrap();
    let here = server.post(&format!("{path}/branch"), json!({ "name": "here" })).await.is(200);
    assert_eq!((&here["head"], here["n"].as_u64() > Some(head)), (&json!(head), true));
    let want = vec![place("here", head), place("main", tip), place("side", head)];
    assert_eq!(there().await, (json!("here"), want));
    let from = server.post(&format!("{path}/branch"), json!({ "name": "last", "at": "main" })).await.is(200);
    assert_eq!(from["head"], tip);
    assert_eq!(there().await.0, "last");
    for taken in ["main", "side"] {
        server.post(&format!("{path}/branch"), json!({ "name": taken })).await.fails(409, "conflict");
    }
    for wrong in
        [json!({ "name": "7" }), json!({}), json!({ "name": "x", "at": 99999 }), json!({ "name": "x", "to": 1 })]
    {
        server.post(&format!("{path}/branch"), wrong).await.fails(400, "invalid");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_is_gone_on_with_and_nothing_is_aborted_that_does_not_run() {
    let server = Server::new().await;
    let id = server.begin().await;
    let path = format!("/sessions/{id}");
    server.say(&id, "one").await;
    assert_eq!(server.post(&format!("{path}/abort"), json!({})).await.is(200), json!({ "aborted": false }));
    server.post(&format!("{path}/abort"), json!({ "client_id": "\u{7}" })).await.fails(400, "invalid");
    assert_eq!(
        server.post(&format!("{path}/compact"), json!({ "focus": "names" })).await.is(200),
        json!({ "n": null })
    );
    server.post(&format!("{path}/compact"), json!({ "focus": "x".repeat(4001) })).await.fails(400, "invalid");
    assert_eq!(server.post(&format!("{path}/resume"), json!({})).await.is(202), json!({ "resumed": true }));
    server.post(&format!("{path}/resume"), json!({ "a": 1 })).await.fails(400, "invalid");
}

/// A model that has not answered yet.
#[derive(Debug)]
struct Silent;

impl Model for Silent {
    fn name(&self) -> &str {
        "silent"
    }

    fn window(&self) -> u64 {
        100_000
    }

    fn respond<'a>(&'a self, _: &'a model::Request<'a>, _: model::Sink<'a>) -> BoxFuture<'a, Result<(), ModelError>> {
        Box::pin(std::future::pending())
    }

    fn count<'a>(&'a self, _: &'a model::Request<'a>) -> BoxFuture<'a, Result<u64, ModelError>> {
        Box::pin(async { Ok(1) })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_a_turn_runs_nothing_is_changed_and_everything_is_read() {
    let server = Server::with(Arc::new(Silent));
    let id = server.begin().await;
    let path = format!("/sessions/{id}");
    let watching =
        server.app.hub.attach(&server.realm, &SessionId::parse(&id).unwrap(), crate::protocol::After::End).await;
    let Ok(crate::hub::Watching::Here(_, viewer)) = watching else { panic!("it is here") };
    let prompt = ClientId::parse("one").unwrap();
    viewer.live().prompt(prompt, "words".to_owned(), false, None).await.unwrap();
    let shown = server.get(&path).await.is(200);
    assert_eq!((&shown["live"], &shown["busy"], &shown["viewers"]), (&json!(true), &json!(true), &json!(1)));
    assert_eq!(server.get("/sessions?state=live").await.is(200)["sessions"][0]["id"], id);
    for (action, body) in [
        ("/rewind", json!({ "to": 0 })),
        ("/checkpoint", json!({ "name": "x" })),
        ("/branch", json!({ "name": "x" })),
        ("/pin", json!({ "n": 1, "pinned": true })),
        ("/edits", json!({ "edits": [{ "edit": "undo" }] })),
        ("/compact", json!({})),
        ("/resume", json!({})),
    ] {
        server.post(&format!("{path}{action}"), body).await.fails(409, "busy");
    }
    server.ask_as(&server.realm, Method::PATCH, &path, Some("{\"title\":\"x\"}")).await.fails(409, "busy");
    server.ask_as(&server.realm, Method::DELETE, &path, None).await.fails(409, "busy");
    for action in ["/records", "/messages", "/path", "/context", "/tree", "/checkpoints", "/export?format=json"] {
        server.get(&format!("{path}{action}")).await.is(200);
    }
    server.post(&format!("{path}/fork"), json!({})).await.is(201);
    let abort =
        async |client_id: &str| server.post(&format!("{path}/abort"), json!({ "client_id": client_id })).await.is(200);
    assert_eq!(abort("two").await, json!({ "aborted": false }));
    assert_eq!(abort("one").await, json!({ "aborted": true }));
    viewer.live().quiet().await;
    server.ask_as(&server.realm, Method::PATCH, &path, Some("{\"title\":\"x\"}")).await.is(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_masks_what_looks_like_a_secret() {
    let server = Server::new().await;
    let id = server.begin().await;
    let secret = concat!("ghp_", "0123456789abcdefghijABCDEFGHIJ012345");
    server.say(&id, &format!("the key is {secret}")).await;
    for format in ["jsonl", "json", "bundle"] {
        let path = format!("/sessions/{id}/export?format={format}");
        let (masked, whole) = (server.get(&path).await, server.get(&format!("{path}&redact=false")).await);
        assert_eq!((masked.status, whole.status), (StatusCode::OK, StatusCode::OK), "{}", masked.text());
        assert!(!masked.text().contains(secret) && masked.text().contains("[masked"), "{format}");
        assert!(whole.text().contains(secret), "{format}");
        assert!(masked.headers["content-disposition"].to_str().unwrap().contains(&id));
    }
    let document = server.get(&format!("/sessions/{id}/export?format=json")).await.json();
    assert_eq!(document["session"]["id"], id);
    assert_eq!(document["records"][0]["type"], "session");
    server.get(&format!("/sessions/{id}/export?format=pdf")).await.fails(400, "invalid");
}

#[tokio::test(flavor = "multi_thread")]
async fn s18_a_list_is_no_body() {
    let server = Server::new().await;
    let id = server.begin().await;
    server.say(&id, "hello").await;
    for (path, body) in [
        (format!("/sessions/{id}/resume"), json!([])),
        (format!("/sessions/{id}/abort"), json!([null])),
        (format!("/sessions/{id}/compact"), json!([])),
        (format!("/sessions/{id}/checkpoint"), json!(["name", null])),
        ("/sessions".to_owned(), json!([])),
    ] {
        server.post(&path, body).await.fails(400, "invalid");
    }
}
