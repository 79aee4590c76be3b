//! Many WebSocket sessions at a server: what a turn costs around the model call, beside a server that keeps nothing.
//!
//! Three contestants, one after the other, with the same clients and the same model: [`bare`](unforget_testkit::serving::bare), this program with its home
//! in memory, where a sync costs nothing, and this program with its home on the disk. Then the last one is killed in the middle of its work.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use unforget_testkit::serving::Server;
use unforget_testkit::serving::load::{Figures, Options, Survived, drive, kill_in_the_middle};
use unforget_testkit::serving::model::{Pace, start};

use crate::fleet::program;
use crate::{Result, context};

/// What this program is called with to be the server that keeps nothing.
pub(crate) const BARE: &str = "bare-server";
/// Where homes are in memory.
const MEMORY: &str = "/dev/shm";
/// An answer takes eight seconds, so that all sessions hear one most of the time, and two cores can tell them all.
const PACE: Pace = Pace { pieces: 16, every: Duration::from_millis(500) };
/// How long a session rests behind its answer, in seconds.
const REST: f64 = 1.0;
/// The share of the sessions that have to hear an answer at the same time, if nobody asked for fewer.
const AT_ONCE: f64 = 0.75;

/// A number that follows its name among the arguments.
pub(crate) fn number(arguments: &[String], name: &str, usual: u64) -> Result<u64> {
    let Some(at) = arguments.iter().position(|argument| argument == name) else { return Ok(usual) };
    let value = arguments.get(at + 1).ok_or_else(|| format!("{name} needs a number"))?;
    context(value.parse(), format!("{name} {value}"))
}

fn serve(api: &str, home: &Path) -> Result<Command> {
    let mut command = Command::new(program()?);
    command
        .env_clear()
        .env("UNFORGET_HOME", home)
        .env("HOME", home)
        .env("ANTHROPIC_BASE_URL", api)
        .env("ANTHROPIC_API_KEY", "sk-ant-fake")
        .args(["serve", "--json", "--listen", "127.0.0.1:0"])
        .stderr(Stdio::inherit());
    Ok(command)
}

pub(crate) fn run(arguments: &[String]) -> Result {
    let sessions = number(arguments, "--sessions", 1000)?;
    let (seconds, rate) = (number(arguments, "--seconds", 30)?, number(arguments, "--rate", 0)?);
    let sessions = usize::try_from(sessions).unwrap_or(usize::MAX).max(1);
    let answer = PACE.every.as_secs_f64() * PACE.pieces as f64;
    let rate = if rate == 0 { sessions as f64 / (answer + REST) } else { rate as f64 };
    let options = Options { sessions, time: Duration::from_secs(seconds), rate };
    let api = start(PACE)?;
    let this = context(std::env::current_exe(), "this program")?;
    let disk = context(tempfile::tempdir_in(this.parent().unwrap_or(Path::new("."))), "a home on the disk")?;
    let memory = context(tempfile::tempdir_in(MEMORY), "a home in memory")?;
    let mut bare = Command::new(&this);
    bare.args([BARE, &api]).stderr(Stdio::inherit());
    let contestants = [
        ("a server that keeps nothing", bare),
        ("unforget, home in memory", serve(&api, &memory.path().join("home"))?),
        ("unforget, home on the disk", serve(&api, &disk.path().join("home"))?),
    ];
    let mut rows = Vec::new();
    for (name, mut command) in contestants {
        eprintln!("{name} …");
        let server = Server::start(&mut command)?;
        let (figures, _) = drive(&server, options)?;
        rows.push((name, figures));
    }
    eprintln!("kill -9 in the middle …");
    let home = disk.path().join("killed");
    let survived = kill_in_the_middle(&mut serve(&api, &home)?, &home, options)?;
    let text = table(options, &rows, &survived);
    print!("{text}");
    let folder = this.parent().and_then(Path::parent).unwrap_or(Path::new("target")).join("bench");
    context(std::fs::create_dir_all(&folder), folder.display())?;
    context(std::fs::write(folder.join("load.md"), &text), folder.display())?;
    judge(options, &rows, &survived)
}

/// An error if anything failed, was lost, or was not what it was to be measured with.
fn judge(options: Options, rows: &[(&str, Figures)], survived: &Survived) -> Result {
    if let Some((name, figures)) = rows.iter().find(|(_, figures)| figures.failed > 0) {
        return Err(format!("{name}: {} prompts were not answered", figures.failed));
    }
    let answer = PACE.every.as_secs_f64() * PACE.pieces as f64;
    let wanted = options.sessions as f64 * AT_ONCE;
    if options.rate * answer >= wanted
        && let Some((name, figures)) = rows.iter().find(|(_, figures)| (figures.at_once as f64) < wanted)
    {
        let (heard, sessions) = (figures.at_once, options.sessions);
        return Err(format!("{name}: only {heard} of {sessions} sessions heard an answer at the same time"));
    }
    match survived.violations.as_slice() {
        [] => Ok(()),
        [first, ..] => Err(format!("{} things do not hold after the kill: {first}", survived.violations.len())),
    }
}

fn table(options: Options, rows: &[(&str, Figures)], survived: &Survived) -> String {
    let Options { sessions, time, rate } = options;
    let model = rows.last().map_or(0.0, |(_, figures)| figures.model_ms);
    let mut text = format!(
        "{sessions} WebSocket sessions for {time:?}, {rate:.0} prompts a second; an answer has {} pieces and takes {model:.0} ms.\n\
         Overhead is the time from a prompt to its `done` without the model's own. Clients, model and server share {} cores.\n\n\
         | | at once | turns/s | failed | first turn p50 | overhead p50 | p99 | p50, ratio | p99, ratio | memory, empty | a session |\n\
         |---|---|---|---|---|---|---|---|---|---|---|\n",
        PACE.pieces,
        std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
    );
    let (p50, p99) = rows.first().map_or((1.0, 1.0), |(_, figures)| (figures.p50_ms, figures.p99_ms));
    for (name, figures) in rows {
        let Figures { failed, rate, first_ms, p50_ms, p99_ms, at_once, empty, .. } = figures;
        let (empty, each) = (*empty as f64 / 1e6, figures.per_session(sessions) as f64 / 1e3);
        let (p50_ratio, p99_ratio) = (p50_ms / p50, p99_ms / p99);
        text += &format!(
            "| {name} | {at_once} | {rate:.1} | {failed} | {first_ms:.2} ms | {p50_ms:.2} ms | {p99_ms:.2} ms | {p50_ratio:.2} | {p99_ratio:.2} \
             | {empty:.1} MB | {each:.1} kB |\n"
        );
    }
    let Survived { accepted, answered, recovered, violations } = survived;
    text += &format!(
        "\nkill -9 in the middle and a new start: {accepted} prompts accepted, {answered} answered before, \
         {recovered} answered after it by themselves, {} lost.\n",
        violations.len()
    );
    text
}
