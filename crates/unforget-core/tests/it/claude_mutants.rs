//! Sessions of Claude Code that are damaged in every way: what `show --messages` gives is valid for the API, and what was put right is listed.

use unforget_core::history::{RepairKind, foreign_messages, foreign_parts};
use unforget_core::scan::scan;
use unforget_testkit::mutants::{mutants, recorded};
use unforget_testkit::rules;

/// The messages as they would be sent, with the next words of a person if the model spoke last.
fn accepted(messages: &[String]) -> Result<(), rules::Rejection> {
    let mut messages = messages.to_vec();
    match messages.last() {
        None => return Ok(()),
        Some(last) if last.starts_with("{\"role\":\"assistant\"") => {
            messages.push("{\"role\":\"user\",\"content\":\"go on\"}".to_owned());
        }
        Some(_) => {}
    }
    rules::check_messages(format!("[{}]", messages.join(",")).as_bytes())
}

#[test]
fn h5_whatever_the_lines_are_the_messages_are_valid_for_the_api() {
    let (mut count, mut repaired, mut failed) = (0, 0, Vec::new());
    for (name, bytes) in mutants(24, 5) {
        count += 1;
        let scanned = scan(&bytes);
        let history = foreign_messages(&scanned.records);
        repaired += usize::from(!history.repairs.is_empty());
        if let Err(rejection) = accepted(&history.messages) {
            failed.push(format!("{name}\n    {rejection}"));
        }
        let numbers: Vec<u64> = scanned.records.iter().map(|record| record.n).collect();
        let strange = history.repairs.iter().find(|repair| !numbers.contains(&repair.n));
        assert_eq!(strange, None, "{name}: a repair of no record");
        let (parts, repairs) = foreign_parts(&scanned.records);
        assert_eq!(repairs, history.repairs, "{name}");
        assert!(parts.iter().all(|part| numbers.contains(&part.n)), "{name}");
    }
    assert!(failed.is_empty(), "{} of {count}:\n{}", failed.len(), failed.join("\n"));
    assert!(count >= 900 && repaired > 300, "{count} mutants, {repaired} repaired");
}

#[test]
fn h5_what_the_real_program_wrote_needs_no_repair_but_for_calls_without_one_answer() {
    for (name, text) in recorded() {
        let repairs = foreign_messages(&scan(text.as_bytes()).records).repairs;
        // Where two processes answered one call, the program sends the first answer, and of a killed call nothing.
        let is_expected = |kind: &RepairKind| match kind {
            RepairKind::CallLeftOut(_) => name.contains("killed"),
            RepairKind::SecondResult(_) => name.contains("overlapping"),
            _ => false,
        };
        assert!(repairs.iter().all(|repair| is_expected(&repair.kind)), "{name}: {repairs:?}");
    }
}

fn line(kind: &str, uuid: &str, parent: &str, content: &str) -> String {
    let parent = if parent.is_empty() { "null".to_owned() } else { format!("\"{parent}\"") };
    format!(
        "{{\"type\":\"{kind}\",\"uuid\":\"{uuid}\",\"parentUuid\":{parent},\"message\":{{\"id\":\"m-{uuid}\",\"role\":\"{kind}\",\"content\":{content}}}}}\n"
    )
}

/// The messages, and the number and the name of each repair.
fn view(lines: &[String]) -> (String, Vec<(u64, &'static str)>) {
    let text = lines.concat();
    let history = foreign_messages(&scan(text.as_bytes()).records);
    accepted(&history.messages).unwrap();
    let repairs = history.repairs.iter().map(|repair| (repair.n, repair.kind.name())).collect();
    (history.messages.join("\n"), repairs)
}

#[test]
fn h5_every_repair_is_listed_with_its_record() {
    let call = |id: &str| format!("[{{\"type\":\"tool_use\",\"id\":\"{id}\",\"name\":\"Bash\",\"input\":{{}}}}]");
    let result = |id: &str| format!("[{{\"type\":\"tool_result\",\"tool_use_id\":\"{id}\",\"content\":\"done\"}}]");
    let (shown, repairs) = view(&[
        line("user", "a", "", "\"hi \\ud83d\""),
        line("assistant", "b", "a", &call("toolu.1")),
        line("user", "c", "b", &result("toolu.1")),
        line("user", "d", "c", &result("gone")),
        line("assistant", "e", "d", &call("open")),
        line("user", "f", "e", "[{\"type\":\"text\",\"text\":\"\"}]"),
    ]);
    assert_eq!(
        repairs,
        [(0, "characters_replaced"), (5, "empty"), (4, "call_left_out"), (3, "orphan_result"), (1, "call_renamed"),]
    );
    assert!(shown.contains("hi \u{fffd}") && !shown.contains("toolu.1") && !shown.contains("gone"), "{shown}");
}

#[test]
fn h5_what_the_program_says_by_itself_stands_behind_words_or_becomes_some() {
    let attachment = |uuid: &str, parent: &str, role: &str| {
        format!(
            "{{\"type\":\"attachment\",\"uuid\":\"{uuid}\",\"parentUuid\":\"{parent}\",\"rendered\":[{{\"content\":\"<system-reminder>\\nthe date\\n</system-reminder>\"}}],\"renderedRole\":\"{role}\"}}\n"
        )
    };
    let words = |text: &str| format!("[{{\"type\":\"text\",\"text\":\"{text}\"}}]");
    let between = [
        line("user", "a", "", "\"hi\""),
        line("assistant", "b", "a", &words("one")),
        attachment("x", "b", "system"),
        line("assistant", "c", "x", &words("two")),
    ];
    let (shown, repairs) = view(&between);
    assert_eq!(repairs, [(2, "system_as_user")]);
    assert!(
        shown.contains("{\"role\":\"user\",\"content\":\"<system-reminder>\\nthe date\\n</system-reminder>\"}"),
        "{shown}"
    );
    let behind =
        [line("user", "a", "", "\"hi\""), attachment("x", "a", "system"), line("assistant", "b", "x", &words("one"))];
    let (shown, repairs) = view(&behind);
    assert_eq!(repairs, []);
    assert!(shown.contains("{\"role\":\"system\",\"content\":\"the date\"}"), "{shown}");
}

#[test]
fn h5_of_two_lines_with_one_name_the_later_counts_in_the_place_of_the_first() {
    let (shown, repairs) = view(&[
        line("user", "a", "", "\"first form\""),
        line("assistant", "b", "a", "[{\"type\":\"text\",\"text\":\"yes\"}]"),
        line("user", "a", "", "\"second form\""),
    ]);
    assert_eq!(repairs, []);
    let expected = "{\"role\":\"user\",\"content\":\"second form\"}\n{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"yes\"}]}";
    assert_eq!(shown, expected);
}
