//! What is kept of a session of Claude Code while it runs: how far, which lines, and what was said last.
//!
//! The program acts first and writes a moment later, so only the file tells what it has written, and only our copy tells what is safe. After each
//! saving the lines that are new in the copy are looked at: they have numbers (their places in the file, from zero) and names (`uuid`), and the
//! last of them tells whether the model has answered.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;
use unforget_claude::keep::{Keeper, Saved, agent};
use unforget_claude::place::Found;
use unforget_claude::project::ProjectKey;
use unforget_core::reader::LogReader;

use super::GO_ON;
use super::id::{ClaudeSessionId, PromptId};
use super::place::{Place, problem};
use super::wire::SYNTHETIC;
use crate::error::Result;

/// How long it takes at most until something is kept that is written beside the transcript.
const SWEEP: Duration = Duration::from_secs(2);

/// What the last line of a conversation is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Last {
    /// Nothing was said.
    #[default]
    Nothing,
    /// Words of a person, or the result of a tool: the model has to say something.
    Asked,
    /// An answer of the model.
    Answered {
        /// Its words.
        text: String,
        /// Why it stopped.
        stop_reason: Option<String>,
        /// JSON text of its usage.
        usage: Option<String>,
    },
}

/// What is kept of one session.
#[derive(Debug)]
pub(super) struct Kept {
    keeper: Keeper,
    id: ClaudeSessionId,
    project: ProjectKey,
    /// The transcript, beneath the program's directory.
    path: PathBuf,
    /// The copy, in the store.
    copy: PathBuf,
    /// Length and time of the transcript when it was saved last, and when that was.
    seen: Option<((u64, i64), Instant)>,
    /// How far the copy was looked at, in bytes and in lines.
    offset: u64,
    lines: u64,
    names: HashSet<String>,
    last: Last,
    /// The newest words of a person.
    prompt: Option<String>,
    /// The line that says what was before it.
    compaction: Option<u64>,
}

impl Kept {
    /// Keeps what there is, and looks at it.
    pub(super) fn open(place: &Place, id: &ClaudeSessionId) -> Result<Self> {
        let mut kept = Self {
            keeper: place.keeper.clone(),
            id: id.clone(),
            project: place.project.clone(),
            path: place.transcript(id),
            copy: agent().transcript(&id.kept()?),
            seen: None,
            offset: 0,
            lines: 0,
            names: HashSet::new(),
            last: Last::default(),
            prompt: None,
            compaction: None,
        };
        kept.save_by(Keeper::save)?;
        Ok(kept)
    }

    /// Saves if something has changed, as far as a glance tells; whether there are new lines.
    pub(super) fn glance(&mut self) -> Result<bool> {
        let now = self.keeper.config().medium().stat(&self.path).ok().map(|stat| (stat.len, stat.modified_ns));
        let is_same = match (&self.seen, now) {
            (Some((seen, at)), Some(now)) => *seen == now && at.elapsed() < SWEEP,
            (_, None) => true,
            (None, Some(_)) => false,
        };
        if is_same { Ok(false) } else { self.save() }
    }

    /// Saves what there is; whether there are new lines. A transcript that is not there has none. Lines that were changed in place are found
    /// when the session is attended the next time.
    pub(super) fn save(&mut self) -> Result<bool> {
        self.save_by(Keeper::save_added)
    }

    fn save_by(&mut self, save: fn(&Keeper, &Found) -> unforget_claude::Result<Saved>) -> Result<bool> {
        if let Ok(stat) = self.keeper.config().medium().stat(&self.path) {
            let seen = (stat.len, stat.modified_ns);
            let (project, path) = (self.project.clone(), self.path.clone());
            let found = Found { id: self.id.theirs().clone(), project, path, stat };
            let saved = save(&self.keeper, &found).map_err(problem)?;
            for rewritten in &saved.rewritten {
                tracing::warn!(session = self.id.as_str(), %rewritten, "a line was changed after it was saved");
            }
            for left in &saved.left_out {
                tracing::warn!(session = self.id.as_str(), left, "not kept");
            }
            self.seen = Some((seen, Instant::now()));
        }
        self.look()
    }

    /// Looks at the lines of the copy that were not looked at.
    fn look(&mut self) -> Result<bool> {
        let medium = self.keeper.store().medium();
        if medium.stat(&self.copy).is_err() {
            return Ok(false);
        }
        let reader = LogReader::open(medium.as_ref(), &self.copy)?;
        let mut forward = reader.forward(self.offset);
        let before = self.lines;
        while let Some(line) = forward.next()? {
            if !line.terminated {
                break;
            }
            self.offset = line.offset + line.len + 1;
            self.lines += 1;
            if let Ok(value) = serde_json::from_slice::<Value>(line.bytes) {
                note(&value, &mut self.names, &mut self.last);
                if let Some(uuid) = prompted(&value) {
                    self.prompt = Some(uuid.to_owned());
                }
                if value["isCompactSummary"] == true && value["isSidechain"] != true {
                    self.compaction = Some(self.lines - 1);
                }
            }
        }
        Ok(self.lines > before)
    }

    /// The number of the last line that is kept.
    pub(super) fn last_line(&self) -> Option<u64> {
        self.lines.checked_sub(1)
    }

