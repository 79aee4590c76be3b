//! `token`: who may come into a server, by the tokens in the file beside the settings.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use secrecy::ExposeSecret as _;
use unforget_core::Error;
use unforget_core::json::quote;
use unforget_core::medium::Os;
use unforget_core::retention::Keep;
use unforget_core::stamp::{Source as _, System, rfc3339};
use unforget_server::identity::Tokens;
use unforget_server::identity::tokens::Listed;
use unicode_width::UnicodeWidthStr as _;

use crate::cli::{TokenAdd, TokenCommand, TokenRm};
use crate::config::file;
use crate::failure::{Failure, Outcome, Result};
use crate::home::split_path;
use crate::screen;
use crate::secrets::TOKENS;

/// How wide an actor's name and a label are shown.
const COLUMNS: usize = 32;

pub(crate) fn run(command: &TokenCommand, json: bool) -> Result<Outcome> {
    let tokens = open()?;
    match command {
        TokenCommand::Add(args) => add(&tokens, args, json),
        TokenCommand::Ls => list(&tokens, json),
        TokenCommand::Rm(args) => remove(&tokens, args, json),
    }
}

/// Where the file is; one that is a link, as in a folder of dotfiles, is changed where it leads to.
pub(crate) fn place() -> Result<PathBuf> {
    let path = file::place(|name| std::env::var(name).ok())?.with_file_name(TOKENS);
    Ok(path.canonicalize().unwrap_or(path))
}

/// The tokens in the file.
pub(crate) fn open() -> Result<Tokens> {
    let (folder, name) = split_path(&place()?);
    Ok(Tokens::load(Arc::new(Os::new(folder)), name, Arc::new(System))?)
}

fn add(tokens: &Tokens, args: &TokenAdd, json: bool) -> Result<Outcome> {
    let keep = Keep::parse(&args.expires).map_err(|error| {
        Failure::usage(error.to_string()).hint("`never` for a token that holds until it is removed")
    })?;
    let made = tokens.add(&args.actor, args.label.as_deref(), keep.after(System.now_ms()))?;
    let secret = made.secret.expose_secret();
    let mut out = anstream::stdout().lock();
    if json {
        writeln!(out, "{{{},\"token\":{}}}", fields(&made.listed), quote(secret))?;
        return Ok(Outcome::Done);
    }
    writeln!(out, "{secret}")?;
    let Listed { id, actor, expires_ms, .. } = &made.listed;
    let until = expires_ms.map(|ms| format!(", until {}", screen::time(ms))).unwrap_or_default();
    writeln!(
        anstream::stderr(),
        "token {id}: whoever sends it is {}{until}\nIt is not kept and cannot be shown again. `unforget token rm {id}` takes it back.",
        screen::one_line(actor)
    )?;
    Ok(Outcome::Done)
}

fn list(tokens: &Tokens, json: bool) -> Result<Outcome> {
    let listed = tokens.list()?;
    let mut out = anstream::stdout().lock();
    if json {
        for token in &listed {
            writeln!(out, "{{{}}}", fields(token))?;
        }
        return Ok(Outcome::Done);
    }
    if listed.is_empty() {
        let place = tokens.place().display().to_string();
        writeln!(
            anstream::stderr(),
            "there is no token in {}; `unforget token add ACTOR` makes one",
            screen::safe(&place)
        )?;
        return Ok(Outcome::Done);
    }
    let now_ms = System.now_ms();
    let rows: Vec<[String; 5]> = listed.iter().map(|token| row(token, now_ms)).collect();
    let titles = ["ID", "ACTOR", "CREATED", "EXPIRES", "LABEL"].map(str::to_owned);
    let widths: [usize; 5] =
        std::array::from_fn(|at| rows.iter().chain([&titles]).map(|row| row[at].width()).max().unwrap_or(0));
    let line = |row: &[String; 5]| -> String {
        let cells: Vec<String> = row.iter().zip(widths).map(|(cell, width)| screen::pad(cell, width)).collect();
        cells.join("  ").trim_end().to_owned()
    };
    let dim = anstyle::Style::new().dimmed();
    writeln!(out, "{dim}{}{dim:#}", line(&titles))?;
    rows.iter().try_for_each(|row| writeln!(out, "{}", line(row)))?;
    Ok(Outcome::Done)
}

fn row(token: &Listed, now_ms: i64) -> [String; 5] {
    let expires = match token.expires_ms {
        None => "never".to_owned(),
        Some(ms) if ms <= now_ms => "expired".to_owned(),
        Some(ms) => screen::time(ms),
    };
    let short = |text: &str| screen::fit(&screen::one_line(text), COLUMNS);
    let label = token.label.as_deref().map(short).unwrap_or_default();
    [token.id.clone(), short(&token.actor), screen::time(token.created_ms), expires, label]
}

fn remove(tokens: &Tokens, args: &TokenRm, json: bool) -> Result<Outcome> {
    let removed = tokens.remove(&args.id).map_err(|error| match error {
        Error::NotFound { .. } => {
            Failure::from(error).hint("`unforget token ls` lists their ids; four characters are enough")
        }
        other => other.into(),
    })?;
    let mut out = anstream::stdout().lock();
    match json {
        true => writeln!(out, "{{\"removed\":{}}}", quote(&removed.id))?,
        false => writeln!(out, "removed {} of {}", removed.id, screen::one_line(&removed.actor))?,
    }
    Ok(Outcome::Done)
}

/// What is told of a token in JSON, without the braces.
fn fields(token: &Listed) -> String {
    let text = |text: Option<&str>| text.map_or("null".to_owned(), quote);
    format!(
        "\"id\":{},\"actor\":{},\"label\":{},\"created\":{},\"expires\":{}",
        quote(&token.id),
        quote(&token.actor),
        text(token.label.as_deref()),
        quote(&rfc3339(token.created_ms)),
        text(token.expires_ms.map(rfc3339).as_deref())
    )
}
