//! The context guard: a conversation never ends because it became too long.
//!
//! Before a call it looks at the gauge; after an overflow it is told by the model. Then it makes room, gently at first: (1)
//! large tool results are shortened, oldest first; (2) the older part becomes a summary by the model; (3) without a model: a digest by
//! rule, and whatever is still too large is shortened until it fits. Each step is one record in the log and one line for the person;
//! each can be undone; after a restart the conversation is as the last step left it.
//!
//! A summariser that fails is not asked again at once: after two failures the rules take over for some turns.

use tokio_util::sync::CancellationToken;
use unforget_core::history::{self, History, Limits, Path};
use unforget_core::record::{Body, Draft};
use unforget_core::session::Session;

use crate::compact::{self, By, Compacted, Keep, Plan, Refused, digest, summarise};
use crate::error::Result;
use crate::gauge::Gauge;
use crate::host::{Host, Notice};
use crate::model::{Limit, Model, Request};
use crate::settings::Settings;

mod room;

/// How often room is made before one call.
const ATTEMPTS: u32 = 4;
/// How often room is made after overflows of one call.
pub const OVERFLOWS: u32 = 7;
/// After so many failures in a row the summariser is left alone.
const FAILURES: u64 = 2;
/// For so many turns.
const REST: u64 = 8;
/// What making room aims at, in percent of where it becomes necessary.
const TARGET: u64 = 60;
/// A transcript whose newest part has more tokens than this many windows is not read further back.
const REACH: u64 = 8;

/// What a turn works with.
#[derive(Clone, Copy)]
pub struct Agent<'a> {
    /// What answers.
    pub model: &'a dyn Model,
    /// How to work.
    pub settings: &'a Settings,
}

/// The conversation as the model would see it now.
#[derive(Debug)]
pub struct View {
    /// What would be sent.
    pub history: History<'static>,
    /// How large it is.
    pub gauge: Gauge,
    /// System prompt, tools and model as the log states them.
    pub stated: Stated,
    /// Whether the summariser is left alone for now.
    rests: bool,
}

/// System prompt, tools and model as the newest `context` record has them: JSON text, and a name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stated {
    /// The system prompt.
    pub system: Option<String>,
    /// The tools.
    pub tools: Option<String>,
    /// The model.
    pub model: Option<String>,
}

impl Stated {
    fn of(path: &Path<'_, '_>) -> Self {
        let newest = path.records.iter().rev().find_map(|record| match &record.body {
            Body::Context { system, tools, model } => Some((system, tools, model)),
            _ => None,
        });
        newest.map_or_else(Self::default, |(system, tools, model)| Self {
            system: system.map(str::to_owned),
            tools: tools.map(str::to_owned),
            model: model.as_ref().map(|model| model.clone().into_owned()),
        })
    }
}

