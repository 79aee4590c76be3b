//! The packages for Python and TypeScript, with the SDKs that they are for: their own tests, run with the real program over every kind of place.
//!
//! `cargo xtask test` installs the SDKs (`xtask/src/packages.rs`); where that is not possible the tests say loudly that they were skipped.

use std::path::{Path, PathBuf};
use std::process::Command;

use unforget_testkit::serving::owner_token;

use crate::elsewhere::Place;
use crate::scene::Scene;
use crate::serve::serve;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_path_buf()
}

/// A program beside the one that is tested.
fn beside(name: &str) -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_unforget")).with_file_name(name)
}

/// The interpreter that has the SDKs.
fn python() -> Option<Command> {
    let place = workspace().join("target/tools/python-sdks");
    // Written when everything was installed.
    if !place.join("made-of").exists() {
        println!("SKIPPED: the SDKs for Python are not installed; `cargo xtask test` does that");
        return None;
    }
    let mut command = Command::new(place.join("bin/python"));
    command.current_dir(workspace().join("python")).env("PYTHONPATH", "src").env("PYTHONDONTWRITEBYTECODE", "1");
    command.args(["-m", "pytest", "-q", "-p", "no:cacheprovider"]);
    Some(with_programs(command))
}

/// The package for TypeScript, compiled, with the SDK beside it.
fn node() -> Option<Command> {
    let folder = workspace().join("target/tools/typescript-sdks/package");
    if !folder.join("build").exists() {
        println!("SKIPPED: the package for TypeScript is not built; `cargo xtask test` does that");
        return None;
    }
    let mut command = Command::new("node");
    command.current_dir(folder).arg("--test");
    Some(with_programs(command))
}

fn with_programs(mut command: Command) -> Command {
    command.env("UNFORGET_BIN", env!("CARGO_BIN_EXE_unforget")).env_remove("UNFORGET_HOME");
    for (name, variable) in [("fake-api", "UNFORGET_FAKE_API"), ("fake-agentcore", "UNFORGET_FAKE_AGENTCORE")] {
        let program = beside(name);
        assert!(program.exists(), "there is no {name}: `cargo build --workspace --all-features --bins`");
        command.env(variable, program);
    }
    command
}

/// Runs tests, which have to pass, and of which some have to be run.
fn passes(mut command: Command) {
    let output = command.output().unwrap();
    let told = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}\n{told}");
    let has_run =
        told.contains(" passed") || told.lines().any(|line| line.contains("# pass ") && !line.ends_with(" 0"));
    assert!(has_run, "no test was run by {command:?}\n{told}");
}

/// Where the tests of a package put their stores.
enum Where {
    Remote(Place),
    /// A server, perhaps with a remote.
    Server(Option<Place>),
}

impl Where {
    /// Runs a package's tests there.
    fn runs(self, command: Option<Command>) {
        let Some(mut command) = command else { return };
        let (place, is_server) = match self {
            Self::Remote(place) => (Some(place), false),
            Self::Server(place) => (place, true),
        };
        if let Some(place) = &place {
            command.envs(place.variables.iter().map(|(name, value)| (*name, value)));
        }
        if !is_server {
            command.env("UNFORGET_TEST_REMOTE", &place.as_ref().unwrap().url);
            return passes(command);
        }
        let mut scene = Scene::offline();
        let mut arguments = Vec::new();
        if let Some(place) = &place {
            scene = place.variables.iter().fold(scene, |scene, (name, value)| scene.with(name, value));
            arguments.extend(["--remote", place.url.as_str()]);
        }
        let server = serve(&scene, &arguments);
        let token = owner_token(&server.url).unwrap();
        command.env("UNFORGET_TEST_URL", &server.url);
        command.env("UNFORGET_TEST_TOKEN", &token).env("UNFORGET_TEST_TOKENS", &token);
        passes(command);
    }
}

/// The suite that the Claude Agent SDK has for stores, and what we ask beyond it.
fn suite() -> Option<Command> {
    let mut command = python()?;
    command.args(["tests/test_claude.py", "tests/test_openai_agents.py", "tests/test_langgraph.py", "-m", "not slow"]);
    Some(command)
}

fn contracts() -> Option<Command> {
    let mut command = node()?;
    command.args(["build/contracts.test.js", "build/entries.test.js"]);
    Some(command)
}

#[test]
fn python_on_this_machine() {
    if let Some(command) = python() {
        passes(command);
    }
}

#[test]
fn python_by_a_database() {
    Where::Remote(Place::database("python")).runs(suite());
}

#[test]
fn python_by_a_bucket() {
    Where::Remote(Place::bucket("python")).runs(suite());
}

#[test]
fn python_by_agentcore_memory() {
    Where::Remote(Place::memory()).runs(suite());
}

#[test]
fn python_by_a_server() {
    Where::Server(None).runs(suite());
}

#[test]
fn python_by_a_server_with_a_database() {
    Where::Server(Some(Place::database("python_served"))).runs(suite());
}

#[test]
fn python_by_a_server_with_a_bucket() {
    Where::Server(Some(Place::bucket("python-served"))).runs(suite());
}

#[test]
fn python_by_a_server_with_agentcore_memory() {
    Where::Server(Some(Place::memory())).runs(suite());
}

#[test]
fn typescript_on_this_machine() {
    if let Some(mut command) = node() {
        let folder = command.get_current_dir().unwrap().join("build");
        let tests = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        command.args(tests.filter(|path| path.to_string_lossy().ends_with(".test.js")));
        passes(command);
    }
}

#[test]
fn typescript_by_a_database() {
    Where::Remote(Place::database("typescript")).runs(contracts());
}

#[test]
fn typescript_by_a_bucket() {
    Where::Remote(Place::bucket("typescript")).runs(contracts());
}

#[test]
fn typescript_by_agentcore_memory() {
    Where::Remote(Place::memory()).runs(contracts());
}

#[test]
fn typescript_by_a_server() {
    Where::Server(None).runs(contracts());
}

#[test]
fn typescript_by_a_server_with_a_database() {
    Where::Server(Some(Place::database("typescript_served"))).runs(contracts());
}

#[test]
fn typescript_by_a_server_with_a_bucket() {
    Where::Server(Some(Place::bucket("typescript-served"))).runs(contracts());
}

#[test]
fn typescript_by_a_server_with_agentcore_memory() {
    Where::Server(Some(Place::memory())).runs(contracts());
}
