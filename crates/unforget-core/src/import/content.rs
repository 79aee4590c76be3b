//! Content of other programs as content blocks of the Messages API.
//!
//! Words stay the JSON text that they came as. Images become base64 sources; what they are worth is for the history
//! to judge. Only members that the API knows are taken over.

use std::borrow::Cow;

use crate::import::object::Object;
use crate::json;

/// A text block around JSON text of a string.
pub(super) fn text(raw: &str) -> String {
    format!("{{\"type\":\"text\",\"text\":{raw}}}")
}

/// An image from base64 text.
pub(super) fn image(media_type: &str, data: &str) -> String {
    let (media_type, data) = (json::quote(media_type), json::quote(data));
    format!("{{\"type\":\"image\",\"source\":{{\"type\":\"base64\",\"media_type\":{media_type},\"data\":{data}}}}}")
}

/// An image behind an address, which may be a `data:` URI.
pub(super) fn image_at(address: &str) -> String {
    match address.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,")) {
        Some((media_type, data)) => image(media_type, data),
        None => format!("{{\"type\":\"image\",\"source\":{{\"type\":\"url\",\"url\":{}}}}}", json::quote(address)),
    }
}

/// Blocks as the content of a record: one text is a string, anything else a list.
pub(super) fn joined(blocks: &[String]) -> String {
    if let [only] = blocks
        && let Some(block) = Object::parse(only)
        && block.text("type").as_deref() == Some("text")
        && let Some(words) = block.raw("text")
    {
        return words.to_owned();
    }
    format!("[{}]", blocks.join(","))
}

/// Arguments of a call as an object: JSON text in a string is unpacked, anything else is wrapped.
pub(super) fn arguments(raw: &str, name: &str) -> String {
    if raw.starts_with('{') {
        return raw.to_owned();
    }
    let inner = json::string(raw);
    match inner.as_deref().map(str::trim) {
        Some(text) if text.starts_with('{') && serde_json::from_str::<&serde_json::value::RawValue>(text).is_ok() => {
            text.to_owned()
        }
        Some("") => "{}".to_owned(),
        _ => format!("{{{}:{raw}}}", json::quote(name)),
    }
}

/// The last part of a path in the spelling of any system.
pub(super) fn last_part(path: &str) -> Option<&str> {
    path.split(['/', '\\']).rev().find(|part| !part.is_empty())
}

/// A usage as the API reports one.
pub(super) struct Usage<'a> {
    pub(super) input: u64,
    pub(super) output: u64,
    pub(super) cache_read: u64,
    pub(super) cache_write: u64,
    /// JSON text of what it cost, as the other program reckoned.
    pub(super) cost: Option<&'a str>,
}

impl Usage<'_> {
    pub(super) fn to_json(&self) -> String {
        let Usage { input, output, cache_read, cache_write, cost } = self;
        let cost = cost.map_or(Cow::Borrowed(""), |cost| Cow::Owned(format!(",\"cost\":{cost}")));
        format!(
            "{{\"input_tokens\":{input},\"output_tokens\":{output},\"cache_creation_input_tokens\":{cache_write},\"cache_read_input_tokens\":{cache_read}{cost}}}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_always_an_object() {
        for (raw, want) in [
            (r#"{"a":1}"#, r#"{"a":1}"#),
            (r#""{\"a\": 1}""#, r#"{"a": 1}"#),
            (r#""*** Begin Patch""#, r#"{"input":"*** Begin Patch"}"#),
            (r#""{broken""#, r#"{"input":"{broken"}"#),
            (r#""""#, "{}"),
            ("[1]", r#"{"input":[1]}"#),
        ] {
            assert_eq!(arguments(raw, "input"), want, "{raw}");
        }
    }

    #[test]
    fn an_image_comes_from_a_data_address_or_stays_an_address() {
        assert_eq!(
            image_at("data:image/png;base64,AAAA"),
            r#"{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}"#
        );
        assert_eq!(
            image_at("https://x.org/a.png"),
            r#"{"type":"image","source":{"type":"url","url":"https://x.org/a.png"}}"#
        );
    }
}
