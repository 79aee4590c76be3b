//! One line of a foreign file, looked at member by member.
//!
//! Values stay the text that they are until someone asks. A line that is not one JSON object is an error with the
//! reason, and nothing is guessed.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::json;

/// A JSON object.
#[derive(Debug)]
pub(super) struct Object<'a> {
    members: Vec<(Cow<'a, str>, &'a str)>,
}

impl<'a> Object<'a> {
    /// The object that a line is.
    pub(super) fn of_line(line: &'a [u8]) -> Result<Self, &'static str> {
        let text = std::str::from_utf8(line).map_err(|_| "not UTF-8")?.trim_matches(['\u{feff}', ' ', '\t', '\r']);
        // The whole line must be JSON: what stands behind an object would be lost otherwise.
        if serde_json::from_str::<&RawValue>(text).is_err() {
            return Err("not JSON");
        }
        Self::parse(text).ok_or("not an object")
    }

    /// The object behind JSON text.
    pub(super) fn parse(raw: &'a str) -> Option<Self> {
        Some(Self { members: json::members(raw)? })
    }

    /// JSON text of a member; none if it is null.
    pub(super) fn raw(&self, name: &str) -> Option<&'a str> {
        json::member(&self.members, name).filter(|raw| *raw != "null")
    }

    pub(super) fn has(&self, name: &str) -> bool {
        json::member(&self.members, name).is_some()
    }

    pub(super) fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        self.raw(name).and_then(json::string)
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.raw(name).and_then(json::number)
    }

    pub(super) fn object(&self, name: &str) -> Option<Object<'a>> {
        self.raw(name).and_then(Self::parse)
    }

    pub(super) fn objects(&self, name: &str) -> Vec<Object<'a>> {
        let elements = self.raw(name).and_then(json::elements).unwrap_or_default();
        elements.into_iter().filter_map(Self::parse).collect()
    }

    pub(super) fn is_true(&self, name: &str) -> bool {
        self.raw(name) == Some("true")
    }

    pub(super) fn time_ms(&self, name: &str) -> Option<i64> {
        self.raw(name).filter(|raw| raw.starts_with('"')).and_then(json::timestamp_ms)
    }
}
