//! What differs between two texts, line by line, as `diff -u` shows it.
//!
//! The shortest way from one text to the other is looked for (Myers), up to a bound: texts that have little in common are shown
//! as all gone and all new, which is what they are. Nothing here knows files or terminals; lines are passed on as they are.

/// How many lines may differ before the search is given up; time and memory grow with the square of it.
const MAX_EDITS: usize = 1000;
/// How many lines are shown around a change.
const AROUND: usize = 3;

/// What became of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    Same,
    Gone,
    New,
}

/// The lines of both texts in one order, each with what became of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Difference<'a>(Vec<(Mark, &'a str)>);

impl<'a> Difference<'a> {
    /// Compares two texts.
    pub(crate) fn of(old: &'a str, new: &'a str) -> Self {
        let (old, new): (Vec<&str>, Vec<&str>) =
            (old.split_inclusive('\n').collect(), new.split_inclusive('\n').collect());
        let same = |pairs: &mut dyn Iterator<Item = (&&str, &&str)>| pairs.take_while(|(a, b)| a == b).count();
        let head = same(&mut old.iter().zip(&new));
        let tail = same(&mut old[head..].iter().rev().zip(new[head..].iter().rev()));
        let (old_middle, new_middle) = (&old[head..old.len() - tail], &new[head..new.len() - tail]);
        let mut lines: Vec<(Mark, &str)> = old[..head].iter().map(|line| (Mark::Same, *line)).collect();
        lines.extend(middle(old_middle, new_middle));
        lines.extend(old[old.len() - tail..].iter().map(|line| (Mark::Same, *line)));
        Self(lines)
    }

    /// How many lines are new, and how many are gone.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let count = |mark| self.0.iter().filter(|(is, _)| *is == mark).count();
        (count(Mark::New), count(Mark::Gone))
    }

    /// The changed places with the lines around them: `@@` lines, and lines that begin with a blank, `-` or `+`.
    pub(crate) fn hunks(&self) -> Vec<String> {
        let mut shown = vec![false; self.0.len()];
        for (at, _) in self.0.iter().enumerate().filter(|(_, (mark, _))| *mark != Mark::Same) {
            let until = (at + AROUND + 1).min(shown.len());
            shown[at.saturating_sub(AROUND)..until].fill(true);
        }
        let (mut out, mut old, mut new, mut open) = (Vec::new(), 1, 1, false);
        for (at, (mark, line)) in self.0.iter().enumerate() {
            if shown[at] && !open {
                let hunk = &self.0[at..at + shown[at..].iter().take_while(|is| **is).count()];
                let without = |other| hunk.iter().filter(|(mark, _)| *mark != other).count();
                out.push(format!("@@ -{old},{} +{new},{} @@", without(Mark::New), without(Mark::Gone)));
            }
            open = shown[at];
            if open {
                let sign = match mark {
                    Mark::Same => ' ',
                    Mark::Gone => '-',
                    Mark::New => '+',
                };
                out.push(format!("{sign}{}", line.strip_suffix('\n').unwrap_or(line)));
                if !line.ends_with('\n') {
                    out.push("\\ no line feed at the end".to_owned());
                }
            }
            old += usize::from(*mark != Mark::New);
            new += usize::from(*mark != Mark::Gone);
        }
        out
    }
}

fn middle<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<(Mark, &'a str)> {
    shortest(old, new).unwrap_or_else(|| {
        let gone = old.iter().map(|line| (Mark::Gone, *line));
        gone.chain(new.iter().map(|line| (Mark::New, *line))).collect()
    })
}

/// The shortest way from one to the other; none if it is too long to be found.
fn shortest<'a>(old: &[&'a str], new: &[&'a str]) -> Option<Vec<(Mark, &'a str)>> {
    // `reached[k + edits]` is how far into `old` the diagonal k (old minus new) was followed.
    let mut reached: Vec<usize> = vec![0];
    let mut steps: Vec<Vec<usize>> = Vec::new();
    for edits in 0..=(old.len() + new.len()).min(MAX_EDITS) {
        let mut next = vec![0; 2 * edits + 1];
        for (place, end) in next.iter_mut().enumerate().step_by(2) {
            // Diagonals of the round before lie one place to the left here.
            let mut x = match edits {
                0 => 0,
                _ => from(&reached, place).1,
            };
            // Both are at least 0 wherever a way leads.
            let mut y = (x + edits).checked_sub(place).unwrap_or(usize::MAX);
            while x < old.len() && y < new.len() && old[x] == new[y] {
                (x, y) = (x + 1, y + 1);
            }
            *end = x;
            if x >= old.len() && y >= new.len() {
                steps.push(reached);
                return Some(walk_back(old, new, &steps, edits));
            }
        }
        steps.push(std::mem::replace(&mut reached, next));
    }
    None
}

