"""The way over HTTP: what is sent, what is tried again, and what is never shown."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from unforget import AsyncSessions, OpenAIAgentsSession, Sessions, UnforgetSessionStore
from unforget._http import Server
from unforget.errors import Conflict, InvalidRequest, NotAllowed, StorageFailed, TryAgain, UnforgetError

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
    asyncio.run(store.append(KEY, [{"type": "a", "uuid": "1"}]))
    (path, body, headers, _) = fake.asked[0]
    assert (path, body) == ("/v1/entries/append", {"key": KEY, "entries": [{"type": "a", "uuid": "1"}]})
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


def test_p6_a_token_without_a_server_and_an_unknown_option_are_refused() -> None:
    for more in ({}, {"home": "/nowhere"}):
        with pytest.raises(InvalidRequest, match="needs url"):
            UnforgetSessionStore(token="secret", **more)
    with pytest.raises(TypeError, match="tokn"):
        UnforgetSessionStore(url="http://localhost", tokn="secret")  # type: ignore[call-arg]


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
        (409, "conflict", Conflict),
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
    "trouble",
    [
        problem(429, "too_many"),
        problem(503, "unavailable"),
        problem(421, "moved"),
        problem(409, "busy"),
        (502, "nobody is there"),
        (504, "nobody answers"),
        (429, "slower"),
        None,
    ],
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


@pytest.mark.parametrize("status", [301, 302, 307, 308, 304])
def test_only_a_success_is_one(fake: Fake, status: int) -> None:
    fake.answer = lambda path, body: (status, {"ok": [1]})
    server = Server(fake.url)
    with pytest.raises(InvalidRequest, match=f"{status} and sends on"):
        server.call("load", key=KEY)
    assert len(fake.asked) == 1
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


class Kept:
    """Keeps entries, and then does with the next appends as a test says: an answer, or None to hang up. What is not planned succeeds."""

    def __init__(self, stored: list[Any] | None = None) -> None:
        self.stored: list[Any] = list(stored or [])
        self.appends: list[tuple[int, Any] | None] = []
        self.reads: list[tuple[int, Any] | None] = []
        self.is_kept = True

    def __call__(self, path: str, body: Any) -> tuple[int, Any] | None:
        if path == "/v1/entries/read":
            page = {"entries": self.stored, "cursor": "c", "more": False, "again": False}
            return self.reads.pop(0) if self.reads else (200, {"ok": page if self.stored else None})
        answer = self.appends.pop(0) if self.appends else (200, {"ok": None})
        have = {entry["uuid"] for entry in self.stored if "uuid" in entry}
        if self.is_kept or answer == (200, {"ok": None}):
            self.stored += [entry for entry in body["entries"] if entry.get("uuid") not in have]
        return answer


TROUBLES = [problem(503, "unavailable"), (502, "nobody is there"), (504, "nobody answers"), (500, "nothing"), None]


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("is_kept", [True, False])
def test_an_append_that_failed_is_not_doubled_when_the_caller_repeats_it(
    fake: Fake, trouble: tuple[int, Any] | None, is_kept: bool
) -> None:
    earlier = [{"type": "title"}]
    kept = fake.answer = Kept(earlier)
    kept.is_kept, kept.appends = is_kept, [trouble] * 6
    entries = [{"type": "title"}, {"type": "user", "uuid": "1"}, {"type": "title"}]
    server = Server(fake.url)
    with pytest.raises(UnforgetError):
        server.call("append", key=KEY, entries=entries)
    kept.appends.clear()
    server.call("append", key=KEY, entries=entries)
    assert kept.stored == [*earlier, *entries]
    server.close()


def test_a_large_append_goes_on_where_it_failed(fake: Fake) -> None:
    kept = fake.answer = Kept()
    kept.appends = [(200, {"ok": None}), problem(507, "storage")]
    entries = [{"type": "title", "n": n % 2, "text": "x" * (1 << 20)} for n in range(6)]
    server = Server(fake.url)
    with pytest.raises(StorageFailed):
        server.call("append", key=KEY, entries=entries)
    asked = len(fake.asked)
    server.call("append", key=KEY, entries=entries)
    assert [entry["n"] for entry in kept.stored] == [n % 2 for n in range(6)]
    assert all(len(body["entries"]) < 3 for path, body, _, _ in fake.asked[asked:] if path.endswith("append"))
    server.close()


def test_a_new_session_is_kept_by_a_server_whose_remote_is_away(fake: Fake) -> None:
    """It cannot tell whether there is something elsewhere, and says so at once; that is no reason to keep nothing."""
    kept = fake.answer = Kept()
    kept.reads = [problem(503, "unavailable")]
    server = Server(fake.url)
    server.call("append", key=KEY, entries=[{"type": "title"}])
    assert kept.stored == [{"type": "title"}]
    assert [path for path, _, _, _ in fake.asked] == ["/v1/entries/read", "/v1/entries/append"]
    server.close()


def test_an_entry_that_is_changed_after_it_was_handed_over_is_kept_as_it_was(fake: Fake) -> None:
    kept = Kept()
    changed = threading.Event()

    def answer(path: str, body: Any) -> tuple[int, Any] | None:
        if path.endswith("load"):
            changed.wait(60)
            return 200, {"ok": None}
        return kept(path, body)

    fake.answer = answer
    server = Server(fake.url)
    entry = {"type": "title", "text": "before"}
    first = server.submit("load", {"key": KEY})
    # It waits behind the other one, as it is about the same key.
    second = server.submit("append", {"key": KEY, "entries": [entry]})
    entry["text"] = "after"
    changed.set()
    first.result(60)
    second.result(60)
    assert kept.stored == [{"type": "title", "text": "before"}]
    server.close()


@pytest.mark.parametrize("kind", ["threads", "loop"])
def test_a_session_is_looked_for_on_all_pages(fake: Fake, kind: str) -> None:
    """A server that has looked through many answers with an empty page and says where it goes on."""

    def answer(path: str, body: Any) -> tuple[int, Any]:
        if "messages" in path:
            return 200, {"n": 1, "messages": []}
        assert body is None, "no second session is made"
        assert "key=main%3Amail%3Aada" in path
        if "cursor=c2" in path:
            return 200, {"sessions": [{"id": "found"}], "next": None}
        return 200, {"sessions": [], "next": "c2" if "cursor=c1" in path else "c1"}

    fake.answer = answer
    said: list[Any] = [{"role": "user", "content": "hello"}]
    if kind == "threads":
        with Sessions(url=fake.url) as sessions:
            assert sessions.history(key="main:mail:ada")["session_id"] == "found"
            assert sessions.append(key="main:mail:ada", messages=said) == {"session_id": "found", "n": 1}
        return

    async def main() -> None:
        async with AsyncSessions(url=fake.url) as sessions:
            assert (await sessions.history(key="main:mail:ada"))["session_id"] == "found"
            assert await sessions.append(key="main:mail:ada", messages=said) == {"session_id": "found", "n": 1}

    asyncio.run(main())


def test_requests_of_one_key_are_made_in_their_order_and_others_at_once(fake: Fake) -> None:
    """Two keys' requests wait for each other at the server; those of one key must not be there together."""
    both = threading.Barrier(2)

    def answer(path: str, body: Any) -> tuple[int, Any]:
        both.wait(30)
        return 200, {"ok": None}

    fake.answer = answer
    server = Server(fake.url)
    futures = [
        server.submit("append", {"key": {**KEY, "session_id": name}, "entries": [{"n": n, "uuid": str(n)}]})
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
