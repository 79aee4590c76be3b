//! The agent with the real program, offline; without one, each of these says that it was skipped.
#![allow(clippy::disallowed_methods, reason = "tests look at the files of another program")]

use std::path::{Path, PathBuf};

use unforget_agent::host::Answer;
use unforget_agent::model::{Delta, Event};
use unforget_agent::tools::Call;
use unforget_core::stamp::System;
use unforget_testkit::api::{FakeApi, Options, Reply};
use unforget_testkit::claude::{Claude, Gate};

use super::*;
use crate::actor::ActorId;
use crate::protocol::ClientId;
use crate::realm::Realms;

/// Writes down what it is told, and answers questions as it was told to.
struct Ear {
    words: String,
    notes: Vec<String>,
    saved: Vec<u64>,
    answer: Option<Answer>,
    /// Cancelled at the first word, or when a question is asked.
    stop: CancellationToken,
    /// Cancelled when something is kept.
    kept: CancellationToken,
}

impl Ear {
    fn new(answer: Option<Answer>) -> Self {
        let [stop, kept] = [CancellationToken::new(), CancellationToken::new()];
        Self { words: String::new(), notes: Vec::new(), saved: Vec::new(), answer, stop, kept }
    }

    fn allowing() -> Self {
        Self::new(Some(Answer::Allowed { by: "person" }))
    }
}

impl Host for Ear {
    fn tell(&mut self, notice: Notice<'_>) {
        match notice {
            Notice::Model(Event::Delta { delta: Delta::Text(text), .. }) => {
                self.words.push_str(text);
                self.stop.cancel();
            }
            Notice::ToolStarted(call) => self.notes.push(format!("started {}", call.name)),
            Notice::ToolEnded { call, output, .. } => {
                self.notes.push(format!("ended {} {} {}", call.name, output.is_error, output.text));
            }
            Notice::Saved { n } => {
                self.saved.push(n);
                self.kept.cancel();
            }
            Notice::Guard(line) => self.notes.push(line.to_owned()),
            _ => {}
        }
    }

    fn standing(&self, _call: &Call) -> Option<Answer> {
        None
    }

    fn approve<'a>(&'a mut self, call: &'a Call) -> BoxFuture<'a, Answer> {
        self.notes.push(format!("asked {}", call.name));
        let answer = self.answer.clone();
        Box::pin(async move {
            match answer {
                Some(answer) => answer,
                None => {
                    self.stop.cancel();
                    std::future::pending().await
                }
            }
        })
    }
}

/// A server's home, an API, and the agent.
struct Scene {
    api: FakeApi,
    home: tempfile::TempDir,
    agent: ClaudeCode,
    realms: Realms,
}

impl Scene {
    /// None, loudly, where the program is not installed.
    fn new(options: Options) -> Option<Self> {
        Some(Self::with(Claude::latest()?.program().canonicalize().unwrap(), options))
    }

    /// With a shell script in the program's place, which gets the session's id as its last argument.
    fn scripted(script: &str) -> Self {
        let mut scene = Self::with(PathBuf::from("/bin/sh"), Options::default());
        scene.agent.path = "/usr/bin:/bin".into();
        let path = scene.home.path().join("script");
        let text = format!("#!/bin/sh\nfor id; do :; done\nread prompt\n{script}\n");
        // By a child: a file that this process writes may be open for writing in a child of another thread, and then it cannot be run.
        let written = ["-c", "printf '%s' \"$1\" >\"$0\" && chmod 700 \"$0\""];
        let mut writing = std::process::Command::new("/bin/sh");
        assert!(writing.args(written).arg(&path).arg(&text).status().unwrap().success());
        scene.agent.program = path;
        scene
    }

    fn with(program: PathBuf, options: Options) -> Self {
        let api = FakeApi::start(options).unwrap();
        let home = tempfile::tempdir().unwrap();
        let mut environment = vec![
            ("ANTHROPIC_BASE_URL".to_owned(), api.url().into()),
            ("ANTHROPIC_API_KEY".to_owned(), "sk-ant-offline-dummy".into()),
        ];
        let quiet = ["DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"];
        environment.extend(quiet.map(|name| (name.to_owned(), "1".into())));
        let agent = ClaudeCode {
            program,
            arguments: Vec::new(),
            folder: None,
            path: std::env::var_os("PATH").unwrap(),
            environment,
        };
        let realms = Realms::new(home.path().to_owned(), Arc::new(System));
        Self { api, home, agent, realms }
    }

