//! What the SDK's list of sessions shows of one: a fold over its entries, the same that the SDK makes (`fold_session_summary`).
//!
//! Some of it is the first that was said (whether it is a side chain, when it began, where, the first words), some the last (titles, the branch, the tag). The
//! names of the members are those of the Python SDK, which goes on with the fold itself.

use std::borrow::Cow;

use serde_json::{Map, Value, json};
use unforget_core::{json, stamp};

/// Members of an entry of which the last one counts, and what they are called in the summary.
const LAST: [(&str, &str); 5] = [
    ("customTitle", "custom_title"),
    ("aiTitle", "ai_title"),
    ("lastPrompt", "last_prompt"),
    ("summary", "summary_hint"),
    ("gitBranch", "git_branch"),
];
/// How much of the first words is kept, in characters.
const PROMPT_CHARS: usize = 200;
/// What words begin with that no person said.
const NOT_SAID: [&str; 4] = ["<local-command-stdout>", "<session-start-hook>", "<tick>", "<goal>"];
const INTERRUPTED: &str = "[Request interrupted by user";
/// What an editor puts around words that are its own.
const OF_EDITORS: [(&str, &str); 2] =
    [("<ide_opened_file>", "</ide_opened_file>"), ("<ide_selection>", "</ide_selection>")];
const COMMAND: (&str, &str) = ("<command-name>", "</command-name>");

/// The members of an entry.
type Members<'e> = Vec<(Cow<'e, str>, &'e str)>;

/// How the members of a summary are called.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spelling {
    /// As the Python SDK does.
    #[default]
    Python,
    /// As the TypeScript SDK does.
    Typescript,
}

/// The summary, as far as entries were fed.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Fold {
    data: Map<String, Value>,
    /// Where a session went on, which is its place for the TypeScript SDK alone.
    relocated: Option<String>,
    /// When the last entry was made that says so, in milliseconds since the epoch.
    pub(super) last_ms: Option<i64>,
}

impl Fold {
    /// What a list shows.
    pub(super) fn spelled(&self, spelling: Spelling) -> Map<String, Value> {
        match spelling {
            Spelling::Python => self.data.clone(),
            Spelling::Typescript => {
                let mut data: Map<String, Value> =
                    self.data.iter().map(|(name, value)| (camel(name), value.clone())).collect();
                if let Some(cwd) = &self.relocated {
                    data.insert("cwd".to_owned(), cwd.clone().into());
                }
                data
            }
        }
    }

    /// As it is kept.
    pub(super) fn to_json(&self) -> Value {
        json!({ "data": self.data, "relocated": self.relocated, "last_ms": self.last_ms })
    }

    /// Reads what was kept.
    pub(super) fn of_json(text: &str) -> Option<Self> {
        let mut kept: Map<String, Value> = serde_json::from_str(text).ok()?;
        let Some(Value::Object(data)) = kept.remove("data") else { return None };
        let relocated = kept.get("relocated").and_then(Value::as_str).map(str::to_owned);
        Some(Self { data, relocated, last_ms: kept.get("last_ms").and_then(Value::as_i64) })
    }

    /// Takes the next entry.
    pub(super) fn feed(&mut self, entry: &str) {
        let Some(members) = json::members(entry) else { return };
        let raw = |name: &str| json::member(&members, name);
        let text = |name: &str| raw(name).and_then(json::string);
        let time_ms = text("timestamp").and_then(|time| stamp::parse_rfc3339(&time));
        self.last_ms = self.last_ms.max(time_ms);
        let is_side = raw("isSidechain") == Some("true");
        self.first("is_sidechain", Some(is_side.into()));
        self.first("created_at", time_ms.map(Value::from));
        self.first("cwd", text("cwd").filter(|cwd| !cwd.is_empty()).map(|cwd| cwd.into_owned().into()));
        if text("type").as_deref() == Some("relocated") {
            self.relocated =
                text("relocatedCwd").filter(|cwd| !cwd.is_empty()).map(Cow::into_owned).or(self.relocated.take());
        }
        self.prompt(&members);
        for (from, to) in LAST {
            if let Some(value) = text(from) {
                self.data.insert(to.to_owned(), value.into_owned().into());
            }
        }
        if text("type").as_deref() == Some("tag") {
            match text("tag").filter(|tag| !tag.is_empty()) {
                Some(tag) => self.data.insert("tag".to_owned(), tag.into_owned().into()),
                None => self.data.remove("tag"),
            };
        }
    }

    fn first(&mut self, name: &str, value: Option<Value>) {
        if let Some(value) = value.filter(|_| !self.data.contains_key(name)) {
            self.data.insert(name.to_owned(), value);
        }
    }

