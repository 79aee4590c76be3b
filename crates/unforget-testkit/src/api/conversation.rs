//! A request as a conversation: who said what, and what the last word is about.
//!
//! Neighbouring messages of the same role are one turn, as they are for the real server, and a system message between
//! them changes nothing. What a client puts between `<system-reminder>` tags was not said by a person and is not seen.
//! Everything here is read from one request that the rules have accepted; odd shapes are read as nothing.

use serde_json::Value;

use super::directive::{self, Directive};

const REMINDER: (&str, &str) = ("<system-reminder>", "</system-reminder>");

/// The messages of one side, until the other side speaks.
pub(super) struct Turn<'a> {
    pub(super) is_user: bool,
    messages: Vec<&'a Value>,
}

/// The turn that is being answered, and what happened since.
pub(super) struct Prompt {
    pub(super) directives: Vec<Directive>,
    pub(super) text: String,
    /// How many times tools were called since.
    pub(super) rounds: usize,
}

pub(super) fn messages(body: &Value) -> &[Value] {
    body.get("messages").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub(super) fn turns(body: &Value) -> Vec<Turn<'_>> {
    let mut turns: Vec<Turn<'_>> = Vec::new();
    for message in messages(body) {
        let is_user = match message.get("role").and_then(Value::as_str) {
            Some("user") => true,
            Some("assistant") => false,
            _ => continue,
        };
        match turns.last_mut() {
            Some(last) if last.is_user == is_user => last.messages.push(message),
            _ => turns.push(Turn { is_user, messages: vec![message] }),
        }
    }
    turns
}

impl<'a> Turn<'a> {
    /// What was said, without what only stands there.
    pub(super) fn texts(&self) -> Vec<String> {
        let texts = self.messages.iter().flat_map(|message| match message.get("content") {
            Some(Value::String(text)) => vec![text.as_str()],
            content => blocks(content, "text").filter_map(|block| block.get("text").and_then(Value::as_str)).collect(),
        });
        texts.map(without_reminders).filter(|text| !text.is_empty()).collect()
    }

    /// The results of tools, as text.
    pub(super) fn results(&self) -> Vec<String> {
        self.blocks("tool_result").map(|result| content_text(result.get("content"))).collect()
    }

    pub(super) fn calls_tools(&self) -> bool {
        self.blocks("tool_use").next().is_some()
    }

    fn blocks(&self, kind: &'static str) -> impl Iterator<Item = &'a Value> {
        self.messages.iter().flat_map(move |message| blocks(message.get("content"), kind))
    }
}

/// Every text of a person, in order.
pub(super) fn user_texts(body: &Value) -> Vec<String> {
    turns(body).iter().filter(|turn| turn.is_user).flat_map(Turn::texts).collect()
}

/// The text of the system prompt.
pub(super) fn system_text(body: &Value) -> String {
    content_text(body.get("system"))
}

/// Finds what is being answered: the newest turn of a person that brings no results, or results and a directive.
pub(super) fn prompt(turns: &[Turn<'_>]) -> Prompt {
    let mut rounds = 0;
    for turn in turns.iter().rev() {
        if !turn.is_user {
            rounds += usize::from(turn.calls_tools());
            continue;
        }
        let mut texts = turn.texts();
        let directed = texts.iter().rposition(|text| !directive::parse(text).is_empty());
        if directed.is_some() || turn.results().is_empty() {
            let text = directed.map(|at| texts.swap_remove(at)).or_else(|| texts.pop()).unwrap_or_default();
            return Prompt { directives: directive::parse(&text), text, rounds };
        }
    }
    Prompt { directives: Vec::new(), text: String::new(), rounds }
}

fn blocks<'a>(content: Option<&'a Value>, kind: &'static str) -> impl Iterator<Item = &'a Value> {
    let blocks = content.and_then(Value::as_array).into_iter().flatten();
    blocks.filter(move |block| block.get("type").and_then(Value::as_str) == Some(kind))
}

fn content_text(content: Option<&Value>) -> String {
    match content {
        Some(Value::String(text)) => text.clone(),
        content => {
            let texts = blocks(content, "text").filter_map(|block| block.get("text").and_then(Value::as_str));
            texts.collect::<Vec<_>>().join(" ")
        }
    }
}

fn without_reminders(text: &str) -> String {
    let (open, close) = REMINDER;
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(open) {
        kept.push_str(before);
        // One that never ends hides the rest.
        rest = after.split_once(close).map_or("", |(_, after)| after);
    }
    kept.push_str(rest);
    kept.trim().to_owned()
}