/// Which edit leads to a diagonal, and where in `old` it ends: a line gone, or a new one.
fn from(before: &[usize], place: usize) -> (Mark, usize) {
    let below = place.checked_sub(2).and_then(|at| before.get(at)).map(|x| x + 1);
    let above = before.get(place).copied();
    match (below, above) {
        (Some(gone), Some(new)) if gone > new => (Mark::Gone, gone),
        (_, Some(new)) => (Mark::New, new),
        (gone, None) => (Mark::Gone, gone.unwrap_or(0)),
    }
}

fn walk_back<'a>(old: &[&'a str], new: &[&'a str], steps: &[Vec<usize>], edits: usize) -> Vec<(Mark, &'a str)> {
    let (mut x, mut y) = (old.len(), new.len());
    let mut lines = Vec::new();
    for edits in (1..=edits).rev() {
        let place = (x + edits).saturating_sub(y);
        let (mark, to) = from(&steps[edits], place);
        while x > to && y > 0 {
            (x, y) = (x - 1, y - 1);
            lines.push((Mark::Same, old[x]));
        }
        match mark {
            Mark::Gone if x > 0 => {
                x -= 1;
                lines.push((Mark::Gone, old[x]));
            }
            Mark::New if y > 0 => {
                y -= 1;
                lines.push((Mark::New, new[y]));
            }
            _ => {}
        }
    }
    while x > 0 {
        x -= 1;
        lines.push((Mark::Same, old[x]));
    }
    lines.reverse();
    lines
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn side(difference: &Difference<'_>, without: Mark) -> String {
        difference.0.iter().filter(|(mark, _)| *mark != without).map(|(_, line)| *line).collect()
    }

    #[test]
    fn a_change_is_shown_with_the_lines_around_it() {
        let old: String = (1..=9).map(|n| format!("{n}\n")).collect();
        let new = old.replace("5\n", "five\n");
        let difference = Difference::of(&old, &new);
        assert_eq!(difference.counts(), (1, 1));
        assert_eq!(difference.hunks(), ["@@ -2,7 +2,7 @@", " 2", " 3", " 4", "-5", "+five", " 6", " 7", " 8"]);
    }

    #[test]
    fn distant_changes_are_shown_apart_and_a_missing_line_feed_is_told() {
        let old: String = (1..=20).map(|n| format!("{n}\n")).collect();
        let new = format!("0\n{}", old.trim_end());
        let hunks = Difference::of(&old, &new).hunks();
        assert_eq!(hunks[..5], ["@@ -1,3 +1,4 @@", "+0", " 1", " 2", " 3"]);
        assert_eq!(hunks[5..].len(), 7);
        assert_eq!(hunks[9..], ["-20", "+20", "\\ no line feed at the end"]);
    }

    #[test]
    fn texts_without_much_in_common_are_all_gone_and_all_new() {
        let (old, new): (String, String) =
            ((0..3000).map(|n| format!("a{n}\n")).collect(), (0..3000).map(|n| format!("b{n}\n")).collect());
        assert_eq!(Difference::of(&old, &new).counts(), (3000, 3000));
    }

    proptest! {
        #[test]
        fn both_sides_can_be_read_off(old in "[abc\n]{0,40}", new in "[abc\n]{0,40}") {
            let difference = Difference::of(&old, &new);
            prop_assert_eq!(side(&difference, Mark::New), old.as_str());
            prop_assert_eq!(side(&difference, Mark::Gone), new.as_str());
            prop_assert_eq!(Difference::of(&old, &old).counts(), (0, 0));
        }

        #[test]
        fn no_way_is_shorter(old in "([ab]\n){0,6}", new in "([ab]\n){0,6}") {
            let (added, removed) = Difference::of(&old, &new).counts();
            let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
            let mut common = vec![vec![0; new.len() + 1]; old.len() + 1];
            for (x, a) in old.iter().enumerate() {
                for (y, b) in new.iter().enumerate() {
                    let longer = common[x][y + 1].max(common[x + 1][y]);
                    common[x + 1][y + 1] = if a == b { common[x][y] + 1 } else { longer };
                }
            }
            prop_assert_eq!(added + removed, old.len() + new.len() - 2 * common[old.len()][new.len()]);
        }
    }
}
