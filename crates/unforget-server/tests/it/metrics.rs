//! The numbers for those who run the server: what they count, whom they name (nobody), and who sees them.

use std::collections::BTreeMap;

use serde_json::json;

use crate::scene::{Scene, Setting};

/// The numbers, by their names and labels.
fn numbers(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| line.rsplit_once(' ').unwrap())
        .map(|(name, value)| (name.to_owned(), value.parse().unwrap()))
        .collect()
}

#[test]
fn what_happens_is_counted_and_nobody_is_named() {
    let scene = Scene::with(Setting { operators: &["ada"], ..Setting::of(&["ada", "bob"]) });
    let mut client = scene.connect_as("bob");
    client.say(&json!({ "type": "prompt", "prompt": "marzipan", "client_id": "the-name-of-a-prompt" }));
    let id = client.until("done")[0]["session_id"].as_str().unwrap().to_owned();
    client.say(&json!({ "type": "prompt", "prompt": "fail marzipan" }));
    client.until("failed");
    assert_eq!(scene.ask_as("bob", "GET", &format!("/v1/sessions/{}", uuid::Uuid::now_v7()), None).status, 404);
    assert_eq!(scene.send("GET", "/v1/sessions", None, &[]).status, 401);
    assert_eq!(scene.ask_as("bob", "BREW", "/v1/sessions", None).status, 405);
    let answer = scene.ask_as("ada", "GET", "/metrics", None);
    assert_eq!(answer.status, 200);
    assert!(answer.headers["content-type"].starts_with("application/openmetrics-text"), "{:?}", answer.headers);
    let text = answer.text();
    let counted = numbers(&text);
    for (name, value) in [
        (r#"unforget_turns_total{outcome="ended"}"#, 1.0),
        (r#"unforget_turns_total{outcome="model"}"#, 1.0),
        ("unforget_turn_seconds_count", 2.0),
        ("unforget_sockets", 1.0),
        ("unforget_live_sessions", 1.0),
        (r#"unforget_http_requests_total{method="GET",route="/v1/sessions/{id}",status="404"}"#, 1.0),
        (r#"unforget_http_requests_total{method="GET",route="/v1/sessions",status="401"}"#, 1.0),
        (r#"unforget_http_requests_total{method="other",route="/v1/sessions",status="405"}"#, 1.0),
        ("unforget_session_failures_total", 0.0),
        ("unforget_slow_readers_total", 0.0),
        ("unforget_recovered_prompts_total", 0.0),
    ] {
        assert_eq!(counted.get(name), Some(&value), "{name}: {text}");
    }
    // The socket, and the connection that asks.
    assert!(counted["unforget_connections"] >= 2.0, "{text}");
    for secret in ["marzipan", "the-name-of-a-prompt", id.as_str(), "ada", "bob", scene.token("bob")] {
        assert!(!text.contains(secret), "{secret} is in {text}");
    }
    drop(client);
    let shared = scene.app().hub.shared().clone();
    scene.wait("it is let go", || shared.metrics.sessions.get() == 0 && shared.metrics.sockets.get() == 0);
    let counted = numbers(&scene.ask_as("ada", "GET", "/metrics", None).text());
    assert_eq!((counted["unforget_sockets"], counted["unforget_live_sessions"]), (0.0, 0.0));
}

#[test]
fn the_numbers_are_for_operators() {
    let scene = Scene::with(Setting { operators: &["ada"], ..Setting::of(&["ada", "bob"]) });
    assert_eq!(scene.ask_as("ada", "GET", "/metrics", None).status, 200);
    let refused = scene.ask_as("bob", "GET", "/metrics", None);
    assert_eq!((refused.status, refused.json()["error"]["code"].clone()), (403, json!("forbidden")));
    assert_eq!(scene.send("GET", "/metrics", None, &[]).status, 401);
    // Where nobody is told apart, whoever is there is the owner.
    assert_eq!(Scene::new().ask("GET", "/metrics", None).0, 200);
}
