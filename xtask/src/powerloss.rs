//! Real power cuts: the binary appends to a real file system, the file system is shut down under it as if the machine
//! had died, mounted again, and everything that was acknowledged must be there.
//!
//! The file systems live in image files on loop devices. `xfs_io` sends the shutdown request, which ext4 understands as
//! well; it drops everything that was not synced, journal included.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::packages::apt;
use crate::{BUILD, Result, run};

const FILE_SYSTEMS: [&str; 2] = ["ext4", "xfs"];
const ROUNDS: usize = 5;
const RECORDS: usize = 200;
/// XFS wants at least 300 MB.
const IMAGE: &str = "320M";

/// Whether this machine can do it.
pub(crate) fn possible() -> Result {
    if !cfg!(target_os = "linux") {
        return Err("they need Linux".to_owned());
    }
    let root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n");
    if !root {
        return Err("they need root".to_owned());
    }
    if !Path::new("/dev/loop-control").exists() {
        return Err("they need loop devices".to_owned());
    }
    if ["mkfs.ext4", "mkfs.xfs", "xfs_io"].iter().all(|tool| has(tool)) {
        return Ok(());
    }
    if !has("apt-get") {
        return Err("they need e2fsprogs and xfsprogs".to_owned());
    }
    apt(&["e2fsprogs", "xfsprogs"])
}

fn has(tool: &str) -> bool {
    Command::new("sh").args(["-c", &format!("command -v {tool}")]).output().is_ok_and(|output| output.status.success())
}

fn run_in(workspace: &Path, file_system: &str, folder: &Path) -> Result {
    let (image, mount) = (folder.join("disk"), folder.join("mount"));
    std::fs::create_dir_all(&mount).map_err(|error| error.to_string())?;
    run(Command::new("truncate").args(["--size", IMAGE]).arg(&image))?;
    let force = if file_system == "xfs" { "-f" } else { "-F" };
    run(Command::new(format!("mkfs.{file_system}")).args(["-q", force]).arg(&image))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), PathBuf::from);
    let binary = target.join("debug/unforget");
    let mut acked: Vec<(u64, String)> = Vec::new();
    for round in 0..ROUNDS {
        run(Command::new("mount").args(["-o", "loop"]).args([&image, &mount]))?;
        let home = mount.join("home");
        let outcome = check(&binary, &home, &acked).and_then(|()| append(&binary, &home, &mount, round, &mut acked));
        run(Command::new("umount").arg(&mount))?;
        outcome?;
    }
    run(Command::new("mount").args(["-o", "loop"]).args([&image, &mount]))?;
    let outcome = check(&binary, &mount.join("home"), &acked);
    run(Command::new("umount").arg(&mount))?;
    outcome?;
    eprintln!("{file_system}: {ROUNDS} power cuts, {} acknowledged records, none missing", acked.len());
    Ok(())
}

/// Pulls the plug on every file system that we know.
pub(crate) fn pull_the_plug(workspace: &Path) -> Result {
    possible()?;
    run(Command::new("cargo").args(BUILD).current_dir(workspace))?;
    for file_system in FILE_SYSTEMS {
        let folder: PathBuf =
            std::env::temp_dir().join(format!("unforget-powerloss-{}-{file_system}", std::process::id()));
        let outcome = run_in(workspace, file_system, &folder);
        std::fs::remove_dir_all(&folder).map_err(|error| error.to_string())?;
        outcome?;
    }
    Ok(())
}

/// Appends records, pulls the plug while the writer is busy, and remembers what was acknowledged.
fn append(binary: &Path, home: &Path, mount: &Path, round: usize, acked: &mut Vec<(u64, String)>) -> Result {
    let fail = |error: std::io::Error| error.to_string();
    let mut writer = Command::new(binary)
        .args(["append", "--create", "main:cli:user", "--home"])
        .arg(home)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(fail)?;
    let (Some(mut input), Some(output)) = (writer.stdin.take(), writer.stdout.take()) else {
        return Err("the writer has no pipes".to_owned());
    };
    let texts: Vec<String> =
        (0..RECORDS).map(|number| format!("round {round} record {number} {}", "z".repeat(number * 37))).collect();
    let lines: String = texts.iter().map(|text| format!("{{\"type\":\"user\",\"content\":\"{text}\"}}\n")).collect();
    // The writer is fed from a thread of its own, so that it has work when the disk goes away.
    let feeder = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let mut acks = BufReader::new(output).lines();
    for text in texts.iter().take(RECORDS / 4) {
        let line = acks.next().ok_or("the writer ended")?.map_err(fail)?;
        let n = line.trim_start_matches("{\"n\":").trim_end_matches('}').parse();
        acked.push((n.map_err(|_| format!("odd answer: {line}"))?, text.clone()));
    }
    // What is acknowledged from here on does not count: a machine without power acknowledges nothing, but this one goes
    // on running, and its kernel may call a sync a success whose last step the shutdown has just forbidden.
    let cut = run(Command::new("xfs_io").args(["-x", "-c", "shutdown"]).arg(mount));
    acks.for_each(drop);
    writer.wait().map_err(fail)?;
    // A writer whose disk is gone stops reading: the feeder's broken pipe is expected.
    drop(feeder.join());
    cut
}

/// Every acknowledged record is there.
fn check(binary: &Path, home: &Path, acked: &[(u64, String)]) -> Result {
    if acked.is_empty() {
        return Ok(());
    }
    let shown = Command::new(binary).args(["show", "main:cli:user", "--raw", "--home"]).arg(home).output();
    let shown = shown.map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&shown.stdout);
    for (n, content) in acked {
        let found = text
            .lines()
            .any(|line| line.starts_with(&format!("{{\"v\":1,\"n\":{n},")) && line.contains(&format!("\"{content}\"")));
        if !found {
            return Err(format!("record {n} was acknowledged and is gone"));
        }
    }
    Ok(())
}
