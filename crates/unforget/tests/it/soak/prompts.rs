//! What is said in the long session: words of several languages, pasted text, and directives of the fake server.
//!
//! Every prompt begins with a marker and every command writes a token into the file `ran`, both used once, so that what was
//! said and what was run can be counted.

use unforget_testkit::generate::Dice;

const SENTENCES: &[&str] = &[
    "The deploy of last night failed in the second region, and nobody was paged.",
    "Bitte fasse zusammen, was wir über die Übergabe der Schlüssel beschlossen haben.",
    "再起動してもコンテキストを失わない。それが本当に使えるエージェントだ。",
    "重启不丢上下文, 才是真正可用的 agent.",
    "재시작해도 대화를 잊지 않는 에이전트를 만들고 있습니다.",
    "Почему журнал вырос вдвое за одну ночь?",
    "let total = rows.iter().map(|row| row.bytes).sum::<u64>(); // see src/store/list.rs:42",
    "{\"host\":\"db-3.internal\",\"port\":5432,\"retries\":[1,2,5],\"ok\":false}",
    "🦀 ça marche, naïveté comprise; see https://example.org/a/b?c=1.",
];
/// Stays until the program that started it is gone, for a minute at most.
const WAIT: &str = "for i in {1..3000}; do if ! kill -0 $PPID 2>/dev/null; then break; fi; sleep 0.02; done";

/// Makes prompts and remembers them.
#[derive(Debug, Default)]
pub(super) struct Prompts {
    pub(super) said: Vec<String>,
    tokens: usize,
}

impl Prompts {
    /// A prompt of any kind, or a command of the chat; one line.
    pub(super) fn line(&mut self, dice: &mut Dice) -> String {
        // A command that waits to be killed is not to be tried again.
        let is_calm = self.said.last().is_some_and(|said| !said.contains("running"));
        if dice.one_in(60) && is_calm {
            return dice.pick(&["/retry", "/compact", "/undo-compact", "/context"]).to_owned();
        }
        let text = match dice.below(14) {
            0 | 1 => words(dice, 3),
            2 => words(dice, 40),
            3 => format!("[[long:{}]]", 20 + dice.below(400)),
            4 | 5 => format!("[[bash:{}; echo ok]]", self.run()),
            6 => format!("[[parallel:{}||{}; seq 200||{}; false]]", self.run(), self.run(), self.run()),
            7 | 8 => format!("[[chain:{}|{}; date]]", 1 + dice.below(4), self.run()),
            9 => format!("{} [[think]] [[bash:{}; pwd]]", words(dice, 2), self.run()),
            10 => format!("[[think]] {}", words(dice, 2)),
            11 => format!("[[bash:{}; seq {}]]", self.run(), 500 + dice.below(3000)),
            12 => format!("[[write:notes/{}.txt|{}]]", dice.below(9), words(dice, 5).replace(['|', ']'], " ")),
            _ => format!("[[read:notes/{}.txt]]", dice.below(9)),
        };
        self.prompt(&text).1
    }

    /// A prompt that takes three rounds of tools: its marker and the text.
    pub(super) fn chain(&mut self, dice: &mut Dice) -> (String, String) {
        let think = if dice.one_in(3) { "[[think]] " } else { "" };
        let text = format!("{think}[[chain:3|{}; echo ok]] {}", self.run(), words(dice, 2));
        self.prompt(&text)
    }

    /// A prompt with a command that says when it runs and does not end: the command's token and the text.
    pub(super) fn waiting(&mut self, dice: &mut Dice) -> (String, String) {
        let run = self.run();
        let token = self.token();
        let wait = format!("{run}; echo {token} > running; {WAIT}");
        let text = match dice.below(3) {
            0 => format!("[[bash:{wait}]]"),
            1 => format!("[[parallel:{}||{wait}||{}]]", self.run(), self.run()),
            _ => format!("[[think]] [[parallel:{wait}||{}]]", self.run()),
        };
        (token, self.prompt(&text).1)
    }

    fn prompt(&mut self, text: &str) -> (String, String) {
        let marker = format!("turn-{:05}.", self.said.len());
        let prompt = format!("{marker} {}", text.trim());
        self.said.push(prompt.clone());
        (marker, prompt)
    }

    /// A command that leaves its token behind.
    fn run(&mut self) -> String {
        format!("echo {} >> ran", self.token())
    }

    fn token(&mut self) -> String {
        self.tokens += 1;
        format!("token-{:05}", self.tokens)
    }
}

fn words(dice: &mut Dice, most: usize) -> String {
    (0..=dice.below(most)).map(|_| dice.pick(SENTENCES)).collect::<Vec<_>>().join(" ")
}
