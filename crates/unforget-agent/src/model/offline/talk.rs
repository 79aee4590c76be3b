//! What is said when nothing is asked for, or nothing is understood: greetings, thanks, and what this model can do.

use super::conversation::Conversation;
use super::text::{after_any, bare, has_any, lower, quoted};

/// How much of what should be remembered is repeated, in characters.
const MAX_QUOTE: usize = 400;

/// The answer to a greeting, thanks, or a call for help.
pub(super) fn small_talk(request: &str) -> Option<String> {
    let low = lower(bare(request));
    let is_one_of = |words: &[&str]| words.contains(&low.as_str());
    if is_one_of(&[
        "hi",
        "hello",
        "hey",
        "hello there",
        "hi there",
        "good morning",
        "你好",
        "こんにちは",
        "안녕하세요",
        "안녕",
    ]) {
        return Some(format!("Hello! I am a small model that is built in. {}", abilities()));
    }
    if is_one_of(&["thanks", "thank you", "thx", "谢谢", "ありがとう", "감사합니다"]) {
        return Some("You are welcome.".to_owned());
    }
    if has_any(&low, &["what can you do", "who are you", "what are you"]) || is_one_of(&["help", "?"]) {
        return Some(format!("I am a small model that is built in: no network, no key. {}", abilities()));
    }
    let fact = after_any(request, &["remember that ", "remember: ", "remember ", "note that ", "note: "])?;
    Some(format!("It is in the log now, and stays there:\n\n{}", quoted(fact, MAX_QUOTE)))
}

/// What is said when nothing fits.
pub(super) fn not_understood(conversation: &Conversation) -> String {
    let tools = if conversation.tools.is_empty() { " (there are no tools here, though)" } else { "" };
    format!("I am only a small built-in model and did not understand that{tools}. {}", abilities())
}

fn abilities() -> String {
    "What I can do:\n\n\
     - **Remember**: *what did I say first?* · *what is my name?* · *what did I say about X?* · *repeat everything*\n\
     - **Use tools**: *read Cargo.toml* · *list files* · *what time is it?* · *run `ls -l`* · *write hello.txt: text* · \
     *replace A with B in FILE*\n\
     - **Summarise** the conversation when it grows too long\n\n\
     With `ANTHROPIC_API_KEY` set, a real model answers instead, and knows all that was said here."
        .to_owned()
}
