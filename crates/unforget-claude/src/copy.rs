//! One file of lines that Claude Code writes, and the copy of it that is kept.
//!
//! A transcript grows line by line, so saving it is adding what is new ([`take_in`]). Where the last saving stopped is remembered in a
//! [`Mark`], which proves itself by the file's identity and the bytes before that place; without one both files are compared. A file may
//! also have changed in the middle: the program took a line back, or a copy was restored with other paths in it, or both a machine and
//! another one went on. Nothing that is kept is ever taken away then. The lines that are new are added behind it: lines of that program
//! name their parents, so they mean the same wherever they stand, and the last one leads the conversation.
//!
//! A line that was changed in place ([`Rewrite`]) is added in its new form as well: of two lines with one name the program takes the later. Only
//! if nothing but blanks at its ends is another (a carriage return), the first form stays alone. Either way it is told. A [`Look`] at the end
//! sees nothing of such changes if the length is the same; one at the whole file does, and a mark says when the last one was.
//!
//! Only whole lines are taken, so a program that is killed in the middle of one leaves no half of it here.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use unforget_core::encode::sha256_hex;
use unforget_core::json;
use unforget_core::lines::{Physical, is_object};
use unforget_core::medium::{Medium, read_small, replace_atomic};
use unforget_core::reader::LogReader;
use unforget_core::replica::Intake;
use unforget_core::{Error, Result};

/// How many bytes before the place where saving goes on are compared.
const TAIL: u64 = 256;
/// How much is copied at a time; one line may be longer.
const BATCH: usize = 4 << 20;
/// A mark is shorter than this.
const MAX_MARK: u64 = 4096;
/// A file that was written less than this ago may be written once more without another time.
const SETTLED_NS: i64 = 1_000_000_000;
/// The directory of marks in a store.
const MARKS: &str = "copies";

/// How far a file was saved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// Device and inode of the file.
    pub identity: (u64, u64),
    /// Everything before this byte of it is kept.
    pub saved: u64,
    /// Digest of the bytes before that place.
    pub tail: String,
    /// How long the copy was then. Someone may add to it and be killed before the mark is moved.
    pub kept: u64,
    /// Digest of the bytes before that place of the copy: another copy, fetched or put back since, is not the one that was meant.
    pub kept_tail: String,
    /// Whether the file is only the end of a session of which the rest is elsewhere.
    pub is_part: bool,
    /// When the file had been written last as all of it was compared; none if it may have been written since.
    pub compared: Option<i64>,
    /// How much of the file was put there by restoring it, in a form that may be another than the copy's.
    pub restored: u64,
    /// Digest of that.
    pub restored_digest: String,
}

/// How much of a file is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// What was added: for savings that follow each other within a second.
    End,
    /// All of it, if it was written since the last such look.
    Whole,
}

/// A line that the program changed in place after it was saved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewrite {
    /// The line in the program's file, from one.
    pub line: u64,
    /// Its name.
    pub uuid: String,
    /// Whether only blanks at its ends are others, such as a carriage return. Then the form that was kept first stays the only one.
    pub is_blank: bool,
}

impl Mark {
    /// The mark of a file that is kept up to a place, in this copy; of a part, none is here.
    pub fn at(file: &LogReader, saved: u64, copy: Option<&LogReader>) -> Result<Self> {
        let kept = copy.map_or(0, LogReader::len);
        let kept_tail = copy.map_or(Ok(String::new()), |copy| tail(copy, kept))?;
        let tail = tail(file, saved)?;
        let (is_part, compared, restored, restored_digest) = (false, None, 0, String::new());
        Ok(Self {
            identity: file.identity(),
            saved,
            tail,
            kept,
            kept_tail,
            is_part,
            compared,
            restored,
            restored_digest,
        })
    }

    /// The same, of a file that was put there by restoring it.
    pub fn of_restored(self, file: &LogReader) -> Result<Self> {
        let restored = self.saved;
        Ok(Self { restored, restored_digest: digest_to(file, restored)?, ..self })
    }

    /// The same, of a file of which all was compared just now.
    #[must_use]
    pub fn compared_at(self, file: &LogReader, now_ms: i64) -> Self {
        let is_settled = now_ms.saturating_mul(1_000_000).saturating_sub(file.modified_ns()) > SETTLED_NS;
        Self { compared: is_settled.then(|| file.modified_ns()), ..self }
    }

