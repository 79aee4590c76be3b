//! What fills the context window: the gauge's number, taken apart.
//!
//! The gauge knows how much there is in all; here each record is estimated for itself, part by part, and the estimates are scaled so that
//! they add up to the gauge's number exactly. They are shares of something measured, not measurements. A pure fold over the records that
//! would be sent; it must not know who asks, or how large a window is.

use unforget_core::history::Path;
use unforget_core::record::{Body, Record};
use unforget_core::{json, tokens};

use crate::gauge::{self, Gauge};

/// How many of the largest records are told.
const LARGEST: usize = 10;
/// How many parts there are.
const PARTS: usize = Part::ALL.len();

/// What a part of a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The system prompt.
    System,
    /// What tools there are.
    Tools,
    /// Words of the user.
    User,
    /// Words of the model.
    Assistant,
    /// What the model thought.
    Thinking,
    /// Calls of tools.
    Calls,
    /// What tools gave back.
    Results,
    /// Images and documents, wherever they are.
    Images,
    /// A summary of what is not sent any more.
    Summary,
}

impl Part {
    /// All of them, in the order in which they are told.
    pub const ALL: [Part; 9] = [
        Part::System,
        Part::Tools,
        Part::User,
        Part::Assistant,
        Part::Thinking,
        Part::Calls,
        Part::Results,
        Part::Images,
        Part::Summary,
    ];

    /// A short, stable name for machines.
    pub fn name(self) -> &'static str {
        match self {
            Part::System => "system",
            Part::Tools => "tools",
            Part::User => "user",
            Part::Assistant => "assistant",
            Part::Thinking => "thinking",
            Part::Calls => "calls",
            Part::Results => "results",
            Part::Images => "images",
            Part::Summary => "summary",
        }
    }
}

/// Tokens by part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Parts([u64; PARTS]);

impl Parts {
    /// How many tokens a part has.
    pub fn of(&self, part: Part) -> u64 {
        self.0[part as usize]
    }

    /// How many there are in all.
    pub fn total(&self) -> u64 {
        self.0.iter().copied().fold(0, u64::saturating_add)
    }

    fn one(part: Part, tokens: u64) -> Self {
        let mut parts = Self::default();
        parts.0[part as usize] = tokens;
        parts
    }

    fn add(&mut self, other: &Self) {
        for (sum, more) in self.0.iter_mut().zip(other.0) {
            *sum = sum.saturating_add(more);
        }
    }

    /// The same parts in the same proportions, with so many tokens in all. What nothing is known about is system prompt.
    fn scaled_to(&self, total: u64) -> Self {
        let sum: u128 = self.0.iter().map(|tokens| u128::from(*tokens)).sum();
        if sum == 0 {
            return Self::one(Part::System, total);
        }
        let share =
            |tokens: u64| (u128::from(tokens) * u128::from(total) / sum, u128::from(tokens) * u128::from(total) % sum);
        let mut scaled = Self(self.0.map(|tokens| u64::try_from(share(tokens).0).unwrap_or(u64::MAX)));
        // What rounding left goes to those who lost most by it.
        let mut order: Vec<usize> = (0..PARTS).collect();
        order.sort_by_key(|at| std::cmp::Reverse(share(self.0[*at]).1));
        let left = usize::try_from(total.saturating_sub(scaled.total())).unwrap_or(0);
        for at in order.into_iter().take(left) {
            scaled.0[at] += 1;
        }
        scaled
    }
}

/// A record that takes much of the window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Large {
    /// The record.
    pub n: u64,
    /// Its type.
    pub kind: String,
    /// Its share of the window.
    pub tokens: u64,
    /// The tool that was called.
    pub name: Option<String>,
}

/// What fills the window.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fill {
    /// Its parts; they add up to the gauge's number.
    pub parts: Parts,
    /// The largest records, the largest first.
    pub largest: Vec<Large>,
}

