//! What the attack suite tried, what was refused, and how much memory the attacked process took.
//!
//! Each test of the suite keeps a [`Tally`] of its own and ends it with [`Tally::finish`], which fails if an attack got
//! through or cost too much, and leaves the figures in `target/attacks/<suite>.json`. `cargo xtask test` adds them up.
#![allow(clippy::disallowed_methods, reason = "figures and `/proc` are no part of a store")]

use std::fs;
use std::io;
use std::path::PathBuf;

/// The most memory that an attack may cost the attacked process, above what it has when idle.
pub const MEMORY_LIMIT: u64 = 64 << 20;

/// The attacks of one test.
#[derive(Debug)]
pub struct Tally {
    suite: String,
    tried: usize,
    succeeded: Vec<String>,
    peak: u64,
}

impl Tally {
    /// Starts an empty tally; `suite` names it among all tests, in letters, digits and `-`.
    pub fn new(suite: &str) -> Self {
        Self { suite: suite.to_owned(), tried: 0, succeeded: Vec::new(), peak: 0 }
    }

    /// Notes an attack, and whether the product refused it.
    pub fn attack(&mut self, name: &str, is_refused: bool) {
        self.tried += 1;
        if !is_refused {
            self.succeeded.push(name.to_owned());
        }
    }

    /// Notes how much memory the attacked process took above its idle memory, in bytes.
    pub fn memory(&mut self, above_idle: u64) {
        self.peak = self.peak.max(above_idle);
    }

    /// Leaves the figures behind; the error names the attacks that got through.
    pub fn finish(self) -> Result<(), String> {
        let (folder, tried, refused) = (folder(), self.tried, self.tried - self.succeeded.len());
        let figures = format!("{{\"tried\":{tried},\"refused\":{refused},\"peak_bytes\":{}}}\n", self.peak);
        let file = folder.join(format!("{}.json", self.suite));
        let written = fs::create_dir_all(&folder).and_then(|()| fs::write(&file, figures));
        written.map_err(|error| format!("{}: {error}", file.display()))?;
        self.verdict()
    }

    fn verdict(&self) -> Result<(), String> {
        let Self { suite, tried, succeeded, peak } = self;
        match (tried, succeeded.is_empty(), *peak <= MEMORY_LIMIT) {
            (0, ..) => Err(format!("{suite}: no attack was tried")),
            (_, false, _) => Err(format!("{suite}: these attacks got through: {}", succeeded.join(", "))),
            (_, true, false) => Err(format!("{suite}: an attack cost {} MiB", peak >> 20)),
            (_, true, true) => Ok(()),
        }
    }
}

/// Where the figures go: beside the other things that a build makes.
fn folder() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    target.unwrap_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target"))).join("attacks")
}

/// The resident memory of a process in bytes: now, and at its highest.
pub fn memory_of(pid: u32) -> io::Result<(u64, u64)> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let kilobytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim_start_matches(':').trim().trim_end_matches(" kB").parse::<u64>().ok()
    };
    let odd = || io::Error::other(format!("/proc/{pid}/status says nothing about memory"));
    let now = kilobytes("VmRSS").ok_or_else(odd)?;
    let highest = kilobytes("VmHWM").ok_or_else(odd)?;
    Ok((now << 10, highest << 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attack_that_got_through_is_named() {
        let mut tally = Tally::new("self-test");
        tally.attack("refused", true);
        tally.attack("forged", false);
        assert_eq!(tally.verdict().unwrap_err(), "self-test: these attacks got through: forged");
    }

    #[test]
    fn a_tally_without_attacks_is_no_proof() {
        assert!(Tally::new("self-test-empty").verdict().is_err());
    }

    #[test]
    fn too_much_memory_is_a_failure() {
        let mut tally = Tally::new("self-test-memory");
        tally.attack("bomb", true);
        tally.memory(MEMORY_LIMIT + 1);
        assert!(tally.verdict().is_err());
    }
}
