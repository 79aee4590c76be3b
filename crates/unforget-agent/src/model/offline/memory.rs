//! Questions about the conversation itself, answered from what the request has of it.
//!
//! `questions` says which phrases ask for what. What was said before a compaction is known from its summary only, so
//! every answer looks there as well, and says so when that is where it comes from.

use super::conversation::Conversation;
use super::digest;
use super::name;
use super::questions::{ABOUT, Question};
use super::text::{Language, bare, behind_any, brief, lower, question, quoted};

/// How much of one message is repeated, in characters.
const MAX_QUOTE: usize = 400;
/// How many messages are repeated.
const MAX_REPEATED: usize = 50;
/// How many places are told where something was said.
const MAX_FOUND: usize = 3;

/// The answer to a question about the conversation; none if it is something else.
pub(super) fn answer(conversation: &Conversation, request: &str) -> Option<String> {
    let words = question(request);
    if let Some(question) = Question::of(words) {
        return Some(match question {
            Question::Name => name_answer(conversation, request),
            Question::First => first(conversation, request),
            Question::Last => last(conversation, request),
            Question::Count => count(conversation),
            Question::Everything => everything(conversation),
            Question::Recap => digest::of(conversation),
        });
    }
    if let Some(subject) = behind_any(words, &ABOUT) {
        return Some(about(conversation, bare(subject)));
    }
    None
}

/// The answer to someone who says their name.
pub(super) fn greet(request: &str) -> Option<String> {
    let name = name::said_in(question(request))?;
    Some(format!("Nice to meet you, **{name}**. Ask me *what is my name?* whenever you like, also after a restart."))
}

fn first(conversation: &Conversation, request: &str) -> String {
    let lead = match Language::of(request) {
        Language::English => "The first thing you said was:",
        Language::Chinese => "你最先说的是：",
        Language::Japanese => "最初に言ったのはこれです：",
        Language::Korean => "처음에 하신 말씀은 이것입니다:",
    };
    let summarised = conversation.summaries.iter().find_map(|summary| digest::line(summary, digest::FIRST));
    match (summarised, conversation.summaries.first(), conversation.earlier().first()) {
        (Some(words), _, _) => {
            format!("{lead}\n\n{}\n\n(That is from the summary of what came before.)", quoted(words, MAX_QUOTE))
        }
        (None, Some(summary), _) => {
            format!("What came first is only in a summary, which begins:\n\n{}", quoted(summary, MAX_QUOTE))
        }
        (None, None, Some(words)) => format!("{lead}\n\n{}", quoted(words, MAX_QUOTE)),
        (None, None, None) => nothing_before(request),
    }
}

fn last(conversation: &Conversation, request: &str) -> String {
    let lead = match Language::of(request) {
        Language::English => "Just before this, you said:",
        Language::Chinese => "在这之前，你说的是：",
        Language::Japanese => "この直前に言ったのはこれです：",
        Language::Korean => "바로 전에 하신 말씀은 이것입니다:",
    };
    let summarised = || conversation.summaries.iter().rev().find_map(|summary| digest::line(summary, digest::LAST));
    match conversation.earlier().last().copied().or_else(summarised) {
        Some(words) => format!("{lead}\n\n{}", quoted(words, MAX_QUOTE)),
        None => nothing_before(request),
    }
}

fn nothing_before(request: &str) -> String {
    match Language::of(request) {
        Language::English => "This is the first thing you say here.",
        Language::Chinese => "这是你在这里说的第一句话。",
        Language::Japanese => "これが最初のメッセージです。",
        Language::Korean => "이것이 첫 번째 메시지입니다.",
    }
    .to_owned()
}

fn name_answer(conversation: &Conversation, request: &str) -> String {
    let Some(name) = name::known(conversation) else {
        return match Language::of(request) {
            Language::English => "You have not told me your name yet. Say *my name is …*, and I will know it.",
            Language::Chinese => "你还没有告诉我你的名字。",
            Language::Japanese => "まだお名前を聞いていません。",
            Language::Korean => "아직 이름을 말씀하지 않으셨습니다.",
        }
        .to_owned();
    };
    match Language::of(request) {
        Language::English => format!("Your name is **{name}**."),
        Language::Chinese => format!("你叫 **{name}**。"),
        Language::Japanese => format!("お名前は **{name}** です。"),
        Language::Korean => format!("이름은 **{name}** 입니다."),
    }
}

fn about(conversation: &Conversation, subject: &str) -> String {
    let wanted: Vec<String> = lower(subject).split_whitespace().map(|word| bare(word).to_owned()).collect();
    let is_about = |text: &&str| {
        let low = lower(text);
        !wanted.is_empty() && wanted.iter().all(|word| low.contains(word.as_str()))
    };
    let earlier = conversation.earlier();
    let found: Vec<&str> =
        earlier.into_iter().rev().filter(is_about).filter(|text| !is_question_about(text)).take(MAX_FOUND).collect();
    let subject = brief(subject, 60);
    if !found.is_empty() {
        let quotes: Vec<String> = found.into_iter().rev().map(|text| quoted(text, MAX_QUOTE)).collect();
        return format!("About **{subject}** you said:\n\n{}", quotes.join("\n\n"));
    }
    let lines = conversation.summaries.iter().flat_map(|summary| summary.lines());
    let known: Vec<&str> = lines.filter(is_about).take(MAX_FOUND).collect();
    match known.is_empty() {
        true => format!("I find nothing about **{subject}** in what you said."),
        false => format!("From the summary of what came before:\n\n{}", quoted(&known.join("\n"), MAX_QUOTE)),
    }
}

/// Whether words only ask for what others say.
fn is_question_about(text: &str) -> bool {
    behind_any(text, &ABOUT).is_some()
}

fn count(conversation: &Conversation) -> String {
    let yours = conversation.earlier().len() + 1;
    let summary = if conversation.summaries.is_empty() { "" } else { " What came before is in a summary." };
    format!(
        "I see **{}** messages, and **{yours}** of the things said in them are yours, this one included.{summary}",
        conversation.messages
    )
}

fn everything(conversation: &Conversation) -> String {
    let earlier = conversation.earlier();
    let left_out = earlier.len().saturating_sub(MAX_REPEATED);
    let mut out = String::new();
    for summary in &conversation.summaries {
        super::paragraph(&mut out, format_args!("A summary of what came before:\n\n{}", quoted(summary, MAX_QUOTE)));
    }
    if earlier.is_empty() && out.is_empty() {
        return nothing_before("");
    }
    let list: Vec<String> =
        earlier.iter().enumerate().skip(left_out).map(|(i, text)| format!("{}. {}", i + 1, brief(text, 120))).collect();
    if !list.is_empty() {
        super::paragraph(&mut out, format_args!("You said:\n\n{}", list.join("\n")));
    }
    out
}
