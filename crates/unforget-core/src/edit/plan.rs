//! What edits append, decided from the folds of the transcript, and the one append.
//!
//! Each edit of a list sees what those before it will have appended: their lines are encoded and folded before they
//! are written.

use super::target::{self, named};
use super::{Applied, Change, Edit, EditError, EditScope, SessionLabel, SessionTitle, StepName, Target};
use crate::history::{self, Path};
use crate::json;
use crate::recent::End;
use crate::record::{Body, Draft, Parent, Record};
use crate::retention::Keep;
use crate::session::{Session, encode_next};
use crate::speech::{self, MAX_PINNED, Utterance};
use crate::summary::Fold;
use crate::tree::{AS_BRANCH, AS_DROPPED, HeadState, Kind, Label, REDO, Tree};

/// How much of words that an edit is about is repeated, in bytes.
const WORDS: usize = 200;

/// Edits that were decided and not written yet.
#[derive(Debug)]
pub struct Plan {
    drafts: Vec<Draft>,
    applied: Vec<Applied>,
}

/// Edits being decided.
struct Planner<'s> {
    session: &'s Session,
    scope: &'s EditScope,
    fold: Fold,
    end: End,
    drafts: Vec<Draft>,
}

/// What an edit appends and changes.
struct Step {
    drafts: Vec<Draft>,
    change: Change,
    inverse: Vec<Edit>,
}

impl Step {
    fn session(draft: Draft, inverse: Option<Edit>) -> Self {
        Self { drafts: vec![draft], change: Change::Session {}, inverse: inverse.into_iter().collect() }
    }
}

impl Plan {
    /// Decides what edits append; nothing is written yet.
    pub fn of(session: &Session, edits: &[Edit], scope: &EditScope) -> Result<Self, EditError> {
        let (fold, end) = (session.fold(Fold::clone)?, session.end());
        let mut planner = Planner { session, scope, fold, end, drafts: Vec::new() };
        let applied = edits.iter().map(|edit| planner.apply(edit)).collect::<Result<Vec<_>, EditError>>()?;
        Ok(Self { drafts: planner.drafts, applied })
    }

    /// What will have become of the edits.
    pub fn applied(&self) -> &[Applied] {
        &self.applied
    }

    /// Appends everything; when this returns, it is durable.
    pub fn commit(self, session: &mut Session) -> Result<Vec<Applied>, EditError> {
        if !self.drafts.is_empty() {
            session.append(&self.drafts)?;
        }
        Ok(self.applied)
    }
}

