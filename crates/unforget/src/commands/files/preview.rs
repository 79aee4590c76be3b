//! How changed files are shown: a list of what was done, and a preview of what would be.
//!
//! Names and contents of files are stored text and go through `screen`. What cannot be compared (not kept, not text, gone from
//! the store) is said to be so; no count is made up.

use std::io::Write;
use std::sync::Arc;

use anstyle::{AnsiColor, Style};
use unforget_agent::files::{Conflicts, Restored, contents, kept};
use unforget_agent::tools::Workspace;
use unforget_core::blob::Blobs;
use unforget_core::files::{Action, Changes, Content, Files, Plan, Standing, Step};
use unforget_core::json;
use unicode_width::UnicodeWidthStr as _;

use super::named;
use crate::failure::Result;
use crate::screen;
use crate::unified::Difference;

/// Columns of a file's name in a pipe, and the fewest in a window.
const PATH_COLUMNS: usize = 40;
const NARROWEST_PATH: usize = 12;
/// Columns before a name, and of the lines that differ.
const BEFORE_PATH: usize = 12;
const LINES_COLUMNS: usize = 12;
/// What is said of a file in conflict.
const IN_CONFLICT: &str = ", changed by something else";
/// Lines of one file's differences that are shown.
const MAX_LINES: usize = 400;
/// What nobody writes down, and everybody should know.
const NOT_SEEN: &str = "Changes by commands (bash) are not recorded: neither listed nor undone.";

/// One file in the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    root: String,
    path: String,
    what: &'static str,
    compared: Compared,
    changes: usize,
    last: u64,
}

/// How two contents differ.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Compared {
    Lines {
        added: usize,
        removed: usize,
    },
    NotText,
    /// One of them is not kept.
    Unknown,
}

impl Compared {
    fn of(old: Option<&[u8]>, new: Option<&[u8]>) -> Self {
        let text = |bytes: Option<&[u8]>| String::from_utf8(bytes.unwrap_or_default().to_vec()).ok();
        match (text(old), text(new)) {
            (Some(old), Some(new)) if !old.contains('\0') && !new.contains('\0') => {
                let (added, removed) = Difference::of(&old, &new).counts();
                Compared::Lines { added, removed }
            }
            _ => Compared::NotText,
        }
    }

    fn words(&self) -> String {
        match self {
            Compared::Lines { added: 0, removed } => format!("-{removed}"),
            Compared::Lines { added, removed: 0 } => format!("+{added}"),
            Compared::Lines { added, removed } => format!("+{added} -{removed}"),
            Compared::NotText => "not text".to_owned(),
            Compared::Unknown => "not kept".to_owned(),
        }
    }

    fn members(&self) -> String {
        match self {
            Compared::Lines { added, removed } => format!(",\"added\":{added},\"removed\":{removed}"),
            Compared::NotText | Compared::Unknown => String::new(),
        }
    }
}

impl Row {
    pub(crate) fn to_json(&self) -> String {
        let (root, lines) = (json::quote(&self.root), self.compared.members());
        let rest = format!(
            ",\"workspace\":{root},\"what\":\"{}\"{lines},\"changes\":{},\"last\":{}",
            self.what, self.changes, self.last
        );
        named(&self.path, &rest)
    }
}

/// The files that were changed behind record `since` and up to record `until`.
pub(crate) fn rows(files: &Files, blobs: &Blobs, since: Option<u64>, until: Option<u64>) -> Vec<Row> {
    let roots: Vec<&str> = files.roots().collect();
    let mut rows = Vec::new();
    for root in roots {
        rows.extend(files.of(root).filter_map(|(path, changes)| row(root, path, changes, blobs, since, until)));
    }
    rows
}

