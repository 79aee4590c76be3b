//! The server: connections in, handlers behind them, and an end that loses nothing.
//!
//! Connections are accepted here and not by a framework, because each is counted before it is heard: in all, and by address. A client that does not send
//! its request in time is dropped, and so is one that does not read what it is answered (`stream`). Every request passes the door (from where) and the identity (by whom) before anything else looks at it.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;
use tracing::Instrument as _;
use unforget_agent::prices::Prices;
use unforget_core::stamp::SharedSource;

use crate::activity::Activity;
use crate::actor::ActorId;
use crate::agent::Agents;
use crate::app::{App, Counts};
use crate::budget::Sender;
use crate::caller::{Caller, RUNTIME_SESSION, RuntimeSessionId};
use crate::connection::{Addresses, Connection, Peer};
use crate::door::{self, Door};
use crate::entries::Entries;
use crate::error::{Code, Problem};
use crate::fleet::{self, Fleet};
use crate::hub::Hub;
use crate::identity::{Identity, cookie};
use crate::intake::{self, Terms};
use crate::ledger::{Accepted, Ledger};
use crate::limits::Limits;
use crate::realm::Realms;
use crate::shared::Shared;
use crate::{forward, page, peers, rest, runtime, socket, trace};

pub mod owner_socket;
mod stream;

pub use owner_socket::OwnerSocket;
use stream::Impatient;

/// How often prompts that nobody could run are tried again, and what was not sent is sent.
const AGAIN: Duration = Duration::from_secs(3);

/// The least room for a request's head that the HTTP library takes.
const LEAST_HEAD: usize = 8 * 1024;

/// Everything that a server is told.
pub struct Config {
    /// Where the sessions are.
    pub home: PathBuf,
    /// What answers; the first is the usual one.
    pub agents: Agents,
    /// Tools that run unasked.
    pub allowed: Vec<String>,
    /// Who is asking.
    pub identity: Identity,
    /// From where.
    pub door: Door,
    /// Actors who may see the numbers of the whole server.
    pub operators: Vec<String>,
    /// The bounds.
    pub limits: Limits,
    /// The other servers, if there are any.
    pub fleet: Option<fleet::Settings>,
    /// The clock and source of ids.
    pub source: SharedSource,
    /// How many threads turns run on.
    pub threads: usize,
    /// What tokens cost.
    pub prices: Prices,
    /// Whether the page is shown.
    pub page: bool,
}

/// A server that is ready.
pub struct Server {
    app: Arc<App>,
    /// Where turns run; ended last.
    turns: tokio::runtime::Runtime,
    waiting: Vec<Accepted>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The home cannot be used, or another server uses it.
    #[error(transparent)]
    Store(#[from] unforget_core::Error),
    /// The system refuses.
    #[error("the server cannot start: {0}")]
    System(String),
}

impl Server {
    /// Gets a server ready: nobody else serves this home from here on.
    pub fn new(config: Config) -> Result<Self, StartError> {
        let Config { home, agents, allowed, identity, door, operators, limits, fleet, source, threads, prices, page } =
            config;
        let (ledger, waiting) = Ledger::open(&home)?;
        let system = |error: &dyn std::fmt::Display| StartError::System(error.to_string());
        let turns = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("turns")
            .enable_all()
            .build()
            .map_err(|error| system(&error))?;
        let activity = Arc::new(Activity::new(source.clone()));
        let entries =
            Arc::new(fleet.as_ref().map_or_else(Entries::default, |fleet| Entries::with_remote(fleet.entries())));
        let fleet = fleet.map(Fleet::new).transpose().map_err(|error| system(&error))?.map(Arc::new);
        let shared = Arc::new(Shared::new(limits, ledger, allowed, activity, fleet));
        let hub = Hub::new(shared, Realms::new(home, source), agents, turns.handle().clone());
        let sockets = Arc::new(Counts::default());
        let (hub, prices) = (Arc::new(hub), Arc::new(prices));
        let app = App { hub, entries, identity, door, operators, sockets, prices, page };
        Ok(Self { app: Arc::new(app), turns, waiting })
    }

    /// What the handlers reach, for tests and for those who put the routes elsewhere.
    pub fn app(&self) -> &Arc<App> {
        &self.app
    }

    /// All routes, behind the door.
    pub fn routes(app: &Arc<App>) -> Router {
        let routes = Router::new()
            .route("/ping", get(runtime::ping))
            .route("/invocations", post(runtime::invoke))
            .route("/ws", get(socket::upgrade))
            .route("/metrics", get(metrics))
            .route(peers::ROUTE, get(forward::prove))
            .merge(rest::routes())
            .merge(if app.page { page::routes() } else { Router::new() })
            .fallback(rest::unknown)
            .method_not_allowed_fallback(rest::wrong_method)
            .layer(from_fn_with_state(app.clone(), forward::forward))
            .layer(axum::extract::DefaultBodyLimit::max(app.limits().body))
            .layer(from_fn_with_state(app.clone(), admit));
        routes.with_state(app.clone())
    }

