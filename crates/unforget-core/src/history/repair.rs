//! What the history had to put right so that the API accepts it, and where.
//!
//! A repair changes only what is sent. The transcript keeps every byte.

use std::fmt;

/// One thing that was put right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repair {
    /// The record that it is about.
    pub n: u64,
    /// What was done.
    pub kind: RepairKind,
}

/// The kinds of repairs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RepairKind {
    /// A call without a result got one that says so.
    ResultAdded(String),
    /// A call without a result was left out.
    CallLeftOut(String),
    /// A result that answers no call was left out.
    OrphanResult(String),
    /// A second result for the same call was left out.
    SecondResult(String),
    /// A result was moved behind its call.
    ResultMoved(String),
    /// A call that was written twice is sent once.
    CallWrittenTwice(String),
    /// A call got an id that the API accepts, or that no other call in the message has.
    CallRenamed {
        /// The id in the transcript.
        from: String,
        /// The id that is sent.
        to: String,
    },
    /// A tool's name got the form that the API accepts.
    ToolRenamed {
        /// The name in the transcript.
        from: String,
        /// The name that is sent.
        to: String,
    },
    /// A call's arguments were cut off, so it is sent without them and its result says so.
    InputCutOff(String),
    /// A call's arguments have one name twice, so it is sent without them and its result says so.
    InputAmbiguous(String),
    /// A call's arguments were stored as text and are sent as the object that the text spells.
    InputDecoded(String),
    /// Something nested too deeply was replaced.
    TooDeep,
    /// Characters that no request may hold (lone surrogates, NUL) were replaced.
    CharactersReplaced,
    /// Text without words was left out.
    Empty,
    /// A content block was left out.
    BlockLeftOut(String),
    /// Members of a block that the API does not take were left out.
    MembersLeftOut(String),
    /// An image was replaced by a note.
    ImageReplaced(String),
    /// A text too long to send was shortened.
    Shortened {
        /// Its length in bytes.
        bytes: u64,
    },
    /// Thinking that belongs to another prefix of the conversation was left out.
    ThinkingLeftOut(String),
    /// An open server tool call that can no longer be continued was left out.
    ServerCallLeftOut(String),
    /// A record that is not usable was left out.
    RecordLeftOut(String),
    /// Everything before this record does not fit and was left out.
    EarlierLeftOut,
    /// What a program says by itself follows no words of the user and was sent as theirs.
    SystemAsUser,
}

impl RepairKind {
    /// A short, stable name for machines.
    pub fn name(&self) -> &'static str {
        match self {
            RepairKind::ResultAdded(_) => "result_added",
            RepairKind::CallLeftOut(_) => "call_left_out",
            RepairKind::OrphanResult(_) => "orphan_result",
            RepairKind::SecondResult(_) => "second_result",
            RepairKind::ResultMoved(_) => "result_moved",
            RepairKind::CallWrittenTwice(_) => "call_written_twice",
            RepairKind::CallRenamed { .. } => "call_renamed",
            RepairKind::ToolRenamed { .. } => "tool_renamed",
            RepairKind::InputCutOff(_) => "input_cut_off",
            RepairKind::InputAmbiguous(_) => "input_ambiguous",
            RepairKind::InputDecoded(_) => "input_decoded",
            RepairKind::TooDeep => "too_deep",
            RepairKind::CharactersReplaced => "characters_replaced",
            RepairKind::Empty => "empty",
            RepairKind::BlockLeftOut(_) => "block_left_out",
            RepairKind::MembersLeftOut(_) => "members_left_out",
            RepairKind::ImageReplaced(_) => "image_replaced",
            RepairKind::Shortened { .. } => "shortened",
            RepairKind::ThinkingLeftOut(_) => "thinking_left_out",
            RepairKind::ServerCallLeftOut(_) => "server_call_left_out",
            RepairKind::RecordLeftOut(_) => "record_left_out",
            RepairKind::EarlierLeftOut => "earlier_left_out",
            RepairKind::SystemAsUser => "system_as_user",
        }
    }
}

impl fmt::Display for RepairKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RepairKind::ResultAdded(id) => {
                write!(f, "call {id} has no result; the model is told that its outcome is unknown")
            }
            RepairKind::CallLeftOut(id) => write!(f, "call {id} has no result and is left out"),
            RepairKind::OrphanResult(id) => write!(f, "result of {id} answers no call and is left out"),
            RepairKind::SecondResult(id) => write!(f, "second result of {id} is left out"),
            RepairKind::ResultMoved(id) => write!(f, "result of {id} is moved behind its call"),
            RepairKind::CallWrittenTwice(id) => write!(f, "call {id} was written twice and is sent once"),
            RepairKind::CallRenamed { from, to } => write!(f, "call {from} is sent as {to}"),
            RepairKind::ToolRenamed { from, to } => write!(f, "tool {from} is sent as {to}"),
            RepairKind::InputCutOff(id) => write!(f, "arguments of call {id} were cut off; the model is told so"),
            RepairKind::InputAmbiguous(id) => {
                write!(f, "arguments of call {id} have one name twice and are left out; the model is told so")
            }
            RepairKind::InputDecoded(id) => {
                write!(f, "arguments of call {id} were stored as text and are sent as an object")
            }
            RepairKind::TooDeep => write!(f, "nested too deeply to send; replaced by a note"),
            RepairKind::CharactersReplaced => {
                write!(f, "characters that cannot be sent (lone surrogates, NUL) are replaced")
            }
            RepairKind::Empty => write!(f, "text without words is left out"),
            RepairKind::BlockLeftOut(why) => write!(f, "content block left out: {why}"),
            RepairKind::MembersLeftOut(names) => write!(f, "members that the API does not take are left out: {names}"),
            RepairKind::ImageReplaced(why) => write!(f, "image replaced by a note: {why}"),
            RepairKind::Shortened { bytes } => write!(f, "text of {bytes} bytes is shortened"),
            RepairKind::ThinkingLeftOut(why) => write!(f, "thinking left out: {why}"),
            RepairKind::ServerCallLeftOut(id) => write!(f, "open server tool call {id} is left out"),
            RepairKind::RecordLeftOut(why) => write!(f, "record left out: {why}"),
            RepairKind::EarlierLeftOut => write!(f, "everything before it does not fit and is left out"),
            RepairKind::SystemAsUser => {
                write!(f, "a system message follows no words of the user and is sent as theirs")
            }
        }
    }
}

/// Collects repairs, each with the record that it is about.
#[derive(Debug, Default)]
pub(super) struct Repairs(pub(super) Vec<Repair>);

impl Repairs {
    pub(super) fn add(&mut self, n: u64, kind: RepairKind) {
        self.0.push(Repair { n, kind });
    }
}
