//! A request as the model reads it: one item after the other, each with its tokens.
//!
//! Tools come first, then the system prompt, then the blocks of the messages. Counting tokens and finding cached
//! prefixes both walk this sequence, so they cannot disagree about what belongs to a prefix. Where `cache_control`
//! stands is noted and otherwise ignored: moving a breakpoint changes neither the tokens nor the bytes of a prefix.
//!
//! The counter is a fixed function of the request, not the model's tokenizer. What tests need of it is that it is the
//! same every time, grows with the request, and differs between kinds of text as a tokenizer does: a Chinese, Japanese or
//! Korean character costs about four times what a Latin one in a word does, and random letters, as in base64, twice as
//! much as words. A client that takes every byte for the same share of a token would pass with a counter that does the same.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

/// Weights are in thousandths of a token, so that sums over parts are exact.
const THOUSANDTHS: u64 = 1000;
/// What begins a word, a number or a run of punctuation, and what goes on with it.
const FIRST_WEIGHT: u64 = 750;
const NEXT_WEIGHT: u64 = 130;
const WIDE_WEIGHT: u64 = 900;
const OTHER_WEIGHT: u64 = 500;
/// What the role of a message, or the frame around a tool, costs.
const FRAME_WEIGHT: u64 = 4 * THOUSANDTHS;
const PIXELS_OF_A_TOKEN: u64 = 750;
/// What an image costs whose pixels are not known.
const UNKNOWN_IMAGE_WEIGHT: u64 = 1600 * THOUSANDTHS;
/// What a character of an encoded document costs: its pages are not looked at.
const ENCODED_WEIGHT: u64 = 25;
/// A multiple of four that leaves room for what JPEG files carry before their dimensions.
const IMAGE_HEAD: usize = 512 * 1024;

/// One piece of a prompt.
pub(super) struct Item {
    /// What the prefix that ends here adds to the one before it.
    pub(super) text: String,
    /// In thousandths of a token.
    pub(super) weight: u64,
    /// Whether a `cache_control` stands here.
    pub(super) is_breakpoint: bool,
}

/// Counts the tokens of a request.
pub(super) fn count(body: &Value) -> u64 {
    tokens(items(body).iter().map(|item| item.weight).sum())
}

/// Rounds a weight up to whole tokens.
pub(super) fn tokens(weight: u64) -> u64 {
    weight.div_ceil(THOUSANDTHS)
}

/// Cuts a request into the pieces that the model reads, in its order.
pub(super) fn items(body: &Value) -> Vec<Item> {
    let mut items = Vec::new();
    for tool in array(body.get("tools")) {
        items.push(item("tool", tool, FRAME_WEIGHT));
    }
    match body.get("system") {
        Some(Value::Array(blocks)) => items.extend(blocks.iter().map(|block| item("system", block, 0))),
        Some(system @ Value::String(_)) => items.push(item("system", system, 0)),
        _ => {}
    }
    for (index, message) in array(body.get("messages")).iter().enumerate() {
        let label = format!("{index} {}", message.get("role").unwrap_or(&Value::Null));
        let mut frame = FRAME_WEIGHT;
        match message.get("content") {
            Some(Value::Array(blocks)) => {
                for block in blocks {
                    items.push(item(&label, block, frame));
                    frame = 0;
                }
            }
            Some(content) => items.push(item(&label, content, frame)),
            None => {}
        }
    }
    // The automatic breakpoint stands behind everything.
    if is_marked(body)
        && let Some(last) = items.last_mut()
    {
        last.is_breakpoint = true;
    }
    items
}

/// Weighs a text in thousandths of a token.
pub(super) fn weight_of_text(text: &str) -> u64 {
    weights(text).map(|(_, weight)| weight).sum()
}

/// Cuts a text to what fits into that many tokens.
pub(super) fn cut_to(text: &str, allowed: u64) -> &str {
    let mut left = allowed.saturating_mul(THOUSANDTHS);
    for (offset, weight) in weights(text) {
        if weight > left {
            return text.get(..offset).unwrap_or_default();
        }
        left -= weight;
    }
    text
}