fn row(
    root: &str,
    path: &str,
    changes: &Changes,
    blobs: &Blobs,
    since: Option<u64>,
    until: Option<u64>,
) -> Option<Row> {
    let within = |n: u64| since.is_none_or(|since| n > since) && until.is_none_or(|until| n <= until);
    let counted: Vec<_> = changes.iter().filter(|change| within(change.n)).collect();
    let (first, last) = (counted.first()?, counted.last()?);
    let before = since.map_or_else(|| first.before.clone(), |since| changes.at(since));
    let after = changes.at(until.unwrap_or(u64::MAX));
    let what = match (&before, &after) {
        (before, after) if before == after => "unchanged",
        (Content::Absent, _) => "created",
        (_, Content::Absent) => "deleted",
        _ => "changed",
    };
    let compared = match (kept(blobs, &before), kept(blobs, &after)) {
        (Ok(before), Ok(after)) => Compared::of(before.as_deref(), after.as_deref()),
        _ => Compared::Unknown,
    };
    let (root, path) = (root.to_owned(), path.to_owned());
    Some(Row { root, path, what, compared, changes: counted.len(), last: last.n })
}

/// The list for a person.
pub(crate) fn list(out: &mut impl Write, rows: &[Row]) -> Result<()> {
    let dim = Style::new().dimmed();
    let mut root = None;
    let times = |row: &Row| {
        let times = if row.changes == 1 { "once".to_owned() } else { format!("{} times", row.changes) };
        format!("{times}, last by record {}", row.last)
    };
    let rest = rows.iter().map(|row| times(row).width()).max().unwrap_or(0);
    let room = path_columns(rows.iter().map(|row| row.path.as_str()), BEFORE_PATH + 1 + LINES_COLUMNS + 1 + rest);
    for row in rows {
        if root.replace(&row.root) != Some(&row.root) {
            writeln!(out, "  in {}:", screen::one_line(&row.root))?;
        }
        let path = shown_path(&row.path, room);
        let lines = screen::pad(&row.compared.words(), LINES_COLUMNS);
        let what = screen::pad(row.what, 9);
        writeln!(out, "  {what} {path} {lines} {dim}{}{dim:#}", times(row))?;
    }
    writeln!(out, "  {dim}{NOT_SEEN}{dim:#}")?;
    Ok(())
}

/// How many columns names of files get: in a window no more than there is room for beside the rest of a line.
fn path_columns<'a>(paths: impl Iterator<Item = &'a str>, rest: usize) -> usize {
    let Some(window) = screen::columns() else { return PATH_COLUMNS };
    let longest = paths.map(|path| screen::one_line(path).width()).max().unwrap_or(0);
    longest.min(window.saturating_sub(rest)).max(NARROWEST_PATH)
}

/// A name that fills its columns: cut to them in a window, whole in a pipe.
fn shown_path(path: &str, columns: usize) -> String {
    let path = screen::one_line(path);
    let path = if screen::columns().is_some() { screen::fit_path(&path, columns) } else { path };
    screen::pad(&path, columns)
}

/// How a plan is shown.
pub(crate) struct Shown<'a> {
    pub(crate) workspace: &'a Arc<Workspace>,
    pub(crate) blobs: &'a Blobs,
    pub(crate) conflicts: Conflicts,
    /// Whether the lines themselves are shown.
    pub(crate) diff: bool,
}

