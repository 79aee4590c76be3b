"""The store behind a server, by HTTP, with nothing but the standard library.

Requests are made by a few threads, each with a connection that is used again. Requests about one key wait for each other, so that they are carried out
in their order. What failed because the server was busy or could not be reached is tried again, a few times; an append of entries without a uuid as
`_unmarked` leads it, which finds out first what has arrived. The token is sent in a header and shown nowhere.
"""

from __future__ import annotations

import asyncio
import http.client
import os
import random
import ssl
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from email.message import Message
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from ._json import decode, encode
from ._transport import Key, Line, Transport, lines_of, name_of, request_body
from ._unmarked import Asking, Unanswered, Unmarked
from .errors import Closed, InvalidRequest, UnforgetError, error_of

_ATTEMPTS = 6
_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 5.0
_TIMEOUT_SECONDS = 60.0
_THREADS = 16
# A server takes bodies of some megabytes; a batch is split below this.
_BODY_BYTES = 4 << 20
_ROOM_BYTES = 64 << 10
# Too slow, served elsewhere, too many, not now.
_AGAIN = frozenset({408, 421, 429, 503})
# Somebody on the way had no answer from the server, which may have carried out what was asked.
_LOST = frozenset({502, 504})
# What a status means if somebody on the way answered in the server's place.
_CODES = {
    401: "unauthenticated",
    403: "forbidden",
    404: "not_found",
    408: "timeout",
    413: "too_large",
    421: "moved",
    429: "too_many",
}


class _Trouble(Exception):
    """It may pass."""

    def __init__(self, error: UnforgetError, wait: float, is_lost: bool, is_told: bool) -> None:
        super().__init__(str(error))
        # What the caller is told if it does not pass.
        self.error = error
        # How many seconds the server wants to be left alone.
        self.wait = wait
        # Whether the request may have been carried out by a server that did not live to say so.
        self.is_lost = is_lost
        # Whether the server said so itself, and nobody in its place.
        self.is_told = is_told


