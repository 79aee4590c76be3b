//! `chat`: a conversation that goes on where it stopped.
//!
//! A [`Chat`] is one session with everything that a turn needs: the model, the tools, the settings, and what the person allowed.
//! `repl` reads lines and commands in a terminal, `oneshot` answers one prompt for scripts; both run the same turns. What is
//! remembered is in the log; this module keeps nothing that a restart would miss.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use unforget_agent::guard::Agent;
use unforget_agent::host::{Answer, Host, Notice};
use unforget_agent::model::{BoxFuture, Model};
use unforget_agent::settings::Settings;
use unforget_agent::tools::{Call, OUTSIDE, Toolbox};
use unforget_agent::turn::{Ended, Input, run_turn};
use unforget_core::directory::OnMissing;
use unforget_core::key::Key;
use unforget_core::layout::AgentDir;
use unforget_core::session::Session;
use unforget_core::summary::Row;
use unforget_remote::sync::Native;

use crate::commands::Context;
use crate::commands::remote::Place;
use crate::config::{self, Ack, Config};
use crate::failure::{Failure, Outcome, Result};
use crate::{agent, cli, secrets};

mod approval;
mod arrival;
mod banner;
mod bar;
mod caretaker;
mod cleanup;
mod courier;
mod oneshot;
mod repl;
mod signals;
mod slash;
mod terminal;

use caretaker::Caretaker;
use courier::{Courier, Delivery, Parcel};
use terminal::Allowed;

/// How long a turn may take to end after it was asked to, before the program does without.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a turn waits for its remote before the person is told that it is not there yet.
const GRACE: Duration = Duration::from_millis(500);
/// How long the end of the program waits for the remote.
const GOODBYE: Duration = Duration::from_secs(5);

/// How often what runs beside a turn gets its turn after an abort.
const LAST_STEPS: usize = 16;

/// One conversation and what its turns need.
pub(crate) struct Chat<'a> {
    context: &'a Context,
    config: Config,
    runtime: Runtime,
    session: Session,
    model: Box<dyn Model>,
    settings: Settings,
    tools: Toolbox,
    workspace: PathBuf,
    allowed: Allowed,
    busy: signals::Busy,
    /// The session's label, for the prompt.
    label: Option<String>,
    caretaker: Option<Caretaker>,
    /// What sends the session to a remote, and how it is sent.
    courier: Option<(Courier, Arc<Parcel>)>,
}

/// How a turn came to its end.
enum TurnEnd {
    Ended(Ended),
    /// The program was told to end: by a signal, or by a second Ctrl-C.
    Quit(Option<Ended>),
}

pub(crate) fn run(context: &Context, args: &cli::Chat) -> Result<Outcome> {
    let mut config = config::load(&args.flags)?;
    // A key that a flag names is the one that counts, and no tool sees it.
    config.remote_key = args.there.key_file.clone().or(config.remote_key);
    secrets::keep_to_ourselves()?;
    for note in &config.notes {
        context.tell(&format!("note: {note}"))?;
    }
    let is_set = |name| config.chosen.iter().any(|it| it.setting.name == name && it.origin != config::Origin::Default);
    if config.api_key.is_none() && config.model != "offline" && is_set("model") {
        context.tell(&format!("note: there is no key for `{}`, so the built-in model answers", config.model))?;
    }
    // Before the session is opened: a prompt may take its time to arrive, and others may write meanwhile.
    let prompt = oneshot::prompt(args)?;
    if prompt.is_none() && context.json {
        let failure = Failure::usage("`--json` needs a prompt");
        return Err(failure.hint("`unforget chat -p \"…\" --json` prints events as JSON"));
    }
    let courier = match args.no_remote {
        true => None,
        false => Place::find(context, &args.there, &config)?,
    };
    let courier = courier.map(|place| Courier::start(place, &context.store)).transpose()?;
    if courier.is_none() && config.ack == Ack::Remote {
        return Err(
            Failure::usage("`--ack remote` needs a remote").hint("`--remote URL`, or `unforget config set remote URL`")
        );
    }
    let session = open(context, args, &config.key, courier.as_ref())?;
    let mut chat = Chat::new(context, config, session)?;
    if let Some(courier) = courier {
        let parcel = chat.parcel(courier.place(), &chat.session)?;
        chat.courier = Some((courier, parcel));
    }
    let outcome = match prompt {
        Some(prompt) => oneshot::run(&mut chat, &prompt),
        None => {
            if let Some(note) = agent::sandbox_note(&chat.config) {
                context.tell(&format!("note: {note}"))?;
            }
            chat.caretaker = Some(Caretaker::start(context.catalog.clone()));
            repl::run(&mut chat)
        }
    };
    // Also what was written before something went wrong.
    chat.turned();
    drop(chat.caretaker.take());
    let courier = chat.courier.take();
    context.close(chat.session);
    if let Some((courier, parcel)) = courier {
        let address = courier.place().address.clone();
        // In a script the answer has told it already.
        if let (Delivery::Waiting(why), None) = (courier.finish(&parcel, GOODBYE), &args.prompt) {
            context.tell(&format!("note: {}", courier::not_yet(why.as_deref(), &address)))?;
        }
    }
    outcome
}

