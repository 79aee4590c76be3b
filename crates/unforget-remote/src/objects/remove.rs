//! Removing streams, and sweeping away the marks that they leave.
//!
//! A deleted stream leaves a mark for each of its segments, so that a machine that slept through the deletion cannot add to what is gone. They
//! are of use for as long as a machine may sleep with a position in its memory, and each costs a list two requests; so the marks of
//! streams that were deleted more than [`WEEK`] ago are removed when a list came across them and something is deleted or merged
//! later. What stays is one name apart from all lists: the life that the stream would begin with, so that no name is ever used twice.

use std::sync::PoisonError;

use bytes::Bytes;
use futures_util::stream::{self, TryStreamExt as _};

use super::name::{self, BYTES, Merged, Number, directory};
use super::object::{Object, Rest};
use super::shelf::{AT_ONCE, End, Known, ObjectShelf};
use super::{Kind, Objects, Part};
use crate::error::{Error, Result};
use crate::shelf::Shelf as _;
use crate::stream::Stream;

/// How often a stream that is being written to is tried to be deleted.
const DELETIONS: usize = 16;
/// For how many seconds marks are kept.
pub(super) const WEEK: u64 = 7 * 24 * 60 * 60;
/// How many streams are swept at once.
const SWEPT: usize = 4;

impl<O: Objects> ObjectShelf<O> {
    /// Whether this is the end of a stream that was deleted so long ago that its marks are of no use.
    pub(super) fn is_old(&self, object: &Object) -> bool {
        matches!(object, Object::Ended { seconds, rest: Rest::Nothing } if (self.clock)() > seconds.saturating_add(WEEK))
    }

    /// The life that a stream begins with which has no objects.
    pub(super) async fn first_life(&self, dir: &str) -> Result<u64> {
        let names = self.objects.names(&name::gone(dir), Kind::Object, None, 1).await?.names;
        Ok(names.first().and_then(|name| name::up(name)).unwrap_or(0))
    }

    /// Removes a stream and leaves its marks.
    pub(super) async fn remove(&self, stream: &Stream) -> Result<()> {
        let dir = directory(stream);
        for _ in 0..DELETIONS {
            let (at, rest) = match self.end(stream).await? {
                End::Nothing => return Ok(()),
                End::Deleted { at, object } => {
                    (at, if let Object::Ended { rest, .. } = object { rest } else { Rest::Some })
                }
                End::Segment(last) => (Number { life: last.mark, first: last.end }, Rest::Some),
            };
            let path = format!("{dir}/{}", at.spelled());
            let ended = |rest| Object::Ended { seconds: (self.clock)(), rest }.encode();
            // An end that is there already is one that an earlier attempt made.
            if !self.objects.create(&path, ended(Rest::Some)).await? && !self.is_end(stream, &dir, at).await? {
                continue;
            }
            self.know(stream, Known::Next(at.life.saturating_add(1)));
            if rest == Rest::Some {
                self.mark_deleted(&dir, at).await?;
            }
            // Also what was merged meanwhile by somebody who did not know.
            self.remove_merged(&dir, at.life).await?;
            self.forget_life(stream, at.life).await?;
            if rest == Rest::Some {
                self.objects.replace(&path, ended(Rest::Nothing)).await?;
            }
            return Ok(());
        }
        Err(Error::Unavailable { place: self.name(), reason: format!("{stream} is being written to"), wait: None })
    }

    async fn is_end(&self, stream: &Stream, dir: &str, at: Number) -> Result<bool> {
        let object = self.read(stream, dir, at, Part::Start).await?;
        Ok(!matches!(object, Some(Object::Segment { .. }) | None))
    }

    async fn mark_deleted(&self, dir: &str, end: Number) -> Result<()> {
        let names = self.all_names(dir, Kind::Object, Some(&end.spelled())).await?;
        let of_this_life = names.into_iter().filter(|name| Number::parse(name).is_some_and(|at| at.life == end.life));
        let marked = stream::iter(of_this_life.map(Ok)).try_for_each_concurrent(AT_ONCE, |name| async move {
            self.objects.replace(&format!("{dir}/{name}"), Object::Deleted.encode()).await
        });
        marked.await
    }

