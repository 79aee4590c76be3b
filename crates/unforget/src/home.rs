//! Where the store is: `--home`, then `UNFORGET_HOME`, then the XDG data directory.

use std::path::{Path, PathBuf};

use etcetera::BaseStrategy as _;

use crate::failure::{Failure, Result};

/// The directory that a command works on.
pub(crate) fn directory(given: Option<PathBuf>) -> Result<PathBuf> {
    let from_environment = || std::env::var_os("UNFORGET_HOME").map(PathBuf::from);
    let path = given.or_else(from_environment).filter(|path| !path.as_os_str().is_empty());
    match path {
        Some(path) if path.exists() && !path.is_dir() => {
            Err(Failure::usage(format!("the store `{}` is not a directory", path.display())))
        }
        Some(path) => Ok(path),
        None => etcetera::choose_base_strategy()
            .map(|places| places.data_dir().join("unforget"))
            .map_err(|_| Failure::usage("there is no home directory").hint("say where the store is with `--home DIR`")),
    }
}

/// Where the lines that a person typed are kept, if there is a place for them.
pub(crate) fn history_file() -> Option<PathBuf> {
    let places = etcetera::choose_base_strategy().ok()?;
    let state = places.state_dir().unwrap_or_else(|| places.data_dir());
    Some(state.join("unforget").join("input-history"))
}

/// A folder and the name of a file in it.
pub(crate) fn split_path(path: &Path) -> (PathBuf, PathBuf) {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    (folder.to_path_buf(), PathBuf::from(path.file_name().unwrap_or_default()))
}
