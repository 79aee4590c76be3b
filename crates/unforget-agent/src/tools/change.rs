//! A change of a file in two steps: ready, and made.
//!
//! Between the two the turn writes down what is in the file and what will be, so that neither a crash nor a wrong edit
//! loses what was there. Getting ready changes nothing, not even a folder. Making refuses if somebody else changed
//! the file meanwhile: then what was written down is not what would be lost.
//!
//! Owns what is seen of a file and what is told of it in a `file` record. It knows neither the log nor why a file is changed:
//! tools and restores come here alike.

use std::io::Read as _;
use std::sync::Arc;

use futures_core::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use unforget_core::files::{MAX_KEPT, Seen};
use unforget_core::record::Draft;

use super::place::{PathError, Place, Version};
use super::workspace::Workspace;
use super::{Output, finish};

/// What a tool that gets ready gives back: the change, or what is to be said instead of one.
pub type Preparing<'a> = BoxFuture<'a, Result<Prepared, Output>>;

/// A file of the workspace, and what was seen of it.
#[derive(Debug)]
pub(crate) struct File {
    workspace: Arc<Workspace>,
    /// Its name in records: relative to the workspace, without links.
    pub(crate) path: String,
    /// None while a folder on the way is missing.
    place: Option<Place>,
    version: Option<Version>,
    folders: usize,
    pub(crate) seen: Seen,
}

impl File {
    /// Looks at a file; there need not be one.
    pub(crate) fn look(workspace: Arc<Workspace>, path: &str) -> Result<Self, PathError> {
        let (name, folders) = workspace.name(path)?;
        let mut file = Self { path: name, place: None, version: None, folders, seen: Seen::Nothing, workspace };
        let place = match file.workspace.place(path) {
            Err(PathError::Missing) => return Ok(file),
            other => other?,
        };
        (file.seen, file.version) = see(&place)?;
        file.place = Some(place);
        Ok(file)
    }

    /// Opens a file that must be there and reads it; without its bytes if they are more than that.
    pub(crate) fn open(workspace: Arc<Workspace>, path: &str, most: u64) -> Result<(Self, Option<Vec<u8>>), PathError> {
        let place = workspace.place(path)?;
        let (file, version) = place.open()?;
        let (name, folders) = workspace.name(path)?;
        let mut content = Vec::new();
        file.take(most.saturating_add(1)).read_to_end(&mut content)?;
        let content = Some(content).filter(|content| content.len() as u64 <= most);
        let seen = match &content {
            Some(content) if content.len() as u64 <= MAX_KEPT => Seen::Bytes(content.clone()),
            _ => Seen::too_large(version.len),
        };
        Ok((Self { workspace, path: name, place: Some(place), version: Some(version), folders, seen }, content))
    }

    /// Whether there is one.
    pub(crate) fn is_there(&self) -> bool {
        self.version.is_some()
    }

    /// The change that gives it this content.
    pub(crate) fn becomes(self, content: Vec<u8>) -> Change {
        Change { file: self, content: Some(content), mode: None }
    }

    /// The change that brings it back with this content, and with this mode if it is not there.
    pub(crate) fn comes_back(self, content: Vec<u8>, mode: Option<u32>) -> Change {
        Change { file: self, content: Some(content), mode }
    }

    /// The record that it is as it is, whoever made it so.
    pub(crate) fn as_it_is(&self) -> Draft {
        let now = self.seen.to_json();
        self.tell(&now, &now)
    }

    fn tell(&self, before: &str, after: &str) -> Draft {
        let root = self.workspace.path().to_string_lossy();
        let draft = Draft::new("file").text("path", &self.path).text("root", &root);
        draft.raw("before", before).raw("after", after)
    }

    /// The change that removes it.
    pub(crate) fn goes(self) -> Change {
        Change { file: self, content: None, mode: None }
    }
}