    /// Whether a line of the conversation is kept.
    pub(super) fn has(&self, uuid: &str) -> bool {
        self.names.contains(uuid)
    }

    /// Whether a prompt is kept.
    pub(super) fn has_prompt(&self, prompt: &PromptId) -> bool {
        self.has(prompt.as_str())
    }

    /// Whether a prompt is the newest that is kept: what was said last is about it.
    pub(super) fn is_newest(&self, prompt: &PromptId) -> bool {
        self.prompt.as_deref() == Some(prompt.as_str())
    }

    /// What was said last.
    pub(super) fn last(&self) -> &Last {
        &self.last
    }

    /// The number of the last line that says in a few words what was before it.
    pub(super) fn compaction(&self) -> Option<u64> {
        self.compaction
    }

    /// Whether there is something to resume. A transcript without a line of the conversation can neither be resumed nor begun anew, so it is
    /// taken out of the way; what is in it is kept.
    pub(super) fn is_resumable(&self) -> bool {
        let is_there = self.keeper.config().medium().stat(&self.path).is_ok();
        if self.last == Last::Nothing && is_there {
            match self.keeper.config().medium().remove(&self.path) {
                Ok(()) => {}
                Err(error) => tracing::warn!(%error, "an empty transcript is in the way"),
            }
        }
        self.last != Last::Nothing
    }
}

/// The words of a line; none if it has none.
pub(super) fn words_of(line: &Value) -> Option<String> {
    let content = &line["message"]["content"];
    match content.as_str() {
        Some(words) => Some(words.to_owned()),
        None => content.as_array()?.iter().find_map(|block| block["text"].as_str()).map(str::to_owned),
    }
}

/// The name of a line that a person said; none if it is another one.
pub(super) fn prompted(line: &Value) -> Option<&str> {
    let is_aside = line["isSidechain"] == true || line["isMeta"] == true || line["isCompactSummary"] == true;
    let blocks = line["message"]["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_result = blocks.iter().any(|block| block["type"] == "tool_result");
    // That it is to go on is said for the sake of what was said before.
    let content = &line["message"]["content"];
    let is_aside = is_aside || content == GO_ON || blocks.iter().any(|block| block["text"] == GO_ON);
    line["uuid"].as_str().filter(|_| line["type"] == "user" && !is_aside && !is_result)
}

/// Takes note of a line.
fn note(line: &Value, names: &mut HashSet<String>, last: &mut Last) {
    let Some(uuid) = line["uuid"].as_str() else { return };
    if line["isSidechain"] == true {
        return;
    }
    names.insert(uuid.to_owned());
    let kind = line["type"].as_str().unwrap_or_default();
    let message = &line["message"];
    if !matches!(kind, "user" | "assistant") {
        return;
    }
    let blocks = message["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_answer = kind == "assistant"
        && line["isApiErrorMessage"] != true
        && message["model"] != SYNTHETIC
        && !blocks.iter().any(|block| block["type"] == "tool_use");
    if !is_answer {
        *last = Last::Asked;
        return;
    }
    let texts = blocks.iter().filter_map(|block| block["text"].as_str());
    *last = Last::Answered {
        text: texts.collect(),
        stop_reason: message["stop_reason"].as_str().map(str::to_owned),
        usage: message["usage"].as_object().map(|_| message["usage"].to_string()),
    };
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn noted(lines: &[Value]) -> (Vec<String>, Last) {
        let (mut names, mut last) = (HashSet::new(), Last::default());
        lines.iter().for_each(|line| note(line, &mut names, &mut last));
        let mut names: Vec<String> = names.into_iter().collect();
        names.sort();
        (names, last)
    }

    #[test]
    fn the_last_line_of_the_conversation_tells_whether_it_was_answered() {
        let said = |kind: &str, uuid: &str, content: Value| json!({ "type": kind, "uuid": uuid, "message": { "content": content } });
        let prompt = said("user", "a", json!("hi"));
        let call = said("assistant", "b", json!([{ "type": "tool_use" }]));
        let result = said("user", "c", json!([{ "type": "tool_result" }]));
        let answer = said("assistant", "d", json!([{ "type": "text", "text": "yes" }]));
        let beside = json!({ "type": "last-prompt", "leafUuid": "x" });
        let below = json!({ "type": "user", "uuid": "z", "isSidechain": true, "message": { "content": "sub" } });
        let yes = Last::Answered { text: "yes".to_owned(), stop_reason: None, usage: None };
        for (lines, names, last) in [
            (vec![], "", Last::Nothing),
            (vec![prompt.clone()], "a", Last::Asked),
            (vec![prompt.clone(), call.clone()], "a b", Last::Asked),
            (vec![prompt.clone(), call.clone(), result.clone()], "a b c", Last::Asked),
            (vec![prompt, call, result, answer, beside, below], "a b c d", yes),
        ] {
            let (found, is) = noted(&lines);
            assert_eq!((found.join(" ").as_str(), is), (names, last));
        }
    }

    #[test]
    fn what_the_program_says_instead_of_the_model_is_no_answer() {
        let line = json!({ "type": "assistant", "uuid": "a", "message": { "model": "<synthetic>", "content": [{ "type": "text", "text": "No response requested." }] } });
        assert_eq!(noted(&[line]).1, Last::Asked);
    }
}
