//! A WebSocket: what a client says, and what it is told.
//!
//! A connection has an actor, and watches at most one session. It owns nothing: when it goes, the turn that it asked for goes on, and whoever attaches again
//! behind the last record that it saw hears the rest. Deltas that follow each other faster than anybody can read are told together. If another server serves the session, this connection becomes a tunnel to it (`tunnel`).

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde_json::{Value, json};
use unforget_agent::host::Answer;
use unforget_core::key::Key;

use crate::agent::ClientId;
use crate::app::{App, Caller, Purpose, Unused};
use crate::budget::Sender;
use crate::error::{Code, Problem, Result};
use crate::fleet::Elsewhere;
use crate::hub::Watching;
use crate::limits::FRAME_OUT;
use crate::live::event::{Event, Kind, Outcome};
use crate::live::{After, Gone, Live, Standing, Taken, Told, Viewer, answer_to};
use crate::realm::Realm;
use crate::serve::Connection as Own;

mod frames;
mod message;
mod meter;
mod pace;
mod tunnel;
mod upgrade;

use frames::{Came, Socket, farewell};
pub use message::PROTOCOL;
use message::{From, Said};
pub(crate) use message::{Spoken, Wanted, short};
pub(crate) use upgrade::upgrade;

/// How long a connection may take to say what is left to be said when the server stops.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// How often it is looked whether a token is still valid.
const RECOGNISED: std::time::Duration = std::time::Duration::from_secs(3);

/// How long a delta waits for more of the same, behind one that was just sent.
const TOGETHER: std::time::Duration = std::time::Duration::from_millis(5);

type Asking = Pin<Box<dyn Future<Output = (Arc<Live>, ClientId, Result<Taken>)> + Send>>;

/// A connection and what it watches.
struct Connection {
    app: Arc<App>,
    caller: Caller,
    realm: Arc<Realm>,
    socket: Socket,
    viewer: Option<Viewer>,
    /// Prompts that were sent and not taken yet.
    asking: FuturesUnordered<Asking>,
    /// The prompt that the connection is for, in the short form.
    only: Option<ClientId>,
    /// More of an answer, which is about to be told.
    held: Option<Held>,
    /// When more of an answer was told last.
    spoke: Option<Instant>,
    unused: Unused,
    /// Whether this connection has attached once.
    has_arrived: bool,
}

/// Deltas of one part of an answer that follow each other.
struct Held {
    block: usize,
    kind: Kind,
    text: String,
}

/// Whether a connection goes on.
enum Flow {
    On,
    /// It ends; why, if not because all was said.
    End(Option<Problem>),
    /// It goes on elsewhere, with this message.
    Elsewhere(Elsewhere, String),
}

/// Talks with a client until one of both goes.
async fn converse(app: Arc<App>, mut caller: Caller, mut socket: Socket, own: &Own) {
    let actor = match caller.actor.clone() {
        Some(actor) => actor,
        None => match introduced(&app, &mut caller, &mut socket).await {
            Ok(Some(actor)) => actor,
            Ok(None) => return socket.close(farewell(None)).await,
            Err(problem) => return refuse(&app, socket, &problem).await,
        },
    };
    let _counted = match app.sockets.count(&actor, app.limits().sockets_per_actor) {
        Ok(counted) => counted,
        Err(problem) => return refuse(&app, socket, &problem).await,
    };
    app.hub.shared().metrics.sockets.inc();
    let claim = app.hub.shared().budget.claim(Sender::Actor(actor.clone()));
    socket.recognise(app.limits(), claim, app.hub.shared().quotas.of(&actor));
    let realm = app.hub.realm(&actor);
    let mut connection = Connection {
        app: app.clone(),
        caller,
        realm,
        socket,
        viewer: None,
        asking: FuturesUnordered::new(),
        only: None,
        held: None,
        spoke: None,
        unused: Unused::default(),
        has_arrived: false,
    };
    let stopping = || Problem::new(Code::Unavailable, "the server stops; attach again");
    let flow = {
        let run = connection.run();
        tokio::pin!(run);
        tokio::select! {
            flow = &mut run => flow,
            // Who watches is told to the end what became of the session, which is a moment's work; nobody else is waited for longer.
            () = own.over.cancelled() => {
                tokio::time::timeout(LAST_WORDS, run).await.unwrap_or_else(|_| Flow::End(Some(stopping())))
            }
        }
    };
    let Connection { socket, caller, realm, viewer, .. } = connection;
    drop(viewer);
    match flow {
        Flow::On | Flow::End(None) => socket.close(farewell(None)).await,
        Flow::End(Some(problem)) => socket.close(farewell(Some(&problem))).await,
        Flow::Elsewhere(elsewhere, first) => {
            tunnel::dig(socket, (&caller, realm.actor()), &elsewhere, first, &app, &own.over).await;
        }
    }
    app.hub.shared().metrics.sockets.dec();
}

