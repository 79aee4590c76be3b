//! Test files that nobody runs: each file of a folder must be a module of its `main.rs`.

use std::io;
use std::path::Path;

/// The files and folders beside a `main.rs` that it does not declare as modules.
pub fn forgotten(folder: &Path, main: &str) -> io::Result<Vec<String>> {
    let mut forgotten = Vec::new();
    for entry in folder.read_dir()? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let module = name.strip_suffix(".rs").unwrap_or(&name);
        if module != "main" && !main.contains(&format!("mod {module};")) {
            forgotten.push(name);
        }
    }
    Ok(forgotten)
}
