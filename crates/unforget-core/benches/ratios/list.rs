//! W5: all sessions of a store, and one of them by its key, against a look at the same files.

use std::path::Path;

use unforget_core::directory::OnMissing;
use unforget_core::key::Key;
use unforget_core::log::Durability;

use crate::scene::{Home, Scale, agent, key};
use crate::table::{Task, head, interleaved, row, timed};

/// About one turn each.
const SESSION_BYTES: u64 = 2_000;

pub(crate) fn run(scale: &Scale) {
    let home = Home::new();
    for number in 0..scale.sessions {
        home.write(number, SESSION_BYTES);
    }
    let store = home.store(Durability::PowerLoss);
    let folder = home.path().join(agent().sessions());
    let snapshot = home.path().join(agent().snapshot());
    head(&format!("W5  {} sessions", scale.sessions));

    let mut without: [Task<'_>; 2] = [
        Box::new(|| timed(|| assert_eq!(store.list().unwrap().entries.len(), scale.sessions))),
        Box::new(|| timed(|| read_all(&folder))),
    ];
    let times = interleaved(scale.long_rounds, &mut without);
    row("list without a snapshot, against reading all", times[0], times[1], "<= 1.5x");

    store.refresh(&store.list().unwrap()).unwrap();
    let key: Key = key(scale.sessions / 2).parse().unwrap();
    let one = home.transcript(scale.sessions / 2);
    let mut with: [Task<'_>; 4] = [
        Box::new(|| timed(|| assert!(store.list().unwrap().stale.is_empty()))),
        Box::new(|| timed(|| stat_all(&folder))),
        Box::new(|| timed(|| store.load(&key, OnMissing::Fail).unwrap())),
        Box::new(|| timed(|| std::fs::read(&one).unwrap())),
    ];
    let times = interleaved(scale.long_rounds * 3, &mut with);
    row("list with a snapshot, against readdir and stat", times[0], times[1], "<= 1 ms");
    row("list with a snapshot, against reading that", times[0], timed(|| std::fs::read(&snapshot).unwrap()), "<= 1 ms");
    row("open by key, against readdir and stat", times[2], times[1], "<= 0.3 ms");
    row("open by key, against reading that session", times[2], times[3], "<= 0.3 ms");
}

fn stat_all(folder: &Path) -> u64 {
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

fn read_all(folder: &Path) -> usize {
    std::fs::read_dir(folder).unwrap().map(|entry| std::fs::read(entry.unwrap().path()).unwrap().len()).sum()
}
