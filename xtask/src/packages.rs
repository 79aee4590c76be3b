//! What the tests of the packages need: the SDKs that the packages are for, in environments of their own beneath `target/tools`.
//!
//! Python's are named in `python/pyproject.toml`, TypeScript's in its lock file. Where they cannot be installed, the tests that need them are
//! skipped; this says so, loudly, and nothing fails. What is installed and does not compile is an error: the
//! compiler holds the types of the package for TypeScript against the SDK's and the document's.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::setup::PATIENTLY;
use crate::{Result, run, workspace};

/// The oldest Node that the tests run with.
const NODE: u32 = 20;

/// Reads the group of dependencies that the tests need.
const GROUP: &str =
    "import sys, tomllib; print('\\n'.join(tomllib.load(open(sys.argv[1], 'rb'))['dependency-groups']['test']))";

/// Installs what is not there yet and says what cannot be; compiles.
pub(crate) fn install() -> Result {
    noted("Python", python());
    noted("TypeScript", typescript()).map_or(Ok(()), |package| compile(&package))
}

fn noted<T>(name: &str, installed: Result<T>) -> Option<T> {
    installed
        .inspect_err(|error| {
            eprintln!();
            eprintln!("note: what the tests of the package for {name} need could not be installed:");
            eprintln!("note:   {error}");
            eprintln!("note: these tests are SKIPPED.");
            eprintln!();
        })
        .ok()
}

/// An environment with the SDKs for Python, made anew when their versions change.
fn python() -> Result {
    let (project, place) = (workspace().join("python/pyproject.toml"), workspace().join("target/tools/python-sdks"));
    let listed =
        Command::new("python3").args(["-c", GROUP]).arg(&project).output().map_err(|error| error.to_string())?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    if listed.trim().is_empty() {
        return Err(format!("{} names no packages (Python 3.11 reads it)", project.display()));
    }
    if is_made_of(&place, &listed) {
        return Ok(());
    }
    clear(&place)?;
    if run(Command::new("python3").args(["-m", "venv"]).arg(&place)).is_err() {
        apt(&["python3-venv"])?;
        clear(&place)?;
        run(Command::new("python3").args(["-m", "venv"]).arg(&place))?;
    }
    let mut pip = Command::new(place.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(PATIENTLY).args(listed.lines());
    run(&mut pip)?;
    made_of(&place, &listed)
}

/// A copy of the package for TypeScript with its SDK, and beside it the types of the wire.
fn typescript() -> Result<PathBuf> {
    let (source, tools) = (workspace().join("typescript"), workspace().join("target/tools/typescript-sdks"));
    let package = tools.join("package");
    let read = |path: &Path| fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()));
    let lock = read(&source.join("package-lock.json"))?;
    npm()?;
    if !is_made_of(&tools, &lock) {
        clear(&tools)?;
        copy(&source, &package)?;
        run(Command::new("npm").args(["ci", "--no-audit", "--no-fund", "--silent"]).current_dir(&package))?;
        made_of(&tools, &lock)?;
    }
    copy(&source, &package)?;
    copy(&workspace().join("web/src"), &tools.join("web/src"))?;
    Ok(package)
}

fn compile(package: &Path) -> Result {
    ["clean", "build", "build:test"]
        .iter()
        .try_for_each(|script| run(Command::new("npm").args(["run", "--silent", script]).current_dir(package)))
}

/// Sees to it that there is an npm.
pub(crate) fn npm() -> Result {
    if Command::new("npm").arg("--version").output().is_err() {
        apt(&["nodejs", "npm"])?;
    }
    let said = Command::new("node").arg("--version").output().map_err(|error| format!("node: {error}"))?;
    let said = String::from_utf8_lossy(&said.stdout).trim().to_owned();
    let major = said.trim_start_matches('v').split('.').next().and_then(|number| number.parse::<u32>().ok());
    match major {
        Some(NODE..) => Ok(()),
        _ => Err(format!("Node {NODE} is needed, and this is {said}")),
    }
}

/// Installs packages of the system. The run level keeps it from starting services: tests start their own.
pub(crate) fn apt(packages: &[&str]) -> Result {
    let run = |arguments: &[&str]| {
        run(Command::new("apt-get").args(arguments).env("DEBIAN_FRONTEND", "noninteractive").env("RUNLEVEL", "1"))
    };
    run(&["update"])?;
    run(&[&["install", "--yes", "--no-install-recommends"], packages].concat())
}

/// Copies a folder, without what is made in it.
pub(crate) fn copy(from: &Path, to: &Path) -> Result {
    let problem = |error: std::io::Error| format!("{}: {error}", from.display());
    fs::create_dir_all(to).map_err(problem)?;
    for entry in fs::read_dir(from).map_err(problem)? {
        let entry = entry.map_err(problem)?;
        let (path, name) = (entry.path(), entry.file_name());
        if ["node_modules", "dist", "build"].iter().any(|made| name == *made) {
            continue;
        }
        match path.is_dir() {
            true => {
                clear(&to.join(&name))?;
                copy(&path, &to.join(&name))?;
            }
            false => drop(fs::copy(&path, to.join(&name)).map_err(problem)?),
        }
    }
    Ok(())
}

pub(crate) fn clear(place: &Path) -> Result {
    match fs::remove_dir_all(place) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(format!("{}: {error}", place.display())),
        _ => Ok(()),
    }
}

/// Whether a folder was made of exactly that.
pub(crate) fn is_made_of(place: &Path, what: &str) -> bool {
    fs::read_to_string(place.join("made-of")).is_ok_and(|it| it == what)
}

pub(crate) fn made_of(place: &Path, what: &str) -> Result {
    fs::write(place.join("made-of"), what).map_err(|error| format!("{}: {error}", place.display()))
}
