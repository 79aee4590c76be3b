//! A year of conversations from a seed: as many sessions and bytes as wanted, in the store's own lines.
//!
//! [`generate`](crate::generate) makes what breaks rules; this makes what a store looks like after a year of ordinary use, so that
//! a measurement meets ordinary data: prose, code, JSON results, Chinese, Japanese and Korean, sizes with a long tail,
//! several agents and channels, titles and labels. A few [`NEEDLES`] are in a known number of sessions, so that whoever
//! searches can be checked and not only timed.
//!
//! It knows lines and no files. The same plan gives the same bytes on every machine, session by session, so sessions can be
//! made in any order and by several threads.

use unforget_core::json;
use unforget_core::record::{Draft, Envelope};

use crate::generate::Dice;

/// Words that are in one of so many sessions each, and nowhere else.
pub const NEEDLES: [(&str, usize); 5] =
    [("quernstone", 1000), ("drain_spool_gently", 100), ("罗盘", 500), ("羅針盤の", 500), ("나침반", 500)];
/// A word that is in no session.
pub const ABSENT: &str = "unquernstoned";

/// 2025-01-01T00:00:00Z, when the year begins.
const BEGIN_MS: u64 = 1_735_689_600_000;
const YEAR_MS: u64 = 365 * 24 * 60 * 60 * 1000;
/// Time between two records.
const STEP_MS: u64 = 7_000;
const AGENTS: &[&str] = &["main", "main", "work", "research", "operations"];
const CHANNELS: &[&str] = &["cli", "cli", "telegram", "slack", "web"];
/// Of a thousand sessions so many have so many tenths of the average size.
const SIZES: [(usize, u64); 5] = [(600, 3), (850, 8), (950, 20), (990, 60), (1000, 180)];
/// A session has at least so many bytes.
const LEAST_BYTES: u64 = 1_500;
const VOCABULARY: usize = 30_000;
const COMMON: &[&str] = &[
    "the", "of", "to", "and", "a", "in", "is", "that", "it", "for", "session", "file", "with", "not", "this", "error",
    "test", "from", "when", "was", "server", "we", "request", "should", "be", "line", "token", "index", "disk",
    "resume",
];
const SYLLABLES: &[&str] = &[
    "ba", "cor", "de", "fin", "gra", "hol", "in", "ka", "lor", "mo", "nex", "o", "per", "qua", "ri", "sta", "ter",
    "ul", "ver", "wen", "xi", "yo", "zan", "tion", "ment", "ing",
];
/// The first characters and how many of them are used: Chinese, hiragana, hangul.
const HAN: (u32, usize) = (0x4e00, 2_000);
const KANA: (u32, usize) = (0x3041, 82);
const HANGUL: (u32, usize) = (0xac00, 1_500);

/// How large a store is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Everything follows from it.
    pub seed: u64,
    /// How many sessions.
    pub sessions: usize,
    /// About how many bytes they have together.
    pub bytes: u64,
}

/// One session of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// Its place in time among the sessions of the plan.
    pub number: usize,
    /// Its id, a UUID of version 7.
    pub id: String,
    /// The agent in its key.
    pub agent: &'static str,
    /// Its key; two of three sessions have one that no other has.
    pub key: String,
    /// Whether no other session has the key.
    pub key_is_unique: bool,
    /// When it began.
    pub created_ms: u64,
    /// About how many bytes it has.
    pub bytes: u64,
}

