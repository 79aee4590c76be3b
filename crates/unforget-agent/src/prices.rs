//! What tokens cost, as far as it is known.
//!
//! The built-in table has the list prices of Claude models in USD for a million tokens; people with another contract, or with other models,
//! write their own into the settings. A model that is in neither has no price: its tokens are counted and its cost is said to be unknown,
//! never zero. Sums are made of whole picodollars, so that they do not depend on the order of sessions.
//!
//! Must not know where settings are, nor which sessions there are: it is given a model's name and its tokens.

use std::collections::BTreeMap;

use unforget_core::usage::{Line, Tokens};

/// Picodollars a token for one dollar a million tokens.
const DOLLAR_A_MILLION: u64 = 1_000_000;
/// Picodollars in a dollar.
const DOLLAR: u128 = 1_000_000_000_000;
/// The largest price that is believed, in dollars for a million tokens.
const MAX_PRICE: f64 = 1_000_000.0;

/// Picodollars for one token of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Price {
    input: u64,
    output: u64,
    cache_write: u64,
    cache_write_hour: u64,
    cache_read: u64,
    /// How many times as much a call with a long prompt costs.
    long: u64,
}

/// Input, output and cache reads of a family of models, in thousandths of a dollar for a million tokens, and how many times as much a long prompt costs. Writing to the cache for
/// five minutes costs 1.25 times the input, for an hour twice.
///
/// From platform.claude.com, "Pricing" and the models' own pages, as of 2026-11-16. Batches, fast modes and regional surcharges are
/// not in it, nor the former surcharge of Sonnet 4 and 4.5 for prompts over 200,000 tokens.
const BUILT_IN: [(&str, [u64; 4]); 25] = [
    ("claude-fable-5-1", [10_000, 50_000, 250, 1]),
    ("claude-mythos-5-1", [10_000, 50_000, 250, 1]),
    ("claude-fable-5", [10_000, 50_000, 1000, 1]),
    ("claude-mythos-5", [10_000, 50_000, 1000, 1]),
    ("claude-opus-5-5", [4000, 20_000, 200, 1]),
    ("claude-opus-5", [5000, 25_000, 500, 1]),
    ("claude-opus-4-8", [5000, 25_000, 500, 1]),
    ("claude-opus-4-7", [5000, 25_000, 500, 1]),
    ("claude-opus-4-6", [5000, 25_000, 500, 1]),
    ("claude-opus-4-5", [5000, 25_000, 500, 1]),
    ("claude-opus-4-1", [15_000, 75_000, 1500, 1]),
    ("claude-opus-4-0", [15_000, 75_000, 1500, 1]),
    ("claude-opus-4", [15_000, 75_000, 1500, 1]),
    ("claude-sonnet-5-5", [2000, 10_000, 100, 1]),
    ("claude-sonnet-5", [2000, 10_000, 200, 1]),
    ("claude-sonnet-4-6", [3000, 15_000, 300, 1]),
    ("claude-sonnet-4-5", [3000, 15_000, 300, 1]),
    ("claude-sonnet-4-0", [3000, 15_000, 300, 1]),
    ("claude-sonnet-4", [3000, 15_000, 300, 1]),
    ("claude-3-7-sonnet", [3000, 15_000, 300, 1]),
    ("claude-3-5-sonnet", [3000, 15_000, 300, 1]),
    ("claude-haiku-5-5", [100, 500, 10, 5]),
    ("claude-haiku-4-5", [1000, 5000, 100, 1]),
    ("claude-3-5-haiku", [800, 4000, 80, 1]),
    // It runs here.
    ("offline", [0, 0, 0, 1]),
];

/// Dollars in the table are written in thousandths.
const THOUSANDTH: u64 = DOLLAR_A_MILLION / 1000;

impl Price {
    fn built_in([input, output, cache_read, long]: [u64; 4]) -> Self {
        let (input, output, cache_read) = (input * THOUSANDTH, output * THOUSANDTH, cache_read * THOUSANDTH);
        Self { input, output, cache_read, long, cache_write: input * 5 / 4, cache_write_hour: input * 2 }
    }