impl Fill {
    /// Takes apart what the gauge of the same conversation says.
    pub fn of(path: &Path<'_, '_>, gauge: &Gauge) -> Self {
        let mut said = Parts::default();
        let mut context: Option<(&Record<'_>, Parts)> = None;
        let mut sizes: Vec<(u64, &Record<'_>)> = Vec::new();
        for record in &path.records {
            if let Body::Context { system, tools, .. } = &record.body {
                let estimate = |raw: &Option<&str>| raw.map_or(0, |raw| tokens::estimate(raw.as_bytes()));
                let mut parts = Parts::one(Part::System, estimate(system));
                parts.add(&Parts::one(Part::Tools, estimate(tools)));
                // A later one replaces it.
                context = Some((record, parts));
                continue;
            }
            let cost = gauge::cost(record, &path.trims, path.thinking_from);
            if cost > 0 {
                said.add(&parts_of(record).scaled_to(cost));
                sizes.push((cost, record));
            }
        }
        if let Some((record, parts)) = context {
            said.add(&parts);
            sizes.push((parts.total(), record));
        }
        let all = u128::from(said.total().max(1));
        let share = |cost: u64| u64::try_from(u128::from(cost) * u128::from(gauge.tokens) / all).unwrap_or(u64::MAX);
        sizes.sort_by_key(|(cost, record)| (std::cmp::Reverse(*cost), record.n));
        let largest = sizes.iter().take(LARGEST).filter(|(cost, _)| *cost > 0).map(|(cost, record)| Large {
            n: record.n,
            kind: record.kind().to_owned(),
            tokens: share(*cost),
            name: tool_of(record, path),
        });
        Self { parts: said.scaled_to(gauge.tokens), largest: largest.collect() }
    }
}

/// The tool that a record calls or has the result of.
fn tool_of(record: &Record<'_>, path: &Path<'_, '_>) -> Option<String> {
    let result = match &record.body {
        Body::ToolUse(call) => return Some(call.name.clone().into_owned()),
        Body::ToolResult(result) => result,
        _ => return None,
    };
    path.records.iter().find_map(|record| match &record.body {
        Body::ToolUse(call) if call.id == result.id => Some(call.name.clone().into_owned()),
        _ => None,
    })
}

/// In which proportions a record belongs to which parts.
fn parts_of(record: &Record<'_>) -> Parts {
    match &record.body {
        Body::User { content } => parts_of_content(content, Part::User),
        Body::Assistant { content, .. } => parts_of_content(content, Part::Assistant),
        Body::ToolUse(_) => Parts::one(Part::Calls, 1),
        Body::ToolResult(result) => parts_of_content(result.content, Part::Results),
        Body::Compaction { .. } => Parts::one(Part::Summary, 1),
        _ => Parts::default(),
    }
}

/// The parts of content; what is nothing else is `words`.
fn parts_of_content(raw: &str, words: Part) -> Parts {
    let Some(blocks) = json::elements(raw) else { return Parts::one(words, 1) };
    let mut parts = Parts::default();
    for block in blocks {
        let members = json::members(block).unwrap_or_default();
        let kind = json::member(&members, "type").and_then(json::string).unwrap_or_default();
        let part = match kind.as_ref() {
            "image" | "document" => Part::Images,
            "thinking" | "redacted_thinking" => Part::Thinking,
            "tool_use" | "server_tool_use" | "mcp_tool_use" => Part::Calls,
            "tool_result" => {
                let inner = json::member(&members, "content").unwrap_or("\"\"");
                parts.add(&parts_of_content(inner, Part::Results).scaled_to(tokens::of_content(inner).max(1)));
                continue;
            }
            other if other.ends_with("_tool_result") => Part::Results,
            _ => words,
        };
        parts.add(&Parts::one(part, tokens::of_block(block).max(1)));
    }
    if parts.total() == 0 { Parts::one(words, 1) } else { parts }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use unforget_core::history::path;
    use unforget_core::record::{Draft, Envelope};
    use unforget_core::scan::scan;

    use super::*;

    /// The head of a picture of 1000 by 600 pixels, which is 800 tokens.
    const PICTURE: &str = "iVBORw0KGgoAAAANSUhEUgAAA+gAAAJYCAIAAAB+fFty";

    fn fill(drafts: &[Draft]) -> (Fill, Gauge) {
        let lines = drafts
            .iter()
            .zip(1..)
            .map(|(draft, n)| draft.encode(Envelope { n, parent: Some(n - 1), now_ms: 0, previous_crc: 0 }, &[]));
        let bytes = lines.collect::<String>();
        let scanned = scan(bytes.as_bytes());
        let path = path(&scanned.records);
        let gauge = Gauge::of(&path, "m");
        (Fill::of(&path, &gauge), gauge)
    }

    fn named(fill: &Fill) -> Vec<(&'static str, u64)> {
        Part::ALL.into_iter().map(|part| (part.name(), fill.parts.of(part))).filter(|(_, tokens)| *tokens > 0).collect()
    }

    #[test]
    fn every_word_is_in_its_part_and_the_parts_are_the_whole() {
        let image =
            format!(r#"{{"type":"image","source":{{"type":"base64","media_type":"image/png","data":"{PICTURE}"}}}}"#);
        let (fill, gauge) = fill(&[
            Draft::new("context").text("system", &"be kind ".repeat(50)).raw("tools", r#"[{"name":"bash"}]"#),
            Draft::user("a question"),
            Draft::assistant(Some("m1"), r#"[{"type":"thinking","thinking":"some thoughts of mine","signature":"x"}]"#),
            Draft::assistant(Some("m1"), r#"[{"type":"text","text":"an answer"}]"#),
            Draft::tool_use(Some("m1"), "toolu_1", "bash", r#"{"command":"ls"}"#),
            Draft::tool_result("toolu_1", &format!("[{{\"type\":\"text\",\"text\":\"files\"}},{image}]")),
        ]);
        assert_eq!(fill.parts.total(), gauge.tokens);
        let names: Vec<&str> = named(&fill).iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["system", "tools", "user", "assistant", "thinking", "calls", "results", "images"]);
        assert!(fill.parts.of(Part::Images) > 700 && fill.parts.of(Part::Results) < 50, "{:?}", fill.parts);
        assert_eq!(
            fill.largest[0],
            Large {
                n: 6,
                kind: "tool_result".to_owned(),
                tokens: fill.largest[0].tokens,
                name: Some("bash".to_owned())
            }
        );
        assert_eq!((fill.largest[1].n, fill.largest[1].kind.as_str()), (1, "context"));
        assert_eq!(fill.largest.len(), 6);
    }

    #[test]
    fn parts_are_shares_of_what_was_measured() {
        let usage = r#"{"input_tokens":70000,"output_tokens":7}"#;
        let (fill, gauge) = fill(&[
            Draft::user(&"words ".repeat(300)),
            Draft::assistant(None, &format!("\"{}\"", "words ".repeat(100))),
            Draft::turn("done").text("model", "m").raw("usage", usage),
        ]);
        assert_eq!((gauge.measured, fill.parts.total()), (70_007, 70_007));
        let (user, assistant) = (fill.parts.of(Part::User), fill.parts.of(Part::Assistant));
        assert!(user > assistant * 2 && user < assistant * 4, "{user} {assistant}");
        assert!(fill.largest.iter().map(|large| large.tokens).sum::<u64>() <= 70_007);
    }

    #[test]
    fn a_summary_and_what_is_shortened_or_replaced_count_for_what_is_left() {
        let long = "x ".repeat(40_000);
        let (fill, gauge) = fill(&[
            Draft::new("context").text("system", &long),
            Draft::user("old words"),
            Draft::compaction("in short", Some(4)),
            Draft::new("context").text("system", "short"),
            Draft::tool_use(None, "toolu_1", "bash", "{}"),
            Draft::tool_result("toolu_1", &format!("\"{long}\"")),
            Draft::trim(&[6], 100),
        ]);
        assert_eq!(fill.parts.total(), gauge.tokens);
        assert!(gauge.tokens < 200, "{gauge:?}");
        assert!(fill.parts.of(Part::Summary) > 0 && fill.parts.of(Part::User) == 0, "{:?}", fill.parts);
    }

    #[test]
    fn nothing_fills_nothing_and_only_ten_are_told() {
        assert_eq!(fill(&[]).0, Fill::default());
        let (fill, _) = fill(&(0..20).map(|n| Draft::user(&"word ".repeat(n + 1))).collect::<Vec<_>>());
        assert_eq!(fill.largest.iter().map(|large| large.n).collect::<Vec<_>>(), (11..=20).rev().collect::<Vec<_>>());
    }

    proptest! {
        #[test]
        fn shares_add_up_and_keep_their_proportions(weights in proptest::array::uniform9(0..=u64::MAX), total in 0..=u64::MAX) {
            let scaled = Parts(weights).scaled_to(total);
            let sum = |all: [u64; PARTS]| all.into_iter().map(u128::from).sum::<u128>();
            prop_assert_eq!(sum(scaled.0), u128::from(total));
            for (weight, share) in weights.into_iter().zip(scaled.0) {
                let want = u128::from(weight) * u128::from(total) / sum(weights).max(1);
                prop_assert!(want.abs_diff(u128::from(share)) <= 1, "{} of {}", share, want);
            }
        }
    }
}
