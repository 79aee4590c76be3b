//! A restored session is the same session: the real CLI sends the same bytes.
//!
//! The request of a session that goes on where it always was is compared with the request after it was kept, carried through a remote and restored
//! into another directory of Claude Code, in another home: system prompt, tools and messages, as they were sent. A byte of difference would
//! mean that something was lost or put in another order, and that the server's cache, which is looked up by these bytes, has to be paid for anew.
//!
//! The same holds for the end of a session that was compacted ([`tail`]): what resuming does not need is not in the request.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use unforget_testkit::claude::{Claude, Machine, OLDER, requests};

use super::{Host, World, copy, session};
use crate::elsewhere::Place;

const LAST: &str = "the last prompt";

/// What must be equal, by name, as it was sent.
type Sent = BTreeMap<&'static str, String>;

/// Goes on with a session and tells what was sent.
fn sent(world: &World, machine: &Machine, id: &str) -> Sent {
    let before = requests::main(&world.api, id).len();
    let answer = machine.resume(id, LAST);
    assert!(!answer.is_error, "{}", answer.raw);
    let all = requests::main(&world.api, id);
    assert_eq!(all.len(), before + 1, "one prompt, one request");
    let mut body: BTreeMap<String, Box<RawValue>> = serde_json::from_slice(&all[before].body).unwrap();
    let part = |name| (name, body.remove(name).unwrap().get().to_owned());
    let mut sent: Sent = ["system", "tools", "messages"].map(part).into();
    // Where its own directory is, the older version says in its system prompt: a machine with another one has another.
    let config = machine.config.to_str().unwrap();
    sent.entry("system").and_modify(|system| *system = system.replace(config, "CONFIG"));
    sent
}

/// Says where two requests differ, if they do: they are too long to be printed.
#[track_caller]
fn assert_same(what: &str, home: &Sent, away: &Sent) {
    for (name, one) in home {
        let other = &away[name];
        if one != other {
            let at = one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count();
            let near = |text: &str| {
                String::from_utf8_lossy(&text.as_bytes()[at.saturating_sub(200)..(at + 200).min(text.len())])
                    .into_owned()
            };
            panic!("{what}: `{name}` differs at byte {at} of {}:\n{}\n{}", one.len(), near(one), near(other));
        }
    }
}

/// A session with everything in it that a request can be made of.
pub(super) fn rich(host: &Host) -> String {
    let id = session(host, "remember BANANA [[bash:echo out-$((40+2))]]");
    for prompt in [
        // Long enough for the end to be fetched by itself.
        "a long one [[long:60000]]",
        "and another [[long:60000]]",
        "[[think]] and act [[bash:echo thought]]",
        "/compact",
        "[[think]] after it [[bash:echo after]]",
    ] {
        let answer = host.machine.resume(&id, prompt);
        assert!(!answer.is_error, "{prompt}: {}", answer.raw);
    }
    id
}

/// A machine with nothing on it but the same folder to work in.
fn elsewhere(world: &World, name: &str, place: &Place, home: &Host) -> Host {
    let host = world.host_at(name, place);
    Host { machine: host.machine.with_cwd(&home.machine.cwd), ..host }
}

#[test]
fn a_restored_session_sends_the_same_bytes() {
    let Some(world) = World::new() else { return };
    let home = world.host("home");
    let id = rich(&home);
    copy(&home.machine.config, &world.path("stayed"));
    let stayed = sent(&world, &home.machine.with_config(&world.path("stayed")), &id);
    for part in ["SUMMARY", "\"type\":\"thinking\"", "\"type\":\"tool_result\""] {
        assert!(stayed["messages"].contains(part), "{part}: {}", stayed["messages"]);
    }
    home.ok(&["claude", "save"]);

    let places = [
        ("directory", Place::directory()),
        ("postgres", Place::database("claude_same_request")),
        ("agentcore", Place::memory()),
    ];
    for (name, place) in &places {
        let remote = ["--remote", place.url.as_str()];
        let sender =
            Host { machine: home.machine.clone(), store: home.store.clone(), variables: place.variables.clone() };
        sender.ok(&["claude", "save", remote[0], remote[1]]);

        let away = elsewhere(&world, name, place, &home);
        away.ok(&["claude", "restore", &id, remote[0], remote[1]]);
        assert!(away.transcript(&id) == home.transcript(&id), "{name}: the transcript is the same, byte for byte");
        assert_same(name, &stayed, &sent(&world, &away.machine, &id));

        let end = elsewhere(&world, &format!("{name}-end"), place, &home);
        let said = end.ok(&["--json", "claude", "restore", "--tail", &id, remote[0], remote[1]]).out;
        assert!(said.contains("\"tail\":true"), "{said}");
        assert!(end.transcript(&id).len() < home.transcript(&id).len(), "{said}");
        assert_eq!(end.kept(&id), "", "an end is not kept as if it were all");
        assert_same(&format!("the end, {name}"), &stayed, &sent(&world, &end.machine, &id));
    }

    // From the store of this machine, into another directory of the program.
    let config = world.path("other-config");
    let said = home.ok(&["--json", "claude", "restore", "--tail", &id, "--config-dir", config.to_str().unwrap()]).out;
    assert!(said.contains("\"tail\":true"), "{said}");
    assert_same("the end, from here", &stayed, &sent(&world, &home.machine.with_config(&config), &id));
}

/// Older versions make a part of their request anew each time; what they make of a transcript has to be equal all the same.
#[test]
fn a_session_of_the_older_version_sends_the_same_messages() {
    let Some(claude) = Claude::find(OLDER) else { return };
    let world = World::of(claude);
    let (place, home) = (Place::directory(), world.host("home"));
    let id = rich(&home);
    copy(&home.machine.config, &world.path("stayed"));
    let stayed = sent(&world, &home.machine.with_config(&world.path("stayed")), &id);
    home.ok(&["claude", "save", "--remote", &place.url]);
    let away = elsewhere(&world, "away", &place, &home);
    away.ok(&["claude", "restore", &id, "--remote", &place.url]);
    assert_same("2.1.197", &stayed, &sent(&world, &away.machine, &id));
    let config = world.path("other-config");
    home.ok(&["claude", "restore", "--tail", &id, "--config-dir", config.to_str().unwrap()]);
    assert_same("2.1.197, the end", &stayed, &sent(&world, &home.machine.with_config(&config), &id));
}
