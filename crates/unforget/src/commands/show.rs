//! `show`: a conversation, in the form that someone needs.

use std::collections::{HashMap, HashSet};
use std::io::Write as _;

use serde::Serialize;
use unforget_core::history::{Limits, Repair, foreign_messages, path, rebuild_all};
use unforget_core::json;
use unforget_core::record::Record;
use unforget_core::report::{Report, Weight};
use unforget_core::scan::{Scan, scan};
use unforget_core::search::lineage::Lineage;
use unforget_server::api::messages::ListedRepair;

use crate::cli::Show;
use crate::commands::{Context, FileNote, Transcript, conversation};
use crate::failure::{Failure, Outcome, Result};
use crate::screen;

pub(crate) fn run(context: &Context, args: &Show) -> Result<Outcome> {
    let transcript = context.transcript(&args.name)?;
    if args.messages {
        return messages(context, &transcript, args.budget);
    }
    let bytes = transcript.reader()?.read_all()?;
    let mut out = anstream::stdout().lock();
    if args.raw {
        screen::write_stored(&mut out, &bytes)?;
        return Ok(Outcome::Done);
    }
    let mut scanned = scan(&bytes);
    for note in path(&scanned.records).notes {
        scanned.report.add_once(note);
    }
    let left = left_behind(&scanned.records);
    if let Some(n) = args.at {
        scanned.records = around(scanned.records, n, args.around)?;
    }
    if context.json {
        records(&mut out, &transcript, &scanned, &left)?;
        return Ok(outcome(&scanned.report));
    }
    let restored = transcript.with_payloads(&mut scanned)?;
    let shown: Vec<Record<'_>> =
        scanned.records.iter().zip(&restored).map(|(record, text)| record.with_text(text.as_deref())).collect();
    if let Some(n) = args.at {
        marked(&mut out, &shown, n, &left)?;
        return context.tell_damage(&transcript.shown_path(), &scanned.report);
    }
    if args.markdown {
        writeln!(out, "# {}\n", screen::one_line(&transcript.name))?;
        for record in &shown {
            write!(out, "{}", conversation::markdown(record))?;
        }
        return context.tell_damage(&transcript.shown_path(), &scanned.report);
    }
    readable(&mut out, &shown, &scanned.report)?;
    let (is_empty, repairs) = if transcript.is_foreign()? {
        let history = foreign_messages(&shown);
        (history.messages.is_empty(), history.repairs)
    } else {
        let history = rebuild_all(&shown, &Limits::default());
        (history.messages.is_empty(), history.repairs)
    };
    if is_empty {
        writeln!(out, "(no messages yet in {})", screen::one_line(&transcript.name))?;
    }
    let dim = anstyle::Style::new().dimmed();
    for repair in &repairs {
        let told = screen::one_line(&repair.kind.to_string());
        writeln!(out, "{dim}{:>4} put right for the model: {told}{dim:#}", repair.n)?;
    }
    context.tell_damage(&transcript.shown_path(), &scanned.report)
}

