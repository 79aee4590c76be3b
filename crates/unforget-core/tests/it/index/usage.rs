//! What was taken, by the index and by reading all transcripts: the same, whatever happened in between.

use std::collections::BTreeMap;
use std::ops::Range;

use proptest::prelude::*;
use unforget_core::fork::{Wish, fork};
use unforget_core::layout::Place;
use unforget_core::record::Draft;
use unforget_core::store::Reach;
use unforget_core::store::Store;
use unforget_core::usage::Line;

use super::Scene;

/// The lines of every session that took something: id, in the trash, hour, model.
type Spent = BTreeMap<(String, bool, i64, String), Line>;

fn spent(catalog: &Store) -> Spent {
    let mut lines = Spent::new();
    let visit = &mut |facts: unforget_core::store::Facts, ledger: unforget_core::usage::Ledger| {
        for (hour, model, line) in ledger.lines() {
            let before = lines.insert((facts.id.to_string(), facts.trashed, hour, model.to_owned()), *line);
            assert_eq!(before, None, "a session is handed out once");
        }
    };
    let answer = catalog.spent(Reach::All, &mut |_, _| {}, visit).unwrap();
    assert_eq!(answer.value, []);
    assert_eq!(answer.notes.unusable, [], "a good index is not thrown away");
    lines
}

/// What all sessions took, by hour or by day of UTC, agent and model.
fn sums(catalog: &Store, hours: &Range<i64>, hours_a_step: i64) -> BTreeMap<(i64, String, String), Line> {
    let mut sums: BTreeMap<(i64, String, String), Line> = BTreeMap::new();
    let answer = catalog.sums(hours.clone(), &|_| hours_a_step > 1, &mut |_, _| {}, &mut |sum| {
        assert!(hours.contains(&sum.hour), "{} is not in {hours:?}", sum.hour);
        let step = sum.hour.div_euclid(hours_a_step);
        *sums.entry((step, sum.dir.as_str().to_owned(), sum.model.to_owned())).or_default() += sum.line;
    });
    let answer = answer.unwrap();
    assert_eq!(answer.value, []);
    assert_eq!(answer.notes.unusable, [], "a good index is not thrown away");
    sums
}

/// That the sums say what the sessions say, whatever is asked for.
#[track_caller]
fn same_sums(scene: &Scene, lines: &Spent) {
    let (first, last) = match (lines.keys().map(|key| key.2).min(), lines.keys().map(|key| key.2).max()) {
        (Some(first), Some(last)) => (first, last),
        _ => (0, 0),
    };
    for hours in [i64::MIN..i64::MAX, first + 1..i64::MAX, i64::MIN..last, first..last + 1, 0..1] {
        for step in [1, 24] {
            let mut expected: BTreeMap<(i64, String, String), Line> = BTreeMap::new();
            for ((_, _, hour, model), line) in lines.iter().filter(|(key, _)| hours.contains(&key.2)) {
                *expected.entry((hour.div_euclid(step), "main".to_owned(), model.clone())).or_default() += *line;
            }
            assert_eq!(sums(&scene.catalog(), &hours, step), expected, "{hours:?} by {step}");
        }
    }
    let always = i64::MIN..i64::MAX;
    assert_eq!(sums(&scene.without_index(), &always, 24), sums(&scene.catalog(), &always, 24));
}

/// That both say the same, and how many calls that is.
#[track_caller]
fn same(scene: &Scene) -> u64 {
    let by_index = spent(&scene.catalog());
    assert_eq!(by_index, spent(&scene.without_index()));
    same_sums(scene, &by_index);
    by_index.values().map(|line| line.calls).sum()
}

fn call(input: u64, model: &str) -> Draft {
    let usage = format!("{{\"input_tokens\":{input},\"output_tokens\":2}}");
    Draft::turn("done").text("model", model).raw("usage", &usage)
}

fn entry(scene: &Scene, at: usize) -> unforget_core::directory::Entry {
    scene.catalog().all(Place::Agents, &mut |_, _| {}).unwrap().value.remove(at)
}

#[test]
fn what_a_fork_copied_is_not_counted_twice() {
    let scene = Scene::new();
    let mut session = scene.talk("main:cli:ann", "count me");
    session.append(&[call(3, "m"), Draft::user("again"), call(4, "m")]).unwrap();
    session.close().unwrap();
    assert_eq!(same(&scene), 2);
    let forked = fork(scene.catalog().directory(), &entry(&scene, 0), Wish::default()).unwrap();
    assert_eq!(same(&scene), 2);
    let copy = entry(&scene, 0);
    assert_eq!(copy.row.id, forked.id.as_str());
    let mut session = scene.catalog().directory().open(&copy).unwrap();
    session.append(&[call(5, "n")]).unwrap();
    assert_eq!(same(&scene), 3, "while it is being written");
    session.close().unwrap();
    assert_eq!(same(&scene), 3);
}

