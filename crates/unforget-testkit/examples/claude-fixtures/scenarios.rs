//! What the fixtures are about: each scenario is a few prompts, and whatever happens between them.
//!
//! The last prompt of each resumes the session in a new process, so that the last request is what the CLI itself has
//! rebuilt from the file. Nothing here depends on time: where two things happen at once, a gate says when.

use std::fs;

use serde_json::Value;
use unforget_testkit::api::{FakeApi, Recorded, Reply};
use unforget_testkit::claude::{Gate, Held, Machine, Running, Signal};

/// A name, and what happens.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) play: fn(&mut Stage<'_>),
}

/// Where a scenario is played.
pub(crate) struct Stage<'a> {
    pub(crate) api: &'a FakeApi,
    pub(crate) machine: &'a mut Machine,
    pub(crate) session: &'a str,
}

pub(crate) const ALL: &[Scenario] = &[
    Scenario { name: "tool", play: tool },
    Scenario { name: "parallel", play: parallel },
    Scenario { name: "thinking", play: thinking },
    Scenario { name: "fork", play: fork },
    Scenario { name: "compact-manual", play: compact_manual },
    Scenario { name: "compact-auto", play: compact_auto },
    Scenario { name: "killed", play: killed },
    Scenario { name: "killed-streaming", play: killed_streaming },
    Scenario { name: "interrupted", play: interrupted },
    Scenario { name: "concurrent", play: concurrent },
    Scenario { name: "overlapping", play: overlapping },
    Scenario { name: "subagent", play: subagent },
    Scenario { name: "big-output", play: big_output },
    Scenario { name: "titled", play: titled },
    Scenario { name: "api-error", play: api_error },
    Scenario { name: "local-command", play: local_command },
    Scenario { name: "file-history", play: file_history },
    Scenario { name: "attached", play: attached },
    Scenario { name: "parallel-reversed", play: parallel_reversed },
];

const MAX_TRIES: usize = 5;
/// Is in a transcript when a call of a tool is.
const CALL: &str = "\"type\":\"tool_use\"";

impl Stage<'_> {
    fn begin(&self, prompt: &str) {
        self.begin_with(prompt, &[]);
    }

    fn begin_with(&self, prompt: &str, arguments: &[&str]) {
        let mut all = vec!["--session-id", self.session];
        all.extend(arguments);
        let answer = self.machine.ask(prompt, &all);
        assert!(!answer.is_error, "{prompt}: {}", answer.raw);
    }

    fn resume(&self, prompt: &str) {
        let answer = self.machine.resume(self.session, prompt);
        assert!(!answer.is_error, "{prompt}: {}", answer.raw);
    }

    fn last(&self) {
        self.resume("the last prompt");
    }
}

fn tool(stage: &mut Stage<'_>) {
    stage.begin("remember BANANA [[bash:echo out-$((40+2))]]");
    stage.last();
}

fn parallel(stage: &mut Stage<'_>) {
    stage.begin("both [[parallel:echo one||echo two]]");
    stage.resume("and three [[parallel:echo a||exit 3||echo c]]");
    stage.last();
}

/// Calls that run at once and end in another order than they began. The CLI runs only commands together that it knows
/// to be harmless, so no gate can be among them; the order is looked at afterwards.
fn parallel_reversed(stage: &mut Stage<'_>) {
    stage.begin("all at once [[parallel:sleep 2||sleep 0.5||ls]]");
    let transcript = fs::read_to_string(stage.machine.transcript(stage.session).unwrap()).unwrap();
    let results = transcript.lines().filter(|line| line.contains("\"type\":\"tool_result\""));
    let ids: Vec<String> = results
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|record| record["message"]["content"][0]["tool_use_id"].as_str().unwrap().to_owned())
        .collect();
    assert!(ids.len() == 3 && ids.iter().rev().is_sorted(), "they ended as {ids:?}: please run it again");
    stage.last();
}

fn thinking(stage: &mut Stage<'_>) {
    stage.begin("[[think]] hard");
    stage.resume("[[think]] and act [[bash:echo thought]]");
    stage.last();
}

fn fork(stage: &mut Stage<'_>) {
    stage.begin("the first prompt");
    stage.resume("the second prompt, which is given up");
    let transcript = fs::read_to_string(stage.machine.transcript(stage.session).unwrap()).unwrap();
    let records = transcript.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let answer = records.into_iter().find(|record| record["type"] == "assistant").unwrap();
    let at = answer["uuid"].as_str().unwrap();
    let answer = stage.machine.ask("the second prompt, again", &["--resume", stage.session, "--resume-session-at", at]);
    assert!(!answer.is_error, "{}", answer.raw);
    stage.last();
}

fn compact_manual(stage: &mut Stage<'_>) {
    stage.begin("remember PEAR [[bash:echo before]]");
    stage.resume("one more before");
    stage.resume("/compact");
    stage.resume("one more after [[bash:echo after]]");
    stage.last();
}

fn compact_auto(stage: &mut Stage<'_>) {
    stage.machine.variables.push(("CLAUDE_CODE_AUTO_COMPACT_WINDOW".to_owned(), "100000".to_owned()));
    stage.begin("remember PLUM [[bash:echo before]]");
    stage.resume("a long one, they say [[tokens:90000]]");
    stage.resume("this makes it compact [[bash:echo after]]");
    stage.last();
}

fn killed(stage: &mut Stage<'_>) {
    stage.begin("before the crash");
    let gate = Gate::new();
    let prompt = format!("this crashes [[bash:{}]]", gate.command());
    let run = stage.machine.spawn(&prompt, &["--resume", stage.session]);
    let held = gate.wait();
    // The CLI writes a little later than it acts.
    stage.machine.wait_for(stage.session, |lines| lines.contains(CALL));
    run.kill();
    drop(held);
    stage.last();
}

