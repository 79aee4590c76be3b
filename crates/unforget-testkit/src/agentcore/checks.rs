//! Patterns and limits, and the words of a refusal.
//!
//! The official clients check little of this themselves, so the server has to. Patterns are written out as code: the test kit has no need of
//! regular expressions for six of them.

use serde_json::{Value, json};
use unforget_remote::agentcore::wire::{Failure, Field};

/// The largest event: its payload as JSON.
pub(super) const MAX_EVENT_BYTES: usize = 10_000_000;
const MAX_ITEMS: usize = 100;
const MAX_TEXT: usize = 100_000;
const MAX_METADATA: usize = 15;
const MAX_KEY: usize = 128;
const MAX_VALUE: usize = 256;
const MAX_ACTOR: usize = 255;
const MAX_NAME: usize = 100;
/// The largest page, and the one that is given if none is asked for.
const MAX_RESULTS: u64 = 100;
const RESULTS: u64 = 20;

/// An error on its way to the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: u16,
    pub(super) name: String,
    pub(super) body: Box<Failure>,
}

pub(super) type Checked<T> = Result<T, Refusal>;

impl Refusal {
    pub(super) fn new(status: u16, name: &str, message: impl Into<String>) -> Self {
        let body = Box::new(Failure { message: message.into(), ..Failure::default() });
        Self { status, name: name.to_owned(), body }
    }

    pub(super) fn invalid(message: impl Into<String>, reason: &str) -> Self {
        let mut refusal = Self::new(400, "ValidationException", message);
        refusal.body.reason = Some(reason.to_owned());
        refusal
    }

    pub(super) fn missing(message: impl Into<String>) -> Self {
        Self::new(404, "ResourceNotFoundException", message)
    }
}

/// Refuses unless the condition holds, in the words of the service.
pub(super) fn need(holds: bool, path: &str, value: impl std::fmt::Display, rule: &str) -> Checked<()> {
    if holds {
        return Ok(());
    }
    let mut shown = value.to_string();
    if let Some((end, _)) = shown.char_indices().nth(MAX_VALUE) {
        shown.truncate(end);
    }
    let text = format!(
        "1 validation error detected: Value '{shown}' at '{path}' failed to satisfy constraint: Member must {rule}"
    );
    let mut refusal = Refusal::invalid(text, "FieldValidationFailed");
    refusal.body.field_list = vec![Field { name: path.to_owned(), message: format!("Member must {rule}") }];
    Err(refusal)
}

fn is_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '-' || character == '_'
}

/// The id of a memory, out of an id or an ARN.
pub(super) fn memory_id(raw: &str) -> Checked<&str> {
    let id = match raw.strip_prefix("arn:") {
        Some(arn) => {
            let parts: Vec<&str> = arn.splitn(5, ':').collect();
            let fits = parts.len() == 5
                && matches!(parts[0], "aws" | "aws-cn" | "aws-us-gov")
                && parts[1] == "bedrock-agentcore"
                && parts[3].len() == 12
                && parts[3].bytes().all(|byte| byte.is_ascii_digit());
            if fits { parts[4].strip_prefix("memory/").unwrap_or_default() } else { "" }
        }
        None => raw,
    };
    let (name, tail) = id.rsplit_once('-').unwrap_or_default();
    let fits = (1..=MAX_NAME).contains(&name.len())
        && name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.chars().all(is_word)
        && tail.len() == 10
        && tail.chars().all(|character| character.is_ascii_alphanumeric());
    need(fits, "memoryId", raw, "satisfy regular expression pattern: [a-zA-Z][a-zA-Z0-9-_]{0,99}-[a-zA-Z0-9]{10}")?;
    Ok(id)
}

/// An actor: words, slashes, and colons that stand between words.
pub(super) fn actor(id: &str) -> Checked<()> {
    let length = "have length between 1 and 255";
    need((1..=MAX_ACTOR).contains(&id.len()), "actorId", id, length)?;
    let is_part = |part: &str| part.chars().all(|character| is_word(character) || character == '/');
    let mut parts = id.split(':');
    let first = parts.next().unwrap_or_default();
    let fits = first.starts_with(|first: char| first.is_ascii_alphanumeric())
        && is_part(first)
        && parts.all(|part| !part.is_empty() && is_part(part));
    need(
        fits,
        "actorId",
        id,
        "satisfy regular expression pattern: [a-zA-Z0-9][a-zA-Z0-9-_/]*(?::[a-zA-Z0-9-_/]+)*[a-zA-Z0-9-_/]*",
    )
}

/// The name of a session or a branch.
pub(super) fn name(path: &str, id: &str) -> Checked<()> {
    need((1..=MAX_NAME).contains(&id.len()), path, id, "have length between 1 and 100")?;
    let fits = id.starts_with(|first: char| first.is_ascii_alphanumeric()) && id.chars().all(is_word);
    need(fits, path, id, "satisfy regular expression pattern: [a-zA-Z0-9][a-zA-Z0-9-_]*")
}

pub(super) fn event_id(id: &str) -> Checked<()> {
    let (digits, hex) = id.split_once('#').unwrap_or_default();
    let fits = !digits.is_empty()
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && !hex.is_empty()
        && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    need(fits, "eventId", id, "satisfy regular expression pattern: [0-9]+#[a-fA-F0-9]+")
}

fn is_metadata(text: &str) -> bool {
    text.chars().all(|character| {
        character.is_ascii_alphanumeric() || character.is_ascii_whitespace() || "._:/=+@-".contains(character)
    })
}

