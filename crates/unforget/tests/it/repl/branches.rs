//! Other ways through a conversation: taken back, gone forward, begun anew beside the old one, and never lost.

use serde_json::{Value, json};

use crate::scene::{Scene, of_type, user_words};
use crate::terminal::{TAB, Terminal};

/// The words of the user in the last request.
fn sent(scene: &Scene) -> Vec<String> {
    let request = scene.last_request();
    let messages = request["messages"].as_array().unwrap().clone();
    let of_user = messages.into_iter().filter(|message| message["role"] == "user");
    let blocks = of_user.flat_map(|message| message["content"].as_array().unwrap().clone());
    blocks.filter_map(|block| block["text"].as_str().map(str::to_owned)).collect()
}

/// The number of the record in which the user says this.
fn said_in(scene: &Scene, words: &str) -> u64 {
    let records = scene.records();
    of_type(&records, "user").iter().find(|record| record["content"] == words).unwrap()["n"].as_u64().unwrap()
}

fn three_turns(scene: &Scene) -> Terminal {
    let mut terminal = scene.chat();
    for words in ["one", "two", "three"] {
        terminal.say(words);
    }
    terminal
}

#[test]
fn undo_takes_back_the_last_turn_and_redo_brings_it_back() {
    let scene = Scene::online();
    let mut terminal = three_turns(&scene);
    let head = |scene: &Scene| scene.records().last().unwrap().clone();
    let tip = head(&scene)["n"].as_u64().unwrap();
    let told = terminal.say("/undo");
    assert!(told.contains("Taken back: three") && told.contains("behind assistant: ECHO"), "{told}");
    assert!(told.contains(&format!("Nothing is lost: /redo or /switch-branch {tip} comes back.")), "{told}");
    assert!(terminal.say("/undo").contains("Taken back: two"));
    assert!(terminal.say("/redo").contains("Now at record"));
    assert!(terminal.say("/redo").contains(&format!("Now at record {tip}")));
    assert_eq!((&head(&scene)["to"], &head(&scene)["reason"]), (&json!(tip), &json!("redo")));
    assert!(terminal.say("/redo").contains("error: there is nothing to go forward to"));
    terminal.say("/undo");
    terminal.say("instead");
    assert_eq!(sent(&scene), ["one", "two", "instead"]);
    assert!(terminal.say("/redo").contains("hint: nothing is lost: /tree"));
    assert_eq!(user_words(&scene.records()), ["one", "two", "three", "instead"]);
    assert!(scene.api().refusals().is_empty());
}

#[test]
fn an_undo_of_everything_ends_at_the_beginning() {
    let scene = Scene::online();
    let mut terminal = scene.chat();
    assert!(terminal.say("/undo").contains("error: there is nothing to take back"));
    terminal.say("one");
    assert!(terminal.say("/undo").contains("before any words"));
    assert!(terminal.say("/undo").contains("error: there is nothing to take back"));
    terminal.say("anew");
    assert_eq!(sent(&scene), ["anew"]);
}

#[test]
fn rewind_goes_on_behind_a_record_also_after_a_restart() {
    let scene = Scene::online();
    let mut terminal = three_turns(&scene);
    // The answer is the record behind the words.
    let answer = said_in(&scene, "one") + 1;
    let told = terminal.say(&format!("/rewind {answer}"));
    assert!(told.contains(&format!("Now at record {answer}, behind assistant: ECHO")), "{told}");
    terminal.begin("/quit");
    terminal.ends();
    let mut again = scene.chat();
    again.say("other");
    assert_eq!(sent(&scene), ["one", "other"]);
    for (wrong, why) in [
        ("/rewind", "where to?"),
        ("/rewind 9999", "record 9999 is no step"),
        ("/rewind x", "no branch or checkpoint `x`"),
    ] {
        let told = again.say(wrong);
        assert!(told.contains(&format!("error: {why}")) || told.contains(why), "{wrong}: {told}");
    }
    let head = of_type(&scene.records(), "head")[0]["n"].clone();
    assert!(again.say(&format!("/rewind {head}")).contains("is no step of this conversation"));
    assert!(again.say("/rewind 0").contains("Now at record 0, before any words"));
    again.say("from the start");
    assert_eq!(sent(&scene), ["from the start"]);
}

#[test]
fn a_rewind_to_any_record_of_a_tool_call_is_accepted() {
    let scene = Scene::online();
    let mut terminal = scene.chat();
    terminal.begin("[[bash:echo it works]]");
    terminal.answer("y\r");
    terminal.prompt();
    let steps: Vec<u64> =
        scene.records().iter().filter_map(|record| record.get("parent").and(record["n"].as_u64())).collect();
    assert!(steps.len() > 6, "{steps:?}");
    terminal.begin("/quit");
    terminal.ends();
    for n in steps {
        let said = scene.feed(&[], &format!("/rewind {n}\nhello\nand on\n"));
        assert_eq!((said.code, said.err.as_str()), (0, ""), "record {n}: {said:?}");
        assert!(
            said.out.contains(&format!("at record {n}")) && said.out.contains("): and on"),
            "record {n}: {}",
            said.out
        );
    }
    assert!(scene.api().refusals().is_empty(), "{:?}", scene.api().refusals());
}

