//! What changes a session: names, checkpoints, the way back, a fork, a smaller conversation, an end to a turn.
//!
//! A session of ours is changed by its live session alone, between two turns. A fork only reads, so it can be had at any time.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use serde_json::json;
use unforget_agent::compact;
use unforget_core::Error;
use unforget_core::fork::{self, Wish};
use unforget_core::history::Limits;
use unforget_core::index::Place;
use unforget_core::json as raw;
use unforget_core::key::Key;
use unforget_core::layout::AgentDir;
use unforget_core::record::Draft;
use unforget_core::retention::Keep;
use unforget_core::stamp::SessionId;
use unforget_core::tree::{AS_BRANCH, Kind, Tree};

use super::ask::{self, Asked, Body, Id, Maybe, Mine, Nothing, Text};
use super::row::{self, Present};
use super::sessions::MAX_LABEL;
use crate::agent::ClientId;
use crate::app::App;
use crate::error::{Code, Problem, Result};
use crate::forward;
use crate::hub::Watching;
use crate::live::{After, Viewer};
use crate::realm::{Name, Realm};
use crate::said::{self, Message};

/// The longest title, name of a checkpoint, and focus of a compaction, in characters.
const MAX_TITLE: usize = 200;
const MAX_NAME: usize = 60;
const MAX_FOCUS: usize = 4000;

