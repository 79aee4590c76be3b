//! Events: made, found, listed and deleted.
//!
//! The order is that of the ids, which begin with the time that the writer gave: the server's own clock decides only when an event
//! expires and when filtered reads begin to see it.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use unforget_core::encode;
use unforget_remote::agentcore::wire::{Branch, CreateEvent, Event, Metadata, TOKEN_MISMATCH};

use super::checks::{self, Checked, Refusal, need};
use super::state::{Place, Shared, State, Stored, Used};

const MAIN: &str = "main";
const DAY: u64 = 24 * 3600;

/// An answer: its status and its body.
pub(super) type Answer = (u16, Value);

pub(super) fn known_memory(state: &State, raw: &str) -> Checked<String> {
    let id = checks::memory_id(raw)?;
    if state.memories.contains_key(id) {
        return Ok(id.to_owned());
    }
    Err(Refusal::missing(format!("Memory not found: {id}")))
}

pub(super) fn create(shared: &Shared, state: &mut State, memory: &str, body: &Value) -> Checked<Answer> {
    let memory = known_memory(state, memory)?;
    checks::new_event(body)?;
    let unreadable = |error: serde_json::Error| Refusal::invalid(error.to_string(), "CannotParse");
    let request: CreateEvent = serde_json::from_value(body.clone()).map_err(unreadable)?;
    let now = shared.now();
    let milliseconds = milliseconds(&request.event_timestamp.to_string())
        .ok_or_else(|| Refusal::invalid("the eventTimestamp is out of range", "FieldValidationFailed"))?;
    let session = match &request.session_id {
        Some(session) => session.clone(),
        None => state.digits()[..32].to_owned(),
    };
    let place = Place { memory: memory.clone(), actor: request.actor_id.clone(), session };
    let without_token = CreateEvent { client_token: None, ..request.clone() };
    let fingerprint = encode::sha256_hex(json!([without_token, memory]).to_string().as_bytes());
    let token = request.client_token.as_ref().map(|token| (memory.clone(), token.clone()));
    if let Some(used) = token.as_ref().and_then(|token| state.tokens.get(token))
        && used.at + shared.options.tokens > now
    {
        if used.request != fingerprint {
            let text = "The client token was already used for a request with different parameters";
            return Err(Refusal::invalid(text, TOKEN_MISMATCH));
        }
        return Ok((201, json!({"event": used.event})));
    }
    let branch = branch(state, &place, request.branch)?;
    let event = Event {
        memory_id: memory.clone(),
        actor_id: place.actor.clone(),
        session_id: place.session.clone(),
        event_id: format!("{milliseconds:019}#{}", &state.digits()[..8]),
        event_timestamp: seconds(Duration::from_millis(milliseconds)),
        payload: Some(request.payload),
        branch: Some(branch),
        metadata: request.metadata,
    };
    let days = state.memories.get(&memory).map_or(0, |memory| memory.days);
    let expires = now + Duration::from_secs(u64::from(days) * DAY);
    let stored = Stored { event: event.clone(), written: now, expires };
    state.sessions.entry(place.clone()).or_insert(now);
    if state.tricks.drops_new {
        return Ok((201, json!({"event": event})));
    }
    state.events.entry(place).or_default().insert(event.event_id.clone(), stored);
    if let Some(token) = token {
        state.tokens.insert(token, Used { request: fingerprint, event: event.clone(), at: now });
    }
    Ok((201, json!({"event": event})))
}

/// The branch of a new event.
fn branch(state: &State, place: &Place, wanted: Option<Branch>) -> Checked<Branch> {
    let Some(wanted) = wanted else { return Ok(Branch { name: MAIN.to_owned(), root_event_id: None }) };
    let events = state.events.get(place);
    if let Some(root) = &wanted.root_event_id {
        if !events.is_some_and(|events| events.contains_key(root)) {
            return Err(Refusal::invalid("The root event is not in this session", "EventInOtherSession"));
        }
        return Ok(wanted);
    }
    let branches = events.into_iter().flatten().filter_map(|(_, stored)| stored.event.branch.as_ref());
    let known = branches.filter(|branch| branch.name == wanted.name).find_map(|branch| branch.root_event_id.clone());
    Ok(Branch { root_event_id: known, ..wanted })
}

/// Whole milliseconds of a number of seconds, without the help of floating point.
fn milliseconds(seconds: &str) -> Option<u64> {
    if seconds.contains(['e', 'E']) {
        return None;
    }
    let (whole, rest) = seconds.split_once('.').unwrap_or((seconds, ""));
    let rest: String = rest.chars().chain("000".chars()).take(3).collect();
    whole.parse::<u64>().ok()?.checked_mul(1000)?.checked_add(rest.parse().ok()?)
}

