//! `tail`: the last records of a session, and those to come.

use std::io::Write as _;
use std::time::Duration;

use unforget_core::lines::Physical;
use unforget_core::reader::LogReader;
use unforget_core::report::Report;
use unforget_core::scan::Scanner;

use crate::cli::Tail;
use crate::commands::{Context, conversation};
use crate::failure::{Failure, Outcome, Result};
use crate::screen;

/// How often a followed file is looked at.
const INTERVAL: Duration = Duration::from_millis(100);

pub(crate) fn run(context: &Context, args: &Tail) -> Result<Outcome> {
    let transcript = context.transcript(&args.name)?;
    let reader = transcript.reader()?;
    let is_counted = |line: &Physical<'_>| context.json || shows(line);
    let mut at = last_lines(&reader, args.lines, is_counted)?;
    let mut scanner = scanner_at(&reader, at)?;
    at = show_from(context, &reader, at, &mut scanner)?;
    if !args.follow {
        // Nobody waits for the rest of a line that was cut off.
        let mut rest = reader.forward(at);
        if let Some(line) = rest.next()? {
            show(context, &mut anstream::stdout().lock(), &line, &mut scanner)?;
        }
        return context.tell_damage(&transcript.shown_path(), &scanner.report);
    }
    loop {
        std::thread::sleep(INTERVAL);
        let len = transcript.current_len().map_err(|error| {
            let path = transcript.shown_path();
            match error.kind() {
                std::io::ErrorKind::NotFound => Failure::new(format!("{} was deleted or moved", path.display()))
                    .hint("`unforget sessions --deleted` lists what can be brought back"),
                _ => Failure::new(format!("{} can no longer be followed: {error}", path.display())),
            }
        })?;
        if len < at {
            return Err(Failure::new(format!("{} became shorter", transcript.shown_path().display()))
                .hint("someone edited or replaced it; `unforget doctor` checks what is left"));
        }
        if len > at {
            at = show_from(context, &transcript.reader()?, at, &mut scanner)?;
        }
        context.tell_damage(&transcript.shown_path(), &std::mem::take(&mut scanner.report))?;
    }
}

/// A scanner for the lines from an offset on. Version 0 has no numbers of its own: there, the lines before are counted.
fn scanner_at(reader: &LogReader, at: u64) -> Result<Scanner> {
    let mut scanner = Scanner::default();
    let mut forward = reader.forward(0);
    while let Some(line) = forward.next()? {
        if line.offset >= at {
            break;
        }
        let mut is_native = false;
        scanner.feed(&line, |record| is_native = record.version > 0);
        if is_native {
            return Ok(Scanner::partial(0));
        }
    }
    scanner.report = Report::default();
    Ok(scanner)
}

/// Where the last `count` of the lines that count begin.
fn last_lines(reader: &LogReader, count: usize, is_counted: impl Fn(&Physical<'_>) -> bool) -> Result<u64> {
    let (mut start, mut counted) = (reader.len(), 0);
    let mut backward = reader.backward();
    while counted < count {
        match backward.next()? {
            Some(line) if line.terminated && is_counted(&line) => (start, counted) = (line.offset, counted + 1),
            Some(_) => {}
            None => break,
        }
    }
    Ok(start)
}

/// Whether a person is shown something of a line; records that only keep the books show nothing.
fn shows(line: &Physical<'_>) -> bool {
    let mut shows = false;
    Scanner::partial(0).feed(line, |record| shows |= !conversation::shown(&record).is_empty());
    shows
}

/// Shows whole lines from an offset on, and returns where the next one begins.
fn show_from(context: &Context, reader: &LogReader, from: u64, scanner: &mut Scanner) -> Result<u64> {
    let mut out = anstream::stdout().lock();
    let mut forward = reader.forward(from);
    let mut at = from;
    while let Some(line) = forward.next()? {
        // A line without its end may still be on its way.
        if !line.terminated {
            break;
        }
        at = line.end();
        show(context, &mut out, &line, scanner)?;
    }
    out.flush()?;
    Ok(at)
}

fn show(context: &Context, out: &mut impl std::io::Write, line: &Physical<'_>, scanner: &mut Scanner) -> Result<()> {
    let mut records = Vec::new();
    scanner.feed(line, |record| records.push(record));
    for record in records {
        if context.json {
            screen::write_stored(out, record.raw.as_bytes())?;
            writeln!(out)?;
        } else {
            // The beginning of a large payload is enough here.
            write!(out, "{}", conversation::terminal(&record))?;
        }
    }
    Ok(())
}