    fn realm(&self, actor: &str) -> Arc<Realm> {
        self.realms.of(&ActorId::verified(actor).unwrap())
    }

    async fn begin(&self, realm: &Arc<Realm>) -> Name {
        let key = Key::new(CLAUDE_AGENT, "code", None, "test").unwrap();
        self.agent.begin(realm, &key, None).await.unwrap()
    }

    async fn open(&self, realm: &Arc<Realm>, name: &Name) -> Box<dyn Voice> {
        self.agent.open(realm, name).await.unwrap()
    }
}

fn words(text: &str, client_id: &str) -> Input {
    Input::Words { text: text.to_owned(), client_id: ClientId::parse(client_id).unwrap() }
}

async fn say(voice: &mut dyn Voice, input: &Input, ear: &mut Ear) -> Result<Ended> {
    let never = CancellationToken::new();
    tokio::time::timeout(Duration::from_secs(60), voice.turn(input, ear, &never)).await.unwrap()
}

async fn recall(voice: &mut dyn Voice, client_id: &str) -> String {
    say(voice, &words("[[recall]]", client_id), &mut Ear::allowing()).await.unwrap().text
}

/// What is kept of a session.
fn lines(realm: &Realm, name: &Name) -> Vec<String> {
    let path = realm.root().join(name.dir.transcript(&name.id));
    std::fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// The processes of a realm's program.
fn processes(realm: &Realm) -> Vec<i32> {
    let entries = std::fs::read_dir(realm.root().join("claude/config/sessions")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.strip_suffix(".json")?.parse().ok()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_turns_of_one_child_and_a_prompt_that_is_sent_twice() {
    let Some(scene) = Scene::new(Options::default()) else { return };
    let realm = scene.realm("ada");
    let name = scene.begin(&realm).await;
    let mut voice = scene.open(&realm, &name).await;
    assert_eq!(lines(&realm, &name), Vec::<String>::new(), "there is no transcript before the first turn");
    let mut ear = Ear::allowing();
    let first = say(voice.as_mut(), &words("remember BANANA", "one"), &mut ear).await.unwrap();
    assert_eq!((first.state, first.stop_reason.as_deref()), (State::Done, Some("end_turn")));
    assert_eq!(ear.words, first.text);
    assert!(first.text.contains("BANANA"), "{first:?}");
    let kept = lines(&realm, &name);
    assert_eq!(ear.saved.last(), Some(&first.n));
    assert_eq!(first.n, kept.len() as u64 - 1);
    assert!(kept.iter().any(|line| line.contains("\"type\":\"assistant\"")), "the answer is kept");
    let prompt = PromptId::of(&ClaudeSessionId::of_kept(&name.id).unwrap(), &ClientId::parse("one").unwrap());
    assert!(kept.iter().any(|line| line.contains(prompt.as_str())), "{prompt:?}");
    let before = processes(&realm);
    assert!(recall(voice.as_mut(), "two").await.contains("BANANA"));
    assert_eq!(processes(&realm), before, "the same child answered");
    let asked = scene.api.messages().len();
    let again = say(voice.as_mut(), &words("[[recall]]", "two"), &mut Ear::allowing()).await.unwrap();
    assert!(again.text.contains("BANANA"), "{again:?}");
    assert_eq!(scene.api.messages().len(), asked, "nobody was asked again");
    voice.close().await;
    assert_eq!(processes(&realm), Vec::<i32>::new(), "it ended by itself");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_asked_about_and_allowed_or_denied() {
    let Some(scene) = Scene::new(Options::default()) else { return };
    let realm = scene.realm("ada");
    let name = scene.begin(&realm).await;
    let mut voice = scene.open(&realm, &name).await;
    let mut ear = Ear::allowing();
    let ended = say(voice.as_mut(), &words("[[bash:echo out-$((40+2)) | tee made]]", "one"), &mut ear).await.unwrap();
    assert_eq!(ended.text, "TOOL-DONE: out-42");
    assert_eq!(ear.notes, ["asked Bash", "started Bash", "ended Bash false out-42"]);
    assert!(realm.workspace(&name.id).join("made").exists());
    let mut ear = Ear::new(Some(Answer::Denied { by: "person", reason: Some("not today".to_owned()) }));
    let ended = say(voice.as_mut(), &words("[[bash:touch denied]]", "two"), &mut ear).await.unwrap();
    assert_eq!(ended.text, "TOOL-DONE: not today");
    assert_eq!(ear.notes, ["asked Bash", "ended Bash true not today"]);
    assert!(!realm.workspace(&name.id).join("denied").exists());
    voice.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_aborted_turn_ends_and_the_next_one_goes_on() {
    let Some(scene) = Scene::new(Options::default()) else { return };
    let realm = scene.realm("ada");
    let name = scene.begin(&realm).await;
    let mut voice = scene.open(&realm, &name).await;
    scene.api.push(Reply::Stall { text: "half an ans".to_owned() });
    let mut ear = Ear::allowing();
    let stop = ear.stop.clone();
    let ended = voice.turn(&words("remember PLUM", "one"), &mut ear, &stop).await.unwrap();
    assert_eq!(ended.state, State::Aborted);
    assert!(!ended.text.is_empty() && "half an ans".starts_with(&ended.text), "{ended:?}");
    // And while somebody is asked.
    let mut ear = Ear::new(None);
    let stop = ear.stop.clone();
    scene.api.release();
    let input = words("[[bash:touch asked]]", "two");
    let token = CancellationToken::new();
    let turn = voice.turn(&input, &mut ear, &token);
    let stopper = async {
        stop.cancelled().await;
        token.cancel();
    };
    let (ended, ()) = tokio::join!(turn, stopper);
    assert_eq!(ended.unwrap().state, State::Aborted);
    assert!(!realm.workspace(&name.id).join("asked").exists());
    assert!(recall(voice.as_mut(), "three").await.contains("PLUM"));
    voice.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_child_is_a_problem_and_the_next_turn_resumes() {
    let Some(scene) = Scene::new(Options::default()) else { return };
    let realm = scene.realm("ada");
    let name = scene.begin(&realm).await;
    let mut voice = scene.open(&realm, &name).await;
    let gate = Gate::new();
    let mut ear = Ear::allowing();
    let input = words(&format!("remember PEAR [[bash:{}]]", gate.command()), "one");
    let kill = {
        let realm = realm.clone();
        tokio::task::spawn_blocking(move || {
            let held = gate.wait();
            let pid = rustix::process::Pid::from_raw(processes(&realm)[0]).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
            held
        })
    };
    let problem = say(voice.as_mut(), &input, &mut ear).await.unwrap_err();
    drop(kill.await.unwrap());
    assert_eq!(problem.code, Code::Unavailable);
    assert!(problem.message.contains("signal: 9"), "{problem}");
    assert_eq!(ear.saved.last(), Some(&(lines(&realm, &name).len() as u64 - 1)));
    // The same words again are the same prompt: the conversation goes on.
    let ended = say(voice.as_mut(), &input, &mut Ear::allowing()).await.unwrap();
    assert_eq!(ended.state, State::Done);
    let recalled = recall(voice.as_mut(), "two").await;
    assert_eq!(recalled.matches("PEAR").count(), 1, "{recalled}");
    assert!(recalled.contains(GO_ON), "{recalled}");
    voice.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_turn_leaves_nothing_running_and_what_was_said_is_kept() {
    let Some(scene) = Scene::new(Options::default()) else { return };
    let realm = scene.realm("ada");
    let name = scene.begin(&realm).await;
    let mut voice = scene.open(&realm, &name).await;
    let gate = Gate::new();
    let mut ear = Ear::allowing();
    let input = words(&format!("remember FIG [[bash:{}]]", gate.command()), "one");
    let token = CancellationToken::new();
    let kept = ear.kept.clone();
    let arrived = async {
        let held = tokio::task::spawn_blocking(move || gate.wait()).await.unwrap();
        // Not only at the end of a turn.
        kept.cancelled().await;
        held
    };
    let held = tokio::select! {
        ended = voice.turn(&input, &mut ear, &token) => panic!("{ended:?}"),
        held = arrived => held,
    };
    assert!(lines(&realm, &name).iter().any(|line| line.contains("FIG")));
    let pid = processes(&realm)[0];
    for _ in 0..6000 {
        let is_there = Path::new("/proc").join(pid.to_string()).join("exe").exists();
        if !is_there {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(!Path::new("/proc").join(pid.to_string()).join("exe").exists());
    drop(held);
    assert!(recall(voice.as_mut(), "two").await.contains("FIG"));
    voice.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_store_is_all_that_is_needed_and_a_second_one_is_refused() {
    let Some(scene) = Scene::new(Options::default()) else { return };
    let realm = scene.realm("ada");
    let name = scene.begin(&realm).await;
    let mut voice = scene.open(&realm, &name).await;
    say(voice.as_mut(), &words("remember CHERRY [[bash:echo x]]", "one"), &mut Ear::allowing()).await.unwrap();
    let busy = scene.agent.open(&realm, &name).await.err().map(|problem| problem.code);
    assert_eq!(busy, Some(Code::Busy));
    voice.close().await;
    // As on another machine: the program's directory, the folder and everything else of it are gone.
    for part in ["claude", "work", "copies"] {
        std::fs::remove_dir_all(realm.root().join(part)).unwrap();
    }
    let mut voice = scene.open(&realm, &name).await;
    assert!(recall(voice.as_mut(), "two").await.contains("CHERRY"));
    let again = say(voice.as_mut(), &words("remember CHERRY [[bash:echo x]]", "one"), &mut Ear::allowing()).await;
    // It is not run again, and the answer to something else is not its answer.
    assert_eq!(again.unwrap_err().code, Code::Conflict);
    let asked = scene.api.requests().len();
    assert!(recall(voice.as_mut(), "two").await.contains("CHERRY"));
    assert_eq!(scene.api.requests().len(), asked);
    voice.close().await;
    assert_eq!(scene.api.refusals().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_is_made_smaller_and_no_command_leads_out_of_it() {
    let Some(scene) = Scene::new(Options::default()) else { return };
    let realm = scene.realm("ada");
    let name = scene.begin(&realm).await;
    let mut voice = scene.open(&realm, &name).await;
    let never = CancellationToken::new();
    assert_eq!(voice.compact(None, &mut Ear::allowing(), &never).await, Ok(None));
    let nothing = say(voice.as_mut(), &Input::GoOn, &mut Ear::allowing()).await;
    assert_eq!(nothing.unwrap_err().code, Code::Conflict);
    say(voice.as_mut(), &words("remember KIWI", "one"), &mut Ear::allowing()).await.unwrap();
    say(voice.as_mut(), &words("and MANGO", "another"), &mut Ear::allowing()).await.unwrap();
    let mut ear = Ear::allowing();
    let n = voice.compact(Some("fruit\nonly"), &mut ear, &never).await.unwrap().unwrap();
    let line = lines(&realm, &name).swap_remove(usize::try_from(n).unwrap());
    assert!(line.contains("isCompactSummary"), "{line}");
    assert_eq!(ear.notes, ["Claude Code made the conversation smaller"]);
    let refused = say(voice.as_mut(), &words(" /clear", "two"), &mut Ear::allowing()).await;
    assert_eq!(refused.unwrap_err().code, Code::Invalid);
    assert!(recall(voice.as_mut(), "three").await.contains("SUMMARY"));
    voice.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn actors_have_nothing_of_each_other() {
    let Some(scene) = Scene::new(Options::default()) else { return };
    let [ada, bob] = ["ada", "bob"].map(|name| scene.realm(name));
    let name = scene.begin(&ada).await;
    let mut voice = scene.open(&ada, &name).await;
    say(voice.as_mut(), &words("remember SECRET", "one"), &mut Ear::allowing()).await.unwrap();
    let code = |opened: Result<Box<dyn Voice>>| opened.err().map(|problem| problem.code);
    assert_eq!(code(scene.agent.open(&bob, &name).await), Some(Code::NotFound));
    let unknown = Name { dir: agent(), id: ClaudeSessionId::new(ada.store().source()).unwrap().kept().unwrap() };
    assert_eq!(code(scene.agent.open(&ada, &unknown).await), Some(Code::NotFound));
    let bobs = scene.begin(&bob).await;
    let mut other = scene.open(&bob, &bobs).await;
    let mut ear = Ear::allowing();
    let ended = say(other.as_mut(), &words("[[bash:env; pwd]]", "one"), &mut ear).await.unwrap();
    assert_eq!(ended.state, State::Done);
    let environment = ear.notes.last().unwrap().clone();
    let adas = ada.root().to_string_lossy().into_owned();
    assert!(environment.contains(&*bob.root().to_string_lossy()), "{environment}");
    assert!(!environment.contains(&adas), "{environment}");
    let is_servers = |name: &str| name.starts_with("CARGO") || name.starts_with("RUST");
    for (name, _) in std::env::vars().filter(|(name, _)| is_servers(name)) {
        assert!(!environment.contains(&format!("{name}=")), "{name} is the server's own");
    }
    for realm in [&ada, &bob] {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = |path: PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(realm.root().join("claude/config")), 0o700);
    }
    assert!(!recall(other.as_mut(), "two").await.contains("SECRET"));
    other.close().await;
    voice.close().await;
    assert!(scene.home.path().join("actors").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_the_program_is_told() {
    let Some(mut scene) = Scene::new(Options::default()) else { return };
    let realm = scene.realm("ada");
    let name = scene.begin(&realm).await;
    let environment = std::mem::take(&mut scene.agent.environment);
    let mut voice = scene.open(&realm, &name).await;
    let problem = say(voice.as_mut(), &words("hello", "one"), &mut Ear::allowing()).await.unwrap_err();
    assert_eq!((problem.code, problem.message.contains("logged in")), (Code::Unavailable, true), "{problem}");
    voice.close().await;
    let program = std::mem::replace(&mut scene.agent.program, PathBuf::from("/bin/false"));
    let mut voice = scene.open(&realm, &name).await;
    let problem = say(voice.as_mut(), &words("hello", "one"), &mut Ear::allowing()).await.unwrap_err();
    assert_eq!(problem.code, Code::Unavailable);
    voice.close().await;
    (scene.agent.environment, scene.agent.program) = (environment, program);
    let status = |status, kind: &str| Reply::Error {
        status,
        kind: kind.to_owned(),
        message: "no such thing".to_owned(),
        retry_after: None,
    };
    // An answer that cannot be streamed is asked for as a whole.
    scene.api.push(status(404, "not_found_error"));
    let mut voice = scene.open(&realm, &name).await;
    let mut ear = Ear::allowing();
    let ended = say(voice.as_mut(), &words("hello", "whole"), &mut ear).await.unwrap();
    assert_eq!((ear.words.as_str(), ended.text.contains("hello")), (ended.text.as_str(), true));
    voice.close().await;
    for _ in 0..4 {
        scene.api.push_for(|_| true, status(404, "not_found_error"));
    }
    let mut voice = scene.open(&realm, &name).await;
    let problem = say(voice.as_mut(), &words("hello", "two"), &mut Ear::allowing()).await.unwrap_err();
    assert_eq!((problem.code, problem.message.contains("model")), (Code::Model, true), "{problem}");
    voice.close().await;
}

/// How one turn goes with a script, which is told to stop if it says a word.
async fn scripted(script: &str) -> Result<Ended> {
    let scene = Scene::scripted(script);
    let realm = scene.realm("ada");
    let name = scene.begin(&realm).await;
    let mut voice = scene.open(&realm, &name).await;
    let mut ear = Ear::allowing();
    let stop = ear.stop.clone();
    let input = words("hello", "one");
    let ended = tokio::time::timeout(Duration::from_secs(30), voice.turn(&input, &mut ear, &stop)).await.unwrap();
    voice.close().await;
    ended
}

/// A line of the program's, for a script.
const BEGAN: &str = r#"echo '{"type":"system","subtype":"init","session_id":"'$id'"}'"#;
const WORD: &str = r#"echo '{"type":"stream_event","parent_tool_use_id":null,"event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hm"}}}'"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_misbehaves_is_a_problem_and_never_waited_for() {
    for (script, said) in [
        ("exit 0", "ended in the middle"),
        ("echo oh dear; echo dear >&2; exit 7", "exit status: 7"),
        ("kill -9 $$", "signal: 9"),
        ("sleep 300 & exit 3", "exit status: 3"),
        ("yes", "does not speak"),
        (r#"echo '{"type":"system","subtype":"init","session_id":"another"}'; sleep 300"#, "another session"),
        (r#"echo '{"type":"result","is_error":false,"session_id":"another"}'; sleep 300"#, "another session"),
        (&format!("{BEGAN}; exec >&-; sleep 300"), "ended in the middle"),
    ] {
        let problem = scripted(script).await.unwrap_err();
        assert_eq!(problem.code, Code::Unavailable, "{script}");
        assert!(problem.message.contains(said), "{script}: {problem}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_does_not_stop_is_stopped() {
    let ended = scripted(&format!("{BEGAN}; {WORD}; trap '' TERM INT; sleep 300")).await.unwrap();
    assert_eq!((ended.state, ended.text.as_str()), (State::Aborted, "hm"));
}

#[tokio::test]
async fn a_turn_that_had_done_things_when_its_server_was_killed_is_told_of_and_not_gone_on_with() {
    use crate::activity::Activity;
    use crate::agent::Agents;
    use crate::hub::{Hub, Shared, Watching};
    use crate::ledger::{Accepted, Ledger};
    use crate::limits::Limits;
    use crate::protocol::{After, Interrupted};

    let scene = Scene::scripted("echo ran >> \"$HOME/ran\"");
    let (root, actor) = (scene.home.path().to_path_buf(), ActorId::verified("ada").unwrap());
    let activity = Arc::new(Activity::new(Arc::new(System)));
    let shared = Shared::new(Limits::default(), Ledger::open(&root).unwrap().0, Vec::new(), activity, None);
    let agents = Agents::new(vec![Arc::new(scene.agent.clone())]).unwrap();
    let realms = Realms::new(root, Arc::new(System));
    let hub = Arc::new(Hub::new(Arc::new(shared), realms, agents, tokio::runtime::Handle::current()));
    let realm = hub.realm(&actor);
    let name = scene.begin(&realm).await;
    // The program wrote it, and nobody was there any more to keep it.
    let client_id = ClientId::parse("c1").unwrap();
    let prompt = PromptId::of(&ClaudeSessionId::of_kept(&name.id).unwrap(), &client_id);
    let line = |kind: &str, uuid: &str, parent: Option<&str>, content: serde_json::Value| {
        let message = serde_json::json!({ "role": kind, "content": content });
        let (id, time) = (name.id.as_str(), "2026-01-01T00:00:00.000Z");
        serde_json::json!({ "type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": id, "cwd": "/work", "timestamp": time, "message": message })
    };
    let call = serde_json::json!([{ "type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {} }]);
    let lines = [
        line("user", prompt.as_str(), None, "do it".into()),
        line("assistant", "0199a8e5-6f5e-7d2a-9f43-1c8f1b6f0a12", Some(prompt.as_str()), call),
    ];
    let folder = realm.root().join("claude/config/projects/-work");
    std::fs::create_dir_all(&folder).unwrap();
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(folder.join(format!("{}.jsonl", name.id)), text).unwrap();

    let accepted = Accepted {
        id: "1".to_owned(),
        actor,
        session: name.clone(),
        client_id,
        prompt: "do it".to_owned(),
        is_attended: true,
    };
    hub.recover(vec![accepted]).await;
    let watching = hub.attach(&realm, &name.id, After::End).await.unwrap();
    let Watching::Here(attached, viewer) = watching else { panic!("it is here") };
    let interrupted = Interrupted { n: 0, client_id: ClientId::parse("c1"), is_touched: true };
    assert_eq!((attached.interrupted, attached.queued), (Some(interrupted), 0));
    assert!(!viewer.live().is_busy() && hub.shared().take_stranded().0.is_empty());
    assert!(!realm.root().join("claude/home/ran").exists());
}
