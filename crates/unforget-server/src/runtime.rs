//! The contract of AgentCore Runtime: `GET /ping` and `POST /invocations`. With `/ws` it is all that a container there has to answer.
//!
//! An invocation is a prompt in the short form. Its answer is one JSON object, or with `Accept: text/event-stream` the messages of the
//! protocol as server-sent events. Either way the turn belongs to the session: a caller that goes away loses nothing, and one that calls again
//! with the same `client_id` gets the same answer.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Extension, Request, State};
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use serde_json::Value;

use crate::app::{App, Purpose};
use crate::caller::{Caller, RUNTIME_REQUEST, RUNTIME_SESSION};
use crate::error::{Code, Problem, Result};
use crate::hub::Watching;
use crate::live::event::Event;
use crate::live::{Gone, Told, Viewer};
use crate::protocol::client::short;
use crate::protocol::runtime::{BrokenOff, Health, Invoked, Refusal};
use crate::protocol::{After, Attached, ClientId, ServerMessage};
use crate::realm::Realm;
use crate::rest;
use crate::socket::ended;

/// How often a stream without news shows that it lives.
const SIGN: Duration = Duration::from_secs(15);

/// Whether the server lives, and whether it has something in hand.
pub(crate) async fn ping(State(app): State<Arc<App>>) -> Response {
    // What is unsaved is looked for now: a machine that is told to be idle may be taken away.
    app.hub.look_for_unsaved(&app.entries).await;
    let (busy, changed_ms) = app.hub.shared().activity.now();
    axum::Json(Health::new(busy > 0, changed_ms)).into_response()
}

/// A prompt, and its answer.
pub(crate) async fn invoke(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Extension(realm): Extension<Arc<Realm>>,
    headers: HeaderMap,
    request: Request,
) -> Response {
    let answered = match rest::read_body(request, &app).await {
        Ok(body) => answer(&app, &caller, &realm, &headers, &body).await,
        Err(problem) => Err(problem),
    };
    let mut response = match answered {
        Ok(response) => response,
        Err(problem) => {
            app.hub.shared().metrics.refuse(&problem);
            if problem.code == Code::Moved {
                return problem.into_response();
            }
            refused(&problem)
        }
    };
    for name in [RUNTIME_SESSION, RUNTIME_REQUEST] {
        if let Some(value) = headers.get(&name) {
            response.headers_mut().insert(name, value.clone());
        }
    }
    response
}

/// Errors as the contract has them: what went wrong behind the door is a 500, whoever's fault it is.
fn refused(problem: &Problem) -> Response {
    let status = match problem.code {
        Code::Model | Code::Storage | Code::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        other => other.status(),
    };
    let mut response = (status, axum::Json(Refusal::new(problem))).into_response();
    problem.tell_when(&mut response);
    response
}

async fn answer(
    app: &Arc<App>,
    caller: &Caller,
    realm: &Arc<Realm>,
    headers: &HeaderMap,
    body: &Bytes,
) -> Result<Response> {
    let invalid =
        |details: String| (StatusCode::BAD_REQUEST, axum::Json(Refusal::invalid_json(&details))).into_response();
    let value = match std::str::from_utf8(body) {
        Err(_) => return Ok(invalid("it is not UTF-8 text".to_owned())),
        Ok(text) => match app.limits().check_json(text) {
            Err(problem) if problem.code == Code::Invalid => return Ok(invalid(problem.message)),
            Err(problem) => return Err(problem),
            Ok(()) => match serde_json::from_str::<Value>(text) {
                Ok(value @ Value::Object(_)) => value,
                Ok(_) => return Ok(invalid("it is not an object".to_owned())),
                Err(error) => return Ok(invalid(error.to_string())),
            },
        },
    };
    let asked = short(&value)?;
    let client_id = asked.client_id.clone().unwrap_or_else(ClientId::random);
    let is_streamed = value.get("stream").and_then(Value::as_bool).unwrap_or_else(|| {
        let accepts = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        accepts.flat_map(|value| value.split(',')).any(|kind| kind.trim().starts_with("text/event-stream"))
    });
    app.check(&asked.text)?;
    app.hub.ask_store(realm, asked.text.len()).await?;
    let (mut admission, runtime) = (None, caller.runtime_session.as_ref());
    let watching = app.attach(realm, &asked.target, runtime, After::End, Purpose::Prompt(&mut admission)).await?;
    let (attached, viewer) = match watching {
        Watching::Here(attached, viewer) => (attached, viewer),
        Watching::There(elsewhere) => return Err(elsewhere.moved()),
    };
    let live = viewer.live().clone();
    let taken = live.prompt(client_id.clone(), asked.text, false, admission).await?;
    let ended = if taken.is_duplicate { ended(app, &live, &taken).await } else { None };
    match is_streamed {
        true => Ok(stream(attached, *viewer, client_id, ended, app.limits().send)),
        false => whole(*viewer, &client_id, ended).await,
    }
}

