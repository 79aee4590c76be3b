//! Coming in and leaving, at a server for its owner; with other people's tokens it is tried over real sockets.

use super::*;

/// A request of a page that passed the door.
fn of_page(origin: &str, path: &str, body: Option<&str>) -> Request<Body> {
    let request = Request::builder().method(Method::POST).uri(format!("{PREFIX}{path}"));
    let request = request.header("host", "localhost:8080").header("origin", origin);
    let mut request = match body {
        Some(body) => request.header("content-type", "application/json").body(Body::from(body.to_owned())),
        None => request.body(Body::empty()),
    }
    .unwrap();
    let door = Door::new(([127, 0, 0, 1], 8080).into()).allow_origin("https://app.example").unwrap();
    let passed = door.check(request.method(), request.uri(), request.headers()).unwrap();
    request.extensions_mut().insert(passed);
    request
}

const OWN: &str = "http://localhost:8080";

#[expect(clippy::disallowed_methods, reason = "the test is not the store")]
fn owner_token(server: &Server) -> String {
    std::fs::read_to_string(server.app.identity.ways().owner.as_ref().unwrap().place()).unwrap().trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn s4_a_link_is_exchanged_for_a_cookie_once() {
    let server = Server::new().await;
    let owner = server.app.hub.realm(&ActorId::owner());
    let made = server.ask_as(&owner, Method::POST, "/links", None).await.is(201);
    let code = made["url"].as_str().unwrap().strip_prefix("http://localhost:8080/#link=").unwrap();
    let body = json!({ "link": code }).to_string();
    let answer = server.send(None, of_page(OWN, "/login", Some(&body))).await;
    assert_eq!(answer.is(200), json!({ "actor": "owner" }));
    let cookies: Vec<_> = answer.headers.get_all("set-cookie").iter().map(|value| value.to_str().unwrap()).collect();
    let token = owner_token(&server);
    assert_eq!(cookies[0], format!("unforget_token={token}; HttpOnly; SameSite=Strict; Path=/"));
    assert!(!answer.text().contains(&token), "scripts see nothing of it");
    for _ in 0..2 {
        server.send(None, of_page(OWN, "/login", Some(&body))).await.fails(401, "unauthenticated");
    }
    server
        .send(None, of_page(OWN, "/login", Some(&json!({ "link": "" }).to_string())))
        .await
        .fails(401, "unauthenticated");
    // A link is made by the owner and by nobody else.
    server.ask_as(&server.realm, Method::POST, "/links", None).await.fails(403, "forbidden");
}

#[tokio::test(flavor = "multi_thread")]
async fn s4_only_the_owners_token_logs_in() {
    let server = Server::new().await;
    let login = |token: &str| of_page(OWN, "/login", Some(&json!({ "token": token, "stay": true }).to_string()));
    server.send(None, login("whatever")).await.fails(401, "unauthenticated");
    let answer = server.send(None, login(&owner_token(&server))).await;
    assert_eq!(answer.is(200), json!({ "actor": "owner" }));
    assert_eq!(answer.headers.get_all("set-cookie").iter().count(), 2);
    let answer = server.send(None, of_page(OWN, "/logout", None)).await;
    answer.is(204);
    assert_eq!(answer.headers.get_all("set-cookie").iter().count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_login_is_refused() {
    let server = Server::new().await;
    let wrong = [
        "",
        "{}",
        r#"{"token":1}"#,
        r#"{"token":"a","stay":null}"#,
        r#"{"token":"a","actor":"b"}"#,
        r#"{"token":"a","link":"b"}"#,
        r#"{"link":null}"#,
        r#"{"stay":true}"#,
    ];
    for body in wrong {
        server.send(None, of_page(OWN, "/login", Some(body))).await.fails(400, "invalid");
    }
    server.send(None, of_page(OWN, "/login", None)).await.fails(415, "unsupported_media");
    server.send(None, of_page(OWN, "/login?a=b", Some(r#"{"token":"a"}"#))).await.fails(400, "invalid");
    // Other pages, allowed or not, and programs.
    for (path, body) in [("/login", Some(r#"{"token":"a"}"#)), ("/logout", None)] {
        for origin in ["https://app.example", "http://127.0.0.1:8080"] {
            server.send(None, of_page(origin, path, body)).await.fails(403, "forbidden");
        }
        server.ask_as(&server.realm, Method::POST, path, body).await.fails(403, "forbidden");
    }
}
