//! The workloads, one after the other, everybody taking turns within each.

use std::path::PathBuf;

use serde_json::Value;

use crate::contestant::{Contestant, Entrant, Reply, Side, entrants};
use crate::data::Data;
use crate::install::Peers;
use crate::options::Options;
use crate::rounds::{Figure, Task, interleaved};
use crate::{Result, context};

mod append;
mod history;
mod store;

/// How a figure is shown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Measure {
    /// Less is better.
    Time,
    /// So many turns in the measured time; more is better.
    Rate(usize),
}

/// One case of a workload: who was how fast.
pub(crate) struct Section {
    pub(crate) workload: &'static str,
    pub(crate) case: String,
    pub(crate) measure: Measure,
    pub(crate) figures: Vec<Figure>,
    /// What a reader of the figures has to know.
    pub(crate) note: Option<String>,
}

impl Section {
    /// A workload that could not be measured at all, which must not take the others with it.
    fn failed(workload: &'static str, why: String) -> Self {
        let case = "not measured".to_owned();
        Self { workload, case, measure: Measure::Time, figures: Vec::new(), note: Some(why) }
    }
}

/// What every workload works with.
pub(crate) struct Scene<'s> {
    pub(crate) options: &'s Options,
    pub(crate) data: &'s Data,
    pub(crate) peers: &'s Peers,
    pub(crate) entrants: Vec<Entrant>,
    /// Files of this run.
    scratch: PathBuf,
    /// Stores of contestants, which take long to make and are used again.
    kept: PathBuf,
}

/// Measures one workload in all its cases.
type Workload = fn(&Scene<'_>) -> Result<Vec<Section>>;

/// Runs what is wanted.
pub(crate) fn run(options: &Options, data: &Data, peers: &Peers) -> Result<Vec<Section>> {
    let scratch = data.folder.join("scratch");
    if scratch.exists() {
        context(std::fs::remove_dir_all(&scratch), scratch.display())?;
    }
    let kept = data.folder.join("kept");
    let scene = Scene { options, data, peers, entrants: entrants(options, peers)?, scratch, kept };
    for entrant in &scene.entrants {
        let who = Contestant::start(entrant, &scene.scratch.join("hello"), &data.turns);
        eprintln!("  {}: {}", entrant.name, who.about());
    }
    let mut sections = Vec::new();
    let parts: [(&'static str, Workload); 7] = [
        ("W1", append::one),
        ("W2", append::many),
        ("W3", history::whole),
        ("W4", history::resume),
        ("W5", store::list_and_open),
        ("W6", store::start),
        ("W7", store::search),
    ];
    for (name, part) in parts {
        if options.wants(name) {
            eprintln!("{name} …");
            match part(&scene) {
                Ok(cases) => sections.extend(cases),
                Err(why) => sections.push(Section::failed(name, why)),
            }
        }
    }
    Ok(sections)
}

impl Scene<'_> {
    /// Starts everybody who keeps the wanted promise.
    fn contestants(&self, wanted: impl Fn(&Entrant) -> bool) -> Vec<Contestant> {
        let start = |entrant: &Entrant| Contestant::start(entrant, &self.scratch.join(entrant.slug), &self.data.turns);
        self.entrants.iter().filter(|entrant| wanted(entrant)).map(start).collect()
    }

    /// Starts one on its own copy of the store, which it makes if this is the first time.
    fn on_the_store(&self, entrant: &Entrant) -> Contestant {
        let work = self.kept.join(entrant.slug);
        let mark = work.join("complete");
        if mark.exists() {
            return Contestant::start(entrant, &work, &self.data.turns);
        }
        if work.exists()
            && let Err(error) = std::fs::remove_dir_all(&work)
        {
            eprintln!("note: {}: {error}", work.display());
        }
        eprintln!("  {} takes the store over …", entrant.name);
        let mut contestant = Contestant::start(entrant, &work, &self.data.turns);
        let taken = contestant.ask(&serde_json::json!({ "op": "take_store", "store": self.data.folder }));
        match taken.trouble {
            None => {
                if let Err(error) = std::fs::write(&mark, entrant.name) {
                    eprintln!("note: {}: {error}", mark.display());
                }
            }
            Some(why) => eprintln!("  {}: {why}", entrant.name),
        }
        contestant
    }
}

/// Asks all of them the same for some rounds. What is asked depends on the round.
fn ask_all(contestants: &mut [Contestant], rounds: usize, request: impl Fn(usize) -> Value + Copy) -> Vec<Figure> {
    interleaved(rounds, contestants.iter_mut().map(|contestant| Task::ask(contestant, request)).collect())
}

/// Asks all of them once to make something ready; who cannot is told of and has no figures.
fn make_ready(contestants: &mut [Contestant], request: &Value) {
    for contestant in contestants {
        if let Some(why) = contestant.ask(request).trouble {
            eprintln!("  {}: {why}", contestant.entrant.name);
        }
    }
}

/// A task that is no question to a contestant.
fn task<'t>(name: &str, slug: &'static str, side: Side, work: impl FnMut() -> Reply + 't) -> Task<'t> {
    let mut work = work;
    Task { name: name.to_owned(), slug, side, work: Box::new(move |_| work()) }
}
