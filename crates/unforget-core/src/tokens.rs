//! How many tokens a text is, roughly.
//!
//! There is no public tokenizer for the models that this is for. The estimate counts characters by script:
//! about 3.6 ASCII characters, or 0.9 of a Chinese, Japanese or Korean one, to a token. It errs on the high side, which is
//! the safe one for a budget.

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

/// Estimated tokens of that many bytes of unknown text.
pub fn of_bytes(bytes: usize) -> u64 {
    bytes as u64 * 10 / 36
}

#[cfg(test)]
mod tests {
    use super::*;

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
