//! A medium on which a transcript has a past of any length that takes no disk.
//!
//! Behind the header stand turns that are made when they are read, with numbers, parents and
//! checksums as a writer makes them. Behind those stands what is in the file. So a session of a
//! gigabyte costs a test what it reads of it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use unforget_core::medium::{Access, FileKind, Handle, Medium, Stat};

/// How long an answer in the past is.
const ANSWER: usize = 32 * 1024;

/// Passes everything on to another medium, and puts a past into one transcript.
#[derive(Debug, Clone)]
pub struct LongPast {
    inner: Arc<dyn Medium>,
    path: PathBuf,
    past: Arc<Past>,
}

#[derive(Debug)]
struct Past {
    /// Where it begins: the length of the header.
    from: u64,
    turns: Vec<Turn>,
    answer: String,
    len: u64,
}

/// The lines of a turn, around the words of its answer.
#[derive(Debug)]
struct Turn {
    at: u64,
    before: String,
    after: String,
}

#[derive(Debug)]
struct Lengthened {
    inner: Box<dyn Handle>,
    past: Arc<Past>,
}

impl LongPast {
    /// Puts about `bytes` bytes of turns into a session that has nothing but its header.
    pub fn new(inner: impl Medium + 'static, path: &Path, bytes: u64) -> io::Result<Self> {
        let mut header = Vec::new();
        inner.read_whole(path, 1 << 20, &mut header)?;
        let past = Arc::new(Past::new(&header, bytes));
        Ok(Self { inner: Arc::new(inner), path: path.to_owned(), past })
    }

    /// How many turns the past has.
    pub fn turns(&self) -> u64 {
        self.past.turns.len() as u64
    }

    fn lengthen(&self, path: &Path, stat: Stat) -> Stat {
        if path == self.path { self.past.lengthen(stat) } else { stat }
    }
}

impl Past {
    fn new(header: &[u8], bytes: u64) -> Self {
        let header = std::str::from_utf8(header).unwrap_or_default().trim_end();
        let mut crc = header.rsplit_once("\"crc\":\"").and_then(|(_, crc)| u32::from_str_radix(&crc[..8], 16).ok());
        let answer = "an answer of some length. ".repeat(ANSWER / 26);
        let (mut turns, mut len, mut n) = (Vec::new(), 0, 0);
        while len < bytes {
            let mut line = |rest: &str, filler: &str, end: &str| {
                n += 1;
                let head = format!("{{\"v\":1,\"n\":{n},\"parent\":{},{rest}", n - 1);
                let mut hasher = crc32fast::Hasher::new();
                hasher.update(&crc.unwrap_or(0).to_le_bytes());
                [&head, filler, end].iter().for_each(|part| hasher.update(part.as_bytes()));
                let sum = hasher.finalize();
                crc = Some(sum);
                (head, format!("{end},\"crc\":\"{sum:08x}\"}}\n"))
            };
            let (head, end) = line(&format!("\"type\":\"user\",\"content\":\"question {}\"", turns.len()), "", "");
            let mut before = head + &end;
            let (head, mut after) =
                line("\"type\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"", &answer, "\"}]");
            before.push_str(&head);
            let (head, end) = line("\"type\":\"turn\",\"state\":\"done\"", "", "");
            after.push_str(&(head + &end));
            let at = len;
            len += (before.len() + answer.len() + after.len()) as u64;
            turns.push(Turn { at, before, after });
        }
        Self { from: header.len() as u64 + 1, turns, answer, len }
    }

    fn lengthen(&self, stat: Stat) -> Stat {
        Stat { len: stat.len + self.len, ..stat }
    }

    /// Copies what is there from `at` on, behind the beginning of the past, to the end of one of
    /// its texts at most.
    fn copy(&self, buffer: &mut [u8], at: u64) -> usize {
        let turn = &self.turns[self.turns.partition_point(|turn| turn.at <= at) - 1];
        let mut skip = usize::try_from(at - turn.at).unwrap_or(usize::MAX);
        for text in [&turn.before, &self.answer, &turn.after] {
            if let Some(rest) = text.as_bytes().get(skip..).filter(|rest| !rest.is_empty()) {
                let count = rest.len().min(buffer.len());
                buffer[..count].copy_from_slice(&rest[..count]);
                return count;
            }
            skip -= text.len();
        }
        0
    }
}

impl Handle for Lengthened {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner.write(bytes)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let (from, len) = (self.past.from, self.past.len);
        if offset >= from + len {
            return self.inner.read_at(buffer, offset - len);
        }
        if offset >= from {
            return Ok(self.past.copy(buffer, offset - from));
        }
        let most = buffer.len().min(usize::try_from(from - offset).unwrap_or(usize::MAX));
        self.inner.read_at(&mut buffer[..most], offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.inner.sync_data()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.inner.set_len(len - self.past.len)
    }

    fn stat(&self) -> io::Result<Stat> {
        Ok(self.past.lengthen(self.inner.stat()?))
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.inner.try_lock()
    }

    fn try_lock_shared(&self) -> io::Result<bool> {
        self.inner.try_lock_shared()
    }
}

impl Medium for LongPast {
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn Handle>> {
        let inner = self.inner.open(path, access)?;
        if path != self.path {
            return Ok(inner);
        }
        Ok(Box::new(Lengthened { inner, past: self.past.clone() }))
    }

    fn stat(&self, path: &Path) -> io::Result<Stat> {
        Ok(self.lengthen(path, self.inner.stat(path)?))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<(String, FileKind)>> {
        self.inner.list(dir)
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.inner.create_dir(dir)
    }

    fn replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.replace(from, to)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.inner.sync_dir(dir)
    }

    fn set_mode(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.inner.set_mode(path, mode)
    }

    fn lock_holder(&self, stat: &Stat) -> Option<String> {
        self.inner.lock_holder(stat)
    }

    fn root(&self) -> PathBuf {
        self.inner.root()
    }
}
