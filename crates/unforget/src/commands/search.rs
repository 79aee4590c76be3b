//! `search`: what was said, in any session.
//!
//! What a search means is the core's; here are the words of the person, the threads, and the output: hits by session, each with
//! its record, so that `show --at` leads there. Files are read by as many threads as there are processors: the core starts none.

use std::collections::HashMap;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};
use unforget_core::mask::mask;
use unforget_core::search::snippet::COLUMNS;
use unforget_core::search::{
    self, Answer, Filter, Found, Hit, Place, Query, QueryError, Role, SearchQuery, Snippet, Trash,
};
use unforget_core::store::{Answer as Told, Way};
use unforget_server::api::search::FoundPlace;
use unicode_width::UnicodeWidthStr as _;

use crate::cli::Search;
use crate::commands::Context;
use crate::commands::usage::key_pattern;
use crate::failure::{Failure, Outcome, Result};
use crate::when::{self, Edge};
use crate::{progress, screen};

/// Most threads that read files.
const MAX_THREADS: usize = 8;
/// Fewest sessions that a thread is worth.
const SHARE: usize = 64;
/// How long a search may go on learning after its answer.
const LEARNING: Duration = Duration::from_millis(300);
/// How many hits `/search` shows.
const IN_CHAT: usize = 10;
/// Columns before a snippet.
const INDENT: usize = 6;
/// A snippet is at least this wide.
const NARROWEST: usize = 30;
/// So is a title.
const NARROWEST_TITLE: usize = 10;

pub(crate) fn run(context: &Context, args: &Search) -> Result<Outcome> {
    let text = args.words.join(" ");
    let request = SearchQuery { query: query(&text)?, filter: filter(context, args)?, limit: args.limit };
    let way = if args.scan { Way::Scan } else { Way::Index };
    let answer = look(context, &request, way)?;
    let mut out = anstream::stdout().lock();
    if context.json {
        for hit in &answer.hits {
            let snippet = snippet(context, hit, &request.query, COLUMNS)?;
            screen::json_line(&mut out, &FoundPlace::of(hit, &snippet))?;
        }
    } else if answer.hits.is_empty() {
        tell_nothing(context, &text, &request, way)?;
    } else {
        print(context, &mut out, &request.query, &answer)?;
        let (what, command) = match answer.hits.iter().find(|hit| !hit.place.is_trashed) {
            Some(hit) => ("A record and what is around it:", format!("unforget show {} --at {}", hit.place.id, hit.n)),
            None => {
                let id = answer.hits.first().map(|hit| hit.place.id.as_str()).unwrap_or_default();
                ("Bring it back from the trash:", format!("unforget undelete {id}"))
            }
        };
        // A command that is broken by the edge of the window cannot be copied.
        let fits = screen::columns().is_none_or(|columns| what.len() + 1 + command.len() <= columns);
        writeln!(out, "\n{what}{}{command}", if fits { " " } else { "\n  " })?;
    }
    drop(out);
    if !args.scan {
        learn(context);
    }
    Ok(if answer.hits.is_empty() { Outcome::Nothing } else { Outcome::Done })
}

/// Takes in some of the words that the index lacks, now that the answer is out: the next search will be faster.
fn learn(context: &Context) {
    let begun = Instant::now();
    if let Some(index) = context.catalog.index() {
        match index.take_in_words(&mut |_, _| begun.elapsed() < LEARNING) {
            // What cannot be kept is scanned again.
            Ok(_) | Err(_) => {}
        }
    }
}

/// `/search` of the chat.
pub(crate) fn in_chat(context: &Context, text: &str) -> Result<()> {
    if text.is_empty() {
        return Err(Failure::usage("what for? /search <words, \"a phrase\", begin*, this OR that, -without>"));
    }
    let request = SearchQuery { query: query(text)?, filter: Filter::default(), limit: IN_CHAT };
    let answer = look(context, &request, Way::Index)?;
    if answer.hits.is_empty() {
        return tell_nothing(context, text, &request, Way::Index);
    }
    let mut out = anstream::stdout().lock();
    print(context, &mut out, &request.query, &answer)?;
    if let Some(hit) = answer.hits.iter().find(|hit| !hit.place.is_trashed) {
        writeln!(out, "\n  Go on there: /switch {}", hit.place.id)?;
    }
    Ok(())
}

