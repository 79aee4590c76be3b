//! Peak memory of one piece of work, measured in a process that does nothing else.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::{rebuild, resume};

/// Begins the arguments of a child: the task and the file follow.
pub(crate) const FLAG: &str = "--child";
pub(crate) const REBUILD: &str = "rebuild";
pub(crate) const VALUES: &str = "values";
pub(crate) const RESTORE: &str = "restore";

/// Does one task on a file and prints by how much the process grew at most.
pub(crate) fn run(task: &str, path: &Path) {
    let before = high_water();
    let done = match task {
        REBUILD => rebuild::rebuild(&std::fs::read(path).unwrap()).len(),
        VALUES => rebuild::values(&std::fs::read(path).unwrap()).collect::<Vec<Value>>().len(),
        RESTORE => resume::restore(path),
        other => unreachable!("no task `{other}`"),
    };
    assert!(done > 0, "there was something to do");
    println!("{}", high_water().saturating_sub(before));
}

/// Peak memory of a task on a file, in bytes.
pub(crate) fn peak_of(task: &str, path: &Path) -> u64 {
    let output = Command::new(std::env::current_exe().unwrap()).args([FLAG, task]).arg(path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}

/// The largest resident size of this process so far; 0 where the system does not tell.
fn high_water() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")).and_then(|text| text.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}
