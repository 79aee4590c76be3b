"""With a remote: a session goes on from another home, and nothing is lost while the remote is away."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import TOKENS, URL

from unforget import OpenAIAgentsSession, UnforgetSessionStore
from unforget.errors import InvalidRequest, TryAgain

Make = Callable[[str], str]
KEY: Any = {"project_key": "p", "session_id": "s"}


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    folder = tmp_path / "remote"
    folder.mkdir()
    return folder


def store(home: Path, remote: Path, **more: Any) -> UnforgetSessionStore:
    return UnforgetSessionStore(home=home, remote=f"file://{remote}", **more)


def test_p8_a_remote_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "missing"

    async def main() -> None:
        async with store(tmp_path / "home", missing, ack="remote") as away:
            for asked in (away.append(KEY, [{"type": "user", "uuid": "1"}]), away.load({**KEY, "session_id": "other"})):
                with pytest.raises(TryAgain, match=f"there is no directory {missing}.*mkdir -p") as caught:
                    await asked
                assert caught.value.code == "unavailable"
            missing.mkdir()
            await away.append(KEY, [{"type": "user", "uuid": "1"}])
            assert await away.load(KEY) == [{"type": "user", "uuid": "1"}]

    asyncio.run(asyncio.wait_for(main(), 300))


def test_a_session_goes_on_from_another_home(tmp_path: Path, remote: Path) -> None:
    async def main() -> None:
        async with store(tmp_path / "a", remote, ack="remote") as here, store(tmp_path / "b", remote) as there:
            await here.append(KEY, [{"type": "user", "uuid": "1"}])
            assert await there.load(KEY) == [{"type": "user", "uuid": "1"}]
            await there.append(KEY, [{"type": "user", "uuid": "2"}])
            assert await here.load(KEY) == [{"type": "user", "uuid": "1"}, {"type": "user", "uuid": "2"}]
            assert [one["session_id"] for one in await here.list_sessions("p")] == ["s"]

    asyncio.run(main())


def test_tenants_are_apart(tmp_path: Path, remote: Path) -> None:
    async def main() -> None:
        async with (
            store(tmp_path / "a", remote, tenant="ada") as ada,
            store(tmp_path / "b", remote, tenant="bob") as bob,
        ):
            await ada.append(KEY, [{"type": "user", "uuid": "1"}])
            assert await bob.load(KEY) is None

    asyncio.run(main())


def test_two_homes_never_get_the_same_item(tmp_path: Path, remote: Path) -> None:
    async def main() -> None:
        sessions = [OpenAIAgentsSession("s", home=tmp_path / name, remote=f"file://{remote}") for name in "ab"]
        await sessions[0].add_items([{"role": "user", "content": str(n)} for n in range(6)])
        popped: Any = await asyncio.gather(*(session.pop_item() for session in sessions * 3))
        assert await sessions[0].get_items() == await sessions[1].get_items()
        assert sorted(item["content"] for item in popped) == [str(n) for n in range(6)]
        for session in sessions:
            await session.aclose()

    asyncio.run(main())


def test_a_remote_that_is_away_is_waited_for_only_where_that_was_asked(tmp_path: Path, remote: Path) -> None:
    entries: Any = [{"type": "user", "uuid": "1"}]
    more: Any = [{"type": "mode"}, {"type": "user", "uuid": "2"}]

    async def main() -> None:
        async with store(tmp_path / "a", remote) as here:
            remote.rename(tmp_path / "away")
            await here.append(KEY, entries)
            assert await here.load(KEY) == entries
        async with store(tmp_path / "a", remote, ack="remote") as here:
            with pytest.raises(TryAgain) as caught:
                await here.append(KEY, more)
            assert caught.value.code == "unavailable"
            (tmp_path / "away").rename(remote)
            # The same again is the same, also what has no uuid.
            await here.append(KEY, more)
            # And once more is once more.
            await here.append(KEY, more)
        async with store(tmp_path / "b", remote) as there:
            assert await there.load(KEY) == [*entries, *more, {"type": "mode"}]

    asyncio.run(main())


def test_what_was_kept_for_a_remote_is_not_doubled_if_the_process_dies(tmp_path: Path, remote: Path) -> None:
    entries: Any = [{"type": "mode"}, {"type": "user", "uuid": "1"}, {"type": "mode"}]

    async def main() -> None:
        async with store(tmp_path / "a", remote, ack="remote") as here:
            await here.append(KEY, [{"type": "mode"}])
            remote.rename(tmp_path / "away")
            with pytest.raises(TryAgain):
                await here.append(KEY, entries)
            pid = here._transport.pid  # type: ignore[attr-defined]
            os.kill(pid, signal.SIGKILL)
            (tmp_path / "away").rename(remote)
            # It is noticed now, so that what follows is not asked of the one that died.
            await here.list_sessions("other")
            assert here._transport.pid != pid  # type: ignore[attr-defined]
            await here.append(KEY, entries)
        async with store(tmp_path / "b", remote) as there:
            assert await there.load(KEY) == [{"type": "mode"}, *entries]

    asyncio.run(main())


def test_a_remote_can_be_done_without(tmp_path: Path, remote: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNFORGET_REMOTE", f"file://{remote}")

    async def main() -> None:
        async with UnforgetSessionStore(home=tmp_path / "a", remote=False) as here:
            await here.append(KEY, [{"type": "mode"}])
        async with UnforgetSessionStore(home=tmp_path / "b") as there:
            assert await there.load(KEY) is None

    asyncio.run(main())
    with pytest.raises(InvalidRequest, match="needs a remote"):
        UnforgetSessionStore(home=tmp_path, remote=False, ack="remote")


def test_waiting_for_a_remote_needs_one(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="needs a remote"):
        UnforgetSessionStore(home=tmp_path, ack="remote")


@pytest.mark.skipif(len(TOKENS) < 2, reason="needs UNFORGET_TEST_URL and two UNFORGET_TEST_TOKENS")
def test_people_at_a_server_are_apart(unique: Make) -> None:
    async def main() -> None:
        key: Any = {"project_key": unique("p"), "session_id": "s"}
        async with (
            UnforgetSessionStore(url=URL, token=TOKENS[0]) as ada,
            UnforgetSessionStore(url=URL, token=TOKENS[1]) as bob,
        ):
            await ada.append(key, [{"type": "user", "uuid": "1"}])
            assert await bob.load(key) is None
            assert await bob.list_sessions(key["project_key"]) == []
            assert await ada.load(key) == [{"type": "user", "uuid": "1"}]

    asyncio.run(main())
