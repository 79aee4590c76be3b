//! How many tokens a text is, roughly.
//!
//! There is no public tokenizer for the models that this is for. The estimate counts characters by script:
//! about 3.6 ASCII characters, or 0.9 of a Chinese, Japanese or Korean one, to a token. It errs on the high side, which is
//! the safe one for a budget. Images cost what their size in pixels says, not what their bytes would as text.

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

/// Estimated tokens of a text.
pub fn estimate(text: &[u8]) -> u64 {
    let (mut ascii, mut wide, mut other) = (0_u64, 0_u64, 0_u64);
    // In chunks that a byte can count, so that many bytes are counted at a time.
    for chunk in text.chunks(255) {
        let (mut low, mut high, mut middle) = (0_u8, 0_u8, 0_u8);
        for byte in chunk {
            low += u8::from(*byte < 0x80);
            high += u8::from(*byte >= 0xe2);
            middle += u8::from((0xc0..0xe2).contains(byte));
        }
        ascii += u64::from(low);
        wide += u64::from(high);
        other += u64::from(middle);
    }
    ascii * 10 / 36 + wide * 11 / 10 + other * 6 / 10
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

fn of_block(raw: &str) -> u64 {
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
        assert_eq!(of_content("\"the word \\\"image\\\" alone\""), 7);
    }

    #[test]
    fn the_estimate_is_near_and_never_far_below() {
        // Reference counts: the o200k vocabulary on these texts.
        for (text, reference) in [
            ("The quick brown fox jumps over the lazy dog near the river bank.", 14),
            ("再起動してもコンテキストを失わない。それが本当に使えるエージェントだ。", 26),
            ("重启不丢上下文, 才是真正可用的 agent.", 17),
        ] {
            let guess = estimate(text.as_bytes());
            assert!(guess * 100 >= reference * 90 && guess <= reference * 2, "{text}: {guess} against {reference}");
        }
    }
}
