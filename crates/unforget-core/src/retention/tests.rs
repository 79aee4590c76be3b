//! Each rule has a case that fails when it is broken, and a property says that what is protected is in no plan.

use proptest::prelude::*;

use super::*;
use crate::layout::AgentDir;

const DAY: i64 = 24 * 60 * 60 * 1000;
const NOW: i64 = 1000 * DAY;

fn row(id: &str, key: &str, days_ago: i64) -> Row {
    Row {
        id: id.to_owned(),
        key: Some(key.to_owned()),
        created_ms: Some(0),
        updated_ms: Some(NOW - days_ago * DAY),
        bytes: 100,
        ..Row::default()
    }
}

fn candidate(row: Row) -> Candidate {
    Candidate { entry: Entry { dir: AgentDir::of("main"), row }, live: false }
}

fn trashed(id: &str, days_ago: i64) -> Trashed {
    let id = SessionId::parse(id).unwrap();
    Trashed { dir: AgentDir::of("main"), id, bytes: 100, deleted_ms: Some(NOW - days_ago * DAY) }
}

fn rules(keys: &[(&str, &str)]) -> Rules {
    let keys = keys.iter().map(|(key, keep)| (Pattern::parse(key).unwrap(), Keep::parse(keep).unwrap())).collect();
    Rules { keys, ..Rules::default() }
}

fn period(text: &str) -> Period {
    Period::parse(text).unwrap()
}

fn expired(plan: &Plan) -> Vec<&str> {
    plan.expire.iter().map(|(entry, _)| entry.row.id.as_str()).collect()
}

fn purged_ids(plan: &Plan) -> Vec<&str> {
    plan.purge.iter().map(|(trashed, _)| trashed.id.as_str()).collect()
}

#[test]
fn nothing_goes_without_a_rule() {
    let old = [candidate(row("a", "main:cli:user", 900))];
    let trash = [trashed("t", 900)];
    let plan = plan(&old, &trash, &Rules::default(), &Purge::ByRules, NOW);
    assert_eq!((plan.expire, plan.purge), (vec![], vec![]));
    assert_eq!(plan.kept, [("a".to_owned(), Kept::NoRule), ("t".to_owned(), Kept::NoRule)]);
}

#[test]
fn every_reason_to_stay_counts_and_the_old_one_goes() {
    let rules = rules(&[("main:cli:*", "90d")]);
    let base = row("a", "main:cli:user", 91);
    let own = |text: &str| Row { expires: Some(text.to_owned()), ..base.clone() };
    let unreadable = State::Unreadable(String::new());
    let due = NOW - 89 * DAY + 90 * DAY;
    let cases: Vec<(&str, Row, Verdict)> = vec![
        ("old", base.clone(), Verdict::Expire(Why::Key(Pattern::parse("main:cli:*").unwrap(), period("90d")))),
        ("young", row("a", "main:cli:user", 89), Verdict::Keep(Kept::NotYet(due))),
        ("another key", row("a", "main:web:user", 900), Verdict::Keep(Kept::NoRule)),
        ("no key", Row { key: None, ..base.clone() }, Verdict::Keep(Kept::NoRule)),
        ("label", Row { label: Some("x".into()), ..base.clone() }, Verdict::Keep(Kept::Labelled)),
        ("pin", Row { pinned: true, ..base.clone() }, Verdict::Keep(Kept::AtTheTop)),
        ("pinned", own("never"), Verdict::Keep(Kept::Pinned)),
        ("own, sooner", Row { updated_ms: Some(NOW - 2 * DAY), ..own("1d") }, Verdict::Expire(Why::Own(period("1d")))),
        ("own, later", own("92d"), Verdict::Keep(Kept::NotYet(NOW + DAY))),
        ("own, odd", own("0"), Verdict::Keep(Kept::OddExpiry("0".into()))),
        ("missing", Row { state: State::Missing, ..base.clone() }, Verdict::Keep(Kept::Unusable("missing"))),
        ("mismatch", Row { state: State::Mismatch, ..base.clone() }, Verdict::Keep(Kept::Unusable("mismatch"))),
        ("unreadable", Row { state: unreadable, ..base.clone() }, Verdict::Keep(Kept::Unusable("unreadable"))),
        ("damaged", Row { damage: 1, ..base.clone() }, Verdict::Keep(Kept::Damaged)),
        ("undated", Row { updated_ms: None, created_ms: None, ..base.clone() }, Verdict::Keep(Kept::Undated)),
        ("future", Row { updated_ms: Some(NOW + 1), ..base.clone() }, Verdict::Keep(Kept::FromTheFuture)),
        (
            "clock set back",
            Row { created_ms: Some(NOW - DAY), ..base.clone() },
            Verdict::Keep(Kept::NotYet(NOW + 89 * DAY)),
        ),
    ];
    for (what, row, expected) in cases {
        assert_eq!(verdict(&row, &rules, NOW), expected, "{what}");
    }
    let live = Candidate { live: true, ..candidate(base) };
    assert_eq!(plan(&[live], &[], &rules, &Purge::ByRules, NOW).kept, [("a".to_owned(), Kept::Live)]);
}

