"""The store as a child process, shared by everything in this process that asks for the same one.

One thread writes, one reads, so that any number of threads and event loops can ask at once and be answered in any order. If the child dies, it is started
again by the next request or by those that were not answered; these are sent again, in their order. That is safe for all operations but the appending
of entries without a uuid. Such an append is an errand, which `_unmarked` leads: while it is under way, other requests about its key are held back.

A process that is forked from this one starts a child of its own; what was asked before belongs to the parent.
"""

from __future__ import annotations

import atexit
import itertools
import os
import re
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, InvalidStateError
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any

from ._child import CannotStart, Child, logger
from ._json import decode
from ._program import VARIABLE, Program
from ._request import Errand, Part, Request
from ._transport import Transport, lines_of, name_of, request_body
from ._unmarked import Ask, Unmarked
from .errors import Closed, InvalidRequest, ProgramMissing, StorageFailed, TryAgain, UnforgetError, error_of

PROTOCOL = 1
# How often a request is sent at the most, and how often a process may be started in vain.
_SENDS = 8
_STARTS = 4
# What the program ends with if it does not like its arguments or settings; it would not like them the next time either.
_USAGE = 2
_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 0.5
_HELLO_SECONDS = 30.0
_NUMBER = re.compile(rb'\{"id":(\d{1,18})[,}]')
# Longer than the store tries to reach a remote at its end.
_CLOSE_SECONDS = 20.0


class _Ended(Exception):
    """The child died."""


