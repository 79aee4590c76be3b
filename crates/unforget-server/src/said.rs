//! Messages that another program's agent said or heard, as records of a session.
//!
//! They come in the form of the Messages API and keep their bytes. A message whose role or content cannot be one is refused before anything is written;
//! what is missing between them (a result that never came) is seen to when the conversation is read, as for every other session.
//!
//! A caller that does not know whether its messages arrived sends them again under the same name: that name is in the last record, and looked for
//! at the end of the transcript.

use serde::Deserialize;
use serde_json::value::RawValue;
use unforget_core::json;
use unforget_core::record::Draft;
use unforget_core::session::{Session, block_draft};

use crate::error::{Problem, Result};
use crate::protocol::ClientId;

/// The member that holds the caller's name for what it added.
const NAME: &str = "added_id";
/// How much of a transcript is looked through for a name.
const LOOKED_THROUGH: u64 = 4 << 20;
/// How many messages can be added at a time.
const MOST: usize = 1000;

/// A message.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Message {
    role: Role,
    content: Box<RawValue>,
}

impl Message {
    /// How many bytes its content has.
    pub(crate) fn size(&self) -> usize {
        self.content.get().len()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Role {
    User,
    Assistant,
}

/// What a caller calls what it adds.
pub(crate) fn name(text: &str) -> Result<ClientId> {
    ClientId::parse(text).ok_or_else(|| {
        Problem::invalid(format!("`client_id` has from 1 to {} bytes and no control characters", ClientId::MAX))
    })
}

/// Adds messages to a session, all or none; the number of the last record.
pub(crate) fn add(session: &mut Session, messages: &[Message], client_id: Option<&ClientId>) -> Result<u64> {
    if let Some(n) = client_id.map(|name| find(session, name)).transpose()?.flatten() {
        return Ok(n);
    }
    let next = session.reader()?.len();
    let mut drafts = drafts(messages, next)?;
    // They are written at once, so the last one says it for all.
    if let Some(name) = client_id
        && let Some(last) = drafts.pop()
    {
        drafts.push(last.text(NAME, name.as_str()));
    }
    let range = session.append(&drafts)?;
    Ok(range.end.saturating_sub(1))
}

/// The record that something was added with under this name, if it is among the last.
fn find(session: &Session, name: &ClientId) -> Result<Option<u64>> {
    let reader = session.reader()?;
    let (mut lines, len) = (reader.backward(), reader.len());
    while let Some(line) = lines.next()? {
        if len - line.offset > LOOKED_THROUGH {
            break;
        }
        let Some(members) = std::str::from_utf8(line.bytes).ok().and_then(|text| json::members(text.trim_ascii()))
        else {
            continue;
        };
        if json::member(&members, NAME).and_then(json::string).as_deref() == Some(name.as_str()) {
            return Ok(json::member(&members, "n").and_then(json::number));
        }
    }
    Ok(None)
}

/// The records of messages. What the model said in one message has one name, made of where it is.
fn drafts(messages: &[Message], at: u64) -> Result<Vec<Draft>> {
    if messages.is_empty() || messages.len() > MOST {
        return Err(Problem::invalid(format!("`messages` has from 1 to {MOST} messages")));
    }
    let mut drafts = Vec::new();
    for (place, message) in messages.iter().enumerate() {
        let wrong = |what: &str| Problem::invalid(format!("`messages[{place}].content` {what}"));
        let content = message.content.get();
        let blocks = match (json::string(content), json::elements(content)) {
            (Some(text), _) if text.is_empty() => return Err(wrong("is empty")),
            (Some(text), _) => {
                let block = format!("{{\"type\":\"text\",\"text\":{}}}", json::quote(&text));
                match message.role {
                    Role::User => drafts.push(Draft::user(&text)),
                    Role::Assistant => drafts.push(block_draft(&format!("added-{at}-{place}"), &block)),
                }
                continue;
            }
            (None, Some(blocks)) if !blocks.is_empty() => blocks,
            (None, Some(_)) => return Err(wrong("is empty")),
            (None, None) => return Err(wrong("is neither a text nor a list of blocks")),
        };
        let is_block = |block: &&str| {
            let members = json::members(block).unwrap_or_default();
            json::member(&members, "type").and_then(json::string).is_some_and(|kind| !kind.is_empty())
        };
        if !blocks.iter().all(is_block) {
            return Err(wrong("has something that is no block: an object with a `type`"));
        }
        match message.role {
            Role::Assistant => {
                drafts.extend(blocks.iter().map(|block| block_draft(&format!("added-{at}-{place}"), block)));
            }
            Role::User => drafts.extend(heard(&blocks)),
        }
    }
    if is_over(messages) {
        drafts.push(Draft::turn("done"));
    }
    Ok(drafts)
}

/// What the model heard: results of its calls, and what a person said.
fn heard(blocks: &[&str]) -> Vec<Draft> {
    let mut drafts = Vec::new();
    let mut words: Vec<&str> = Vec::new();
    for block in blocks {
        let members = json::members(block).unwrap_or_default();
        let id = json::member(&members, "tool_use_id").and_then(json::string);
        match id.filter(|_| json::has_type(block, &["tool_result"])) {
            None => words.push(block),
            Some(id) => {
                let output = json::member(&members, "content").unwrap_or("\"\"");
                let draft = Draft::tool_result(&id, output);
                drafts.push(match json::member(&members, "is_error") {
                    Some("true") => draft.raw("is_error", "true"),
                    _ => draft,
                });
            }
        }
    }
    if !words.is_empty() {
        drafts.push(Draft::new("user").raw("content", &format!("[{}]", words.join(","))));
    }
    drafts
}

/// Whether the last message ends a turn: the model said it, and waits for no result.
fn is_over(messages: &[Message]) -> bool {
    messages.last().is_some_and(|message| {
        let blocks = json::elements(message.content.get()).unwrap_or_default();
        message.role == Role::Assistant && !blocks.iter().any(|block| json::has_type(block, &["tool_use"]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(messages: &str) -> Result<Vec<String>> {
        let messages: Vec<Message> = serde_json::from_str(messages).unwrap();
        Ok(drafts(&messages, 7)?.iter().map(|draft| draft.kind().to_owned()).collect())
    }

    #[test]
    fn a_conversation_becomes_its_records() {
        let messages = r#"[
            {"role":"user","content":"hello"},
            {"role":"assistant","content":[{"type":"text","text":"I look."},{"type":"tool_use","id":"t","name":"ls","input":{}}]},
            {"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"a b"},{"type":"text","text":"and?"}]},
            {"role":"assistant","content":"Two."}]"#;
        let want = ["user", "assistant", "tool_use", "tool_result", "user", "assistant", "turn"];
        assert_eq!(kinds(messages).unwrap(), want);
    }

    #[test]
    fn every_message_is_written_with_a_name_or_without() {
        use unforget_core::directory::{Directory, OnMissing};
        use unforget_core::key::Key;
        use unforget_core::log::Durability;
        use unforget_core::medium::Os;
        use unforget_core::stamp::System;
        let home = tempfile::tempdir().unwrap();
        let medium = std::sync::Arc::new(Os::new(home.path().to_path_buf()));
        let store = Directory::new(medium, std::sync::Arc::new(System), Durability::PowerLoss);
        let key: Key = "main:api:x".parse().unwrap();
        let mut session = store.load(&key, OnMissing::Create).unwrap();
        let one: Vec<Message> = serde_json::from_str(r#"[{"role":"user","content":"hello"}]"#).unwrap();
        assert_eq!(add(&mut session, &one, None).unwrap(), 1);
        assert_eq!(add(&mut session, &one, None).unwrap(), 2);
        let named = name("once").unwrap();
        assert_eq!(add(&mut session, &one, Some(&named)).unwrap(), 3);
        assert_eq!(add(&mut session, &one, Some(&named)).unwrap(), 3);
    }

    #[test]
    fn a_call_that_waits_ends_no_turn() {
        let messages = r#"[{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"ls","input":{}}]}]"#;
        assert_eq!(kinds(messages).unwrap(), ["tool_use"]);
    }

    #[test]
    fn what_cannot_be_a_message_is_refused() {
        for messages in [
            "[]",
            r#"[{"role":"user","content":""}]"#,
            r#"[{"role":"user","content":[]}]"#,
            r#"[{"role":"user","content":7}]"#,
            r#"[{"role":"assistant","content":["words"]}]"#,
            r#"[{"role":"assistant","content":[{"text":"no type"}]}]"#,
        ] {
            assert!(kinds(messages).is_err(), "{messages}");
        }
    }
}
