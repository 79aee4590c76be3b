//! The data on disk: one long session, a store of many, and the turns that are appended.
//!
//! Files are written in the store's own layout without a sync, by two threads, because a gigabyte should take seconds.
//! What a run finds complete it uses again: the data follows from the plan, and the folder's name from both.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use unforget_core::json;
use unforget_core::layout::AgentDir;
use unforget_core::record::{Draft, Envelope};
use unforget_core::stamp::{SessionId, rfc3339};
use unforget_testkit::corpus::{Corpus, Plan, Planned};
use unforget_testkit::generate::Dice;

use crate::options::Options;
use crate::{Result, context};

/// Turns that are appended, over and over.
const TURNS: usize = 64;
/// About how many bytes a turn is.
const TURN_BYTES: usize = 5_000;
/// Records of the session that is appended to when its length should matter.
const GROWN_RECORDS: usize = 10_000;
const THREADS: usize = 2;
/// Written last.
const COMPLETE: &str = "complete";

/// Where the data is.
pub(crate) struct Data {
    pub(crate) folder: PathBuf,
    /// One session of many records.
    pub(crate) long: PathBuf,
    /// The beginning of the same session.
    pub(crate) grown: PathBuf,
    /// One turn a line: an array of records.
    pub(crate) turns: PathBuf,
    /// The home directory of the store.
    pub(crate) home: PathBuf,
    pub(crate) long_bytes: u64,
    pub(crate) store_bytes: u64,
}

/// Makes the data, unless it is there.
pub(crate) fn prepare(options: &Options) -> Result<Data> {
    let Plan { seed, sessions, bytes } = options.plan;
    let folder = options.folder.join(format!("data-{seed}-{sessions}-{bytes}-{}", options.records));
    let data = |long_bytes, store_bytes| Data {
        long: folder.join("long.jsonl"),
        grown: folder.join("grown.jsonl"),
        turns: folder.join("turns.jsonl"),
        home: folder.join("home"),
        folder: folder.clone(),
        long_bytes,
        store_bytes,
    };
    if let Ok(text) = std::fs::read_to_string(folder.join(COMPLETE)) {
        let mut sizes = text.split_whitespace().filter_map(|word| word.parse().ok());
        return Ok(data(sizes.next().unwrap_or(0), sizes.next().unwrap_or(0)));
    }
    if folder.exists() {
        context(std::fs::remove_dir_all(&folder), folder.display())?;
    }
    let begun = Instant::now();
    let home = folder.join("home");
    let store_bytes = write_store(&home, &options.plan)?;
    write_plan(&folder, &options.plan)?;
    let corpus = Corpus::default();
    let alone = Plan { sessions: 1, ..options.plan };
    let long = corpus.long_session(&alone, &alone.session(0), options.records);
    write(&folder.join("long.jsonl"), &long)?;
    let grown: usize = long.split_inclusive('\n').take(GROWN_RECORDS).map(str::len).sum();
    write(&folder.join("grown.jsonl"), long.get(..grown).unwrap_or(&long))?;
    let turns: Vec<String> = turns(seed).iter().map(|turn| neutral(turn)).collect();
    write(&folder.join("turns.jsonl"), &(turns.join("\n") + "\n"))?;
    write(&folder.join(COMPLETE), &format!("{} {store_bytes}\n", long.len()))?;
    let seconds = begun.elapsed().as_secs_f64();
    eprintln!("made {sessions} sessions of {store_bytes} bytes and one of {} in {seconds:.1} s", long.len());
    Ok(data(long.len() as u64, store_bytes))
}

fn write(path: &Path, text: &str) -> Result {
    context(std::fs::write(path, text), path.display())
}

/// The turns that are appended.
fn turns(seed: u64) -> Vec<Vec<Draft>> {
    let (corpus, mut dice) = (Corpus::default(), Dice::new(seed ^ 0x7475_726e));
    (0..TURNS).map(|number| corpus.turn(&mut dice, number, TURN_BYTES)).collect()
}

