//! What is a command and what is something to say.
//!
//! A line that begins with a slash is a command, known or not: a mistyped `/delte` must never reach a model. Two
//! things that begin with a slash are text. A second slash escapes the first (`//etc is…` says `/etc is…`), and a
//! path has a slash inside its first word, which no command has (`/usr/bin is…` says just that). `quit` and `exit`
//! alone are commands too, because everybody tries them.
//!
//! A full-width slash counts as well: it is what a Japanese keyboard gives.

/// Edits between a mistyped command and the one that was meant.
const EDITS: usize = 2;
/// No command is longer; longer words are compared with none.
const LONGEST: usize = 32;

/// The command of a line, in lower case and without its slash, and its argument; or nothing if the line is text.
pub(crate) fn split(line: &str) -> Option<(String, &str)> {
    let line = line.trim();
    if line.eq_ignore_ascii_case("quit") || line.eq_ignore_ascii_case("exit") {
        return Some(("quit".to_owned(), ""));
    }
    let rest = line.strip_prefix(SLASHES)?;
    let (word, argument) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    (!word.contains(SLASHES)).then(|| (word.to_lowercase(), argument.trim()))
}

/// What a line that is no command says: without the slash that escapes another one.
pub(crate) fn text(line: &str) -> &str {
    match line.trim_start().strip_prefix(SLASHES) {
        Some(rest) if rest.starts_with(SLASHES) => rest,
        _ => line,
    }
}

const SLASHES: [char; 2] = ['/', '／'];

/// The command that was probably meant: one that begins so, or else the one that is fewest edits away.
pub(crate) fn unknown_command(input: &str, commands: &[(&'static str, &'static str)]) -> Option<&'static str> {
    let word = input.trim().trim_start_matches(SLASHES).to_lowercase();
    if word.is_empty() || word.len() > LONGEST {
        return None;
    }
    let names = commands.iter().map(|(name, _)| *name);
    let longer = names.clone().filter(|name| name.starts_with(&word)).min_by_key(|name| name.len());
    longer.or_else(|| {
        let near = names.map(|name| (edits(&word, name), name)).min_by_key(|(edits, _)| *edits);
        // Two edits make any two letters out of any others.
        near.filter(|(edits, name)| *edits <= EDITS && *edits < name.len().min(word.len())).map(|(_, name)| name)
    })
}

/// Letters to insert, leave out, replace or swap with their neighbour (Damerau and Levenshtein).
fn edits(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut rows = vec![vec![0; to.len() + 1]; from.len() + 1];
    for (index, row) in rows.iter_mut().enumerate() {
        row[0] = index;
    }
    rows[0] = (0..=to.len()).collect();
    for a in 1..=from.len() {
        for b in 1..=to.len() {
            let replaced = rows[a - 1][b - 1] + usize::from(from[a - 1] != to[b - 1]);
            let mut least = replaced.min(rows[a - 1][b] + 1).min(rows[a][b - 1] + 1);
            if a > 1 && b > 1 && from[a - 1] == to[b - 2] && from[a - 2] == to[b - 1] {
                least = least.min(rows[a - 2][b - 2] + 1);
            }
            rows[a][b] = least;
        }
    }
    rows[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slash_makes_a_command_and_case_does_not_matter() {
        assert_eq!(split("/Switch  my work \n"), Some(("switch".to_owned(), "my work")));
        assert_eq!(split(" ／new　名前"), Some(("new".to_owned(), "名前")));
        assert_eq!(split("/"), Some((String::new(), "")));
        assert_eq!(split("QUIT "), Some(("quit".to_owned(), "")));
        assert_eq!(split("exit"), Some(("quit".to_owned(), "")));
    }

    #[test]
    fn paths_and_escaped_slashes_are_text() {
        assert_eq!((split("//new x"), text("//new x")), (None, "/new x"));
        assert_eq!((split("/usr/bin is full"), text("/usr/bin is full")), (None, "/usr/bin is full"));
        assert_eq!((split("how do I quit vi"), text(" 1/2 or")), (None, " 1/2 or"));
    }

    #[test]
    fn a_mistyped_command_finds_the_one_that_was_meant() {
        const COMMANDS: &[(&str, &str)] =
            &[("switch", ""), ("sessions", ""), ("delete", ""), ("quit", ""), ("new", "")];
        let meant = |input| unknown_command(input, COMMANDS);
        assert_eq!([meant("/swicth"), meant("/DELTE"), meant("qiut")], [Some("switch"), Some("delete"), Some("quit")]);
        assert_eq!([meant("/sess"), meant("/s")], [Some("sessions"), Some("switch")]);
        assert_eq!([meant("/xy"), meant("/"), meant("/frobnicate")], [None; 3]);
        assert_eq!(edits("ca", "abc"), 3);
    }
}
