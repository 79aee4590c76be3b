//! Automation: `cargo xtask test` sets up what the tests need and runs all of them; `cargo xtask ci` is what must pass
//! before a change lands; `cargo xtask web` builds the page; `cargo xtask load` and `cargo xtask fleet` drive real servers; `cargo xtask powerloss` pulls the plug on real file systems; `cargo xtask claude-fixtures`
//! records sessions of the real Claude CLI.
//!
//! Everything runs on a machine with nothing but a Rust toolchain; what else is needed is installed by name.
#![allow(
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a build script for people talks to the terminal and touches files"
)]

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

mod arch;
mod claude;
mod dependencies;
mod lint;
mod packages;
mod powerloss;
mod setup;
mod suite;
mod web;

type Result<T = ()> = std::result::Result<T, String>;

/// Builds the program and the stand-ins that programs of other languages start; with the tests, so that everything is built once and not with several sets of features.
const BUILD: [&str; 5] = ["build", "--workspace", "--all-features", "--bins", "--tests"];
/// The packages whose tests take no server, browser or agent.
const QUICK: [&str; 4] = ["unforget-core", "unforget-agent", "unforget-claude", "xtask"];

const HELP: &str = "\
cargo xtask COMMAND

  test        run every test of the project, after setting up what they need
  lint        formatting, architecture, clippy (all features, default), none and each feature alone, documentation, dependencies, the page
  ci          lint and test, with what waits beside what computes
  quick [COMMIT]
              formatting, clippy of the packages that differ from COMMIT (HEAD), unit and core tests: three minutes at most
  arch [--lower]
              cycles, public names, lines, wide comments and banned words of each crate, held against arch.toml
  bench       measure against the bare hardware, as ratios in one run
  bench peers measure against other programs' session stores (`bench peers --help`, bench/README.md)
  bench page  measure the page in a real browser, as ratios in one run
  web         build the page into web/dist, which is checked in; with --check, see whether it is there
  screenshots take the pictures of docs/page anew
  load [--sessions N] [--seconds N] [--rate N]
              many WebSocket sessions at a server, beside one that keeps nothing; then kill -9 in the middle
  fleet [--seconds N] [--sessions N] [--seed N]
              three servers on one PostgreSQL, one of them killed every few seconds; nothing acknowledged may be missing
  powerloss   pull the plug on real ext4 and xfs file systems (root, Linux)
  claude-fixtures [SCENARIO…]
              let the real Claude CLI write the sessions that the tests read
";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let outcome = match arguments.first().map(String::as_str) {
        Some("test") => test(),
        Some("lint") => lint::all(),
        Some("ci") => ci(),
        Some("arch") => arch::check(&arguments[1..]),
        Some("quick") => quick(arguments.get(1).map(String::as_str)),
        Some("bench") if arguments.get(1).is_some_and(|what| what == "peers") => bench_peers(&arguments[2..]),
        Some("bench") if arguments.get(1).is_some_and(|what| what == "page") => web::bench(&arguments[2..]),
        Some("bench") => bench(),
        Some("web") => web::page(&arguments[1..]),
        Some("screenshots") => web::screenshots(),
        Some("load") => serving(&arguments),
        Some("fleet") => setup::servers().and_then(|()| serving(&arguments)),
        Some("claude-fixtures") => claude::fixtures(&arguments[1..]),
        Some("powerloss") => powerloss::pull_the_plug(&workspace()),
        Some("help" | "--help" | "-h") | None => {
            eprint!("{HELP}");
            Ok(())
        }
        Some(other) => Err(format!("unknown command `{other}`\n\n{HELP}")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the workspace.
fn workspace() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// Every test. Installing waits and building computes, so they run beside each other.
fn test() -> Result {
    beside(setup::everything, || cargo(&BUILD))?;
    tests()
}

/// What must pass before a change lands. The tests wait and the slower lints compute, so they run beside each other.
fn ci() -> Result {
    let begun = Instant::now();
    let passed = |what: &str| eprintln!("{what}: {} s since the start", begun.elapsed().as_secs());
    beside(setup::everything, || {
        lint::source()?;
        passed("linted");
        cargo(&BUILD)
    })?;
    passed("built");
    beside(lint::rest, tests)?;
    passed("tested");
    Ok(())
}

/// The lints of what changed, and the tests that take no setup.
fn quick(base: Option<&str>) -> Result {
    lint::changed(base)?;
    let counts = suite::run(&QUICK)?;
    println!("{} passed, {} failed", counts.passed, counts.failed);
    Ok(())
}

/// Runs what is built.
fn tests() -> Result {
    let counts = suite::run(&[])?;
    cargo(&["test", "--quiet", "--workspace", "--all-features", "--doc"])?;
    // Pulling the plug takes loop devices and root; where a machine has neither, the simulated power cuts have to do.
    if powerloss::possible().is_ok() {
        powerloss::pull_the_plug(&workspace())?;
    }
    println!("{}", suite::attacks()?);
    println!("{} passed, {} failed", counts.passed, counts.failed);
    Ok(())
}

/// Runs one thing in a thread beside another; both end before this does.
fn beside(other: fn() -> Result, this: impl FnOnce() -> Result) -> Result {
    std::thread::scope(|scope| {
        let other = scope.spawn(other);
        let outcome = this();
        let other = other.join().unwrap_or_else(|_| Err("a step panicked".to_owned()));
        outcome.and(other)
    })
}

/// The store first, then a turn on it, then remotes, which need servers. The second also starts the program, which a bench does not build by itself.
fn bench() -> Result {
    cargo(&["bench", "--package", "unforget-core"])?;
    cargo(&["build", "--release", "--package", "unforget"])?;
    cargo(&["bench", "--package", "unforget-agent"])?;
    setup::servers()?;
    setup::moto()?;
    cargo(&["bench", "--package", "unforget-remote", "--all-features"])
}

/// The program and its peers, which the bench fetches by itself.
fn bench_peers(options: &[String]) -> Result {
    cargo(&["build", "--release", "--package", "unforget", "--package", "unforget-bench"])?;
    run(Command::new(workspace().join("target/release/unforget-bench")).args(options))
}

/// A real server with many clients, as it is shipped.
fn serving(arguments: &[String]) -> Result {
    cargo(&["build", "--release", "--package", "unforget", "--package", "unforget-bench"])?;
    run(Command::new(workspace().join("target/release/unforget-bench")).args(arguments))
}

fn cargo(arguments: &[&str]) -> Result {
    run(Command::new("cargo").args(arguments).current_dir(workspace()))
}

fn run(command: &mut Command) -> Result {
    let shown = format!("{command:?}").replace('"', "");
    eprintln!("$ {shown}");
    let status = command.status().map_err(|error| format!("{shown}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{shown}: {status}")) }
}
