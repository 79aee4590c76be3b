//! What an object of a stream holds: a segment, or a mark that says what became of it.
//!
//! ```text
//! length:u16 head body             a segment; a head is never empty
//! 0:u16                            the stream was deleted
//! 0:u16 "d" seconds:u64            here its end was when it was deleted; some segments may still be there
//! 0:u16 "D" seconds:u64            the same, and none is there any more
//! 0:u16 "m" level:u8 first:u64 end:u64   the lines are among those that were merged
//! 0:u16 "s"                        the lines are where they were: too many bytes to be merged with others
//! ```
//! All numbers are little endian. What is none of these is damage, and is never taken for a mark.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

use super::name::Merged;
use crate::error::{Error, Result};
use crate::segment;
use crate::shelf::Segment;
use crate::stream::Stream;

/// What an object holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Object {
    Segment {
        head: Bytes,
        body: Bytes,
    },
    Deleted,
    /// The end of a deleted stream.
    Ended {
        seconds: u64,
        rest: Rest,
    },
    Moved {
        level: u8,
        first: u64,
        end: u64,
    },
    Stayed,
}

/// What may be left of a deleted stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    Some,
    Nothing,
}

impl Object {
    /// Where the lines went that merged ones hold.
    pub(super) fn moved(to: Merged) -> Self {
        Self::Moved { level: to.level, first: to.first, end: to.end }
    }

    pub(super) fn encode(&self) -> Bytes {
        let mut bytes = BytesMut::new();
        match self {
            Self::Segment { head, body } => {
                bytes.reserve(2 + head.len() + body.len());
                // A head is never longer than `MAX_HEAD`.
                bytes.put_u16_le(u16::try_from(head.len()).unwrap_or(u16::MAX));
                bytes.put_slice(head);
                bytes.put_slice(body);
            }
            Self::Deleted => bytes.put_u16_le(0),
            Self::Ended { seconds, rest } => {
                bytes.put_u16_le(0);
                bytes.put_u8(if *rest == Rest::Some { b'd' } else { b'D' });
                bytes.put_u64_le(*seconds);
            }
            Self::Moved { level, first, end } => {
                bytes.put_u16_le(0);
                bytes.put_slice(&[b'm', *level]);
                bytes.put_u64_le(*first);
                bytes.put_u64_le(*end);
            }
            Self::Stayed => bytes.put_slice(b"\0\0s"),
        }
        bytes.freeze()
    }

    /// Reads an object, or the start of one; none if it is damaged.
    pub(super) fn decode(bytes: &Bytes) -> Option<Self> {
        let mut rest = bytes.clone();
        let len = usize::from(rest.try_get_u16_le().ok()?);
        if len > 0 {
            // A copy, so that nothing but the body holds the bytes: what unpacks it takes them over.
            let head = (len <= rest.len()).then(|| Bytes::copy_from_slice(&rest.split_to(len)))?;
            return Some(Self::Segment { head, body: rest });
        }
        if rest.is_empty() {
            return Some(Self::Deleted);
        }
        let object = match rest.get_u8() {
            b'd' => Self::Ended { seconds: rest.try_get_u64_le().ok()?, rest: Rest::Some },
            b'D' => Self::Ended { seconds: rest.try_get_u64_le().ok()?, rest: Rest::Nothing },
            b'm' => {
                let level = rest.try_get_u8().ok()?;
                Self::Moved { level, first: rest.try_get_u64_le().ok()?, end: rest.try_get_u64_le().ok()? }
            }
            b's' => Self::Stayed,
            _ => return None,
        };
        rest.is_empty().then_some(object)
    }
}

/// A segment that must begin with this line, by its head.
pub(super) fn segment_at(stream: &Stream, first: u64, head: Bytes, body: Bytes) -> Result<Segment> {
    let end = segment::lines_of(&head).filter(|(from, to)| *from == first && from < to).map(|(_, to)| to);
    let end = end.ok_or_else(|| damaged(stream, first))?;
    if !segment::is_plausible(&head, body.len() as u64) {
        let reason = format!("the segment at line {first} has more bytes than its lines can take");
        return Err(Error::Corrupt { what: stream.to_string(), reason });
    }
    Ok(Segment { first, end, head, body })
}

/// What is there is no segment.
pub(super) fn damaged(stream: &Stream, first: u64) -> Error {
    Error::Corrupt { what: stream.to_string(), reason: format!("the segment at line {first} is no segment") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_come_back_and_nothing_else_does() {
        let (head, body) = (Bytes::from_static(b"head"), Bytes::from_static(b"body"));
        let objects = [
            Object::Segment { head, body },
            Object::Deleted,
            Object::Ended { seconds: 7, rest: Rest::Some },
            Object::Ended { seconds: 8, rest: Rest::Nothing },
            Object::Moved { level: 2, first: 1, end: 9 },
            Object::Stayed,
        ];
        for object in objects {
            let bytes = object.encode();
            assert_eq!(Object::decode(&bytes), Some(object.clone()));
            if !matches!(object, Object::Segment { .. }) {
                assert_eq!(Object::decode(&[&bytes, b"x".as_slice()].concat().into()), None, "{object:?} and more");
            }
        }
        for wrong in [&b""[..], b"\0", b"\x05\0head", b"\0\0m\x01", b"\0\0d1234567", b"\0\0x"] {
            assert_eq!(Object::decode(&Bytes::copy_from_slice(wrong)), None, "{wrong:?}");
        }
    }
}
