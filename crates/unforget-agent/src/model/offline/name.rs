//! How people say who they are, and what they said.

use unforget_core::history::Role;

use super::conversation::Conversation;
use super::digest;
use super::questions::Question;
use super::text::{bare, behind_any, lower};

/// How many words a name has at most.
const MAX_NAME_WORDS: usize = 3;

/// How people say their name; the name follows.
const NAMED: [&str; 11] = [
    "my name is ",
    "my name's ",
    "call me ",
    "i am called ",
    "我的名字是",
    "我的名字叫",
    "我叫",
    "私の名前は",
    "僕の名前は",
    "제 이름은 ",
    "내 이름은 ",
];
/// What may be a name if it is written like one.
const PERHAPS_NAMED: [&str; 2] = ["i am ", "i'm "];

/// The name that the user said last, or that a summary keeps.
pub(super) fn known(conversation: &Conversation) -> Option<String> {
    let said = conversation.said.iter().rev().filter(|said| said.role == Role::User);
    let summarised = || conversation.summaries.iter().rev().find_map(|summary| summarised_name(summary));
    said.filter_map(|said| said_in(&said.text)).next().or_else(summarised)
}

fn summarised_name(summary: &str) -> Option<String> {
    digest::line(summary, digest::NAME).map(str::to_owned).or_else(|| said_in(summary))
}

/// The name that someone says in these words.
pub(super) fn said_in(words: &str) -> Option<String> {
    if Question::of(words) == Some(Question::Name) {
        return None;
    }
    let said = behind_any(words, &NAMED).map(|rest| (rest, false));
    let perhaps = || behind_any(words, &PERHAPS_NAMED).map(|rest| (rest, true));
    let (rest, must_be_capital) = said.or_else(perhaps)?;
    let end = rest.find([',', '.', '!', '?', ';', '\n', '，', '。', '！', '？', '、', '(']).unwrap_or(rest.len());
    let is_part =
        |word: &&str| !["and", "but", "from", "who", "i", "so", "please", "the", "a"].contains(&lower(word).as_str());
    let mut name: Vec<&str> = rest[..end].split_whitespace().take_while(is_part).take(MAX_NAME_WORDS).collect();
    if must_be_capital {
        let is_name = |word: &&str| word.starts_with(char::is_uppercase);
        let count = name.iter().take_while(|word| is_name(word)).count();
        name.truncate(count);
    }
    let name = name.join(" ");
    const ENDINGS: [&str; 9] =
        ["と申します", "といいます", "と言います", "です", "입니다", "이에요", "예요", "이야", "라고 합니다"];
    let name = ENDINGS.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(&name);
    Some(bare(name).to_owned()).filter(|name| name.chars().any(char::is_alphabetic))
}
