//! What changes a session: names, checkpoints, the way back, a fork, a smaller conversation, an end to a turn.
//!
//! A session of ours is changed by its live session alone, between two turns. A fork only reads, so it can be had at any time.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use serde_json::json;
use unforget_core::Error;
use unforget_core::edit::{self, Applied, Change, Edit, EditError, EditScope, StepName, Target};
use unforget_core::fork::{self, Wish};
use unforget_core::history::Limits;
use unforget_core::key::Key;
use unforget_core::layout::AgentDir;
use unforget_core::layout::Place;
use unforget_core::retention::Keep;
use unforget_core::stamp::SessionId;
use unforget_core::tree::Tree;

use super::ask::{self, Asked, Body, Id, Maybe, Mine, Nothing, Text};
use super::row::{self, Present};
use super::sessions::MAX_LABEL;
use crate::app::App;
use crate::error::{Code, Problem, Result};
use crate::hub::Watching;
use crate::live::Viewer;
use crate::protocol::{After, ClientId};
use crate::realm::{Name, Realm};
use crate::said::{self, Message};

/// The longest focus of a compaction, in characters.
const MAX_FOCUS: usize = 4000;
/// How many edits one request has at the most.
const MAX_EDITS: usize = 100;

/// A live session that is watched for as long as something is done with it: one that nobody watches is let go, at that very moment perhaps.
async fn hold(app: &App, realm: &Arc<Realm>, id: &SessionId) -> Result<Box<Viewer>> {
    match app.hub.attach(realm, id, After::End).await? {
        Watching::Here(_, viewer) => Ok(viewer),
        Watching::There(elsewhere) => Err(elsewhere.moved()),
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
    fn edits(self) -> Result<Vec<Edit>> {
        let mut edits = Vec::new();
        edits.extend(self.title.map(|title| Ok::<_, EditError>(Edit::Title { title: title.parse()? })).transpose()?);
        if let Some(label) = self.label {
            // An empty one takes it off.
            let label = label.filter(|label| !label.trim().is_empty()).map(|label| label.parse()).transpose()?;
            edits.push(Edit::Label { label });
        }
        if let Some(expires) = self.expires {
            edits.push(Edit::Expire { after: expires.as_deref().map(Keep::parse).transpose()? });
        }
        edits.extend(self.pinned.map(|on| Edit::PinSession { on }));
        if edits.is_empty() {
            return Err(Problem::invalid("nothing is to be changed: give `title`, `label`, `expires` or `pinned`"));
        }
        Ok(edits)
    }
}

/// Applies edits between two turns, all in one append.
async fn apply(app: &App, realm: &Arc<Realm>, id: &SessionId, edits: Vec<Edit>) -> Result<Vec<Applied>> {
    let held = hold(app, realm, id).await?;
    let live = held.live();
    let room = app.hub.agents().of(&live.name().dir).room();
    let scope = EditScope { limits: room.map_or_else(Limits::default, |room| room.reach), files: None };
    live.edit(move |session| Ok(edit::apply(session, &edits, &scope)?)).await
}

/// The same for a single one.
async fn apply_one(app: &App, realm: &Arc<Realm>, id: &SessionId, edit: Edit) -> Result<Applied> {
    let applied = apply(app, realm, id, vec![edit]).await?;
    applied.into_iter().next().ok_or_else(|| Problem::new(Code::Internal, "the edit has no outcome"))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Edits {
    edits: Vec<Edit>,
}

/// Applies any edits, in their order and in one append: what the chat's commands do.
pub(super) async fn edit(
    State(app): State<Arc<App>>,
    Mine(realm): Mine,
    Id(id): Id,
    Asked(Nothing {}): Asked<Nothing>,
    Body(Edits { edits }): Body<Edits>,
) -> Result<Response> {
    if edits.is_empty() || edits.len() > MAX_EDITS {
        return Err(Problem::invalid(format!("`edits` has 1 to {MAX_EDITS} of them")));
    }
    let applied = apply(&app, &realm, &id, edits).await?;
    Ok(ask::answer(StatusCode::OK, &json!({ "session_id": id.as_str(), "applied": applied })))
}

/// Gives a session another title, label or time to live, or pins it.
pub(super) async fn describe(
    State(app): State<Arc<App>>,
    Mine(realm): Mine,
    Id(id): Id,
    Asked(Nothing {}): Asked<Nothing>,
    Body(description): Body<Description>,
) -> Result<Response> {
    apply(&app, &realm, &id, description.edits()?).await?;
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

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fork {
    at: Option<Target>,
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
    to: Target,
}

/// Has the conversation go on behind an earlier record; nothing is lost.
pub(super) async fn rewind(
    State(app): State<Arc<App>>,
    Mine(realm): Mine,
    Id(id): Id,
    Asked(Nothing {}): Asked<Nothing>,
    Body(Rewind { to }): Body<Rewind>,
) -> Result<Response> {
    if to == Target::Start {
        return Err(Problem::invalid("`to` is a record's number or a name"));
    }
    let moved = apply_one(&app, &realm, &id, Edit::Rewind { to }).await?;
    let after = moved.after;
    Ok(ask::answer(StatusCode::OK, &json!({ "n": moved.record, "head": after.head, "branch": after.branch })))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Checkpoint {
    name: StepName,
    at: Option<Target>,
}

/// Names a step, to come back to it.
pub(super) async fn checkpoint(
    State(app): State<Arc<App>>,
    Mine(realm): Mine,
    Id(id): Id,
    Asked(Nothing {}): Asked<Nothing>,
    Body(Checkpoint { name, at }): Body<Checkpoint>,
) -> Result<Response> {
    let applied = apply_one(&app, &realm, &id, Edit::Checkpoint { name, at }).await?;
    let Change::Named { name, to, .. } = applied.change else { return Err(unlike()) };
    Ok(ask::answer(StatusCode::OK, &json!({ "name": name, "to": to })))
}

/// Begins a branch at a step; the conversation is on it from then on, and the branch that it was on stays where it is.
pub(super) async fn branch(
    State(app): State<Arc<App>>,
    Mine(realm): Mine,
    Id(id): Id,
    Asked(Nothing {}): Asked<Nothing>,
    Body(Checkpoint { name, at }): Body<Checkpoint>,
) -> Result<Response> {
    let applied = apply_one(&app, &realm, &id, Edit::Branch { name, at }).await?;
    let Change::Named { name, to, .. } = applied.change else { return Err(unlike()) };
    Ok(ask::answer(StatusCode::OK, &json!({ "name": name, "head": to, "n": applied.record })))
}

fn unlike() -> Problem {
    Problem::new(Code::Internal, "the edit did something else")
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
    let edit = if pinned { Edit::Pin { n: Some(n) } } else { Edit::Unpin { n } };
    apply_one(&app, &realm, &id, edit).await?;
    Ok(ask::answer(StatusCode::OK, &json!({ "n": n, "pinned": pinned })))
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