/// A live session that is watched for as long as something is done with it: one that nobody watches is let go, at that very moment perhaps.
async fn hold(app: &App, realm: &Arc<Realm>, id: &SessionId) -> Result<Box<Viewer>> {
    match app.hub.attach(realm, id, After::End).await? {
        Watching::Here(_, viewer) => Ok(viewer),
        Watching::There(elsewhere) => Err(forward::to(elsewhere)),
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Description {
    #[serde(default, deserialize_with = "ask::present")]
    title: Option<String>,
    #[serde(default, deserialize_with = "ask::given")]
    label: Option<Option<String>>,
    #[serde(default, deserialize_with = "ask::given")]
    expires: Option<Option<String>>,
    #[serde(default, deserialize_with = "ask::present")]
    pinned: Option<bool>,
}

impl Description {
    fn drafts(&self) -> Result<Vec<Draft>> {
        let mut drafts = Vec::new();
        if let Some(title) = &self.title {
            let title = ask::words("title", title, MAX_TITLE)?;
            if title.is_empty() {
                return Err(Problem::invalid("`title` is empty"));
            }
            drafts.push(Draft::title(title));
        }
        if let Some(label) = &self.label {
            // An empty one takes it off.
            drafts.push(Draft::label(None, ask::words("label", label.as_deref().unwrap_or_default(), MAX_LABEL)?));
        }
        if let Some(expires) = &self.expires {
            let after = expires.as_deref().map(Keep::parse).transpose()?;
            drafts.push(Draft::expire(after.map(|after| after.to_string()).as_deref()));
        }
        drafts.extend(self.pinned.map(Draft::pinned));
        if drafts.is_empty() {
            return Err(Problem::invalid("nothing is to be changed: give `title`, `label`, `expires` or `pinned`"));
        }
        Ok(drafts)
    }
}

/// Gives a session another title, label or time to live, or pins it.
pub(super) async fn describe(
    State(app): State<Arc<App>>,
    Mine(realm): Mine,
    Id(id): Id,
    Asked(Nothing {}): Asked<Nothing>,
    Body(description): Body<Description>,
) -> Result<Response> {
    let drafts = description.drafts()?;
    let held = hold(&app, &realm, &id).await?;
    let live = held.live();
    live.edit(move |session| Ok(session.append(&drafts)?)).await?;
    let present = Present::of(&app, &realm);
    let shown = app.hub.blocking(&realm, move |realm| {
        let (entry, is_held) = row::find(realm, Place::Agents, &id)?;
        Ok(present.show(realm, &entry, is_held))
    });
    Ok(ask::answer(StatusCode::OK, &shown.await?))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Added {
    messages: Vec<Message>,
    #[serde(default)]
    client_id: Option<String>,
}

/// Adds messages that another program's agent said or heard.
pub(super) async fn add(
    State(app): State<Arc<App>>,
    Mine(realm): Mine,
    Id(id): Id,
    Asked(Nothing {}): Asked<Nothing>,
    Text(text): Text,
) -> Result<Response> {
    app.hub.ask_store(&realm, text.len()).await?;
    // What a message holds is kept as it is and read into no tree, so that it may have any number of values.
    let limits = crate::Limits { values: usize::MAX, ..*app.limits() };
    let Added { messages, client_id } = ask::parse(text.as_bytes(), &limits)?;
    drop(text);
    let name = client_id.as_deref().map(said::name).transpose()?;
    let held = hold(&app, &realm, &id).await?;
    let n = held.live().edit(move |session| said::add(session, &messages, name.as_ref())).await?;
    Ok(ask::answer(StatusCode::OK, &json!({ "session_id": id.as_str(), "n": n })))
}

/// A step of a conversation: its number, or the name of a branch or checkpoint.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum Point {
    Number(u64),
    Name(String),
}

impl Point {
    /// The point that a parameter names: digits are a number, for no name is made of them alone.
    pub(super) fn parse(text: &str) -> Self {
        text.parse().map_or_else(|_| Self::Name(text.to_owned()), Self::Number)
    }

    pub(super) fn step(&self, tree: &Tree) -> Result<u64> {
        match self {
            Point::Number(n) if tree.has_step(*n) => Ok(*n),
            Point::Number(n) => Err(Problem::invalid(format!("record {n} is no step of this conversation"))),
            Point::Name(name) => match tree.label(name) {
                Some(label) => Ok(label.to.unwrap_or(0)),
                None => Err(Problem::invalid("there is no branch or checkpoint of that name")),
            },
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fork {
    at: Option<Point>,
    key: Option<String>,
    label: Option<String>,
}

/// A new session that begins where another one is, or was.
pub(super) async fn fork(
    State(app): State<Arc<App>>,
    Mine(realm): Mine,
    Id(id): Id,
    Asked(Nothing {}): Asked<Nothing>,
    Maybe(asked): Maybe<Fork>,
) -> Result<Response> {
    let label =
        asked.label.as_deref().map(|label| ask::words("label", label, MAX_LABEL).map(str::to_owned)).transpose()?;
    let key = asked.key.as_deref().map(str::parse::<Key>).transpose().map_err(Error::from)?;
    if let Some(key) = &key
        && app.hub.agents().named(key.agent())?.kind() != "built-in"
    {
        return Err(Problem::new(
            Code::Conflict,
            "that agent keeps its own sessions; a fork cannot become one of them",
        ));
    }
    app.hub.ask_begin(&realm).await?;
    let from = id.clone();
    let forked = app.hub.blocking(&realm, move |realm| {
        let entry = realm.entry(&from)?;
        let at = match &asked.at {
            Some(point) => Some(point.step(&Tree::read(&realm.store().read(&entry)?)?)?),
            None => None,
        };
        let wish = Wish { at, key: key.as_ref(), label: label.as_deref().filter(|label| !label.is_empty()) };
        Ok(fork::fork(realm.store(), &entry, wish)?)
    });
    let forked = forked.await?;
    if let Some(fleet) = &app.hub.shared().fleet {
        let name = Name { dir: AgentDir::of(forked.key.agent()), id: forked.id.clone() };
        fleet.begun(&realm, &name, &forked.key).await?;
    }
    let shown = json!({
        "id": forked.id.as_str(),
        "key": forked.key.to_string(),
        "from": id.as_str(),
        "at": forked.at,
        "records": forked.steps,
    });
    Ok(ask::answer(StatusCode::CREATED, &shown))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rewind {
    to: Point,
}

/// Has the conversation go on behind an earlier record; nothing is lost.
pub(super) async fn rewind(
    State(app): State<Arc<App>>,
    Mine(realm): Mine,
    Id(id): Id,
    Asked(Nothing {}): Asked<Nothing>,
    Body(Rewind { to }): Body<Rewind>,
) -> Result<Response> {
    let held = hold(&app, &realm, &id).await?;
    let live = held.live();
    let moved = live.edit(move |session| {
        let tree = Tree::read(&session.reader()?)?;
        let head = to.step(&tree)?;
        let branch = match &to {
            // The name of a branch means that the conversation is on it from now on.
            Point::Name(name) if tree.label(name).is_some_and(|label| label.kind == Kind::Branch) => {
                Some(name.as_str())
            }
            _ => tree.branch_at(head),
        };
        let draft = Draft::head(Some(head), "rewind").raw("branch", &branch.map_or("null".to_owned(), raw::quote));
        let n = session.append(&[draft])?.start;
        Ok(json!({ "n": n, "head": head, "branch": branch }))
    });
    Ok(ask::answer(StatusCode::OK, &moved.await?))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Checkpoint {
    name: String,
    at: Option<Point>,
}

/// Names a step, to come back to it.
pub(super) async fn checkpoint(
    State(app): State<Arc<App>>,
    Mine(realm): Mine,
    Id(id): Id,
    Asked(Nothing {}): Asked<Nothing>,
    Body(Checkpoint { name, at }): Body<Checkpoint>,
) -> Result<Response> {
    let name = new_name(&name)?.to_owned();
    let held = hold(&app, &realm, &id).await?;
    let live = held.live();
    let named = live.edit(move |session| {
        let tree = Tree::read(&session.reader()?)?;
        let to = match &at {
            Some(point) => point.step(&tree)?,
            None => tree.head().ok_or_else(|| Problem::new(Code::Conflict, "nothing was said yet"))?,
        };
        let label = Draft::label(Some(to), &name);
        // Whoever names an earlier record means the files of then, not those of now.
        session.append(&[if at.is_none() { label.raw("now", "true") } else { label }])?;
        Ok(json!({ "name": name, "to": to }))
    });
    Ok(ask::answer(StatusCode::OK, &named.await?))
}

/// Begins a branch at a step; the conversation is on it from then on, and the branch that it was on stays where it is.
pub(super) async fn branch(
    State(app): State<Arc<App>>,
    Mine(realm): Mine,
    Id(id): Id,
    Asked(Nothing {}): Asked<Nothing>,
    Body(Checkpoint { name, at }): Body<Checkpoint>,
) -> Result<Response> {
    let name = new_name(&name)?.to_owned();
    let held = hold(&app, &realm, &id).await?;
    let live = held.live();
    let begun = live.edit(move |session| {
        let tree = Tree::read(&session.reader()?)?;
        let to = match &at {
            Some(point) => point.step(&tree)?,
            None => tree.head().ok_or_else(|| Problem::new(Code::Conflict, "nothing was said yet"))?,
        };
        if let Some(known) = tree.label(&name) {
            let kind = if known.kind == Kind::Branch { "branch" } else { "checkpoint" };
            return Err(Problem::new(Code::Conflict, format!("there is a {kind} of that name already")));
        }
        let label = Draft::label(Some(to), &name).text("as", AS_BRANCH);
        let drafts = match tree.head() {
            Some(head) if head == to => vec![label],
            // Off the branch that it is on, which would come along otherwise.
            _ => vec![Draft::head(Some(to), "branch").raw("branch", "null"), label],
        };
        let n = session.append(&drafts)?.end.saturating_sub(1);
        Ok(json!({ "name": name, "head": to, "n": n }))
    });
    Ok(ask::answer(StatusCode::OK, &begun.await?))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pin {
    n: u64,
    pinned: bool,
}

/// Has every compaction keep the words of a record, or no longer. What is so already is not written again.
pub(super) async fn pin(
    State(app): State<Arc<App>>,
    Mine(realm): Mine,
    Id(id): Id,
    Asked(Nothing {}): Asked<Nothing>,
    Body(Pin { n, pinned }): Body<Pin>,
) -> Result<Response> {
    let held = hold(&app, &realm, &id).await?;
    let live = held.live();
    let room = app.hub.agents().of(&live.name().dir).room();
    let limits = room.map_or_else(Limits::default, |room| room.reach);
    let done = live.edit(move |session| {
        let (found, is_there, pins) = session.view(&limits, |path, _| {
            let record = path.records.iter().find(|record| record.n == n);
            (record.and_then(|record| compact::said(record)), record.is_some(), compact::pinned(path))
        })?;
        let is_pinned = pins.iter().any(|(known, _)| *known == n);
        match (pinned, found) {
            _ if pinned == is_pinned => {}
            (false, _) => {
                session.append(&[Draft::pin(n, None)])?;
            }
            (true, Some(found)) => {
                let bytes = pins.iter().map(|(_, text)| text.len()).sum::<usize>() + found.text.len();
                if bytes > compact::MAX_PINNED {
                    let most = compact::MAX_PINNED;
                    return Err(Problem::new(Code::Conflict, format!("pinned texts may have {most} bytes in all")));
                }
                session.append(&[Draft::pin(n, Some(&found.text))])?;
            }
            (true, None) if is_there => {
                return Err(Problem::invalid(format!("record {n} says nothing that could be pinned")));
            }
            (true, None) => {
                let why = format!("there is no record {n} in what the model sees");
                return Err(Problem::new(Code::Conflict, why));
            }
        }
        Ok(json!({ "n": n, "pinned": pinned }))
    });
    Ok(ask::answer(StatusCode::OK, &done.await?))
}

/// A name that can be given: short, on one line, and not to be mistaken for a number.
fn new_name(text: &str) -> Result<&str> {
    let name = ask::words("name", text, MAX_NAME)?;
    if name.is_empty() || name.bytes().all(|byte| byte.is_ascii_digit()) || name.starts_with('-') {
        return Err(Problem::invalid("`name` must not be empty, nor a number, nor begin with a hyphen"));
    }
    Ok(name)
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Compact {
    focus: Option<String>,
}

/// Makes the conversation smaller.
pub(super) async fn compact(
    State(app): State<Arc<App>>,
    Mine(realm): Mine,
    Id(id): Id,
    Asked(Nothing {}): Asked<Nothing>,
    Maybe(Compact { focus }): Maybe<Compact>,
) -> Result<Response> {
    if focus.as_ref().is_some_and(|focus| focus.chars().count() > MAX_FOCUS) {
        return Err(Problem::invalid(format!("`focus` has at most {MAX_FOCUS} characters")));
    }
    let held = hold(&app, &realm, &id).await?;
    let live = held.live();
    let n = live.compact(focus).await?;
    Ok(ask::answer(StatusCode::OK, &json!({ "n": n })))
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Abort {
    client_id: Option<String>,
}

/// Ends the turn that is running.
pub(super) async fn abort(
    State(app): State<Arc<App>>,
    Mine(realm): Mine,
    Id(id): Id,
    Asked(Nothing {}): Asked<Nothing>,
    Maybe(Abort { client_id }): Maybe<Abort>,
) -> Result<Response> {
    let parse = |text: String| ClientId::parse(&text).ok_or_else(|| Problem::invalid("`client_id` cannot be one"));
    let client_id = client_id.map(parse).transpose()?;
    let held = hold(&app, &realm, &id).await?;
    let live = held.live();
    Ok(ask::answer(StatusCode::OK, &json!({ "aborted": live.abort(client_id.as_ref()) })))
}

/// Goes on with a turn that was interrupted.
pub(super) async fn resume(
    State(app): State<Arc<App>>,
    Mine(realm): Mine,
    Id(id): Id,
    Asked(Nothing {}): Asked<Nothing>,
    Maybe(Nothing {}): Maybe<Nothing>,
) -> Result<Response> {
    hold(&app, &realm, &id).await?.live().go_on()?;
    Ok(ask::answer(StatusCode::ACCEPTED, &json!({ "resumed": true })))
}
