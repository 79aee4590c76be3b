//! What reaches the screen: nothing too wide, no colours that are not wanted, nothing that the terminal would obey.

use serde_json::{Value, json};
use unforget_testkit::api::Reply;

use crate::scene::Scene;
use crate::terminal::Terminal;

/// All but `/history`, which shows words as they were said: the terminal breaks long ones.
const COMMANDS: [&str; 11] = [
    "/help",
    "/sessions",
    "/context",
    "/tools",
    "/model",
    "/title",
    "/pin",
    "/pin list",
    "/compact",
    "/undo-com",
    "/switch nowhere",
];

fn answer(scene: &Scene, blocks: Vec<Value>) {
    scene.api().push(Reply::Blocks { blocks, stop_reason: "end_turn".to_owned() });
}

/// A chat that has shown about everything there is.
fn tour(scene: &Scene) -> Terminal {
    let long = "A paragraph that is much longer than a line of the terminal, with 漢字 in it. ".repeat(4);
    let table =
        "| a | b |\n|---|---|\n| one | a cell that is rather long, so that the table has to be made narrower |\n";
    let text = format!("# Title\n\n{long}\n\n- {long}\n\n```rust\nfn main() {{}}\n```\n\n{table}");
    answer(scene, vec![json!({"type": "text", "text": text})]);
    let mut terminal = scene.chat();
    terminal.say("show me");
    terminal.say(&format!("[[bash:echo {}]]", "many words ".repeat(4)));
    terminal.say(&format!("/title {}", "a long title ".repeat(3)));
    for command in COMMANDS {
        terminal.say(command);
    }
    terminal
}

#[test]
fn no_line_is_wider_than_the_window() {
    let scene = Scene::online().with("UNFORGET_ALLOW", "bash");
    let terminal = tour(&scene);
    assert_eq!(terminal.too_wide(), Vec::<String>::new());
}

#[test]
fn no_color_gives_no_colours_and_no_weight() {
    let scene = Scene::online().with("UNFORGET_ALLOW", "bash").with("NO_COLOR", "1");
    let terminal = tour(&scene);
    let text = String::from_utf8_lossy(&terminal.bytes()).into_owned();
    assert_eq!(styles(&text), Vec::<String>::new());
}

#[test]
fn a_terminal_has_colours_otherwise() {
    let scene = Scene::online().with("UNFORGET_ALLOW", "bash");
    let terminal = tour(&scene);
    let text = String::from_utf8_lossy(&terminal.bytes()).into_owned();
    assert!(!styles(&text).is_empty());
}

/// The sequences that change colours or weight.
fn styles(text: &str) -> Vec<String> {
    let sequences = text.split("\u{1b}[").skip(1);
    let style = |rest: &str| {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != ';')?;
        rest[end..].starts_with('m').then(|| rest[..end].to_owned())
    };
    sequences.filter_map(style).collect()
}

#[test]
fn escape_sequences_of_the_model_and_of_tools_do_not_reach_the_terminal() {
    let scene = Scene::online().with("UNFORGET_ALLOW", "bash");
    let evil = "before \u{1b}]0;EVIL-TITLE\u{7} and \u{9b}2J behind \u{1b}[31mred";
    answer(&scene, vec![json!({"type": "text", "text": evil})]);
    let mut terminal = scene.chat();
    assert!(terminal.say("hello").contains("behind"), "{}", terminal.text());
    terminal.say("/history");
    terminal.say(r"[[bash:printf '\033]0;EVIL-TITLE\007 output']]");
    terminal.say(&format!("/title {}", "safe"));
    scene.api().push(Reply::Error {
        status: 400,
        kind: "invalid_request_error".to_owned(),
        message: "bad \u{1b}]0;EVIL-TITLE\u{7}".to_owned(),
        retry_after: None,
    });
    terminal.say("again");
    let bytes = terminal.bytes();
    let text = String::from_utf8_lossy(&bytes);
    assert!(text.contains("EVIL-TITLE"));
    assert!(!text.contains("\u{1b}]0;"), "a title was set");
    assert!(!text.contains("\u{9b}") && !text.contains("\u{1b}[2J"), "the screen was cleared");
    assert!(!text.contains("\u{1b}[31mred"), "a colour was set");
}

#[test]
fn the_question_shows_what_a_terminal_would_obey() {
    let scene = Scene::online();
    let call = json!({"type": "tool_use", "name": "bash", "input": {"command": "rm -rf x\u{1b}[2K\recho harmless"}});
    scene.api().push(Reply::Blocks { blocks: vec![call], stop_reason: "tool_use".to_owned() });
    let mut terminal = scene.chat();
    terminal.begin("hello");
    let question = terminal.question();
    assert!(question.contains("command: rm -rf x␛[2K␍echo harmless"), "{question}");
}

#[test]
fn a_new_size_of_the_window_does_not_disturb_the_chat() {
    let scene = Scene::online();
    let mut terminal = scene.chat();
    terminal.say("hello");
    terminal.keys("half a ");
    terminal.wait_for_last_row("[main:cli:user] > half a");
    terminal.resize(60);
    terminal.keys("thought\r");
    terminal.wait_for("ECHO(3 messages): half a thought");
}
