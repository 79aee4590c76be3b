//! What came out, as Markdown for people and as JSON for whoever compares runs.
//!
//! First one line a case: we, the bare limit, the best peer, and the two ratios. Then everybody. A ratio is always this
//! run's figure by this run's figure.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::contestant::Side;
use crate::data::Data;
use crate::install::Peers;
use crate::options::Options;
use crate::rounds::Figure;
use crate::workloads::{Measure, Section};
use crate::{Result, context};

const TITLES: [(&str, &str); 7] = [
    ("W1", "append of one turn: 6 records, about 4 kB"),
    ("W2", "turns onto many sessions at once"),
    ("W3", "the whole history of a long session"),
    ("W4", "resume a long session within a token budget"),
    ("W5", "the newest sessions, and one by its key"),
    ("W6", "from the start to the first prompt"),
    ("W7", "search"),
];

/// Prints the tables and writes both files.
pub(crate) fn publish(options: &Options, data: &Data, peers: &Peers, sections: &[Section]) -> Result {
    let mut text = header(options, data, peers);
    text.push_str(&summary(sections));
    for (workload, title) in TITLES {
        let own: Vec<&Section> = sections.iter().filter(|section| section.workload == workload).collect();
        if !own.is_empty() {
            text.push_str(&details(workload, title, &own));
        }
    }
    println!("{text}");
    let value = json!({
        "sessions": options.plan.sessions,
        "bytes": data.store_bytes,
        "records": options.records,
        "seed": options.plan.seed,
        "missing": peers.missing,
        "cases": sections.iter().map(as_json).collect::<Vec<_>>(),
    });
    for (name, content) in [("result.md", text), ("result.json", format!("{value:#}\n"))] {
        let path = options.folder.join(name);
        context(std::fs::write(&path, content), path.display())?;
        eprintln!("wrote {}", path.display());
    }
    Ok(())
}

fn header(options: &Options, data: &Data, peers: &Peers) -> String {
    let (sessions, megabytes) = (options.plan.sessions, data.store_bytes as f64 / 1e6);
    let (records, long) = (options.records, data.long_bytes as f64 / 1e6);
    let left_out = options.left_out();
    let mut text = format!(
        "{sessions} sessions with {megabytes:.0} MB, a session of {records} records with {long:.0} MB{left_out}; medians of one run.\n"
    );
    for (name, why) in &peers.missing {
        text.push_str(&format!("Missing: {name}: {}\n", cell(why)));
    }
    text.push('\n');
    text
}

/// One line a case.
fn summary(sections: &[Section]) -> String {
    let mut text = "| | case | unforget | bare limit | ratio | best peer | | unforget is |\n|---|---|---:|---:|---:|---|---:|---:|\n".to_owned();
    for section in sections {
        for ours in section.figures.iter().filter(|figure| figure.side == Side::Ours) {
            let Some(median) = ours.median() else { continue };
            let show = |figure: Option<&Figure>| {
                figure.and_then(Figure::median).map_or("-".to_owned(), |median| section.measure.show(median))
            };
            let (bare, peer) = (section.bare(), section.best_peer());
            let to_bare = section.ratio(Some(ours), bare);
            let faster = peer.and_then(Figure::median).map_or("-".to_owned(), |other| faster(other / median));
            let what = if ours.name.contains("whole command") { " (whole command)" } else { "" };
            let what = if ours.slug == "scan" { " (`--scan`, whole command)" } else { what };
            let row = [
                section.workload.to_owned(),
                format!("{}{what}", section.case),
                section.measure.show(median),
                show(bare),
                to_bare,
                peer.map_or("-", |peer| &peer.name).to_owned(),
                show(peer),
                faster,
            ];
            text.push_str(&format!("| {} |\n", row.join(" | ")));
        }
    }
    text
}

fn faster(times: f64) -> String {
    if times >= 1.0 { format!("{} faster", ratio(times)) } else { format!("{} slower", ratio(1.0 / times)) }
}

