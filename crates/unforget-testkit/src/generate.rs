//! Transcripts from a seed: ordinary ones of any size, and ones that break every rule at once.
//!
//! The same seed gives the same bytes on every machine, so a failure can be repeated from the number in its message.

use unforget_core::json;
use unforget_core::record::{Draft, Envelope, Record};

/// A small generator of numbers (xorshift64*), good enough to shuffle test data.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// A generator that always throws the same.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let thrown = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(thrown).unwrap_or(0) % limit.max(1)
    }

    /// One of several.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

const IDS: &[&str] = &["a", "b", "a", "toolu_1", "toolu_2", "x|y:z", "x_y_z", "", "a_2", "日本"];
const TEXTS: &[&str] = &[
    "\"hi\"",
    "\"\"",
    "\" \\n\"",
    "\"x\\ud83d\"",
    "\"a\\u0000b\"",
    "\"\\u001c\"",
    "\"会话 履歴\"",
    "\"\\ud83d\\ude00 ok\"",
    "\"\u{2028}\"",
    "\"\\u00a0\"",
];
const INPUTS: &[&str] = &[
    "{}",
    "{\"z\":12345678901234567890123,\"a\":1.0}",
    "\"{\\\"a\\\":1}\"",
    "\"{\\\"cut\"",
    "7",
    "null",
    "{\"a\":{\"a\":1}}",
    "[]",
];
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";

/// Bytes that are nearly a transcript: every kind of record, block and damage in every order.
pub fn soup(seed: u64, lines: usize) -> Vec<u8> {
    let mut dice = Dice::new(seed);
    let mut out = Vec::new();
    let native = dice.one_in(2);
    for n in 0..lines {
        let line = record(&mut dice, native.then_some(n));
        let mut bytes = line.into_bytes();
        match dice.below(24) {
            0 => bytes.truncate(dice.below(bytes.len())),
            1 => bytes.extend(std::iter::repeat_n(0, dice.below(20))),
            2 => {
                let at = dice.below(bytes.len());
                bytes[at] = u8::try_from(dice.below(256)).unwrap_or(0);
            }
            3 => bytes = b"[1,2]".to_vec(),
            4 => bytes.push(b'\r'),
            _ => {}
        }
        out.extend(bytes);
        if !dice.one_in(20) {
            out.push(b'\n');
        }
    }
    out
}

fn record(dice: &mut Dice, n: Option<usize>) -> String {
    let envelope = match n {
        Some(n) if dice.one_in(15) => format!("\"v\":1,\"n\":{},\"parent\":{},", dice.below(n + 2), dice.below(n + 2)),
        Some(n) if dice.one_in(40) => format!("\"v\":1,\"n\":{n},"),
        Some(n) => format!("\"v\":1,\"n\":{n},\"parent\":{},", n.saturating_sub(1)),
        None => String::new(),
    };
    let (id, text, msg) = (json::quote(dice.pick(IDS)), dice.pick(TEXTS), dice.below(3));
    let body = match dice.below(14) {
        0..=2 => format!("\"type\":\"user\",\"content\":{}", content(dice, true)),
        3..=5 => format!("\"type\":\"assistant\",\"msg\":\"m{msg}\",\"content\":{}", content(dice, false)),
        6..=7 => format!("\"type\":\"tool_use\",\"tool_use_id\":{id},\"name\":\"t o\",\"input\":{}", dice.pick(INPUTS)),
        8..=9 => format!("\"type\":\"tool_result\",\"tool_use_id\":{id},\"output\":{}", result(dice)),
        10 => format!("\"type\":\"compaction\",\"summary\":{text},\"first_kept\":{}", dice.below(30)),
        11 => format!("\"type\":\"head\",\"to\":{}", dice.below(30)),
        12 => {
            let tools = dice.pick(&["[]", "[{\"type\":\"web_search_20250305\",\"name\":\"web_search\"}]"]);
            format!("\"type\":\"context\",\"system\":\"be kind\",\"tools\":{tools}")
        }
        _ => format!("\"type\":\"turn\",\"state\":\"done\",\"content\":{text}"),
    };
    format!("{{{envelope}{body}}}")
}

fn content(dice: &mut Dice, user: bool) -> String {
    if dice.one_in(3) {
        return dice.pick(TEXTS).to_owned();
    }
    let count = dice.below(4);
    let blocks: Vec<String> = (0..count).map(|_| block(dice, user)).collect();
    format!("[{}]", blocks.join(","))
}

