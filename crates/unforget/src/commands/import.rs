//! `import`: sessions of other programs.

use std::io::Write as _;
use std::path::Path;

use unforget_core::Error;
use unforget_core::import::{self, Candidate, Outcome as Imported};
use unforget_core::json::quote;
use unforget_core::key::Key;
use unforget_core::listing::ListQuery;
use unforget_core::medium::{Medium as _, Os};

use crate::cli::Import;
use crate::commands::Context;
use crate::failure::{Failure, Outcome, Result};
use crate::home::split_path;
use crate::progress::Progress;
use crate::screen;

pub(crate) fn run(context: &Context, args: &Import) -> Result<Outcome> {
    let mut outcome = Outcome::Done;
    let under: Option<Key> = args.key.as_deref().map(|key| key.parse().map_err(Error::Key)).transpose()?;
    if under.is_some() && (args.paths.len() > 1 || args.paths.iter().any(|path| path.is_dir())) {
        return Err(Failure::usage("`--key` is for one file").hint("import the files one by one, each under its key"));
    }
    for path in &args.paths {
        if one_path(context, path, under.as_ref())? == Outcome::MetDamage {
            outcome = Outcome::MetDamage;
        }
    }
    context.page(&ListQuery::default())?;
    context.refresh()?;
    Ok(outcome)
}

fn one_path(context: &Context, path: &Path, under: Option<&Key>) -> Result<Outcome> {
    if !path.exists() {
        return Err(Failure::new(format!("`{}` does not exist", path.display())));
    }
    let (root, file) = if path.is_dir() {
        (path.to_path_buf(), None)
    } else {
        let (folder, name) = split_path(path);
        (folder, Some(name))
    };
    let medium = Os::new(root);
    let mut search = import::find(&medium, file.as_deref())?;
    for candidate in &mut search.candidates {
        candidate.under = under.cloned();
    }
    let mut outcome = Outcome::Done;
    for problem in &search.problems {
        context.tell(&format!("note: {problem}"))?;
    }
    let mut listing = context.list()?;
    let progress = Progress::new("importing");
    for candidate in &search.candidates {
        let shown = medium.root().join(&candidate.path).display().to_string();
        match import::import(&context.store, &listing, &medium, candidate) {
            Ok(imported) => {
                let bad = matches!(imported, Imported::Refused { .. })
                    || matches!(&imported, Imported::Imported { damage, .. } | Imported::Updated { damage, .. } if !damage.is_empty());
                if bad {
                    outcome = Outcome::MetDamage;
                }
                // A reader that has seen enough does not stop the work half-way.
                match tell(context, &shown, candidate, &imported) {
                    Err(failure) if failure.is_quiet() => {}
                    told => told?,
                }
                // The next file may be a copy of this one.
                if let Imported::Imported { id, .. } = &imported {
                    listing.entries.extend(context.store.entry(id)?);
                }
            }
            Err(error @ (unforget_core::Error::Foreign { .. } | unforget_core::Error::Invalid(_))) => {
                outcome = Outcome::MetDamage;
                context.tell(&format!("skipped {shown}: {error}"))?;
            }
            Err(error) => return Err(error.into()),
        }
        progress.step();
    }
    Ok(outcome)
}

fn tell(context: &Context, file: &str, candidate: &Candidate, imported: &Imported) -> Result<()> {
    let mut out = anstream::stdout().lock();
    if context.json {
        let list = |texts: &[String]| texts.iter().map(|text| quote(text)).collect::<Vec<_>>().join(",");
        let what = match imported {
            Imported::Imported { id, key, records, put_right, left_out, damage } => format!(
                "\"outcome\":\"imported\",\"id\":{},\"key\":{},\"records\":{records},\"put_right\":[{}],\"left_out\":[{}],\"damage\":[{}]",
                quote(id.as_str()),
                quote(key),
                list(put_right),
                list(left_out),
                list(damage)
            ),
            Imported::Updated { id, added, left_out, damage } => format!(
                "\"outcome\":\"updated\",\"id\":{},\"added\":{added},\"left_out\":[{}],\"damage\":[{}]",
                quote(id.as_str()),
                list(left_out),
                list(damage)
            ),
            Imported::Known { id } => format!("\"outcome\":\"known\",\"id\":{}", quote(id)),
            Imported::Empty => "\"outcome\":\"empty\"".to_owned(),
            Imported::Refused { why } => format!("\"outcome\":\"refused\",\"why\":{}", quote(why)),
        };
        writeln!(out, "{{\"file\":{},{what}}}", quote(file))?;
        return Ok(());
    }
    let file = screen::one_line(file);
    match imported {
        Imported::Imported { id, key, records, put_right, left_out, damage } => {
            let label =
                candidate.label.as_ref().map_or(String::new(), |label| format!("  [{}]", screen::one_line(label)));
            writeln!(out, "imported {id}  {}{label}  {records} records from {file}", screen::one_line(key))?;
            for line in put_right {
                writeln!(out, "  put right: {}", screen::one_line(line))?;
            }
            for line in left_out {
                writeln!(out, "  left out: {} (the original is kept)", screen::one_line(line))?;
            }
            for line in damage {
                writeln!(out, "  damage: {} (the original is kept)", screen::one_line(line))?;
            }
        }
        Imported::Updated { id, added, left_out, damage } => {
            writeln!(out, "updated {id}: {added} more records from {file}")?;
            for line in left_out {
                writeln!(out, "  left out: {} (the original is kept)", screen::one_line(line))?;
            }
            for line in damage {
                writeln!(out, "  damage: {}", screen::one_line(line))?;
            }
        }
        Imported::Known { id } => writeln!(out, "already here as {id}: {file}")?,
        Imported::Empty => writeln!(out, "nothing in {file}")?,
        Imported::Refused { why } => writeln!(out, "refused {file}: {}", screen::one_line(why))?,
    }
    Ok(())
}
