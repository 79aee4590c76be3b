//! The real thing beside the model: files in a folder, two processes with an index each, and everything that is done to both.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use unforget_core::directory::Entry;
use unforget_core::error::Error;
use unforget_core::fork::{Wish, fork};
use unforget_core::key::Key;
use unforget_core::layout::AgentDir;
use unforget_core::log::Durability;
use unforget_core::record::Draft;
use unforget_core::session;
use unforget_core::stamp::{SessionId, Source};
use unforget_core::store::{Notes, Store};
use unforget_core::summary::{self, State};

use super::operation::{Ending, Operation, Say};
use super::sessions::{Model, Session, What};
use super::vocabulary::{NAMES, WORDS};

mod compare;
mod harm;
mod imports;

/// The beginning of the model's time; before now, so that a directory is believed only where an operation says so.
const BEGINNING: i64 = 1_600_000_000_000;
pub(super) const KEYS: [&str; 4] = ["main:cli:ann", "main:cli:bob", "main:web:ann", "work:cli:ann"];
const TOOL: &str = "bash";

/// A clock that stands still until someone moves it, and ids that count up.
#[derive(Debug)]
struct Held {
    ms: AtomicI64,
    ids: AtomicU64,
}

impl Source for Held {
    fn now_ms(&self) -> i64 {
        self.ms.load(Ordering::Relaxed)
    }

    fn new_id(&self, _: i64) -> SessionId {
        SessionId::parse(&id(self.ids.fetch_add(1, Ordering::Relaxed))).unwrap()
    }
}

fn id(count: u64) -> String {
    format!("01900000-0000-7000-8000-{count:012}")
}

/// A copy of a transcript, and what it says.
struct Copy {
    name: String,
    session: Session,
}

/// Both, side by side.
pub(super) struct World {
    folder: tempfile::TempDir,
    source: Arc<Held>,
    processes: [Store; 2],
    /// Sessions that are being written, by id, and by which process.
    open: HashMap<String, (usize, session::Session)>,
    model: Model,
    copies: Vec<Copy>,
    /// Words, keys and times of the files that were imported.
    files: Vec<(usize, Vec<String>, i64)>,
    marks: u64,
    ids: u64,
    aged: u32,
    /// How often everything was compared.
    turn: usize,
    is_ending: bool,
}

impl World {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let source = Arc::new(Held { ms: AtomicI64::new(BEGINNING), ids: AtomicU64::default() });
        let home = folder.path().join("home");
        let processes = [catalog(&home, &source), catalog(&home, &source)];
        Self {
            folder,
            source,
            processes,
            open: HashMap::new(),
            model: Model::default(),
            copies: Vec::new(),
            files: Vec::new(),
            marks: 0,
            ids: 0,
            aged: 0,
            turn: 0,
            is_ending: false,
        }
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    fn now(&self) -> i64 {
        self.source.now_ms()
    }

    /// Words that nobody said before, because they begin with a mark of their own.
    fn say(&mut self, words: &[usize]) -> Vec<String> {
        self.marks += 1;
        let mark = format!("Q{}", self.marks);
        std::iter::once(mark).chain(words.iter().map(|word| WORDS[*word].to_owned())).collect()
    }

    fn next_id(&mut self) -> String {
        self.ids += 1;
        id(self.ids - 1)
    }

    /// The session that a number means, if there is any.
    fn pick(&self, number: usize, is_trashed: bool) -> Option<usize> {
        let there: Vec<usize> =
            (0..self.model.sessions.len()).filter(|at| self.model.sessions[*at].is_trashed == is_trashed).collect();
        (!there.is_empty()).then(|| there[number % there.len()])
    }

    pub(super) fn apply(&mut self, operation: &Operation) {
        self.source.ms.fetch_add(1000, Ordering::Relaxed);
        match operation {
            Operation::Create { who, key, label, ending } => self.create(*who, KEYS[*key], *label, *ending),
            Operation::Write { who, session, says, ending } => {
                if let Some(at) = self.pick(*session, false) {
                    self.write(*who, at, says, *ending);
                }
            }
            Operation::Fork { who, session, at } => self.fork(*who, *session, *at),
            Operation::Delete { who, session } => self.delete(*who, *session),
            Operation::Undelete { who, session } => self.undelete(*who, *session),
            Operation::Import { who, key, words, is_new } => self.import(*who, *key, words, *is_new),
            Operation::Export { session } => self.export(*session),
            Operation::BringBack { who, copy } => self.bring_back(*who, *copy),
            Operation::TakeInWords { who, sessions } => self.take_in_words(*who, *sessions),
            Operation::Refresh { who } => {
                assert_eq!(self.processes[*who].refresh().unwrap(), Notes::default());
            }
            Operation::Cut { who, session, records } => self.cut(*who, *session, *records),
            Operation::Harm(harm) => self.harm(*harm),
            Operation::Age { place } => self.age(*place),
            Operation::Restart { who } => {
                self.open.retain(|_, (by, _)| by != who);
                self.processes[*who] = catalog(&self.home(), &self.source);
            }
            Operation::Pass { hours } => drop(self.source.ms.fetch_add(hours * 3_600_000, Ordering::Relaxed)),
        }
    }

