//! What the server logs, kept for tests that look for what must not be in it.
//!
//! A log belongs to the whole process, so it holds what all tests caused: whoever looks in it looks for words that nobody else says.

use std::io::Write;
use std::sync::{Arc, Mutex, OnceLock};

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn kept() -> &'static Kept {
    static KEPT: OnceLock<Kept> = OnceLock::new();
    KEPT.get_or_init(|| {
        let kept = Kept::default();
        let (writer, most) = (kept.clone(), tracing::Level::TRACE);
        let log = tracing_subscriber::fmt().with_max_level(most).with_ansi(false).with_writer(move || writer.clone());
        log.init();
        kept
    })
}

/// Begins to keep everything.
pub(crate) fn keep() {
    kept();
}

/// Everything that was logged since.
pub(crate) fn text() -> String {
    String::from_utf8_lossy(&kept().0.lock().unwrap()).into_owned()
}
