"""What a way to the store can do: take a request, and answer it later.

A request is an operation with its members, as the store's protocol has them. Requests about one key are carried out in the order in which they are
submitted. Answers come by a future of `concurrent.futures`, which threads wait for and every event loop can await; nothing here blocks a loop.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, NamedTuple

from ._json import encode

# More pages than any session has; a bound against a store that never comes to an end.
PAGES = 1_000_000

Key = Mapping[str, Any]
Entry = Mapping[str, Any]


class Line(NamedTuple):
    """An entry as it is sent."""

    text: bytes
    uuid: str | None


def lines_of(entries: list[Entry]) -> list[Line]:
    """Writes entries, each by itself, as they are at this moment."""
    for entry in entries:
        if not isinstance(entry, Mapping):
            raise TypeError(f"an entry is an object with members, not a {type(entry).__name__}")
    return [Line(encode(entry), uuid_of(entry)) for entry in entries]


def uuid_of(entry: Entry) -> str | None:
    """What makes an entry the same when it comes a second time; some have nothing of the kind."""
    uuid = entry.get("uuid")
    # The store does not tell entries apart by an empty one.
    return uuid if isinstance(uuid, str) and uuid else None


def name_of(key: object) -> str:
    """A key as one text, which everything beneath it begins with."""
    if not isinstance(key, Mapping):
        return encode(key).decode()
    parts = [key.get("project_key"), key.get("session_id"), key.get("subpath")]
    return "\n".join(part for part in parts if isinstance(part, str))


def request_body(members: Mapping[str, Any], lines: list[Line] | None = None) -> bytes:
    """Writes the members of a request, with entries that are written already."""
    body = encode(members)
    if lines is None:
        return body
    separator = b"," if len(body) > 2 else b""
    return body[:-1] + separator + b'"entries":[' + b",".join(line.text for line in lines) + b"]}"


class Transport(ABC):
    """A way to the store."""

    @abstractmethod
    def submit(self, op: str, members: Mapping[str, Any]) -> Future[Any]:
        """Asks for something; the future has what the answer has as `ok`, or the error."""

    @abstractmethod
    def hello(self) -> Future[Any]:
        """Asks whether the store can be reached and lets this caller in; changes nothing."""

    @abstractmethod
    def close(self) -> None:
        """Waits for what was asked, and lets go."""

    def call(self, op: str, /, **members: Any) -> Any:
        """Asks, and waits for the answer in this thread."""
        return self.submit(op, members).result()

    async def acall(self, op: str, /, **members: Any) -> Any:
        """Asks, and lets the loop go on until the answer is there."""
        return await asyncio.wrap_future(self.submit(op, members))
