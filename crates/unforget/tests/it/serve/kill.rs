//! A server that is killed in the middle of an answer, and started again.

use unforget_testkit::api::Reply;
use unforget_testkit::serving::until;

use super::{PATIENCE, Person, records, serve, session, told, transcript};
use crate::scene::Scene;

#[test]
fn what_was_accepted_before_a_kill_is_answered_after_it_by_itself() {
    let scene = Scene::online();
    let mut server = serve(&scene, &[]);
    scene.api().push(Reply::Stall { text: "Once upon a time".to_owned() });
    let mut person = Person::at(&server.url);
    person.prompt(None, "c1", "a story");
    let heard = person.until_type("delta");
    let id = session(&heard);
    let seen = records(&heard).last().and_then(|record| record["n"].as_u64());
    person.prompt(None, "c2", "and another");
    person.until(|message| message["type"] == "accepted" && message["client_id"] == "c2");
    server.kill();
    let server = serve(&scene, &[]);
    let is_answered = || transcript(&scene, &id).prompts.iter().filter(|said| said.end.is_some()).count() == 2;
    assert!(until(PATIENCE, is_answered), "{:#?}", transcript(&scene, &id));
    let wanted = [("c1", "done", "ECHO(1 messages): a story"), ("c2", "done", "ECHO(3 messages): and another")];
    assert_eq!(told(&transcript(&scene, &id)), wanted);
    // Whoever comes back behind what it saw hears the rest, and nothing twice.
    let mut back = Person::at(&server.url);
    let heard = back.attach(&id, seen);
    let numbers: Vec<u64> = records(&heard).iter().map(|record| record["n"].as_u64().unwrap()).collect();
    let first = seen.map_or(0, |n| n + 1);
    assert_eq!(numbers, (first..transcript(&scene, &id).records as u64).collect::<Vec<_>>());
    // What is sent again because its sender cannot know is not said again: the answer is told.
    back.prompt(None, "c1", "a story");
    assert_eq!(back.answer("c1")["text"], "ECHO(1 messages): a story");
    assert_eq!(told(&transcript(&scene, &id)), wanted);
    assert!(scene.api().refusals().is_empty());
}

#[test]
fn a_second_server_on_a_home_is_refused() {
    let scene = Scene::online();
    let _server = serve(&scene, &[]);
    let said = scene.run(&super::SERVE);
    assert_eq!(said.code, 3, "{said:?}");
    assert!(said.err.contains("another `unforget serve` uses this home"), "{said:?}");
}
