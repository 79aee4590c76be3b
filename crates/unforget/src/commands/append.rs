//! `append`: plumbing for scripts and crash tests.

use std::io::{BufRead as _, Write as _};

use unforget_core::key::Key;
use unforget_core::record::Draft;
use unforget_core::session::Session;
use unforget_core::store::OnMissing;

use crate::cli::Append;
use crate::commands::Context;
use crate::failure::{Failure, Outcome, Result};

pub(crate) fn run(context: &Context, args: &Append) -> Result<Outcome> {
    let mut session = open(context, args)?;
    if let Some(sealed) = session.sealed() {
        context.tell(&format!("note: the last line was cut off by a crash: {sealed:?}"))?;
    }
    let mut out = std::io::stdout().lock();
    for (index, line) in std::io::stdin().lock().lines().enumerate() {
        let number = index + 1;
        let line = line.map_err(|error| Failure::new(format!("stdin, line {number}: {error}")))?;
        if line.trim().is_empty() {
            continue;
        }
        let draft = Draft::from_json(&line).map_err(|error| {
            Failure::new(format!("stdin, line {number}: {error}")).hint("the lines before it are saved")
        })?;
        let saved = session.append(&[draft])?;
        writeln!(out, "{{\"n\":{}}}", saved.start)?;
        out.flush()?;
    }
    Ok(Outcome::Done)
}

fn open(context: &Context, args: &Append) -> Result<Session> {
    match context.resolve(&args.name) {
        Ok(entry) => Ok(context.store.open(&entry)?),
        Err(failure) if args.create => match args.name.parse::<Key>() {
            Ok(key) => Ok(context.store.load(&key, OnMissing::Create)?),
            Err(_) => Err(failure),
        },
        Err(failure) => Err(if args.name.parse::<Key>().is_ok() {
            failure.hint("`--create` makes a session for a new key")
        } else {
            failure
        }),
    }
}
