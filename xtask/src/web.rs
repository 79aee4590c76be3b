//! The page: built from `web/src` into `web/dist`, which is checked in, so that building the program takes no Node; and what its tests need.
//!
//! The types of what goes over the wire are made out of `docs/openapi.json` and
//! `docs/protocol.schema.json` into `web/src`, and are checked in as well.
//! Everything is made in copies beneath `target/tools`; the work tree gets the finished files and nothing else. Packages are those of the lock files
//! (`web/` for the page, `web/tests/` for its tests). The browser is Chromium from the system's packages, because the one that a test library would
//! download is of another maker's choice. Where Node, packages or the browser cannot be had, this says so, loudly, and what needs them is skipped.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::packages::{apt, clear, copy, is_made_of, made_of, npm};
use crate::{BUILD, Result, cargo, run, workspace};

/// What is made and checked in: folders of the page, and how the names of the files in them end.
const MADE: [(&str, &str); 2] = [("dist", ""), ("src", ".d.ts")];
/// What the types are made out of.
const DOCUMENTS: [&str; 2] = ["openapi.json", "protocol.schema.json"];
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
            let built = packages()?;
            build(&built)?;
            clear(&workspace().join("web/dist"))?;
            MADE.iter().try_for_each(|(folder, ending)| {
                copy_files(&files(&built.join(folder), ending)?, &workspace().join("web").join(folder))
            })
        }
        [option] if option == "--check" => compare(&packages()?),
        _ => Err("`cargo xtask web` takes nothing but `--check`".to_owned()),
    }
}

/// The check as a part of others: without Node, a note has to do.
pub(crate) fn check() -> Result {
    match packages() {
        Ok(place) => compare(&place),
        Err(error) => {
            note("whether web/dist and the types in web/src are what is made of their sources is NOT CHECKED", &error);
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

/// A copy of the page's sources with the packages that build it, and beside it the documents.
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
    let documents = DOCUMENTS.map(|name| (name.to_owned(), workspace().join("docs").join(name)));
    let documents = documents.into_iter().map(|(name, path)| Ok((name, read(&path)?.into_bytes())));
    copy_files(&documents.collect::<Result<_>>()?, &tools.join("docs"))?;
    Ok(place)
}

/// Builds in a copy.
fn build(place: &Path) -> Result {
    clear(&place.join("dist"))?;
    ["types", "check", "units", "build"]
        .iter()
        .try_for_each(|script| run(Command::new("npm").args(["run", "--silent", script]).current_dir(place)))
}

/// Builds in a copy, and holds what comes of it against what is checked in.
fn compare(place: &Path) -> Result {
    build(place)?;
    let mut differing = Vec::new();
    for (folder, ending) in MADE {
        let (built, kept) =
            (files(&place.join(folder), ending)?, files(&workspace().join("web").join(folder), ending)?);
        let names = built.keys().chain(kept.keys().filter(|name| !built.contains_key(*name)));
        differing.extend(
            names.filter(|name| built.get(*name) != kept.get(*name)).map(|name| format!("web/{folder}/{name}")),
        );
    }
    match differing.is_empty() {
        true => Ok(()),
        false => Err(format!("{} is not what its sources make: run `cargo xtask web`", differing.join(" and "))),
    }
}

/// The files of a folder whose names end so, by name.
fn files(folder: &Path, ending: &str) -> Result<BTreeMap<String, Vec<u8>>> {
    let problem = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).map_err(problem)? {
        let path = entry.map_err(problem)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.ends_with(ending) && path.is_file() {
            found.insert(name, fs::read(&path).map_err(problem)?);
        }
    }
    Ok(found)
}

fn copy_files(files: &BTreeMap<String, Vec<u8>>, to: &Path) -> Result {
    let problem = |error: std::io::Error| format!("{}: {error}", to.display());
    fs::create_dir_all(to).map_err(problem)?;
    files.iter().try_for_each(|(name, bytes)| fs::write(to.join(name), bytes).map_err(problem))
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