fn block(dice: &mut Dice, user: bool) -> String {
    let (id, text) = (json::quote(dice.pick(IDS)), dice.pick(TEXTS));
    // Now and then a block stands where it must not.
    let user = user ^ dice.one_in(12);
    match (dice.below(9), user) {
        (0..=2, _) => format!("{{\"type\":\"text\",\"text\":{text}}}"),
        (3, true) => format!("{{\"type\":\"tool_result\",\"tool_use_id\":{id},\"content\":{}}}", result(dice)),
        (4, true) => image(dice),
        (5, _) => {
            format!("{{\"type\":\"text\",\"text\":{text},\"cache_control\":{{\"type\":\"ephemeral\"}},\"odd\":1}}")
        }
        (3, false) => format!("{{\"type\":\"tool_use\",\"id\":{id},\"name\":\"t\",\"input\":{}}}", dice.pick(INPUTS)),
        (4, false) => "{\"type\":\"thinking\",\"thinking\":\"hm\",\"signature\":\"S\"}".to_owned(),
        (6, false) => {
            "{\"type\":\"server_tool_use\",\"id\":\"srvtoolu_1\",\"name\":\"web_search\",\"input\":{}}".to_owned()
        }
        (7, false) => "{\"type\":\"web_search_tool_result\",\"tool_use_id\":\"srvtoolu_1\",\"content\":[]}".to_owned(),
        (6, true) => "{\"type\":\"document\",\"source\":{\"type\":\"text\",\"data\":\"d\"}}".to_owned(),
        (8, _) => "{\"type\":\"thinking\",\"thinking\":\"no signature\"}".to_owned(),
        _ => "{\"type\":\"newfangled\"}".to_owned(),
    }
}

fn image(dice: &mut Dice) -> String {
    let media = dice.pick(&["image/png", "image/png", "image/tiff"]);
    format!("{{\"type\":\"image\",\"source\":{{\"type\":\"base64\",\"media_type\":\"{media}\",\"data\":\"{PNG}\"}}}}")
}

fn result(dice: &mut Dice) -> String {
    match dice.below(5) {
        0 => format!("[{}]", block(dice, true)),
        1 => "{\"rows\":[1,2]}".to_owned(),
        2 => image(dice),
        _ => dice.pick(TEXTS).to_owned(),
    }
}

const WORDS: &[&str] = &[
    "session",
    "transcript",
    "resume",
    "the",
    "compaction",
    "error",
    "of",
    "a",
    "disk",
    "会话",
    "履歴",
    "復元",
    "세션",
    "fn main()",
    "let mut log = Log::open(path)?;",
    "{\"key\": \"value\"}",
    "durable",
    "append",
    "and",
    "to",
];

/// A few words, some of them code, some of them Chinese, Japanese or Korean.
pub fn prose(dice: &mut Dice, words: usize) -> String {
    (0..words).map(|_| dice.pick(WORDS)).collect::<Vec<_>>().join(" ")
}

/// The records of one ordinary turn: the user's words, a call, its result, an answer, the end.
pub fn turn(dice: &mut Dice, number: usize) -> Vec<Draft> {
    let msg = format!("msg_{number}");
    let id = format!("toolu_{number}");
    // Sizes have a long tail, as in life: most results are small, a few are large.
    let size = if dice.one_in(20) { 800 } else { 10 + dice.below(120) };
    let (words, answer) = (10 + dice.below(20), 20 + dice.below(60));
    let said = format!("[{{\"type\":\"text\",\"text\":{}}}]", json::quote(&prose(dice, 8)));
    let answer = format!("[{{\"type\":\"text\",\"text\":{}}}]", json::quote(&prose(dice, answer)));
    vec![
        Draft::user(&prose(dice, words)),
        Draft::assistant(Some(&msg), &said),
        Draft::tool_use(Some(&msg), &id, "read_file", "{\"path\":\"src/main.rs\"}"),
        Draft::tool_result(&id, &json::quote(&prose(dice, size))),
        Draft::assistant(Some(&format!("{msg}b")), &answer),
        Draft::turn("done").raw("usage", "{\"input_tokens\":1200,\"output_tokens\":300}"),
    ]
}

/// A native transcript of about `bytes` bytes.
pub fn transcript(seed: u64, id: &str, bytes: usize) -> Vec<u8> {
    let mut dice = Dice::new(seed);
    let header = Draft::new("session").text("id", id).text("key", "main:cli:user");
    let mut out = String::with_capacity(bytes + 64 * 1024);
    let mut crc = 0;
    let mut n = 0;
    let mut push = |draft: &Draft, out: &mut String| {
        let envelope = Envelope {
            n,
            parent: Some(n.saturating_sub(1)),
            now_ms: 1_767_225_600_000 + i64::try_from(n).unwrap_or(0),
            previous_crc: crc,
        };
        let line = draft.encode(envelope, &[]);
        crc = Record::parse(line.trim_end(), 0, n).ok().and_then(|record| record.crc).unwrap_or(0);
        n += 1;
        out.push_str(&line);
    };
    push(&header, &mut out);
    let mut number = 0;
    while out.len() < bytes {
        for draft in turn(&mut dice, number) {
            push(&draft, &mut out);
        }
        number += 1;
    }
    out.into_bytes()
}
