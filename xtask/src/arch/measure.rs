//! What is counted in a crate: cycles between its modules, its public surface, its lines, its comments and its words.
//!
//! Code is looked at as tokens, so that comments and strings are none. Imports inside a macro count as well.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::source::{self, Source};
use crate::{Result, workspace};

/// The name of the number that belongs to no single crate.
pub(super) const REPEATED: &str = "repeated_names";
/// The widest comment, in columns.
const COLUMNS: usize = 120;
/// Words that name no actor.
const BANNED: [&str; 4] = ["whoever", "nobody", "somebody", "is told"];
/// What writes down a change of a session that is no turn.
const EDITS: [&str; 7] = ["head(", "label(", "title(", "pin(", "pinned(", "expire(", "undo("];
/// The modules of the store that may: edits themselves, and those that say again what was said.
const EDITORS: [&str; 5] = ["edit", "fork", "import", "rebase", "record"];
/// Names that every crate has one of.
const EXEMPT: [&str; 2] = ["Error", "Result"];

/// Things that count, by name; the plain number where a name would say nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Found(Vec<String>, usize);

impl Found {
    fn of(names: Vec<String>) -> Self {
        let count = names.len();
        Self(names, count)
    }

    /// How many.
    pub(super) fn len(&self) -> usize {
        self.1
    }

    /// Which.
    pub(super) fn named(&self) -> &[String] {
        &self.0
    }
}

/// A crate in numbers.
pub(super) struct Crate {
    pub(super) name: &'static str,
    pub(super) lines: Found,
    cycles: Found,
    surface: Found,
    wide: Found,
    banned: Found,
    edits: Found,
    types: Vec<(String, String)>,
}

impl Crate {
    /// The numbers that have limits, by their names in the file of limits.
    pub(super) fn numbers(&self) -> Vec<(&'static str, &Found)> {
        vec![
            ("modules_in_cycles", &self.cycles),
            ("public_names", &self.surface),
            ("lines", &self.lines),
            ("wide_comments", &self.wide),
            ("banned_words", &self.banned),
            ("stray_edits", &self.edits),
        ]
    }
}

/// Measures a crate.
pub(super) fn of(name: &'static str) -> Result<Crate> {
    let sources = source::of(&workspace(), name)?;
    let mut tokens = Vec::new();
    for source in &sources {
        let parsed = source.text.parse::<TokenStream>().map_err(|error| format!("{}: {error}", source.path))?;
        tokens.push((source, parsed));
    }
    let root = tokens.iter().filter(|(source, _)| source.modules.is_empty());
    let surface = root.flat_map(|(_, tokens)| surface(tokens)).collect();
    let types =
        tokens.iter().flat_map(|(source, tokens)| types(tokens).into_iter().map(|it| (it, source.path.clone())));
    let lines = sources.iter().map(|source| source.text.trim_end().lines().count()).sum();
    Ok(Crate {
        name,
        types: types.collect(),
        surface: Found::of(surface),
        cycles: Found::of(in_cycles(&imports(&tokens))),
        lines: Found(Vec::new(), lines),
        wide: Found::of(sources.iter().flat_map(wide).collect()),
        banned: Found::of(sources.iter().flat_map(banned).collect()),
        edits: Found::of(sources.iter().flat_map(stray_edits).collect()),
    })
}

/// The names of public types that stand in more than one place of the workspace.
pub(super) fn repeated(crates: &[Crate]) -> Found {
    let mut places: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, path) in crates.iter().flat_map(|one| &one.types) {
        places.entry(name).or_default().push(path);
    }
    let repeated = places.into_iter().filter(|(name, paths)| paths.len() > 1 && !EXEMPT.contains(name));
    Found::of(repeated.map(|(name, paths)| format!("{name}: {}", paths.join(", "))).collect())
}

/// From each top-level module, the others that it names.
fn imports(tokens: &[(&Source, TokenStream)]) -> BTreeMap<String, BTreeSet<String>> {
    let own: BTreeSet<&String> = tokens.iter().filter_map(|(source, _)| source.modules.first()).collect();
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (source, tokens) in tokens {
        let Some(from) = source.modules.first() else { continue };
        let mut named = Vec::new();
        roots(tokens, source.modules.len(), &mut named);
        let known = named.into_iter().filter(|to| own.contains(to) && to != from);
        all.entry(from.clone()).or_default().extend(known);
    }
    all
}

