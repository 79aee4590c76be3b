//! What a compiler can say without running anything: format, clippy, features, documentation, dependencies, the page.
//!
//! [`source`] is what most changes fail at and takes two minutes; [`rest`] takes longer and fails less often, so `cargo xtask ci` runs it beside the tests.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use crate::{Result, arch, cargo, dependencies, run, web, workspace};

/// Where the changes of `cargo xtask quick` are counted from, unless an argument names another commit.
const BASE: &str = "HEAD";

/// Everything.
pub(crate) fn all() -> Result {
    source()?;
    rest()
}

/// What most changes fail at, first.
pub(crate) fn source() -> Result {
    cargo(&["fmt", "--all", "--check"])?;
    arch::check(&[])?;
    clippy(&["--workspace", "--all-features", "--all-targets"])
}

/// What takes longer and fails less often.
pub(crate) fn rest() -> Result {
    dependencies::check()?;
    web::check()?;
    let documentation = ["doc", "--workspace", "--no-deps"];
    run(Command::new("cargo").args(documentation).env("RUSTDOCFLAGS", "--deny warnings").current_dir(workspace()))?;
    clippy(&["--workspace", "--all-targets"])?;
    // What clippy finds, it finds with all features; without them the question is whether it compiles.
    cargo(&["check", "--workspace", "--no-default-features"])?;
    features()?.iter().try_for_each(|(package, feature)| {
        cargo(&["check", "--package", package, "--no-default-features", "--features", feature])
    })
}

/// Format, and clippy of the packages that differ from a commit.
pub(crate) fn changed(base: Option<&str>) -> Result {
    cargo(&["fmt", "--all", "--check"])?;
    let base = base.unwrap_or(BASE);
    let git = |arguments: &[&str]| -> Result<String> {
        let output = Command::new("git").args(arguments).current_dir(workspace()).output();
        let output = output.map_err(|error| format!("git: {error}"))?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(format!("git: {}", String::from_utf8_lossy(&output.stderr).trim())),
        }
    };
    let files = git(&["diff", "--name-only", base])? + &git(&["ls-files", "--others", "--exclude-standard"])?;
    let packages: BTreeSet<&str> = files.lines().filter_map(package_of).collect();
    if packages.is_empty() {
        return Ok(());
    }
    let named = packages.iter().flat_map(|package| ["--package", package]);
    clippy(&["--all-features", "--all-targets"].into_iter().chain(named).collect::<Vec<_>>())
}

/// The package that a file belongs to, if it is one of Rust.
fn package_of(file: &str) -> Option<&str> {
    match file.split('/').next()? {
        "crates" => file.split('/').nth(1),
        "bench" => Some("unforget-bench"),
        "xtask" => Some("xtask"),
        _ => None,
    }
}

fn clippy(what: &[&str]) -> Result {
    cargo(&[&["clippy"], what, &["--", "--deny", "warnings"]].concat())
}

/// Every feature of every package.
fn features() -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    let crates = workspace().join("crates");
    for entry in fs::read_dir(&crates).map_err(|error| error.to_string())? {
        let manifest = entry.map_err(|error| error.to_string())?.path().join("Cargo.toml");
        let text = fs::read_to_string(&manifest).map_err(|error| format!("{}: {error}", manifest.display()))?;
        let name = text.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"')).unwrap_or_default();
        let section = text.split("[features]").nth(1).unwrap_or_default().split("\n[").next().unwrap_or_default();
        let names = section.lines().filter_map(|line| line.split_once('=')).map(|(feature, _)| feature.trim());
        found
            .extend(names.filter(|feature| *feature != "default").map(|feature| (name.to_owned(), feature.to_owned())));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_linted_with_its_package() {
        assert_eq!(package_of("crates/unforget-core/src/log.rs"), Some("unforget-core"));
        assert_eq!(package_of("bench/src/main.rs"), Some("unforget-bench"));
        assert_eq!(package_of("docs/format.md"), None);
    }
}
