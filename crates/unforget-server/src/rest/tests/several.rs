//! Several sessions, several people, and requests that are none.

use std::collections::BTreeSet;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn cursors_walk_250_sessions_without_a_gap() {
    let server = Server::new().await;
    let mut want = BTreeSet::new();
    for number in 0..250 {
        let key = format!("main:{}:p{number}", if number % 2 == 0 { "even" } else { "odd" }).parse().unwrap();
        want.insert(server.realm.store().create(&key, None).unwrap().id().to_string());
    }
    for sort in ["updated", "created", "title", "turns", "tokens", "bytes"] {
        let (mut seen, mut cursor, mut pages) = (Vec::new(), String::new(), 0);
        loop {
            let page = server.get(&format!("/sessions?limit=17&sort={sort}{cursor}")).await.is(200);
            seen.extend(page["sessions"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap().to_owned()));
            pages += 1;
            match page["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        assert_eq!((seen.len(), pages), (250, 15), "{sort}");
        assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), want, "{sort}");
    }
    let odd = server.get("/sessions?channel=odd&limit=500").await.is(200);
    assert_eq!((odd["sessions"].as_array().unwrap().len(), &odd["next"]), (125, &Value::Null));
    let one = server.get("/sessions?key=main:odd:p7").await.is(200);
    assert_eq!(one["sessions"][0]["key"], "main:odd:p7");
    let by_title = server.get("/sessions?sort=title&limit=1").await.is(200)["next"].as_str().unwrap().to_owned();
    server.get(&format!("/sessions?cursor={by_title}")).await.fails(400, "invalid");
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_filtered_and_refuse_what_they_do_not_know() {
    let server = Server::new().await;
    let id = server.begin().await;
    server.say(&id, "the hotels of Paris").await;
    let count = async |query: &str| {
        server.get(&format!("/sessions?{query}")).await.is(200)["sessions"].as_array().unwrap().len()
    };
    assert_eq!(count("q=PARIS").await, 1);
    assert_eq!(count("q=rome").await, 0);
    assert_eq!(count("since=2020-01-01T00:00:00Z&until=2100-01-01T00:00:00Z").await, 1);
    assert_eq!(count("until=2020-01-01T00:00:00Z").await, 0);
    assert_eq!(count("state=ok&agent=main").await, 1);
    assert_eq!(count("state=damaged").await, 0);
    for wrong in [
        "limit=0",
        "limit=501",
        "limit=many",
        "cursor=abc",
        "sort=colour",
        "state=happy",
        "since=yesterday",
        "key=:",
        "key=main:a:b&agent=main",
        "actor=bob",
        "limit=1&limit=2",
        "deleted=perhaps",
    ] {
        server.get(&format!("/sessions?{wrong}")).await.fails(400, "invalid");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn words_are_found_with_their_secrets_masked() {
    let server = Server::new().await;
    let id = server.begin().await;
    let secret = concat!("ghp_", "0123456789abcdefghijABCDEFGHIJ012345");
    server.say(&id, &format!("zebra {secret}")).await;
    let found = server.get("/search?q=zebra&role=user").await;
    assert!(!found.text().contains(secret));
    let hit = &found.is(200)["hits"][0];
    assert_eq!((&hit["session"], &hit["role"], &hit["trashed"]), (&json!(id), &json!("user"), &json!(false)));
    assert!(hit["snippet"].as_str().unwrap().contains("zebra"), "{hit}");
    assert_eq!(server.get("/search?q=zebra&agent=other").await.is(200)["hits"], json!([]));
    for wrong in ["", "q=", "q=%22", "q=a&role=nobody", "q=a&limit=0", "q=a&key=x", "q=a&actor=bob"] {
        server.get(&format!("/search?{wrong}")).await.fails(400, "invalid");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_used_is_added_up() {
    let server = Server::new().await;
    let id = server.begin().await;
    server.say(&id, "one").await;
    server.say(&id, "two").await;
    for by in ["day", "week", "month", "model", "agent", "session"] {
        let usage = server.get(&format!("/usage?by={by}")).await.is(200);
        assert_eq!((&usage["by"], usage["rows"].as_array().unwrap().len()), (&json!(by), 1), "{usage}");
        assert_eq!((&usage["rows"][0]["turns"], &usage["total"]["turns"]), (&json!(2), &json!(2)), "{usage}");
        assert!(usage["rows"][0][by].is_string(), "{usage}");
    }
    assert_eq!(server.get("/usage?by=session&key=main:api:*").await.is(200)["rows"][0]["session"], id);
    assert_eq!(server.get("/usage?until=2020-01-01T00:00:00Z").await.is(200)["rows"], json!([]));
    for wrong in ["by=hour", "since=soon", "key=x", "actor=bob"] {
        server.get(&format!("/usage?{wrong}")).await.fails(400, "invalid");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_tells_what_it_is() {
    let server = Server::new().await;
    let health = server.get("/health").await.is(200);
    assert_eq!((&health["status"], &health["protocol"]), (&json!("ok"), &json!(1)));
    let agents = server.get("/agents").await.is(200);
    assert_eq!(agents, json!({ "agents": [{ "name": "main", "kind": "built-in" }], "default": "main" }));
    let me = server.get("/me").await.is(200);
    assert_eq!((&me["actor"], &me["needs_token"], &me["protocol"]), (&json!("ada"), &json!(true), &json!(1)));
    assert_eq!((&me["agents"], &me["default"]), (&agents["agents"], &agents["default"]));
    assert_eq!(me["version"], health["version"]);
    assert_eq!(server.get("/openapi.json").await.is(200)["openapi"], "3.1.0");
    for path in ["/health?a=1", "/agents?a=1", "/me?a=1", "/openapi.json?a=1"] {
        server.get(path).await.fails(400, "invalid");
    }
}

/// Every request that names a session.
fn with_session(id: &str) -> Vec<(Method, String, Option<Value>)> {
    let get = |path: &str| (Method::GET, format!("/sessions/{id}{path}"), None);
    let post = |path: &str, body: Value| (Method::POST, format!("/sessions/{id}{path}"), Some(body));
    vec![
        get(""),
        get("/records"),
        get("/messages"),
        get("/path"),
        get("/context"),
        get("/tree"),
        get("/checkpoints"),
        get("/export"),
        get("/export?format=json"),
        get("/export?format=bundle"),
        (Method::PATCH, format!("/sessions/{id}"), Some(json!({ "title": "mine now" }))),
        (Method::DELETE, format!("/sessions/{id}"), None),
        post("/undelete", json!({})),
        post("/fork", json!({})),
        post("/rewind", json!({ "to": 1 })),
        post("/checkpoint", json!({ "name": "x" })),
        post("/branch", json!({ "name": "x" })),
        post("/pin", json!({ "n": 1, "pinned": true })),
        post("/compact", json!({})),
        post("/abort", json!({})),
        post("/resume", json!({})),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn z02_a_session_of_somebody_else_is_answered_like_one_that_is_not_there() {
    let server = Server::new().await;
    let bob = server.of("bob");
    let (live, deleted) = (server.begin().await, server.begin().await);
    server.say(&live, "zebra").await;
    server.ask_as(&server.realm, Method::DELETE, &format!("/sessions/{deleted}"), None).await.is(204);
    let before = server.get(&format!("/sessions/{live}/export?redact=false")).await.bytes;
    for id in [&live, &deleted] {
        let random = uuid::Uuid::now_v7().to_string();
        for ((method, path, body), (_, nowhere, _)) in with_session(id).into_iter().zip(with_session(&random)) {
            let body = body.map(|body| body.to_string());
            let theirs = server.ask_as(&bob, method.clone(), &path, body.as_deref()).await;
            let nothing = server.ask_as(&bob, method, &nowhere, body.as_deref()).await;
            theirs.fails(404, "not_found");
            assert_eq!(
                (theirs.status, &theirs.headers, &theirs.bytes),
                (nothing.status, &nothing.headers, &nothing.bytes),
                "{path}"
            );
        }
    }
    assert_eq!(server.get(&format!("/sessions/{live}/export?redact=false")).await.bytes, before);
    let list = async |path: &str| server.ask_as(&bob, Method::GET, path, None).await.is(200);
    assert_eq!(list("/sessions").await["sessions"], json!([]));
    assert_eq!(list("/sessions?deleted=true").await["sessions"], json!([]));
    assert_eq!(list("/search?q=zebra").await["hits"], json!([]));
    assert_eq!(list("/usage").await["rows"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_nobody_is_told_nothing() {
    let server = Server::new().await;
    let id = server.begin().await;
    for path in ["/sessions".to_owned(), format!("/sessions/{id}"), "/search?q=a".to_owned(), "/agents".to_owned()] {
        let request = Request::builder().uri(format!("{PREFIX}{path}")).body(Body::empty()).unwrap();
        server.send(None, request).await.fails(401, "unauthenticated");
    }
    let request = Request::builder().uri(format!("{PREFIX}/health")).body(Body::empty()).unwrap();
    server.send(None, request).await.is(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_are_none_are_problems_like_all_others() {
    let server = Server::new().await;
    let id = server.begin().await;
    for path in ["/nothing", "", "/", "/sessions/", "/sessions/a/b/c", "/entries"] {
        server.get(path).await.fails(404, "not_found");
    }
    for path in [
        format!("/sessions/{}", "a".repeat(129)),
        "/sessions/..%2f..%2fetc".to_owned(),
        "/sessions/%ff".to_owned(),
        "/sessions/a%00".to_owned(),
    ] {
        server.get(&path).await.fails(404, "not_found");
    }
    let wrong = server.ask_as(&server.realm, Method::PUT, &format!("/sessions/{id}"), Some("{}")).await;
    wrong.fails(405, "method_not_allowed");
    assert!(wrong.headers["allow"].to_str().unwrap().contains("PATCH"), "{:?}", wrong.headers);
    let deep = format!("{{\"label\":{}1{}}}", "[".repeat(100), "]".repeat(100));
    for body in [
        "",
        "{",
        "[1]",
        "nul",
        "{\"label\":\"\\ud800\"}",
        "{\"label\":\"a\"} x",
        "{\"label\":\"a\",\"label\":\"b\"}",
        &deep,
    ] {
        let path = format!("/sessions/{id}");
        server.ask_as(&server.realm, Method::PATCH, &path, Some(body)).await.fails(400, "invalid");
    }
    let send = async |kind: Option<&str>, body: Vec<u8>| {
        let request = Request::builder().method(Method::POST).uri(format!("{PREFIX}/sessions"));
        let request = kind.into_iter().fold(request, |request, kind| request.header("content-type", kind));
        server.send(Some(&server.realm), request.body(Body::from(body)).unwrap()).await
    };
    for kind in [None, Some("text/plain"), Some("application/jsonp"), Some("application/x-www-form-urlencoded")] {
        send(kind, b"{}".to_vec()).await.fails(415, "unsupported_media");
    }
    send(Some("application/json; charset=utf-8"), b"{}".to_vec()).await.is(201);
    send(Some("application/json"), b"\xff".to_vec()).await.fails(400, "invalid");
    let large = vec![b' '; server.app.limits().body + 1];
    send(Some("application/json"), large).await.fails(413, "too_large");
}
