//! `export`: a session as it is, to be read, or to be taken elsewhere.
//!
//! A file that is there already is never overwritten, and one that is written is there whole or not at all. Damage in the
//! transcript is told and does not stop anything: what can be read is exported.

use std::collections::BTreeSet;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;

use unforget_core::blob::references;
use unforget_core::bundle::{Contents, Packed, pack};
use unforget_core::json::{self, quote};
use unforget_core::masked::{self, Masked};
use unforget_core::medium::{Medium as _, Os, publish_durable, publish_written};
use unforget_core::record::{Body, Record};
use unforget_core::scan::{Scan, scan};
use unforget_core::summary::{Fold, Row};

use crate::cli::{Export, ExportFormat};
use crate::commands::{Context, Transcript};
use crate::failure::{Failure, Outcome, Result};
use crate::home::split_path;
use crate::screen;

mod document;
mod html;
mod markdown;
mod words;

use document::{Branches, Secrets};

pub(crate) fn run(context: &Context, args: &Export) -> Result<Outcome> {
    let transcript = context.transcript(&args.name)?;
    if let Some(path) = &args.output {
        check_place(path)?;
    }
    match args.format {
        ExportFormat::Jsonl | ExportFormat::Bundle if args.all => {
            Err(Failure::usage("`--all` is for markdown and html").hint("jsonl and bundle always have every branch"))
        }
        ExportFormat::Jsonl => jsonl(context, &transcript, args),
        ExportFormat::Bundle => bundle(context, &transcript, args),
        ExportFormat::Markdown | ExportFormat::Html => page(context, &transcript, args),
    }
}

/// Says early what would fail late.
fn check_place(path: &Path) -> Result<()> {
    let (folder, _) = split_path(path);
    if !folder.is_dir() {
        return Err(Failure::new(format!("cannot write `{}`: the folder does not exist", path.display())));
    }
    if path.exists() {
        return Err(exists(path));
    }
    Ok(())
}

fn exists(path: &Path) -> Failure {
    Failure::new(format!("`{}` already exists", path.display())).hint("choose another name")
}

/// To be read: Markdown or HTML.
fn page(context: &Context, transcript: &Transcript, args: &Export) -> Result<Outcome> {
    let bytes = transcript.reader()?.read_all()?;
    let mut scanned = scan(&bytes);
    let restored = transcript.with_payloads(&mut scanned)?;
    let records: Vec<Record<'_>> =
        scanned.records.iter().zip(&restored).map(|(record, text)| record.with_text(text.as_deref())).collect();
    let branches = if args.all { Branches::All } else { Branches::Current };
    let secrets = if args.mask { Secrets::Masked } else { Secrets::Shown };
    let document = document::document(&records, &row_of(&scanned), branches, secrets);
    let text = if args.format == ExportFormat::Html { html::render(&document) } else { markdown::render(&document) };
    match &args.output {
        None => screen::write_stored(&mut io::stdout().lock(), text.as_bytes())?,
        Some(path) => {
            let (folder, name) = split_path(path);
            if !publish_durable(&Os::new(folder), &name, text.as_bytes())? {
                return Err(exists(path));
            }
            let told = format!("{} of {} records", document.items.len(), scanned.records.len());
            wrote(context, path, text.len() as u64, &told, "")?;
        }
    }
    context.tell_damage(&transcript.shown_path(), &scanned.report)
}

/// What the records say about the session as a whole.
fn row_of(scanned: &Scan<'_>) -> Row {
    let mut fold = Fold::default();
    let mut id = String::new();
    for record in &scanned.records {
        fold.feed(record);
        if let Body::Session(header) = &record.body
            && id.is_empty()
        {
            id = header.id.as_deref().unwrap_or_default().to_owned();
        }
        if record.foreign.is_some() && id.is_empty() {
            let members = json::members(record.raw).unwrap_or_default();
            id = json::member(&members, "sessionId").and_then(json::string).unwrap_or_default().into_owned();
        }
    }
    fold.finish(&id, 0, 0, scanned.report.damage_count())
}

