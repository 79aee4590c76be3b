//! Two members of one object that have the same name.
//!
//! JSON allows them and says nothing about their meaning: one reader takes the first, another the last. Text that two readers
//! understand differently is not written, run or sent, and a reader reports it with its place. Every part of the product asks here.
//!
//! One pass over the text, without recursion. Memory grows with the names of the objects that are open, never beyond a small multiple of
//! the text. The text must be JSON already; of anything else the answer means nothing, but there is one.

use std::borrow::Cow;
use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};

/// Deeper values are not looked into. Nothing so deep is ever sent to a model or handed to a tool.
const MAX_DEPTH: usize = 10_000;
/// Names of an object up to this many are compared one by one.
const FEW: usize = 16;
/// How much of a name a report repeats, in characters.
const SHOWN: usize = 64;

/// A name that an object has twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Duplicate {
    /// The beginning of the name.
    pub name: String,
    /// Where the second one begins in the text, in bytes.
    pub at: usize,
}

/// An array or an object that has not ended.
#[derive(Debug)]
struct Open {
    is_object: bool,
    /// Where the names of this object begin in the list of all names.
    names_from: usize,
    /// Hashes of the names, once there are many.
    many: Option<HashSet<u64>>,
}

/// The first name in raw JSON text that comes again in the same object.
pub fn duplicate(raw: &str) -> Option<Duplicate> {
    let bytes = raw.as_bytes();
    let mut names: Vec<Cow<'_, str>> = Vec::new();
    let mut open: Vec<Open> = Vec::new();
    let mut hasher: Option<RandomState> = None;
    let (mut at, mut is_name, mut too_deep) = (0, false, 0_usize);
    while let Some(byte) = bytes.get(at) {
        let begin = at;
        at += 1;
        match byte {
            b'"' => {
                at = end_of_string(bytes, at);
                if !std::mem::take(&mut is_name) {
                    continue;
                }
                let Some(object) = open.last_mut() else { continue };
                let name = super::string(&raw[begin..at]).unwrap_or_default();
                let is_known = match &mut object.many {
                    Some(many) => !many.insert(hasher.get_or_insert_default().hash_one(&name)),
                    None => names[object.names_from..].contains(&name),
                };
                if is_known {
                    return Some(Duplicate { name: name.chars().take(SHOWN).collect(), at: begin });
                }
                if object.many.is_none() {
                    names.push(name);
                    if names.len() - object.names_from > FEW {
                        let hasher = hasher.get_or_insert_default();
                        object.many =
                            Some(names.drain(object.names_from..).map(|name| hasher.hash_one(name)).collect());
                    }
                }
            }
            b'{' | b'[' if open.len() == MAX_DEPTH => too_deep += 1,
            b'{' | b'[' => {
                is_name = *byte == b'{';
                open.push(Open { is_object: is_name, names_from: names.len(), many: None });
            }
            b'}' | b']' if too_deep > 0 => too_deep -= 1,
            b'}' | b']' => {
                is_name = false;
                if let Some(ended) = open.pop() {
                    names.truncate(ended.names_from);
                }
            }
            b',' => is_name = too_deep == 0 && open.last().is_some_and(|innermost| innermost.is_object),
            _ => {}
        }
    }
    None
}

/// The offset behind the string whose first character is at `at`.
fn end_of_string(bytes: &[u8], mut at: usize) -> usize {
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        at += found + 1;
        if bytes[at - 1] == b'"' {
            return at;
        }
        at += 1;
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(raw: &str) -> Option<(String, usize)> {
        duplicate(raw).map(|found| (found.name, found.at))
    }

    #[test]
    fn h2_a_name_that_comes_again_in_one_object_is_found_with_its_place() {
        assert_eq!(found(r#"{"a":1,"b":2,"a":3}"#), Some(("a".to_owned(), 13)));
        assert_eq!(
            found(r#"{"x":[{"type":"t","input":{"command":"ls","command":"rm"}}]}"#),
            Some(("command".to_owned(), 42))
        );
        assert_eq!(found(r#"{"a":1,"\u0061":2}"#), Some(("a".to_owned(), 7)), "however it is spelled");
        assert_eq!(found(r#"{"a":{"b":1},"b":[{"b":1},{"b":2}],"c":"\"a\":1,\"a\":2"}"#), None);
        assert_eq!(found(r#"["a","a",{"a":"a"},{"a":["a","a"]}]"#), None);
    }

    #[test]
    fn h2_objects_of_any_size_are_looked_at_in_linear_time() {
        let members: Vec<String> = (0..200_000).map(|n| format!("\"k{n}\":{n}")).collect();
        let once = format!("{{{}}}", members.join(","));
        assert_eq!(found(&once), None);
        let twice = format!("{{{},\"k7\":0}}", members.join(","));
        assert_eq!(found(&twice), Some(("k7".to_owned(), twice.len() - 7)));
    }

    #[test]
    fn depth_costs_no_stack_and_what_is_not_json_gets_an_answer() {
        let deep = format!("{}{}", "[{\"a\":".repeat(100_000), "}]".repeat(100_000));
        assert_eq!(found(&deep), None);
        for odd in ["", "\"", "{\"", "}", "]]", "{\"a\":1,\"a", "{,,}", "{\"\\"] {
            duplicate(odd);
        }
    }
}
