//! A file that would grow over the limit of this process (`ulimit -f`) is an error of the write, and not the end of the program.
//!
//! The kernel sends SIGXFSZ, which ends a program without a word, also in the middle of a turn. Caught, the write fails (`EFBIG`), and what is above it does as with
//! a full disk: it rolls back and names the file. The signal is caught and not ignored, because what is ignored stays so in programs that this one
//! starts, while a handler ends with `exec`.

use std::io;

use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};

/// Catches the signal for as long as the process lives, in whatever runs it: a command needs no runtime.
pub(crate) fn catch() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let _entered = runtime.enter();
    // The handler stays when the stream and the runtime are gone.
    signal(SignalKind::from_raw(Signal::XFSZ.as_raw())).map(drop)
}
