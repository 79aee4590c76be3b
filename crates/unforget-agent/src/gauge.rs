//! How full the context window is: one number, and where it comes from.
//!
//! The last call's usage is a measurement of everything that was sent and answered, cached tokens included. What came
//! since is estimated, by script and pixels, and scaled by what earlier measurements of the same model say about the
//! estimates. When the beginning of the conversation changes (compaction, trim, undo, another system prompt), the old
//! measurement says nothing any more; then all of it is an estimate until the next call. A pure fold over the records.

use unforget_core::history::{Path, Trims};
use unforget_core::record::{Body, Record};
use unforget_core::{json, tokens};

/// Tokens of a message around what it says.
const FRAME: u64 = 8;
/// Tokens of a call or a result around what it says.
const CALL_FRAME: u64 = 20;
/// So many estimated tokens must have been measured before the estimate is scaled.
const CALIBRATION: u64 = 200;
/// The scale stays between these, in thousandths: what is outside was not measured on the same thing.
const SCALE: (u64, u64) = (400, 2500);
const ONE: u64 = 1000;

/// How many tokens the conversation has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Gauge {
    /// All of it.
    pub tokens: u64,
    /// How many of them were measured, by the last call.
    pub measured: u64,
    /// How many are an estimate.
    pub estimated: u64,
    /// How many of all are system prompt and tools, estimated.
    pub context: u64,
    /// By how much the bare estimate was scaled, in thousandths.
    pub scale: u64,
    /// Number of messages.
    pub messages: u64,
    /// The record that holds the measurement.
    pub measured_at: Option<u64>,
}

impl Gauge {
    /// Reads the gauge of a conversation with that model.
    pub fn of(path: &Path<'_, '_>, model: &str) -> Self {
        let mut fold = Fold { boundary: boundary(path), ..Fold::default() };
        for record in &path.records {
            fold.feed(record, path, model);
        }
        fold.finish()
    }

    /// Where the number comes from, in words.
    pub fn provenance(&self) -> String {
        match (self.measured, self.estimated) {
            (0, _) if self.scale == ONE => "estimated".to_owned(),
            (0, _) => format!("estimated, calibrated x{:.2}", self.scale as f64 / ONE as f64),
            (_, 0) => "measured by the last call".to_owned(),
            (measured, estimated) => format!("{measured} measured by the last call + {estimated} estimated since"),
        }
    }

    /// An estimate on this gauge's scale.
    pub fn scaled(&self, estimate: u64) -> u64 {
        scaled(estimate, self.scale)
    }
}

fn scaled(estimate: u64, scale: u64) -> u64 {
    estimate.saturating_mul(scale) / ONE
}

/// The last record that changed the beginning of the conversation.
fn boundary(path: &Path<'_, '_>) -> u64 {
    let mut context = None;
    let mut boundary = 0;
    for record in &path.records {
        let changes = match &record.body {
            Body::Compaction { .. } | Body::Trim { .. } | Body::Undo { .. } => true,
            body @ Body::Context { .. } => context.replace(body) != Some(body),
            _ => false,
        };
        if changes {
            boundary = boundary.max(record.n);
        }
    }
    boundary
}

#[derive(Debug, Default)]
struct Fold {
    boundary: u64,
    context: u64,
    said: u64,
    since: u64,
    /// The same with everything that was shortened or left out later: what the next measurement was of.
    since_whole: u64,
    last: Option<(u64, u64)>,
    /// Whether the beginning changed since the last measurement, so that the next one cannot be compared with it.
    changed: bool,
    /// Measured and estimated tokens of the same parts.
    pairs: (u64, u64),
    messages: u64,
    last_role: Option<&'static str>,
}

impl Fold {
    fn feed(&mut self, record: &Record<'_>, path: &Path<'_, '_>, model: &str) {
        if let Body::Context { system, tools, .. } = &record.body {
            self.context = [*system, *tools].into_iter().flatten().map(|raw| tokens::estimate(raw.as_bytes())).sum();
            self.changed = true;
            return;
        }
        self.changed |= matches!(record.body, Body::Compaction { .. } | Body::Trim { .. } | Body::Undo { .. });
        if let Body::Turn { usage: Some(usage), model: asked, state, .. } = &record.body {
            // What a call that broke off took is paid for, but it measures nothing: its answer is not counted.
            if matches!(state.as_ref(), "aborted" | "failed") {
                return;
            }
            if let Some(total) = total(usage).filter(|_| asked.as_deref() == Some(model)) {
                self.measure(record.n, total);
            }
            return;
        }
        let cost = cost(record, &path.trims, path.thinking_from);
        self.said += cost;
        self.since += cost;
        self.since_whole += match is_whole(record, path) {
            true => cost,
            false => self::cost(record, &Trims::default(), 0),
        };
        let role = match record.body {
            Body::Assistant { .. } | Body::ToolUse(_) => "assistant",
            Body::User { .. } | Body::ToolResult(_) | Body::Compaction { .. } => "user",
            _ => return,
        };
        self.messages += u64::from(self.last_role.replace(role) != Some(role));
    }

