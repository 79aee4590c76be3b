//! Which machine and which process this is, and whether another one is still running.
//!
//! A lease names its holder, for people and for programs. A name and a process number are not enough: containers share both. So the holder also
//! says in which boot of a system, and in which namespace, its number counts; only there can it be seen whether it is alive. A process that has
//! ended and that nobody asked for is dead, though the system still lists it.

use std::path::Path;

use unforget_core::encode::sha256_hex;
use unforget_core::medium::{Os, read_small};

/// How much of a machine's name is told.
const MAX_NAME: u64 = 256;
/// How many digits tell two systems apart.
const DIGITS: usize = 6;

/// This machine and program, for others to read: `name/process@where`.
pub(crate) fn holder() -> String {
    let name = read_small(&Os::new("/etc"), Path::new("hostname"), MAX_NAME).ok();
    let name = name.and_then(|name| String::from_utf8(name).ok()).unwrap_or_default();
    let name = if name.trim().is_empty() { "a machine" } else { name.trim() };
    format!("{name}/{}@{}", std::process::id(), here())
}

/// Whether a holder was a program here that has ended.
pub(crate) fn is_dead(holder: &str) -> bool {
    let Some((name, place)) = holder.rsplit_once('@') else { return false };
    let process = name.rsplit_once('/').and_then(|(_, process)| process.parse().ok());
    place == here() && process.is_some_and(|process| process_start(process).is_none())
}

/// Where this program's number counts: this boot of this system, and its namespace.
fn here() -> String {
    let boot = kernel("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digest = sha256_hex(format!("{boot}{}", namespace().unwrap_or_default()).as_bytes());
    digest.get(..DIGITS).unwrap_or_default().to_owned()
}

/// The namespace that this program's number counts in: `pid:[4026531836]`.
pub(crate) fn namespace() -> Option<String> {
    Path::new("/proc/self/ns/pid").read_link().ok().map(|link| link.to_string_lossy().into_owned())
}

/// When a process began, in the system's own words; none if there is no such process, or if it has ended.
pub(crate) fn process_start(pid: u32) -> Option<String> {
    // Behind the name, which may have blanks and parentheses in it, is field 3.
    let fields = process_fields(pid)?;
    // A process that has ended stays in the table until its parent asks for it, which in many containers nobody does.
    let has_ended = matches!(fields.first().map(String::as_str), Some("Z" | "X"));
    fields.get(22 - 3).filter(|_| !has_ended).cloned()
}

/// The parent of a process.
pub(crate) fn process_parent(pid: u32) -> Option<u32> {
    process_fields(pid)?.get(1)?.parse().ok()
}

fn process_fields(pid: u32) -> Option<Vec<String>> {
    let text = kernel(&format!("/proc/{pid}/stat"))?;
    let (_, fields) = text.rsplit_once(')')?;
    Some(fields.split_whitespace().map(str::to_owned).collect())
}

#[expect(clippy::disallowed_methods, reason = "what the kernel says is no file of a store")]
fn kernel(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_process_of_this_very_system_can_be_known_to_be_dead() {
        let own = holder();
        let (name, place) = own.rsplit_once('@').unwrap();
        let machine = name.rsplit_once('/').unwrap().0;
        assert!(!is_dead(&own), "{own}");
        assert!(is_dead(&format!("{machine}/4294967294@{place}")));
        assert!(!is_dead(&format!("{machine}/4294967294@000000")), "the same name in another container");
        assert!(!is_dead(&format!("{machine}/4294967294")), "of a version that did not say where");
    }

    #[test]
    fn a_process_that_nobody_asked_for_has_ended() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while process_start(child.id()).is_some() && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
        assert!(process_start(child.id()).is_none() && process_parent(child.id()).is_some(), "it is still listed");
        child.wait().unwrap();
        assert_eq!(process_parent(std::process::id()), Some(std::os::unix::process::parent_id()));
    }
}