/// What is to be seen at a place.
fn see(place: &Place) -> Result<(Seen, Option<Version>), PathError> {
    let Some(version) = place.version()? else { return Ok((Seen::Nothing, None)) };
    if version.len > MAX_KEPT {
        return Ok((Seen::too_large(version.len), Some(version)));
    }
    let (file, version) = match place.open() {
        // It may be written all the same.
        Err(PathError::Denied) => return Ok((Seen::Only { bytes: version.len, why: "unreadable" }, Some(version))),
        other => other?,
    };
    let mut content = Vec::new();
    file.take(MAX_KEPT + 1).read_to_end(&mut content)?;
    Ok((Seen::of(content), Some(version)))
}

/// A change of a file that is ready to be made.
#[derive(Debug)]
pub(crate) struct Change {
    file: File,
    content: Option<Vec<u8>>,
    mode: Option<u32>,
}

impl Change {
    /// The record of it.
    pub(crate) fn draft(&self) -> Draft {
        let after = match &self.content {
            Some(content) if content.len() as u64 > MAX_KEPT => Seen::too_large(content.len() as u64).to_json(),
            Some(content) => Seen::json_of(content),
            None => Seen::Nothing.to_json(),
        };
        let draft = self.file.tell(&self.file.seen.to_json(), &after);
        let mode = self.file.version.as_ref().map(|version| version.mode).or(self.mode);
        let draft = mode.into_iter().fold(draft, |draft, mode| draft.text("mode", &format!("{mode:04o}")));
        if self.file.folders > 0 { draft.raw("folders", &self.file.folders.to_string()) } else { draft }
    }

    /// Makes it. If that fails, the record of what is there instead comes with the reason.
    pub(crate) fn make(&self) -> Result<(), (PathError, Draft)> {
        self.attempt().map_err(|error| {
            let now = File::look(Arc::clone(&self.file.workspace), &self.file.path);
            // What cannot be looked at is as it was, as far as anybody knows.
            let now = now.map_or_else(|_| self.file.seen.to_json(), |file| file.seen.to_json());
            (error, self.file.tell(&self.file.seen.to_json(), &now))
        })
    }

    fn attempt(&self) -> Result<(), PathError> {
        let File { workspace, path, place, version, .. } = &self.file;
        match (&self.content, place, version) {
            (Some(content), Some(place), version) => place.replace(content, version.as_ref(), self.mode),
            (Some(content), None, _) => workspace.place_with_folders(path)?.replace(content, None, self.mode),
            (None, Some(place), Some(version)) => place.remove(version),
            (None, _, _) => Ok(()),
        }
    }
}

/// The change of a tool, ready to be made, and what is said when it is.
#[derive(Debug)]
pub struct Prepared {
    pub(super) change: Change,
    pub(super) said: String,
    pub(super) complaint: String,
}

/// What became of a change.
#[derive(Debug)]
pub struct Made {
    /// What the tool gives back.
    pub output: Output,
    /// If it was not made as it was written down, the record of what is in the file instead.
    pub correction: Option<Draft>,
}

impl Prepared {
    /// The record of the change, to be written before it is made.
    pub fn draft(&self, tool_use_id: &str) -> Draft {
        self.change.draft().text("tool_use_id", tool_use_id)
    }

    /// Makes the change. Once begun it is not aborted: a file is changed or not.
    pub async fn make(self) -> Made {
        let Self { change, said, complaint } = self;
        let work = move || match change.make() {
            Ok(()) => Made { output: Output::ok(said), correction: None },
            Err((error, draft)) => {
                Made { output: Output::failed(format!("{complaint}: {error}")), correction: Some(draft) }
            }
        };
        finish(work).await.unwrap_or_else(|output| Made { output, correction: None })
    }
}

/// Runs a tool that changes a file for someone who writes nothing down.
pub(super) async fn run(preparing: Option<Preparing<'_>>) -> Output {
    let Some(preparing) = preparing else { return Output::failed("this tool changes nothing") };
    match preparing.await {
        Ok(prepared) => prepared.make().await.output,
        Err(output) => output,
    }
}

/// Gets a change ready, unless it was aborted before it began.
pub(super) async fn prepare(
    abort: &CancellationToken,
    work: impl FnOnce() -> Result<Prepared, Output> + Send + 'static,
) -> Result<Prepared, Output> {
    if abort.is_cancelled() {
        return Err(Output::failed("[aborted by the user; nothing was changed]"));
    }
    finish(work).await.unwrap_or_else(Err)
}
