//! A long session that goes on with its end, while the rest is on its way.
//!
//! What was compacted away is not needed to go on, so another machine can begin as soon as it has the end. It must end up with
//! everything all the same: what the program wrote meanwhile has to find its place behind the rest, on this machine and on the remote, once.

use super::same_request::rich;
use super::{World, assert_same_lines, records};
use crate::elsewhere::Place;

#[test]
fn a_run_that_begins_with_the_end_has_everything_in_the_end() {
    let Some(world) = World::new() else { return };
    let place = Place::directory();
    let (one, two) = (world.host_at("one", &place), world.host_at("two", &place));
    let id = rich(&one);
    one.ok(&["claude", "save", "--remote", &place.url]);
    let before = one.kept(&id);

    let tail = ["--remote", place.url.as_str(), "--resume", &id, "--tail"];
    let answer = two.ask(&tail, "go on with PEACH [[recall]]");
    assert_eq!(answer.session_id, id);
    assert!(answer.result.contains("SUMMARY") && answer.result.contains("PEACH"), "{}", answer.result);
    let short = two.transcript(&id).len();
    assert!(short < before.len() / 2, "the program had {short} bytes of {}", before.len());
    let kept = two.kept(&id);
    assert!(kept.starts_with(&before), "the rest is here, too");
    let new = records(&kept[before.len()..]);
    assert!(new.iter().any(|record| record["message"]["content"].to_string().contains("PEACH")), "and what is new");
    let names =
        records(&kept).iter().filter_map(|record| record["uuid"].as_str().map(str::to_owned)).collect::<Vec<_>>();
    let mut different = names.clone();
    different.sort();
    different.dedup();
    assert_eq!(names.len(), different.len(), "no line is there twice");
    assert_eq!(two.waiting(), 0);

    one.ok(&["pull", &id, "--remote", &place.url]);
    assert_same_lines(one.kept(&id).as_bytes(), kept.as_bytes(), "the remote has it as it is there");
    // The next whole one puts the rest where the program had only the end.
    two.ok(&["claude", "restore", &id]);
    assert_same_lines(&two.transcript(&id), kept.as_bytes(), "all of it");
    let recalled = two.machine.resume(&id, "[[recall]]");
    assert!(recalled.result.contains("PEACH"), "{}", recalled.result);
}
