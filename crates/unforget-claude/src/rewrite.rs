//! Absolute paths put right in a line, when a session goes on in another place.
//!
//! Lines are full of absolute paths: the working directory, files that tools touched, outputs that were put aside. In another place some
//! of them lead nowhere. Here old directories are replaced by new ones in the text of a line, in place: only inside JSON strings that are
//! values, only where the old path stands by itself, and nothing else of the line changes. A line that does not have the old path
//! is the same line, byte for byte, which matters because what is sent to the model is made from those bytes.
//!
//! When in doubt, a path stays. `/home/ada/app2` is not `/home/ada/app`, nor is `/x/home/ada/app`. A path that stays wrong is a file
//! that is not found; a text that was changed by mistake is somebody's words.
//!
//! The directory's name below `projects` ([`ProjectKey`]) is put right with it, where it comes behind `projects/`. Names of members
//! are never changed.

use std::borrow::Cow;

use memchr::{memchr, memchr2, memmem};
use unforget_core::{json, lines};

use crate::error::{Error, Result};
use crate::project::ProjectKey;

/// What comes before a project's name in a path.
const BEFORE_KEY: &str = "projects/";

/// Which paths become which.
#[derive(Debug, Clone)]
pub struct Rewrite {
    /// The longest first, so that a directory wins over the one that it is in.
    rules: Vec<Rule>,
}

#[derive(Debug, Clone)]
struct Rule {
    kind: Kind,
    finder: memmem::Finder<'static>,
    new: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Path,
    Key,
}

impl Rewrite {
    /// Takes pairs of directories, the old and the new one; both have to be absolute, and neither a root.
    pub fn new<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self> {
        let mut rules = Vec::new();
        for (old, new) in pairs {
            let (old, new) = (directory(old)?, directory(new)?);
            if old == new {
                continue;
            }
            rules.push(Rule::new(Kind::Path, &escaped(old), escaped(new)));
            let (old, new) = (ProjectKey::of(old), ProjectKey::of(new));
            if old != new {
                rules.push(Rule::new(Kind::Key, old.as_str(), new.as_str().to_owned()));
            }
        }
        rules.sort_by_key(|rule| std::cmp::Reverse(rule.old().len()));
        Ok(Self { rules })
    }

    /// The line with its paths put right; one that is no JSON object stays as it is.
    pub fn line<'l>(&self, line: &'l str) -> Cow<'l, str> {
        let is_in = |rule: &Rule| rule.finder.find(line.as_bytes()).is_some();
        if !self.rules.iter().any(is_in) || !lines::is_object(line.as_bytes()) {
            return Cow::Borrowed(line);
        }
        let mut out = String::new();
        let (mut copied, mut at) = (0, 0);
        // Outside of strings there are no quotation marks.
        while let Some(start) = memchr(b'"', &line.as_bytes()[at..]).map(|found| at + found + 1) {
            let end = string_end(line, start);
            at = (end + 1).min(line.len());
            let is_name = line[at..].trim_ascii_start().starts_with(':');
            if !is_name && let Cow::Owned(text) = self.text(&line[start..end]) {
                out.push_str(&line[copied..start]);
                out.push_str(&text);
                copied = end;
            }
        }
        if copied == 0 {
            return Cow::Borrowed(line);
        }
        out.push_str(&line[copied..]);
        Cow::Owned(out)
    }

    /// The inside of a JSON string with its paths put right.
    fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut nearest: Vec<Option<usize>> = self.rules.iter().map(|rule| rule.find(text, 0)).collect();
        let mut out = String::new();
        let mut copied = 0;
        // Each turn takes the first place that is left; of rules that begin at one place the first, which is the longest.
        while let Some((at, index)) =
            nearest.iter().enumerate().filter_map(|(index, found)| found.map(|at| (at, index))).min()
        {
            let rule = &self.rules[index];
            out.push_str(&text[copied..at]);
            out.push_str(&rule.new);
            copied = at + rule.old().len();
            for (rule, found) in self.rules.iter().zip(&mut nearest) {
                if found.is_some_and(|found| found < copied) {
                    *found = rule.find(text, copied);
                }
            }
        }
        if copied == 0 {
            return Cow::Borrowed(text);
        }
        out.push_str(&text[copied..]);
        Cow::Owned(out)
    }
}

