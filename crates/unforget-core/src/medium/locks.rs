//! Who holds which lock, as Linux tells in `/proc/locks`.
//!
//! Must not know what is locked. On systems without that file nobody knows who holds a lock, and nothing here fails for it.

use std::fs::File;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};

/// How often a list of locks is read that does not fit into one page.
const LOCK_PASSES: usize = 3;
/// More than the kernel says at a time.
const LOCK_PAGE: usize = 64 * 1024;

/// The files that are locked, and by which process: `1: FLOCK  ADVISORY  WRITE 4321 fd:00:1234567 0 EOF`.
pub(super) fn locks(text: &str) -> impl Iterator<Item = ((u64, u64), u32)> {
    // A line with `->` waits for the lock.
    text.lines().filter(|line| !line.contains("->")).filter_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let (kind, pid, file) = (fields.next()?, fields.nth(2)?, fields.next()?);
        let mut parts = file.split(':');
        let (major, minor) =
            (u32::from_str_radix(parts.next()?, 16).ok()?, u32::from_str_radix(parts.next()?, 16).ok()?);
        let inode = parts.next()?.parse().ok()?;
        (kind == "FLOCK").then_some(((rustix::fs::makedev(major, minor), inode), pid.parse().ok()?))
    })
}

/// The process of that number, by its name if it has one.
pub(super) fn process(pid: u32) -> String {
    let name = read_proc(&Path::new("/proc").join(pid.to_string()).join("comm")).unwrap_or_default();
    match name.trim() {
        "" => format!("process {pid}"),
        name => format!("process {pid} ({name})"),
    }
}

/// All locks of the system.
///
/// The kernel says at most a page of them at a time, and goes on by counting: a lock that is given up in between takes another out of
/// the list. One that is held all the time is missed twice only if that happens twice, so more than a page is read again.
pub(super) fn read_locks() -> Option<String> {
    use std::io::Read as _;
    let mut text = String::new();
    for _ in 0..LOCK_PASSES {
        let opened = rustix::fs::openat(CWD, "/proc/locks", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let mut file = File::from(opened);
        let mut page = vec![0; LOCK_PAGE];
        let mut pages = 0;
        loop {
            let len = file.read(&mut page).ok()?;
            if len == 0 {
                break;
            }
            pages += 1;
            text.push_str(std::str::from_utf8(page.get(..len)?).ok()?);
        }
        if pages <= 1 {
            break;
        }
    }
    Some(text)
}

fn read_proc(path: &Path) -> Option<String> {
    use std::io::Read as _;
    let opened = rustix::fs::openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut text = String::new();
    File::from(opened).read_to_string(&mut text).ok()?;
    Some(text)
}
