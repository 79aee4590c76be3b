//! How wide a text is, and where it may be cut, as far as single characters tell.
//!
//! The full rules need tables that the core does without: what belongs together is a character and the marks, joiners and
//! flags behind it; what is wide is a range of scripts and symbols. Doubtful symbols count as wide, so that a title is
//! rather too short than too long.

/// Longest cluster that is kept together; more marks than this on one letter are an attack on the screen.
const MAX_CLUSTER: usize = 16;
const JOINER: char = '\u{200d}';
const EMOJI_STYLE: char = '\u{fe0f}';

/// The text if it is no wider than `columns`, or its beginning and an ellipsis that are not.
///
/// Cut is between words, in a script without blanks between characters, and inside a word only if the last one is so
/// long that too little would be left; `tidy` takes marks off the end that the cut left there.
pub(super) fn cut(text: &str, columns: usize, tidy: impl Fn(&str) -> &str) -> String {
    let room = columns.saturating_sub(1);
    let (mut width, mut at) = (0, 0);
    let (mut fits, mut between_words) = (0, 0);
    let mut is_whole = true;
    for cluster in Clusters(text) {
        let is_wide = cluster_width(cluster) == 2;
        width += cluster_width(cluster);
        if width > columns {
            is_whole = false;
            break;
        }
        let end = at + cluster.len();
        if cluster == " " && width - 1 > columns / 2 && at <= fits {
            between_words = at;
        }
        if width <= room {
            fits = end;
            if is_wide && width > columns / 2 {
                between_words = end;
            }
        }
        at = end;
    }
    if is_whole {
        return text.to_owned();
    }
    let end = if between_words > 0 { between_words } else { fits };
    format!("{}…", tidy(&text[..end]))
}

/// How many columns a text takes.
#[cfg(test)]
pub(super) fn width(text: &str) -> usize {
    Clusters(text).map(cluster_width).sum()
}

pub(crate) fn cluster_width(cluster: &str) -> usize {
    let is_wide = cluster.chars().next().is_some_and(is_wide) || cluster.contains(EMOJI_STYLE);
    1 + usize::from(is_wide)
}

/// The clusters of a text: each a character and what belongs to it.
pub(crate) struct Clusters<'a>(pub(crate) &'a str);

impl<'a> Iterator for Clusters<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let mut characters = self.0.char_indices();
        let (_, mut before) = characters.next()?;
        let mut is_half_flag = is_flag_letter(before);
        let mut end = self.0.len();
        for (count, (at, character)) in characters.enumerate() {
            let completes_flag = is_half_flag && is_flag_letter(character);
            let belongs = extends(character) || before == JOINER || completes_flag;
            if !belongs || count + 1 >= MAX_CLUSTER {
                end = at;
                break;
            }
            is_half_flag = false;
            before = character;
        }
        let (cluster, rest) = self.0.split_at(end);
        self.0 = rest;
        Some(cluster)
    }
}

fn is_flag_letter(character: char) -> bool {
    ('\u{1f1e6}'..='\u{1f1ff}').contains(&character)
}

