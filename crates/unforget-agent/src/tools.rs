//! What a model can do: the tools, and one way to run them.
//!
//! A failing tool is a result that the model reads, never an error of the program. Tools that change something ask
//! first; whether they may is not decided here.

mod arguments;
mod bash;
mod capture;
pub(crate) mod change;
mod commands;
mod edit;
mod kind;
mod list;
mod output;
pub(crate) mod place;
mod read;
pub mod sandbox;
mod secrets;
#[cfg(test)]
mod tests;
mod time;
mod workspace;
mod write;

use std::sync::Arc;

use futures_core::future::BoxFuture;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use unforget_core::json;
use unforget_core::report::visible;
use unforget_core::stamp::SharedSource;

pub use self::change::{Made, Prepared, Preparing};
pub use self::commands::{Commands, OUTSIDE, is_allowed_by, is_outside};
pub use self::output::{READ_OUTPUT, shorten};
pub use self::secrets::Secrets;
pub use self::workspace::Workspace;

/// A tool that a model can call.
pub trait Tool: Send + Sync {
    /// The name that the model calls it by.
    fn name(&self) -> &'static str;

    /// What it does, for the model.
    fn description(&self) -> &'static str;

    /// JSON text of the schema of its arguments.
    fn schema(&self) -> &'static str;

    /// Whether a person has to allow each call.
    fn asks_first(&self) -> bool;

    /// Runs it; when `abort` is cancelled it stops what it started and returns soon.
    fn run<'a>(&'a self, input: &'a Value, abort: &'a CancellationToken) -> BoxFuture<'a, Output>;

    /// Gets the change of a file ready that a run would make, so that it can be written down before it is made; none if the
    /// tool changes no file itself.
    fn prepare<'a>(&'a self, _input: &'a Value, _abort: &'a CancellationToken) -> Option<Preparing<'a>> {
        None
    }
}

/// The tools that every agent has: files and commands of a workspace, and the time.
pub fn standard(workspace: Workspace, commands: Commands, clock: SharedSource) -> Vec<Box<dyn Tool>> {
    let workspace = Arc::new(workspace);
    vec![
        Box::new(read::ReadFile { workspace: Arc::clone(&workspace) }),
        Box::new(write::WriteFile { workspace: Arc::clone(&workspace) }),
        Box::new(edit::EditFile { workspace: Arc::clone(&workspace) }),
        Box::new(list::ListDirectory { workspace: Arc::clone(&workspace) }),
        Box::new(bash::Bash { workspace, commands }),
        Box::new(time::CurrentTime::new(clock)),
    ]
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The call's id.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// JSON text of the arguments.
    pub input: String,
}

/// What a tool gives back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// What it says, whole.
    pub text: String,
    /// Whether it failed.
    pub is_error: bool,
}

impl Output {
    /// What a tool that did its work gives back.
    pub fn ok(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: false }
    }

    /// What a tool that could not do its work gives back.
    pub fn failed(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: true }
    }
}

/// The tools of an agent.
pub struct Toolbox {
    tools: Vec<Box<dyn Tool>>,
    definitions: String,
}

impl std::fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.tools.iter().map(|tool| tool.name())).finish()
    }
}

impl Toolbox {
    /// A box with these tools, in this order, and the one that reads the rest of a long output, which the turn runs.
    pub fn new(tools: Vec<Box<dyn Tool>>) -> Self {
        let definition = |tool: &dyn Tool| {
            let (name, description) = (Value::from(tool.name()), Value::from(tool.description()));
            format!("{{\"name\":{name},\"description\":{description},\"input_schema\":{}}}", tool.schema())
        };
        let mut definitions: Vec<String> = tools.iter().map(|tool| definition(tool.as_ref())).collect();
        definitions.push(output::READ_OUTPUT_DEFINITION.to_owned());
        Self { definitions: format!("[{}]", definitions.join(",")), tools }
    }

    /// JSON text of the definitions, as the API takes them.
    pub fn definitions(&self) -> &str {
        &self.definitions
    }

    /// The tool of that name.
    pub fn find(&self, name: &str) -> Option<&dyn Tool> {
        self.tools.iter().find(|tool| tool.name() == name).map(AsRef::as_ref)
    }

    /// The names of all tools.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.tools.iter().map(|tool| tool.name())
    }

    /// Gets the change of a file ready that a call would make; none if it makes none, or cannot be understood.
    pub async fn prepare(&self, call: &Call, abort: &CancellationToken) -> Option<Result<Prepared, Output>> {
        let tool = self.find(&call.name)?;
        let input = serde_json::from_str::<Value>(&call.input).ok().filter(Value::is_object)?;
        if json::duplicate(&call.input).is_some() {
            return None;
        }
        Some(tool.prepare(&input, abort)?.await)
    }

    /// Runs a call. Whatever is wrong with it is said in the result.
    pub async fn run(&self, call: &Call, abort: &CancellationToken) -> Output {
        let Some(tool) = self.find(&call.name) else {
            let names: Vec<&str> = self.names().collect();
            return Output::failed(format!("there is no tool `{}`; there are: {}", call.name, names.join(", ")));
        };
        if let Some(twice) = json::duplicate(&call.input) {
            let name = visible(&twice.name);
            return Output::failed(format!("the arguments have `{name}` twice in one object; nothing was run"));
        }
        match serde_json::from_str::<Value>(&call.input) {
            Ok(input) if input.is_object() => tool.run(&input, abort).await,
            Ok(_) => Output::failed("the arguments must be a JSON object"),
            Err(error) => Output::failed(format!("the arguments are not JSON: {error}")),
        }
    }
}

/// Runs work that waits for a disk beside the turn. An abort leaves it to end by itself, so it must not change anything.
async fn look(abort: &CancellationToken, work: impl FnOnce() -> Output + Send + 'static) -> Output {
    tokio::select! {
        biased;
        () = abort.cancelled() => Output::failed("[aborted by the user]"),
        output = finish(work) => output.unwrap_or_else(|broken| broken),
    }
}

/// Runs work beside the turn to its end; if it breaks, what is to be said of that.
async fn finish<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Output> {
    let ended = tokio::task::spawn_blocking(work).await;
    ended.map_err(|error| Output::failed(format!("the tool itself failed: {error}")))
}