/// The body of CreateEvent, before it is given a type.
pub(super) fn new_event(body: &Value) -> Checked<()> {
    for member in ["actorId", "eventTimestamp", "payload"] {
        need(body.get(member).is_some_and(|value| !value.is_null()), member, "null", "not be null")?;
    }
    need(body["actorId"].is_string(), "actorId", &body["actorId"], "be a string")?;
    need(body["eventTimestamp"].is_number(), "eventTimestamp", &body["eventTimestamp"], "be a timestamp")?;
    actor(body["actorId"].as_str().unwrap_or_default())?;
    if let Some(session) = body.get("sessionId").filter(|value| !value.is_null()) {
        name("sessionId", session.as_str().unwrap_or_default())?;
    }
    payload(&body["payload"])?;
    if let Some(metadata) = body.get("metadata").filter(|value| !value.is_null()) {
        check_metadata(metadata)?;
    }
    if let Some(branch) = body.get("branch").filter(|value| !value.is_null()) {
        name("branch.name", branch["name"].as_str().unwrap_or_default())?;
        if let Some(root) = branch.get("rootEventId").filter(|value| !value.is_null()) {
            event_id(root.as_str().unwrap_or_default())?;
        }
    }
    if let Some(mode) = body.get("extractionMode").filter(|value| !value.is_null()) {
        need(mode == "SKIP", "extractionMode", mode, "satisfy enum value set: [SKIP]")?;
    }
    Ok(())
}

fn payload(payload: &Value) -> Checked<()> {
    let Some(items) = payload.as_array() else {
        return need(false, "payload", payload, "be a list");
    };
    need(items.len() <= MAX_ITEMS, "payload", items.len(), "have length less than or equal to 100")?;
    for (number, item) in items.iter().enumerate() {
        let path = format!("payload.{}.member", number + 1);
        let only = item.as_object().filter(|members| members.len() == 1).and_then(|members| members.iter().next());
        let Some((kind, content)) = only else {
            return need(false, &path, item, "be exactly one of conversational, blob, json");
        };
        match kind.as_str() {
            "blob" => {}
            "json" => need(content.get("content").is_some(), &format!("{path}.json.content"), "null", "not be null")?,
            "conversational" => {
                let roles = ["ASSISTANT", "USER", "TOOL", "OTHER"];
                let role = content["role"].as_str().unwrap_or_default();
                let path = format!("{path}.conversational");
                let rule = "satisfy enum value set: [ASSISTANT, USER, TOOL, OTHER]";
                need(roles.contains(&role), &format!("{path}.role"), role, rule)?;
                let length = content.pointer("/content/text").and_then(Value::as_str).map(|text| text.chars().count());
                let fits = length.is_some_and(|length| (1..=MAX_TEXT).contains(&length));
                let shown = length.unwrap_or_default();
                need(fits, &format!("{path}.content.text"), shown, "have length between 1 and 100000")?;
            }
            _ => return need(false, &path, kind, "be one of conversational, blob, json"),
        }
    }
    let bytes = payload.to_string().len();
    need(bytes <= MAX_EVENT_BYTES, "payload", bytes, "have no more than 10 MB")
}

fn check_metadata(metadata: &Value) -> Checked<()> {
    let Some(entries) = metadata.as_object() else {
        return need(false, "metadata", metadata, "be a map");
    };
    need(entries.len() <= MAX_METADATA, "metadata", entries.len(), "have length less than or equal to 15")?;
    let pattern = "satisfy regular expression pattern: [a-zA-Z0-9\\s._:/=+@-]*";
    for (key, value) in entries {
        need((1..=MAX_KEY).contains(&key.len()), "metadata.key", key, "have length between 1 and 128")?;
        need(is_metadata(key), "metadata.key", key, pattern)?;
        let text = value.as_object().filter(|members| members.len() == 1).and_then(|_| value["stringValue"].as_str());
        let path = format!("metadata.{key}.value");
        let Some(text) = text else {
            return need(false, &path, value, "be a stringValue");
        };
        need(text.chars().count() <= MAX_VALUE, &path, text, "have length less than or equal to 256")?;
        need(is_metadata(text), &path, text, pattern)?;
    }
    Ok(())
}

/// How many results a page has.
pub(super) fn page_size(body: &Value) -> Checked<usize> {
    let Some(wanted) = body.get("maxResults").filter(|value| !value.is_null()) else { return Ok(RESULTS as usize) };
    let number = wanted.as_u64().unwrap_or_default();
    let rule = if number > MAX_RESULTS {
        "have value less than or equal to 100"
    } else {
        "have value greater than or equal to 1"
    };
    need((1..=MAX_RESULTS).contains(&number), "maxResults", wanted, rule)?;
    Ok(number as usize)
}

/// The filter of ListEvents.
pub(super) fn filter(filter: &Value) -> Checked<()> {
    let Some(expressions) = filter.get("eventMetadata").filter(|value| !value.is_null()) else { return Ok(()) };
    let count = expressions.as_array().map_or(0, Vec::len);
    need((1..=5).contains(&count), "filter.eventMetadata", count, "have length between 1 and 5")?;
    for expression in expressions.as_array().into_iter().flatten() {
        let operator = &expression["operator"];
        let known = [json!("EQUALS_TO"), json!("EXISTS"), json!("NOT_EXISTS")].contains(operator);
        let rule = "satisfy enum value set: [EQUALS_TO, EXISTS, NOT_EXISTS]";
        need(known, "filter.eventMetadata.operator", operator, rule)?;
    }
    Ok(())
}
