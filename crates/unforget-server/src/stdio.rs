//! The store over a pipe: a request a line in, an answer a line out (docs/store.md).
//!
//! Whoever started this process is its owner, and no one else can reach it: there is no identity to
//! find out and no door. Requests with an `id` run beside each other, those that name one session
//! alike in the order in which they came; requests without one run one after the other. A bounded
//! number is in hand at a time, and a bounded number waits for its turn; as long as that is reached
//! nothing more is read: a caller that sends faster than the disk writes waits.
//!
//! At the end of the input everything that was asked is answered, and what is not at the remote yet
//! is tried once more.

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use unforget_core::json;

use crate::error::{Code, Problem, Result};

mod ask;
mod plain;

pub use ask::Pipe;

/// How many requests are in hand at the most.
const IN_HAND: usize = 64;
/// How many have been read and are not answered yet, at the most.
const READ: usize = 512;
/// The longest request, in bytes.
const MAX_REQUEST: u64 = 1 << 30;
/// How many answers may wait to be written.
const ANSWERS: usize = 16;
/// How often what is not at the remote yet is tried again.
const AGAIN: Duration = Duration::from_secs(2);
/// How long it is tried at the end.
const FAREWELL: Duration = Duration::from_secs(5);

/// Which requests have to wait for which.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Group {
    /// One after the other.
    InOrder,
    /// Those about one session.
    Session(String, String),
    /// A session of this program's.
    Own(String),
    /// None.
    Free,
}

/// What every request has.
#[derive(Deserialize)]
struct Envelope<'r> {
    op: String,
    #[serde(borrow, default)]
    id: Option<&'r RawValue>,
}

/// Answers requests until the input ends.
pub fn run(
    runtime: &tokio::runtime::Runtime,
    pipe: Pipe,
    mut input: impl BufRead,
    output: impl Write + Send + 'static,
) -> std::io::Result<()> {
    let pipe = Arc::new(pipe);
    let (answers, written) = writer(output);
    let over = CancellationToken::new();
    let tending = runtime.spawn(tend(pipe.clone(), over.clone()));
    let tasks = TaskTracker::new();
    let (queue, room) = (Arc::new(Semaphore::new(READ)), Arc::new(Semaphore::new(IN_HAND)));
    let mut last: HashMap<Group, oneshot::Receiver<()>> = HashMap::new();
    while let Some(line) = read_line(&mut input)? {
        if answers.is_closed() {
            // Nobody hears the answers any more.
            break;
        }
        let (id, asked) = read(&line);
        let group = match (&asked, &id) {
            (_, None) => Group::InOrder,
            (Err(_), Some(_)) => Group::Free,
            (Ok(asked), Some(_)) => asked.group.clone(),
        };
        let place = runtime.block_on(queue.clone().acquire_owned()).map_err(std::io::Error::other)?;
        let (done, waits) = oneshot::channel::<()>();
        last.retain(|_, it| matches!(it.try_recv(), Err(oneshot::error::TryRecvError::Empty)));
        let before = (group != Group::Free).then(|| last.insert(group, waits)).flatten();
        let (pipe, answers, room) = (pipe.clone(), answers.clone(), room.clone());
        tasks.spawn_on(
            async move {
                if let Some(before) = before {
                    // Ends either way when the one before has been answered.
                    drop(before.await);
                }
                // Not before: what waits for a slow session takes no room from others.
                let permit = room.acquire().await;
                let answer = match asked {
                    Ok(asked) => asked.answer(pipe).await,
                    Err(problem) => Err(problem),
                };
                drop(permit);
                // Where nobody listens any more, the end of the input is near.
                drop(answers.send(shown(id.as_deref(), answer)).await);
                drop((done, place));
            },
            runtime.handle(),
        );
    }
    tasks.close();
    runtime.block_on(async {
        tasks.wait().await;
        over.cancel();
        if let Err(error) = tending.await {
            tracing::error!(%error, "what was appended may not be at the remote yet");
        }
        if tokio::time::timeout(FAREWELL, pipe.end()).await != Ok(true) {
            tracing::warn!("something is saved here and not yet there; the next process with this home sends it");
        }
    });
    drop(answers);
    written.join().map_err(|_| std::io::Error::other("the answers cannot be written"))?
}

/// A line, without its end; none at the end of the input.
fn read_line(input: &mut impl BufRead) -> std::io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let count = std::io::Read::take(&mut *input, MAX_REQUEST).read_until(b'\n', &mut line)?;
    if count == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if line.len() as u64 >= MAX_REQUEST {
        // What follows would be taken for requests of its own.
        return Err(std::io::Error::other("a request is longer than a gigabyte"));
    }
    Ok(Some(line))
}

/// The id of a request, as it was written, and what is asked.
fn read(line: &[u8]) -> (Option<String>, Result<ask::Asked>) {
    let Ok(text) = std::str::from_utf8(line) else {
        return (None, Err(Problem::invalid("the request is not UTF-8")));
    };
    let envelope: Envelope<'_> = match serde_json::from_str(text) {
        Ok(envelope) => envelope,
        Err(error) => return (None, Err(Problem::invalid(format!("the request cannot be read: {error}")))),
    };
    let is_name = |id: &str| json::string(id).is_some() || json::number(id).is_some();
    match envelope.id.map(RawValue::get).filter(|id| *id != "null") {
        Some(id) if !is_name(id) => (None, Err(Problem::invalid("`id` is a text or a whole number"))),
        id => (id.map(str::to_owned), ask::Asked::read(&envelope.op, text)),
    }
}

/// An answer as a line.
fn shown(id: Option<&str>, answer: Result<ask::Answer>) -> String {
    let id = id.map_or_else(String::new, |id| format!("\"id\":{id},"));
    match answer {
        Ok(answer) => {
            let durability =
                answer.durability.map_or_else(String::new, |it| format!(",\"durability\":\"{}\"", it.name()));
            format!("{{{id}\"ok\":{}{durability}}}\n", answer.text)
        }
        Err(Problem { code, message, owners, .. }) => {
            // Who started this process is the owner.
            let message = owners.unwrap_or(message);
            // Leading elsewhere has no meaning here.
            let code = if code == Code::Moved { Code::Busy } else { code };
            format!("{{{id}\"err\":{},\"code\":\"{}\"}}\n", json::quote(&message), code.name())
        }
    }
}

type Written = std::thread::JoinHandle<std::io::Result<()>>;

/// A thread that writes answers, whole lines each, and flushes when none waits.
fn writer(mut output: impl Write + Send + 'static) -> (mpsc::Sender<String>, Written) {
    let (answers, mut waiting) = mpsc::channel::<String>(ANSWERS);
    let thread = std::thread::spawn(move || {
        while let Some(answer) = waiting.blocking_recv() {
            output.write_all(answer.as_bytes())?;
            if waiting.is_empty() {
                output.flush()?;
            }
        }
        output.flush()
    });
    (answers, thread)
}

/// Sends now and then what is not at the remote yet.
async fn tend(pipe: Arc<Pipe>, over: CancellationToken) {
    loop {
        tokio::select! {
            () = over.cancelled() => return,
            () = tokio::time::sleep(AGAIN) => {}
        }
        tokio::select! {
            () = over.cancelled() => return,
            () = pipe.tend() => {}
        }
    }
}

#[cfg(test)]
mod tests;
