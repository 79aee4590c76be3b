//! What a client may ask before it is known: whether the server is well, and how to ask.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;

use super::ask::{self, Asked, Nothing};
use super::route;
use crate::api::about::Health;
use crate::app::App;
use crate::error::Result;

/// What can be asked, for programs.
pub(super) const OPENAPI: &str = include_str!("../../../../docs/openapi.json");

/// Whether the server is well.
pub(super) async fn health(State(app): State<Arc<App>>, Asked(Nothing {}): Asked<Nothing>) -> Result<Response> {
    route::answer(StatusCode::OK, Health::of(&app))
}

/// The document of the interface.
pub(super) async fn openapi(Asked(Nothing {}): Asked<Nothing>) -> Result<Response> {
    Ok(ask::json_text(StatusCode::OK, OPENAPI.to_owned()))
}
