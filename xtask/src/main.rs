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
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

mod claude;
mod packages;
mod powerloss;
mod web;

type Result<T = ()> = std::result::Result<T, String>;

/// Builds the program and the stand-ins that programs of other languages start; with the tests, so that everything is built once and not with several sets of features.
const BUILD: [&str; 5] = ["build", "--workspace", "--all-features", "--bins", "--tests"];
/// How pip asks a registry that does not answer at once.
const PATIENTLY: [&str; 4] = ["--retries", "10", "--timeout", "60"];

const HELP: &str = "\
cargo xtask COMMAND

  test        run every test of the project, after setting up what they need
  lint        formatting, clippy (default features, each alone, all), documentation, dependencies
  ci          lint and test
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
        Some("lint") => lint(),
        Some("ci") => lint().and_then(|()| test()),
        Some("bench") if arguments.get(1).is_some_and(|what| what == "peers") => bench_peers(&arguments[2..]),
        Some("bench") if arguments.get(1).is_some_and(|what| what == "page") => web::bench(&arguments[2..]),
        Some("bench") => bench(),
        Some("web") => web::page(&arguments[1..]),
        Some("screenshots") => web::screenshots(),
        Some("load") => serving(&arguments),
        Some("fleet") => servers().and_then(|()| serving(&arguments)),
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

/// Installs a package from PyPI beneath `target/tools`, whole or not at all.
fn pip(name: &str, package: &str) -> Result {
    let tools = workspace().join("target/tools");
    let (place, half) = (tools.join(name), tools.join(format!("{name}.half")));
    if place.exists() {
        return Ok(());
    }
    let has_pip = Command::new("python3").args(["-m", "pip", "--version"]).stdout(Stdio::null()).status();
    if !has_pip.is_ok_and(|status| status.success()) {
        packages::apt(&["python3-pip"])?;
    }
    let mut install = Command::new("python3");
    let quiet = ["--quiet", "--disable-pip-version-check", "--root-user-action=ignore", "--upgrade"];
    install.args(["-m", "pip", "install"]).args(quiet).args(PATIENTLY).arg("--target");
    run(install.arg(&half).arg(package))?;
    std::fs::rename(&half, &place).map_err(|error| format!("{}: {error}", place.display()))
}

/// What others wrote and the tests use: an implementation of S3, which they start themselves; the official client that the stand-in of AgentCore is tried with; and clients that the
/// server is tried with, whose versions are also what `crates/unforget-server/tests/it/clients.rs` installs.
fn tools() -> Result {
    moto()?;
    pip("boto3", "boto3==1.44.0")?;
    pip("schemathesis", "schemathesis==4.32.5")?;
    pip("websockets", "websockets==17.4")
}

fn test() -> Result {
    servers()?;
    tools()?;
    claude::install();
    packages::install();
    web::install();
    cargo(&BUILD)?;
    let counts = counted(&["test", "--workspace", "--all-features", "--no-fail-fast"])?;
    // Pulling the plug takes loop devices and root; where a machine has neither, the simulated power cuts have to do.
    match powerloss::possible() {
        Ok(()) => powerloss::pull_the_plug(&workspace())?,
        Err(why) => eprintln!("note: no real power cuts here: {why}"),
    }
    println!("{} passed, {} failed", counts.0, counts.1);
    Ok(())
}

/// A PostgreSQL server and a pooler, which the tests start by themselves.
fn servers() -> Result {
    let is_there = |program: &str| {
        let installed = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let path = env::var_os("PATH").unwrap_or_default();
        let mut places: Vec<PathBuf> = env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]).collect();
        places.extend(installed.map(|version| version.path().join("bin")));
        places.iter().any(|place| place.join(program).exists())
    };
    let needed = [("initdb", "postgresql"), ("pgbouncer", "pgbouncer")];
    let missing: Vec<&str> =
        needed.into_iter().filter(|(program, _)| !is_there(program)).map(|(_, package)| package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let install = |arguments: &[&str]| {
        // No service is to be started by this: tests start their own.
        run(Command::new("apt-get").args(arguments).env("DEBIAN_FRONTEND", "noninteractive").env("RUNLEVEL", "1"))
    };
    let mut arguments = vec!["install", "--yes", "--no-install-recommends"];
    arguments.extend(&missing);
    install(&["update"]).and_then(|()| install(&arguments)).map_err(|error| {
        format!("the tests need {} and could not install it ({error}): please do", missing.join(" and "))
    })
}

/// A real implementation of S3 for the tests, which start it themselves.
fn moto() -> Result {
    pip("moto", "moto[s3,server]==5.2.5")
}

