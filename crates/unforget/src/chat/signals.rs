//! Signals while nothing runs.
//!
//! A turn takes care of itself: it is aborted, written down and ended. But whoever has listened for a signal once no longer dies of it,
//! and a person at the prompt is waited for in a system call. So a thread of its own listens all the time, and when
//! no turn runs it ends the program: everything is on the disk, only the terminal has to be put back as it was.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::signal::unix::{SignalKind, signal};

/// Tells the listening thread whether a turn runs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Busy(Arc<AtomicBool>);

impl Busy {
    /// A turn runs until the guard is dropped.
    pub(crate) fn begin(&self) -> Turn {
        self.0.store(true, Ordering::SeqCst);
        Turn(self.clone())
    }

    /// A turn waits for the person until the guard is dropped.
    pub(crate) fn wait(&self) -> Question {
        Question(self.clone(), self.0.swap(false, Ordering::SeqCst))
    }
}

/// A turn runs as long as this lives.
#[derive(Debug)]
pub(crate) struct Turn(Busy);

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.0.store(false, Ordering::SeqCst);
    }
}

/// A question is open as long as this lives: a signal then ends the program, and the question is asked again.
#[derive(Debug)]
pub(crate) struct Question(Busy, bool);

impl Drop for Question {
    fn drop(&mut self) {
        self.0.0.store(self.1, Ordering::SeqCst);
    }
}

/// Begins to listen.
pub(crate) fn listen() -> io::Result<Busy> {
    let busy = Busy::default();
    let heard = busy.clone();
    let before: Option<Termios> = tcgetattr(io::stdin()).ok();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut terminate, mut hangup) = runtime
        .block_on(async { io::Result::Ok((signal(SignalKind::terminate())?, signal(SignalKind::hangup())?)) })?;
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        loop {
            let code = runtime.block_on(async {
                tokio::select! {
                    _ = terminate.recv() => 128 + 15,
                    _ = hangup.recv() => 128 + 1,
                }
            });
            if !heard.0.load(Ordering::SeqCst) {
                // A terminal that is gone cannot be put back, which is no reason to stay.
                before.as_ref().map(|before| tcsetattr(io::stdin(), OptionalActions::Now, before)).transpose().ok();
                std::process::exit(code);
            }
        }
    })?;
    Ok(busy)
}
