//! `claude doctor`: what resuming would lose or stumble over, in sessions that are kept; `--fix` writes a copy in which it is put right.

use std::collections::BTreeMap;

use unforget_claude::copy::Rewrite;
use unforget_claude::doctor::{Activity, Finding, Problem, Refusal, Stamp, examine, quoted, repair};
use unforget_claude::id::SessionId;
use unforget_claude::keep::{Keeper, agent, kept_id};
use unforget_claude::live;
use unforget_core::directory::{FILES, FileNote, KeptFile};
use unforget_core::files::Seen;
use unforget_core::json::quote;
use unforget_core::layout;
use unforget_core::reader::LogReader;
use unforget_core::stamp;

use super::{is_alive, keeper, line, named, new_id};
use crate::cli;
use crate::commands::Context;
use crate::failure::{Outcome, Result};
use crate::progress::Progress;

pub(super) fn run(context: &Context, args: &cli::ClaudeDoctor) -> Result<Outcome> {
    let keeper = keeper(context, &args.program)?;
    let sessions = if args.sessions.is_empty() {
        kept(context)?
    } else {
        args.sessions.iter().map(|name| named(context, None, name)).collect::<Result<Vec<_>>>()?
    };
    let progress = Progress::new("examining");
    let (mut found, mut copies, mut refused) = (0_u64, 0_u64, 0_u64);
    for id in &sessions {
        progress.step();
        let activity = match live::live(keeper.config(), id, &is_alive)?.writers.is_empty() {
            true => Activity::Ended,
            false => Activity::Live,
        };
        let session = Session::open(context, id)?;
        let findings = examine(&session.bytes, activity, &|name| session.has(name));
        for finding in &findings {
            found += 1;
            tell(context, id, finding)?;
        }
        tell_rewritten(context, &keeper, id)?;
        if args.fix && !findings.is_empty() {
            match write_copy(context, id, &session, &session.bytes)? {
                Ok(copy) => {
                    copies += 1;
                    line(
                        context,
                        || format!("{{\"session\":\"{id}\",\"copy\":\"{copy}\"}}"),
                        || {
                            format!(
                                "fixed  {copy} is a repaired copy of {id}: `unforget claude restore {copy}` puts it in place"
                            )
                        },
                    )?;
                }
                Err(refusal) => {
                    refused += 1;
                    refuse(context, id, &refusal)?;
                }
            }
            for finding in &findings {
                let Problem::DroppedBranch { last_line, words, .. } = &finding.problem else { continue };
                let copy = match write_copy(context, id, &session, up_to(&session.bytes, *last_line))? {
                    Ok(copy) => copy,
                    Err(refusal) => {
                        refused += 1;
                        refuse(context, id, &refusal)?;
                        continue;
                    }
                };
                copies += 1;
                line(
                    context,
                    || format!("{{\"session\":\"{id}\",\"branch\":\"{copy}\"}}"),
                    || format!("fixed  {copy} is the branch of {id} that resuming leaves out{}", quoted(words)),
                )?;
            }
        }
    }
    drop(progress);
    if context.json {
        line(
            context,
            || {
                format!(
                    "{{\"sessions\":{},\"found\":{found},\"copies\":{copies},\"refused\":{refused}}}",
                    sessions.len()
                )
            },
            String::new,
        )?;
    } else {
        let verdict = match found {
            0 => "resuming loses nothing".to_owned(),
            1 => "1 thing that resuming would lose or stumble over".to_owned(),
            many => format!("{many} things that resuming would lose or stumble over"),
        };
        let hint = if found > 0 && !args.fix { "; `--fix` writes repaired copies" } else { "" };
        let sessions = sessions.len();
        let sessions = if sessions == 1 { "1 session".to_owned() } else { format!("{sessions} sessions") };
        context.tell(&format!("{sessions} of Claude Code: {verdict}{hint}"))?;
    }
    Ok(if found == 0 || (copies > 0 && refused == 0) { Outcome::Done } else { Outcome::MetDamage })
}

/// All sessions of Claude Code that are kept, by their names alone: a doctor changes nothing, not even an index.
pub(crate) fn kept(context: &Context) -> Result<Vec<SessionId>> {
    let names = match context.store.medium().list(&agent().sessions()) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        other => other?,
    };
    let ids = names.into_iter().filter_map(|(name, _)| SessionId::parse(layout::transcript_id(&name)?.as_str()));
    let mut ids: Vec<SessionId> = ids.collect();
    ids.sort();
    Ok(ids)
}

/// How many things resuming would lose of a session, with the store alone to tell.
pub(crate) fn count(context: &Context, id: &SessionId) -> Result<usize> {
    let session = Session::open(context, id)?;
    // Whoever is writing it may still answer the last calls.
    Ok(examine(&session.bytes, Activity::Live, &|name| session.has(name)).len())
}

/// A session, and what is kept beside it.
struct Session {
    bytes: Vec<u8>,
    sides: Vec<String>,
    files: BTreeMap<String, KeptFile>,
}

