//! The requests of [`api`](crate::api) over HTTP, as JSON.
//!
//! The table of routes says which method and path asks for what; `docs/openapi.json` says the same
//! to programs, and a test holds both against each other. A handler decodes ([`ask`]), calls and
//! encodes ([`route`]); a few that have to do with HTTP itself (cookies, files, bodies that are
//! read while they come) have modules of their own.
//!
//! Whose sessions they are is decided before a request comes here: a [`Realm`](crate::realm::Realm)
//! is in its extensions, and every handler takes it from there and from nowhere else. A request
//! without a realm is refused. Every refusal is a [`Problem`], also of requests that are none.

use std::sync::Arc;

use axum::Router;
use axum::http::{Method, StatusCode};
use axum::routing::{MethodFilter, MethodRouter, any, get, post};

use crate::api::about::{ListAgents, WhoAmI};
use crate::api::edits::{Edits, NewBranch, NewCheckpoint, NewFork, Pin, Rewind};
use crate::api::entries::{DeleteEntries, ListEntrySessions, ListSubkeys, LoadEntries, ReadEntries, SummariseEntries};
use crate::api::messages::ShowMessages;
use crate::api::records::ListRecords;
use crate::api::search::FindWords;
use crate::api::sessions::{DeleteSession, Description, ListSessions, NewSession, ShowSession, UndeleteSession};
use crate::api::tree::{ListCheckpoints, ShowTree};
use crate::api::turns::{Abort, Compact, Resume};
use crate::api::usage::AddUp;
use crate::api::way::ShowWay;
use crate::api::window::ShowWindow;
use crate::app::App;
use crate::error::{Code, Problem};

mod ask;
mod entries;
mod export;
mod health;
mod login;
mod route;
mod split;

pub(crate) use ask::read as read_body;

use route::{body, body_in, optional_in, query, query_in};

#[cfg(test)]
mod tests;

/// What the paths begin with.
pub(crate) const PREFIX: &str = "/v1";

/// A route: its method, its path behind the prefix, and what answers.
type Route = (Method, &'static str, MethodRouter<Arc<App>>);

/// Every route.
fn table() -> Vec<Route> {
    use MethodFilter as On;
    use StatusCode as Is;
    vec![
        (Method::GET, "/health", get(health::health)),
        (Method::GET, "/openapi.json", get(health::openapi)),
        (Method::GET, "/agents", query::<ListAgents>()),
        (Method::GET, "/me", query::<WhoAmI>()),
        (Method::POST, "/login", post(login::login)),
        (Method::POST, "/logout", post(login::logout)),
        (Method::POST, "/links", post(login::link)),
        (Method::GET, "/sessions", query::<ListSessions>()),
        (Method::POST, "/sessions", body::<NewSession>(On::POST, Is::CREATED)),
        (Method::GET, "/sessions/{id}", query_in::<ShowSession>()),
        (Method::PATCH, "/sessions/{id}", body_in::<Description>(On::PATCH, Is::OK)),
        (Method::DELETE, "/sessions/{id}", optional_in::<DeleteSession>(On::DELETE, Is::NO_CONTENT)),
        (Method::POST, "/sessions/{id}/undelete", optional_in::<UndeleteSession>(On::POST, Is::OK)),
        (Method::GET, "/sessions/{id}/records", query_in::<ListRecords>()),
        (Method::GET, "/sessions/{id}/messages", query_in::<ShowMessages>()),
        (Method::POST, "/sessions/{id}/messages", post(entries::add_messages)),
        (Method::GET, "/sessions/{id}/path", query_in::<ShowWay>()),
        (Method::GET, "/sessions/{id}/context", query_in::<ShowWindow>()),
        (Method::GET, "/sessions/{id}/tree", query_in::<ShowTree>()),
        (Method::GET, "/sessions/{id}/checkpoints", query_in::<ListCheckpoints>()),
        (Method::GET, "/sessions/{id}/export", get(export::export)),
        (Method::POST, "/sessions/{id}/fork", optional_in::<NewFork>(On::POST, Is::CREATED)),
        (Method::POST, "/sessions/{id}/rewind", body_in::<Rewind>(On::POST, Is::OK)),
        (Method::POST, "/sessions/{id}/edits", body_in::<Edits>(On::POST, Is::OK)),
        (Method::POST, "/sessions/{id}/checkpoint", body_in::<NewCheckpoint>(On::POST, Is::OK)),
        (Method::POST, "/sessions/{id}/branch", body_in::<NewBranch>(On::POST, Is::OK)),
        (Method::POST, "/sessions/{id}/pin", body_in::<Pin>(On::POST, Is::OK)),
        (Method::POST, "/sessions/{id}/compact", optional_in::<Compact>(On::POST, Is::OK)),
        (Method::POST, "/sessions/{id}/abort", optional_in::<Abort>(On::POST, Is::OK)),
        (Method::POST, "/sessions/{id}/resume", optional_in::<Resume>(On::POST, Is::ACCEPTED)),
        (Method::GET, "/search", query::<FindWords>()),
        (Method::GET, "/usage", query::<AddUp>()),
        (Method::POST, "/entries/append", post(entries::append)),
        (Method::POST, "/entries/load", entries::route::<LoadEntries>()),
        (Method::POST, "/entries/read", entries::route::<ReadEntries>()),
        (Method::POST, "/entries/list_sessions", entries::route::<ListEntrySessions>()),
        (Method::POST, "/entries/list_session_summaries", entries::route::<SummariseEntries>()),
        (Method::POST, "/entries/delete", entries::route::<DeleteEntries>()),
        (Method::POST, "/entries/list_subkeys", entries::route::<ListSubkeys>()),
    ]
}

/// The routes. Paths beneath the prefix that are none of them are answered here, too; others are
/// for whoever merges this.
pub(crate) fn routes() -> Router<Arc<App>> {
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
pub(crate) async fn unknown() -> Problem {
    Problem::new(Code::NotFound, "there is nothing at this path; /v1/openapi.json tells what there is")
}

/// Answers for methods that a path does not have.
pub(crate) async fn wrong_method() -> Problem {
    Problem::new(Code::MethodNotAllowed, "this path does not have that method; /v1/openapi.json tells which it has")
}
