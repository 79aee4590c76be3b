//! Whether bytes are text, and what else they are.
//!
//! Pure. A model that gets an image or a program as text learns nothing and pays for every byte; a text in an old
//! encoding, on the other hand, is still mostly readable.

/// How a file of a known kind begins.
const SIGNATURES: [(&[u8], &str); 15] = [
    (b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive or a document in one"),
    (b"\x1f\x8b", "gzip data"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ\0", "xz data"),
    (b"\x28\xb5\x2f\xfd", "Zstandard data"),
    (b"\x7fELF", "an ELF program or library"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"\0asm", "a WebAssembly module"),
    (b"OggS", "Ogg audio or video"),
    (b"\xff\xfe", "text in UTF-16"),
    (b"\xfe\xff", "text in UTF-16"),
];

/// One part in so many may be no UTF-8 in what is still taken for text.
const BROKEN_SHARE: usize = 3;

/// What a file that begins like this is, unless it is text.
pub(super) fn binary(head: &[u8]) -> Option<&'static str> {
    let broken: usize = head.utf8_chunks().map(|chunk| chunk.invalid().len()).sum();
    // A PDF may begin with kilobytes of plain characters.
    let text = !head.contains(&0) && broken <= head.len() / BROKEN_SHARE && !head.starts_with(b"%PDF-");
    if text {
        return None;
    }
    if head.starts_with(b"RIFF") && head.get(8..12) == Some(b"WEBP") {
        return Some("a WebP image");
    }
    let known = SIGNATURES.iter().find(|(signature, _)| head.starts_with(signature));
    Some(known.map_or("binary data", |(_, name)| name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_files_are_told_from_text() {
        assert_eq!(binary(b""), None);
        assert_eq!(binary("GIF8 is how a GIF begins, größer".as_bytes()), None);
        assert_eq!(binary(b"Gr\xfc\xdfe aus Latin-1, sonst alles lesbar"), None);
        assert_eq!(binary(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"), Some("a PNG image"));
        assert_eq!(binary(b"%PDF-1.7\nplain"), Some("a PDF document"));
        assert_eq!(binary(b"RIFF\x10\0\0\0WEBPVP8 "), Some("a WebP image"));
        assert_eq!(binary(b"\xff\xfeh\0i\0"), Some("text in UTF-16"));
        assert_eq!(binary(b"a\0b"), Some("binary data"));
    }
}
