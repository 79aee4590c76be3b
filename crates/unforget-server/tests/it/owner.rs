//! The owner's doors at a server for oneself: the token, the link, the socket; and that being on the same machine is none.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;

use serde_json::{Value, json};

use crate::log;
use crate::scene::{Scene, Setting};

const USER: &str = "x-amzn-bedrock-agentcore-runtime-user-id";

/// A request through the owner's socket, and its answer.
fn by_socket(scene: &Scene, request: &str) -> (u16, String) {
    let mut stream = UnixStream::connect(scene.home().join("server/owner.sock")).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

#[test]
fn s4_who_is_on_the_same_machine_and_shows_nothing_is_nobody() {
    let scene = Scene::new();
    let said = scene.ask("POST", "/invocations", Some(r#"{"prompt":"marzipan"}"#)).1;
    let id = said["session_id"].as_str().unwrap().to_owned();
    let before = scene.transcript(&id);
    let bearer = format!("Bearer {}x", scene.owner_token());
    let wrong =
        [vec![], vec![("authorization", bearer.as_str())], vec![("x-unforget-page", "1")], vec![(USER, "owner")]];
    let requests = [
        ("GET", "/v1/sessions".to_owned(), None),
        ("GET", "/v1/search?q=marzipan".to_owned(), None),
        ("GET", format!("/v1/sessions/{id}/records"), None),
        ("POST", "/invocations".to_owned(), Some(r#"{"prompt":"mine now"}"#)),
        ("POST", "/v1/links".to_owned(), None),
        ("GET", "/metrics".to_owned(), None),
        ("GET", "/v1/me".to_owned(), None),
        ("DELETE", format!("/v1/sessions/{id}"), None),
    ];
    for headers in &wrong {
        for (method, path, body) in &requests {
            let answer = scene.send_bare(method, path, *body, headers);
            assert_eq!(answer.status, 401, "{method} {path} {headers:?}");
            assert!(!answer.text().contains("marzipan"));
        }
    }
    let mut client = scene.dial_bare("/ws", &[]).unwrap();
    client.say(&json!({ "type": "attach", "session_id": id }));
    assert_eq!(client.hear().unwrap()["error"]["code"], "unauthenticated");
    assert_eq!(client.closed(), Some(1008));
    assert_eq!(scene.transcript(&id), before);
}

#[test]
fn s4_the_owners_token_is_the_owner_everywhere_and_in_no_log() {
    log::keep();
    let scene = Scene::new();
    assert_eq!(scene.ask("GET", "/v1/me", None).1["actor"], "owner");
    assert_eq!(scene.ask("GET", "/metrics", None).0, 200);
    let mut client = scene.dial_bare("/ws", &[]).unwrap();
    client.say(&json!({ "type": "auth", "token": scene.owner_token() }));
    client.say(&json!({ "type": "prompt", "prompt": "hello" }));
    client.until("done");
    let made = scene.ask("POST", "/v1/links", None);
    assert_eq!(made.0, 201);
    let code = made.1["url"].as_str().unwrap().split_once("#link=").unwrap().1.to_owned();
    for secret in [scene.owner_token(), code] {
        assert!(!log::text().contains(&secret) && !format!("{:?}", scene.app()).contains(&secret));
    }
}

#[test]
fn s4_a_page_exchanges_a_link_for_a_cookie_that_works() {
    let scene = Scene::new();
    let origin = format!("http://{}", scene.address);
    let url = scene.ask("POST", "/v1/links", None).1["url"].as_str().unwrap().to_owned();
    let code = url.strip_prefix(&format!("{origin}/#link=")).unwrap();
    let body = json!({ "link": code }).to_string();
    for headers in [vec![], vec![("origin", "https://evil.example")], vec![("origin", "null")]] {
        assert_eq!(scene.send_bare("POST", "/v1/login", Some(&body), &headers).status, 403, "{headers:?}");
    }
    let login = || scene.send_bare("POST", "/v1/login", Some(&body), &[("origin", &origin)]);
    let answer = login();
    assert_eq!((answer.status, answer.json()), (200, json!({ "actor": "owner" })));
    let cookie = answer.headers["set-cookie"].split(';').next().unwrap().to_owned();
    assert!(answer.headers["set-cookie"].contains("HttpOnly; SameSite=Strict"));
    let page = [("cookie", cookie.as_str()), ("x-unforget-page", "1")];
    assert_eq!(scene.send_bare("GET", "/v1/sessions", None, &page).status, 200);
    assert_eq!(scene.send_bare("GET", "/v1/sessions", None, &page[..1]).status, 401, "a cookie alone is nothing");
    let again = login();
    assert_eq!(again.status, 401);
    assert!(again.text().contains("serve --link") && !again.headers.contains_key("set-cookie"));
}

#[test]
fn s4_the_socket_serves_the_owner_without_a_token() {
    let scene = Scene::new();
    let place = scene.home().join("server/owner.sock");
    let about = std::fs::metadata(&place).unwrap();
    assert!(about.file_type().is_socket());
    assert_eq!(about.permissions().mode() & 0o777, 0o600);
    let get = |path: &str, head: &str| by_socket(&scene, &format!("GET {path} HTTP/1.0\r\n{head}\r\n"));
    let (status, body) = get("/v1/me", "Host: localhost\r\n");
    assert_eq!((status, &serde_json::from_str::<Value>(&body).unwrap()["actor"]), (200, &json!("owner")));
    // The door is the same one.
    assert_eq!(get("/v1/me", "Host: evil.example\r\n").0, 403);
    assert_eq!(get("/v1/me", "Host: localhost\r\nOrigin: https://evil.example\r\n").0, 403);
    let body = r#"{"prompt":"hello"}"#;
    let asked = format!(
        "POST /invocations HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let (status, said) = by_socket(&scene, &asked);
    assert!(status == 200 && said.contains("you said: hello"), "{said}");
}

#[test]
fn s4_the_socket_goes_with_the_server_and_one_that_was_left_is_replaced() {
    let mut scene = Scene::new();
    let place = scene.home().join("server/owner.sock");
    scene.stop();
    assert!(!place.exists());
    drop(std::os::unix::net::UnixListener::bind(&place).unwrap());
    assert!(place.exists(), "as after kill -9");
    scene.start();
    assert_eq!(by_socket(&scene, "GET /ping HTTP/1.0\r\nHost: localhost\r\n\r\n").0, 200);
}

#[test]
fn s8_the_runtimes_headers_let_no_other_host_in() {
    let scene = Scene::with(Setting { trust_runtime_headers: true, ..Setting::default() });
    let port = scene.address.port();
    let user = (USER, "ada");
    for host in [format!("evil.example:{port}"), "evil.example".to_owned(), format!("169.254.169.254:{port}")] {
        for path in ["/v1/sessions", "/ping", "/"] {
            assert_eq!(scene.send("GET", path, None, &[user, ("host", &host)]).status, 403, "{host} {path}");
        }
        assert_eq!(scene.dial("/ws", &[user, ("host", &host)]).err(), Some(403), "{host}");
        let asked = scene.send("POST", "/invocations", Some(r#"{"prompt":"hi"}"#), &[user, ("host", &host)]);
        assert_eq!(asked.status, 403, "{host}");
    }
    for origin in ["https://evil.example", "null"] {
        assert_eq!(scene.send("GET", "/v1/sessions", None, &[user, ("origin", origin)]).status, 403, "{origin}");
        assert_eq!(scene.dial("/ws", &[user, ("origin", origin)]).err(), Some(403), "{origin}");
    }
    assert_eq!(scene.send("GET", "/v1/sessions", None, &[user]).status, 200);
    assert_eq!(scene.send("GET", "/v1/sessions", None, &[user, ("host", &format!("localhost:{port}"))]).status, 200);
}
