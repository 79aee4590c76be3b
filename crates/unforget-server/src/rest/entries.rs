//! Bodies that are not parsed whole: entries of SDKs, and messages that keep their bytes.
//!
//! Entries go through as text, so their depth is bounded by what can be read back and not by the
//! depth of other bodies: refusing one would lose a turn. [`Splitter`] cuts them out of a body
//! while it comes.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{MethodRouter, post};
use futures_util::StreamExt as _;
use http_body_util::Limited;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use unforget_core::json;

use super::ask::{self, Asked, Body, Id, Mine, Nothing, Text};
use super::route;
use super::split::Splitter;
use crate::api::entries::{AppendEntries, EntriesKey, in_ok};
use crate::api::turns::AddMessages;
use crate::api::{InSession, Verb};
use crate::app::App;
use crate::error::{Problem, Result};
use crate::intake;

/// How deep an entry may be nested. None of it is read into a tree.
const DEPTH: usize = 10_000;

/// What is left of a body when its entries were taken out.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rest {
    key: EntriesKey,
    #[serde(rename = "entries")]
    _entries: Vec<IgnoredAny>,
}

/// A request about entries; the answer has the result in `ok`.
pub(super) fn route<V: Verb<App> + DeserializeOwned>() -> MethodRouter<Arc<App>> {
    post(
        |State(app): State<Arc<App>>, Mine(realm): Mine, Asked(Nothing {}): Asked<Nothing>, Body(verb): Body<V>| async move {
            Ok::<_, Problem>(ask::json_text(StatusCode::OK, in_ok(verb.call(&app, &realm).await?)?))
        },
    )
}

/// Appends the entries of a body.
pub(super) async fn append(
    State(app): State<Arc<App>>,
    Mine(realm): Mine,
    Asked(Nothing {}): Asked<Nothing>,
    request: Request,
) -> Result<Response> {
    ask::check_media(request.headers())?;
    let (most, mut splitter, mut taken) = (app.limits().body, Splitter::new(app.limits().entries), 0);
    let mut pieces = axum::body::Body::new(Limited::new(request.into_body(), most)).into_data_stream();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| intake::problem(&error, most))?;
        taken += piece.len();
        splitter.feed(&piece)?;
    }
    let (rest, entries) = splitter.finish()?;
    let Rest { key, .. } = ask::parse(&rest, app.limits())?;
    if entries.iter().any(|entry| json::deeper_than(entry, DEPTH)) {
        return Err(Problem::invalid(format!("an entry is nested deeper than {DEPTH} levels")));
    }
    app.hub.ask_store(&realm, taken).await?;
    let written = AppendEntries { key, entries }.call(&app, &realm).await?;
    Ok(ask::json_text(StatusCode::OK, in_ok(written)?))
}

/// Adds messages of another program's agent.
pub(super) async fn add_messages(
    State(app): State<Arc<App>>,
    Mine(realm): Mine,
    Id(session): Id,
    Asked(Nothing {}): Asked<Nothing>,
    Text(text): Text,
) -> Result<Response> {
    // The content of a message is kept as it is and read into no tree, so it may have any number of
    // values.
    let limits = crate::Limits { values: usize::MAX, ..*app.limits() };
    let what: AddMessages = ask::parse(text.as_bytes(), &limits)?;
    drop(text);
    route::answer(StatusCode::OK, InSession { session, what }.call(&app, &realm).await?)
}