fn query(text: &str) -> Result<Query> {
    Query::parse(text).map_err(|QueryError { what, at, hint }| {
        let place = if at > 0 { format!(" (at `{}`)", text.get(at..).unwrap_or_default()) } else { String::new() };
        Failure::usage(format!("{what}{place}")).hint(hint)
    })
}

fn filter(context: &Context, args: &Search) -> Result<Filter> {
    let now_ms = context.store.source().now_ms();
    let time = |text: &Option<String>, edge| text.as_deref().map(|text| when::parse(text, now_ms, edge)).transpose();
    let key = args.key.as_deref().map(key_pattern).transpose()?;
    Ok(Filter {
        agent: args.agent.clone(),
        channel: args.channel.clone(),
        peer: args.peer.clone(),
        key,
        since_ms: time(&args.since, Edge::Begin)?,
        until_ms: time(&args.until, Edge::End)?,
        roles: args.role.iter().filter_map(|name| Role::parse(name)).collect(),
        tool: args.tool.clone(),
        trash: if args.no_trash { Trash::LeftOut } else { Trash::Searched },
    })
}

/// Says that there is nothing, and what would find something.
fn tell_nothing(context: &Context, text: &str, request: &SearchQuery, way: Way) -> Result<()> {
    context.tell("nothing was found")?;
    let Some(text) = beginnings(text).filter(|_| way == Way::Index) else { return Ok(()) };
    // A star where none can be leaves nothing to hint at.
    let Ok(query) = Query::parse(&text) else { return Ok(()) };
    let request = SearchQuery { query, filter: request.filter.clone(), limit: 1 };
    if asked(context, &request, way)?.value.hits.is_empty() {
        return Ok(());
    }
    context.tell(&format!("hint: `{}` finds something: a star stands for the rest of a word", screen::one_line(&text)))
}

/// The same question with each word as the beginning of one; none if that is what was asked, or if it asks for more than words.
fn beginnings(text: &str) -> Option<String> {
    if text.contains(['"', '(', ')']) {
        return None;
    }
    let with_star = |word: &str| match word {
        "AND" | "OR" | "NOT" => word.to_owned(),
        _ if word.starts_with('-') || word.ends_with('*') => word.to_owned(),
        _ => format!("{word}*"),
    };
    let words: Vec<String> = text.split_whitespace().map(with_star).collect();
    Some(words.join(" ")).filter(|starred| starred != text)
}

fn asked(context: &Context, request: &SearchQuery, way: Way) -> Result<Told<Answer>> {
    let progress = progress::Progress::new("searching");
    let scan = |places: &[Place]| scan(context, places, request, &progress);
    Ok(context.catalog.search_with(request, way, &scan, &mut |_, _| progress.step())?)
}

/// The answer, from the index as far as it goes.
fn look(context: &Context, request: &SearchQuery, way: Way) -> Result<Answer> {
    let answer = asked(context, request, way)?;
    context.tell_notes(&answer.notes)?;
    let answer = answer.value;
    for (path, why) in &answer.unreadable {
        context.tell(&format!("note: {} was not searched: {why}", path.display()))?;
    }
    Ok(answer)
}

