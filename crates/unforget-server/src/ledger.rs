//! The prompts that were accepted and whose turns have not ended: so that a restart loses none.
//!
//! One file of JSON lines, `server/accepted.jsonl` beneath the home: a line when a prompt is accepted, with its words, and a line when its turn has
//! ended, however it did. What has no end when the server starts is run, or told to have been interrupted. A prompt that has to wait is safe here
//! before its client is told so; one that runs at once is safe in the transcript, and its line here need not wait for the disk.
//!
//! Whoever holds the file's lock is the server of this home; a second one is refused. Lines of several sessions go to the disk together:
//! a thread takes what has gathered, writes it at once and answers all.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use unforget_core::error::Error;
use unforget_core::layout::AgentDir;
use unforget_core::log::{Durability, Log};
use unforget_core::medium::{Medium, Os, publish_durable, replace_durable};
use unforget_core::reader::LogReader;
use unforget_core::stamp::SessionId;

use crate::actor::ActorId;
use crate::error::{Problem, Result};
use crate::protocol::ClientId;
use crate::realm::Name;

const FILE: &str = "server/accepted.jsonl";
/// The file is written anew with what is still open when it has grown by as much as was open the last time, and this many bytes more: so
/// what is open, however much that is, is not written again with every prompt.
const LARGE: u64 = 16 << 20;
/// How many lines go to the disk together at the most.
const TOGETHER: usize = 1024;

/// A prompt that was accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// What the line is called that ends it.
    pub id: String,
    /// Whose.
    pub actor: ActorId,
    /// In which session.
    pub session: Name,
    /// What the client calls it.
    pub client_id: ClientId,
    /// The words.
    pub prompt: String,
    /// Whether somebody may be there to answer questions about it.
    pub is_attended: bool,
}

#[derive(Serialize, Deserialize)]
struct Wire<'a> {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    accept: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    end: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    actor: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    agent: Option<std::borrow::Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session: Option<std::borrow::Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client_id: Option<std::borrow::Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    prompt: Option<std::borrow::Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    attended: Option<bool>,
}

const NOTHING: Wire<'static> = Wire {
    accept: None,
    end: None,
    actor: None,
    agent: None,
    session: None,
    client_id: None,
    prompt: None,
    attended: None,
};

impl Accepted {
    fn encode(&self) -> String {
        let wire = Wire {
            accept: Some(self.id.clone()),
            actor: Some(self.actor.to_text()),
            agent: Some(self.session.dir.as_str().into()),
            session: Some(self.session.id.as_str().into()),
            client_id: Some(self.client_id.as_str().into()),
            prompt: Some(self.prompt.as_str().into()),
            attended: Some(self.is_attended),
            ..NOTHING
        };
        line(&wire)
    }

    fn decode(wire: Wire<'_>) -> Option<Self> {
        Some(Self {
            id: wire.accept?,
            actor: ActorId::from_text(&wire.actor?)?,
            session: Name { dir: AgentDir::found(&wire.agent?), id: SessionId::parse(&wire.session?)? },
            client_id: ClientId::parse(&wire.client_id?)?,
            prompt: wire.prompt?.into_owned(),
            is_attended: wire.attended.unwrap_or(true),
        })
    }
}

fn line(wire: &Wire<'_>) -> String {
    // A struct of strings cannot fail to be written.
    let mut line = serde_json::to_string(wire).unwrap_or_default();
    line.push('\n');
    line
}

/// What the thread is told.
enum Order {
    Accept(Box<Accepted>, Option<oneshot::Sender<Result<()>>>),
    End(String),
}

/// The accepted prompts of a home.
#[derive(Debug)]
pub struct Ledger(Mutex<Option<(mpsc::Sender<Order>, JoinHandle<()>)>>);

impl Ledger {
    /// Opens the ledger of a home, and tells what has no end yet, in the order in which it was accepted.
    pub fn open(home: &Path) -> unforget_core::Result<(Self, Vec<Accepted>)> {
        let medium: Arc<dyn Medium> = Arc::new(Os::new(home.to_path_buf()));
        let path = Path::new(FILE);
        let failed = |action| move |source| Error::Io { action, path: path.to_path_buf(), source };
        medium.create_dir(Path::new("server")).map_err(failed("create the directory of"))?;
        publish_durable(medium.as_ref(), path, b"").map_err(failed("create"))?;
        let (log, sealed) = Log::open(medium.clone(), path, Durability::PowerLoss)?;
        if let Some(sealed) = sealed {
            tracing::warn!(%sealed, "the ledger of accepted prompts");
        }
        let open = open_ones(medium.as_ref(), path)?;
        let waiting = open.values().cloned().collect();
        let mut writer = Writer { medium, log, open, enough: LARGE };
        if !writer.log.is_empty() {
            writer.begin_anew()?;
        }
        let (orders, received) = mpsc::channel();
        let name = std::thread::Builder::new().name("ledger".to_owned());
        let thread = name.spawn(move || writer.work(&received)).map_err(failed("start the writer of"))?;
        Ok((Self(Mutex::new(Some((orders, thread)))), waiting))
    }

