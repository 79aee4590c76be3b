//! What the server is: whether it is well, who answers, and how to ask.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;

use super::ask::{self, Asked, Mine, Nothing};
use crate::app::App;
use crate::error::Result;

/// The version of the protocol.
pub(super) const PROTOCOL: u32 = 1;

/// What can be asked, for programs.
pub(super) const OPENAPI: &str = include_str!("../../../../docs/openapi.json");

/// Whether the server is well. Tells nothing about anybody, so anybody may ask.
pub(super) async fn health(State(app): State<Arc<App>>, Asked(Nothing {}): Asked<Nothing>) -> Result<Response> {
    let status = if app.hub.shared().is_stopping() { "stopping" } else { "ok" };
    let shown = json!({ "status": status, "version": env!("CARGO_PKG_VERSION"), "protocol": PROTOCOL });
    Ok(ask::answer(StatusCode::OK, &shown))
}

/// Who answers; the first when nobody is named.
pub(super) async fn agents(
    State(app): State<Arc<App>>,
    Mine(_): Mine,
    Asked(Nothing {}): Asked<Nothing>,
) -> Result<Response> {
    Ok(ask::answer(StatusCode::OK, &who_answers(&app)))
}

/// The agents, as they are shown.
pub(super) fn who_answers(app: &App) -> serde_json::Value {
    let agents = app.hub.agents();
    let all = agents.all().iter().map(|agent| json!({ "name": agent.name(), "kind": agent.kind() }));
    json!({ "agents": all.collect::<Vec<_>>(), "default": agents.usual() })
}

/// This, for programs.
pub(super) async fn openapi(Asked(Nothing {}): Asked<Nothing>) -> Result<Response> {
    Ok(ask::json_text(StatusCode::OK, OPENAPI.to_owned()))
}
