//! A workspace, a session on a disk that can crash, and a model that plays a script.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use unforget_agent::Result;
use unforget_agent::files::{self, Conflicts, Restored};
use unforget_agent::guard::Agent;
use unforget_agent::host::Answer;
use unforget_agent::model::{BoxFuture, Delta, Event, Model, ModelError, Request, Sink};
use unforget_agent::settings::Settings;
use unforget_agent::tools::{Call, Commands, Toolbox, Workspace, standard};
use unforget_agent::turn::{Input, run_turn};
use unforget_core::directory::{Directory, OnMissing};
use unforget_core::files::{Files, Plan};
use unforget_core::history::{History, Limits};
use unforget_core::log::Durability;
use unforget_core::session::Session;
use unforget_testkit::crash::{CrashMedium, Scope, Survival};

use crate::support::{Person, Ticking};

/// Everything around files that tools change.
pub(super) struct Work {
    folder: TempDir,
    pub(super) medium: CrashMedium,
    source: Arc<Ticking>,
    pub(super) tools: Toolbox,
    workspace: Arc<Workspace>,
    pub(super) abort: CancellationToken,
    session: Option<Session>,
}

impl Work {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["work", "store"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let open = || Workspace::open(&folder.path().join("work"), &folder.path().join("store")).unwrap();
        let source: Arc<Ticking> = Arc::default();
        let mut work = Self {
            tools: Toolbox::new(standard(open(), Commands::default(), source.clone())),
            workspace: Arc::new(open()),
            medium: CrashMedium::counting(Scope::Writes),
            source,
            folder,
            abort: CancellationToken::new(),
            session: None,
        };
        work.restart();
        work
    }

    /// Opens the session again.
    pub(super) fn restart(&mut self) {
        self.session = None;
        let store = Directory::new(Arc::new(self.medium.clone()), self.source.clone(), Durability::PowerLoss);
        self.session = Some(store.load(&"main".parse().unwrap(), OnMissing::Create).unwrap());
    }

    /// Starts the machine of the store again, with what a power cut left.
    pub(super) fn reboot(&mut self, survival: Survival) {
        self.session = None;
        self.medium = self.medium.restart(survival);
        self.restart();
    }

    pub(super) fn session(&mut self) -> &mut Session {
        self.session.as_mut().unwrap()
    }

    pub(super) fn head(&self) -> u64 {
        self.session.as_ref().unwrap().head().unwrap()
    }

    pub(super) fn call(name: &str, input: &Value) -> Call {
        Call { id: "toolu_1".to_owned(), name: name.to_owned(), input: input.to_string() }
    }

    /// A turn in which the model calls one tool, which must work.
    pub(super) async fn tool(&mut self, name: &str, input: Value) {
        self.try_tool(name, input).await.unwrap();
        let result = self.records().into_iter().rfind(|record| record["type"] == "tool_result").unwrap();
        assert_eq!(result["is_error"], Value::Null, "{result}");
    }

    pub(super) async fn try_tool(&mut self, name: &str, input: Value) -> Result<()> {
        let model = Script { calls: Mutex::new(VecDeque::from([(name.to_owned(), input)])) };
        let settings = Settings { system: String::new(), ..Settings::default() };
        let agent = Agent { model: &model, settings: &settings };
        let mut person = Person { otherwise: Some(Answer::Allowed { by: "person" }), ..Person::default() };
        let session = self.session.as_mut().unwrap();
        run_turn(session, Input::Words("go"), &agent, &self.tools, &mut person, &self.abort).await.map(|_| ())
    }

    pub(super) fn history(&self) -> History<'static> {
        self.session.as_ref().unwrap().history(&Limits::default()).unwrap().history
    }

    pub(super) fn records(&self) -> Vec<Value> {
        let bytes = self.session.as_ref().unwrap().reader().unwrap().read_all().unwrap();
        bytes.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
    }

    pub(super) fn root(&self) -> String {
        self.workspace.path().to_str().unwrap().to_owned()
    }

    pub(super) fn plan(&self, at: u64) -> Plan {
        let known = Files::read(&self.session.as_ref().unwrap().reader().unwrap()).unwrap();
        files::plan(&known, &self.root(), &self.workspace, at)
    }

    pub(super) fn restore(&mut self, at: u64, conflicts: Conflicts) -> Restored {
        self.try_restore(at, conflicts).unwrap()
    }

    pub(super) fn try_restore(&mut self, at: u64, conflicts: Conflicts) -> Result<Restored> {
        let plan = self.plan(at);
        files::apply(self.session.as_mut().unwrap(), &self.workspace, &plan, conflicts)
    }

    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join("work").join(path)
    }

    pub(super) fn write(&self, path: &str, text: &str) {
        std::fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
        std::fs::write(self.path(path), text).unwrap();
    }

    pub(super) fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.path(path)).unwrap()
    }

    /// All files of the workspace.
    pub(super) fn tree(&self) -> BTreeMap<String, String> {
        let files = self.walk().into_iter().filter(|path| path.is_file());
        files
            .map(|path| (self.relative(&path), String::from_utf8_lossy(&std::fs::read(path).unwrap()).into()))
            .collect()
    }

    /// All folders of the workspace.
    pub(super) fn folders(&self) -> Vec<String> {
        self.walk().into_iter().filter(|path| path.is_dir()).map(|path| self.relative(&path)).collect()
    }

    fn relative(&self, path: &Path) -> String {
        path.strip_prefix(self.path("")).unwrap().to_str().unwrap().to_owned()
    }

    fn walk(&self) -> Vec<PathBuf> {
        let (mut found, mut open) = (Vec::new(), vec![self.path("")]);
        while let Some(folder) = open.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let entry = entry.unwrap();
                if entry.file_type().unwrap().is_dir() {
                    open.push(entry.path());
                }
                found.push(entry.path());
            }
        }
        found
    }
}

/// A model that calls these tools, one an answer, and then has nothing to say but a word.
struct Script {
    calls: Mutex<VecDeque<(String, Value)>>,
}

impl Model for Script {
    fn name(&self) -> &'static str {
        "script"
    }

    fn window(&self) -> u64 {
        1_000_000
    }

    fn respond<'a>(&'a self, request: &'a Request<'a>, sink: Sink<'a>) -> BoxFuture<'a, Result<(), ModelError>> {
        let id = format!("toolu_{}", request.history.messages.len());
        let (block, input, why) = match self.calls.lock().unwrap().pop_front() {
            Some((name, input)) => {
                (json!({"type": "tool_use", "id": id, "name": name, "input": {}}), Some(input), "tool_use")
            }
            None => (json!({"type": "text", "text": "done"}), None, "end_turn"),
        };
        let usage = "{\"input_tokens\":1,\"output_tokens\":1}".to_owned();
        sink(Event::Started { id: format!("msg_{id}"), model: "script".to_owned(), usage: usage.clone() });
        sink(Event::BlockStarted { index: 0, block: block.to_string() });
        if let Some(input) = input {
            sink(Event::Delta { index: 0, delta: Delta::Input(input.to_string()) });
        }
        sink(Event::BlockEnded { index: 0 });
        sink(Event::Ended { stop_reason: Some(why.to_owned()), usage });
        Box::pin(std::future::ready(Ok(())))
    }

    fn count<'a>(&'a self, _: &'a Request<'a>) -> BoxFuture<'a, Result<u64, ModelError>> {
        Box::pin(std::future::ready(Ok(1)))
    }
}
