//! What people say before and after what they want: greetings, courtesies, "can you".
//!
//! One table. A phrase is taken off only where it stands as one: in scripts with blanks at the end of a word, in the others
//! unless the character behind it makes another word of it.

/// How many phrases are taken off one sentence.
const MAX_PHRASES: usize = 12;

/// What may stand before what is meant, in lower case, longer ones before shorter ones that they begin with.
const OPENING: [&str; 93] = [
    "good morning",
    "good afternoon",
    "good evening",
    "good day",
    "hello there",
    "hello everyone",
    "hello claude",
    "hello again",
    "hello",
    "hiya",
    "hi there",
    "hi everyone",
    "hi claude",
    "hi again",
    "hi",
    "hey there",
    "hey claude",
    "hey",
    "howdy",
    "greetings",
    "how are you doing today?",
    "how are you doing?",
    "how are you today?",
    "how are you?",
    "thanks in advance,",
    "thank you,",
    "thanks,",
    "excuse me",
    "sorry to bother you",
    "sorry,",
    "okay,",
    "ok,",
    "alright,",
    "well,",
    "so,",
    "hmm,",
    "um,",
    "please",
    "pls",
    "kindly",
    "quick question",
    "i have a question",
    "i was wondering if you could",
    "i wonder if you could",
    "do you think you could",
    "would you be able to",
    "would you mind",
    "would you",
    "could you",
    "can you",
    "will you",
    "are you able to",
    "i would like you to",
    "i'd like you to",
    "i want you to",
    "i need you to",
    "i would like to",
    "i'd like to",
    "i want to",
    "i need to",
    "i need your help with",
    "i need help with",
    "i need help",
    "help me to",
    "help me with",
    "help me",
    "your task is to",
    "hola",
    "buenos días",
    "por favor",
    "bonjour",
    "salut",
    "s'il vous plaît",
    "s'il te plaît",
    "hallo",
    "guten morgen",
    "guten tag",
    "moin",
    "bitte",
    "kannst du",
    "könntest du",
    "können sie",
    "ciao",
    "buongiorno",
    "per favore",
    "olá",
    "oi",
    "merhaba",
    "привет",
    "здравствуйте",
    "добрый день",
    "пожалуйста",
    "cześć",
];

/// The same in scripts without blanks, each with the characters behind which it is part of another word.
const OPENING_UNSPACED: [(&str, &str); 55] = [
    ("你好啊", ""),
    ("你好呀", ""),
    ("你好", "像多不用吗奇"),
    ("您好", "像"),
    ("大家好", "像"),
    ("早上好", ""),
    ("下午好", ""),
    ("晚上好", ""),
    ("哈喽", ""),
    ("哈啰", ""),
    ("嗨", ""),
    ("在吗", ""),
    ("谢谢你", ""),
    ("谢谢", ""),
    ("不好意思", ""),
    ("打扰一下", ""),
    ("打扰了", ""),
    ("请问一下", ""),
    ("请问", "题候"),
    ("请帮忙", ""),
    ("请帮我", "们"),
    ("请你", ""),
    ("请您", ""),
    ("请", "求假教愿柬客示问"),
    ("麻烦您", ""),
    ("麻烦你", ""),
    ("麻烦帮我", ""),
    ("能不能帮我", "们"),
    ("可不可以帮我", "们"),
    ("可以帮我", "们"),
    ("能帮我", "们"),
    ("你能不能", ""),
    ("你可不可以", ""),
    ("你可以帮我", "们"),
    ("你能帮我", "们"),
    ("帮我", "们"),
    ("我想让你", "们"),
    ("我想请你", "们"),
    ("我需要你", "们"),
    ("我要你", "们"),
    ("我希望你", "们"),
    ("こんにちは", ""),
    ("こんにちわ", ""),
    ("こんばんは", ""),
    ("おはようございます", ""),
    ("おはよう", ""),
    ("はじめまして", ""),
    ("初めまして", ""),
    ("お疲れ様です", ""),
    ("お世話になっております", ""),
    ("お世話になります", ""),
    ("すみませんが", ""),
    ("すみません", "で"),
    ("すいません", "で"),
    ("よろしくお願いします", ""),
];

