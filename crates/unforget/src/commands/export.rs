//! `export`: a transcript byte for byte, and its payloads.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;

use unforget_core::blob::references;
use unforget_core::medium::{Medium as _, Os, publish_durable};
use unforget_core::scan::scan;

use crate::cli::Export;
use crate::commands::{Context, split_path};
use crate::failure::{Failure, Outcome, Result};
use crate::screen;

pub(crate) fn run(context: &Context, args: &Export) -> Result<Outcome> {
    let transcript = context.transcript(&args.name)?;
    let bytes = transcript.reader()?.read_all()?;
    let scanned = scan(&bytes);
    let blobs: BTreeSet<String> =
        scanned.records.iter().flat_map(references).flatten().map(|reference| reference.sha256).collect();
    match &args.output {
        None => {
            screen::write_stored(&mut std::io::stdout().lock(), &bytes)?;
            if !blobs.is_empty() {
                context.tell(&format!(
                    "note: {} payloads are not in it; `--output FILE` writes them to FILE.blobs/",
                    blobs.len()
                ))?;
            }
        }
        Some(path) => {
            let (folder, name) = split_path(path);
            if !folder.is_dir() {
                return Err(Failure::new(format!("cannot write `{}`: the folder does not exist", path.display())));
            }
            let medium = Os::new(folder);
            let mut folder_of_blobs = name.clone().into_os_string();
            folder_of_blobs.push(".blobs");
            if !blobs.is_empty() {
                medium.create_dir(Path::new(&folder_of_blobs))?;
            }
            for hash in &blobs {
                let payload = context.store.blobs().get(hash)?;
                publish_durable(&medium, &Path::new(&folder_of_blobs).join(hash), &payload)?;
            }
            if !publish_durable(&medium, &name, &bytes)? {
                return Err(Failure::new(format!("`{}` already exists", path.display())).hint("choose another name"));
            }
            if context.json {
                let quote = unforget_core::json::quote;
                let path = quote(&path.display().to_string());
                writeln!(std::io::stdout(), "{{\"file\":{path},\"bytes\":{},\"blobs\":{}}}", bytes.len(), blobs.len())?;
            } else {
                let size = screen::bytes(bytes.len() as u64);
                context.tell(&format!(
                    "wrote {}: {} records, {size}, {} payloads",
                    path.display(),
                    scanned.records.len(),
                    blobs.len()
                ))?;
            }
        }
    }
    context.tell_damage(&transcript.shown_path(), &scanned.report)
}
