"""Entries without a uuid are there once, wherever an append was lost and whoever repeats it."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from unforget._transport import lines_of
from unforget._unmarked import Ask, Unanswered, Unmarked, arrived
from unforget.errors import InvalidRequest, StorageFailed, TryAgain, error_of

KEY = {"project_key": "p", "session_id": "s"}
LOST = Unanswered(error_of("unavailable", "lost"), is_final=False)
GIVEN_UP = Unanswered(error_of("unavailable", "given up"), is_final=True)


class Store:
    """A store that fails as a test plans: for each append how many entries are kept first, and with which error."""

    def __init__(self, stored: list[dict[str, Any]] | None = None) -> None:
        self.stored = list(stored or [])
        self.appends: list[tuple[int | None, Exception] | None] = []
        self.reads: list[Exception | None] = []
        self.asked: list[str] = []
        self.process: int | None = None
        # What this process kept, refused and expects again.
        self.expected: list[Any] = []

    def die(self) -> None:
        """Another process begins."""
        assert self.process is not None
        self.process += 1
        self.expected.clear()

    def keep(self, entries: list[dict[str, Any]]) -> None:
        for entry in entries:
            if not entry.get("uuid") or entry["uuid"] not in {other.get("uuid") for other in self.stored}:
                self.stored.append(entry)

    def answer(self, ask: Ask) -> Any:
        self.asked.append(ask.op)
        if ask.op == "read":
            error = self.reads.pop(0) if self.reads else None
            if error is not None:
                raise error
            return {"entries": self.stored, "cursor": "c", "more": False, "again": False} if self.stored else None
        if ask.process not in (None, self.process):
            raise LOST
        entries = [json.loads(line.text) for line in ask.lines or []]
        plan = self.appends.pop(0) if self.appends else None
        if entries in self.expected:
            self.expected.remove(entries)
            again, entries = entries, []
            if plan is not None and not isinstance(plan[1], Unanswered):
                self.expected.append(again)
        elif plan is not None and plan[0] is None and self.process is not None:
            self.expected.append(entries)
        self.keep(entries if plan is None else entries[: plan[0]])
        if plan is not None:
            if isinstance(plan[1], Unanswered) and self.process is not None:
                self.die()
            raise plan[1]
        return None

    def unmarked(self) -> Unmarked:
        return Unmarked(3, lambda: self.process)

    def append(self, unmarked: Unmarked, *batches: list[dict[str, Any]]) -> None:
        steps = unmarked.append(KEY, [lines_of(batch) for batch in batches])
        try:
            ask = next(steps)
            while True:
                try:
                    answer = self.answer(ask)
                except Exception as error:  # noqa: BLE001 - it is what the test planned
                    ask = steps.throw(error)
                else:
                    ask = steps.send(answer)
        except StopIteration:
            return


U, M = {"type": "mode"}, {"type": "user", "uuid": "1"}


def _kept(dice: random.Random, error: Exception, process: int | None) -> int | None:
    """How much is kept: a known process that refuses has kept nothing, or all of it and expects it again."""
    if process is None or isinstance(error, Unanswered):
        return dice.choice([0, 1, 2, None])
    return 0 if getattr(error, "code", None) == "busy" else None


@pytest.mark.parametrize("process", [None, 1])
def test_nothing_is_lost_or_doubled_wherever_it_fails_and_however_often_it_is_repeated(process: int | None) -> None:
    dice = random.Random(7)

    def new() -> dict[str, Any]:
        # Few words, so that the same entry without a uuid comes again and again.
        return {"type": dice.choice("ab"), **({"uuid": str(dice.random())} if dice.random() < 0.5 else {})}

    for _ in range(500):
        earlier = [new() for _ in range(dice.randrange(4))]
        store, wanted = Store(earlier), Store(earlier)
        store.process = process
        unmarked = store.unmarked()
        for _ in range(3):
            batches = [[U, *(new() for _ in range(dice.randrange(4)))] for _ in range(dice.randrange(1, 3))]
            for batch in batches:
                wanted.keep(batch)
            for _ in range(20):
                failures = [LOST, GIVEN_UP, error_of("busy", "words"), error_of("unavailable", "words"), None]
                store.appends = [
                    None if error is None else (_kept(dice, error, process), error)
                    for error in dice.choices(failures, k=3)
                ]
                # Only in the middle of an append: what is counted before the first one of a key is another test's.
                store.reads = [None, *dice.choices([LOST, GIVEN_UP, error_of("busy", "words"), None, None], k=2)]
                try:
                    store.append(unmarked, *batches)
                except TryAgain:
                    continue
                break
            else:
                store.appends, store.reads = [], []
                store.append(unmarked, *batches)
        assert store.stored == wanted.stored


def test_a_doubt_outlives_a_look_and_a_refusal() -> None:
    """It arrived and was lost; it was looked for and found; what was left was refused: the caller's repetition must look again."""
    store = Store()
    unmarked = store.unmarked()
    store.appends = [(None, LOST), (0, error_of("busy", "words"))]
    with pytest.raises(TryAgain):
        store.append(unmarked, [U, M])
    store.append(unmarked, [U, M])
    assert store.stored == [U, M]


