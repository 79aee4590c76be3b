//! The least that the work can cost: the same bytes through plain calls, with none of the promises.
//!
//! W1 and W2 are one `write` and one `fdatasync` a turn. W3 finds and copies what every line says without a look at it. W4
//! reads the same lines from the end and checks that they are JSON. W5 asks a SQLite table that somebody else keeps current. W7
//! is `memmem` over one file.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use memchr::{memchr_iter, memmem};
use rusqlite::Connection;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::serve::{Contest, Place, Request, measured, missing, timed};
use crate::{Result, context, data};

const LONG: &str = "long.jsonl";
const ROWS: &str = "rows.sqlite";
const ALL: &str = "all.jsonl";
const BLOCK: usize = 64 * 1024;
const LARGE_BLOCK: usize = 1 << 20;
/// Longest word that is searched, in bytes.
const WORD: usize = 256;

/// Plain files.
pub(crate) struct Bare {
    work: PathBuf,
    is_synced: bool,
    turns: Vec<Vec<u8>>,
    files: HashMap<String, Vec<File>>,
}

impl Bare {
    pub(crate) fn new(place: &Place) -> Result<Self> {
        let turns = data::read_turns(&place.turns)?.iter().map(|turn| data::encode(turn)).collect();
        Ok(Self { work: place.work.clone(), is_synced: place.is_synced, turns, files: HashMap::new() })
    }

    fn fill(&mut self, request: &Request) -> Result<Value> {
        let (folder, count) = (request.text("folder")?, request.number("sessions")?);
        let path = self.work.join(folder);
        context(std::fs::create_dir_all(&path), path.display())?;
        let mut files = Vec::with_capacity(count);
        for number in 0..count {
            let path = path.join(number.to_string());
            if let (0, Ok(history)) = (number, request.path("history")) {
                context(std::fs::copy(history, &path), history.display())?;
            }
            files.push(context(OpenOptions::new().append(true).create(true).open(&path), path.display())?);
        }
        self.files.insert(folder.to_owned(), files);
        Ok(json!({}))
    }

    fn append(&mut self, folder: &str, turn: usize) -> Result<Value> {
        let file = self.files.get_mut(folder).and_then(|files| files.first_mut()).ok_or("no file")?;
        let bytes = self.turns.get(turn % self.turns.len().max(1)).ok_or("no turns")?;
        timed(|| write(file, bytes, self.is_synced))
    }

    fn many(&mut self, folder: &str, turns: usize, threads: usize) -> Result<Value> {
        let files = self.files.get_mut(folder).ok_or("no files")?;
        let (count, share) = (files.len(), files.len().div_ceil(threads));
        let (all, is_synced) = (&self.turns, self.is_synced);
        let work = |first: usize, own: &mut [File]| -> Result<usize> {
            let mut done = 0;
            for round in 0..turns.div_ceil(count) {
                for (at, file) in own.iter_mut().enumerate() {
                    let turn = round * count + first + at;
                    if turn < turns {
                        done += write(file, &all[turn % all.len()], is_synced)?;
                    }
                }
            }
            Ok(done)
        };
        timed(|| {
            std::thread::scope(|scope| {
                let parts = files.chunks_mut(share.max(1)).enumerate();
                let threads: Vec<_> = parts.map(|(part, own)| scope.spawn(move || work(part * share, own))).collect();
                threads.into_iter().map(|thread| thread.join().map_err(|_| "a thread died".to_owned())?).sum()
            })
        })
    }

    /// What every line says, found by its name alone and copied, line by line.
    fn splice(&self) -> Result<usize> {
        let finders = ["\"content\":", "\"output\":", "\"input\":"].map(memmem::Finder::new);
        let file = context(File::open(self.work.join(LONG)), LONG)?;
        let mut reader = BufReader::with_capacity(LARGE_BLOCK, file);
        let (mut line, mut out, mut length) = (Vec::new(), Vec::with_capacity(LARGE_BLOCK), 0);
        while context(reader.read_until(b'\n', &mut line), LONG)? > 0 {
            if let Some(at) = finders.iter().find_map(|finder| finder.find(&line)) {
                out.extend_from_slice(&line[at..]);
            }
            line.clear();
            if out.len() >= LARGE_BLOCK / 2 {
                length += std::hint::black_box(&out).len();
                out.clear();
            }
        }
        Ok(length + out.len())
    }

    /// The last lines of a file, read backward in blocks and checked.
    fn tail(&self, records: usize) -> Result<usize> {
        let file = context(File::open(self.work.join(LONG)), LONG)?;
        let mut begin = context(file.metadata(), LONG)?.len();
        let (mut blocks, mut lines) = (Vec::new(), 0);
        while begin > 0 && lines <= records {
            let length = usize::try_from(begin).unwrap_or(BLOCK).min(BLOCK);
            begin -= length as u64;
            let mut block = vec![0; length];
            context(file.read_exact_at(&mut block, begin), LONG)?;
            lines += memchr_iter(b'\n', &block).count();
            blocks.push(block);
        }
        let bytes = blocks.into_iter().rev().flatten().collect::<Vec<u8>>();
        let lines = bytes.split(|byte| *byte == b'\n');
        Ok(lines.filter(|line| serde_json::from_slice::<&RawValue>(line).is_ok()).count())
    }

