//! A request from its arrival to its answer.
//!
//! The path is cut at its slashes first and decoded then: an actor may have slashes of its own, and every event's id has a `#`.
//! Signature, faults and rates come before the operation, which sees only requests that the service would let through.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State as Extract};
use axum::response::Response;
use futures_core::Stream;
use serde_json::{Value, json};
use unforget_remote::agentcore::wire::ERROR_TYPE;

use super::checks::{Checked, Refusal};
use super::events::{self, Answer};
use super::faults::{Fault, Operation};
use super::signature::Signed;
use super::state::{Place, Recorded, Shared, State};
use super::{Rates, control};

/// More than any request may have, so that the checks can say so.
const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;

/// What a path asks for.
enum Route {
    CreateEvent {
        memory: String,
    },
    ListEvents(Place),
    GetEvent(Place, String),
    DeleteEvent(Place, String),
    ListSessions {
        memory: String,
        actor: String,
    },
    ListActors {
        memory: String,
    },
    /// Long-term memory has nothing in it.
    Records {
        memory: String,
    },
    CreateMemory,
    GetMemory(String),
    ListMemories,
    DeleteMemory(String),
}

impl Route {
    fn of(method: &str, path: &str) -> Option<Self> {
        let parts: Option<Vec<String>> = path.split('/').skip(1).map(decoded).collect();
        let parts = parts?;
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let place = |memory: &str, actor: &str, session: &str| Place {
            memory: memory.to_owned(),
            actor: actor.to_owned(),
            session: session.to_owned(),
        };
        Some(match (method, parts.as_slice()) {
            ("POST", ["memories", ""]) => Self::ListMemories,
            ("POST", ["memories", "create"]) => Self::CreateMemory,
            ("GET", ["memories", memory, "details"]) => Self::GetMemory((*memory).to_owned()),
            ("DELETE", ["memories", memory, "delete"]) => Self::DeleteMemory((*memory).to_owned()),
            ("POST", ["memories", memory, "events"]) => Self::CreateEvent { memory: (*memory).to_owned() },
            ("POST", ["memories", memory, "actors"]) => Self::ListActors { memory: (*memory).to_owned() },
            ("POST", ["memories", memory, "retrieve" | "memoryRecords"]) => {
                Self::Records { memory: (*memory).to_owned() }
            }
            ("POST", ["memories", memory, "actor", actor, "sessions"]) => {
                Self::ListSessions { memory: (*memory).to_owned(), actor: (*actor).to_owned() }
            }
            ("POST", ["memories", memory, "actor", actor, "sessions", session]) => {
                Self::ListEvents(place(memory, actor, session))
            }
            ("GET", ["memories", memory, "actor", actor, "sessions", session, "events", event]) => {
                Self::GetEvent(place(memory, actor, session), (*event).to_owned())
            }
            ("DELETE", ["memories", memory, "actor", actor, "sessions", session, "events", event]) => {
                Self::DeleteEvent(place(memory, actor, session), (*event).to_owned())
            }
            _ => return None,
        })
    }

    fn operation(&self) -> Operation {
        match self {
            Self::CreateEvent { .. } => Operation::CreateEvent,
            Self::ListEvents(_) => Operation::ListEvents,
            Self::GetEvent(..) => Operation::GetEvent,
            Self::DeleteEvent(..) => Operation::DeleteEvent,
            Self::ListSessions { .. } => Operation::ListSessions,
            Self::ListActors { .. } => Operation::ListActors,
            _ => Operation::Control,
        }
    }

    /// How many of these a second has room for, and for whom.
    fn rate(&self, body: &Value) -> Option<(Option<Place>, usize)> {
        match self {
            Self::CreateEvent { memory } => {
                let text = |member: &str| body[member].as_str().unwrap_or_default().to_owned();
                let is_said = |item: &Value| item.get("conversational").is_some();
                let talks = body["payload"].as_array().is_some_and(|items| items.iter().any(is_said));
                let place = Place { memory: memory.clone(), actor: text("actorId"), session: text("sessionId") };
                Some((Some(place), if talks { 5 } else { 10 }))
            }
            Self::ListEvents(place) => Some((Some(place.clone()), 20)),
            Self::DeleteEvent(place, _) => Some((Some(place.clone()), 5)),
            Self::GetEvent(..) | Self::ListSessions { .. } | Self::ListActors { .. } => Some((None, 20)),
            _ => None,
        }
    }
}

