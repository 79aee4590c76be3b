//! A title by the model, for those who want one. The local title is always there; a person's is never replaced.

use tokio_util::sync::CancellationToken;
use unforget_core::edit::{SessionTitle, suggest_title};
use unforget_core::session::Session;
use unforget_core::speech::{self, Utterance, bounded};

use crate::compact::Refused;
use crate::compact::summarise::ask;
use crate::error::Result;
use crate::guard::Agent;

/// What the model is told.
const SYSTEM: &str = "Give the conversation a title of at most eight words, in its language, without quotation marks or \
a full stop at the end. Answer with the title only.";
/// How much of the conversation the model reads.
const READ: usize = 4000;
/// How many records of it.
const READ_RECORDS: usize = 6;
/// Longest title, in characters.
const LONGEST: usize = 80;
/// Tokens of a title.
const TOKENS: u32 = 64;

/// Asks the model for a title and writes it down as the model's. Tells the title.
pub async fn improve(session: &mut Session, agent: &Agent<'_>, abort: &CancellationToken) -> Result<Option<String>> {
    let said: Vec<Utterance> = session.view(&agent.limits(), |path, _| {
        path.records.iter().filter_map(|record| speech::utterance(record)).take(READ_RECORDS).collect()
    })?;
    if said.is_empty() {
        return Ok(None);
    }
    let text = said.iter().map(Utterance::line).collect::<Vec<_>>().join("\n\n");
    let prompt = format!("<conversation>\n{}\n</conversation>", bounded(&text, READ));
    let title = match ask(&prompt, SYSTEM, TOKENS, agent.model, agent.settings, abort).await {
        Ok(title) => title,
        // A title is a convenience: whatever goes wrong, the local one is as good.
        Err(Refused::Empty | Refused::NotSmaller | Refused::TimedOut(_) | Refused::Aborted | Refused::Model(_)) => {
            return Ok(None);
        }
    };
    let title: String = title.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(LONGEST).collect();
    let title = title.trim_matches(|c: char| "\"'`“”«»#*.".contains(c) || c.is_whitespace());
    let Ok(title) = title.parse::<SessionTitle>() else { return Ok(None) };
    suggest_title(session, &title)?;
    Ok(Some(title.into()))
}
