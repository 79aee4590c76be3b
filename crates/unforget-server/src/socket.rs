//! A WebSocket: what a client says, and what it is told.
//!
//! A connection has an actor, and watches at most one session. It owns nothing: when it goes, the turn that it asked for goes on, and whoever attaches again
//! behind the last record that it saw hears the rest. Deltas that follow each other faster than anybody can read are told together. If another server serves the session, this connection becomes a tunnel to it (`tunnel`).

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use unforget_agent::host::Answer;

use crate::app::{App, Purpose, Unused};
use crate::budget::Sender;
use crate::caller::Caller;
use crate::connection::Connection as Own;
use crate::error::{Code, Problem, Result};
use crate::fleet::Elsewhere;
use crate::hub::Watching;
use crate::limits::FRAME_OUT;
use crate::live::event::Event;
use crate::live::{Gone, Live, Standing, Taken, Told, Viewer};
use crate::protocol::client::{self, ClientMessage, PromptRequest, Target};
use crate::protocol::server::{Accepted, AgentName, Hello};
use crate::protocol::{After, ClientId, Durability, Kind, Outcome, ServerMessage};
use crate::realm::Realm;
use crate::transcript::answer_to;

mod frames;
mod meter;
mod pace;
mod tunnel;
mod upgrade;

use frames::{Came, Socket, farewell};
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
    socket.send(ServerMessage::Error { error: problem, client_id: None }.encode()).await;
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
        Came::Text(text) => match client::read(&text, app.limits())? {
            ClientMessage::Auth(token) => {
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
    async fn say(&mut self, message: &ServerMessage<'_>) -> Flow {
        match self.socket.send(message.encode()).await {
            true => Flow::On,
            false => {
                self.app.hub.shared().metrics.slow_readers.inc();
                Flow::End(Some(Problem::new(Code::TooMany, "this connection does not read")))
            }
        }
    }

    async fn refuse(&mut self, problem: &Problem, client_id: Option<&ClientId>) -> Flow {
        self.say(&ServerMessage::Error { error: problem, client_id }).await
    }

    async fn hear(&mut self, text: String) -> Flow {
        let (outcome, client_id) = match client::read(&text, self.app.limits()) {
            Ok(message) => {
                let client_id =
                    if let ClientMessage::Prompt(prompt) = &message { prompt.client_id.clone() } else { None };
                (self.obey(message, text).await, client_id)
            }
            Err(problem) => (Err(problem), None),
        };
        match outcome {
            Ok(flow) => flow,
            Err(problem) => {
                self.app.hub.shared().metrics.refuse(&problem);
                let is_short = self.only.is_some();
                match self.refuse(&problem, client_id.as_ref()).await {
                    Flow::On if is_short => Flow::End(Some(problem)),
                    flow => flow,
                }
            }
        }
    }

    async fn obey(&mut self, message: ClientMessage, text: String) -> Result<Flow> {
        Ok(match message {
            ClientMessage::Hello => self.hello().await,
            ClientMessage::Auth(_) => return Err(Problem::invalid("this connection has an actor already")),
            ClientMessage::Attach(target, after) => {
                let mut unused = std::mem::take(&mut self.unused);
                let attached = self.attach(target, after, Purpose::Watch(&mut unused)).await;
                self.unused = unused;
                match attached? {
                    Some(elsewhere) => Flow::Elsewhere(elsewhere, text),
                    None => Flow::On,
                }
            }
            ClientMessage::Prompt(prompt) => self.prompt(prompt, text).await?,
            ClientMessage::Abort(client_id) => {
                let is_aborted = self.live()?.abort(client_id.as_ref());
                self.say(&ServerMessage::Aborting { running: is_aborted }).await
            }
            ClientMessage::Answer { call, allow, reason } => {
                let answer = match allow {
                    true => Answer::Allowed { by: "person" },
                    false => Answer::Denied { by: "person", reason },
                };
                match self.live()?.answer(&call, answer) {
                    true => Flow::On,
                    false => return Err(Problem::new(Code::NotFound, "that question is not open any more")),
                }
            }
            ClientMessage::Resume => {
                self.live()?.go_on()?;
                Flow::On
            }
            ClientMessage::Detach => {
                (self.viewer, self.held) = (None, None);
                self.say(&ServerMessage::Detached).await
            }
            ClientMessage::Ping => self.say(&ServerMessage::Pong).await,
        })
    }

    async fn hello(&mut self) -> Flow {
        let app = self.app.clone();
        let agents = app.hub.agents().all().iter();
        let agents = agents.map(|agent| AgentName { name: agent.name(), kind: agent.kind() }).collect();
        let realm = self.realm.clone();
        self.say(&ServerMessage::Hello(Hello::new(realm.actor().name(), agents))).await
    }

    fn live(&self) -> Result<Arc<Live>> {
        let attached = self.viewer.as_ref().map(|viewer| viewer.live().clone());
        attached.ok_or_else(|| Problem::invalid("attach to a session first"))
    }

    /// Begins to watch; the server that has the session, if that is another one.
    async fn attach(&mut self, target: Target, after: After, purpose: Purpose<'_>) -> Result<Option<Elsewhere>> {
        let runtime = self.caller.runtime_session.as_ref();
        match self.app.attach(&self.realm, &target, runtime, after, purpose).await? {
            Watching::There(elsewhere) => Ok(Some(elsewhere)),
            Watching::Here(attached, viewer) => {
                // A tunnel is dug for one session; where that one is, its client may go on to others.
                let passage = self.caller.passage.as_ref().filter(|_| !std::mem::replace(&mut self.has_arrived, true));
                if passage.is_some_and(|passage| passage.session != viewer.live().name().id.as_str()) {
                    return Err(Problem::new(Code::Moved, "this key leads to another session now; attach again"));
                }
                (self.viewer, self.held) = (Some(*viewer), None);
                match self.say(&ServerMessage::Attached(&attached)).await {
                    Flow::On => Ok(None),
                    _ => Err(Problem::new(Code::TooMany, "this connection does not read")),
                }
            }
        }
    }

    async fn prompt(&mut self, asked: PromptRequest, text: String) -> Result<Flow> {
        let client_id = asked.client_id.clone().unwrap_or_else(ClientId::random);
        if asked.is_short {
            self.only = Some(client_id.clone());
        }
        let is_current = match (&asked.target, &self.viewer) {
            (Target::Current, Some(_)) => true,
            (Target::Id(id), Some(viewer)) => viewer.live().name().id == *id,
            _ => false,
        };
        self.app.hub.ask_store(&self.realm, asked.text.len()).await?;
        let mut admission = None;
        if !is_current {
            self.app.check(&asked.text)?;
            let purpose = Purpose::Prompt(&mut admission);
            if let Some(elsewhere) = self.attach(asked.target.clone(), After::End, purpose).await? {
                return Ok(Flow::Elsewhere(elsewhere, text));
            }
        }
        let live = self.live()?;
        let is_attended = !asked.is_short;
        self.asking.push(Box::pin(async move {
            let taken = live.prompt(client_id.clone(), asked.text, is_attended, admission).await;
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
                return match self.refuse(&problem, Some(client_id)).await {
                    Flow::On if is_only => Flow::End(Some(problem)),
                    flow => flow,
                };
            }
        };
        self.unused = Unused::default();
        let message = ServerMessage::Accepted(Accepted {
            client_id,
            session_id: live.name().id.as_str(),
            state: taken.standing.state(),
            is_duplicate: taken.is_duplicate,
            durability: Durability::Disk,
        });
        if let flow @ (Flow::End(_) | Flow::Elsewhere(..)) = self.say(&message).await {
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
        self.spoke = Some(Instant::now());
        self.say(&ServerMessage::Delta { block, kind, text: &text }).await
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
                return match self.refuse(&problem, None).await {
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
        let flow = match told.message() {
            Some(message) => self.say(&message).await,
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
