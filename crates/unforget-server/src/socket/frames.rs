//! Frames of a WebSocket: what is too long for one is sent in several, and whoever does not read is dropped.
//!
//! AgentCore Runtime lets frames of at most 64 KB through. A longer message is split as the WebSocket protocol itself splits messages, so that
//! every client puts it together again without knowing. It lets 250 frames a second through, so a
//! connection that comes through it has a pace (`pace`). What comes in is counted on its way (`meter`).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::error::{CapacityError, Error, ProtocolError};
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};

use super::meter::Metered;
use super::pace::Pace;
use crate::budget::Claim;
use crate::error::{Code, Problem};
use crate::limits::{FRAME_OUT, Limits};
use crate::quotas::Account;

/// Memory that a connection may take for reading before anything has come.
const BUFFER: usize = 4 * 1024;
/// The longest reason that a close frame takes.
const REASON: usize = 120;

/// What came in.
#[derive(Debug)]
pub(super) enum Came {
    Text(String),
    /// A sign of life.
    Sign,
    /// Something that is not to be answered any more.
    Over(Option<Problem>),
}

/// A WebSocket.
pub(super) struct Socket {
    stream: WebSocketStream<Metered<TokioIo<Upgraded>>>,
    send: Duration,
    /// How fast frames may follow each other, where somebody in between counts them.
    pace: Option<Pace>,
    /// Whether a message was handed on that may still be in use.
    is_handed_on: bool,
    /// How the client broke the protocol, or a bound: what comes behind that is not looked at.
    broken: Option<CloseCode>,
}

impl Socket {
    /// A WebSocket of somebody who is not known yet; `claim` is charged for what comes.
    pub(super) async fn new(upgraded: Upgraded, limits: &Limits, pace: Option<Pace>, claim: Claim) -> Self {
        let config = WebSocketConfig::default()
            .read_buffer_size(BUFFER)
            .write_buffer_size(0)
            .max_write_buffer_size(4 * FRAME_OUT)
            .max_frame_size(Some(limits.frame))
            .max_message_size(Some(limits.message));
        let metered = Metered::new(TokioIo::new(upgraded), limits, claim);
        let stream = WebSocketStream::from_raw_socket(metered, Role::Server, Some(config)).await;
        Self { stream, send: limits.send, pace, is_handed_on: false, broken: None }
    }

    /// It is known now whose WebSocket it is.
    pub(super) fn recognise(&mut self, limits: &Limits, claim: Claim, account: Arc<Account>) {
        self.stream.get_mut().recognise(limits, claim, account);
    }

    /// What comes next. Giving up on the future loses nothing.
    pub(super) async fn receive(&mut self) -> Came {
        if std::mem::take(&mut self.is_handed_on) {
            self.stream.get_ref().settle();
        }
        match self.stream.next().await {
            Some(Ok(Message::Text(text))) => self.hand_on(text.as_str().to_owned()),
            Some(Ok(Message::Binary(bytes))) => match String::from_utf8(bytes.to_vec()) {
                Ok(text) => self.hand_on(text),
                Err(_) => self.break_off(CloseCode::Invalid, Problem::invalid("a message must be JSON text")),
            },
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {
                self.stream.get_ref().settle_sign();
                Came::Sign
            }
            Some(Ok(Message::Close(_))) | None => Came::Over(None),
            Some(Err(error)) => match violation(&error) {
                Some((code, problem)) => self.break_off(code, problem),
                None => {
                    tracing::debug!(%error, "a socket broke");
                    Came::Over(None)
                }
            },
        }
    }

    fn hand_on(&mut self, text: String) -> Came {
        self.is_handed_on = true;
        Came::Text(text)
    }

    fn break_off(&mut self, code: CloseCode, problem: Problem) -> Came {
        self.broken = Some(code);
        Came::Over(Some(problem))
    }

    /// Sends a message; `false` if whoever it is for is gone, or does not read.
    pub(super) async fn send(&mut self, text: String) -> bool {
        for piece in pieces(text) {
            if !self.frame(piece).await {
                return false;
            }
        }
        true
    }

