//! Any conversation: turns, calls, aborts, failures, compactions, undos, pins, retries and restarts in any order. Every
//! request passes the rules, and no call is run twice.

use proptest::prelude::*;
use unforget_agent::host::Answer;
use unforget_agent::turn::Input;
use unforget_core::record::Draft;
use unforget_testkit::api::{CutIn, Reply};
use unforget_testkit::rules;

use crate::support::{self, Asks, Scene};

const CASES: u32 = 24;
const STEPS: usize = 14;

/// What may happen.
#[derive(Debug, Clone)]
enum Step {
    Say(usize),
    Call(&'static str),
    Think,
    Abort,
    Fail(u16),
    Cut(CutIn),
    CutInput,
    GoOn,
    Deny,
    Compact,
    SummariserFails,
    Undo,
    Pin,
    Unpin,
    Retry(usize),
    Restart,
    Crash(usize),
}

fn step() -> impl Strategy<Value = Step> {
    const CALLS: [&str; 6] = [
        "[[bash:echo a]]",
        "[[parallel:echo a||fail||long 60]]",
        "[[chain:3|long 50]]",
        "[[bash:cjk 2000]]",
        "[[tool:unknown|{\"x\":1}]]",
        "[[think]] [[bash:long 120]]",
    ];
    prop_oneof![
        4 => (1_usize..300).prop_map(Step::Say),
        5 => prop::sample::select(CALLS.to_vec()).prop_map(Step::Call),
        1 => Just(Step::Think),
        1 => Just(Step::Abort),
        1 => prop::sample::select(vec![400_u16, 413, 500, 529]).prop_map(Step::Fail),
        1 => prop::sample::select(vec![CutIn::Text, CutIn::ToolUse, CutIn::Thinking]).prop_map(Step::Cut),
        1 => Just(Step::CutInput),
        1 => Just(Step::GoOn),
        1 => Just(Step::Deny),
        2 => Just(Step::Compact),
        1 => Just(Step::SummariserFails),
        1 => Just(Step::Undo),
        1 => Just(Step::Pin),
        1 => Just(Step::Unpin),
        1 => (0_usize..8).prop_map(Step::Retry),
        2 => Just(Step::Restart),
        1 => (1_usize..6).prop_map(Step::Crash),
    ]
}

async fn play(scene: &mut Scene, at: usize, step: &Step) {
    // A turn may fail, and what was said and done is then in the log all the same. What is sent is judged at the end.
    match step {
        Step::Say(count) => drop(scene.say(&format!("step {at} {}", "word ".repeat(*count))).await),
        Step::Call(directive) => {
            scene.person.answers.clear();
            drop(scene.say(&format!("step {at} {directive}")).await);
        }
        Step::Think => drop(scene.say(&format!("step {at} [[think]]")).await),
        Step::Abort => {
            // A new person has heard nothing yet.
            scene.restart();
            scene.api.push_for(has_tools, Reply::Stall { text: "half of it".to_owned() });
            let (abort, hears) = (scene.abort.clone(), scene.person.hears.clone());
            let words = format!("step {at}");
            let turn = scene.say(&words);
            let (ended, ()) = tokio::join!(turn, async {
                support::soon(&hears).await;
                abort.cancel();
            });
            drop(ended);
            scene.restart();
        }
        Step::Fail(status) => {
            let kind = if *status == 413 { "request_too_large" } else { "api_error" };
            for _ in 0..if *status >= 500 { 3 } else { 1 } {
                scene.api.push_for(has_tools, support::error(*status, kind, "planned", None));
            }
            drop(scene.say(&format!("step {at}")).await);
        }
        Step::Cut(block) => {
            scene.api.push_for(has_tools, Reply::Cut { text: "{\"comm".to_owned(), block: *block });
            drop(scene.say(&format!("step {at}")).await);
        }
        Step::CutInput => {
            let input = "{\"command\":\"ec".to_owned();
            scene.api.push_for(has_tools, Reply::CutInput { name: "bash".to_owned(), input });
            drop(scene.say(&format!("step {at}")).await);
        }
        Step::GoOn => {
            if !scene.history().messages.is_empty() {
                drop(scene.turn(Input::Nothing).await);
            }
        }
        Step::Deny => {
            scene.person.answers.clear();
            scene.person.answers.push_back(Answer::Denied { by: "person", reason: None });
            scene.person.answers.push_back(Answer::Denied { by: "person", reason: Some("no".to_owned()) });
            drop(scene.say(&format!("step {at} [[parallel:echo a||echo b]]")).await);
        }
        Step::Compact => scene.compact_if_possible().await,
        Step::SummariserFails => {
            scene.push_for_summary(support::error(400, "api_error", "planned", None));
            scene.compact_if_possible().await;
        }
        Step::Undo => {
            scene.undo();
        }
        Step::Pin | Step::Unpin => {
            if let Some(words) = scene.of_type("user").first() {
                let text = matches!(step, Step::Pin).then_some("pinned: keep this");
                let n = words["n"].as_u64().unwrap();
                scene.append(&[Draft::pin(n, text)]);
            }
        }
        Step::Retry(back) => {
            let words = scene.of_type("user");
            if let Some(words) = words.len().checked_sub(1 + back).and_then(|index| words.get(index)) {
                scene.append(&[Draft::head(words["n"].as_u64(), "retry")]);
                drop(scene.turn(Input::Nothing).await);
            }
        }
        Step::Restart => scene.restart(),
        Step::Crash(lost) => {
            let lines = scene.raw_lines();
            let kept = lines.len().saturating_sub(*lost).max(1);
            scene.restart_from(&lines[..kept]);
        }
    }
}

fn has_tools(request: &unforget_testkit::api::Recorded) -> bool {
    !support::is_summary(request)
}

/// Plays a conversation, with one more turn at the end, and looks at everything that was sent.
async fn judge(steps: &[Step], asks: Asks, model: &str) -> Result<(), TestCaseError> {
    let mut scene = Scene::with(12_000, model);
    scene.kit.asks = asks;
    scene.person.otherwise = Some(Answer::Allowed { by: "person" });
    scene.settings.tool_output = 4000;
    for (at, step) in steps.iter().enumerate() {
        play(&mut scene, at, step).await;
    }
    scene.restart();
    let last = scene.say("the last words [[long:1]]").await;
    for request in scene.api.refusals() {
        let refusal = request.refusal.clone().unwrap();
        let is_overflow = rules::is_overflow(refusal.status, refusal.kind, &refusal.message);
        prop_assert!(is_overflow, "{refusal}\n{}", String::from_utf8_lossy(&request.body));
    }
    match last {
        Ok(_) => prop_assert!(support::holds(&scene.last_request(), "the last words"), "{}", scene.last_request()),
        // Replies that were planned and not asked for may be left over.
        Err(error) => prop_assert!(error.to_string().contains("planned") || scene.api.planned() > 0, "{error}"),
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_request_of_any_conversation_passes_the_rules(
        steps in prop::collection::vec(step(), 1..STEPS),
        asks in prop::sample::select(vec![Asks::Never, Asks::First]),
        model in prop::sample::select(vec!["claude-opus-5", "claude-opus-5-5"]),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(judge(&steps, asks, model))?;
    }
}