/// Where the records begin that the conversation no longer stands on.
fn left_behind(records: &[Record<'_>]) -> HashSet<u64> {
    let mut lineage = Lineage::default();
    let steps: Vec<_> = records.iter().filter_map(|record| Some((record.offset, lineage.feed(record)?))).collect();
    let path = lineage.path();
    steps.into_iter().filter(|(_, step)| path.leaves_out(*step)).map(|(offset, _)| offset).collect()
}

/// A record and those around it that show something.
fn around(records: Vec<Record<'_>>, n: u64, count: usize) -> Result<Vec<Record<'_>>> {
    let is_seen = |record: &Record<'_>| record.n == n || !conversation::shown(record).is_empty();
    let seen: Vec<Record<'_>> = records.into_iter().filter(is_seen).collect();
    let Some(place) = seen.iter().rposition(|record| record.n == n) else {
        let last = seen.last().map_or(0, |record| record.n);
        return Err(Failure::usage(format!("there is no record {n}")).hint(format!("the last one is {last}")));
    };
    let from = place.saturating_sub(count);
    Ok(seen.into_iter().take(place.saturating_add(count).saturating_add(1)).skip(from).collect())
}

/// Records with one of them marked, and those on abandoned branches told to be there.
fn marked(out: &mut impl std::io::Write, records: &[Record<'_>], n: u64, left: &HashSet<u64>) -> Result<()> {
    let yellow = anstyle::AnsiColor::Yellow.on_default();
    for record in records {
        let mark = if record.n == n { format!("{yellow}>{yellow:#}") } else { " ".to_owned() };
        let text = conversation::terminal(record);
        let abandoned = match left.contains(&record.offset) {
            true => format!("  {yellow}(abandoned branch){yellow:#}"),
            false => String::new(),
        };
        if text.is_empty() {
            writeln!(out, "{mark}{:>4} {}{abandoned}", record.n, screen::one_line(record.kind()))?;
        }
        for (at, line) in text.lines().enumerate() {
            writeln!(out, "{mark}{line}{}", if at == 0 { abandoned.as_str() } else { "" })?;
        }
    }
    Ok(())
}

fn readable(out: &mut impl std::io::Write, records: &[Record<'_>], report: &Report) -> Result<()> {
    let yellow = anstyle::AnsiColor::Yellow.on_default();
    let mut notes = report.notes.iter().filter(|note| note.kind.weight() != Weight::Remark).peekable();
    let mut tell = |out: &mut dyn std::io::Write, before: u64| -> Result<()> {
        while let Some(note) = notes.next_if(|note| note.offset <= before) {
            let what = screen::one_line(&note.kind.to_string());
            writeln!(out, "   {yellow}! {}: {what}{yellow:#}", note.place())?;
        }
        Ok(())
    };
    for record in records {
        tell(out, record.offset)?;
        write!(out, "{}", conversation::terminal(record))?;
    }
    tell(out, u64::MAX)
}

/// One object per record, with its place, and one per note.
fn records(
    out: &mut impl std::io::Write,
    transcript: &Transcript,
    scanned: &Scan<'_>,
    left: &HashSet<u64>,
) -> Result<()> {
    for record in &scanned.records {
        let kind = json::quote(record.kind());
        let abandoned = if left.contains(&record.offset) { ",\"abandoned\":true" } else { "" };
        let line = format!(
            "{{\"n\":{},\"offset\":{},\"type\":{kind}{abandoned},\"record\":{}}}\n",
            record.n, record.offset, record.raw
        );
        screen::write_stored(out, line.as_bytes())?;
    }
    let file = transcript.shown_path().display().to_string();
    for note in &scanned.report.notes {
        screen::json_line(out, &Noted { note: FileNote::of(&file, note) })?;
    }
    Ok(())
}

fn messages(context: &Context, transcript: &Transcript, budget: Option<u64>) -> Result<Outcome> {
    let mut out = std::io::stdout().lock();
    if transcript.is_foreign()? {
        // That program has its own rules for what it sends, and no budget.
        let bytes = transcript.reader()?.read_all()?;
        let scanned = scan(&bytes);
        let history = foreign_messages(&scanned.records);
        let messages = format!("[{}]\n", history.messages.join(","));
        screen::write_stored(&mut out, messages.as_bytes())?;
        let placed = placed(&bytes, &scanned.records, &history.repairs);
        if context.json {
            let repairs =
                placed.iter().map(|(line, repair)| ListedRepair { line: Some(*line), ..ListedRepair::of(repair) });
            tell_repairs(&transcript.shown_path().display().to_string(), repairs.collect(), &scanned.report)?;
            return Ok(outcome(&scanned.report));
        }
        for (line, repair) in placed {
            let what = screen::one_line(&repair.kind.to_string());
            context.tell(&format!("put right for the model: line {line}, record {}: {what}", repair.n))?;
        }
        return context.tell_damage(&transcript.shown_path(), &scanned.report);
    }
    let limits = budget.map_or_else(Limits::default, Limits::tokens);
    let restored = transcript.restore(&limits)?;
    screen::write_stored(&mut out, restored.history.to_json().as_bytes())?;
    writeln!(out)?;
    let repairs = restored.history.repairs.iter().map(ListedRepair::of).collect();
    tell_repairs(&transcript.shown_path().display().to_string(), repairs, &restored.report)?;
    Ok(outcome(&restored.report))
}

/// Repairs with their lines, counted from one, in the order of the file.
fn placed<'r>(bytes: &[u8], records: &[Record<'_>], repairs: &'r [Repair]) -> Vec<(u64, &'r Repair)> {
    let offsets: HashMap<u64, u64> = records.iter().map(|record| (record.n, record.offset)).collect();
    let mut placed: Vec<(u64, &Repair)> =
        repairs.iter().map(|repair| (offsets.get(&repair.n).copied().unwrap_or(0), repair)).collect();
    placed.sort_by_key(|(offset, _)| *offset);
    let (mut line, mut at) = (1, 0);
    for (place, _) in &mut placed {
        let offset = usize::try_from(*place).unwrap_or(usize::MAX).min(bytes.len());
        line += bytes[at..offset].iter().filter(|byte| **byte == b'\n').count() as u64;
        (*place, at) = (line, offset);
    }
    placed
}

/// A line of `show --json` that is no record.
#[derive(Serialize)]
struct Noted<'a> {
    note: FileNote<'a>,
}

/// What was put right in the messages and what was met in the file, as one JSON object on stderr.
#[derive(Serialize)]
struct Met<'a> {
    repairs: Vec<ListedRepair>,
    damage: Vec<FileNote<'a>>,
    oddities: Vec<FileNote<'a>>,
}

fn tell_repairs(file: &str, repairs: Vec<ListedRepair>, report: &Report) -> Result<()> {
    let damage = report.damage().map(|note| FileNote::of(file, note)).collect();
    let oddities = report.oddities().map(|note| FileNote::of(file, note)).collect();
    screen::json_line(&mut anstream::stderr(), &Met { repairs, damage, oddities })?;
    Ok(())
}

fn outcome(report: &Report) -> Outcome {
    if report.damage_count() > 0 { Outcome::MetDamage } else { Outcome::Done }
}
