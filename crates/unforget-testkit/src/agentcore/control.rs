//! As much of the control plane as clients need to start: memories are made, found, listed and deleted. A new one is ready at once.

use serde_json::{Value, json};

use super::checks::{self, Checked, Refusal, need};
use super::events::{self, Answer, known_memory, seconds};
use super::state::{Memory, Shared, State};

const DAYS: std::ops::RangeInclusive<u64> = 3..=3650;
const MAX_NAME: usize = 48;
const ACCOUNT: &str = "123456789012";

fn shown(memory: &Memory) -> Value {
    let mut shown = json!({
        "arn": format!("arn:aws:bedrock-agentcore:us-east-1:{ACCOUNT}:memory/{}", memory.id),
        "id": memory.id,
        "name": memory.name,
        "eventExpiryDuration": memory.days,
        "status": "ACTIVE",
        "createdAt": seconds(memory.created),
        "updatedAt": seconds(memory.created),
        "strategies": memory.strategies,
    });
    if let Some(description) = &memory.description {
        shown["description"] = json!(description);
    }
    shown
}

pub(super) fn create(shared: &Shared, state: &mut State, body: &Value) -> Checked<Answer> {
    let name = body["name"].as_str().unwrap_or_default();
    let fits = (1..=MAX_NAME).contains(&name.len())
        && name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.chars().all(|character| character.is_ascii_alphanumeric() || character == '_');
    need(fits, "name", name, "satisfy regular expression pattern: [a-zA-Z][a-zA-Z0-9_]{0,47}")?;
    let days = body["eventExpiryDuration"].as_u64().unwrap_or_default();
    need(DAYS.contains(&days), "eventExpiryDuration", days, "have value between 3 and 3650")?;
    if state.memories.values().any(|memory| memory.name == name) {
        // Clients look for these words.
        return Err(Refusal::invalid(format!("Memory with name {name} already exists"), "FieldValidationFailed"));
    }
    let id = format!("{name}-{}", &state.digits()[..10]);
    state.add_memory(name, &id, u32::try_from(days).unwrap_or_default(), shared.now());
    let strategies = body["memoryStrategies"].as_array().cloned().unwrap_or_default();
    let mut made = Vec::new();
    for strategy in strategies.iter().filter_map(Value::as_object) {
        for (kind, said) in strategy {
            let kind = match kind.as_str() {
                "semanticMemoryStrategy" => "SEMANTIC",
                "summaryMemoryStrategy" => "SUMMARIZATION",
                "userPreferenceMemoryStrategy" => "USER_PREFERENCE",
                "episodicMemoryStrategy" => "EPISODIC",
                _ => "CUSTOM",
            };
            let id = format!("{}-{}", said["name"].as_str().unwrap_or_default(), &state.digits()[..10]);
            let spaces = said.get("namespaces").cloned().unwrap_or_else(|| json!([]));
            made.push(json!({
                "strategyId": id,
                "name": said["name"],
                "type": kind,
                "namespaces": spaces,
                "namespaceTemplates": said.get("namespaceTemplates").cloned().unwrap_or(spaces.clone()),
                "status": "ACTIVE",
            }));
        }
    }
    let Some(memory) = state.memories.get_mut(&id) else { return Err(Refusal::new(500, "ServiceException", "lost")) };
    memory.strategies = made;
    memory.description = body["description"].as_str().map(str::to_owned);
    Ok((202, json!({"memory": shown(memory)})))
}

pub(super) fn get(state: &State, raw: &str) -> Checked<Answer> {
    let id = known_memory(state, raw)?;
    let memory = state.memories.get(&id).map(shown);
    Ok((200, json!({"memory": memory})))
}

pub(super) fn list(state: &State, body: &Value) -> Checked<Answer> {
    let size = checks::page_size(body)?;
    let behind = events::token(body)?;
    let mut all = state.memories.values().filter(|memory| behind.as_ref().is_none_or(|behind| memory.id > *behind));
    let page: Vec<&Memory> = all.by_ref().take(size).collect();
    let next = page.last().filter(|_| all.next().is_some()).map(|memory| events::spell(&memory.id));
    let short = page.iter().map(|memory| {
        let mut short = shown(memory);
        if let Some(members) = short.as_object_mut() {
            members.retain(|name, _| ["arn", "id", "status", "createdAt", "updatedAt"].contains(&name.as_str()));
        }
        short
    });
    Ok((200, events::answer("memories", short.collect(), next)))
}

pub(super) fn delete(state: &mut State, raw: &str) -> Checked<Answer> {
    let id = known_memory(state, raw)?;
    state.memories.remove(&id);
    state.events.retain(|place, _| place.memory != id);
    state.sessions.retain(|place, _| place.memory != id);
    Ok((202, json!({"memoryId": id, "status": "DELETING"})))
}
