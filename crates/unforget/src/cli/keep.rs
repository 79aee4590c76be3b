//! What there is to say about keeping and counting.

use clap::{Args, ValueEnum};

/// More about `usage`.
pub(super) const USAGE: &str = "\
What the API charged for is counted from the transcripts. Sessions in the trash count, what a fork copied does not. Days and weeks are those of \
your time zone, weeks begin on Monday, and calls are known by the hour. Costs are list prices; in the settings you can write your own, in dollars for a \
million tokens. A model without a price has an unknown cost.

  [prices.\"claude-sonnet-4-5\"]
  input = 3.0
  output = 15.0
  cache_write = 3.75       # else 1.25 times the input; cache_write_hour: twice
  cache_read = 0.3         # else a tenth of the input

Examples:
  unforget usage --by model --since 30d
  unforget usage --by session --key 'main:cli:*' --since 2026-01-01";

/// More about `gc`.
pub(super) const GC: &str = "\
Nothing expires by default. In the settings, [retention] says what does:

  [retention]
  \"main:cli:*\" = \"90d\"     # sessions by their key, this long after their last record
  \"main:cli:ada\" = \"never\" # `*` is any characters of a part; the most specific pattern wins
  trash = \"30d\"            # how long the trash keeps; for ever without this
  disk_budget = \"5GB\"      # transcripts and trash together; none without this

A session goes to the trash first, and `unforget undelete ID` brings it back. One that is in use, has a label, is damaged, or was told to stay \
(`unforget expire REF never`) never goes. Over the budget, the oldest of the trash leaves it, and then the oldest sessions go there; those leave it a day \
later at the earliest. What was done is printed and kept in trash/receipts.jsonl. The chat does the same once a day.";

/// More about `expire`.
pub(super) const EXPIRE: &str = "\
The session goes to the trash with the first `unforget gc` after that time. One that is used again gets the whole time anew.";

#[derive(Debug, Args)]
pub(crate) struct Usage {
    /// What a line is about
    #[arg(long, value_enum, default_value_t = By::Day)]
    pub(crate) by: By,
    /// From then on: `2026-01-31`, `30d`, `3h`, `6mo`, `today`, `yesterday`
    #[arg(long, value_name = "WHEN")]
    pub(crate) since: Option<String>,
    /// Until then; a day counts as a whole
    #[arg(long, value_name = "WHEN")]
    pub(crate) until: Option<String>,
    /// Only sessions whose key is this, or matches: `main:cli:*`
    #[arg(long, value_name = "PATTERN")]
    pub(crate) key: Option<String>,
    /// Only sessions of this agent
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    Day,
    Week,
    Month,
    Model,
    Agent,
    Session,
}

#[derive(Debug, Args)]
pub(crate) struct Gc {
    /// Only tell what would be done
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    /// Remove what is in the trash, for good; asks first
    #[arg(long)]
    pub(crate) purge_trash: bool,
    /// With `--purge-trash`: only what was deleted longer ago than this, `30d` for example
    #[arg(long, value_name = "TIME", requires = "purge_trash")]
    pub(crate) older_than: Option<String>,
    /// Do not ask
    #[arg(short, long, requires = "purge_trash")]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Expire {
    /// The session
    #[arg(value_name = "REF")]
    pub(crate) name: String,
    /// `30d`, `12h`, `6mo`; `never`; or `default` for what the settings say
    #[arg(value_name = "TIME")]
    pub(crate) after: String,
}

#[derive(Debug, Args)]
pub(crate) struct Label {
    /// The session
    #[arg(value_name = "REF")]
    pub(crate) name: String,
    /// The label; `off` or an empty one takes it off, as `--off` does
    #[arg(value_name = "LABEL", required_unless_present = "off")]
    pub(crate) label: Option<String>,
    /// Take the label off
    #[arg(long, conflicts_with = "label")]
    pub(crate) off: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Pin {
    /// The session
    #[arg(value_name = "REF")]
    pub(crate) name: String,
    /// Pin it no longer
    #[arg(long)]
    pub(crate) off: bool,
}
