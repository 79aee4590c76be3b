//! From work to calls: which of the declared tools does it, and how its arguments are called.
//!
//! Tools have other names in other programs. A tool that is not declared is not called: the reply says which one is
//! missing.

use serde_json::{Map, Value};

use super::conversation::Tool;
use super::wishes::Wish;
use super::{Call, Reply};

const PATH: [&str; 6] = ["path", "file_path", "file", "filename", "directory", "dir"];
const COMMAND: [&str; 3] = ["command", "cmd", "script"];
const TEXT: [&str; 3] = ["content", "text", "contents"];
const OLD: [&str; 5] = ["old_text", "old_string", "old", "find", "search"];
const NEW: [&str; 5] = ["new_text", "new_string", "new", "replace", "replacement"];

/// The calls for some work, and a sentence that announces them.
pub(super) fn make(wishes: &[Wish], tools: &[Tool]) -> Reply {
    let (mut calls, mut announced, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    for wish in wishes {
        let names = names(wish);
        let found = names.iter().find_map(|name| tools.iter().find(|tool| tool.name.eq_ignore_ascii_case(name)));
        match found {
            Some(tool) => {
                calls.push(Call { name: tool.name.clone(), input: input(wish, tool) });
                announced.push(announce(wish));
            }
            None if !missing.contains(&names[0]) => missing.push(names[0]),
            None => {}
        }
    }
    let mut text = String::new();
    if !announced.is_empty() {
        super::paragraph(&mut text, format_args!("I will {}.", announced.join(", then ")));
    }
    if !missing.is_empty() {
        super::paragraph(
            &mut text,
            format_args!("There is no tool `{}` here, so that has to wait.", missing.join("`, `")),
        );
    }
    Reply { text, calls }
}

/// What a tool for this work may be called; the first is its name in this program.
fn names(wish: &Wish) -> &'static [&'static str] {
    match wish {
        Wish::Read(_) => &["read_file", "read", "view", "cat"],
        Wish::List(_) => &["list_directory", "list_files", "list_dir", "ls", "list"],
        Wish::Time => &["get_current_time", "current_time", "time", "now"],
        Wish::Run(_) => &["bash", "shell", "run_command", "run", "exec"],
        Wish::Write { .. } => &["write_file", "write", "create_file"],
        Wish::Edit { .. } => &["edit_file", "edit", "str_replace"],
    }
}

fn input(wish: &Wish, tool: &Tool) -> Value {
    let mut input = Map::new();
    let mut give = |names: &[&str], value: &str| {
        let declared = names.iter().find(|name| tool.arguments.iter().any(|argument| argument == *name));
        let name = declared.or(names.first()).copied().unwrap_or_default();
        input.insert(name.to_owned(), Value::from(value));
    };
    match wish {
        Wish::Read(path) | Wish::List(path) => give(&PATH, path),
        Wish::Time => {}
        Wish::Run(command) => give(&COMMAND, command),
        Wish::Write { path, text } => {
            give(&PATH, path);
            give(&TEXT, text);
        }
        Wish::Edit { path, old, new } => {
            give(&PATH, path);
            give(&OLD, old);
            give(&NEW, new);
        }
    }
    Value::Object(input)
}

fn announce(wish: &Wish) -> String {
    match wish {
        Wish::Read(path) => format!("read `{path}`"),
        Wish::List(path) => format!("list `{path}`"),
        Wish::Time => "look at the clock".to_owned(),
        Wish::Run(command) => format!("run `{}`", super::text::brief(command, 60)),
        Wish::Write { path, .. } => format!("write `{path}`"),
        Wish::Edit { path, .. } => format!("edit `{path}`"),
    }
}
