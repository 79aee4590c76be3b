//! The model: what sessions there are and what was said in them, as plain lists.

use std::collections::BTreeSet;

/// Everything that was done.
#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) sessions: Vec<Session>,
}

/// One session where it is now. The same id may be in both places: deleted, and brought back by an import.
#[derive(Debug, Clone)]
pub(super) struct Session {
    pub(super) id: String,
    pub(super) key: String,
    pub(super) is_trashed: bool,
    /// In the order of their numbers.
    pub(super) records: Vec<Record>,
    pub(super) is_torn: bool,
    /// The first record that is no copy.
    pub(super) own: usize,
    /// Which file it was imported from.
    pub(super) file: Option<usize>,
}

/// What one record says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) ms: i64,
    pub(super) what: What,
    /// The step before it, of steps.
    pub(super) parent: Option<usize>,
    /// Words that can be found.
    pub(super) words: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum What {
    Header { label: Option<String> },
    User,
    Assistant,
    Call,
    Result,
    Turn { tokens: u64 },
    Title { title: String },
    Label { label: String },
    Name { to: usize, name: String, is_branch: bool },
    Head { to: Option<usize> },
    Compaction { kept: Option<usize> },
    Expire { after: String },
    Pinned { on: bool },
}

impl Record {
    pub(super) fn is_step(&self) -> bool {
        !matches!(
            self.what,
            What::Title { .. }
                | What::Label { .. }
                | What::Name { .. }
                | What::Head { .. }
                | What::Expire { .. }
                | What::Pinned { .. }
        )
    }

    /// What is said about a session is no use of it.
    fn is_use(&self) -> bool {
        self.is_step() || matches!(self.what, What::Head { .. })
    }

    fn role(&self) -> &'static str {
        match self.what {
            What::User => "user",
            What::Assistant => "assistant",
            What::Call => "tool_use",
            What::Result => "tool_result",
            What::Compaction { .. } => "summary",
            What::Title { .. } => "title",
            _ => "label",
        }
    }
}

/// A record that was found: session, number, in the trash, left behind, role.
pub(super) type Hit = (String, u64, bool, bool, &'static str);

/// What a list says of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) id: String,
    pub(super) key: String,
    pub(super) is_trashed: bool,
    pub(super) label: Option<String>,
    pub(super) title: Option<String>,
    pub(super) created_ms: i64,
    pub(super) updated_ms: i64,
    pub(super) turns: u64,
    pub(super) records: u64,
    pub(super) tokens: u64,
    pub(super) head: Option<u64>,
    pub(super) expires: Option<String>,
    pub(super) pinned: bool,
    pub(super) damage: u64,
}

impl Session {
    pub(super) fn new(id: String, key: &str, label: Option<&str>, ms: i64) -> Self {
        let words = label.iter().map(|label| (*label).to_owned()).collect();
        let what = What::Header { label: label.map(str::to_owned) };
        let header = Record { ms, what, parent: None, words };
        let key = key.to_owned();
        Self { id, key, is_trashed: false, records: vec![header], is_torn: false, own: 0, file: None }
    }

    pub(super) fn head(&self) -> Option<usize> {
        let last = self.records.iter().enumerate().rev().find_map(|(n, record)| match record.what {
            What::Head { to } => Some(to),
            _ if record.is_step() => Some(Some(n)),
            _ => None,
        });
        last.flatten()
    }

    /// Adds a record and says under which number.
    pub(super) fn add(&mut self, ms: i64, what: What, words: Vec<String>) -> usize {
        let mut record = Record { ms, what, parent: None, words };
        if record.is_step() {
            record.parent = Some(self.head().unwrap_or(0));
        }
        self.records.push(record);
        self.records.len() - 1
    }

    /// The steps from the header to a record.
    pub(super) fn way_to(&self, to: Option<usize>) -> Vec<usize> {
        let mut way = Vec::new();
        let mut at = to;
        while let Some(n) = at {
            way.push(n);
            at = self.records[n].parent;
        }
        way.reverse();
        way
    }

    pub(super) fn steps(&self) -> Vec<usize> {
        (0..self.records.len()).filter(|n| self.records[*n].is_step()).collect()
    }

    pub(super) fn row(&self) -> Row {
        let (mut label, mut given, mut said, mut expires) = (None, None, None, None);
        let (mut tokens, mut pinned) = (0, false);
        for (n, record) in self.records.iter().enumerate() {
            match &record.what {
                What::Header { label: named } => label = named.clone(),
                What::Label { label: named } => label = Some(named.clone()).filter(|label| !label.is_empty()),
                What::Title { title } => given = Some(title.clone()),
                What::User => said = said.or(Some(record.words.join(" "))),
                What::Turn { tokens: taken } if n >= self.own => tokens += taken,
                What::Expire { after } => expires = Some(after.clone()),
                What::Pinned { on } => pinned = *on,
                _ => {}
            }
        }
        Row {
            id: self.id.clone(),
            key: self.key.clone(),
            is_trashed: self.is_trashed,
            label,
            title: given.or(said),
            created_ms: self.records[0].ms,
            updated_ms: self.records.iter().rev().find(|record| record.is_use()).unwrap().ms,
            turns: self.way_to(self.head()).iter().filter(|n| self.records[**n].what == What::User).count() as u64,
            records: self.records.len() as u64,
            tokens,
            head: self.head().map(|n| n as u64),
            expires,
            pinned,
            damage: u64::from(self.is_torn),
        }
    }