async fn refuse(app: &App, mut socket: Socket, problem: &Problem) {
    app.hub.shared().metrics.refuse(problem);
    socket.send(error(problem, None).to_string()).await;
    socket.close(farewell(Some(problem))).await;
}

/// Waits for the client to say who it is; none if it goes before.
async fn introduced(app: &App, caller: &mut Caller, socket: &mut Socket) -> Result<Option<crate::ActorId>> {
    let patience = app.limits().handshake;
    let late = || Problem::new(Code::Unauthenticated, "no token came: send it as a header or as the first message");
    let came = tokio::time::timeout(patience, async {
        loop {
            match socket.receive().await {
                Came::Sign => {}
                other => return other,
            }
        }
    });
    match came.await.map_err(|_| late())? {
        Came::Text(text) => match message::read(&text, app.limits())? {
            Said::Auth(token) => {
                let actor = app.identity.of_token(&token, caller.peer).await?;
                caller.token = Some(token);
                Ok(Some(actor))
            }
            _ => Err(late()),
        },
        Came::Over(Some(problem)) => Err(problem),
        Came::Over(None) | Came::Sign => Ok(None),
    }
}

fn error(problem: &Problem, client_id: Option<&ClientId>) -> Value {
    json!({ "type": "error", "error": problem.to_json(), "client_id": client_id.map(ClientId::as_str) })
}

impl Connection {
    async fn run(&mut self) -> Flow {
        let silence = self.app.limits().silence;
        let (mut heard, mut is_asked) = (Instant::now(), false);
        let mut again = tokio::time::interval(RECOGNISED);
        loop {
            let quiet = silence.saturating_sub(heard.elapsed());
            let soon = self.spoke.map_or(TOGETHER, |spoke| TOGETHER.saturating_sub(spoke.elapsed()));
            let flow = tokio::select! {
                came = self.socket.receive() => {
                    (heard, is_asked) = (Instant::now(), false);
                    match came {
                        Came::Text(text) => self.hear(text).await,
                        Came::Sign => Flow::On,
                        Came::Over(problem) => Flow::End(problem),
                    }
                }
                told = next(&mut self.viewer) => self.tell(told).await,
                () = tokio::time::sleep(soon), if self.held.is_some() => self.flush().await,
                Some((live, client_id, taken)) = self.asking.next(), if !self.asking.is_empty() => {
                    self.taken(&live, &client_id, taken).await
                }
                _ = again.tick() => match is_still_known(&self.app, &self.caller, self.realm.actor()).await {
                    true => Flow::On,
                    false => Flow::End(Some(Problem::new(Code::Unauthenticated, "the token is not valid any more"))),
                },
                () = tokio::time::sleep(quiet) => {
                    heard = Instant::now();
                    if is_asked || !self.socket.ping().await {
                        return Flow::End(Some(Problem::new(Code::Timeout, "no sign of life")));
                    }
                    is_asked = true;
                    Flow::On
                }
            };
            match flow {
                Flow::On => {}
                Flow::Elsewhere(elsewhere, first) => return self.leave_for(elsewhere, first).await,
                end @ Flow::End(_) => return end,
            }
        }
    }

    /// Goes on elsewhere, once what was sent here before has been answered: nobody there knows of it.
    async fn leave_for(&mut self, elsewhere: Elsewhere, first: String) -> Flow {
        while let Some((live, client_id, taken)) = self.asking.next().await {
            match self.taken(&live, &client_id, taken).await {
                Flow::On => {}
                other => return other,
            }
        }
        Flow::Elsewhere(elsewhere, first)
    }