/// A time as the service writes it.
pub(super) fn seconds(time: Duration) -> serde_json::Number {
    let number = time.as_millis() as f64 / 1000.0;
    serde_json::Number::from_f64(number).unwrap_or_else(|| 0.into())
}

fn find<'s>(state: &'s State, place: &Place, id: &str, now: Duration) -> Checked<&'s Stored> {
    checks::actor(&place.actor)?;
    checks::name("sessionId", &place.session)?;
    checks::event_id(id)?;
    let found = state.events.get(place).and_then(|events| events.get(id)).filter(|stored| stored.expires > now);
    found.ok_or_else(|| Refusal::missing(format!("Event not found: {id}")))
}

pub(super) fn get(shared: &Shared, state: &State, place: &Place, id: &str) -> Checked<Answer> {
    let stored = find(state, place, id, shared.now())?;
    Ok((200, json!({"event": stored.event})))
}

pub(super) fn delete(shared: &Shared, state: &mut State, place: &Place, id: &str) -> Checked<Answer> {
    find(state, place, id, shared.now())?;
    if let Some(events) = state.events.get_mut(place) {
        events.remove(id);
    }
    Ok((200, json!({"eventId": id})))
}

pub(super) fn list(shared: &Shared, state: &mut State, place: &Place, body: &Value) -> Checked<Answer> {
    checks::actor(&place.actor)?;
    checks::name("sessionId", &place.session)?;
    let size = checks::page_size(body)?;
    let filter = body.get("filter").cloned().unwrap_or_default();
    checks::filter(&filter)?;
    let now = shared.now();
    if let Some((events, next)) = state.tricks.flood() {
        return Ok((200, answer("events", json!(events), Some(spell(&next)))));
    }
    let behind = token(body)?;
    if let Some(refused) = state.tricks.refused_pages.filter(|_| behind.is_some()) {
        return Err(refused.refusal());
    }
    let State { events, tricks, .. } = state;
    let events = events.get(place);
    let alive: Vec<&Stored> = events.into_iter().flatten().map(|(_, stored)| stored).collect();
    let newest: Vec<&&Stored> = alive.iter().rev().filter(|stored| stored.expires > now).collect();
    let mut newest = tricks.shown(newest).into_iter();
    // The page is taken first, and filtered then.
    let page: Vec<&&Stored> = newest
        .by_ref()
        .filter(|stored| behind.as_ref().is_none_or(|behind| stored.event.event_id < *behind))
        .take(size)
        .collect();
    let next = page.last().filter(|_| newest.next().is_some()).map(|last| spell(&last.event.event_id));
    let with_payloads = body.get("includePayloads").and_then(Value::as_bool).unwrap_or(true);
    let branches = wanted_branches(&alive, &filter);
    let shown = page.into_iter().filter(|stored| {
        let expressions = filter.get("eventMetadata").and_then(Value::as_array);
        let is_seen = expressions.is_none() || stored.written + shared.options.filter_lag <= now;
        is_seen
            && expressions.into_iter().flatten().all(|expression| matches(&stored.event.metadata, expression))
            && branches.as_ref().is_none_or(|wanted| wanted.contains(&stored.event.event_id))
    });
    let shown: Vec<Event> = shown
        .map(|stored| {
            let payload = stored.event.payload.clone().filter(|_| with_payloads);
            Event { payload, ..stored.event.clone() }
        })
        .collect();
    let next = if tricks.is_endless { Some(spell("0000000000000000000#0")) } else { next };
    Ok((200, answer("events", json!(tricks.page(shown)), next)))
}

fn matches(metadata: &Metadata, expression: &Value) -> bool {
    let key = expression.pointer("/left/metadataKey").and_then(Value::as_str).unwrap_or_default();
    let value = metadata.get(key).map(|value| value.string_value.as_str());
    match expression["operator"].as_str() {
        Some("EXISTS") => value.is_some(),
        Some("NOT_EXISTS") => value.is_none(),
        _ => value.is_some() && value == expression.pointer("/right/metadataValue/stringValue").and_then(Value::as_str),
    }
}