pub(super) async fn handle(Extract(shared): Extract<Arc<Shared>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, MAX_BODY_BYTES).await.unwrap_or_default();
    let (method, path) = (parts.method.as_str().to_owned(), parts.uri.path().to_owned());
    let read = if body.is_empty() { Ok(json!({})) } else { serde_json::from_slice::<Value>(&body) };
    let route = Route::of(&method, &path);
    let operation = route.as_ref().map(Route::operation);
    let mut signed = Signed {
        method: &method,
        path: &path,
        query: parts.uri.query().unwrap_or_default(),
        headers: Vec::new(),
        body: &body,
    };
    let authorization = parts.headers.get("authorization").and_then(|value| value.to_str().ok());
    let is_allowed = match &shared.options.keys {
        Some(keys) => keys.check(&mut signed, authorization, shared.now(), &parts.headers),
        None => Ok(()),
    };
    let mut state = shared.lock();
    let fault = operation.and_then(|operation| state.faults.take(operation));
    let (refusal, padding) = (state.tricks.refusal.clone(), state.tricks.padding);
    let forged = state.tricks.answers.iter().find(|(kind, _)| Some(*kind) == operation).map(|(_, text)| text.clone());
    let answer = match (&fault, is_allowed, route) {
        (Some(Fault::Answer { status, body }), ..) => {
            let (status, text) = (*status, body.clone());
            let recorded = Recorded {
                operation,
                method: method.clone(),
                path: path.clone(),
                body: read.unwrap_or_default(),
                status: Some(status),
                error: None,
            };
            state.record(recorded);
            return response(status, None, text.into());
        }
        (Some(Fault::Error { status, name }), ..) => Err(Refusal::new(*status, name, "planned by the test")),
        _ if forged.is_some() => return response(200, None, forged.unwrap_or_default().into()),
        _ if refusal.is_some() => {
            let (status, name, message) = refusal.unwrap_or_default();
            Err(Refusal::new(status, &name, message))
        }
        (Some(Fault::CutBefore), ..) => Err(Refusal::new(500, "cut", "cut")),
        (_, Err(refusal), _) => Err(refusal),
        (.., None) => Err(Refusal::new(404, "UnknownOperationException", format!("{method} {path}"))),
        (_, Ok(()), Some(route)) => match &read {
            Ok(body) => answer(&shared, &mut state, &route, body),
            Err(error) => Err(Refusal::invalid(error.to_string(), "CannotParse")),
        },
    };
    let is_cut = matches!(fault, Some(Fault::CutBefore | Fault::CutAfter));
    let (status, error, body) = match answer {
        Ok((status, body)) => (status, None, body),
        Err(refusal) => (refusal.status, Some(refusal.name), json!(refusal.body)),
    };
    let recorded = Recorded {
        operation,
        method: method.clone(),
        path: path.clone(),
        body: read.unwrap_or_default(),
        status: (!is_cut).then_some(status),
        error: error.clone(),
    };
    if let Some(log) = &shared.options.log {
        log(&recorded);
    }
    state.record(recorded);
    if is_cut {
        return Response::new(Body::from_stream(Broken));
    }
    let mut text = body.to_string();
    text.extend(std::iter::repeat_n(' ', padding));
    response(status, error, text.into())
}

fn answer(shared: &Shared, state: &mut State, route: &Route, body: &Value) -> Checked<Answer> {
    if shared.options.rates == Rates::Documented
        && let Some((place, limit)) = route.rate(body)
        && !state.has_room(route.operation(), place, limit, shared.now())
    {
        return Err(Refusal::new(429, "ThrottledException", "Rate exceeded"));
    }
    let known = |state: &State, place: &Place| {
        let memory = events::known_memory(state, &place.memory)?;
        Ok::<_, Refusal>(Place { memory, ..place.clone() })
    };
    match route {
        Route::CreateEvent { memory } => events::create(shared, state, memory, body),
        Route::ListEvents(place) => {
            let place = known(state, place)?;
            events::list(shared, state, &place, body)
        }
        Route::GetEvent(place, id) => events::get(shared, state, &known(state, place)?, id),
        Route::DeleteEvent(place, id) => {
            let place = known(state, place)?;
            events::delete(shared, state, &place, id)
        }
        Route::ListSessions { memory, actor } => events::sessions(shared, state, memory, actor, body),
        Route::ListActors { memory } => events::actors(state, memory, body),
        Route::Records { memory } => {
            events::known_memory(state, memory)?;
            Ok((200, json!({"memoryRecordSummaries": []})))
        }
        Route::CreateMemory => control::create(shared, state, body),
        Route::GetMemory(memory) => control::get(state, memory),
        Route::ListMemories => control::list(state, body),
        Route::DeleteMemory(memory) => control::delete(state, memory),
    }
}

fn response(status: u16, error: Option<String>, body: Bytes) -> Response {
    let mut builder = Response::builder()
        .status(status)
        .header("content-type", "application/json")
        .header("x-amzn-requestid", "00000000-0000-4000-8000-000000000000");
    if let Some(error) = error {
        builder = builder.header(ERROR_TYPE, error);
    }
    builder.body(Body::from(body)).unwrap_or_default()
}

/// A body that breaks the connection at once.
struct Broken;

impl Stream for Broken {
    type Item = io::Result<Bytes>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(Some(Err(io::ErrorKind::ConnectionReset.into())))
    }
}

/// A part of a path without its percent signs.
fn decoded(part: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = match (first, tail) {
            (b'%', [high, low, tail @ ..]) => {
                let digits = [*high, *low];
                bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
                tail
            }
            (b'%', _) => return None,
            _ => {
                bytes.push(*first);
                tail
            }
        };
    }
    String::from_utf8(bytes).ok()
}
