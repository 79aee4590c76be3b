//! W1: one turn onto one session. W2: turns onto many sessions at once.
//!
//! Those who sync and those who do not are never in one table: the difference would be that of the disk.

use serde_json::json;

use super::{Measure, Scene, Section, ask_all, make_ready};
use crate::Result;

/// Threads of those who use threads.
const THREADS: usize = 64;
/// Repetitions of W2.
const MANY_ROUNDS: usize = 5;

/// The promise of a table.
const PROMISES: [(&str, bool); 2] = [("synced", true), ("not synced", false)];

/// W1.
pub(super) fn one(scene: &Scene<'_>) -> Result<Vec<Section>> {
    let mut sections = Vec::new();
    let rounds = scene.options.rounds;
    let cases = [
        ("new session", 0, None, rounds),
        ("session of 10,000 records", 0, Some(&scene.data.grown), rounds.div_ceil(4)),
        ("beside 1,000 sessions", 1_000, None, rounds.div_ceil(4)),
        ("beside 10,000 sessions", 10_000, None, rounds.div_ceil(8)),
    ];
    for (promise, is_durable) in PROMISES {
        let mut contestants = scene.contestants(|entrant| entrant.is_durable == is_durable);
        for (number, (case, others, history, rounds)) in cases.iter().enumerate() {
            eprintln!("  {promise}: {case}");
            let folder = format!("one{number}");
            let mut ready = json!({ "op": "fill", "folder": folder, "sessions": 1, "others": others });
            if let Some(history) = history {
                ready["history"] = json!(history);
            }
            make_ready(&mut contestants, &ready);
            let figures =
                ask_all(&mut contestants, *rounds, |turn| json!({ "op": "append", "folder": folder, "turn": turn }));
            let case = format!("{promise}: {case}");
            sections.push(Section { workload: "W1", case, measure: Measure::Time, figures, note: None });
        }
    }
    Ok(sections)
}

/// W2.
pub(super) fn many(scene: &Scene<'_>) -> Result<Vec<Section>> {
    let mut sections = Vec::new();
    for (promise, is_durable) in PROMISES {
        let mut contestants = scene.contestants(|entrant| entrant.is_durable == is_durable);
        for (sessions, turns) in [(64, 640), (1_000, 1_000)] {
            eprintln!("  {promise}: {sessions} sessions");
            let folder = format!("many{sessions}");
            make_ready(&mut contestants, &json!({ "op": "fill", "folder": folder, "sessions": sessions, "others": 0 }));
            let request =
                json!({ "op": "many", "folder": folder, "sessions": sessions, "turns": turns, "threads": THREADS });
            let figures = ask_all(&mut contestants, MANY_ROUNDS, |_| request.clone());
            let case = format!("{promise}: {sessions} sessions");
            sections.push(Section { workload: "W2", case, measure: Measure::Rate(turns), figures, note: None });
        }
    }
    Ok(sections)
}
