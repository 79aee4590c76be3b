//! The arguments of a call, checked one by one.
//!
//! A model reads what is wrong and calls again, so each complaint names the argument and what was expected. An argument
//! that no tool of this name takes is refused, not ignored: the model meant something by it. Null is the same as absent.

use serde_json::{Map, Value};

use super::Output;

/// The arguments of a call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arguments<'a> {
    values: Option<&'a Map<String, Value>>,
}

impl<'a> Arguments<'a> {
    /// The arguments of a call of a tool that knows these names.
    pub(super) fn new(input: &'a Value, known: &[&str]) -> Result<Self, Output> {
        let values = input.as_object();
        for name in values.into_iter().flat_map(Map::keys) {
            if !known.contains(&name.as_str()) {
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                return Err(Output::failed(format!("there is no argument `{name}`; there are: {known}")));
            }
        }
        Ok(Self { values })
    }

    /// A text that must be there.
    pub(super) fn text(&self, name: &str) -> Result<&'a str, Output> {
        let missing = || Output::failed(format!("the argument `{name}` is missing; it must be a string"));
        self.optional_text(name)?.ok_or_else(missing)
    }

    /// A text that may be absent.
    pub(super) fn optional_text(&self, name: &str) -> Result<Option<&'a str>, Output> {
        self.find(name, "a string", Value::as_str)
    }

    /// A path that may go by one of two names.
    pub(super) fn optional_path(&self, name: &str, other: &str) -> Result<Option<&'a str>, Output> {
        match (self.optional_text(name)?, self.optional_text(other)?) {
            (Some(_), Some(_)) => {
                Err(Output::failed(format!("`{name}` and `{other}` mean the same; give `{name}` only")))
            }
            (Some(""), None) | (None, Some("")) => {
                Err(Output::failed(format!("the argument `{name}` must not be empty")))
            }
            (one, two) => Ok(one.or(two)),
        }
    }

    /// A path that must be there and may go by one of two names.
    pub(super) fn path(&self, name: &str, other: &str) -> Result<&'a str, Output> {
        match self.optional_path(name, other)? {
            Some(path) => Ok(path),
            None => self.text(name),
        }
    }

    /// A whole number from one up.
    pub(super) fn count(&self, name: &str) -> Result<Option<u64>, Output> {
        self.find(name, "a whole number from 1 up", |value| value.as_u64().filter(|number| *number > 0))
    }

    /// A number above zero.
    pub(super) fn positive(&self, name: &str) -> Result<Option<f64>, Output> {
        self.find(name, "a number above 0", |value| value.as_f64().filter(|number| *number > 0.0))
    }

    /// Whether something is wanted; absent is no.
    pub(super) fn flag(&self, name: &str) -> Result<bool, Output> {
        Ok(self.find(name, "true or false", Value::as_bool)?.unwrap_or(false))
    }

    fn find<T>(&self, name: &str, expected: &str, take: impl Fn(&'a Value) -> Option<T>) -> Result<Option<T>, Output> {
        match self.values.and_then(|values| values.get(name)) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match take(value) {
                Some(taken) => Ok(Some(taken)),
                None => Err(Output::failed(format!("the argument `{name}` must be {expected}"))),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const KNOWN: [&str; 4] = ["path", "file_path", "offset", "all"];

    #[test]
    fn a_complaint_names_the_argument() {
        let complaint = |input: Value| {
            let arguments = Arguments::new(&input, &KNOWN)?;
            arguments.path("path", "file_path")?;
            arguments.count("offset")?;
            arguments.flag("all")?;
            Ok::<(), Output>(())
        };
        let text = |input: Value| complaint(input).unwrap_err().text;
        assert_eq!(text(json!({})), "the argument `path` is missing; it must be a string");
        assert_eq!(text(json!({"path": 1})), "the argument `path` must be a string");
        assert_eq!(text(json!({"path": ""})), "the argument `path` must not be empty");
        assert_eq!(text(json!({"path": "a", "offset": 0})), "the argument `offset` must be a whole number from 1 up");
        assert_eq!(text(json!({"path": "a", "offset": -1})), "the argument `offset` must be a whole number from 1 up");
        assert_eq!(text(json!({"path": "a", "all": "yes"})), "the argument `all` must be true or false");
        assert_eq!(
            text(json!({"path": "a", "file_path": "b"})),
            "`path` and `file_path` mean the same; give `path` only"
        );
        assert_eq!(text(json!({"p": 1})), "there is no argument `p`; there are: path, file_path, offset, all");
        assert_eq!(complaint(json!({"file_path": "a", "offset": null, "all": true})), Ok(()));
    }
}