    /// A price that a person wrote down, in dollars for a million tokens; otherwise, what would be right.
    pub fn of(members: &[(&str, f64)]) -> Result<Self, String> {
        const NAMES: [&str; 5] = ["input", "output", "cache_write", "cache_write_hour", "cache_read"];
        for (name, dollars) in members {
            if !NAMES.contains(name) {
                return Err(format!("there is no `{name}`, only {}", NAMES.join(", ")));
            }
            if !(0.0..=MAX_PRICE).contains(dollars) {
                return Err(format!("`{name}` must be dollars for a million tokens, from 0 to {MAX_PRICE}"));
            }
        }
        let get =
            |name: &str| members.iter().find(|(given, _)| *given == name).map(|(_, dollars)| picodollars(*dollars));
        let (Some(input), Some(output)) = (get("input"), get("output")) else {
            return Err("it needs `input` and `output`".to_owned());
        };
        let (write, hour, read) = (get("cache_write"), get("cache_write_hour"), get("cache_read"));
        Ok(Self {
            input,
            output,
            cache_write: write.unwrap_or(input * 5 / 4),
            cache_write_hour: hour.unwrap_or(input * 2),
            cache_read: read.unwrap_or(input / 10),
            long: 1,
        })
    }

    fn of_tokens(&self, tokens: &Tokens) -> u128 {
        let short_writes = tokens.cache_write.saturating_sub(tokens.cache_write_hour);
        let parts = [
            (self.input, tokens.input),
            (self.output, tokens.output),
            (self.cache_write, short_writes),
            (self.cache_write_hour, tokens.cache_write_hour),
            (self.cache_read, tokens.cache_read),
        ];
        parts.into_iter().map(|(price, count)| u128::from(price) * u128::from(count)).sum()
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the caller has checked the bounds")]
fn picodollars(dollars: f64) -> u64 {
    (dollars * DOLLAR_A_MILLION as f64).round() as u64
}

/// Prices by model: a person's own, and the built-in ones.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Prices {
    /// A person's own, by the name of a model or of a family.
    pub own: BTreeMap<String, Price>,
}

impl Prices {
    fn of(&self, model: &str) -> Option<Price> {
        let own = self.own.iter().filter(|(name, _)| is_of(model, name)).max_by_key(|(name, _)| name.len());
        let built_in = || BUILT_IN.iter().filter(|(name, _)| is_of(model, name)).max_by_key(|(name, _)| name.len());
        own.map(|(_, price)| *price).or_else(|| built_in().map(|(_, price)| Price::built_in(*price)))
    }

    /// What calls of a model cost.
    pub fn cost(&self, model: &str, line: &Line) -> Cost {
        match self.of(model) {
            Some(price) => {
                let extra = price.of_tokens(&line.long).saturating_mul(u128::from(price.long.saturating_sub(1)));
                Cost { picodollars: price.of_tokens(&line.tokens).saturating_add(extra), unpriced: 0 }
            }
            None => Cost { picodollars: 0, unpriced: line.tokens.total() },
        }
    }
}

/// Whether a model is one of a family: the name alone, or with a date, a version of a platform or a size of the window behind it. `claude-opus-4-9`
/// is not of `claude-opus-4`: it may cost something else.
fn is_of(model: &str, family: &str) -> bool {
    // Other platforms put a region and the maker in front.
    let bare = model.rfind("claude-").map_or(model, |at| &model[at..]);
    let Some(rest) = model.strip_prefix(family).or_else(|| bare.strip_prefix(family)) else { return false };
    let is_date = |text: &str| text.len() >= 8 && text.bytes().take(8).all(|byte| byte.is_ascii_digit());
    match rest.as_bytes().first() {
        None | Some(b'[' | b'@' | b':') => true,
        Some(b'-') => {
            let rest = &rest[1..];
            let version = rest.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
            is_date(rest) || version || rest == "latest"
        }
        _ => false,
    }
}

/// What something cost, and how many tokens have no price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cost {
    /// The known part.
    pub picodollars: u128,
    /// Tokens without a price.
    pub unpriced: u64,
}

impl std::ops::AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.picodollars = self.picodollars.saturating_add(other.picodollars);
        self.unpriced = self.unpriced.saturating_add(other.unpriced);
    }
}

impl Cost {
    /// Whether any of it is known.
    pub fn is_known(&self) -> bool {
        self.unpriced == 0 || self.picodollars > 0
    }

    /// `$1.20`, `$0.0042`, `unknown`, or `> $1.20` if a part of it is unknown.
    pub fn shown(&self) -> String {
        let known = match self.picodollars {
            0 => "$0.00".to_owned(),
            small if small < DOLLAR - DOLLAR / 20_000 => {
                format!("$0.{:04}", (small + DOLLAR / 20_000) / (DOLLAR / 10_000))
            }
            large => {
                let cents = (large + DOLLAR / 200) / (DOLLAR / 100);
                format!("${}.{:02}", cents / 100, cents % 100)
            }
        };
        match (self.unpriced, self.picodollars) {
            (0, _) => known,
            (_, 0) => "unknown".to_owned(),
            _ => format!("> {known}"),
        }
    }

