//! W5: the newest of many sessions, and one by its key. W6: from the start to the first prompt. W7: search.
//!
//! All on the same store, which every peer has taken over in its own form. Our side is here twice: the library in a process that
//! runs, as the peers are measured, and the whole command as a person gives it.

use std::process::Command;

use serde_json::json;
use unforget_testkit::corpus::{ABSENT, NEEDLES};

use super::{Measure, Scene, Section, task};
use crate::Result;
use crate::contestant::{Contestant, Reply, Side};
use crate::options::PAGE;
use crate::program::{Program, start_peer, whole};
use crate::rounds::{Task, interleaved};

const ROUNDS: usize = 7;
/// Rounds of what reads every file.
const LONG_ROUNDS: usize = 3;
/// A word that nearly every session has.
const FREQUENT: &str = "server";
/// Contestants that are the same as another one when nothing is written.
const TWICE: [&str; 3] = ["bare-unsynced", "ours-unsynced", "tutorial-fsync"];

fn program(scene: &Scene<'_>) -> Result<Program> {
    Program::new(&scene.options.program, &scene.data.home, &scene.scratch.join("empty"))
}

/// Everybody, on the store.
fn everybody(scene: &Scene<'_>) -> Vec<Contestant> {
    let entrants = scene.entrants.iter().filter(|entrant| !TWICE.contains(&entrant.slug));
    entrants.map(|entrant| scene.on_the_store(entrant)).collect()
}

fn one(scene: &Scene<'_>, slug: &str) -> Result<Contestant> {
    let entrant = scene.entrants.iter().find(|entrant| entrant.slug == slug);
    entrant.map(|entrant| scene.on_the_store(entrant)).ok_or_else(|| format!("`{slug}` does not take part"))
}

/// W5.
pub(super) fn list_and_open(scene: &Scene<'_>) -> Result<Vec<Section>> {
    let (plan, program) = (&scene.options.plan, program(scene)?);
    let mut contestants = everybody(scene);
    let limit = PAGE.to_string();
    let page = ["sessions", "--limit", &limit, "--json"];
    // A build that cannot list a page lists everything, and is called so.
    let (name, arguments): (&str, &[&str]) = match program.run(&page).trouble {
        None => ("unforget sessions --limit 50, whole command", &page),
        Some(_) => ("unforget sessions, whole command (no --limit yet)", &["sessions", "--json"]),
    };
    let mut tasks: Vec<Task<'_>> = contestants
        .iter_mut()
        .map(|contestant| Task::ask(contestant, |_| json!({ "op": "list", "limit": PAGE })))
        .collect();
    tasks.push(task(name, "command", Side::Ours, || program.run(arguments)));
    let figures = interleaved(ROUNDS, tasks);
    let case = format!("{PAGE} newest of {}", plan.sessions);
    let list = Section { workload: "W5", case, measure: Measure::Time, figures, note: None };

    let middle = (plan.sessions / 2..plan.sessions).map(|number| plan.session(number));
    let chosen = middle.into_iter().find(|planned| planned.key_is_unique).ok_or("no session has a key of its own")?;
    let request = json!({ "op": "open", "id": chosen.id, "key": chosen.key });
    let tasks = contestants.iter_mut().map(|contestant| Task::ask(contestant, |_| request.clone())).collect();
    let figures = interleaved(ROUNDS, tasks);
    let case = format!("open by key among {}", plan.sessions);
    let open = Section { workload: "W5", case, measure: Measure::Time, figures, note: None };
    drop(contestants);
    Ok(vec![list, open, from_nothing(scene, &program)?])
}

