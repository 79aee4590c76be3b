//! What the tests share: a session in a folder, a strict server, a tool that counts its runs, a person by script.
//!
//! A [`Scene`] is everything around a conversation. Its parts are the real ones; only the server, the clock, the tool
//! and the person are played. What happened is asked of the two places where it shows: the transcript and the requests.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use unforget_agent::Result;
use unforget_agent::compact::Compacted;
use unforget_agent::gauge::Gauge;
use unforget_agent::guard::Agent;
use unforget_agent::model::anthropic::{Anthropic, Credential, Options as ClientOptions};
use unforget_agent::model::retry::{Jitter, Retry};
use unforget_agent::settings::Settings;
use unforget_agent::tools::Toolbox;
use unforget_agent::turn::{Ended, Input, run_turn};
use unforget_core::directory::{Directory, OnMissing};
use unforget_core::edit::{self, Applied, Change, Edit, EditError, EditScope};
use unforget_core::history::History;
use unforget_core::log::Durability;
use unforget_core::medium::{Medium, Os};
use unforget_core::record::Draft;
use unforget_core::session::Session;
use unforget_core::stamp::Source;
use unforget_testkit::api::{FakeApi, Options, Recorded, Reply};

mod cast;

use cast::Bench;
pub(crate) use cast::{Asks, Kit, Person, Runs, Ticking, numbered};

/// Everything around a conversation.
pub(crate) struct Scene {
    _home: TempDir,
    pub(crate) root: PathBuf,
    pub(crate) medium: Arc<dyn Medium>,
    pub(crate) api: FakeApi,
    source: Arc<Ticking>,
    pub(crate) settings: Settings,
    pub(crate) model: String,
    /// What the client takes for the window.
    pub(crate) window: u64,
    pub(crate) kit: Kit,
    pub(crate) runs: Arc<Runs>,
    pub(crate) person: Person,
    pub(crate) abort: CancellationToken,
    pub(crate) session: Option<Session>,
}

impl Scene {
    pub(crate) fn new() -> Self {
        Self::with_window(200_000)
    }

    /// Server and client agree about the window.
    pub(crate) fn with_window(window: u64) -> Self {
        Self::with(window, "claude-opus-5")
    }

    pub(crate) fn with(window: u64, model: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let api = FakeApi::start(Options { window, model: model.to_owned(), ..Options::default() }).unwrap();
        let settings = Settings { system: "You are a test.".to_owned(), max_tokens: 1024, ..Settings::default() };
        let root = home.path().join("home");
        let mut scene = Self {
            medium: Arc::new(Os::new(&root)),
            root,
            _home: home,
            api,
            source: Arc::default(),
            settings,
            model: model.to_owned(),
            window,
            kit: Kit { name: "bash", description: "Runs a command.", asks: Asks::Never },
            runs: Arc::default(),
            person: Person::default(),
            abort: CancellationToken::new(),
            session: None,
        };
        scene.restart();
        scene
    }

    pub(crate) fn store(&self) -> Directory {
        let source: Arc<dyn Source> = self.source.clone();
        Directory::new(self.medium.clone(), source, Durability::ProcessDeath)
    }

    /// Drops the session and opens it again; nothing else is carried over.
    pub(crate) fn restart(&mut self) {
        self.session = None;
        self.person = Person { otherwise: self.person.otherwise.take(), ..Person::default() };
        self.abort = CancellationToken::new();
        self.session = Some(self.store().load(&"main".parse().unwrap(), OnMissing::Create).unwrap());
    }

    /// Puts these lines in the place of the transcript, as a crash may leave them, and opens it.
    pub(crate) fn restart_from(&mut self, lines: &[String]) {
        self.session = None;
        std::fs::write(transcript(&self.root), lines.concat()).unwrap();
        self.restart();
    }

    pub(crate) fn client(&self) -> Anthropic {
        let retry = Retry { times: 2, first_wait: Duration::from_millis(1), jitter: Jitter::None };
        let key = Credential::Key("sk-test-key".to_owned().into());
        let options = ClientOptions {
            base_url: self.api.url(),
            retry,
            clock: self.source.clone(),
            ..ClientOptions::new(key, &self.model, self.window)
        };
        Anthropic::new(options).unwrap()
    }