/// Whether a character belongs to the one before it.
fn extends(character: char) -> bool {
    match u32::from(character) {
        // The scripts of India keep their signs at the same places of each block.
        code @ 0x0900..=0x0dff => {
            matches!(code % 0x80, 0x00..=0x03 | 0x3a..=0x3c | 0x3e..=0x4f | 0x51..=0x57 | 0x62..=0x63)
        }
        code => matches!(code,
            0x0300..=0x036f | 0x0483..=0x0489 | 0x0591..=0x05bd | 0x05bf | 0x05c1..=0x05c2 | 0x05c4..=0x05c5 | 0x05c7
            | 0x0610..=0x061a | 0x064b..=0x065f | 0x0670 | 0x06d6..=0x06dc | 0x06df..=0x06e4 | 0x06e7..=0x06e8
            | 0x06ea..=0x06ed | 0x0711 | 0x0730..=0x074a | 0x07a6..=0x07b0 | 0x0e31 | 0x0e34..=0x0e3a | 0x0e47..=0x0e4e
            | 0x0eb1 | 0x0eb4..=0x0ebc | 0x0ec8..=0x0ece | 0x0f18..=0x0f19 | 0x0f35 | 0x0f37 | 0x0f39
            | 0x0f71..=0x0f84 | 0x0f8d..=0x0fbc | 0x102b..=0x103e | 0x1056..=0x1059 | 0x1160..=0x11ff
            | 0x17b4..=0x17d3 | 0x1ab0..=0x1aff | 0x1dc0..=0x1dff | 0x200c..=0x200d | 0x20d0..=0x20ff
            | 0x302a..=0x302f | 0x3099..=0x309a | 0xa8e0..=0xa8f1 | 0xd7b0..=0xd7fb | 0xfe00..=0xfe0f
            | 0xfe20..=0xfe2f | 0xff9e..=0xff9f | 0x1f3fb..=0x1f3ff | 0xe0020..=0xe007f | 0xe0100..=0xe01ef),
    }
}

/// Whether a character takes two columns, or may.
fn is_wide(character: char) -> bool {
    matches!(u32::from(character),
        0x1100..=0x115f | 0x2300..=0x23ff | 0x2600..=0x27bf | 0x2b00..=0x2bff | 0x2e80..=0x303e | 0x3041..=0xa4cf
        | 0xa960..=0xa97f | 0xac00..=0xd7a3 | 0xf900..=0xfaff | 0xfe10..=0xfe6f | 0xff00..=0xff60 | 0xffe0..=0xffe6
        | 0x16fe0..=0x18dff | 0x1b000..=0x1b2ff | 0x1f000..=0x1faff | 0x20000..=0x3fffd)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain_cut(text: &str, columns: usize) -> String {
        cut(text, columns, str::trim_end)
    }

    #[test]
    fn a_text_is_cut_between_words() {
        assert_eq!(plain_cut("alpha beta gamma", 16), "alpha beta gamma");
        assert_eq!(plain_cut("alpha beta gamma", 15), "alpha beta…");
        assert_eq!(plain_cut("alpha beta gamma", 11), "alpha beta…");
        assert_eq!(plain_cut("a bbbbbbbbbbbbbbbb", 10), "a bbbbbbb…", "too little would be left of it");
    }

    #[test]
    fn a_script_without_blanks_is_cut_between_characters() {
        assert_eq!(plain_cut("重启不丢上下文", 14), "重启不丢上下文");
        assert_eq!(plain_cut("重启不丢上下文", 13), "重启不丢上下…");
        assert_eq!(plain_cut("重启不丢上下文", 12), "重启不丢上…");
    }

    #[test]
    fn marks_joiners_and_flags_stay_with_their_character() {
        let clusters = |text| Clusters(text).collect::<Vec<_>>();
        assert_eq!(clusters("e\u{301}x"), ["e\u{301}", "x"]);
        assert_eq!(clusters("👨\u{200d}👩\u{200d}👧!"), ["👨\u{200d}👩\u{200d}👧", "!"]);
        assert_eq!(clusters("🇩🇪🇫🇷"), ["🇩🇪", "🇫🇷"]);
        assert_eq!(clusters("👍🏽か\u{3099}नि"), ["👍🏽", "か\u{3099}", "नि"]);
        assert_eq!(width("❤\u{fe0f}a\u{301}会"), 5);
    }

    #[test]
    fn a_pile_of_marks_is_no_single_cluster() {
        let pile = format!("a{}", "\u{301}".repeat(1000));
        assert!(Clusters(&pile).all(|cluster| cluster.chars().count() <= MAX_CLUSTER));
        assert!(plain_cut(&pile, 20).chars().count() <= 20 * MAX_CLUSTER);
    }
}
