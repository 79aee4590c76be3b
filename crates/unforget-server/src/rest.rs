//! The sessions over HTTP: everything that can be done with them besides talking, as JSON.
//!
//! Whose sessions they are is decided before a request comes here: a [`Realm`](crate::realm::Realm) is in its extensions, and every handler takes it from there
//! and from nowhere else. No path, query or body has a place for an actor, so none can be asked for. A request without a realm is refused.
//!
//! What is read is read from the files, in [`Hub::blocking`](crate::hub::Hub::blocking), and never waits for a turn. What changes a session of ours goes through
//! the live session, between two turns, so that it never races one: while a turn runs it is refused (409). Every answer that is not what
//! was asked for is a [`Problem`], also for requests that are no requests at all (`ask`).
//!
//! The table of routes is the one place that knows them; `docs/openapi.json` says the same to programs, and a test holds both against each other.

use std::sync::Arc;

use axum::Router;
use axum::http::Method;
use axum::routing::{MethodRouter, any, delete, get, patch, post};

use crate::app::App;
use crate::error::{Code, Problem};

mod about;
mod ask;
mod change;
mod context;
mod entries;
mod export;
mod login;
mod path;
mod read;
mod row;
mod search;
mod sessions;
mod split;
mod usage;

pub(crate) use ask::read as read_body;
pub(crate) use read::sent as messages_of;
pub(crate) use search::{Question, find};
pub(crate) use sessions::{Which, list_page};

#[cfg(test)]
mod tests;

/// What the paths begin with.
pub const PREFIX: &str = "/v1";

/// A route: its method, its path behind the prefix, and what answers.
type Route = (Method, &'static str, MethodRouter<Arc<App>>);

/// Every route.
fn table() -> Vec<Route> {
    vec![
        (Method::GET, "/health", get(about::health)),
        (Method::GET, "/agents", get(about::agents)),
        (Method::GET, "/openapi.json", get(about::openapi)),
        (Method::GET, "/me", get(login::me)),
        (Method::POST, "/login", post(login::login)),
        (Method::POST, "/logout", post(login::logout)),
        (Method::POST, "/links", post(login::link)),
        (Method::GET, "/sessions", get(sessions::list)),
        (Method::POST, "/sessions", post(sessions::create)),
        (Method::GET, "/sessions/{id}", get(sessions::one)),
        (Method::PATCH, "/sessions/{id}", patch(change::describe)),
        (Method::DELETE, "/sessions/{id}", delete(sessions::remove)),
        (Method::POST, "/sessions/{id}/undelete", post(sessions::undelete)),
        (Method::GET, "/sessions/{id}/records", get(read::records)),
        (Method::GET, "/sessions/{id}/messages", get(read::messages)),
        (Method::POST, "/sessions/{id}/messages", post(change::add)),
        (Method::GET, "/sessions/{id}/path", get(path::path)),
        (Method::GET, "/sessions/{id}/context", get(context::context)),
        (Method::GET, "/sessions/{id}/tree", get(read::tree)),
        (Method::GET, "/sessions/{id}/checkpoints", get(read::checkpoints)),
        (Method::GET, "/sessions/{id}/export", get(export::export)),
        (Method::POST, "/sessions/{id}/fork", post(change::fork)),
        (Method::POST, "/sessions/{id}/rewind", post(change::rewind)),
        (Method::POST, "/sessions/{id}/edits", post(change::edit)),
        (Method::POST, "/sessions/{id}/checkpoint", post(change::checkpoint)),
        (Method::POST, "/sessions/{id}/branch", post(change::branch)),
        (Method::POST, "/sessions/{id}/pin", post(change::pin)),
        (Method::POST, "/sessions/{id}/compact", post(change::compact)),
        (Method::POST, "/sessions/{id}/abort", post(change::abort)),
        (Method::POST, "/sessions/{id}/resume", post(change::resume)),
        (Method::GET, "/search", get(search::search)),
        (Method::GET, "/usage", get(usage::usage)),
        (Method::POST, "/entries/append", post(entries::append)),
        (Method::POST, "/entries/load", post(entries::load)),
        (Method::POST, "/entries/read", post(entries::read)),
        (Method::POST, "/entries/list_sessions", post(entries::list_sessions)),
        (Method::POST, "/entries/list_session_summaries", post(entries::list_session_summaries)),
        (Method::POST, "/entries/delete", post(entries::delete)),
        (Method::POST, "/entries/list_subkeys", post(entries::list_subkeys)),
    ]
}

/// The routes. Paths beneath the prefix that are none of them are answered here, too; others are for whoever merges this.
pub fn routes() -> Router<Arc<App>> {
    let table = table().into_iter();
    let router =
        table.fold(Router::new(), |router, (_, path, method)| router.route(&format!("{PREFIX}{path}"), method));
    router
        .route(PREFIX, any(unknown))
        .route(&format!("{PREFIX}/"), any(unknown))
        .route(&format!("{PREFIX}/{{*rest}}"), any(unknown))
        .method_not_allowed_fallback(wrong_method)
}

/// Answers for paths that are none.
pub async fn unknown() -> Problem {
    Problem::new(Code::NotFound, "there is nothing at this path; /v1/openapi.json tells what there is")
}

/// Answers for methods that a path does not have.
pub async fn wrong_method() -> Problem {
    Problem::new(Code::MethodNotAllowed, "this path does not have that method; /v1/openapi.json tells which it has")
}
