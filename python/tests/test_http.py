"""The way over HTTP: what is sent, what is tried again, and what is never shown."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from unforget import OpenAIAgentsSession, UnforgetSessionStore
from unforget._http import Server
from unforget.errors import InvalidRequest, NotAllowed, TryAgain, UnforgetError

# Takes a path and a body; returns a status and an answer, or None to hang up.
Answer = Callable[[str, Any], tuple[int, Any] | None]
KEY = {"project_key": "p", "session_id": "s"}


class Fake:
    """A server that answers as a test says, and remembers what it was asked."""

    def __init__(self) -> None:
        self.answer: Answer = lambda path, body: (200, {"ok": None})
        self.asked: list[tuple[str, Any, dict[str, str], int]] = []
        self.connections = 0
        self.hangs_up_after_answers = False
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                fake.connections += 1
                super().setup()

            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                body = json.loads(self.rfile.read(length) or b"null")
                fake.asked.append((self.path, body, dict(self.headers), length))
                answer = fake.answer(self.path, body)
                if answer is None:
                    self.close_connection = True
                    return
                status, value = answer
                data = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                if status == 429:
                    self.send_header("Retry-After", "0")
                self.end_headers()
                self.wfile.write(data)
                self.close_connection = fake.hangs_up_after_answers

            do_GET = do_POST

            def log_message(self, *arguments: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[Fake]:
    monkeypatch.setattr("unforget._http._PAUSE_SECONDS", 0.001)
    fake = Fake()
    yield fake
    fake.stop()


def problem(status: int, code: str) -> tuple[int, Any]:
    return status, {"error": {"code": code, "message": "words"}}


def test_a_token_is_in_a_header_and_nowhere_else(fake: Fake) -> None:
    store = UnforgetSessionStore(url=fake.url, token="secret")
    asyncio.run(store.append(KEY, [{"type": "a"}]))
    (path, body, headers, _) = fake.asked[0]
    assert (path, body) == ("/v1/entries/append", {"key": KEY, "entries": [{"type": "a"}]})
    assert headers["Authorization"] == "Bearer secret"
    assert "secret" not in repr(store) + repr(store._transport)
    store.close()


@pytest.mark.parametrize(
    "url", ["ftp://host", "host:80", "http://ada:secret@host", "http://host/?token=secret", "http://"]
)
def test_an_address_that_is_none_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        Server(url)
    assert "secret" not in str(caught.value)


def test_what_belongs_to_a_home_is_refused_for_a_server() -> None:
    with pytest.raises(InvalidRequest, match="home, ack"):
        UnforgetSessionStore(url="http://localhost", home="/nowhere", ack="disk")
    with pytest.raises(InvalidRequest, match="needs url"):
        UnforgetSessionStore(home="/nowhere", token="secret")


def test_a_connection_is_used_again(fake: Fake) -> None:
    server = Server(fake.url)
    for _ in range(10):
        server.call("load", key=KEY)
    assert fake.connections == 1
    server.close()


def test_a_connection_that_the_server_closed_meanwhile_costs_nothing(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unforget._http.time.sleep", lambda seconds: pytest.fail("there was a pause"))
    fake.hangs_up_after_answers = True
    server = Server(fake.url)
    for n in range(5):
        server.call("append", key=KEY, entries=[{"type": "a", "uuid": str(n)}])
    assert [body["entries"][0]["uuid"] for _, body, _, _ in fake.asked] == ["0", "1", "2", "3", "4"]
    server.close()


def test_errors_say_what_can_be_done(fake: Fake) -> None:
    server = Server(fake.url)
    for status, code, kind in [
        (401, "unauthenticated", NotAllowed),
        (400, "invalid", InvalidRequest),
        (500, "internal", UnforgetError),
    ]:
        fake.asked.clear()
        fake.answer = lambda path, body, status=status, code=code: problem(status, code)  # type: ignore[misc]
        with pytest.raises(kind, match="words") as caught:
            server.call("load", key=KEY)
        assert caught.value.code == code
        assert len(fake.asked) == 1, "it is not tried again"
    server.close()


@pytest.mark.parametrize(
    "trouble", [problem(429, "too_many"), problem(503, "unavailable"), problem(421, "moved"), None]
)
def test_what_may_pass_is_tried_again(fake: Fake, trouble: tuple[int, Any] | None) -> None:
    fake.answer = lambda path, body: trouble if len(fake.asked) < 4 else (200, {"ok": [1]})
    server = Server(fake.url)
    assert server.call("load", key=KEY) == [1]
    assert len(fake.asked) == 4
    server.close()
    server = Server(fake.url)
    fake.answer = lambda path, body: trouble
    fake.asked.clear()
    with pytest.raises(TryAgain):
        server.call("load", key=KEY)
    assert len(fake.asked) == 6
    server.close()


def test_a_server_that_is_not_there_is_unavailable(fake: Fake) -> None:
    server = Server(fake.url)
    fake.stop()
    with pytest.raises(TryAgain, match="cannot be reached") as caught:
        server.call("load", key=KEY)
    assert caught.value.code == "unavailable"
    fake._server.server_close = fake._server.shutdown = lambda: None  # type: ignore[method-assign]


def test_a_large_batch_is_split_below_the_limit(fake: Fake) -> None:
    entries = [{"type": "x", "uuid": str(n), "text": "é" * 50_000} for n in range(200)]
    server = Server(fake.url)
    server.call("append", key=KEY, entries=entries)
    assert [entry for _, body, _, _ in fake.asked for entry in body["entries"]] == entries
    assert len(fake.asked) == 5
    assert all(length < 4 << 20 for _, _, _, length in fake.asked)
    server.close()


@pytest.mark.parametrize("arrived", [0, 1, 2, 3])
def test_entries_without_a_uuid_are_not_sent_twice(fake: Fake, arrived: int) -> None:
    stored: list[Any] = []
    lost = False

    def answer(path: str, body: Any) -> tuple[int, Any] | None:
        nonlocal lost
        if path == "/v1/entries/read":
            return 200, {"ok": {"entries": stored, "cursor": "c", "more": False, "again": False}}
        have = {entry.get("uuid") for entry in stored}
        fresh = [entry for entry in body["entries"] if "uuid" not in entry or entry["uuid"] not in have]
        stored.extend(fresh[: arrived if not lost else None])
        if not lost:
            lost = True
            return None
        return 200, {"ok": None}

    fake.answer = answer
    entries = [{"type": "title"}, {"type": "user", "uuid": "1"}, {"type": "title"}]
    server = Server(fake.url)
    server.call("append", key=KEY, entries=entries)
    assert stored == entries
    server.close()


def test_requests_of_one_key_are_made_in_their_order_and_others_at_once(fake: Fake) -> None:
    """Two keys' requests wait for each other at the server; those of one key must not be there together."""
    both = threading.Barrier(2)

    def answer(path: str, body: Any) -> tuple[int, Any]:
        both.wait(30)
        return 200, {"ok": None}

    fake.answer = answer
    server = Server(fake.url)
    futures = [
        server.submit("append", {"key": {**KEY, "session_id": name}, "entries": [{"n": n}]})
        for n in range(20)
        for name in "ab"
    ]
    for future in futures:
        future.result(60)
    for name in "ab":
        asked = [body["entries"][0]["n"] for _, body, _, _ in fake.asked if body["key"]["session_id"] == name]
        assert asked == list(range(20))
    assert fake.connections <= 4, "connections are used again"
    server.close()


def test_something_else_that_answers_is_not_taken_for_a_store(fake: Fake) -> None:
    fake.answer = lambda path, body: (200, {"hello": "world"})
    with OpenAIAgentsSession("s", url=fake.url) as session, pytest.raises(UnforgetError, match="not understood"):
        asyncio.run(session.get_items())