impl Rule {
    fn new(kind: Kind, old: &str, new: String) -> Self {
        Self { kind, finder: memmem::Finder::new(old).into_owned(), new }
    }

    fn old(&self) -> &[u8] {
        self.finder.needle()
    }

    /// The first place from `from` on where the old path stands by itself.
    fn find(&self, text: &str, from: usize) -> Option<usize> {
        let mut at = from;
        while let Some(found) = text.as_bytes().get(at..).and_then(|rest| self.finder.find(rest)) {
            let start = at + found;
            let (before, behind) = (&text[..start], &text[start + self.old().len()..]);
            let begins = match self.kind {
                Kind::Path => begins_behind(before),
                Kind::Key => before.strip_suffix(BEFORE_KEY).is_some_and(begins_component),
            };
            if begins && ends_before(behind) {
                return Some(start);
            }
            at = start + 1;
        }
        None
    }
}

/// Takes a path that is absolute and no root, without slashes at its end.
fn directory(path: &str) -> Result<&str> {
    let trimmed = path.trim_end_matches('/');
    if trimmed.is_empty() || !path.starts_with('/') {
        return Err(Error::Invalid(format!("`{path}` is no directory whose path can be put right")));
    }
    Ok(trimmed)
}

/// A text as it is inside a JSON string: with the escapes that JSON asks for, and no others.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if character < ' ' || matches!(character, '"' | '\\') {
            let quoted = json::quote(character.encode_utf8(&mut [0; 4]));
            out.push_str(&quoted[1..quoted.len() - 1]);
        } else {
            out.push(character);
        }
    }
    out
}

/// Where the string ends whose inside begins at `start`.
fn string_end(line: &str, start: usize) -> usize {
    let bytes = line.as_bytes();
    let mut at = start;
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        at += found;
        if bytes[at] == b'"' {
            return at;
        }
        at += 2;
    }
    line.len()
}

/// The last thing that a piece of the inside of a string stands for, and what is before it; `None` at the beginning.
fn last(text: &str) -> Option<(char, &str)> {
    let bytes = text.as_bytes();
    let escapes = |end: usize| bytes[..end].iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1;
    if let Some(start) = text.len().checked_sub(6).filter(|start| bytes[*start..].starts_with(b"\\u"))
        && !escapes(start)
        && let Ok(unit) = u32::from_str_radix(text.get(start + 2..)?, 16)
    {
        // Half of a pair is no character of its own; that of the other half is as good.
        return Some((char::from_u32(unit).unwrap_or('\u{fffd}'), &text[..start]));
    }
    let character = text.chars().next_back()?;
    let start = text.len() - character.len_utf8();
    if escapes(start) {
        return Some((unescaped(character), &text[..start - 1]));
    }
    Some((character, &text[..start]))
}

/// The first thing that a piece of the inside of a string stands for, and what is behind it; `None` at the end.
fn first(text: &str) -> Option<(char, &str)> {
    let mut characters = text.chars();
    match characters.next()? {
        '\\' => match characters.next()? {
            'u' => {
                let (digits, rest) = text.get(2..6).zip(text.get(6..))?;
                let unit = u32::from_str_radix(digits, 16).ok()?;
                Some((char::from_u32(unit).unwrap_or('\u{fffd}'), rest))
            }
            escape => Some((unescaped(escape), characters.as_str())),
        },
        character => Some((character, characters.as_str())),
    }
}

fn unescaped(escape: char) -> char {
    match escape {
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'b' => '\u{8}',
        'f' => '\u{c}',
        other => other,
    }
}

/// Whether a character can be a part of a file's name, for all that one can tell.
fn is_of_name(character: char) -> bool {
    match character {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' | '.' | '+' | '~' | '%' | '@' => true,
        '\0'..='\u{7f}' => false,
        // What ends a sentence or a quotation in other scripts.
        '’' | '”' | '»' | '…' | '、' | '。' | '」' | '』' | '）' | '，' | '：' | '；' | '！' | '？' => {
            false
        }
        other => !other.is_whitespace() && !other.is_control(),
    }
}