impl Session {
    fn open(context: &Context, id: &SessionId) -> Result<Self> {
        let (dir, kept) = (agent(), kept_id(id)?);
        let reader = LogReader::open(context.store.medium().as_ref(), &dir.transcript(&kept))?;
        let (sides, files) = (context.store.sides(&dir, &kept)?, context.store.kept_files(&dir, &kept)?);
        Ok(Self { bytes: reader.read_all()?, sides, files })
    }

    /// Whether something that a line refers to is kept: a side, or a file by where it was.
    fn has(&self, name: &str) -> bool {
        if self.sides.iter().any(|side| side == name) {
            return true;
        }
        // …/projects/<project>/<session>/tool-results/x.txt
        let is_it = |kept: &str| kept.strip_prefix("session/").is_some_and(|rest| name.ends_with(&format!("/{rest}")));
        self.files.iter().any(|(kept, file)| is_it(kept) && file.payload.is_some())
    }
}

/// The beginning of a transcript, as it was when that line was its last.
fn up_to(bytes: &[u8], line: u64) -> &[u8] {
    let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    let end = usize::try_from(line.saturating_sub(1)).ok().and_then(|at| ends.into_iter().nth(at));
    end.and_then(|end| bytes.get(..end)).unwrap_or(bytes)
}

/// Tells which lines of Claude Code's file are kept in another form only. Resuming loses nothing by it, so it is no finding.
fn tell_rewritten(context: &Context, keeper: &Keeper, id: &SessionId) -> Result<()> {
    for found in keeper.config().find(id)?.sessions {
        for Rewrite { line: number, uuid, is_blank } in keeper.rewritten(&found)? {
            let what = match is_blank {
                true => "has other blanks at its ends in Claude Code's file",
                false => "was changed in Claude Code's file; `unforget claude save` keeps both forms",
            };
            line(
                context,
                || {
                    format!(
                        "{{\"session\":\"{id}\",\"rewritten\":{number},\"uuid\":{},\"only_blanks\":{is_blank}}}",
                        quote(&uuid)
                    )
                },
                || format!("note   {id}, line {number} ({uuid}) {what}"),
            )?;
        }
    }
    Ok(())
}

/// Tells that there is no repaired copy, and why.
fn refuse(context: &Context, id: &SessionId, refusal: &Refusal) -> Result<()> {
    let why = refusal.to_string();
    line(
        context,
        || format!("{{\"session\":\"{id}\",\"refused\":{}}}", quote(&why)),
        || format!("refused  no copy of {id} would be better than it is: {why}"),
    )
}

/// Keeps a repaired copy under a new id, with what belongs to the session; none is kept that would be worse than the session.
fn write_copy(
    context: &Context,
    original: &SessionId,
    session: &Session,
    lines: &[u8],
) -> Result<std::result::Result<SessionId, Refusal>> {
    let (dir, id, store) = (agent(), new_id()?, &context.store);
    let (from, to) = (kept_id(original)?, kept_id(&id)?);
    let now = stamp::rfc3339(store.source().now_ms());
    let mut new_uuid = || stamp::Source::new_id(&stamp::System, i64::MAX).to_string();
    let lines = match repair(lines, &mut Stamp { session: &id, new_uuid: &mut new_uuid, now: &now }) {
        Ok(lines) => lines,
        Err(refusal) => return Ok(Err(refusal)),
    };
    for name in session.sides.iter().filter(|name| !name.starts_with(FILES)) {
        let side = LogReader::open(store.medium().as_ref(), &dir.side(&from, name))?;
        let mut copy = store.open_side(&dir, &to, name)?;
        copy.append(&side.read_all()?)?;
        copy.close();
    }
    for (name, file) in &session.files {
        let Some(bytes) = store.kept_bytes(file)? else { continue };
        let note =
            FileNote { name: name.clone(), seen: Seen::Bytes(bytes), bytes: file.bytes, modified_ns: file.modified_ns };
        store.keep_files(&dir, &to, &[note])?;
    }
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    store.begin_foreign(&dir, &to, |out| out.write_all(text.as_bytes()))?;
    Ok(Ok(id))
}

fn tell(context: &Context, id: &SessionId, finding: &Finding) -> Result<()> {
    let Finding { line: number, problem } = finding;
    // As `show` and `tree` count.
    let n = number.saturating_sub(1);
    line(
        context,
        || {
            format!(
                "{{\"session\":\"{id}\",\"line\":{number},\"n\":{n},\"problem\":{},\"message\":{}}}",
                quote(name(problem)),
                quote(&problem.to_string())
            )
        },
        || format!("found  {id}, record {n}: {problem}"),
    )
}

/// A problem's name for machines.
fn name(problem: &Problem) -> &'static str {
    match problem {
        Problem::OrphanedCall { .. } => "orphaned_call",
        Problem::StrayResult { .. } => "stray_result",
        Problem::BrokenParent { .. } => "broken_parent",
        Problem::DroppedBranch { .. } => "dropped_branch",
        Problem::DifferentDouble { .. } => "different_double",
        Problem::NotSendable { .. } => "not_sendable",
        Problem::NotAnObject => "not_an_object",
        Problem::NoFinalLineFeed => "no_final_line_feed",
        Problem::MissingFile { .. } => "missing_file",
        _ => "other",
    }
}