    /// Whether all of the file was compared since it was written.
    fn is_compared(&self, file: &LogReader) -> bool {
        self.compared == Some(file.modified_ns())
    }

    /// Whether the copy still begins with what it had then. Of a part there was none, and what is here now is the whole.
    fn knows(&self, copy: &LogReader) -> Result<bool> {
        Ok(self.is_part && self.kept == 0 || self.kept <= copy.len() && self.kept_tail == tail(copy, self.kept)?)
    }

    /// Whether the file still begins with what was saved, as far as its identity and the end of that tell.
    fn holds(&self, reader: &LogReader) -> Result<bool> {
        Ok(self.identity == reader.identity() && self.saved <= reader.len() && self.tail == tail(reader, self.saved)?)
    }

    fn encode(&self) -> String {
        let Self { identity: (device, inode), saved, tail, kept, kept_tail, is_part, .. } = self;
        let compared = self.compared.map_or(String::new(), |time| format!(",\"compared\":{time}"));
        let restored = match self.restored {
            0 => String::new(),
            len => format!(",\"restored\":{len},\"restored_digest\":\"{}\"", self.restored_digest),
        };
        format!(
            "{{\"device\":{device},\"inode\":{inode},\"saved\":{saved},\"tail\":\"{tail}\",\"kept\":{kept},\"kept_tail\":\"{kept_tail}\",\"part\":{is_part}{compared}{restored}}}\n"
        )
    }

    fn decode(text: &str) -> Option<Self> {
        let members = json::members(text.trim_end())?;
        let number = |name| json::member(&members, name).and_then(json::number);
        let text = |name| Some(json::string(json::member(&members, name)?)?.into_owned());
        let (tail, kept_tail) = (text("tail")?, text("kept_tail")?);
        let is_part = json::member(&members, "part") == Some("true");
        let identity = (number("device")?, number("inode")?);
        let compared = number("compared").and_then(|time| i64::try_from(time).ok());
        let restored = number("restored").unwrap_or(0);
        let restored_digest = text("restored_digest").unwrap_or_default();
        let (saved, kept) = (number("saved")?, number("kept")?);
        Some(Self { identity, saved, tail, kept, kept_tail, is_part, compared, restored, restored_digest })
    }
}

/// Digest of the beginning of a file.
fn digest_to(file: &LogReader, end: u64) -> Result<String> {
    let (mut digest, mut at) = (Digest::default(), 0);
    while at < end {
        let part = file.bytes(at, usize::try_from(end - at).unwrap_or(BATCH).min(BATCH))?;
        if part.is_empty() {
            break;
        }
        at += part.len() as u64;
        digest.write_all(&part).map_err(|source| failed(file.path(), source))?;
    }
    Ok(digest.finish().iter().map(|byte| format!("{byte:02x}")).collect())
}

fn tail(reader: &LogReader, at: u64) -> Result<String> {
    let len = at.min(TAIL);
    Ok(sha256_hex(&reader.bytes(at - len, usize::try_from(len).unwrap_or(0))?))
}

/// Where the marks of a store are. They are a cache: without one, files are compared.
#[derive(Debug, Clone)]
pub struct Marks {
    medium: Arc<dyn Medium>,
}

impl Marks {
    /// The marks of a store.
    pub fn new(medium: Arc<dyn Medium>) -> Self {
        Self { medium }
    }

    /// The mark of a file, by its absolute path.
    pub fn get(&self, file: &Path) -> Option<Mark> {
        let bytes = read_small(self.medium.as_ref(), &place(file), MAX_MARK).ok()?;
        Mark::decode(std::str::from_utf8(&bytes).ok()?)
    }

    /// Remembers a mark, for one that matters: that a file is only a part.
    pub fn put_firmly(&self, file: &Path, mark: &Mark) -> io::Result<()> {
        self.write(&place(file), &mark.encode())
    }

    /// What was seen of a file that is kept as a whole: its length and its time.
    pub fn seen(&self, file: &Path) -> Option<(u64, i64)> {
        let bytes = read_small(self.medium.as_ref(), &seen_place(file), MAX_MARK).ok()?;
        let members = json::members(std::str::from_utf8(&bytes).ok()?.trim_end())?;
        let number = |name| json::member(&members, name).and_then(json::number);
        Some((number("bytes")?, i64::try_from(number("modified_ns")?).ok()?))
    }

