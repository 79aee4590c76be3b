//! Damaged sessions of Claude Code: recorded ones in which a seed drops, doubles, swaps, cuts and changes lines.
//!
//! The recorded sessions are what the real program wrote (`unforget-core/tests/fixtures/claude-*`). A mutant has one to three changes, and
//! its name lists them, so that a failure says what it is about. The same seed gives the same bytes on every machine.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "what sets the scene of a test may fail as loudly as the test, and reads the fixtures of another crate"
)]

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::generate::Dice;

/// The versions of the program that sessions were recorded with.
pub const VERSIONS: [&str; 2] = ["2.1.325", "2.1.197"];
/// Becomes half of a character that takes two UTF-16 units.
const HALF: &str = "@HALF@";
/// Ids that the API refuses, and some that it takes.
const IDS: [&str; 7] = ["toolu.1:x", "toolu_01/a b", "", "日本", "a@HALF@", "call-1", "toolu_plain"];
const CONTENTS: [&str; 12] = [
    "\"\"",
    "[]",
    "null",
    "5",
    "{}",
    "\"  \"",
    "[{\"type\":\"text\",\"text\":\"\"}]",
    "[{\"type\":\"text\",\"text\":\" \\n\"}]",
    "[{\"type\":\"text\"}]",
    "[{}]",
    "[\"words\"]",
    "[[{\"type\":\"text\",\"text\":\"nested\"}]]",
];
const BLOCKS: [&str; 16] = [
    r#"{"type":"thinking","thinking":"hm"}"#,
    r#"{"type":"thinking","thinking":"hm","signature":"c2ln"}"#,
    r#"{"type":"redacted_thinking","data":"x"}"#,
    r#"{"type":"redacted_thinking"}"#,
    r#"{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}}"#,
    r#"{"type":"server_tool_use","id":"bad id","name":"web_search","input":{}}"#,
    r#"{"type":"web_search_tool_result","tool_use_id":"srvtoolu_9","content":[]}"#,
    r#"{"type":"tool_use","id":"toolu_x","name":"Bash","input":"text"}"#,
    r#"{"type":"tool_use","id":"toolu_x","name":"Bash","input":[1]}"#,
    r#"{"type":"tool_use","id":"toolu_x","name":"","input":{}}"#,
    r#"{"type":"tool_result","tool_use_id":"toolu_gone","content":"of nothing"}"#,
    r#"{"type":"image","source":{"type":"base64","media_type":"image/bmp","data":"Qk0="}}"#,
    r#"{"type":"image"}"#,
    r#"{"type":"tool_reference","tool_name":"x"}"#,
    r#"{"type":"hologram","data":1}"#,
    r#"{"type":"text","text":"more","extra":true}"#,
];
const RESULTS: [&str; 8] = [
    "[]",
    "null",
    "7",
    r#"{"stdout":"x"}"#,
    r#"[{"type":"text","text":""}]"#,
    r#"[{"type":"image","source":{}}]"#,
    r#"[{"type":"tool_reference","tool_name":"WebFetch"}]"#,
    r#"[{"type":"hologram"}]"#,
];

/// The recorded sessions, by version and name.
pub fn recorded() -> Vec<(String, String)> {
    let mut sessions = Vec::new();
    for version in VERSIONS {
        let folder = fixtures().join(format!("claude-{version}"));
        let mut names: Vec<PathBuf> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
        names.retain(|path| path.extension().is_some_and(|ending| ending == "jsonl"));
        names.sort();
        sessions.extend(names.into_iter().map(|path| {
            let name = format!("{version} {}", path.file_stem().unwrap().to_string_lossy());
            (name, std::fs::read_to_string(path).unwrap())
        }));
    }
    sessions
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../unforget-core/tests/fixtures")
}

/// Mutants of all recorded sessions, so many of each, with their names.
pub fn mutants(of_each: usize, seed: u64) -> impl Iterator<Item = (String, Vec<u8>)> {
    recorded().into_iter().zip(0..).flat_map(move |((name, text), at)| {
        let mut dice = Dice::new(seed.wrapping_add(at) | 1 << 40);
        (0..of_each).map(move |number| {
            let mut mutant = Mutant::of(&text);
            let mut changes = Vec::new();
            for _ in 0..=dice.below(3) {
                changes.extend(mutant.change(&mut dice));
            }
            (format!("{name} #{number}: {}", changes.join(", ")), mutant.bytes())
        })
    })
}

