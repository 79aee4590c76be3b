//! The real binary in a pseudo-terminal: keys go in, a screen comes out.
//!
//! A thread reads what the program writes and draws it; tests wait for what should be on the screen and are woken by
//! every change. No wait is longer than [`PATIENCE`], and one that was in vain shows the screen. The picture is taller
//! than the window that the program sees, so that nothing ever scrolls away.

use std::io::{Read, Write};
use std::num::NonZero;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use rustix::process::{Pid, Signal, kill_process};
use unicode_width::UnicodeWidthStr as _;

/// Longest wait for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// The window that the program sees.
pub(crate) const COLUMNS: u16 = 80;
const ROWS: u16 = 40;
/// Rows of the picture.
const TALL: u16 = 800;
/// Columns of a second picture, which shows lines that are too long for the window.
const BROAD: u16 = 240;
/// How much is read at once.
const PIECE: usize = 4096;

pub(crate) const CTRL_C: &str = "\u{3}";
pub(crate) const CTRL_D: &str = "\u{4}";
pub(crate) const TAB: &str = "\t";
pub(crate) const ENTER: &str = "\r";
pub(crate) const UP: &str = "\u{1b}[A";
pub(crate) const LEFT: &str = "\u{1b}[D";

/// What the program has written so far.
struct Seen {
    bytes: Vec<u8>,
    picture: vt100::Parser,
    broad: vt100::Parser,
    ended: bool,
}

impl Seen {
    /// The rows from the first to the last that has something on it.
    fn rows(&self) -> Vec<String> {
        rows(&self.picture, COLUMNS)
    }
}

/// An empty picture of that width.
fn picture(columns: u16) -> vt100::Parser {
    vt100::Parser::new(NonZero::new(TALL).unwrap(), NonZero::new(columns).unwrap(), 0)
}

fn rows(picture: &vt100::Parser, columns: u16) -> Vec<String> {
    let mut rows: Vec<String> = picture.screen().rows(0, columns).map(|row| row.trim_end().to_owned()).collect();
    rows.truncate(rows.iter().rposition(|row| !row.is_empty()).map_or(0, |last| last + 1));
    rows
}

#[derive(Clone)]
struct Shared(Arc<(Mutex<Seen>, Condvar)>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Seen)) {
        change(&mut self.lock());
        self.0.1.notify_all();
    }
}

/// A program in a terminal.
pub(crate) struct Terminal {
    child: Box<dyn Child + Send + Sync>,
    master: Box<dyn MasterPty + Send>,
    keyboard: Box<dyn Write + Send>,
    shared: Shared,
    reader: Option<JoinHandle<()>>,
    /// The first row that can hold the next prompt.
    next: usize,
}

