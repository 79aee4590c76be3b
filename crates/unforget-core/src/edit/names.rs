//! Texts that people give: names of steps, labels and titles of sessions. A value of these types has been checked.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::EditError;
use crate::json::needs_care;

/// Declares a checked text: its bound in characters, what messages call it, and whether it may be a number.
macro_rules! checked_text {
    ($(#[$doc:meta])* $name:ident, $most:expr, $noun:literal, $extra:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = EditError;

            fn from_str(text: &str) -> Result<Self, EditError> {
                let text = text.trim();
                let extra: fn(&str) -> Option<&'static str> = $extra;
                let wrong = if text.is_empty() {
                    Some(concat!($noun, " must not be empty"))
                } else if text.chars().count() > $most {
                    Some(concat!($noun, " has at most ", $most, " characters"))
                } else if text.chars().any(needs_care) {
                    Some(concat!($noun, " must not have control characters"))
                } else {
                    extra(text)
                };
                wrong.map_or_else(|| Ok(Self(text.to_owned())), |why| Err(EditError::InvalidName(why)))
            }
        }

        impl TryFrom<String> for $name {
            type Error = EditError;

            fn try_from(text: String) -> Result<Self, EditError> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

checked_text!(
    /// The name of a branch or a checkpoint: short, on one line, and not to be mistaken for a record's number or a
    /// flag.
    StepName, 60, "a name",
    |text| match text.as_bytes() {
        [b'-', ..] => Some("a name must not begin with a hyphen"),
        bytes if bytes.iter().all(u8::is_ascii_digit) => Some("a name must not be a number: those are records"),
        _ => None,
    }
);
checked_text!(
    /// The label of a session.
    SessionLabel, 200, "a label", |_| None
);
checked_text!(
    /// The title of a session.
    SessionTitle, 200, "a title", |_| None
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_short_and_no_number() {
        assert_eq!(" before the hotels ".parse::<StepName>().unwrap().as_str(), "before the hotels");
        for wrong in ["", "  ", "12", "--files", "a\u{1b}[2J", "a\u{202e}b", &"x".repeat(61)] {
            assert!(wrong.parse::<StepName>().is_err(), "{wrong:?}");
        }
        assert!("12".parse::<SessionTitle>().is_ok() && "-x".parse::<SessionLabel>().is_ok());
        assert!("x".repeat(201).parse::<SessionTitle>().is_err());
    }
}
