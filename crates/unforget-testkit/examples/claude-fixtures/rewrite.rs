//! Changes values inside a JSON text and leaves every other byte as it is.
//!
//! Parsing and printing would sort keys and lose the spelling of numbers and escapes, which a fixture is there to keep.
//! So this walks over the text, asks about every value before it looks inside, and copies what nobody wants changed.
//! The text is known to be JSON: it was parsed before.

/// A value is named by the keys that lead to it; the places of lists have none.
pub(crate) type Path = Vec<String>;

/// Copies a JSON text. The function is asked about every value, outermost first, and may give another text for it.
pub(crate) fn rewrite(text: &str, change: &mut dyn FnMut(&[String], &str) -> Option<String>) -> String {
    let mut walk = Walk { text, at: 0, kept: String::with_capacity(text.len()), path: Path::new() };
    walk.value(change);
    walk.kept.push_str(&text[walk.at..]);
    walk.kept
}

struct Walk<'a> {
    text: &'a str,
    at: usize,
    kept: String,
    path: Path,
}

impl Walk<'_> {
    fn value(&mut self, change: &mut dyn FnMut(&[String], &str) -> Option<String>) {
        self.space();
        let end = self.at + length(&self.text[self.at..]);
        if let Some(other) = change(&self.path, &self.text[self.at..end]) {
            self.kept.push_str(&other);
            self.at = end;
            return;
        }
        match self.text.as_bytes()[self.at] {
            b'{' => self.members(change),
            b'[' => self.items(change),
            _ => self.copy(end),
        }
    }

    fn members(&mut self, change: &mut dyn FnMut(&[String], &str) -> Option<String>) {
        self.copy(self.at + 1);
        while self.next() != b'}' {
            if self.next() == b',' {
                self.copy(self.at + 1);
                self.space();
            }
            let end = self.at + length(&self.text[self.at..]);
            self.path.push(serde_json::from_str(&self.text[self.at..end]).unwrap());
            self.copy(end);
            self.space();
            // The colon.
            self.copy(self.at + 1);
            self.value(change);
            self.path.pop();
        }
        self.copy(self.at + 1);
    }

    fn items(&mut self, change: &mut dyn FnMut(&[String], &str) -> Option<String>) {
        self.copy(self.at + 1);
        while self.next() != b']' {
            if self.next() == b',' {
                self.copy(self.at + 1);
            }
            self.value(change);
        }
        self.copy(self.at + 1);
    }

    fn next(&mut self) -> u8 {
        self.space();
        self.text.as_bytes()[self.at]
    }

    fn space(&mut self) {
        let rest = &self.text[self.at..];
        self.copy(self.at + rest.len() - rest.trim_start().len());
    }

    fn copy(&mut self, end: usize) {
        self.kept.push_str(&self.text[self.at..end]);
        self.at = end;
    }
}

/// The length of the value at the beginning of a text.
fn length(text: &str) -> usize {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<&serde_json::value::RawValue>();
    values.next().unwrap().unwrap().get().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_asked_for_changes() {
        let text = r#" {"b" : [1.50e0, {"a":"\u0041", "c":"x"}, [] ], "a":{"a":"x"},"d":{} } "#;
        let mut asked = Vec::new();
        let same = rewrite(text, &mut |path, value| {
            asked.push((path.join("."), value.to_owned()));
            None
        });
        assert_eq!(same, text);
        assert_eq!(asked.len(), 10);
        assert!(asked.contains(&("b.a".to_owned(), r#""\u0041""#.to_owned())));
        let changed = rewrite(text, &mut |path, _| (path.last()? == "a").then(|| "7".to_owned()));
        assert_eq!(changed, r#" {"b" : [1.50e0, {"a":7, "c":"x"}, [] ], "a":7,"d":{} } "#);
    }
}