    /// The first words of a person; until there are some, the first command.
    fn prompt(&mut self, members: &Members<'_>) {
        let raw = |name: &str| json::member(members, name);
        let is_of_user = raw("type").and_then(json::string).as_deref() == Some("user");
        if self.data.contains_key("first_prompt_locked")
            || !is_of_user
            || raw("isMeta") == Some("true")
            || raw("isCompactSummary") == Some("true")
        {
            return;
        }
        for words in raw("message").map(said).unwrap_or_default() {
            let words = words.replace('\n', " ");
            let words = words.trim_matches(is_blank);
            if words.is_empty() {
                continue;
            }
            if let Some(command) = command(words) {
                let has_one =
                    self.data.get("command_fallback").and_then(Value::as_str).is_some_and(|it| !it.is_empty());
                if !has_one {
                    self.data.insert("command_fallback".to_owned(), command.into());
                }
                continue;
            }
            if is_not_said(words) {
                continue;
            }
            let prompt = match words.char_indices().nth(PROMPT_CHARS) {
                Some((end, _)) => format!("{}\u{2026}", words[..end].trim_end_matches(is_blank)),
                None => words.to_owned(),
            };
            self.data.insert("first_prompt".to_owned(), prompt.into());
            self.data.insert("first_prompt_locked".to_owned(), true.into());
            return;
        }
    }
}

/// A name of several words as TypeScript has it.
fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |mut name, word| {
        let mut letters = word.chars();
        name.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        name.push_str(letters.as_str());
        name
    })
}

/// The texts of a message; none if it brings results of tools.
fn said(message: &str) -> Vec<String> {
    let members = json::members(message).unwrap_or_default();
    let Some(content) = json::member(&members, "content") else { return Vec::new() };
    if let Some(text) = json::string(content) {
        return vec![text.into_owned()];
    }
    let blocks = json::elements(content).unwrap_or_default();
    if blocks.iter().any(|block| json::has_type(block, &["tool_result"])) {
        return Vec::new();
    }
    let text = |block: &&str| json::member(&json::members(block)?, "text").and_then(json::string).map(Cow::into_owned);
    blocks.iter().filter(|block| json::has_type(block, &["text"])).filter_map(text).collect()
}

/// Blanks as Python sees them, which has four more.
fn is_blank(character: char) -> bool {
    character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character)
}

/// The name of the command that words are the record of.
fn command(words: &str) -> Option<&str> {
    let (_, rest) = words.split_once(COMMAND.0)?;
    rest.split_once(COMMAND.1).map(|(name, _)| name)
}

fn is_not_said(words: &str) -> bool {
    let is_interruption = words.strip_prefix(INTERRUPTED).is_some_and(|rest| rest.contains(']'));
    let is_of_editor =
        |(open, close): &(&str, &str)| words.strip_prefix(open).is_some_and(|rest| rest.ends_with(close));
    NOT_SAID.iter().any(|start| words.starts_with(start)) || is_interruption || OF_EDITORS.iter().any(is_of_editor)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn folded(entries: &[Value]) -> Value {
        let mut fold = Fold::default();
        entries.iter().for_each(|entry| fold.feed(&entry.to_string()));
        Value::Object(fold.data)
    }

    #[test]
    fn the_first_words_are_those_of_a_person() {
        let user = |content: Value| json!({ "type": "user", "message": { "content": content } });
        let entries = [
            json!({ "type": "user", "isMeta": true, "message": { "content": "meta" } }),
            user(json!("<command-name>/clear</command-name> <x>")),
            user(json!("<command-name>/later</command-name>")),
            user(json!([{ "type": "tool_result" }, { "type": "text", "text": "no" }])),
            user(json!("<tick>")),
            user(json!("[Request interrupted by user for tool use]")),
            user(json!("<ide_selection>a\nb</ide_selection>")),
            user(
                json!([{ "type": "text", "text": " \n\u{1c}" }, { "type": "text", "text": format!("a\n{}", "b".repeat(300)) }]),
            ),
            user(json!("never")),
        ];
        let want = json!({
            "is_sidechain": false, "command_fallback": "/clear", "first_prompt_locked": true,
            "first_prompt": format!("a {}\u{2026}", "b".repeat(198)),
        });
        assert_eq!(folded(&entries), want);
    }

    #[test]
    fn some_of_it_is_the_first_and_some_the_last() {
        let entries = [
            json!({ "type": "x", "isSidechain": true, "timestamp": "no time", "cwd": "", "customTitle": "a", "tag": "no" }),
            json!({ "type": "tag", "isSidechain": false, "timestamp": "2026-01-02T03:04:05.678Z", "cwd": "/a", "tag": "t" }),
            json!({ "type": "x", "timestamp": "2027-01-02T03:04:05.678Z", "cwd": "/b", "customTitle": "b", "aiTitle": 1, "summary": "s", "gitBranch": "g", "lastPrompt": "l" }),
        ];
        let mut want = json!({
            "is_sidechain": true, "created_at": 1_767_323_045_678_i64, "cwd": "/a", "custom_title": "b", "summary_hint": "s",
            "git_branch": "g", "last_prompt": "l", "tag": "t",
        });
        assert_eq!(folded(&entries), want);
        let cleared = [&entries[..], &[json!({ "type": "tag", "tag": "" })]].concat();
        want.as_object_mut().unwrap().remove("tag");
        assert_eq!(folded(&cleared), want);
    }
}
