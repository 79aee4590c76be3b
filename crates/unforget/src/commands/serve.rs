//! `serve`: sessions behind a socket.
//!
//! What the library is not told it does not know: here the environment, the configuration and the command line become a server. It is looked at
//! before it starts ([`Posture`]), and does not start if a stranger could come in.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use secrecy::{ExposeSecret as _, SecretString};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use unforget_agent::tools::{Toolbox, Workspace, standard};
use unforget_core::medium::{Medium as _, Os};
use unforget_core::stamp::{SharedSource, System};
use unforget_server::Limits;
use unforget_server::agent::{Agent, Agents, ClaudeCode, Native};
use unforget_server::door::Door;
use unforget_server::fleet;
use unforget_server::identity::jwt::{Jwt, KeysFrom, Terms};
use unforget_server::identity::tokens::Tokens;
use unforget_server::identity::{Identity, Owner, Ways};
use unforget_server::peers::{ClusterKey, KeyError};
use unforget_server::posture::{Facts, Posture};
use unforget_server::serve::{Config as Serving, Server};

use crate::cli;
use crate::commands::Context;
use crate::commands::remote::Place;
use crate::config::{self, Ack, Config, Origin};
use crate::failure::{Failure, Outcome, Result};
use crate::home::split_path;
use crate::{agent, secrets};

mod allocator;
mod owner_door;

/// The tool that runs commands.
const COMMANDS: &str = "bash";
/// The agent that is Claude Code.
const CLAUDE: &str = unforget_core::layout::CLAUDE_AGENT;
/// What `--allow-host` says for every name.
const ANY_HOST: &str = "*";
/// Threads that turns run on, for each core: they wait for the disk most of the time.
const THREADS_PER_CORE: usize = 4;

