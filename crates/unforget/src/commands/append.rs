//! `append`: plumbing for scripts and crash tests.

use std::io::{BufRead as _, Write as _};

use unforget_core::Error;
use unforget_core::directory::OnMissing;
use unforget_core::json;
use unforget_core::key::Key;
use unforget_core::layout::Place;
use unforget_core::log::Sealed;
use unforget_core::record::{Draft, Record};
use unforget_core::report::visible;
use unforget_core::session::Session;

use crate::cli::Append;
use crate::commands::Context;
use crate::failure::{Failure, Outcome, Result};

pub(crate) fn run(context: &Context, args: &Append) -> Result<Outcome> {
    let mut session = open(context, args)?;
    if let Some(sealed) = session.sealed() {
        context.tell(&match sealed {
            Sealed::MovedAside { to, bytes } => {
                let to = context.home.join(to);
                format!("note: a crash had cut the last line off; its {bytes} bytes are in {} now", to.display())
            }
            Sealed::Completed => "note: the last line lacked its line feed, which was added".to_owned(),
        })?;
    }
    if let Some(exposure) = session.exposure() {
        let path = context.home.join(session.path());
        context.tell(&format!("warning: {}: {exposure}", path.display()))?;
    }
    let mut out = std::io::stdout().lock();
    for (index, line) in std::io::stdin().lock().lines().enumerate() {
        let number = index + 1;
        let line = line.map_err(|error| Failure::new(format!("stdin, line {number}: {error}")))?;
        if line.trim().is_empty() {
            continue;
        }
        let draft = Draft::from_json(&line).map_err(|error| {
            let failure = Failure::new(format!("stdin, line {number}: {error}"))
                .hint("a record is one JSON object on one line with a `type`; see `unforget help append`");
            if number > 1 { failure.hint("the lines before it are saved") } else { failure }
        })?;
        if has_no_words(&draft) {
            let failure = Failure::new(format!("stdin, line {number}: a user record without words is not saved"))
                .hint("`content` is a string with words in it, or a list of content blocks");
            return Err(if number > 1 { failure.hint("the lines before it are saved") } else { failure });
        }
        if !Record::is_known_type(draft.kind()) {
            context.tell(&format!(
                "note: stdin, line {number}: `{}` is no type that a model sees; it is kept",
                visible(draft.kind())
            ))?;
        }
        let saved = session.append(&[draft])?;
        writeln!(out, "{{\"n\":{}}}", saved.start)?;
        out.flush()?;
    }
    context.close(session);
    Ok(Outcome::Done)
}

/// Whether a draft holds what `chat` refuses to send: words of the user that are none.
fn has_no_words(draft: &Draft) -> bool {
    let content = draft.members().iter().find(|(name, _)| name == "content").map(|(_, content)| content.trim());
    let Some(content) = content.filter(|_| draft.kind() == "user") else { return false };
    match (json::string(content), json::elements(content)) {
        (Some(text), _) => text.trim().is_empty(),
        (None, Some(blocks)) => blocks.is_empty(),
        (None, None) => false,
    }
}

fn open(context: &Context, args: &Append) -> Result<Session> {
    let key = args.name.parse::<Key>();
    if let (true, Ok(key)) = (args.create, &key)
        && matches!(context.find(Place::Agents, &args.name), Err(Error::NotFound { .. }))
    {
        return Ok(context.catalog.load(key, OnMissing::Create)?);
    }
    match context.resolve(&args.name) {
        Ok(entry) => Ok(context.store.open(&entry)?),
        Err(failure) if key.is_ok() => Err(failure.hint("`--create` makes a session for a new key")),
        Err(failure) => Err(failure),
    }
}
