//! What the server says when nothing was planned: a function of the request, and of nothing else.
//!
//! There is no model here. The answer does what the directives of the last text say, quotes the results of tools, or
//! repeats what it heard, so that a test can tell from an answer what the server was really sent. Ids and signatures
//! are not made here: they depend on what was said before.

use serde_json::{Map, Value, json};

use super::conversation::{self, Prompt, Turn};
use super::directive::{self, Directive, Tools};

/// How many characters of a text are repeated.
const ECHO_LENGTH: usize = 1000;
/// How many characters of a result are quoted.
const QUOTE_LENGTH: usize = 200;
const MAX_WORDS: usize = 200_000;
/// Of several scripts and lengths, so that long answers are not all ASCII.
const WORDS: &[&str] = &["memory", "survives", "naïve", "restarts", "記憶", "and", "crashes", "🦀"];
/// A summary has at most this share of what it is about, but may always have [`SHORTEST_SUMMARY`] characters.
const SUMMARY_SHARE: usize = 4;
const SHORTEST_SUMMARY: usize = 20;
const SUMMARY_TEXTS: usize = 6;
const SUMMARY_WORDS: usize = 8;
const SUMMARY_TEXT_LENGTH: usize = 60;
/// What the Claude CLI asks for when it compacts; its summaries have tags around them.
const CLI_COMPACTS: &str = "create a detailed summary of";

/// Content blocks without ids, and why they end.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Answer {
    pub(super) blocks: Vec<Value>,
    pub(super) stop_reason: String,
}

impl Answer {
    fn text(text: impl Into<String>) -> Self {
        Self { blocks: vec![json!({"type": "text", "text": text.into()})], stop_reason: "end_turn".to_owned() }
    }

    fn calls(calls: Vec<Value>) -> Self {
        Self { blocks: calls, stop_reason: "tool_use".to_owned() }
    }
}

pub(super) fn answer(body: &Value) -> Answer {
    let format = body.pointer("/output_config/format").or_else(|| body.get("output_format"));
    if let Some(format) = format.filter(|format| format.is_object()) {
        return Answer::text(example(format.get("schema").unwrap_or(&Value::Null)).to_string());
    }
    let turns = conversation::turns(body);
    let tools = Tools::of(body);
    let last = turns.iter().rfind(|turn| turn.is_user);
    let last_texts = last.map(Turn::texts).unwrap_or_default().join(" ");
    let is_about_summary = |text: &str| text.to_ascii_lowercase().contains("summar");
    let asked = is_about_summary(&conversation::system_text(body)) || is_about_summary(&last_texts);
    if last_texts.contains(CLI_COMPACTS) {
        return Answer::text(format!("<analysis>none</analysis>\n<summary>\n{}\n</summary>", summary(body)));
    }
    if asked && tools.is_empty() {
        return Answer::text(summary(body));
    }
    let prompt = conversation::prompt(&turns);
    let mut answer = if prompt.rounds == 0 {
        first_word(body, &prompt, &tools)
    } else if let Some(command) = next_of_chain(&prompt) {
        Answer::calls(vec![tools.bash(command)])
    } else {
        Answer::text(last_word(body, last, &last_texts))
    };
    let is_last_word = prompt.rounds > 0 && answer.stop_reason != "tool_use";
    if thinks(body, &prompt) && !is_last_word {
        answer.blocks.insert(0, thinking(body));
    }
    answer
}

/// The answer to a turn of a person.
fn first_word(body: &Value, prompt: &Prompt, tools: &Tools<'_>) -> Answer {
    let mut answer = match prompt.directives.iter().find(|directive| !changes_others(directive)) {
        Some(directive) => obey(directive, body, tools).unwrap_or_else(|| echo(body, &prompt.text)),
        None if prompt.directives.is_empty() => echo(body, &prompt.text),
        None => Answer::text("Thought about it."),
    };
    let mut stops = prompt.directives.iter().filter(|directive| directive.name == "stop");
    if let Some(stop) = stops.find(|stop| !stop.argument.is_empty()) {
        answer.stop_reason.clone_from(&stop.argument);
    }
    answer
}

fn changes_others(directive: &Directive) -> bool {
    matches!(directive.name.as_str(), "think" | "stop" | "tokens")
}

/// How many tokens the request is said to have, if the text that is answered says so.
///
/// A request to compact never says so: its client would compact for ever.
pub(super) fn claimed_tokens(body: &Value) -> Option<u64> {
    let turns = conversation::turns(body);
    let last_texts = turns.iter().rfind(|turn| turn.is_user).map(Turn::texts).unwrap_or_default();
    if last_texts.iter().any(|text| text.contains(CLI_COMPACTS)) {
        return None;
    }
    let prompt = conversation::prompt(&turns);
    let claim = prompt.directives.iter().find(|directive| directive.name == "tokens")?;
    claim.argument.trim().parse().ok()
}