pub(crate) fn run(context: &Context, args: &cli::Serve) -> Result<Outcome> {
    if args.link {
        return owner_door::print_link(context, args.open);
    }
    allocator::give_back();
    let config = config::load(&args.flags)?;
    secrets::keep_to_ourselves()?;
    for note in &config.notes {
        context.tell(&format!("note: {note}"))?;
    }
    // What a task panics with may hold somebody's words; where it did is all that the log needs.
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, "a task failed");
    }));
    let limits = limits(&args.limit)?;
    let source: SharedSource = Arc::new(System);
    let runtime = tokio::runtime::Builder::new_multi_thread().thread_name("server").enable_all().build()?;
    let listener = match args.check {
        true => None,
        false => Some(listen(&runtime, args.listen)?),
    };
    let address = match &listener {
        Some(listener) => listener.local_addr()?,
        None => args.listen,
    };
    let medium = Os::new(context.home.clone());
    medium.create_dir(Path::new(""))?;
    let mut ways = ways(args, &config, &source)?;
    if ways.tokens.is_none() && ways.jwt.is_none() && !ways.trust_runtime_headers {
        let url = format!("http://{address}");
        ways.owner = Some(match args.check {
            true => Owner::unsaved(&medium, &url)?,
            false => Owner::open(&medium, &url)?,
        });
    }
    let identity = Identity::new(ways, &limits, source.clone());
    let advertised = args.advertise.clone().unwrap_or_else(|| format!("http://{}", reachable(address)));
    let place = match args.no_remote {
        true => None,
        false => Place::find(context, &args.there, &config)?,
    };
    let door = door(args, address, place.as_ref().map(|_| advertised.as_str()))?;
    let cluster_key = cluster_key(args, place.is_some())?;
    let shown = place.as_ref().map(|place| place.address.to_string());
    let remote = shown.as_deref();
    let cluster = cluster_key.as_ref().map(|_| advertised.as_str());
    let facts = Facts { address, identity: &identity, door: &door, limits: &limits, home: &medium, remote, cluster };
    let posture = Posture::look(&facts);
    if args.check {
        let mut out = anstream::stdout().lock();
        match context.json {
            true => writeln!(out, "{}", posture.to_json())?,
            false => write!(out, "{}", posture.to_text())?,
        }
        return match posture.is_dangerous() {
            true => Err(Failure::new("the server would not start like this")),
            false => Ok(Outcome::Done),
        };
    }
    if posture.is_dangerous() {
        let dangers =
            posture.findings.iter().filter(|finding| finding.level == unforget_server::posture::Level::Danger);
        let failure = Failure::usage("the server does not start like this");
        return Err(dangers.fold(failure, |failure, finding| {
            failure.hint(format!("{}: {} {}", finding.what, finding.why, finding.fix))
        }));
    }
    if let Some(jwt) = &identity.ways().jwt
        && let Err(error) = runtime.block_on(jwt.fetch())
    {
        context.tell(&format!("note: the issuer's keys cannot be had yet: {error}"))?;
    }
    let is_shared = identity.is_shared();
    let token_file = identity.ways().owner.as_ref().map(|owner| owner.place().to_path_buf());
    let agents = agents(context, args, &config, &source, is_shared)?;
    let names = agents.names().join(", ");
    if let Some(place) = &place {
        // Nothing is sent open to where others seal.
        match runtime.block_on(place.remote.ready()) {
            Err(error) if !error.is_passing() => return Err(error.into()),
            Err(error) => context.tell(&format!("note: {error}; sessions of other servers cannot be served yet"))?,
            Ok(()) => {}
        }
    }
    let home = context.store.home_name()?;
    let fleet = place.map(|place| {
        let known_as = place.known_as();
        fleet::Settings {
            tenant: place.tenant.clone(),
            remote: Arc::new(place.remote),
            known_as,
            home,
            address: advertised,
            source: source.clone(),
            is_awaited: config.ack == Ack::Remote,
            lease: limits.lease,
            cluster_key,
        }
    });
    if fleet.is_none() && config.ack == Ack::Remote {
        return Err(
            Failure::usage("`--ack remote` needs a remote").hint("`--remote URL`, or `unforget config set remote URL`")
        );
    }
    let threads = std::thread::available_parallelism().map_or(2, std::num::NonZero::get) * THREADS_PER_CORE;
    let server = Server::new(Serving {
        home: context.home.clone(),
        agents,
        allowed: config.allow.clone(),
        identity,
        door,
        operators: args.operator.clone(),
        limits,
        fleet,
        source,
        threads,
        prices: config.prices.clone(),
        page: !args.no_page,
    })
    .map_err(|error| match error {
        unforget_server::serve::StartError::Store(error @ unforget_core::Error::Busy { .. }) => {
            Failure::from(error).hint("another `unforget serve` uses this home; `--home DIR` serves another one")
        }
        unforget_server::serve::StartError::Store(error) => error.into(),
        other => Failure::new(other.to_string()),
    })?;
    let Some(listener) = listener else { return Ok(Outcome::Done) };
    let owner_socket = match &token_file {
        Some(_) => owner_door::listen(context, &runtime, &server)?,
        None => None,
    };
    let link = match args.no_page {
        true => None,
        false => server.app().identity.new_link().transpose()?,
    };
    let started = owner_door::Started {
        address,
        token_file: token_file.as_deref(),
        owner_socket: owner_socket.as_ref(),
        link: link.as_ref(),
    };
    started.tell(context, &names)?;
    if let Some(link) = link.as_ref().filter(|_| args.open) {
        owner_door::open_browser(context, link.url.expose_secret())?;
    }
    runtime.block_on(async {
        let stop = stopped()?;
        server.run(listener, owner_socket, stop).await
    })?;
    owner_door::forget_browser(context);
    runtime.shutdown_background();
    #[cfg(feature = "otel")]
    crate::traces::end();
    Ok(Outcome::Done)
}

/// Where other servers find one that listens there: by this machine's name if it listens everywhere.
fn reachable(address: SocketAddr) -> String {
    if !address.ip().is_unspecified() {
        return address.to_string();
    }
    let system = rustix::system::uname();
    format!("{}:{}", system.nodename().to_string_lossy(), address.port())
}

fn listen(runtime: &tokio::runtime::Runtime, address: SocketAddr) -> Result<TcpListener> {
    runtime.block_on(TcpListener::bind(address)).map_err(|error| {
        let failure = Failure::new(format!("cannot listen on {address}: {error}"));
        match error.kind() {
            std::io::ErrorKind::AddrInUse => {
                failure.hint("another program has this port; `--listen 127.0.0.1:8081` takes another one")
            }
            _ => failure,
        }
    })
}

