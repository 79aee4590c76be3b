//! How many tokens a text is, roughly.
//!
//! There is no public tokenizer for the models that this is for. The estimate counts what a tokenizer cuts at: words, numbers
//! and runs of punctuation, each with a share for its length, and characters of other scripts by their script. Random
//! letters (keys, digests, base64) change between capitals, small letters and digits all the time and so cost what they
//! should: three times what prose of their length does. The weights are fitted to the o200k vocabulary and
//! err on the high side, which is the safe one for a budget; docs/tokens.md has the errors. Images cost what their size in
//! pixels says, not what their bytes would as text.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;

use crate::json;

/// Pixels of an image to a token.
const PIXELS: u64 = 750;
/// Most tokens of an image: larger ones are scaled down by the API. Also what one of unknown size counts for.
const MAX_IMAGE: u64 = 1600;
/// How much of an image's text tells its size, in bytes; a multiple of four.
const IMAGE_HEAD: usize = 64 * 1024;
/// Bytes of a document's base64 text to a token: a page of a few hundred words takes tens of kilobytes.
const DOCUMENT_BYTES: u64 = 40;

/// What a byte is, as far as the one behind it has to know.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Small,
    Capital,
    Digit,
    Mark,
    Line,
    Other,
}

const KINDS: usize = 6;
/// Weights are in thousandths of a token.
const THOUSANDTHS: u64 = 1000;

const fn kind(byte: u8) -> Kind {
    match byte {
        b'a'..=b'z' => Kind::Small,
        b'A'..=b'Z' => Kind::Capital,
        b'0'..=b'9' => Kind::Digit,
        b'\t'..=b'\r' => Kind::Line,
        b' ' | 0x80.. => Kind::Other,
        _ => Kind::Mark,
    }
}

/// What a byte adds behind one of that kind: the beginning of a word, a number or a run of punctuation costs most of it.
const fn weight(byte: u8, before: Kind) -> u16 {
    match (byte, before) {
        (b'a'..=b'z', Kind::Small | Kind::Capital) => 230,
        (b'a'..=b'z', _) => 480,
        (b'A'..=b'Z', Kind::Capital) => 690,
        (b'A'..=b'Z', _) => 940,
        (b'0'..=b'9', Kind::Digit) => 150,
        (b'0'..=b'9', _) => 2050,
        (b'\t'..=b'\r', Kind::Line) => 0,
        (b'\t'..=b'\r', _) => 1030,
        // A blank is part of the word behind it.
        (b' ', _) => 0,
        (..0x80, Kind::Mark) => 90,
        (..0x80, _) => 760,
        // Of a character outside ASCII, the first byte tells the script.
        (0x80..=0xbf, _) => 0,
        // Latin with accents; Cyrillic; Greek, Hebrew and Arabic; scripts of India and Thai.
        (0xc0..=0xc9, _) => 575,
        (0xd0 | 0xd1, _) => 316,
        (0xca..=0xdf, _) => 470,
        (0xe0 | 0xe1, _) => 560,
        // Signs; kana; ideographs and Hangul; emoji.
        (0xe2, _) => 1800,
        (0xe3, _) => 900,
        (0xe4..=0xef, _) => 810,
        (0xf0.., _) => 1500,
    }
}

/// Both functions as tables: a lookup instead of comparisons for each byte.
static AFTER: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < table.len() {
        table[byte] = kind(byte as u8) as u8;
        byte += 1;
    }
    table
};
static WEIGHTS: [[u16; 256]; KINDS] = {
    const ALL: [Kind; KINDS] = [Kind::Small, Kind::Capital, Kind::Digit, Kind::Mark, Kind::Line, Kind::Other];
    let mut table = [[0; 256]; KINDS];
    let mut before = 0;
    while before < KINDS {
        let mut byte = 0;
        while byte < 256 {
            table[ALL[before] as usize][byte] = weight(byte as u8, ALL[before]);
            byte += 1;
        }
        before += 1;
    }
    table
};

/// Estimated tokens of a text.
pub fn estimate(text: &[u8]) -> u64 {
    let mut before = Kind::Other as usize;
    let mut sum = 0_u64;
    for byte in text {
        let byte = usize::from(*byte);
        sum += u64::from(WEIGHTS[before][byte]);
        before = usize::from(AFTER[byte]);
    }
    sum.div_ceil(THOUSANDTHS)
}

