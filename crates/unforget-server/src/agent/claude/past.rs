//! How far the turn of a prompt came, as a transcript of Claude Code tells before anything is begun in it.
//!
//! The program's lines have no ends of turns. What tells is what came last: an answer, or a note that the turn was stopped or that a command was one of its own, is
//! an end; a call, a result or the word to go on is not. The newest lines are looked at, back to the prompt.

use serde_json::Value;
use unforget_core::reader::LogReader;

use super::GO_ON;
use super::id::PromptId;
use super::kept::{prompted, words_of};
use crate::agent::Said;
use crate::error::Result;

/// How the words begin that the program writes down of its own accord: of its commands, and that somebody stopped it.
const NOTES: [&str; 4] = ["<command-", "<local-command-", "<bash-", "[Request interrupted"];

/// What a line is to a turn.
#[derive(Debug, PartialEq, Eq)]
enum Step<'a> {
    /// Words of a person, under this name.
    Prompt(&'a str),
    /// Something that a turn does.
    Deed,
    /// What a turn ends with, if nothing follows.
    End,
    /// None of it.
    Aside,
}

/// Looks for a prompt, or for the newest one.
pub(super) fn find(reader: &LogReader, wanted: Option<&PromptId>) -> Result<Option<Said>> {
    let (mut said, mut is_found) = (Said { n: 0, is_ended: false, is_touched: false }, false);
    let mut backward = reader.backward();
    while let Some(line) = backward.next()? {
        if is_found {
            said.n += 1;
            continue;
        }
        let Ok(value) = serde_json::from_slice::<Value>(line.bytes) else { continue };
        match step(&value) {
            Step::Prompt(uuid) if wanted.is_none_or(|wanted| wanted.as_str() == uuid) => is_found = true,
            // The conversation went on.
            Step::Prompt(_) => (said.is_ended, said.is_touched) = (true, true),
            Step::End => (said.is_ended, said.is_touched) = (said.is_ended || !said.is_touched, true),
            Step::Deed => said.is_touched = true,
            Step::Aside => {}
        }
    }
    Ok(is_found.then_some(said))
}

fn step(line: &Value) -> Step<'_> {
    let is_aside = line["isSidechain"] == true || line["isMeta"] == true || line["uuid"].as_str().is_none();
    let kind = line["type"].as_str().unwrap_or_default();
    if is_aside || !matches!(kind, "user" | "assistant") {
        return Step::Aside;
    }
    let blocks = line["message"]["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    if kind == "assistant" {
        let is_call = blocks.iter().any(|block| block["type"] == "tool_use");
        return if is_call { Step::Deed } else { Step::End };
    }
    let words = words_of(line);
    let is_note = words.as_deref().is_some_and(|words| NOTES.iter().any(|start| words.starts_with(start)));
    match prompted(line) {
        _ if is_note => Step::End,
        Some(uuid) if words.as_deref() != Some(GO_ON) => Step::Prompt(uuid),
        _ => Step::Deed,
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the test is not the store")]
mod tests {
    use serde_json::json;
    use unforget_core::medium::Os;

    use super::*;
    use crate::agent::claude::ClaudeSessionId;
    use crate::protocol::ClientId;

    #[test]
    fn the_lines_behind_a_prompt_tell_how_far_its_turn_came() {
        let folder = tempfile::tempdir().unwrap();
        let session = ClaudeSessionId::parse("0199a8e5-6f5e-7d2a-9f43-1c8f1b6f0a11").unwrap();
        let prompt = PromptId::of(&session, &ClientId::parse("c1").unwrap());
        let line = |kind: &str, uuid: &str, content: Value| json!({ "type": kind, "uuid": uuid, "message": { "content": content } });
        let said = line("user", prompt.as_str(), json!("do it"));
        let before = line("user", "before", json!("hello"));
        let call = line("assistant", "b", json!([{ "type": "tool_use" }]));
        let result = line("user", "c", json!([{ "type": "tool_result" }]));
        let on = line("user", "d", json!(GO_ON));
        let answer = line("assistant", "e", json!([{ "type": "text", "text": "yes" }]));
        let stopped = line("user", "f", json!([{ "type": "text", "text": "[Request interrupted by user]" }]));
        let next = line("user", "g", json!("and then?"));
        let beside = json!({ "type": "last-prompt", "leafUuid": "x" });
        for (lines, found) in [
            (vec![&before], None),
            (vec![&before, &said, &beside], Some((false, false))),
            (vec![&before, &said, &call], Some((false, true))),
            (vec![&before, &said, &call, &result, &beside], Some((false, true))),
            (vec![&before, &said, &call, &result, &on], Some((false, true))),
            (vec![&before, &said, &answer], Some((true, true))),
            (vec![&before, &said, &answer, &call], Some((false, true))),
            (vec![&before, &said, &call, &stopped], Some((true, true))),
            (vec![&before, &said, &call, &next], Some((true, true))),
        ] {
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            std::fs::write(folder.path().join("t"), text).unwrap();
            let reader = LogReader::open(&Os::new(folder.path()), "t".as_ref()).unwrap();
            let found = found.map(|(is_ended, is_touched)| Said { n: 1, is_ended, is_touched });
            assert_eq!(find(&reader, Some(&prompt)).unwrap(), found, "{lines:?}");
        }
    }
}
