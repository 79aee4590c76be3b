//! Sessions that come from files: a tutorial's, and copies of the store's own.

use unforget_core::error::Error;
use unforget_core::import::{self, Candidate, Outcome};
use unforget_core::medium::Os;

use super::super::sessions::{Session, What};
use super::{Copy, KEYS, World};

impl World {
    pub(super) fn import(&mut self, who: usize, key: usize, words: &[usize], is_new: bool) {
        if is_new || self.files.is_empty() {
            let words = self.say(words);
            self.files.push((key, words, self.now() - 500_000));
        }
        let file = self.files.len() - 1;
        let (key, words, ms) = self.files[file].clone();
        let (key, text, seconds) = (KEYS[key], words.join(" "), ms / 1000);
        let lines = format!(
            "{{\"type\":\"session\",\"id\":\"old-{file}\",\"key\":\"{key}\"}}\n\
             {{\"type\":\"user\",\"content\":\"{text}\",\"ts\":{seconds}}}\n\
             {{\"type\":\"assistant\",\"content\":\"{text} {text}\",\"ts\":{}}}\n",
            seconds + 1
        );
        let name = format!("tutorial-{file}.jsonl");
        std::fs::write(self.folder.path().join(&name), lines).unwrap();
        let store = self.processes[who].directory();
        let candidate = Candidate { path: name.into(), ..Candidate::default() };
        let outcome = import::import(store, &store.list().unwrap(), &Os::new(self.folder.path()), &candidate).unwrap();
        let mut known = self.model.sessions.iter().filter(|it| it.file == Some(file) && !it.is_trashed).peekable();
        if known.peek().is_some() {
            let Outcome::Known { id } = &outcome else { panic!("{outcome:?}") };
            assert!(known.any(|session| session.id == *id), "{id}");
            return;
        }
        let Outcome::Imported { id, .. } = outcome else { panic!("{outcome:?}") };
        assert_eq!(id.as_str(), self.next_id());
        let ms = seconds * 1000;
        let mut session = Session::new(id.to_string(), key, None, ms);
        session.file = Some(file);
        session.add(ms, What::User, words.clone());
        session.add(ms + 1000, What::Assistant, [words.clone(), words].concat());
        self.model.sessions.push(session);
    }

    pub(super) fn export(&mut self, session: usize) {
        let Some(at) = self.pick(session, false).filter(|at| !self.model.sessions[*at].is_torn) else { return };
        let session = self.model.sessions[at].clone();
        let name = format!("export-{}.jsonl", self.copies.len());
        std::fs::copy(self.path_of(&session), self.folder.path().join(&name)).unwrap();
        self.copies.push(Copy { name, session });
    }

    /// A copy is imported.
    pub(super) fn bring_back(&mut self, who: usize, copy: usize) {
        let Some(copy) = self.copies.get(copy % self.copies.len().max(1)) else { return };
        let store = self.processes[who].directory();
        let candidate = Candidate { path: copy.name.clone().into(), ..Candidate::default() };
        let outcome = import::import(store, &store.list().unwrap(), &Os::new(self.folder.path()), &candidate);
        let copy = copy.session.clone();
        let Some(at) = self.model.position(&copy.id, false) else {
            assert!(matches!(outcome, Ok(Outcome::Imported { .. })), "{outcome:?}");
            self.model.sessions.push(Session { is_trashed: false, ..copy });
            return;
        };
        let here = &mut self.model.sessions[at];
        if here.records.starts_with(&copy.records) {
            assert!(matches!(outcome, Ok(Outcome::Known { .. })), "{outcome:?}");
        } else if here.is_torn || !copy.records.starts_with(&here.records) {
            assert!(matches!(outcome, Ok(Outcome::Refused { .. })), "{outcome:?}");
        } else if self.open.contains_key(&copy.id) {
            assert!(matches!(outcome, Err(Error::Busy { .. })), "{outcome:?}");
        } else {
            assert!(matches!(outcome, Ok(Outcome::Updated { .. })), "{outcome:?}");
            here.records = copy.records;
        }
    }
}