    /// Sends a message; a client that does not read is dropped.
    async fn say(&mut self, text: String) -> Flow {
        match self.socket.send(text).await {
            true => Flow::On,
            false => {
                self.app.hub.shared().metrics.slow_readers.inc();
                Flow::End(Some(Problem::new(Code::TooMany, "this connection does not read")))
            }
        }
    }

    async fn hear(&mut self, text: String) -> Flow {
        let (outcome, client_id) = match message::read(&text, self.app.limits()) {
            Ok(said) => {
                let client_id = if let Said::Prompt(spoken) = &said { spoken.client_id.clone() } else { None };
                (self.obey(said, text).await, client_id)
            }
            Err(problem) => (Err(problem), None),
        };
        match outcome {
            Ok(flow) => flow,
            Err(problem) => {
                self.app.hub.shared().metrics.refuse(&problem);
                let is_short = self.only.is_some();
                match self.say(error(&problem, client_id.as_ref()).to_string()).await {
                    Flow::On if is_short => Flow::End(Some(problem)),
                    flow => flow,
                }
            }
        }
    }

    async fn obey(&mut self, said: Said, text: String) -> Result<Flow> {
        Ok(match said {
            Said::Hello => self.say(self.hello().to_string()).await,
            Said::Auth(_) => return Err(Problem::invalid("this connection has an actor already")),
            Said::Attach(wanted, after, from) => {
                let after = if from == From::End { After::End } else { After::Line(after) };
                let mut unused = std::mem::take(&mut self.unused);
                let attached = self.attach(wanted, after, Purpose::Watch(&mut unused)).await;
                self.unused = unused;
                match attached? {
                    Some(elsewhere) => Flow::Elsewhere(elsewhere, text),
                    None => Flow::On,
                }
            }
            Said::Prompt(spoken) => self.prompt(spoken, text).await?,
            Said::Abort(client_id) => {
                let is_aborted = self.live()?.abort(client_id.as_ref());
                self.say(json!({ "type": "aborting", "running": is_aborted }).to_string()).await
            }
            Said::Answer { call, allow, reason } => {
                let answer = match allow {
                    true => Answer::Allowed { by: "person" },
                    false => Answer::Denied { by: "person", reason },
                };
                match self.live()?.answer(&call, answer) {
                    true => Flow::On,
                    false => return Err(Problem::new(Code::NotFound, "that question is not open any more")),
                }
            }
            Said::Resume => {
                self.live()?.go_on()?;
                Flow::On
            }
            Said::Detach => {
                (self.viewer, self.held) = (None, None);
                self.say(json!({ "type": "detached" }).to_string()).await
            }
            Said::Ping => self.say(json!({ "type": "pong" }).to_string()).await,
        })
    }

    fn hello(&self) -> Value {
        let agents: Vec<Value> = self
            .app
            .hub
            .agents()
            .all()
            .iter()
            .map(|agent| json!({ "name": agent.name(), "kind": agent.kind() }))
            .collect();
        json!({
            "type": "hello",
            "protocol": PROTOCOL,
            "server": concat!("unforget/", env!("CARGO_PKG_VERSION")),
            "actor": self.realm.actor().name(),
            "agents": agents,
        })
    }

    fn live(&self) -> Result<Arc<Live>> {
        let attached = self.viewer.as_ref().map(|viewer| viewer.live().clone());
        attached.ok_or_else(|| Problem::invalid("attach to a session first"))
    }