#[test]
fn the_most_specific_rule_wins_and_of_two_equal_ones_the_longer() {
    let rules = rules(&[
        ("*", "1d"),
        ("main:cli:*", "30d"),
        ("main:cli:ada", "never"),
        ("*:web:adam", "9d"),
        ("main:web:*", "5d"),
    ]);
    let goes = |key: &str, days: i64| matches!(verdict(&row("a", key, days), &rules, NOW), Verdict::Expire(_));
    assert!(goes("agent:x:y:group:z", 2) && !goes("main:cli:bob", 29) && goes("main:cli:bob", 31));
    assert!(!goes("main:cli:ada", 900));
    assert!(goes("main:web:bob", 6) && !goes("main:web:adam", 6) && goes("main:web:adam", 10));
}

#[test]
fn the_trash_keeps_as_long_as_it_was_told_to() {
    let rules = Rules { trash: Some(period("30d")), ..Rules::default() };
    let odd = [
        Trashed { deleted_ms: None, ..trashed("undated", 0) },
        Trashed { deleted_ms: Some(NOW + DAY), ..trashed("future", 0) },
    ];
    let mut trash = vec![trashed("old", 30), trashed("young", 29)];
    trash.extend(odd);
    assert_eq!(purged_ids(&plan(&[], &trash, &rules, &Purge::ByRules, NOW)), ["old"]);
    let asked = Purge::Asked(Some(period("10d")));
    assert_eq!(purged_ids(&plan(&[], &trash, &Rules::default(), &asked, NOW)), ["old", "young"]);
    let all = plan(&[], &trash, &Rules::default(), &Purge::Asked(None), NOW);
    assert_eq!(all.purge.len(), 4, "who asks for all gets all");
}

#[test]
fn a_budget_takes_the_oldest_trash_first_and_then_moves_the_oldest_sessions() {
    let sessions: Vec<Candidate> = (1..=4).map(|n| candidate(row(&format!("s{n}"), "main:cli:user", n * 10))).collect();
    let trash = [trashed("t1", 5), trashed("t2", 9), trashed("fresh", 0)];
    let of = |budget: u64| {
        let rules = Rules { disk_budget: Some(budget), ..Rules::default() };
        plan(&sessions, &trash, &rules, &Purge::ByRules, NOW)
    };
    assert_eq!(of(700).purge, vec![]);
    let one = of(650);
    assert_eq!((purged_ids(&one), expired(&one), one.over_budget), (vec!["t2"], vec![], 0));
    let both = of(500);
    assert_eq!((purged_ids(&both), expired(&both)), (vec!["t2", "t1"], vec![]));
    // What was deleted today stays today, and makes room later; only what is missing beyond that is moved.
    let more = of(400);
    assert_eq!((purged_ids(&more), expired(&more), more.over_budget), (vec!["t2", "t1"], vec![], 100));
    let most = of(250);
    assert_eq!((expired(&most), most.over_budget), (vec!["s4", "s3"], 250));
    assert!(most.kept.iter().all(|(id, _)| id != "s4" && id != "t1"));
}

