//! What the program is told before it begins: flags, then the environment, then a file, then what is built in.
//!
//! `setting` has the one table of settings; flags, the file, the printed list and the help are made from it. A value keeps
//! where it came from, because "why does it use that model?" is answered by the place and not by the value. What is
//! wrong is told with its place and with what would be right, and nothing is guessed: a wrong value ends the program
//! before it does anything. A name in the file that is not known is only noted, so that a file can be shared with a
//! newer version.
//!
//! Nothing here knows the store or a conversation; only `file` touches the file, and the environment is handed in.

use std::path::{Path, PathBuf};

use secrecy::SecretString;
use unforget_agent::model::Thinking;
use unforget_agent::prices::Prices;
use unforget_core::key::Key;
use unforget_core::retention::Rules;

use crate::failure::{Failure, Result};

pub(crate) mod file;
pub(crate) mod flags;
pub(crate) mod setting;
mod table;

use file::File;
use flags::Flags;
use setting::{Kind, SETTINGS, Setting, Value};

/// How many tokens a model's window has if nothing else is said.
const WINDOW: u64 = 200_000;
/// The same for models whose name ends in [`LARGE`].
const LARGE_WINDOW: u64 = 1_000_000;
/// What a model's name ends in that is asked with the large window.
pub(crate) const LARGE: &str = "[1m]";

/// Where a value came from; a later one in this order wins over an earlier one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Origin {
    /// It is built in.
    Default,
    /// This file and line.
    File(PathBuf, usize),
    /// This variable.
    Environment(&'static str),
    /// This flag.
    Flag(&'static str),
}

impl Origin {
    /// A short name for machines.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Origin::Default => "default",
            Origin::File(..) => "file",
            Origin::Environment(_) => "environment",
            Origin::Flag(_) => "flag",
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Origin::Default => 0,
            Origin::File(..) => 1,
            Origin::Environment(_) => 2,
            Origin::Flag(_) => 3,
        }
    }

    /// The place, as an error tells it.
    fn place(&self) -> String {
        match self {
            Origin::Default => "the built-in value".to_owned(),
            Origin::File(path, line) => format!("{}, line {line}", path.display()),
            Origin::Environment(name) => format!("the environment variable {name}"),
            Origin::Flag(name) => format!("the flag {name}"),
        }
    }
}

/// A setting with its value, if it has one, and where it came from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Chosen {
    pub(crate) setting: &'static Setting,
    pub(crate) value: Option<Value>,
    pub(crate) origin: Origin,
}

/// When a turn counts as saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ack {
    /// When it is on this disk.
    Local,
    /// When the remote has it, too.
    Remote,
}

/// Who makes titles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Titles {
    /// This program, from the user's words.
    Local,
    /// The model is asked for one.
    Model,
}

/// Everything that can be set.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) model: String,
    pub(crate) base_url: String,
    pub(crate) api_key: Option<SecretString>,
    pub(crate) max_tokens: u32,
    pub(crate) window: u64,
    pub(crate) thinking: Thinking,
    pub(crate) compact_at: f64,
    pub(crate) keep_tokens: Option<u64>,
    pub(crate) allow: Vec<String>,
    pub(crate) workspace: PathBuf,
    pub(crate) command_environment: Vec<String>,
    /// Whether commands run in a sandbox where the kernel has one.
    pub(crate) sandbox: bool,
    pub(crate) key: Key,
    pub(crate) system: Option<String>,
    pub(crate) system_file: Option<PathBuf>,
    pub(crate) titles: Titles,
    pub(crate) ack: Ack,
    pub(crate) max_steps: u32,
    pub(crate) tool_output: usize,
    pub(crate) remote: Option<SecretString>,
    pub(crate) tenant: String,
    pub(crate) remote_key: Option<PathBuf>,
    pub(crate) agents: Vec<String>,
    pub(crate) claude_program: Option<PathBuf>,
    pub(crate) claude_arguments: Vec<String>,
    pub(crate) claude_folder: Option<PathBuf>,
    pub(crate) retention: Rules,
    pub(crate) prices: Prices,
    /// The file that was read, or would have been.
    pub(crate) file: PathBuf,
    /// All settings in the order of the table, with where they came from.
    pub(crate) chosen: Vec<Chosen>,
    /// What a person should be told: names in the file that are not known.
    pub(crate) notes: Vec<String>,
}

/// The configuration of this process.
pub(crate) fn load(flags: &Flags) -> Result<Config> {
    let environment = |name: &str| std::env::var(name).ok();
    let file = File::read(&file::place(environment)?)?;
    Config::load(flags, environment, &file)
}