/// The store first, then a turn on it, then remotes, which need servers. The second also starts the program, which a bench does not build by itself.
fn bench() -> Result {
    cargo(&["bench", "--package", "unforget-core"])?;
    cargo(&["build", "--release", "--package", "unforget"])?;
    cargo(&["bench", "--package", "unforget-agent"])?;
    servers()?;
    moto()?;
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

/// Runs tests, passes their output on, and adds up how many passed and failed.
fn counted(arguments: &[&str]) -> Result<(u64, u64)> {
    eprintln!("$ cargo {}", arguments.join(" "));
    let mut command = Command::new("cargo");
    command.args(arguments).current_dir(workspace()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let output = child.stdout.take().ok_or("the tests have no output")?;
    let (mut passed, mut failed) = (0, 0);
    for line in BufReader::new(output).lines() {
        let line = line.map_err(|error| error.to_string())?;
        println!("{line}");
        // `test result: ok. 39 passed; 0 failed; …`
        if let Some(counts) = line.strip_prefix("test result: ") {
            let number = |what: &str| {
                let part = counts.split([';', '.']).find(|part| part.trim().ends_with(what))?;
                part.trim().split(' ').next()?.parse::<u64>().ok()
            };
            passed += number(" passed").unwrap_or(0);
            failed += number(" failed").unwrap_or(0);
        }
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    match (status.success(), passed) {
        (true, 1..) => Ok((passed, failed)),
        (true, 0) => Err("no test ran".to_owned()),
        (false, _) => Err(format!("{failed} tests failed, {passed} passed ({status})")),
    }
}

fn lint() -> Result {
    cargo(&["fmt", "--all", "--check"])?;
    let deny = ["--", "--deny", "warnings"];
    for features in [&[][..], &["--no-default-features"], &["--all-features"]] {
        let mut arguments = vec!["clippy", "--workspace", "--all-targets"];
        arguments.extend_from_slice(features);
        arguments.extend_from_slice(&deny);
        cargo(&arguments)?;
    }
    for (package, feature) in features()? {
        cargo(&[
            "clippy",
            "--package",
            &package,
            "--no-default-features",
            "--features",
            &feature,
            "--",
            "--deny",
            "warnings",
        ])?;
    }
    run(Command::new("cargo").args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "--deny warnings"))?;
    web::check()?;
    dependencies()
}

/// Every feature of every package, to be built alone.
fn features() -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    let crates = workspace().join("crates");
    for entry in std::fs::read_dir(&crates).map_err(|error| error.to_string())? {
        let manifest = entry.map_err(|error| error.to_string())?.path().join("Cargo.toml");
        let text = std::fs::read_to_string(&manifest).map_err(|error| format!("{}: {error}", manifest.display()))?;
        let name = text.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"')).unwrap_or_default();
        let section = text.split("[features]").nth(1).unwrap_or_default().split("\n[").next().unwrap_or_default();
        let names = section.lines().filter_map(|line| line.split_once('=')).map(|(feature, _)| feature.trim());
        found
            .extend(names.filter(|feature| *feature != "default").map(|feature| (name.to_owned(), feature.to_owned())));
    }
    Ok(found)
}

/// Bans, licences and sources of all dependencies, and how many the core may have.
fn dependencies() -> Result {
    const VERSION: &str = "0.20.2";
    /// The core is the part that others build on: a new dependency of it needs a reason.
    const CORE_LIMIT: usize = 64;
    let tools = workspace().join("target/tools");
    let deny = tools.join("bin/cargo-deny");
    if !deny.exists() {
        let root = tools.display().to_string();
        // It reads some files: building it fast is worth more than a fast one.
        cargo(&["install", "cargo-deny", "--version", VERSION, "--locked", "--debug", "--root", &root])?;
    }
    run(Command::new(deny).args(["--all-features", "check", "bans", "licenses", "sources"]).current_dir(workspace()))?;
    let tree = Command::new("cargo")
        .args(["tree", "--package", "unforget-core", "--edges", "normal", "--prefix", "none", "--no-dedupe"])
        .current_dir(workspace())
        .output()
        .map_err(|error| error.to_string())?;
    let tree = String::from_utf8_lossy(&tree.stdout).into_owned();
    let mut names: Vec<&str> = tree.lines().filter_map(|line| line.split_whitespace().next()).collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() || names.len() > CORE_LIMIT {
        return Err(format!("unforget-core has {} dependencies; the limit is {CORE_LIMIT}", names.len()));
    }
    Ok(())
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
