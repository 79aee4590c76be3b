//! What `count_tokens` accepts: the rules of a message, with fewer members and fewer kinds of content.
//!
//! The real endpoint knows no `max_tokens` and nothing else that is about the answer. It fetches no media, and of the
//! tools that the server runs it counts none but the advisor. A request may have more tokens than the window holds: to
//! find that out is what the endpoint is for. Where no text of the real server is known, the wording is ours.

use std::cell::RefCell;

use serde_json::Value;

use crate::rules::{self, Rejection, Server};

const MEMBERS: &[&str] = &[
    "betas",
    "cache_control",
    "context_management",
    "mcp_servers",
    "messages",
    "model",
    "output_config",
    "output_format",
    "speed",
    "system",
    "thinking",
    "tool_choice",
    "tools",
];
/// How the types of the tools begin that the server runs.
const SERVER_TOOLS: &[&str] = &["code_execution_", "mcp_toolset", "tool_search_", "web_fetch_", "web_search_"];
const UNREADABLE: &str = "The request body is not valid JSON";

/// Refuses a request that names no model; the rules know their model from elsewhere.
pub(super) fn check_model(body: &Value) -> Result<(), Rejection> {
    match body.get("model") {
        Some(Value::String(_)) => Ok(()),
        Some(_) => Err(invalid("model: Input should be a valid string")),
        None => Err(invalid("model: Field required")),
    }
}

/// Holds a request for a count against the rules, and returns what they have read.
pub(super) fn check(bytes: &[u8], server: &Server<'_>) -> Result<Value, Rejection> {
    let read = RefCell::new(Value::Null);
    let count = |body: &Value| {
        read.replace(body.clone());
        // Nothing is too long to be counted.
        0
    };
    let server = Server { count: Some(&count), ..*server };
    let as_it_came = match rules::check(bytes, &server) {
        Ok(()) => return Err(invalid("max_tokens: Extra inputs are not permitted")),
        Err(rejection) => rejection,
    };
    if as_it_came.status != 400 || as_it_came.message.starts_with(UNREADABLE) {
        return Err(as_it_came);
    }
    // The rules are those of a message, which needs a limit. It is put into the text, because the rules read numbers
    // that a JSON value cannot hold.
    let members = str::from_utf8(bytes).ok().and_then(|text| text.trim_start().strip_prefix('{'));
    let Some(members) = members else { return Err(as_it_came) };
    let comma = if members.trim_start().starts_with('}') { "" } else { "," };
    rules::check(format!("{{\"max_tokens\":1{comma}{members}").as_bytes(), &server)?;
    let mut body = read.into_inner();
    if let Some(members) = body.as_object_mut() {
        members.remove("max_tokens");
        if let Some(extra) = members.keys().find(|name| !MEMBERS.contains(&name.as_str())) {
            return Err(invalid(&format!("{extra}: Extra inputs are not permitted")));
        }
    }
    check_model(&body)?;
    check_tools(&body)?;
    check_media(&body, "")?;
    Ok(body)
}

fn check_tools(body: &Value) -> Result<(), Rejection> {
    for (index, tool) in body.get("tools").and_then(Value::as_array).into_iter().flatten().enumerate() {
        let kind = tool.get("type").and_then(Value::as_str).unwrap_or_default();
        if SERVER_TOOLS.iter().any(|beginning| kind.starts_with(beginning)) {
            return Err(invalid(&format!(
                "tools.{index}: tools of type '{kind}' are not supported for token counting"
            )));
        }
    }
    Ok(())
}

/// Looks into messages and the results in them; the depth is that of a result's content.
fn check_media(value: &Value, path: &str) -> Result<(), Rejection> {
    let (name, parts) = match (value.get("messages"), value.get("content")) {
        (Some(Value::Array(messages)), _) => ("messages", messages),
        (None, Some(Value::Array(blocks))) => ("content", blocks),
        _ => return Ok(()),
    };
    for (index, part) in parts.iter().enumerate() {
        let dot = if path.is_empty() { "" } else { "." };
        let path = format!("{path}{dot}{name}.{index}");
        let kind = part.get("type").and_then(Value::as_str);
        let source = part.pointer("/source/type").and_then(Value::as_str);
        if let (Some("image" | "document"), Some(source @ ("url" | "file"))) = (kind, source) {
            return Err(invalid(&format!("{path}.source: '{source}' sources are not supported for token counting")));
        }
        check_media(part, &path)?;
    }
    Ok(())
}

fn invalid(message: &str) -> Rejection {
    Rejection { status: 400, kind: "invalid_request_error", message: message.to_owned() }
}
