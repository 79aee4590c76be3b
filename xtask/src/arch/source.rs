//! The product's source files: which there are, and what of them is shipped.

use std::fs;
use std::path::Path;

use crate::Result;

/// A file, without its tests.
pub(super) struct Source {
    /// Where it is, from the root of the workspace.
    pub(super) path: String,
    /// The modules that it is in, from the root of its crate; none for `lib.rs` and `main.rs`.
    pub(super) modules: Vec<String>,
    /// Its text. What is left out leaves empty lines, so that numbers of lines stay right.
    pub(super) text: String,
}

/// Every file of a crate that is not a test.
pub(super) fn of(root: &Path, name: &str) -> Result<Vec<Source>> {
    let folder = root.join("crates").join(name).join("src");
    let mut found = Vec::new();
    let mut open = vec![folder.clone()];
    while let Some(next) = open.pop() {
        let problem = |error: std::io::Error| format!("{}: {error}", next.display());
        for entry in fs::read_dir(&next).map_err(problem)? {
            let path = entry.map_err(problem)?.path();
            let is_test = path.file_stem().is_some_and(|stem| stem == "tests");
            if is_test {
                continue;
            }
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    found.iter().map(|path| read(root, &folder, path)).collect()
}

fn read(root: &Path, folder: &Path, path: &Path) -> Result<Source> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let within = path.strip_prefix(folder).unwrap_or(path).with_extension("");
    let modules = modules_of(&within);
    let shown = path.strip_prefix(root).unwrap_or(path).display().to_string();
    Ok(Source { path: shown, modules, text: without_tests(&text) })
}

fn modules_of(within: &Path) -> Vec<String> {
    let parts: Vec<String> = within.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    match parts.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["lib" | "main"] => Vec::new(),
        _ => parts,
    }
}

/// A text without its `#[cfg(test)]` modules. They end at a brace in the first column, as rustfmt leaves it.
fn without_tests(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let is_test = line == "#[cfg(test)]";
        kept.push_str(if is_test { "" } else { line });
        kept.push('\n');
        if !is_test {
            continue;
        }
        // Further attributes, then the module or item itself.
        let mut is_open = false;
        for line in lines.by_ref() {
            kept.push('\n');
            is_open |= line.ends_with('{');
            let is_whole = !is_open && (line.ends_with(';') || line.ends_with('}'));
            if is_whole || (is_open && line == "}") {
                break;
            }
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_no_product_and_keep_their_lines() {
        let text = "a\n#[cfg(test)]\n#[expect(x, reason = \"y\")]\nmod tests {\n    fn f() {\n    }\n}\nb\n#[cfg(test)]\nmod tests;\nc\n";
        assert_eq!(without_tests(text), "a\n\n\n\n\n\n\nb\n\n\nc\n");
    }

    #[test]
    fn a_file_is_the_module_that_its_path_says() {
        assert_eq!(modules_of(Path::new("lib")), Vec::<String>::new());
        assert_eq!(modules_of(Path::new("history/path")), ["history", "path"]);
    }
}
