//! A disk that is full: what cannot be saved is refused, and nothing that was refused is remembered (fault S11).
//!
//! The server's home is a small file system of its own, in a name space that only it sees and that is gone with it. It is filled from outside.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;
use unforget_testkit::serving::{Server, Transcript};

use super::{PATIENCE, Person, SERVE, session};
use crate::scene::Scene;

const SMALL: &str = "mount -t tmpfs -o size=2m,mode=700 small \"$UNFORGET_HOME\" && exec \"$0\" \"$@\"";

/// A server whose home has two megabytes.
fn cramped(scene: &Scene) -> Server {
    std::fs::create_dir(scene.home.path("home")).unwrap();
    let plain = scene.command(&SERVE);
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--mount", "sh", "-c", SMALL]).arg(plain.get_program()).args(plain.get_args());
    command.env_clear().envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(scene.work()).process_group(0).stderr(Stdio::inherit());
    Server::start(&mut command)
        .expect("a user may mount a file system of their own (`unshare --map-root-user --mount`)")
}

/// A path as the server sees it.
fn within(server: &Server, scene: &Scene, name: &str) -> PathBuf {
    let home = scene.home.path("home").display().to_string();
    PathBuf::from(format!("/proc/{}/root{home}/{name}", server.id()))
}

#[test]
fn s11_what_a_full_disk_does_not_take_is_refused_and_may_be_sent_again() {
    let scene = Scene::online();
    let server = cramped(&scene);
    let mut person = Person::at(&server.url);
    person.prompt(None, "c1", "hello");
    let id = session(&person.until_type("done"));
    let filler = within(&server, &scene, "filler");
    let full = std::fs::write(&filler, vec![b'x'; 4 << 20]).unwrap_err();
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    // Longer than what is left of the file's last page.
    let words = "word ".repeat(10_000);
    person.prompt(None, "c2", &words);
    let heard = person.until(|message| message["type"] == "error");
    let error: &Value = heard.last().unwrap();
    assert_eq!((&error["error"]["code"], &error["client_id"]), (&"storage".into(), &"c2".into()), "{heard:#?}");
    assert!(!heard.iter().any(|message| message["type"] == "accepted"), "{heard:#?}");
    std::fs::remove_file(&filler).unwrap();
    // The kernel may take a moment to give the room of a deleted file back, and the server refuses until then.
    let begun = Instant::now();
    let heard = loop {
        person.prompt(None, "c2", &words);
        let heard = person.until(|message| message["type"] == "done" || message["type"] == "error");
        let last: &Value = heard.last().unwrap();
        if last["type"] == "done" {
            break heard;
        }
        assert_eq!(last["error"]["code"], "storage", "{heard:#?}");
        assert!(begun.elapsed() < PATIENCE, "the disk has room, and the server still refuses: {heard:#?}");
    };
    let accepted = heard.iter().find(|message| message["type"] == "accepted").unwrap();
    assert_eq!((&accepted["client_id"], &accepted["duplicate"]), (&"c2".into(), &false.into()), "{heard:#?}");
    let transcript = Transcript::read(&within(&server, &scene, &format!("agents/main/sessions/{id}.jsonl"))).unwrap();
    let named: Vec<_> = transcript.prompts.iter().map(|said| said.client_id.as_deref().unwrap()).collect();
    assert_eq!((named, transcript.gaps), (vec!["c1", "c2"], Vec::new()));
}
