//! `claude watch`: everything that Claude Code writes, until Ctrl-C.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use unforget_claude::keep::{agent, kept_id};
use unforget_claude::mirror::{Kept, Mirror};
use unforget_claude::place::Found;

use super::carrier::Carrier;
use super::{config_dir, keeper, must_be_there, remote_of, save};
use crate::cli;
use crate::commands::Context;
use crate::commands::remote::wait;
use crate::failure::{Failure, Outcome, Result};

/// How long it takes at most until Ctrl-C is heard.
const LISTEN: Duration = Duration::from_millis(250);
/// How long what is left is sent after Ctrl-C or SIGTERM.
const FLUSH: Duration = Duration::from_secs(12);

pub(super) fn run(context: &Context, args: &cli::Watch) -> Result<Outcome> {
    must_be_there(&config_dir(&args.program)?)?;
    let keeper = keeper(context, &args.program)?;
    let place = remote_of(context, &args.elsewhere)?;
    let carrier = match place {
        Some(place) => Some(Carrier::begin(&context.store, place, None, speak)?),
        None => None,
    };
    let mut mirror = Mirror::begin(&keeper)?;
    let is_over = ending()?;
    // What was deleted here on purpose is not brought back by the way.
    let store = context.store.clone();
    let is_wanted =
        move |found: &Found| kept_id(&found.id).is_ok_and(|id| store.medium().stat(&agent().trashed(&id)).is_err());
    context.tell(&format!("watching {} (Ctrl-C ends it)", keeper.config().medium().root().display()))?;
    let mut troubles = Troubles::default();
    let mut is_first = true;
    loop {
        // Everything at the beginning and at the end; in between what the system tells of.
        let is_last = is_over.load(Ordering::Relaxed);
        let looked = if is_first || is_last { mirror.sweep(&is_wanted) } else { mirror.turn(LISTEN, &is_wanted) };
        is_first = false;
        match looked {
            Ok(kept) => {
                for Kept { found, outcome } in kept {
                    match outcome {
                        Ok(saved) if saved.is_empty() => save::tell_rewritten(context, &found, &saved)?,
                        Ok(saved) => {
                            save::tell_rewritten(context, &found, &saved)?;
                            save::tell(context, &found, &saved)?;
                            if let Some(carrier) = &carrier {
                                carrier.orders().send(kept_id(&found.id)?);
                            }
                        }
                        Err(error) => troubles.tell(found.id.as_str(), error)?,
                    }
                }
            }
            // It may be there again the next time.
            Err(error) => {
                troubles.tell("watching", error)?;
                std::thread::sleep(LISTEN);
            }
        }
        if is_last {
            break;
        }
    }
    if let Some(carrier) = carrier {
        let report = carrier.end(FLUSH);
        for (id, why) in &report.waiting {
            context.tell(&format!("note: {id} is kept here, not yet there: {why}"))?;
        }
        if report.is_late {
            context.tell("note: what was kept last may not be there yet (`unforget push` sends it)")?;
        }
    }
    Ok(Outcome::Done)
}

/// What went wrong with whom: each trouble is told once, and what it is about is tried again all the while.
#[derive(Default)]
struct Troubles(BTreeMap<String, String>);

impl Troubles {
    fn tell(&mut self, about: &str, error: unforget_claude::Error) -> Result<()> {
        let text = error.to_string();
        if self.0.insert(about.to_owned(), text.clone()).is_none_or(|before| before != text) {
            Failure::from(error).of(about).tell()?;
        }
        Ok(())
    }
}

/// Says something beside what a program prints.
pub(super) fn speak(text: String) {
    use std::io::Write as _;
    // Nobody may be there to hear it.
    drop(writeln!(anstream::stderr().lock(), "{}", crate::screen::safe(&text)));
}

/// Becomes true with Ctrl-C or SIGTERM.
fn ending() -> Result<Arc<AtomicBool>> {
    let over = Arc::new(AtomicBool::new(false));
    let flag = over.clone();
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let heard = wait(async {
            use tokio::signal::unix::{SignalKind, signal};
            let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
            tokio::select! {
                _ = term.recv() => {}
                _ = int.recv() => {}
            }
            Ok(())
        });
        if heard.is_ok() {
            flag.store(true, Ordering::Relaxed);
        }
    })?;
    Ok(over)
}
