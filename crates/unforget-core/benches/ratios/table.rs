//! Measuring in turns, and saying it in a table.

use std::time::{Duration, Instant};

/// One thing to measure, done once a round.
pub(crate) type Task<'t> = Box<dyn FnMut() -> Duration + 't>;

/// Times one call.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    std::hint::black_box(work());
    start.elapsed()
}

/// Medians of tasks that take turns. Every other round goes the other way, so that none always follows the same one.
pub(crate) fn interleaved(rounds: usize, tasks: &mut [Task<'_>]) -> Vec<Duration> {
    let mut times: Vec<Vec<Duration>> = vec![Vec::with_capacity(rounds); tasks.len()];
    for round in 0..rounds {
        let mut order: Vec<usize> = (0..tasks.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for at in order {
            let time = tasks[at]();
            times[at].push(time);
        }
    }
    times.into_iter().map(median).collect()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Begins a part of the table.
pub(crate) fn head(title: &str) {
    println!("\n{title}");
    println!("{:<56} {:>11} {:>11} {:>8}  goal", "", "ours", "bare", "ratio");
}

/// One line of the table.
pub(crate) fn row(what: &str, ours: Duration, bare: Duration, goal: &str) {
    let ratio = ours.as_secs_f64() / bare.as_secs_f64().max(f64::MIN_POSITIVE);
    println!("{what:<56} {:>11} {:>11} {ratio:>7.2}x  {goal}", time(ours), time(bare));
}

/// One line of the table, about memory.
pub(crate) fn memory(what: &str, ours: u64, bare: Option<u64>, goal: &str) {
    let ratio = bare.map_or(String::new(), |bare| format!("{:.2}x", ours as f64 / bare.max(1) as f64));
    println!("{what:<56} {:>11} {:>11} {ratio:>8}  {goal}", size(ours), bare.map_or(String::new(), size));
}

fn time(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds if seconds < 1e-3 => format!("{:.1} us", seconds * 1e6),
        seconds if seconds < 1.0 => format!("{:.2} ms", seconds * 1e3),
        seconds => format!("{seconds:.2} s"),
    }
}

/// A size in the unit that a person would say it in.
pub(crate) fn size(bytes: u64) -> String {
    match bytes as f64 {
        bytes if bytes < 1e6 => format!("{:.0} kB", bytes / 1e3),
        bytes if bytes < 1e9 => format!("{:.1} MB", bytes / 1e6),
        bytes => format!("{:.1} GB", bytes / 1e9),
    }
}
