//! Runs every test, several programs at a time, and adds up what they say.
//!
//! `cargo test` runs one test program after the other. Most of ours wait: for a database, a browser, a disk, an agent. So this lets cargo build the programs
//! and runs them itself, [`LANES`] at a time, those that take longest first. Each runs where cargo would run it: in the folder of its package. What it says
//! is shown when it ends, in one piece.

use std::collections::VecDeque;
use std::fs;
use std::io::BufReader;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use std::{env, thread};

use cargo_metadata::Message;

use crate::{Result, workspace};

/// Where the attack suite leaves its figures.
const FIGURES: &str = "target/attacks";
/// How many test programs run at once.
const LANES: usize = 3;
/// How many tests of a program run at once, for each processor.
const THREADS: usize = 2;
/// The programs that take longest, by package and target, in the order in which they start.
const LONGEST: [(&str, &str); 5] = [
    ("unforget", "it"),
    ("unforget-server", "it"),
    ("unforget-remote", "it"),
    ("unforget-claude", "it"),
    ("unforget-core", "it"),
];

/// The suites of attacks that leave figures behind. One that is missing was not run, and one that is not here was never meant.
const ATTACKS: [&str; 20] = [
    "client-attaches",
    "client-known",
    "client-stranger",
    "model-approvals",
    "model-environment",
    "model-files",
    "model-sandbox",
    "owner-neighbour",
    "owner-planted",
    "owner-shared",
    "remote-agentcore-plain",
    "remote-agentcore-sealed",
    "remote-directory-plain",
    "remote-directory-sealed",
    "remote-postgres-sealed",
    "server-agentcore-plain",
    "server-agentcore-sealed",
    "server-directory-plain",
    "server-directory-sealed",
    "server-postgres-sealed",
];

/// A program that cargo built out of tests.
struct Program {
    package: String,
    target: String,
    folder: PathBuf,
    executable: PathBuf,
}

/// How many tests passed and failed.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
}

/// Builds and runs the tests of some packages, or of all.
pub(crate) fn run(packages: &[&str]) -> Result<Counts> {
    let mut programs = build(packages)?;
    // What an earlier run left behind is no proof.
    let figures = workspace().join(FIGURES);
    if figures.exists() {
        fs::remove_dir_all(&figures).map_err(|error| format!("{}: {error}", figures.display()))?;
    }
    let rank =
        |it: &Program| LONGEST.iter().position(|(package, target)| it.package == *package && it.target == *target);
    programs.sort_by_key(|program| rank(program).unwrap_or(LONGEST.len()));
    let (open, done) = (Mutex::new(VecDeque::from(programs)), Mutex::new((Counts::default(), Vec::new())));
    let lane = || {
        loop {
            let next = open.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some(program) = next else { return };
            let outcome = program.run();
            let (counts, failures) = &mut *done.lock().unwrap_or_else(PoisonError::into_inner);
            match outcome {
                Ok(added) => {
                    counts.passed += added.passed;
                    counts.failed += added.failed;
                }
                Err(failure) => failures.push(failure),
            }
        }
    };
    thread::scope(|scope| (0..LANES).for_each(|_| drop(scope.spawn(lane))));
    let (counts, failures) = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    match (failures.is_empty(), counts.passed) {
        (true, 1..) => Ok(counts),
        (true, 0) => Err("no test ran".to_owned()),
        (false, _) => Err(failures.join("\n       ")),
    }
}

/// Lets cargo build the test programs and say where they are.
fn build(packages: &[&str]) -> Result<Vec<Program>> {
    let mut command = Command::new("cargo");
    command.args(["test", "--no-run", "--all-features", "--message-format", "json-render-diagnostics"]);
    match packages {
        [] => command.arg("--workspace"),
        some => command.args(some.iter().flat_map(|package| ["--package", package])),
    };
    eprintln!("$ {}", format!("{command:?}").replace('"', ""));
    let mut child =
        command.current_dir(workspace()).stdout(Stdio::piped()).spawn().map_err(|error| error.to_string())?;
    let output = child.stdout.take().ok_or("cargo has no output")?;
    let mut programs = Vec::new();
    for message in Message::parse_stream(BufReader::new(output)) {
        let Message::CompilerArtifact(made) = message.map_err(|error| error.to_string())? else { continue };
        let (true, Some(executable)) = (made.profile.test, made.executable) else { continue };
        let folder = made.manifest_path.parent().map(|it| it.as_std_path().to_owned()).unwrap_or_default();
        let package = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        programs.push(Program {
            package,
            target: made.target.name,
            folder,
            executable: executable.into_std_path_buf(),
        });
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    if status.success() { Ok(programs) } else { Err(format!("the tests do not build ({status})")) }
}

impl Program {
    /// Runs it and shows what it said; an error names what failed.
    fn run(&self) -> Result<Counts> {
        let (name, begun) = (format!("{} {}", self.package, self.target), Instant::now());
        let threads = env::var("RUST_TEST_THREADS").unwrap_or_else(|_| {
            (thread::available_parallelism().map_or(1, std::num::NonZero::get) * THREADS).to_string()
        });
        let mut command = Command::new(&self.executable);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder).env("RUST_TEST_THREADS", threads);
        let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{name}: {error}"))?;
        let said = String::from_utf8_lossy(&output.stdout);
        // One call each, so that programs that end together do not mix.
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
        println!("\n{name} ({:.1} s)\n{said}", begun.elapsed().as_secs_f64());
        let counts = counted(&said);
        match output.status.success() {
            true => Ok(counts),
            false => Err(format!("{name}: {} tests failed ({})", counts.failed, output.status)),
        }
    }
}

/// Adds up lines such as `test result: ok. 39 passed; 0 failed; …`.
fn counted(said: &str) -> Counts {
    let mut counts = Counts::default();
    for line in said.lines().filter_map(|line| line.strip_prefix("test result: ")) {
        let number = |what: &str| {
            let part = line.split([';', '.']).find(|part| part.trim().ends_with(what))?;
            part.trim().split(' ').next()?.parse::<u64>().ok()
        };
        counts.passed += number(" passed").unwrap_or(0);
        counts.failed += number(" failed").unwrap_or(0);
    }
    counts
}

/// Adds up the figures that the attack suite left in `target/attacks`.
pub(crate) fn attacks() -> Result<String> {
    #[derive(serde::Deserialize)]
    struct Figures {
        tried: u64,
        refused: u64,
        peak_bytes: u64,
    }
    let folder = workspace().join(FIGURES);
    let (mut tried, mut refused, mut peak) = (0, 0, 0);
    for suite in ATTACKS {
        let path = folder.join(format!("{suite}.json"));
        let problem = |error: String| format!("{}: {error}", path.display());
        let text = fs::read(&path).map_err(|error| problem(error.to_string()))?;
        let figures: Figures = serde_json::from_slice(&text).map_err(|error| problem(error.to_string()))?;
        if figures.tried == 0 {
            println!("attacks: {suite} cannot be tried on this machine");
        }
        tried += figures.tried;
        refused += figures.refused;
        peak = figures.peak_bytes.max(peak);
    }
    let left = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?.count();
    if left != ATTACKS.len() {
        return Err(format!("{left} suites of attacks left figures, and {} are known", ATTACKS.len()));
    }
    Ok(format!("attacks: {tried} tried, {refused} refused, at most {} MiB above idle", peak >> 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_added_up() {
        let said = "test result: ok. 39 passed; 0 failed; 0 ignored\nnoise\ntest result: FAILED. 2 passed; 3 failed; 0 ignored\n";
        let counts = counted(said);
        assert_eq!((counts.passed, counts.failed), (41, 3));
    }
}
