"""The session store of the Claude Agent SDK: its own suite, and what that does not ask."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import InMemorySessionStore, fold_session_summary, list_sessions_from_store
from claude_agent_sdk.testing import run_session_store_conformance

from unforget import UnforgetSessionStore
from unforget._pipe import Pipe
from unforget.errors import InvalidRequest

Make = Callable[[str], str]


class Apart(UnforgetSessionStore):
    """A store whose projects are nobody else's, on a server that has many."""

    def __init__(self, prefix: str, **place: Any) -> None:
        super().__init__(**place)
        self._prefix = prefix

    def _name(self, project_key: str) -> str:
        return f"{self._prefix}/{project_key}"


def test_the_suite_of_the_sdk(places: Callable[[], dict[str, Any]], unique: Make) -> None:
    made: list[UnforgetSessionStore] = []

    def make() -> UnforgetSessionStore:
        made.append(Apart(unique("suite"), **places()))
        return made[-1]

    asyncio.run(run_session_store_conformance(make))
    # One for each contract, and one to look at: nothing was skipped.
    assert len(made) == 15
    for store in made:
        store.close()


@pytest.fixture
def project(unique: Make) -> str:
    return unique("project")


def numbered(count: int, start: int = 0) -> list[dict[str, Any]]:
    return [{"type": "user", "uuid": f"u{n}", "n": n} for n in range(start, start + count)]


def test_a_batch_that_is_sent_again_changes_nothing(place: dict[str, Any], project: str) -> None:
    async def main() -> None:
        async with UnforgetSessionStore(**place) as store:
            key = {"project_key": project, "session_id": "s"}
            await store.append(key, numbered(3))
            await store.append(key, numbered(3))
            await store.append(key, [*numbered(2, 2), {"type": "title"}, {"type": "title"}, *numbered(2, 3)])
            wanted = [*numbered(4), {"type": "title"}, {"type": "title"}, *numbered(1, 4)]
            assert await store.load(key) == [*wanted[:4], *wanted[4:]]
            # The same uuids in another place are other entries.
            beneath = {**key, "subpath": "subagents/agent-1"}
            await store.append(beneath, numbered(3))
            assert await store.load(beneath) == numbered(3)

    asyncio.run(main())


def test_members_keep_their_order_and_texts_their_characters(place: dict[str, Any], project: str) -> None:
    text = '{"type":"user","zebra":1,"apple":{"y":[],"x":{}},"uuid":"1","text":"é😀\u2028\\u0000\\ud83d","small":1e-7}'

    async def main() -> None:
        async with UnforgetSessionStore(**place) as store:
            key = {"project_key": project, "session_id": "s"}
            await store.append(key, [json.loads(text)])
            (loaded,) = await store.load(key) or []
            assert list(loaded) == list(json.loads(text))
            assert list(loaded["apple"]) == ["y", "x"]
            assert loaded == json.loads(text)

    asyncio.run(main())


@pytest.mark.parametrize(
    "name", ["emoji 😀/ü", "../..", "/etc/passwd", "a\\b", "x" * 4096, "ends with .", "CON", " ", "%2e"]
)
def test_a_name_may_be_any_text(place: dict[str, Any], unique: Make, name: str) -> None:
    project = unique("p") + name if len(name) < 4000 else unique("p")

    async def main() -> None:
        async with UnforgetSessionStore(**place) as store:
            key = {"project_key": project, "session_id": name}
            await store.append(key, [{"type": "a"}])
            await store.append({**key, "subpath": name}, [{"type": "b"}])
            assert await store.load(key) == [{"type": "a"}]
            assert await store.load({**key, "subpath": name}) == [{"type": "b"}]
            assert [one["session_id"] for one in await store.list_sessions(project)] == [name]
            assert await store.list_subkeys(key) == [name]
            assert await store.load({**key, "session_id": name[:-1] + "?"}) is None

    asyncio.run(main())


@pytest.mark.parametrize("name", ["a\nb", "\x00", "", "x" * 4097])
def test_a_name_that_cannot_be_is_refused(place: dict[str, Any], project: str, name: str) -> None:
    async def main() -> None:
        async with UnforgetSessionStore(**place) as store:
            for key in [
                {"project_key": name, "session_id": "s"},
                {"project_key": project, "session_id": name},
                {"project_key": project, "session_id": "s", "subpath": name},
            ]:
                with pytest.raises(InvalidRequest):
                    await store.append(key, [{"type": "a"}])
            assert await store.list_sessions(project) == []

    asyncio.run(main())


def test_what_a_list_shows_is_what_the_sdk_makes_of_it(place: dict[str, Any], project: str) -> None:
    entries = [
        {"type": "user", "uuid": "1", "timestamp": "2026-01-02T03:04:05.678Z", "cwd": "/home/ada/notes", "gitBranch": "main",
         "sessionId": "s", "message": {"role": "user", "content": "  remember the\nmilk  "}},
        {"type": "assistant", "uuid": "2", "timestamp": "2026-01-02T03:04:06Z", "message": {"role": "assistant"}},
        {"type": "custom-title", "customTitle": "Milk 🥛", "sessionId": "s"},
        {"type": "tag", "tag": "home", "sessionId": "s"},
        {"type": "last-prompt", "lastPrompt": "and butter", "sessionId": "s"},
    ]  # fmt: skip

    async def main() -> None:
        async with UnforgetSessionStore(**place, project=project) as store:
            key = {"project_key": "ignored", "session_id": "s"}
            for entry in entries:
                await store.append(key, [entry])
            (summary,) = await store.list_session_summaries("ignored")
            assert summary["data"] == fold_session_summary(None, key, entries)["data"]
            reference = InMemorySessionStore()
            await reference.append(key, entries)
            assert (await reference.list_session_summaries("ignored"))[0]["data"] == summary["data"]

    asyncio.run(main())


