//! The real program in a terminal, as a person uses it: what is on the screen is its own, and every session of it is kept.
//!
//! In a terminal the program begins a new session whenever its user says `/clear`, under an id that nobody was told of. It has to be kept and sent like
//! the one that the run began with. And whoever closes the terminal expects to find everything elsewhere.

use unforget_testkit::claude::Signal;

use super::{Host, World, assert_same_lines, until};
use crate::elsewhere::Place;
use crate::terminal::{ENTER, Terminal};

/// What of the environment the program needs.
const VARIABLES: [&str; 11] = [
    "PATH",
    "HOME",
    "CLAUDE_CONFIG_DIR",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_API_KEY",
    "DISABLE_TELEMETRY",
    "DISABLE_AUTOUPDATER",
    "DISABLE_ERROR_REPORTING",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    "UNFORGET_HOME",
    "TZ",
];

fn environment(host: &Host) -> Vec<(&'static str, String)> {
    let command = host.command(&[]);
    let value = |name: &str| command.get_envs().find(|(known, _)| *known == name)?.1?.to_str().map(str::to_owned);
    let mut all: Vec<_> = VARIABLES.iter().filter_map(|name| Some((*name, value(name)?))).collect();
    all.extend([("TERM", "xterm-256color".to_owned()), ("LANG", "C.UTF-8".to_owned())]);
    all
}

/// Answers what the program asks somebody who starts it for the first time.
fn welcome(host: &Host) {
    let key = environment(host).into_iter().find(|(name, _)| *name == "ANTHROPIC_API_KEY").unwrap().1;
    let end = &key[key.len().saturating_sub(20)..];
    let known = serde_json::json!({
        "hasCompletedOnboarding": true,
        "theme": "dark",
        "customApiKeyResponses": {"approved": [end], "rejected": []},
        "projects": {host.machine.cwd.to_str().unwrap(): {"hasTrustDialogAccepted": true}},
    });
    std::fs::write(host.machine.config.join(".claude.json"), known.to_string()).unwrap();
}

fn start(host: &Host, ours: &[&str]) -> Terminal {
    let mut args = vec!["claude", "run"];
    args.extend(ours);
    args.extend(["--", host.machine.claude.program().to_str().unwrap()]);
    let terminal = Terminal::start(&args, &environment(host), &host.machine.cwd);
    terminal.wait_for("❯");
    terminal
}

/// The session that the program has open; none before it says so.
fn open(host: &Host) -> Option<String> {
    let live = host.machine.live();
    let record: serde_json::Value = serde_json::from_str(&live.first()?.1).ok()?;
    record["sessionId"].as_str().map(str::to_owned)
}

/// Says something and waits until the answer is kept; returns the session.
fn say(terminal: &mut Terminal, host: &Host, words: &str) -> String {
    terminal.keys(words);
    terminal.wait_for(words);
    terminal.keys(ENTER);
    let answer = format!("messages): {words}");
    until("the answer is kept", || open(host).filter(|id| host.kept(id).contains(&answer)))
}

#[test]
fn what_is_said_in_a_terminal_is_kept_whatever_the_session_is_called() {
    let Some(world) = World::new() else { return };
    let place = Place::directory();
    let (one, two) = (world.host_at("one", &place), world.host_at("two", &place));
    welcome(&one);
    let mut terminal = start(&one, &["--remote", &place.url]);
    let first = say(&mut terminal, &one, "remember BANANA");
    terminal.keys("/clear");
    terminal.wait_for("/clear");
    terminal.keys(ENTER);
    until("another session begins", || open(&one).filter(|id| *id != first));
    let second = say(&mut terminal, &one, "remember MANGO");
    assert_ne!(first, second);
    terminal.keys("/exit");
    terminal.wait_for("/exit");
    terminal.keys(ENTER);
    assert_eq!(terminal.ends(), 0, "{}", terminal.text());
    for id in [&first, &second] {
        assert!(terminal.text().replace('\n', "").contains(&format!("session {id} is kept")), "{}", terminal.text());
        assert_same_lines(one.kept(id).as_bytes(), &one.transcript(id), "all of it is kept");
        two.ok(&["pull", id, "--remote", &place.url]);
        assert_same_lines(two.kept(id).as_bytes(), &one.transcript(id), "all of it is on the remote");
    }

    // The terminal is closed.
    let mut terminal = start(&one, &["--remote", &place.url, "--resume", &first]);
    assert_eq!(say(&mut terminal, &one, "and the PEACH"), first);
    terminal.signal(Signal::HUP);
    assert_eq!(terminal.ends(), 129, "{}", terminal.text());
    assert_eq!(one.waiting(), 0);
    let recalled = two.ask(&["--remote", &place.url, "--resume", &first], "[[recall]]");
    assert!(recalled.result.contains("BANANA") && recalled.result.contains("PEACH"), "{}", recalled.result);
    assert!(!recalled.result.contains("MANGO"), "{}", recalled.result);
}
