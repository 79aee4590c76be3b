//! Coming in and leaving, where everybody is the owner; with tokens it is tried over real sockets.

use super::*;

/// A request of a page that passed the door.
fn of_page(server: &Server, origin: &str, path: &str, body: Option<&str>) -> Request<Body> {
    let request = Request::builder().method(Method::POST).uri(format!("{PREFIX}{path}"));
    let request = request.header("host", "localhost:8080").header("origin", origin);
    let mut request = match body {
        Some(body) => request.header("content-type", "application/json").body(Body::from(body.to_owned())),
        None => request.body(Body::empty()),
    }
    .unwrap();
    let door = Door::new(([127, 0, 0, 1], 8080).into()).allow_origin("https://app.example").unwrap();
    let passed = door.check(request.method(), request.uri(), request.headers()).unwrap();
    assert!(!server.app.identity.takes_tokens());
    request.extensions_mut().insert(passed);
    request
}

const OWN: &str = "http://localhost:8080";

#[tokio::test(flavor = "multi_thread")]
async fn where_nobody_is_asked_who_they_are_a_browser_keeps_nothing() {
    let server = Server::new().await;
    let answer = server.send(None, of_page(&server, OWN, "/login", Some(r#"{"token":"whatever","stay":true}"#))).await;
    assert_eq!(answer.is(200), json!({ "actor": "owner" }));
    assert!(!answer.headers.contains_key("set-cookie"));
    let answer = server.send(None, of_page(&server, OWN, "/logout", None)).await;
    answer.is(204);
    assert_eq!(answer.headers.get_all("set-cookie").iter().count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_login_is_refused() {
    let server = Server::new().await;
    for body in ["", "{}", r#"{"token":1}"#, r#"{"token":"a","stay":null}"#, r#"{"token":"a","actor":"b"}"#] {
        server.send(None, of_page(&server, OWN, "/login", Some(body))).await.fails(400, "invalid");
    }
    server.send(None, of_page(&server, OWN, "/login", None)).await.fails(415, "unsupported_media");
    server.send(None, of_page(&server, OWN, "/login?a=b", Some(r#"{"token":"a"}"#))).await.fails(400, "invalid");
    // Other pages, allowed or not, and programs.
    for (path, body) in [("/login", Some(r#"{"token":"a"}"#)), ("/logout", None)] {
        for origin in ["https://app.example", "http://127.0.0.1:8080"] {
            server.send(None, of_page(&server, origin, path, body)).await.fails(403, "forbidden");
        }
        server.ask_as(&server.realm, Method::POST, path, body).await.fails(403, "forbidden");
    }
}