class Server(Transport):
    """A store behind a server."""

    def __init__(self, url: str, token: str | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidRequest("the address of a server begins with http:// or https://", "invalid")
        if parts.username or parts.password or parts.query:
            raise InvalidRequest(
                "the address of a server has neither a user nor a query; a token is given as token=", "invalid"
            )
        self._scheme, self._host, self._port = parts.scheme, parts.hostname, parts.port
        self._path = parts.path.rstrip("/")
        self._headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if token is not None:
            if not token.isascii() or not token.isprintable():
                raise InvalidRequest("a token has only printable ASCII characters", "invalid")
            self._headers["Authorization"] = f"Bearer {token}"
        self._is_closed = False
        self._begin()
        _all.add(self)

    def __repr__(self) -> str:
        port = f":{self._port}" if self._port else ""
        return f"Server('{self._scheme}://{self._host}{port}{self._path}')"

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None
        self._idle: list[http.client.HTTPConnection] = []
        self._lanes: dict[str, deque[tuple[Future[Any], Callable[[], Any]]]] = {}
        # Which process answers is not known: there may be several, or somebody in between.
        self._unmarked = Unmarked(_ATTEMPTS, lambda: None)

    def submit(self, op: str, members: Mapping[str, Any]) -> Future[Any]:
        lane = name_of(members["key"]) if "key" in members else f"\n{random.random()}"
        if op == "append":
            key, batches = dict(members["key"]), _batches(lines_of(members["entries"]))
            return self._enqueue(lane, lambda: self._append(key, batches))
        path, body = f"/v1/entries/{quote(op)}", request_body(members)

        def job() -> Any:
            try:
                return self._ok(self.exchange("POST", path, body=body))
            finally:
                if op == "delete":
                    self._unmarked.forget(lane)

        return self._enqueue(lane, job)

    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        again: bool = True,
    ) -> Any:
        """Makes a request in this thread and returns what was answered."""
        return self.exchange(method, path, query, None if body is None else encode(body), again)

    async def arequest(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        again: bool = True,
    ) -> Any:
        """Makes a request in another thread."""
        lane, text = f"\n{random.random()}", None if body is None else encode(body)
        return await asyncio.wrap_future(self._enqueue(lane, lambda: self.exchange(method, path, query, text, again)))

    def hello(self) -> Future[Any]:
        return self._enqueue(f"\n{random.random()}", lambda: self.exchange("GET", "/v1/me"))

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown(wait=True)
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    # Order: requests of one lane are made one after the other.

    def _enqueue(self, lane: str, job: Callable[[], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        with self._lock:
            if self._is_closed:
                raise Closed("this store was closed", "closed")
            if self._threads is None:
                self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="unforget-http")
            waiting = self._lanes.get(lane)
            if waiting is not None:
                waiting.append((future, job))
                return future
            self._lanes[lane] = deque([(future, job)])
            self._threads.submit(self._work_off, lane)
        return future

    def _work_off(self, lane: str) -> None:
        while True:
            with self._lock:
                waiting = self._lanes[lane]
                if not waiting:
                    del self._lanes[lane]
                    return
                future, job = waiting.popleft()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = job()
            except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits for it
                future.set_exception(error)
            else:
                future.set_result(result)

    # One request.

    def exchange(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        body: bytes | None = None,
        again: bool = True,
    ) -> Any:
        """Makes a request, several times if need be; unless `again`, not if it may have been carried out."""
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return self._try(method, path, query, body, again)
            except _Trouble as trouble:
                if attempt == _ATTEMPTS or (trouble.is_lost and not again):
                    raise trouble.error from trouble.__cause__
                time.sleep(_pause(attempt, trouble))
        raise AssertionError("the last attempt returns or raises")

    def _try(
        self, method: str, path: str, query: Mapping[str, Any] | None, body: bytes | None, is_repeatable: bool
    ) -> Any:
        words = {
            name: str(value).lower() if isinstance(value, bool) else value for name, value in (query or {}).items()
        }
        target = self._path + path + ("?" + urlencode(words) if words else "")
        try:
            status, headers, answer = self._once(method, target, body, is_repeatable)
        except (OSError, http.client.HTTPException) as error:
            words_of_it = str(error) or type(error).__name__
            unreachable = error_of("unavailable", f"{self!r} cannot be reached: {words_of_it}")
            raise _Trouble(unreachable, 0.0, is_lost=True, is_told=False) from error
        if 200 <= status < 300:
            return answer
        problem = answer.get("error") if isinstance(answer, dict) else None
        is_told = isinstance(problem, dict)
        told = self._problem(status, headers, problem if isinstance(problem, dict) else {})
        if status in _AGAIN or (is_told and told.code == "busy") or (status in _LOST and not is_told):
            wait = headers.get("Retry-After", "")
            raise _Trouble(told, float(wait) if wait.isdigit() else 0.0, status in _LOST, is_told)
        raise told

    def _once(self, method: str, target: str, body: bytes | None, is_repeatable: bool) -> tuple[int, Message, Any]:
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        is_used = connection is not None
        while True:
            if connection is None:
                connection = self._connect()
            try:
                connection.request(method, target, body, self._headers)
                response = connection.getresponse()
                text = response.read()
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                connection = None
                # A connection that was idle may have been closed by the server long before the request came.
                if is_used and is_repeatable and isinstance(error, ConnectionError):
                    is_used = False
                    continue
                raise
            break
        if response.will_close:
            connection.close()
        else:
            with self._lock:
                self._idle.append(connection)
        try:
            answer = decode(text) if text else None
        except (ValueError, RecursionError):
            answer = None
        return response.status, response.headers, answer

    def _connect(self) -> http.client.HTTPConnection:
        if self._scheme == "https":
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(self._host, self._port, timeout=_TIMEOUT_SECONDS, context=context)
        return http.client.HTTPConnection(self._host, self._port, timeout=_TIMEOUT_SECONDS)

    @staticmethod
    def _ok(answer: Any) -> Any:
        if not isinstance(answer, dict) or "ok" not in answer:
            raise UnforgetError("the server's answer is not understood; is this its address?", "internal")
        return answer["ok"]

    def _problem(self, status: int, headers: Message, told: Mapping[str, Any]) -> UnforgetError:
        if told:
            return error_of(str(told.get("code", "internal")), str(told.get("message", status)))
        if status < 400:
            there = headers.get("Location", "somewhere else")
            return error_of(
                "invalid", f"{self!r} answered {status} and sends on to {there}; give the address that answers itself"
            )
        code = _CODES.get(status, "unavailable" if status >= 500 else "invalid")
        return error_of(code, f"{self!r} answered {status}, and not as a store does")

    # Entries.

    def _append(self, key: Key, batches: list[list[Line]]) -> None:
        if any(line.uuid is None for batch in batches for line in batch):
            self._follow(self._unmarked.append(key, batches))
            return
        for batch in batches:
            self._ok(self.exchange("POST", "/v1/entries/append", body=request_body({"key": key}, batch)))

    def _follow(self, steps: Asking[None]) -> None:
        """Asks one question after the other, until there is none any more."""
        ask, troubles = next(steps), 0
        while True:
            body = request_body(ask.members, ask.lines)
            answer: Any = None
            failure: Exception | None = None
            pause = 0.0
            try:
                answer = self._ok(self._try("POST", f"/v1/entries/{ask.op}", None, body, ask.lines is None))
            except _Trouble as trouble:
                troubles += 1
                pause = _pause(troubles, trouble)
                is_answer = trouble.is_told and trouble.error.code == "unavailable" and not ask.is_insistent
                failure = trouble.error if is_answer else Unanswered(trouble.error, is_final=False)
            except Exception as error:  # noqa: BLE001 - it is for whoever asks to know
                failure = error
            try:
                ask = steps.send(answer) if failure is None else steps.throw(failure)
            except StopIteration:
                return
            time.sleep(pause)

    def _after_fork(self) -> None:
        # The connections are the parent's; they are let go of, not used.
        _inherited.extend(self._idle)
        self._begin()


def _batches(lines: list[Line]) -> list[list[Line]]:
    """Splits entries so that each request stays below the limit; an entry beyond it goes alone."""
    batches: list[list[Line]] = [[]]
    size = 0
    for line in lines:
        if batches[-1] and size + len(line.text) + 1 > _BODY_BYTES - _ROOM_BYTES:
            batches.append([])
            size = 0
        batches[-1].append(line)
        size += len(line.text) + 1
    return batches


def _pause(attempt: int, trouble: _Trouble) -> float:
    pause: float = min(_PAUSE_SECONDS * 2**attempt, _LONGEST_PAUSE_SECONDS) * random.uniform(0.5, 1.0)
    return max(pause, min(trouble.wait, _LONGEST_PAUSE_SECONDS))


_all: weakref.WeakSet[Server] = weakref.WeakSet()
_inherited: list[http.client.HTTPConnection] = []


def _after_fork_in_child() -> None:
    for server in list(_all):
        server._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