    /// Remembers that a file is kept as it is now. If that cannot be written, it is read again.
    pub fn put_seen(&self, file: &Path, bytes: u64, modified_ns: i64) {
        let text = format!("{{\"bytes\":{bytes},\"modified_ns\":{modified_ns}}}\n");
        if let Err(error) = self.write(&seen_place(file), &text) {
            tracing::debug!(file = %file.display(), %error, "what was seen was not written");
        }
    }

    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        self.medium.create_dir(Path::new(MARKS))?;
        replace_atomic(self.medium.as_ref(), path, text.as_bytes())
    }

    /// Remembers a mark. One that cannot be written costs a comparison later.
    pub fn put(&self, file: &Path, mark: &Mark) {
        if let Err(error) = self.put_firmly(file, mark) {
            tracing::debug!(file = %file.display(), %error, "the mark was not written");
        }
    }
}

fn place(file: &Path) -> PathBuf {
    named(file, "json")
}

fn seen_place(file: &Path) -> PathBuf {
    named(file, "seen")
}

fn named(file: &Path, what: &str) -> PathBuf {
    let digest = sha256_hex(file.as_os_str().as_encoded_bytes());
    Path::new(MARKS).join(format!("{}.{what}", digest.get(..32).unwrap_or_default()))
}

/// What is new in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// Everything from here to the end of the last whole line.
    From {
        /// Where it begins.
        start: u64,
        /// Where it ends.
        end: u64,
    },
    /// Only these lines, given by where they begin and end: the rest of the file is not what is kept.
    Lines {
        /// The lines.
        ranges: Vec<(u64, u64)>,
        /// Where the last whole line ends.
        end: u64,
        /// Lines that were changed in place.
        rewrites: Vec<Rewrite>,
        /// Whether the file lacks lines that are kept, and has others.
        is_merged: bool,
    },
}

impl News {
    /// Whether there is nothing new.
    pub fn is_empty(&self) -> bool {
        match self {
            News::From { start, end } => start >= end,
            News::Lines { ranges, .. } => ranges.is_empty(),
        }
    }

    /// Lines that were changed in place.
    pub fn rewrites(&self) -> &[Rewrite] {
        match self {
            News::From { .. } => &[],
            News::Lines { rewrites, .. } => rewrites,
        }
    }

    /// Up to where the file is saved once these are taken in.
    pub fn end(&self) -> u64 {
        match self {
            News::From { end, .. } | News::Lines { end, .. } => *end,
        }
    }
}

/// What was added to what is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Taken {
    /// Lines.
    pub lines: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Whether the file and what is kept went different ways, and both are kept now.
    pub is_merged: bool,
}

/// What a file has behind a mark; none if the mark says nothing of it.
pub fn since(file: &LogReader, mark: &Mark) -> Result<Option<News>> {
    if !mark.holds(file)? {
        return Ok(None);
    }
    // A line that had no end when it was saved may have got one since, and nothing else.
    let is_open = mark.saved > 0 && mark.saved < file.len() && file.bytes(mark.saved - 1, 1)? != b"\n";
    if is_open && file.bytes(mark.saved, 1)? != b"\n" {
        return Ok(None);
    }
    let end = whole_end(file)?;
    Ok(Some(News::From { start: mark.saved.min(end), end }))
}

/// What a file has that is not kept.
pub fn news(file: &LogReader, kept: &LogReader, mark: Option<&Mark>, look: Look) -> Result<News> {
    if let Some(mark) = mark
        && mark.knows(kept)?
        && let Some(News::From { start, end }) = since(file, mark)?
    {
        let added = if mark.kept == kept.len() || start >= end {
            News::From { start, end }
        } else {
            behind(file, kept, mark, start, end)?
        };
        if look == Look::End || mark.is_compared(file) {
            return Ok(added);
        }
        if let Some(before) = before(file, kept, mark, start)? {
            return added.with(file, before);
        }
    }
    let end = whole_end(file)?;
    let common = common((file, 0), (kept, 0))?;
    if common == kept.len() || common >= end {
        return Ok(News::From { start: common.min(end), end });
    }
    let known = Known::of(kept, 0)?;
    let found = Unknown::find(file, common, end, &known)?;
    let is_merged = found.has_new && known.has_more(common, &found.names);
    Ok(News::Lines { ranges: found.ranges, end, rewrites: found.rewrites, is_merged })
}