/// The characters of a text: where each begins and what it weighs behind the one before it.
fn weights(text: &str) -> impl Iterator<Item = (usize, u64)> {
    let mut before = ' ';
    text.char_indices().map(move |(offset, character)| {
        let weight = weight_behind(before, character);
        before = character;
        (offset, weight)
    })
}

fn weight_behind(before: char, character: char) -> u64 {
    let goes_on = match character {
        ' ' => return 0,
        'a'..='z' => before.is_ascii_alphabetic(),
        'A'..='Z' => before.is_ascii_uppercase(),
        '0'..='9' => before.is_ascii_digit(),
        '\0'..='\x7f' => before.is_ascii_punctuation(),
        // From the East Asian punctuation on to the end of the ideographs, Hangul and the full-width forms.
        '\u{2e80}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}' | '\u{f900}'..='\u{faff}' | '\u{ff00}'..='\u{ffef}' => {
            return WIDE_WEIGHT;
        }
        '\u{10000}'.. => return WIDE_WEIGHT,
        _ => return OTHER_WEIGHT,
    };
    if goes_on { NEXT_WEIGHT } else { FIRST_WEIGHT }
}

fn item(label: &str, value: &Value, frame: u64) -> Item {
    let bare = bare(value);
    let is_breakpoint =
        is_marked(value) || value.get("content").is_some_and(|content| array(Some(content)).iter().any(is_marked));
    Item { text: format!("{label} {bare}\n"), weight: frame + weight(&bare), is_breakpoint }
}

fn weight(value: &Value) -> u64 {
    if let Value::String(text) = value {
        return weight_of_text(text);
    }
    let text_of = |name: &str| value.get(name).and_then(Value::as_str).map_or(0, weight_of_text);
    match value.get("type").and_then(Value::as_str) {
        Some("text") => text_of("text"),
        // Nobody is charged for the signature.
        Some("thinking") => text_of("thinking"),
        Some("redacted_thinking") => 0,
        Some("tool_use" | "server_tool_use") => {
            text_of("name") + value.get("input").map_or(0, |input| weight_of_text(&input.to_string()))
        }
        Some("tool_result") => match value.get("content") {
            Some(Value::Array(blocks)) => blocks.iter().map(weight).sum(),
            Some(content) => weight(content),
            None => 0,
        },
        Some("image") => value.get("source").map_or(0, weight_of_image),
        Some("document") => {
            let data = value.pointer("/source/data").and_then(Value::as_str).unwrap_or_default();
            let is_plain = value.pointer("/source/type").and_then(Value::as_str) == Some("text");
            if is_plain { weight_of_text(data) } else { data.len() as u64 * ENCODED_WEIGHT }
        }
        _ if value.is_null() => 0,
        _ => weight_of_text(&value.to_string()),
    }
}

fn weight_of_image(source: &Value) -> u64 {
    let data = source.get("data").and_then(Value::as_str).unwrap_or_default().as_bytes();
    let head = STANDARD.decode(data.get(..IMAGE_HEAD).unwrap_or(data)).unwrap_or_default();
    imagesize::blob_size(&head).map_or(UNKNOWN_IMAGE_WEIGHT, |size| {
        (size.width as u64).saturating_mul(size.height as u64).saturating_mul(THOUSANDTHS) / PIXELS_OF_A_TOKEN
    })
}

/// Leaves the breakpoints out; what a tool is called with is data and stays as it is.
fn bare(value: &Value) -> Value {
    let Value::Object(members) = value else { return value.clone() };
    let mut kept: Map<String, Value> = members.clone();
    kept.remove("cache_control");
    if let Some(Value::Array(content)) = kept.get_mut("content") {
        for block in content.iter_mut() {
            if let Value::Object(members) = block {
                members.remove("cache_control");
            }
        }
    }
    Value::Object(kept)
}

fn is_marked(value: &Value) -> bool {
    value.get("cache_control").is_some_and(Value::is_object)
}

fn array(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
