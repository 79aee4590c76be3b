//! A connection to a session that another server serves: what the client says is said there, what is told there is told here.
//!
//! The other server is shown what the client showed, so that it finds out by itself who is asking: no server has to trust another.
//! A tunnel does not lead to a second one: servers that do not agree about who serves a session would send a client round in circles.

use futures_util::{SinkExt as _, StreamExt as _};
use secrecy::ExposeSecret as _;
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_util::sync::CancellationToken;

use super::frames::{Came, Socket, farewell, pieces};
use super::{error, refuse};
use crate::app::{App, Caller, FORWARDED, PASSED_ON};
use crate::error::{Code, Problem};

/// How often each side of a tunnel shows that it lives, at least.
const SIGNS: std::time::Duration = std::time::Duration::from_secs(10);

/// Leads a connection to another server until one of both ends.
pub(super) async fn dig(
    mut socket: Socket,
    caller: &Caller,
    address: &str,
    first: String,
    app: &App,
    stopping: &CancellationToken,
) {
    let problem = Problem::new(Code::Moved, "the server that serves this session cannot be reached; try again");
    if caller.is_forwarded {
        return refuse(app, socket, &problem).await;
    }
    let there = match connect(caller, address).await {
        Ok(there) => there,
        Err(why) => {
            tracing::info!(address, why, "another server cannot be reached");
            return refuse(app, socket, &problem).await;
        }
    };
    let (mut to, mut from) = there.split();
    let token = caller.token.as_ref().map(|token| {
        let message = json!({ "type": "auth", "token": token.expose_secret() });
        message.to_string()
    });
    for message in token.into_iter().chain([first]) {
        if !sent(&mut to, pieces(message), app).await {
            return refuse(app, socket, &problem).await;
        }
    }
    let silence = app.limits().silence.min(SIGNS);
    let (mut is_asked, mut is_there) = (false, true);
    let mut signs = tokio::time::interval(silence);
    // A client that takes its time to read is no sign of death.
    signs.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let goodbye = loop {
        tokio::select! {
            came = socket.receive() => {
                is_asked = false;
                match came {
                    Came::Text(text) => {
                        if !sent(&mut to, pieces(text), app).await {
                            break farewell(Some(&problem));
                        }
                    }
                    Came::Sign => {}
                    Came::Over(problem) => break farewell(problem.as_ref()),
                }
            }
            () = stopping.cancelled() => {
                break farewell(Some(&Problem::new(Code::Unavailable, "the server stops; attach again")));
            }
            told = from.next() => match told.inspect(|_| is_there = true) {
                Some(Ok(Message::Text(text))) => {
                    if !socket.send(text.as_str().to_owned()).await {
                        break farewell(Some(&Problem::new(Code::TooMany, "this connection does not read")));
                    }
                }
                // The client hears what it would have heard there.
                Some(Ok(Message::Close(frame))) => break frame.unwrap_or_else(|| farewell(None)),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => {
                    // It may have died; whoever attaches again finds out who serves the session then.
                    socket.send(error(&problem, None).to_string()).await;
                    break farewell(Some(&problem));
                }
            },
            _ = signs.tick() => {
                // The other server has to show that it lives, too: it may be asleep, and its sessions somebody else's by now.
                if !std::mem::take(&mut is_there) || !sent(&mut to, [Message::Ping(bytes::Bytes::new())], app).await {
                    break farewell(Some(&problem));
                }
                if is_asked || !socket.ping().await {
                    break farewell(Some(&Problem::new(Code::Timeout, "no sign of life")));
                }
                is_asked = true;
            }
        }
    };
    // A server that does not read would never take the goodbye; and the client need not wait for it.
    let closing = tokio::time::timeout(app.limits().send, to.close());
    let ((), closed) = tokio::join!(socket.close(goodbye), closing);
    if !matches!(closed, Ok(Ok(()))) {
        tracing::debug!("the tunnel ended without a goodbye");
    }
}

/// Says something to the other server, unless it does not listen.
async fn sent(
    to: &mut futures_util::stream::SplitSink<There, Message>,
    pieces: impl IntoIterator<Item = Message>,
    app: &App,
) -> bool {
    let sending = async {
        for piece in pieces {
            to.send(piece).await?;
        }
        Ok::<(), tokio_tungstenite::tungstenite::Error>(())
    };
    matches!(tokio::time::timeout(app.limits().send, sending).await, Ok(Ok(())))
}

type There = tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>>;

async fn connect(caller: &Caller, address: &str) -> Result<There, String> {
    let url = match address.split_once("://") {
        Some(("http", rest)) => format!("ws://{rest}/ws"),
        Some(("https", rest)) => format!("wss://{rest}/ws"),
        _ => return Err("its address is no URL".to_owned()),
    };
    let mut request = url.into_client_request().map_err(|error| error.to_string())?;
    for name in PASSED_ON {
        for value in caller.headers.get_all(&name) {
            request.headers_mut().append(name.clone(), value.clone());
        }
    }
    request.headers_mut().insert(FORWARDED, axum::http::HeaderValue::from_static("1"));
    let connecting = tokio_tungstenite::connect_async(request);
    let patience = std::time::Duration::from_secs(5);
    let connected = tokio::time::timeout(patience, connecting).await.map_err(|_| "it does not answer".to_owned())?;
    connected.map(|(there, _)| there).map_err(|error| error.to_string())
}