    async fn frame(&mut self, frame: Message) -> bool {
        if let Some(pace) = &mut self.pace {
            pace.step().await;
        }
        match tokio::time::timeout(self.send, self.stream.send(frame)).await {
            Ok(Ok(())) => true,
            Ok(Err(error)) => {
                tracing::debug!(%error, "a message was not sent");
                false
            }
            Err(_) => {
                tracing::info!("somebody does not read; the connection is dropped");
                false
            }
        }
    }

    /// Asks for a sign of life.
    pub(super) async fn ping(&mut self) -> bool {
        let ping = self.stream.send(Message::Ping(Bytes::new()));
        matches!(tokio::time::timeout(self.send, ping).await, Ok(Ok(())))
    }

    /// Says goodbye, and why. Who broke the protocol hears that, whatever else there is to be said.
    pub(super) async fn close(mut self, mut farewell: CloseFrame) {
        if let Some(code) = self.broken {
            farewell.code = code;
        }
        let goodbye = async {
            match self.stream.close(Some(farewell)).await {
                // The client said goodbye first, and its answer waits to be sent.
                Err(Error::Protocol(ProtocolError::SendAfterClosing)) => return self.stream.flush().await,
                said => said?,
            }
            // What is still on its way is read, so that the goodbye is not lost by a reset.
            match self.broken.is_some() || self.stream.get_ref().is_held() {
                true => self.stream.get_mut().drain().await?,
                false => while let Some(Ok(_)) = self.stream.next().await {},
            }
            Ok::<(), Error>(())
        };
        if !matches!(tokio::time::timeout(Duration::from_secs(2), goodbye).await, Ok(Ok(()))) {
            tracing::debug!("a socket was closed without a goodbye");
        }
    }
}

/// What a client did that ends its connection, and with which code; none if it is only gone.
fn violation(error: &Error) -> Option<(CloseCode, Problem)> {
    match error {
        Error::Capacity(CapacityError::MessageTooLong { max_size, .. }) => {
            let message = format!("a frame or message has more than {max_size} bytes (`frame`, `message`)");
            Some((CloseCode::Size, Problem::new(Code::TooLarge, message)))
        }
        Error::Io(error) => {
            let problem = error.get_ref()?.downcast_ref::<Problem>()?;
            Some((farewell(Some(problem)).code, problem.clone()))
        }
        Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => None,
        Error::Protocol(error) => {
            Some((CloseCode::Protocol, Problem::invalid(format!("this breaks the WebSocket protocol: {error}"))))
        }
        Error::Utf8(_) => Some((CloseCode::Invalid, Problem::invalid("a text message is not UTF-8"))),
        _ => None,
    }
}

/// A message, in as many frames as it takes.
pub(super) fn pieces(text: String) -> Vec<Message> {
    if text.len() <= FRAME_OUT {
        return vec![Message::text(text)];
    }
    let whole = Bytes::from(text);
    let count = whole.len().div_ceil(FRAME_OUT);
    let piece = |at: usize| {
        let piece = whole.slice(at * FRAME_OUT..whole.len().min((at + 1) * FRAME_OUT));
        let data = if at == 0 { Data::Text } else { Data::Continue };
        Message::Frame(Frame::message(piece, OpCode::Data(data), at + 1 == count))
    };
    (0..count).map(piece).collect()
}

/// What is said at the end: why, if not because all was said.
pub(super) fn farewell(problem: Option<&Problem>) -> CloseFrame {
    let code = match problem.map(|problem| problem.code) {
        None => CloseCode::Normal,
        Some(Code::TooLarge) => CloseCode::Size,
        Some(Code::Unauthenticated | Code::Forbidden | Code::NotFound | Code::Invalid | Code::Conflict) => {
            CloseCode::Policy
        }
        Some(Code::Unavailable | Code::Moved) => CloseCode::Restart,
        Some(Code::TooMany | Code::Timeout | Code::Busy) => CloseCode::Again,
        Some(_) => CloseCode::Error,
    };
    let reason = problem.map_or("", |problem| problem.message.as_str());
    let end = (0..=reason.len().min(REASON)).rev().find(|at| reason.is_char_boundary(*at)).unwrap_or(0);
    CloseFrame { code, reason: reason[..end].to_owned().into() }
}
