//! Answers that do not come to their end: stopped by the person, refused by the server, tried again.

use serde_json::json;
use unforget_testkit::api::Reply;

use crate::scene::{Scene, of_type, refusal, turns, user_words};
use crate::terminal::CTRL_C;

/// How often a text is in a request.
fn count(request: &serde_json::Value, text: &str) -> usize {
    request.to_string().matches(text).count()
}

#[test]
fn ctrl_c_in_a_stream_keeps_what_came_and_the_chat_goes_on() {
    let scene = Scene::online();
    scene.api().push(Reply::Stall { text: "Once upon a time there was ".to_owned() });
    let mut terminal = scene.chat();
    terminal.begin("tell me a story");
    terminal.wait_for("there was");
    terminal.keys(CTRL_C);
    assert!(terminal.prompt().contains("[aborted; what came is saved]"), "{}", terminal.text());
    assert_eq!(scene.api().wait_for_hang_ups(1), 1);

    let records = scene.records();
    let partial = of_type(&records, "assistant");
    assert_eq!(partial.len(), 1);
    assert!(partial[0]["content"].to_string().contains("Once upon a time there was"), "{partial:?}");
    assert_eq!(turns(&records), ["aborted"]);

    assert!(terminal.say("and then?").contains("ECHO(3 messages): and then?"), "{}", terminal.text());
    terminal.begin("/quit");
    assert_eq!(terminal.ends(), 0);
    let mut again = scene.chat();
    assert!(again.say("once more").contains("ECHO(5 messages): once more"), "{}", again.text());
    assert_eq!(count(&scene.last_request(), "Once upon a time there was"), 1);
    assert!(scene.api().refusals().is_empty());
}

#[test]
fn ctrl_c_before_the_first_word_leaves_the_words_to_be_retried() {
    let scene = Scene::online();
    scene.api().push(Reply::Silence);
    let mut terminal = scene.chat();
    terminal.begin("anybody there?");
    scene.api().wait_for_requests(1);
    terminal.keys(CTRL_C);
    assert!(terminal.prompt().contains("[aborted"), "{}", terminal.text());
    assert!(terminal.say("/retry").contains("ECHO(1 messages): anybody there?"), "{}", terminal.text());
    assert_eq!(user_words(&scene.records()), ["anybody there?"]);
}

#[test]
fn retry_after_a_failed_call_sends_the_words_once() {
    let scene = Scene::online();
    scene.api().push(refusal(400, "invalid_request_error", "the moon is in the wrong place"));
    let mut terminal = scene.chat();
    let told = terminal.say("say something");
    assert!(told.contains("error: ") && told.contains("the moon is in the wrong place"), "{told}");
    assert!(told.contains("hint: your words are saved; `/retry` in the chat asks again"), "{told}");
    assert_eq!(turns(&scene.records()), ["failed"]);

    assert!(terminal.say("/retry").contains("ECHO(1 messages): say something"), "{}", terminal.text());
    assert_eq!(user_words(&scene.records()), ["say something"]);
    assert_eq!(count(&scene.last_request(), "say something"), 1);
    assert!(scene.api().refusals().is_empty());
}

#[test]
fn retry_is_offered_after_a_restart() {
    let scene = Scene::online();
    scene.api().push(refusal(400, "invalid_request_error", "no"));
    let mut terminal = scene.chat();
    terminal.say("say something");
    terminal.kill();
    let mut again = scene.chat();
    assert!(again.text().contains("Your last message has no answer yet: /retry asks again."), "{}", again.text());
    assert!(again.say("/retry").contains("ECHO(1 messages): say something"), "{}", again.text());
    assert_eq!(user_words(&scene.records()), ["say something"]);
}

#[test]
fn retry_of_an_answered_message_replaces_the_answer() {
    let scene = Scene::online();
    let blocks = |text: &str| Reply::Blocks {
        blocks: vec![json!({"type": "text", "text": text})],
        stop_reason: "end_turn".to_owned(),
    };
    scene.api().push(blocks("a poor answer"));
    scene.api().push(blocks("a better answer"));
    let mut terminal = scene.chat();
    assert!(terminal.say("/retry").contains("error: there is nothing to answer again"));
    terminal.say("say something");
    assert!(terminal.say("/retry").contains("a better answer"));
    terminal.say("go on");
    let request = scene.last_request();
    assert_eq!((count(&request, "a poor answer"), count(&request, "a better answer")), (0, 1));
    assert_eq!(count(&request, "say something"), 1);
}

#[test]
fn an_overloaded_server_is_asked_again_before_the_eyes_of_the_person() {
    let scene = Scene::online();
    let overloaded = refusal(529, "overloaded_error", "Overloaded");
    scene.api().push(overloaded);
    let mut terminal = scene.chat();
    let told = terminal.say("hello");
    assert!(told.contains("[retry 1 of 4 in ") && told.contains("Overloaded"), "{told}");
    assert!(told.contains("ECHO(1 messages): hello"), "{told}");
}

#[test]
fn an_answer_that_breaks_off_is_kept() {
    let scene = Scene::online();
    let message = "the server fell over".to_owned();
    scene.api().push(Reply::ErrorEvent {
        after_text: "The beginning".to_owned(),
        kind: "api_error".to_owned(),
        message,
    });
    let mut terminal = scene.chat();
    let told = terminal.say("hello");
    assert!(told.contains("The beginning") && told.contains("error: "), "{told}");
    assert!(of_type(&scene.records(), "assistant")[0]["content"].to_string().contains("The beginning"));
    assert!(terminal.say("are you there?").contains("ECHO(3 messages): are you there?"), "{}", terminal.text());
}
