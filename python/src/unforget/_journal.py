"""Reads the entries of a key and goes on reading, so that each is taken once however often one looks.

What entries mean is for a fold to know. The same journal may be read by several threads and event loops: whoever comes back with a page that another
one has taken meanwhile throws it away and reads on from there.

A process that is forked from this one may have been forked while another thread held a lock, or was in the middle of taking a page: it begins anew.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Mapping
from typing import Any, Protocol

from ._transport import PAGES, Entry, Key, Transport
from .errors import TryAgain


class Fold(Protocol):
    """What becomes of entries."""

    def clear(self) -> None:
        """Forgets everything: it begins anew."""

    def apply(self, entry: Entry) -> None:
        """Takes the next entry."""


class Journal:
    """The entries of one key, as far as they were read."""

    def __init__(self, transport: Transport, key: Key, fold: Fold) -> None:
        self.key = key
        # Held while the fold is changed or looked at, never while something is waited for.
        self.lock = threading.RLock()
        self._transport = transport
        self._fold = fold
        self._cursor: str | None = None
        _all.add(self)

    def catch_up(self) -> None:
        """Takes everything that was appended up to now."""
        for _ in range(PAGES):
            cursor = self._cursor
            if self._take(cursor, self._transport.call("read", key=self.key, cursor=cursor)):
                return
        raise TryAgain("the store has no end", "timeout")

    async def acatch_up(self) -> None:
        """Takes everything that was appended up to now."""
        for _ in range(PAGES):
            cursor = self._cursor
            if self._take(cursor, await self._transport.acall("read", key=self.key, cursor=cursor)):
                return
        raise TryAgain("the store has no end", "timeout")

    def _take(self, cursor: str | None, page: Mapping[str, Any] | None) -> bool:
        """Takes a page that was read with this cursor; tells whether it was the last one."""
        with self.lock:
            if cursor != self._cursor:
                return False
            if page is None or page["again"] or cursor is None:
                self._fold.clear()
            if page is None:
                self._cursor = None
                return True
            for entry in page["entries"]:
                self._fold.apply(entry)
            self._cursor = page["cursor"]
            return not page["more"]

    def _after_fork(self) -> None:
        self.lock = threading.RLock()
        self._cursor = None
        self._fold.clear()


_all: weakref.WeakSet[Journal] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for journal in list(_all):
        journal._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