    fn create(&mut self, who: usize, key: &str, label: Option<usize>, ending: Ending) {
        let label = label.map(|name| NAMES[name]);
        let session = self.processes[who].directory().create(&key.parse().unwrap(), label).unwrap();
        let id = self.next_id();
        assert_eq!(session.id().as_str(), id);
        self.model.sessions.push(Session::new(id, key, label, self.now()));
        self.end(who, session, self.model.sessions.len() - 1, ending);
    }

    fn write(&mut self, who: usize, at: usize, says: &[Say], ending: Ending) {
        let id = self.model.sessions[at].id.clone();
        if self.open.get(&id).is_some_and(|(by, _)| *by != who) {
            let refused = self.processes[who].directory().open(&entry(&self.model.sessions[at])).unwrap_err();
            assert!(matches!(refused, Error::Busy { .. }), "{refused}");
            return;
        }
        let mut session = match self.open.remove(&id) {
            Some((_, session)) => session,
            None => {
                let session = self.processes[who].directory().open(&entry(&self.model.sessions[at])).unwrap();
                assert_eq!(session.sealed().is_some(), self.model.sessions[at].is_torn);
                self.model.sessions[at].is_torn = false;
                session
            }
        };
        for say in says {
            let drafts = self.drafts(at, say);
            let numbers = session.append(&drafts).unwrap();
            assert_eq!(numbers.end, self.model.sessions[at].records.len() as u64);
        }
        self.end(who, session, at, ending);
    }

    /// What is to be written, which the model takes down at once.
    fn drafts(&mut self, at: usize, say: &Say) -> Vec<Draft> {
        let ms = self.now();
        let text = |words: &[String]| words.join(" ");
        let quoted = |words: &[String]| serde_json::to_string(&words.join(" ")).unwrap();
        match say {
            Say::Turn { words, tool, tokens } => {
                let asked = self.say(words);
                let called = tool.map(|word| (self.say(&[word]), self.say(&[word, words[0]])));
                let answered = self.say(&words[..1]);
                let session = &mut self.model.sessions[at];
                let mut drafts = vec![Draft::user(&text(&asked))];
                session.add(ms, What::User, asked);
                if let Some((call, result)) = called {
                    let tool_id = format!("toolu_{}", call[0]);
                    let input = format!("{{\"command\":{}}}", quoted(&call));
                    drafts.push(Draft::tool_use(Some(&answered[0]), &tool_id, TOOL, &input));
                    drafts.push(Draft::tool_result(&tool_id, &quoted(&result)));
                    session.add(ms, What::Call, call);
                    session.add(ms, What::Result, result);
                }
                let block = format!("[{{\"type\":\"text\",\"text\":{}}}]", quoted(&answered));
                drafts.push(Draft::assistant(Some(&format!("{}b", answered[0])), &block));
                session.add(ms, What::Assistant, answered);
                let usage = format!("{{\"input_tokens\":{tokens},\"output_tokens\":1}}");
                drafts.push(Draft::turn("done").raw("usage", &usage));
                session.add(ms, What::Turn { tokens: tokens + 1 }, Vec::new());
                drafts
            }
            Say::Title { word } => {
                let words = self.say(&[*word]);
                let title = text(&words);
                self.model.sessions[at].add(ms, What::Title { title: title.clone() }, words);
                vec![Draft::title(&title)]
            }
            Say::Label { name } => {
                let label = name.map_or("", |name| NAMES[name]).to_owned();
                let words = name.map(|name| NAMES[name].to_owned()).into_iter().collect();
                self.model.sessions[at].add(ms, What::Label { label: label.clone() }, words);
                vec![Draft::label(None, &label)]
            }
            Say::Name { step, name, is_branch } => {
                let session = &mut self.model.sessions[at];
                let steps = session.steps();
                let (to, name) = (steps[step % steps.len()], NAMES[*name].to_owned());
                let draft = Draft::label(Some(to as u64), &name);
                let words = vec![name.clone()];
                session.add(ms, What::Name { to, name, is_branch: *is_branch }, words);
                vec![if *is_branch { draft.text("as", "branch") } else { draft }]
            }
            Say::Head { step } => {
                let session = &mut self.model.sessions[at];
                let steps = session.steps();
                let to = step.map(|step| steps[step % steps.len()]);
                session.add(ms, What::Head { to }, Vec::new());
                vec![Draft::head(to.map(|to| to as u64), "rewind")]
            }
            Say::Compaction { word, kept } => {
                let words = self.say(&[*word]);
                let session = &mut self.model.sessions[at];
                let is_asked = |n: &usize| session.records[*n].what == What::User;
                let asked: Vec<usize> = session.way_to(session.head()).into_iter().filter(is_asked).collect();
                let kept = kept.filter(|_| !asked.is_empty()).map(|kept| asked[kept % asked.len()]);
                let draft = Draft::compaction(&text(&words), kept.map(|n| n as u64));
                session.add(ms, What::Compaction { kept }, words);
                vec![draft]
            }
            Say::Expire => {
                self.model.sessions[at].add(ms, What::Expire { after: "30d".to_owned() }, Vec::new());
                vec![Draft::expire(Some("30d"))]
            }
            Say::Pinned { on } => {
                self.model.sessions[at].add(ms, What::Pinned { on: *on }, Vec::new());
                vec![Draft::pinned(*on)]
            }
        }
    }