#[test]
fn a_budget_touches_nothing_that_was_used_today_or_is_kept_for_ever() {
    let used = row("used", "main:cli:user", 0);
    let never = row("never", "main:cli:ada", 900);
    let label = Row { label: Some("x".into()), ..row("label", "main:cli:user", 900) };
    let rules = Rules { disk_budget: Some(0), ..rules(&[("main:cli:ada", "never")]) };
    let sessions = [candidate(used), candidate(never), candidate(label)];
    let plan = plan(&sessions, &[], &rules, &Purge::ByRules, NOW);
    assert_eq!((expired(&plan), plan.over_budget), (vec![], 300));
}

fn any_row() -> impl Strategy<Value = Row> {
    let state = prop_oneof![
        4 => Just(State::Ok),
        1 => Just(State::Missing),
        1 => Just(State::Mismatch),
        1 => Just(State::Unreadable(String::new()))
    ];
    let key = prop_oneof![Just(None), "(main|bot):(cli|web):[ab*]{1,2}".prop_map(Some)];
    let expires = prop_oneof![4 => Just(None), 2 => "(never|1d|30d|0|-1d|x)".prop_map(Some)];
    let label = prop_oneof![4 => Just(None), 1 => Just(Some("l".to_owned()))];
    let time = prop_oneof![1 => Just(None), 6 => (0..NOW + 9 * DAY).prop_map(Some)];
    ("[a-z]{8}", key, state, expires, label, (time.clone(), time), 0..3u64, 0..1000u64).prop_map(
        |(id, key, state, expires, label, (created_ms, updated_ms), damage, bytes)| Row {
            id,
            key,
            state,
            expires,
            label,
            created_ms,
            updated_ms,
            damage,
            bytes,
            ..Row::default()
        },
    )
}

proptest! {
    #[test]
    fn what_is_protected_is_in_no_plan(
        rows in prop::collection::vec((any_row(), any::<bool>()), 0..20),
        budget in prop::option::of(0..5000u64),
        keys in prop::collection::vec(("(main|bot|\\*):(cli|\\*):(a|\\*)", "(never|1d|90d)"), 0..4),
    ) {
        let keys: Vec<(&str, &str)> = keys.iter().map(|(key, keep)| (key.as_str(), keep.as_str())).collect();
        let rules = Rules { disk_budget: budget, ..rules(&keys) };
        let sessions: Vec<Candidate> = rows.into_iter().map(|(row, live)| Candidate { live, ..candidate(row) }).collect();
        let plan = plan(&sessions, &[], &rules, &Purge::ByRules, NOW);
        for (entry, why) in &plan.expire {
            let row = &entry.row;
            prop_assert!(row.state == State::Ok && row.label.is_none() && row.damage == 0);
            prop_assert!(row.expires.as_deref().is_none_or(|own| matches!(own, "1d" | "30d")));
            prop_assert!(row.updated_ms.max(row.created_ms).is_some_and(|ms| ms <= NOW - DAY));
            prop_assert!(sessions.iter().any(|it| it.entry.row == *row && !it.live));
            prop_assert!(*why == Why::Budget || !rules.keys.is_empty() || row.expires.is_some());
            if let Some((_, Keep::Never)) = row.key.as_deref().and_then(|key| rules.of_key(key)) {
                prop_assert!(row.expires.is_some(), "a rule keeps {:?} for ever", row.key);
            }
        }
        prop_assert_eq!(plan.expire.len() + plan.kept.len(), sessions.len());
    }
}
