//! From the text of a line to its members and what they mean.
//!
//! One pass over the line finds the members that this program knows; values stay text until someone asks. A known type
//! whose members are missing or wrong is said to be invalid, with the reason, and is never guessed at.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{Body, FileChange, Header, ToolResult, ToolUse};
use crate::json;

macro_rules! fields {
    ($($variant:ident $name:literal,)*) => {
        /// The members of a line that mean something to this program.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Field { $($variant),* }
        const FIELD_COUNT: usize = [$(Field::$variant),*].len();
        fn field(name: &str) -> Option<Field> {
            match name { $($name => Some(Field::$variant),)* _ => None }
        }
    };
}
fields! {
    V "v", N "n", Parent "parent", Type "type", Ts "ts", Crc "crc", Blobs "blobs",
    Content "content", Msg "msg", Model "model", ToolUseId "tool_use_id", Name "name", Input "input", Caller "caller",
    Output "output", IsError "is_error", Repair "repair", Id "id", Key "key", Created "created", Label "label", Origin "origin",
    State "state", Usage "usage", Summary "summary", FirstKept "first_kept", To "to", Title "title", Message "message",
    System "system", Tools "tools", Pinned "pinned", Records "records", Keep "keep", Of "of", Text "text",
    After "after", Before "before", Path "path", On "on",
    Uuid "uuid", SessionId "sessionId", LeafUuid "leafUuid", MessageId "messageId",
}

/// The known members of one line, as raw text; of members with the same name, the last one wins.
pub(super) struct Fields<'a> {
    values: [Option<&'a str>; FIELD_COUNT],
}

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Line;
        impl<'de> Visitor<'de> for Line {
            type Value = Fields<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Fields::none();
                // As raw text: a name may hold a lone surrogate, which decoding would refuse.
                while let Some(name) = map.next_key::<&RawValue>()? {
                    let value: &RawValue = map.next_value()?;
                    fields.set(&json::string(name.get()).unwrap_or_default(), value.get());
                }
                Ok(fields)
            }
        }
        deserializer.deserialize_map(Line)
    }
}

impl<'a> Fields<'a> {
    pub(super) fn none() -> Self {
        Self { values: [None; FIELD_COUNT] }
    }

    /// The members of a line; one that this program wrote is spared the general parser.
    pub(super) fn parse(raw: &'a str) -> Result<Self, serde_json::Error> {
        let mut fields = Self::none();
        match json::plain_members(raw, |name, value| fields.set(name, value)) {
            Some(()) => Ok(fields),
            None => serde_json::from_str(raw),
        }
    }

    pub(super) fn set(&mut self, name: &str, value: &'a str) {
        if let Some(field) = field(name) {
            self.values[field as usize] = Some(value).filter(|text| *text != "null");
        }
    }

