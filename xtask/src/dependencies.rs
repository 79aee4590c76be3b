//! What is linked in: where it comes from, under which licence, whether it is banned, whether it has a known fault, and how much of it the core has.
//!
//! The rules are in `deny.toml`, which `cargo deny check` reads as well. This reads the same file, because compiling that program takes longer than all
//! other lints. Known faults come from a copy of the RustSec database, where the machine has one; no package registry carries it.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_metadata::{CargoOpt, DependencyKind, Metadata, MetadataCommand, Package, PackageId};
use rustsec::report::{Report, Settings};
use rustsec::{Database, Lockfile};
use serde::Deserialize;
use spdx::{Expression, ParseMode};

use crate::{Result, workspace};

/// The core is the part that others build on: a new dependency of it needs a reason.
const CORE_LIMIT: usize = 64;
/// The registry that everything comes from.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";
/// Names a copy of the RustSec database.
const DATABASE: &str = "ADVISORY_DB";

/// The part of `deny.toml` that is used.
#[derive(Deserialize)]
struct Rules {
    licenses: Licenses,
    bans: Bans,
}

#[derive(Deserialize)]
struct Licenses {
    allow: Vec<String>,
}

#[derive(Deserialize)]
struct Bans {
    deny: Vec<Ban>,
}

/// A crate that only `wrappers` may use.
#[derive(Deserialize)]
struct Ban {
    #[serde(rename = "crate")]
    name: String,
    #[serde(default)]
    wrappers: Vec<String>,
    reason: String,
}

/// Every rule, for every package of every feature.
pub(crate) fn check() -> Result {
    let place = workspace().join("deny.toml");
    let text = fs::read_to_string(&place).map_err(|error| format!("{}: {error}", place.display()))?;
    let rules: Rules = toml::from_str(&text).map_err(|error| format!("{}: {error}", place.display()))?;
    let metadata = MetadataCommand::new().current_dir(workspace()).features(CargoOpt::AllFeatures).exec();
    let mut problems = broken(&rules, &metadata.map_err(|error| error.to_string())?);
    problems.extend(core()?);
    match database() {
        Some(database) => problems.extend(advisories(&database, &workspace().join("Cargo.lock"))?),
        None => {
            eprintln!();
            eprintln!("note: advisories are SKIPPED: this machine has no copy of the RustSec database.");
            eprintln!("note: let {DATABASE} name one, or get one with `cargo install cargo-audit && cargo audit`.");
            eprintln!();
        }
    }
    match problems.is_empty() {
        true => Ok(()),
        false => Err(problems.join("\n       ")),
    }
}

/// What breaks a rule of `deny.toml`, one sentence each.
fn broken(rules: &Rules, metadata: &Metadata) -> Vec<String> {
    let shipped = shipped(metadata);
    let name_of = |id: &PackageId| metadata.packages.iter().find(|it| it.id == *id).map(|it| it.name.to_string());
    let mut problems = Vec::new();
    for package in &metadata.packages {
        let name = package.name.as_str();
        if package.source.as_ref().is_some_and(|source| source.repr != REGISTRY) {
            problems.push(format!("{name} does not come from the registry"));
        }
        if shipped.contains(&package.id) && !is_allowed(package, &rules.licenses.allow) {
            let licence = package.license.as_deref().unwrap_or("none that it names");
            problems.push(format!("{name} has a licence that deny.toml does not allow: {licence}"));
        }
        let anything = |it: &&cargo_metadata::Dependency| it.path.is_none() && it.req.to_string() == "*";
        if package.source.is_none() {
            let wild = package.dependencies.iter().filter(anything);
            problems.extend(wild.map(|it| format!("{name} takes any version of {}", it.name)));
        }
    }
    for node in metadata.resolve.iter().flat_map(|resolve| &resolve.nodes) {
        let user = name_of(&node.id).unwrap_or_default();
        for used in node.deps.iter().filter_map(|dependency| name_of(&dependency.pkg)) {
            let ban = rules.bans.deny.iter().find(|ban| ban.name == used && !ban.wrappers.contains(&user));
            problems.extend(ban.map(|ban| format!("{user} uses {used}: {}", ban.reason)));
        }
    }
    let mut versions: BTreeMap<&str, usize> = BTreeMap::new();
    for package in &metadata.packages {
        *versions.entry(package.name.as_str()).or_default() += 1;
    }
    let several: Vec<&str> = versions.into_iter().filter(|(_, count)| *count > 1).map(|(name, _)| name).collect();
    eprintln!("{} packages; in more than one version: {}", metadata.packages.len(), several.join(", "));
    problems
}

