//! The real Claude CLI in two versions, for the tests that hold our reading of its transcripts against the program.
//!
//! The newer comes from PyPI: the wheel of its Agent SDK carries the program, and only the program is taken out of it.
//! The older comes from npm, where each platform has a package with nothing but the program. Neither needs Node to run.
//! The program is not free to pass on, so it is installed where the tests run and never kept in the repository. Where
//! it cannot be installed, the tests that need it are skipped; this says so, loudly, and nothing fails.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Result, cargo, run, workspace};

const NEWER: (&str, &str) = ("2.1.325", "claude-agent-sdk==0.2.182");
const OLDER: (&str, &str) = ("2.1.197", "@anthropic-ai/claude-code");
/// Where the wheel has the program.
const IN_WHEEL: &str = "claude_agent_sdk/_bundled/claude";
/// Where the package of a platform has it.
const IN_PACKAGE: &str = "package/claude";
/// Takes one file out of an archive, with its mode: python3 is there wherever pip is, unzip is not.
const UNZIP: &str = "import sys, zipfile; zipfile.ZipFile(sys.argv[1]).extract(sys.argv[2], sys.argv[3])";

/// Installs what is not there yet; says what cannot be.
pub(crate) fn install() {
    install_one(NEWER.0, wheel);
    install_one(OLDER.0, package);
}

/// Lets both versions write the fixtures anew: all, or those that are named.
pub(crate) fn fixtures(names: &[String]) -> Result {
    install();
    let mut arguments = vec!["run", "--package", "unforget-testkit", "--example", "claude-fixtures", "--"];
    arguments.extend(names.iter().map(String::as_str));
    cargo(&arguments)
}

fn install_one(version: &str, fetch: fn(&Path) -> Result<PathBuf>) {
    let tools = workspace().join("target/tools");
    let (place, half) = (tools.join(format!("claude-{version}")), tools.join(format!("claude-{version}.half")));
    if place.join("claude").exists() {
        return;
    }
    if let Err(error) = fetch_into(&place, &half, version, fetch) {
        eprintln!();
        eprintln!("note: the real Claude CLI {version} could not be installed:");
        eprintln!("note:   {error}");
        eprintln!("note: tests with it are SKIPPED: what this project says about sessions of that CLI");
        eprintln!("note: is not held against the program in this run.");
        eprintln!();
    }
}

/// Makes the folder as a whole or not at all.
fn fetch_into(place: &Path, half: &Path, version: &str, fetch: fn(&Path) -> Result<PathBuf>) -> Result {
    let problem = |error: std::io::Error| format!("{}: {error}", half.display());
    if half.exists() {
        fs::remove_dir_all(half).map_err(problem)?;
    }
    let (download, ready) = (half.join("download"), half.join("ready"));
    fs::create_dir_all(&download).map_err(problem)?;
    fs::create_dir_all(&ready).map_err(problem)?;
    let program = ready.join("claude");
    fs::rename(fetch(&download)?, &program).map_err(problem)?;
    executable(&program)?;
    let said = Command::new(&program).arg("--version").env("HOME", half).output().map_err(problem)?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    if !said.starts_with(version) {
        return Err(format!("it says that it is version `{}`", said.trim()));
    }
    fs::rename(&ready, place).map_err(problem)?;
    fs::remove_dir_all(half).map_err(problem)
}

/// The program out of the wheel of PyPI.
fn wheel(download: &Path) -> Result<PathBuf> {
    let quiet = ["--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:", "--dest"];
    let mut pip = Command::new("python3");
    run(pip.args(["-m", "pip", "download"]).args(quiet).arg(download).arg(NEWER.1))?;
    let wheel = only_file(download)?;
    run(Command::new("python3").args(["-c", UNZIP]).arg(wheel).arg(IN_WHEEL).arg(download))?;
    Ok(download.join(IN_WHEEL))
}

/// The program out of the package that npm has for this platform.
fn package(download: &Path) -> Result<PathBuf> {
    let system = match env::consts::OS {
        "macos" => "darwin",
        other => other,
    };
    let processor = match env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    let libc = if cfg!(target_env = "musl") { "-musl" } else { "" };
    let name = format!("{}-{system}-{processor}{libc}@{}", OLDER.1, OLDER.0);
    run(Command::new("npm").args(["pack", "--silent", "--pack-destination"]).arg(download).arg(name))?;
    let archive = only_file(download)?;
    run(Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(download).arg(IN_PACKAGE))?;
    Ok(download.join(IN_PACKAGE))
}

fn only_file(folder: &Path) -> Result<PathBuf> {
    let mut entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let entry = entries.next().ok_or("nothing was downloaded")?;
    entry.map(|entry| entry.path()).map_err(|error| error.to_string())
}

#[cfg(unix)]
fn executable(program: &Path) -> Result {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(program, mode).map_err(|error| format!("{}: {error}", program.display()))
}

#[cfg(not(unix))]
fn executable(_program: &Path) -> Result {
    Ok(())
}
