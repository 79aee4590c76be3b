//! unforget beside its peers and the bare hardware: one run, the same data, ratios.
//!
//! Every contestant is a process that speaks one line at a time ([`contestant`]): [`ours`] and [`bare`] are this program itself,
//! the peers are small adapters in `bench/peers/` around libraries that [`install`] fetches from their registries. They take
//! turns ([`rounds`]), so that a slow minute of the machine hits all of them, and only the work is inside the clock. A peer
//! that is not there, or cannot do something, is shown as missing; no figure is taken from elsewhere.
//!
//! ```text
//! cargo xtask bench peers                     10,000 sessions of 100 MB, 100,000 records: some minutes
//! cargo xtask bench peers --full              100,000 sessions of 1 GB: an hour, and 20 GB of disk
//! cargo xtask bench peers --only W3,W4        some of the workloads
//! cargo xtask load                            a thousand sessions at a server ([`load`])
//! cargo xtask fleet                           three servers, one of them killed again and again ([`fleet`])
//! ```
//!
//! Nothing here is a test, and nothing of it is shipped. What is measured and what is not comparable: `bench/README.md`.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "the bare limits are plain file operations, and a program for people talks to the terminal"
)]

use std::process::ExitCode;

mod bare;
mod contestant;
mod data;
mod fleet;
mod install;
mod load;
mod options;
mod ours;
mod program;
mod rounds;
mod serve;
mod table;
mod workloads;

/// What this program can fail with: words for a person.
type Result<T = ()> = std::result::Result<T, String>;

fn main() -> ExitCode {
    match run(std::env::args().skip(1).collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Vec<String>) -> Result {
    if let Some((name, rest)) = serve::asked(&arguments) {
        return match name {
            "ours" => serve::serve(&mut ours::Ours::new(&rest)?),
            "bare" => serve::serve(&mut bare::Bare::new(&rest)?),
            other => Err(format!("no contestant `{other}`")),
        };
    }
    match arguments.split_first() {
        Some((first, rest)) if first == "load" => return load::run(rest),
        Some((first, rest)) if first == "fleet" => return fleet::run(rest),
        Some((first, [api])) if first == load::BARE => return unforget_testkit::serving::bare::serve(api),
        _ => {}
    }
    let Some(options) = options::Options::parse(&arguments)? else { return Ok(()) };
    let peers = install::peers(&options.folder)?;
    let data = data::prepare(&options)?;
    let sections = workloads::run(&options, &data, &peers)?;
    table::publish(&options, &data, &peers, &sections)
}

/// Puts what was being done before an error.
fn context<T, E: std::fmt::Display>(result: std::result::Result<T, E>, what: impl std::fmt::Display) -> Result<T> {
    result.map_err(|error| format!("{what}: {error}"))
}
