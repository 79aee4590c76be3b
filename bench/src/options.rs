//! How much is measured, and where.

use std::path::PathBuf;

use unforget_testkit::corpus::Plan;

use crate::Result;

const HELP: &str = "\
cargo xtask bench peers [OPTIONS]

  --full            100,000 sessions with 1 GB in all (10,000 with 100 MB otherwise)
  --sessions COUNT  so many sessions
  --bytes BYTES     so many bytes in all of them
  --records COUNT   so many records in the long session (100,000)
  --rounds COUNT    so many turns in W1 (200); everything else is repeated a fixed number of times
  --only W1,W3      these workloads
  --peers NAME,…    these peers (tutorial, openai, langgraph, strands, pi, ripgrep)
  --seed NUMBER     other data (1)
  --program PATH    the unforget to measure (the one beside this program)
  --folder PATH     where everything is put (target/bench)
";

/// The token budget of W4.
pub(crate) const BUDGET: u64 = 180_000;
/// How many sessions W5 lists.
pub(crate) const PAGE: usize = 50;

/// How much is measured, and where.
pub(crate) struct Options {
    pub(crate) plan: Plan,
    pub(crate) records: u64,
    pub(crate) rounds: usize,
    only: Vec<String>,
    peers: Vec<String>,
    pub(crate) program: PathBuf,
    pub(crate) folder: PathBuf,
}

impl Options {
    /// Reads the command line; nothing if help was all that was asked for.
    pub(crate) fn parse(arguments: &[String]) -> Result<Option<Self>> {
        let here = crate::context(std::env::current_exe(), "this program")?;
        let target = here.parent().and_then(std::path::Path::parent).ok_or("this program is not beneath `target`")?;
        let mut options = Self {
            plan: Plan { seed: 1, sessions: 10_000, bytes: 100_000_000 },
            records: 100_000,
            rounds: 200,
            only: Vec::new(),
            peers: Vec::new(),
            program: here.with_file_name("unforget"),
            folder: target.join("bench"),
        };
        let mut rest = arguments.iter();
        while let Some(name) = rest.next() {
            let mut value = || rest.next().ok_or_else(|| format!("`{name}` needs a value\n\n{HELP}"));
            match name.as_str() {
                "--full" => (options.plan.sessions, options.plan.bytes) = (100_000, 1_000_000_000),
                "--sessions" => options.plan.sessions = number(value()?)?,
                "--bytes" => options.plan.bytes = number(value()?)?,
                "--records" => options.records = number(value()?)?,
                "--rounds" => options.rounds = number(value()?)?,
                "--seed" => options.plan.seed = number(value()?)?,
                "--only" => options.only = names(value()?),
                "--peers" => options.peers = names(value()?),
                "--program" => options.program = PathBuf::from(value()?),
                "--folder" => options.folder = PathBuf::from(value()?),
                "--help" | "-h" => {
                    eprint!("{HELP}");
                    return Ok(None);
                }
                other => return Err(format!("unknown option `{other}`\n\n{HELP}")),
            }
        }
        // Contestants are started in other folders.
        for path in [&mut options.program, &mut options.folder] {
            *path = crate::context(std::path::absolute(&*path), path.display())?;
        }
        Ok(Some(options))
    }

    /// Whether a workload is wanted.
    pub(crate) fn wants(&self, workload: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name.eq_ignore_ascii_case(workload))
    }

    /// Whether a peer is wanted.
    pub(crate) fn wants_peer(&self, name: &str) -> bool {
        self.peers.is_empty() || self.peers.iter().any(|wanted| wanted == name)
    }

    /// What was left out on purpose, for the reader of the table.
    pub(crate) fn left_out(&self) -> String {
        let listed = |what: &str, names: &[String]| match names {
            [] => String::new(),
            names => format!(", {what} {} only", names.join(" and ")),
        };
        listed("workloads", &self.only) + &listed("peers", &self.peers)
    }
}

fn names(list: &str) -> Vec<String> {
    list.split(',').map(|name| name.trim().to_owned()).collect()
}

fn number<N: std::str::FromStr>(text: &str) -> Result<N> {
    text.replace('_', "").parse().map_err(|_| format!("`{text}` is not a number that fits here"))
}