def test_what_was_refused_for_lack_of_a_remote_is_not_appended_again() -> None:
    """The store kept it and said `unavailable`; another process of it would not know."""
    store = Store()
    unmarked = store.unmarked()
    store.appends = [(None, error_of("unavailable", "the remote does not answer"))]
    with pytest.raises(TryAgain):
        store.append(unmarked, [U])
    store.append(unmarked, [U])
    assert store.stored == [U]
    assert store.asked == ["read", "append", "read", "append"], "the empty append asks whether the remote has it"


@pytest.mark.parametrize("dies", [True, False])
def test_a_process_that_expects_the_same_again_gets_it(dies: bool) -> None:
    """If it got something else, it would take the next equal batch for what it expects, and keep nothing of it."""
    store = Store()
    store.process = 1
    unmarked = store.unmarked()
    store.appends = [(None, error_of("unavailable", "the remote does not answer"))]
    with pytest.raises(TryAgain):
        store.append(unmarked, [U, M])
    if dies:
        store.die()
    store.append(unmarked, [U, M])
    assert store.stored == [U, M]
    store.append(unmarked, [U, M])
    assert store.stored == [U, M, U]


def test_an_equal_entry_of_an_earlier_process_is_not_taken_for_what_was_lost() -> None:
    store = Store([U])
    unmarked = store.unmarked()
    store.appends = [(0, LOST)]
    store.append(unmarked, [U])
    assert store.stored == [U, U]


def test_another_append_after_one_that_failed_is_appended() -> None:
    store = Store()
    unmarked = store.unmarked()
    store.appends = [(None, StorageFailed("words", "storage"))]
    with pytest.raises(StorageFailed):
        store.append(unmarked, [U])
    store.append(unmarked, [U, U])
    store.append(unmarked, [U, U])
    assert store.stored == [U] * 5


def test_what_was_refused_before_anything_changed_is_in_no_doubt() -> None:
    store = Store()
    unmarked = store.unmarked()
    store.appends = [(0, InvalidRequest("words", "invalid"))]
    with pytest.raises(InvalidRequest):
        store.append(unmarked, [U])
    store.append(unmarked, [U])
    assert store.asked == ["read", "append", "append"]


def test_a_session_that_is_elsewhere_can_begin_here_while_nobody_answers() -> None:
    store = Store()
    unmarked = store.unmarked()
    store.reads = [error_of("unavailable", "the remote does not answer")]
    store.append(unmarked, [U])
    assert store.stored == [U]
    # That nobody at all answered says nothing about the session.
    store = Store([U])
    unmarked = store.unmarked()
    store.reads = [LOST, LOST, LOST]
    with pytest.raises(TryAgain):
        store.append(unmarked, [U])
    assert store.asked == ["read"] * 3


def test_a_count_is_not_asked_for_twice() -> None:
    store = Store()
    unmarked = store.unmarked()
    for _ in range(3):
        store.append(unmarked, [U])
    assert store.asked == ["read", "append", "append", "append"]
    unmarked.forget("p\ns")
    store.append(unmarked, [U])
    assert store.asked[-2:] == ["read", "append"]


def test_what_was_deleted_is_forgotten_with_everything_beneath() -> None:
    unmarked = Store().unmarked()
    for names in [{}, {"subpath": "sub"}, {"session_id": "session"}]:
        steps = unmarked.append({**KEY, **names}, [lines_of([U])])
        assert [next(steps).op, steps.send(None).op] == ["read", "append"]
        with pytest.raises(StopIteration):
            steps.send(None)
    unmarked.forget("p\ns")
    assert list(unmarked._keys) == ["p\nsession"]


def test_what_somebody_else_wrote_in_between_does_not_lose_anything() -> None:
    assert arrived([b'{"type":"ours"}'], [{"type": "ours"}, {"type": "theirs"}]) == 0
    # A number that another program may write and Python cannot.
    assert arrived([b'{"type":"ours"}'], [{"type": float("inf")}]) == 0


def test_an_empty_uuid_is_none() -> None:
    """The store appends such an entry each time it is sent."""
    empty = {"type": "user", "uuid": ""}
    store = Store()
    unmarked = store.unmarked()
    assert lines_of([empty])[0].uuid is None
    store.appends = [(None, LOST)]
    store.append(unmarked, [empty])
    assert store.stored == [empty]