/// The answer as one object.
async fn whole(mut viewer: Viewer, client_id: &ClientId, ended: Option<Event>) -> Result<Response> {
    let mut known = ended;
    loop {
        let event = match known.take() {
            Some(event) => event,
            None => match viewer.next().await {
                Ok(Told::Event(event)) => event,
                Ok(_) => continue,
                Err(Gone(problem)) => return Err(problem),
            },
        };
        match event {
            Event::Done(outcome) if outcome.client_id.as_ref() == Some(client_id) => {
                return Ok(axum::Json(Invoked::new(viewer.live().name().id.as_str(), &outcome)).into_response());
            }
            Event::Failed { client_id: failed, problem } if failed.as_ref() == Some(client_id) => return Err(problem),
            _ => {}
        }
    }
}

/// How many events may wait for whoever reads a stream.
const AHEAD: usize = 16;

/// The messages of the protocol, as server-sent events. Who does not read is dropped: the turn is nobody's to stop, and a viewer that is never
/// heard from would keep the session for ever.
fn stream(
    attached: Attached,
    viewer: Viewer,
    client_id: ClientId,
    known: Option<Event>,
    patience: Duration,
) -> Response {
    let (sender, receiver) = tokio::sync::mpsc::channel::<Bytes>(AHEAD);
    tokio::spawn(pump(attached, viewer, client_id, known, patience, sender));
    let chunks = futures_util::stream::unfold(receiver, |mut receiver| async move {
        let chunk = receiver.recv().await?;
        Some((Ok::<Bytes, Infallible>(chunk), receiver))
    });
    let mut response = Body::from_stream(chunks).into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response
}

/// Hands on what is told until the turn has ended, or nobody takes it.
async fn pump(
    attached: Attached,
    mut viewer: Viewer,
    client_id: ClientId,
    mut known: Option<Event>,
    patience: Duration,
    to: tokio::sync::mpsc::Sender<Bytes>,
) {
    let mut due = Some(ServerMessage::Attached(&attached).encode());
    let mut is_over = false;
    while !is_over || due.is_some() {
        let text = match (due.take(), known.take()) {
            (Some(due), event) => {
                known = event;
                Some(due)
            }
            (None, event) => {
                let told = match event {
                    Some(event) => Ok(Ok(Told::Event(event))),
                    None => tokio::time::timeout(SIGN, viewer.next()).await,
                };
                match told {
                    Err(_) => Some(String::new()),
                    Ok(Ok(told)) => {
                        match &told {
                            Told::Event(Event::Done(outcome)) => {
                                is_over = outcome.client_id.as_ref() == Some(&client_id);
                            }
                            Told::Event(Event::Failed { client_id: Some(failed), problem }) if *failed == client_id => {
                                is_over = true;
                                due = Some(BrokenOff::new(problem).encode());
                            }
                            _ => {}
                        }
                        told.message().map(|message| message.encode())
                    }
                    Ok(Err(Gone(problem))) => {
                        is_over = true;
                        Some(BrokenOff::new(&problem).encode())
                    }
                }
            }
        };
        let chunk = match text {
            None => continue,
            Some(text) if text.is_empty() => ": still there\n\n".to_owned(),
            Some(text) => format!("data: {text}\n\n"),
        };
        if !matches!(tokio::time::timeout(patience, to.send(Bytes::from(chunk))).await, Ok(Ok(()))) {
            return;
        }
    }
}