    /// Writes a prompt down that need not wait for the disk, because its words are safe elsewhere before anybody is told.
    pub fn note(&self, accepted: Accepted) {
        self.send(Order::Accept(Box::new(accepted), None));
    }

    /// Has a prompt written down, in the order of the calls; when what is returned was waited for, it survives a loss of power.
    pub fn accept(&self, accepted: Accepted) -> impl Future<Output = Result<()>> + Send + use<> {
        let (sender, receiver) = oneshot::channel();
        self.send(Order::Accept(Box::new(accepted), Some(sender)));
        async { receiver.await.unwrap_or_else(|_| Err(Problem::internal("the ledger", &"its thread is gone"))) }
    }

    /// Says that the turn of a prompt has ended.
    pub fn end(&self, id: &str) {
        self.send(Order::End(id.to_owned()));
    }

    fn send(&self, order: Order) {
        let writer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if writer.as_ref().is_none_or(|(orders, _)| orders.send(order).is_err()) {
            tracing::error!("the ledger of accepted prompts is not written any more");
        }
    }

    /// Writes what is still to be written, and lets go of the home. Nothing is accepted any more.
    pub fn close(&self) {
        let writer = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some((orders, thread)) = writer else { return };
        drop(orders);
        if thread.join().is_err() {
            tracing::error!("the ledger's thread did not end well");
        }
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        self.close();
    }
}

/// The prompts of a file that have no end, by their ids, which rise.
fn open_ones(medium: &dyn Medium, path: &Path) -> unforget_core::Result<BTreeMap<String, Accepted>> {
    let reader = LogReader::open(medium, path)?;
    let (mut forward, mut open) = (reader.forward(0), BTreeMap::new());
    while let Some(line) = forward.next()? {
        let wire = serde_json::from_slice::<Wire<'_>>(line.bytes);
        match wire {
            Ok(Wire { end: Some(id), .. }) => drop(open.remove(&id)),
            Ok(wire) => match Accepted::decode(wire) {
                Some(accepted) => drop(open.insert(accepted.id.clone(), accepted)),
                None => tracing::error!(offset = line.offset, "a line of the ledger names no prompt"),
            },
            Err(error) => tracing::error!(offset = line.offset, %error, "a line of the ledger cannot be read"),
        }
    }
    Ok(open)
}

struct Writer {
    medium: Arc<dyn Medium>,
    log: Log,
    open: BTreeMap<String, Accepted>,
    /// From how many bytes on the file is written anew.
    enough: u64,
}

impl Writer {
    fn work(mut self, orders: &mpsc::Receiver<Order>) {
        while let Ok(first) = orders.recv() {
            let (mut batch, mut waiting, mut accepted_now) = (String::new(), Vec::new(), Vec::new());
            let more = std::iter::from_fn(|| orders.try_recv().ok()).take(TOGETHER);
            for order in std::iter::once(first).chain(more) {
                match order {
                    Order::Accept(accepted, waits) => {
                        batch.push_str(&accepted.encode());
                        if waits.is_some() {
                            accepted_now.push(accepted.id.clone());
                        }
                        waiting.extend(waits);
                        self.open.insert(accepted.id.clone(), *accepted);
                    }
                    Order::End(id) => {
                        self.open.remove(&id);
                        batch.push_str(&line(&Wire { end: Some(id), ..NOTHING }));
                    }
                }
            }
            let durability = if waiting.is_empty() { Durability::ProcessDeath } else { Durability::PowerLoss };
            let written = self.write(&batch, durability);
            if written.is_err() {
                // Whoever sent these is told that they were not taken: they must not be run one day.
                accepted_now.iter().for_each(|id| drop(self.open.remove(id)));
            }
            for waits in waiting {
                // Who does not wait any more need not be told.
                drop(waits.send(written.clone()));
            }
        }
    }

    fn write(&mut self, batch: &str, durability: Durability) -> Result<()> {
        let mut written = self.log.append_as(batch.as_bytes(), durability);
        // A file that could be replaced and then not opened is another one than the log has.
        if matches!(written, Err(Error::Poisoned { .. } | Error::Changed { .. })) {
            written = self.log.reopen().and_then(|_| self.log.append_as(batch.as_bytes(), durability));
        }
        if let Err(error) = written {
            // Of lines that nobody waits for nobody else would hear.
            tracing::error!(%error, "lines of the ledger of accepted prompts are not written");
            return Err(error.into());
        }
        if self.log.len() > self.enough
            && let Err(error) = self.begin_anew()
        {
            tracing::warn!(%error, "the ledger is not written anew");
            self.enough = self.log.len() + LARGE;
        }
        Ok(())
    }

