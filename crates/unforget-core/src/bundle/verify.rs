//! Proving a bundle: every member is what the manifest says, and there is nothing else.
//!
//! All of it is read and hashed before anything is handed out. Whatever does not fit is named: which member, and what is wrong with it.

use std::collections::{BTreeMap, BTreeSet};

use super::ustar::{self, BLOCK, Block, Head};
use super::{BLOBS, FORMAT, MANIFEST, Manifest, Member, Survey, TRANSCRIPT, VERSION, pack::is_hash, refused};
use crate::error::{IoContext as _, Result};
use crate::medium::{Handle, read_full};

use std::io::Write as _;
use std::path::Path;

/// The largest manifest.
const MAX_MANIFEST: u64 = 64 << 20;
/// The most members.
const MAX_MEMBERS: usize = 200_000;
/// The largest payload.
const MAX_BLOB: u64 = 1 << 30;
/// How much is read at once.
const CHUNK: usize = 1 << 20;
/// How many empty blocks may follow the end: archivers fill up to a round size.
const MAX_END: u64 = 1 << 20;

/// A bundle of which every byte is what its manifest says.
#[derive(Debug)]
pub struct Verified<'a> {
    /// What is in it.
    pub manifest: Manifest,
    file: &'a dyn Handle,
    path: &'a Path,
    /// Where each member's content begins.
    places: BTreeMap<String, u64>,
}

impl Verified<'_> {
    /// The transcript.
    pub fn transcript(&self) -> Result<Vec<u8>> {
        let size = self.manifest.members.first().map_or(0, |member| member.bytes);
        self.content(TRANSCRIPT, size)
    }

    /// The payloads, by their hash.
    pub fn payloads(&self) -> impl Iterator<Item = &Member> {
        self.manifest.members.iter().filter(|member| member.name.starts_with(BLOBS))
    }

    /// The content of a payload.
    pub fn payload(&self, member: &Member) -> Result<Vec<u8>> {
        self.content(&member.name, member.bytes)
    }

    fn content(&self, name: &str, size: u64) -> Result<Vec<u8>> {
        let at = self.places.get(name).copied().ok_or_else(|| refused(name, "it is not there"))?;
        let mut bytes = vec![0; usize::try_from(size).map_err(|_| refused(name, "it is too large"))?];
        let filled = read_full(self.file, &mut bytes, at).context("read", self.path)?;
        if filled < bytes.len() {
            return Err(refused(name, "it became shorter while it was read"));
        }
        Ok(bytes)
    }
}

/// Proves a bundle.
pub fn verify<'a>(file: &'a dyn Handle, path: &'a Path) -> Result<Verified<'a>> {
    let mut walk = Walk { file, path, at: 0, end: file.stat().context("look at", path)?.len };
    let manifest = manifest(&mut walk)?;
    let mut stated: BTreeMap<&str, &Member> = BTreeMap::new();
    for (place, member) in manifest.members.iter().enumerate() {
        check_name(place, member)?;
        if stated.insert(&member.name, member).is_some() {
            return Err(refused(&member.name, "the manifest lists it twice"));
        }
    }
    let mut places = BTreeMap::new();
    let mut seen = BTreeSet::new();
    while let Some(head) = walk.next()? {
        let Some(member) = stated.get(head.name.as_str()) else {
            return Err(refused(&head.name, "it is not in the manifest"));
        };
        if !seen.insert(head.name.clone()) {
            return Err(refused(&head.name, "it is there twice"));
        }
        if head.size != member.bytes {
            return Err(refused(&head.name, format!("it has {} bytes instead of {}", head.size, member.bytes)));
        }
        places.insert(head.name.clone(), walk.at);
        let survey = walk.pass(&head)?;
        if survey.sha256() != member.sha256 {
            return Err(refused(&head.name, "its content does not match its hash"));
        }
        if head.name == TRANSCRIPT && survey.extent() != manifest.frontier {
            return Err(refused(&head.name, "its lines do not add up to the frontier in the manifest"));
        }
    }
    if let Some(name) = stated.keys().find(|name| !seen.contains(**name)) {
        return Err(refused(name, "it is not there"));
    }
    walk.finish()?;
    Ok(Verified { manifest, file, path, places })
}