    async fn remove_merged(&self, dir: &str, life: u64) -> Result<()> {
        let names = self.all_names(dir, Kind::Object, Some(Merged::all())).await?;
        let of_this_life = names.into_iter().filter(|name| Merged::parse(name).is_some_and(|at| at.life <= life));
        self.remove_all(dir, of_this_life.collect()).await
    }

    async fn remove_all(&self, dir: &str, names: Vec<String>) -> Result<()> {
        let removed = stream::iter(names.into_iter().map(Ok)).try_for_each_concurrent(AT_ONCE, |name| async move {
            self.objects.remove(&format!("{dir}/{name}")).await
        });
        removed.await
    }

    /// Lets go of all large lines of a life and those before it.
    pub(super) async fn forget_life(&self, stream: &Stream, last: u64) -> Result<()> {
        for claimed in self.all_names(&name::keeps(stream), Kind::Object, None).await? {
            let Some((life, name)) = claimed.split_at_checked(16) else { continue };
            if let Some(life) = name::up(life).filter(|life| *life <= last) {
                self.forget(stream, life, name).await?;
            }
        }
        Ok(())
    }

    /// Lets go of a large line.
    async fn forget(&self, stream: &Stream, life: u64, name: &str) -> Result<()> {
        let dir = name::kept(stream, name);
        self.objects.remove(&format!("{dir}/{}", name::claim(stream, life))).await?;
        if !self.is_claimed(&dir).await? {
            let path = format!("{dir}/{BYTES}");
            let bytes = self.objects.read(&path, Part::Whole).await?;
            self.objects.remove(&path).await?;
            // Somebody may have begun to refer to it meanwhile, and have found it there.
            if let Some(bytes) = bytes
                && self.is_claimed(&dir).await?
            {
                self.objects.create(&path, bytes).await?;
            }
        }
        self.objects.remove(&name::claimed(stream, life, name)).await
    }

    /// Whether any stream refers to a large line.
    async fn is_claimed(&self, dir: &str) -> Result<bool> {
        // One of two names may be that of the bytes.
        let names = self.objects.names(dir, Kind::Object, None, 2).await?.names;
        Ok(names.iter().any(|name| name != BYTES))
    }

    /// Removes the marks of a few streams that were deleted long ago.
    pub(super) async fn sweep(&self) -> Result<()> {
        for _ in 0..SWEPT {
            let next = self.old.lock().unwrap_or_else(PoisonError::into_inner).pop_first();
            let Some((dir, life)) = next else { return Ok(()) };
            self.sweep_away(&dir, life).await?;
        }
        Ok(())
    }

    async fn sweep_away(&self, dir: &str, life: u64) -> Result<()> {
        let Some(newest) = self.newest(dir, None).await?.filter(|newest| newest.life == life) else { return Ok(()) };
        let path = format!("{dir}/{}", newest.spelled());
        let end = self.objects.read(&path, Part::Start).await?;
        if !end.as_ref().and_then(Object::decode).is_some_and(|object| self.is_old(&object)) {
            return Ok(());
        }
        let next = name::down(life.saturating_add(1));
        self.objects.create(&format!("{}/{next}", name::gone(dir)), Bytes::from_static(b".")).await?;
        let names = self.all_names(dir, Kind::Object, None).await?;
        let is_old = |name: &String| {
            Number::parse(name).is_some_and(|at| at.life <= life && at != newest)
                || Merged::parse(name).is_some_and(|at| at.life <= life)
        };
        self.remove_all(dir, names.into_iter().filter(is_old).collect()).await?;
        // The end goes last: as long as it is there, the stream is seen as deleted.
        self.objects.remove(&path).await
    }
}