/// Whether a path may begin behind this text.
fn begins_behind(text: &str) -> bool {
    match last(text) {
        None => true,
        // `file:///home/ada`, and no other path that goes on.
        Some(('/', before)) => before.ends_with(":/"),
        Some((character @ ('n' | 't' | 'r'), before)) => {
            // JSON inside of JSON: a line feed there is two characters here.
            !is_of_name(character) || last(before).is_some_and(|(character, _)| character == '\\')
        }
        Some((character, _)) => !is_of_name(character),
    }
}

/// Whether a part of a path may begin behind this text.
fn begins_component(text: &str) -> bool {
    last(text).is_none_or(|(character, _)| character == '/' || !is_of_name(character))
}

/// Whether a path may end before this text.
fn ends_before(text: &str) -> bool {
    let mut rest = text;
    loop {
        match first(rest) {
            None => return true,
            // The end of a sentence, unless a name goes on behind it.
            Some(('.', behind)) => rest = behind,
            // Behind a full stop, a slash says that the name goes on: `app./x`.
            Some(('/', _)) => return rest.len() == text.len(),
            Some((character, _)) => return !is_of_name(character),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn moved() -> Rewrite {
        Rewrite::new([("/home/ada/app", "/srv/bob"), ("/home/ada", "/home/bob"), ("/home/ada/.claude", "/c")]).unwrap()
    }

    #[test]
    fn paths_that_stand_by_themselves_are_replaced_and_others_stay() {
        for (text, want) in [
            ("/home/ada/app", "/srv/bob"),
            ("/home/ada/app/src/x.rs", "/srv/bob/src/x.rs"),
            ("/home/ada/other", "/home/bob/other"),
            ("cd /home/ada/app && ls", "cd /srv/bob && ls"),
            ("in /home/ada/app.", "in /srv/bob."),
            ("in /home/ada/app...", "in /srv/bob..."),
            ("see '/home/ada/app', (/home/ada/app) /home/ada/app:3", "see '/srv/bob', (/srv/bob) /srv/bob:3"),
            ("A=/home/ada/app:/home/ada/app/bin", "A=/srv/bob:/srv/bob/bin"),
            (r"x\n/home/ada/app\n", r"x\n/srv/bob\n"),
            (r#"\"/home/ada/app\""#, r#"\"/srv/bob\""#),
            (r#"{\"a\":\"x\\n/home/ada/app\\n\"}"#, r#"{\"a\":\"x\\n/srv/bob\\n\"}"#),
            (r"\u00e4 /home/ada/app\u0020", r"\u00e4 /srv/bob\u0020"),
            ("file:///home/ada/app/x", "file:///srv/bob/x"),
            ("`/home/ada/app`，/home/ada/app。", "`/srv/bob`，/srv/bob。"),
            ("/home/ada/.claude/projects/-home-ada-app/1.jsonl", "/c/projects/-srv-bob/1.jsonl"),
            ("~/.claude/projects/-home-ada-app", "~/.claude/projects/-srv-bob"),
            ("/home/ada/app2", "/home/bob/app2"),
        ] {
            let (line, want) = (format!("{{\"a\":\"{text}\"}}"), format!("{{\"a\":\"{want}\"}}"));
            assert_eq!(moved().line(&line), want);
        }
        let one = Rewrite::new([("/home/ada/app", "/srv/bob")]).unwrap();
        for text in [
            "/home/ada/app2",
            "/home/ada/app-2/x",
            "/home/ada/app.bak",
            "/home/ada/app./x",
            "/home/ada/app_",
            "/home/ada/app~",
            "/home/ada/apps",
            "/home/ada/app\u{301}",
            r"/home/ada/app\u0301",
            "/x/home/ada/app",
            "x/home/ada/app",
            "//home/ada/app",
            "./home/ada/app",
            r"\u00e4/home/ada/app",
            r"\\/home/adb/app",
            "-home-ada-app",
            "projects/-home-ada-app-2/x",
            "myprojects/-home-ada-app/x",
            "/home/ada",
        ] {
            let line = format!("{{\"a\":\"{text}\"}}");
            assert!(matches!(one.line(&line), Cow::Borrowed(same) if same == line), "{text}");
        }
    }

    #[test]
    fn names_of_members_stay_and_values_at_every_depth_are_put_right() {
        let line = r#"{"/home/ada/app" : {"x":["/home/ada/app"]},"n":1.50e2,"\"/home/ada/app":"\\"}"#;
        let want = r#"{"/home/ada/app" : {"x":["/srv/bob"]},"n":1.50e2,"\"/home/ada/app":"\\"}"#;
        assert_eq!(moved().line(line), want);
    }

    #[test]
    fn a_line_that_is_no_object_stays() {
        for line in [r#"{"cwd":"/home/ada/app"#, r#""/home/ada/app""#, "/home/ada/app", ""] {
            assert!(matches!(moved().line(line), Cow::Borrowed(_)), "{line}");
        }
    }

    #[test]
    fn paths_that_json_escapes_are_found_and_made() {
        let rewrite = Rewrite::new([("/a\"b\\c", "/d\te\"")]).unwrap();
        assert_eq!(rewrite.line(r#"{"cwd":"/a\"b\\c/x"}"#), r#"{"cwd":"/d\te\"/x"}"#);
    }

    #[test]
    fn what_is_no_directory_is_refused() {
        for pair in [("/", "/x"), ("", "/x"), ("a", "/x"), ("/x", "b"), ("/x", "//")] {
            assert!(Rewrite::new([pair]).is_err(), "{pair:?}");
        }
        assert!(Rewrite::new([("/a/", "/a")]).unwrap().rules.is_empty());
    }

    /// Texts that are full of what looks like the paths.
    fn text() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            Just("/home/ada/app".to_owned()),
            Just("/home/ada".to_owned()),
            Just("projects/-home-ada-app".to_owned()),
            "[ -~]{0,3}",
            "[/.\\\\\"n:\u{e4}\u{1f600}\n]{0,3}",
        ];
        proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
    }

    fn line(texts: &[String]) -> String {
        let members: Vec<String> =
            texts.iter().map(|text| format!("{}:[{}]", json::quote(text), json::quote(text))).collect();
        format!("{{{}}}", members.join(","))
    }

    proptest! {
        #[test]
        fn json_stays_json_and_names_stay(texts in proptest::collection::vec(text(), 0..4)) {
            let line = line(&texts);
            let out = moved().line(&line).into_owned();
            let (before, after) = (json::members(&line).unwrap(), json::members(&out).unwrap());
            prop_assert!(lines::is_object(out.as_bytes()));
            prop_assert_eq!(before.iter().map(|(name, _)| name).collect::<Vec<_>>(), after.iter().map(|(name, _)| name).collect::<Vec<_>>());
        }

        #[test]
        fn a_line_without_the_path_is_the_same_line(texts in proptest::collection::vec("[ -~\u{e4}]{0,20}", 0..4)) {
            let line = line(&texts);
            let rewrite = Rewrite::new([("/not/in/there", "/x")]).unwrap();
            prop_assert!(matches!(rewrite.line(&line), Cow::Borrowed(same) if same == line));
        }

        #[test]
        fn there_and_back_is_where_it_began(texts in proptest::collection::vec(text(), 0..4), new in "/[a-z]{3,6}(/[a-z]{1,4}){0,2}") {
            let line = line(&texts);
            let new_key = ProjectKey::of(&new);
            prop_assume!(!line.contains(&new) && !line.contains(new_key.as_str()));
            let there = Rewrite::new([("/home/ada/app", new.as_str())]).unwrap();
            let back = Rewrite::new([(new.as_str(), "/home/ada/app")]).unwrap();
            let moved = there.line(&line).into_owned();
            prop_assert_eq!(back.line(&moved).into_owned(), line);
        }
    }
}
