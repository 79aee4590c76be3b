"""What has to be sent again after a crash, whatever had arrived."""

from __future__ import annotations

import random
from typing import Any

from unforget._repeat import Acknowledged, remaining
from unforget._transport import lines_of


def store(stored: list[dict[str, Any]], entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the store does with a batch."""
    fresh = list(stored)
    for entry in entries:
        if "uuid" not in entry or entry["uuid"] not in {other.get("uuid") for other in fresh}:
            fresh.append(entry)
    return fresh


def test_nothing_is_lost_or_doubled_wherever_the_process_died() -> None:
    dice = random.Random(7)

    def new() -> dict[str, Any]:
        # Few words, so that the same entry without a uuid comes again and again.
        return {"type": dice.choice("ab"), **({"uuid": str(dice.random())} if dice.random() < 0.5 else {})}

    for _ in range(400):
        acknowledged, stored = Acknowledged(), []
        for _ in range(dice.randrange(3)):
            batch = [new() for _ in range(dice.randrange(1, 4))]
            stored = store(stored, batch)
            acknowledged.add("key", lines_of(batch))
        batches = [[new() for _ in range(dice.randrange(1, 4))] for _ in range(dice.randrange(1, 4))]
        everything = [entry for batch in batches for entry in batch]
        wanted = store(stored, everything)
        arrived = store(stored, everything[: dice.randrange(len(everything) + 1)])
        by_text = {line.text: entry for line, entry in zip(lines_of(everything), everything)}
        rest = remaining(arrived, [lines_of(batch) for batch in batches], acknowledged.of("key"))
        assert len(rest) == len(batches)
        again = store(arrived, [by_text[line.text] for batch in rest for line in batch])
        assert again == wanted


def test_what_somebody_else_wrote_in_between_does_not_lose_anything() -> None:
    ours, theirs = {"type": "ours"}, {"type": "theirs"}
    acknowledged = Acknowledged()
    acknowledged.add("key", lines_of([{"type": "before"}]))
    rest = remaining([{"type": "before"}, theirs], [lines_of([ours])], acknowledged.of("key"))
    assert rest == [lines_of([ours])]


def test_what_was_deleted_is_not_expected() -> None:
    acknowledged = Acknowledged()
    for key in ["p\ns", "p\ns\nsub", "p\nsession"]:
        acknowledged.add(key, lines_of([{"type": "a"}]))
    acknowledged.forget("p\ns")
    assert [bool(acknowledged.of(key)) for key in ["p\ns", "p\ns\nsub", "p\nsession"]] == [False, False, True]


def test_nothing_behind_an_entry_that_is_missing_has_arrived() -> None:
    """The end of what is there looks like the batch, but was there before: the entry with a uuid in between says so."""
    tag = {"type": "tag"}
    batch = lines_of([{"type": "user", "uuid": "1"}, tag])
    assert remaining([tag], [batch]) == [batch]
    assert remaining([{"type": "user", "uuid": "1"}, tag], [batch]) == [batch[:1]]