def test_a_named_project_is_the_same_in_every_folder(place: dict[str, Any], project: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with UnforgetSessionStore(**place, project=project) as store:
            here = {"project_key": "-home-alice-app", "session_id": "3f6c1c3c-26cb-4c92-9f38-52ecb8dbd3c4"}
            there = {**here, "project_key": "-home-bob-emoji--x"}
            user = {"type": "user", "uuid": "1", "timestamp": "2026-01-02T03:04:05Z", "message": {"content": "hello"}}
            await store.append(here, [user])
            await store.append({**here, "subpath": "subagents/agent-1"}, [user])
            assert await store.load(there) == [user]
            assert await store.list_subkeys(there) == ["subagents/agent-1"]
            for name in ["a", "emoji😀x"]:
                folder = tmp_path / name
                folder.mkdir()
                listed = await list_sessions_from_store(store, directory=str(folder))
                assert [one.session_id for one in listed] == [here["session_id"]]
            await store.delete(there)
            assert await store.load(here) is None
        async with UnforgetSessionStore(**place) as plain:
            assert await plain.list_sessions(project) == []

    asyncio.run(main())


@pytest.mark.slow
def test_a_session_of_a_hundred_megabytes(place: dict[str, Any], project: str) -> None:
    piece = "0123456789abcdef" * 1250
    batches = [[{"type": "user", "uuid": f"{b}-{n}", "text": piece} for n in range(50)] for b in range(100)]

    async def main() -> None:
        async with UnforgetSessionStore(**place) as store:
            key = {"project_key": project, "session_id": "s"}
            for batch in batches:
                await store.append(key, batch)
            loaded = await store.load(key)
            assert loaded == [entry for batch in batches for entry in batch]
            assert sum(len(entry["text"]) for entry in loaded) == 100_000_000

    asyncio.run(main())


def test_a_child_that_is_killed_under_load_loses_and_doubles_nothing(home_place: dict[str, Any], project: str) -> None:
    sessions, rounds, kills = 64, 12, 6
    acknowledged = 0
    killed: list[int] = []

    def entries(session: int, turn: int) -> list[dict[str, Any]]:
        marks = [{"type": "mode", "turn": turn}, {"type": "mode", "turn": turn}]
        return [marks[0], {"type": "user", "uuid": f"{turn}", "session": session}, marks[1]]

    async def talk(store: UnforgetSessionStore, session: int) -> None:
        nonlocal acknowledged
        for turn in range(rounds):
            await store.append({"project_key": project, "session_id": str(session)}, entries(session, turn))
            acknowledged += 1
            if acknowledged % (sessions * rounds // (kills + 1)) == 0 and len(killed) < kills:
                assert isinstance(store._transport, Pipe)
                pid = store._transport.pid
                if pid is not None:
                    killed.append(pid)
                    os.kill(pid, signal.SIGKILL)

    async def main() -> None:
        async with UnforgetSessionStore(**home_place) as store:
            await asyncio.gather(*(talk(store, session) for session in range(sessions)))
        async with UnforgetSessionStore(**home_place) as fresh:
            for session in range(sessions):
                loaded = await fresh.load({"project_key": project, "session_id": str(session)})
                assert loaded == [entry for turn in range(rounds) for entry in entries(session, turn)]

    asyncio.run(main())
    assert len(set(killed)) == kills, "they were other processes each time"


HOST = """
    import asyncio, json, sys
    from unforget import UnforgetSessionStore

    async def talk(store, session):
        for n in range(100_000):
            key = {"project_key": sys.argv[2], "session_id": session}
            await store.append(key, [{"type": "user", "uuid": f"{n}", "n": n}, {"type": "mode", "n": n}])
            print(json.dumps([session, n]), flush=True)

    async def main():
        store = UnforgetSessionStore(**json.loads(sys.argv[1]))
        await asyncio.gather(*(talk(store, str(session)) for session in range(8)))

    asyncio.run(main())
    """


def test_a_host_that_is_killed_loses_nothing_that_it_was_told(home_place: dict[str, Any], project: str) -> None:
    arguments = json.dumps({name: str(value) for name, value in home_place.items()})
    command = [sys.executable, "-c", textwrap.dedent(HOST), arguments, project]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout is not None
        told = [json.loads(host.stdout.readline()) for _ in range(200)]
        host.kill()
        told += [json.loads(line) for line in host.stdout if line.endswith("\n")]
    assert host.returncode == -signal.SIGKILL
    last = {session: n for session, n in told}
    assert len(last) == 8

    async def main() -> None:
        async with UnforgetSessionStore(**home_place) as store:
            for session, n in last.items():
                key = {"project_key": project, "session_id": session}
                loaded = await store.load(key) or []
                numbers = [(entry["type"], entry["n"]) for entry in loaded]
                wanted = [(kind, number) for number in range(n + 2) for kind in ("user", "mode")]
                # Beyond what was told, the batch that was on its way may be there, or its beginning.
                assert numbers[: 2 * (n + 1)] == wanted[: 2 * (n + 1)]
                assert numbers == wanted[: len(numbers)]
                await store.append(key, [{"type": "user", "uuid": "after"}])
                # The store that the host left behind may still be writing what it had heard.
                assert {"type": "user", "uuid": "after"} in (await store.load(key) or [])

    asyncio.run(main())


def test_importing_needs_no_sdk() -> None:
    script = """
        import sys
        for name in ["claude_agent_sdk", "agents", "langgraph"]:
            sys.modules[name] = None
        import unforget.claude, unforget.openai_agents, unforget.sessions
        from unforget import AsyncSessions, OpenAIAgentsSession, UnforgetSessionStore
        """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True)
