//! SIGTERM, as a deployment sends it: in the middle of an answer (fault S04).

use unforget_testkit::api::Reply;
use unforget_testkit::serving::until;

use super::{PATIENCE, Person, serve, session, told, transcript};
use crate::scene::Scene;

#[test]
fn s04_an_answer_that_does_not_end_is_marked_everybody_is_told_and_it_goes_on_after_the_next_start() {
    let scene = Scene::online();
    let mut server = serve(&scene, &[]);
    scene.api().push(Reply::Stall { text: "Once upon a time".to_owned() });
    let mut person = Person::at(&server.url);
    person.prompt(None, "c1", "a story");
    let id = session(&person.until_type("delta"));
    server.terminate();
    let (heard, code) = person.rest();
    assert_eq!(code, Some(1012), "{heard:#?}");
    let told_of = |kind: &str| heard.iter().find(|message| message["type"] == kind);
    assert_eq!(told_of("failed").expect("what becomes of it")["error"]["code"], "unavailable", "{heard:#?}");
    assert_eq!(told_of("error").expect("why it ends")["error"]["code"], "unavailable", "{heard:#?}");
    let ended = server.ends(PATIENCE).expect("it does not end");
    assert_eq!(ended.code(), Some(0));
    assert_eq!(told(&transcript(&scene, &id)), [("c1", "", "")]);
    let _server = serve(&scene, &[]);
    assert!(until(PATIENCE, || told(&transcript(&scene, &id)).iter().any(|(_, end, _)| *end == "done")));
    assert_eq!(transcript(&scene, &id).prompts.len(), 1);
}

#[test]
fn an_answer_that_ends_in_time_is_told_to_its_end() {
    let scene = Scene::online();
    let mut server = serve(&scene, &["--limit", "shutdown=120"]);
    scene.api().push(Reply::Stall { text: "Once upon a time".to_owned() });
    let mut person = Person::at(&server.url);
    person.prompt(None, "c1", "a story");
    let id = session(&person.until_type("delta"));
    person.prompt(None, "c2", "and another");
    person.until(|message| message["type"] == "accepted" && message["client_id"] == "c2");
    server.terminate();
    // Nobody comes in any more: then it has begun to stop.
    let address = server.url.trim_start_matches("http://").to_owned();
    assert!(until(PATIENCE, || std::net::TcpStream::connect(&address).is_err()));
    scene.api().release();
    let (heard, code) = person.rest();
    assert_eq!(code, Some(1012), "{heard:#?}");
    let done = heard.iter().find(|message| message["type"] == "done").expect("the end of the turn");
    assert_eq!((done["state"].as_str(), done["client_id"].as_str()), (Some("done"), Some("c1")), "{heard:#?}");
    assert_eq!(server.ends(PATIENCE).and_then(|ended| ended.code()), Some(0));
    assert_eq!(told(&transcript(&scene, &id)).len(), 1, "nothing is begun any more");
    // What waited was accepted, and runs when the server is there again.
    let _server = serve(&scene, &[]);
    assert!(until(PATIENCE, || transcript(&scene, &id).named("c2").iter().any(|said| said.end.is_some())));
    assert_eq!(transcript(&scene, &id).prompts.len(), 2);
}
