"""Something that was asked for and is not answered: what it takes to ask it again, with the same bytes."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, InvalidStateError
from typing import Any

from ._transport import Line, lines_of, request_body


class Request:
    """Something that was asked for and is not answered."""

    __slots__ = ("future", "lines", "members", "op", "rest", "sends")

    def __init__(self, op: str, members: Mapping[str, Any]) -> None:
        self.op, self.members = op, dict(members)
        self.future: Future[Any] = Future()
        self.sends = 0
        # The entries of an append, and those that are not known to have arrived.
        self.lines: list[Line] | None = None
        self.rest: list[Line] | None = None

    def prepare(self) -> None:
        """Writes the entries, once."""
        if self.op == "append" and self.lines is None:
            self.lines = self.rest = lines_of(self.members.pop("entries"))

    def line(self, number: int) -> bytes:
        """The line that is sent."""
        return request_body({"id": number, "op": self.op, **self.members}, self.rest) + b"\n"

    def is_uncertain(self) -> bool:
        """Whether sending it again might append something twice."""
        return self.lines is not None and any(line.uuid is None for line in self.lines)

    def fail(self, error: BaseException) -> None:
        """Tells whoever waits, if somebody does."""
        try:
            self.future.set_exception(error)
        except InvalidStateError:
            pass
