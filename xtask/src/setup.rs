//! What the tests need beside a Rust toolchain: servers, clients, SDKs, a browser and the real Claude CLI.
//!
//! Installing waits for networks and disks, so `cargo xtask ci` does it beside the first compilation. One thread installs: the system's package
//! manager takes one caller at a time.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::{Result, claude, packages, powerloss, run, web, workspace};

/// How pip asks a registry that does not answer at once.
pub(crate) const PATIENTLY: [&str; 4] = ["--retries", "10", "--timeout", "60"];

/// Installs everything that the tests need and this machine lacks.
pub(crate) fn everything() -> Result {
    servers()?;
    tools()?;
    claude::install();
    packages::install()?;
    web::install();
    if let Err(why) = powerloss::possible() {
        eprintln!("note: no real power cuts here: {why}");
    }
    Ok(())
}

/// What others wrote and the tests use: an implementation of S3, which they start themselves; the official client that the stand-in of AgentCore is tried with; and clients that the
/// server is tried with, whose versions are also what `crates/unforget-server/tests/it/clients.rs` installs.
fn tools() -> Result {
    moto()?;
    pip("boto3", "boto3==1.44.0")?;
    pip("schemathesis", "schemathesis==4.32.5")?;
    pip("websockets", "websockets==17.4")
}

/// A real implementation of S3 for the tests, which start it themselves.
pub(crate) fn moto() -> Result {
    pip("moto", "moto[s3,server]==5.2.5")
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
    fs::rename(&half, &place).map_err(|error| format!("{}: {error}", place.display()))
}

/// A PostgreSQL server and a pooler, which the tests start by themselves.
pub(crate) fn servers() -> Result {
    let is_there = |program: &str| {
        let installed = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
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
    packages::apt(&missing).map_err(|error| {
        format!("the tests need {} and could not install it ({error}): please do", missing.join(" and "))
    })
}
