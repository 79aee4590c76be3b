//! The one table of settings, and what each kind of value looks like.
//!
//! A setting is a line of [`SETTINGS`]: everything that knows settings by name reads it there, so that a new one needs a
//! line and a field, and the help cannot differ from what is done.

use std::path::PathBuf;

use secrecy::{ExposeSecret as _, SecretString};
use toml_edit::Item;
use unforget_agent::prices::Prices;
use unforget_core::key::Key;
use unforget_core::retention::Rules;
use unforget_remote::Address;

use super::table;

/// Something that can be set.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    /// Its name in the file.
    pub(crate) name: &'static str,
    /// What its values look like.
    pub(crate) kind: Kind,
    /// The flag that sets it; none for what must not be seen in a list of processes.
    pub(crate) flag: Option<&'static str>,
    /// The environment variable that sets it.
    pub(crate) variable: &'static str,
    /// What it is otherwise.
    pub(crate) default: Option<&'static str>,
    /// What it does, in one line.
    pub(crate) help: &'static str,
}

/// What a value looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Any text with something in it.
    Text,
    /// Text that nobody sees.
    Secret,
    /// An address of a server.
    Address,
    /// A whole number within these bounds.
    Number(u64, u64),
    /// A part of one, within these bounds in percent.
    Fraction(u8, u8),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// One of these words, or a number of at least this.
    ChoiceOrNumber(&'static [&'static str], u64),
    /// Names.
    List,
    /// Where a remote is; it may hold a password.
    Remote,
    /// A file or a folder.
    Path,
    /// The key of a session.
    SessionKey,
    /// How long things are kept: a table in the file.
    Retention,
    /// What tokens cost: a table in the file.
    Prices,
}

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Text(String),
    Secret(Hidden),
    Number(u64),
    Fraction(f64),
    List(Vec<String>),
    Path(PathBuf),
    Retention(Rules),
    Prices(Prices),
}

/// A secret as a value among others: two are equal if they say the same.
#[derive(Debug, Clone)]
pub(crate) struct Hidden(pub(crate) SecretString);

impl PartialEq for Hidden {
    fn eq(&self, other: &Self) -> bool {
        self.0.expose_secret() == other.0.expose_secret()
    }
}

