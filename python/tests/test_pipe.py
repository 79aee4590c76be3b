"""The child process: found, shared, fed by many, started again, and gone at the end."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
import shutil
import signal
import stat
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from unforget import UnforgetSessionStore
from unforget._pipe import Pipe
from unforget._program import Program, find
from unforget._request import Errand
from unforget._unmarked import Ask, Asking
from unforget.errors import InvalidRequest, ProgramMissing, StorageFailed, TryAgain, UnforgetError

Make = Callable[[str], str]

# A store that answers as a test says: `answer(request)` returns lines, or None to die.
CHILD = """\
#!{python}
import json, os, sys
{body}
for line in sys.stdin.buffer:
    request = json.loads(line)
    if request["op"] == "hello":
        answer_hello = globals().get("hello", {{"protocol": 1, "server": "test", "remote": None}})
        sys.stdout.write(json.dumps({{"id": request["id"], "ok": answer_hello}}) + "\\n")
    else:
        sys.stdout.write("".join(json.dumps(one) + "\\n" for one in answer(request)))
    sys.stdout.flush()
"""


@pytest.fixture
def child(tmp_path: Path, unique: Make) -> Make:
    """Makes a program out of what answers."""

    def make(body: str) -> str:
        program = tmp_path / unique("program")
        program.write_text(CHILD.format(python=sys.executable, body=textwrap.dedent(body)))
        program.chmod(stat.S_IRWXU)
        return str(program)

    return make


def script(path: Path, body: str) -> str:
    """A program that says that it is unforget, and does something else."""
    path.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo unforget 0 && exit\n{body}\n')
    path.chmod(stat.S_IRWXU)
    return str(path)


def pipe_of(store: UnforgetSessionStore) -> Pipe:
    assert isinstance(store._transport, Pipe)
    return store._transport


# Where the program is.


def test_a_program_that_is_not_there_is_said_to_be_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ProgramMissing, match="nowhere"):
        UnforgetSessionStore(home=tmp_path, binary=tmp_path / "nowhere")
    monkeypatch.setenv("UNFORGET_BIN", str(tmp_path / "neither"))
    with pytest.raises(ProgramMissing, match="UNFORGET_BIN says .*neither"):
        UnforgetSessionStore(home=tmp_path)


def test_the_program_is_looked_for_in_this_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["given", "variable", "scripts", "path"]
    for name in names:
        program = tmp_path / name / "unforget"
        program.parent.mkdir()
        program.touch(stat.S_IRWXU)
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path / name))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "other" / "python"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "other"))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("UNFORGET_BIN", str(tmp_path / "variable" / "unforget"))
    assert find(tmp_path / "given" / "unforget") == str(tmp_path / "given" / "unforget")
    assert find() == str(tmp_path / "variable" / "unforget")
    monkeypatch.delenv("UNFORGET_BIN")
    assert find() == str(tmp_path / "scripts" / "unforget")
    (tmp_path / "scripts" / "unforget").unlink()
    assert find() == str(tmp_path / "path" / "unforget")
    (tmp_path / "path" / "unforget").unlink()
    with pytest.raises(ProgramMissing, match="UNFORGET_BIN"):
        find()


def test_a_program_of_another_protocol_is_refused(child: Make) -> None:
    pipe = Pipe(Program(child("hello = {'protocol': 2}")))
    with pytest.raises(ProgramMissing, match="another version of the protocol"):
        pipe.call("load", key={})


def test_a_program_that_knows_no_store_is_told_with_its_words(tmp_path: Path) -> None:
    program = script(tmp_path / "old", "echo \"error: unrecognized subcommand 'store'\" >&2\nexit 2")
    with pytest.raises(InvalidRequest, match="unrecognized subcommand"):
        Pipe(Program(program)).call("load", key={})


def test_settings_that_the_program_refuses_are_told_with_its_words(tmp_path: Path) -> None:
    pipe = Pipe(Program(find(), str(tmp_path), remote=False, ack="remote"))
    with pytest.raises(InvalidRequest, match="needs a remote"):
        pipe.call("load", key={})


@pytest.mark.parametrize("failures", [3, 4])
def test_a_machine_that_has_no_room_for_a_process_is_tried_again(
    child: Make, monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    pipe = Pipe(Program(child("def answer(request): return [{'id': request['id'], 'ok': 1}]")))
    real, left = subprocess.Popen, failures

    def popen(*arguments: Any, **options: Any) -> Any:
        nonlocal left
        if left:
            left -= 1
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        return real(*arguments, **options)

    monkeypatch.setattr(subprocess, "Popen", popen)
    if failures == 4:
        with pytest.raises(TryAgain, match="temporarily unavailable"):
            pipe.call("ask")
    assert pipe.call("ask") == 1


def test_a_program_that_never_starts_is_given_up(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    program = script(tmp_path / "broken", f"echo start >> {starts}\necho no memory >&2\nkill -9 $$")
    with pytest.raises(TryAgain, match="no memory"):
        Pipe(Program(program)).call("load", key={})
    assert starts.read_text() == "start\n" * 4


@pytest.mark.parametrize("name", ["cat", "echo", "true", "false", "ls", "yes"])
def test_p8_another_program_is_not_worth_another_try(tmp_path: Path, name: str) -> None:
    program = shutil.which(name)
    assert program is not None
    with pytest.raises(ProgramMissing, match=f"{program} is not the program unforget") as caught:
        Pipe(Program(program, str(tmp_path / "home"))).call("load", key={})
    assert "UNFORGET_BIN" in str(caught.value), "it says what to do"


@pytest.mark.parametrize("home", ["/dev/null/store", "/proc/store"])
def test_p8_a_home_that_cannot_be_made_is_named(home: str, tmp_path: Path) -> None:
    with UnforgetSessionStore(home=home) as store, pytest.raises(StorageFailed, match=home) as caught:
        store.connect()
    assert caught.value.code == "storage"


def test_p8_a_program_that_cannot_open_its_store_is_started_once(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    program = script(tmp_path / "broken", f"echo start >> {starts}\necho no disk >&2\nexit 1")
    with pytest.raises(StorageFailed, match="/data.*no disk"):
        Pipe(Program(program, "/data")).call("load", key={})
    assert starts.read_text() == "start\n"


@pytest.mark.parametrize(
    "wrong",
    [{name: value} for name in ("home", "binary") for value in ("", b"store", b"", 7, "a\0b")]
    + [{"remote": ""}, {"remote": b"file:///x"}, {"tenant": ""}, {"url": ""}, {"url": b"http://127.0.0.1:1"}],
)
def test_p9_what_is_no_path_is_refused(wrong: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidRequest, match=f"{next(iter(wrong))}="):
        UnforgetSessionStore(**wrong)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", [str, Path])
def test_p9_a_home_is_a_text_or_a_path(kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with UnforgetSessionStore(home=kind("~/notes")) as store:
        store.connect()
    assert (tmp_path / "notes").is_dir()


def test_doing_without_a_remote_is_an_argument() -> None:
    assert "--no-remote" in Program("unforget", remote=False).command()
    assert "--no-remote" not in Program("unforget").command()


def test_the_remote_is_neither_an_argument_nor_shown() -> None:
    program = Program("unforget", remote="postgres://ada:secret@host/db")
    assert "secret" not in repr(program) + " ".join(program.command())
    assert program.environment()["UNFORGET_REMOTE"] == "postgres://ada:secret@host/db"


# Requests and answers.


def test_answers_come_in_any_order(child: Make) -> None:
    pipe = Pipe(
        Program(
            child(
                """
                kept = []
                def answer(request):
                    kept.append({"id": request["id"], "ok": request["n"]})
                    return reversed(kept) if len(kept) == 100 else []
                """
            )
        )
    )
    futures = [pipe.submit("ask", {"n": n}) for n in range(100)]
    assert [future.result() for future in futures] == list(range(100))


def test_a_line_has_any_length_both_ways(child: Make) -> None:
    pipe = Pipe(Program(child("def answer(request): return [{'id': request['id'], 'ok': request['text']}]")))
    text = "x" * 100_000_000
    assert pipe.call("say", text=text) == text
    pipe._users = 1
    pipe.close()


def test_errors_say_what_can_be_done(child: Make) -> None:
    pipe = Pipe(Program(child("def answer(r): return [{'id': r['id'], 'err': 'words', 'code': r['code']}]")))
    for code, kind in [("busy", TryAgain), ("invalid", InvalidRequest), ("internal", UnforgetError)]:
        with pytest.raises(kind, match="words") as caught:
            pipe.call("fail", code=code)
        assert caught.value.code == code


def test_what_is_no_json_is_refused_and_nothing_else_suffers(home_place: dict[str, Any], unique: Make) -> None:
    async def main() -> None:
        async with UnforgetSessionStore(**home_place) as store:
            key = {"project_key": unique("p"), "session_id": "s"}
            good = asyncio.ensure_future(store.append(key, [{"type": "a", "uuid": "1"}]))
            with pytest.raises(ValueError, match="JSON"):
                await store.append(key, [{"type": "b", "value": float("nan")}])
            with pytest.raises(TypeError, match="not a int"):
                await store.append(key, [1])  # type: ignore[list-item]
            await good
            assert await store.load(key) == [{"type": "a", "uuid": "1"}]

    asyncio.run(main())


def test_a_member_does_not_pass_for_the_number_of_a_request(child: Make) -> None:
    pipe = Pipe(Program(child("def answer(request): return [{'id': request['id'], 'ok': 1}]")))
    for wrong in [{"id": 5}, {"op": "delete"}]:
        with pytest.raises(InvalidRequest, match="its own id and op"):
            pipe.submit("sessions", wrong)
    assert pipe.call("sessions") == 1


def test_an_entry_that_is_changed_after_it_was_handed_over_is_kept_as_it_was(child: Make) -> None:
    body = """
        kept = []
        def answer(request):
            kept.append(request.get("entries"))
            return [{"id": request["id"], "ok": None if request["op"] != "kept" else kept}]
        """
    pipe = Pipe(Program(child(body)))
    for entry in [{"type": "a", "text": "before"}, {"type": "a", "uuid": "1", "text": "before"}]:
        # The thread that writes cannot go on while this is held.
        with pipe._changed:
            appended = pipe.submit("append", {"key": {"project_key": "p", "session_id": "s"}, "entries": [entry]})
            entry["text"] = "after"
        appended.result(60)
    texts = [entry["text"] for entries in pipe.call("kept") if entries for entry in entries]
    assert texts == ["before", "before"]


@pytest.mark.parametrize(
    ("text", "words"), [("1" * 5000, "cannot read"), ("[" * 100_000 + "]" * 100_000, "nested"), ("nonsense", "cannot")]
)
def test_an_answer_that_cannot_be_read_is_told_to_whoever_asked(child: Make, text: str, words: str) -> None:
    body = f"""
        def answer(request):
            if request["op"] == "ask":
                return [{{"id": request["id"], "ok": os.getpid()}}]
            sys.stdout.write('{{"id":%d,"ok":%s}}\\n' % (request["id"], {text!r}))
            return []
        """
    pipe = Pipe(Program(child(body)))
    before = pipe.call("ask")
    with pytest.raises(UnforgetError, match=words):
        pipe.submit("unreadable", {}).result(60)
    assert pipe.call("ask") == before, "the child goes on"


def test_a_child_that_says_something_to_nobody_is_started_again(child: Make, tmp_path: Path) -> None:
    """Whose answer it was cannot be told; without a new child somebody would wait for ever."""
    body = f"""
        starts = {str(tmp_path / "starts")!r}
        open(starts, "a").write("x")
        def answer(request):
            if os.path.getsize(starts) == 1:
                return [{{"ok": "nobody's"}}]
            return [{{"id": request["id"], "ok": "mine"}}]
        """
    assert Pipe(Program(child(body))).submit("ask", {}).result(60) == "mine"
    assert (tmp_path / "starts").read_text() == "xx"


def test_what_the_child_says_to_people_is_logged(child: Make, caplog: pytest.LogCaptureFixture) -> None:
    body = "print('the remote does not answer', file=sys.stderr, flush=True)\ndef answer(r): return [{'id': r['id'], 'ok': 1}]"
    with caplog.at_level(logging.WARNING, "unforget"):
        pipe = Pipe(Program(child(body)))
        pipe.call("ask")
        pipe._users = 1
        pipe.close()
    assert "the remote does not answer" in caplog.messages


# A child that dies.


def test_what_was_not_answered_is_asked_again(child: Make, tmp_path: Path) -> None:
    body = f"""
        starts = {str(tmp_path / "starts")!r}
        open(starts, "a").write("x")
        number = os.path.getsize(starts)
        def answer(request):
            if number < 4:
                os._exit(9)
            return [{{"id": request["id"], "ok": request["n"]}}]
        """
    pipe = Pipe(Program(child(body)))
    futures = [pipe.submit("ask", {"n": n}) for n in range(10)]
    assert [future.result() for future in futures] == list(range(10))
    assert (tmp_path / "starts").read_text() == "xxxx"


def test_a_request_that_always_kills_is_given_up_and_the_next_one_works(child: Make, tmp_path: Path) -> None:
    body = f"""
        open({str(tmp_path / "starts")!r}, "a").write("x")
        def answer(request):
            if request["op"] == "poison":
                os._exit(9)
            return [{{"id": request["id"], "ok": "fine"}}]
        """
    pipe = Pipe(Program(child(body)))
    with pytest.raises(TryAgain, match="ended 8 times"):
        pipe.call("poison")
    assert pipe.call("ask") == "fine"
    assert (tmp_path / "starts").read_text() == "x" * 9


@pytest.mark.parametrize("arrived", [0, 1, 2, 3])
def test_entries_without_a_uuid_are_not_sent_twice(child: Make, tmp_path: Path, arrived: int) -> None:
    body = f"""
        place = {str(tmp_path / "stored")!r}
        def stored():
            return [json.loads(line) for line in open(place)] if os.path.exists(place) else []
        def answer(request):
            if request["op"] == "read":
                return [{{"id": request["id"], "ok": {{"entries": stored(), "cursor": "c", "more": False, "again": False}}}}]
            entries = request["entries"]
            if not os.path.exists(place):
                # The first time it dies in the middle.
                with open(place, "w") as file:
                    file.write("".join(json.dumps(entry) + "\\n" for entry in entries[:{arrived}]))
                os._exit(9)
            have = {{entry.get("uuid") for entry in stored()}}
            with open(place, "a") as file:
                for entry in entries:
                    if "uuid" not in entry or entry["uuid"] not in have:
                        file.write(json.dumps(entry) + "\\n")
            return [{{"id": request["id"], "ok": None}}]
        """
    pipe = Pipe(Program(child(body)))
    entries = [{"type": "title"}, {"type": "user", "uuid": "1"}, {"type": "title"}]
    pipe.call("append", key={"project_key": "p", "session_id": "s"}, entries=entries)
    assert [json.loads(line) for line in (tmp_path / "stored").read_text().splitlines()] == entries


# A store on the disk that does with each append what is next in its plan: keeps so many entries, then answers, refuses or dies.
PLANNED = """
    place, plan, expected = {place!r}, {plan!r}, []
    def stored():
        return [json.loads(line) for line in open(place)] if os.path.exists(place) else []
    def answer(request):
        if request["op"] == "read":
            page = {{"entries": stored(), "cursor": "c", "more": False, "again": False}}
            return [{{"id": request["id"], "ok": page}}]
        counter = place + ".count"
        open(counter, "a").write("x")
        number = os.path.getsize(counter)
        kept, outcome = plan[number - 1] if number <= len(plan) else (None, "ok")
        have = {{entry["uuid"] for entry in stored() if "uuid" in entry}}
        fresh = [entry for entry in request["entries"] if entry.get("uuid") not in have]
        if request["entries"] in expected:
            # The process that kept something and said "try again" takes the same as the same, once.
            expected.remove(request["entries"])
            fresh = []
        if outcome == "unavailable":
            expected.append(request["entries"])
        with open(place, "a") as file:
            file.write("".join(json.dumps(entry) + "\\n" for entry in fresh[:kept]))
        if outcome == "die":
            os._exit(9)
        return [{{"id": request["id"], **({{"ok": None}} if outcome == "ok" else {{"err": "words", "code": outcome}})}}]
    """


@pytest.mark.parametrize(
    "plan",
    [
        [(None, "unavailable")],
        [(None, "unavailable"), (0, "die")],
        [(None, "die"), (0, "busy")],
        [(None, "die"), (None, "unavailable"), (0, "die")],
        [(1, "die"), (0, "busy"), (0, "die")],
        [(1, "die")] * 8,
        [(None, "internal")],
    ],
)
def test_an_append_that_failed_is_not_doubled_when_the_caller_repeats_it(
    child: Make, tmp_path: Path, plan: list[Any]
) -> None:
    pipe = Pipe(Program(child(PLANNED.format(place=str(tmp_path / "stored"), plan=plan))))
    key = {"project_key": "p", "session_id": "s"}
    entries = [{"type": "title"}, {"type": "user", "uuid": "1"}, {"type": "title"}]
    with pytest.raises(UnforgetError):
        pipe.call("append", key=key, entries=entries)
    pipe.call("append", key=key, entries=entries)
    pipe.call("append", key=key, entries=entries)
    stored = [json.loads(line) for line in (tmp_path / "stored").read_text().splitlines()]
    assert stored == [*entries, entries[0], entries[2]], "once more is once more"


def test_what_an_earlier_process_stored_is_not_taken_for_what_was_lost(child: Make, tmp_path: Path) -> None:
    (tmp_path / "stored").write_text('{"type": "tick"}\n')
    pipe = Pipe(Program(child(PLANNED.format(place=str(tmp_path / "stored"), plan=[(0, "die")]))))
    pipe.call("append", key={"project_key": "p", "session_id": "s"}, entries=[{"type": "tick"}])
    assert (tmp_path / "stored").read_text() == '{"type": "tick"}\n' * 2


def test_requests_of_one_key_keep_their_order_around_an_append_without_uuids(child: Make, tmp_path: Path) -> None:
    plan = [(None, "ok"), (1, "die"), (None, "ok"), (0, "die")]
    pipe = Pipe(Program(child(PLANNED.format(place=str(tmp_path / "stored"), plan=plan))))
    key = {"project_key": "p", "session_id": "s"}
    entries = [{"type": "x", "n": n, **({"uuid": str(n)} if n % 3 == 0 else {})} for n in range(30)]
    futures = [pipe.submit("append", {"key": key, "entries": [entry]}) for entry in entries]
    read = pipe.submit("read", {"key": key, "cursor": None})
    for future in futures:
        future.result(60)
    assert read.result(60)["entries"] == entries
    pipe._users = 1
    pipe.close()


def test_closing_waits_for_an_append_without_uuids(child: Make, tmp_path: Path) -> None:
    plan = [(0, "die"), (0, "die")]
    pipe = Pipe(Program(child(PLANNED.format(place=str(tmp_path / "stored"), plan=plan))))
    key = {"project_key": "p", "session_id": "s"}
    futures = [pipe.submit("append", {"key": key, "entries": [{"n": n}]}) for n in range(3)]
    pipe._users = 1
    pipe.close()
    assert [future.result(0) for future in futures] == [None] * 3
    assert len((tmp_path / "stored").read_text().splitlines()) == 3


def test_closing_waits_for_an_errand_between_two_of_its_questions(child: Make) -> None:
    pipe = Pipe(Program(child("def answer(request): return [{'id': request['id'], 'ok': 1}]")))
    pipe.call("ask")
    between, closing = threading.Event(), threading.Event()

    def steps() -> Asking[None]:
        yield Ask("first", {})
        between.set()
        closing.wait(60)
        yield Ask("second", {})

    errand = Errand("p\ns", steps())
    with pipe._changed:
        pipe._queue.append(errand)
        pipe._changed.notify_all()
    between.wait(60)
    pipe._users = 1
    closer = threading.Thread(target=pipe.close)
    closer.start()
    with pipe._changed:
        pipe._changed.wait_for(lambda: pipe._is_closing, 60)
    writer = pipe._writer
    assert writer is not None
    # A thread that writes and does not wait has ended by now, and nobody will send the second question.
    writer.join(0.2)
    closing.set()
    closer.join(60)
    assert errand.future.result(0) is None


def test_what_was_acknowledged_with_the_same_words_is_not_taken_for_what_was_lost(child: Make, tmp_path: Path) -> None:
    """The second of two equal entries was lost with the child: it is sent again, although one like it is there."""
    body = f"""
        place = {str(tmp_path / "stored")!r}
        def stored():
            return [json.loads(line) for line in open(place)] if os.path.exists(place) else []
        def answer(request):
            if request["op"] == "read":
                return [{{"id": request["id"], "ok": {{"entries": stored(), "cursor": "c", "more": False, "again": False}}}}]
            if len(stored()) == 1 and not os.path.exists(place + ".died"):
                open(place + ".died", "w")
                os._exit(9)
            with open(place, "a") as file:
                file.write("".join(json.dumps(entry) + "\\n" for entry in request["entries"]))
            return [{{"id": request["id"], "ok": None}}]
        """
    pipe = Pipe(Program(child(body)))
    for _ in range(3):
        pipe.call("append", key={"project_key": "p", "session_id": "s"}, entries=[{"type": "tick"}])
    assert (tmp_path / "stored").read_text() == '{"type": "tick"}\n' * 3


# Many who ask, and several processes.


def test_two_event_loops_and_threads_share_one_child(home_place: dict[str, Any], unique: Make) -> None:
    project = unique("p")
    with UnforgetSessionStore(**home_place) as store, UnforgetSessionStore(**home_place) as other:
        assert pipe_of(store) is pipe_of(other)
        together = threading.Barrier(4)

        async def talk(number: int) -> None:
            key = {"project_key": project, "session_id": str(number)}
            together.wait()
            for n in range(50):
                await (store if n % 2 else other).append(key, [{"type": "x", "uuid": str(n)}])
            assert [entry["uuid"] for entry in await store.load(key) or []] == [str(n) for n in range(50)]

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(lambda number: asyncio.run(talk(number)), range(4)))


def test_the_loop_goes_on_while_an_answer_is_awaited(child: Make) -> None:
    """The child answers only when told to by a second request, which a loop that was held up could not send."""
    body = """
        kept = []
        def answer(request):
            kept.append({"id": request["id"], "ok": None})
            return kept if request["op"] == "second" else []
        """
    pipe = Pipe(Program(child(body)))

    async def main() -> None:
        first = asyncio.ensure_future(pipe.acall("first"))
        await asyncio.sleep(0)
        await pipe.acall("second")
        await first

    asyncio.run(asyncio.wait_for(main(), 30))


def test_who_stops_waiting_disturbs_nobody(home_place: dict[str, Any], unique: Make) -> None:
    async def main() -> None:
        async with UnforgetSessionStore(**home_place) as store:
            key = {"project_key": unique("p"), "session_id": "s"}
            for n in range(20):
                task = asyncio.ensure_future(store.append(key, [{"type": "x", "uuid": str(n)}]))
                await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            await store.append(key, [{"type": "x", "uuid": "last"}])
            entries = await store.load(key) or []
            assert entries[-1]["uuid"] == "last"
            numbers = [int(entry["uuid"]) for entry in entries[:-1]]
            assert numbers == sorted(set(numbers))

    asyncio.run(main())


def test_the_child_ends_with_the_last_who_uses_it(home_place: dict[str, Any], unique: Make) -> None:
    first, second = UnforgetSessionStore(**home_place), UnforgetSessionStore(**home_place)
    pipe = pipe_of(first)
    key = {"project_key": unique("p"), "session_id": "s"}
    asyncio.run(first.append(key, [{"type": "a"}]))
    running = pipe._child
    assert running is not None
    first.close()
    first.close()
    assert pipe.pid is not None
    assert asyncio.run(second.load(key)) == [{"type": "a"}]
    second.close()
    assert running._process.returncode == 0
    with pytest.raises(UnforgetError, match="closed"):
        asyncio.run(second.load(key))


def test_a_forked_process_has_a_child_of_its_own(home_place: dict[str, Any], unique: Make) -> None:
    project = unique("p")
    store = UnforgetSessionStore(**home_place)
    ours = {"project_key": project, "session_id": "ours"}
    theirs = {"project_key": project, "session_id": "theirs"}
    asyncio.run(store.append(ours, [{"type": "a"}]))
    running = pipe_of(store)._child
    assert running is not None
    ready, readied = os.pipe()
    hold, release = os.pipe()
    forked = os.fork()
    if forked == 0:
        status = 1
        try:
            assert pipe_of(store)._child is None
            asyncio.run(store.append(theirs, [{"type": "b"}]))
            assert asyncio.run(store.load(ours)) == [{"type": "a"}]
            assert pipe_of(store).pid != running.pid
            os.write(readied, b"x")
            os.close(release)
            os.read(hold, 1)
            store.close()
            status = 0
        finally:
            os._exit(status)
    os.close(readied)
    assert os.read(ready, 1) == b"x"
    assert asyncio.run(store.load(theirs)) == [{"type": "b"}]
    # The forked one still runs, and must not keep our child from noticing the end.
    store.close()
    assert running._process.returncode == 0
    os.close(release)
    assert os.waitpid(forked, 0)[1] == 0


def test_a_program_that_ends_without_closing_leaves_no_process(home_place: dict[str, Any]) -> None:
    script = """
        import asyncio, sys
        from unforget import UnforgetSessionStore
        store = UnforgetSessionStore(home=sys.argv[1])
        asyncio.run(store.append({"project_key": "p", "session_id": "s"}, [{"type": "a"}]))
        print(store._transport.pid)
        """
    command = [sys.executable, "-c", textwrap.dedent(script), str(home_place["home"])]
    pid = int(subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_an_interrupt_from_the_keyboard_is_not_for_the_child(home_place: dict[str, Any], unique: Make) -> None:
    with UnforgetSessionStore(**home_place) as store:
        key = {"project_key": unique("p"), "session_id": "s"}
        asyncio.run(store.append(key, [{"type": "a"}]))
        pid = pipe_of(store).pid
        assert pid is not None
        assert os.getpgid(pid) != os.getpgid(0)
        os.kill(pid, signal.SIGKILL)
        assert asyncio.run(store.load(key)) == [{"type": "a"}]


def test_an_entry_that_is_too_deep_to_be_read_is_nobody_elses_trouble(tmp_path: Path) -> None:
    key, deep = {"project_key": "p", "session_id": "shallow"}, {"project_key": "p", "session_id": "deep"}
    entry = '{"type":"x","deep":' + "[" * 5000 + "]" * 5000 + "}"
    request = f'{{"op":"append","key":{json.dumps(deep)},"entries":[{entry}]}}\n'
    program = [find(), "store", "--stdio", f"--home={tmp_path}"]
    assert '"ok":null' in subprocess.run(program, input=request, capture_output=True, text=True, check=True).stdout

    async def main() -> None:
        async with UnforgetSessionStore(home=tmp_path) as store:
            await store.append(key, [{"type": "x"}])
            pid = pipe_of(store).pid
            with pytest.raises(UnforgetError, match="nested"):
                await store.load(deep)
            assert await store.load(key) == [{"type": "x"}]
            assert pipe_of(store).pid == pid, "the child goes on"

    asyncio.run(main())
