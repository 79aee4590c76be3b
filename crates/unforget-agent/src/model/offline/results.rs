//! What came back from the tools, in a sentence and a few lines each.

use serde_json::Value;

use super::conversation::Outcome;
use super::text::{brief, fenced};

/// How many lines of a result are repeated.
const MAX_LINES: usize = 12;
/// How many characters of a line are repeated.
const MAX_LINE: usize = 160;

/// Says what came back.
pub(super) fn tell(results: &[Outcome]) -> String {
    let mut out = String::new();
    for result in results {
        let what = what(result);
        let lines: Vec<&str> = result.text.trim_end().lines().collect();
        let verb = if result.is_error { "did not work" } else { "gave back" };
        match (lines.len(), result.is_error) {
            (0, true) => super::paragraph(&mut out, format_args!("{what} did not work, and said nothing.")),
            (0, false) => super::paragraph(&mut out, format_args!("{what} worked, and gave nothing back.")),
            (1, _) => super::paragraph(&mut out, format_args!("{what} {verb}:\n\n{}", shown(&lines))),
            (count, _) if count <= MAX_LINES => {
                super::paragraph(&mut out, format_args!("{what} {verb} ({count} lines):\n\n{}", shown(&lines)));
            }
            (count, _) => super::paragraph(
                &mut out,
                format_args!("{what} {verb} ({count} lines; the first {MAX_LINES}):\n\n{}", shown(&lines)),
            ),
        }
    }
    out
}

fn what(result: &Outcome) -> String {
    // What a call is about is its path or its command.
    let about = ["path", "file_path", "command", "directory"].iter().find_map(|name| result.input[name].as_str());
    let name = if result.name.is_empty() { "The tool" } else { &result.name };
    match (about, &result.input) {
        (Some(about), _) => format!("`{name}` of `{}`", brief(about, 60).replace('`', "'")),
        (None, Value::Null) => name.to_owned(),
        (None, _) => format!("`{name}`"),
    }
}

fn shown(lines: &[&str]) -> String {
    let cut = |line: &&str| match line.char_indices().nth(MAX_LINE) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => (*line).to_owned(),
    };
    fenced(&lines.iter().take(MAX_LINES).map(cut).collect::<Vec<_>>().join("\n"))
}
