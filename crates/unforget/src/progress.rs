//! A bar on stderr while something takes long; nothing in a pipe.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A spinner with a count and the name of what is being looked at. It shows only if the work takes a moment.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    pub(crate) fn new(what: &'static str) -> Self {
        let bar = ProgressBar::new_spinner().with_message(what);
        // indicatif hides itself where stderr is no terminal.
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}: {pos} files, {elapsed}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(120));
        Self(bar)
    }

    /// A bar of bytes that are carried.
    pub(crate) fn bytes(what: &'static str) -> Self {
        let bar = ProgressBar::new(0).with_message(what);
        let template = "{spinner} {msg}: [{bar:30}] {bytes} of {total_bytes}, {bytes_per_sec}, {eta} to go";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("#>-"));
        }
        bar.enable_steady_tick(Duration::from_millis(120));
        Self(bar)
    }

    pub(crate) fn step(&self) {
        self.0.inc(1);
    }

    /// So many bytes of so many.
    pub(crate) fn at(&self, bytes: u64, of: u64) {
        self.0.set_length(of.max(bytes));
        self.0.set_position(bytes);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
