//! Cleaning up beside the chat, once a day, if the settings ask for it.
//!
//! It runs in a thread of its own that nobody waits for: a turn is neither delayed nor failed by it, and if the program ends in the middle, it is as after a
//! crash: every session is in one place. What it did is told in one line before the next prompt. The session that is open here is in use, and so it
//! is never touched.

use std::sync::mpsc::{Receiver, channel};

use unforget_core::Error;
use unforget_core::directory::Directory;
use unforget_core::retention::{self, Action, Due, Purge, Rules};

use crate::commands::gc;
use crate::failure::{Failure, Result};
use crate::screen;

/// The thread, and what it has to tell.
pub(super) struct Cleanup(Option<Receiver<String>>);

impl Cleanup {
    /// Begins, if there are rules; whether it is time is found out in the thread.
    pub(super) fn begin(store: &Directory, rules: &Rules) -> Self {
        if rules.is_empty() {
            return Self(None);
        }
        let (teller, news) = channel();
        let (store, rules) = (store.clone(), rules.clone());
        let work = move || {
            let told = match clean_up(&store, &rules) {
                Ok(told) => told,
                Err(failure) => Some(format!("note: cleaning up failed: {}", failure.message())),
            };
            // Nobody may be there any more to hear it; the receipts have it all the same.
            told.map(|told| teller.send(told).ok());
        };
        // Without a thread it is done another day.
        let thread = std::thread::Builder::new().name("cleanup".to_owned()).spawn(work);
        Self(thread.ok().map(|_| news))
    }

    /// What was done since the last time, if there is something to tell.
    pub(super) fn news(&self) -> Option<String> {
        self.0.as_ref().and_then(|news| news.try_recv().ok())
    }
}

fn clean_up(store: &Directory, rules: &Rules) -> Result<Option<String>> {
    match retention::due(store, rules)? {
        Due::No => return Ok(None),
        Due::Now => {}
        Due::Doubtful { last_ms, now_ms } => {
            let (now, last) = (screen::time(now_ms), screen::time(last_ms));
            return Ok(Some(format!(
                "note: nothing was cleaned up: the clock says {now}, and the last time that is known is {last}; if the clock is right, run `unforget gc` once"
            )));
        }
    }
    let plan = gc::plan(store, rules, &Purge::ByRules, |_| {})?;
    let done = match retention::apply(store, &plan, rules, |_| {}) {
        // Someone else is at it.
        Err(Error::Busy { .. }) => return Ok(None),
        other => other?,
    };
    if let Some((id, why)) = done.failed.first() {
        return Err(Failure::new(format!("{id}: {why}")));
    }
    let count = |action| done.deeds.iter().filter(|deed| deed.action == action).count();
    let told = match (count(Action::Expired), count(Action::Purged)) {
        (0, 0) => return Ok(None),
        (expired, 0) => format!("{expired} expired to the trash (`unforget undelete ID` brings one back)"),
        (0, purged) => format!("{purged} removed from the trash"),
        (expired, purged) => {
            format!("{expired} expired to the trash (`unforget undelete ID` brings one back), {purged} removed from it")
        }
    };
    Ok(Some(format!("note: sessions cleaned up: {told}")))
}