impl Plan {
    /// The session with that number; later numbers began later.
    pub fn session(&self, number: usize) -> Planned {
        let mut dice = self.dice(number, 1);
        let all = self.sessions.max(1) as u64;
        let created_ms = BEGIN_MS + YEAR_MS / all * number as u64 + dice.below(1 << 20) as u64 % (YEAR_MS / all).max(1);
        let random = [dice.below(1 << 12), dice.below(1 << 12), dice.below(1 << 24), dice.below(1 << 24)];
        let id = format!(
            "{:08x}-{:04x}-7{:03x}-8{:03x}-{:06x}{:06x}",
            created_ms >> 16,
            created_ms & 0xffff,
            random[0],
            random[1],
            random[2],
            random[3]
        );
        let (agent, channel) = (dice.pick(AGENTS), dice.pick(CHANNELS));
        let key_is_unique = !dice.one_in(3);
        // The newest is the one that the program takes up when it is started without a name.
        let (agent, key) = match (number + 1 == self.sessions, key_is_unique) {
            (true, _) => ("main", "main:cli:user".to_owned()),
            (false, true) => (agent, format!("{agent}:{channel}:u{number}")),
            (false, false) => (agent, format!("{agent}:{channel}:team{}", dice.below(self.sessions / 10 + 1))),
        };
        let thrown = dice.below(1000);
        let tenths = SIZES.iter().find(|(below, _)| thrown < *below).map_or(10, |(_, tenths)| *tenths);
        let bytes = (self.bytes / all * tenths / 10).max(LEAST_BYTES);
        Planned { number, id, agent, key, key_is_unique, created_ms, bytes }
    }

    fn dice(&self, number: usize, purpose: u64) -> Dice {
        Dice::new(self.seed ^ (number as u64).wrapping_mul(0xd6e8_feb8_6659_fd93) ^ (purpose << 60))
    }

    /// How many sessions have a needle that is in one of `every`.
    pub fn with_needle(&self, every: usize) -> usize {
        (0..self.sessions).filter(|number| has_needle(*number, every)).count()
    }
}

fn has_needle(number: usize, every: usize) -> bool {
    number % every == every / 2
}

/// The words that texts are made of.
#[derive(Debug, Clone)]
pub struct Corpus {
    words: Vec<String>,
}

impl Default for Corpus {
    fn default() -> Self {
        let mut dice = Dice::new(20_250_101);
        let mut words: Vec<String> = COMMON.iter().map(|word| (*word).to_owned()).collect();
        while words.len() < VOCABULARY {
            words.push((0..2 + dice.below(3)).map(|_| dice.pick(SYLLABLES)).collect());
        }
        Self { words }
    }
}

/// Lines one after the other, each numbered and chained to the one before it.
#[derive(Debug)]
struct Chain {
    next: u64,
    head: u64,
    crc: u32,
    begun_ms: u64,
    out: String,
}

impl Chain {
    fn push(&mut self, draft: &Draft) {
        let now_ms = i64::try_from(self.begun_ms + self.next * STEP_MS).unwrap_or(i64::MAX);
        let parent = (self.next > 0).then_some(self.head);
        let line = draft.encode(Envelope { n: self.next, parent, now_ms, previous_crc: self.crc }, &[]);
        // `…,"crc":"1a2b3c4d"}` and a line feed.
        let digits = line.len().checked_sub(11).and_then(|at| line.get(at..at + 8));
        self.crc = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()).unwrap_or(0);
        if draft.is_step() || self.next == 0 {
            self.head = self.next;
        }
        self.next += 1;
        self.out.push_str(&line);
    }
}

/// When the lines of a session end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    Bytes(u64),
    Records(u64),
}

impl Corpus {
    /// The lines of a session.
    pub fn session(&self, plan: &Plan, planned: &Planned) -> String {
        self.lines(plan, planned, Until::Bytes(planned.bytes))
    }

    /// The lines of a session of so many records, whatever their bytes: 1.16 kB each on average.
    pub fn long_session(&self, plan: &Plan, planned: &Planned, records: u64) -> String {
        self.lines(plan, planned, Until::Records(records))
    }

    fn lines(&self, plan: &Plan, planned: &Planned, until: Until) -> String {
        let mut dice = plan.dice(planned.number, 2);
        let mut chain = Chain { next: 0, head: 0, crc: 0, begun_ms: planned.created_ms, out: String::new() };
        chain.push(&Draft::new("session").text("id", &planned.id).text("key", &planned.key));
        for turn in 0.. {
            let room = match until {
                Until::Bytes(bytes) => bytes.saturating_sub(chain.out.len() as u64),
                Until::Records(records) => (records.saturating_sub(chain.next)).saturating_mul(1 << 20),
            };
            if room == 0 {
                break;
            }
            let mut drafts = self.turn(&mut dice, turn, usize::try_from(room).unwrap_or(usize::MAX));
            if let (0, Some(first)) = (turn, drafts.first_mut()) {
                *first = Draft::user(&self.opening(&mut dice, planned.number));
            }
            drafts.iter().for_each(|draft| chain.push(draft));
            if turn == 0 && dice.one_in(2) {
                chain.push(&Draft::title(self.prose(&mut dice, 30).trim_end_matches('.')).text("by", "model"));
            }
            if turn == 0 && dice.one_in(50) {
                chain.push(&Draft::label(None, self.word(&mut dice)));
            }
        }
        chain.out
    }

