//! The chat where it could mislead a person or a script: found by reading, proved here.

use std::time::{Duration, Instant};

use unforget_testkit::api::{FakeApi, Options, Reply};

use crate::support::{Home, Said};

/// The chat against a server, with these lines on stdin.
fn chat(home: &Home, api: &FakeApi, args: &[&str], input: &str) -> Said {
    let file = home.write("stdin", input);
    let mut command = home.command();
    command.env("ANTHROPIC_API_KEY", "sk-test-key").env("ANTHROPIC_BASE_URL", api.url());
    let output = command.args(args).stdin(std::fs::File::open(file).unwrap()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Said { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
}

#[test]
fn an_event_is_one_line_however_a_model_spells_its_arguments() {
    let (home, api) = (Home::new(), FakeApi::start(Options::default()).unwrap());
    let events = [
        r#"{"type":"message_start","message":{"id":"m","model":"x","usage":{"input_tokens":1}}}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_1","name":"list_directory","input":{}}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\n  \"path\": \".\"\n}"}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":1}}"#,
        r#"{"type":"message_stop"}"#,
    ];
    let body: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    let headers = vec![("content-type".to_owned(), "text/event-stream".to_owned())];
    api.push(Reply::Raw { status: 200, headers, body: body.into_bytes() });
    let said = chat(&home, &api, &["chat", "--json", "-p", "list"], "");
    assert_eq!(said.code, 0, "{said:?}");
    let wrong = said.out.lines().find(|line| serde_json::from_str::<serde_json::Value>(line).is_err());
    assert_eq!(wrong, None, "{}", said.out);
    assert!(said.out.contains("\"event\":\"tool_call\""), "{}", said.out);
}

#[test]
fn the_settings_with_the_key_are_out_of_reach_of_the_model() {
    let (home, api) = (Home::new(), FakeApi::start(Options::default()).unwrap());
    home.write("settings.toml", "api_key = \"sk-very-secret-key\"\n");
    let mut command = home.command();
    command.env("UNFORGET_CONFIG", "settings.toml").env("ANTHROPIC_BASE_URL", api.url());
    command.args(["chat", "--allow", "write_file", "-p", "[[read:settings.toml]][[write:settings.toml|allow = []]]"]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let asked = String::from_utf8_lossy(&api.messages().last().unwrap().body).into_owned();
    assert!(asked.contains("which tools never see") && !asked.contains("sk-very-secret-key"), "{asked}");
    assert!(std::fs::read_to_string(home.path("settings.toml")).unwrap().contains("sk-very-secret-key"));
}

#[test]
fn another_model_brings_its_own_window() {
    let (home, api) = (Home::new(), FakeApi::start(Options::default()).unwrap());
    let said = chat(&home, &api, &["chat", "--model", "big[1m]"], "/model\n/model small\n/model big[1m]\n");
    let windows: Vec<&str> = said.out.lines().filter(|line| line.contains("(window ")).collect();
    let expected = [
        "  Model: big (window 1,000,000 tokens)",
        "  Model: small (window 200,000 tokens)",
        "  Model: big (window 1,000,000 tokens)",
    ];
    assert_eq!(windows, expected, "{said:?}");
    let said = chat(&home, &api, &["chat", "--window", "50000"], "/model big[1m]\n");
    assert!(said.out.contains("(window 50,000 tokens)"), "{said:?}");
}

#[test]
fn a_retry_keeps_what_was_pinned_since() {
    let (home, api) = (Home::new(), FakeApi::start(Options::default()).unwrap());
    let said = chat(&home, &api, &["chat"], "never touch prod\n/pin\n/retry\n/pin list\n");
    assert!(!said.out.contains("Nothing is pinned."), "{}", said.out);
    assert_eq!(api.messages().len(), 2);
}

/// Long enough to tell a time that grows with the square of the lines from one that does not.
#[test]
fn a_long_fence_from_a_pipe_is_read_at_once() {
    let home = Home::new();
    let lines = format!("```\n{}```\n", "line\n".repeat(150_000));
    let begun = Instant::now();
    let said = home.feed(&["chat", "--window", "1000000"], &lines);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(begun.elapsed() < Duration::from_secs(120), "{:?}", begun.elapsed());
}