/// What was changed in a file before a mark; none if what was restored there is not there any more.
fn before(file: &LogReader, kept: &LogReader, mark: &Mark, start: u64) -> Result<Option<Unknown>> {
    let from = if mark.restored > 0 && mark.restored <= start {
        if digest_to(file, mark.restored)? != mark.restored_digest {
            return Ok(None);
        }
        mark.restored
    } else {
        common((file, 0), (kept, 0))?
    };
    // As a rule all of it is as it was.
    if from >= start || kept.is_empty() {
        return Ok(Some(Unknown::default()));
    }
    Unknown::find(file, from, start, &Known::of(kept, 0)?).map(Some)
}

impl News {
    /// Together with what was changed before it.
    fn with(self, file: &LogReader, before: Unknown) -> Result<Self> {
        if before.ranges.is_empty() && before.rewrites.is_empty() {
            return Ok(self);
        }
        let Unknown { mut ranges, mut rewrites, has_new: mut is_merged, .. } = before;
        let end = self.end();
        match self {
            News::From { start, end } => {
                let mut forward = file.forward(start);
                while let Some(line) = forward.next()? {
                    // A line that had no end when it was saved got one here.
                    if line.end() <= end && !(line.offset == start && line.len == 0) {
                        ranges.push((line.offset, line.offset + line.len));
                    }
                }
            }
            News::Lines { ranges: more, rewrites: others, is_merged: also, .. } => {
                ranges.extend(more);
                rewrites.extend(others);
                is_merged |= also;
            }
        }
        Ok(News::Lines { ranges, end, rewrites, is_merged })
    }
}

/// What a file has behind a mark that the copy did not get since: from someone who was killed before the mark was moved or who saved at the same
/// time, or from another machine.
fn behind(file: &LogReader, kept: &LogReader, mark: &Mark, start: u64, end: u64) -> Result<News> {
    // A line that had no end when it was saved got one in the copy.
    let first = if file.bytes(start, 1)? == b"\n" { start + 1 } else { start };
    let same = common((file, first), (kept, mark.kept))?;
    if mark.kept + same == kept.len() {
        return Ok(News::From { start: (first + same).min(end), end });
    }
    let found = Unknown::find(file, first, end, &Known::of(kept, mark.kept)?)?;
    match found.known {
        0 => Ok(News::From { start, end }),
        _ => Ok(News::Lines { ranges: found.ranges, end, rewrites: found.rewrites, is_merged: found.has_new }),
    }
}

/// Lines of a file that are not kept.
#[derive(Debug, Default)]
struct Unknown {
    ranges: Vec<(u64, u64)>,
    rewrites: Vec<Rewrite>,
    /// How many others there are.
    known: u64,
    /// Whether lines are among them that are kept in no form.
    has_new: bool,
    /// The names of all lines that were looked at.
    names: HashSet<String>,
}

impl Unknown {
    /// The lines from a place on that are not known.
    fn find(file: &LogReader, start: u64, end: u64, known: &Known) -> Result<Self> {
        let mut found = Self::default();
        let mut number = None;
        let mut lines = 0;
        let mut forward = file.forward(start);
        while let Some(line) = forward.next()? {
            lines += 1;
            if line.end() > end {
                continue;
            }
            let (bytes, range) = (whole(file, &line)?, (line.offset, line.offset + line.len));
            let named = Named::of(&bytes);
            found.names.extend(named.as_ref().map(|named| named.uuid.clone()));
            match known.standing(&bytes, named.as_ref()) {
                Standing::Kept => found.known += 1,
                Standing::New => {
                    found.has_new = true;
                    found.ranges.push(range);
                }
                Standing::Other { uuid, is_blank } => {
                    found.known += 1;
                    let before = match number {
                        Some(before) => before,
                        None => *number.insert(count_lines(file, start)?),
                    };
                    found.rewrites.push(Rewrite { line: before + lines, uuid, is_blank });
                    if !is_blank {
                        found.ranges.push(range);
                    }
                }
            }
        }
        Ok(found)
    }
}

fn count_lines(file: &LogReader, end: u64) -> Result<u64> {
    let (mut count, mut at) = (0, 0);
    while at < end {
        let part = file.bytes(at, usize::try_from(end - at).unwrap_or(BATCH).min(BATCH))?;
        if part.is_empty() {
            break;
        }
        at += part.len() as u64;
        count += memchr(&part);
    }
    Ok(count)
}