/// Reads transcripts, by several threads if there are many.
fn scan(context: &Context, places: &[Place], request: &SearchQuery, progress: &progress::Progress) -> Found {
    let next = AtomicUsize::new(0);
    // Each thread takes the next session that nobody has taken: long ones do not hold up the others.
    let share = || {
        let take = || places.get(next.fetch_add(1, Ordering::Relaxed)).inspect(|_: &&Place| progress.step());
        search::scan(&context.store, std::iter::from_fn(take), request)
    };
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(MAX_THREADS);
    let threads = threads.min(places.len() / SHARE + 1);
    let mut found = Found::default();
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(share)).collect();
        found.add(share());
        for other in others {
            match other.join() {
                Ok(part) => found.add(part),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    found
}

/// The words around a hit; nothing if the record went away meanwhile.
fn snippet(context: &Context, hit: &Hit, query: &Query, columns: usize) -> Result<Snippet> {
    Ok(search::snippet(&context.store, hit, query, columns)?.unwrap_or_default())
}

/// The hits by session: the session of the best one first, and in it the records in their order.
fn print(context: &Context, out: &mut impl Write, query: &Query, answer: &Answer) -> Result<()> {
    let window = screen::columns();
    let columns = window.map_or(COLUMNS, |columns| columns.saturating_sub(INDENT + 1).clamp(NARROWEST, COLUMNS));
    let mut groups: Vec<Vec<&Hit>> = Vec::new();
    let mut known: HashMap<&Place, usize> = HashMap::new();
    for hit in &answer.hits {
        let group = *known.entry(&hit.place).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[group].push(hit);
    }
    let (bold, dim, yellow) = (Style::new().bold(), Style::new().dimmed(), AnsiColor::Yellow.on_default());
    let id_columns = match window {
        Some(_) => screen::telling(answer.hits.iter().map(|hit| hit.place.id.as_str())),
        None => usize::MAX,
    };
    for (number, group) in groups.iter_mut().enumerate() {
        let Some(first) = group.first() else { continue };
        let title = screen::one_line(&mask(first.title.as_deref().unwrap_or("(no title)")));
        let key = screen::one_line(first.key.as_deref().unwrap_or("-"));
        let newest = group.iter().map(|hit| hit.at_ms).max().filter(|ms| *ms > 0);
        let ago = screen::ago(newest, context.store.source().now_ms());
        let (trash, trash_columns) = match first.place.is_trashed {
            true => (format!("  {yellow}(trash){yellow:#}"), "  (trash)".len()),
            false => (String::new(), 0),
        };
        let id: String = first.place.id.as_str().chars().take(id_columns).collect();
        let (title, key) = match window {
            Some(window) => {
                let key = screen::fit(&key, window / 3);
                let rest = format!("  {key}  {ago}  {id}").width() + trash_columns;
                (screen::fit(&title, window.saturating_sub(rest).max(NARROWEST_TITLE)), key)
            }
            None => (title, key),
        };
        if number > 0 {
            writeln!(out)?;
        }
        writeln!(out, "{bold}{title}{bold:#}  {dim}{key}  {ago}  {id}{dim:#}{trash}")?;
        group.sort_by_key(|hit| (hit.n, hit.role));
        for hit in group.iter() {
            let tool = hit.tool.as_deref().map_or(String::new(), |tool| format!(" {}", screen::one_line(tool)));
            let left = if hit.is_abandoned { format!("  {yellow}(abandoned branch){yellow:#}") } else { String::new() };
            writeln!(out, "{dim}{:>4}{dim:#} {}{tool}{left}", hit.n, hit.role.name())?;
            writeln!(out, "     {}", highlighted(&snippet(context, hit, query, columns)?))?;
        }
    }
    if answer.more {
        writeln!(out, "\n{dim}(there is more: say more words, or see `unforget search --limit`){dim:#}")?;
    }
    Ok(())
}

/// A snippet for a terminal, made safe piece by piece.
fn highlighted(snippet: &Snippet) -> String {
    let red = AnsiColor::Red.on_default().bold();
    let mut shown = String::new();
    let mut at = 0;
    for mark in &snippet.marks {
        let (before, inside) = (snippet.text.get(at..mark.start), snippet.text.get(mark.clone()));
        let (Some(before), Some(inside)) = (before, inside) else { continue };
        shown.push_str(&screen::safe(before));
        shown.push_str(&format!("{red}{}{red:#}", screen::safe(inside)));
        at = mark.end;
    }
    shown.push_str(&screen::safe(snippet.text.get(at..).unwrap_or_default()));
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_beginnings_and_everything_else_stays() {
        assert_eq!(beginnings("HTTPServer").as_deref(), Some("HTTPServer*"));
        assert_eq!(beginnings("this OR that -less be*").as_deref(), Some("this* OR that* -less be*"));
        for same in ["be*", "\"a phrase\"", "(a OR b)", ""] {
            assert_eq!(beginnings(same), None, "{same}");
        }
    }
}
