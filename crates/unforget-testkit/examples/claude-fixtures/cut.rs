//! Takes the vendor's prompts and our folders out of a transcript and a request, in the same way out of both.
//!
//! Prompts are not ours to pass on, and they are nine tenths of a transcript. What the CLI makes of a line of the
//! transcript must stay visible, though: the text that an attachment was rendered to appears again, alone or among
//! others, in the request. So each such text gets a name, and the name stands wherever the text stood. What is left of
//! the vendor's words after that, and is long, becomes `[cut]`.

use serde_json::Value;
use unforget_testkit::claude::Machine;

use crate::rewrite::rewrite;

/// Shorter texts are kept: they say what happened, and hold no prompt.
const SHORT: usize = 80;
/// None of our own texts in a message is longer, but the output of the scenario that is about long output.
const LONG_MESSAGE: usize = 600;
const REMINDER: (&str, &str) = ("<system-reminder>\n", "\n</system-reminder>");
/// Begins what the CLI says of the report of an agent.
const HAND_BACK: &str = "[Subagent hand-back]";
/// Members of an attachment that hold its prompt.
const PROMPTS: &[&str] = &["systemPrompt", "content", "addedLines", "text", "reminders"];

/// What is replaced, and by what.
#[derive(Clone)]
pub(crate) struct Cut {
    folders: Vec<(String, String)>,
    texts: Vec<(String, String)>,
}

impl Cut {
    /// Learns the prompts of a transcript.
    pub(crate) fn new(machine: &Machine, lines: &str) -> Self {
        let mut folders = Vec::new();
        for (folder, name) in
            [(&machine.cwd, "/home/ada/app"), (&machine.config, "/home/ada/.claude"), (&machine.home, "/home/ada")]
        {
            let folder = folder.display().to_string();
            let key = |path: &str| path.replace(|letter: char| !letter.is_ascii_alphanumeric(), "-");
            folders.push((key(&folder), key(name)));
            folders.push((folder, name.to_owned()));
        }
        Self { folders, texts: Vec::new() }.and(lines)
    }

    /// Learns the prompts of another transcript too.
    pub(crate) fn and(&self, lines: &str) -> Self {
        let mut cut = self.clone();
        for line in lines.lines() {
            let record: Value = serde_json::from_str(&cut.paths(line)).unwrap();
            cut.learn(&record);
        }
        // A text may hold another.
        cut.texts.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        cut
    }

    fn learn(&mut self, record: &Value) {
        let kind = record.pointer("/attachment/type").and_then(Value::as_str).unwrap_or_default();
        for rendered in record.get("rendered").and_then(Value::as_array).into_iter().flatten() {
            for text in texts(rendered.get("content").unwrap_or(&Value::Null)) {
                self.name(inner(text), kind);
            }
        }
        let is_said = matches!(record.get("type").and_then(Value::as_str), Some("user" | "assistant"));
        let is_summary = record.get("isCompactSummary") == Some(&Value::Bool(true));
        for text in texts(record.pointer("/message/content").filter(|_| is_said).unwrap_or(&Value::Null)) {
            if let Some((_, report)) = text.split_once(HAND_BACK) {
                // The server's answer quotes the beginning of it.
                self.name(&format!("{HAND_BACK}{report}"), "hand-back");
            }
            match text.split_once("SUMMARY:") {
                Some((before, after)) if is_summary => {
                    self.name(before, "before the summary");
                    self.name(after.split_once('\n').map_or("", |(_, after)| after), "after the summary");
                }
                _ if text.len() > LONG_MESSAGE && !text.starts_with("<persisted-output>") => self.name(text, "message"),
                _ => {}
            }
        }
    }

    fn name(&mut self, text: &str, kind: &str) {
        if text.len() <= SHORT || self.texts.iter().any(|(known, _)| known == text) {
            return;
        }
        let same = self.texts.iter().filter(|(_, name)| name.starts_with(&format!("[cut {kind}"))).count();
        let name = if same == 0 { format!("[cut {kind}]") } else { format!("[cut {kind} {}]", same + 1) };
        self.texts.push((text.to_owned(), name));
    }

