//! `write_file`: a file as a whole.
//!
//! The file has the old content or the new one at any moment, also if the machine stops in between; see `place`.

use std::sync::Arc;

use futures_core::future::BoxFuture;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::arguments::Arguments;
use super::change::{self, File, Prepared, Preparing};
use super::workspace::Workspace;
use super::{Output, Tool};

/// Writes a file.
#[derive(Debug)]
pub(super) struct WriteFile {
    pub(super) workspace: Arc<Workspace>,
}

impl Tool for WriteFile {
    fn name(&self) -> &'static str {
        "write_file"
    }

    fn description(&self) -> &'static str {
        "Writes a file of the workspace: creates it, with the folders that are missing, or replaces all of its content. \
         To change a part of a file, use edit_file."
    }

    fn schema(&self) -> &'static str {
        r#"{"type":"object","properties":{"path":{"type":"string","description":"The file, relative to the workspace."},"content":{"type":"string","description":"All of the file's new content."}},"required":["path","content"],"additionalProperties":false}"#
    }

    fn asks_first(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, input: &'a Value, abort: &'a CancellationToken) -> BoxFuture<'a, Output> {
        Box::pin(change::run(self.prepare(input, abort)))
    }

    fn prepare<'a>(&'a self, input: &'a Value, abort: &'a CancellationToken) -> Option<Preparing<'a>> {
        Some(Box::pin(async move {
            let (path, content) = arguments(input)?;
            let workspace = Arc::clone(&self.workspace);
            change::prepare(abort, move || {
                let said = format!("`{path}` ({} bytes)", content.len());
                let complaint = format!("cannot write `{path}`");
                let file = match File::look(workspace, &path) {
                    Ok(file) => file,
                    Err(error) => return Err(Output::failed(format!("{complaint}: {error}"))),
                };
                let said = if file.is_there() { format!("replaced {said}") } else { format!("created {said}") };
                Ok(Prepared { change: file.becomes(content.into_bytes()), said, complaint })
            })
            .await
        }))
    }
}

fn arguments(input: &Value) -> Result<(String, String), Output> {
    let arguments = Arguments::new(input, &["path", "file_path", "content"])?;
    Ok((arguments.path("path", "file_path")?.to_owned(), arguments.text("content")?.to_owned()))
}