    /// Begins to watch; the server that has the session, if that is another one.
    async fn attach(&mut self, wanted: Wanted, after: After, purpose: Purpose<'_>) -> Result<Option<Elsewhere>> {
        let runtime = self.caller.runtime_session.as_ref();
        match self.app.attach(&self.realm, &wanted, runtime, after, purpose).await? {
            Watching::There(elsewhere) => Ok(Some(elsewhere)),
            Watching::Here(attached, viewer) => {
                // A tunnel is dug for one session; where that one is, its client may go on to others.
                let passage = self.caller.passage.as_ref().filter(|_| !std::mem::replace(&mut self.has_arrived, true));
                if passage.is_some_and(|passage| passage.session != viewer.live().name().id.as_str()) {
                    return Err(Problem::new(Code::Moved, "this key leads to another session now; attach again"));
                }
                (self.viewer, self.held) = (Some(*viewer), None);
                match self.say(attached.to_string()).await {
                    Flow::On => Ok(None),
                    _ => Err(Problem::new(Code::TooMany, "this connection does not read")),
                }
            }
        }
    }

    async fn prompt(&mut self, spoken: Spoken, text: String) -> Result<Flow> {
        let client_id = spoken.client_id.clone().unwrap_or_else(ClientId::random);
        if spoken.is_short {
            self.only = Some(client_id.clone());
        }
        let is_current = match (&spoken.wanted, &self.viewer) {
            (Wanted::Current, Some(_)) => true,
            (Wanted::Id(id), Some(viewer)) => viewer.live().name().id == *id,
            _ => false,
        };
        self.app.hub.ask_store(&self.realm, spoken.text.len()).await?;
        let mut admission = None;
        if !is_current {
            self.app.check(&spoken.text)?;
            let purpose = Purpose::Prompt(&mut admission);
            if let Some(elsewhere) = self.attach(spoken.wanted.clone(), After::End, purpose).await? {
                return Ok(Flow::Elsewhere(elsewhere, text));
            }
        }
        let live = self.live()?;
        let is_attended = !spoken.is_short;
        self.asking.push(Box::pin(async move {
            let taken = live.prompt(client_id.clone(), spoken.text, is_attended, admission).await;
            (live, client_id, taken)
        }));
        Ok(Flow::On)
    }

    /// Tells that a prompt was taken, or why not; of one that has ended, also how.
    async fn taken(&mut self, live: &Arc<Live>, client_id: &ClientId, taken: Result<Taken>) -> Flow {
        let taken = match taken {
            Ok(taken) => taken,
            Err(problem) => {
                self.app.hub.shared().metrics.refuse(&problem);
                let is_only = self.only.as_ref() == Some(client_id);
                return match self.say(error(&problem, Some(client_id)).to_string()).await {
                    Flow::On if is_only => Flow::End(Some(problem)),
                    flow => flow,
                };
            }
        };
        self.unused = Unused::default();
        let message = json!({
            "type": "accepted",
            "client_id": client_id.as_str(),
            "session_id": live.name().id.as_str(),
            "state": taken.standing.name(),
            "duplicate": taken.is_duplicate,
            "durability": "disk",
        });
        if let flow @ (Flow::End(_) | Flow::Elsewhere(..)) = self.say(message.to_string()).await {
            return flow;
        }
        match ended(&self.app, live, &taken).await {
            Some(event) if taken.is_duplicate => self.tell(Ok(Told::Event(event))).await,
            _ => Flow::On,
        }
    }

    /// Tells more of an answer, together with what comes at once behind it.
    async fn delta(&mut self, block: usize, kind: Kind, text: &str) -> Flow {
        match &mut self.held {
            Some(held) if held.block == block && held.kind == kind && held.text.len() + text.len() <= FRAME_OUT / 2 => {
                held.text.push_str(text);
            }
            _ => match self.flush().await {
                Flow::On => self.held = Some(Held { block, kind, text: text.to_owned() }),
                end => return end,
            },
        }
        match self.spoke.is_none_or(|spoke| spoke.elapsed() >= TOGETHER) {
            true => self.flush().await,
            false => Flow::On,
        }
    }

    /// Tells what is held.
    async fn flush(&mut self) -> Flow {
        let Some(Held { block, kind, text }) = self.held.take() else { return Flow::On };
        let event = Event::Delta { block, kind, text: text.into() };
        let Some(text) = Told::Event(event).to_message() else { return Flow::On };
        self.spoke = Some(Instant::now());
        self.say(text).await
    }