/// Estimated tokens of content: JSON text of a string or of content blocks.
pub fn of_content(raw: &str) -> u64 {
    let bytes = raw.as_bytes();
    let has = |name: &str| memchr::memmem::find(bytes, name.as_bytes()).is_some();
    if !raw.starts_with('[') || !(has("\"image\"") || has("\"document\"")) {
        return estimate(bytes);
    }
    json::elements(raw).unwrap_or_default().into_iter().map(of_block).sum()
}

/// Estimated tokens of one content block.
pub fn of_block(raw: &str) -> u64 {
    let members = json::members(raw).unwrap_or_default();
    let kind = json::member(&members, "type").and_then(json::string).unwrap_or_default();
    let data = || {
        let source = json::members(json::member(&members, "source")?)?;
        json::member(&source, "data").and_then(json::string).map(std::borrow::Cow::into_owned)
    };
    match kind.as_ref() {
        "image" => data().and_then(|data| of_image(&data)).unwrap_or(MAX_IMAGE),
        "document" => data().map_or_else(|| estimate(raw.as_bytes()), |data| data.len() as u64 / DOCUMENT_BYTES),
        "tool_result" => json::member(&members, "content").map_or(0, of_content),
        _ => estimate(raw.as_bytes()),
    }
}

fn of_image(base64_text: &str) -> Option<u64> {
    let head = &base64_text.as_bytes()[..base64_text.len().min(IMAGE_HEAD)];
    let head = head.trim_ascii_end();
    let padding = head.iter().rev().take_while(|byte| **byte == b'=').count();
    let decoded = BASE64.decode(&head[..head.len() - padding]).ok()?;
    let size = imagesize::blob_size(&decoded).ok()?;
    let pixels = (size.width as u64).saturating_mul(size.height as u64);
    Some((pixels / PIXELS).min(MAX_IMAGE))
}