impl Agent<'_> {
    /// What is read of a transcript at most.
    pub fn limits(&self) -> Limits {
        Limits { tokens: Some(self.model.window().saturating_mul(REACH)), ..Limits::default() }
    }

    /// Reads the conversation from the log.
    pub fn look(&self, session: &Session) -> Result<View> {
        let (limits, model) = (self.limits(), self.model.name());
        Ok(session.view(&limits, |path, _| View {
            history: history::rebuild(path, &limits).into_owned(),
            gauge: Gauge::of(path, model),
            stated: Stated::of(path),
            rests: {
                let (failures, turns) = failures(path);
                failures >= FAILURES && turns < REST
            },
        })?)
    }

    /// How many tokens a conversation may have before room is made.
    pub fn limit(&self) -> u64 {
        let window = self.model.window();
        let share = (window as f64 * self.settings.compact_at.clamp(0.1, 1.0)) as u64;
        let answer = u64::from(self.settings.max_tokens);
        // An answer that may fill half of the window is a setting to be ignored here.
        if answer < window / 2 { share.min(window - answer) } else { share }
    }

    /// The conversation, with room made if the gauge says that it would not fit.
    pub async fn prepare(&self, session: &mut Session, host: &mut dyn Host, abort: &CancellationToken) -> Result<View> {
        let limit = self.limit();
        let mut view = self.look(session)?;
        for attempt in 0..ATTEMPTS {
            if view.gauge.tokens <= limit || abort.is_cancelled() {
                break;
            }
            if attempt == 0 && self.counts_below(&view, limit, abort).await {
                break;
            }
            let tokens = view.gauge.tokens;
            let made = match attempt {
                0 if self.shorten_results(session, tokens, limit, host)? => true,
                0 | 1 => self.compact(session, None, &view, host, abort).await?.is_some(),
                _ => self.last_resort(session, limit / u64::from(attempt), host)?,
            };
            if !made && attempt > 1 {
                break;
            }
            view = self.look(session)?;
        }
        Ok(view)
    }

    /// Makes room after the model said that there is none.
    pub async fn after_overflow(
        &self,
        session: &mut Session,
        attempt: u32,
        limit: Limit,
        host: &mut dyn Host,
        abort: &CancellationToken,
    ) -> Result<()> {
        let view = self.look(session)?;
        let tokens = view.gauge.tokens;
        match (attempt, limit) {
            // Too many bytes are pictures and payloads: a summary of the words would not help.
            (0, Limit::Bytes) => drop(self.shorten_largest(session, 2, host)?),
            (0, Limit::Tokens) if self.shorten_results(session, tokens, tokens * 9 / 10, host)? => {}
            (0 | 1, _) => drop(self.compact(session, None, &view, host, abort).await?),
            _ => drop(self.last_resort(session, (tokens / 2).min(self.limit()) >> attempt.saturating_sub(2), host)?),
        }
        Ok(())
    }

    /// Whether the model itself counts fewer tokens than the limit; an estimate may be wrong, and a count is free.
    async fn counts_below(&self, view: &View, limit: u64, abort: &CancellationToken) -> bool {
        if view.gauge.estimated < view.gauge.tokens / 4 || view.gauge.tokens > limit.saturating_mul(2) {
            return false;
        }
        let thinking = self.settings.thinking.with(&view.history);
        let request = Request { history: &view.history, max_tokens: self.settings.max_tokens, thinking };
        // What cannot be counted is estimated: not all that may be sent may be counted.
        let counted = abort.run_until_cancelled(self.model.count(&request)).await;
        // Whoever has enough does not wait for a summary either.
        counted.is_none_or(|count| count.is_ok_and(|count| count <= limit))
    }

    /// Stage one: large results shortened, oldest first, if that is enough to get below `limit`.
    fn shorten_results(&self, session: &mut Session, tokens: u64, limit: u64, host: &mut dyn Host) -> Result<bool> {
        let target = limit * TARGET / 100;
        let model = self.model.name();
        let found = session.view(&self.limits(), |path, _| {
            let gauge = Gauge::of(path, model);
            room::results(path, |estimate| gauge.scaled(estimate), tokens, target)
        })?;
        match found.filter(|trim| trim.tokens <= limit) {
            Some(trim) => self.trim(session, &trim, tokens, host).map(|()| true),
            None => Ok(false),
        }
    }

    /// Everything shortened alike until it has one in `divisor` of its bytes.
    fn shorten_largest(&self, session: &mut Session, divisor: usize, host: &mut dyn Host) -> Result<bool> {
        let tokens = self.look(session)?.gauge.tokens;
        let found = session.view(&self.limits(), |path, _| room::largest(path, room::bytes(path) / divisor))?;
        match found {
            Some(trim) => self.trim(session, &trim, tokens, host).map(|()| true),
            None => Ok(false),
        }
    }

    fn trim(&self, session: &mut Session, trim: &room::Trim, before: u64, host: &mut dyn Host) -> Result<()> {
        let draft = Draft::trim(&trim.records, trim.keep as u64).raw("before", &before.to_string());
        session.append(&[draft])?;
        let after = self.look(session)?.gauge.tokens;
        let count = trim.records.len();
        let what = if count == 1 { "1 large item".to_owned() } else { format!("{count} large items") };
        let line = format!("shortened {what}: {} -> {} tokens", about(before), about(after));
        host.tell(Notice::Guard(&line));
        Ok(())
    }

    /// Stage two: the older part becomes a summary, by the model or, if that fails, by rule.
    ///
    /// None if there is too little to replace.
    pub async fn compact(
        &self,
        session: &mut Session,
        instructions: Option<&str>,
        view: &View,
        host: &mut dyn Host,
        abort: &CancellationToken,
    ) -> Result<Option<Compacted>> {
        let target = self.limit() * TARGET / 100;
        let keep = self.settings.keep_tokens.map_or(Keep::Share { tokens: target / 2 }, Keep::Tokens);
        let Some(plan) = compact::plan(session, &self.limits(), self.model.name(), keep)? else { return Ok(None) };
        let summary = match view.rests && instructions.is_none() {
            true => None,
            false => Some(summarise::summarise(&plan, self.model, self.settings, instructions, abort).await),
        };
        let why = match summary {
            Some(Ok(summary)) => match plan.record(session, &summary, By::Model)? {
                Ok(done) => return Ok(Some(told(done, "a summary", host))),
                Err(refused) => Some(refused),
            },
            Some(Err(Refused::Aborted)) => return Ok(None),
            Some(Err(refused)) => Some(refused),
            None => None,
        };
        if let Some(why) = &why {
            let message = format!("no summary by the model: {why}");
            session.append(&[Draft::new("error").text("message", &message).text("about", "compaction")])?;
            host.tell(Notice::Guard(&format!("{message}; a digest by rule takes its place")));
        }
        self.compact_by_rule(session, &plan, digest::MAX_SUMMARY, host)
    }

    fn compact_by_rule(
        &self,
        session: &mut Session,
        plan: &Plan,
        most: usize,
        host: &mut dyn Host,
    ) -> Result<Option<Compacted>> {
        let tried = session.view(&self.limits(), |path, _| failures(path))?;
        match plan.record(session, &digest::digest(plan, most), By::Rule { tried })? {
            Ok(done) => Ok(Some(told(done, "a digest", host))),
            Err(_) => Ok(None),
        }
    }

    /// The last stage: no model, and it fits into about `room` tokens.
    fn last_resort(&self, session: &mut Session, room: u64, host: &mut dyn Host) -> Result<bool> {
        let name = self.model.name();
        let mut made = false;
        if let Some(plan) = compact::plan(session, &self.limits(), name, Keep::Tokens(room / 3))? {
            // About three bytes to a token, and a quarter of the room.
            let most = usize::try_from(room.saturating_mul(3) / 4).unwrap_or(usize::MAX).min(digest::MAX_SUMMARY);
            made = self.compact_by_rule(session, &plan, most, host)?.is_some();
        }
        let gauge = self.look(session)?.gauge;
        if gauge.tokens > room {
            let said = gauge.tokens.saturating_sub(gauge.context).max(1);
            let left = room.saturating_sub(gauge.context).max(room / 8);
            let found = session.view(&self.limits(), |path, _| {
                let bytes = room::bytes(path) as u128 * u128::from(left) / u128::from(said);
                room::largest(path, usize::try_from(bytes).unwrap_or(usize::MAX))
            })?;
            if let Some(trim) = found {
                self.trim(session, &trim, gauge.tokens, host)?;
                made = true;
            }
        }
        Ok(made)
    }
}

