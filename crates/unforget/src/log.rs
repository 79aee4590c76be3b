//! What the libraries tell (`tracing`), on stderr: as lines for people, as JSON for machines.
//!
//! Commands that carry sessions tell what is tried again without being asked: a person who waits wants to know for what. A chat
//! tells only if it is asked to, since it has its own words for it.

use clap::ValueEnum as _;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::{SubscriberInitExt as _, TryInitError};

use crate::cli::{Cli, Command, Level};
use crate::failure::{Failure, Result};

/// The variable that stands for the flag.
const VARIABLE: &str = "UNFORGET_LOG";

/// Begins to tell, as the command line asks.
pub(crate) fn begin(cli: &Cli) -> Result<()> {
    let Some(level) = level(cli)? else { return Ok(()) };
    let level = match level {
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
    };
    // Of what others tell, requests could hold what nobody should see.
    let ours = Targets::new().with_target("unforget", level).with_target("unforget_remote", level);
    let lines = fmt::layer().with_writer(std::io::stderr).with_ansi(false).with_target(false);
    let failed = |error: TryInitError| Failure::new(error.to_string());
    match cli.json {
        true => {
            tracing_subscriber::registry().with(ours).with(lines.json().flatten_event(true)).try_init().map_err(failed)
        }
        false => tracing_subscriber::registry().with(ours).with(lines.without_time()).try_init().map_err(failed),
    }
}

fn level(cli: &Cli) -> Result<Option<Level>> {
    if let Some(level) = cli.log {
        return Ok(Some(level));
    }
    if let Some(name) = std::env::var(VARIABLE).ok().filter(|name| !name.is_empty()) {
        return Level::from_str(&name, true)
            .map(Some)
            .map_err(|_| Failure::usage(format!("{VARIABLE} must be error, warn, info or debug, and is `{name}`")));
    }
    let carries =
        matches!(cli.command, Some(Command::Push(_) | Command::Pull(_) | Command::Sync(_) | Command::Remote(_)));
    Ok(carries.then_some(Level::Warn))
}
