//! The page, and those who come in by it: what a browser would send, from the page and from pages that mean no good.

use serde_json::json;
use unforget_server::Limits;

use crate::log;
use crate::scene::{Answer, Scene, Setting};

/// A page from elsewhere that may use the server.
const ALLOWED: &str = "https://app.example";
const PAGE: (&str, &str) = ("x-unforget-page", "1");

fn scene() -> Scene {
    Scene::with(Setting { origins: &[ALLOWED], ..Setting::of(&["ada", "bob"]) })
}

/// Where the server's own page is from.
fn own(scene: &Scene) -> String {
    format!("http://{}", scene.address)
}

fn login(scene: &Scene, token: &str, headers: &[(&str, &str)]) -> Answer {
    scene.send("POST", "/v1/login", Some(&json!({ "token": token }).to_string()), headers)
}

/// Comes in, and what the browser keeps.
fn cookie(scene: &Scene, actor: &str) -> String {
    let answer = login(scene, scene.token(actor), &[("origin", &own(scene))]);
    assert_eq!((answer.status, answer.json()), (200, json!({ "actor": actor })));
    answer.headers["set-cookie"].split(';').next().unwrap().to_owned()
}

#[test]
fn the_page_is_for_everybody_who_comes_through_the_door() {
    let scene = scene();
    let address = scene.address;
    let answer = scene.send("GET", "/", None, &[]);
    assert_eq!(answer.status, 200);
    assert!(answer.text().starts_with("<!doctype html>"));
    let told = |name: &str| answer.headers[name].as_str();
    assert!(told("content-security-policy").ends_with(&format!("connect-src 'self' ws://{address} wss://{address}")));
    assert_eq!(
        ["x-content-type-options", "referrer-policy", "cross-origin-resource-policy", "cache-control", "vary"]
            .map(told),
        ["nosniff", "no-referrer", "same-origin", "no-cache", "accept-encoding, origin"]
    );
    assert!(!answer.headers.contains_key("set-cookie"));
    let again = scene.send("GET", "/", None, &[("if-none-match", told("etag"))]);
    assert_eq!((again.status, again.bytes.len()), (304, 0));
    let head = scene.send("HEAD", "/", None, &[]);
    assert_eq!((head.status, &head.headers["content-length"]), (200, &answer.bytes.len().to_string()));
    let posted = scene.send("POST", "/", Some("{}"), &[("origin", &own(&scene))]);
    assert_eq!((posted.status, &posted.json()["error"]["code"]), (405, &json!("method_not_allowed")));
    for headers in [("host", "evil.example"), ("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")] {
        assert_eq!(scene.send("GET", "/", None, &[headers]).status, 403, "{headers:?}");
    }
    // A wrong token is nothing to a page that is for everybody.
    assert_eq!(scene.send("GET", "/", None, &[("authorization", "Bearer wrong")]).status, 200);
}

#[test]
fn the_page_is_shown_in_a_runtime_and_can_be_left_out() {
    let scene = Scene::with(Setting { trust_runtime_headers: true, any_host: true, ..Setting::default() });
    assert_eq!(scene.send("GET", "/", None, &[("host", "whatever.example")]).status, 200);
    let scene = Scene::with(Setting { page: false, ..Setting::default() });
    assert_eq!(scene.ask("GET", "/", None).0, 404);
}

#[test]
fn z01_a_token_is_kept_in_a_cookie_and_forgotten() {
    log::keep();
    let scene = scene();
    let origin = own(&scene);
    let body = json!({ "token": scene.token("ada"), "stay": true }).to_string();
    let answer = scene.send("POST", "/v1/login", Some(&body), &[("origin", &origin)]);
    let rest = "HttpOnly; SameSite=Strict; Path=/";
    let (kept, gone) = (scene.token("ada"), format!("__Host-unforget_token=; {rest}; Secure; Max-Age=0"));
    assert_eq!(answer.headers["set-cookie"], format!("unforget_token={kept}; {rest}; Max-Age=2592000, {gone}"));
    let cookie = cookie(&scene, "ada");
    let ask = |headers: &[(&str, &str)]| scene.send("GET", "/v1/me", None, headers);
    let me = ask(&[("cookie", &cookie), PAGE]).json();
    assert_eq!((&me["actor"], &me["needs_token"], &me["default"]), (&json!("ada"), &json!(true), &json!("main")));
    assert_eq!(ask(&[]).status, 401);
    assert_eq!(ask(&[PAGE]).status, 401);
    // Who says otherwise who they are is who they say.
    let bearer = format!("Bearer {}", scene.token("bob"));
    assert_eq!(ask(&[("cookie", &cookie), PAGE, ("authorization", &bearer)]).json()["actor"], "bob");
    assert_eq!(ask(&[("cookie", &cookie), PAGE, ("authorization", "Bearer x")]).status, 401);
    let twice = format!("{cookie}; {cookie}");
    assert_eq!(ask(&[("cookie", &twice), PAGE]).status, 401);
    let answer = scene.send("POST", "/v1/logout", None, &[("origin", &origin), ("cookie", &cookie)]);
    assert_eq!((answer.status, answer.bytes.len()), (204, 0));
    assert_eq!(answer.headers["set-cookie"], format!("unforget_token=; {rest}; Max-Age=0, {gone}"));
    assert!(!log::text().contains(kept) && !format!("{:?}", scene.app()).contains(kept));
}

