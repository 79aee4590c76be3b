//! The other end of the conversation: how this program is a contestant itself.
//!
//! Requests and replies are as in `bench/peers/common.py`. Time and memory are taken here, around the work alone.

use std::io::{BufRead as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::{Map, Value, json};

use crate::{Result, context};

const FLAG: &str = "--contestant";

/// What a contestant is told when it starts.
pub(crate) struct Place {
    /// Where it keeps its own files.
    pub(crate) work: PathBuf,
    /// The turns that are appended.
    pub(crate) turns: PathBuf,
    /// Whether an append waits for the disk.
    pub(crate) is_synced: bool,
}

/// Which contestant this process is to be, if any.
pub(crate) fn asked(arguments: &[String]) -> Option<(&str, Place)> {
    let [flag, name, rest @ ..] = arguments else { return None };
    let value = |name: &str| {
        let at = rest.iter().position(|argument| argument == name)?;
        rest.get(at + 1).map(PathBuf::from)
    };
    let place = Place {
        work: value("--work").unwrap_or_default(),
        turns: value("--turns").unwrap_or_default(),
        is_synced: !rest.iter().any(|argument| argument == "--unsynced"),
    };
    (flag == FLAG).then_some((name.as_str(), place))
}

/// The arguments that [`asked`] understands.
pub(crate) fn arguments(name: &str) -> Vec<String> {
    vec![FLAG.to_owned(), name.to_owned()]
}

/// Does what it is asked.
pub(crate) trait Contest {
    /// Answers a request, or says in words why it cannot.
    fn answer(&mut self, request: &Request) -> Result<Value>;
}

/// A request: the operation and its numbers and names.
pub(crate) struct Request(Map<String, Value>);

impl Request {
    pub(crate) fn op(&self) -> &str {
        self.text("op").unwrap_or_default()
    }

    pub(crate) fn text(&self, name: &str) -> Result<&str> {
        self.0.get(name).and_then(Value::as_str).ok_or_else(|| format!("the request has no `{name}`"))
    }

    pub(crate) fn number(&self, name: &str) -> Result<usize> {
        let number = self.0.get(name).and_then(Value::as_u64).and_then(|number| usize::try_from(number).ok());
        number.ok_or_else(|| format!("the request has no number `{name}`"))
    }

    pub(crate) fn path(&self, name: &str) -> Result<&Path> {
        self.text(name).map(Path::new)
    }
}

/// Answers requests until there are no more.
pub(crate) fn serve(contest: &mut impl Contest) -> Result {
    for line in std::io::stdin().lock().lines() {
        let line = context(line, "stdin")?;
        let request = Request(context(serde_json::from_str(&line), "a request")?);
        let reply = contest.answer(&request).unwrap_or_else(|error| json!({ "error": error }));
        let mut out = std::io::stdout().lock();
        context(writeln!(out, "{reply}").and_then(|()| out.flush()), "stdout")?;
    }
    Ok(())
}

/// The reply to an operation that a contestant does not have.
pub(crate) fn missing(why: &str) -> Value {
    json!({ "missing": why })
}

/// Runs it once: how long.
pub(crate) fn timed(work: impl FnOnce() -> Result<usize>) -> Result<Value> {
    let begun = Instant::now();
    let count = work()?;
    let seconds = begun.elapsed().as_secs_f64();
    Ok(json!({ "seconds": seconds, "count": count }))
}

/// Runs it once: how long, and by how much the process grew at most.
pub(crate) fn measured(work: impl FnOnce() -> Result<usize>) -> Result<Value> {
    // Where the mark cannot be lowered, it is that of the whole process, which has done nothing before.
    let lowered = std::fs::write("/proc/self/clear_refs", "5").is_ok();
    let before = status(if lowered { "VmRSS:" } else { "VmHWM:" });
    let mut reply = timed(work)?;
    reply["peak"] = json!(status("VmHWM:").saturating_sub(before));
    Ok(reply)
}

fn status(field: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let value = text.lines().find_map(|line| line.strip_prefix(field)?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    value.unwrap_or(0) * 1024
}
