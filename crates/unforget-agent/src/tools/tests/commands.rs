//! Commands: what they say, and how they end.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{Scene, runs};

/// How long a test waits for what has to happen.
const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until something is so, with a bound.
async fn until(what: &str, so: impl Fn() -> bool) {
    let began = Instant::now();
    while !so() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn output_comes_in_order_with_the_exit_code() {
    let scene = Scene::new();
    let text = scene.ok("bash", json!({"command": "echo one; echo two >&2; echo three; pwd"})).await;
    let root = scene.root().canonicalize().unwrap();
    assert_eq!(text, format!("one\ntwo\nthree\n{}\n[exit code 0]", root.display()));
    assert_eq!(scene.failed("bash", json!({"command": "printf x; exit 3"})).await, "x\n[exit code 3]");
    assert_eq!(scene.failed("bash", json!({"command": "kill -9 $$"})).await, "[ended by signal 9 (SIGKILL)]");
    assert_eq!(scene.ok("bash", json!({"command": "cat"})).await, "[exit code 0]");
    assert!(scene.failed("bash", json!({"command": "-x"})).await.ends_with("[exit code 127]"));
}

#[tokio::test]
async fn a_command_is_ended_at_its_time_limit_with_all_it_started() {
    let scene = Scene::new();
    let command = "sleep 1000 & echo $!; wait";
    let text = scene.failed("bash", json!({"command": command, "timeout": 4.5})).await;
    let (pid, note) = text.split_once('\n').unwrap();
    assert_eq!(note, "[timed out after 4.5 s]");
    until("the grandchild is gone", || !runs(pid)).await;
}

#[tokio::test]
async fn an_abort_ends_a_command_that_does_not_want_to_end() {
    let scene = Scene::new();
    let abort = CancellationToken::new();
    let command = "trap '' TERM; (while :; do sleep 1000; done) & echo $! >pid.new; mv pid.new pid; echo begun; wait";
    let began = Instant::now();
    let (output, ()) = tokio::join!(scene.run_until("bash", json!({"command": command}), &abort), async {
        until("it began", || scene.path("pid").exists()).await;
        assert!(runs(&scene.read("pid")));
        abort.cancel();
    });
    assert!(output.is_error, "{}", output.text);
    assert!(output.text.starts_with("begun\n[aborted by the user after "), "{}", output.text);
    assert!(began.elapsed() >= Duration::from_secs(2), "it was not asked first");
    until("the grandchild is gone", || !runs(&scene.read("pid"))).await;
}

#[tokio::test]
async fn a_command_that_is_asked_to_end_can_say_goodbye() {
    let scene = Scene::new();
    let command = "trap 'echo goodbye; exit' TERM; echo begun; while :; do sleep 0.05; done";
    let text = scene.failed("bash", json!({"command": command, "timeout": 5})).await;
    assert!(text.contains("goodbye\n") && text.ends_with("[timed out after 5 s]"), "{text}");
}

#[tokio::test]
async fn a_command_that_nobody_waits_for_is_killed() {
    let scene = Scene::new();
    {
        let abort = CancellationToken::new();
        let command = "sleep 1000 & echo $! >pid.new; mv pid.new pid; wait";
        let call = scene.run_until("bash", json!({"command": command}), &abort);
        tokio::select! {
            output = call => panic!("{}", output.text),
            () = until("it began", || scene.path("pid").exists()) => {}
        }
    }
    until("the grandchild is gone", || !runs(&scene.read("pid"))).await;
}

#[tokio::test]
async fn a_process_in_the_background_does_not_hold_the_call() {
    let scene = Scene::new();
    let began = Instant::now();
    let text = scene.ok("bash", json!({"command": "sleep 1000 & echo $!"})).await;
    assert!(began.elapsed() < PATIENCE);
    let (pid, note) = text.split_once('\n').unwrap();
    assert!(note.starts_with("[exit code 0]\n[a process in the background still holds the output"), "{text}");
    assert!(runs(pid), "it was left alone");
    let number = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
    rustix::process::kill_process(number, rustix::process::Signal::KILL).unwrap();
}

#[tokio::test]
async fn a_process_in_the_background_that_prints_without_end_does_not_hold_the_call() {
    let scene = Scene::new();
    let text = scene.ok("bash", json!({"command": "yes &", "timeout": 60})).await;
    assert!(text.contains("[exit code 0]\n[a process in the background"), "{}", text.len());
}

#[tokio::test]
async fn endless_output_is_kept_at_both_ends() {
    let scene = Scene::new();
    let text = scene.failed("bash", json!({"command": "echo first; yes", "timeout": 8})).await;
    assert!(text.len() < 10 * 1024 * 1024 + 1000, "{}", text.len());
    assert!(text.starts_with("first\ny\n") && text.ends_with("\n[timed out after 8 s]"));
    assert!(text.contains(" bytes left out; redirect the output to a file"));
}

#[tokio::test]
async fn output_that_is_not_utf8_is_shown_as_far_as_it_is() {
    let scene = Scene::new();
    let text = scene.ok("bash", json!({"command": r"printf 'a\377b\0c'"})).await;
    assert_eq!(text, "a\u{fffd}b\0c\n[exit code 0]");
}

/// Runs itself again with credentials in the environment, because a test must not change its own.
#[tokio::test]
async fn s6_credentials_do_not_reach_a_command() {
    const OWN: &str = "tools::tests::commands::s6_credentials_do_not_reach_a_command";
    if std::env::var_os("PGPASSWORD").is_none_or(|key| key != "SECRET") {
        let mut again = std::process::Command::new(std::env::current_exe().unwrap());
        again.args([OWN, "--exact"]).env("LC_TIME", "visible");
        for name in ["ANTHROPIC_API_KEY", "UNFORGET_REMOTE", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "ANYTHING"] {
            again.env(name, "SECRET");
        }
        let output = again.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
        return;
    }
    let text = Scene::new().ok("bash", json!({"command": "env"})).await;
    assert!(text.contains("LC_TIME=visible") && !text.contains("SECRET"), "{text}");
}
