//! `tree`: the branches of a conversation.

use std::io::Write as _;

use unforget_core::json::quote;
use unforget_core::reader::LogReader;
use unforget_core::scan::Scanner;
use unforget_core::tree::{Detail, Line, Outline, Tree};

use crate::cli;
use crate::commands::Context;
use crate::failure::{Failure, Outcome, Result};
use crate::screen;

mod draw;

pub(crate) fn run(context: &Context, args: &cli::Tree) -> Result<Outcome> {
    let transcript = context.transcript(&args.name)?;
    let reader = transcript.reader()?;
    if context.json {
        return json(&Tree::read(&reader)?);
    }
    let detail = if args.all { Detail::EveryTurn } else { Detail::Folded };
    let now_ms = context.store.source().now_ms();
    let mut out = anstream::stdout().lock();
    print(&mut out, &reader, detail, now_ms)?;
    Ok(Outcome::Done)
}

/// Draws the tree of a transcript.
pub(crate) fn print(out: &mut impl std::io::Write, reader: &LogReader, detail: Detail, now_ms: i64) -> Result<()> {
    let tree = Tree::read(reader)?;
    let lines = outline(reader, &tree, detail)?;
    for row in draw::rows(&tree, &lines, &draw::Page::of_this_terminal(now_ms)) {
        writeln!(out, "{row}")?;
    }
    Ok(())
}

fn outline(reader: &LogReader, tree: &Tree, detail: Detail) -> Result<Vec<Line>> {
    let mut outline = Outline::new(tree, detail);
    let mut scanner = Scanner::default();
    let mut forward = reader.forward(0);
    while let Some(line) = forward.next()? {
        scanner.feed(&line, |record| outline.feed(&record));
    }
    Ok(outline.finish())
}

/// One object for the head, one a branch, one a name.
fn json(tree: &Tree) -> Result<Outcome> {
    let mut out = std::io::stdout().lock();
    let failed = |error: serde_json::Error| Failure::new(error.to_string());
    let head = tree.head().map_or("null".to_owned(), |n| n.to_string());
    let current = tree.current().map_or("null".to_owned(), quote);
    screen::write_stored(&mut out, format!("{{\"head\":{head},\"current\":{current}}}\n").as_bytes())?;
    for branch in tree.branches() {
        let branch = serde_json::to_string(&branch).map_err(failed)?;
        screen::write_stored(&mut out, format!("{{\"branch\":{branch}}}\n").as_bytes())?;
    }
    for label in tree.labels() {
        let label = serde_json::to_string(&label).map_err(failed)?;
        screen::write_stored(&mut out, format!("{{\"label\":{label}}}\n").as_bytes())?;
    }
    out.flush()?;
    Ok(Outcome::Done)
}
