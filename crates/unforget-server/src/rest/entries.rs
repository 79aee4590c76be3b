//! `/entries/…`: what SDKs of agents ask of a session store, one operation a path. What they mean is in [`entries`](crate::entries).
//!
//! The bodies are those of the operation, and the answers have the result in `ok`. Entries go through as text, byte for byte, so their depth is bounded by
//! what can be read back and not by what is good manners for everybody else: refusing one would lose a turn. They are cut out of a body while it comes (`split`).

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use futures_util::StreamExt as _;
use http_body_util::Limited;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use unforget_core::json;

use super::ask::{self, Asked, Body, Mine, Nothing};
use super::split::Splitter;
use crate::app::App;
use crate::entries::{Key, Listed, Spelling};
use crate::error::{Problem, Result};
use crate::intake;

/// How deep an entry may be nested. None of it is read into a tree.
const DEPTH: usize = 10_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireKey {
    project_key: String,
    session_id: String,
    #[serde(default)]
    subpath: Option<String>,
}

impl WireKey {
    fn checked(self) -> Result<Key> {
        Key::new(self.project_key, self.session_id, self.subpath)
    }

    /// A key that names a session and nothing in it.
    fn session(self) -> Result<Key> {
        match self.subpath {
            None => self.checked(),
            Some(_) => Err(Problem::invalid("`subpath` has no meaning here")),
        }
    }
}

/// What is left of a body when its entries were taken out.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Append {
    key: WireKey,
    #[serde(rename = "entries")]
    _entries: Vec<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Keyed {
    key: WireKey,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Project {
    project_key: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reading {
    key: WireKey,
    #[serde(default)]
    cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Summaries {
    project_key: String,
    #[serde(default)]
    spelling: Spelling,
}

fn done() -> Response {
    ask::answer(StatusCode::OK, &json!({ "ok": null }))
}

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
    let Append { key, .. } = ask::parse(&rest, app.limits())?;
    if entries.iter().any(|entry| json::deeper_than(entry, DEPTH)) {
        return Err(Problem::invalid(format!("an entry is nested deeper than {DEPTH} levels")));
    }
    app.hub.ask_store(&realm, taken).await?;
    let durability = app.entries.append(&realm, &key.checked()?, entries).await?;
    Ok(ask::answer(StatusCode::OK, &json!({ "ok": null, "durability": durability.name() })))
}

pub(super) async fn load(
    State(app): State<Arc<App>>,
    Mine(realm): Mine,
    Asked(Nothing {}): Asked<Nothing>,
    Body(Keyed { key }): Body<Keyed>,
) -> Result<Response> {
    let loaded = app.entries.load(&realm, &key.checked()?).await?;
    Ok(ask::json_text(StatusCode::OK, format!("{{\"ok\":{}}}", loaded.as_deref().unwrap_or("null"))))
}

pub(super) async fn read(
    State(app): State<Arc<App>>,
    Mine(realm): Mine,
    Asked(Nothing {}): Asked<Nothing>,
    Body(Reading { key, cursor }): Body<Reading>,
) -> Result<Response> {
    let page = app.entries.read(&realm, &key.checked()?, cursor).await?;
    let page = page.map_or_else(|| "null".to_owned(), |page| page.to_json());
    Ok(ask::json_text(StatusCode::OK, format!("{{\"ok\":{page}}}")))
}

pub(super) async fn list_sessions(
    State(app): State<Arc<App>>,
    Mine(realm): Mine,
    Asked(Nothing {}): Asked<Nothing>,
    Body(Project { project_key }): Body<Project>,
) -> Result<Response> {
    let listed = app.entries.list(&realm, &project_key, Spelling::Python).await?;
    Ok(ask::answer(StatusCode::OK, &json!({ "ok": listed.iter().map(Listed::named).collect::<Vec<_>>() })))
}

pub(super) async fn list_session_summaries(
    State(app): State<Arc<App>>,
    Mine(realm): Mine,
    Asked(Nothing {}): Asked<Nothing>,
    Body(Summaries { project_key, spelling }): Body<Summaries>,
) -> Result<Response> {
    let listed = app.entries.list(&realm, &project_key, spelling).await?;
    Ok(ask::answer(StatusCode::OK, &json!({ "ok": listed.iter().map(Listed::summed).collect::<Vec<_>>() })))
}

pub(super) async fn delete(
    State(app): State<Arc<App>>,
    Mine(realm): Mine,
    Asked(Nothing {}): Asked<Nothing>,
    Body(Keyed { key }): Body<Keyed>,
) -> Result<Response> {
    app.entries.delete(&realm, &key.checked()?).await?;
    Ok(done())
}

pub(super) async fn list_subkeys(
    State(app): State<Arc<App>>,
    Mine(realm): Mine,
    Asked(Nothing {}): Asked<Nothing>,
    Body(Keyed { key }): Body<Keyed>,
) -> Result<Response> {
    let subkeys = app.entries.list_subkeys(&realm, &key.session()?).await?;
    Ok(ask::answer(StatusCode::OK, &json!({ "ok": subkeys })))
}