    /// The known part in dollars, to a millionth; none if nothing is known.
    pub fn dollars(&self) -> Option<f64> {
        const MILLION: u128 = 1_000_000;
        let millionths = self.picodollars.saturating_add(MILLION / 2) / MILLION;
        self.is_known().then(|| millionths as f64 / MILLION as f64)
    }

    /// The known part in dollars, as a JSON number; `null` if nothing is known.
    pub fn json(&self) -> String {
        if !self.is_known() {
            return "null".to_owned();
        }
        format!("{}.{:06}", self.picodollars / DOLLAR, self.picodollars % DOLLAR / 1_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLION: Tokens = Tokens {
        input: 1_000_000,
        output: 1_000_000,
        cache_write: 1_000_000,
        cache_write_hour: 0,
        cache_read: 1_000_000,
    };

    fn cost(model: &str, line: Line) -> String {
        Prices::default().cost(model, &line).shown()
    }

    #[test]
    fn each_kind_of_token_has_its_price() {
        let line = Line { tokens: MILLION, ..Line::default() };
        assert_eq!(cost("claude-sonnet-4-5-20250929", line), "$22.05");
        let hour = Tokens { cache_write_hour: 1_000_000, ..MILLION };
        assert_eq!(cost("claude-sonnet-4-5", Line { tokens: hour, ..line }), "$24.30");
        assert_eq!(cost("claude-haiku-5-5", line), "$0.7350");
        assert_eq!(
            cost("claude-haiku-5-5", Line { long: MILLION, ..line }),
            "$3.68",
            "long prompts cost five times as much"
        );
        assert_eq!(cost("offline", line), "$0.00");
    }

    #[test]
    fn a_model_without_a_price_has_an_unknown_cost() {
        let line = Line { tokens: MILLION, ..Line::default() };
        for model in ["claude-opus-4-9", "claude-opus-45", "gpt-6", "unknown", "claude-opus-5-fast", "offline-2"] {
            assert_eq!(cost(model, line), "unknown", "{model}");
        }
        let mut sum = Prices::default().cost("claude-opus-5", &line);
        sum += Prices::default().cost("gpt-6", &line);
        assert_eq!((sum.shown().as_str(), sum.unpriced), ("> $36.75", 4_000_000));
    }

    #[test]
    fn names_of_other_platforms_and_aliases_are_understood() {
        for name in [
            "us.anthropic.claude-opus-4-7-v1:0",
            "claude-opus-4-7@20260301",
            "claude-opus-4-7[1m]",
            "claude-opus-4-7-latest",
        ] {
            assert!(Prices::default().of(name).is_some(), "{name}");
        }
    }

    #[test]
    fn a_persons_price_wins_and_what_is_not_said_follows_the_input() {
        let price = Price::of(&[("input", 1.0), ("output", 2.0)]).unwrap();
        let prices = Prices { own: BTreeMap::from([("claude-opus-5".to_owned(), price), ("house".to_owned(), price)]) };
        let line = Line { tokens: MILLION, ..Line::default() };
        assert_eq!(prices.cost("claude-opus-5", &line).shown(), "$4.35");
        assert_eq!(prices.cost("house", &line).json(), "4.350000");
        assert!(Price::of(&[("input", 1.0)]).unwrap_err().contains("needs"));
        assert!(Price::of(&[("input", -1.0), ("output", 1.0)]).is_err());
        assert!(Price::of(&[("input", f64::NAN), ("output", 1.0)]).is_err());
        assert!(Price::of(&[("inptu", 1.0)]).unwrap_err().contains("there is no `inptu`"));
    }

    #[test]
    fn dollars_are_known_to_a_millionth_or_not_at_all() {
        let dollars = |picodollars, unpriced| Cost { picodollars, unpriced }.dollars();
        assert_eq!(dollars(1_234_567_800_000, 0), Some(1.234_568));
        assert_eq!([dollars(0, 0), dollars(0, 1), dollars(2_000_000, 1)], [Some(0.0), None, Some(0.000_002)]);
        assert!(dollars(u128::MAX / 2, 0).is_some_and(f64::is_finite));
    }

    #[test]
    fn small_amounts_are_not_rounded_to_nothing() {
        let cost = |picodollars| Cost { picodollars, unpriced: 0 }.shown();
        assert_eq!(
            [cost(4_200_000_000), cost(999_999_999_999), cost(1_005_000_000_000)],
            ["$0.0042", "$1.00", "$1.01"]
        );
    }
}
