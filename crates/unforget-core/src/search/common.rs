//! Words that are everywhere, and what is kept of them so that phrases of nothing else are found at once.
//!
//! The index does not know the order of the words of a text: whether a text has a phrase is proved by its transcript. Two words that
//! nearly every text has would make nearly every transcript a suspect, so a pair of them that stand side by side is
//! a token of its own. Whoever asks for `of the` asks for that token, too, and is left with the texts that have it.
//!
//! The list is no judgement of a word: one that is missing costs time in a search for a phrase of frequent words, one too many costs room
//! in the index. No answer depends on it, but the index does: whoever changes the list raises the version of the index.

/// What joins a pair. It separates words, so no text has such a token.
const JOINT: char = '\u{2063}';

/// Sorted, folded as tokens are: English, the usual words of code, and the articles and the like of a few more languages.
const COMMON: &[&str] = &[
    "0", "1", "10", "2", "3", "4", "5", "a", "about", "add", "after", "all", "also", "am", "an", "and", "any", "are",
    "as", "at", "be", "because", "been", "before", "being", "but", "by", "can", "case", "check", "class", "code",
    "command", "const", "could", "da", "das", "data", "de", "def", "del", "den", "der", "des", "did", "die", "do",
    "does", "done", "du", "each", "ein", "eine", "el", "else", "en", "error", "es", "est", "et", "false", "file",
    "files", "first", "fn", "for", "from", "function", "get", "go", "good", "had", "has", "have", "he", "here", "how",
    "http", "https", "i", "id", "if", "il", "im", "import", "in", "index", "input", "int", "into", "is", "ist", "it",
    "its", "json", "just", "key", "know", "la", "las", "le", "les", "let", "like", "line", "lo", "los", "make", "may",
    "me", "mit", "more", "most", "mut", "my", "name", "need", "new", "nicht", "no", "none", "not", "now", "null", "of",
    "ok", "on", "one", "only", "or", "other", "our", "out", "output", "over", "par", "para", "path", "please", "por",
    "pour", "print", "pub", "que", "read", "result", "return", "rs", "run", "s", "same", "se", "see", "self", "set",
    "she", "should", "sie", "so", "some", "src", "still", "str", "string", "su", "such", "sure", "t", "test", "text",
    "than", "that", "the", "their", "them", "then", "there", "these", "they", "think", "this", "those", "time", "to",
    "true", "try", "two", "type", "un", "und", "une", "up", "use", "used", "user", "using", "value", "var", "very",
    "von", "want", "was", "way", "we", "well", "were", "what", "when", "where", "which", "while", "who", "why", "will",
    "with", "work", "would", "y", "yes", "you", "your", "zu",
];

fn is_common(token: &str) -> bool {
    COMMON.binary_search(&token).is_ok()
}

/// The token of two tokens that stand side by side, if there is one.
pub(super) fn pair(first: &str, second: &str) -> Option<String> {
    (is_common(first) && is_common(second)).then(|| format!("{first}{JOINT}{second}"))
}

/// Tokens, joined by single blanks, and those of their pairs.
pub(super) fn with_pairs(joined: &str) -> String {
    let mut all = joined.to_owned();
    let mut before = "";
    for token in joined.split(' ') {
        if let Some(pair) = pair(before, token) {
            all.push(' ');
            all.push_str(&pair);
        }
        before = token;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::words::Words;

    #[test]
    fn the_list_is_sorted_and_made_of_tokens() {
        assert!(COMMON.windows(2).all(|pair| pair[0] < pair[1]), "not sorted");
        for word in COMMON {
            assert_eq!(Words::of(word).joined(), *word);
        }
    }

    #[test]
    fn no_text_has_the_token_of_a_pair() {
        assert!(!Words::of(&format!("of{JOINT}the 東{JOINT}京 x_{JOINT}_y")).joined().contains(JOINT));
    }

    #[test]
    fn only_neighbours_that_are_everywhere_have_one() {
        assert_eq!(with_pairs("end of the road to a"), "end of the road to a of\u{2063}the to\u{2063}a");
        assert_eq!(with_pairs(""), "");
    }
}
