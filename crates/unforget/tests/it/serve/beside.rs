//! A terminal and a server on the same home: one writes a session at a time, and both see it.

use serde_json::json;
use unforget_testkit::api::Reply;

use super::{Person, records, serve, session};
use crate::scene::{Scene, user_words};

#[test]
fn a_terminal_is_told_that_the_server_has_the_session() {
    let scene = Scene::online();
    let server = serve(&scene, &[]);
    let mut person = Person::at(&server.url);
    person.say(&json!({ "type": "prompt", "key": "main:cli:user", "client_id": "c1", "prompt": "hello" }));
    person.answer("c1");
    let said = scene.run(&["chat", "-p", "me too"]);
    assert_eq!((said.code, said.out.as_str()), (3, ""), "{said:?}");
    assert!(said.err.contains(&server.id().to_string()), "the holder is not named: {said:?}");
    assert_eq!(user_words(&scene.records()), ["hello"]);
}

#[test]
fn a_client_is_told_that_a_terminal_has_the_session() {
    let scene = Scene::online();
    assert_eq!(scene.run(&["chat", "-p", "hello"]).code, 0);
    let server = serve(&scene, &[]);
    scene.api().push(Reply::Stall { text: "slow".to_owned() });
    let terminal = scene.command(&["chat", "-p", "a story"]).spawn().unwrap();
    scene.api().wait_for_requests(2);
    let mut person = Person::at(&server.url);
    person.say(&json!({ "type": "prompt", "key": "main:cli:user", "client_id": "c1", "prompt": "me too" }));
    let answer = person.answer("c1");
    assert_eq!(answer["error"]["code"], "busy", "{answer}");
    assert!(answer["error"]["message"].to_string().contains(&terminal.id().to_string()), "{answer}");
    scene.api().release();
    assert!(terminal.wait_with_output().unwrap().status.success());
    // It was not taken, so the same prompt may come again.
    let mut again = Person::at(&server.url);
    again.prompt(Some(&scene.sessions()[0]), "c1", "me too");
    assert_eq!(again.answer("c1")["state"], "done");
    assert_eq!(user_words(&scene.records()), ["hello", "a story", "me too"]);
}

#[test]
fn who_watches_at_the_server_sees_what_a_terminal_writes() {
    let scene = Scene::online();
    assert_eq!(scene.run(&["chat", "-p", "hello"]).code, 0);
    let server = serve(&scene, &[]);
    let mut person = Person::at(&server.url);
    let heard = person.attach(&scene.sessions()[0], None);
    let before = records(&heard).len();
    assert_eq!((session(&heard), before), (scene.sessions()[0].clone(), scene.records().len()));
    assert_eq!(scene.run(&["chat", "-p", "from a terminal"]).code, 0);
    let heard = person.until(|message| message["record"]["type"] == "turn" && message["record"]["state"] == "done");
    assert_eq!(records(&heard), scene.records()[before..].iter().collect::<Vec<_>>());
}
