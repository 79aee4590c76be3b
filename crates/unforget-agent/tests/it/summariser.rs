//! A summariser that fails, in every way: nothing is lost, nobody waits for ever, and it is left alone for a while.

use std::time::Duration;

use unforget_testkit::api::Reply;

use crate::support::{self, Scene, holds};

/// How often a planned failure is planned: as often as the client may try.
const TRIES: usize = 3;

async fn talk(scene: &mut Scene, turns: usize) {
    for turn in 0..turns {
        scene.says(&format!("turn {turn}, see src/file_{turn}.rs {}", "words ".repeat(40))).await;
    }
}

/// A conversation is compacted while the summariser answers so; a digest must take the place of its summary.
async fn digest_in_place_of(replies: Vec<Reply>, timeout: Duration, message: &str) {
    let mut scene = Scene::new();
    talk(&mut scene, 8).await;
    let before = scene.raw_lines();
    scene.settings.summary_timeout = timeout;
    for reply in replies {
        scene.push_for_summary(reply);
    }
    scene.compact().await.expect("a digest");
    assert_eq!(scene.raw_lines()[..before.len()], before, "everything is as it was");
    let errors = scene.of_type("error");
    assert_eq!((errors.len(), &errors[0]["about"]), (1, &"compaction".into()));
    assert!(holds(&errors[0]["message"], message), "{}", errors[0]["message"]);
    let compactions = scene.of_type("compaction");
    assert_eq!((compactions.len(), &compactions[0]["by"]), (1, &"rule".into()));
    assert!(holds(&compactions[0]["summary"], "src/file_0.rs"), "{}", compactions[0]["summary"]);
    scene.restart();
    scene.says("after").await;
    assert!(holds(&scene.last_request(), "(Written by rule, without a model.)"));
    scene.assert_no_refusal();
}

const PATIENT: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_summariser_that_fails_gives_way_to_a_digest() {
    let busy = support::error(529, "overloaded_error", "busy", None);
    digest_in_place_of(vec![busy; TRIES], PATIENT, "busy").await;
}

#[tokio::test]
async fn a_summariser_that_is_silent_gives_way_to_a_digest() {
    digest_in_place_of(vec![Reply::Silence], Duration::from_millis(50), "took longer").await;
}

#[tokio::test]
async fn a_summariser_that_stalls_gives_way_to_a_digest() {
    let stall = Reply::Stall { text: "The user".to_owned() };
    digest_in_place_of(vec![stall], Duration::from_millis(200), "took longer").await;
}

#[tokio::test]
async fn an_empty_summary_gives_way_to_a_digest() {
    digest_in_place_of(vec![support::text(" \n")], PATIENT, "empty").await;
}

#[tokio::test]
async fn a_summary_that_is_cut_gives_way_to_a_digest() {
    let cut = Reply::Cut { text: "The user".to_owned(), block: unforget_testkit::api::CutIn::Text };
    digest_in_place_of(vec![cut], PATIENT, "broke off").await;
}

#[tokio::test]
async fn a_summary_that_is_longer_than_the_conversation_gives_way_to_a_digest() {
    let long = support::text(&"and then the user said something else ".repeat(2000));
    digest_in_place_of(vec![long], PATIENT, "not smaller").await;
}

#[tokio::test]
async fn a_summariser_that_overflows_each_time_gives_way_to_a_digest() {
    let full = support::error(400, "invalid_request_error", "prompt is too long: 9 tokens > 8 maximum", None);
    digest_in_place_of(vec![full; 8], PATIENT, "too long").await;
}

#[tokio::test]
async fn g15_a_summariser_that_failed_twice_is_left_alone_for_some_turns() {
    let mut scene = Scene::new();
    for _ in 0..4 {
        scene.push_for_summary(support::error(400, "invalid_request_error", "no", None));
    }
    for (turns, asked) in [(8, 1), (6, 2), (4, 2), (3, 2), (4, 3), (4, 3)] {
        talk(&mut scene, turns).await;
        scene.restart();
        scene.compact().await.expect("a digest");
        assert_eq!(scene.summaries(), asked, "{} compactions", scene.of_type("compaction").len());
    }
    assert!(scene.of_type("compaction").iter().all(|compaction| compaction["by"] == "rule"));
    scene.assert_no_refusal();
}

#[tokio::test]
async fn a_summary_that_works_ends_the_count_of_failures() {
    let mut scene = Scene::new();
    for fails in [true, false, true, false, true, false] {
        talk(&mut scene, 5).await;
        if fails {
            scene.push_for_summary(support::error(400, "invalid_request_error", "no", None));
        }
        let asked = scene.summaries();
        scene.compact().await.unwrap();
        assert_eq!(scene.summaries(), asked + 1, "it is asked each time");
        let by = scene.of_type("compaction").last().unwrap()["by"].clone();
        assert_eq!(by, if fails { "rule" } else { "model" });
    }
    scene.assert_no_refusal();
}

#[tokio::test]
async fn a_turn_whose_summariser_is_silent_is_answered() {
    let mut scene = Scene::with_window(16_000);
    scene.settings.summary_timeout = Duration::from_millis(50);
    for _ in 0..20 {
        scene.push_for_summary(Reply::Silence);
    }
    for turn in 0..40 {
        scene.says(&format!("turn {turn} {}", "some more words ".repeat(300))).await;
    }
    let (compactions, asked) = (scene.of_type("compaction").len(), scene.summaries());
    assert!(compactions >= 3 && asked < compactions, "{compactions} compactions, asked {asked} times");
    scene.assert_no_refusal();
}
