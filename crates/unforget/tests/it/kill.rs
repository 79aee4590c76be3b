//! `kill -9` against the real binary, again and again: nothing acknowledged is missing.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use unforget_core::json;
use unforget_core::record::Body;
use unforget_core::scan::scan;
use unforget_testkit::generate::Dice;

use crate::support::Home;

const ROUNDS: usize = 200;

#[test]
fn two_hundred_kills_lose_no_acknowledged_record() {
    let home = Home::new();
    let id = home.conversation("main:cli:user", &[]);
    let mut dice = Dice::new(2026);
    let mut acked: Vec<(u64, String)> = Vec::new();
    let mut sent = 0;
    for round in 0..ROUNDS {
        let mut writer = home
            .command()
            .args(["append", &id])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut input = writer.stdin.take().unwrap();
        let mut output = BufReader::new(writer.stdout.take().unwrap());
        let texts: Vec<String> = (0..1 + dice.below(12))
            .map(|_| {
                sent += 1;
                format!("text {sent} {}", "y".repeat(dice.below(9000)))
            })
            .collect();
        for text in &texts {
            // The writer may die while it is being written to.
            if writeln!(input, "{{\"type\":\"user\",\"content\":{}}}", json::quote(text)).is_err() {
                break;
            }
        }
        // The kill comes after some of the acknowledgements, in the middle of the work on the rest.
        let wait_for = dice.below(texts.len() + 1);
        let mut line = String::new();
        let mut heard = 0;
        while heard < wait_for && output.read_line(&mut line).unwrap() > 0 {
            acked.push((number(&line), texts[heard].clone()));
            line.clear();
            heard += 1;
        }
        writer.kill().unwrap();
        // What was acknowledged before the kill arrived is acknowledged, too.
        while output.read_line(&mut line).unwrap() > 0 && line.ends_with('\n') {
            acked.push((number(&line), texts[heard].clone()));
            line.clear();
            heard += 1;
        }
        writer.wait().unwrap();
        check(&home, &id, &acked, round);
    }
    assert!(acked.len() > ROUNDS, "the test did something: {}", acked.len());
    let said = home.run(&["doctor", "--fix"]);
    assert_eq!(said.code, 0, "{said:?}");
}

fn number(line: &str) -> u64 {
    let value: serde_json::Value = serde_json::from_str(line).unwrap();
    value["n"].as_u64().unwrap()
}

fn check(home: &Home, id: &str, acked: &[(u64, String)], round: usize) {
    let bytes = std::fs::read(home.transcript(id)).unwrap();
    let scanned = scan(&bytes);
    let found: std::collections::HashMap<u64, String> = scanned
        .records
        .iter()
        .filter_map(|record| match &record.body {
            Body::User { content } => Some((record.n, json::string(content)?.into_owned())),
            _ => None,
        })
        .collect();
    for (n, text) in acked {
        assert_eq!(found.get(n), Some(text), "round {round}: record {n} was acknowledged");
    }
    // At most the last line is damaged; everything else is whole.
    let damage: Vec<_> = scanned.report.damage().collect();
    assert!(damage.len() <= 1, "round {round}: {damage:?}");
}
