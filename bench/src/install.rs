//! Fetches the peers from their registries, in the versions that `bench/peers/` pins.
//!
//! A peer that cannot be had is missing in the table, with the reason; the others are measured all the same. What is there
//! in the wanted version is not fetched again.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Result, context};

/// Where the adapters and the pinned versions are.
const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers");

/// What can be run.
pub(crate) struct Peers {
    pub(crate) scripts: PathBuf,
    pub(crate) python: PathBuf,
    /// Where the packages of npm are.
    pub(crate) modules: PathBuf,
    pub(crate) ripgrep: PathBuf,
    /// What could not be fetched, with the reason.
    pub(crate) missing: Vec<(String, String)>,
}

/// Fetches what is not there yet.
pub(crate) fn peers(folder: &Path) -> Result<Peers> {
    let (venv, npm) = (folder.join("venv"), folder.join("npm"));
    context(std::fs::create_dir_all(&npm), npm.display())?;
    let mut peers = Peers {
        scripts: PathBuf::from(SCRIPTS),
        python: venv.join("bin/python"),
        modules: npm.join("node_modules"),
        ripgrep: venv.join("bin/rg"),
        missing: Vec::new(),
    };
    if !peers.python.exists()
        && let Err(why) = quietly(Command::new("python3").args(["-m", "venv"]).arg(&venv))
    {
        peers.missing.push(("Python".to_owned(), why));
        return Ok(peers);
    }
    let wanted = read(&peers.scripts.join("requirements.txt"))?;
    for package in wanted.lines().filter(|line| line.contains("==")) {
        let fetch = |mark: &Path| {
            quietly(Command::new(&peers.python).args(["-m", "pip", "install", "--quiet", package]))?;
            context(std::fs::write(mark, package), mark.display())
        };
        let name = package.split("==").next().unwrap_or(package);
        if let Err(why) = unless(&venv.join(format!("{name}.bench")), package, fetch) {
            peers.missing.push((package.to_owned(), why));
        }
    }
    let wanted = read(&peers.scripts.join("package.json"))?;
    let fetch = |mark: &Path| {
        context(std::fs::write(npm.join("package.json"), &wanted), npm.display())?;
        quietly(
            Command::new("npm").args(["install", "--no-audit", "--no-fund", "--ignore-scripts"]).current_dir(&npm),
        )?;
        context(std::fs::write(mark, &wanted), mark.display())
    };
    if let Err(why) = unless(&npm.join("bench"), &wanted, fetch) {
        peers.missing.push(("pi".to_owned(), why));
    }
    Ok(peers)
}

/// Fetches something, unless its mark says that this very thing is there.
fn unless(mark: &Path, wanted: &str, fetch: impl FnOnce(&Path) -> Result) -> Result {
    if std::fs::read_to_string(mark).is_ok_and(|found| found == wanted) { Ok(()) } else { fetch(mark) }
}

fn read(path: &Path) -> Result<String> {
    context(std::fs::read_to_string(path), path.display())
}

/// Runs a command; what it said is shown only if it failed.
fn quietly(command: &mut Command) -> Result {
    let shown = format!("{command:?}").replace('"', "");
    eprintln!("$ {shown}");
    let output = context(command.stdin(Stdio::null()).output(), &shown)?;
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.trim().lines().last().unwrap_or_default();
    if output.status.success() { Ok(()) } else { Err(format!("{shown}: {}: {last}", output.status)) }
}
