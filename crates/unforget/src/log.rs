//! What the libraries tell (`tracing`), on stderr: as lines for people, as JSON for machines.
//!
//! Commands that carry sessions tell what is tried again without being asked: a person who waits wants to know for what. A chat
//! tells only if it is asked to, since it has its own words for it.

use std::io::{self, Write};

use clap::ValueEnum as _;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::{SubscriberInitExt as _, TryInitError};

use crate::cli::{Cli, Command, Level};
use crate::failure::{Failure, Result};
use crate::screen;
#[cfg(feature = "otel")]
use crate::traces;

/// The variable that stands for the flag.
const VARIABLE: &str = "UNFORGET_LOG";

/// Begins to tell, as the command line asks.
pub(crate) fn begin(cli: &Cli) -> Result<()> {
    let level = match level(cli)? {
        None => LevelFilter::OFF,
        Some(Level::Error) => LevelFilter::ERROR,
        Some(Level::Warn) => LevelFilter::WARN,
        Some(Level::Info) => LevelFilter::INFO,
        Some(Level::Debug) => LevelFilter::DEBUG,
    };
    #[cfg(feature = "otel")]
    let traced = traces::layer(matches!(cli.command, Some(Command::Serve(_))))?;
    #[cfg(not(feature = "otel"))]
    let traced: Option<tracing_subscriber::layer::Identity> = None;
    if level == LevelFilter::OFF && traced.is_none() {
        return Ok(());
    }
    // Of what others tell, requests could hold what nobody should see. What is traced is no line.
    let ours = ["unforget", "unforget_remote", "unforget_server", "unforget_claude"];
    let ours = Targets::new().with_targets(ours.map(|target| (target, level)));
    let ours = ours.with_target(unforget_server::trace::TARGET, LevelFilter::OFF);
    // A command ends with its error and a hint; the same without them before that helps nobody who did not ask for it.
    let is_told_twice = cli.log.is_none() && !matches!(cli.command, Some(Command::Serve(_) | Command::Store(_)));
    let ours = if is_told_twice { ours.with_target("unforget_remote::observed", LevelFilter::ERROR) } else { ours };
    let lines = fmt::layer().with_writer(|| Screened(std::io::stderr())).with_ansi(false).with_target(false);
    let failed = |error: TryInitError| Failure::new(error.to_string());
    let registry = tracing_subscriber::registry().with(traced);
    match cli.json {
        true => registry.with(lines.json().flatten_event(true).with_filter(ours)).try_init().map_err(failed),
        false => registry.with(lines.without_time().with_filter(ours)).try_init().map_err(failed),
    }
}

/// A writer of whole lines, each of which a terminal shows and does not obey: they may hold what a remote answered.
struct Screened<W>(W);

impl<W: Write> Write for Screened<W> {
    /// The layer writes each event at once, with its line feed; any other line feed came from elsewhere.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        let line = text.strip_suffix('\n').unwrap_or(&text);
        let end = &text[line.len()..];
        self.0.write_all(format!("{}{end}", screen::safe(line).replace('\n', "␊")).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
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
    let carries = matches!(
        cli.command,
        Some(
            Command::Push(_)
                | Command::Pull(_)
                | Command::Sync(_)
                | Command::Remote(_)
                | Command::Serve(_)
                | Command::Store(_)
        )
    );
    Ok(carries.then_some(Level::Warn))
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[derive(Clone, Default)]
    struct Shared(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn s13_what_a_remote_answers_is_shown_and_not_obeyed() {
        let shown = Shared::default();
        let writer = shown.clone();
        let lines = fmt::layer().with_writer(move || Screened(writer.clone())).with_ansi(false).without_time();
        let error = "\u{1b}]0;owned\u{7}\u{9b}2J\u{202e}\nERROR forged";
        tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), || {
            tracing::warn!(%error, "trying again: {error}");
        });
        let shown = String::from_utf8(shown.0.lock().unwrap().clone()).unwrap();
        assert_eq!(shown.matches('\n').count(), 1, "{shown:?}");
        assert!(!shown.contains(['\u{1b}', '\u{7}', '\u{9b}', '\u{202e}']), "{shown:?}");
        assert!(shown.contains("owned") && shown.ends_with('\n'), "{shown:?}");
    }
}