    /// Listens at the owner's socket in the home, in place of what an earlier server left there: nobody else serves this home.
    pub fn owner_socket(&self) -> std::io::Result<OwnerSocket> {
        OwnerSocket::bind(self.app.hub.realms().home())
    }

    /// Serves until it is told to stop, and then as long as it takes to lose nothing, within bounds.
    pub async fn run(
        self,
        listener: TcpListener,
        owner_socket: Option<OwnerSocket>,
        stop: impl Future<Output = ()>,
    ) -> std::io::Result<()> {
        let Self { app, turns, waiting } = self;
        let over = CancellationToken::new();
        let connections = TaskTracker::new();
        let chores = turns.spawn(chores(app.clone(), waiting, over.clone()));
        let addresses = Arc::new(Addresses::default());
        let routes = Self::routes(&app);
        let limits = *app.limits();
        tokio::pin!(stop);
        loop {
            let accepted = tokio::select! {
                biased;
                () = &mut stop => break,
                accepted = listener.accept() => accepted.map(|(stream, peer)| (Stream::Tcp(stream), Peer::at(peer))),
                accepted = owner_socket::accept(owner_socket.as_ref()) => {
                    accepted.map(|knock| (Stream::Unix(knock.stream), Peer::at_socket(knock.is_owner)))
                }
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Too many open files, or a client that went before it was heard.
                    tracing::warn!(%error, "a connection was not accepted");
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    continue;
                }
            };
            let Some(counted) = addresses.count(peer.address, &limits) else {
                app.hub.shared().metrics.refuse(&Problem::new(Code::TooMany, ""));
                continue;
            };
            let connection = Connection::new(app.hub.shared().clone(), counted, connections.clone(), over.clone());
            let routes = routes.clone();
            connections.spawn(async move {
                match stream {
                    Stream::Tcp(stream) => {
                        if let Err(error) = stream.set_nodelay(true) {
                            tracing::debug!(%error, "small packets may wait");
                        }
                        converse(stream, peer, routes, &limits, connection).await;
                    }
                    Stream::Unix(stream) => converse(stream, peer, routes, &limits, connection).await,
                }
            });
        }
        drop((listener, owner_socket));
        app.hub.stop(limits.shutdown * 3 / 4).await;
        over.cancel();
        connections.close();
        chores.abort();
        let (closed, sent) = tokio::join!(
            tokio::time::timeout(limits.shutdown / 4, connections.wait()),
            tokio::time::timeout(limits.shutdown / 4, app.entries.end()),
        );
        if closed.is_err() {
            tracing::warn!("some connections were not closed in time");
        }
        if sent != Ok(true) {
            tracing::warn!("entries that are not at the remote yet are sent after the next start");
        }
        app.hub.shared().ledger.close();
        // Blocking work that is still going on is not waited for.
        turns.shutdown_background();
        Ok(())
    }
}

/// A connection that was accepted.
enum Stream {
    Tcp(tokio::net::TcpStream),
    Unix(tokio::net::UnixStream),
}