struct Mutant {
    lines: Vec<String>,
    /// How much of the last line is not there.
    torn: usize,
}

impl Mutant {
    fn of(text: &str) -> Self {
        Self { lines: text.lines().map(str::to_owned).collect(), torn: 0 }
    }

    fn bytes(self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.lines.iter().flat_map(|line| [line.as_bytes(), b"\n"].concat()).collect();
        bytes.truncate(bytes.len().saturating_sub(self.torn));
        bytes
    }

    /// One change, and its name; none if the session has nothing to change so.
    fn change(&mut self, dice: &mut Dice) -> Option<String> {
        if self.lines.len() < 2 {
            return None;
        }
        let said = self.lines_with(&["user", "assistant"]);
        let told = self.lines_with(&["user", "assistant", "attachment"]);
        let calls = self.lines_having("\"type\":\"tool_use\"");
        let results = self.lines_having("\"type\":\"tool_result\"");
        let rendered = self.lines_having("\"rendered\":");
        let at = dice.pick(&said);
        let told_at = dice.pick(&told);
        let call = (!calls.is_empty()).then(|| dice.pick(&calls));
        let result = (!results.is_empty()).then(|| dice.pick(&results));
        let id = dice.pick(&IDS);
        let name = match dice.below(28) {
            0 => self.removed(told_at, "dropped"),
            1 => self.removed(call?, "call dropped"),
            2 | 3 => self.removed(result?, "result dropped"),
            4 => {
                self.lines.insert(told_at, self.lines[told_at].clone());
                format!("line {told_at} doubled")
            }
            5 => {
                self.lines.push(self.lines[told_at].clone());
                format!("line {told_at} again at the end")
            }
            6 => {
                let other = dice.pick(&told);
                self.lines.swap(told_at, other);
                format!("lines {told_at} and {other} swapped")
            }
            7 => {
                let line = &mut self.lines[told_at];
                let middle = line.floor_char_boundary(line.len() / 2);
                line.truncate(middle);
                format!("line {told_at} cut")
            }
            8 => {
                self.torn = dice.below(self.lines.last()?.len());
                "end torn".to_owned()
            }
            9 => self.edit(at, "other type", |line| {
                line["type"] = json!(if line["type"] == "user" { "assistant" } else { "user" });
            }),
            10 => self.edit(at, "other role", |line| {
                line["message"]["role"] = json!(if line["type"] == "user" { "assistant" } else { "system" });
            }),
            11 => self.edit(result?, "orphan result", |line| {
                line["message"]["content"][0]["tool_use_id"] = json!("toolu_gone");
            }),
            12 => self.edit(call?, "bad id of a call", |line| line["message"]["content"][0]["id"] = json!(id)),
            13 => self
                .edit(result?, "bad id of a result", |line| line["message"]["content"][0]["tool_use_id"] = json!(id)),
            14 | 15 => {
                let old = self.id_of(call?)?;
                let id = if id.is_empty() { "a b" } else { id };
                let (old, new) = (format!("\"{old}\""), format!("\"{id}\""));
                self.lines.iter_mut().for_each(|line| *line = line.replace(&old, &new));
                format!("call {old} is {new} everywhere")
            }
            16 => {
                let (one, other) = (call?, dice.pick(&calls));
                let (from, to) = (self.id_of(one)?, self.id_of(other)?);
                let (old, new) = (format!("\"{from}\""), format!("\"{to}\""));
                self.lines.iter_mut().for_each(|line| *line = line.replace(&old, &new));
                format!("two calls are {to}")
            }
            17 | 18 => {
                let content: Value = serde_json::from_str(dice.pick(&CONTENTS)).ok()?;
                let name = format!("content {content}");
                self.edit(at, &name, |line| line["message"]["content"] = content)
            }
            19 => {
                let line = dice.pick(&rendered_or(&rendered, at));
                let text = dice.pick(&["", "  ", HALF, "\u{1c}"]);
                self.edit(line, &format!("rendered {text:?}"), |line| {
                    if let Some(first) = line["rendered"].get_mut(0) {
                        first["content"] = json!(text);
                    }
                })
            }
            20 => {
                let line = dice.pick(&rendered_or(&rendered, at));
                let role = dice.pick(&["system", "user"]);
                let parent = json!(dice.pick(&self.uuids()));
                self.edit(line, "attachment elsewhere", |line| {
                    line["renderedRole"] = json!(role);
                    line["parentUuid"] = parent;
                })
            }
            21 | 22 => {
                let half = |text: &mut Value| *text = json!(format!("{}{HALF}", text.as_str().unwrap_or_default()));
                self.edit(at, "half a character", |line| match &mut line["message"]["content"] {
                    Value::Array(blocks) => {
                        for block in blocks {
                            let name =
                                ["text", "content", "thinking"].into_iter().find(|name| block[*name].is_string());
                            half(&mut block[name.unwrap_or("name")]);
                        }
                    }
                    text => half(text),
                })
            }
            23 => {
                let name = dice.pick(&["\"content\":", "\"message\":", "\"type\":", "\"input\":{", "\"uuid\":"]);
                let place = self.lines[at].find(name)?;
                let twice = match name {
                    "\"input\":{" => "\"input\":{\"command\":\"a\",\"command\":\"b\",".to_owned(),
                    name => format!("{name}\"SHADOW\",{name}"),
                };
                self.lines[at].replace_range(place..place + name.len(), &twice);
                // Arguments that were empty leave a comma behind.
                self.lines[at] = self.lines[at].replace("\"b\",}", "\"b\"}");
                format!("line {at} has {name} twice")
            }
            24 => {
                let parent = dice.pick(&self.uuids());
                let parent = dice.pick(&[None, Some("gone"), Some(parent)]);
                let parent = json!(parent);
                self.edit(told_at, "other parent", |line| line["parentUuid"] = parent)
            }
            25 => {
                let mut line: Value = serde_json::from_str(&self.lines[at]).ok()?;
                line["message"]["content"] = json!([{ "type": "text", "text": "said otherwise" }]);
                self.lines.push(line.to_string());
                format!("line {at} again in another form")
            }
            26 => {
                let block: Value = serde_json::from_str(dice.pick(&BLOCKS)).ok()?;
                let (name, is_alone) = (format!("block {block}"), dice.one_in(2));
                self.edit(at, &name, |line| match &mut line["message"]["content"] {
                    Value::Array(blocks) if !is_alone => blocks.push(block),
                    content => *content = json!([block]),
                })
            }
            _ => {
                let content: Value = serde_json::from_str(dice.pick(&RESULTS)).ok()?;
                let (name, is_error) = (format!("result {content}"), json!(dice.pick(&[Some("yes"), None])));
                self.edit(result?, &name, |line| {
                    line["message"]["content"][0]["content"] = content;
                    line["message"]["content"][0]["is_error"] = is_error;
                })
            }
        };
        Some(name)
    }

