//! What a transcript says about the prompts in it, read as anybody can read it: lines of JSON.

use std::path::Path;

use serde_json::Value;

use super::Result;

/// A prompt in a transcript, and what came of it before the next one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// What its client called it; none if it came from elsewhere.
    pub client_id: Option<String>,
    /// The words.
    pub words: String,
    /// What was answered, all answers in a row.
    pub answer: String,
    /// How its turn ended: `done`, `aborted`, `failed`; none if it did not.
    pub end: Option<String>,
    /// How often its turn ended.
    pub ends: usize,
}

/// The prompts of a session, in their order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Transcript {
    /// The prompts.
    pub prompts: Vec<Said>,
    /// How many records there are.
    pub records: usize,
    /// How often another server took it over.
    pub taken_over: usize,
    /// Records whose number does not follow the one before.
    pub gaps: Vec<String>,
}

impl Transcript {
    /// Reads one.
    #[expect(clippy::disallowed_methods, reason = "read as anybody can, without the store that wrote it")]
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut found = Self::default();
        for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            let record: Value = serde_json::from_str(line).map_err(|error| format!("{}: {error}", path.display()))?;
            found.add(&record);
        }
        Ok(found)
    }

    fn add(&mut self, record: &Value) {
        let n = record["n"].as_u64().unwrap_or(u64::MAX);
        if n != self.records as u64 {
            self.gaps.push(format!("record {} says that it is {n}", self.records));
        }
        self.records += 1;
        let last = self.prompts.last_mut();
        match record["type"].as_str().unwrap_or_default() {
            "user" => self.prompts.push(Said {
                client_id: record["client_id"].as_str().map(str::to_owned),
                words: text(&record["content"]),
                answer: String::new(),
                end: None,
                ends: 0,
            }),
            "assistant" => last.into_iter().for_each(|said| said.answer.push_str(&text(&record["content"]))),
            "turn" if record["state"] != "running" && record["state"] != "interrupted" => {
                let state = record["state"].as_str().map(str::to_owned);
                last.into_iter().for_each(|said| {
                    said.ends += 1;
                    said.end.clone_from(&state);
                });
            }
            "served" => self.taken_over += 1,
            _ => {}
        }
    }

    /// The prompts of a name.
    pub fn named(&self, client_id: &str) -> Vec<&Said> {
        self.prompts.iter().filter(|said| said.client_id.as_deref() == Some(client_id)).collect()
    }
}

/// The text of a message's content.
fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().filter_map(|block| block["text"].as_str()).collect(),
        _ => String::new(),
    }
}
