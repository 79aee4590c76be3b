//! Requests for a session that another server of the cluster serves, on both sides.
//!
//! A handler that finds a session elsewhere answers with a [`Problem`] of the kind `moved` and
//! leaves the place beside the response ([`Elsewhere::moved`]). The outermost layer then makes the
//! same request there, once, with a [`Passage`] instead of what the client showed. The server there
//! lets [`passage`] tell it the actor, and does not forward a second time.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Query, Request, State};
use axum::http::header::{ACCEPT, CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, Method, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;

use crate::actor::ActorId;
use crate::app::App;
use crate::caller::{Caller, RUNTIME_REQUEST, RUNTIME_SESSION, RuntimeSessionId};
use crate::error::{Code, Problem, Result};
use crate::fleet::Elsewhere;
use crate::peers::{Errand, PASSAGE, Passage};
use crate::rest;

/// Where SDKs of agents keep their entries.
const ENTRIES: &str = "/v1/entries/";

/// What a client hears if the server that has its session does not answer.
pub(crate) fn unreachable() -> Problem {
    Problem::new(Code::Moved, "the server that serves this session cannot be reached; try again")
}

/// What another server sends to have this one prove itself.
#[derive(Debug, Deserialize)]
pub(crate) struct Asked {
    nonce: String,
}

/// Proves to another server that this one belongs to the cluster.
pub(crate) async fn prove(State(app): State<Arc<App>>, uri: Uri) -> Result<String> {
    let peers = app.peers().ok_or_else(|| Problem::new(Code::NotFound, "this server is in no cluster"))?;
    let asked = Query::<Asked>::try_from_uri(&uri).ok();
    let proof = asked.and_then(|Query(asked)| peers.answer(&asked.nonce));
    proof.ok_or_else(|| Problem::invalid("`nonce` needs 16 to 64 letters and digits"))
}

/// The passage of a request that another server forwarded, and the actor that it names; none if its
/// sender claims nothing of the kind. The runtime's name of the connection becomes the header again
/// that the client sent.
pub(crate) fn passage(app: &App, request: &mut Request) -> Result<Option<(Arc<Passage>, ActorId)>> {
    let Some(token) = request.headers().get(&PASSAGE) else { return Ok(None) };
    let refused = || {
        tracing::warn!("a request with a forged or spent proof of another server was refused");
        Problem::new(Code::Unauthenticated, "no server of this cluster forwarded this request")
    };
    let target = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let admitted = app
        .peers()
        .zip(token.to_str().ok())
        .and_then(|(peers, token)| peers.admit(token, request.method().as_str(), target));
    let passage = admitted.ok_or_else(refused)?;
    let actor = ActorId::from_text(&passage.actor).ok_or_else(refused)?;
    request.headers_mut().remove(RUNTIME_SESSION);
    if let Some(name) = &passage.runtime_session {
        let value = HeaderValue::from_str(name).map_err(|_| refused())?;
        request.headers_mut().insert(RUNTIME_SESSION, value);
    }
    Ok(Some((Arc::new(passage), actor)))
}

/// Makes a request at the server that has its session, if another one has it.
pub(crate) async fn forward(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    // This server answers what only reads, and keeps entries wherever they come.
    let is_change = !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS)
        && !request.uri().path().starts_with(ENTRIES);
    let caller = request.extensions().get::<Caller>().filter(|caller| caller.actor.is_some()).cloned();
    let Some(caller) = caller.filter(|_| is_change && app.peers().is_some()) else { return next.run(request).await };
    let (parts, body) = request.into_parts();
    let body = match rest::read_body(Request::new(body), &app).await {
        Ok(body) => body,
        Err(problem) => return problem.into_response(),
    };
    let (method, uri, headers) = (parts.method.clone(), parts.uri.clone(), parts.headers.clone());
    let again = Request::from_parts(parts, Body::from(body.clone()));
    if let Some(passage) = &caller.passage {
        return match passage.is_for(&body) {
            true => next.run(again).await,
            false => {
                Problem::new(Code::Unauthenticated, "no server of this cluster forwarded this body").into_response()
            }
        };
    }
    let (response, at) = Elsewhere::found(next.run(again)).await;
    let elsewhere = at.filter(|_| response.status() == Code::Moved.status());
    let (Some(elsewhere), Some(actor), Some(peers)) = (elsewhere, &caller.actor, app.peers()) else { return response };
    let target = uri.path_and_query().map_or("/", |path| path.as_str());
    let errand = Errand {
        actor,
        session: elsewhere.session.as_str(),
        runtime_session: caller.runtime_session.as_ref().map(RuntimeSessionId::as_str),
        method,
        target,
        body,
    };
    match peers.ask(&elsewhere.address, errand, passed_on(&headers)).await {
        Ok(there) => relayed(there),
        Err(error) => {
            error.log(&elsewhere.address);
            unreachable().into_response()
        }
    }
}

/// What another server sees of a request: nothing that says who is asking.
fn passed_on(headers: &HeaderMap) -> HeaderMap {
    let mut passed = HeaderMap::new();
    for name in [CONTENT_TYPE, ACCEPT, RUNTIME_REQUEST] {
        for value in headers.get_all(&name) {
            passed.append(name.clone(), value.clone());
        }
    }
    passed
}

/// The answer of another server, as it comes.
fn relayed(there: reqwest::Response) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = there.status();
    for name in [CONTENT_TYPE, WWW_AUTHENTICATE, RUNTIME_SESSION, RUNTIME_REQUEST] {
        if let Some(value) = there.headers().get(&name) {
            response.headers_mut().insert(name, value.clone());
        }
    }
    *response.body_mut() = Body::from_stream(futures_util::stream::unfold(there, |mut there| async move {
        match there.chunk().await {
            Ok(Some(chunk)) => Some((Ok::<Bytes, std::io::Error>(chunk), there)),
            Ok(None) => None,
            Err(error) => Some((Err(std::io::Error::other(error)), there)),
        }
    }));
    response
}