/// A turn as every contestant is given it: records without an envelope.
fn neutral(turn: &[Draft]) -> String {
    let record = |draft: &Draft| {
        let members = draft.members().iter().map(|(name, value)| format!(",{}:{value}", json::quote(name)));
        format!("{{\"type\":{}{}}}", json::quote(draft.kind()), members.collect::<String>())
    };
    format!("[{}]", turn.iter().map(record).collect::<Vec<_>>().join(","))
}

/// Reads the turns as drafts, for our own side.
pub(crate) fn read_turns(path: &Path) -> Result<Vec<Vec<Draft>>> {
    let text = context(std::fs::read_to_string(path), path.display())?;
    let turn = |line: &str| {
        let records = json::elements(line).ok_or("a turn is not an array")?;
        records.iter().map(|record| Draft::from_json(record).map_err(|error| error.to_string())).collect()
    };
    text.lines().map(turn).collect()
}

/// The bytes that a turn becomes, for the bare side.
pub(crate) fn encode(turn: &[Draft]) -> Vec<u8> {
    let envelope = |n| Envelope { n, parent: Some(n), now_ms: 1_767_225_600_000, previous_crc: 0 };
    (1..).zip(turn).map(|(n, draft)| draft.encode(envelope(n), &[])).collect::<String>().into_bytes()
}

/// Writes all sessions of a plan into a home directory, and returns how many bytes they have.
pub(crate) fn write_store(home: &Path, plan: &Plan) -> Result<u64> {
    let (corpus, bytes) = (Corpus::default(), AtomicU64::new(0));
    let part = |thread: usize| -> Result {
        for number in (thread..plan.sessions).step_by(THREADS) {
            let planned = plan.session(number);
            let (text, path) = (corpus.session(plan, &planned), home.join(transcript(&planned)?));
            bytes.fetch_add(text.len() as u64, Ordering::Relaxed);
            let file = match File::create(&path) {
                Err(_) => {
                    context(std::fs::create_dir_all(path.parent().unwrap_or(home)), path.display())?;
                    File::create(&path)
                }
                created => created,
            };
            let mut file = context(file, path.display())?;
            context(file.write_all(text.as_bytes()), path.display())?;
            let updated = Duration::from_millis(planned.created_ms + 7_000 * text.lines().count() as u64);
            context(file.set_modified(SystemTime::UNIX_EPOCH + updated), path.display())?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || part(thread))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a thread died".to_owned())?)
    })?;
    Ok(bytes.load(Ordering::Relaxed))
}

fn transcript(planned: &Planned) -> Result<PathBuf> {
    let id = SessionId::parse(&planned.id).ok_or_else(|| format!("`{}` is no id", planned.id))?;
    Ok(AgentDir::of(planned.agent).transcript(&id))
}

/// Writes what peers need to take the store over: a row a session, oldest first.
fn write_plan(folder: &Path, plan: &Plan) -> Result {
    let path = folder.join("plan.jsonl");
    let mut out = BufWriter::new(context(File::create(&path), path.display())?);
    for number in 0..plan.sessions {
        let planned = plan.session(number);
        let file = Path::new("home").join(transcript(&planned)?);
        let created = i64::try_from(planned.created_ms).unwrap_or(0);
        // The time of the last record is not known here; the order is all that a list needs.
        let (created, updated) = (rfc3339(created), rfc3339(created + 7_000));
        let (id, key, file) =
            (json::quote(&planned.id), json::quote(&planned.key), json::quote(&file.to_string_lossy()));
        let row = format!(
            "{{\"id\":{id},\"key\":{key},\"file\":{file},\"created\":\"{created}\",\"updated\":\"{updated}\"}}\n"
        );
        context(out.write_all(row.as_bytes()), path.display())?;
    }
    context(out.flush(), path.display())
}
