//! W3: a whole long session. W4: as much of its end as a model is given.
//!
//! Every repetition is a process of its own, so that the peak of its memory belongs to the work and nothing is kept from the time before.

use serde_json::{Value, json};

use super::{Measure, Scene, Section, make_ready};
use crate::Result;
use crate::contestant::{Contestant, Entrant};
use crate::options::BUDGET;
use crate::rounds::{Task, interleaved};

const ROUNDS: usize = 5;

/// W3.
pub(super) fn whole(scene: &Scene<'_>) -> Result<Vec<Section>> {
    take(scene);
    let case = format!("{} records, {:.0} MB", scene.options.records, scene.data.long_bytes as f64 / 1e6);
    Ok(vec![section(scene, "W3", case, None, &json!({ "op": "whole" }))])
}

/// W4.
pub(super) fn resume(scene: &Scene<'_>) -> Result<Vec<Section>> {
    take(scene);
    let ours = scene.entrants.iter().find(|entrant| entrant.slug == "ours").ok_or("we do not take part")?;
    let tail = start(scene, ours).ask(&json!({ "op": "tail" }));
    let records = tail.count.ok_or_else(|| tail.trouble.unwrap_or_else(|| "no tail".to_owned()))?;
    let case = format!("{BUDGET} tokens of {:.0} MB", scene.data.long_bytes as f64 / 1e6);
    let note = format!("{BUDGET} tokens are the last {records} records; peers that count rows or messages get as many");
    Ok(vec![section(scene, "W4", case, Some(note), &json!({ "op": "resume", "records": records }))])
}

/// Who syncs does not matter for reading: each design is here once.
fn takes_part(entrant: &Entrant) -> bool {
    !["bare-unsynced", "ours-unsynced", "tutorial-fsync"].contains(&entrant.slug)
}

fn start(scene: &Scene<'_>, entrant: &Entrant) -> Contestant {
    Contestant::start(entrant, &scene.scratch.join("long").join(entrant.slug), &scene.data.turns)
}

/// Everybody takes the long session over, unless they have.
fn take(scene: &Scene<'_>) {
    if scene.scratch.join("long").exists() {
        return;
    }
    for entrant in scene.entrants.iter().filter(|entrant| takes_part(entrant)) {
        eprintln!("  {} takes the long session over …", entrant.name);
        let mut one = [start(scene, entrant)];
        make_ready(&mut one, &json!({ "op": "take_session", "file": scene.data.long }));
    }
}

fn section(scene: &Scene<'_>, workload: &'static str, case: String, note: Option<String>, request: &Value) -> Section {
    let tasks = scene.entrants.iter().filter(|entrant| takes_part(entrant)).map(|entrant| Task {
        name: entrant.name.to_owned(),
        slug: entrant.slug,
        side: entrant.side,
        work: Box::new(move |_| start(scene, entrant).ask(request)),
    });
    let figures = interleaved(ROUNDS, tasks.collect());
    Section { workload, case, measure: Measure::Time, figures, note }
}
