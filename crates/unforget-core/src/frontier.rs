//! How much of a transcript someone has: lines, bytes, and a digest that proves it.
//!
//! The digest is a chain, `d(i+1) = SHA-256(d(i) || line(i) || "\n")` with `d(0)` all zeros, so that a
//! frontier can be carried on from where it was without reading the prefix again. Only lines that end in
//! a line feed count. Two parties with equal frontiers have the same bytes.

use sha2::{Digest as _, Sha256};

/// How much of a transcript someone has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Frontier {
    /// Number of lines, line feeds counted.
    pub lines: u64,
    /// Number of bytes, line feeds included.
    pub bytes: u64,
    /// The chained digest of those lines.
    pub digest: [u8; 32],
}

impl Frontier {
    /// The frontier behind one more line, given without its line feed.
    #[must_use]
    pub fn after(self, line: &[u8]) -> Self {
        let mut hasher = Sha256::new();
        hasher.update(self.digest);
        hasher.update(line);
        hasher.update(b"\n");
        Self { lines: self.lines + 1, bytes: self.bytes + line.len() as u64 + 1, digest: hasher.finalize().into() }
    }

    /// The digest in hexadecimal.
    pub fn hex(&self) -> String {
        crate::encode::hex(&self.digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carrying_on_equals_starting_over_and_order_counts() {
        let whole = [b"a".as_slice(), b"b", b"c"].iter().fold(Frontier::default(), |f, line| f.after(line));
        let stored = Frontier::default().after(b"a").after(b"b");
        assert_eq!(stored.after(b"c"), whole);
        assert_eq!((whole.lines, whole.bytes), (3, 6));
        assert_ne!(Frontier::default().after(b"b").after(b"a").digest, stored.digest);
    }

    #[test]
    fn the_digest_is_the_documented_one() {
        // (head -c 32 /dev/zero; printf 'hi\n') | sha256sum
        assert_eq!(
            Frontier::default().after(b"hi").hex(),
            "a8adf705042b8d083609b1ecb2242a63357da6ccf01611e9822a93efd4428b93"
        );
    }
}
