//! Routes that decode a request, call it, and encode the answer.
//!
//! A request without a session comes from the query of a GET or the body of another method. A
//! request about a session has the session's id in its path.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodFilter, MethodRouter, get, on};
use serde::de::DeserializeOwned;

use super::ask::{Asked, Body, Id, Maybe, Mine, Nothing, json_text};
use crate::api::{InSession, IntoJson, Verb};
use crate::app::App;
use crate::error::Result;

type Route = MethodRouter<Arc<App>>;

/// Encodes an answer; there is none where the status says so.
pub(super) fn answer(status: StatusCode, answer: impl IntoJson) -> Result<Response> {
    Ok(match status {
        StatusCode::NO_CONTENT => status.into_response(),
        _ => json_text(status, answer.into_json()?),
    })
}

/// A request in the query.
pub(super) fn query<V: Verb<App> + DeserializeOwned>() -> Route {
    get(|State(app): State<Arc<App>>, Mine(realm): Mine, Asked(verb): Asked<V>| async move {
        answer(StatusCode::OK, verb.call(&app, &realm).await?)
    })
}

/// A request in the query, about a session.
pub(super) fn query_in<V: DeserializeOwned + Send + 'static>() -> Route
where
    InSession<V>: Verb<App>,
{
    get(|State(app): State<Arc<App>>, Mine(realm): Mine, Id(session): Id, Asked(what): Asked<V>| async move {
        answer(StatusCode::OK, InSession { session, what }.call(&app, &realm).await?)
    })
}

/// A request in a body that may be left out.
pub(super) fn body<V: Verb<App> + DeserializeOwned + Default>(method: MethodFilter, status: StatusCode) -> Route {
    let handler =
        move |State(app): State<Arc<App>>,
              Mine(realm): Mine,
              Asked(Nothing {}): Asked<Nothing>,
              Maybe(verb): Maybe<V>| async move { answer(status, verb.call(&app, &realm).await?) };
    on(method, handler)
}

/// A request in a body, about a session.
pub(super) fn body_in<V: DeserializeOwned + Send + 'static>(method: MethodFilter, status: StatusCode) -> Route
where
    InSession<V>: Verb<App>,
{
    let handler = move |State(app): State<Arc<App>>,
                        Mine(realm): Mine,
                        Id(session): Id,
                        Asked(Nothing {}): Asked<Nothing>,
                        Body(what): Body<V>| async move {
        answer(status, InSession { session, what }.call(&app, &realm).await?)
    };
    on(method, handler)
}

/// A request in a body that may be left out, about a session.
pub(super) fn optional_in<V>(method: MethodFilter, status: StatusCode) -> Route
where
    V: DeserializeOwned + Default + Send + 'static,
    InSession<V>: Verb<App>,
{
    let handler = move |State(app): State<Arc<App>>,
                        Mine(realm): Mine,
                        Id(session): Id,
                        Asked(Nothing {}): Asked<Nothing>,
                        Maybe(what): Maybe<V>| async move {
        answer(status, InSession { session, what }.call(&app, &realm).await?)
    };
    on(method, handler)
}
