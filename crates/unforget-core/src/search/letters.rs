//! What a character is to a search, and the form in which it is compared.
//!
//! Case, width and the marks on European letters make no difference to someone who looks for a word; the voiced marks of
//! Japanese and the jamo of Korean do. Both is decided here, a cluster (a character and what attaches to it) at a time, so that
//! decomposed text from another system is found like composed text. Nothing here knows tokens, queries or JSON.
//!
//! The failure to guard against is a character that folds one way in a text and another way in a query: there is one
//! [`fold`], and the sieve's table of suspicious characters is computed from it.

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::{decompose_compatible, is_combining_mark};

/// What a character is to a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// Part of a word that blanks or punctuation separate from the next.
    Word,
    /// A character of a script that writes without blanks.
    Dense,
    /// A sign that stands for itself, such as an emoji.
    Symbol,
    /// Belongs to the character before it, whatever that is.
    Mark,
    /// Not there at all: joiners, soft hyphens, variation selectors.
    Ignored,
    /// Separates.
    Apart,
}

/// Sorts a character.
pub(super) fn class(character: char) -> Class {
    if character.is_ascii() {
        let is_word = character.is_ascii_alphanumeric() || character == '_';
        return if is_word { Class::Word } else { Class::Apart };
    }
    match u32::from(character) {
        0x00ad
        | 0x034f
        | 0x061c
        | 0x180b..=0x180f
        | 0x200b..=0x200f
        | 0x202a..=0x202e
        | 0x2060..=0x206f
        | 0x20d0..=0x20ff
        | 0xfe00..=0xfe0f
        | 0xfeff
        | 0xe0000..=0xe0fff => Class::Ignored,
        code if is_dense(code) => Class::Dense,
        0x2600..=0x27bf | 0x2b00..=0x2bff | 0x1f000..=0x1faff => Class::Symbol,
        _ if is_combining_mark(character) => Class::Mark,
        _ if character.is_alphanumeric() => Class::Word,
        _ => Class::Apart,
    }
}

/// Han, kana, bopomofo, Hangul, Thai, Lao, Tibetan, Myanmar, Khmer.
fn is_dense(code: u32) -> bool {
    matches!(code,
        0x0e01..=0x0e3a | 0x0e40..=0x0e5b | 0x0e81..=0x0edf | 0x0f40..=0x0fbc | 0x1000..=0x109f | 0x1100..=0x11ff
        | 0x1780..=0x17d3 | 0x17d7 | 0x17dc..=0x17e9 | 0x3005..=0x3007 | 0x3021..=0x3029 | 0x3041..=0x3096
        | 0x3099..=0x309a | 0x309d..=0x309f | 0x30a1..=0x30fa | 0x30fc..=0x30ff | 0x3105..=0x312f | 0x3131..=0x318e
        | 0x31a0..=0x31bf | 0x31f0..=0x31ff | 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xa960..=0xa97c | 0xaa60..=0xaa7f
        | 0xac00..=0xd7a3 | 0xd7b0..=0xd7fb | 0xf900..=0xfaff | 0x1b000..=0x1b16f | 0x20000..=0x3fffd)
}

/// Whether a character may change the one before it.
fn attaches(character: char) -> bool {
    match u32::from(character) {
        ..0x00ad => false,
        0x1160..=0x11ff | 0xd7b0..=0xd7fb | 0xff9e..=0xff9f => true,
        _ if is_settled(character) => false,
        _ => is_combining_mark(character) || class(character) == Class::Ignored,
    }
}

/// Length in bytes of the first cluster of a text: a character and what attaches to it.
pub(super) fn cluster(text: &str) -> usize {
    let mut characters = text.char_indices();
    characters.next();
    characters.find(|(_, character)| !attaches(*character)).map_or(text.len(), |(at, _)| at)
}

/// The dense character at the beginning, if nothing attaches to it and it is compared as it is: most of such a text.
pub(super) fn settled(text: &str) -> Option<char> {
    let mut characters = text.chars();
    let first = characters.next().filter(|first| is_settled(*first))?;
    characters.next().is_none_or(|next| is_settled(next) || !attaches(next)).then_some(first)
}

/// Kana, Han and Hangul that no folding changes and that attach to nothing.
fn is_settled(character: char) -> bool {
    matches!(character, '\u{3041}'..='\u{3096}' | '\u{30a1}'..='\u{30fa}' | '\u{30fc}'..='\u{30ff}'
        | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}')
}

