//! The page: built from `web/src` into `web/dist`, which is checked in, so that nobody who builds the program needs Node; and what its tests need.
//!
//! Everything is made in copies beneath `target/tools`; the work tree gets the finished files and nothing else. Packages are those of the lock files
//! (`web/` for the page, `web/tests/` for its tests). The browser is Chromium from the system's packages, because the one that a test library would
//! download is of another maker's choice. Where Node, packages or the browser cannot be had, this says so, loudly, and what needs them is skipped.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::packages::{apt, clear, copy, is_made_of, made_of, npm};
use crate::{BUILD, Result, cargo, run, workspace};

/// What is checked in.
const DIST: &str = "web/dist";
/// Programs and fonts that the tests and screenshots need: what shows that one is there, and its package.
const SYSTEM: [(&str, &str); 3] = [
    ("/usr/bin/chromium", "chromium"),
    ("/usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc", "fonts-noto-cjk"),
    ("/usr/share/fonts/truetype/noto/NotoColorEmoji.ttf", "fonts-noto-color-emoji"),
];
/// What the tests import from elsewhere, named in `web/tests/package.json`.
const TEST_FILES: [&str; 3] = ["package.json", "package-lock.json", ".npmrc"];

/// `cargo xtask web`: builds the page and puts it in its place; with `--check`, only sees whether it is there already.
pub(crate) fn page(arguments: &[String]) -> Result {
    match arguments {
        [] => {
            let built = build(&packages()?)?;
            let place = workspace().join(DIST);
            clear(&place)?;
            copy_files(&built, &place)
        }
        [option] if option == "--check" => compare(&build(&packages()?)?, &workspace().join(DIST)),
        _ => Err("`cargo xtask web` takes nothing but `--check`".to_owned()),
    }
}

/// The check as a part of others: without Node, a note has to do.
pub(crate) fn check() -> Result {
    match packages() {
        Ok(place) => compare(&build(&place)?, &workspace().join(DIST)),
        Err(error) => {
            note("whether web/dist is what web/src makes is NOT CHECKED", &error);
            Ok(())
        }
    }
}

/// Installs what the tests of the page need, and is not there yet; says what cannot be.
pub(crate) fn install() {
    if let Err(error) = browser().and_then(|()| test_packages()) {
        note("the tests of the page are SKIPPED", &error);
    }
}

/// Takes the pictures of `docs/page` anew.
pub(crate) fn screenshots() -> Result {
    browser()?;
    test_packages()?;
    cargo(&BUILD)?;
    run(Command::new("node").arg("web/tests/screenshots.mjs").current_dir(workspace()))
}

/// Measures the page in a real browser.
pub(crate) fn bench(options: &[String]) -> Result {
    browser()?;
    test_packages()?;
    cargo(&["build", "--release", "--package", "unforget"])?;
    cargo(&["build", "--release", "--package", "unforget-testkit", "--all-features", "--bins"])?;
    let mut node = Command::new("node");
    node.arg("web/bench/page.mjs").args(options).env("UNFORGET_TARGET", "release").current_dir(workspace());
    run(&mut node)
}

/// A copy of the page's sources with the packages that build it.
fn packages() -> Result<PathBuf> {
    let (source, tools) = (workspace().join("web"), workspace().join("target/tools/web"));
    let place = tools.join("page");
    let lock = read(&source.join("package-lock.json"))?;
    npm()?;
    if !is_made_of(&tools, &lock) {
        clear(&tools)?;
        copy(&source, &place)?;
        run(Command::new("npm").args(["ci", "--no-audit", "--no-fund", "--silent"]).current_dir(&place))?;
        made_of(&tools, &lock)?;
    }
    copy(&source, &place)?;
    Ok(place)
}

/// Builds in a copy, and returns where the result is.
fn build(place: &Path) -> Result<PathBuf> {
    let built = place.join("dist");
    clear(&built)?;
    for script in ["check", "units", "build"] {
        run(Command::new("npm").args(["run", "--silent", script]).current_dir(place))?;
    }
    Ok(built)
}

/// Holds what was built against what is checked in.
fn compare(built: &Path, place: &Path) -> Result {
    let (built, kept) = (files(built)?, files(place)?);
    let names: Vec<&String> = built.keys().chain(kept.keys().filter(|name| !built.contains_key(*name))).collect();
    let differing: Vec<&str> =
        names.into_iter().filter(|name| built.get(*name) != kept.get(*name)).map(String::as_str).collect();
    match differing.is_empty() {
        true => Ok(()),
        false => Err(format!("{} in {DIST} is not what web/src makes: run `cargo xtask web`", differing.join(" and "))),
    }
}

/// The files of a folder, by name.
fn files(folder: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    let problem = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).map_err(problem)? {
        let path = entry.map_err(problem)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        found.insert(name, fs::read(&path).map_err(problem)?);
    }
    Ok(found)
}

fn copy_files(from: &Path, to: &Path) -> Result {
    let problem = |error: std::io::Error| format!("{}: {error}", to.display());
    fs::create_dir_all(to).map_err(problem)?;
    files(from)?.into_iter().try_for_each(|(name, bytes)| fs::write(to.join(name), bytes).map_err(problem))
}

/// Chromium, and fonts that have what people write.
fn browser() -> Result {
    let missing: Vec<&str> =
        SYSTEM.iter().filter(|(file, _)| !Path::new(file).exists()).map(|(_, package)| *package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    apt(&missing)
}

/// The library that drives the browser, and the one that looks for barriers.
fn test_packages() -> Result {
    let (source, place) = (workspace().join("web/tests"), workspace().join("target/tools/web-tests"));
    let lock = read(&source.join("package-lock.json"))?;
    npm()?;
    if is_made_of(&place, &lock) {
        return Ok(());
    }
    clear(&place)?;
    fs::create_dir_all(&place).map_err(|error| format!("{}: {error}", place.display()))?;
    for name in TEST_FILES {
        fs::copy(source.join(name), place.join(name)).map_err(|error| format!("{name}: {error}"))?;
    }
    run(Command::new("npm").args(["ci", "--no-audit", "--no-fund", "--silent"]).current_dir(&place))?;
    made_of(&place, &lock)
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn note(what: &str, error: &str) {
    eprintln!();
    eprintln!("note: {what}:");
    eprintln!("note:   {error}");
    eprintln!();
}
