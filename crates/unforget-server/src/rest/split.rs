//! A body with a list of entries, taken apart while it comes: nothing of it is held but the entries
//! themselves.
//!
//! The body is `{"key":{…},"entries":[{…},…]}` in whatever order and pieces. Read whole and then
//! parsed, it is in memory twice, and three bytes of it (`{},`) become many more. Here each byte is
//! looked at once: what stands in a list directly beneath the outermost object is cut into entries,
//! and all else, which is short, is kept as it is and parsed at the end with the list left empty.
//! So a name that is not known, a list of another name or a second list is refused by the parser as
//! ever, and what is an entry is decided by counting brackets alone; whether one is JSON is for the
//! store to see to.
//!
//! How many entries there may be is bounded, because each costs something however short it is.

use unforget_core::lines::MAX_LINE;

use crate::error::{Code, Problem, Result};

/// How long all is that is no entry: three names of 4096 bytes, each byte escaped, and some room.
const MAX_REST: usize = 128 << 10;

/// Takes a body apart.
#[derive(Debug)]
pub(super) struct Splitter {
    /// What is no entry.
    rest: Vec<u8>,
    /// The entry that is coming.
    entry: Vec<u8>,
    entries: Vec<Box<str>>,
    most: usize,
    at: At,
    /// How many brackets are open: in an entry those of the entry.
    depth: usize,
    is_in_string: bool,
    is_escaped: bool,
}

/// Where in the body it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// Not in the list.
    Rest,
    /// In the list, before its first entry.
    First,
    /// Behind a comma.
    Next,
    /// Behind an entry.
    Behind,
    Entry,
}

impl Splitter {
    /// Takes up to so many entries.
    pub(super) fn new(most: usize) -> Self {
        let (rest, entry, entries) = (Vec::new(), Vec::new(), Vec::new());
        Self { rest, entry, entries, most, at: At::Rest, depth: 0, is_in_string: false, is_escaped: false }
    }

    /// Takes the next piece.
    pub(super) fn feed(&mut self, mut piece: &[u8]) -> Result<()> {
        while let Some(first) = piece.first() {
            match self.at {
                At::Entry => {
                    let length = self.within(piece);
                    self.entry.extend_from_slice(&piece[..length]);
                    if self.entry.len() >= MAX_LINE {
                        return Err(Problem::new(Code::TooLarge, "an entry is longer than a line may be"));
                    }
                    if self.depth == 0 {
                        self.cut()?;
                    }
                    piece = &piece[length..];
                    continue;
                }
                At::Rest => self.outside(*first)?,
                At::First | At::Next | At::Behind => self.between(*first)?,
            }
            piece = &piece[1..];
        }
        Ok(())
    }

    /// What is no entry, and the entries.
    pub(super) fn finish(self) -> Result<(Vec<u8>, Vec<Box<str>>)> {
        match self.at {
            At::Rest => Ok((self.rest, self.entries)),
            At::First | At::Next | At::Behind | At::Entry => {
                Err(Problem::invalid("the body ends in the middle of its entries"))
            }
        }
    }

    /// A byte that is part of a string, or begins one.
    fn is_of_string(&mut self, byte: u8) -> bool {
        let was_in_string = self.is_in_string;
        match byte {
            _ if self.is_escaped => self.is_escaped = false,
            b'\\' if was_in_string => self.is_escaped = true,
            b'"' => self.is_in_string = !was_in_string,
            _ => {}
        }
        was_in_string || self.is_in_string
    }

