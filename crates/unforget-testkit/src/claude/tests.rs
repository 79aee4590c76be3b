//! The kit with the real CLI; without one, each of these says that it was skipped.

use super::*;
use crate::api::{FakeApi, Options};
use crate::rules;

fn each(test: impl Fn(&FakeApi, &mut Machine)) {
    for claude in Claude::all() {
        let api = FakeApi::start(Options::default()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        test(&api, &mut Machine::new(&claude, folder.path(), &api.url()));
        let refused: Vec<String> = api.refusals().iter().map(|request| format!("{:?}", request.refusal)).collect();
        assert_eq!(refused, Vec::<String>::new(), "{}", claude.version());
    }
}

#[test]
fn a_session_goes_on_in_another_process() {
    each(|api, machine| {
        let first = machine.ask("remember BANANA [[bash:echo out-$((40+2))]]", &[]);
        assert_eq!((first.result.as_str(), first.is_error), ("TOOL-DONE: out-42", false));
        let second = machine.resume(&first.session_id, "[[recall]]");
        assert!(second.result.contains("BANANA"), "{}", second.result);
        assert_eq!(second.session_id, first.session_id);
        assert!(machine.transcript(&first.session_id).is_some());
        assert_eq!(requests::main(api, &first.session_id).len(), 3);
        let sent = requests::last_messages(api, &first.session_id).unwrap();
        assert!(sent.get().contains("[[recall]]"));
    });
}

#[test]
fn a_run_can_be_killed_in_a_tool_call() {
    each(|_, machine| {
        let gate = Gate::new();
        let run = machine.spawn(&format!("[[bash:{}]]", gate.command()), &[]);
        let _held = gate.wait();
        let live = machine.live();
        assert_eq!(live.len(), 1);
        assert_eq!(live[0].0, format!("{}.json", run.pid()));
        let finished = run.kill();
        assert_eq!((finished.answer(), finished.stdout.as_str()), (None, ""));
        // Only an orderly end takes it away.
        assert_eq!(machine.live().len(), 1);
    });
}

#[test]
fn an_agent_below_is_not_the_main_conversation() {
    each(|api, machine| {
        let answer = machine.ask("[[agent:look around [[bash:echo sub-7]]]]", &[]);
        assert!(answer.result.starts_with("TOOL-DONE"), "{}", answer.result);
        assert_eq!(requests::main(api, &answer.session_id).len(), 2);
        let all = api.messages();
        assert!(all.iter().filter(|request| requests::session(request) == Some(&answer.session_id)).count() > 3);
    });
}

#[test]
fn the_cli_compacts_when_the_server_says_that_much_was_used() {
    each(|api, machine| {
        machine.variables.push(("CLAUDE_CODE_AUTO_COMPACT_WINDOW".to_owned(), "100000".to_owned()));
        let first = machine.ask("keep PLUM [[bash:echo before]]", &[]);
        machine.resume(&first.session_id, "a long one, they say [[tokens:90000]]");
        let second = machine.resume(&first.session_id, "[[recall]]");
        assert!(!second.is_error, "{}", second.result);
        let bodies: Vec<String> =
            api.messages().iter().map(|request| String::from_utf8_lossy(&request.body).into_owned()).collect();
        assert!(bodies.iter().any(|body| body.contains("create a detailed summary of")));
    });
}

#[test]
fn what_is_not_installed_is_not_found() {
    assert_eq!(Claude::find("0.0.0"), None);
}

/// What every fixture of the CLI must be, whoever made it last.
#[test]
fn fixtures_hold_no_prompts_and_would_be_accepted() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../unforget-core/tests/fixtures");
    let mut seen = 0;
    for version in [LATEST, OLDER] {
        for entry in fixtures.join(format!("claude-{version}")).read_dir().unwrap() {
            let path = entry.unwrap().path();
            let Ok(text) = std::fs::read_to_string(&path) else { continue };
            let name = path.display();
            assert!(!text.contains("/tmp/"), "{name}");
            for reminder in text.split("<system-reminder>").skip(1) {
                assert!(reminder.find("</system-reminder>").is_some_and(|length| length < 200), "{name}: {reminder}");
            }
            if path.extension().is_some_and(|end| end == "json") {
                let messages: serde_json::Value = serde_json::from_str(&text).unwrap();
                let body = serde_json::json!({"model": "m", "max_tokens": 1, "messages": messages}).to_string();
                let server = rules::Server { per_turn_control: true, ..rules::Server::default() };
                assert_eq!(rules::check(body.as_bytes(), &server), Ok(()), "{name}");
                seen += 1;
            }
        }
    }
    assert!(seen >= 38, "{seen}");
}
