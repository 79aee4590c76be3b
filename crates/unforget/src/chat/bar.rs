//! The picture of the context window: how full it is, and how that is known.

use anstyle::{AnsiColor, Style};
use unforget_agent::gauge::Gauge;

/// Cells of the bar.
const CELLS: u64 = 30;

/// The lines of `/context`; at `limit` tokens the guard makes room.
pub(crate) fn lines(gauge: &Gauge, window: u64, limit: u64) -> Vec<String> {
    let tenths = gauge.tokens.saturating_mul(1000) / window.max(1);
    let full = (gauge.tokens.saturating_mul(CELLS) / window.max(1)).min(CELLS);
    let color = match tenths {
        0..500 => AnsiColor::Green,
        500..800 => AnsiColor::Yellow,
        _ => AnsiColor::Red,
    };
    let (style, dim) = (color.on_default(), Style::new().dimmed());
    let cells = |count: u64, cell: &str| cell.repeat(usize::try_from(count).unwrap_or(0));
    vec![
        format!("  Context usage: {} / {} tokens", about(gauge), grouped(window)),
        format!(
            "  [{style}{}{style:#}{}] {}.{}%",
            cells(full, "#"),
            cells(CELLS - full, "-"),
            tenths / 10,
            tenths % 10
        ),
        format!("  {dim}{}{dim:#}", gauge.provenance()),
        format!(
            "  {dim}system prompt and tools: ~{}; room is made at {}{dim:#}",
            grouped(gauge.context),
            grouped(limit)
        ),
        format!("  Messages: {}", gauge.messages),
    ]
}

/// The number, with a mark if it is an estimate.
fn about(gauge: &Gauge) -> String {
    let mark = if gauge.estimated == 0 && gauge.measured > 0 { "" } else { "~" };
    format!("{mark}{}", grouped(gauge.tokens))
}

/// `12,345`.
pub(crate) fn grouped(number: u64) -> String {
    unforget_agent::guard::about(number).trim_start_matches('~').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fills_and_says_where_the_number_comes_from() {
        let gauge =
            Gauge { tokens: 95_000, measured: 90_000, estimated: 5000, messages: 12, scale: 1000, ..Gauge::default() };
        let plain: Vec<String> =
            lines(&gauge, 200_000, 170_000).iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect();
        assert_eq!(plain[0], "  Context usage: ~95,000 / 200,000 tokens");
        assert_eq!(plain[1], "  [##############----------------] 47.5%");
        assert_eq!(plain[2], "  90000 measured by the last call + 5000 estimated since");
        assert!(lines(&Gauge { tokens: 900, ..gauge }, 300, 250)[1].contains(&"#".repeat(30)));
    }
}
