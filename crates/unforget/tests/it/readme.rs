//! The README's tour, run as it is printed: what it shows is what the program says.

use std::process::Command;

use crate::scene::Scene;
use crate::support::Home;

#[test]
fn b3_the_tour_in_the_readme_is_what_happens_also_after_a_first_chat() {
    let home = Home::new();
    let workspace = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let readme = std::fs::read_to_string(format!("{workspace}/README.md")).unwrap();
    let programs = std::path::Path::new(env!("CARGO_BIN_EXE_unforget")).parent().unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let folder = home.folder.path().to_str().unwrap();
    let mut variables = vec![("HOME".to_owned(), folder.to_owned()), ("PATH".to_owned(), path)];
    variables.push(("TZ".to_owned(), "UTC".to_owned()));
    let run = |command: &str, variables: &[(String, String)]| {
        let mut bash = Command::new("bash");
        bash.args(["-c", &format!("({command}) 2>&1")]).current_dir(workspace);
        let output = bash.env_clear().envs(variables.iter().cloned()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    // Whoever reads from the top has talked before the tour begins.
    assert!(run("unforget chat -p 'my name is Eve'", &variables).contains("Eve"));
    let mut steps = 0;
    // The first block is about cargo; the tour begins with the second.
    for block in readme.split("```console\n").skip(2).map(|rest| rest.split("```").next().unwrap()) {
        for step in block.split("$ ").filter(|step| !step.trim().is_empty()) {
            let (command, expected) = step.split_once('\n').unwrap();
            // What a shell keeps from step to step.
            if let Some((name, value)) = command.strip_prefix("export ").and_then(|rest| rest.split_once('=')) {
                variables.push((name.to_owned(), value.replace('~', folder)));
            } else if let Some(name) = command.strip_prefix("unset ") {
                variables.retain(|(other, _)| other != name);
            }
            let said = run(command, &variables);
            assert_eq!(plain(&said), plain(expected), "$ {command}");
            steps += 1;
        }
    }
    assert!(steps > 8, "the tour has only {steps} steps");
}

/// The SDK of Claude goes on when its store fails, and hands a turn over at its end unless it is told otherwise.
#[test]
fn p1_p3_every_snippet_handles_mirror_errors_and_flushes_eagerly() {
    let mut snippets = 0;
    for readme in ["README.md", "python/README.md", "typescript/README.md"] {
        let text = std::fs::read_to_string(format!("{}/../../{readme}", env!("CARGO_MANIFEST_DIR"))).unwrap();
        for language in ["python", "ts"] {
            let fence = format!("```{language}\n");
            let blocks = text.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap());
            for block in blocks.filter(|block| block.contains(" query(")) {
                let handled = if language == "ts" { "mirror_error" } else { "MirrorErrorMessage)" };
                let eager =
                    if language == "ts" { "sessionStoreFlush: 'eager'" } else { "session_store_flush=\"eager\"" };
                for part in [handled, eager, "connect()"] {
                    assert!(block.contains(part), "{readme}: no {part} in\n{block}");
                }
                snippets += 1;
            }
        }
    }
    assert_eq!(snippets, 4);
}

/// The text without what differs from run to run: ids, and the time of now.
fn plain(text: &str) -> String {
    let words = text.trim().split(' ').map(|word| {
        let is_id =
            word.split(['\n', ':']).any(|part| part.trim_matches('`').len() == 36 && part.matches('-').count() == 4);
        let is_now = word.len() == 10
            && word.starts_with("20")
            && word.matches('-').count() == 2
            && !word.starts_with("2026-01-");
        let is_time = word.split('\n').next().is_some_and(|part| part.len() == 8 && part.matches(':').count() == 2);
        match (is_id, is_now, is_time) {
            (true, _, _) => {
                word.split('\n').map(|part| if part.len() >= 36 { "ID" } else { part }).collect::<Vec<_>>().join("\n")
            }
            (_, true, _) => "DATE".to_owned(),
            (_, _, true) => word.split('\n').skip(1).fold("TIME".to_owned(), |all, part| format!("{all}\n{part}")),
            _ => word.to_owned(),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// The recording is typed again, key by key, and the screens must be those that are printed.
#[test]
fn the_recording_in_the_readme_is_what_happens() {
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md")).unwrap();
    let recording = readme.split("```text\n$ unforget\n").nth(1).unwrap().split("```").next().unwrap();
    let scene = Scene::offline();
    for name in ["unforget", "unforget-agent", "unforget-core", "unforget-testkit"] {
        std::fs::create_dir_all(scene.work().join("crates").join(name)).unwrap();
    }
    for expected in recording.split("$ unforget\n") {
        let mut terminal = scene.chat();
        for line in expected.lines() {
            if let Some((_, typed)) = line.split_once("] > ") {
                terminal.begin(typed);
            } else if let Some((_, answer)) =
                line.split_once("Allow? [y]es, [n]o, [a]lways (until you quit), or say why not: ")
            {
                terminal.answer(&format!("{answer}\r"));
            }
        }
        assert_eq!(terminal.ends(), 0);
        assert_eq!(unnamed(&terminal.text()), unnamed(expected.trim_end()));
    }
}

/// The screen without the session's id and the folder of this run.
fn unnamed(screen: &str) -> String {
    let line = |line: &str| match line.split_once(':') {
        Some((name, _)) if name == "  Workspace" => format!("{name}: FOLDER"),
        Some((name, rest)) if name == "  Session" => format!("{name}:{}", rest.split(" (").next().unwrap_or_default()),
        _ => line.trim_end().to_owned(),
    };
    screen.lines().map(line).collect::<Vec<_>>().join("\n")
}