    fn toolbox(&self) -> Toolbox {
        Toolbox::new(vec![Box::new(Bench { runs: Arc::clone(&self.runs), root: self.root.clone(), kit: self.kit })])
    }

    pub(crate) async fn say(&mut self, words: &str) -> Result<Ended> {
        self.turn(Input::Words(words)).await
    }

    /// A turn that must end well.
    pub(crate) async fn says(&mut self, words: &str) -> Ended {
        self.say(words).await.unwrap_or_else(|error| panic!("{error}\n{:#?}", self.api.refusals()))
    }

    pub(crate) async fn turn(&mut self, input: Input<'_>) -> Result<Ended> {
        let (client, tools) = (self.client(), self.toolbox());
        let agent = Agent { model: &client, settings: &self.settings };
        let session = self.session.as_mut().unwrap();
        run_turn(session, input, &agent, &tools, &mut self.person, &self.abort).await
    }

    /// Compacts by hand.
    pub(crate) async fn compact(&mut self) -> Option<Compacted> {
        let client = self.client();
        let agent = Agent { model: &client, settings: &self.settings };
        let session = self.session.as_mut().unwrap();
        let view = agent.look(session).unwrap();
        agent.compact(session, None, &view, &mut self.person, &self.abort).await.unwrap()
    }

    /// Compacts by hand; there may be too little to replace.
    pub(crate) async fn compact_if_possible(&mut self) {
        let done = self.compact().await;
        assert!(done.is_none_or(|done| done.tokens.1 < done.tokens.0), "{done:?}");
    }

    pub(crate) fn undo(&mut self) -> Option<u64> {
        let client = self.client();
        let limits = Agent { model: &client, settings: &self.settings }.limits();
        let scope = EditScope { limits, files: None };
        match edit::apply_one(self.session.as_mut().unwrap(), Edit::UndoCompaction {}, &scope) {
            Ok(Applied { change: Change::Expanded { of }, .. }) => Some(of),
            Err(EditError::NothingCompacted) => None,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn append(&mut self, drafts: &[Draft]) -> std::ops::Range<u64> {
        self.session.as_mut().unwrap().append(drafts).unwrap()
    }

    pub(crate) fn history(&self) -> History<'static> {
        let client = self.client();
        Agent { model: &client, settings: &self.settings }.look(self.session.as_ref().unwrap()).unwrap().history
    }

    pub(crate) fn gauge(&self) -> Gauge {
        let client = self.client();
        Agent { model: &client, settings: &self.settings }.look(self.session.as_ref().unwrap()).unwrap().gauge
    }

    /// The records of the transcript.
    pub(crate) fn records(&self) -> Vec<Value> {
        lines_of(&transcript(&self.root))
    }

    /// The lines of the transcript, each with its line feed.
    pub(crate) fn raw_lines(&self) -> Vec<String> {
        let text = std::fs::read_to_string(transcript(&self.root)).unwrap();
        text.split_inclusive('\n').map(str::to_owned).collect()
    }

    pub(crate) fn of_type(&self, kind: &str) -> Vec<Value> {
        self.records().into_iter().filter(|record| record["type"] == kind).collect()
    }

    /// The last state of a turn.
    pub(crate) fn state(&self) -> String {
        self.of_type("turn").last().map(|turn| turn["state"].as_str().unwrap().to_owned()).unwrap_or_default()
    }

    /// The requests of the conversation itself; those of summarisers have no tools.
    pub(crate) fn requests(&self) -> Vec<Recorded> {
        self.api.messages().into_iter().filter(is_conversation).collect()
    }

    pub(crate) fn last_request(&self) -> Value {
        self.requests().last().unwrap().json()
    }

    /// How often the summariser was asked.
    pub(crate) fn summaries(&self) -> usize {
        self.api.messages().iter().filter(|request| is_summary(request)).count()
    }

    /// Plans the answer to the next request of the summariser.
    pub(crate) fn push_for_summary(&self, reply: Reply) {
        self.api.push_for(is_summary, reply);
    }

    /// Notes how many records the transcript had when each request of the conversation arrived.
    pub(crate) fn watch(&self) -> Arc<Mutex<Vec<usize>>> {
        let seen: Arc<Mutex<Vec<usize>>> = Arc::default();
        let (notes, root) = (Arc::clone(&seen), self.root.clone());
        let look = move |request: &Recorded| {
            if is_conversation(request) {
                notes.lock().unwrap().push(lines_of(&transcript(&root)).len());
            }
            false
        };
        self.api.push_for(look, Reply::Silence);
        seen
    }

    /// Each request is the beginning of the next one, unless a record between them says otherwise; tells how many did.
    pub(crate) fn assert_prefixes(&self, seen: &Mutex<Vec<usize>>) -> usize {
        const CHANGES: [&str; 5] = ["compaction", "trim", "undo", "context", "head"];
        let (records, seen) = (self.records(), seen.lock().unwrap());
        let requests: Vec<Recorded> = self.requests().into_iter().filter(|r| r.refusal.is_none()).collect();
        assert_eq!(requests.len(), seen.len());
        let mut changed = 0;
        for (at, pair) in requests.windows(2).enumerate() {
            let between = &records[seen[at]..seen[at + 1]];
            if between.iter().any(|record| CHANGES.contains(&record["type"].as_str().unwrap())) {
                changed += 1;
                continue;
            }
            let (before, after) = (prefix(&pair[0]), prefix(&pair[1]));
            let same = before.bytes().zip(after.bytes()).take_while(|(one, other)| one == other).count();
            let around = |text: &str| text.chars().skip(same.saturating_sub(60)).take(200).collect::<String>();
            assert!(same == before.len(), "request {at}, byte {same}:\n{}\n{}", around(&before), around(&after));
        }
        changed
    }

    pub(crate) fn assert_no_refusal(&self) {
        let refusals: Vec<_> = self.api.refusals().into_iter().map(|request| request.refusal).collect();
        assert!(refusals.is_empty(), "{refusals:#?}");
    }
}

fn is_conversation(request: &Recorded) -> bool {
    request.json().get("tools").is_some()
}

pub(crate) fn is_summary(request: &Recorded) -> bool {
    request.is_message() && !is_conversation(request)
}

/// The transcript of the only session.
pub(crate) fn transcript(root: &Path) -> PathBuf {
    let folder = root.join("agents/main/sessions");
    let is_transcript = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "jsonl");
    let mut found = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).filter(is_transcript);
    found.next().unwrap()
}

