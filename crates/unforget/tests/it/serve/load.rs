//! A small version of `cargo xtask load`, so that it cannot rot: some sessions at once, and a kill in the middle.

use std::time::Duration;

use unforget_testkit::serving::load::{Options, drive, kill_in_the_middle};
use unforget_testkit::serving::model::{Pace, start};

use super::{SERVE, serve};
use crate::scene::Scene;

const PACE: Pace = Pace { pieces: 4, every: Duration::from_millis(200) };
const OPTIONS: Options = Options { sessions: 50, time: Duration::from_secs(2), rate: 25.0 };

fn scene() -> Scene {
    Scene::offline().with("ANTHROPIC_BASE_URL", &start(PACE).unwrap()).with("ANTHROPIC_API_KEY", "sk-ant-fake")
}

#[test]
fn fifty_sessions_at_once_are_all_answered() {
    let scene = scene();
    let server = serve(&scene, &[]);
    let (figures, history) = drive(&server, OPTIONS).unwrap();
    assert_eq!((figures.turns, figures.failed), (history.len(), 0), "{figures:?}");
    assert!(figures.turns >= OPTIONS.sessions, "{figures:?}");
    for (name, prompt) in history {
        let answer = prompt.answer.unwrap();
        assert!(answer.ends_with(&format!("this is {name}.")), "{name}: {answer}");
    }
    // Each piece is waited for: a model that took less did not do what it was measured for.
    assert!(figures.model_ms >= 800.0, "{figures:?}");
    // Each of fifty hears an answer for 800 of its 2000 milliseconds, on a machine that has time for it.
    assert!(figures.at_once >= 2, "{figures:?}");
}

#[test]
fn a_kill_in_the_middle_of_fifty_sessions_loses_nothing() {
    let scene = scene();
    let mut command = scene.command(&SERVE);
    command.stderr(std::process::Stdio::inherit());
    // The kill ends it; until then there is always somebody who waits for an answer.
    let options = Options { time: Duration::from_secs(8), ..OPTIONS };
    let survived = kill_in_the_middle(&mut command, &scene.home.path("home"), options).unwrap();
    assert_eq!(survived.violations, Vec::<String>::new());
    assert!(survived.answered >= OPTIONS.sessions && survived.recovered > 0, "{survived:?}");
}
