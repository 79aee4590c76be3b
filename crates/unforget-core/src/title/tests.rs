//! What becomes a title, and that anything gives a harmless one.

use proptest::prelude::*;

use super::*;

/// Compares whole tables, so that a failure shows its line.
fn check(table: &[(&str, Option<&str>)]) {
    for (words, title) in table {
        assert_eq!(from_words(words).as_deref(), *title, "{words:?}");
    }
}

#[test]
fn greetings_and_courtesies_are_skipped() {
    check(&[
        ("hi", None),
        ("Hello there!", None),
        ("Hi! How are you?", None),
        ("ok", None),
        ("Thanks!", None),
        ("Hi, can you please fix the login page?", Some("Fix the login page?")),
        ("Hello there. I want you to rename the crate.", Some("Rename the crate")),
        ("hey Claude, what is 2+2?", Some("What is 2+2?")),
        ("I’d like you to sort src/main.rs, thanks!", Some("Sort src/main.rs")),
        ("Please list the files, please", Some("List the files")),
        ("Guten Tag, kannst du das prüfen", Some("Das prüfen")),
    ]);
}

#[test]
fn words_that_only_begin_like_a_greeting_stay() {
    check(&[
        ("hi-res images are slow", Some("hi-res images are slow")),
        ("There is a bug in the parser", Some("There is a bug in the parser")),
        ("history of the project", Some("history of the project")),
        ("please.txt is empty", Some("please.txt is empty")),
        ("so far nothing works", Some("so far nothing works")),
        ("Well-known ports", Some("Well-known ports")),
        ("thanks.md needs a heading", Some("thanks.md needs a heading")),
    ]);
}

#[test]
fn other_languages_have_courtesies_too() {
    check(&[
        ("你好", None),
        ("你好，请问怎么恢复会话？", Some("怎么恢复会话？")),
        ("请求超时怎么办", Some("请求超时怎么办")),
        ("你好像没有明白", Some("你好像没有明白")),
        ("请帮我写一个测试。谢谢", Some("写一个测试")),
        ("こんにちは！", None),
        ("すみません、テストが落ちます。", Some("テストが落ちます")),
        ("안녕하세요! 빌드가 왜 실패하나요?", Some("빌드가 왜 실패하나요?")),
    ]);
}

#[test]
fn the_first_sentence_that_says_something_is_taken() {
    check(&[
        ("\n\n  \t\nCompare a.txt and b.txt. Then tell me more.", Some("Compare a.txt and b.txt")),
        ("Hi!\nThe server is slow.\nWhy?", Some("The server is slow")),
        ("Use a queue, e.g. a channel. Now.", Some("Use a queue, e.g. a channel")),
        ("# Plan\nmore", Some("Plan")),
        ("- first thing\n- second", Some("first thing")),
        ("---\nreal words", Some("real words")),
        ("Wait... what?! Really", Some("Wait")),
        ("!!! ???", None),
        ("", None),
        ("👍", None),
    ]);
}

#[test]
fn paths_and_addresses_stay_whole() {
    check(&[
        ("./build.sh fails", Some("./build.sh fails")),
        ("please read /etc/hosts.", Some("Read /etc/hosts")),
        ("can you src/lib.rs explain", Some("src/lib.rs explain")),
        ("see https://example.org/a?b=c!d for it", Some("see https://example.org/a?b=c!d for it")),
        ("~/.config is gone", Some("~/.config is gone")),
        ("--help is empty", Some("--help is empty")),
        ("#12 is open again", Some("#12 is open again")),
    ]);
}

#[test]
fn pasted_code_and_logs_give_a_title_only_without_prose() {
    check(&[
        ("```rust\nfn main() {}\n```\nwhy does this not compile?", Some("why does this not compile?")),
        ("```\nfn main() {}\n```", Some("fn main() {}")),
        ("2026-01-05T09:00:00Z ERROR broken\nwhat is this", Some("what is this")),
        ("[ERROR] broken\n> quoted\nwhat is this", Some("what is this")),
        ("09:00:01 started", Some("09:00:01 started")),
        ("~~~\n```\nx = 1\n~~~\nexplain", Some("explain")),
    ]);
}

#[test]
fn long_words_are_cut_where_it_hurts_least() {
    let title = from_words(&"several words, ".repeat(20)).unwrap();
    assert_eq!(title, "several words, several words, several words, several words…");
    let title = from_words(&"会话".repeat(40)).unwrap();
    assert_eq!(title, format!("{}会…", "会话".repeat(14)));
    let title = from_words(&format!("beginning {}", "x".repeat(100))).unwrap();
    assert_eq!(title, format!("beginning {}…", "x".repeat(49)));
}

#[test]
fn nothing_that_disturbs_a_screen_gets_through() {
    check(&[
        ("a\u{202e}b\u{1b}[31m c\u{200b}d\u{feff}", Some("ab [31m cd")),
        ("one\ttwo\u{a0} three", Some("one two three")),
    ]);
}

proptest! {
    #[test]
    fn any_words_give_a_short_single_line_or_none(words in prop_oneof![
        any::<String>(),
        "[ a-cA-C请你好。？!.,`\\n\u{301}\u{200d}👍🏽🇩-]{0,200}",
        "(hi|please|你好|can you|,|\\.| |\n|```|> ){0,30}[a-z]{0,9}",
    ]) {
        let title = from_words(&words);
        prop_assert_eq!(&title, &from_words(&words));
        if let Some(title) = title {
            prop_assert!(columns::width(&title) <= MAX_COLUMNS, "{} columns: {:?}", columns::width(&title), title);
            prop_assert!(!title.chars().any(needs_care), "{:?}", title);
            prop_assert!(title.chars().any(char::is_alphanumeric), "{:?}", title);
            prop_assert_eq!(title.trim(), &title);
            prop_assert!(!title.contains("  "), "{:?}", title);
        }
    }
}
