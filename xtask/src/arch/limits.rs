//! `arch.toml`: a table for each crate, a limit for each number. What a person wrote beside a limit stays.

use toml_edit::{DocumentMut, Item, value};

/// The table of what belongs to no single crate.
pub(super) const WORKSPACE: &str = "workspace";

/// The limits.
pub(super) struct Limits(DocumentMut);

impl Limits {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        text.parse().map(Self).map_err(|error: toml_edit::TomlError| error.to_string())
    }

    /// The limit of a number, if it has one.
    pub(super) fn of(&self, table: &str, name: &str) -> Option<usize> {
        let limit = self.0.get(table)?.get(name)?.as_integer()?;
        usize::try_from(limit).ok()
    }

    /// Lowers a limit to a number that is below it, and notes one that is new.
    pub(super) fn lower(&mut self, table: &str, name: &str, number: usize) {
        if self.of(table, name).is_some_and(|limit| limit <= number) {
            return;
        }
        let Ok(number) = i64::try_from(number) else { return };
        let table = self.0.entry(table).or_insert_with(toml_edit::table);
        match table.get_mut(name).and_then(Item::as_value_mut) {
            // With the comment beside it.
            Some(old) => {
                let decor = old.decor().clone();
                *old = number.into();
                *old.decor_mut() = decor;
            }
            None => table[name] = value(number),
        }
    }

    pub(super) fn to_text(&self) -> String {
        self.0.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_falls_and_keeps_its_reason_and_never_rises() {
        let mut limits = Limits::parse("[one]\nlines = 10 # because\nwords = 3\n").unwrap();
        limits.lower("one", "lines", 8);
        limits.lower("one", "words", 4);
        limits.lower("two", "lines", 5);
        assert_eq!(limits.to_text(), "[one]\nlines = 8 # because\nwords = 3\n\n[two]\nlines = 5\n");
        assert_eq!((limits.of("one", "words"), limits.of("three", "words")), (Some(3), None));
    }
}