/// Ends when the program is told to; a second time, it ends at once.
fn stopped() -> Result<impl Future<Output = ()>, std::io::Error> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        tracing::info!("stopping");
        tokio::spawn(async move {
            interrupt.recv().await;
            std::process::exit(130);
        });
    })
}

/// The bounds, with those that were given in place of the usual ones.
fn limits(given: &[String]) -> Result<Limits> {
    let mut limits = Limits::default();
    for text in given {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        limits.set(name, value).map_err(|why| Failure::usage(format!("`--limit {text}`: {why}")))?;
    }
    Ok(limits)
}

/// How people are recognised.
fn ways(args: &cli::Serve, config: &Config, source: &SharedSource) -> Result<Ways> {
    let path = args.tokens.clone().unwrap_or_else(|| config.file.with_file_name(secrets::TOKENS));
    // One that is a link is read where it leads to, as `token` changes it.
    let path = path.canonicalize().unwrap_or(path);
    let (folder, name) = split_path(&path);
    let medium = Arc::new(Os::new(folder));
    let is_there = match medium.stat(&name) {
        Ok(_) => true,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
        // A file that cannot be looked at may have tokens: nobody is let in without one for that.
        Err(error) => return Err(Failure::new(format!("the tokens in `{}` cannot be read: {error}", path.display()))),
    };
    if args.tokens.is_some() && !is_there {
        return Err(Failure::usage(format!("there are no tokens in `{}`", path.display()))
            .hint("`unforget token add NAME` makes one"));
    }
    let tokens = match is_there && !args.no_tokens {
        true => Some(Tokens::load(medium, name, source.clone())?),
        false => None,
    };
    // A file without a token lets nobody in, and nobody would have meant that.
    let is_empty = tokens.as_ref().is_some_and(|tokens| tokens.list().is_ok_and(|list| list.is_empty()));
    let tokens = tokens.filter(|_| args.tokens.is_some() || !is_empty);
    let jwt = match &args.issuer {
        None => None,
        Some(issuer) => {
            let terms =
                Terms { issuer: issuer.clone(), audiences: args.audience.clone(), claim: args.actor_claim.clone() };
            Some(Jwt::new(terms, keys_from(args.jwks.as_deref()), source.clone())?)
        }
    };
    Ok(Ways { owner: None, tokens, jwt, trust_runtime_headers: args.trust_runtime_headers })
}

fn keys_from(given: Option<&str>) -> KeysFrom {
    match given {
        None => KeysFrom::Discovery,
        Some(text) if text.contains("://") => KeysFrom::Url(text.to_owned()),
        Some(text) => {
            let (folder, name) = split_path(Path::new(text));
            KeysFrom::File { medium: Arc::new(Os::new(folder)), path: name }
        }
    }
}

fn door(args: &cli::Serve, address: SocketAddr, advertised: Option<&str>) -> Result<Door> {
    let mut door = Door::new(address);
    for host in &args.allow_host {
        door = match host.as_str() {
            ANY_HOST => door.any_host(),
            host => door.allow_host(host)?,
        };
    }
    // Other servers come by the name that this one told them.
    if let Some((_, rest)) = advertised.and_then(|url| url.split_once("://")) {
        door = door.allow_host(rest.trim_end_matches('/'))?;
    }
    for origin in &args.allow_origin {
        door = door.allow_origin(origin)?;
    }
    Ok(door)
}

fn agents(
    context: &Context,
    args: &cli::Serve,
    config: &Config,
    source: &SharedSource,
    is_shared: bool,
) -> Result<Agents> {
    let names = if args.agents.is_empty() { config.agents.clone() } else { args.agents.clone() };
    let mut agents: Vec<Arc<dyn Agent>> = Vec::new();
    for name in &names {
        if agents.iter().any(|agent| agent.name() == name) {
            return Err(Failure::usage(format!("the agent `{name}` is named twice")));
        }
        if name == CLAUDE {
            if is_shared && !args.share_commands {
                return Err(Failure::usage("Claude Code runs commands, and several people would share this machine")
                    .hint("`--share-commands` says that this is meant, as in a container for each session"));
            }
            agents.push(Arc::new(claude(config)?));
            continue;
        }
        agents.push(Arc::new(native(context, args, config, source, name, is_shared)?));
    }
    Agents::new(agents).ok_or_else(|| Failure::usage("a server needs an agent").hint("`--agents main`"))
}