    /// The first words of a session, with its needles.
    fn opening(&self, dice: &mut Dice, number: usize) -> String {
        let mut text = self.text(dice, 200);
        for (needle, every) in NEEDLES {
            if has_needle(number, every) {
                text.push_str(&format!(" {needle} "));
            }
        }
        text
    }

    /// The records of one turn in about that much room: the user's words, a call, its result, an answer, the end.
    pub fn turn(&self, dice: &mut Dice, number: usize, room: usize) -> Vec<Draft> {
        let (msg, id) = (format!("msg_{number}"), format!("toolu_{number}"));
        let result = match dice.below(100) {
            0..50 => 300 + dice.below(1_200),
            50..85 => 2_000 + dice.below(3_000),
            85..98 => 5_000 + dice.below(10_000),
            _ => 30_000 + dice.below(50_000),
        };
        let (words, answer) = (60 + dice.below(340), 300 + dice.below(2_200));
        let fit = |size: usize, share: usize| size.min(room / share).max(40);
        let block = |text: &str| format!("[{{\"type\":\"text\",\"text\":{}}}]", json::quote(text));
        let input = format!("{{\"path\":{},\"limit\":{}}}", json::quote(&self.path(dice)), dice.below(2_000));
        vec![
            Draft::user(&self.text(dice, fit(words, 8))),
            Draft::assistant(Some(&msg), &block(&self.prose(dice, 60))),
            Draft::tool_use(Some(&msg), &id, "read_file", &input),
            Draft::tool_result(&id, &self.output(dice, fit(result, 2))),
            Draft::assistant(Some(&format!("{msg}b")), &block(&self.text(dice, fit(answer, 4)))),
            Draft::turn("done").text("model", "claude-sonnet-4-5").raw("usage", &usage(dice)),
        ]
    }

    /// What a tool gave back, as JSON text: code, log lines, or an object.
    fn output(&self, dice: &mut Dice, bytes: usize) -> String {
        match dice.below(3) {
            0 => json::quote(&self.code(dice, bytes)),
            1 => json::quote(&self.text(dice, bytes)),
            _ => {
                let mut rows = String::with_capacity(bytes + 128);
                while rows.len() < bytes {
                    let (comma, word, path) =
                        (if rows.is_empty() { "" } else { "," }, self.word(dice), self.path(dice));
                    rows.push_str(&format!(
                        "{comma}{{\"name\":\"{word}\",\"path\":\"{path}\",\"size\":{}}}",
                        dice.below(99_999)
                    ));
                }
                format!("{{\"ok\":true,\"rows\":[{rows}]}}")
            }
        }
    }

    /// Text in one of several languages.
    pub fn text(&self, dice: &mut Dice, bytes: usize) -> String {
        match dice.below(10) {
            0 => script(dice, bytes, &[HAN], "，"),
            1 => script(dice, bytes, &[KANA, KANA, HAN], "、"),
            2 => script(dice, bytes, &[HANGUL], " "),
            3 => self.code(dice, bytes),
            _ => self.prose(dice, bytes),
        }
    }

    fn prose(&self, dice: &mut Dice, bytes: usize) -> String {
        let mut out = String::with_capacity(bytes + 32);
        while out.len() < bytes {
            out.push_str(self.word(dice));
            out.push_str(if dice.one_in(12) { ". " } else { " " });
        }
        out
    }

    fn code(&self, dice: &mut Dice, bytes: usize) -> String {
        let mut out = String::with_capacity(bytes + 128);
        while out.len() < bytes {
            let (name, call, value) = (self.identifier(dice), self.identifier(dice), self.word(dice));
            out.push_str(&format!("    let {name} = {call}(&{value}, {})?;\n", dice.below(4096)));
        }
        out
    }

