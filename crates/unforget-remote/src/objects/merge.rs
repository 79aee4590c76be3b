//! Merging: a session that was saved turn by turn is hundreds of small objects, and a restore should not need hundreds of requests.
//!
//! Sixteen neighbours become one at level 1, sixteen of those become one at level 2, and so on, as long as their lines have no more than
//! [`TARGET`] bytes; the last segment of a stream is never among them. The merged object comes first, under a name of its own. Then
//! each of the sixteen is replaced by a mark that says where its lines are, the first one last: where that is done, all is.
//! Whoever reads in between finds a segment or a mark, and both lead to the same lines.
//!
//! Which sixteen is decided by what is stored and by nothing else, so two who merge at once do the same work twice and no
//! harm. No number becomes free. A segment that is too large to be merged with its neighbours is passed over, and a tiny object
//! says so, or every later look would begin with it again.
//!
//! This module must not look into bodies: it has no key.

use futures_util::stream::{self, TryStreamExt as _};

use super::name::{Merged, Number, directory};
use super::object::{Object, damaged, segment_at};
use super::shelf::{AT_ONCE, End, LEVELS, ObjectShelf};
use super::{Kind, Objects, Part};
use crate::error::{Error, Result};
use crate::segment;
use crate::shelf::{Run, Segment, Shelf as _, Step};
use crate::stream::Stream;

/// How many segments become one.
const FAN: usize = 16;
/// How many bytes the lines of merged segments have at the most.
pub(super) const TARGET: u64 = 8 << 20;
/// How many segments are passed over in one step.
const PASSED: usize = 64;

/// A segment that may be merged with its neighbours.
enum Candidate {
    Small(Segment, u64),
    /// It has too many bytes; it ends before this line.
    Large(u64),
    /// It is not there, or not for us to merge: somebody else merges or deletes.
    Gone,
}

/// What came of looking for a run.
enum Found {
    Run(Vec<Segment>),
    /// The next one is too large to be merged and ends before this line.
    Large(u64),
    Nothing,
}

