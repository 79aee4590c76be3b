use super::*;

fn hit(id: &str, n: u64, role: Role, at_ms: i64, len: usize) -> Hit {
    let place = Place { id: SessionId::parse(id).unwrap(), dir: AgentDir::of("main"), is_trashed: false };
    Hit { place, key: None, title: None, n, offset: 0, at_ms, role, tool: None, len, is_abandoned: false }
}

fn order(hits: Vec<Hit>, limit: usize) -> Vec<u64> {
    rank(hits, limit).iter().map(|hit| hit.n).collect()
}

#[test]
fn words_of_people_come_before_results_and_short_before_long() {
    let hits = vec![
        hit("a", 1, Role::ToolResult, 0, 10),
        hit("a", 2, Role::User, 0, 10),
        hit("a", 3, Role::User, 0, 300),
        hit("a", 4, Role::Title, 0, 3),
    ];
    assert_eq!(order(hits, 10), [4, 2, 3, 1]);
}

#[test]
fn half_a_year_weighs_more_than_a_role() {
    let day = 86_400_000;
    let hits = vec![hit("a", 1, Role::User, 0, 10), hit("a", 2, Role::ToolResult, 180 * day, 10)];
    assert_eq!(order(hits, 10), [2, 1]);
    let hits = vec![hit("a", 1, Role::User, 0, 10), hit("a", 2, Role::ToolResult, 10 * day, 10)];
    assert_eq!(order(hits, 10), [1, 2]);
}

#[test]
fn equal_ones_come_newest_first_in_a_total_order() {
    let hits = vec![hit("a", 1, Role::User, 5, 1), hit("b", 2, Role::User, 5, 1), hit("a", 3, Role::User, 5, 1)];
    let mut backwards = hits.clone();
    backwards.reverse();
    assert_eq!(order(hits, 10), [2, 3, 1]);
    assert_eq!(order(backwards, 2), [2, 3]);
}

#[test]
fn only_the_newest_are_ranked_however_they_come() {
    let many = || (0..5000_u64).map(|n| hit("a", n, Role::User, i64::try_from(n % 2500).unwrap(), 1));
    let mut found = Found::default();
    many().for_each(|hit| found.push(hit));
    let mut two = Found::default();
    for half in [0, 1] {
        let mut part = Found::default();
        many().filter(|hit| hit.n % 2 == half).for_each(|hit| part.push(hit));
        two.add(part);
    }
    let (one, two) = (found.answer(2000), two.answer(2000));
    assert_eq!(one.hits.len(), CANDIDATES);
    assert!(one.more && one == two);
    assert_eq!(rank(many().collect(), 2000), one.hits);
}

#[test]
fn times_are_too_old_only_beside_more_newer_hits_than_are_ranked() {
    let mut found = Found::default();
    (0..2 * CANDIDATES as u64).for_each(|n| {
        assert_eq!(found.floor_ms, None);
        found.push(hit("a", n, Role::User, i64::try_from(n).unwrap(), 1));
    });
    assert_eq!(found.floor_ms, Some(CANDIDATES as i64));
    let mut few = Found::default();
    let mut part = Found::default();
    (0..CANDIDATES as u64).for_each(|n| part.push(hit("a", n, Role::User, 5, 1)));
    few.add(part);
    assert_eq!(few.floor_ms, None, "one more hit would still tell that there is more");
}

#[test]
fn a_filter_takes_what_it_names() {
    let filter = Filter { agent: Some("main".to_owned()), channel: Some("cli".to_owned()), ..Filter::default() };
    assert!(filter.takes_dir(&AgentDir::of("main")) && !filter.takes_dir(&AgentDir::of("other")));
    assert!(
        filter.takes_key(Some("main:cli:user")) && !filter.takes_key(Some("main:web:user")) && !filter.takes_key(None)
    );
    let filter = Filter { key: Pattern::parse("main:cli:ada").ok(), ..Filter::default() };
    assert!(filter.takes_key(Some("main:cli:ada")) && !filter.takes_key(Some("main:cli:user")));
    assert!(filter.takes_dir(&AgentDir::of("main")) && !filter.takes_dir(&AgentDir::of("other")));
    let filter = Filter { key: Pattern::parse("*:cli:a*").ok(), ..Filter::default() };
    assert!(filter.takes_key(Some("other:cli:ada")) && !filter.takes_key(Some("main:cli:user")));
    assert!(filter.takes_dir(&AgentDir::of("other")) && !filter.takes_key(None));
    let filter = Filter {
        roles: vec![Role::ToolUse],
        tool: Some("bash".to_owned()),
        since_ms: Some(5),
        until_ms: Some(9),
        ..Filter::default()
    };
    assert!(filter.takes(Role::ToolUse, Some("bash"), 5) && filter.takes(Role::ToolUse, Some("bash"), 9));
    assert!(!filter.takes(Role::ToolUse, Some("bash"), 4) && !filter.takes(Role::ToolUse, Some("bash"), 10));
    assert!(!filter.takes(Role::User, Some("bash"), 5) && !filter.takes(Role::ToolUse, None, 5));
    assert!(Filter::default().takes(Role::Label, None, 0) && Filter::default().takes_key(None));
}
