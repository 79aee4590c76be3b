//! W3: a whole transcript into the messages of a request, against parsers that promise nothing.

use memchr::memmem;
use serde_json::Value;
use serde_json::value::RawValue;
use unforget_core::history::{Limits, rebuild_all};
use unforget_core::lines;
use unforget_core::scan::scan;

use crate::child::{self, peak_of};
use crate::scene::{Home, Scale};
use crate::table::{Task, head, interleaved, memory, row, size, timed};

pub(crate) fn run(scale: &Scale) {
    let home = Home::new();
    home.write(0, scale.whole);
    let path = home.transcript(0);
    let buffer = std::fs::read(&path).unwrap();
    head(&format!("W3  rebuild of a whole transcript of {}", size(buffer.len() as u64)));
    let mut tasks: [Task<'_>; 4] = [
        Box::new(|| timed(|| rebuild(&buffer))),
        Box::new(|| timed(|| splice(&buffer))),
        Box::new(|| timed(|| validate(&buffer))),
        Box::new(|| timed(|| values(&buffer).count())),
    ];
    let times = interleaved(scale.long_rounds, &mut tasks);
    row("against a splice without a look at the bytes", times[0], times[1], "");
    row("against a check that each line is JSON", times[0], times[2], "<= 1.2x");
    row("against a tree of values for each line", times[0], times[3], "<= 0.3x");
    let ours = peak_of(child::REBUILD, &path);
    let bare = peak_of(child::VALUES, &path);
    memory("peak memory, against all trees at once", ours, Some(bare), "<= 10 MB when streamed");
}

/// The messages of a transcript, whatever their size.
pub(crate) fn rebuild(buffer: &[u8]) -> String {
    let limits = Limits { bytes: usize::MAX, messages: usize::MAX, tokens: None };
    rebuild_all(&scan(buffer).records, &limits).to_json()
}

/// The trees of all lines.
pub(crate) fn values(buffer: &[u8]) -> impl Iterator<Item = Value> {
    lines::split(buffer, 0).map(|line| serde_json::from_slice(line.bytes).unwrap())
}

fn validate(buffer: &[u8]) -> usize {
    lines::split(buffer, 0).filter(|line| serde_json::from_slice::<&RawValue>(line.bytes).is_ok()).count()
}

/// What every line says, found by its name alone and copied.
fn splice(buffer: &[u8]) -> Vec<u8> {
    let finders = ["\"content\":", "\"output\":", "\"input\":"].map(memmem::Finder::new);
    let mut out = Vec::with_capacity(buffer.len());
    for line in lines::split(buffer, 0) {
        let Some(at) = finders.iter().find_map(|finder| finder.find(line.bytes)) else { continue };
        let end = line.bytes.len().saturating_sub(",\"crc\":\"00000000\"}".len());
        out.extend_from_slice(&line.bytes[at..end]);
    }
    out
}
