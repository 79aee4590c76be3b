//! Searches: the words that the index has, a scan of the sessions whose words it lacks, and one order for both.

use std::collections::HashMap;
use std::path::Path;

use super::{ATTEMPTS, Answer, Notes, Store};
use crate::error::Result;
use crate::index::Depth;
use crate::search::{self, Found, Place, SearchQuery};

/// How hits are found; the answer is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// By the index, as far as it goes.
    Index,
    /// By reading every transcript.
    Scan,
}

/// Reads transcripts for a search; whoever asks decides by how many threads.
pub type Scan<'s> = dyn Fn(&[Place]) -> Found + 's;

impl Store {
    /// Finds what was said, in the way and by the threads that the caller chooses.
    pub fn search_with(
        &self,
        request: &SearchQuery,
        way: Way,
        scan: &Scan<'_>,
        progress: &mut dyn FnMut(&Path, u64),
    ) -> Result<Answer<search::Answer>> {
        let mut notes = Notes::default();
        let by_files = || Ok(scan(&search::places(&self.directory, &request.filter)?).answer(request.limit));
        if way == Way::Scan {
            return Ok(Answer { value: by_files()?, notes });
        }
        let value = self.ask(
            Depth::Changed,
            &mut notes,
            progress,
            |index, caught| {
                let mut answer = search::Answer::default();
                for attempt in 1..=ATTEMPTS {
                    let (mut found, lacking) = index.find(request, scan)?;
                    if !lacking.is_empty() {
                        found.add(scan(&lacking));
                    }
                    answer = found.answer(request.limit);
                    // Only what is shown is compared with its file.
                    let mut facts = HashMap::new();
                    for place in answer.hits.iter().filter(|hit| hit.is_bare()).map(|hit| &hit.place) {
                        if !facts.contains_key(place) {
                            facts.insert(place.clone(), index.facts(place)?);
                        }
                    }
                    let stale: Vec<_> =
                        facts.values().flatten().map(|(row, _)| row).filter(|row| !index.is_current(row)).collect();
                    // A writer that is always faster gets an answer that is a moment old.
                    if !stale.is_empty() && attempt < ATTEMPTS {
                        index.look_again(stale.into_iter(), caught)?;
                        continue;
                    }
                    for hit in answer.hits.iter_mut().filter(|hit| hit.is_bare()) {
                        if let Some(Some((row, tree))) = facts.get(&hit.place) {
                            hit.key.clone_from(&row.entry.row.key);
                            hit.title.clone_from(&row.entry.row.title);
                            hit.is_abandoned =
                                hit.role.is_step() && tree.as_ref().is_some_and(|tree| !tree.is_on_path(hit.n));
                        }
                    }
                    break;
                }
                Ok(answer)
            },
            |_, _| by_files(),
        )?;
        Ok(Answer { value, notes })
    }
}