/// The session that was asked for.
fn open(context: &Context, args: &cli::Chat, key: &Key, courier: Option<&Courier>) -> Result<Session> {
    let fetched = courier.map(|courier| courier.block_on(arrival::fetch(context, courier.place(), args, key)));
    let opened = match (fetched.transpose()?.flatten(), &args.session, args.new) {
        (Some(entry), _, _) => context.store.open(&entry),
        (None, Some(name), _) => context.store.open(&context.resolve(name)?),
        (None, None, true) => context.store.create(key, args.label.as_deref()),
        (None, None, false) => last_used(context, key),
    };
    opened.map_err(|error| {
        let busy = matches!(error, unforget_core::Error::Busy { .. });
        let failure = Failure::from(error);
        if busy { failure.hint("`unforget chat --new` starts another conversation beside it") } else { failure }
    })
}

/// The session of the key that was used last, whichever was begun last; a new one if there is none.
fn last_used(context: &Context, key: &Key) -> unforget_core::error::Result<Session> {
    match context.catalog.last_used(key, &mut |_, _| {})?.value {
        Some(entry) => context.store.open(&entry),
        None => context.catalog.load(key, OnMissing::Create),
    }
}

impl<'a> Chat<'a> {
    fn new(context: &'a Context, config: Config, session: Session) -> Result<Self> {
        let workspace = std::path::absolute(&config.workspace)?;
        let confined = agent::confine(&context.home, &config, &workspace)?;
        let commands = agent::commands(&context.home, &config, &secrets::list(&config, &[])?)?;
        let tools = unforget_agent::tools::standard(confined, commands, context.store.source().clone());
        let settings = agent::settings(&config)?;
        let model = agent::model(&config)?;
        let tools = Toolbox::new(tools);
        if let Some(unknown) =
            config.allow.iter().find(|name| *name != "all" && *name != OUTSIDE && tools.find(name).is_none())
        {
            let names: Vec<&str> = tools.names().collect();
            return Err(Failure::usage(format!("there is no tool `{unknown}` to be allowed"))
                .hint(format!("there are: {}, {OUTSIDE}, and `all`", names.join(", "))));
        }
        let mut allowed = Allowed::default();
        allowed.by_setting.extend(config.allow.iter().cloned());
        let busy = signals::listen()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let label = None;
        let (caretaker, courier) = (None, None);
        Self {
            context,
            config,
            runtime,
            session,
            model,
            settings,
            tools,
            workspace,
            allowed,
            busy,
            label,
            caretaker,
            courier,
        }
        .labelled()
    }

    /// A session, as it is sent to a remote.
    fn parcel(&self, place: &Place, session: &Session) -> Result<Arc<Parcel>> {
        let (key, id) = (session.key().clone(), session.id());
        let dir = AgentDir::of(key.agent());
        let local = Native::new(&self.context.store, &dir, id);
        let row = session.row()?;
        let (stream, created_ms) = (place.stream(&dir, id)?, row.created_ms.unwrap_or_default());
        Ok(Arc::new(Parcel { local, stream, key, created_ms, standing: watch::Sender::default() }))
    }

    /// Says that something is about to be written.
    fn expect(&self) -> Result<()> {
        self.courier.as_ref().map_or(Ok(()), |(courier, parcel)| courier.expect(parcel))
    }

    /// Sends what was written, and waits for the remote: as long as it takes if only that counts as saved, else for a moment.
    fn deliver(&self, moment: Duration) -> Result<Delivery> {
        let Some((courier, parcel)) = &self.courier else { return Ok(Delivery::There) };
        courier.carry(parcel);
        let longest = (self.config.ack == Ack::Local).then_some(moment);
        courier.block_on(async {
            let mut interrupt = signal(SignalKind::interrupt())?;
            Ok(tokio::select! {
                biased;
                delivery = courier.wait(parcel, longest) => delivery,
                _ = interrupt.recv() => Delivery::Waiting(Some("it was not waited for".to_owned())),
            })
        })
    }