    /// Folders alone.
    pub(crate) fn paths(&self, text: &str) -> String {
        self.folders.iter().fold(text.to_owned(), |text, (folder, name)| text.replace(folder, name))
    }

    /// A transcript.
    pub(crate) fn lines(&self, lines: &str) -> String {
        let mut kept = String::new();
        for line in lines.lines() {
            let line = self.paths(line);
            let record: Value = serde_json::from_str(&line).unwrap();
            kept.push_str(&self.line(&line, &record));
            kept.push('\n');
        }
        kept
    }

    fn line(&self, line: &str, record: &Value) -> String {
        let kind = record.get("type").and_then(Value::as_str).unwrap_or_default();
        rewrite(line, &mut |path, value| {
            let keys: Vec<&str> = path.iter().map(String::as_str).collect();
            match (kind, keys.as_slice()) {
                (_, [.., "input_schema"]) => Some("{}".to_owned()),
                ("api-request-shape" | "api-request-blob", _) => self.text(value, SHORT),
                ("attachment", ["attachment", name, ..]) if PROMPTS.contains(name) => self.text(value, SHORT),
                ("attachment", ["attachment", "tools", ..]) => self.text(value, SHORT),
                _ => self.text(value, usize::MAX),
            }
        })
    }

    /// The messages of a request.
    pub(crate) fn messages(&self, messages: &str) -> String {
        let messages = self.paths(messages);
        let parsed: Vec<Value> = serde_json::from_str(&messages).unwrap();
        let mut at = 0;
        let mut kept = Vec::new();
        let list = messages.trim().trim_start_matches('[');
        for message in &parsed {
            let rest = list[at..].trim_start_matches([',', ' ', '\n']);
            let start = list.len() - rest.len();
            let mut values = serde_json::Deserializer::from_str(rest).into_iter::<&serde_json::value::RawValue>();
            let raw = values.next().unwrap().unwrap().get();
            at = start + raw.len();
            let limit = if message["role"] == "system" { SHORT } else { usize::MAX };
            kept.push(rewrite(raw, &mut |_, value| self.text(value, limit)));
        }
        format!("[\n{}\n]", kept.join(",\n"))
    }

    /// A text without prompts; nothing if the value is no text or has none. What has more letters of its own than the
    /// limit beside the names is cut altogether.
    fn text(&self, value: &str, limit: usize) -> Option<String> {
        let text: String = serde_json::from_str(value).ok()?;
        let mut named = text.clone();
        let mut names = 0;
        for (prompt, name) in &self.texts {
            if named.contains(prompt.as_str()) {
                named = named.replace(prompt.as_str(), name);
                names += name.len();
            }
        }
        if named.len().saturating_sub(names) > limit {
            "[cut]".clone_into(&mut named);
        }
        let inside = inner(&named);
        let (open, close) = REMINDER;
        if named.trim_start().starts_with(open.trim_end()) && inside.len().saturating_sub(names) > 2 * SHORT {
            let tail = if named.ends_with('\n') { "\n" } else { "" };
            named = format!("{open}[cut]{close}{tail}");
        }
        (named != text).then(|| Value::from(named).to_string())
    }
}

/// A text without the tags around it.
fn inner(text: &str) -> &str {
    let (open, close) = REMINDER;
    text.trim_end().strip_prefix(open).and_then(|text| text.strip_suffix(close)).unwrap_or(text)
}

/// The texts of a content, be it one or blocks, and those in the results of tools.
fn texts(content: &Value) -> Vec<&str> {
    match content {
        Value::String(text) => vec![text],
        Value::Array(blocks) => {
            let members = blocks.iter().flat_map(|block| [block.get("text"), block.get("content")]).flatten();
            members.flat_map(texts).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
    }
}
