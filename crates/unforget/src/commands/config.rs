//! `config`: what is set and where it came from, and changes of the file.

use std::io::Write as _;

use unforget_agent::tools::sandbox;
use unforget_core::json::quote;
use unforget_remote::Address;
use unicode_width::UnicodeWidthStr as _;

use crate::cli::{Change, Configuration};
use crate::config::file::{self, File};
use crate::config::setting::{self, Kind, Setting};
use crate::config::{self, Chosen, Origin};
use crate::failure::{Failure, Outcome, Result};
use crate::screen;

/// How wide the list is at most.
const COLUMNS: usize = 80;

pub(crate) fn run(args: &Configuration, json: bool) -> Result<Outcome> {
    match &args.change {
        None => show(args, json),
        Some(Change::Set { name, value }) => set(known(name)?, value, json),
        Some(Change::Unset { name }) => unset(known(name)?, json),
    }
}

fn known(name: &str) -> Result<&'static Setting> {
    setting::find(name).ok_or_else(|| {
        let failure = Failure::usage(format!("there is no setting `{name}`"));
        match setting::nearest(name) {
            Some(like) => failure.hint(format!("did you mean `{}`?", like.name)),
            None => failure.hint("`unforget config` lists what can be set"),
        }
    })
}

fn show(args: &Configuration, json: bool) -> Result<Outcome> {
    let config = config::load(&args.flags)?;
    for note in &config.notes {
        writeln!(anstream::stderr(), "note: {}", screen::safe(note))?;
    }
    let mut out = anstream::stdout().lock();
    if json {
        for found in &config.chosen {
            writeln!(out, "{}", chosen_json(found))?;
        }
        return Ok(Outcome::Done);
    }
    let widest = |cell: fn(&Chosen) -> String| config.chosen.iter().map(|found| cell(found).width()).max().unwrap_or(0);
    let (names, places) = (widest(|found| found.setting.name.to_owned()), widest(|found| place(&found.origin)));
    let room = COLUMNS.saturating_sub(names + places + 4);
    let values = widest(|found| screen::one_line(&value(found))).min(room);
    let dim = anstyle::Style::new().dimmed();
    let title = format!("{}  {}  FROM", screen::pad("SETTING", names), screen::pad("VALUE", values));
    writeln!(out, "{dim}{title}{dim:#}")?;
    for found in &config.chosen {
        let value = screen::fit(&screen::one_line(&value(found)), values);
        let name = screen::pad(found.setting.name, names);
        writeln!(out, "{name}  {}  {}", screen::pad(&value, values), place(&found.origin))?;
    }
    let exists = if File::read(&config.file)?.exists { "" } else { " (not there yet)" };
    writeln!(out, "\nThe file is {}{exists}.", screen::safe(&config.file.display().to_string()))?;
    let sandbox = if config.sandbox { sandbox::support().told() } else { "commands run without a sandbox: it is off" };
    writeln!(out, "Now {sandbox}.")?;
    writeln!(out, "`unforget config set NAME VALUE` changes it; flags and the environment win over it.")?;
    Ok(Outcome::Done)
}

fn value(found: &Chosen) -> String {
    match &found.value {
        Some(value) if value.shown().is_empty() => "-".to_owned(),
        Some(value) => value.shown(),
        None if matches!(found.setting.kind, Kind::Secret | Kind::Remote) => "not set".to_owned(),
        None => "-".to_owned(),
    }
}

fn place(origin: &Origin) -> String {
    match origin {
        Origin::Default => "default".to_owned(),
        Origin::File(_, line) => format!("file, line {line}"),
        Origin::Environment(name) => format!("${name}"),
        Origin::Flag(name) => (*name).to_owned(),
    }
}

fn chosen_json(found: &Chosen) -> String {
    let value = match &found.value {
        Some(value) => quote(&value.shown()),
        None => "null".to_owned(),
    };
    let place = match &found.origin {
        Origin::Default => String::new(),
        Origin::File(path, line) => format!(",\"file\":{},\"line\":{line}", quote(&path.display().to_string())),
        Origin::Environment(name) => format!(",\"variable\":{}", quote(name)),
        Origin::Flag(name) => format!(",\"flag\":{}", quote(name)),
    };
    let (name, origin) = (quote(found.setting.name), quote(found.origin.name()));
    format!("{{\"name\":{name},\"value\":{value},\"origin\":{origin}{place}}}")
}

fn set(setting: &Setting, text: &str, json: bool) -> Result<Outcome> {
    let value = setting
        .kind
        .read(text)
        .map_err(|right| Failure::usage(format!("`{}` must be {right}", setting.name)).hint(setting.help))?;
    let path = file::place(|name| std::env::var(name).ok())?;
    file::set(&path, setting, &value)?;
    let mut out = anstream::stdout().lock();
    let shown = path.display().to_string();
    if json {
        let (name, value) = (quote(setting.name), quote(&value.shown()));
        writeln!(out, "{{\"set\":{name},\"value\":{value},\"file\":{}}}", quote(&shown))?;
        return Ok(Outcome::Done);
    }
    let path = screen::safe(&shown);
    match setting.kind {
        Kind::Secret => writeln!(out, "set {} in {path}; its value is never shown", setting.name)?,
        Kind::Remote => writeln!(out, "set {} to {} in {path}", setting.name, without_secrets(text))?,
        _ => writeln!(out, "set {} to {} in {path}", setting.name, screen::one_line(&value.shown()))?,
    }
    if setting.kind == Kind::Secret || (setting.kind == Kind::Remote && has_password(text)) {
        writeln!(
            anstream::stderr(),
            "note: the secret is in a file and in your shell's history now; {} keeps it out of both",
            setting.variable
        )?;
    }
    if !setting.variable.is_empty() && std::env::var(setting.variable).is_ok_and(|text| !text.is_empty()) {
        writeln!(anstream::stderr(), "note: {} is set in the environment and wins over the file", setting.variable)?;
    }
    Ok(Outcome::Done)
}

/// The address of a remote as it may be shown.
fn without_secrets(address: &str) -> String {
    Address::parse(address).map_or_else(|_| "an address".to_owned(), |address| screen::one_line(&address.shown()))
}

/// Whether an address holds a password; most of them do not.
fn has_password(address: &str) -> bool {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    rest.split_once('@').is_some_and(|(user, _)| user.contains(':'))
}

fn unset(setting: &Setting, json: bool) -> Result<Outcome> {
    let path = file::place(|name| std::env::var(name).ok())?;
    let removed = file::unset(&path, setting)?;
    let mut out = anstream::stdout().lock();
    let shown = path.display().to_string();
    match (json, removed) {
        (true, _) => {
            writeln!(out, "{{\"unset\":{},\"removed\":{removed},\"file\":{}}}", quote(setting.name), quote(&shown))?;
        }
        (false, true) => writeln!(out, "removed {} from {}", setting.name, screen::safe(&shown))?,
        (false, false) => writeln!(out, "{} was not set in {}", setting.name, screen::safe(&shown))?,
    }
    Ok(Outcome::Done)
}