fn told(done: Compacted, what: &str, host: &mut dyn Host) -> Compacted {
    let (before, after) = done.messages;
    let (old, new) = done.tokens;
    host.tell(Notice::Guard(&format!(
        "compacted {before} messages to {after} with {what}: {} -> {} tokens",
        about(old),
        about(new)
    )));
    done
}

/// `~12,300`.
pub fn about(tokens: u64) -> String {
    let digits = tokens.to_string();
    let mut out = String::from("~");
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// How the summariser did of late: failures in a row, and turns since the last one.
///
/// A compaction replaces the records that say so, and carries the two numbers on; what it kept came before it.
fn failures(path: &Path<'_, '_>) -> (u64, u64) {
    let (mut failures, mut turns, mut from) = (0, 0, 0);
    for record in &path.records {
        match &record.body {
            Body::Compaction { .. } => {
                let members = unforget_core::json::members(record.raw).unwrap_or_default();
                let number = |name| unforget_core::json::member(&members, name).and_then(unforget_core::json::number);
                (failures, turns) = (number("failures").unwrap_or(0), number("turns").unwrap_or(0));
                from = record.n;
            }
            _ if record.n < from => {}
            Body::Error { .. } if is_about_compaction(record.raw) => (failures, turns) = (failures + 1, 0),
            Body::User { .. } => turns += 1,
            _ => {}
        }
    }
    (failures, turns)
}

fn is_about_compaction(raw: &str) -> bool {
    let members = unforget_core::json::members(raw).unwrap_or_default();
    unforget_core::json::member(&members, "about") == Some("\"compaction\"")
}
