//! `index`: the cache, brought up to date on request.

use std::io::Write as _;
use std::path::Path;

use unforget_core::index::{Depth, Trouble};

use crate::cli::IndexArgs;
use crate::commands::Context;
use crate::failure::{Failure, Outcome, Result};
use crate::progress::Progress;
use crate::screen;

pub(crate) fn run(context: &Context, args: &IndexArgs) -> Result<Outcome> {
    let Some(index) = context.catalog.index() else { return Ok(Outcome::Done) };
    let failed = |trouble| Failure::from(unforget_core::Error::from(trouble));
    if args.rebuild && index.path().exists() {
        let to = index.set_aside().map_err(failed)?;
        context.tell(&format!("note: the index so far is {}", to.display()))?;
    }
    let (mut sessions, mut bytes) = (0_u64, 0_u64);
    let progress = Progress::new("reading sessions");
    let mut step = |_: &Path, len: u64| {
        (sessions, bytes) = (sessions + 1, bytes.saturating_add(len));
        progress.step();
    };
    let caught = match index.catch_up(&context.store, Depth::Everything, &mut step) {
        Err(Trouble::Unusable(why)) => {
            let to = index.set_aside().map_err(failed)?;
            context.tell(&format!("note: the index so far is of no use ({why}) and is now {}", to.display()))?;
            index.catch_up(&context.store, Depth::Everything, &mut step)
        }
        other => other,
    };
    let caught = caught.map_err(failed)?;
    drop(progress);
    for (path, before, now) in &caught.shortened {
        let path = path.display();
        context.tell(&format!("damage: {path} had {before} records and now has {now}: its end is gone"))?;
    }
    let progress = Progress::new("taking in words");
    let (mut heard, mut of) = (0_u64, 0_u64);
    let mut step = |_: &Path, len: u64| {
        (heard, of) = (heard + 1, of.saturating_add(len));
        progress.step();
        true
    };
    index.take_in_words(&mut step).map_err(failed)?;
    index.sum_up().map_err(failed)?;
    drop(progress);
    context.refresh()?;
    let mut out = anstream::stdout().lock();
    if context.json {
        writeln!(out, "{{\"sessions\":{sessions},\"bytes\":{bytes},\"heard\":{heard},\"of_bytes\":{of}}}")?;
    } else {
        let (bytes, of) = (screen::bytes(bytes), screen::bytes(of));
        writeln!(out, "{sessions} sessions read ({bytes}), the words of {heard} taken in ({of})")?;
    }
    Ok(Outcome::Done)
}
