"""Entries without a uuid, each appended once, also where nobody knows whether an append arrived.

The store leaves out an entry whose `uuid` it has, so those can simply be sent again. One without is appended each time it is sent. So it is remembered
how many of them a key has, which for a key that is new here is counted first. If it is not known whether an append arrived, what is stored is read, and what
is there beyond that number tells how far it came. A call that failed is remembered, too: if its caller repeats it, the store is read before anything is sent.

One case needs no look. A process of the store that says "try again" knows what it has kept of that, and takes the same once more as the same. It even counts on
it: what it kept for a remote that did not answer, it expects again, and only the same process does. So to that one the same is sent, and to another one what is missing.

How something is asked is not known here. An append is a generator of questions, which a pipe and a server put to the store in their ways.

What this cannot tell apart is an equal entry without a uuid that another process appends to the same key at that very moment.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple, TypeVar

from ._json import encode
from ._transport import PAGES, Entry, Key, Line, name_of, uuid_of
from .errors import TryAgain, UnforgetError

# How many keys are remembered.
REMEMBERED_KEYS = 4096
# Refused before anything was changed. After any other failure some entries may be there: one that waits for a remote keeps them here and says no.
_UNCHANGED = frozenset({"invalid", "too_large"})
# Refused by somebody who takes the same again as the same.
_EXPECTED = frozenset({"busy", "unavailable", "timeout", "too_many"})

T = TypeVar("T")


class Ask(NamedTuple):
    """A question to the store."""

    op: str
    members: dict[str, Any]
    # The entries of an append, which must not be sent a second time by whoever asks.
    lines: list[Line] | None = None
    # Whether it is asked again if the store itself says that it cannot answer now.
    is_insistent: bool = True
    # The process of the store that it is for; if that is gone, nobody answers.
    process: int | None = None


Asking = Generator[Ask, Any, T]


class Unanswered(Exception):
    """The store said nothing: it is not known whether what was asked was done."""

    def __init__(self, error: BaseException, is_final: bool) -> None:
        super().__init__(str(error))
        # What the caller is told, if it is not asked again.
        self.error = error
        # Whether it was tried often enough already.
        self.is_final = is_final


@dataclass
class Standing:
    """How far a batch has come; it outlives a failure."""

    # How many entries without a uuid there were before it, and when it was looked last.
    before: int
    there: int
    # How many of its own were there then.
    arrived: int = 0
    # Whether more of it may be there. That ends when it is appended, and not before.
    is_doubtful: bool = False
    # The process of the store that refused the rest of it and expects it again.
    refused_by: int | None = None


@dataclass(frozen=True)
class Unfinished:
    """An append that failed and may be repeated by whoever asked for it."""

    # What tells it from others.
    digest: bytes
    # How many of its batches are kept for certain.
    done: int
    # How far the next one has come.
    standing: Standing


class Unmarked:
    """What is known of keys that entries without a uuid are appended to. One append of a key is under way at a time."""

    def __init__(self, attempts: int, process: Callable[[], int | None]) -> None:
        self._attempts = attempts
        # Tells which process of the store answers, if that is known.
        self._process = process
        self._lock = threading.Lock()
        # How many entries without a uuid a key has, or what failed there last.
        self._keys: OrderedDict[str, int | Unfinished] = OrderedDict()

    def append(self, key: Key, batches: Sequence[list[Line]]) -> Asking[None]:
        """Appends batches, some of whose entries have no uuid."""
        try:
            yield from self._append(key, batches)
        except Unanswered as unanswered:
            raise unanswered.error from unanswered.error.__cause__

    def forget(self, session: str) -> None:
        """Forgets a session that was deleted, with everything beneath it."""
        with self._lock:
            for name in [name for name in self._keys if name == session or name.startswith(session + "\n")]:
                del self._keys[name]

    def _append(self, key: Key, batches: Sequence[list[Line]]) -> Asking[None]:
        name, digest = name_of(key), _digest_of_all(batches)
        known = self._keys.get(name)
        done, is_counted = 0, True
        if isinstance(known, Unfinished) and known.digest == digest:
            done, standing = known.done, known.standing
        else:
            count = known if isinstance(known, int) else (yield from self._count(key))
            is_counted = count is not None
            standing = Standing(count or 0, count or 0)
        for batch in batches[done:]:
            try:
                count = yield from self._append_batch(key, batch, standing)
            except Exception:
                self._remember(name, Unfinished(digest, done, standing))
                raise
            standing = Standing(count, count)
            done += 1
        self._remember(name, standing.before if is_counted else None)

    def _append_batch(self, key: Key, batch: list[Line], standing: Standing) -> Asking[int]:
        """Appends a batch; tells how many entries without a uuid there are then."""
        for attempt in range(1, self._attempts + 1):
            process = standing.refused_by
            if standing.is_doubtful and process is None:
                since = yield from self._since(key, standing.before)
                standing.there = standing.before + len(since)
                standing.arrived = arrived([line.text for line in batch if line.uuid is None], since)
            rest = without(batch, standing.arrived)
            try:
                # Also without entries: a store that waits for its remote tells whether it has everything.
                yield Ask("append", {"key": key}, rest, process=process)
            except Unanswered as unanswered:
                standing.is_doubtful, standing.refused_by = True, None
                if unanswered.is_final or attempt == self._attempts:
                    raise
            except Exception as error:
                code = error.code if isinstance(error, UnforgetError) else None
                standing.is_doubtful |= code not in _UNCHANGED
                standing.refused_by = self._process() if code in _EXPECTED else None
                raise
            else:
                return standing.there + sum(line.uuid is None for line in rest)
        raise AssertionError("the last attempt returns or raises")

    def _count(self, key: Key) -> Asking[int | None]:
        """How many entries without a uuid there are.

        Not known if the session is not here and the remote does not answer: that must not keep anything from being saved. As the session is then
        new here, what is here after a failure is what arrived.
        """
        try:
            return len((yield from self._since(key, 0, is_insistent=False)))
        except UnforgetError as error:
            if error.code != "unavailable":
                raise
            return None

    def _since(self, key: Key, count: int, is_insistent: bool = True) -> Asking[list[Entry]]:
        """The entries without a uuid, but for so many first ones."""
        since: list[Entry] = []
        seen, cursor = 0, None
        for _ in range(PAGES):
            page = yield from self._answer(Ask("read", {"key": key, "cursor": cursor}, None, is_insistent))
            if page is None:
                return []
            if page["again"]:
                since, seen = [], 0
            for entry in page["entries"]:
                if uuid_of(entry) is None:
                    seen += 1
                    if seen > count:
                        since.append(entry)
            cursor = page["cursor"]
            if not page["more"]:
                return since
        raise TryAgain("the session has no end", "timeout")

    def _answer(self, ask: Ask) -> Asking[Any]:
        for attempt in range(1, self._attempts + 1):
            try:
                return (yield ask)
            except Unanswered as unanswered:
                if unanswered.is_final or attempt == self._attempts:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def _remember(self, name: str, known: int | Unfinished | None) -> None:
        with self._lock:
            self._keys.pop(name, None)
            if known is not None:
                self._keys[name] = known
            if len(self._keys) > REMEMBERED_KEYS:
                self._keys.popitem(last=False)


def arrived(texts: list[bytes], since: Sequence[Entry]) -> int:
    """How many of the first of these arrived, if this is what came to be there since.

    What arrived is at the end. If somebody else wrote at the same time and it cannot be told, the answer is the smaller number: twice is better than never.

    >>> arrived([b'{"n":1}', b'{"n":2}'], [{"n": 0}, {"n": 1}])
    1
    """
    for count in range(min(len(texts), len(since)), 0, -1):
        if all(_is_text_of(text, entry) for text, entry in zip(texts, since[len(since) - count :])):
            return count
    return 0


def without(batch: list[Line], count: int) -> list[Line]:
    """The batch without so many first ones of the entries that have no uuid."""
    rest: list[Line] = []
    for line in batch:
        if line.uuid is None and count > 0:
            count -= 1
        else:
            rest.append(line)
    return rest


def _is_text_of(text: bytes, entry: Entry) -> bool:
    try:
        return encode(entry) == text
    except ValueError:
        # Another program's entry, with a number that Python reads and does not write.
        return False


def _digest_of_all(batches: Sequence[list[Line]]) -> bytes:
    digest = blake2b(digest_size=16)
    for batch in batches:
        for line in batch:
            digest.update(line.text)
            digest.update(b"\n")
    return digest.digest()