/// The first list of a store that has no index yet, against a look at every byte.
fn from_nothing(scene: &Scene<'_>, program: &Program) -> Result<Section> {
    let mut bare = one(scene, "bare")?;
    let forget = || -> Result {
        for entry in crate::context(std::fs::read_dir(&scene.data.home), scene.data.home.display())? {
            let path = crate::context(entry, "the store")?.path();
            let is_index = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("index.sqlite"));
            if is_index {
                crate::context(std::fs::remove_file(&path), path.display())?;
            }
        }
        for agent in ["main", "work", "research", "operations"] {
            let snapshot = scene.data.home.join("agents").join(agent).join("sessions.json");
            if snapshot.exists() {
                crate::context(std::fs::remove_file(&snapshot), snapshot.display())?;
            }
        }
        Ok(())
    };
    let first = || match forget() {
        Ok(()) => program.run(&["sessions", "--json"]),
        Err(why) => Reply::trouble(why),
    };
    let request = json!({ "op": "read_all", "store": scene.data.folder });
    let tasks = vec![
        Task::ask(&mut bare, |_| request.clone()),
        task("unforget sessions, whole command", "command", Side::Ours, first),
    ];
    let figures = interleaved(LONG_ROUNDS, tasks);
    let note =
        Some("bare reads every file once; the command makes its index from nothing and lists everything".to_owned());
    let case = "first list without an index".to_owned();
    Ok(Section { workload: "W5", case, measure: Measure::Time, figures, note })
}

/// W6.
pub(super) fn start(scene: &Scene<'_>) -> Result<Vec<Section>> {
    let program = program(scene)?;
    // Taking the store over is no part of the start; nor is making the index.
    drop(everybody(scene));
    if let Some(why) = program.run(&["index", "--json"]).trouble {
        eprintln!("  unforget: {why}");
    }
    let mut tasks = vec![
        task("bare: /bin/true", "bare", Side::Bare, || whole(&mut Command::new("/bin/true"), &[0])),
        task("unforget chat, in a terminal", "ours", Side::Ours, || program.start()),
    ];
    let peers = scene.entrants.iter().filter(|entrant| entrant.side == Side::Peer && !TWICE.contains(&entrant.slug));
    for entrant in peers {
        let work = scene.kept.join(entrant.slug);
        tasks.push(task(entrant.name, entrant.slug, Side::Peer, move || start_peer(entrant, &work)));
    }
    let figures = interleaved(ROUNDS, tasks);
    let case = format!("to the first prompt, {} sessions", scene.options.plan.sessions);
    let note = "peers: the library is imported, the newest session found and read, a prompt printed; no API client, no interface";
    Ok(vec![Section { workload: "W6", case, measure: Measure::Time, figures, note: Some(note.to_owned()) }])
}

/// W7.
pub(super) fn search(scene: &Scene<'_>) -> Result<Vec<Section>> {
    let (plan, program) = (&scene.options.plan, program(scene)?);
    let (mut bare, mut ours) = (one(scene, "bare")?, one(scene, "ours")?);
    if let Some(why) = program.run(&["index", "--json"]).trouble {
        eprintln!("  unforget: {why}");
    }
    let agents = scene.data.home.join("agents");
    let ripgrep = |word: &str| {
        let mut command = Command::new(&scene.peers.ripgrep);
        command
            .args([
                "--fixed-strings",
                "--ignore-case",
                "--count",
                "--no-ignore",
                "--no-config",
                "--glob",
                "*.jsonl",
                "--",
                word,
            ])
            .arg(&agents);
        // 1 is: nothing was found.
        whole(&mut command, &[0, 1])
    };
    let planted = NEEDLES.iter().map(|(word, every)| (*word, Some(plan.with_needle(*every))));
    let words = planted.chain([(FREQUENT, None), (ABSENT, Some(0))]);
    let mut sections = Vec::new();
    for (word, expected) in words {
        let mut tasks = vec![
            Task::ask(&mut bare, move |_| json!({ "op": "search", "word": word })),
            Task::ask(&mut ours, move |_| json!({ "op": "search", "word": word })),
            task("unforget search, whole command", "command", Side::Ours, || program.run(&["search", word, "--json"])),
            task("unforget search --scan, whole command", "scan", Side::Ours, || {
                program.run(&["search", word, "--scan", "--json"])
            }),
        ];
        if scene.options.wants_peer("ripgrep") {
            tasks.push(task("ripgrep on the same files", "ripgrep", Side::Peer, || ripgrep(word)));
        }
        let figures = interleaved(ROUNDS, tasks);
        let found: Vec<String> =
            figures.iter().filter_map(|figure| figure.count.map(|count| format!("{} {count}", figure.name))).collect();
        let expected = expected.map_or(String::new(), |count| format!("; planted in {count} sessions"));
        let note = Some(format!("lines of output (bare: hits): {}{expected}", found.join(", ")));
        sections.push(Section { workload: "W7", case: format!("`{word}`"), measure: Measure::Time, figures, note });
    }
    Ok(sections)
}