/// The built-in agent. Its tools work in a folder of the session's own, unless the owner named one.
fn native(
    context: &Context,
    args: &cli::Serve,
    config: &Config,
    source: &SharedSource,
    name: &str,
    is_shared: bool,
) -> Result<Native> {
    let is_set = config.chosen.iter().any(|it| it.setting.name == "workspace" && it.origin != Origin::Default);
    if is_set && is_shared && !args.share_commands {
        return Err(Failure::usage("several people would share the workspace")
            .hint("leave `--workspace` out: each session has a folder of its own then"));
    }
    let workspace = match is_set {
        true => Some(std::path::absolute(&config.workspace)?),
        false => None,
    };
    let has_commands = !is_shared || args.share_commands;
    let (home, clock) = (context.home.clone(), source.clone());
    let hidden =
        secrets::list(config, &[args.tokens.as_deref(), args.there.key_file.as_deref(), args.cluster_key.as_deref()])?;
    let commands = agent::commands(&context.home, config, &hidden)?;
    if let Some(note) = agent::sandbox_note(config).filter(|_| has_commands) {
        context.tell(&format!("note: {note}"))?;
    }
    let tools = move |realm: &unforget_server::realm::Realm, session: &unforget_core::stamp::SessionId| {
        let folder = match &workspace {
            Some(folder) => folder.clone(),
            None => realm.work(session)?,
        };
        // The sessions are none of the tools' business, and the folder may be beneath the same home.
        let confined = match &workspace {
            Some(_) => Workspace::open(&folder, &home)?,
            // Of the actor's own, which are there: those of somebody else are not beneath the folder anyway.
            None => Workspace::open(&folder, &realm.root().join("agents"))?,
        };
        let tools = standard(confined.hiding(hidden.clone())?, commands.clone(), clock.clone());
        Ok(Toolbox::new(tools.into_iter().filter(|tool| has_commands || tool.name() != COMMANDS).collect()))
    };
    Ok(Native {
        name: name.to_owned(),
        model: Arc::from(agent::model(config)?),
        settings: Arc::new(agent::settings(config)?),
        tools: Arc::new(tools),
    })
}

/// Claude Code, with the key and the address of the API and nothing else of this program's environment.
fn claude(config: &Config) -> Result<ClaudeCode> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let program = config.claude_program.clone().unwrap_or_else(|| "claude".into());
    let program = match program.components().count() {
        1 => std::env::split_paths(&path)
            .map(|folder| folder.join(&program))
            .find(|found| found.is_file())
            .ok_or_else(|| {
                Failure::usage("there is no program `claude` to be found")
                    .hint("install Claude Code, or say where it is: `unforget config set claude_program PATH`")
            })?,
        _ => program,
    };
    let secret = |name: &str| {
        let value = std::env::var(name).ok().filter(|value| !value.is_empty())?;
        Some((name.to_owned(), SecretString::from(value)))
    };
    let names = ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_OAUTH_TOKEN"];
    let environment = names.iter().filter_map(|name| secret(name)).collect();
    let (arguments, folder) = (config.claude_arguments.clone(), config.claude_folder.clone());
    Ok(ClaudeCode { program, arguments, folder, path, environment })
}

/// The secret that the servers of a cluster share.
fn cluster_key(args: &cli::Serve, has_remote: bool) -> Result<Option<ClusterKey>> {
    let Some(path) = &args.cluster_key else { return Ok(None) };
    if !has_remote {
        return Err(Failure::usage("`--cluster-key` needs a remote: the servers of a cluster share one")
            .hint("`--remote URL`, or `unforget config set remote URL`"));
    }
    let (folder, name) = split_path(path);
    let shown = path.display();
    ClusterKey::read(&Os::new(folder), &name).map(Some).map_err(|error| {
        let failure = Failure::usage(error.to_string());
        match error {
            KeyError::Missing(_) | KeyError::Weak(_) => failure
                .hint(format!("`(umask 077; openssl rand -hex 32 > {shown})` makes one; copy it to every server")),
            KeyError::Exposed { .. } => failure.hint(format!("`chmod 600 {shown}`")),
            _ => failure,
        }
    })
}