    /// Writes the file anew with what is open.
    fn begin_anew(&mut self) -> unforget_core::Result<()> {
        let path = Path::new(FILE);
        let text: String = self.open.values().map(Accepted::encode).collect();
        let failed = |source| Error::Io { action: "replace", path: path.to_path_buf(), source };
        replace_durable(self.medium.as_ref(), path, text.as_bytes()).map_err(failed)?;
        let (log, _) = Log::open(self.medium.clone(), path, Durability::PowerLoss)?;
        self.log = log;
        self.enough = LARGE + 2 * self.log.len();
        Ok(())
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the test is not the store")]
mod tests {
    use super::*;

    fn accepted(id: &str, prompt: &str) -> Accepted {
        Accepted {
            id: id.to_owned(),
            actor: ActorId::verified("ada").unwrap(),
            session: Name { dir: AgentDir::of("main"), id: SessionId::parse("0199-a").unwrap() },
            client_id: ClientId::parse("c1").unwrap(),
            prompt: prompt.to_owned(),
            is_attended: false,
        }
    }

    #[test]
    fn what_was_accepted_and_has_no_end_is_there_after_a_restart() {
        let home = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        {
            let (ledger, waiting) = Ledger::open(home.path()).unwrap();
            assert_eq!(waiting, []);
            ledger.note(accepted("1", "first\n\u{1f600}"));
            runtime.block_on(ledger.accept(accepted("2", "second"))).unwrap();
            ledger.note(accepted("3", "third"));
            ledger.end("2");
        }
        for _ in 0..2 {
            let (_ledger, waiting) = Ledger::open(home.path()).unwrap();
            assert_eq!(waiting, [accepted("1", "first\n\u{1f600}"), accepted("3", "third")]);
        }
    }

    #[test]
    fn a_torn_line_costs_only_itself() {
        let home = tempfile::tempdir().unwrap();
        drop(Ledger::open(home.path()).unwrap());
        let path = home.path().join(FILE);
        let text = accepted("1", "first").encode() + "{\"accept\":\"2\",\"act";
        std::fs::write(&path, text).unwrap();
        let (_ledger, waiting) = Ledger::open(home.path()).unwrap();
        assert_eq!(waiting, [accepted("1", "first")]);
    }

    #[test]
    fn a_ledger_that_was_replaced_and_could_not_be_opened_is_opened_for_the_next_prompt() {
        let home = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        {
            let (ledger, _) = Ledger::open(home.path()).unwrap();
            runtime.block_on(ledger.accept(accepted("1", "first"))).unwrap();
            let (path, anew) = (home.path().join(FILE), home.path().join("server/anew"));
            std::fs::copy(&path, &anew).unwrap();
            std::fs::rename(&anew, &path).unwrap();
            runtime.block_on(ledger.accept(accepted("2", "second"))).unwrap();
            ledger.end("1");
        }
        let (_ledger, waiting) = Ledger::open(home.path()).unwrap();
        assert_eq!(waiting, [accepted("2", "second")]);
    }

    #[test]
    fn what_is_open_is_not_written_again_with_every_prompt_however_long_it_is_in_json() {
        use std::os::unix::fs::MetadataExt as _;
        let home = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (ledger, _) = Ledger::open(home.path()).unwrap();
        let accept = |id: &str, prompt: &str| runtime.block_on(ledger.accept(accepted(id, prompt))).unwrap();
        // Six bytes each, as JSON has them.
        let long = "\u{1}".repeat(1 << 20);
        ["1", "2", "3", "4", "5"].iter().for_each(|id| accept(id, &long));
        let file = || std::fs::metadata(home.path().join(FILE)).unwrap();
        let before = file().ino();
        let mut files = std::collections::BTreeSet::from([before]);
        for id in 10..20 {
            accept(&id.to_string(), "short");
            files.insert(file().ino());
        }
        assert_eq!(files.len(), 1, "{files:?}");
        // What has ended is not kept for ever.
        ["1", "2", "3", "4", "5"].iter().for_each(|id| ledger.end(id));
        (20..29).for_each(|id| accept(&id.to_string(), &long));
        (20..29).for_each(|id| ledger.end(&id.to_string()));
        accept("29", "short");
        assert!(file().len() < 60 << 20, "{}", file().len());
    }

    #[test]
    fn a_second_server_of_a_home_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let first = Ledger::open(home.path()).unwrap();
        assert!(matches!(Ledger::open(home.path()), Err(Error::Busy { .. })));
        drop(first);
        Ledger::open(home.path()).unwrap();
    }
}
