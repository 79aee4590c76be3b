//! How far the store is from the least that its work can cost.
//!
//! An absolute time says more about the machine and its neighbours than about the code, so every figure here stands
//! beside a *bare limit*: the same bytes through plain system calls or a plain parser, with none of the promises. The
//! two run in turns, in one process, on the same files, and their medians are divided. That ratio is what can be
//! compared between machines and between commits; the goal beside it is what it should be.
//!
//! ```text
//! cargo bench -p unforget-core                 everything, up to a transcript of 1 GB: about two minutes
//! cargo bench -p unforget-core -- --quick      smaller and fewer: for a look while working
//! cargo bench -p unforget-core -- append list  only these parts: append, rebuild, resume, list
//! ```
//!
//! Peak memory is a property of a process, so each such figure comes from a child of this program that does one
//! thing and tells its own high-water mark. All files are on a real disk, beneath `target/`, and go away at the end.
//!
//! Nothing here is a test. A slow machine is not a bug, and a limit on time in a test suite is a test that fails on
//! somebody else's bad day.

#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "the bare limits are plain file operations, the table is the product, and a failure ends the run"
)]

mod append;
mod child;
mod list;
mod rebuild;
mod resume;
mod scene;
mod table;

use scene::Scale;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let [flag, task, path] = arguments.as_slice()
        && flag == child::FLAG
    {
        child::run(task, path.as_ref());
        return;
    }
    let scale = if arguments.iter().any(|argument| argument == "--quick") { Scale::QUICK } else { Scale::FULL };
    let chosen: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    let wanted = |part: &str| chosen.is_empty() || chosen.iter().any(|name| *name == part);
    if wanted("append") {
        append::run(&scale);
    }
    if wanted("rebuild") {
        rebuild::run(&scale);
    }
    if wanted("resume") {
        resume::run(&scale);
    }
    if wanted("list") {
        list::run(&scale);
    }
}
