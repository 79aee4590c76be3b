//! What a line of a transcript says of its place in the tree, and no more.
//!
//! A transcript is a tree: every line with a `uuid` names the one that it continues. Lines without one (titles, costs, modes) are beside
//! the tree. Here a line is read as far as [`tail`](crate::tail) and [`doctor`](crate::doctor) need; members that are not known are not
//! looked at, and the line itself stays as it is.

use std::borrow::Cow;

use unforget_core::json;

/// What kind of line it is, as far as that matters for the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Words of a person, or the result of a tool.
    User,
    /// A block of an answer.
    Assistant,
    /// Part of the tree, and no part of what was said.
    Other,
}

/// Which line a line continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Parent {
    /// None: it is a beginning.
    Root,
    /// That one.
    Of(String),
    /// It does not say, so that resuming does not find it.
    Unsaid,
}

/// A line that is part of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) kind: Kind,
    pub(crate) uuid: String,
    pub(crate) parent: Parent,
    /// Said by an agent, not in the conversation itself.
    pub(crate) is_sidechain: bool,
    pub(crate) boundary: Option<Boundary>,
}

/// Where a conversation was summarised.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Boundary {
    /// The line that came before it.
    pub(crate) before: Option<String>,
    /// Lines from before it that are still sent.
    pub(crate) preserved: Vec<String>,
    /// The first and the last of them, where only those two are named: the others are between them.
    pub(crate) segment: Option<(String, String)>,
}

/// Types of lines that are part of the tree.
const TREE: [(&str, Kind); 5] = [
    ("user", Kind::User),
    ("assistant", Kind::Assistant),
    ("attachment", Kind::Other),
    ("system", Kind::Other),
    ("progress", Kind::Other),
];

impl Row {
    /// Reads the members of a line; `None` if it is not part of the tree.
    pub(crate) fn of(members: &Members<'_>) -> Option<Self> {
        let type_ = text(members, "type")?;
        let (_, kind) = *TREE.iter().find(|(name, _)| *name == type_)?;
        let parent = match json::member(members, "parentUuid") {
            Some("null") => Parent::Root,
            Some(raw) => json::string(raw).map_or(Parent::Unsaid, |uuid| Parent::Of(uuid.into_owned())),
            None => Parent::Unsaid,
        };
        let is_boundary = type_ == "system" && text(members, "subtype").as_deref() == Some("compact_boundary");
        Some(Self {
            kind,
            uuid: text(members, "uuid")?,
            parent,
            is_sidechain: json::member(members, "isSidechain") == Some("true"),
            boundary: is_boundary.then(|| Boundary::of(members)),
        })
    }
}

impl Boundary {
    fn of(members: &Members<'_>) -> Self {
        let metadata = object(members, "compactMetadata");
        let messages = object(&metadata, "preservedMessages");
        let segment = object(&metadata, "preservedSegment");
        let listed = ["uuids", "allUuids"].iter().filter_map(|name| json::elements(json::member(&messages, name)?));
        let mut preserved: Vec<String> = listed.flatten().filter_map(json::string).map(Cow::into_owned).collect();
        preserved.sort();
        preserved.dedup();
        let segment = text(&segment, "headUuid").zip(text(&segment, "tailUuid")).filter(|_| preserved.is_empty());
        Self { before: text(members, "logicalParentUuid"), preserved, segment }
    }
}

/// The members of an object, in order.
pub(crate) type Members<'a> = Vec<(Cow<'a, str>, &'a str)>;

/// A line without what may be around it: a byte order mark, blanks, a carriage return; `None` if it is no text.
pub(crate) fn trimmed(line: &[u8]) -> Option<&str> {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    Some(std::str::from_utf8(line).ok()?.trim_ascii())
}

/// The members of a line; `None` if it is no JSON object.
pub(crate) fn members(line: &[u8]) -> Option<Members<'_>> {
    json::members(trimmed(line)?)
}

/// The text of a member that is a string.
pub(crate) fn text(members: &Members<'_>, name: &str) -> Option<String> {
    Some(json::string(json::member(members, name)?)?.into_owned())
}

/// The members of a member that is an object; none if it is not.
pub(crate) fn object<'a>(members: &Members<'a>, name: &str) -> Members<'a> {
    json::member(members, name).and_then(json::members).unwrap_or_default()
}
