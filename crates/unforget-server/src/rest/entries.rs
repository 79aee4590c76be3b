//! `/entries/…`: what SDKs of agents ask of a session store, one operation a path. What they mean is in [`entries`](crate::entries).
//!
//! The bodies are those of the operation, and the answers have the result in `ok`. Entries go through as text, byte for byte, so their depth is bounded by
//! what can be read back and not by what is good manners for everybody else: refusing one would lose a turn.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::ask::{self, Asked, Body, Mine, Nothing, Text};
use crate::app::App;
use crate::entries::{Key, Listed, Spelling};
use crate::error::{Problem, Result};

/// How deep a body with entries may be nested. None of it is read into a tree.
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Append {
    key: WireKey,
    entries: Vec<Box<RawValue>>,
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
    Text(text): Text,
) -> Result<Response> {
    let Append { key, entries } = ask::parse(text.as_bytes(), DEPTH)?;
    drop(text);
    let entries = entries.into_iter().map(Entry).collect();
    let durability = app.entries.append(&realm, &key.checked()?, entries).await?;
    Ok(ask::answer(StatusCode::OK, &json!({ "ok": null, "durability": durability.name() })))
}

/// An entry as it came.
struct Entry(Box<RawValue>);

impl AsRef<str> for Entry {
    fn as_ref(&self) -> &str {
        self.0.get()
    }
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
