//! The content blocks: what each kind must hold, and what the later passes need to know of it.
//!
//! A kind that the API knows but whose members play no part in these rules (documents, search results, the results of
//! server tools) is let through unread. The blocks inside a `tool_result` are a smaller set and may be empty.

use serde_json::{Map, Value};

use super::Rejection;
use super::images::{self, Picture};
use super::schema::{invalid, is_filled, is_identifier, list, object, only_members, string};

pub(super) const TEXT_MEMBERS: &[&str] = &["cache_control", "citations", "text", "type"];
const TOOL_USE_MEMBERS: &[&str] = &["cache_control", "caller", "id", "input", "name", "type"];
const TOOL_RESULT_MEMBERS: &[&str] = &["cache_control", "content", "is_error", "tool_use_id", "type"];
const THINKING_MEMBERS: &[&str] = &["signature", "thinking", "type"];
const REDACTED_THINKING_MEMBERS: &[&str] = &["data", "type"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    User,
    Assistant,
    System,
}

pub(super) struct Message<'a> {
    pub(super) role: Role,
    /// Tells a list of blocks from a plain string, whose empty text has a meaning of its own.
    pub(super) is_list: bool,
    pub(super) blocks: Vec<Block<'a>>,
}

impl Message<'_> {
    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty() || (!self.is_list && matches!(self.blocks[..], [Block::Text("")]))
    }
}

pub(super) enum Block<'a> {
    Text(&'a str),
    ToolUse { id: &'a str },
    ToolResult { id: &'a str },
    ServerToolUse { id: &'a str, name: Option<&'a str> },
    ServerToolResult { id: Option<&'a str>, kind: &'a str },
    Thinking { signature: &'a str },
    RedactedThinking,
    Other { kind: &'a str },
}

impl Block<'_> {
    pub(super) fn kind(&self) -> &str {
        match self {
            Self::Text(_) => "text",
            Self::ToolUse { .. } => "tool_use",
            Self::ToolResult { .. } => "tool_result",
            Self::ServerToolUse { .. } => "server_tool_use",
            Self::Thinking { .. } => "thinking",
            Self::RedactedThinking => "redacted_thinking",
            Self::ServerToolResult { kind, .. } | Self::Other { kind } => kind,
        }
    }
}

/// The separators U+001C to U+001F are blank to the server, though Unicode does not call them white space.
pub(super) fn is_blank(text: &str) -> bool {
    text.chars().all(|character| character.is_whitespace() || matches!(character, '\u{1c}'..='\u{1f}'))
}

pub(super) fn read<'a>(
    value: &'a Value,
    role: Role,
    path: &str,
    pictures: &mut Vec<Picture>,
) -> Result<Block<'a>, Rejection> {
    let members = object(value, path)?;
    let kind = members.get("type").unwrap_or(&Value::Null);
    match kind.as_str().unwrap_or_default() {
        "text" => Ok(Block::Text(read_text(members, path)?)),
        "tool_use" => read_tool_use(members, role, path),
        "tool_result" => read_tool_result(members, role, path, pictures),
        "server_tool_use" => read_server_tool_use(members, path),
        "thinking" => read_thinking(members, role, path),
        "redacted_thinking" => read_redacted_thinking(members, role, path),
        "image" => {
            pictures.push(images::read(members, path)?);
            Ok(Block::Other { kind: "image" })
        }
        kind @ ("document" | "search_result" | "compaction" | "tool_addition" | "tool_removal") => {
            Ok(Block::Other { kind })
        }
        kind if kind.ends_with("_tool_result") => {
            let id = optional_string(members, "tool_use_id", &format!("{path}.{kind}"))?;
            Ok(Block::ServerToolResult { id, kind })
        }
        _ => Err(unknown_tag(kind, path)),
    }
}

fn unknown_tag(kind: &Value, path: &str) -> Rejection {
    let tag = match kind {
        Value::String(tag) => tag.clone(),
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Number(_) | Value::Array(_) | Value::Object(_) => kind.to_string(),
    };
    invalid(path, &format!("Input tag '{tag}' found using 'type' does not match any of the expected tags"))
}

fn only_from(wanted: Role, role: Role, kind: &str, path: &str) -> Result<(), Rejection> {
    if role == wanted {
        return Ok(());
    }
    let place = if wanted == Role::Assistant { "assistant" } else { "user" };
    Err(invalid(path, &format!("`{kind}` blocks can only be in `{place}` messages")))
}

fn identifier<'a>(members: &'a Map<String, Value>, name: &str, path: &str) -> Result<&'a str, Rejection> {
    let id = members.get(name).and_then(Value::as_str).filter(|id| is_identifier(id));
    id.ok_or_else(|| Rejection::invalid(format!("{path}.{name}: String should match pattern '^[a-zA-Z0-9_-]+$'")))
}