/// Lines of a file that are kept in another form only.
pub fn rewritten(file: &LogReader, kept: &LogReader, mark: Option<&Mark>) -> Result<Vec<Rewrite>> {
    let mark = mark.map(|mark| Mark { compared: None, ..mark.clone() });
    Ok(news(file, kept, mark.as_ref(), Look::Whole)?.rewrites().to_vec())
}

/// Adds to what is kept what a file has that is not; what was added is read back and proved.
pub fn take_in(file: &LogReader, kept: &mut Intake, news: &News) -> Result<Taken> {
    let is_merged = matches!(news, News::Lines { is_merged: true, .. });
    let mut taken = Taken { is_merged, ..Taken::default() };
    let before = kept.reader()?.len();
    let mut batch = Vec::new();
    let mut digest = Digest::default();
    let mut flush = |batch: &mut Vec<u8>, taken: &mut Taken| -> Result<()> {
        if !batch.is_empty() {
            taken.lines += memchr(batch);
            taken.bytes += batch.len() as u64;
            digest.write_all(batch).map_err(|source| failed(file.path(), source))?;
            kept.append(batch)?;
            batch.clear();
        }
        Ok(())
    };
    match news {
        News::From { start, end } => {
            let mut at = *start;
            while at < *end {
                let len = usize::try_from(end - at).unwrap_or(BATCH).min(BATCH);
                let part = file.bytes(at, len)?;
                if part.is_empty() {
                    break;
                }
                at += part.len() as u64;
                // A line that had no end when it was saved got one here.
                let part = part.strip_prefix(b"\n").filter(|_| at - part.len() as u64 == *start).unwrap_or(&part);
                batch.extend_from_slice(part);
                if at >= *end && batch.last().is_some_and(|last| *last != b'\n') {
                    batch.push(b'\n');
                }
                let whole = batch.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
                let rest = batch.split_off(whole);
                flush(&mut batch, &mut taken)?;
                batch = rest;
            }
        }
        News::Lines { ranges, .. } => {
            for (start, end) in ranges {
                batch.extend(file.bytes(*start, usize::try_from(end - start).unwrap_or(0))?);
                batch.push(b'\n');
                if batch.len() >= BATCH {
                    flush(&mut batch, &mut taken)?;
                }
            }
        }
    }
    flush(&mut batch, &mut taken)?;
    let reader = kept.reader()?;
    let mut proof = Digest::default();
    let mut at = before;
    while at < reader.len() {
        let part = reader.bytes(at, BATCH)?;
        if part.is_empty() {
            break;
        }
        at += part.len() as u64;
        proof.write_all(&part).map_err(|source| failed(reader.path(), source))?;
    }
    if proof.finish() != digest.finish() {
        let path = reader.path().display().to_string();
        return Err(Error::Invalid(format!("`{path}` does not have what was written to it: is the disk failing?")));
    }
    Ok(taken)
}

