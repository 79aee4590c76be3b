//! What the server's allocator gives back to the system.
//!
//! glibc raises the size from which it takes memory from the system piece by piece, up to 32 MiB, each time such a piece is freed.
//! From then on each thread keeps what it freed, and a server whose threads each handled one large line keeps that line once for each
//! thread. A fixed size ends that. glibc reads it from the environment, before `main`, and setting it later takes `unsafe`. So the
//! server starts itself again with the variable, in the same process, before it has opened anything.

/// The variable that glibc reads.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const THRESHOLD: &str = "MALLOC_MMAP_THRESHOLD_";
/// From how many bytes on memory is taken from the system, and given back, piece by piece.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const BYTES: &str = "262144";

/// Starts the program again with a fixed threshold, unless somebody chose one. Where that fails, the server goes on and needs more memory.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(super) fn give_back() {
    use std::os::unix::process::CommandExt as _;
    if std::env::var_os(THRESHOLD).is_some() {
        return;
    }
    let mut arguments = std::env::args_os();
    let (Some(name), Ok(program)) = (arguments.next(), std::env::current_exe()) else { return };
    let error = std::process::Command::new(program).arg0(name).args(arguments).env(THRESHOLD, BYTES).exec();
    tracing::debug!(%error, "the allocator keeps its own threshold");
}

/// Other allocators have no such threshold.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(super) fn give_back() {}