fn optional_string<'a>(members: &'a Map<String, Value>, name: &str, path: &str) -> Result<Option<&'a str>, Rejection> {
    match members.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(_) => string(members, name, path).map(Some),
    }
}

fn read_text<'a>(members: &'a Map<String, Value>, path: &str) -> Result<&'a str, Rejection> {
    let path = format!("{path}.text");
    let text = members.get("text").and_then(Value::as_str);
    let text = text.ok_or_else(|| invalid(&format!("{path}.text"), "Input should be a valid string"))?;
    only_members(members, TEXT_MEMBERS, &path)?;
    Ok(text)
}

fn read_tool_use<'a>(members: &'a Map<String, Value>, role: Role, path: &str) -> Result<Block<'a>, Rejection> {
    only_from(Role::Assistant, role, "tool_use", path)?;
    let path = format!("{path}.tool_use");
    let id = identifier(members, "id", &path)?;
    if !members.get("name").is_some_and(is_filled) {
        return Err(invalid(&format!("{path}.name"), "String should have at least 1 character"));
    }
    string(members, "name", &path)?;
    object(members.get("input").unwrap_or(&Value::Null), &format!("{path}.input"))?;
    only_members(members, TOOL_USE_MEMBERS, &path)?;
    Ok(Block::ToolUse { id })
}

fn read_tool_result<'a>(
    members: &'a Map<String, Value>,
    role: Role,
    path: &str,
    pictures: &mut Vec<Picture>,
) -> Result<Block<'a>, Rejection> {
    only_from(Role::User, role, "tool_result", path)?;
    let path = format!("{path}.tool_result");
    let id = identifier(members, "tool_use_id", &path)?;
    match members.get("content").unwrap_or(&Value::Null) {
        Value::Null | Value::String(_) => {}
        content => {
            let path = format!("{path}.content");
            for (index, block) in list(content, &path)?.iter().enumerate() {
                check_inner(block, &format!("{path}.{index}"), pictures)?;
            }
        }
    }
    if !matches!(members.get("is_error").unwrap_or(&Value::Null), Value::Null | Value::Bool(_)) {
        return Err(invalid(&format!("{path}.is_error"), "Input should be a valid boolean"));
    }
    only_members(members, TOOL_RESULT_MEMBERS, &path)?;
    Ok(Block::ToolResult { id })
}

fn check_inner(value: &Value, path: &str, pictures: &mut Vec<Picture>) -> Result<(), Rejection> {
    let members = object(value, path)?;
    let kind = members.get("type").unwrap_or(&Value::Null);
    match kind.as_str().unwrap_or_default() {
        "text" => read_text(members, path).map(|_| ()),
        "image" => {
            pictures.push(images::read(members, path)?);
            Ok(())
        }
        "document" | "search_result" | "tool_reference" => Ok(()),
        _ => Err(unknown_tag(kind, path)),
    }
}

fn read_server_tool_use<'a>(members: &'a Map<String, Value>, path: &str) -> Result<Block<'a>, Rejection> {
    let path = format!("{path}.server_tool_use");
    let id = members.get("id").and_then(Value::as_str).unwrap_or_default();
    if !id.strip_prefix("srvtoolu_").is_some_and(|rest| is_identifier(rest) && !rest.contains('-')) {
        return Err(invalid(&format!("{path}.id"), "String should match pattern '^srvtoolu_[a-zA-Z0-9_]+$'"));
    }
    let name = optional_string(members, "name", &path)?;
    Ok(Block::ServerToolUse { id, name })
}

fn read_thinking<'a>(members: &'a Map<String, Value>, role: Role, path: &str) -> Result<Block<'a>, Rejection> {
    only_from(Role::Assistant, role, "thinking", path)?;
    let path = format!("{path}.thinking");
    if !members.get("signature").is_some_and(is_filled) {
        return Err(invalid(&format!("{path}.signature"), "Field required"));
    }
    let signature = string(members, "signature", &path)?;
    string(members, "thinking", &path)?;
    only_members(members, THINKING_MEMBERS, &path)?;
    Ok(Block::Thinking { signature })
}

fn read_redacted_thinking<'a>(members: &'a Map<String, Value>, role: Role, path: &str) -> Result<Block<'a>, Rejection> {
    only_from(Role::Assistant, role, "redacted_thinking", path)?;
    let path = format!("{path}.redacted_thinking");
    string(members, "data", &path)?;
    only_members(members, REDACTED_THINKING_MEMBERS, &path)?;
    Ok(Block::RedactedThinking)
}
