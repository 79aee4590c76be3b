//! W1: one turn onto a session, against one write of the same bytes onto a file.
//!
//! Nothing may grow: neither with the session nor with the number of other sessions beside it.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use unforget_core::log::Durability;
use unforget_core::record::Draft;
use unforget_core::session::Session;
use unforget_testkit::generate::{self, Dice};

use crate::scene::{Chain, Home, Scale, entry};
use crate::table::{Task, head, interleaved, row, timed};

const DURABLE: &str = "<= 1.15x, flat";
const UNSYNCED: &str = "<= 10 us, flat";

/// A session and a bare file that began with the same bytes.
struct Pair {
    name: String,
    durability: Durability,
    session: Session,
    bare: File,
}

pub(crate) fn run(scale: &Scale) {
    let large = scale.whole.min(100_000_000);
    let (alone, crowded) = (Home::new(), Home::new());
    let lengths = [("new session", 0), ("1 MB session", 1_000_000), ("large session", large)];
    let mut number = 0;
    let mut pairs = Vec::new();
    for (word, durability) in [("durable", Durability::PowerLoss), ("unsynced", Durability::ProcessDeath)] {
        for (name, bytes) in lengths {
            pairs.push(Pair::new(&alone, number, bytes, format!("{word}, {name}"), durability));
            number += 1;
        }
    }
    for other in 0..scale.sessions {
        crowded.write(other + 100, 0);
    }
    for (word, durability) in [("durable", Durability::PowerLoss), ("unsynced", Durability::ProcessDeath)] {
        let name = format!("{word}, new session beside {} others", scale.sessions);
        pairs.push(Pair::new(&crowded, number, 0, name, durability));
        number += 1;
    }
    pairs.sort_by_key(|pair| pair.durability == Durability::ProcessDeath);

    let turns = turns();
    let length: usize = turns.iter().map(|(_, bytes)| bytes.len()).sum();
    head(&format!("W1  append of one turn: 6 records, {} bytes on average", length / turns.len()));
    let named: Vec<(String, Durability)> = pairs.iter().map(|pair| (pair.name.clone(), pair.durability)).collect();
    let mut tasks: Vec<Task<'_>> = pairs.iter_mut().flat_map(|pair| pair.tasks(&turns)).collect();
    let times = interleaved(scale.rounds, &mut tasks);
    for ((name, durability), pair) in named.iter().zip(times.chunks_exact(2)) {
        let goal = if *durability == Durability::PowerLoss { DURABLE } else { UNSYNCED };
        row(name, pair[0], pair[1], goal);
    }
}

/// Turns, and the bytes that they become.
fn turns() -> Vec<(Vec<Draft>, Vec<u8>)> {
    let mut dice = Dice::new(7);
    let mut chain = Chain::default();
    let drafts = (0..64).map(|number| generate::turn(&mut dice, number));
    drafts
        .map(|drafts| {
            let bytes = drafts.iter().map(|draft| chain.line(draft)).collect::<String>().into_bytes();
            (drafts, bytes)
        })
        .collect()
}

impl Pair {
    fn new(home: &Home, number: usize, bytes: u64, name: String, durability: Durability) -> Self {
        home.write(number, bytes);
        let path = home.transcript(number);
        let bare = bare_copy(&path);
        let session = home.store(durability).open(&entry(number)).unwrap();
        Self { name, durability, session, bare }
    }

    fn tasks<'t>(&'t mut self, turns: &'t [(Vec<Draft>, Vec<u8>)]) -> [Task<'t>; 2] {
        let Self { durability, session, bare, .. } = self;
        let (mut ours, mut theirs) = (turns.iter().cycle(), turns.iter().cycle());
        let append = move || -> Duration {
            let (drafts, _) = ours.next().unwrap();
            timed(|| session.append(drafts).unwrap())
        };
        let write = move || -> Duration {
            let (_, bytes) = theirs.next().unwrap();
            timed(|| {
                bare.write_all(bytes).unwrap();
                if *durability == Durability::PowerLoss {
                    bare.sync_data().unwrap();
                }
            })
        };
        [Box::new(append), Box::new(write)]
    }
}

fn bare_copy(path: &Path) -> File {
    let copy = path.with_extension("bare");
    std::fs::copy(path, &copy).unwrap();
    let file = OpenOptions::new().append(true).open(copy).unwrap();
    file.sync_all().unwrap();
    file
}