    fn outside(&mut self, byte: u8) -> Result<()> {
        if self.rest.len() >= MAX_REST {
            let message = format!("what is no entry has more than {MAX_REST} bytes");
            return Err(Problem::new(Code::TooLarge, message));
        }
        self.rest.push(byte);
        if self.is_of_string(byte) {
            return Ok(());
        }
        match byte {
            b'[' if self.depth == 1 => self.at = At::First,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        Ok(())
    }

    fn between(&mut self, byte: u8) -> Result<()> {
        match (self.at, byte) {
            (_, b' ' | b'\t' | b'\n' | b'\r') => {}
            (At::First | At::Next, b'{') if self.entries.len() >= self.most => {
                let most = self.most;
                let message = format!("there are more than {most} entries (`entries`); send them in several requests");
                return Err(Problem::new(Code::TooLarge, message));
            }
            (At::First | At::Next, b'{') => {
                (self.at, self.depth) = (At::Entry, 1);
                self.entry.push(byte);
            }
            (At::Behind, b',') => self.at = At::Next,
            (At::First | At::Behind, b']') => {
                self.rest.push(byte);
                (self.at, self.depth) = (At::Rest, 1);
            }
            (At::First | At::Next, _) => {
                return Err(Problem::invalid(format!("entry {} is no JSON object", self.entries.len())));
            }
            _ => return Err(Problem::invalid(format!("entry {} is not followed by a comma", self.entries.len() - 1))),
        }
        Ok(())
    }

    /// How much of a piece belongs to the entry.
    fn within(&mut self, piece: &[u8]) -> usize {
        for (at, byte) in piece.iter().enumerate() {
            if self.is_of_string(*byte) {
                continue;
            }
            match byte {
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => self.depth -= 1,
                _ => {}
            }
            if self.depth == 0 {
                return at + 1;
            }
        }
        piece.len()
    }

    fn cut(&mut self) -> Result<()> {
        let entry = String::from_utf8(std::mem::take(&mut self.entry));
        let entry = entry.map_err(|_| Problem::invalid(format!("entry {} is not UTF-8", self.entries.len())))?;
        self.entries.push(entry.into_boxed_str());
        self.at = At::Behind;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(body: &str, size: usize) -> Result<(String, Vec<String>)> {
        let mut splitter = Splitter::new(5);
        for piece in body.as_bytes().chunks(size) {
            splitter.feed(piece)?;
        }
        let (rest, entries) = splitter.finish()?;
        Ok((String::from_utf8(rest).unwrap(), entries.into_iter().map(String::from).collect()))
    }

    #[test]
    fn s9_entries_are_cut_out_however_the_bytes_come() {
        let entries = [r#"{}"#, r#"{"a":"]}\"{[\\"}"#, "{\"é\":[1,{\"b\":[]}]\n}"];
        for body in [
            format!(r#"{{"key":{{"k":"[{{"}},"entries":[{}]}}"#, entries.join(",")),
            format!("{{ \"entries\" : [ {} ] , \"key\" : {{\"k\":\"[{{\"}} }}", entries.join(" , \n")),
        ] {
            for size in [1, 2, 3, 7, 1000] {
                let (rest, cut) = split(&body, size).unwrap();
                assert_eq!(cut, entries, "{size}");
                let rest: serde_json::Value = serde_json::from_str(&rest).unwrap();
                assert_eq!(rest, serde_json::json!({ "key": { "k": "[{" }, "entries": [] }), "{size}");
            }
        }
        assert_eq!(split(r#"{"entries":[]}"#, 1).unwrap(), (r#"{"entries":[]}"#.to_owned(), vec![]));
    }

    #[test]
    fn s9_what_is_no_list_of_entries_is_refused() {
        for (list, why) in [
            ("{},", "middle"),
            ("{},]", "entry 1 is no JSON object"),
            (",{}]", "entry 0 is no JSON object"),
            ("1]", "entry 0 is no JSON object"),
            ("{} {}]", "entry 0 is not followed"),
            ("{}}", "entry 0 is not followed"),
            ("{", "middle"),
        ] {
            let problem = split(&format!(r#"{{"entries":[{list}"#), 1).unwrap_err();
            assert!(problem.code == Code::Invalid && problem.message.contains(why), "{list}: {problem}");
        }
    }

    #[test]
    fn s9_entries_and_all_else_have_bounds() {
        let body = format!(r#"{{"entries":[{}"#, "{},".repeat(6));
        assert_eq!(split(&body, 3).unwrap_err().code, Code::TooLarge);
        let body = format!(r#"{{"key":"{}""#, "x".repeat(MAX_REST));
        assert_eq!(split(&body, 1000).unwrap_err().code, Code::TooLarge);
    }
}