    pub(super) fn get(&self, field: Field) -> Option<&'a str> {
        self.values[field as usize]
    }

    pub(super) fn text(&self, field: Field) -> Option<Cow<'a, str>> {
        self.get(field).and_then(json::string)
    }

    pub(super) fn number(&self, field: Field) -> Option<u64> {
        self.get(field).and_then(json::number)
    }

    fn is_true(&self, field: Field) -> bool {
        self.get(field) == Some("true")
    }

    /// Whether Claude Code wrote the line: none of its lines has a version, and each has one of these.
    pub(super) fn is_foreign(&self) -> bool {
        [Field::Uuid, Field::SessionId, Field::LeafUuid, Field::MessageId]
            .iter()
            .any(|field| self.get(*field).is_some())
    }

    pub(super) fn body(&self, kind: Cow<'a, str>) -> Body<'a> {
        match self.known(&kind) {
            Some(Ok(body)) => body,
            Some(Err(why)) => Body::Invalid { kind, why },
            None => Body::Unknown { kind },
        }
    }

    fn known(&self, kind: &str) -> Option<Result<Body<'a>, &'static str>> {
        Some(match kind {
            "session" => Ok(Body::Session(Header {
                id: self.text(Field::Id),
                key: self.text(Field::Key),
                label: self.text(Field::Label),
                origin: self.get(Field::Origin),
                is_repair: self.is_true(Field::Repair),
            })),
            "user" => self.words().map(|content| Body::User { content }),
            "assistant" => self.words().map(|content| Body::Assistant {
                content,
                msg: self.text(Field::Msg),
                model: self.text(Field::Model),
            }),
            "tool_use" => self.tool_use().map(Body::ToolUse),
            "tool_result" => self.tool_result().map(Body::ToolResult),
            "compaction" => match self.text(Field::Summary) {
                Some(summary) if !summary.trim().is_empty() => {
                    let pinned = self.get(Field::Pinned);
                    Ok(Body::Compaction { summary, first_kept: self.number(Field::FirstKept), pinned })
                }
                _ => Err("`summary` must be a string with words in it"),
            },
            "context" => Ok(Body::Context {
                system: self.get(Field::System),
                tools: self.get(Field::Tools),
                model: self.text(Field::Model),
            }),
            "turn" => match self.text(Field::State) {
                Some(state) => Ok(Body::Turn { state, usage: self.get(Field::Usage), model: self.text(Field::Model) }),
                None => Err("`state` must be a string"),
            },
            "error" => Ok(Body::Error { message: self.text(Field::Message).unwrap_or_default() }),
            "approval" => match (self.text(Field::ToolUseId), self.text(Field::State)) {
                (Some(tool_use_id), Some(state)) => Ok(Body::Approval { tool_use_id, state }),
                _ => Err("`tool_use_id` and `state` must be strings"),
            },
            "head" => Ok(Body::Head { to: self.number(Field::To) }),
            "label" => match self.text(Field::Name) {
                Some(name) => Ok(Body::Label { to: self.number(Field::To), name }),
                None => Err("`name` must be a string"),
            },
            "trim" => match (self.get(Field::Records), self.number(Field::Keep)) {
                (Some(records), Some(keep)) if records.starts_with('[') => Ok(Body::Trim { records, keep }),
                _ => Err("`records` must be a list and `keep` a number"),
            },
            "undo" => match self.number(Field::Of) {
                Some(of) => Ok(Body::Undo { of }),
                None => Err("`of` must be a number"),
            },
            "pin" => match (self.number(Field::To), self.get(Field::On)) {
                (Some(to), _) => Ok(Body::Pin { to, text: self.text(Field::Text) }),
                (None, Some(on @ ("true" | "false"))) => Ok(Body::Pinned { on: on == "true" }),
                (None, _) => Err("`to` must be a number, or `on` true or false"),
            },
            "expire" => Ok(Body::Expire { after: self.text(Field::After) }),
            "file" => match self.text(Field::Path) {
                Some(path) => {
                    Ok(Body::File(FileChange { path, before: self.get(Field::Before), after: self.get(Field::After) }))
                }
                None => Err("`path` must be a string"),
            },
            "title" => match self.text(Field::Title) {
                Some(title) => Ok(Body::Title { title }),
                None => Err("`title` must be a string"),
            },
            _ => return None,
        })
    }

    fn words(&self) -> Result<&'a str, &'static str> {
        match self.get(Field::Content) {
            Some(content) if content.starts_with(['"', '[', '{']) => Ok(content),
            Some(_) => Err("`content` must be a string or content blocks"),
            None => Err("`content` is missing"),
        }
    }

    fn tool_use(&self) -> Result<ToolUse<'a>, &'static str> {
        let id = self.text(Field::ToolUseId).filter(|id| !id.is_empty()).ok_or("`tool_use_id` must be a string")?;
        let name = self.text(Field::Name).filter(|name| !name.is_empty()).ok_or("`name` must be a string")?;
        let input = self.get(Field::Input).ok_or("`input` is missing")?;
        Ok(ToolUse { id, name, input, msg: self.text(Field::Msg), caller: self.get(Field::Caller) })
    }

    fn tool_result(&self) -> Result<ToolResult<'a>, &'static str> {
        let id = self.text(Field::ToolUseId).filter(|id| !id.is_empty()).ok_or("`tool_use_id` must be a string")?;
        let content = self.get(Field::Output).or(self.get(Field::Content)).ok_or("`output` is missing")?;
        Ok(ToolResult { id, content, is_error: self.is_true(Field::IsError), is_repair: self.is_true(Field::Repair) })
    }
}