    /// The marks of everything that a model would be sent, in order.
    pub(super) fn history(&self) -> Vec<String> {
        let way = self.way_to(self.head());
        let compaction = way.iter().rposition(|n| matches!(self.records[*n].what, What::Compaction { .. }));
        let sent: Vec<usize> = match compaction {
            None => way,
            Some(at) => {
                let What::Compaction { kept } = self.records[way[at]].what else { unreachable!() };
                let from = kept.and_then(|kept| way[..at].iter().position(|n| *n == kept)).unwrap_or(at);
                [way[at]]
                    .into_iter()
                    .chain(way[from..at].iter().copied())
                    .chain(way[at + 1..].iter().copied())
                    .collect()
            }
        };
        let is_first_summary = |place: usize| compaction.is_some() && place == 0;
        let is_sent = |(place, n): &(usize, &usize)| match self.records[**n].what {
            What::Compaction { .. } => is_first_summary(*place),
            What::Header { .. } | What::Turn { .. } => false,
            _ => true,
        };
        sent.iter().enumerate().filter(is_sent).map(|(_, n)| self.records[*n].words[0].clone()).collect()
    }

    /// A session of its own that ends with a step of this one.
    pub(super) fn fork(&self, id: String, at: Option<usize>, ms: i64) -> Self {
        let way: BTreeSet<usize> = self.way_to(at).into_iter().collect();
        let mut fork = Self::new(id, &self.key, None, ms);
        let mut numbers = std::collections::BTreeMap::new();
        let mut head = Some(0);
        for (n, record) in self.records.iter().enumerate() {
            let new = fork.records.len();
            let is_wanted = match &record.what {
                _ if record.is_step() => way.contains(&n),
                What::Title { .. } => true,
                What::Name { to, name, is_branch } => {
                    !is_branch && self.is_last_of_its_name(n, name) && numbers.contains_key(to)
                }
                _ => false,
            };
            if !is_wanted {
                continue;
            }
            if matches!(record.what, What::Header { .. }) {
                numbers.insert(n, 0);
                continue;
            }
            let mut copy = record.clone();
            match &mut copy.what {
                What::Compaction { kept } => *kept = kept.and_then(|kept| numbers.get(&kept).copied()),
                What::Name { to, .. } => *to = numbers[to],
                _ => {}
            }
            if copy.is_step() {
                numbers.insert(n, new);
                copy.parent = head;
                head = Some(new);
            }
            fork.records.push(copy);
        }
        fork.own = fork.records.len();
        fork.add(ms, What::Head { to: head }, Vec::new());
        fork
    }

    fn is_last_of_its_name(&self, at: usize, name: &str) -> bool {
        let is_same = |record: &Record| matches!(&record.what, What::Name { name: other, .. } if other == name);
        !self.records[at + 1..].iter().any(is_same)
    }

    /// What is found in it.
    pub(super) fn hits(&self, finds: fn(&[&str]) -> bool) -> Vec<Hit> {
        let way: BTreeSet<usize> = self.way_to(self.head()).into_iter().collect();
        let found = self.records.iter().enumerate().filter(|(_, record)| {
            let words: Vec<&str> = record.words.iter().map(String::as_str).collect();
            finds(&words)
        });
        let hit = |(n, record): (usize, &Record)| {
            let role = record.role();
            let is_left = record.is_step() && role != "label" && !way.contains(&n);
            (self.id.clone(), n as u64, self.is_trashed, is_left, role)
        };
        found.map(hit).collect()
    }
}

/// What a name means.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Meant {
    One(String),
    Several(BTreeSet<String>),
    Nobody,
}

impl Model {
    pub(super) fn position(&self, id: &str, is_trashed: bool) -> Option<usize> {
        self.sessions.iter().position(|session| session.id == id && session.is_trashed == is_trashed)
    }

    pub(super) fn rows(&self, is_trashed: bool) -> Vec<Row> {
        let mut rows: Vec<Row> =
            self.sessions.iter().filter(|session| session.is_trashed == is_trashed).map(Session::row).collect();
        rows.sort_by(|a, b| (b.updated_ms, &b.id).cmp(&(a.updated_ms, &a.id)));
        rows
    }

    pub(super) fn last_used(&self, key: &str) -> Option<String> {
        self.rows(false).into_iter().find(|row| row.key == key).map(|row| row.id)
    }

    pub(super) fn meant(&self, is_trashed: bool, name: &str) -> Meant {
        let rows = self.rows(is_trashed);
        if rows.iter().any(|row| row.id == name) {
            return Meant::One(name.to_owned());
        }
        let of_key: BTreeSet<String> = rows.iter().filter(|row| row.key == name).map(|row| row.id.clone()).collect();
        if is_trashed && of_key.len() > 1 {
            // Nobody is a key's current session in the trash.
            return Meant::Several(of_key);
        }
        let newest = rows.iter().filter(|row| row.key == name).max_by_key(|row| (row.created_ms, row.id.clone()));
        if let Some(newest) = newest {
            return Meant::One(newest.id.clone());
        }
        let begins = |text: &Option<String>| {
            text.as_ref().is_some_and(|text| text.to_lowercase().starts_with(&name.to_lowercase()))
        };
        let ways: [&dyn Fn(&Row) -> bool; 4] = [
            &|row| row.label.as_deref() == Some(name),
            &|row| row.id.starts_with(name),
            &|row| begins(&row.label),
            &|row| begins(&row.title),
        ];
        for way in ways {
            let found: BTreeSet<String> = rows.iter().filter(|row| way(row)).map(|row| row.id.clone()).collect();
            match found.len() {
                0 => {}
                1 => return Meant::One(found.into_iter().next().unwrap()),
                _ => return Meant::Several(found),
            }
        }
        Meant::Nobody
    }
}