/// One connection, request after request.
async fn converse<S>(stream: S, peer: Peer, routes: Router, limits: &Limits, own: Connection)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let over = own.over.clone();
    let service = hyper::service::service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(peer);
        request.extensions_mut().insert(own.clone());
        routes.clone().oneshot(request)
    });
    let stream = Impatient::new(stream, limits.send);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.handshake)
        .max_buf_size(limits.handshake_bytes.max(LEAST_HEAD))
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    tokio::pin!(connection);
    let mut is_over = false;
    loop {
        tokio::select! {
            served = connection.as_mut() => {
                if let Err(error) = served {
                    tracing::debug!(%error, "a connection broke");
                }
                return;
            }
            () = over.cancelled(), if !is_over => {
                is_over = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}

/// What is done beside: prompts of an earlier run, and what could not be done when it was due.
async fn chores(app: Arc<App>, waiting: Vec<Accepted>, over: CancellationToken) {
    let busy = (!waiting.is_empty()).then(|| app.hub.shared().activity.begin());
    app.hub.send_left(true).await;
    app.hub.recover(waiting).await;
    for realm in app.hub.realms().all() {
        if let Err(problem) = app.entries.look(&realm) {
            tracing::warn!(%problem, "what an earlier run left cannot be looked at");
        }
    }
    app.hub.look_for_unsaved(&app.entries).await;
    drop(busy);
    loop {
        tokio::select! {
            () = over.cancelled() => return,
            () = tokio::time::sleep(AGAIN) => {}
        }
        let (stranded, busy) = app.hub.shared().take_stranded();
        app.hub.recover(stranded).await;
        app.hub.send_left(false).await;
        app.entries.tend().await;
        app.hub.look_for_unsaved(&app.entries).await;
        drop(busy);
    }
}

/// Lets a request in, or not: the door, the identity, and what handlers have to know of both.
async fn admit(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str).to_owned();
    let passed = match app.door.check(&method, request.uri(), request.headers()) {
        Ok(passed) => passed,
        Err(problem) => {
            app.hub.shared().metrics.refuse(&problem);
            let mut response = problem.into_response();
            door::adorn(response.headers_mut(), &door::Passed::default());
            return told(&app, &method, &route, response);
        }
    };
    cookie::translate(&route, &passed, request.headers_mut());
    request.extensions_mut().insert(passed.clone());
    let span = trace::request(method.as_str(), &route, request.headers());
    let answering = async {
        if passed.is_preflight() {
            return StatusCode::NO_CONTENT.into_response();
        }
        if let Err(problem) = identify(&app, &route, &mut request).await {
            return problem.into_response();
        }
        let terms = Terms::of(&request, app.limits());
        // Charged until the request is answered: what was read of the body is held until then.
        let claim = Arc::new(app.hub.shared().budget.claim(sender(&request)));
        let request = match intake::bound(request, terms, &claim) {
            Ok(request) => request,
            Err(problem) => return problem.into_response(),
        };
        let run = next.run(request);
        // A stream or a long turn takes its time; everything else is due soon. A body has a time of its own to arrive in (`intake`),
        // and what comes behind it, too: so that one that comes late is told as what it is.
        match is_short(&route) {
            true => tokio::time::timeout(app.limits().body_time * 2, run).await.unwrap_or_else(|_| slow()),
            false => run.await,
        }
    };
    let mut response = answering.instrument(span.clone()).await;
    span.record("status", response.status().as_u16());
    door::adorn(response.headers_mut(), &passed);
    told(&app, &method, &route, response)
}

/// To whom the bytes of a request are charged.
fn sender(request: &Request) -> Sender {
    let extensions = request.extensions();
    Sender::new(extensions.get::<Caller>().and_then(|caller| caller.actor.as_ref()), Peer::of(extensions))
}

/// That a handler took too long, which is nothing that the client did.
fn slow() -> Response {
    Problem::new(Code::Unavailable, "the answer took too long; try again").into_response()
}

/// Whether the answer to a request is due soon.
fn is_short(route: &str) -> bool {
    !matches!(route, "/invocations" | "/ws") && !route.ends_with("/compact") && !route.ends_with("/export")
}

fn told(app: &App, method: &Method, route: &str, response: Response) -> Response {
    app.hub.shared().metrics.request(method.as_str(), route, response.status().as_u16());
    response
}

/// Places that say nothing about anybody, and those where somebody says who they are.
fn is_public(route: &str) -> bool {
    matches!(
        route,
        door::PAGE | "/ping" | peers::ROUTE | "/v1/health" | "/v1/openapi.json" | "/v1/login" | "/v1/logout"
    )
}

async fn identify(app: &Arc<App>, route: &str, request: &mut Request) -> Result<(), Problem> {
    let peer = Peer::of(request.extensions());
    if is_public(route) {
        return Ok(());
    }
    let passage = forward::passage(app, request)?;
    let headers: &HeaderMap = request.headers();
    let by_socket = Peer::is_owner(request.extensions());
    let actor = match (&passage, by_socket) {
        (Some((_, actor)), _) => Some(actor.clone()),
        (None, true) => Some(ActorId::owner()),
        (None, false) => app.identity.of_headers(headers, peer).await?,
    };
    if actor.is_none() && route != "/ws" {
        return Err(Problem::new(Code::Unauthenticated, "say who you are: `Authorization: Bearer TOKEN`"));
    }
    let passage = passage.map(|(passage, _)| passage);
    let runtime_session = match headers.get(RUNTIME_SESSION) {
        None => None,
        Some(value) => {
            let id = value.to_str().ok().and_then(RuntimeSessionId::parse);
            Some(id.ok_or_else(|| Problem::invalid("the runtime's session id is none"))?)
        }
    };
    let kept = Arc::new(headers.clone());
    if let Some(actor) = &actor {
        let realm = app.hub.realm(actor);
        request.extensions_mut().insert(realm);
    }
    let caller = Caller { actor, peer, by_socket, runtime_session, token: None, passage, headers: kept };
    request.extensions_mut().insert(caller);
    Ok(())
}

/// The numbers, for those who run the server.
async fn metrics(State(app): State<Arc<App>>, caller: axum::Extension<Caller>) -> Result<Response, Problem> {
    let is_operator = |name: &str| app.operators.iter().any(|operator| operator == name);
    let may = |actor: &ActorId| actor.is_owner() || is_operator(actor.name());
    let may = caller.actor.as_ref().is_some_and(may);
    if !may {
        return Err(Problem::new(Code::Forbidden, "these numbers are for operators (`--operator NAME`)"));
    }
    let shared = app.hub.shared();
    shared.metrics.in_flight.set(i64::try_from(shared.budget.used()).unwrap_or(i64::MAX));
    let mut response = shared.metrics.text().into_response();
    let kind = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    Ok(response)
}