/// Korean has blanks, but its phrases grow endings.
const OPENING_KOREAN: [(&str, &str); 9] = [
    ("안녕하세요", ""),
    ("안녕하십니까", ""),
    ("안녕", "히하"),
    ("반갑습니다", ""),
    ("실례합니다", ""),
    ("실례지만", ""),
    ("죄송하지만", ""),
    ("저기요", ""),
    ("감사합니다", ""),
];

/// What says nothing when nothing else is said.
const ALONE: [&str; 35] = [
    "how are you",
    "how are you doing",
    "how are you today",
    "what's up",
    "nice to meet you",
    "hope you are well",
    "hope you're well",
    "thank you",
    "thanks",
    "sorry",
    "okay",
    "ok",
    "alright",
    "yes",
    "no",
    "sure",
    "well",
    "so",
    "hmm",
    "hm",
    "continue",
    "go on",
    "test",
    "你好吗",
    "在吗",
    "好的",
    "好",
    "继续",
    "はい",
    "ありがとう",
    "ありがとうございます",
    "よろしく",
    "네",
    "예",
    "고마워",
];

/// What may stand behind what is meant.
const CLOSING: [&str; 11] = [
    "thanks in advance",
    "many thanks",
    "thank you",
    "thanks",
    "for me please",
    "please",
    "pls",
    "谢谢",
    "谢谢你",
    "ありがとうございます",
    "감사합니다",
];

/// The sentence from where it says something.
pub(super) fn without_opening(sentence: &str) -> &str {
    let mut rest = sentence;
    for _ in 0..MAX_PHRASES {
        let bare = rest.trim_start_matches(|c: char| !c.is_alphanumeric() && !is_opening_mark(c));
        let spaced = OPENING.iter().find_map(|phrase| after(bare, phrase).filter(|rest| ends_word(rest)));
        let unspaced = || {
            let table = OPENING_UNSPACED.iter().chain(&OPENING_KOREAN);
            table.into_iter().find_map(|(phrase, unless)| {
                after(bare, phrase).filter(|rest| !rest.starts_with(|c| unless.contains(c)))
            })
        };
        match spaced.or_else(unspaced) {
            Some(after) => rest = after,
            None => break,
        }
    }
    // What was not taken off keeps the marks before it: they may belong to a path.
    if rest.len() == sentence.len() { sentence } else { rest.trim_start() }
}

/// The sentence up to where it only says thanks.
pub(super) fn without_closing(sentence: &str) -> &str {
    let bare = sentence.trim_end_matches(|c: char| !c.is_alphanumeric());
    let found = CLOSING.iter().find_map(|phrase| {
        let start = bare.len().checked_sub(phrase.len())?;
        let (before, end) = (bare.get(..start)?, bare.get(start..)?);
        let stands_alone = !phrase.is_ascii() || before.ends_with([' ', ',']);
        (end.to_lowercase() == *phrase && stands_alone && before.contains(char::is_alphanumeric)).then_some(before)
    });
    found.unwrap_or(sentence)
}

/// Whether words are only a courtesy.
pub(super) fn says_nothing(words: &str) -> bool {
    let bare = words.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase().replace('’', "'");
    bare.is_empty() || ALONE.contains(&bare.as_str())
}

/// What follows a phrase, in any case.
fn after<'a>(text: &'a str, phrase: &str) -> Option<&'a str> {
    let mut rest = text.chars();
    for expected in phrase.chars() {
        let found = match rest.next()? {
            '’' => '\'',
            other => other.to_lowercase().next()?,
        };
        if found != expected {
            return None;
        }
    }
    Some(rest.as_str())
}

/// Whether a word ends before this; `well-known`, `hi.txt` and `so:long` are words of their own.
fn ends_word(rest: &str) -> bool {
    let mut characters = rest.chars();
    match (characters.next(), characters.next()) {
        (None, _) => true,
        (Some('.' | ':' | ';' | '-'), next) => next.is_none_or(char::is_whitespace),
        (Some('/' | '_' | '\'' | '’' | '`' | '=' | '(' | '@' | '\\'), _) => false,
        (Some(first), _) => !first.is_alphanumeric(),
    }
}

/// Marks that begin a path, a name in code or a quotation.
fn is_opening_mark(character: char) -> bool {
    matches!(
        character,
        '/' | '.' | '~' | '`' | '"' | '\'' | '(' | '[' | '{' | '<' | '@' | '$' | '#' | '_' | '-' | '“' | '「' | '《'
    )
}
