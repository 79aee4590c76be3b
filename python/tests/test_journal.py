"""Each entry is taken once, whoever reads it when."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from unforget._journal import Journal
from unforget._transport import Entry, Transport
from unforget.claude import UnforgetSessionStore

# How many seconds a machine may stand still.
PATIENCE = 300


class Pages(Transport):
    """A store of pages; a test answers when it wants."""

    def __init__(self) -> None:
        self.asked: list[tuple[str | None, Future[Any]]] = []

    def submit(self, op: str, members: Mapping[str, Any]) -> Future[Any]:
        assert op == "read"
        future: Future[Any] = Future()
        self.asked.append((members["cursor"], future))
        return future

    def hello(self) -> Future[Any]:
        raise AssertionError("a journal only reads")

    def close(self) -> None:
        pass


class Taken:
    """Entries in the order in which they were taken."""

    def __init__(self) -> None:
        self.numbers: list[int] = []

    def clear(self) -> None:
        self.numbers.clear()

    def apply(self, entry: Entry) -> None:
        self.numbers.append(entry["n"])


def page(numbers: list[int], cursor: str, more: bool = False, again: bool = False) -> Any:
    return {"entries": [{"n": n} for n in numbers], "cursor": cursor, "more": more, "again": again}


async def answered(pages: Pages, *answers: tuple[str | None, Any]) -> None:
    """Answers the next questions, which have to be these."""
    for cursor, answer in answers:
        while not pages.asked:
            await asyncio.sleep(0)
        asked, future = pages.asked.pop(0)
        assert asked == cursor
        future.set_result(answer)


def test_two_who_read_at_once_take_each_entry_once() -> None:
    async def main() -> None:
        pages, taken = Pages(), Taken()
        journal = Journal(pages, {}, taken)
        first, second = asyncio.ensure_future(journal.acatch_up()), asyncio.ensure_future(journal.acatch_up())
        await answered(pages, (None, page([1, 2], "a")), (None, page([1, 2], "a")))
        # One of them came second, and looks whether there is more.
        await answered(pages, ("a", page([3], "b")))
        await asyncio.gather(first, second)
        assert taken.numbers == [1, 2, 3]

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


def test_what_begins_anew_is_taken_anew() -> None:
    async def main() -> None:
        pages, taken = Pages(), Taken()
        journal = Journal(pages, {}, taken)
        for answers in [
            [(None, page([1, 2], "a", more=True)), ("a", page([3], "b"))],
            [("b", page([7, 8], "c", more=True, again=True)), ("c", page([9], "d"))],
            [("d", None)],
            [(None, page([1], "e"))],
        ]:
            reading = asyncio.ensure_future(journal.acatch_up())
            await answered(pages, *answers)
            await reading
            last = answers[-1][1]
            wanted = {"b": [1, 2, 3], "d": [7, 8, 9], None: [], "e": [1]}[last and last["cursor"]]
            assert taken.numbers == wanted

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


def test_a_process_that_is_forked_while_somebody_reads_begins_anew() -> None:
    """Another thread holds the lock for ever, in the middle of taking a page."""
    pages, taken = Pages(), Taken()
    journal = Journal(pages, {}, taken)
    taken.numbers = [1]
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with journal.lock:
            held.set()
            release.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    forked = os.fork()
    if forked == 0:
        status = 1
        try:
            if journal.lock.acquire(timeout=PATIENCE) and taken.numbers == [] and journal._take(None, page([2], "a")):
                status = 0
        finally:
            os._exit(status)
    release.set()
    thread.join()
    assert os.waitpid(forked, 0)[1] == 0
    assert taken.numbers == [1]


def test_a_load_that_begins_anew_forgets_what_it_had() -> None:
    async def main() -> None:
        pages = Pages()
        store = UnforgetSessionStore.__new__(UnforgetSessionStore)
        store._way, store._is_closed, store._project = pages, False, None
        loading = asyncio.ensure_future(store.load({"project_key": "p", "session_id": "s"}))
        await answered(
            pages,
            (None, page([1, 2], "a", more=True)),
            ("a", page([1], "b", more=True, again=True)),
            ("b", page([2, 3], "c")),
        )
        assert await loading == [{"n": 1}, {"n": 2}, {"n": 3}]

    asyncio.run(asyncio.wait_for(main(), PATIENCE))