/// What is named directly below the root of the crate, as `crate::name`, `crate::{name, …}` or by as many `super` as the file is deep.
fn roots(tokens: &TokenStream, depth: usize, named: &mut Vec<String>) {
    let list: Vec<TokenTree> = tokens.clone().into_iter().collect();
    let mut at = 0;
    while let Some(tree) = list.get(at) {
        at += 1;
        let mut supers = match tree {
            TokenTree::Group(group) => {
                roots(&group.stream(), depth, named);
                continue;
            }
            TokenTree::Ident(ident) if ident == "crate" => depth,
            TokenTree::Ident(ident) if ident == "super" => 1,
            _ => continue,
        };
        while is_path(&list[at..]) {
            at += 2;
            match list.get(at) {
                Some(TokenTree::Ident(ident)) if ident == "super" => supers += 1,
                Some(TokenTree::Ident(ident)) if supers == depth => {
                    named.push(ident.to_string());
                    break;
                }
                Some(TokenTree::Group(group)) if supers == depth && group.delimiter() == Delimiter::Brace => {
                    named.extend(firsts(&group.stream()));
                    break;
                }
                _ => break,
            }
            at += 1;
        }
    }
}

fn is_path(list: &[TokenTree]) -> bool {
    let is_colon = |at: usize| matches!(list.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == ':');
    is_colon(0) && is_colon(1)
}

/// The first name of each part between commas.
fn firsts(tokens: &TokenStream) -> Vec<String> {
    let mut is_next = true;
    let mut found = Vec::new();
    for tree in tokens.clone() {
        match tree {
            TokenTree::Punct(punct) if punct.as_char() == ',' => is_next = true,
            TokenTree::Ident(ident) if is_next => {
                found.push(ident.to_string());
                is_next = false;
            }
            _ => is_next = false,
        }
    }
    found
}

/// The modules that reach themselves.
fn in_cycles(imports: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let reaches_itself = |from: &String| {
        let mut seen = BTreeSet::new();
        let mut open: Vec<&String> = imports[from].iter().collect();
        while let Some(next) = open.pop() {
            if seen.insert(next) {
                open.extend(imports.get(next).into_iter().flatten());
            }
        }
        seen.contains(from)
    };
    imports.keys().filter(|from| reaches_itself(from)).cloned().collect()
}

/// What a root makes public: modules, and names that it takes up from them.
fn surface(tokens: &TokenStream) -> Vec<String> {
    let list: Vec<TokenTree> = tokens.clone().into_iter().collect();
    let mut found = Vec::new();
    for (at, tree) in list.iter().enumerate() {
        let is_word = |at: usize, word: &str| matches!(list.get(at), Some(TokenTree::Ident(ident)) if ident == word);
        if !matches!(tree, TokenTree::Ident(ident) if ident == "pub") {
            continue;
        }
        if is_word(at + 1, "mod")
            && let Some(TokenTree::Ident(name)) = list.get(at + 2)
        {
            found.push(name.to_string());
        }
        if is_word(at + 1, "use") {
            let rest = list[at + 2..].iter();
            leaves(
                rest.take_while(|tree| !matches!(tree, TokenTree::Punct(punct) if punct.as_char() == ';')),
                &mut found,
            );
        }
    }
    found
}

/// The last name of each path in a tree of imports.
fn leaves<'a>(trees: impl Iterator<Item = &'a TokenTree>, found: &mut Vec<String>) {
    let mut last = None;
    for tree in trees {
        match tree {
            TokenTree::Ident(ident) => last = Some(ident.to_string()),
            TokenTree::Punct(punct) if punct.as_char() == ',' => found.extend(last.take()),
            TokenTree::Group(group) => {
                last = None;
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                leaves(inner.iter(), found);
            }
            _ => {}
        }
    }
    found.extend(last);
}

/// The names of types that a file makes public, at whatever depth.
fn types(tokens: &TokenStream) -> Vec<String> {
    let list: Vec<TokenTree> = tokens.clone().into_iter().collect();
    let mut found = Vec::new();
    for (at, tree) in list.iter().enumerate() {
        if let TokenTree::Group(group) = tree {
            found.extend(types(&group.stream()));
        }
        let [TokenTree::Ident(public), TokenTree::Ident(kind), TokenTree::Ident(name), ..] = &list[at..] else {
            continue;
        };
        if public == "pub" && ["struct", "enum", "trait", "union", "type"].iter().any(|word| kind == word) {
            found.push(name.to_string());
        }
    }
    found
}

