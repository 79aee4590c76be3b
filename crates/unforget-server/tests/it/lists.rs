//! What lists show of names that hold secrets.

use serde_json::json;

use crate::scene::Scene;

#[test]
fn z09_a_secret_in_a_title_or_label_is_in_no_list() {
    let scene = Scene::new();
    let key = format!("sk-ant-api03-{}", "Ab1".repeat(31));
    let token = format!("ghp_{}", "a1B2".repeat(9));
    let (status, made) =
        scene.ask("POST", "/v1/sessions", Some(&json!({ "label": format!("with {token}") }).to_string()));
    assert_eq!(status, 201, "{made}");
    let id = made["id"].as_str().unwrap();
    let title = json!({ "title": format!("use {key} for it") }).to_string();
    let (status, changed) = scene.ask("PATCH", &format!("/v1/sessions/{id}"), Some(&title));
    assert_eq!(status, 200, "{changed}");
    let mut client = scene.connect();
    client.attach(id, None);
    client.say(&json!({ "type": "prompt", "prompt": "marzipan" }));
    client.until("done");
    let places = ["/v1/sessions", &format!("/v1/sessions/{id}"), "/v1/usage?by=session", "/v1/search?q=marzipan"]
        .map(str::to_owned);
    for place in places {
        let (status, shown) = scene.ask("GET", &place, None);
        let shown = shown.to_string();
        assert_eq!(status, 200, "{place}: {shown}");
        assert!(shown.contains(id), "{place}: {shown}");
        assert!(!shown.contains(&key) && !shown.contains(&token), "{place}: {shown}");
    }
    assert!(!made.to_string().contains(&token) && !changed.to_string().contains(&key));
    let (_, shown) = scene.ask("GET", &format!("/v1/sessions/{id}"), None);
    assert!(
        shown["title"].as_str().unwrap().starts_with("use ") && shown["label"].as_str().unwrap().starts_with("with ")
    );
    // The transcript is as it was written.
    assert!(scene.transcript(id).iter().any(|line| line.to_string().contains(&key)));
}