/// What ends up in a binary: everything that a member of the workspace uses outside of its tests.
fn shipped(metadata: &Metadata) -> BTreeSet<PackageId> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&PackageId> = metadata.workspace_members.iter().collect();
    while let Some(id) = open.pop() {
        if !found.insert(id.clone()) {
            continue;
        }
        let node = metadata.resolve.iter().flat_map(|resolve| &resolve.nodes).find(|node| node.id == *id);
        let used = node.into_iter().flat_map(|node| &node.deps);
        let used = used.filter(|it| it.dep_kinds.iter().any(|kind| kind.kind != DependencyKind::Development));
        open.extend(used.map(|it| &it.pkg));
    }
    found
}

fn is_allowed(package: &Package, allowed: &[String]) -> bool {
    let expression = package.license.as_deref().and_then(|text| Expression::parse_mode(text, ParseMode::LAX).ok());
    expression.is_some_and(|it| it.evaluate(|licence| allowed.contains(&licence.to_string())))
}

/// Whether the core has too many dependencies.
fn core() -> Result<Option<String>> {
    let tree = Command::new("cargo")
        .args(["tree", "--package", "unforget-core", "--edges", "normal", "--prefix", "none", "--no-dedupe"])
        .current_dir(workspace())
        .output()
        .map_err(|error| error.to_string())?;
    let tree = String::from_utf8_lossy(&tree.stdout).into_owned();
    let names: BTreeSet<&str> = tree.lines().filter_map(|line| line.split_whitespace().next()).collect();
    match names.len() {
        0 => Err("`cargo tree` says nothing about unforget-core".to_owned()),
        1..=CORE_LIMIT => Ok(None),
        count => Ok(Some(format!("unforget-core has {count} dependencies; the limit is {CORE_LIMIT}"))),
    }
}

/// Where a copy of the RustSec database is: where the variable says, or where `cargo audit` keeps it.
fn database() -> Option<PathBuf> {
    let cargo = env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo = cargo.or_else(|| env::var_os("HOME").map(|home| Path::new(&home).join(".cargo")));
    let usual = cargo.map(|cargo| cargo.join("advisory-db")).filter(|place| place.join("crates").exists());
    env::var_os(DATABASE).map(PathBuf::from).or(usual)
}

/// The known faults of what is locked, one sentence each.
fn advisories(database: &Path, lock: &Path) -> Result<Vec<String>> {
    let known = Database::open(database).map_err(|error| format!("{}: {error}", database.display()))?;
    let locked = Lockfile::load(lock).map_err(|error| format!("{}: {error}", lock.display()))?;
    let report = Report::generate(&known, &locked, &Settings::default());
    let sentence = |it: rustsec::Vulnerability| {
        format!("{} {} has {}: {}", it.package.name, it.package.version, it.advisory.id, it.advisory.title)
    };
    Ok(report.vulnerabilities.list.into_iter().map(sentence).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADVISORY: &str = "```toml
[advisory]
id = \"RUSTSEC-2026-9999\"
package = \"leaky\"
date = \"2026-01-01\"

[versions]
patched = [\">= 1.2.0\"]
```

# It leaks
";

    /// A lock file with one package, and a database that knows a fault of it.
    fn checked(version: &str) -> Result<Vec<String>> {
        let folder = workspace().join(format!("target/tmp/xtask-{}-{version}", std::process::id()));
        let crates = folder.join("crates/leaky");
        fs::create_dir_all(&crates).unwrap();
        fs::write(crates.join("RUSTSEC-2026-9999.md"), ADVISORY).unwrap();
        let lock = folder.join("Cargo.lock");
        let package = format!("name = \"leaky\"\nversion = \"{version}\"\nsource = \"{REGISTRY}\"");
        fs::write(&lock, format!("version = 4\n\n[[package]]\n{package}\n")).unwrap();
        let found = advisories(&folder, &lock);
        fs::remove_dir_all(folder).unwrap();
        found
    }

    #[test]
    fn s11_a_known_fault_of_a_locked_version_is_named() {
        assert_eq!(checked("1.1.9").unwrap(), ["leaky 1.1.9 has RUSTSEC-2026-9999: It leaks"]);
        assert_eq!(checked("1.2.0").unwrap(), [""; 0]);
    }

    #[test]
    fn s11_a_database_that_cannot_be_read_is_an_error() {
        assert!(advisories(Path::new("/nowhere"), &workspace().join("Cargo.lock")).is_err());
    }
}
