//! The shape of a request around its blocks: which members it may have, and of what type.
//!
//! This pass turns a JSON value into a [`Request`], so that no later pass needs to ask what a member is. It knows the
//! names and types of members; which contents make sense together is for the passes after it.

use serde_json::{Map, Value};

use super::blocks::{self, Block, Message, Role};
use super::cache;
use super::images::Picture;
use super::{Rejection, Server};

const MAX_MESSAGES: usize = 100_000;
const MAX_TOOL_NAME_LENGTH: usize = 64;

const REQUEST_MEMBERS: &[&str] = &[
    "betas",
    "cache_control",
    "container",
    "context_management",
    "inference_geo",
    "max_tokens",
    "mcp_servers",
    "messages",
    "metadata",
    "model",
    "output_config",
    "output_format",
    "service_tier",
    "speed",
    "stop_sequences",
    "stream",
    "system",
    "temperature",
    "thinking",
    "tool_choice",
    "tools",
    "top_k",
    "top_p",
];

const MESSAGE_MEMBERS: &[&str] = &["content", "role"];
const CONTROLLED_MEMBERS: &[&str] = &["content", "output_config", "role"];

pub(super) struct Request<'a> {
    pub(super) body: &'a Map<String, Value>,
    pub(super) max_tokens: i128,
    /// The names of the declared tools.
    pub(super) tools: Vec<&'a str>,
    pub(super) messages: Vec<Message<'a>>,
    /// Every image, those inside tool results included.
    pub(super) pictures: Vec<Picture>,
}

pub(super) fn read<'a>(value: &'a Value, server: &Server<'_>) -> Result<Request<'a>, Rejection> {
    let body = object(value, "body")?;
    let max_tokens = body.get("max_tokens").and_then(integer).ok_or_else(|| invalid("max_tokens", "Field required"))?;
    let messages = body.get("messages").filter(|messages| is_filled(messages));
    let messages = messages.ok_or_else(|| invalid("messages", "at least one message is required"))?;
    let messages = list(messages, "messages")?;
    if messages.len() > MAX_MESSAGES {
        return Err(invalid("messages", &format!("at most {MAX_MESSAGES} messages are allowed")));
    }
    cache::check(value)?;
    only_members(body, REQUEST_MEMBERS, "")?;
    let tools = read_tools(body.get("tools"))?;
    check_system(body.get("system"))?;
    let mut pictures = Vec::new();
    let messages = messages
        .iter()
        .enumerate()
        .map(|(index, message)| read_message(message, index, server, &mut pictures))
        .collect::<Result<_, _>>()?;
    Ok(Request { body, max_tokens, tools, messages, pictures })
}

pub(super) fn invalid(path: &str, reason: &str) -> Rejection {
    Rejection::invalid(format!("{path}: {reason}"))
}

pub(super) fn object<'a>(value: &'a Value, path: &str) -> Result<&'a Map<String, Value>, Rejection> {
    value.as_object().ok_or_else(|| invalid(path, "Input should be a valid dictionary"))
}

pub(super) fn list<'a>(value: &'a Value, path: &str) -> Result<&'a Vec<Value>, Rejection> {
    value.as_array().ok_or_else(|| invalid(path, "Input should be a valid list"))
}

/// Reads a member that must be a string.
pub(super) fn string<'a>(members: &'a Map<String, Value>, name: &str, path: &str) -> Result<&'a str, Rejection> {
    let reason = match members.get(name) {
        Some(Value::String(text)) => return Ok(text),
        Some(_) => "Input should be a valid string",
        None => "Field required",
    };
    Err(Rejection::invalid(format!("{path}.{name}: {reason}")))
}

pub(super) fn only_members(members: &Map<String, Value>, allowed: &[&str], path: &str) -> Result<(), Rejection> {
    let Some(extra) = members.keys().find(|name| !allowed.contains(&name.as_str())) else {
        return Ok(());
    };
    let separator = if path.is_empty() { "" } else { "." };
    Err(Rejection::invalid(format!("{path}{separator}{extra}: Extra inputs are not permitted")))
}

/// Tells a value that says something from one that only stands there: null, false, zero, or empty.
pub(super) fn is_filled(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(flag) => *flag,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
    }
}

pub(super) fn is_identifier(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

fn integer(value: &Value) -> Option<i128> {
    value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from))
}

fn read_tools(tools: Option<&Value>) -> Result<Vec<&str>, Rejection> {
    let Some(tools) = tools.filter(|tools| !tools.is_null()) else {
        return Ok(Vec::new());
    };
    let mut names = Vec::new();
    for (index, tool) in list(tools, "tools")?.iter().enumerate() {
        let tool = object(tool, &format!("tools.{index}"))?;
        let name = tool.get("name").and_then(Value::as_str).unwrap_or_default();
        if tool.contains_key("input_schema") && !(is_identifier(name) && name.len() <= MAX_TOOL_NAME_LENGTH) {
            return Err(Rejection::invalid(format!(
                "tools.{index}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,{MAX_TOOL_NAME_LENGTH}}}$'"
            )));
        }
        names.push(name);
    }
    Ok(names)
}

fn check_system(system: Option<&Value>) -> Result<(), Rejection> {
    let blocks = match system {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::String(text)) if text.is_empty() || !blocks::is_blank(text) => return Ok(()),
        Some(Value::String(_)) => {
            return Err(invalid("system", "text content blocks must contain non-whitespace text"));
        }
        Some(blocks) => list(blocks, "system")?,
    };
    if blocks.iter().any(|block| block.get("text").and_then(Value::as_str) == Some("")) {
        return Err(invalid("system", "text content blocks must be non-empty"));
    }
    for (index, block) in blocks.iter().enumerate() {
        let path = format!("system.{index}");
        let block = object(block, &path)?;
        if block.get("type").and_then(Value::as_str) != Some("text") {
            return Err(invalid(&format!("{path}.type"), "Input should be 'text'"));
        }
        string(block, "text", &path)?;
        only_members(block, blocks::TEXT_MEMBERS, &path)?;
    }
    Ok(())
}

fn read_message<'a>(
    value: &'a Value,
    index: usize,
    server: &Server<'_>,
    pictures: &mut Vec<Picture>,
) -> Result<Message<'a>, Rejection> {
    let path = format!("messages.{index}");
    let message = object(value, &path)?;
    let role = match message.get("role").and_then(Value::as_str) {
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("system") => Role::System,
        _ => {
            return Err(invalid(&format!("{path}.role"), "Input should be 'user' or 'assistant'"));
        }
    };
    let path_to_content = format!("{path}.content");
    let (blocks, is_list) = match message.get("content").unwrap_or(&Value::Null) {
        Value::String(text) => (vec![Block::Text(text)], false),
        content => {
            let blocks = list(content, &path_to_content)?.iter().enumerate();
            let read =
                blocks.map(|(at, block)| blocks::read(block, role, &format!("{path_to_content}.{at}"), pictures));
            (read.collect::<Result<_, _>>()?, true)
        }
    };
    let is_controlled = server.per_turn_control && role == Role::System;
    only_members(message, if is_controlled { CONTROLLED_MEMBERS } else { MESSAGE_MEMBERS }, &path)?;
    Ok(Message { role, is_list, blocks })
}
