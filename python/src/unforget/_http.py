"""The store behind a server, by HTTP, with nothing but the standard library.

Requests are made by a few threads, each with a connection that is used again. Requests about one key wait for each other, so that they are carried out
in their order. What failed because the server was busy or could not be reached is tried again, a few times; an append of entries without a uuid only after
finding out what has arrived. The token is sent in a header and shown nowhere.
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
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from ._json import decode, encode
from ._repeat import Acknowledged, all_stored, name_of, remaining
from ._transport import Entry, Line, Transport, lines_of, request_body
from .errors import InvalidRequest, UnforgetError, error_of

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


class _Lost(Exception):
    """There was no answer; the request may have been carried out."""


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
        self._acknowledged = Acknowledged()

    def submit(self, op: str, members: Mapping[str, Any]) -> Future[Any]:
        members = dict(members)
        if op == "append":
            return self._enqueue(name_of(members.get("key")), lambda: self._append(members))
        path = f"/v1/entries/{quote(op)}"
        lane = name_of(members["key"]) if "key" in members else f"\n{random.random()}"

        def job() -> Any:
            ok = self._ok(self.exchange("POST", path, body=request_body(members)))
            if op == "delete":
                self._acknowledged.forget(lane)
            return ok

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
        lane = f"\n{random.random()}"
        return await asyncio.wrap_future(self._enqueue(lane, lambda: self.request(method, path, query, body, again)))

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
                raise UnforgetError("this store was closed", "closed")
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
        check: Callable[[], bytes] | None = None,
    ) -> Any:
        """Makes a request, several times if need be; `check` tells what to send the next time, if that is not the same."""
        words = {
            name: str(value).lower() if isinstance(value, bool) else value for name, value in (query or {}).items()
        }
        target = self._path + path + ("?" + urlencode(words) if words else "")
        for attempt in range(1, _ATTEMPTS + 1):
            pause = min(_PAUSE_SECONDS * 2**attempt, _LONGEST_PAUSE_SECONDS) * random.uniform(0.5, 1.0)
            try:
                status, wait, answer = self._once(method, target, body, again and check is None)
            except _Lost as lost:
                if not again or attempt == _ATTEMPTS:
                    raise error_of("unavailable", f"{self!r} cannot be reached: {lost}") from lost.__cause__
            else:
                if status < 400:
                    return answer
                if status not in _AGAIN or attempt == _ATTEMPTS:
                    raise _problem(status, answer)
                pause = max(pause, min(wait, _LONGEST_PAUSE_SECONDS))
            time.sleep(pause)
            if check is not None:
                body = check()
        raise AssertionError("the last attempt returns or raises")

    def _once(self, method: str, target: str, body: bytes | None, is_repeatable: bool) -> tuple[int, float, Any]:
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
                raise _Lost(str(error) or type(error).__name__) from error
            break
        if response.will_close:
            connection.close()
        else:
            with self._lock:
                self._idle.append(connection)
        try:
            answer = decode(text) if text else None
        except ValueError:
            answer = None
        wait = response.headers.get("Retry-After", "")
        return response.status, float(wait) if wait.isdigit() else 0.0, answer

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

    # Entries.

    def _append(self, members: dict[str, Any]) -> None:
        key = members["key"]
        lines = lines_of(members.pop("entries"))
        name = name_of(key)
        for batch in _batches(lines):

            def missing(batch: list[Line] = batch) -> bytes:
                return request_body(members, remaining(self._stored(key), [batch], self._acknowledged.of(name))[0])

            # What has a uuid can simply be sent again.
            check = missing if any(line.uuid is None for line in batch) else None
            self._ok(self.exchange("POST", "/v1/entries/append", body=request_body(members, batch), check=check))
            self._acknowledged.add(name, batch)

    def _stored(self, key: Any) -> list[Entry]:
        def read(cursor: str | None) -> Any:
            return self._ok(self.exchange("POST", "/v1/entries/read", body=encode({"key": key, "cursor": cursor})))

        return all_stored(read)

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


def _problem(status: int, answer: Any) -> UnforgetError:
    error = answer.get("error") if isinstance(answer, dict) else None
    if isinstance(error, dict):
        return error_of(str(error.get("code", "internal")), str(error.get("message", status)))
    return error_of("unavailable" if status >= 500 else "invalid", f"the server answered {status}")


_all: weakref.WeakSet[Server] = weakref.WeakSet()
_inherited: list[http.client.HTTPConnection] = []


def _after_fork_in_child() -> None:
    for server in list(_all):
        server._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
