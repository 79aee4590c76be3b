//! `store --stdio`: the store that packages of other languages start as a child.

use std::io::BufReader;
use std::sync::Arc;
use std::time::Duration;

use unforget_core::medium::{Medium as _, Os};
use unforget_core::stamp::{SharedSource, System};
use unforget_server::entries::Settings;
use unforget_server::stdio::{self, Pipe};

use crate::cli::{self, Acknowledged};
use crate::commands::Context;
use crate::commands::remote::Place;
use crate::config::{self, Ack, flags::Flags};
use crate::failure::{Failure, Outcome, Result};

/// How long the remote is waited for before the first request is read.
const PATIENCE: Duration = Duration::from_secs(3);
/// How much of the input is read at a time.
const READ_AT_ONCE: usize = 1 << 16;

pub(crate) fn run(context: &Context, args: &cli::Store) -> Result<Outcome> {
    let config = config::load(&Flags::default())?;
    crate::secrets::keep_to_ourselves()?;
    for note in &config.notes {
        context.tell(&format!("note: {note}"))?;
    }
    let source: SharedSource = Arc::new(System);
    let place = match args.no_remote {
        true => None,
        false => Place::find(context, &args.there, &config)?,
    };
    let is_awaited = match args.ack {
        Some(ack) => ack == Acknowledged::Remote,
        None => config.ack == Ack::Remote,
    };
    if is_awaited && place.is_none() {
        return Err(
            Failure::usage("`--ack remote` needs a remote").hint("`--remote URL`, or `unforget config set remote URL`")
        );
    }
    Os::new(context.home.clone()).create_dir(std::path::Path::new(""))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().thread_name("store").enable_all().build()?;
    let there = match place {
        None => None,
        Some(place) => {
            // It is looked again before anything is sent.
            match runtime.block_on(async { tokio::time::timeout(PATIENCE, place.remote.ready()).await }) {
                Ok(Err(error)) if !error.is_passing() => return Err(error.into()),
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => {
                    let note = format!(
                        "note: {} does not answer; what is appended is kept here and sent later",
                        place.address
                    );
                    context.tell(&note)?;
                }
            }
            let (shown, known_as, tenant) = (place.address.to_string(), place.known_as(), place.tenant.clone());
            let remote = Arc::new(place.remote);
            Some((Settings { remote, tenant, known_as, source: source.clone(), is_awaited }, shown))
        }
    };
    let tenant = args.there.tenant.as_ref().unwrap_or(&config.tenant);
    let pipe = Pipe::new(context.home.clone(), tenant, source, there);
    stdio::run(&runtime, pipe, BufReader::with_capacity(READ_AT_ONCE, std::io::stdin().lock()), std::io::stdout())?;
    runtime.shutdown_background();
    Ok(Outcome::Done)
}
