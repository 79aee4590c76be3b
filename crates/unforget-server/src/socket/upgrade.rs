//! From a request to a WebSocket.

use std::sync::Arc;

use axum::extract::{Extension, Request, State};
use axum::http::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use hyper::upgrade::OnUpgrade;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use super::converse;
use super::frames::Socket;
use super::pace::Pace;
use crate::app::App;
use crate::budget::Sender;
use crate::caller::Caller;
use crate::connection::Connection;
use crate::error::{Problem, Result};

/// Takes a WebSocket in.
pub(crate) async fn upgrade(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response> {
    let (mut parts, _) = request.into_parts();
    let headers = &parts.headers;
    if !has(headers, &CONNECTION, "upgrade") || !has(headers, &UPGRADE, "websocket") {
        return Err(Problem::invalid("this is a place for WebSockets: connect with `ws://`"));
    }
    if headers.get(SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
        let mut response = Problem::invalid("version 13 of the WebSocket protocol is spoken here").into_response();
        response.headers_mut().insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        return Ok(response);
    }
    let key = headers.get(SEC_WEBSOCKET_KEY).filter(|key| key.len() <= 64);
    let key = key.ok_or_else(|| Problem::invalid("the request has no Sec-WebSocket-Key"))?;
    let accept = HeaderValue::from_str(&derive_accept_key(key.as_bytes()));
    let accept = accept.map_err(|error| Problem::internal("the handshake", &error))?;
    let (waiting, own) = (parts.extensions.remove::<OnUpgrade>(), parts.extensions.remove::<Connection>());
    let (Some(waiting), Some(own)) = (waiting, own) else {
        return Err(Problem::invalid("this connection cannot become a WebSocket"));
    };
    own.tasks.clone().spawn(async move {
        match waiting.await {
            Ok(upgraded) => {
                let pace = caller.runtime_session.is_some().then(Pace::of_runtime);
                let claim = app.hub.shared().budget.claim(Sender::new(None, caller.peer));
                let socket = Socket::new(upgraded, app.limits(), pace, claim).await;
                converse(app, caller, socket, &own).await;
            }
            Err(error) => tracing::debug!(%error, "a handshake was not ended"),
        }
    });
    let mut response = StatusCode::SWITCHING_PROTOCOLS.into_response();
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    Ok(response)
}

/// Whether a header has a word among others.
fn has(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|value| value.trim().eq_ignore_ascii_case(word))
}
