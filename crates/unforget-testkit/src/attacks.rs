//! What the attack suite tried, what was refused, and how much memory the attacked process took.
//!
//! Each test of the suite keeps a [`Tally`] of its own and ends it with [`Tally::finish`], which fails if an attack got
//! through or cost too much, and leaves the figures in `target/attacks/<suite>.json`. `cargo xtask test` adds them up.
//!
//! A proof that proves less than it says is worse than none. So a tally fails also if fewer attacks were tried than were planned, if
//! the memory of one was not measured, and if its test ends without it. Figures of an earlier run never count: a tally begins by
//! removing them.
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
    planned: usize,
    tried: usize,
    succeeded: Vec<String>,
    /// Attacks whose memory is not known yet.
    unmeasured: Vec<String>,
    peak: u64,
    is_finished: bool,
}

impl Tally {
    /// Starts an empty tally of so many attacks; `suite` names it among all tests, in letters, digits and `-`.
    pub fn new(suite: &str, planned: usize) -> Self {
        // What cannot be removed is replaced, or the test fails.
        drop(fs::remove_file(file(suite)));
        Self {
            suite: suite.to_owned(),
            planned,
            tried: 0,
            succeeded: Vec::new(),
            unmeasured: Vec::new(),
            peak: 0,
            is_finished: false,
        }
    }

    /// Notes an attack, and whether the product refused it.
    pub fn attack(&mut self, name: &str, is_refused: bool) {
        self.tried += 1;
        self.unmeasured.push(name.to_owned());
        if !is_refused {
            self.succeeded.push(name.to_owned());
        }
    }

    /// Notes how much memory the attacked process took above its idle memory, in bytes, in the attacks since this was noted last.
    pub fn memory(&mut self, above_idle: u64) {
        self.peak = self.peak.max(above_idle);
        self.unmeasured.clear();
    }

    /// Leaves the figures behind; the error names the attacks that got through.
    pub fn finish(mut self) -> Result<(), String> {
        self.is_finished = true;
        self.verdict()?;
        let (file, tried, refused) = (file(&self.suite), self.tried, self.tried - self.succeeded.len());
        let figures = format!("{{\"tried\":{tried},\"refused\":{refused},\"peak_bytes\":{}}}\n", self.peak);
        let folder = file.parent().map_or(Ok(()), fs::create_dir_all);
        folder.and_then(|()| fs::write(&file, figures)).map_err(|error| format!("{}: {error}", file.display()))
    }

    fn verdict(&self) -> Result<(), String> {
        let Self { suite, planned, tried, succeeded, unmeasured, peak, .. } = self;
        if *planned == 0 || tried != planned {
            return Err(format!("{suite}: {tried} attacks were tried of {planned}"));
        }
        if !succeeded.is_empty() {
            return Err(format!("{suite}: these attacks got through: {}", succeeded.join(", ")));
        }
        if !unmeasured.is_empty() {
            return Err(format!("{suite}: nobody knows what these attacks cost: {}", unmeasured.join(", ")));
        }
        if *peak >= MEMORY_LIMIT {
            return Err(format!("{suite}: an attack cost {} MiB", peak >> 20));
        }
        Ok(())
    }
}

#[expect(clippy::panic, reason = "a test fails")]
impl Drop for Tally {
    fn drop(&mut self) {
        if !self.is_finished && !std::thread::panicking() {
            panic!("the tally of {} was never finished", self.suite);
        }
    }
}

/// Leaves figures of a suite that cannot be tried on this machine, and says so.
#[expect(clippy::print_stderr, reason = "the test's own words")]
pub fn skip(suite: &str, why: &str) {
    let file = file(suite);
    let written = file.parent().map_or(Ok(()), fs::create_dir_all);
    let written = written.and_then(|()| fs::write(&file, "{\"tried\":0,\"refused\":0,\"peak_bytes\":0}\n"));
    eprintln!("SKIPPED LOUDLY: {suite}: {why} {written:?}");
}

/// Where the figures of a suite go: beside the other things that a build makes.
fn file(suite: &str) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target")));
    target.join("attacks").join(format!("{suite}.json"))
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

/// The same of a process and all that it began and that still runs, added up.
///
/// A process that was just begun may still have the memory of the one that began it, also when `spawn` has returned: the kernel lets go of
/// the one before it gives the other its own. Such a process is an error until it is another program.
pub fn memory_of_all(pid: u32) -> io::Result<(u64, u64)> {
    let arguments = |pid: u32| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let own = std::process::id();
    if pid != own && arguments(pid) == arguments(own) {
        return Err(io::Error::other("it is still to become another program"));
    }
    let (mut now, mut highest) = memory_of(pid)?;
    // What ends between two looks has no memory any more, and what is still to become another program has that of the one that began it.
    for child in children(pid).into_iter().filter(|child| arguments(*child) != arguments(pid)) {
        if let Ok((more, most)) = memory_of_all(child) {
            (now, highest) = (now + more, highest + most);
        }
    }
    Ok((now, highest))
}

fn children(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let told = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    told.flat_map(|told| told.split_whitespace().filter_map(|child| child.parse().ok()).collect::<Vec<_>>()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(planned: usize, attacks: impl FnOnce(&mut Tally)) -> Result<(), String> {
        let mut tally = Tally::new("self-test", planned);
        attacks(&mut tally);
        tally.is_finished = true;
        tally.verdict()
    }

    #[test]
    fn an_attack_that_got_through_is_named() {
        let told = verdict(2, |tally| {
            tally.attack("refused", true);
            tally.attack("forged", false);
            tally.memory(0);
        });
        assert_eq!(told.unwrap_err(), "self-test: these attacks got through: forged");
    }

    #[test]
    fn a_tally_with_fewer_attacks_than_planned_is_no_proof() {
        assert!(verdict(0, |_| ()).is_err());
        let told = verdict(2, |tally| {
            tally.attack("one", true);
            tally.memory(0);
        });
        assert_eq!(told.unwrap_err(), "self-test: 1 attacks were tried of 2");
    }

    #[test]
    fn too_much_memory_is_a_failure_and_so_is_memory_that_nobody_looked_at() {
        let of = |memory: Option<u64>| {
            verdict(1, |tally| {
                tally.attack("bomb", true);
                memory.into_iter().for_each(|memory| tally.memory(memory));
            })
        };
        assert!(of(Some(MEMORY_LIMIT)).is_err() && of(None).is_err());
        assert_eq!(of(Some(MEMORY_LIMIT - 1)), Ok(()));
    }

    #[test]
    fn figures_of_an_earlier_run_do_not_count() {
        let mut tally = Tally::new("self-test-stale", 1);
        tally.attack("one", true);
        tally.memory(1);
        tally.finish().unwrap();
        let file = file("self-test-stale");
        assert!(file.exists());
        let unfinished = std::panic::catch_unwind(|| drop(Tally::new("self-test-stale", 1)));
        assert!(unfinished.is_err() && !file.exists());
    }

    #[test]
    fn what_a_process_began_is_its_memory_too() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert!(children(std::process::id()).contains(&child.id()));
        let (_, alone) = memory_of(child.id()).unwrap();
        let (_, all) = memory_of_all(std::process::id()).unwrap();
        assert!(all > alone);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
