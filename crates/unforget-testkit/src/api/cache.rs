//! The prompt cache: which beginning of a request the server has read before.
//!
//! A prefix is written down where a breakpoint stands and found again where a later request has the same bytes up to
//! that place, also if its own breakpoint stands a little further on. Time does not pass here, so nothing is ever
//! forgotten, and prefixes of any length are kept, while the real server does not bother with short ones.
//!
//! The failure this makes visible is a history whose beginning changes between two requests: it costs money and time
//! on the real server, and nobody notices.

use std::collections::HashSet;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::prompt;

/// How many items before a breakpoint are looked at, the one that it stands on included.
const LOOK_BACK: usize = 20;
/// How many prefixes are kept; a server that runs for longer begins anew.
const MAX_PREFIXES: usize = 100_000;

/// The prefixes that were read before.
#[derive(Default)]
pub(super) struct Cache {
    known: HashSet<[u8; 32]>,
}

/// How the tokens of a request are charged; the three parts add up to its count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Charge {
    pub(super) input: u64,
    pub(super) created: u64,
    pub(super) read: u64,
}

impl Charge {
    /// How many tokens the request has.
    pub(super) fn total(self) -> u64 {
        self.input + self.created + self.read
    }

    /// The `usage` of a message.
    pub(super) fn usage(self, output_tokens: u64) -> Value {
        json!({
            "input_tokens": self.input,
            "cache_creation_input_tokens": self.created,
            "cache_read_input_tokens": self.read,
            "cache_creation": {"ephemeral_5m_input_tokens": self.created, "ephemeral_1h_input_tokens": 0},
            "output_tokens": output_tokens,
            "service_tier": "standard",
        })
    }
}

impl Cache {
    /// Charges a request, and remembers its prefixes.
    pub(super) fn charge(&mut self, body: &Value) -> Charge {
        let items = prompt::items(body);
        // Each model has a cache of its own.
        let mut hash = Sha256::new();
        hash.update(format!("{}\n", body.get("model").unwrap_or(&Value::Null)));
        let mut weight = 0;
        let prefixes: Vec<([u8; 32], u64)> = items
            .iter()
            .map(|item| {
                hash.update(&item.text);
                weight += item.weight;
                (hash.clone().finalize().into(), prompt::tokens(weight))
            })
            .collect();
        let (mut read, mut written) = (0, 0);
        for (at, _) in items.iter().enumerate().filter(|(_, item)| item.is_breakpoint) {
            let reachable = prefixes.get((at + 1).saturating_sub(LOOK_BACK)..=at).unwrap_or_default();
            for (prefix, tokens) in reachable {
                if self.known.contains(prefix) {
                    read = read.max(*tokens);
                }
            }
            written = written.max(prefixes.get(at).map_or(0, |(_, tokens)| *tokens));
        }
        if self.known.len() > MAX_PREFIXES {
            self.known.clear();
        }
        let marked = items.iter().zip(&prefixes).filter(|(item, _)| item.is_breakpoint);
        self.known.extend(marked.map(|(_, (prefix, _))| *prefix));
        Charge { input: prompt::tokens(weight) - written, created: written - read, read }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str, breakpoint: Option<&str>) -> Value {
        let mut block = json!({"type": "text", "text": text});
        if let Some(kind) = breakpoint {
            block["cache_control"] = json!({"type": kind});
        }
        block
    }

    fn request(blocks: &[Value]) -> Value {
        json!({"model": "m", "messages": [{"role": "user", "content": blocks}]})
    }

    #[test]
    fn a_breakpoint_finds_prefixes_a_few_items_back() {
        let mut cache = Cache::default();
        let short = [text("begin", Some("ephemeral"))];
        let first = cache.charge(&request(&short));
        assert_eq!((first.input, first.read), (0, 0));
        let mut near: Vec<Value> = (0..LOOK_BACK).map(|_| text("more", None)).collect();
        near[0] = text("begin", None);
        near[LOOK_BACK - 1] = text("more", Some("ephemeral"));
        assert_eq!(cache.charge(&request(&near)).read, first.created);
        let mut far: Vec<Value> = (0..=LOOK_BACK).map(|_| text("other", None)).collect();
        far[0] = text("begin", None);
        far[LOOK_BACK] = text("other", Some("ephemeral"));
        assert_eq!(cache.charge(&request(&far)).read, 0);
    }

    #[test]
    fn without_a_breakpoint_nothing_is_cached() {
        let mut cache = Cache::default();
        let body = request(&[text("hello", None)]);
        assert_eq!(cache.charge(&body), cache.charge(&body));
        assert_eq!(cache.charge(&body).input, prompt::count(&body));
    }

    #[test]
    fn a_changed_beginning_is_not_read() {
        let mut cache = Cache::default();
        cache.charge(&request(&[text("one", None), text("two", Some("ephemeral"))]));
        let changed = request(&[text("eno", None), text("two", Some("ephemeral"))]);
        assert_eq!(cache.charge(&changed).read, 0);
        assert_eq!(cache.charge(&changed).created, 0);
    }
}