fn killed_streaming(stage: &mut Stage<'_>) {
    stage.begin("before the crash");
    stage.api.push_for(says_crash, Reply::Stall { text: "half an answer".to_owned() });
    let before = stage.api.messages().len();
    let run = stage.machine.spawn("this crashes", &["--resume", stage.session]);
    stage.api.wait_for_requests(before + 1);
    stage.machine.wait_for(stage.session, |lines| lines.contains("this crashes"));
    run.kill();
    stage.api.wait_for_hang_ups(1);
    stage.last();
}

fn says_crash(request: &Recorded) -> bool {
    String::from_utf8_lossy(&request.body).contains("this crashes")
}

fn interrupted(stage: &mut Stage<'_>) {
    let gate = Gate::new();
    let prompt = format!("this is interrupted [[bash:{}]]", gate.command());
    let run = stage.machine.spawn(&prompt, &["--session-id", stage.session]);
    let held = gate.wait();
    stage.machine.wait_for(stage.session, |lines| lines.contains(CALL));
    run.signal(Signal::INT);
    run.wait();
    drop(held);
    stage.last();
}

/// Two processes that begin at the same place, because neither has written when the other reads.
fn concurrent(stage: &mut Stage<'_>) {
    stage.begin("the common beginning");
    let gates = [Gate::new(), Gate::new()];
    let (first, second) = (write(stage, "first", &gates[0]), write(stage, "second", &gates[1]));
    end(first, second, [gates[0].wait(), gates[1].wait()]);
    let transcript = fs::read_to_string(stage.machine.transcript(stage.session).unwrap()).unwrap();
    let parent_of = |text: &str| {
        let records = transcript.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let mut prompts = records.into_iter().filter(|record| record["type"] == "user");
        let is_it = |record: &Value| record["message"]["content"].as_str().is_some_and(|said| said.starts_with(text));
        prompts.find(is_it).unwrap()["parentUuid"].clone()
    };
    assert_eq!(parent_of("first writer"), parent_of("second writer"), "one was faster: please run it again");
    stage.last();
}

/// A process that begins while another is in the middle of a call.
fn overlapping(stage: &mut Stage<'_>) {
    stage.begin("the common beginning");
    let gates = [Gate::new(), Gate::new()];
    let first = write(stage, "first", &gates[0]);
    let held_first = gates[0].wait();
    stage.machine.wait_for(stage.session, |lines| lines.contains(CALL));
    let second = write(stage, "second", &gates[1]);
    end(first, second, [held_first, gates[1].wait()]);
    stage.last();
}

fn write(stage: &Stage<'_>, name: &str, gate: &Gate) -> Running {
    let prompt = format!("{name} writer [[bash:{}]]", gate.command());
    stage.machine.spawn(&prompt, &["--resume", stage.session])
}

/// The one that came second ends first.
fn end(first: Running, second: Running, held: [Held; 2]) {
    let [held_first, held_second] = held;
    drop(held_second);
    second.wait();
    drop(held_first);
    first.wait();
}

fn subagent(stage: &mut Stage<'_>) {
    stage.begin("ask another [[agent:look around [[bash:echo sub-7]]]]");
    stage.last();
}

fn big_output(stage: &mut Stage<'_>) {
    stage.begin("much [[bash:yes 'a line of forty-two characters, as long as' | head -c 300000]]");
    stage.last();
}

fn titled(stage: &mut Stage<'_>) {
    stage.begin_with("name it", &["--name", "a fine name"]);
    stage.last();
}

fn api_error(stage: &mut Stage<'_>) {
    stage.begin("before the error");
    let (kind, message) = ("permission_error".to_owned(), "planned trouble".to_owned());
    let error = Reply::Error { status: 403, kind, message, retry_after: None };
    // The CLI may try again without one beta or the other.
    for _ in 0..MAX_TRIES {
        stage.api.push_for(says_failure, error.clone());
    }
    let answer = stage.machine.resume(stage.session, "this one fails");
    assert!(answer.is_error, "{}", answer.raw);
    stage.last();
}

fn says_failure(request: &Recorded) -> bool {
    let body = String::from_utf8_lossy(&request.body);
    body.contains("this one fails") && !body.contains("the last prompt")
}

fn local_command(stage: &mut Stage<'_>) {
    stage.begin("before the command");
    stage.machine.resume(stage.session, "/context");
    stage.resume("after the command");
    stage.last();
}

fn file_history(stage: &mut Stage<'_>) {
    stage.machine.variables.push(("CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING".to_owned(), "1".to_owned()));
    let file = stage.machine.cwd.join("poem.txt");
    fs::write(&file, "old lines\n").unwrap();
    let file = file.display();
    stage.begin(&format!("read it [[read:{file}]]"));
    stage.resume(&format!("write it [[write:{file}|new lines]]"));
    stage.last();
}

/// Files that the CLI tells of by itself: one that a prompt names, and one that changes after it was read, between two
/// prompts and in the middle of a call.
fn attached(stage: &mut Stage<'_>) {
    let file = stage.machine.cwd.join("poem.txt");
    let write = |text: &str| fs::write(&file, text).unwrap();
    write("old lines\n");
    stage.begin("see @poem.txt");
    stage.resume(&format!("read it [[read:{}]]", file.display()));
    write("newer lines\n");
    stage.resume("it has changed");
    let gate = Gate::new();
    let prompt = format!("it changes meanwhile [[chain:2|{}]]", gate.command());
    let run = stage.machine.spawn(&prompt, &["--resume", stage.session]);
    let held = gate.wait();
    write("newest lines\n");
    drop(held);
    drop(gate.wait());
    run.wait();
    stage.last();
}
