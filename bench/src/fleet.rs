//! Three servers, one PostgreSQL, and one of them killed every few seconds: figures, and an error if anything acknowledged is missing.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use unforget_testkit::api::{self, FakeApi};
use unforget_testkit::servers::postgres;
use unforget_testkit::serving::fleet::{self, Options, Report};

use crate::load::number;
use crate::{Result, context};

pub(crate) fn run(arguments: &[String]) -> Result {
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_secs());
    let (seconds, seed) = (number(arguments, "--seconds", 60)?, number(arguments, "--seed", seed)?);
    let sessions = usize::try_from(number(arguments, "--sessions", 20)?).unwrap_or(20);
    let pace = Duration::from_millis(5);
    let api = context(FakeApi::start(api::Options { pace, ..api::Options::default() }), "the model")?;
    let server = postgres::Server::start(postgres::Kind::Safe);
    let folder = context(tempfile::tempdir(), "a folder for the homes")?;
    let options = Options {
        program: program()?,
        remote: server.url("fleet"),
        api: api.url(),
        folder: folder.path().to_owned(),
        servers: 3,
        sessions,
        clients: 3,
        time: Duration::from_secs(seconds),
        every: Duration::from_secs(3),
        lease: 2,
        seed,
    };
    println!("three servers, {sessions} sessions with three clients each, {seconds} s, seed {seed}");
    let report = fleet::run(&options)?;
    let Report { done, accepted, left, late, skipped, again, killed, paused, taken_over, forks, .. } = &report;
    let Report { p50_ms, longest_ms, violations, .. } = &report;
    println!("prompts accepted          {accepted}");
    println!("  answered                {done}");
    println!("  left to who accepted    {left}, not in their session in time: {late}");
    println!("  ended without an answer {}", skipped.len());
    for one in skipped {
        println!("    {one}");
    }
    println!("sent again                {again}");
    println!("kill -9                   {killed}");
    println!("paused beyond the lease   {paused}");
    println!("sessions taken over       {taken_over}");
    println!("forks                     {forks}");
    println!("answered, half of them    {p50_ms} ms");
    println!("answered, the slowest     {longest_ms} ms");
    println!("violations                {}", violations.len());
    for violation in violations {
        println!("  {violation}");
    }
    match violations.is_empty() {
        true => Ok(()),
        false => {
            let kept = folder.keep();
            Err(format!(
                "{} things do not hold (seed {seed}); the homes are kept in {}",
                violations.len(),
                kept.display()
            ))
        }
    }
}

/// The program that is beside this one.
pub(crate) fn program() -> Result<PathBuf> {
    Ok(context(std::env::current_exe(), "this program")?.with_file_name("unforget"))
}