#[test]
fn a_last_line_that_lacks_only_its_end_is_counted_once() {
    let scene = Scene::new();
    let mut session = scene.talk("main:cli:ann", "count me");
    session.append(&[call(3, "m")]).unwrap();
    session.append(&[call(4, "m")]).unwrap();
    drop(session);
    let entry = entry(&scene, 0);
    let path = scene.transcript(&entry);
    let len = std::fs::metadata(&path).unwrap().len();
    std::fs::File::options().write(true).open(&path).unwrap().set_len(len - 1).unwrap();
    scene.same();
    assert_eq!(same(&scene), 2);
    // The next writer completes the line.
    let mut session = scene.catalog().directory().open(&entry).unwrap();
    session.append(&[call(5, "m")]).unwrap();
    session.close().unwrap();
    assert_eq!(same(&scene), 3);
}

#[test]
fn what_was_deleted_counts_and_what_was_rewritten_counts_anew() {
    let scene = Scene::new();
    let mut session = scene.talk("main:cli:ann", "count me");
    session.append(&[call(3, "m")]).unwrap();
    session.close().unwrap();
    assert_eq!(same(&scene), 1);
    let entry = entry(&scene, 0);
    let path = scene.transcript(&entry);
    let text = std::fs::read_to_string(&path).unwrap().replace("\"input_tokens\":3", "\"input_tokens\":7");
    std::fs::write(&path, text).unwrap();
    // Another time, and not an old one: files that were last touched long ago are not read for what was taken lately.
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(3600);
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(later).unwrap();
    scene.same();
    same(&scene);
    assert_eq!(spent(&scene.catalog()).values().map(|line| line.tokens.input).sum::<u64>(), 7);
    scene.catalog().directory().delete(&entry).unwrap();
    assert_eq!(same(&scene), 1);
    assert!(spent(&scene.catalog()).keys().all(|(_, trashed, _, _)| *trashed));
    let deleted = scene.catalog().directory().deleted().unwrap().remove(0);
    scene.catalog().directory().undelete(&deleted).unwrap();
    assert_eq!(same(&scene), 1);
}

/// What happens to one of the sessions.
#[derive(Debug, Clone)]
enum Step {
    Create,
    Call { session: usize, input: u64, model: usize },
    Tool { session: usize },
    Fork { session: usize },
    Delete { session: usize },
    Undelete,
    Cut { session: usize },
    Forget,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => Just(Step::Create),
        6 => (0..4_usize, 0..200_000_u64, 0..2_usize)
            .prop_map(|(session, input, model)| Step::Call { session, input, model }),
        2 => (0..4_usize).prop_map(|session| Step::Tool { session }),
        1 => (0..4_usize).prop_map(|session| Step::Fork { session }),
        1 => (0..4_usize).prop_map(|session| Step::Delete { session }),
        1 => Just(Step::Undelete),
        1 => (0..4_usize).prop_map(|session| Step::Cut { session }),
        1 => Just(Step::Forget),
    ]
}

fn take(scene: &Scene, step: &Step) {
    let catalog = scene.catalog();
    let store = catalog.directory();
    let listed = store.list().unwrap().entries;
    let pick = |at: usize| (!listed.is_empty()).then(|| listed[at % listed.len()].clone());
    let append = |at: usize, drafts: &[Draft]| {
        if let Some(entry) = pick(at) {
            let mut session = store.open(&entry).unwrap();
            session.append(drafts).unwrap();
        }
    };
    match step {
        Step::Create => drop(scene.talk("main:cli:ann", "hello")),
        Step::Call { session, input, model } => append(*session, &[call(*input, ["m", "n"][*model])]),
        Step::Tool { session } => append(*session, &[Draft::tool_use(None, "toolu_1", "bash", "{}")]),
        Step::Fork { session } => drop(pick(*session).map(|entry| fork(store, &entry, Wish::default()).unwrap())),
        Step::Delete { session } => drop(pick(*session).map(|entry| store.delete(&entry).unwrap())),
        Step::Undelete => {
            if let Some(entry) = store.deleted().unwrap().first() {
                store.undelete(entry).unwrap();
            }
        }
        Step::Cut { session } => {
            let Some(entry) = pick(*session) else { return };
            let path = scene.transcript(&entry);
            let bytes = std::fs::read(&path).unwrap();
            let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
            std::fs::write(&path, lines[..lines.len().div_ceil(2)].concat()).unwrap();
            scene.same();
        }
        Step::Forget => std::fs::remove_file(scene.home.join("index.sqlite")).unwrap_or_default(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happened_the_index_counts_what_the_files_say(steps in prop::collection::vec(step(), 1..16)) {
        let scene = Scene::new();
        for (at, step) in steps.iter().enumerate() {
            take(&scene, step);
            if at % 3 == 0 {
                same(&scene);
            }
        }
        same(&scene);
    }
}