    fn agent(&self) -> Agent<'_> {
        Agent { model: self.model.as_ref(), settings: &self.settings }
    }

    /// Has the index and the remote told of what was written.
    fn turned(&self) {
        if let Some(caretaker) = &self.caretaker {
            caretaker.turned(self.session.touched());
        }
        if let Some((courier, parcel)) = &self.courier {
            courier.carry(parcel);
        }
    }

    /// What a list would say about the session.
    fn row(&self) -> Result<Row> {
        Ok(self.session.row()?)
    }

    fn labelled(mut self) -> Result<Self> {
        self.label = self.row()?.label;
        Ok(self)
    }

    /// Goes on in another session.
    fn take_up(&mut self, session: Session) -> Result<()> {
        self.turned();
        let row = session.row()?;
        let parcel = match &self.courier {
            Some((courier, _)) => {
                let parcel = self.parcel(courier.place(), &session)?;
                courier.take_up(&parcel, row.turns > 0)?;
                Some(parcel)
            }
            None => None,
        };
        self.context.close(std::mem::replace(&mut self.session, session));
        self.label = row.label;
        if let (Some((_, current)), Some(parcel)) = (&mut self.courier, parcel) {
            *current = parcel;
        }
        self.expect()
    }
}

/// A host beside which the words leave for a remote as soon as they are on the disk.
struct Hurried<'a> {
    host: &'a mut dyn Host,
    courier: Option<&'a (Courier, Arc<Parcel>)>,
}

impl Host for Hurried<'_> {
    fn tell(&mut self, notice: Notice<'_>) {
        if let (Notice::Saved { .. }, Some((courier, parcel))) = (&notice, self.courier) {
            courier.hurry(parcel);
        }
        self.host.tell(notice);
    }

    fn standing(&self, call: &Call) -> Option<Answer> {
        self.host.standing(call)
    }

    fn approve<'a>(&'a mut self, call: &'a Call) -> BoxFuture<'a, Answer> {
        self.host.approve(call)
    }
}

/// Runs a turn; Ctrl-C aborts it, a second one or another signal ends the program.
fn drive(
    runtime: &Runtime,
    session: &mut Session,
    input: Input<'_>,
    agent: &Agent<'_>,
    tools: &Toolbox,
    host: &mut dyn Host,
    abort: &CancellationToken,
) -> Result<TurnEnd> {
    runtime.block_on(async {
        let (mut interrupt, mut terminate, mut hangup) =
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?, signal(SignalKind::hangup())?);
        let turn = run_turn(session, input, agent, tools, host, abort);
        tokio::pin!(turn);
        let mut quit = false;
        loop {
            tokio::select! {
                biased;
                ended = &mut turn => {
                    let ended = ended?;
                    hang_up(abort).await;
                    return Ok(if quit { TurnEnd::Quit(Some(ended)) } else { TurnEnd::Ended(ended) });
                }
                _ = interrupt.recv() => quit |= abort.is_cancelled(),
                _ = terminate.recv() => quit = true,
                _ = hangup.recv() => quit = true,
            }
            abort.cancel();
            if quit {
                let patience = tokio::time::timeout(PATIENCE, &mut turn).await;
                let ended = patience.ok().transpose()?;
                return Ok(TurnEnd::Quit(ended));
            }
        }
    })
}

/// Lets the connection of an aborted call close. Nothing runs between two turns, and a server that is still connected
/// goes on answering, which costs.
async fn hang_up(abort: &CancellationToken) {
    if abort.is_cancelled() {
        for _ in 0..LAST_STEPS {
            tokio::task::yield_now().await;
        }
    }
}

/// Does something with the model that is not a turn; Ctrl-C aborts it.
fn beside<T>(runtime: &Runtime, abort: &CancellationToken, work: impl Future<Output = T>) -> Result<T> {
    runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        tokio::pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => {
                    hang_up(abort).await;
                    return Ok(done);
                }
                _ = interrupt.recv() => abort.cancel(),
            }
        }
    })
}

impl From<unforget_agent::Error> for Failure {
    fn from(error: unforget_agent::Error) -> Self {
        use unforget_agent::model::ModelError;
        match error {
            unforget_agent::Error::Store(error) => error.into(),
            unforget_agent::Error::Model(error) => {
                let failure = Failure::new(error.to_string());
                match error {
                    ModelError::Denied { .. } => {
                        failure.hint("check ANTHROPIC_API_KEY; `unforget config` tells what is set")
                    }
                    ModelError::Unreachable { .. } => {
                        failure.hint("check the network and ANTHROPIC_BASE_URL; your words are saved")
                    }
                    ModelError::Cut { .. } => failure.hint("what came is saved; `/retry` in the chat asks again"),
                    _ => failure.hint("your words are saved; `/retry` in the chat asks again"),
                }
            }
            other => Failure::new(other.to_string()),
        }
    }
}