    fn measure(&mut self, n: u64, total: u64) {
        let pair = match self.last {
            Some((before, measured)) if !self.changed && (before > self.boundary || n < self.boundary) => {
                Some((total.saturating_sub(measured), self.since_whole))
            }
            // The first measurement behind the boundary is of everything.
            _ if n > self.boundary => Some((total, self.said + self.context)),
            _ => None,
        };
        if let Some((measured, estimated)) = pair.filter(|(measured, _)| *measured > 0) {
            self.pairs = (self.pairs.0.saturating_add(measured), self.pairs.1.saturating_add(estimated));
        }
        self.last = Some((n, total));
        (self.since, self.since_whole) = (0, 0);
        self.changed = false;
    }

    fn finish(self) -> Gauge {
        let scale = match self.pairs {
            (measured, estimated) if estimated >= CALIBRATION => {
                (measured.saturating_mul(ONE) / estimated).clamp(SCALE.0, SCALE.1)
            }
            _ => ONE,
        };
        let measured = self.last.filter(|(n, _)| *n > self.boundary);
        let rest = if measured.is_some() { self.since } else { self.said + self.context };
        let estimated = scaled(rest, scale);
        let known = measured.map_or(0, |(_, total)| total);
        Gauge {
            tokens: known.saturating_add(estimated),
            measured: known,
            estimated,
            context: scaled(self.context, scale),
            scale,
            messages: self.messages,
            measured_at: measured.map(|(n, _)| n),
        }
    }
}

/// Everything that a usage counts: what was sent, from the cache or not, and what was answered.
///
/// The numbers come from a server or an imported file, and may be any.
pub fn total(usage: &str) -> Option<u64> {
    let members = json::members(usage)?;
    let number = |name| json::member(&members, name).and_then(json::number);
    let parts = ["cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens"];
    Some(parts.iter().filter_map(|name| number(name)).fold(number("input_tokens")?, u64::saturating_add))
}

/// Estimated tokens of what a record adds to a request.
pub fn cost(record: &Record<'_>, trims: &Trims, thinking_from: u64) -> u64 {
    let content = |raw: &str, frame: u64| {
        let whole = tokens::of_content(raw);
        let kept = trims.cap(record.n, raw.len());
        frame + if kept < raw.len() { tokens::of_bytes(kept).min(whole) } else { whole }
    };
    match &record.body {
        Body::User { content: raw } => content(raw, FRAME),
        Body::Assistant { .. } if is_left_out(record, thinking_from) => 0,
        Body::Assistant { content: raw, .. } => content(raw, FRAME),
        Body::ToolUse(call) => content(call.input, CALL_FRAME),
        Body::ToolResult(result) => content(result.content, CALL_FRAME),
        Body::Compaction { summary, pinned, .. } => {
            FRAME + tokens::estimate(summary.as_bytes()) + tokens::estimate(pinned.unwrap_or_default().as_bytes())
        }
        _ => 0,
    }
}

/// Whether a record is thinking that belongs to another beginning of the conversation, and is not sent.
pub(crate) fn is_left_out(record: &Record<'_>, thinking_from: u64) -> bool {
    let Body::Assistant { content, .. } = &record.body else { return false };
    record.n < thinking_from && is_thinking(content)
}

/// Whether a record is sent with all that it says.
fn is_whole(record: &Record<'_>, path: &Path<'_, '_>) -> bool {
    path.trims.cap(record.n, usize::MAX) == usize::MAX && !is_left_out(record, path.thinking_from)
}

fn is_thinking(content: &str) -> bool {
    let first = json::elements(content).and_then(|blocks| blocks.first().copied());
    first.is_some_and(|block| json::has_type(block, &["thinking", "redacted_thinking"]))
}
