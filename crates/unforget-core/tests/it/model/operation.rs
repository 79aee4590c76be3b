//! What can happen. Numbers choose among what is there when it happens, so that every shorter life is a life, too.

use proptest::prelude::*;

/// One thing that happens; `who` is the process that does it.
#[derive(Debug, Clone)]
pub(super) enum Operation {
    Create {
        who: usize,
        key: usize,
        label: Option<usize>,
        ending: Ending,
    },
    Write {
        who: usize,
        session: usize,
        says: Vec<Say>,
        ending: Ending,
    },
    Fork {
        who: usize,
        session: usize,
        at: Option<usize>,
    },
    Delete {
        who: usize,
        session: usize,
    },
    Undelete {
        who: usize,
        session: usize,
    },
    /// A tutorial's file: a new one, or the one that was imported last.
    Import {
        who: usize,
        key: usize,
        words: Vec<usize>,
        is_new: bool,
    },
    /// A copy of a transcript, to be brought back later.
    Export {
        session: usize,
    },
    BringBack {
        who: usize,
        copy: usize,
    },
    /// All words, or those of some sessions.
    TakeInWords {
        who: usize,
        sessions: Option<usize>,
    },
    Refresh {
        who: usize,
    },
    /// Someone takes the last records out of a file.
    Cut {
        who: usize,
        session: usize,
        records: usize,
    },
    Harm(Harm),
    /// A directory has been left alone for a while, so that its time is believed.
    Age {
        place: usize,
    },
    /// A process ends and another one begins.
    Restart {
        who: usize,
    },
    Pass {
        hours: i64,
    },
}

/// How a writer leaves a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Close,
    Die,
    /// It dies in the middle of a line.
    Tear,
    Stay,
}

/// What is written.
#[derive(Debug, Clone)]
pub(super) enum Say {
    Turn {
        words: Vec<usize>,
        tool: Option<usize>,
        tokens: u64,
    },
    Title {
        word: usize,
    },
    Label {
        name: Option<usize>,
    },
    Name {
        step: usize,
        name: usize,
        is_branch: bool,
    },
    /// To a step, or to the very beginning.
    Head {
        step: Option<usize>,
    },
    Compaction {
        word: usize,
        kept: Option<usize>,
    },
    Expire,
    Pinned {
        on: bool,
    },
}

/// What happens to the index.
#[derive(Debug, Clone, Copy)]
pub(super) enum Harm {
    Deleted,
    DeletedAlone,
    Cut,
    Overwritten,
    Noise,
    OtherVersion,
}

fn ending() -> impl Strategy<Value = Ending> {
    prop_oneof![4 => Just(Ending::Close), 2 => Just(Ending::Die), 1 => Just(Ending::Tear), 2 => Just(Ending::Stay)]
}

fn words() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(0..8_usize, 1..4)
}

fn say() -> impl Strategy<Value = Say> {
    prop_oneof![
        6 => (words(), prop::option::of(0..8_usize), 0..50_u64)
            .prop_map(|(words, tool, tokens)| Say::Turn { words, tool, tokens }),
        1 => (0..8_usize).prop_map(|word| Say::Title { word }),
        1 => prop::option::of(0..3_usize).prop_map(|name| Say::Label { name }),
        1 => (0..32_usize, 0..3_usize, any::<bool>())
            .prop_map(|(step, name, is_branch)| Say::Name { step, name, is_branch }),
        2 => prop::option::weighted(0.9, 0..32_usize).prop_map(|step| Say::Head { step }),
        1 => (0..8_usize, prop::option::of(0..32_usize)).prop_map(|(word, kept)| Say::Compaction { word, kept }),
        1 => Just(Say::Expire),
        1 => any::<bool>().prop_map(|on| Say::Pinned { on }),
    ]
}

fn harm() -> impl Strategy<Value = Harm> {
    prop_oneof![
        Just(Harm::Deleted),
        Just(Harm::DeletedAlone),
        Just(Harm::Cut),
        Just(Harm::Overwritten),
        Just(Harm::Noise),
        Just(Harm::OtherVersion),
    ]
}

pub(super) fn anything() -> impl Strategy<Value = Operation> {
    let (who, session) = (0..2_usize, 0..8_usize);
    prop_oneof![
        4 => (who.clone(), 0..4_usize, prop::option::of(0..3_usize), ending())
            .prop_map(|(who, key, label, ending)| Operation::Create { who, key, label, ending }),
        10 => (who.clone(), session.clone(), prop::collection::vec(say(), 1..4), ending())
            .prop_map(|(who, session, says, ending)| Operation::Write { who, session, says, ending }),
        2 => (who.clone(), session.clone(), prop::option::of(0..32_usize))
            .prop_map(|(who, session, at)| Operation::Fork { who, session, at }),
        3 => (who.clone(), session.clone()).prop_map(|(who, session)| Operation::Delete { who, session }),
        2 => (who.clone(), session.clone()).prop_map(|(who, session)| Operation::Undelete { who, session }),
        2 => (who.clone(), 0..4_usize, words(), any::<bool>())
            .prop_map(|(who, key, words, is_new)| Operation::Import { who, key, words, is_new }),
        2 => session.prop_map(|session| Operation::Export { session }),
        3 => (who.clone(), 0..4_usize).prop_map(|(who, copy)| Operation::BringBack { who, copy }),
        5 => (who.clone(), prop::option::weighted(0.3, 0..6_usize))
            .prop_map(|(who, sessions)| Operation::TakeInWords { who, sessions }),
        1 => who.clone().prop_map(|who| Operation::Refresh { who }),
        2 => (who.clone(), 0..8_usize, 1..6_usize)
            .prop_map(|(who, session, records)| Operation::Cut { who, session, records }),
        2 => harm().prop_map(Operation::Harm),
        2 => (0..4_usize).prop_map(|place| Operation::Age { place }),
        1 => who.prop_map(|who| Operation::Restart { who }),
        1 => (1..72_i64).prop_map(|hours| Operation::Pass { hours }),
    ]
}