impl Terminal {
    pub(crate) fn start(arguments: &[&str], environment: &[(&'static str, String)], folder: &Path) -> Self {
        let size = PtySize { rows: ROWS, cols: COLUMNS, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).unwrap();
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_unforget"));
        command.args(arguments);
        command.env_clear();
        command.cwd(folder);
        environment.iter().for_each(|(name, value)| command.env(name, value));
        let child = pair.slave.spawn_command(command).unwrap();
        let keyboard = pair.master.take_writer().unwrap();
        let mut output = pair.master.try_clone_reader().unwrap();
        let seen = Seen { bytes: Vec::new(), picture: picture(COLUMNS), broad: picture(BROAD), ended: false };
        let shared = Shared(Arc::new((Mutex::new(seen), Condvar::new())));
        let draws = shared.clone();
        let reader = thread::spawn(move || draw(output.as_mut(), &draws));
        Self { child, master: pair.master, keyboard, shared, reader: Some(reader), next: 0 }
    }

    /// Presses keys.
    pub(crate) fn keys(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
        self.keyboard.flush().unwrap();
    }

    /// Types a line at the prompt and does not wait for what it does.
    pub(crate) fn begin(&mut self, line: &str) {
        let at = self.at("the prompt", is_prompt);
        self.next = at + 1;
        self.keys(line);
        self.keys(ENTER);
    }

    /// Waits until the prompt is there again, and returns what is above it since the last line was typed.
    pub(crate) fn prompt(&mut self) -> String {
        let at = self.at("the prompt", is_prompt);
        self.rows()[self.next..at].join("\n")
    }

    /// Types a line at the prompt and returns what came until the next one.
    pub(crate) fn say(&mut self, line: &str) -> String {
        self.begin(line);
        self.prompt()
    }

    /// Waits for the question whether a tool may run, and returns what is above it since something was typed.
    pub(crate) fn question(&mut self) -> String {
        let at = self.at("the question", is_question);
        self.rows()[self.next..at].join("\n")
    }

    /// Answers the question and does not wait for what that does.
    pub(crate) fn answer(&mut self, answer: &str) {
        self.next = self.at("the question", is_question) + 1;
        self.keys(answer);
    }

    /// Waits until a text is on the screen.
    pub(crate) fn wait_for(&self, text: &str) {
        self.wait(text, |rows| rows.iter().any(|row| row.contains(text)).then_some(()));
    }

    /// Waits until the last row is this one.
    pub(crate) fn wait_for_last_row(&self, row: &str) {
        self.wait(row, |rows| rows.last().is_some_and(|last| last == row).then_some(()));
    }

    /// Waits for the end of the program, and returns its exit code.
    pub(crate) fn ends(&mut self) -> u32 {
        let deadline = Instant::now() + PATIENCE;
        let mut seen = self.shared.lock();
        while !seen.ended {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "the program does not end:\n{}", seen.rows().join("\n"));
            seen = self.shared.0.1.wait_timeout(seen, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(seen);
        self.child.wait().unwrap().exit_code()
    }

    /// The number of the process.
    pub(crate) fn process(&self) -> u32 {
        self.child.process_id().unwrap()
    }

    /// Sends a signal to the program alone.
    pub(crate) fn signal(&self, signal: Signal) {
        let process = Pid::from_raw(i32::try_from(self.process()).unwrap()).unwrap();
        kill_process(process, signal).unwrap();
    }

    /// `kill -9`.
    pub(crate) fn kill(mut self) {
        self.signal(Signal::KILL);
        self.ends();
    }

    /// Makes the window wider or narrower.
    pub(crate) fn resize(&self, columns: u16) {
        self.master.resize(PtySize { rows: ROWS, cols: columns, pixel_width: 0, pixel_height: 0 }).unwrap();
    }

    /// All rows of the screen, from the start of the program.
    pub(crate) fn rows(&self) -> Vec<String> {
        self.shared.lock().rows()
    }

    pub(crate) fn text(&self) -> String {
        self.rows().join("\n")
    }

    /// Everything that the program has written.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.shared.lock().bytes.clone()
    }

    /// The lines that do not fit into the window.
    pub(crate) fn too_wide(&self) -> Vec<String> {
        let rows = rows(&self.shared.lock().broad, BROAD);
        rows.into_iter().filter(|row| row.width() > usize::from(COLUMNS)).collect()
    }

    /// Waits for a last row of some kind that is not an old one, and returns which it is.
    fn at(&self, what: &str, is_it: impl Fn(&str) -> bool) -> usize {
        let next = self.next;
        self.wait(what, |rows| {
            let last = rows.len().checked_sub(1).filter(|last| *last >= next)?;
            is_it(&rows[last]).then_some(last)
        })
    }

    fn wait<T>(&self, what: &str, look: impl Fn(&[String]) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        let mut seen = self.shared.lock();
        loop {
            let rows = seen.rows();
            if let Some(found) = look(&rows) {
                return found;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero() && !seen.ended, "no `{what}` on the screen:\n{}", rows.join("\n"));
            seen = self.shared.0.1.wait_timeout(seen, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// A prompt with nothing behind it.
fn is_prompt(row: &str) -> bool {
    row.starts_with('[') && row.ends_with("] >")
}

fn is_question(row: &str) -> bool {
    row.starts_with("▐ Allow?") && row.ends_with(':')
}

/// Draws what comes until nothing comes any more.
fn draw(output: &mut dyn Read, shared: &Shared) {
    let mut piece = [0; PIECE];
    // The end of a terminal is an error to its reader.
    while let Ok(length @ 1..) = output.read(&mut piece) {
        shared.change(|seen| {
            seen.bytes.extend_from_slice(&piece[..length]);
            seen.picture.process(&piece[..length]);
            seen.broad.process(&piece[..length]);
        });
    }
    shared.change(|seen| seen.ended = true);
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            self.signal(Signal::KILL);
            self.child.wait().unwrap();
        }
        if let Some(reader) = self.reader.take()
            && !thread::panicking()
        {
            reader.join().unwrap();
        }
    }
}