    fn end(&mut self, who: usize, session: session::Session, at: usize, ending: Ending) {
        let model = &mut self.model.sessions[at];
        match ending {
            // The index may be of no use by now; nothing but itself suffers from that.
            Ending::Close => drop(session.close()),
            Ending::Die => drop(session),
            Ending::Tear => {
                let path = self.folder.path().join("home").join(session.path());
                drop(session);
                let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
                let half =
                    format!("{{\"v\":1,\"n\":{},\"type\":\"user\",\"content\":\"zebra lant", model.records.len());
                std::io::Write::write_all(&mut file, half.as_bytes()).unwrap();
                model.is_torn = true;
            }
            Ending::Stay => drop(self.open.insert(model.id.clone(), (who, session))),
        }
    }

    fn fork(&mut self, who: usize, session: usize, at: Option<usize>) {
        let Some(original) = self.pick(session, false) else { return };
        let original = self.model.sessions[original].clone();
        let steps = original.steps();
        let at = at.map(|at| steps[at % steps.len()]);
        let wish = Wish { at: at.map(|n| n as u64), ..Wish::default() };
        let forked = fork(self.processes[who].directory(), &entry(&original), wish).unwrap();
        let id = self.next_id();
        assert_eq!(forked.id.as_str(), id);
        self.model.sessions.push(original.fork(id, at.or(original.head()), self.now()));
    }

    fn delete(&mut self, who: usize, session: usize) {
        let Some(at) = self.pick(session, false) else { return };
        let there = self.model.position(&self.model.sessions[at].id, true);
        let deleted = self.processes[who].directory().delete(&entry(&self.model.sessions[at]));
        if self.open.contains_key(&self.model.sessions[at].id) {
            assert!(matches!(deleted, Err(Error::Busy { .. })), "{deleted:?}");
            return;
        }
        self.moved(at, there, deleted);
    }

    fn undelete(&mut self, who: usize, session: usize) {
        let Some(at) = self.pick(session, true) else { return };
        let there = self.model.position(&self.model.sessions[at].id, false);
        if self.open.contains_key(&self.model.sessions[at].id) {
            return;
        }
        let undeleted = self.processes[who].directory().undelete(&entry(&self.model.sessions[at]));
        self.moved(at, there, undeleted);
    }

    /// A session goes to the other place, where `there` is in its way: it takes the place of its own beginning, and of nothing else.
    fn moved(&mut self, at: usize, there: Option<usize>, outcome: Result<(), Error>) {
        let is_beginning =
            |other: &Session| !other.is_torn && self.model.sessions[at].records.starts_with(&other.records);
        if there.is_some_and(|there| !is_beginning(&self.model.sessions[there])) {
            assert!(matches!(outcome, Err(Error::Exists { .. })), "{outcome:?}");
            return;
        }
        outcome.unwrap();
        self.model.sessions[at].is_trashed ^= true;
        if let Some(there) = there {
            self.model.sessions.remove(there);
        }
    }

    fn path_of(&self, session: &Session) -> PathBuf {
        let store = self.processes[0].directory();
        self.home().join(store.path(&entry(session)).unwrap())
    }
}

fn catalog(home: &std::path::Path, source: &Arc<Held>) -> Store {
    Store::builder(home).clock(source.clone()).durability(Durability::ProcessDeath).open().unwrap()
}

/// A session as a command knows it that was told about it by someone else.
fn entry(session: &Session) -> Entry {
    let key: Key = session.key.parse().unwrap();
    let state = if session.is_trashed { State::Deleted } else { State::Ok };
    let row = summary::Row { id: session.id.clone(), key: Some(session.key.clone()), state, ..summary::Row::default() };
    Entry { dir: AgentDir::of(key.agent()), row }
}
