//! Under which name a working directory's sessions are kept.
//!
//! The rule is Claude Code's and was found by running it (2.1.325 and 2.1.197, Linux): every UTF-16 unit of the real path that is no ASCII
//! letter or digit becomes `-`; what is longer than 200 is cut there and gets a hash of the whole path, so that deep directories stay
//! apart. The path is taken as it is: **nothing is normalised**, a decomposed `é` is an `e` and a hyphen.
//!
//! Claude's Agent SDK for Python has a rule of its own for the same thing ([`ProjectKey::of_python`]): it normalises, and counts code
//! points. Where the two differ, what one of them wrote is not found by the other, and whoever looks for a session has to try both.
//!
//! The rule cannot be undone: `a-b`, `a_b` and `a.b` have one name. Which directory a session was in is said in its lines.

use std::fmt;

use unicode_normalization::UnicodeNormalization as _;

/// How long a name gets before it is cut.
const MAX: usize = 200;
const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";

/// The name of a directory below `projects`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProjectKey(String);

impl ProjectKey {
    /// The name that Claude Code gives a working directory, whose path has to be real: absolute and without links.
    pub fn of(directory: &str) -> Self {
        Self::from_units(|| directory.encode_utf16().map(u32::from))
    }

    /// The name that the Agent SDK for Python gives it.
    pub fn of_python(directory: &str) -> Self {
        let normalised: String = directory.nfc().collect();
        Self::from_units(|| normalised.chars().map(u32::from))
    }

    /// A directory found on disk. Not only names that the rule can make: other versions may have had another one.
    pub fn found(name: &str) -> Option<Self> {
        let is_bad = |character: char| character.is_control() || matches!(character, '/' | '\\');
        let is_one = !matches!(name, "" | "." | "..") && !name.contains(is_bad);
        is_one.then(|| Self(name.to_owned()))
    }

    /// The directory's name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn from_units<I: Iterator<Item = u32>>(units: impl Fn() -> I) -> Self {
        let plain = |unit: u32| match char::from_u32(unit) {
            Some(character) if character.is_ascii_alphanumeric() => character,
            _ => '-',
        };
        let mut name: String = units().map(plain).collect();
        if name.len() > MAX {
            name.truncate(MAX);
            name.push('-');
            name.push_str(&base36(hash(units())));
        }
        Self(name)
    }
}

/// The hash of a path, as a 32-bit number whose sign was dropped; that of the least number does not fit in 31 bits.
fn hash(units: impl Iterator<Item = u32>) -> u32 {
    let hash = units.fold(0_u32, |hash, unit| hash.wrapping_mul(31).wrapping_add(unit));
    hash.cast_signed().unsigned_abs()
}

fn base36(mut number: u32) -> String {
    let mut digits = Vec::new();
    loop {
        digits.push(char::from(DIGITS[(number % 36) as usize]));
        number /= 36;
        if number == 0 {
            return digits.into_iter().rev().collect();
        }
    }
}

impl fmt::Display for ProjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ProjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Directories that the real program was started in, and what it made below `projects`.
    #[test]
    fn names_are_those_that_the_real_program_made() {
        let deep = format!("/tmp/parts-keys/{}", ["abcdefghij".repeat(4).as_str(); 5].join("/"));
        let cut = |path: &str| ProjectKey::of(path).as_str()[..200].to_owned();
        let run =
            |letter: &str, count: usize, behind: &str| format!("/tmp/parts-keys/{}{behind}", letter.repeat(count));
        let made =
            |letter: &str, count: usize, behind: &str| format!("-tmp-parts-keys-{}{behind}", letter.repeat(count));
        for (path, name) in [
            ("/tmp/parts-keys/plain".to_owned(), "-tmp-parts-keys-plain".to_owned()),
            ("/tmp/parts-keys/sp ace.d@t_u".to_owned(), "-tmp-parts-keys-sp-ace-d-t-u".to_owned()),
            ("/tmp/parts-keys/emoji😀x".to_owned(), "-tmp-parts-keys-emoji--x".to_owned()),
            ("/tmp/parts-keys/e\u{301}dec".to_owned(), "-tmp-parts-keys-e-dec".to_owned()),
            ("/tmp/parts-keys/\u{e9}comp".to_owned(), "-tmp-parts-keys--comp".to_owned()),
            ("/tmp/parts-keys/한\u{1112}\u{1161}\u{11ab}".to_owned(), "-tmp-parts-keys-----".to_owned()),
            ("/tmp/parts-keys/\u{212b}ngstrom".to_owned(), "-tmp-parts-keys--ngstrom".to_owned()),
            ("/tmp/parts-keys/tab\tnl\nq\"\\z".to_owned(), "-tmp-parts-keys-tab-nl-q--z".to_owned()),
            ("/tmp/parts-keys/\u{fb01}\u{344}".to_owned(), "-tmp-parts-keys---".to_owned()),
            (deep.clone(), format!("{}-ssj26z", cut(&deep))),
            (format!("{deep}/e\u{301}😀"), format!("{}-qhqd9p", cut(&deep))),
            (run("x", 184, ""), made("x", 184, "")),
            (run("x", 185, ""), made("x", 184, "-rcmndd")),
            (run("x", 182, "😀"), made("x", 182, "--")),
            (run("x", 183, "😀"), made("x", 183, "--rdokdw")),
            (run("y", 180, &"e\u{301}".repeat(3)), made("y", 180, "e-e--uigla3")),
            // The hash of this one is the least 32-bit number.
            (run("m", 190, "/gfrzwld"), made("m", 184, "-zik0zk")),
        ] {
            assert_eq!(ProjectKey::of(&path).as_str(), name, "{path}");
        }
    }

    #[test]
    fn the_python_sdk_normalises_and_counts_code_points() {
        assert_eq!(ProjectKey::of_python("/tmp/emoji😀x").as_str(), "-tmp-emoji-x");
        assert_eq!(ProjectKey::of_python("/tmp/e\u{301}dec").as_str(), "-tmp--dec");
        assert_eq!(ProjectKey::of_python("/home/ada/app"), ProjectKey::of("/home/ada/app"));
    }

    #[test]
    fn a_name_found_on_disk_is_one_component() {
        assert!(ProjectKey::found("-home-ada-app").is_some());
        assert!(ProjectKey::found("-home-ada-app_2.old").is_some());
        for name in ["", ".", "..", "a/b", "a\\b", "a\nb"] {
            assert_eq!(ProjectKey::found(name), None, "{name}");
        }
    }
}
