//! A session of Claude Code beside all others: the commands that read sessions read it, those that would write into it refuse.

use super::{World, records, session};

#[test]
fn the_commands_that_read_sessions_read_those_of_claude_code() {
    let Some(world) = World::new() else { return };
    let one = world.host("one");
    let id = session(&one, "remember BANANA [[bash:echo out-$((40+2))]]");
    one.machine.resume(&id, "what about the pelican?");
    one.ok(&["claude", "save"]);
    let before = one.kept(&id);
    let out = |args: &[&str]| one.ok(args).out;

    let rows = records(&out(&["sessions", "--agent", "claude", "--json"]));
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!(rows[0]["id"], id.as_str());
    let key = format!("claude:code:{}", one.machine.cwd.display());
    assert_eq!(rows[0]["key"], key.as_str(), "{rows:?}");
    let shown = out(&["show", &id]);
    for words in ["BANANA", "out-42", "what about the pelican?"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let found = out(&["search", "pelican"]);
    assert!(found.contains("pelican") && found.contains(&id[..8]), "{found}");
    let tree = out(&["tree", &id]);
    assert!(tree.contains("1 branch · 2 turns") && tree.contains("BANANA"), "{tree}");
    let exported = out(&["export", &id, "--format", "markdown"]);
    assert!(exported.contains("BANANA") && exported.contains("TOOL-DONE: out-42"), "{exported}");
    let usage = records(&out(&["usage", "--json"]));
    let total = usage.iter().find(|row| row["total"] == true).unwrap();
    // Two calls for the first prompt, one for the second; each has one line for each block of it.
    assert_eq!((&total["turns"], &total["calls"], &total["tools"]), (&2.into(), &3.into(), &1.into()), "{total}");
    assert!(total["output"].as_u64() > Some(0) && total["cost_usd"].as_f64() > Some(0.0), "{total}");

    for args in [&["label", &id, "a-name"][..], &["chat", "-s", &id, "-p", "hello"], &["fork", &id]] {
        let said = one.run(args);
        assert!(said.code != 0, "{args:?}: {said:?}");
        assert!(said.err.contains("Claude Code") && said.err.contains("unforget claude"), "{args:?}: {said:?}");
    }
    assert_eq!(one.kept(&id), before, "its lines are the program's own");
    let doctor = one.ok(&["doctor"]);
    assert!(!doctor.out.contains("damage"), "{doctor:?}");
}