    fn identifier(&self, dice: &mut Dice) -> String {
        format!("{}_{}", self.word(dice), self.word(dice))
    }

    fn path(&self, dice: &mut Dice) -> String {
        format!("src/{}/{}.rs", self.word(dice), self.word(dice))
    }

    /// A word; the first ones of the vocabulary are by far the most frequent.
    fn word(&self, dice: &mut Dice) -> &str {
        self.words.get(skewed(dice, self.words.len())).map_or("a", String::as_str)
    }
}

/// A number below `limit`, small ones more often.
fn skewed(dice: &mut Dice, limit: usize) -> usize {
    let thrown = dice.below(1 << 16);
    (((thrown * thrown * thrown) >> 32) * limit) >> 16
}

/// Words of two or three characters of some scripts.
fn script(dice: &mut Dice, bytes: usize, from: &[(u32, usize)], between: &str) -> String {
    let mut out = String::with_capacity(bytes + 32);
    while out.len() < bytes {
        for _ in 0..4 + dice.below(8) {
            let (first, count) = dice.pick(from);
            let offset = u32::try_from(skewed(dice, count)).unwrap_or(0);
            out.extend(char::from_u32(first + offset));
        }
        out.push_str(between);
    }
    out
}

fn usage(dice: &mut Dice) -> String {
    format!(
        "{{\"input_tokens\":{},\"cache_creation_input_tokens\":{},\"cache_read_input_tokens\":{},\"output_tokens\":{}}}",
        dice.below(4_000),
        dice.below(8_000),
        dice.below(150_000),
        dice.below(2_000)
    )
}

#[cfg(test)]
mod tests {
    use unforget_core::history::{Limits, rebuild_all};
    use unforget_core::report::Report;
    use unforget_core::scan::scan;

    use super::*;

    const PLAN: Plan = Plan { seed: 1, sessions: 2_000, bytes: 20_000_000 };

    #[test]
    fn a_session_is_a_clean_transcript_that_the_api_accepts() {
        let corpus = Corpus::default();
        for number in [0, 50, 250, 500, 1_999] {
            let text = corpus.session(&PLAN, &PLAN.session(number));
            let scanned = scan(text.as_bytes());
            assert_eq!(scanned.report, Report::default(), "session {number}");
            let history = rebuild_all(&scanned.records, &Limits::default());
            assert!(history.repairs.is_empty(), "session {number}: {:?}", history.repairs);
        }
    }

    #[test]
    fn the_same_plan_gives_the_same_bytes() {
        let made = || Corpus::default().session(&PLAN, &PLAN.session(7));
        assert_eq!(made(), made());
        let other = Plan { seed: 2, ..PLAN };
        assert_ne!(made(), Corpus::default().session(&other, &other.session(7)));
    }

    #[test]
    fn needles_are_in_as_many_sessions_as_planned_and_sizes_add_up() {
        let corpus = Corpus::default();
        let texts: Vec<String> =
            (0..PLAN.sessions).map(|number| corpus.session(&PLAN, &PLAN.session(number))).collect();
        for (needle, every) in NEEDLES {
            let found = texts.iter().filter(|text| text.contains(needle)).count();
            assert_eq!(found, PLAN.with_needle(every), "{needle}");
        }
        assert!(texts.iter().all(|text| !text.contains(ABSENT)));
        let bytes: usize = texts.iter().map(String::len).sum();
        assert!((15_000_000..30_000_000).contains(&bytes), "{bytes} bytes");
    }

    #[test]
    fn a_long_session_has_its_records_and_their_average_size() {
        let plan = Plan { seed: 1, sessions: 1, bytes: 0 };
        let text = Corpus::default().long_session(&plan, &plan.session(0), 10_000);
        let (lines, bytes) = (text.lines().count(), text.len());
        assert!((10_000..10_010).contains(&lines), "{lines} lines");
        assert!((10_500_000..12_700_000).contains(&bytes), "{bytes} bytes");
    }
}