impl<O: Objects> ObjectShelf<O> {
    pub(super) async fn next_step(&self, stream: &Stream) -> Result<Option<Step>> {
        let dir = directory(stream);
        for _ in 0..PASSED {
            let newest = self.objects.names(&dir, Kind::Object, None, FAN + 2).await?.names;
            let numbers: Vec<Number> = newest.iter().filter_map(|name| Number::parse(name)).collect();
            let Some(&Number { life, first: last }) = numbers.first() else { return Ok(None) };
            let firsts = numbers.iter().filter(|number| number.life == life).map(|number| number.first);
            // What is to be merged at a level: the lines from where it has come to, up to where the level below has.
            let (mut bound, mut pending): (u64, Vec<u64>) = (last, firsts.collect());
            let mut is_passing = false;
            for level in 1..=LEVELS {
                let merged = self.newest_merged(&dir, level, life).await?;
                let done = merged.first().copied();
                if let Some(done) = done
                    && let Some(merged) = self.half_done(stream, done).await?
                {
                    return Ok(Some(Step::Point(Run { segments: vec![merged], level, mark: life })));
                }
                let from = done.map_or(0, |done| done.end);
                if pending.iter().filter(|first| (from..bound).contains(first)).count() >= FAN {
                    match self.find_run(stream, Merged { level, life, first: from, end: bound }).await? {
                        Found::Run(segments) => return Ok(Some(Step::Merge(Run { segments, level, mark: life }))),
                        Found::Large(end) => {
                            let passed = Merged { level, life, first: from, end };
                            let path = format!("{dir}/{}", passed.spelled());
                            self.objects.create(&path, Object::Stayed.encode()).await?;
                            is_passing = true;
                            break;
                        }
                        Found::Nothing => {}
                    }
                }
                if merged.is_empty() {
                    break;
                }
                (bound, pending) = (from, merged.into_iter().map(|merged| merged.first).collect());
            }
            if !is_passing {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// The merged segments of a level that have the last lines, the last ones first.
    async fn newest_merged(&self, dir: &str, level: u8, life: u64) -> Result<Vec<Merged>> {
        let behind = Merged::of_life(level, life);
        let names = self.objects.names(dir, Kind::Object, Some(&behind), FAN + 1).await?.names;
        let merged = names.iter().filter_map(|name| Merged::parse(name));
        Ok(merged.filter(|merged| merged.level == level && merged.life == life).collect())
    }

    /// The first merged segments behind a name, if they are of that level and life.
    async fn merged_behind(&self, dir: &str, level: u8, life: u64, behind: &str) -> Result<Option<Merged>> {
        let names = self.objects.names(dir, Kind::Object, Some(behind), 1).await?.names;
        let merged = names.first().and_then(|name| Merged::parse(name));
        Ok(merged.filter(|merged| merged.level == level && merged.life == life))
    }

    /// What was stored by somebody who came no further.
    async fn half_done(&self, stream: &Stream, done: Merged) -> Result<Option<Segment>> {
        let dir = directory(stream);
        let first = if done.level == 1 {
            self.read(stream, &dir, Number { life: done.life, first: done.first }, Part::Start).await?
        } else {
            let from = Merged::from(done.level - 1, done.life, done.first);
            match self.merged_behind(&dir, done.level - 1, done.life, &from).await? {
                Some(below) if below.first == done.first => self.read_merged(stream, below, Part::Start).await?,
                Some(_) | None => None,
            }
        };
        if !matches!(first, Some(Object::Segment { .. })) {
            return Ok(None);
        }
        match self.read_merged(stream, done, Part::Whole).await? {
            Some(Object::Segment { head, body }) => {
                let merged = segment_at(stream, done.first, head, body)?;
                if merged.end == done.end { Ok(Some(merged)) } else { Err(damaged(stream, done.first)) }
            }
            // It was passed over, or merged further, or deleted.
            Some(_) | None => Ok(None),
        }
    }

    /// The segments that become one, from the first line of a range on.
    async fn find_run(&self, stream: &Stream, range: Merged) -> Result<Found> {
        let (mut segments, mut total, mut at) = (Vec::new(), 0_u64, range.first);
        while segments.len() < FAN && total < TARGET {
            if at >= range.end {
                return Ok(Found::Nothing);
            }
            match self.candidate(stream, range, at).await? {
                Candidate::Small(segment, bytes) if segments.is_empty() || total.saturating_add(bytes) <= TARGET => {
                    (at, total) = (segment.end, total.saturating_add(bytes));
                    segments.push(segment);
                }
                Candidate::Large(end) if segments.is_empty() => return Ok(Found::Large(end)),
                Candidate::Small(..) | Candidate::Large(_) => break,
                Candidate::Gone => return Ok(Found::Nothing),
            }
        }
        match segments.as_slice() {
            [alone] => Ok(Found::Large(alone.end)),
            _ => Ok(Found::Run(segments)),
        }
    }

    async fn candidate(&self, stream: &Stream, range: Merged, at: u64) -> Result<Candidate> {
        let dir = directory(stream);
        let object = if range.level == 1 {
            self.read(stream, &dir, Number { life: range.life, first: at }, Part::Whole).await?
        } else {
            let (below, life) = (range.level - 1, range.life);
            let found = self.merged_behind(&dir, below, life, &Merged::from(below, life, at)).await?;
            let Some(found) = found.filter(|found| found.first == at) else { return Ok(Candidate::Gone) };
            match self.read_merged(stream, found, Part::Whole).await? {
                Some(Object::Stayed) => return Ok(Candidate::Large(found.end)),
                object => object,
            }
        };
        let Some(Object::Segment { head, body }) = object else { return Ok(Candidate::Gone) };
        let segment = segment_at(stream, at, head, body)?;
        let bytes = segment::bytes_of(&segment.head).ok_or_else(|| damaged(stream, at))?;
        Ok(if segment.end > range.end { Candidate::Gone } else { Candidate::Small(segment, bytes) })
    }

    pub(super) async fn store_merged(&self, stream: &Stream, run: &Run, merged: &Segment) -> Result<Option<Segment>> {
        let (first, end) = run.lines();
        let at = Merged { level: run.level, life: run.mark, first, end };
        let object = Object::Segment { head: merged.head.clone(), body: merged.body.clone() };
        if self.objects.create(&format!("{}/{}", directory(stream), at.spelled()), object.encode()).await? {
            return Ok(None);
        }
        match self.read_merged(stream, at, Part::Whole).await? {
            Some(Object::Segment { head, body }) => segment_at(stream, first, head, body).map(Some),
            // Somebody is further than this already.
            Some(Object::Moved { .. }) => Ok(None),
            Some(_) => Err(damaged(stream, first)),
            None => {
                Err(Error::Unavailable { place: self.name(), reason: format!("{stream} is being deleted"), wait: None })
            }
        }
    }

    /// Leaves marks in place of what was merged.
    pub(super) async fn point_to(&self, stream: &Stream, run: &Run) -> Result<()> {
        let dir = directory(stream);
        let (first, end) = run.lines();
        let to = Merged { level: run.level, life: run.mark, first, end };
        let below = if run.level == 1 {
            Number { life: run.mark, first: end }.spelled()
        } else {
            Merged::from(run.level - 1, run.mark, end.saturating_sub(1))
        };
        let names = self.objects.names(&dir, Kind::Object, Some(&below), FAN).await?.names;
        let is_in_run = |name: &String| {
            let at = if run.level == 1 {
                Number::parse(name).map(|at| (at.life, at.first))
            } else {
                Merged::parse(name).filter(|at| at.level + 1 == run.level).map(|at| (at.life, at.first))
            };
            at.is_some_and(|(life, at)| life == run.mark && (first..end).contains(&at))
        };
        let mut names: Vec<String> = names.into_iter().filter(is_in_run).collect();
        // The first lines have the last name.
        let last = names.pop();
        let mark = Object::moved(to).encode();
        let replace = |name: String| {
            let (dir, mark) = (&dir, mark.clone());
            async move { self.objects.replace(&format!("{dir}/{name}"), mark).await }
        };
        stream::iter(names.into_iter().map(Ok)).try_for_each_concurrent(AT_ONCE, replace).await?;
        if let Some(last) = last {
            replace(last).await?;
        }
        // Whoever deleted the stream meanwhile may not have seen what was merged.
        if let End::Segment(newest) = self.end(stream).await?
            && newest.mark == run.mark
        {
            return Ok(());
        }
        self.objects.remove(&format!("{dir}/{}", to.spelled())).await
    }
}
