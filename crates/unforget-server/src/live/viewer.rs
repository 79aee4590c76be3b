//! Somebody who watches a session: a place in its transcript, and an ear for what happens.
//!
//! First come the records behind the place where it began, then one message that says that all of them were told, then what happens, in order. Records are
//! read from the file when they are due, so that a viewer costs no memory for what it has not seen; what happens is heard through a channel of
//! bounded length, and who is too slow for it is let go. Whoever comes back names the last record that it saw.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::broadcast;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use unforget_core::session::Position;

use super::Live;
use super::event::Event;
use crate::error::{Code, Problem};
use crate::protocol::ServerMessage;
use crate::transcript::lines::{self, Line};

/// Why there is nothing more to hear.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gone(pub Problem);

/// Somebody who watches.
pub struct Viewer {
    live: Arc<Live>,
    events: broadcast::Receiver<Event>,
    /// What was told.
    pub(super) at: Position,
    /// What may be told.
    to: Position,
    /// What is to be told before anything else.
    due: VecDeque<Told>,
    /// What is to be told when the records are.
    snapshot: Vec<Event>,
    is_caught_up: bool,
    /// Why there is nothing more to hear, if that was heard before its time.
    over: Option<Problem>,
}

/// What a viewer is told.
#[derive(Debug, Clone)]
pub enum Told {
    /// A line of the transcript.
    Line(Line),
    /// All lines that were there were told; the last one's number.
    CaughtUp(Option<u64>),
    /// Something happened.
    Event(Event),
}

impl Told {
    /// As a message of the protocol; none for what is told by the records.
    pub(crate) fn message(&self) -> Option<ServerMessage<'_>> {
        match self {
            Told::Line(Line { n, text, offset, len }) => {
                let record = text.as_deref().and_then(|text| serde_json::from_str(text).ok());
                Some(match record {
                    Some(record) => ServerMessage::Record { n: *n, record },
                    None => ServerMessage::Damage { n: *n, offset: *offset, bytes: *len },
                })
            }
            Told::CaughtUp(n) => Some(ServerMessage::CaughtUp { n: *n }),
            Told::Event(event) => event.message(),
        }
    }
}

impl Viewer {
    pub(super) fn new(live: Arc<Live>, events: broadcast::Receiver<Event>, to: Position, snapshot: Vec<Event>) -> Self {
        Self { live, events, at: to, to, due: VecDeque::new(), snapshot, is_caught_up: false, over: None }
    }

    /// The session that is watched.
    pub fn live(&self) -> &Arc<Live> {
        &self.live
    }

    /// What comes next. Giving up on the future loses nothing.
    pub async fn next(&mut self) -> Result<Told, Gone> {
        loop {
            if let Some(told) = self.due.pop_front() {
                return Ok(told);
            }
            if self.at.offset < self.to.offset {
                self.read().await?;
                continue;
            }
            if !self.is_caught_up {
                self.is_caught_up = true;
                self.due.push_back(Told::CaughtUp(self.at.next.checked_sub(1)));
                self.due.extend(self.snapshot.drain(..).map(Told::Event));
                continue;
            }
            if let Some(problem) = self.over.take() {
                return Err(Gone(problem));
            }
            match self.events.recv().await {
                Ok(Event::Published(to)) => self.to = to,
                Ok(Event::Over(problem)) => return Err(Gone(problem)),
                Ok(event) => return Ok(Told::Event(event)),
                Err(RecvError::Closed) => return Err(Gone(Problem::new(Code::Unavailable, "the session was let go"))),
                Err(RecvError::Lagged(_)) => return Err(too_slow()),
            }
        }
    }

    /// Passes over what gathered while records are told: the state at this moment says as much, but for turns that ended and for an end of it all.
    fn skip(&mut self) -> Result<(), Gone> {
        let live = self.live.clone();
        let state = live.lock();
        let mut ended: Vec<Event> = self.snapshot.drain(..).filter(is_end).collect();
        loop {
            match self.events.try_recv() {
                Ok(Event::Over(problem)) => self.over = Some(problem),
                Ok(event) => ended.extend(Some(event).filter(is_end)),
                Err(TryRecvError::Lagged(_)) => return Err(too_slow()),
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
        self.to = state.published;
        self.snapshot = ended.into_iter().chain(live.snapshot(&state)).collect();
        Ok(())
    }

    /// Reads some records; the file is read where that may take its time.
    async fn read(&mut self) -> Result<(), Gone> {
        if !self.is_caught_up && self.events.len() > self.live.shared.limits.events / 2 {
            self.skip()?;
        }
        let (live, at, to) = (self.live.clone(), self.at, self.to.offset);
        let read = move || match live.reader()? {
            Some(reader) => lines::read(&reader.until(to), at, to, usize::MAX, live.numbering()),
            None => Ok((Vec::new(), Position { offset: to, ..at })),
        };
        let read = tokio::task::spawn_blocking(read).await;
        let read = read.unwrap_or_else(|error| Err(Problem::fallen("reading the transcript", &error)));
        let (found, at) = read.map_err(Gone)?;
        // A file that became shorter would be read for ever.
        self.at = if at == self.at { Position { offset: self.to.offset, ..at } } else { at };
        self.due.extend(found.into_iter().map(Told::Line));
        Ok(())
    }
}

/// Whether a turn ended with this, however it did: whoever saw it begin waits for it.
fn is_end(event: &Event) -> bool {
    matches!(event, Event::Done(_) | Event::Failed { .. })
}

fn too_slow() -> Gone {
    let message = "this connection reads too slowly; attach again behind the last record that it saw";
    Gone(Problem::new(Code::TooMany, message))
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.live.leave();
    }
}