#[test]
fn z01_over_tls_the_cookie_is_one_that_no_other_host_can_set() {
    let setting = Setting { hosts: &["app.example"], origins: &[ALLOWED], ..Setting::of(&["ada"]) };
    let scene = Scene::with(setting);
    let here = [("host", "app.example"), ("origin", ALLOWED)];
    let kept = login(&scene, scene.token("ada"), &here).headers["set-cookie"].clone();
    let (token, rest) = (scene.token("ada"), "HttpOnly; SameSite=Strict; Path=/");
    let gone = format!("unforget_token=; {rest}; Max-Age=0");
    assert_eq!(kept, format!("__Host-unforget_token={token}; {rest}; Secure, {gone}"));
    let cookie = format!("unforget_token=left-over; __Host-unforget_token={token}");
    let headers = [here[0], here[1], ("cookie", cookie.as_str())];
    let mut client = scene.dial("/ws", &headers).unwrap();
    client.say(&json!({ "type": "hello" }));
    assert_eq!(client.hear().unwrap()["actor"], "ada");
}

#[test]
fn z04_only_the_own_page_comes_in_with_a_login() {
    let scene = scene();
    let token = scene.token("ada").to_owned();
    let port = scene.address.port();
    let other_name = format!("http://localhost:{port}");
    for headers in [
        vec![],
        vec![("origin", "https://evil.example")],
        vec![("origin", "null")],
        vec![("origin", ALLOWED)],
        vec![("origin", ALLOWED), PAGE],
        vec![("origin", other_name.as_str())],
        vec![("sec-fetch-site", "cross-site")],
    ] {
        for path in ["/v1/login", "/v1/logout"] {
            let body = json!({ "token": token }).to_string();
            let answer = scene.send("POST", path, Some(&body), &headers);
            assert_eq!(answer.status, 403, "{path} {headers:?}");
            assert!(!answer.headers.contains_key("set-cookie"), "{path} {headers:?}");
        }
    }
    // A form can be sent from anywhere, but not as JSON.
    let form = [("origin", own(&scene)), ("content-type", "application/x-www-form-urlencoded".to_owned())];
    let form: Vec<(&str, &str)> = form.iter().map(|(name, value)| (*name, value.as_str())).collect();
    assert_eq!(scene.send("POST", "/v1/login", None, &form).status, 415);
    assert_eq!(login(&scene, "wrong", &[("origin", &own(&scene))]).status, 401);
}

