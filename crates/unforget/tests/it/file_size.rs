//! A limit on the size of files (`ulimit -f`) is an error that names the file, and ends no program.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use serde_json::Value;
use unforget_testkit::serving::{Server, Transcript};

use crate::scene::Scene;
use crate::serve::{Person, SERVE, session};
use crate::support::{Home, Said};

/// Blocks of 512 bytes, or of 1024, as the shell counts.
const LIMITED: &str = "ulimit -f 64 && exec \"$0\" \"$@\"";
/// More than that.
const LONG: usize = 100_000;

/// The same command with a limit on its files.
fn limited(plain: &Command) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", LIMITED]).arg(plain.get_program()).args(plain.get_args());
    command.env_clear().envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(folder) = plain.get_current_dir() {
        command.current_dir(folder);
    }
    command
}

fn said(command: &mut Command) -> Said {
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Said { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
}

#[test]
fn h7_append_names_the_file_and_the_limit_and_keeps_what_it_acknowledged() {
    let home = Home::new();
    let id = home.conversation("main:cli:user", &["one"]);
    let line = |words: &str| format!("{{\"type\":\"user\",\"content\":\"{words}\"}}\n");
    let input = home.write("stdin", [line("two"), line(&"x".repeat(LONG))].concat());
    let mut plain = home.command();
    plain.args(["append", &id]);
    let said = said(limited(&plain).stdin(std::fs::File::open(input).unwrap()));
    assert_eq!((said.code, said.out.lines().count()), (1, 1), "{said:?}");
    let path = home.transcript(&id);
    assert!(said.err.contains(&format!("{id}.jsonl`: ")) && said.err.contains("(`ulimit -f`)"), "{said:?}");
    assert!(said.err.contains("hint: `ulimit -f unlimited`"), "{said:?}");
    assert_eq!(home.run(&["doctor"]).code, 0);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains("two") && !text.contains("xxx") && text.ends_with('\n'), "{text}");
}

#[test]
fn h7_a_chat_says_so_and_commands_have_the_signal_as_it_was() {
    let said_of = |scene: &Scene, words: &str| {
        said(limited(&scene.command(&["chat", "--allow", "bash", "-p", words])).stdin(Stdio::null()))
    };
    let scene = Scene::offline();
    // Longer words would become payloads, which are small when they are packed.
    let said = (0..100).map(|_| said_of(&scene, &"word ".repeat(1000))).find(|said| said.code != 0).unwrap();
    assert!(said.code == 1 && said.err.contains(".jsonl") && said.err.contains("(`ulimit -f`)"), "{said:?}");
    // Of a signal that is ignored, a program hears nothing; of its default it dies (128 + 25).
    let said = said_of(&Scene::online(), "[[bash:head -c 1000000 /dev/zero > large; echo ended with $?]]");
    assert!(said.out.contains("ended with 153"), "{said:?}");
}

#[test]
fn h7_a_server_refuses_what_does_not_fit_and_goes_on() {
    let scene = Scene::online();
    let mut command = limited(&scene.command(&SERVE));
    let server = Server::start(command.process_group(0).stderr(Stdio::inherit())).unwrap();
    let mut person = Person::at(&server.url);
    person.prompt(None, "c1", "hello");
    let id = session(&person.until_type("done"));
    person.prompt(None, "c2", &"word ".repeat(LONG / 5));
    let heard = person.until(|message| message["type"] == "error");
    let error: &Value = heard.last().unwrap();
    assert_eq!((&error["error"]["code"], &error["client_id"]), (&"storage".into(), &"c2".into()), "{heard:#?}");
    person.prompt(None, "c3", "are you there?");
    person.until_type("done");
    let path = scene.home.path(&format!("home/agents/main/sessions/{id}.jsonl"));
    let transcript = Transcript::read(&path).unwrap();
    let named: Vec<_> = transcript.prompts.iter().map(|said| said.client_id.as_deref().unwrap()).collect();
    assert_eq!((named, transcript.gaps), (vec!["c1", "c3"], Vec::new()));
}