impl Shown<'_> {
    /// What would be done, for a person.
    pub(crate) fn plan(&self, out: &mut impl Write, plan: &Plan) -> Result<()> {
        let here = screen::one_line(&self.workspace.path().to_string_lossy());
        if plan.work().next().is_none() {
            let count = plan.steps.len();
            writeln!(out, "  The files that the tools changed ({count}) are as they were at record {}.", plan.at)?;
            return Ok(());
        }
        writeln!(out, "  To have the files of {here} as they were at record {}:", plan.at)?;
        if plan.root != self.workspace.path().to_string_lossy() {
            writeln!(out, "  (they were changed in {})", screen::one_line(&plan.root))?;
        }
        let longest = if plan.conflicts() > 0 { IN_CONFLICT.len() + LINES_COLUMNS } else { LINES_COLUMNS };
        let room = path_columns(plan.work().map(|step| step.path.as_str()), BEFORE_PATH + longest);
        for step in plan.work() {
            self.step(out, step, room)?;
        }
        let dim = Style::new().dimmed();
        writeln!(out, "  {dim}{NOT_SEEN}{dim:#}")?;
        Ok(())
    }

    fn step(&self, out: &mut impl Write, step: &Step, room: usize) -> Result<()> {
        let yellow = AnsiColor::Yellow.on_default();
        let path = shown_path(&step.path, room);
        if let Standing::Blocked(why) = &step.standing {
            writeln!(out, "  {yellow}stays    {path} {}{yellow:#}", screen::one_line(why))?;
            return Ok(());
        }
        let (now, then) = contents(self.blobs, self.workspace, step);
        let lines = Compared::of(now.as_deref(), then.as_deref()).words();
        let (what, style) = match step.action {
            Action::Create => ("created", AnsiColor::Green.on_default()),
            Action::Delete => ("deleted", AnsiColor::Red.on_default()),
            Action::Change | Action::Nothing => ("changed", Style::new()),
        };
        match (&step.standing, self.conflicts) {
            (Standing::Conflict, Conflicts::Leave) => {
                writeln!(out, "  {yellow}stays    {path} {lines}{IN_CONFLICT} (--force){yellow:#}")?;
            }
            (Standing::Conflict, Conflicts::Overwrite) => {
                let what = screen::pad(what, 8);
                writeln!(out, "  {yellow}{what} {path} {lines}{IN_CONFLICT}{yellow:#}")?;
            }
            _ => writeln!(out, "  {style}{}{style:#} {path} {lines}", screen::pad(what, 8))?,
        }
        if self.diff { difference(out, now.as_deref(), then.as_deref()) } else { Ok(()) }
    }

    /// What would be done, or was, for a program: one object a file.
    pub(crate) fn plan_json(&self, out: &mut impl Write, plan: &Plan, restored: Option<&Restored>) -> Result<()> {
        for step in plan.work() {
            let (now, then) = contents(self.blobs, self.workspace, step);
            let lines = match restored {
                // The file is as it was by now.
                Some(_) => String::new(),
                None => Compared::of(now.as_deref(), then.as_deref()).members(),
            };
            let action = match step.action {
                Action::Create => "create",
                Action::Change => "change",
                Action::Delete => "delete",
                Action::Nothing => "nothing",
            };
            let conflict = step.standing == Standing::Conflict;
            let done = restored.is_some_and(|restored| restored.done.iter().any(|(path, _)| *path == step.path));
            let left = restored.and_then(|restored| restored.left.iter().find(|(path, _)| *path == step.path));
            let why = match (&step.standing, left) {
                (_, Some((_, why))) | (Standing::Blocked(why), None) => format!(",\"why\":{}", json::quote(why)),
                _ => String::new(),
            };
            let undo = restored.and_then(|restored| restored.undo).map_or(String::new(), |n| format!(",\"undo\":{n}"));
            let rest =
                format!(",\"action\":\"{action}\",\"conflict\":{conflict}{lines},\"restored\":{done}{why}{undo}");
            writeln!(out, "{}", named(&step.path, &rest))?;
        }
        Ok(())
    }
}

/// The lines that differ.
fn difference(out: &mut impl Write, now: Option<&[u8]>, then: Option<&[u8]>) -> Result<()> {
    let text = |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
    let (now, then) = (text(now), text(then));
    if now.contains('\0') || then.contains('\0') {
        writeln!(out, "    (not text)")?;
        return Ok(());
    }
    let hunks = Difference::of(&now, &then).hunks();
    for line in hunks.iter().take(MAX_LINES) {
        let style = match line.chars().next() {
            Some('+') => AnsiColor::Green.on_default(),
            Some('-') => AnsiColor::Red.on_default(),
            Some('@') => AnsiColor::Cyan.on_default(),
            _ => Style::new(),
        };
        writeln!(out, "    {style}{}{style:#}", screen::safe(line))?;
    }
    if hunks.len() > MAX_LINES {
        writeln!(out, "    … {} more lines", hunks.len() - MAX_LINES)?;
    }
    Ok(())
}
