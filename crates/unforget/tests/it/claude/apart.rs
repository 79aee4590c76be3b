//! Two machines that went on from the same point without knowing of each other.
//!
//! Claude Code names the parent of every line, so lines of both can stand in one file: as branches of one tree. Nothing of either may be lost, on
//! neither side, whichever of the two is sent first.

use super::{World, records};
use crate::elsewhere::Place;

fn says_it_apart(place: &Place) {
    let Some(world) = World::new() else { return };
    let (one, two) = (world.host_at("one", place), world.host_at("two", place));
    let id = one.ask(&["--remote", &place.url], "remember BANANA").session_id;
    let resume = ["--remote", place.url.as_str(), "--resume", &id];
    two.ask(&resume, "hello from there");
    one.ok(&["pull", &id, "--remote", &place.url]);

    // The first one without the remote, the second one with it.
    one.ask(&["--resume", &id], "the PELICAN, alone");
    two.ask(&resume, "the HERON, meanwhile");

    // Whoever comes second finds the other's words, and both are kept.
    let met = one.through(&resume, "and the STORK");
    assert!(met.status.success(), "{met:?}");
    one.ok(&["sync", "--remote", &place.url]);
    two.ok(&["pull", &id, "--remote", &place.url]);
    for host in [&one, &two] {
        let kept = host.kept(&id);
        for word in ["BANANA", "hello from there", "PELICAN", "HERON", "STORK"] {
            assert!(kept.contains(word), "{word}");
        }
        let mut names: Vec<String> =
            records(&kept).iter().filter_map(|record| record["uuid"].as_str().map(str::to_owned)).collect();
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all, "no line is there twice");
        let tree = host.ok(&["tree", &id]).out;
        assert!(tree.contains("PELICAN") && tree.contains("HERON"), "{tree}");
    }
    assert_eq!(one.kept(&id), two.kept(&id));
    assert_eq!((one.waiting(), two.waiting()), (0, 0));
    two.ok(&["claude", "restore", &id, "--remote", &place.url]);
    let recalled = two.machine.resume(&id, "[[recall]]");
    assert!(recalled.result.contains("BANANA") && recalled.result.contains("STORK"), "{}", recalled.result);
}

#[test]
fn what_was_said_apart_is_on_both_sides_as_two_branches_by_a_directory() {
    says_it_apart(&Place::directory());
}

#[test]
fn what_was_said_apart_is_on_both_sides_as_two_branches_by_postgres() {
    says_it_apart(&Place::database("claude_apart"));
}

#[test]
fn what_was_said_apart_is_on_both_sides_as_two_branches_by_agentcore() {
    says_it_apart(&Place::memory());
}