/// The ids of a branch's events, and of those that it grew from if they are wanted.
fn wanted_branches(events: &[&Stored], filter: &Value) -> Option<BTreeSet<String>> {
    let mut name = filter.pointer("/branch/name").and_then(Value::as_str)?.to_owned();
    let with_parents = filter.pointer("/branch/includeParentBranches").and_then(Value::as_bool).unwrap_or(false);
    let (mut wanted, mut seen, mut until) = (BTreeSet::new(), BTreeSet::new(), None::<String>);
    while seen.insert(name.clone()) {
        let of_branch = events.iter().filter(|stored| stored.event.branch.as_ref().is_some_and(|own| own.name == name));
        let of_branch: Vec<_> = of_branch.collect();
        let ids = of_branch.iter().map(|stored| &stored.event.event_id);
        wanted.extend(ids.filter(|id| until.as_ref().is_none_or(|until| *id <= until)).cloned());
        let root = of_branch.iter().find_map(|stored| stored.event.branch.as_ref()?.root_event_id.clone());
        let parent = root.filter(|_| with_parents).and_then(|root| {
            let parent = events.iter().find(|stored| stored.event.event_id == root)?;
            Some((parent.event.branch.clone()?.name, root))
        });
        let Some((parent, root)) = parent else { break };
        (name, until) = (parent, Some(root));
    }
    Some(wanted)
}

pub(super) fn sessions(shared: &Shared, state: &State, memory: &str, actor: &str, body: &Value) -> Checked<Answer> {
    let memory = known_memory(state, memory)?;
    checks::actor(actor)?;
    let size = checks::page_size(body)?;
    let behind = token(body)?;
    let now = shared.now();
    let needs_events = body.pointer("/filter/eventFilter").is_some_and(|filter| filter == "HAS_EVENTS");
    let has_events = |place: &Place| {
        state.events.get(place).is_some_and(|events| events.values().any(|stored| stored.expires > now))
    };
    let mut all = state.sessions.iter().filter(|(place, began)| {
        let is_kept = !needs_events && **began + Duration::from_secs(DAY) > now;
        place.memory == memory
            && place.actor == actor
            && behind.as_ref().is_none_or(|behind| place.session > *behind)
            && (is_kept || has_events(place))
    });
    let page: Vec<_> = all.by_ref().take(size).collect();
    let next = page.last().filter(|_| all.next().is_some()).map(|(place, _)| spell(&place.session));
    let shown = page
        .iter()
        .map(|(place, began)| json!({"sessionId": place.session, "actorId": actor, "createdAt": seconds(**began)}));
    Ok((200, answer("sessionSummaries", shown.collect(), next)))
}

pub(super) fn actors(state: &State, memory: &str, body: &Value) -> Checked<Answer> {
    let memory = known_memory(state, memory)?;
    let size = checks::page_size(body)?;
    let behind = token(body)?;
    let names: BTreeSet<&String> =
        state.sessions.keys().filter(|place| place.memory == memory).map(|place| &place.actor).collect();
    let mut names = names.into_iter().filter(|name| behind.as_ref().is_none_or(|behind| *name > behind));
    let page: Vec<_> = names.by_ref().take(size).collect();
    let next = page.last().filter(|_| names.next().is_some()).map(|name| spell(name));
    let shown = page.iter().map(|name| json!({"actorId": name}));
    Ok((200, answer("actorSummaries", shown.collect(), next)))
}

pub(super) fn answer(member: &str, items: Value, next: Option<String>) -> Value {
    let mut answer = json!({ member: items });
    if let Some(next) = next {
        answer["nextToken"] = json!(next);
    }
    answer
}

/// A token is the last key of a page, so that what comes and goes meanwhile moves nothing.
pub(super) fn spell(key: &str) -> String {
    encode::hex(key.as_bytes())
}

pub(super) fn token(body: &Value) -> Checked<Option<String>> {
    let Some(token) = body.get("nextToken").filter(|value| !value.is_null()) else { return Ok(None) };
    let digits = token.as_str().unwrap_or_default().as_bytes();
    let bytes: Option<Vec<u8>> = digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok().filter(|_| pair.len() == 2))
        .collect();
    let key = bytes.and_then(|bytes| String::from_utf8(bytes).ok()).filter(|key| !key.is_empty());
    need(key.is_some(), "nextToken", token, "be a token of an earlier answer")?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_cut_to_milliseconds() {
        assert_eq!(milliseconds("1767323045.678901"), Some(1_767_323_045_678));
        assert_eq!(milliseconds("1767323045.6789"), Some(1_767_323_045_678));
        assert_eq!(milliseconds("1767000000"), Some(1_767_000_000_000));
        assert_eq!(milliseconds("1767323045.5"), Some(1_767_323_045_500));
        assert_eq!(milliseconds("-1"), None);
        assert_eq!(milliseconds("1e300"), None);
    }
}