/// Writes the whole lines of a file.
pub fn write_whole(file: &LogReader, end: u64, out: &mut dyn Write) -> io::Result<()> {
    let mut at = 0;
    let mut last = b'\n';
    while at < end {
        let len = usize::try_from(end - at).unwrap_or(BATCH).min(BATCH);
        let part = file.bytes(at, len).map_err(io::Error::other)?;
        if part.is_empty() {
            break;
        }
        at += part.len() as u64;
        last = part.last().copied().unwrap_or(last);
        out.write_all(&part)?;
    }
    if last != b'\n' {
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// Where the last whole line ends. One that lacks only its line feed is whole: half of an object is none.
pub fn whole_end(file: &LogReader) -> Result<u64> {
    let mut backward = file.backward();
    match backward.next()? {
        Some(line) if line.terminated || is_object(line.bytes) => Ok(file.len()),
        Some(line) => Ok(line.offset),
        None => Ok(0),
    }
}

/// Whether two files say the same.
pub fn is_same(one: &LogReader, other: &LogReader) -> Result<bool> {
    Ok(one.len() == other.len() && common((one, 0), (other, 0))? == one.len())
}

/// How many bytes of whole lines two files have alike from these places on.
fn common((one, one_at): (&LogReader, u64), (other, other_at): (&LogReader, u64)) -> Result<u64> {
    let (mut at, mut lines) = (0, 0);
    loop {
        let (first, second) = (one.bytes(one_at + at, BATCH)?, other.bytes(other_at + at, BATCH)?);
        let same = first.iter().zip(&second).take_while(|(one, other)| one == other).count();
        if let Some(end) = first[..same].iter().rposition(|byte| *byte == b'\n') {
            lines = at + end as u64 + 1;
        }
        if same < BATCH {
            return Ok(lines);
        }
        at += same as u64;
    }
}

/// The lines of a file, by their names and by what they say.
#[derive(Default)]
struct Known {
    names: HashMap<String, Forms>,
    /// Digests of lines, and of lines without the blanks at their ends.
    texts: HashSet<[u8; 32]>,
    bare: HashSet<[u8; 32]>,
}

/// The forms of a line that has a name.
struct Forms {
    /// Where the first one begins.
    first: u64,
    /// The folders in which the program worked, as the forms have it.
    folders: Vec<String>,
}

/// A line that has a name.
struct Named {
    uuid: String,
    folder: String,
}

impl Named {
    fn of(line: &[u8]) -> Option<Self> {
        let members = json::members(std::str::from_utf8(line).ok()?.trim_ascii())?;
        let text = |name| json::member(&members, name).and_then(json::string).map(Cow::into_owned);
        Some(Self { uuid: text("uuid")?, folder: text("cwd").unwrap_or_default() })
    }
}

/// How a line of a file stands to what is kept.
enum Standing {
    Kept,
    /// A line of that name is kept, in another form.
    Other {
        uuid: String,
        is_blank: bool,
    },
    New,
}

impl Known {
    /// All that have names, and of those without the ones from a place on: before it, the same may have been said another time.
    fn of(kept: &LogReader, texts_from: u64) -> Result<Self> {
        let mut known = Self::default();
        let mut forward = kept.forward(0);
        while let Some(line) = forward.next()? {
            let (offset, bytes) = (line.offset, whole(kept, &line)?);
            match Named::of(&bytes) {
                Some(Named { uuid, folder }) => {
                    let forms = known.names.entry(uuid).or_insert_with(|| Forms { first: offset, folders: Vec::new() });
                    if !forms.folders.contains(&folder) {
                        forms.folders.push(folder);
                    }
                    known.bare.insert(digest(bytes.trim_ascii()));
                }
                None if offset < texts_from => continue,
                None => {}
            }
            known.texts.insert(digest(&bytes));
        }
        Ok(known)
    }

    fn standing(&self, line: &[u8], named: Option<&Named>) -> Standing {
        if self.texts.contains(&digest(line)) {
            return Standing::Kept;
        }
        match named.and_then(|named| Some((named, self.names.get(&named.uuid)?))) {
            None => Standing::New,
            // Restored into another folder with its paths put right; the program never changes the folder of a line.
            Some((named, forms)) if !forms.folders.contains(&named.folder) => Standing::Kept,
            Some((named, _)) => {
                let is_blank = self.bare.contains(&digest(line.trim_ascii()));
                Standing::Other { uuid: named.uuid.clone(), is_blank }
            }
        }
    }

    /// Whether there are lines from a place on that are not among these.
    fn has_more(&self, from: u64, names: &HashSet<String>) -> bool {
        self.names.iter().any(|(name, forms)| forms.first >= from && !names.contains(name))
    }
}

fn digest(bytes: &[u8]) -> [u8; 32] {
    use sha2::Digest as _;
    sha2::Sha256::digest(bytes).into()
}

/// The bytes of a line, also of one that is longer than any of this program's.
fn whole<'l>(reader: &LogReader, line: &Physical<'l>) -> Result<Cow<'l, [u8]>> {
    if !line.is_overlong() {
        return Ok(Cow::Borrowed(line.bytes));
    }
    let len =
        usize::try_from(line.len).map_err(|_| Error::Invalid("a line is too long for this machine".to_owned()))?;
    Ok(Cow::Owned(reader.bytes(line.offset, len)?))
}

fn memchr(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

fn failed(path: &Path, source: io::Error) -> Error {
    Error::Io { action: "read", path: path.to_path_buf(), source }
}

/// A digest as a place to write to.
#[derive(Default)]
struct Digest(sha2::Sha256);

impl Digest {
    fn finish(self) -> [u8; 32] {
        use sha2::Digest as _;
        self.0.finalize().into()
    }
}

impl Write for Digest {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        use sha2::Digest as _;
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