fn manifest(walk: &mut Walk<'_>) -> Result<Manifest> {
    let head = walk
        .next()?
        .filter(|head| head.name == MANIFEST)
        .ok_or_else(|| refused(MANIFEST, "it is not the first member"))?;
    if head.size > MAX_MANIFEST {
        return Err(refused(MANIFEST, "it is too large"));
    }
    let mut bytes = vec![0; usize::try_from(head.size).map_err(|_| refused(MANIFEST, "it is too large"))?];
    let filled = read_full(walk.file, &mut bytes, walk.at).context("read", walk.path)?;
    if filled < bytes.len() {
        return Err(refused(MANIFEST, "it ends too early"));
    }
    walk.pass(&head)?;
    let manifest: Manifest = serde_json::from_slice(&bytes).map_err(|error| refused(MANIFEST, error))?;
    if manifest.format != FORMAT {
        return Err(refused(MANIFEST, "it is not the manifest of a bundle"));
    }
    if manifest.version > VERSION {
        return Err(refused(MANIFEST, format!("version {} is newer than this program", manifest.version)));
    }
    if manifest.members.len() > MAX_MEMBERS {
        return Err(refused(MANIFEST, format!("it lists more than {MAX_MEMBERS} members")));
    }
    if manifest.members.first().is_none_or(|member| member.name != TRANSCRIPT) {
        return Err(refused(MANIFEST, format!("it does not list `{TRANSCRIPT}` first")));
    }
    Ok(manifest)
}

/// Only two kinds of names are ever right; neither is used as a path.
fn check_name(place: usize, member: &Member) -> Result<()> {
    if place == 0 {
        return Ok(());
    }
    match member.name.strip_prefix(BLOBS) {
        Some(hash) if is_hash(hash) && hash == member.sha256 && member.bytes <= MAX_BLOB => Ok(()),
        Some(hash) if is_hash(hash) && hash == member.sha256 => Err(refused(&member.name, "it is too large")),
        _ => Err(refused(&member.name, "a bundle has no member of that name and hash")),
    }
}

/// The way through an archive, member by member.
struct Walk<'a> {
    file: &'a dyn Handle,
    path: &'a Path,
    at: u64,
    end: u64,
}

impl Walk<'_> {
    /// The head of the next member; its content begins at `at`.
    fn next(&mut self) -> Result<Option<Head>> {
        let place = format!("the member at byte {}", self.at);
        let mut block = [0; BLOCK];
        let filled = read_full(self.file, &mut block, self.at).context("read", self.path)?;
        if filled < BLOCK {
            return Err(refused(&place, "the file ends too early"));
        }
        self.at += BLOCK as u64;
        match ustar::read_head(&block).map_err(|why| refused(&place, why))? {
            Block::End => Ok(None),
            Block::Member(head) if head.size > self.end - self.at.min(self.end) => {
                Err(refused(&head.name, "the file ends too early"))
            }
            Block::Member(head) => Ok(Some(head)),
        }
    }

    /// Passes over a member's content, which is hashed, and over what fills its last block.
    fn pass(&mut self, head: &Head) -> Result<Survey> {
        let mut survey = Survey::new();
        let mut rest = head.size;
        let mut chunk = vec![0; CHUNK];
        while rest > 0 {
            let want = usize::try_from(rest).unwrap_or(usize::MAX).min(CHUNK);
            let filled = read_full(self.file, &mut chunk[..want], self.at).context("read", self.path)?;
            if filled < want {
                return Err(refused(&head.name, "the file ends too early"));
            }
            survey.write_all(&chunk[..want]).context("hash", self.path)?;
            self.at += want as u64;
            rest -= want as u64;
        }
        let padding = ustar::padding(head.size);
        let mut filler = [0; BLOCK];
        let filled = read_full(self.file, &mut filler[..padding], self.at).context("read", self.path)?;
        if filled < padding || filler.iter().any(|byte| *byte != 0) {
            return Err(refused(&head.name, "something else is behind its content"));
        }
        self.at += padding as u64;
        Ok(survey)
    }

    /// Makes sure that nothing follows the end.
    fn finish(&self) -> Result<()> {
        let rest = self.end.saturating_sub(self.at);
        let mut bytes = vec![0; usize::try_from(rest.min(MAX_END + 1)).unwrap_or(0)];
        let filled = read_full(self.file, &mut bytes, self.at).context("read", self.path)?;
        if rest < BLOCK as u64 || rest > MAX_END || bytes[..filled].iter().any(|byte| *byte != 0) {
            return Err(refused("the end", "the archive does not end as it should"));
        }
        Ok(())
    }
}
