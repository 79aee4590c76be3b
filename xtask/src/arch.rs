//! The architecture in numbers, each of which may only fall: `cargo xtask arch`.
//!
//! A rule that exists only in prose is broken in the first week. So the workspace is measured ([`measure`]), and `arch.toml` has a limit
//! for each number of each crate. A number above its limit is an error that names what counts. A number below it is progress:
//! `cargo xtask arch --lower` writes it down, and never raises a limit. To raise one, edit the file and say why beside it.

use std::fs;

use crate::{Result, workspace};

mod limits;
mod measure;
mod source;

use limits::Limits;
use measure::Crate;

/// The file with the limits, at the root of the workspace.
const LIMITS: &str = "arch.toml";
/// The crates that are shipped.
const CRATES: [&str; 6] =
    ["unforget-core", "unforget-agent", "unforget-claude", "unforget-remote", "unforget-server", "unforget"];
/// How many offenders an error names.
const NAMED: usize = 10;

/// Measures, prints a table, and compares with the limits, or lowers them.
pub(crate) fn check(arguments: &[String]) -> Result {
    let is_lowered = match arguments {
        [] => false,
        [flag] if flag == "--lower" => true,
        other => return Err(format!("`cargo xtask arch [--lower]` does not take `{}`", other.join(" "))),
    };
    let crates: Vec<Crate> = CRATES.iter().map(|name| measure::of(name)).collect::<Result<_>>()?;
    let repeated = measure::repeated(&crates);
    let file = workspace().join(LIMITS);
    let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let mut limits = Limits::parse(&text).map_err(|error| format!("{LIMITS}: {error}"))?;
    print(&crates, repeated.len());
    if is_lowered {
        for one in &crates {
            one.numbers().into_iter().for_each(|(name, found)| limits.lower(one.name, name, found.len()));
        }
        limits.lower(limits::WORKSPACE, measure::REPEATED, repeated.len());
        return fs::write(&file, limits.to_text()).map_err(|error| format!("{}: {error}", file.display()));
    }
    let mut broken = Vec::new();
    let mut compare = |table: &str, name: &str, found: &measure::Found| match limits.of(table, name) {
        None => broken.push(format!("{LIMITS}: `{table}` has no `{name}`, which is {} now", found.len())),
        Some(limit) if found.len() > limit => {
            let shown: Vec<&str> = found.named().iter().take(NAMED).map(String::as_str).collect();
            let rest = found.named().len().saturating_sub(NAMED);
            let rest = if rest == 0 { String::new() } else { format!("\n  and {rest} more") };
            broken.push(format!(
                "{table}: `{name}` is {}, at most {limit}\n  {}{rest}",
                found.len(),
                shown.join("\n  ")
            ));
        }
        Some(_) => {}
    };
    for one in &crates {
        one.numbers().into_iter().for_each(|(name, found)| compare(one.name, name, found));
    }
    compare(limits::WORKSPACE, measure::REPEATED, &repeated);
    if broken.is_empty() { Ok(()) } else { Err(broken.join("\n")) }
}

fn print(crates: &[Crate], repeated: usize) {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in crates.iter().flat_map(Crate::numbers) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    println!("{:<16} {}", "", names.iter().map(|name| format!("{name:>17}")).collect::<String>());
    for one in crates {
        let numbers: String = one.numbers().iter().map(|(_, found)| format!("{:>17}", found.len())).collect();
        println!("{:<16} {numbers}", one.name);
    }
    let lines: usize = crates.iter().map(|one| one.lines.len()).sum();
    println!("{lines} lines in all; {repeated} names of public types stand in more than one place");
}