#[test]
fn branches_are_begun_switched_and_named_in_the_tree() {
    let scene = Scene::online();
    let mut terminal = scene.chat();
    terminal.say("one");
    let told = terminal.say("/branch side way");
    assert!(told.contains("Branch side way begins behind record"), "{told}");
    assert!(told.contains("/switch-branch main goes back"), "{told}");
    terminal.say("aside");
    terminal.say("/switch-branch main");
    terminal.say("straight");
    assert_eq!(sent(&scene), ["one", "straight"]);
    let told = terminal.say("/switch-branch side way");
    assert!(told.contains("on side way, behind assistant: ECHO(3 messages): aside"), "{told}");
    terminal.say("further");
    assert_eq!(sent(&scene), ["one", "aside", "further"]);
    let tree = terminal.say("/tree");
    assert!(tree.contains("2 branches · 4 turns") && tree.contains("on `side way`"), "{tree}");
    assert!(tree.contains("├─● ") && tree.contains("[main]") && tree.contains("[side way] ← here"), "{tree}");
    assert!(!tree.contains("further") && terminal.say("/tree all").contains("○ "), "{tree}");
    let listed = terminal.say("/branch");
    assert!(listed.contains("main") && listed.contains("<- here"), "{listed}");
    for (wrong, why) in [
        ("/branch side way", "there is a branch `side way` already"),
        ("/branch 12", "a name must not be a number"),
        ("/switch-branch nowhere", "there is no branch `nowhere`"),
        ("/switch-branch", "which one?"),
        ("/tree sideways", "/tree all"),
    ] {
        let told = terminal.say(wrong);
        assert!(told.contains("error: ") && told.contains(why), "{wrong}: {told}");
    }
    assert!(terminal.too_wide().is_empty(), "{:#?}", terminal.too_wide());
}

#[test]
fn a_branch_that_ends_where_another_goes_on_tells_the_words_before_it() {
    let scene = Scene::online();
    let mut terminal = three_turns(&scene);
    terminal.say("/undo");
    let listed = terminal.say("/branch");
    assert!(listed.contains("  main                  behind: two"), "{listed}");
    assert!(!listed.contains("nothing was said"), "{listed}");
    terminal.say("/rewind 0");
    assert!(terminal.say("/branch").contains("(before any words)"));
}

#[test]
fn a_line_without_a_name_is_reached_by_its_number() {
    let scene = Scene::online();
    let mut terminal = three_turns(&scene);
    let tip = scene.records().last().unwrap()["n"].clone();
    terminal.say("/undo");
    terminal.say("instead");
    terminal.say(&format!("/switch-branch {tip}"));
    terminal.say("four");
    assert_eq!(sent(&scene), ["one", "two", "three", "four"]);
    assert!(terminal.say("/switch-branch main").contains("ECHO(5 messages): instead"), "{}", terminal.text());
    assert!(terminal.say("/switch-branch main").contains("That is where the conversation is."));
}

#[test]
fn tab_completes_the_name_of_a_branch() {
    let scene = Scene::offline();
    let mut terminal = scene.chat();
    terminal.say("/branch holiday plans");
    terminal.say("/switch-branch main");
    terminal.keys("/switch-branch holi");
    terminal.keys(TAB);
    terminal.wait_for_last_row("[main:cli:user] > /switch-branch holiday plans");
}

#[test]
fn a_fork_goes_on_alone_and_the_original_is_untouched() {
    let scene = Scene::online();
    let mut terminal = three_turns(&scene);
    let first = scene.sessions()[0].clone();
    let before = scene.records_of(&first);
    let told = terminal.say(&format!("/fork {}", said_in(&scene, "two") + 1));
    assert!(told.contains("Forked at record") && told.contains(&format!("/switch {first} goes back")), "{told}");
    terminal.say("in the fork");
    assert_eq!(sent(&scene), ["one", "two", "in the fork"]);
    assert_eq!(scene.records_of(&first), before);
    let forked: Vec<Value> = scene.records_of(scene.sessions().iter().find(|id| **id != first).unwrap());
    assert_eq!(forked[0]["origin"]["id"], json!(first));
    terminal.say(&format!("/switch {first}"));
    terminal.say("four");
    assert_eq!(sent(&scene), ["one", "two", "three", "four"]);
    assert!(terminal.say("/fork 9999").contains("record 9999 is no step"));
}
