//! Coming in by the page, and leaving: the token goes into a cookie that no script reads
//! (`identity::cookie`), and out of it.
//!
//! Both are for the page that this server serves, and for no other, allowed or not: a page from
//! elsewhere must not be able to make somebody somebody else. A token that is wrong here is one
//! that is wrong anywhere: the same words, and counted the same.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{FromRequestParts, State};
use axum::http::header::SET_COOKIE;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use unforget_core::stamp::rfc3339;

use super::ask::{Asked, Body, Mine, Nothing};
use super::route;
use crate::api::check::present;
use crate::app::App;
use crate::connection::Peer;
use crate::door::Passed;
use crate::error::{Code, Problem, Result};
use crate::identity::cookie;

/// What somebody shows to come in.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Showing {
    /// A token.
    #[serde(default, deserialize_with = "present")]
    token: Option<String>,
    /// In its place, the code of a link that the owner was given.
    #[serde(default, deserialize_with = "present")]
    link: Option<String>,
    /// Whether the browser keeps it when it is closed.
    #[serde(default, deserialize_with = "present")]
    stay: Option<bool>,
}

/// The actor of a browser that keeps a token from now on.
#[derive(Serialize)]
struct LoggedIn<'a> {
    actor: &'a str,
}

/// A link that lets a browser in, once.
#[derive(Serialize)]
struct Link<'a> {
    url: &'a str,
    expires: String,
}

/// The page of this server, and where it is shown.
pub(super) struct FromPage {
    is_secure: bool,
    peer: IpAddr,
}

impl FromRequestParts<Arc<App>> for FromPage {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<App>) -> Result<Self> {
        match parts.extensions.get::<Passed>() {
            Some(passed) if passed.is_own() => {
                Ok(Self { is_secure: passed.is_secure(), peer: Peer::of(&parts.extensions) })
            }
            _ => Err(Problem::new(
                Code::Forbidden,
                "this is for the page of this server: `Origin` has to be its own address; programs send `Authorization: Bearer TOKEN`",
            )),
        }
    }
}

/// Keeps a token in the browser, if it is somebody's; or the owner's, if the link is good.
pub(super) async fn login(
    State(app): State<Arc<App>>,
    from: FromPage,
    Asked(Nothing {}): Asked<Nothing>,
    Body(Showing { token, link, stay }): Body<Showing>,
) -> Result<Response> {
    let token = match (token, link) {
        (Some(token), None) => SecretString::from(token),
        (None, Some(link)) => app.identity.of_link(&SecretString::from(link), from.peer)?.clone(),
        _ => return Err(Problem::invalid("either `token` or `link` is needed")),
    };
    let actor = app.identity.of_token(&token, from.peer).await?;
    let mut response = route::answer(StatusCode::OK, LoggedIn { actor: actor.name() })?;
    for value in kept(&token, from.is_secure, stay.unwrap_or(false))? {
        response.headers_mut().append(SET_COOKIE, value);
    }
    Ok(response)
}

/// The cookies for a token, unless it is too long for one, as those of an issuer may be.
fn kept(token: &SecretString, is_secure: bool, stays: bool) -> Result<[HeaderValue; 2]> {
    cookie::keep(token, is_secure, stays).ok_or_else(|| {
        let (length, most) = (token.expose_secret().len(), cookie::LONGEST);
        let message = format!("this token has {length} bytes, and a cookie has room for {most}; `unforget token add NAME` makes a short one");
        Problem::new(Code::TooLarge, message)
    })
}

/// Has the browser forget the token, whosever it was.
pub(super) async fn logout(_: FromPage, Asked(Nothing {}): Asked<Nothing>) -> Result<Response> {
    let mut response = StatusCode::NO_CONTENT.into_response();
    for value in cookie::forget().into_iter().flatten() {
        response.headers_mut().append(SET_COOKIE, value);
    }
    Ok(response)
}

/// Makes a link that lets a browser of the owner in, once.
pub(super) async fn link(
    State(app): State<Arc<App>>,
    Mine(realm): Mine,
    Asked(Nothing {}): Asked<Nothing>,
) -> Result<Response> {
    let made = match app.identity.new_link() {
        Some(made) if realm.actor().is_owner() => made.map_err(|error| Problem::internal("a link", &error))?,
        _ => return Err(Problem::new(Code::Forbidden, "links are for the owner of a server for oneself")),
    };
    let link = Link { url: made.url.expose_secret(), expires: rfc3339(made.expires_ms) };
    route::answer(StatusCode::CREATED, link)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_no_cookie_holds_is_told_so_and_not_repeated() {
        assert!(kept(&"x".repeat(cookie::LONGEST).into(), false, true).is_ok());
        let problem = kept(&"x".repeat(cookie::LONGEST + 1).into(), true, false).unwrap_err();
        assert_eq!(problem.code, Code::TooLarge);
        assert!(problem.message.contains("3801 bytes") && !problem.message.contains("xxx"), "{problem}");
    }
}
