//! A connection to a session that another server serves: what the client says is said there, what is told there is told here.
//!
//! The other server gets a passage that names the actor, and never what the client showed. So this server goes on asking whether what the
//! client showed would still let it in, and ends the tunnel if it would not. A tunnel does not lead to a second one: servers that do not agree
//! about who serves a session would send a client round in circles.

use futures_util::{SinkExt as _, StreamExt as _};
use tokio_tungstenite::tungstenite::Message;
use tokio_util::sync::CancellationToken;

use super::frames::{Came, Socket, farewell, pieces};
use super::{RECOGNISED, is_still_known, refuse};
use crate::actor::ActorId;
use crate::app::App;
use crate::caller::{Caller, RuntimeSessionId};
use crate::error::{Code, Problem};
use crate::fleet::Elsewhere;
use crate::forward;
use crate::peers::{Errand, PeerError};
use crate::protocol::ServerMessage;

/// How often each side of a tunnel shows that it lives, at least.
const SIGNS: std::time::Duration = std::time::Duration::from_secs(10);

/// Leads a connection to another server until one of both ends.
pub(super) async fn dig(
    mut socket: Socket,
    (caller, actor): (&Caller, &ActorId),
    elsewhere: &Elsewhere,
    first: String,
    app: &App,
    stopping: &CancellationToken,
) {
    let problem = forward::unreachable();
    if caller.passage.is_some() {
        return refuse(app, socket, &problem).await;
    }
    let there = match connect(app, caller, actor, elsewhere).await {
        Ok(there) => there,
        Err(error) => {
            error.log(&elsewhere.address);
            return refuse(app, socket, &problem).await;
        }
    };
    let (mut to, mut from) = there.split();
    if !sent(&mut to, pieces(first), app).await {
        return refuse(app, socket, &problem).await;
    }
    let mut again = tokio::time::interval(RECOGNISED);
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
                    socket.send(ServerMessage::Error { error: &problem, client_id: None }.encode()).await;
                    break farewell(Some(&problem));
                }
            },
            _ = again.tick() => {
                if !is_still_known(app, caller, actor).await {
                    break farewell(Some(&Problem::new(Code::Unauthenticated, "the token is not valid any more")));
                }
            }
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

type There = tokio_tungstenite::WebSocketStream<reqwest::Upgraded>;

async fn connect(app: &App, caller: &Caller, actor: &ActorId, elsewhere: &Elsewhere) -> Result<There, PeerError> {
    let peers = app.peers().ok_or(PeerError::Unproved("this server is in no cluster"))?;
    let errand = Errand {
        actor,
        session: elsewhere.session.as_str(),
        runtime_session: caller.runtime_session.as_ref().map(RuntimeSessionId::as_str),
        method: reqwest::Method::GET,
        target: "/ws",
        body: bytes::Bytes::new(),
    };
    peers.connect(&elsewhere.address, errand, axum::http::HeaderMap::new()).await
}