/// Comments that are wider than a screen.
fn wide(source: &Source) -> Vec<String> {
    let lines = source.text.lines().enumerate();
    let wide = lines.filter(|(_, line)| line.trim_start().starts_with("//") && line.chars().count() > COLUMNS);
    wide.map(|(at, _)| format!("{}:{}", source.path, at + 1)).collect()
}

/// Words that are banned, each time that they come.
fn banned(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    for (at, line) in source.text.lines().enumerate() {
        let line = line.to_lowercase();
        for word in BANNED {
            for (begin, _) in line.match_indices(word) {
                let is_edge = |next: Option<char>| next.is_none_or(|next| !next.is_alphanumeric() && next != '_');
                let is_whole =
                    is_edge(line[..begin].chars().next_back()) && is_edge(line[begin + word.len()..].chars().next());
                found.extend(is_whole.then(|| format!("{}:{}: {word}", source.path, at + 1)));
            }
        }
    }
    found
}

/// Places beside the store's `edit` that build the records of edits.
fn stray_edits(source: &Source) -> Vec<String> {
    if source.modules.first().is_some_and(|module| EDITORS.contains(&module.as_str())) {
        return Vec::new();
    }
    let product = source.text.split("#[cfg(test)]").next().unwrap_or_default();
    let lines = product.lines().enumerate();
    let stray = lines.filter(|(_, line)| {
        line.match_indices("Draft::").any(|(at, draft)| {
            let call = &line[at + draft.len()..];
            EDITS.iter().any(|edit| {
                let kind = edit.trim_end_matches('(');
                call.starts_with(edit) || call.starts_with(&format!("new(\"{kind}\""))
            })
        })
    });
    stray.map(|(at, _)| format!("{}:{}", source.path, at + 1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, modules: &[&str], text: &str) -> Source {
        let modules = modules.iter().map(|it| (*it).to_owned()).collect();
        Source { path: path.to_owned(), modules, text: text.to_owned() }
    }

    fn cycles(files: &[Source]) -> Vec<String> {
        let tokens: Vec<_> = files.iter().map(|file| (file, file.text.parse().unwrap())).collect();
        in_cycles(&imports(&tokens))
    }

    #[test]
    fn modules_that_import_each_other_are_in_a_cycle_however_they_spell_it() {
        let files = [
            source("a.rs", &["a"], "use crate::b;"),
            source("b/inner.rs", &["b", "inner"], "fn f() { println!(\"{}\", super::super::c::d()) }"),
            source("c.rs", &["c"], "use crate::{d, a::Name};"),
            source("d.rs", &["d"], "//! [`crate::a`]\nuse super::e; // crate::a\nconst A: &str = \"crate::a\";"),
            source("e.rs", &["e"], "use self::a; use crate::e; mod a {}"),
        ];
        assert_eq!(cycles(&files), ["a", "b", "c"]);
    }

    #[test]
    fn a_public_surface_is_its_modules_and_the_names_that_it_takes_up() {
        let tokens = "pub mod one; mod two; pub use two::{Three, four::{Five as Six, Seven}}; pub use eight::Nine; pub(crate) mod ten;";
        assert_eq!(surface(&tokens.parse().unwrap()), ["one", "Three", "Six", "Seven", "Nine"]);
    }

    #[test]
    fn a_public_type_is_one_at_any_depth_and_a_private_one_is_none() {
        let tokens =
            "pub struct A; mod m { pub enum B {} } pub(crate) struct C; struct D; pub type E = u8; pub fn f() {}";
        assert_eq!(types(&tokens.parse().unwrap()), ["A", "B", "E"]);
    }

    #[test]
    fn words_are_banned_as_words() {
        let found = banned(&source("a.rs", &["a"], "// Nobody is told.\nlet nobody_else = 1;\n// this told"));
        assert_eq!(found, ["a.rs:1: nobody", "a.rs:1: is told"]);
        let comment = format!("//{}", " x".repeat(60));
        assert_eq!(wide(&source("a.rs", &["a"], &comment)), ["a.rs:1"]);
    }

    #[test]
    fn records_of_edits_are_built_in_one_place() {
        let text = "fn f() { Draft::user(\"x\"); }\nlet a = Draft::head(None, \"x\");\nlet b = Draft::new(\"title\");\n\
                    #[cfg(test)]\nmod tests { Draft::undo(1); }";
        assert_eq!(stray_edits(&source("a.rs", &["chat"], text)), ["a.rs:2", "a.rs:3"]);
        assert_eq!(stray_edits(&source("a.rs", &["edit", "plan"], text)), Vec::<String>::new());
    }
}
