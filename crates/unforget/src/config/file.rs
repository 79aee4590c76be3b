//! The file with settings: where it is, what it says on which line, and how one line of it is changed.
//!
//! Reading keeps the line of every value, for errors that a person can act on. A change keeps all that is not changed,
//! comments and order included, and replaces the file as a whole: a crash leaves the old one or the new one. A file that
//! is a link, as in a folder of dotfiles, is changed where it leads to.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy as _;
use toml_edit::{Document, DocumentMut, Item};
use unforget_core::medium::{self, Medium as _, Os};

use super::setting::{self, Setting, Value};
use crate::failure::{Failure, Result};
use crate::home::split_path;

/// The variable that names another file.
pub(crate) const VARIABLE: &str = "UNFORGET_CONFIG";
/// Largest file that is read.
const MAX_FILE: u64 = 1 << 20;

/// What a file says.
#[derive(Debug, Default)]
pub(crate) struct File {
    pub(crate) path: PathBuf,
    pub(crate) exists: bool,
    entries: Vec<Entry>,
    /// Names that are not known, each as a sentence.
    pub(crate) notes: Vec<String>,
}

/// One setting in the file.
#[derive(Debug)]
pub(crate) struct Entry {
    name: String,
    pub(crate) item: Item,
    pub(crate) line: usize,
}

/// Where the file is.
pub(crate) fn place(environment: impl Fn(&str) -> Option<String>) -> Result<PathBuf> {
    if let Some(path) = environment(VARIABLE).filter(|path| !path.is_empty()) {
        return Ok(path.into());
    }
    etcetera::choose_base_strategy().map(|places| places.config_dir().join("unforget").join("config.toml")).map_err(
        |_| Failure::usage("there is no home directory").hint(format!("say where the settings are with {VARIABLE}")),
    )
}

impl File {
    /// Reads a file; one that is not there says nothing.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        match content(path)? {
            Some(text) => Self::parse(path, &text),
            None => Ok(Self { path: path.to_owned(), ..Self::default() }),
        }
    }

    /// Takes a file's text apart.
    pub(crate) fn parse(path: &Path, text: &str) -> Result<Self> {
        let document = Document::parse(text).map_err(|error| broken(path, text, &error))?;
        let mut file = Self { path: path.to_owned(), exists: true, ..Self::default() };
        for (name, item) in document.iter() {
            let span = document.key(name).and_then(toml_edit::Key::span).or_else(|| item.span());
            let line = line_of(text, span.map_or(0, |span| span.start));
            if setting::find(name).is_none() {
                let place = format!("{}, line {line}", path.display());
                let like = setting::nearest(name).map(|like| format!("; did you mean `{}`?", like.name));
                file.notes.push(format!("{place}: there is no setting `{name}`{}", like.unwrap_or_default()));
            }
            file.entries.push(Entry { name: name.to_owned(), item: item.clone(), line });
        }
        Ok(file)
    }

    /// What the file says about a setting.
    pub(crate) fn get(&self, setting: &Setting) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == setting.name)
    }
}

/// Writes a setting into the file, which is created if it is not there.
pub(crate) fn set(path: &Path, setting: &Setting, value: &Value) -> Result<()> {
    let mut document = editable(path)?;
    match document.get_mut(setting.name).and_then(Item::as_value_mut) {
        // What is around the old value, a comment behind it above all, stays around the new one.
        Some(old) => {
            let mut new = value.to_toml();
            *new.decor_mut() = old.decor().clone();
            *old = new;
        }
        None => {
            document.insert(setting.name, Item::Value(value.to_toml()));
        }
    }
    write(path, &document)
}

/// Removes a setting from the file, but not what was written above it; `false` if it is not there.
pub(crate) fn unset(path: &Path, setting: &Setting) -> Result<bool> {
    let mut document = editable(path)?;
    let names: Vec<String> = document.iter().map(|(name, _)| name.to_owned()).collect();
    let Some(at) = names.iter().position(|name| name == setting.name) else { return Ok(false) };
    let text_above = |key: Option<&toml_edit::Key>| {
        key.and_then(|key| key.leaf_decor().prefix()?.as_str()).unwrap_or_default().to_owned()
    };
    let above = text_above(document.key(setting.name));
    document.remove(setting.name);
    let next = names.get(at + 1).map(String::as_str);
    let below = next.map(|next| text_above(document.key(next)));
    match next.and_then(|next| document.key_mut(next)) {
        Some(mut next) => next.leaf_decor_mut().set_prefix(above + &below.unwrap_or_default()),
        None => {
            let joined = above + document.trailing().as_str().unwrap_or_default();
            document.set_trailing(joined);
        }
    }
    write(path, &document)?;
    Ok(true)
}

fn editable(path: &Path) -> Result<DocumentMut> {
    let text = content(path)?.unwrap_or_default();
    text.parse().map_err(|error| broken(path, &text, &error))
}

fn write(path: &Path, document: &DocumentMut) -> Result<()> {
    let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let (folder, name) = split_path(&target);
    let medium = Os::new(folder);
    medium
        .create_dir(Path::new(""))
        .and_then(|()| medium::replace_durable(&medium, &name, document.to_string().as_bytes()))
        .map_err(|error| Failure::new(format!("cannot write {}: {error}", path.display())).hint("nothing was changed"))
}

/// The file's text; none if it is not there.
fn content(path: &Path) -> Result<Option<String>> {
    let unreadable = |why: &str| {
        Failure::usage(format!("cannot read {}: {why}", path.display()))
            .hint(format!("{VARIABLE} names another file with settings"))
    };
    let target = match path.canonicalize() {
        Ok(target) => target,
        // A link that leads nowhere is not the same as no file: its owner means one.
        Err(error) if error.kind() == ErrorKind::NotFound && !path.is_symlink() => return Ok(None),
        Err(error) => return Err(unreadable(&error.to_string())),
    };
    if target == Path::new("/dev/null") {
        return Ok(Some(String::new()));
    }
    let (folder, name) = split_path(&target);
    let bytes =
        medium::read_small(&Os::new(folder), &name, MAX_FILE + 1).map_err(|error| unreadable(&error.to_string()))?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(unreadable("it is larger than 1 MiB"));
    }
    String::from_utf8(bytes).map(Some).map_err(|_| unreadable("it is not UTF-8 text"))
}

/// What the parser says, on one line: its own text shows lines of the file, and one of them may be a key.
fn broken(path: &Path, text: &str, error: &toml_edit::TomlError) -> Failure {
    let line = line_of(text, error.span().map_or(0, |span| span.start));
    let message = error.message().trim().replace('\n', ", ");
    Failure::usage(format!("{}, line {line}: {message}", path.display())).hint("a line looks like: model = \"NAME\"")
}

fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}