pub(crate) fn lines_of(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Whether a text stands somewhere in a value.
pub(crate) fn holds(value: &Value, text: &str) -> bool {
    count(value, text) > 0
}

/// How many strings in a value hold a text.
pub(crate) fn count(value: &Value, text: &str) -> usize {
    match value {
        Value::String(found) => usize::from(found.contains(text)),
        Value::Array(items) => items.iter().map(|item| count(item, text)).sum(),
        Value::Object(members) => members.values().map(|member| count(member, text)).sum(),
        _ => 0,
    }
}

/// The blocks of that type in a request, in order.
pub(crate) fn blocks<'a>(request: &'a Value, kind: &str) -> Vec<&'a Value> {
    let messages = request["messages"].as_array().unwrap().iter();
    let blocks = messages.flat_map(|message| message["content"].as_array().unwrap());
    blocks.filter(|block| block["type"] == kind).collect()
}

/// What of a request must not change while the conversation grows: its text from the system prompt on, without marks
/// and without what closes it.
pub(crate) fn prefix(request: &Recorded) -> String {
    let text = String::from_utf8(request.body.to_vec()).unwrap();
    let from = text.find("\"system\":").or(text.find("\"tools\":")).unwrap_or(0);
    let bare = text[from..].replace(",\"cache_control\":{\"type\":\"ephemeral\"}", "");
    bare.trim_end_matches(['}', ']']).to_owned()
}

/// Waits until a task has done something; a test that waits for longer has failed.
pub(crate) async fn soon(event: &Notify) {
    tokio::time::timeout(Duration::from_secs(120), event.notified()).await.expect("it never happened");
}

/// An HTTP error of the server.
pub(crate) fn error(status: u16, kind: &str, message: &str, retry_after: Option<u64>) -> Reply {
    Reply::Error { status, kind: kind.to_owned(), message: message.to_owned(), retry_after }
}

/// A plain answer.
pub(crate) fn text(text: &str) -> Reply {
    let blocks = vec![serde_json::json!({"type": "text", "text": text})];
    Reply::Blocks { blocks, stop_reason: "end_turn".to_owned() }
}