/// Estimated tokens of that many bytes of unknown text.
pub fn of_bytes(bytes: usize) -> u64 {
    bytes as u64 * 10 / 36
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_cost_their_pixels_and_not_their_bytes() {
        use base64::engine::general_purpose::STANDARD;
        // A PNG header of 300 x 200 pixels, and many bytes behind it.
        let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x01\x2c\0\0\0\xc8\x08\x02\0\0\0".to_vec();
        png.resize(100_000, 7);
        let image = |data: &[u8]| {
            let data = STANDARD.encode(data);
            format!(r#"{{"type":"image","source":{{"type":"base64","media_type":"image/png","data":"{data}"}}}}"#)
        };
        assert_eq!(of_content(&format!("[{}]", image(&png))), 80);
        assert_eq!(of_content(&format!("[{}]", image(b"what is this"))), MAX_IMAGE);
        let nested = format!(r#"[{{"type":"tool_result","tool_use_id":"a","content":[{}]}}]"#, image(&png));
        assert_eq!(of_content(&nested), 80);
        assert_eq!(of_content("\"the word \\\"image\\\" alone\""), 9);
    }

    /// Texts with the tokens that the o200k vocabulary cuts them into, and the estimate; the table of docs/tokens.md.
    const SAMPLES: [(&str, &str, u64, u64); 11] = [
        (
            "English prose",
            r#"The deploy of last night failed in the second region, and nobody was paged. Records are only ever appended, one line at a time, and never rewritten. When something looks wrong, read the log first, and do not run the same command twice."#,
            52,
            61,
        ),
        (
            "German prose",
            r#"Die Übergabe der Schlüssel wurde auf Donnerstag verschoben. Jede Zeile wird nur angehängt und nie geändert, auch nicht nach einem Stromausfall. Prüfe zuerst das Protokoll, bevor du den gleichen Befehl ein zweites Mal ausführst."#,
            53,
            64,
        ),
        (
            "Russian prose",
            r#"Почему журнал вырос вдвое за одну ночь? Записи только добавляются, по одной строке, и никогда не переписываются. Если что-то сломалось, сначала посмотрите в журнал и не запускайте одну и ту же команду дважды."#,
            53,
            59,
        ),
        (
            "Japanese prose",
            r#"再起動してもコンテキストを失わない。それが本当に使えるエージェントだ。記録は一行ずつ追加され、書き換えられることはありません。電源が落ちても、最後に確認された行まではディスクに残っていなければならない。問題が起きたら、まずログを確認し、同じコマンドを二度実行しないでください。"#,
            99,
            122,
        ),
        (
            "Chinese prose",
            r#"重启不丢上下文，才是真正可用的智能体。记录只会一行一行地追加，从不改写。即使断电，最后一次确认之前的内容也必须留在磁盘上。出现问题时，请先查看日志，不要把同一条命令执行两次。"#,
            69,
            71,
        ),
        (
            "Korean prose",
            r#"재시작해도 대화를 잊지 않는 에이전트를 만들고 있습니다. 기록은 한 줄씩 추가되며 절대 다시 쓰지 않습니다. 전원이 꺼져도 마지막으로 확인된 줄까지는 디스크에 남아 있어야 합니다. 문제가 생기면 먼저 로그를 확인하고, 같은 명령을 두 번 실행하지 마세요."#,
            77,
            88,
        ),
        (
            "Rust code",
            r#"pub fn estimate(text: &[u8]) -> u64 {
    let (mut ascii, mut wide) = (0_u64, 0_u64);
    for chunk in text.chunks(255) {
        ascii += chunk.iter().filter(|byte| **byte < 0x80).count() as u64;
        wide += chunk.iter().filter(|byte| **byte >= 0xe2).count() as u64;
    }
    ascii * 10 / 36 + wide * 11 / 10 // a token is about 3.6 characters
}"#,
            122,
            136,
        ),
        (
            "JSON record",
            r#"{"v":1,"n":14155,"parent":14154,"type":"tool_use","ts":"2026-11-16T01:29:29.395Z","tool_use_id":"toolu_01A09q90qw90lq917835lq9","name":"bash","input":{"command":"cargo test -p unforget-core","timeout":120},"crc":"f8122e08"}"#,
            88,
            105,
        ),
        (
            "base64",
            r#"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg8qkZ1xVf3mTnWc0RyHs7dEoLJ2uAiXbGpQ9aYvKzU4wSgMtFBlPhCqDjO6Ir5eN0Z"#,
            107,
            121,
        ),
        (
            "listing, log line, UUID, digest",
            r#"-rw-r--r-- 1 root root  74620 Nov 16 01:32 events-2026.json
drwxr-xr-x 2 root root   4096 Nov 16 01:31 target
10.0.3.17 - - [16/Nov/2026:01:29:31 +0000] "GET /v1/messages?limit=50 HTTP/1.1" 200 15559
550e8400-e29b-41d4-a716-446655440000 sha256:9f86d081884c7d659a2feaa0c55ad015"#,
            138,
            166,
        ),
        (
            "mixed",
            r#"Build failed: `cargo test -p unforget-core` 在 src/log.rs:142 报错 (error[E0502]). ログは /var/log/ci/2026-01-31.log にあります 🦀. Next: retry with {"attempts": 3, "wait_ms": 1500} and tell Zoë über Slack."#,
            75,
            83,
        ),
    ];

    #[test]
    fn the_estimate_is_at_most_a_quarter_high_and_a_tenth_low() {
        for (kind, text, reference, estimated) in SAMPLES {
            let guess = estimate(text.as_bytes());
            assert_eq!(guess, estimated, "{kind}: docs/tokens.md says otherwise");
            assert!(guess * 100 >= reference * 90, "{kind}: {guess} is too low for {reference}");
            assert!(guess * 100 <= reference * 125, "{kind}: {guess} is too high for {reference}");
        }
    }

    #[test]
    fn the_documented_errors_are_those_of_the_samples() {
        let table = include_str!("../../../docs/tokens.md");
        for (kind, text, reference, estimated) in SAMPLES {
            let error = (estimated as f64 / reference as f64 - 1.0) * 100.0;
            let row = format!("| {kind} | {} | {reference} | {estimated} | {error:+.0} % |", text.len());
            assert!(table.contains(&row), "docs/tokens.md lacks `{row}`");
        }
    }

    #[test]
    fn nothing_costs_nothing_and_more_never_costs_less() {
        assert_eq!(estimate(b""), 0);
        let all: String = SAMPLES.iter().map(|(_, text, ..)| *text).collect();
        let costs: Vec<u64> = (0..all.len()).map(|end| estimate(&all.as_bytes()[..end])).collect();
        assert!(costs.is_sorted());
    }
}