impl Planner<'_> {
    fn tree(&self) -> &Tree {
        self.fold.tree()
    }

    fn apply(&mut self, edit: &Edit) -> Result<Applied, EditError> {
        let before = self.tree().state();
        let Step { drafts, change, inverse } = self.decide(edit)?;
        let mut record = None;
        for draft in &drafts {
            record = Some(self.end.next);
            let line = encode_next(&mut self.end, draft, &[], 0)?;
            if let Ok(parsed) = Record::parse(line.trim_end(), 0, 0) {
                self.fold.feed(&parsed);
            }
        }
        self.drafts.extend(drafts);
        let after = self.tree().state();
        let inverse = match &change {
            Change::Moved { .. } if record.is_some() => vec![self.way_back(&before, &after, record)],
            _ => inverse,
        };
        Ok(Applied { record, before, after, change, inverse })
    }

    /// The edit that takes a move of the head back.
    fn way_back(&self, before: &HeadState, after: &HeadState, record: Option<u64>) -> Edit {
        match (&before.branch, before.head) {
            _ if self.tree().redo().is_some_and(|moved| Some(moved.n) == record) => Edit::Redo {},
            (branch @ Some(_), _) if *branch != after.branch => back_to(before),
            (_, Some(head)) => Edit::Rewind { to: Target::Step(head) },
            (_, None) => Edit::Rewind { to: Target::Start },
        }
    }

    fn decide(&self, edit: &Edit) -> Result<Step, EditError> {
        match edit {
            Edit::Checkpoint { name, at } => self.checkpoint(name, at.as_ref()),
            Edit::Branch { name, at } => self.branch(name, at.as_ref()),
            Edit::DropName { name } => self.drop_name(name),
            Edit::Switch { to } => {
                let to = match to {
                    Target::Name(name) => target::on_branch(named(self.tree(), name, Some(Kind::Branch))?),
                    other => other.state(self.tree())?,
                };
                self.moved(to, "switch", None)
            }
            Edit::Rewind { to } => self.moved(to.state(self.tree())?, "rewind", None),
            Edit::Restore { name } => {
                let to = named(self.tree(), name, Some(Kind::Checkpoint))?.to;
                self.moved(target::at_step(self.tree(), to), "restore", None)
            }
            Edit::Undo {} => self.undo(),
            Edit::Redo {} => self.redo(),
            Edit::Retry {} => self.retry(),
            Edit::UndoCompaction {} => self.undo_compaction(),
            Edit::Pin { n } => self.pin(*n),
            Edit::Unpin { n } => self.unpin(*n),
            Edit::PinSession { on } => {
                let inverse = (self.fold.row().pinned != *on).then_some(Edit::PinSession { on: !on });
                Ok(Step::session(Draft::pinned(*on), inverse))
            }
            Edit::Label { label } => {
                let old = self.fold.row().label.as_deref().and_then(|label| label.parse::<SessionLabel>().ok());
                let text = label.as_ref().map_or("", SessionLabel::as_str);
                Ok(Step::session(Draft::label(None, text), Some(Edit::Label { label: old })))
            }
            Edit::Title { title } => {
                let old = self.fold.given_title().and_then(|title| title.parse::<SessionTitle>().ok());
                Ok(Step::session(Draft::title(title.as_str()), old.map(|title| Edit::Title { title })))
            }
            Edit::Expire { after } => {
                let old = self.fold.row().expires.as_deref().and_then(|after| Keep::parse(after).ok());
                let text = after.as_ref().map(Keep::to_string);
                Ok(Step::session(Draft::expire(text.as_deref()), Some(Edit::Expire { after: old })))
            }
        }
    }

    fn checkpoint(&self, name: &StepName, at: Option<&Target>) -> Result<Step, EditError> {
        let to = self.step(at)?;
        let old = self.tree().label(name.as_str());
        if let Some(Label { kind: kind @ Kind::Branch, .. }) = old {
            return Err(EditError::NameTaken { name: name.to_string(), kind });
        }
        let instead = old.and_then(|label| label.to);
        let label = Draft::label(Some(to), name.as_str());
        // A name for an earlier step means the files of then, not those of now.
        let label = if at.is_none() { label.raw("now", "true") } else { label };
        let inverse = match instead {
            Some(old) => Edit::Checkpoint { name: name.clone(), at: Some(Target::Step(old)) },
            None => Edit::DropName { name: name.clone() },
        };
        let change = Change::Named { name: name.clone(), kind: Kind::Checkpoint, to, instead };
        Ok(Step { drafts: vec![label], change, inverse: vec![inverse] })
    }

    fn branch(&self, name: &StepName, at: Option<&Target>) -> Result<Step, EditError> {
        let to = self.step(at)?;
        if let Some(Label { kind, .. }) = self.tree().label(name.as_str()) {
            return Err(EditError::NameTaken { name: name.to_string(), kind });
        }
        let label = Draft::label(Some(to), name.as_str()).text("as", AS_BRANCH);
        let drafts = match self.tree().head() {
            Some(head) if head == to => vec![label],
            // Off the current branch first, which would come along otherwise.
            _ => vec![self.head(&HeadState { head: Some(to), ..HeadState::default() }, "branch"), label],
        };
        let inverse = vec![back_to(&self.tree().state()), Edit::DropName { name: name.clone() }];
        let change = Change::Named { name: name.clone(), kind: Kind::Branch, to, instead: None };
        Ok(Step { drafts, change, inverse })
    }

    fn drop_name(&self, name: &StepName) -> Result<Step, EditError> {
        let label = named(self.tree(), name, None)?;
        let at = label.to.map(Target::Step);
        let mut inverse = match label.kind {
            Kind::Branch => vec![Edit::Branch { name: name.clone(), at }],
            Kind::Checkpoint => vec![Edit::Checkpoint { name: name.clone(), at }],
        };
        // A branch that comes back is the current one.
        if label.kind == Kind::Branch && self.tree().current() != Some(name.as_str()) {
            inverse.push(back_to(&self.tree().state()));
        }
        let draft = Draft::label(Some(label.to.unwrap_or(0)), name.as_str()).text("as", AS_DROPPED);
        Ok(Step { drafts: vec![draft], change: Change::Dropped { name: name.clone() }, inverse })
    }

    fn undo(&self) -> Result<Step, EditError> {
        let found = self.view("undo", |path| {
            let is_by_person = |record: &Record<'_>| {
                json::members(record.raw).is_some_and(|members| json::member(&members, "by").is_none())
            };
            let said = path.records.iter().enumerate().rev().find_map(|(at, record)| {
                let words = speech::words_of_user(record).filter(|_| is_by_person(record))?;
                let before = match record.parent {
                    Parent::Record(n) => Some(n),
                    Parent::Previous | Parent::Head(_) | Parent::Nothing => {
                        at.checked_sub(1).and_then(|at| path.records.get(at)).map(|record| record.n)
                    }
                };
                Some((speech::bounded(&words, WORDS), before))
            });
            said.ok_or_else(|| path.records.iter().any(|record| matches!(record.body, Body::Compaction { .. })))
        })?;
        let (words, before) = found.map_err(|compacted| EditError::NothingToUndo { compacted })?;
        self.moved(target::at_step(self.tree(), before), "undo", Some(words))
    }

    fn redo(&self) -> Result<Step, EditError> {
        let moved = self.tree().redo().ok_or(EditError::NothingToRedo)?;
        let head = self.head(&HeadState { files: None, ..moved.from.clone() }, REDO);
        let head = head.raw("undoes", &moved.n.to_string());
        Ok(Step { drafts: vec![head], change: Change::Moved { words: None }, inverse: Vec::new() })
    }

    fn retry(&self) -> Result<Step, EditError> {
        let limits = &self.scope.limits;
        let (last, is_open, pins) = self.view("retry", |path| {
            let last = path.records.iter().rev().find(|record| matches!(&record.body, Body::User { .. }));
            let last = last.map(|record| record.n);
            // Words or results without an answer, or a question: the conversation only has to go on.
            let history = history::rebuild(path, limits);
            let waits = history.messages.last().is_some_and(|message| message.role == history::Role::User);
            // What was pinned since is no part of the answer, and stays.
            let since = path.records.iter().filter(|record| last.is_some_and(|last| record.n > last));
            let pins = since.filter_map(|record| match &record.body {
                Body::Pin { to, text } => Some(Draft::pin(*to, text.as_deref())),
                _ => None,
            });
            (last, waits || !history.pending.is_empty(), pins.collect::<Vec<Draft>>())
        })?;
        let mut step = match last {
            _ if is_open => Step { drafts: Vec::new(), change: Change::Moved { words: None }, inverse: Vec::new() },
            Some(last) => self.moved(target::at_step(self.tree(), Some(last)), "retry", None)?,
            None => return Err(EditError::NothingToRetry),
        };
        if !step.drafts.is_empty() {
            step.drafts.extend(pins);
        }
        Ok(step)
    }

    fn undo_compaction(&self) -> Result<Step, EditError> {
        let newest = self.view("undo_compaction", |path| {
            let undone: Vec<u64> = path.records.iter().filter_map(|record| undo_of(record)).collect();
            let effective = path.records.iter().filter(|record| {
                matches!(record.body, Body::Compaction { .. } | Body::Trim { .. }) && !undone.contains(&record.n)
            });
            effective.map(|record| record.n).max()
        })?;
        let of = newest.ok_or(EditError::NothingCompacted)?;
        Ok(Step { drafts: vec![Draft::undo(of)], change: Change::Expanded { of }, inverse: Vec::new() })
    }

    fn pin(&self, wanted: Option<u64>) -> Result<Step, EditError> {
        let (found, is_there, pins) = self.view("pin", |path| {
            let is_wanted = |record: &&&Record<'_>| wanted.map_or(is_user(record), |n| record.n == n);
            let record = path.records.iter().rev().filter(is_wanted);
            let is_there = record.clone().next().is_some();
            (record.filter_map(|record| speech::utterance(record)).next(), is_there, speech::pins(path))
        })?;
        let Utterance { n, text, .. } = match (found, wanted) {
            (Some(found), _) => found,
            (None, Some(n)) if is_there => return Err(EditError::NotPinnable(n)),
            (None, Some(n)) => return Err(EditError::NotInView(n)),
            (None, None) => return Err(EditError::Empty),
        };
        let change = Change::Pinned { n, pinned: true, words: Some(speech::bounded(&text, WORDS)) };
        if pins.iter().any(|(known, pinned)| *known == n && *pinned == text) {
            return Ok(Step { drafts: Vec::new(), change, inverse: Vec::new() });
        }
        let others = pins.iter().filter(|(known, _)| *known != n).map(|(_, text)| text.len()).sum::<usize>();
        if others + text.len() > MAX_PINNED {
            return Err(EditError::PinsTooLarge { limit: MAX_PINNED });
        }
        Ok(Step { drafts: vec![Draft::pin(n, Some(&text))], change, inverse: vec![Edit::Unpin { n }] })
    }

    fn unpin(&self, n: u64) -> Result<Step, EditError> {
        let pins = self.view("unpin", speech::pins)?;
        let change = Change::Pinned { n, pinned: false, words: None };
        if !pins.iter().any(|(known, _)| *known == n) {
            return Ok(Step { drafts: Vec::new(), change, inverse: Vec::new() });
        }
        Ok(Step { drafts: vec![Draft::pin(n, None)], change, inverse: vec![Edit::Pin { n: Some(n) }] })
    }

    /// Looks at the conversation as the model sees it; an edit before this one must not have changed that.
    fn view<T>(&self, edit: &'static str, look: impl FnOnce(&Path<'_, '_>) -> T) -> Result<T, EditError> {
        if !self.drafts.is_empty() {
            return Err(EditError::NotFirst(edit));
        }
        Ok(self.session.view(&self.scope.limits, |path, _| look(path))?)
    }

    /// A move of the head; nothing is appended if it is there.
    fn moved(&self, to: HeadState, reason: &str, words: Option<String>) -> Result<Step, EditError> {
        let change = Change::Moved { words };
        let drafts = if self.tree().state() == to { Vec::new() } else { vec![self.head(&to, reason)] };
        Ok(Step { drafts, change, inverse: Vec::new() })
    }

    fn head(&self, to: &HeadState, reason: &str) -> Draft {
        let head = Draft::head(to.head, reason);
        let head = match &to.branch {
            Some(branch) => head.text("branch", branch),
            None => head.raw("branch", "null"),
        };
        match self.scope.files {
            Some(n) => head.raw("files", &n.to_string()),
            None => head,
        }
    }

    /// The step that a target means; the head if none is given.
    fn step(&self, at: Option<&Target>) -> Result<u64, EditError> {
        match at {
            None => self.tree().head().ok_or(EditError::Empty),
            Some(at) => at.step(self.tree()),
        }
    }
}

/// The edit that leads to where the conversation was, once it is on another branch.
fn back_to(state: &HeadState) -> Edit {
    let branch = state.branch.as_deref().and_then(|branch| branch.parse::<StepName>().ok());
    match (branch, state.head) {
        (Some(branch), _) => Edit::Switch { to: Target::Name(branch) },
        (None, Some(head)) => Edit::Switch { to: Target::Step(head) },
        (None, None) => Edit::Rewind { to: Target::Start },
    }
}

fn undo_of(record: &Record<'_>) -> Option<u64> {
    match record.body {
        Body::Undo { of } => Some(of),
        _ => None,
    }
}

fn is_user(record: &Record<'_>) -> bool {
    matches!(record.body, Body::User { .. })
}