class Pipe(Transport):
    """A store behind a child process. Use `Pipe.shared`, which knows what there is already."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._users = 0
        self._begin()
        _all.add(self)

    @classmethod
    def shared(cls, program: Program) -> Pipe:
        """The one pipe to this store; each caller has to close it once."""
        with _registry_lock:
            pipe = _registry.get(program)
            if pipe is None:
                pipe = _registry[program] = cls(program)
            pipe._users += 1
            return pipe

    def _begin(self) -> None:
        self._changed = threading.Condition()
        self._numbers = itertools.count(1)
        self._queue: deque[Request | Errand] = deque()
        self._sent: dict[int, Request] = {}
        # What waits for an errand, by the name of its key; it is there as long as the errand is under way.
        self._held: dict[str | None, deque[Request | Errand]] = {}
        # Questions of this class's own, which are not repeated if the child dies.
        self._asides: dict[int, Future[Any]] = {}
        self._unmarked = Unmarked(_SENDS, lambda: self._process)
        self._child: Child | None = None
        # How many children there were; the number of the one that there is.
        self._process = 0
        self._writer: threading.Thread | None = None
        self._is_closing = False
        self._failures = 0

    @property
    def pid(self) -> int | None:
        """The number of the child process, if one runs."""
        child = self._child
        return None if child is None or child.ended.is_set() else child.pid

    def submit(self, op: str, members: Mapping[str, Any]) -> Future[Any]:
        request = self._written(op, members)
        with self._changed:
            if self._is_closing:
                raise Closed("this store was closed", "closed")
            if self._writer is None:
                self._writer = threading.Thread(target=self._write, name="unforget-requests", daemon=True)
                self._writer.start()
            self._queue.append(request)
            self._changed.notify_all()
        return request.future

    def hello(self) -> Future[Any]:
        return self.submit("hello", {"protocol": PROTOCOL})

    def _written(self, op: str, members: Mapping[str, Any]) -> Request | Errand:
        if op != "append":
            return Request(op, members)
        lines = lines_of(members["entries"])
        if all(line.uuid is not None for line in lines):
            return Request(op, {"key": members["key"]}, lines)
        key = dict(members["key"])
        return Errand(name_of(key), self._unmarked.append(key, [lines]))

    def close(self) -> None:
        with _registry_lock:
            self._users -= 1
            if self._users > 0:
                return
            if _registry.get(self.program) is self:
                del _registry[self.program]
        self._end()

    def _end(self) -> None:
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
            writer = self._writer
        if writer is None:
            return
        writer.join(_CLOSE_SECONDS)
        if writer.is_alive() and self._child is not None:
            self._child.kill()
            writer.join(_CLOSE_SECONDS)

    # The thread that writes.

    def _write(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(self._has_work)
                if self._is_closing and not self._queue and not self._sent:
                    break
            try:
                child = self._ready()
                request = self._next()
                if isinstance(request, Errand):
                    self._advance(request, request.steps.__next__)
                elif request is not None:
                    self._send(child, request)
            except _Ended:
                continue
            except Exception as error:  # noqa: BLE001 - whatever it is, somebody waits for it
                self._give_up(error)
        if self._child is not None:
            self._child.finish(_CLOSE_SECONDS)
            self._child = None

    def _has_work(self) -> bool:
        if self._queue:
            return True
        if self._sent:
            return self._child is None or self._child.ended.is_set()
        return self._is_closing and not self._held

    def _next(self) -> Request | Errand | None:
        """The next one that somebody still waits for and that need not wait for an errand."""
        with self._changed:
            while self._queue:
                request = self._queue.popleft()
                held = None if isinstance(request, Part) else self._held.get(request.name)
                if held is not None:
                    held.append(request)
                elif request.future.set_running_or_notify_cancel():
                    if isinstance(request, Errand):
                        self._held[request.name] = deque()
                    return request
        return None

    def _send(self, child: Child, request: Request, number: int | None = None) -> None:
        if isinstance(request, Part) and request.process not in (None, self._process):
            request.lose(error_of("unavailable", "the store's process ended"))
            return
        number = next(self._numbers) if number is None else number
        request.sends += 1
        with self._changed:
            self._sent[number] = request
        try:
            child.send(request.line(number))
        except OSError:
            child.ended.wait()
            raise _Ended from None

    def _ready(self) -> Child:
        """The child; if it died, another one, which has been told again what was not answered."""
        child = self._child
        if child is not None:
            if not child.ended.is_set():
                return child
            logger.warning("the store's process ended; it is started again")
            child.finish(0)
            self._child = None
        child = self._start()
        self._child = child
        self._process += 1
        self._repeat(child)
        return child

    def _start(self) -> Child:
        if self._failures:
            time.sleep(min(_PAUSE_SECONDS * 2**self._failures, _LONGEST_PAUSE_SECONDS))
        self._failures += 1
        try:
            child = Child(self.program, self._take_line, self._take_end)
        except CannotStart as error:
            if self._failures >= _STARTS:
                raise error_of("unavailable", str(error)) from error.__cause__
            return self._start()
        try:
            hello = self._aside(child, "hello", {"protocol": PROTOCOL}, _HELLO_SECONDS)
        except _Ended:
            reason = self._why(child.finish(1), child.words() or "no words")
            if not isinstance(reason, TryAgain) or self._failures >= _STARTS:
                raise reason from None
            return self._start()
        except BaseException:
            child.kill()
            child.finish(1)
            raise
        if not isinstance(hello, dict) or hello.get("protocol") != PROTOCOL:
            child.finish(1)
            raise ProgramMissing(
                f"{self.program.binary} speaks another version of the protocol: {hello}; this package speaks {PROTOCOL}",
                "program",
            )
        return child

    def _why(self, status: int, words: str) -> UnforgetError:
        """Why a process ended before it said hello. Only a process that a signal ended may do better the next time."""
        binary = self.program.binary
        if self.program.is_another():
            return ProgramMissing(
                f"{binary} is not the program unforget, or not one that works: it ended with {status} ({words}); "
                f"install unforget, or name it with binary= or {VARIABLE}",
                "program",
            )
        if status == _USAGE:
            return InvalidRequest(f"{binary} refuses to be started like this: {words}", "invalid")
        if status > 0:
            return StorageFailed(f"{binary} cannot open the store in {self.program.place()}: {words}", "storage")
        return TryAgain(f"{binary} ended with {status} instead of saying hello: {words}", "unavailable")

    def _repeat(self, child: Child) -> None:
        with self._changed:
            unanswered = dict(self._sent)
        for number, request in list(unanswered.items()):
            if request.is_repeatable and request.sends < _SENDS:
                continue
            with self._changed:
                self._sent.pop(number, None)
            del unanswered[number]
            if isinstance(request, Part) and not request.is_repeatable:
                request.lose(error_of("unavailable", "the store's process ended before it answered"))
            else:
                request.give_up(error_of("unavailable", f"the store's process ended {_SENDS} times while it did this"))
        for number, request in unanswered.items():
            self._send(child, request, number)

    def _aside(self, child: Child, op: str, members: Mapping[str, Any], seconds: float | None = None) -> Any:
        """Asks something in the middle of something else."""
        future: Future[Any] = Future()
        number = next(self._numbers)
        with self._changed:
            if child.ended.is_set():
                raise _Ended
            self._asides[number] = future
        try:
            child.send(request_body({"id": number, "op": op, **members}) + b"\n")
        except OSError:
            child.ended.wait()
        try:
            return future.result(seconds)
        except FutureTimeout:
            raise TryAgain(f"{self.program.binary} did not answer in {seconds} seconds", "timeout") from None
        finally:
            with self._changed:
                self._asides.pop(number, None)

    def _give_up(self, error: Exception) -> None:
        self._failures = 0
        with self._changed:
            requests = [*self._sent.values(), *self._queue, *itertools.chain(*self._held.values())]
            self._sent.clear()
            self._queue.clear()
            for held in self._held.values():
                held.clear()
            self._changed.notify_all()
        for request in requests:
            if isinstance(request, Request):
                request.give_up(error)
            else:
                request.fail(error)

    # Errands, led by whoever has the next answer.

    def _advance(self, errand: Errand, step: Callable[[], Ask]) -> None:
        try:
            part = Part(step())
        except StopIteration:
            errand.succeed(None)
        except Exception as error:  # noqa: BLE001 - it belongs to whoever waits for it
            errand.fail(error)
        else:
            part.future.add_done_callback(lambda answer: self._go_on(errand, answer))
            with self._changed:
                self._queue.appendleft(part)
                self._changed.notify_all()
            return
        with self._changed:
            self._queue.extendleft(reversed(self._held.pop(errand.name)))
            self._changed.notify_all()

    def _go_on(self, errand: Errand, answer: Future[Any]) -> None:
        error = answer.exception()
        if error is None:
            self._advance(errand, lambda: errand.steps.send(answer.result()))
        else:
            self._advance(errand, lambda: errand.steps.throw(error))

    # The thread that reads.

    def _take_line(self, child: Child, line: bytes) -> None:
        try:
            answer = decode(line)
            number = answer["id"]
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            # Only whoever asked for it cannot have it: the id stands first.
            found = _NUMBER.match(line)
            if found is None:
                logger.error("the store's process said something that is no answer: %.200r", line)
                # Whose answer it was cannot be told, and somebody waits for it.
                child.kill()
                return
            number = int(found[1])
            is_deep = isinstance(error, RecursionError)
            words = (
                "an entry is nested deeper than Python reads"
                if is_deep
                else f"an answer that Python cannot read: {error}"
            )
            answer = {"err": words, "code": "too_large" if is_deep else "internal"}
        with self._changed:
            aside = self._asides.get(number)
            request = None if aside is not None else self._sent.pop(number, None)
            if request is not None:
                self._failures = 0
                if request.op == "delete" and request.name is not None:
                    self._unmarked.forget(request.name)
                if self._is_closing and not self._sent:
                    self._changed.notify_all()
        future = aside if aside is not None else request.future if request is not None else None
        if future is None:
            return
        try:
            if "err" in answer:
                future.set_exception(error_of(answer.get("code", "internal"), answer["err"]))
            else:
                future.set_result(answer.get("ok"))
        except InvalidStateError:
            pass

    def _take_end(self, child: Child) -> None:
        with self._changed:
            child.ended.set()
            asides = list(self._asides.values())
            self._changed.notify_all()
        for future in asides:
            try:
                future.set_exception(_Ended())
            except InvalidStateError:
                pass

    def _after_fork(self) -> None:
        if self._child is not None:
            self._child.abandon()
            _inherited.append(self._child)
        self._begin()


_registry: dict[Program, Pipe] = {}
_registry_lock = threading.Lock()
_all: weakref.WeakSet[Pipe] = weakref.WeakSet()
# Children of the process that this one was forked from; kept, because letting them go would close what is not theirs any more.
_inherited: list[Child] = []


@atexit.register
def _close_all() -> None:
    with _registry_lock:
        pipes = list(_registry.values())
        _registry.clear()
    for pipe in pipes:
        pipe._end()


def _after_fork_in_child() -> None:
    global _registry_lock
    _registry_lock = threading.Lock()
    for pipe in list(_all):
        pipe._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
