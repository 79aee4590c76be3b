//! Where `cache_control` may stand, and how often.
//!
//! The limit counts every place of the body, the automatic one at the top included, so this pass walks the whole value
//! instead of the blocks it knows, but not what a tool is called with, which is data. When a body breaks several of these rules, the place named is the first in the order
//! of serde_json's map, which sorts its keys. The depth of the walk is bounded by that of the parser.

use serde_json::Value;

use super::Rejection;
use super::schema::is_filled;

const MAX_BREAKPOINTS: usize = 4;

pub(super) fn check(body: &Value) -> Result<(), Rejection> {
    let found = count(body, "")?;
    if found > MAX_BREAKPOINTS {
        return Err(Rejection::invalid(format!(
            "A maximum of {MAX_BREAKPOINTS} blocks with cache_control may be provided. Found {found}."
        )));
    }
    Ok(())
}

fn count(value: &Value, path: &str) -> Result<usize, Rejection> {
    let mut found = 0;
    match value {
        Value::Object(members) => {
            if members.get("cache_control").is_some_and(is_filled) {
                found += 1;
                match members.get("type").and_then(Value::as_str) {
                    Some(kind @ ("thinking" | "redacted_thinking")) => {
                        return Err(Rejection::invalid(format!(
                            "{path}.{kind}.cache_control: Extra inputs are not permitted"
                        )));
                    }
                    Some("text") if !members.get("text").is_some_and(is_filled) => {
                        return Err(Rejection::invalid(format!(
                            "{path}.text: cache_control cannot be set for empty text blocks"
                        )));
                    }
                    _ => {}
                }
            }
            let is_data = |key: &str| match members.get("type").and_then(Value::as_str) {
                Some("tool_use" | "server_tool_use") => key == "input",
                _ => key == "input_schema",
            };
            for (key, member) in members {
                if holds_members(member) && !is_data(key) {
                    let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    found += count(member, &path)?;
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate().filter(|(_, item)| holds_members(item)) {
                found += count(item, &format!("{path}.{index}"))?;
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    Ok(found)
}

fn holds_members(value: &Value) -> bool {
    value.is_object() || value.is_array()
}
