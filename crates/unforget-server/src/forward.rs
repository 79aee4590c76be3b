//! A request for a session that another server serves: it is asked, and its answer is the answer.
//!
//! A handler that finds out that a session is elsewhere says so with a [`Problem`] of the kind `moved`, whose address is remembered beside the
//! response; the outermost layer then sends the same request there, with what says who is asking, once.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::{ACCEPT, CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use crate::app::{App, FORWARDED, PASSED_ON, RUNTIME_REQUEST, RUNTIME_SESSION};
use crate::error::{Code, Problem};
use crate::rest;

/// Where a session is.
#[derive(Debug, Clone)]
pub(crate) struct At(pub(crate) String);

tokio::task_local! {
    /// Where the session of this request is, if that is elsewhere.
    static ELSEWHERE: std::cell::RefCell<Option<At>>;
}

/// That a session is elsewhere; the request goes on there.
pub(crate) fn to(address: &str) -> Problem {
    let noted = ELSEWHERE.try_with(|at| *at.borrow_mut() = Some(At(address.to_owned())));
    if noted.is_err() {
        tracing::debug!(address, "a session is elsewhere, and nobody forwards");
    }
    Problem::new(Code::Moved, "another server serves this session now; try again")
}

/// Sends a request on if its session is elsewhere.
pub(crate) async fn forward(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    // What is only read is read here.
    let is_change = !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    if app.hub.shared().fleet.is_none() || request.headers().contains_key(FORWARDED) || !is_change {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    let body = match rest::read_body(Request::new(body), &app).await {
        Ok(body) => body,
        Err(problem) => return problem.into_response(),
    };
    let (method, uri, headers) = (parts.method.clone(), parts.uri.clone(), parts.headers.clone());
    let run = async {
        let response = next.run(Request::from_parts(parts, Body::from(body.clone()))).await;
        (response, ELSEWHERE.with(|at| at.borrow_mut().take()))
    };
    let (response, at) = ELSEWHERE.scope(std::cell::RefCell::new(None), run).await;
    let Some(At(address)) = at.filter(|_| response.status() == Code::Moved.status()) else { return response };
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let mut asking = app.client.request(method, format!("{address}{path}")).body(Bytes::clone(&body));
    for name in PASSED_ON.iter().chain(&[CONTENT_TYPE, ACCEPT]) {
        for value in headers.get_all(name) {
            asking = asking.header(name.clone(), value.clone());
        }
    }
    match asking.header(FORWARDED, HeaderValue::from_static("1")).send().await {
        Ok(there) => {
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
        Err(error) => {
            tracing::info!(%error, address, "another server cannot be reached");
            Problem::new(Code::Moved, "the server that serves this session cannot be reached; try again")
                .into_response()
        }
    }
}
