//! Settings that are tables in the file: how long things are kept, and what tokens cost.
//!
//! ```toml
//! [retention]
//! "main:cli:*" = "90d"      # a pattern on keys, and how long after the last record
//! trash = "30d"             # how long the trash keeps; for ever without this
//! disk_budget = "5GB"       # transcripts and trash together; none without this
//!
//! [prices."claude-sonnet-4-5"]
//! input = 3.0               # dollars for a million tokens
//! output = 15.0
//! ```
//!
//! What is wrong is told with the name that it stands at; nothing is guessed, because a wrong guess here deletes something.

use toml_edit::{Item, TableLike};
use unforget_agent::prices::{Price, Prices};
use unforget_core::retention::{Keep, Pattern, Rules};

/// What a table for retention looks like.
pub(crate) const RETENTION: &str = "a table in the file: [retention] with lines such as \"main:cli:*\" = \"90d\", trash = \"30d\" or disk_budget = \"5GB\"";
/// What a table for prices looks like.
pub(crate) const PRICES: &str = "a table in the file: [prices.\"MODEL\"] with input, output, cache_write and cache_read in dollars for a million tokens";

/// How long things are kept.
pub(crate) fn retention(item: &Item) -> Result<Rules, String> {
    let table = item.as_table_like().ok_or(RETENTION)?;
    let mut rules = Rules::default();
    for (name, value) in table.iter() {
        let wrong = |why: &str| format!("{RETENTION}; `{name}`: {why}");
        let text = value.as_str().ok_or_else(|| wrong("a text such as \"90d\" is missing"))?;
        match name {
            "trash" => match Keep::parse(text).map_err(|error| wrong(&error.to_string()))? {
                Keep::For(period) => rules.trash = Some(period),
                Keep::Never => {}
            },
            "disk_budget" => {
                let bytes = bytes(text).ok_or_else(|| wrong("a size such as \"5GB\", and more than nothing"))?;
                rules.disk_budget = Some(bytes);
            }
            _ => {
                let pattern = Pattern::parse(name).map_err(|error| wrong(&error.to_string()))?;
                rules.keys.push((pattern, Keep::parse(text).map_err(|error| wrong(&error.to_string()))?));
            }
        }
    }
    Ok(rules)
}

/// What tokens cost.
pub(crate) fn prices(item: &Item) -> Result<Prices, String> {
    let table = item.as_table_like().ok_or(PRICES)?;
    let mut prices = Prices::default();
    for (model, value) in table.iter() {
        let wrong = |why: &str| format!("{PRICES}; `{model}`: {why}");
        let members: &dyn TableLike = value.as_table_like().ok_or_else(|| wrong("it is no table"))?;
        let mut numbers = Vec::new();
        for (name, value) in members.iter() {
            let whole = value.as_integer().and_then(|number| i32::try_from(number).ok()).map(f64::from);
            let number = value.as_float().or(whole).ok_or_else(|| wrong(&format!("`{name}` is no number")))?;
            numbers.push((name, number));
        }
        prices.own.insert(model.to_owned(), Price::of(&numbers).map_err(|why| wrong(&why))?);
    }
    Ok(prices)
}

/// The rules on one line.
pub(crate) fn shown(rules: &Rules) -> String {
    let keys = rules.keys.iter().map(|(pattern, keep)| format!("{pattern} = {keep}"));
    let trash = rules.trash.iter().map(|period| format!("trash = {period}"));
    let budget = rules.disk_budget.iter().map(|bytes| format!("disk_budget = {}", crate::screen::bytes(*bytes)));
    keys.chain(trash).chain(budget).collect::<Vec<_>>().join(", ")
}

/// `5GB`, `500 MiB`, `100000`.
fn bytes(text: &str) -> Option<u64> {
    const UNITS: [(&str, u64); 9] = [
        ("", 1),
        ("b", 1),
        ("kb", 1000),
        ("mb", 1_000_000),
        ("gb", 1_000_000_000),
        ("tb", 1_000_000_000_000),
        ("kib", 1 << 10),
        ("mib", 1 << 20),
        ("gib", 1 << 30),
    ];
    let text = text.trim().replace('_', "");
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let unit = text[end..].trim().to_ascii_lowercase();
    let factor = UNITS.iter().find(|(name, _)| *name == unit)?.1;
    text[..end].parse::<u64>().ok()?.checked_mul(factor).filter(|bytes| *bytes > 0)
}

#[cfg(test)]
mod tests {
    use unforget_core::retention::Period;

    use super::*;

    fn item(text: &str) -> Item {
        text.parse::<toml_edit::DocumentMut>().unwrap().as_item().clone()
    }

    fn wrong(text: &str) -> String {
        retention(item(text).get("retention").unwrap()).unwrap_err()
    }

    #[test]
    fn rules_are_read_as_they_are_written() {
        let text = "[retention]\n'main:cli:*' = '90d'\n'main:cli:ada' = 'never'\ntrash = '1mo'\ndisk_budget = '5 GB'\n";
        let rules = retention(item(text).get("retention").unwrap()).unwrap();
        assert_eq!(shown(&rules), "main:cli:* = 90d, main:cli:ada = never, trash = 1mo, disk_budget = 5.0 GB");
        assert_eq!((rules.trash, rules.disk_budget), (Some(Period::parse("1mo").unwrap()), Some(5_000_000_000)));
    }

    #[test]
    fn nothing_that_could_mean_delete_all_is_taken() {
        assert!(wrong("[retention]\n'*' = '0'").contains("`*`: `0` is no time"));
        assert!(wrong("[retention]\n'*' = 0").contains("a text such as \"90d\""));
        assert!(wrong("[retention]\n'*' = '-1d'").contains("longer than nothing"));
        assert!(wrong("[retention]\ntrash = '6m'").contains("months are `mo`"));
        assert!(wrong("[retention]\ndisk_budget = '0'").contains("more than nothing"));
        assert!(wrong("[retention]\ndisk_budget = '5 apples'").contains("more than nothing"));
        assert!(wrong("[retention]\ntrsh = '30d'").contains("`trsh` is no pattern"));
        assert!(wrong("retention = '30d'").contains("a table in the file"));
    }

    #[test]
    fn prices_are_numbers_with_their_names() {
        let read = |text: &str| prices(item(text).get("prices").unwrap());
        let one =
            read("[prices.'house/model']\ninput = 3\noutput = 15.0\ncache_write = 3.75\ncache_read = 0.3\n").unwrap();
        assert_eq!(one.own.len(), 1);
        assert!(read("[prices.x]\ninput = 'three'\n").unwrap_err().contains("`input` is no number"));
        assert!(read("[prices]\nx = 3\n").unwrap_err().contains("`x`: it is no table"));
    }
}