/// Everybody, in the cases of one workload.
fn details(workload: &str, title: &str, sections: &[&Section]) -> String {
    let mut text = format!("\n### {workload}: {title}\n\n");
    text.push_str("| case | who | median | to bare | to the best peer | spread | peak memory |\n");
    text.push_str("|---|---|---:|---:|---:|---:|---:|\n");
    for section in sections {
        for figure in &section.figures {
            let row = match figure.median() {
                Some(median) => [
                    section.measure.show(median),
                    section.ratio(Some(figure), section.bare()),
                    section.ratio(Some(figure), section.best_peer()),
                    spread(section.measure, figure),
                    figure.peak.map_or(String::new(), size),
                ]
                .join(" | "),
                None => format!("missing: {} | | | |", cell(figure.trouble.as_deref().unwrap_or("no figure"))),
            };
            text.push_str(&format!("| {} | {} | {row} |\n", section.case, figure.name));
        }
    }
    for section in sections {
        if let Some(note) = &section.note {
            // A string takes every write.
            if writeln!(text, "\n{}: {note}.", section.case).is_err() {
                break;
            }
        }
    }
    text
}

impl Section {
    fn bare(&self) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.side == Side::Bare)
    }

    fn best_peer(&self) -> Option<&Figure> {
        let peers = self.figures.iter().filter(|figure| figure.side == Side::Peer && figure.median().is_some());
        peers.min_by(|a, b| a.median().unwrap_or(f64::MAX).total_cmp(&b.median().unwrap_or(f64::MAX)))
    }

    /// One figure by another, as it is shown: of times, or of rates.
    fn ratio(&self, one: Option<&Figure>, other: Option<&Figure>) -> String {
        let (Some(one), Some(other)) = (one.and_then(Figure::median), other.and_then(Figure::median)) else {
            return "-".to_owned();
        };
        match self.measure {
            Measure::Time => ratio(one / other),
            Measure::Rate(_) => ratio(other / one),
        }
    }
}

impl Measure {
    fn show(self, seconds: f64) -> String {
        match self {
            Measure::Time => time(seconds),
            Measure::Rate(turns) => format!("{:.0} turns/s", turns as f64 / seconds),
        }
    }
}

fn spread(measure: Measure, figure: &Figure) -> String {
    let (Some(first), Some(last)) = (figure.times.first(), figure.times.last()) else { return String::new() };
    format!("{} to {} in {}", measure.show(*first), measure.show(*last), figure.times.len())
}

/// A text that does not break a table.
fn cell(text: &str) -> String {
    text.replace('|', "/").replace('\n', " ").chars().take(160).collect()
}

fn ratio(ratio: f64) -> String {
    match ratio {
        ratio if ratio < 10.0 => format!("{ratio:.2}x"),
        ratio if ratio < 100.0 => format!("{ratio:.1}x"),
        ratio => format!("{ratio:.0}x"),
    }
}

fn time(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 1e-4 => format!("{:.1} us", seconds * 1e6),
        seconds if seconds < 1e-2 => format!("{:.2} ms", seconds * 1e3),
        seconds if seconds < 1.0 => format!("{:.1} ms", seconds * 1e3),
        seconds => format!("{seconds:.2} s"),
    }
}

fn size(bytes: u64) -> String {
    match bytes as f64 {
        bytes if bytes < 1e6 => format!("{:.0} kB", bytes / 1e3),
        bytes => format!("{:.0} MB", bytes / 1e6),
    }
}

fn as_json(section: &Section) -> Value {
    let figure = |figure: &Figure| {
        json!({
            "name": figure.name,
            "slug": figure.slug,
            "side": format!("{:?}", figure.side).to_lowercase(),
            "median_seconds": figure.median(),
            "seconds": figure.times,
            "peak_bytes": figure.peak,
            "count": figure.count,
            "missing": figure.trouble,
        })
    };
    json!({
        "workload": section.workload,
        "case": section.case,
        "turns": match section.measure { Measure::Time => None, Measure::Rate(turns) => Some(turns) },
        "figures": section.figures.iter().map(figure).collect::<Vec<_>>(),
        "note": section.note,
    })
}
