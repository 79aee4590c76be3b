//! The real Claude CLI, offline, against our own [`FakeApi`](crate::api::FakeApi).
//!
//! Transcripts of the CLI change from release to release, and no document says what they mean. So what we believe of
//! them is held against the program itself: a test lets the real CLI write a session, and compares what we read out of
//! its file with what the CLI sends when it goes on. The program is not ours to pass on; `cargo xtask test` installs
//! two versions from the public registries, and where that is not possible the tests say loudly that they were skipped.
//!
//! This module finds the program. [`Machine`] is a place where it runs: folders of its own, an environment with nothing
//! of the developer's in it, and no way to the internet but the address of the server. [`Running`] is one run, which
//! ends in time or is ended. [`Gate`] is a command that a tool runs until the test lets it go on, so that a test can
//! act in the middle of a tool call without guessing when that is. [`requests`] finds what the CLI has sent.
//!
//! It knows nothing of our own formats, and reads transcripts only as far as their names.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "what sets the scene of a test may fail as loudly as the test, and touches the files of another program"
)]

mod gate;
mod machine;
pub mod requests;
mod running;
#[cfg(test)]
mod tests;

use std::env;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use self::gate::{Gate, Held};
pub use self::machine::Machine;
pub use self::running::{Answer, Finished, Running};
pub use rustix::process::Signal;

/// The version that comes with the Agent SDK of PyPI.
pub const LATEST: &str = "2.1.325";
/// The version of npm, whose transcripts have fewer kinds of lines.
pub const OLDER: &str = "2.1.197";
/// Names a program to use instead of the installed [`LATEST`].
pub const VARIABLE: &str = "CLAUDE_BIN";

/// No wait for the CLI is longer than this; one turn takes a second or two.
const PATIENCE: Duration = Duration::from_secs(120);

/// An installed version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claude {
    program: PathBuf,
    version: String,
}

impl Claude {
    /// The newest version that the tests know.
    pub fn latest() -> Option<Self> {
        Self::find(LATEST)
    }

    /// Finds a version; if it is not installed, says on stderr that something was skipped.
    pub fn find(version: &str) -> Option<Self> {
        let chosen = env::var_os(VARIABLE).filter(|_| version == LATEST).map(PathBuf::from);
        let program = chosen.unwrap_or_else(|| installed(version));
        if !program.is_file() {
            // Written past the test harness, which would swallow it: nobody is to believe that this was tested.
            let place = program.display();
            let note =
                format!("\nSKIPPED: the real Claude CLI {version} is not at {place}; `cargo xtask test` installs it\n");
            drop(io::stderr().write_all(note.as_bytes()));
            return None;
        }
        Some(Self { program, version: version.to_owned() })
    }

    /// All versions that are installed, the newest first.
    pub fn all() -> Vec<Self> {
        [LATEST, OLDER].into_iter().filter_map(Self::find).collect()
    }

    /// Where the program is.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Which version it was looked up as.
    pub fn version(&self) -> &str {
        &self.version
    }
}

/// Where `cargo xtask test` puts a version.
fn installed(version: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools").join(format!("claude-{version}/claude"))
}