fn obey(directive: &Directive, body: &Value, tools: &Tools<'_>) -> Option<Answer> {
    let argument = directive.argument.as_str();
    Some(match directive.name.as_str() {
        "bash" => {
            let mut answer = Answer::calls(vec![tools.bash(argument)]);
            answer.blocks.insert(0, json!({"type": "text", "text": "Running it."}));
            answer
        }
        "read" => Answer::calls(vec![tools.read(argument)]),
        "write" => {
            let (path, content) = directive.halves();
            Answer::calls(vec![tools.write(path, content)])
        }
        "agent" => Answer::calls(vec![tools.agent(argument)]),
        "list" => Answer::calls(vec![directive::call("list_directory", json!({"path": argument}))]),
        "tool" => {
            let (name, input) = directive.halves();
            let input = serde_json::from_str(input).ok().filter(Value::is_object).unwrap_or_else(|| json!({}));
            Answer::calls(vec![directive::call(name, input)])
        }
        "parallel" => Answer::calls(argument.split("||").map(|command| tools.bash(command)).collect()),
        "chain" => match chain(directive) {
            (0, _) => Answer::text("Nothing to do."),
            (_, command) => Answer::calls(vec![tools.bash(command)]),
        },
        "recall" => Answer::text(format!("RECALL {}", Value::from(conversation::user_texts(body)))),
        "long" => {
            let count = argument.trim().parse().unwrap_or(0).clamp(1, MAX_WORDS);
            Answer::text(WORDS.iter().copied().cycle().take(count).collect::<Vec<_>>().join(" "))
        }
        _ => return None,
    })
}

fn chain(directive: &Directive) -> (usize, &str) {
    let (count, command) = directive.halves();
    (count.trim().parse().unwrap_or(0), command)
}

fn next_of_chain(prompt: &Prompt) -> Option<&str> {
    let directive = prompt.directives.iter().find(|directive| directive.name == "chain")?;
    let (count, command) = chain(directive);
    (prompt.rounds < count).then_some(command)
}

/// The answer to the results of tools, and to what was said beside them.
fn last_word(body: &Value, last: Option<&Turn<'_>>, said: &str) -> String {
    let results = last.map(Turn::results).unwrap_or_default();
    let quotes: Vec<&str> = results.iter().map(|result| first_characters(result, QUOTE_LENGTH)).collect();
    let done = format!("TOOL-DONE: {}", quotes.join(" | "));
    if said.is_empty() { done } else { format!("{done}\n{}", echo_text(body, said)) }
}

fn echo(body: &Value, text: &str) -> Answer {
    Answer::text(echo_text(body, text))
}

fn echo_text(body: &Value, text: &str) -> String {
    format!("ECHO({} messages): {}", conversation::messages(body).len(), first_characters(text, ECHO_LENGTH))
}

/// With a budget, models before 4.6 always think, and the rules want to see it again.
fn thinks(body: &Value, prompt: &Prompt) -> bool {
    match body.pointer("/thinking/type").and_then(Value::as_str) {
        Some("disabled") => false,
        Some("enabled") => true,
        _ => prompt.directives.iter().any(|directive| directive.name == "think"),
    }
}

fn thinking(body: &Value) -> Value {
    let is_omitted = body.pointer("/thinking/display").and_then(Value::as_str) == Some("omitted");
    json!({"type": "thinking", "thinking": if is_omitted { "" } else { "Let me think about it." }})
}

/// The first words of the first texts: enough to see what was summarised.
fn summary(body: &Value) -> String {
    let mut texts = conversation::user_texts(body);
    // What asks for the summary is not part of it.
    texts.retain(|text| !text.contains(CLI_COMPACTS));
    let length: usize = texts.iter().map(|text| text.chars().count()).sum();
    let beginnings = texts.iter().take(SUMMARY_TEXTS).map(|text| {
        let words: Vec<&str> = text.split_whitespace().take(SUMMARY_WORDS).collect();
        first_characters(&words.join(" "), SUMMARY_TEXT_LENGTH).to_owned()
    });
    let all = format!("SUMMARY: {}", beginnings.collect::<Vec<_>>().join("; "));
    first_characters(&all, (length / SUMMARY_SHARE).max(SHORTEST_SUMMARY)).to_owned()
}

/// An object as its schema wants it, one level deep.
fn example(schema: &Value) -> Value {
    let members = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let example = members.map(|(name, member)| {
        let value = match member.get("type").and_then(Value::as_str) {
            Some("string") => member.pointer("/enum/0").cloned().unwrap_or_else(|| json!("Fake title")),
            Some("boolean") => json!(false),
            Some("array") => json!([]),
            Some("object") => json!({}),
            _ => json!(0),
        };
        (name.clone(), value)
    });
    Value::Object(example.collect::<Map<_, _>>())
}

fn first_characters(text: &str, count: usize) -> &str {
    text.char_indices().nth(count).and_then(|(end, _)| text.get(..end)).unwrap_or(text)
}
