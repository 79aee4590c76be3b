//! `doctor`: is everything all right?

use std::io::Write as _;

use unforget_core::doctor::{self, Mode};
use unforget_core::json::quote;

use crate::cli::Doctor;
use crate::commands::{Context, claude};
use crate::failure::{Failure, Outcome, Result};
use crate::progress::Progress;
use crate::screen;

/// What is wrong with sessions of Claude Code is for their own doctor to say; here it is only told that there is something.
fn foreign(context: &Context) -> Result<()> {
    let (mut sessions, mut things) = (0, 0);
    for id in claude::examine::kept(context)? {
        let found = claude::examine::count(context, &id)?;
        sessions += usize::from(found > 0);
        things += found;
    }
    if sessions > 0 && !context.json {
        context.tell(&format!(
            "note: {sessions} sessions of Claude Code have {things} things that resuming would lose or stumble over; `unforget claude doctor` tells which"
        ))?;
    }
    Ok(())
}

pub(crate) fn run(context: &Context, args: &Doctor) -> Result<Outcome> {
    let mode = if args.fix { Mode::Fix } else { Mode::Look };
    if !context.home.exists() {
        return Err(Failure::new(format!("there is no store at {}", context.home.display()))
            .hint("`--home DIR` or UNFORGET_HOME say where it is"));
    }
    let progress = Progress::new("examining");
    let diagnosis = doctor::examine(&context.store, context.catalog.index(), mode, |_| progress.step())?;
    drop(progress);
    let mut out = anstream::stdout().lock();
    let (green, yellow) = (anstyle::AnsiColor::Green.on_default(), anstyle::AnsiColor::Yellow.on_default());
    for finding in &diagnosis.findings {
        let (subject, problem) = (screen::one_line(&finding.subject), screen::one_line(&finding.problem));
        if context.json {
            let (subject, problem, advice) = (quote(&finding.subject), quote(&finding.problem), quote(finding.advice));
            let (fixed, weight) = (finding.fixed, if finding.is_oddity { "oddity" } else { "fault" });
            let what = format!("\"subject\":{subject},\"problem\":{problem},\"advice\":{advice}");
            writeln!(out, "{{{what},\"fixed\":{fixed},\"weight\":\"{weight}\"}}")?;
        } else if finding.is_oddity {
            writeln!(out, "{yellow}noted{yellow:#}  {subject}: {problem}")?;
        } else if finding.fixed {
            writeln!(out, "{green}fixed{green:#}  {subject}: {problem}")?;
        } else {
            writeln!(out, "{yellow}found{yellow:#}  {subject}: {problem}")?;
            if !finding.advice.is_empty() {
                writeln!(out, "       {}", finding.advice)?;
            }
        }
    }
    let open = diagnosis.open().count();
    foreign(context)?;
    if !context.json {
        let bytes = screen::bytes(diagnosis.bytes);
        let sessions = match diagnosis.sessions {
            1 => "1 session".to_owned(),
            many => format!("{many} sessions"),
        };
        let verdict = match open {
            0 => "all is well".to_owned(),
            1 => "1 thing is not as it should be".to_owned(),
            many => format!("{many} things are not as they should be"),
        };
        let noted = match diagnosis.oddities().count() {
            0 => String::new(),
            1 => "; 1 oddity that harms nothing is noted".to_owned(),
            many => format!("; {many} oddities that harm nothing are noted"),
        };
        writeln!(out, "{sessions} (deleted ones included), {bytes} read: {verdict}{noted}")?;
    } else {
        let (sessions, bytes) = (diagnosis.sessions, diagnosis.bytes);
        let odd = diagnosis.oddities().count();
        writeln!(out, "{{\"sessions\":{sessions},\"bytes\":{bytes},\"found\":{open},\"oddities\":{odd}}}")?;
    }
    Ok(if open == 0 { Outcome::Done } else { Outcome::MetDamage })
}
