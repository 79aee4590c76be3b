//! Claude Code behind a socket: the real program, offline, as a client sees it. Where it is not installed, each of these says that it was skipped.

use std::sync::Arc;

use serde_json::{Value, json};
use unforget_remote::Remote;
use unforget_remote::memory::Memory;
use unforget_server::agent::ClaudeCode;
use unforget_testkit::api::{FakeApi, Options};
use unforget_testkit::claude::Claude;

use crate::scene::{Client, Scene, Setting, spoken};

/// The program, and the API that it talks to.
fn agent() -> Option<(FakeApi, ClaudeCode)> {
    let program = Claude::latest()?.program().canonicalize().unwrap();
    let api = FakeApi::start(Options::default()).unwrap();
    let mut environment = vec![
        ("ANTHROPIC_BASE_URL".to_owned(), api.url().into()),
        ("ANTHROPIC_API_KEY".to_owned(), "sk-ant-offline-dummy".into()),
    ];
    let quiet = ["DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"];
    environment.extend(quiet.map(|name| (name.to_owned(), "1".into())));
    let path = std::env::var_os("PATH").unwrap();
    Some((api, ClaudeCode { program, arguments: Vec::new(), folder: None, path, environment }))
}

fn prompt(client: &mut Client<'_>, id: Option<&str>, name: &str, words: &str) -> Vec<Value> {
    let agent = id.is_none().then_some("claude");
    client.say(&json!({ "type": "prompt", "session_id": id, "agent": agent, "client_id": name, "prompt": words }));
    let mut heard = Vec::new();
    loop {
        heard.extend(client.until("done"));
        if heard.last().unwrap()["client_id"] == name {
            return heard;
        }
    }
}

#[test]
fn claude_answers_over_a_socket_drops_and_restarts_included() {
    let Some((_api, claude)) = agent() else { return };
    let mut scene = Scene::with(Setting { claude: Some(claude), ..Setting::default() });
    let mut client = scene.connect();
    client.say(&json!({ "type": "hello" }));
    let hello = client.until("hello").pop().unwrap();
    assert!(
        hello["agents"].as_array().unwrap().contains(&json!({ "name": "claude", "kind": "claude-code" })),
        "{hello}"
    );
    let heard = prompt(&mut client, None, "c1", "my name is Ada");
    let done = heard.last().unwrap();
    assert_eq!(heard[0]["agent_kind"], "claude-code");
    assert_eq!((&done["state"], &done["durability"]), (&json!("done"), &json!("disk")));
    // What was streamed is what was said.
    assert_eq!(spoken(&heard), done["text"].as_str().unwrap());
    let id = heard[0]["session_id"].as_str().unwrap().to_owned();
    // The same prompt again is the same prompt.
    let heard = prompt(&mut client, Some(&id), "c1", "my name is Ada");
    assert!(heard.iter().any(|told| told["type"] == "accepted" && told["duplicate"] == true), "{heard:#?}");
    drop(client);
    scene.stop();
    scene.start();
    let mut client = scene.connect();
    let heard = client.attach(&id, None);
    assert!(
        heard.iter().any(|told| told["type"] == "record" && told.to_string().contains("my name is Ada")),
        "{heard:#?}"
    );
    let heard = prompt(&mut client, Some(&id), "c2", "[[recall]]");
    assert!(heard.last().unwrap()["text"].as_str().unwrap().contains("my name is Ada"), "{heard:#?}");
}

#[test]
fn claude_goes_on_at_another_server_that_has_nothing_but_the_remote() {
    let Some((_api, claude)) = agent() else { return };
    let remote: Arc<dyn Remote> = Arc::new(Memory::default().remote());
    let setting = Setting { claude: Some(claude), remote: Some(remote), ..Setting::default() };
    let mut one = Scene::with(setting.clone());
    let mut client = one.connect();
    let heard = prompt(&mut client, None, "c1", "my name is Ada");
    assert_eq!(heard.last().unwrap()["durability"], "remote", "{heard:#?}");
    let id = heard[0]["session_id"].as_str().unwrap().to_owned();
    drop(client);
    let shared = one.app().hub.shared().clone();
    one.wait("the session is let go", || shared.metrics.sessions.get() == 0);
    drop(shared);
    one.stop();
    let other = Scene::with(setting);
    let mut client = other.connect();
    client.attach(&id, None);
    let heard = prompt(&mut client, Some(&id), "c2", "[[recall]]");
    let done = heard.last().unwrap();
    assert!(done["text"].as_str().unwrap().contains("my name is Ada"), "{heard:#?}");
    assert_eq!(done["durability"], "remote");
}
