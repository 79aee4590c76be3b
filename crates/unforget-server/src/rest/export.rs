//! A session as a file that a browser saves.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};

use super::ask::{Asked, Id, Mine};
use crate::api::InSession;
use crate::api::export::ExportSession;
use crate::app::App;
use crate::error::Result;

pub(super) async fn export(
    State(app): State<Arc<App>>,
    Mine(realm): Mine,
    Id(session): Id,
    Asked(what): Asked<ExportSession>,
) -> Result<Response> {
    let file = InSession { session, what }.export(&app, &realm).await?;
    let disposition = format!("attachment; filename=\"{}\"", file.name);
    let headers = [(CONTENT_TYPE, file.media.to_owned()), (CONTENT_DISPOSITION, disposition)];
    Ok((StatusCode::OK, headers, file.bytes).into_response())
}