impl Config {
    /// Puts the sources together.
    pub(crate) fn load(flags: &Flags, environment: impl Fn(&str) -> Option<String>, file: &File) -> Result<Self> {
        let home = environment("HOME").map(PathBuf::from);
        let mut chosen = Vec::with_capacity(SETTINGS.len());
        for setting in &SETTINGS {
            let mut found = choose(setting, flags, &environment, file)?;
            if let Some(Value::Path(path)) = &mut found.value {
                *path = settled(path, &found.origin, home.as_deref());
            }
            chosen.push(found);
        }
        one_system_prompt(&mut chosen)?;
        let values = Values(&chosen);
        let model = values.text("model").unwrap_or_default();
        let window = values.number("window").unwrap_or_else(|| window_of(&model));
        let max_tokens = values.number("max_tokens").unwrap_or_default();
        if max_tokens >= window {
            let place = values.origin("max_tokens").max(values.origin("window")).place();
            return Err(Failure::usage(format!("{place}: `max_tokens` is {max_tokens} and `window` only {window}"))
                .hint("an answer has to fit into the window, with room for the conversation"));
        }
        let key = values.text("key").unwrap_or_default();
        let config = Self {
            base_url: values.text("base_url").unwrap_or_default(),
            api_key: values.secret("api_key"),
            max_tokens: u32::try_from(max_tokens).unwrap_or(u32::MAX),
            thinking: match values.get("thinking") {
                Some(Value::Number(budget)) => Thinking::Budget(u32::try_from(*budget).unwrap_or(u32::MAX)),
                Some(Value::Text(word)) if word == "adaptive" => Thinking::Adaptive,
                _ => Thinking::Default,
            },
            compact_at: values.fraction("compact_at").unwrap_or(1.0),
            keep_tokens: values.number("keep_tokens"),
            allow: values.list("allow"),
            workspace: values.path("workspace").unwrap_or_else(|| PathBuf::from(".")),
            sandbox: values.text("sandbox").as_deref() != Some("off"),
            command_environment: values.list("command_environment"),
            key: key.parse().map_err(unforget_core::Error::from)?,
            system: values.text("system"),
            system_file: values.path("system_file"),
            ack: if values.text("ack").as_deref() == Some("remote") { Ack::Remote } else { Ack::Local },
            titles: if values.text("titles").as_deref() == Some("model") { Titles::Model } else { Titles::Local },
            max_steps: values.number("max_steps").and_then(|steps| u32::try_from(steps).ok()).unwrap_or(u32::MAX),
            tool_output: values.number("tool_output").and_then(|bytes| bytes.try_into().ok()).unwrap_or(usize::MAX),
            remote: values.secret("remote"),
            tenant: values.text("tenant").unwrap_or_default(),
            remote_key: values.path("remote_key"),
            agents: values.list("agents"),
            claude_program: values.path("claude_program"),
            claude_arguments: values.list("claude_arguments"),
            claude_folder: values.path("claude_folder"),
            retention: match values.get("retention") {
                Some(Value::Retention(rules)) => rules.clone(),
                _ => Rules::default(),
            },
            prices: match values.get("prices") {
                Some(Value::Prices(prices)) => prices.clone(),
                _ => Prices::default(),
            },
            file: file.path.clone(),
            notes: file.notes.clone(),
            model,
            window,
            chosen: Vec::new(),
        };
        if let Some(found) = chosen.iter_mut().find(|found| found.setting.name == "window") {
            found.value = Some(Value::Number(window));
        }
        Ok(Self { chosen, ..config })
    }

    /// Takes another model, with its own window unless one is set.
    pub(crate) fn change_model(&mut self, name: &str) {
        name.clone_into(&mut self.model);
        let window = self.chosen.iter_mut().find(|found| found.setting.name == "window");
        if let Some(found) = window.filter(|found| found.origin == Origin::Default) {
            self.window = window_of(name);
            found.value = Some(Value::Number(self.window));
        }
    }
}

/// The window of a model, as its name says it.
fn window_of(model: &str) -> u64 {
    if model.ends_with(LARGE) { LARGE_WINDOW } else { WINDOW }
}