#[test]
fn z04_a_cookie_alone_authorises_nothing() {
    let scene = scene();
    let origin = own(&scene);
    let cookie = cookie(&scene, "ada");
    let ours = ("cookie", cookie.as_str());
    let create = |headers: &[(&str, &str)]| scene.send("POST", "/v1/sessions", Some("{}"), headers).status;
    assert_eq!(create(&[ours, PAGE, ("origin", &origin)]), 201);
    // No header, as a form or a picture sends it; from the page itself, too.
    assert_eq!(create(&[ours]), 401);
    assert_eq!(create(&[ours, ("origin", &origin)]), 401);
    assert_eq!(create(&[ours, ("x-unforget-page", "yes"), ("origin", &origin)]), 401);
    assert_eq!(create(&[ours, ("content-type", "text/plain")]), 401);
    // From elsewhere; whether that is allowed or not.
    assert_eq!(create(&[ours, PAGE, ("origin", "https://evil.example")]), 403);
    assert_eq!(create(&[ours, PAGE, ("origin", "null")]), 403);
    assert_eq!(create(&[ours, PAGE, ("sec-fetch-site", "cross-site")]), 403);
    assert_eq!(create(&[ours, ("origin", ALLOWED)]), 401);
    assert_eq!(create(&[ours, PAGE, ("origin", ALLOWED)]), 401);
    let listed = scene.send("GET", "/v1/sessions", None, &[ours, PAGE]).json();
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 1, "{listed}");
    // What is not the page's business takes no cookie at all.
    let all = [ours, PAGE, ("origin", origin.as_str())];
    assert_eq!(scene.send("POST", "/invocations", Some(r#"{"prompt":"hi"}"#), &all).status, 401);
    assert_eq!(scene.send("GET", "/metrics", None, &all).status, 401);
    let pinged = |headers: &[(&str, &str)]| scene.send("GET", "/ping", None, headers).status;
    assert_eq!((pinged(&all), pinged(&[("cookie", "unforget_token=wrong")])), (200, 200));
}

#[test]
fn z04_no_page_from_elsewhere_may_send_the_header_of_the_page() {
    let scene = scene();
    let asks = [
        ("origin", ALLOWED),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "content-type, x-unforget-page"),
    ];
    for path in ["/v1/sessions", "/v1/login", "/"] {
        let answer = scene.send("OPTIONS", path, None, &asks);
        assert_eq!((answer.status, answer.headers["access-control-allow-origin"].as_str()), (204, ALLOWED));
        assert_eq!(answer.headers["access-control-allow-headers"], "authorization, content-type", "{path}");
        assert!(!answer.headers.contains_key("access-control-allow-credentials"), "{path}");
    }
}

#[test]
fn z04_a_socket_takes_the_cookie_of_the_own_page_only() {
    let scene = scene();
    let origin = own(&scene);
    let cookie = cookie(&scene, "ada");
    let ours = ("cookie", cookie.as_str());
    let mut client = scene.dial("/ws", &[ours, ("origin", &origin)]).unwrap();
    client.say(&json!({ "type": "prompt", "prompt": "hello" }));
    let id = client.until("done")[0]["session_id"].as_str().unwrap().to_owned();
    assert_eq!(scene.transcript_of("ada", &id).last().unwrap()["type"], "turn");
    let other_name = format!("http://localhost:{}", scene.address.port());
    for headers in
        [vec![ours], vec![ours, PAGE], vec![ours, PAGE, ("origin", ALLOWED)], vec![ours, ("origin", &other_name)]]
    {
        let mut client = scene.dial("/ws", &headers).unwrap();
        client.say(&json!({ "type": "hello" }));
        assert_eq!(client.hear().unwrap()["error"]["code"], "unauthenticated", "{headers:?}");
    }
    assert_eq!(scene.dial("/ws", &[ours, ("origin", "https://evil.example")]).err(), Some(403));
    assert_eq!(scene.dial("/ws", &[("cookie", "unforget_token=wrong"), ("origin", &origin)]).err(), Some(401));
    let bearer = format!("Bearer {}", scene.token("bob"));
    let mut client = scene.dial("/ws", &[ours, ("origin", &origin), ("authorization", &bearer)]).unwrap();
    client.say(&json!({ "type": "hello" }));
    assert_eq!(client.hear().unwrap()["actor"], "bob");
}

#[test]
fn z07_a_token_that_was_taken_back_is_worth_nothing_in_a_cookie_either() {
    let scene = scene();
    let origin = own(&scene);
    let cookie = cookie(&scene, "ada");
    let ours = ("cookie", cookie.as_str());
    let mut client = scene.dial("/ws", &[ours, ("origin", &origin)]).unwrap();
    client.say(&json!({ "type": "ping" }));
    client.until("pong");
    let status = || scene.send("GET", "/v1/me", None, &[ours, PAGE]).status;
    assert_eq!(status(), 200);
    scene.revoke("ada");
    scene.wait("it is refused", || status() == 401);
    assert_eq!(client.closed(), Some(1008));
    assert_eq!(login(&scene, scene.token("ada"), &[("origin", &origin)]).status, 401);
    // Whoever cannot come in any more can still leave.
    assert_eq!(scene.send("POST", "/v1/logout", None, &[ours, ("origin", &origin)]).status, 204);
}

#[test]
fn z07_wrong_tokens_are_counted_wherever_they_are_tried() {
    let limits = Limits { wrong_tokens: 4, ..Setting::default().limits };
    let scene = Scene::with(Setting { limits, ..Setting::of(&["ada"]) });
    let origin = own(&scene);
    let page = [("origin", origin.as_str())];
    let tried = |token: &str| login(&scene, token, &page).status;
    assert_eq!([tried("a"), tried("uft_b"), tried("")], [401, 401, 401]);
    let cookie = |value: &str| scene.send("GET", "/v1/me", None, &[("cookie", value), PAGE]).status;
    assert_eq!(cookie("unforget_token=c"), 401);
    assert_eq!([cookie("unforget_token=a; unforget_token=b"), tried("d")], [429, 429]);
    assert_eq!(tried(scene.token("ada")), 200, "a right one is still taken");
}
