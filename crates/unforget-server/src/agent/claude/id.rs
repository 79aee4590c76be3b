//! The names that Claude Code knows: of a session, and of a prompt in it.
//!
//! Both are UUIDs and neither is what it stands for here. A session of Claude Code is kept under its own id, so the two spellings are equal,
//! but not every id of a kept session is one that the program accepts; a client's name of a prompt is any text. The types keep them
//! apart, and whoever goes from one to the other says so.

use sha2::{Digest as _, Sha256};
use unforget_claude::id::SessionId as Theirs;
use unforget_claude::keep::kept_id;
use unforget_core::stamp::{SessionId as Kept, SharedSource};

use crate::error::{Problem, Result};
use crate::protocol::ClientId;

/// What names of prompts are made with, so that they equal no other digest of the same words.
const PROMPT: &[u8] = b"unforget: a prompt of Claude Code";
/// How many bytes a UUID has.
const UUID_BYTES: usize = 16;

/// The id of a session, as Claude Code knows it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClaudeSessionId(Theirs);

impl ClaudeSessionId {
    /// Takes the text of an id; none if Claude Code would not accept it.
    pub fn parse(text: &str) -> Option<Self> {
        Theirs::parse(text).map(Self)
    }

    /// One that nobody has had before.
    pub fn new(source: &SharedSource) -> Result<Self> {
        let id = source.new_id(source.now_ms());
        Self::of_kept(&id).ok_or_else(|| Problem::internal("a name for the session", &id.as_str()))
    }

    /// The session that is kept under an id; none if that is no session of Claude Code.
    pub fn of_kept(id: &Kept) -> Option<Self> {
        Self::parse(id.as_str())
    }

    /// The id that the session is kept under.
    pub fn kept(&self) -> Result<Kept> {
        kept_id(&self.0).map_err(|error| Problem::internal("the session's name", &error))
    }

    /// As `unforget-claude` calls it.
    pub fn theirs(&self) -> &Theirs {
        &self.0
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

/// The name that a prompt has in a transcript of Claude Code: its line's `uuid`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PromptId(String);

impl PromptId {
    /// The name of what a client sent: the same for the same name in the same session, whenever and wherever it is sent.
    pub fn of(session: &ClaudeSessionId, client_id: &ClientId) -> Self {
        let mut digest = Sha256::new();
        for part in [PROMPT, session.as_str().as_bytes(), client_id.as_str().as_bytes()] {
            digest.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
            digest.update(part);
        }
        let mut bytes = [0; UUID_BYTES];
        bytes.iter_mut().zip(digest.finalize()).for_each(|(byte, digest)| *byte = digest);
        Self(uuid::Builder::from_custom_bytes(bytes).into_uuid().to_string())
    }

    /// One for words that no client sent.
    pub fn random() -> Self {
        Self(uuid::Uuid::now_v7().to_string())
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_has_one_name_in_a_session_and_another_in_another() {
        let [one, other] = ["0f7a4c52-8e5d-4f0a-9a57-1c2d3e4f5a6b", "1f7a4c52-8e5d-4f0a-9a57-1c2d3e4f5a6b"]
            .map(|text| ClaudeSessionId::parse(text).unwrap());
        let [a, b] = ["a", "b"].map(|text| ClientId::parse(text).unwrap());
        let name = PromptId::of(&one, &a);
        assert_eq!(name, PromptId::of(&one, &a));
        assert_ne!(name, PromptId::of(&one, &b));
        assert_ne!(name, PromptId::of(&other, &a));
        assert_eq!(uuid::Uuid::parse_str(name.as_str()).unwrap().get_version_num(), 8);
    }

    #[test]
    fn only_what_claude_code_accepts_is_a_session_of_it() {
        let id = Kept::parse("0f7a4c52-8e5d-4f0a-9a57-1c2d3e4f5a6b").unwrap();
        assert_eq!(ClaudeSessionId::of_kept(&id).unwrap().kept(), Ok(id));
        assert_eq!(ClaudeSessionId::of_kept(&Kept::parse("20260101-abc").unwrap()), None);
    }
}
