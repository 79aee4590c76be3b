//! The door of AWS AgentCore Runtime: what an official client calls, and what a container behind it is asked.
//!
//! A call of `InvokeAgentRuntime` becomes `POST /invocations` of one container, whatever the ARN. As in the service, a session id has 33 to 256 characters and is made up where
//! it is left out; the signature stays at the door; of the headers only those pass that the contract of containers knows; and what a container answers
//! with an error is a `RuntimeClientError`. Signatures are not looked at, sessions do not end, and there is no `/ws`.

use std::fmt::{self, Debug};
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use axum::routing::post;
use tokio::sync::oneshot;

/// The header that names the session.
const SESSION: &str = "x-amzn-bedrock-agentcore-runtime-session-id";
/// What else passes; and everything that begins with [`CUSTOM`].
const PASSED: [&str; 8] = [
    "accept",
    "content-type",
    "traceparent",
    "tracestate",
    "baggage",
    "x-amzn-bedrock-agentcore-runtime-user-id",
    "mcp-session-id",
    "mcp-protocol-version",
];
const CUSTOM: &str = "x-amzn-bedrock-agentcore-runtime-custom-";
/// The largest body.
const MAX_BODY: usize = 100 << 20;
/// How long a container may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A door before a container; it closes when this is dropped.
pub struct FrontDoor {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Debug for FrontDoor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrontDoor").field("address", &self.address).finish_non_exhaustive()
    }
}

impl FrontDoor {
    /// Opens a door before the container at that address.
    pub fn open(container: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let listener = {
            let _entered = runtime.enter();
            tokio::net::TcpListener::from_std(listener)?
        };
        let router = Router::new().route("/runtimes/{arn}/invocations", post(invoke)).with_state(container);
        let thread = thread::Builder::new().name("front-door".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = axum::serve(listener, router) => {}
                    _ = stopped => {}
                }
            });
        })?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// The address to put into `AWS_ENDPOINT_URL_BEDROCK_AGENTCORE`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for FrontDoor {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

fn refused(status: StatusCode, kind: &'static str, message: &str) -> Response {
    let body = serde_json::json!({ "message": message }).to_string();
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert("x-amzn-errortype", HeaderValue::from_static(kind));
    response.headers_mut().insert("content-type", HeaderValue::from_static("application/json"));
    response
}

async fn invoke(State(container): State<SocketAddr>, Path(arn): Path<String>, request: Request) -> Response {
    let invalid = |message: &str| refused(StatusCode::BAD_REQUEST, "ValidationException", message);
    if !arn.starts_with("arn:aws:bedrock-agentcore:") || !arn.contains(":runtime/") {
        return refused(StatusCode::NOT_FOUND, "ResourceNotFoundException", "no such runtime");
    }
    let (parts, body) = request.into_parts();
    let session = match parts.headers.get(SESSION).map(HeaderValue::to_str) {
        None => format!("made-up-by-the-runtime-{:016x}", parts.headers.len()),
        Some(Ok(id)) if (33..=256).contains(&id.len()) => id.to_owned(),
        Some(_) => return invalid("runtimeSessionId must have 33 to 256 characters"),
    };
    let Ok(body) = to_bytes(body, MAX_BODY).await else { return invalid("the payload is too large") };
    let head = head(&parts.headers, &session, container, body.len());
    let asked = tokio::task::spawn_blocking(move || ask(container, &head, &body)).await;
    match asked {
        Ok(Ok(response)) if response.status().is_success() => response,
        Ok(Ok(response)) => {
            let message = format!("Received error ({}) from runtime.", response.status().as_u16());
            refused(StatusCode::FAILED_DEPENDENCY, "RuntimeClientError", &message)
        }
        Ok(Err(_)) | Err(_) => {
            refused(StatusCode::INTERNAL_SERVER_ERROR, "InternalServerException", "the container does not answer")
        }
    }
}

/// The head of the request to the container. The old version of HTTP keeps its answer in one piece.
fn head(headers: &HeaderMap, session: &str, container: SocketAddr, length: usize) -> String {
    let mut head = format!("POST /invocations HTTP/1.0\r\nhost: {container}\r\ncontent-length: {length}\r\n");
    let passes = |name: &HeaderName| PASSED.contains(&name.as_str()) || name.as_str().starts_with(CUSTOM);
    for (name, value) in headers.iter().filter(|(name, _)| passes(name)) {
        head.push_str(&format!("{name}: {}\r\n", value.to_str().unwrap_or_default()));
    }
    head + &format!("{SESSION}: {session}\r\n\r\n")
}

fn ask(container: SocketAddr, head: &str, body: &Bytes) -> io::Result<Response> {
    let mut stream = TcpStream::connect(container)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let wrong = || io::Error::other("the container does not speak HTTP");
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").ok_or_else(wrong)?;
    let lines = String::from_utf8_lossy(&answer[..end]).into_owned();
    let mut lines = lines.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse::<u16>().ok()).ok_or_else(wrong)?;
    let mut response = Response::new(Body::from(answer.split_off(end + 4)));
    *response.status_mut() = StatusCode::from_u16(status).map_err(io::Error::other)?;
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        let kept = name.eq_ignore_ascii_case("content-type") || name.eq_ignore_ascii_case(SESSION);
        if let (true, Ok(name), Ok(value)) = (kept, name.parse::<HeaderName>(), HeaderValue::from_str(value)) {
            response.headers_mut().insert(name, value);
        }
    }
    Ok(response)
}
