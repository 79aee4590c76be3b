"""The real Claude Agent SDK with its command line, offline: sessions go on elsewhere, and what is sent is the same."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import (
    ClaudeAgentOptions,
    ResultMessage,
    SystemMessage,
    fork_session_via_store,
    get_session_messages_from_store,
    list_sessions_from_store,
    list_subagents_from_store,
    query,
)
from end_to_end import Machine, Sent

from unforget import UnforgetSessionStore

TOOLS = ["Bash", "Read", "Write", "Agent", "Task"]


async def ask(machine: Machine, store: Any, prompt: str, config: str, cwd: Path, **options: Any) -> ResultMessage:
    """Answers a prompt; a batch that could not be kept is a failure, not a message among others."""
    result = None
    given = ClaudeAgentOptions(
        cwd=str(cwd), env=machine.environment(config), session_store=store, allowed_tools=TOOLS, **options
    )
    async for message in query(prompt=prompt, options=given):
        assert not (isinstance(message, SystemMessage) and message.subtype == "mirror_error"), message
        if isinstance(message, ResultMessage):
            result = message
    assert result is not None and not result.is_error, result
    return result


def assert_same(one: Sent, other: Sent) -> None:
    """Says where two requests differ, if they do: they are too long to be printed."""
    for name in ("system", "tools", "messages"):
        first, second = one.part(name), other.part(name)
        if first != second:
            at = next((n for n, (a, b) in enumerate(zip(first, second)) if a != b), min(len(first), len(second)))
            near = slice(max(0, at - 200), at + 200)
            pytest.fail(f"`{name}` differs at {at} of {len(first)}:\n{first[near]}\n{second[near]}")


@pytest.mark.slow
@pytest.mark.parametrize("flush", ["batched", "eager"])
def test_a_session_goes_on_in_another_folder(
    place: dict[str, Any],
    unique: Callable[[str], str],
    machine: Machine,
    flush: Any,
) -> None:
    project = unique("project")
    here, there = machine.cwd("here"), machine.cwd("thére 😀")

    async def main() -> None:
        async with UnforgetSessionStore(**place, project=project) as store:
            first = await ask(
                machine, store, "remember BANANA [[bash:echo out-$((40+2))]]", "a", here, session_store_flush=flush
            )
            session = first.session_id
            assert "out-42" in str(first.result)
            # A sub-agent writes beneath the session.
            await ask(
                machine, store, "and now [[agent:find ORANGE]]", "a", here, resume=session, session_store_flush=flush
            )
            key: Any = {"project_key": "", "session_id": session}
            (subkey,) = await store.list_subkeys(key)
            assert subkey.startswith("subagents/agent-")

        # Another process, another folder, another configuration.
        async with UnforgetSessionStore(**place, project=project) as store:
            resumed = await ask(machine, store, "[[recall]]", "b", there, resume=session, session_store_flush=flush)
            assert resumed.session_id == session
            assert "remember BANANA" in str(resumed.result)
            newest = await ask(machine, store, "and [[recall]]", "c", here, continue_conversation=True)
            assert newest.session_id == session
            assert "remember BANANA" in str(newest.result)

            forked = await fork_session_via_store(store, session, directory=str(there))
            other = await ask(machine, store, "forked [[recall]]", "d", here, resume=forked.session_id)
            assert other.session_id == forked.session_id != session
            assert "remember BANANA" in str(other.result)

            listed = await list_sessions_from_store(store, directory=str(there))
            assert {one.session_id for one in listed} == {session, forked.session_id}
            assert "remember BANANA" in str(next(one for one in listed if one.session_id == session).first_prompt)
            messages = await get_session_messages_from_store(store, session, directory=str(here))
            assert "remember BANANA" in str(messages[0].message)
            assert len(await list_subagents_from_store(store, session, directory=str(here))) == 1
            uuids = [entry["uuid"] for entry in await store.load(key) or [] if "uuid" in entry]
            assert len(uuids) == len(set(uuids))

    asyncio.run(main())


@pytest.mark.slow
def test_a_resumed_session_sends_the_same_bytes(
    place: dict[str, Any],
    unique: Callable[[str], str],
    machine: Machine,
) -> None:
    here = machine.cwd("here")
    last = "the last prompt"

    async def main() -> str:
        async with UnforgetSessionStore(**place, project=unique("project")) as store:
            first = await ask(machine, store, "remember é😀 BANANA [[bash:echo out-$((40+2))]]", "a", here)
            # What stayed at home is the first turn's own file; what is resumed comes from the store alone.
            shutil.copytree(machine.folder / "a", machine.folder / "home-config")
            await ask(machine, store, last, "b", here, resume=first.session_id)
            return first.session_id

    session = asyncio.run(main())
    away = machine.conversation(session)[-1]
    before = len(machine.conversation(session))
    asyncio.run(ask(machine, None, last, "home-config", here, resume=session))
    at_home = machine.conversation(session)
    assert len(at_home) == before + 1, "one prompt, one request"
    for part in ["BANANA", '"type":"tool_result"', last]:
        assert part in away.part("messages")
    assert_same(at_home[-1], away)
