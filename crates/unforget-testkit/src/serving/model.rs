//! A Messages API that says how long it took itself: the clock is in the answer.
//!
//! Its first piece says when the request had arrived, its last one when it was handed over, in microseconds of one clock. Whoever knows when it asked and
//! when it was answered knows what the rest cost, also where this process had to wait for a core. It is no strict server (that is
//! [`api`](crate::api)), so that it is never what is measured.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use futures_util::stream;
use serde_json::{Value, json};

use super::Result;

/// How it answers.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// How many pieces of text.
    pub pieces: usize,
    /// How long it waits before each.
    pub every: Duration,
}

/// Microseconds since the epoch.
pub fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// How long the model took, as its answer says.
pub fn own_time(answer: &str) -> Option<Duration> {
    let after = |mark: &str| answer.split(mark).nth(1)?.split(' ').next()?.parse::<u64>().ok();
    Some(Duration::from_micros(after("from=")?.abs_diff(after("to=")?)))
}

/// Starts it on threads of its own, which end with the process; its address.
pub fn start(pace: Pace) -> Result<String> {
    let fail = |error: std::io::Error| error.to_string();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(fail)?;
    listener.set_nonblocking(true).map_err(fail)?;
    let address: SocketAddr = listener.local_addr().map_err(fail)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(fail)?;
    let serving = move || {
        runtime.block_on(async move {
            let routes = Router::new()
                .route("/v1/messages", post(move |body: Bytes| async move { answer(&body, pace) }))
                .route("/v1/messages/count_tokens", post(|| async { r#"{"input_tokens":10}"# }));
            let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
            let listener = axum::serve::ListenerExt::tap_io(listener, |connection| {
                connection.set_nodelay(true).unwrap_or_default();
            });
            drop(axum::serve(listener, routes).await);
        });
    };
    std::thread::Builder::new().name("model".to_owned()).spawn(serving).map_err(fail)?;
    Ok(format!("http://{address}"))
}

/// What of an answer was sent.
struct Sending {
    from: u64,
    next: usize,
    last: String,
}

fn answer(body: &[u8], pace: Pace) -> Response {
    let sending = Sending { from: now_us(), next: 0, last: last_words(body) };
    let events = stream::unfold(sending, move |mut sending| async move {
        let text = match sending.next {
            0 => Some(format!("from={} ", sending.from)),
            at if at < pace.pieces => Some("some words and ".to_owned()),
            at if at == pace.pieces => Some(format!("to={} {}", now_us(), sending.last)),
            _ => None,
        };
        let bytes = match (sending.next, text) {
            (0, Some(text)) => format!("{}{}", beginning(), piece(&text)),
            (at, Some(text)) => {
                tokio::time::sleep(pace.every).await;
                // The time is taken when the piece goes, not before the wait.
                let text = if at == pace.pieces { format!("to={} {}", now_us(), sending.last) } else { text };
                let end = if at == pace.pieces { ending() } else { String::new() };
                format!("{}{end}", piece(&text))
            }
            (_, None) => return None,
        };
        sending.next += 1;
        Some((Ok::<Bytes, Infallible>(bytes.into()), sending))
    });
    ([(CONTENT_TYPE, "text/event-stream")], Body::from_stream(events)).into_response()
}

/// The last words of a person, so that an answer can be told from another.
fn last_words(body: &[u8]) -> String {
    let request: Value = serde_json::from_slice(body).unwrap_or_default();
    let messages = request["messages"].as_array().cloned().unwrap_or_default();
    let content = messages.last().map(|message| message["content"].clone()).unwrap_or_default();
    match content {
        Value::String(text) => text,
        Value::Array(blocks) => {
            blocks.iter().rev().find_map(|block| block["text"].as_str()).unwrap_or_default().to_owned()
        }
        _ => String::new(),
    }
}

fn event(value: &Value) -> String {
    format!("event: {}\ndata: {value}\n\n", value["type"].as_str().unwrap_or_default())
}

fn beginning() -> String {
    let usage = json!({ "input_tokens": 10, "output_tokens": 1 });
    let message = json!({
        "id": "msg_load", "type": "message", "role": "assistant", "model": "claude-opus-5", "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": usage,
    });
    let block = json!({ "type": "text", "text": "" });
    event(&json!({ "type": "message_start", "message": message }))
        + &event(&json!({ "type": "content_block_start", "index": 0, "content_block": block }))
}

fn piece(text: &str) -> String {
    let delta = json!({ "type": "text_delta", "text": text });
    event(&json!({ "type": "content_block_delta", "index": 0, "delta": delta }))
}

fn ending() -> String {
    let delta = json!({ "stop_reason": "end_turn", "stop_sequence": null });
    event(&json!({ "type": "content_block_stop", "index": 0 }))
        + &event(&json!({ "type": "message_delta", "delta": delta, "usage": { "output_tokens": 20 } }))
        + &event(&json!({ "type": "message_stop" }))
}
