//! What a person touches: commands, configuration, output.
//!
//! The only crate that reads the environment, the home directory or the terminal. Data goes to stdout, talk goes to
//! stderr; every command can speak JSON. Exit codes: 0 done, 1 failed, 2 not understood, 3 busy, 4 damage met.

use std::process::ExitCode;

use clap::Parser as _;

mod agent;
mod chat;
mod cli;
mod commands;
mod config;
mod editor;
mod failure;
mod file_size;
mod home;
mod log;
mod machine;
mod markdown;
mod progress;
mod screen;
mod secrets;
#[cfg(feature = "otel")]
mod traces;
mod unified;
mod when;

fn main() -> ExitCode {
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are errors to clap, but successes to a person.
            let printed = error.print();
            return if error.use_stderr() || printed.is_err() { failure::USAGE.into() } else { ExitCode::SUCCESS };
        }
    };
    match file_size::catch() {
        // Without it a file that becomes too large ends the program, and nothing else changes.
        Ok(()) | Err(_) => {}
    }
    match log::begin(&cli).and_then(|()| commands::run(cli, chat::run)) {
        Ok(outcome) => outcome.into(),
        Err(failure) => failure.report(),
    }
}