    async fn tell(&mut self, told: Result<Told, Gone>) -> Flow {
        if let Ok(Told::Event(Event::Delta { block, kind, text })) = &told {
            return self.delta(*block, *kind, text).await;
        }
        if let flow @ (Flow::End(_) | Flow::Elsewhere(..)) = self.flush().await {
            return flow;
        }
        let told = match told {
            Ok(told) => told,
            Err(Gone(problem)) => {
                self.viewer = None;
                if problem.code == Code::TooMany {
                    self.app.hub.shared().metrics.slow_readers.inc();
                }
                return match self.say(error(&problem, None).to_string()).await {
                    Flow::On => Flow::End(Some(problem)),
                    flow => flow,
                };
            }
        };
        let is_last = match &told {
            Told::Event(Event::Done(outcome)) => self.only.is_some() && outcome.client_id == self.only,
            Told::Event(Event::Failed { client_id, .. }) => self.only.is_some() && *client_id == self.only,
            _ => false,
        };
        let problem = match &told {
            Told::Event(Event::Failed { problem, .. }) => Some(problem.clone()),
            _ => None,
        };
        let flow = match told.to_message() {
            Some(text) => self.say(text).await,
            None => Flow::On,
        };
        match flow {
            Flow::On if is_last => Flow::End(problem),
            flow => flow,
        }
    }
}

/// Whether what a client showed would still let it in. A token that was taken back, or has expired, ends its connections.
async fn is_still_known(app: &App, caller: &Caller, actor: &crate::ActorId) -> bool {
    if caller.by_socket {
        return actor.is_owner();
    }
    // The server at the other end of the tunnel asks.
    if caller.passage.is_some() {
        return true;
    }
    let known = match &caller.token {
        Some(token) => app.identity.of_token(token, caller.peer).await.map(Some),
        None => app.identity.of_headers(&caller.headers, caller.peer).await,
    };
    match known {
        Ok(known) => known.as_ref() == Some(actor),
        // That it cannot be told now is no reason to send somebody away.
        Err(problem) => problem.code == Code::Unavailable,
    }
}

/// How the turn of a prompt ended that was sent before, if it has.
pub(crate) async fn ended(app: &App, live: &Arc<Live>, taken: &Taken) -> Option<Event> {
    match &taken.standing {
        Standing::Done(outcome) => Some(Event::Done(outcome.clone())),
        Standing::Failed(problem) => {
            Some(Event::Failed { client_id: Some(taken.client_id.clone()), problem: problem.clone() })
        }
        Standing::Known(n) => {
            let (n, name) = (*n, live.name().clone());
            let found = app.hub.blocking(live.realm(), move |realm| {
                let path = name.dir.transcript(&name.id);
                answer_to(&unforget_core::reader::LogReader::open(realm.store().medium().as_ref(), &path)?, n)
            });
            let failed = |problem| Event::Failed { client_id: Some(taken.client_id.clone()), problem };
            match found.await {
                // It is told as what it is now, which is more than it was if its server died before it had sent it.
                Ok(Some(outcome)) => Some(match live.deliver().await {
                    Ok(durability) => Event::Done(Arc::new(Outcome { durability, ..outcome })),
                    Err(problem) => Event::Failed { client_id: Some(taken.client_id.clone()), problem },
                }),
                // Its words are in the conversation, which went on without an answer to them.
                Ok(None) if live.standing(&taken.client_id) == Some(Standing::Known(n)) => {
                    let message = "its turn did not come to an end; `resume`, or send it under another client_id";
                    Some(failed(Problem::new(Code::Conflict, message)))
                }
                Ok(None) => None,
                Err(problem) => Some(failed(problem)),
            }
        }
        Standing::Queued | Standing::Running => None,
    }
}

/// What a viewer is told next; nothing, ever, if there is none.
async fn next(viewer: &mut Option<Viewer>) -> Result<Told, Gone> {
    match viewer {
        Some(viewer) => viewer.next().await,
        None => std::future::pending().await,
    }
}

/// The key of what a runtime session says.
pub(crate) fn runtime_key(agent: &str, session: &crate::app::RuntimeSessionId) -> Result<Key> {
    Ok(Key::new(agent, "runtime", None, session.as_str()).map_err(unforget_core::Error::from)?)
}