const fn setting(
    name: &'static str,
    kind: Kind,
    [flag, variable]: [&'static str; 2],
    default: Option<&'static str>,
    help: &'static str,
) -> Setting {
    let flag = if flag.is_empty() { None } else { Some(flag) };
    Setting { name, kind, flag, variable, default, help }
}

/// Everything that can be set.
#[rustfmt::skip]
pub(crate) static SETTINGS: [Setting; 28] = [
    setting("model", Kind::Text, ["--model", "MODEL_ID"], Some("claude-sonnet-4-5"), "The model that answers"),
    setting("base_url", Kind::Address, ["--base-url", "ANTHROPIC_BASE_URL"], Some("https://api.anthropic.com"), "Where the API is"),
    setting("api_key", Kind::Secret, ["", "ANTHROPIC_API_KEY"], None, "The API's key; better in the environment than in the file, and never printed"),
    setting("max_tokens", Kind::Number(1, 1_000_000), ["--max-tokens", "UNFORGET_MAX_TOKENS"], Some("8096"), "How long an answer may be, in tokens"),
    setting("window", Kind::Number(1_000, 100_000_000), ["--window", "UNFORGET_WINDOW"], None, "The model's context window, in tokens [default: 200000, or 1000000 for names that end in `[1m]`]"),
    setting("thinking", Kind::ChoiceOrNumber(&["default", "adaptive"], 1_024), ["--thinking", "UNFORGET_THINKING"], Some("default"), "How the model thinks: `default`, `adaptive`, or a budget in tokens"),
    setting("compact_at", Kind::Fraction(5, 99), ["--compact-at", "UNFORGET_COMPACT_AT"], Some("0.85"), "The part of the window at which a conversation is made smaller before a call"),
    setting("keep_tokens", Kind::Number(0, 100_000_000), ["--keep-tokens", "UNFORGET_KEEP_TOKENS"], None, "How much of the newest conversation a compaction keeps, in tokens"),
    setting("allow", Kind::List, ["--allow", "UNFORGET_ALLOW"], Some(""), "Tools that run without a question, separated by commas"),
    setting("workspace", Kind::Path, ["--workspace", "UNFORGET_WORKSPACE"], Some("."), "The folder that tools work in"),
    setting("command_environment", Kind::List, ["", "UNFORGET_COMMAND_ENVIRONMENT"], Some(""), "Environment variables that commands get besides the usual ones, separated by commas; `NAME_*` means all that begin so"),
    setting("sandbox", Kind::Choice(&["auto", "off"]), ["", "UNFORGET_SANDBOX"], Some("auto"), "Whether commands run in a sandbox where the kernel has one (`auto`), or never (`off`)"),
    setting("key", Kind::SessionKey, ["--key", "UNFORGET_KEY"], Some("main:cli:user"), "The key of the session that is continued"),
    setting("system", Kind::Text, ["--system", "UNFORGET_SYSTEM"], None, "The system prompt"),
    setting("system_file", Kind::Path, ["--system-file", "UNFORGET_SYSTEM_FILE"], None, "A file with the system prompt"),
    setting("titles", Kind::Choice(&["local", "model"]), ["--titles", "UNFORGET_TITLES"], Some("local"), "Who makes titles: this program (`local`) or the `model`"),
    setting("max_steps", Kind::Number(1, 10_000), ["--max-steps", "UNFORGET_MAX_STEPS"], Some("100"), "How often tools may run in one turn"),
    setting("tool_output", Kind::Number(256, 16_777_216), ["--tool-output", "UNFORGET_TOOL_OUTPUT"], Some("16384"), "How much of a tool's output the model sees, in bytes"),
    setting("remote", Kind::Remote, ["", "UNFORGET_REMOTE"], None, "Where the chat, `push`, `pull`, `sync` and `remote` copy sessions to and from; may hold a password, and is never printed"),
    setting("tenant", Kind::Text, ["", "UNFORGET_TENANT"], Some("default"), "Whose sessions they are there"),
    setting("remote_key", Kind::Path, ["", "UNFORGET_REMOTE_KEY"], None, "A file with the key that seals what is copied there (64 hexadecimal digits)"),
    setting("ack", Kind::Choice(&["local", "remote"]), ["--ack", "UNFORGET_ACK"], Some("local"), "When a turn counts as saved: on this disk (`local`), or when the remote has it, too (`remote`)"),
    setting("agents", Kind::List, ["", "UNFORGET_AGENTS"], Some("main"), "The agents of `serve`, the usual one first: `claude` is Claude Code, any other name the built-in one"),
    setting("claude_program", Kind::Path, ["", "UNFORGET_CLAUDE_PROGRAM"], None, "Claude Code, for `serve` [default: `claude` in the PATH]"),
    setting("claude_arguments", Kind::List, ["", "UNFORGET_CLAUDE_ARGUMENTS"], Some(""), "More arguments for Claude Code in `serve`, separated by commas"),
    setting("claude_folder", Kind::Path, ["", "UNFORGET_CLAUDE_FOLDER"], None, "The folder that Claude Code works in for `serve` [default: one of each session's own]"),
    setting("retention", Kind::Retention, ["", ""], None, "How long sessions and the trash are kept, by key; nothing expires without it"),
    setting("prices", Kind::Prices, ["", ""], None, "What tokens cost, for models that are not built in or cost something else"),
];

/// The setting of that name.
pub(crate) fn find(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name == name)
}

/// The setting whose name is most like this one, if one is like it at all.
pub(crate) fn nearest(name: &str) -> Option<&'static Setting> {
    let name = name.to_lowercase().replace('-', "_");
    let distance = |setting: &&Setting| edits(&name, setting.name);
    SETTINGS.iter().min_by_key(distance).filter(|setting| distance(setting) <= 1 + setting.name.len() / 4)
}