    /// A table of all sessions, and one file of all their bytes.
    fn take_store(&self, store: &std::path::Path) -> Result<Value> {
        let plan = context(std::fs::read_to_string(store.join("plan.jsonl")), "plan")?;
        let rows = context(Connection::open(self.work.join(ROWS)), ROWS)?;
        let table = "CREATE TABLE rows (id TEXT, key TEXT, updated TEXT, file TEXT);
            CREATE INDEX by_time ON rows (updated); CREATE INDEX by_key ON rows (key); BEGIN";
        context(rows.execute_batch(table), ROWS)?;
        let mut all = context(File::create(self.work.join(ALL)), ALL)?;
        for line in plan.lines() {
            let row: Value = context(serde_json::from_str(line), "plan")?;
            let member = |name: &str| row.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
            let file = store.join(member("file"));
            context(all.write_all(&context(std::fs::read(&file), file.display())?), ALL)?;
            let values = [member("id"), member("key"), member("updated"), file.to_string_lossy().into_owned()];
            context(rows.execute("INSERT INTO rows VALUES (?1, ?2, ?3, ?4)", values), ROWS)?;
        }
        context(rows.execute_batch("COMMIT"), ROWS)?;
        Ok(json!({}))
    }

    /// Every byte of every session, file by file.
    fn read_all(&self, store: &std::path::Path) -> Result<usize> {
        let plan = context(std::fs::read_to_string(store.join("plan.jsonl")), "plan")?;
        let mut bytes = 0;
        for line in plan.lines() {
            let row: Value = context(serde_json::from_str(line), "plan")?;
            let file = store.join(row.get("file").and_then(Value::as_str).unwrap_or_default());
            bytes += context(std::fs::read(&file), file.display())?.len();
        }
        Ok(bytes)
    }

    fn list(&self, limit: usize) -> Result<usize> {
        let rows = context(Connection::open(self.work.join(ROWS)), ROWS)?;
        let mut query =
            context(rows.prepare("SELECT id, key, updated FROM rows ORDER BY updated DESC LIMIT ?1"), ROWS)?;
        let found =
            context(query.query_map([i64::try_from(limit).unwrap_or(i64::MAX)], |row| row.get::<_, String>(0)), ROWS)?;
        context(found.collect::<rusqlite::Result<Vec<_>>>(), ROWS).map(|found| found.len())
    }

    fn open(&self, key: &str) -> Result<usize> {
        let rows = context(Connection::open(self.work.join(ROWS)), ROWS)?;
        let query = "SELECT file FROM rows WHERE key = ?1 ORDER BY updated DESC LIMIT 1";
        let file: String = context(rows.query_row(query, [key], |row| row.get(0)), ROWS)?;
        Ok(context(std::fs::read(&file), &file)?.len())
    }

    fn search(&self, word: &str) -> Result<usize> {
        let finder = memmem::Finder::new(word);
        let mut file = context(File::open(self.work.join(ALL)), ALL)?;
        let (mut block, mut kept, mut found) = (vec![0; LARGE_BLOCK], 0, 0);
        loop {
            let read = context(file.read(&mut block[kept..]), ALL)?;
            if read == 0 {
                return Ok(found);
            }
            let end = kept + read;
            found += finder.find_iter(&block[..end]).count();
            // A word may lie across two blocks; one that ends the block is whole and counted.
            kept = end.min(word.len().min(WORD).saturating_sub(1));
            block.copy_within(end - kept..end, 0);
        }
    }
}

/// Writes a turn, and returns that it is one.
fn write(file: &mut File, bytes: &[u8], is_synced: bool) -> Result<usize> {
    context(file.write_all(bytes), "write")?;
    if is_synced {
        context(file.sync_data(), "sync")?;
    }
    Ok(1)
}

impl Contest for Bare {
    fn answer(&mut self, request: &Request) -> Result<Value> {
        match request.op() {
            "hello" => {
                Ok(json!({ "version": "", "sync": if self.is_synced { "each turn (fdatasync)" } else { "never" } }))
            }
            "fill" => self.fill(request),
            "append" => self.append(request.text("folder")?, request.number("turn")?),
            "many" => self.many(request.text("folder")?, request.number("turns")?, request.number("threads")?),
            "take_session" => {
                let file = request.path("file")?;
                context(std::os::unix::fs::symlink(file, self.work.join(LONG)), file.display()).map(|()| json!({}))
            }
            "take_store" => self.take_store(request.path("store")?),
            "whole" => measured(|| self.splice()),
            "resume" => {
                let records = request.number("records")?;
                measured(|| self.tail(records))
            }
            "list" => {
                let limit = request.number("limit")?;
                timed(|| self.list(limit))
            }
            "read_all" => timed(|| self.read_all(request.path("store")?)),
            "open" => timed(|| self.open(request.text("key")?)),
            "search" => timed(|| self.search(request.text("word")?)),
            _ => Ok(missing("it has no such thing")),
        }
    }
}
