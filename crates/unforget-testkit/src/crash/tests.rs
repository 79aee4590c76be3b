//! Tests of the crash medium: what it refuses and shares, what its faults do, and what its crashes leave.
//!
//! A test double that forgives is worse than none, so most facts here come in pairs: what was synced is there,
//! and what was not is gone.

use std::io::ErrorKind;
use std::path::Path;

use unforget_core::medium::{Access, Handle, Medium as _, read_full};

use super::{CrashMedium, Fault, FaultKind, Keep, Scope, Survival, is_power_cut};

mod faults;
mod files;
mod survivals;

/// `errno` of an input/output error, which has no stable `ErrorKind`.
const EIO: i32 = 5;

fn open(medium: &CrashMedium, path: &str, access: Access) -> Box<dyn Handle> {
    medium.open(Path::new(path), access).unwrap()
}

fn once(at: u64, kind: FaultKind) -> Fault {
    Fault { at, kind, sticky: false }
}

fn content(handle: &dyn Handle) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(handle.stat().unwrap().len).unwrap()];
    let filled = read_full(handle, &mut bytes, 0).unwrap();
    bytes.truncate(filled);
    bytes
}

fn text(medium: &CrashMedium, path: &str) -> Option<String> {
    medium.read(path).map(|bytes| String::from_utf8(bytes).unwrap())
}
