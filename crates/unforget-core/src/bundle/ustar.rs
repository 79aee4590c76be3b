//! The tar archive that a bundle is: `tar tvf` lists it, and nothing in it is ever followed.
//!
//! Members are plain files with short names, and that is all there is: links, directories, devices, long names and
//! extensions are refused when they are met. A bundle needs none of them, and every one of them has led some reader of
//! archives out of its folder.

use std::io::{self, Write};

/// Everything in an archive is in blocks of this size.
pub(super) const BLOCK: usize = 512;
/// The largest member: what eleven octal digits say.
pub(super) const MAX_SIZE: u64 = (1 << 33) - 1;
/// The longest name.
const MAX_NAME: usize = 100;
/// Where the checksum stands, and how long it is.
const CHECKSUM: std::ops::Range<usize> = 148..156;

/// The head of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) name: String,
    pub(super) size: u64,
}

/// What a block is, where a head is expected.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Block {
    Member(Head),
    End,
}

/// Writes the head of a member.
pub(super) fn write_head(out: &mut dyn Write, head: &Head, modified_ms: i64) -> io::Result<()> {
    let invalid = |why: &str| io::Error::new(io::ErrorKind::InvalidInput, format!("`{}` {why}", head.name));
    if head.name.len() > MAX_NAME {
        return Err(invalid("has too long a name for a bundle"));
    }
    if head.size > MAX_SIZE {
        return Err(invalid("is too large for a bundle"));
    }
    let seconds = u64::try_from(modified_ms / 1000).unwrap_or(0).min(MAX_SIZE);
    let mut block = [0; BLOCK];
    let mut put = |at: usize, text: &str| block[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, &head.name);
    put(100, "0000600");
    put(108, "0000000");
    put(116, "0000000");
    put(124, &format!("{:011o}", head.size));
    put(136, &format!("{seconds:011o}"));
    put(156, "0");
    put(257, "ustar");
    put(263, "00");
    let sum = checksum(&block);
    block[CHECKSUM].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    out.write_all(&block)
}

/// Fills the last block of a member up.
pub(super) fn write_padding(out: &mut dyn Write, size: u64) -> io::Result<()> {
    out.write_all(&[0; BLOCK][..padding(size)])
}

/// Ends the archive.
pub(super) fn write_end(out: &mut dyn Write) -> io::Result<()> {
    out.write_all(&[0; 2 * BLOCK])
}

/// How many bytes follow a member's content until the next block begins.
pub(super) fn padding(size: u64) -> usize {
    let over = usize::try_from(size % BLOCK as u64).unwrap_or(0);
    (BLOCK - over) % BLOCK
}

/// Reads the head of a member, or the end.
pub(super) fn read_head(block: &[u8; BLOCK]) -> Result<Block, String> {
    if block.iter().all(|byte| *byte == 0) {
        return Ok(Block::End);
    }
    let stated = octal(&block[CHECKSUM]).ok_or("its head has no checksum")?;
    if stated != checksum(block) {
        return Err("the checksum of its head is wrong".to_owned());
    }
    if &block[257..262] != b"ustar" {
        return Err("it is not a ustar archive".to_owned());
    }
    let name = text(&block[..100]).ok_or("its name is not plain text")?;
    if block[345..500].iter().any(|byte| *byte != 0) {
        return Err(format!("`{name}` has too long a name"));
    }
    if !matches!(block[156], b'0' | 0) || block[157..257].iter().any(|byte| *byte != 0) {
        return Err(format!("`{name}` is not a plain file"));
    }
    let size = octal(&block[124..136]).ok_or_else(|| format!("`{name}` has no size"))?;
    Ok(Block::Member(Head { name, size }))
}

/// The sum of a head's bytes, its own place counted as blanks.
fn checksum(block: &[u8; BLOCK]) -> u64 {
    block.iter().enumerate().map(|(at, byte)| u64::from(if CHECKSUM.contains(&at) { b' ' } else { *byte })).sum()
}

fn octal(field: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(field).ok()?.trim_matches(['\0', ' ']);
    u64::from_str_radix(text, 8).ok()
}

fn text(field: &[u8]) -> Option<String> {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    let name = std::str::from_utf8(&field[..end]).ok()?;
    let plain = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
    plain.then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head_of(name: &str, size: u64) -> [u8; BLOCK] {
        let mut out = Vec::new();
        write_head(&mut out, &Head { name: name.to_owned(), size }, 1_767_225_600_000).unwrap();
        out.try_into().unwrap()
    }

    #[test]
    fn a_head_is_read_back_and_a_changed_one_is_refused() {
        let block = head_of("blobs/ab", 513);
        assert_eq!(read_head(&block), Ok(Block::Member(Head { name: "blobs/ab".to_owned(), size: 513 })));
        for at in [0, 124, 156, 300] {
            let mut changed = block;
            changed[at] ^= 1;
            assert!(read_head(&changed).is_err(), "byte {at}");
        }
        assert_eq!((padding(513), padding(512), padding(0)), (511, 0, 0));
    }

    #[test]
    fn links_and_long_names_are_refused() {
        for (at, byte, why) in
            [(156, b'2', "not a plain file"), (156, b'L', "not a plain file"), (345, b'x', "too long a name")]
        {
            let mut block = head_of("x", 0);
            block[at] = byte;
            let sum = checksum(&block);
            block[CHECKSUM].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
            assert!(read_head(&block).unwrap_err().contains(why));
        }
        assert!(write_head(&mut Vec::new(), &Head { name: "x".repeat(101), size: 0 }, 0).is_err());
        assert!(write_head(&mut Vec::new(), &Head { name: "x".to_owned(), size: MAX_SIZE + 1 }, 0).is_err());
    }
}
