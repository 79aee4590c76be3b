//! `claude doctor`.
use crate::cli;
use crate::commands::Context;
use crate::failure::{Outcome, Result};

pub(super) fn run(_context: &Context, _args: &cli::ClaudeDoctor) -> Result<Outcome> {
    Ok(Outcome::Done)
}