    fn removed(&mut self, at: usize, what: &str) -> String {
        self.lines.remove(at);
        format!("line {at} {what}")
    }

    fn edit(&mut self, at: usize, name: &str, change: impl FnOnce(&mut Value)) -> String {
        if let Ok(mut line) = serde_json::from_str::<Value>(&self.lines[at]) {
            change(&mut line);
            self.lines[at] = line.to_string().replace(HALF, "\\ud83d");
        }
        format!("line {at}: {name}")
    }

    fn lines_with(&self, types: &[&str]) -> Vec<usize> {
        let is_one = |line: &String| types.iter().any(|kind| line.contains(&format!("\"type\":\"{kind}\"")));
        let found: Vec<usize> = (0..self.lines.len()).filter(|at| is_one(&self.lines[*at])).collect();
        if found.is_empty() { vec![0] } else { found }
    }

    fn lines_having(&self, text: &str) -> Vec<usize> {
        (0..self.lines.len()).filter(|at| self.lines[*at].contains(text)).collect()
    }

    fn id_of(&self, call: usize) -> Option<String> {
        let line: Value = serde_json::from_str(&self.lines[call]).ok()?;
        let blocks = line["message"]["content"].as_array()?;
        blocks.iter().find_map(|block| block["id"].as_str().map(str::to_owned)).filter(|id| !id.is_empty())
    }

    fn uuids(&self) -> Vec<&str> {
        let uuid = |line: &'_ String| {
            let (_, rest) = line.split_once("\"uuid\":\"")?;
            let end = rest.find('"')?;
            let start = line.len() - rest.len();
            Some((start, start + end))
        };
        let found: Vec<&str> =
            self.lines.iter().filter_map(|line| uuid(line).map(|(start, end)| &line[start..end])).collect();
        if found.is_empty() { vec!["none"] } else { found }
    }
}

fn rendered_or(rendered: &[usize], other: usize) -> Vec<usize> {
    if rendered.is_empty() { vec![other] } else { rendered.to_vec() }
}
