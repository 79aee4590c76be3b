"""What waits in a pipe: requests, as the bytes that are sent, and errands that take several of them.

Everything is written when it is asked for, so that whoever asked may change what they handed over right after.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, InvalidStateError
from typing import Any

from ._transport import Line, name_of, request_body
from ._unmarked import Ask, Asking, Unanswered
from .errors import InvalidRequest, UnforgetError


class Waiting:
    """Something that was asked for, and whoever waits for it."""

    def __init__(self, name: str | None) -> None:
        # The key that it is about.
        self.name = name
        self.future: Future[Any] = Future()

    def succeed(self, result: Any) -> None:
        """Tells whoever waits, if somebody does."""
        try:
            self.future.set_result(result)
        except InvalidStateError:
            pass

    def fail(self, error: BaseException) -> None:
        """Tells whoever waits, if somebody does."""
        try:
            self.future.set_exception(error)
        except InvalidStateError:
            pass


class Request(Waiting):
    """A line to be sent, again and again until it is answered."""

    # Whether it may be sent again if it is not known whether it was carried out.
    is_repeatable = True

    def __init__(self, op: str, members: Mapping[str, Any], lines: list[Line] | None = None) -> None:
        if not members.keys().isdisjoint({"id", "op"}):
            raise InvalidRequest("a request has its own id and op; they are no members", "invalid")
        super().__init__(name_of(members["key"]) if "key" in members else None)
        self.op = op
        self.sends = 0
        self._body = request_body(members, lines)

    def line(self, number: int) -> bytes:
        """The line that is sent."""
        separator = b"," if len(self._body) > 2 else b""
        return self._body[:-1] + separator + request_body({"id": number, "op": self.op})[1:] + b"\n"

    def give_up(self, error: BaseException) -> None:
        """Tells that there will be no answer."""
        self.fail(error)


class Part(Request):
    """A question of an errand."""

    def __init__(self, ask: Ask) -> None:
        super().__init__(ask.op, ask.members, ask.lines)
        self.is_repeatable = ask.lines is None
        self.process = ask.process

    def give_up(self, error: BaseException) -> None:
        self.fail(Unanswered(error, is_final=True))

    def lose(self, error: UnforgetError) -> None:
        """Tells that it is not known whether it was carried out."""
        self.fail(Unanswered(error, is_final=False))


class Errand(Waiting):
    """An append that takes several questions; what else is asked about its key waits until it is over."""

    def __init__(self, name: str, steps: Asking[None]) -> None:
        super().__init__(name)
        self.steps = steps
