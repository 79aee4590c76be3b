//! What a request asks for, taken out of it: whose it is, the id in its path, its query, its body.
//!
//! Each of them is refused as a [`Problem`] when it is not as it should be: an unknown parameter, a
//! field too many, a text where a number belongs, JSON that is none or that is nested too deep. A
//! body is bounded in bytes and in time before it is looked at (`intake`), and its depth is counted
//! before it is parsed. An id that cannot be one is answered like one that is not there.

use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use unforget_core::stamp::SessionId;

use crate::api::SessionRef;
use crate::app::App;
use crate::error::{Code, Problem, Result};
use crate::intake;
use crate::limits::Limits;
use crate::realm::Realm;

/// What is asked of a handler that takes no parameters.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

/// Whose request it is.
pub(super) struct Mine(pub(super) Arc<Realm>);

impl FromRequestParts<Arc<App>> for Mine {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<App>) -> Result<Self> {
        let realm = parts.extensions.get::<Arc<Realm>>().cloned();
        realm.map(Mine).ok_or_else(|| Problem::new(Code::Unauthenticated, "nobody was recognised"))
    }
}

/// The session in the path.
pub(super) struct Id(pub(super) SessionRef);

impl FromRequestParts<Arc<App>> for Id {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self> {
        let text = Path::<String>::from_request_parts(parts, app).await.ok();
        let id = text.and_then(|Path(text)| SessionId::parse(&text)).ok_or_else(Problem::no_session)?;
        Ok(Id(SessionRef::Id(id)))
    }
}

/// The parameters behind the question mark.
pub(super) struct Asked<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequestParts<Arc<App>> for Asked<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<App>) -> Result<Self> {
        let parsed = Query::<T>::try_from_uri(&parts.uri);
        parsed
            .map(|Query(asked)| Asked(asked))
            .map_err(|error| Problem::invalid(format!("the query: {}", error.body_text())))
    }
}

/// A body that is JSON.
pub(super) struct Body<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<Arc<App>> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self> {
        check_media(request.headers())?;
        let bytes = read(request, app).await?;
        parse(&bytes, app.limits()).map(Body)
    }
}

/// A body that is JSON and may be left out.
pub(super) struct Maybe<T>(pub(super) T);

impl<T: DeserializeOwned + Default> FromRequest<Arc<App>> for Maybe<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self> {
        let media = check_media(request.headers());
        let bytes = read(request, app).await?;
        if bytes.is_empty() {
            return Ok(Maybe(T::default()));
        }
        media?;
        parse(&bytes, app.limits()).map(Maybe)
    }
}

/// A body that is JSON, as its text: for what is kept byte for byte, however deep it is.
pub(super) struct Text(pub(super) String);

impl FromRequest<Arc<App>> for Text {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self> {
        check_media(request.headers())?;
        let bytes = read(request, app).await?;
        String::from_utf8(bytes.into()).map(Text).map_err(|_| Problem::invalid("the body is not UTF-8"))
    }
}

pub(super) fn check_media(headers: &HeaderMap) -> Result<()> {
    let named = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = named.split(';').next().unwrap_or_default().trim();
    match essence.eq_ignore_ascii_case("application/json") {
        true => Ok(()),
        false => {
            Err(Problem::new(Code::UnsupportedMedia, "the body has to be JSON, with `Content-Type: application/json`"))
        }
    }
}

/// Reads a body whole. How long it may be, and how long it may take, is for `intake` to see to.
pub(crate) async fn read(request: Request, app: &Arc<App>) -> Result<axum::body::Bytes> {
    let most = app.limits().body;
    axum::body::to_bytes(request.into_body(), most).await.map_err(|error| intake::problem(&error, most))
}

/// Parses a JSON object of a bounded depth and number of values.
pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8], limits: &Limits) -> Result<T> {
    let text = std::str::from_utf8(bytes).map_err(|_| Problem::invalid("the body is not UTF-8"))?;
    limits.check_json(text)?;
    // A list would be taken for the members in their order, and an empty one for no members at all.
    if !text.trim_ascii_start().starts_with('{') {
        return Err(Problem::invalid("the body is no JSON object"));
    }
    serde_json::from_str(text).map_err(|error| Problem::invalid(format!("the body: {error}")))
}

/// An answer that is JSON text already.
pub(super) fn json_text(status: StatusCode, text: String) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_that_is_nested_too_deep_is_refused_before_it_is_parsed() {
        // It is no JSON either: nobody got that far.
        let limits = Limits { depth: 3, ..Limits::default() };
        let problem = parse::<Nothing>("[[[[".as_bytes(), &limits).unwrap_err();
        assert!(problem.message.contains("nested deeper than 3"), "{problem}");
        assert!(parse::<Nothing>(b"{}", &limits).is_ok());
        assert!(parse::<Nothing>(b"{\"a\":1}", &limits).is_err());
        assert!(parse::<Nothing>(b" []", &limits).is_err(), "a list is no object");
    }
}