/// How many characters must be changed, added or left out to make one word of the other.
fn edits(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in other.iter().enumerate() {
            let changed = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

impl Kind {
    /// The value that a text says; otherwise, what would be right.
    pub(crate) fn read(self, text: &str) -> Result<Value, String> {
        let text = if matches!(self, Kind::Text | Kind::Path) { text } else { text.trim() };
        let number = || text.replace('_', "").parse::<u64>().ok();
        let value = match self {
            Kind::Text => Some(Value::Text(text.to_owned())).filter(|_| !text.trim().is_empty()),
            Kind::Secret => Some(Value::Secret(Hidden(text.into()))).filter(|_| is_word(text)),
            Kind::Remote => Some(Value::Secret(Hidden(text.into()))).filter(|_| Address::parse(text).is_ok()),
            Kind::Address => Some(Value::Text(text.trim_end_matches('/').to_owned())).filter(|_| is_address(text)),
            Kind::Number(least, most) => number().filter(|n| (least..=most).contains(n)).map(Value::Number),
            Kind::Fraction(least, most) => {
                let bounds = f64::from(least) / 100.0..=f64::from(most) / 100.0;
                text.parse().ok().filter(|part| bounds.contains(part)).map(Value::Fraction)
            }
            Kind::Choice(words) => words.contains(&text).then(|| Value::Text(text.to_owned())),
            Kind::ChoiceOrNumber(words, least) => match number() {
                Some(number) => (number >= least && number <= u64::from(u32::MAX)).then_some(Value::Number(number)),
                None => words.contains(&text).then(|| Value::Text(text.to_owned())),
            },
            Kind::List => {
                let names = text.split([',', ' ']).filter(|name| !name.is_empty()).map(str::to_owned).collect();
                Some(Value::List(names))
            }
            Kind::Path => Some(Value::Path(text.into())).filter(|_| !text.is_empty()),
            Kind::SessionKey => text.parse::<Key>().ok().map(|key| Value::Text(key.to_string())),
            Kind::Retention | Kind::Prices => None,
        };
        value.filter(|_| !text.contains('\0')).ok_or_else(|| self.right())
    }

    /// The value in a file; otherwise, what would be right.
    pub(crate) fn take(self, item: &Item) -> Result<Value, String> {
        let number = item.as_integer().map(|number| number.to_string());
        match self {
            Kind::Number(..) => number.ok_or_else(|| self.right()).and_then(|text| self.read(&text)),
            Kind::Fraction(..) => match item.as_float() {
                Some(part) => self.read(&part.to_string()),
                None => Err(self.right()),
            },
            Kind::List => {
                let names = item.as_array().map(|array| array.iter().map(|name| name.as_str().map(str::to_owned)));
                names.and_then(Iterator::collect).map(Value::List).ok_or_else(|| self.right())
            }
            Kind::Retention => table::retention(item).map(Value::Retention),
            Kind::Prices => table::prices(item).map(Value::Prices),
            Kind::ChoiceOrNumber(..) if number.is_some() => self.read(&number.unwrap_or_default()),
            _ => item.as_str().ok_or_else(|| self.right()).and_then(|text| self.read(text)),
        }
    }

    /// What a value must be.
    fn right(self) -> String {
        let words = |words: &[&str]| words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" or ");
        match self {
            Kind::Text => "a text with something in it".to_owned(),
            Kind::Secret => "a key without blanks".to_owned(),
            Kind::Remote => REMOTES.to_owned(),
            Kind::Address => "an address that begins with https:// or http://".to_owned(),
            Kind::Number(least, most) => format!("a whole number from {least} to {most}"),
            Kind::Fraction(least, most) => {
                format!("a number from {} to {}", f64::from(least) / 100.0, f64::from(most) / 100.0)
            }
            Kind::Choice(choices) => words(choices),
            Kind::ChoiceOrNumber(choices, least) => {
                format!("{}, or a whole number of at least {least}", words(choices))
            }
            Kind::List => "a list of names: [\"one\", \"two\"]".to_owned(),
            Kind::Path => "a path".to_owned(),
            Kind::SessionKey => "a session key such as \"main:cli:user\"".to_owned(),
            Kind::Retention => table::RETENTION.to_owned(),
            Kind::Prices => table::PRICES.to_owned(),
        }
    }
}

/// What the address of a remote looks like.
const REMOTES: &str =
    "an address such as file:///directory, postgres://user@host/database, s3://bucket/prefix or agentcore://memory-id";

fn is_word(text: &str) -> bool {
    !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c.is_control())
}

fn is_address(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    is_word(text) && rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_alphanumeric() || c == '['))
}

impl Value {
    /// The value as people see it; a secret says only that it is there.
    pub(crate) fn shown(&self) -> String {
        match self {
            Value::Text(text) => text.clone(),
            Value::Secret(_) => "set".to_owned(),
            Value::Number(number) => number.to_string(),
            Value::Fraction(part) => part.to_string(),
            Value::List(names) => names.join(", "),
            Value::Path(path) => path.display().to_string(),
            Value::Retention(rules) => table::shown(rules),
            Value::Prices(prices) => prices.own.keys().cloned().collect::<Vec<_>>().join(", "),
        }
    }

    /// The value for a file.
    pub(crate) fn to_toml(&self) -> toml_edit::Value {
        match self {
            Value::Text(text) => text.as_str().into(),
            Value::Secret(secret) => secret.0.expose_secret().into(),
            // A number from the table's bounds fits; one that does not could not be read either.
            Value::Number(number) => i64::try_from(*number).unwrap_or(i64::MAX).into(),
            Value::Fraction(part) => (*part).into(),
            Value::List(names) => names.iter().map(String::as_str).collect(),
            Value::Path(path) => path.to_string_lossy().as_ref().into(),
            // Tables are written by people; no text is read as one.
            Value::Retention(_) | Value::Prices(_) => self.shown().into(),
        }
    }
}