/// The value of one setting: that of the highest source which has one.
fn choose(
    setting: &'static Setting,
    flags: &Flags,
    environment: impl Fn(&str) -> Option<String>,
    file: &File,
) -> Result<Chosen> {
    let read = |text: &str, origin: Origin| match setting.kind.read(text) {
        Ok(value) => Ok(Chosen { setting, value: Some(value), origin }),
        Err(right) => Err(wrong(setting, &origin, &right)),
    };
    if let (Some(text), Some(flag)) = (flags.get(setting), setting.flag) {
        return read(text, Origin::Flag(flag));
    }
    // An empty variable is one that a script could not leave out.
    let variable = Some(setting.variable).filter(|name| !name.is_empty());
    if let Some(text) = variable.and_then(environment).filter(|text| !text.is_empty()) {
        return read(&text, Origin::Environment(setting.variable));
    }
    if let Some(entry) = file.get(setting) {
        let origin = Origin::File(file.path.clone(), entry.line);
        return match setting.kind.take(&entry.item) {
            Ok(value) => Ok(Chosen { setting, value: Some(value), origin }),
            Err(right) => Err(wrong(setting, &origin, &right)),
        };
    }
    match setting.default {
        Some(text) => read(text, Origin::Default),
        None => Ok(Chosen { setting, value: None, origin: Origin::Default }),
    }
}

/// The value is not repeated: it may be a key that was put into the wrong place.
fn wrong(setting: &Setting, origin: &Origin, right: &str) -> Failure {
    let failure = Failure::usage(format!("{}: `{}` must be {right}", origin.place(), setting.name));
    match origin {
        Origin::File(..) if matches!(setting.kind, Kind::Retention | Kind::Prices) => failure.hint(setting.help),
        Origin::File(..) => failure.hint(format!(
            "`unforget config set {0} VALUE` writes it anew, `unforget config unset {0}` removes it",
            setting.name
        )),
        _ => failure.hint(setting.help),
    }
}

/// A path as it is meant: `~` is the home directory, and a file speaks of what is beside it.
fn settled(path: &Path, origin: &Origin, home: Option<&Path>) -> PathBuf {
    let path = match (path.strip_prefix("~"), home) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path.to_path_buf(),
    };
    match origin {
        Origin::File(file, _) => file.parent().map_or(path.clone(), |folder| folder.join(&path)),
        _ => path,
    }
}

/// Of a prompt and a file with a prompt, the one from the higher source counts; two from the same are a mistake.
fn one_system_prompt(chosen: &mut [Chosen]) -> Result<()> {
    let values = Values(chosen);
    if values.get("system").is_none() || values.get("system_file").is_none() {
        return Ok(());
    }
    let (text, file) = (values.origin("system"), values.origin("system_file"));
    let loser = match text.rank().cmp(&file.rank()) {
        std::cmp::Ordering::Less => "system",
        std::cmp::Ordering::Greater => "system_file",
        std::cmp::Ordering::Equal => {
            return Err(Failure::usage(format!("{}: `system_file` and `system` are both set", file.place()))
                .hint("a conversation has one system prompt: unset one of them"));
        }
    };
    if let Some(found) = chosen.iter_mut().find(|found| found.setting.name == loser) {
        found.value = None;
    }
    Ok(())
}

/// Typed looks at the chosen values.
struct Values<'a>(&'a [Chosen]);

impl Values<'_> {
    fn find(&self, name: &str) -> Option<&Chosen> {
        self.0.iter().find(|found| found.setting.name == name)
    }

    fn get(&self, name: &str) -> Option<&Value> {
        self.find(name)?.value.as_ref()
    }

    fn origin(&self, name: &str) -> Origin {
        self.find(name).map_or(Origin::Default, |found| found.origin.clone())
    }

    fn text(&self, name: &str) -> Option<String> {
        if let Some(Value::Text(text)) = self.get(name) { Some(text.clone()) } else { None }
    }

    fn number(&self, name: &str) -> Option<u64> {
        if let Some(Value::Number(number)) = self.get(name) { Some(*number) } else { None }
    }

    fn fraction(&self, name: &str) -> Option<f64> {
        if let Some(Value::Fraction(fraction)) = self.get(name) { Some(*fraction) } else { None }
    }

    fn list(&self, name: &str) -> Vec<String> {
        if let Some(Value::List(list)) = self.get(name) { list.clone() } else { Vec::new() }
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        if let Some(Value::Path(path)) = self.get(name) { Some(path.clone()) } else { None }
    }

    fn secret(&self, name: &str) -> Option<SecretString> {
        if let Some(Value::Secret(secret)) = self.get(name) { Some(secret.0.clone()) } else { None }
    }
}

#[cfg(test)]
mod tests;
