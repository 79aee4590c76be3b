//! The log of the long session: it only grows, and in the end it accounts for everything.

use std::collections::HashMap;
use std::path::PathBuf;

use serde_json::Value;
use unforget_core::json;
use unforget_core::record::Body;
use unforget_core::scan::scan;

const TOKEN: &str = "token-";
const TOKEN_LENGTH: usize = TOKEN.len() + 5;

/// How much of the log a failure shows, in bytes.
const TAIL: usize = 6_000;

/// The transcript as it was seen last.
pub(super) struct Log {
    pub(super) path: PathBuf,
    bytes: Vec<u8>,
}

/// What is in a log.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) records: usize,
    pub(super) compactions: usize,
    pub(super) trims: usize,
}

impl Log {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, bytes: Vec::new() }
    }

    /// Reads the log: the lines that were there must be there, byte for byte.
    pub(super) fn check(&mut self) {
        let now = std::fs::read(&self.path).unwrap();
        assert!(now.starts_with(&self.bytes), "the first {} bytes have changed", self.bytes.len());
        self.bytes = now;
        // What is behind the last line feed was never acknowledged.
        let whole = self.bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        self.bytes.truncate(whole);
    }

    /// The number of the last record.
    pub(super) fn last(&self) -> u64 {
        let lines = self.bytes.trim_ascii_end();
        let from = lines.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let record: Value = serde_json::from_slice(&lines[from..]).unwrap();
        record["n"].as_u64().unwrap()
    }

    /// The end of the log as it is now, for the message of a failure.
    pub(super) fn tail(&self) -> String {
        let now = std::fs::read(&self.path).unwrap_or_default();
        String::from_utf8_lossy(&now[now.len().saturating_sub(TAIL)..]).into_owned()
    }

    /// The kinds of the records between two lengths.
    pub(super) fn kinds(&self, from: u64, to: u64) -> Vec<String> {
        let place = |at: u64| usize::try_from(at).unwrap().min(self.bytes.len());
        let lines = self.bytes[place(from)..place(to)].split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines
            .map(|line| {
                let record: Value = serde_json::from_slice(line).unwrap();
                record["type"].as_str().unwrap().to_owned()
            })
            .collect()
    }

    /// Holds what was said and what was run against the records.
    pub(super) fn account(&self, said: &[String], ran: &[String]) -> Found {
        let scanned = scan(&self.bytes);
        assert_eq!(scanned.report.damage().count(), 0);
        let mut texts: HashMap<String, usize> = HashMap::new();
        let mut calls: HashMap<&str, usize> = HashMap::new();
        let mut found = Found { records: scanned.records.len(), compactions: 0, trims: 0 };
        for record in &scanned.records {
            match &record.body {
                Body::User { content } => {
                    *texts.entry(json::string(content).unwrap().into_owned()).or_default() += 1;
                }
                Body::ToolUse(call) => {
                    if let Some(token) = token(call.input) {
                        *calls.entry(token).or_default() += 1;
                    }
                }
                Body::Compaction { .. } => found.compactions += 1,
                Body::Trim { .. } => found.trims += 1,
                _ => {}
            }
        }
        for text in said {
            assert_eq!(texts.remove(text.as_str()), Some(1), "how often the log has `{text}`");
        }
        assert!(texts.is_empty(), "nobody said this: {texts:?}");
        let mut runs: HashMap<&str, usize> = HashMap::new();
        for token in ran {
            *runs.entry(token).or_default() += 1;
        }
        for (token, runs) in runs {
            let calls = calls.get(token).copied().unwrap_or(0);
            assert!(runs <= calls, "{token} was run {runs} times for {calls} calls");
        }
        found
    }
}

/// The token of a command, which is the first thing that it leaves behind.
fn token(input: &str) -> Option<&str> {
    let at = input.find(TOKEN)?;
    input.get(at..at + TOKEN_LENGTH)
}