/// As it is, and its payloads beside it.
fn jsonl(context: &Context, transcript: &Transcript, args: &Export) -> Result<Outcome> {
    let bytes = transcript.reader()?.read_all()?;
    let scanned = scan(&bytes);
    let masked = if args.mask { Some(mask_all(context, &bytes)?) } else { None };
    let (written, blobs): (&[u8], BTreeSet<String>) = match &masked {
        Some(masked) => (&masked.transcript, masked.payloads.keys().cloned().collect()),
        None => {
            let wanted = scanned.records.iter().flat_map(references).flatten().map(|reference| reference.sha256);
            (&bytes, wanted.collect())
        }
    };
    match &args.output {
        None => {
            screen::write_stored(&mut io::stdout().lock(), written)?;
            if !blobs.is_empty() {
                context.tell(&format!(
                    "note: not in it: {}; `--output FILE` writes what is missing to FILE.blobs/",
                    screen::number_of(blobs.len() as u64, "payload")
                ))?;
            }
        }
        Some(path) => {
            let (folder, name) = split_path(path);
            let medium = Os::new(folder);
            let mut beside = name.clone().into_os_string();
            beside.push(".blobs");
            let beside = Path::new(&beside);
            if !blobs.is_empty() {
                medium.create_dir(beside)?;
            }
            for hash in &blobs {
                let payload = match masked.as_ref().and_then(|masked| masked.payloads.get(hash)) {
                    Some(payload) => payload.clone(),
                    None => context.store.blobs().get(hash)?,
                };
                publish_durable(&medium, &beside.join(hash), &payload)?;
            }
            if !publish_durable(&medium, &name, written)? {
                return Err(exists(path));
            }
            let told = format!(
                "{}, {}",
                screen::number_of(scanned.records.len() as u64, "record"),
                screen::number_of(blobs.len() as u64, "payload")
            );
            wrote(context, path, written.len() as u64, &told, &format!(",\"blobs\":{}", blobs.len()))?;
        }
    }
    context.tell_damage(&transcript.shown_path(), &scanned.report)
}

fn mask_all(context: &Context, bytes: &[u8]) -> Result<Masked> {
    let blobs = context.store.blobs();
    let masked = masked::masked(bytes, |hash| blobs.get(hash).ok());
    if masked.missing > 0 {
        context
            .tell(&format!("note: not there, and so not masked: {}", screen::number_of(masked.missing, "payload")))?;
    }
    Ok(masked)
}

/// Everything in one file.
fn bundle(context: &Context, transcript: &Transcript, args: &Export) -> Result<Outcome> {
    let reader = transcript.reader()?;
    if transcript.is_foreign()? {
        return Err(Failure::usage("a bundle is for sessions of this program, and this is one of Claude Code")
            .hint("`unforget push` and `unforget claude restore` take it to another machine; `--format jsonl` is the transcript alone"));
    }
    let masked = if args.mask { Some(mask_all(context, &reader.read_all()?)?) } else { None };
    let contents = masked.as_ref().map_or(Contents::Stored(&reader), |masked| Contents::Masked(&masked.transcript));
    let mut payload = |hash: &str| match &masked {
        Some(masked) => masked
            .payloads
            .get(hash)
            .cloned()
            .ok_or_else(|| unforget_core::Error::NotFound { what: "blob", name: hash.to_owned() }),
        None => context.store.blobs().get(hash),
    };
    let packed = match &args.output {
        None if io::stdout().is_terminal() => {
            return Err(Failure::usage("a bundle is not for a terminal").hint("say where: `-o NAME.unforget`"));
        }
        None => pack(&contents, &mut payload, &mut io::stdout().lock())?,
        Some(path) => {
            let (folder, name) = split_path(path);
            let mut packed: Option<unforget_core::Result<Packed>> = None;
            let published = publish_written(&Os::new(folder), &name, |out| {
                let result = pack(&contents, &mut payload, out);
                let failed = result.is_err();
                packed = Some(result);
                if failed { Err(io::Error::other("the bundle could not be made")) } else { Ok(()) }
            });
            // Why it could not be made says more than that it was not written.
            let packed = match packed {
                Some(result) => result?,
                None => return Err(published.err().map_or_else(|| exists(path), Failure::from)),
            };
            if !published? {
                return Err(exists(path));
            }
            let (records, payloads) = (packed.manifest.records, packed.manifest.members.len() - 1);
            let told =
                format!("{}, {}", screen::number_of(records, "record"), screen::number_of(payloads as u64, "payload"));
            wrote(context, path, packed.bytes, &told, &format!(",\"blobs\":{payloads}"))?;
            packed
        }
    };
    for hash in &packed.manifest.missing {
        context.tell(&format!("note: payload {hash} is not there; the bundle is without it"))?;
    }
    Ok(if packed.manifest.missing.is_empty() { Outcome::Done } else { Outcome::MetDamage })
}

fn wrote(context: &Context, path: &Path, bytes: u64, told: &str, members: &str) -> Result<()> {
    if context.json {
        let path = quote(&path.display().to_string());
        writeln!(io::stdout(), "{{\"file\":{path},\"bytes\":{bytes}{members}}}")?;
        return Ok(());
    }
    context.tell(&format!("wrote {}: {told}, {}", path.display(), screen::bytes(bytes)))
}
