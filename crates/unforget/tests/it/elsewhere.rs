//! A chat that goes on on another machine, with nothing but the address of a remote.

use std::any::Any;
use std::time::Instant;

use unforget_testkit::agentcore::{FakeMemory, Keys, Options};
use unforget_testkit::api::Reply;
use unforget_testkit::servers::moto::Moto;
use unforget_testkit::servers::postgres::{Kind, Server, shared};

use crate::scene::Scene;
use crate::support::files;
use crate::terminal::{PATIENCE, Terminal};

/// A place that machines reach: its address, and what has to be known besides.
pub(crate) struct Place {
    pub(crate) url: String,
    pub(crate) variables: Vec<(&'static str, String)>,
    _server: Box<dyn Any>,
}

impl Place {
    pub(crate) fn directory() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { url: format!("file://{}", folder.path().display()), variables: Vec::new(), _server: Box::new(folder) }
    }

    pub(crate) fn database(schema: &str) -> Self {
        Self { url: shared().url(schema), variables: Vec::new(), _server: Box::new(()) }
    }

    pub(crate) fn bucket(name: &str) -> Self {
        let server = Moto::open();
        server.make(name);
        let variables = vec![
            ("AWS_ACCESS_KEY_ID", "key".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "s3cret".to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ENDPOINT_URL_S3", format!("http://127.0.0.1:{}", server.port)),
        ];
        Self { url: format!("s3://{name}/sessions"), variables, _server: Box::new(()) }
    }

    pub(crate) fn memory() -> Self {
        let (access, secret, region) = ("AKIDEXAMPLE".to_owned(), "s3cret".to_owned(), "eu-central-1".to_owned());
        let keys = Keys { access: access.clone(), secret: secret.clone(), region: region.clone() };
        let server = FakeMemory::start(Options { keys: Some(keys), ..Options::default() }).unwrap();
        let variables = vec![
            ("AWS_ACCESS_KEY_ID", access),
            ("AWS_SECRET_ACCESS_KEY", secret),
            ("AWS_REGION", region),
            ("AWS_EC2_METADATA_DISABLED", "true".to_owned()),
            ("AWS_ENDPOINT_URL_BEDROCK_AGENTCORE", server.url()),
        ];
        Self { url: format!("agentcore://{}", server.memory("notes", 30)), variables, _server: Box::new(server) }
    }

    /// A machine that has never been there.
    fn machine(&self) -> Scene {
        self.reached_by(Scene::offline())
    }

    fn reached_by(&self, scene: Scene) -> Scene {
        self.variables.iter().fold(scene, |scene, (name, value)| scene.with(name, value))
    }
}

/// How many sessions wait to be sent.
fn waiting(scene: &Scene) -> usize {
    files(&scene.home.path("home/outbox")).len()
}

/// Asks how it stands with the remote until everything is there.
fn wait_until_there(terminal: &mut Terminal) {
    let deadline = Instant::now() + PATIENCE;
    while !terminal.say("/remote").contains("Everything is there.") {
        assert!(Instant::now() < deadline, "{}", terminal.text());
        // The screen has room for some hundred prompts only.
        std::thread::sleep(std::time::Duration::from_millis(300));
    }
}

fn goes_on_after_a_kill(place: &Place) {
    let (one, two) = (place.machine(), place.machine());
    // A turn is over when it is there, however slow the machine is that tests this.
    let chat = ["chat", "--remote", &place.url, "--ack", "remote"];
    let mut terminal = one.start(&chat);
    terminal.prompt();
    let answer = terminal.say("My name is Ada.");
    assert!(!answer.contains("not yet there"), "{answer}");
    terminal.kill();
    let mut other = two.start(&chat);
    let banner = other.prompt();
    assert!(banner.contains("Restored: 1 previous turn"), "{banner}");
    assert!(other.say("What is my name?").contains("Ada"), "{}", other.text());
    assert!(!other.text().contains("may be writing"), "the dead of this machine write no more: {}", other.text());
    other.begin("/quit");
    assert_eq!(other.ends(), 0);
    // And back again: what was said there is here.
    let said = one.run(&["chat", "--remote", &place.url, "--ack", "remote", "-p", "What did I ask before?"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(one.records().iter().any(|record| record.to_string().contains("What is my name?")), "{said:?}");
    assert_eq!((waiting(&one), waiting(&two)), (0, 0));
}

#[test]
fn a_chat_goes_on_elsewhere_after_a_kill_by_a_directory() {
    goes_on_after_a_kill(&Place::directory());
}

#[test]
fn a_chat_goes_on_elsewhere_after_a_kill_by_postgres() {
    goes_on_after_a_kill(&Place::database("elsewhere"));
}

#[test]
fn a_chat_goes_on_elsewhere_after_a_kill_by_s3() {
    goes_on_after_a_kill(&Place::bucket("elsewhere"));
}

#[test]
fn a_chat_goes_on_elsewhere_after_a_kill_by_agentcore() {
    goes_on_after_a_kill(&Place::memory());
}

#[test]
fn a_second_machine_is_told_who_writes() {
    let place = Place::directory();
    let (one, two) = (place.machine(), place.machine());
    let chat = ["chat", "--remote", &place.url, "--ack", "remote"];
    let mut terminal = one.start(&chat);
    terminal.prompt();
    terminal.say("hello");
    let mut other = two.start(&chat);
    other.prompt();
    other.say("hello, too");
    let (writer, text) = (format!("/{}@", terminal.process()), other.text());
    assert!(text.contains(&writer) && text.contains("may be writing this session, too"), "{text}");
}

#[test]
fn words_leave_while_the_model_still_answers() {
    let place = Place::directory();
    let (one, two) = (place.reached_by(Scene::online()), place.machine());
    one.api().push(Reply::Stall { text: "I am thinking ".to_owned() });
    let mut terminal = one.start(&["chat", "--remote", &place.url]);
    terminal.prompt();
    terminal.begin("remember the pelican");
    terminal.wait_for("I am thinking");
    let deadline = Instant::now() + PATIENCE;
    // Another machine asks until the words are there; the turn here is still running.
    while two.run(&["pull", "main:cli:user", "--remote", &place.url]).code != 0 {
        assert!(Instant::now() < deadline, "the words never left");
    }
    terminal.kill();
    let mut other = two.start(&["chat", "--remote", &place.url]);
    let banner = other.prompt();
    assert!(banner.contains("has no answer yet"), "{banner}");
    assert!(two.records().iter().any(|record| record.to_string().contains("pelican")));
}

#[test]
fn a_turn_is_kept_while_the_remote_is_away_and_goes_out_later() {
    let server = Server::start(Kind::Usual);
    let url = server.url("away");
    let place = Place { url: url.clone(), variables: Vec::new(), _server: Box::new(()) };
    let (one, two) = (place.machine(), place.machine());
    assert_eq!(one.run(&["chat", "--remote", &url, "-p", "My name is Ada."]).code, 0);
    server.kill();
    let said = one.run(&["chat", "--remote", &url, "-p", "I live in Zurich."]);
    assert_eq!(said.code, 0, "the turn is saved here: {said:?}");
    assert!(said.err.contains("saved here, not yet there"), "{said:?}");
    assert!(said.err.contains("going on with what is here"), "{said:?}");
    assert_eq!(waiting(&one), 1);
    // Looking in and leaving does not make it be there.
    let mut terminal = one.start(&["chat", "--remote", &url]);
    terminal.prompt();
    assert!(terminal.say("/remote").contains("not yet there"), "{}", terminal.text());
    terminal.begin("/quit");
    assert_eq!(terminal.ends(), 0);
    assert_eq!(waiting(&one), 1);
    // Who wants it to be there is told that it is not.
    let said = one.run(&["chat", "--remote", &url, "--ack", "remote", "-p", "I like herons."]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("saved here, not yet there"), "{said:?}");
    // Who has nothing here does not begin anything under an old name.
    let said = two.run(&["chat", "--remote", &url, "-p", "What is my name?"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("nothing was begun"), "{said:?}");
    assert_eq!(two.sessions().len(), 0);
    server.revive();
    // Another conversation is enough: what waits goes out with it.
    send_the_rest(&one, &url);
    let said = two.run(&["chat", "--remote", &url, "--ack", "remote", "-p", "What is my name?"]);
    assert_eq!(said.code, 0, "{said:?}");
    let records: String = two.records().iter().map(ToString::to_string).collect();
    assert!(["Ada", "Zurich", "herons"].iter().all(|word| records.contains(word)), "{records}");
}

/// Talks of something else until nothing waits any more: a program that ends does not wait for long.
fn send_the_rest(scene: &Scene, url: &str) {
    let deadline = Instant::now() + PATIENCE;
    while {
        let said = scene.run(&["chat", "--remote", url, "--key", "main:cli:other", "-p", "hello"]);
        assert_eq!(said.code, 0, "{said:?}");
        waiting(scene) > 0
    } {
        assert!(Instant::now() < deadline, "something waits for ever");
    }
}

#[test]
fn the_prompt_says_what_is_not_there_yet_and_when_it_is() {
    let server = Server::start(Kind::Usual);
    let url = server.url("prompt");
    let place = Place { url: url.clone(), variables: Vec::new(), _server: Box::new(()) };
    let one = place.machine();
    let mut terminal = one.start(&["chat", "--remote", &url]);
    terminal.prompt();
    terminal.say("hello");
    wait_until_there(&mut terminal);
    server.kill();
    let answer = terminal.say("and now?");
    assert!(answer.contains("[saved here, not yet there"), "{answer}");
    assert!(terminal.text().contains("main:cli:user, not yet there] >"), "{}", terminal.text());
    server.revive();
    terminal.say("once more");
    wait_until_there(&mut terminal);
    terminal.begin("/quit");
    assert_eq!(terminal.ends(), 0);
    assert_eq!(waiting(&one), 0);
    assert!(place.machine().run(&["chat", "--remote", &url, "-p", "hm"]).err.contains("lines fetched"));
}

#[test]
fn what_went_on_in_two_places_is_told_before_a_word_is_lost() {
    let place = Place::directory();
    let (one, two) = (place.machine(), place.machine());
    let say = |scene: &Scene, words: &str, more: &[&str]| {
        let mut args = vec!["chat", "-p", words];
        args.extend(more);
        scene.run(&args)
    };
    let remote = ["--remote", place.url.as_str(), "--ack", "remote"];
    assert_eq!(say(&one, "hello", &remote).code, 0);
    assert_eq!(say(&two, "I am here, too", &remote).code, 0);
    // Without the remote, words are said that nobody else knows of.
    assert_eq!(say(&one, "a pelican, alone", &["--no-remote"]).code, 0);
    let said = say(&one, "and a heron", &remote);
    assert_eq!(said.code, 3, "{said:?}");
    assert!(said.err.contains("went on differently") && said.err.contains("--rebase"), "{said:?}");
    assert!(!one.records().iter().any(|record| record.to_string().contains("heron")), "nothing was said");
    let key = "main:cli:user";
    assert_eq!(one.run(&["pull", key, "--rebase", "--remote", &place.url]).code, 0);
    assert_eq!(say(&one, "and a heron", &remote).code, 0);
    let records: String = one.records().iter().map(ToString::to_string).collect();
    assert!(["I am here, too", "a pelican, alone", "and a heron"].iter().all(|words| records.contains(words)));
}

#[test]
fn a_chat_that_was_overtaken_is_told_with_its_next_turn() {
    let place = Place::directory();
    let (one, two) = (place.machine(), place.machine());
    let mut terminal = one.start(&["chat", "--remote", &place.url]);
    terminal.prompt();
    terminal.say("hello");
    wait_until_there(&mut terminal);
    assert_eq!(two.run(&["chat", "--remote", &place.url, "--ack", "remote", "-p", "I was faster"]).code, 0);
    terminal.say("this is a pelican");
    let deadline = Instant::now() + PATIENCE;
    while !terminal.say("/remote").contains("--rebase") {
        assert!(Instant::now() < deadline, "{}", terminal.text());
    }
    assert!(terminal.text().replace("\n  ", " ").contains("went on differently"), "{}", terminal.text());
    terminal.begin("/quit");
    assert_eq!(terminal.ends(), 0);
    assert_eq!(waiting(&one), 1, "the words are marked as not there");
    assert_eq!(one.run(&["pull", "main:cli:user", "--rebase", "--remote", &place.url]).code, 0);
    let said = two.run(&["chat", "--remote", &place.url, "-p", "what did I say?"]);
    assert_eq!(said.code, 0, "{said:?}");
    let records: String = two.records().iter().map(ToString::to_string).collect();
    assert!(records.contains("I was faster") && records.contains("this is a pelican"), "{records}");
}

#[test]
fn words_from_before_the_remote_are_sent_when_the_chat_is_opened_with_it() {
    let place = Place::directory();
    let (one, two) = (place.machine(), place.machine());
    assert_eq!(one.run(&["chat", "--no-remote", "-p", "a pelican, alone"]).code, 0);
    let mut terminal = one.start(&["chat", "--remote", &place.url]);
    terminal.prompt();
    wait_until_there(&mut terminal);
    terminal.begin("/quit");
    assert_eq!(terminal.ends(), 0);
    assert_eq!(waiting(&one), 0);
    assert_eq!(two.run(&["chat", "--remote", &place.url, "-p", "hello"]).code, 0);
    assert!(two.records().iter().any(|record| record.to_string().contains("a pelican, alone")));
}

#[test]
fn what_one_conversation_waits_for_is_not_forgotten_in_another() {
    let server = Server::start(Kind::Usual);
    let url = server.url("others");
    let one = Scene::offline();
    let mut terminal = one.start(&["chat", "--remote", &url]);
    terminal.prompt();
    terminal.say("hello");
    server.kill();
    assert!(terminal.say("a pelican").contains("not yet there"), "{}", terminal.text());
    terminal.say("/new other");
    server.revive();
    terminal.say("a heron");
    terminal.begin("/quit");
    assert_eq!(terminal.ends(), 0);
    // Whatever did not go out by then goes out when it is asked for.
    let said = one.run(&["push", "--remote", &url]);
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(waiting(&one), 0);
    let two = Scene::offline();
    assert_eq!(two.run(&["pull", "--all", "--remote", &url]).code, 0);
    let said = two.run(&["search", "pelican"]);
    assert_eq!(said.code, 0, "{said:?}");
}

#[test]
fn a_directory_that_is_not_mounted_is_not_an_empty_remote() {
    let one = Scene::offline();
    let nowhere = format!("file://{}", one.home.path("not-mounted").display());
    let said = one.run(&["chat", "--remote", &nowhere, "-p", "hello"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("there is no directory") && said.err.contains("mkdir"), "{said:?}");
    assert_eq!(one.sessions().len(), 0);
}