/// Adds the form in which a cluster is compared.
pub(super) fn fold(cluster: &str, out: &mut String) {
    let mut characters = cluster.chars();
    let Some(first) = characters.next() else { return };
    if characters.next().is_none() {
        // By far the most clusters are one character that needs little or nothing.
        match u32::from(first) {
            ..0x80 => return out.push(first.to_ascii_lowercase()),
            _ if is_settled(first) => return out.push(first),
            _ => {}
        }
    }
    let same_width = cluster.chars().flat_map(narrow).filter(|character| class(*character) != Class::Ignored);
    let lower = same_width.flat_map(char::to_lowercase);
    if is_european(first) {
        for character in lower.nfd().filter(|character| !matches!(character, '\u{300}'..='\u{36f}')) {
            match plain_letters(character) {
                Some(letters) => out.push_str(letters),
                None => out.push(character),
            }
        }
    } else {
        out.extend(lower.nfc());
    }
}

/// A full-width or half-width form, or a ligature, as the characters that it stands for; others as they are.
fn narrow(character: char) -> impl Iterator<Item = char> {
    let mut forms = ['\0'; 4];
    let mut count = 0;
    let mut keep = |form: char| {
        if let Some(place) = forms.get_mut(count) {
            *place = form;
            count += 1;
        }
    };
    match character {
        '\u{ff00}'..='\u{ffef}' | '\u{fb00}'..='\u{fb06}' => decompose_compatible(character, keep),
        _ => keep(character),
    }
    forms.into_iter().take(count)
}

/// Latin, Greek and Cyrillic, whose letters are found without their diacritics.
fn is_european(character: char) -> bool {
    character.is_ascii()
        || matches!(u32::from(character),
            0x00aa..=0x02af | 0x0370..=0x052f | 0x1d00..=0x1dbf | 0x1e00..=0x1fff | 0x2126..=0x212b | 0x2c60..=0x2c7f
            | 0xa720..=0xa7ff | 0xfb00..=0xfb06 | 0xff21..=0xff3a | 0xff41..=0xff5a)
}

/// Letters that no decomposition makes plain, though people type them so.
fn plain_letters(character: char) -> Option<&'static str> {
    Some(match character {
        'ß' => "ss",
        'æ' => "ae",
        'œ' => "oe",
        'ø' => "o",
        'đ' | 'ð' => "d",
        'ł' => "l",
        'ı' => "i",
        'ſ' => "s",
        'ς' => "σ",
        _ => return None,
    })
}

/// Whether a text with this character may hold a plain word, or a word of a dense script, that its bytes do not show.
pub(super) fn hides(character: char) -> bool {
    if character.is_ascii() {
        return false;
    }
    if matches!(class(character), Class::Mark | Class::Ignored) || attaches(character) || is_jamo(character) {
        return true;
    }
    let mut folded = String::new();
    fold(character.encode_utf8(&mut [0; 4]), &mut folded);
    let is_itself = folded.chars().eq([character]);
    !is_itself && folded.chars().any(|c| class(c) == Class::Dense || (c.is_ascii() && class(c) == Class::Word))
}

fn is_jamo(character: char) -> bool {
    matches!(u32::from(character), 0x1100..=0x11ff | 0xa960..=0xa97c | 0xd7b0..=0xd7fb)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(text: &str) -> String {
        let (mut out, mut rest) = (String::new(), text);
        while !rest.is_empty() {
            let (first, behind) = rest.split_at(cluster(rest));
            fold(first, &mut out);
            rest = behind;
        }
        out
    }

    #[test]
    fn european_letters_lose_case_width_and_diacritics() {
        for (text, want) in [
            ("Crème BRÛLÉE", "creme brulee"),
            ("cafe\u{301}", "cafe"),
            ("Straße Ærø Łódź İstanbul ısı", "strasse aero lodz istanbul isi"),
            ("Ａｂｃ１２３＿", "abc123_"),
            ("Ёлка Άλφα ΣΟΦΟΣ σοφός", "елка αλφα σοφοσ σοφοσ"),
            ("ﬁle \u{212a}elvin", "file kelvin"),
            ("ses\u{ad}sion", "session"),
        ] {
            assert_eq!(folded(text), want);
        }
    }

    #[test]
    fn marks_of_other_scripts_stay() {
        assert_eq!(folded("ガ"), "ガ");
        assert_eq!(folded("カ\u{3099}"), "ガ");
        assert_eq!(folded("ｶﾞｷﾞ"), "ガギ");
        assert_eq!(folded("한글"), "한글");
        assert_eq!(folded("\u{1112}\u{1161}\u{11ab}\u{1100}\u{1173}\u{11af}"), "한글");
        assert_eq!(folded("हिन्दी"), "हिन्दी");
    }

    #[test]
    fn what_hides_a_plain_word_is_known() {
        for character in ['é', 'Ａ', 'ﬁ', '\u{301}', '\u{ad}', '\u{200d}', 'ｶ', '\u{1112}', '\u{212a}', 'ſ', '\u{f900}']
        {
            assert!(hides(character), "{character:?}");
        }
        for character in ['日', 'が', '한', '，', '。', '“', 'ж', 'é'.to_ascii_lowercase(), '→', '😀'] {
            assert_eq!(hides(character), character == 'é', "{character:?}");
        }
    }
}
