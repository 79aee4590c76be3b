"""The session of the OpenAI Agents SDK: it does what the SDK's own does, also for two processes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, ModelResponse, RunConfig, Runner, SQLiteSession, Usage
from agents.memory import Session, SessionSettings
from agents.models.interface import Model
from openai.types.responses import ResponseOutputMessage, ResponseOutputText

from unforget import OpenAIAgentsSession
from unforget.errors import TryAgain

Make = Callable[[str], str]


def said(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


@pytest.fixture
def project(unique: Make) -> str:
    return unique("openai")


def test_it_is_a_session_to_the_sdk(place: dict[str, Any], project: str) -> None:
    with OpenAIAgentsSession("s", **place, project=project) as session:
        assert isinstance(session, Session)
        assert session.session_id == "s"


async def same(ours: Any, theirs: Any, act: Callable[[Any], Any]) -> None:
    one, other = await act(ours), await act(theirs)
    assert one == other


def test_it_does_what_the_sdks_own_session_does(place: dict[str, Any], project: str) -> None:
    dice = random.Random(11)
    items: list[dict[str, Any]] = [
        said("hello"),
        {"role": "assistant", "content": [{"type": "output_text", "text": "é😀\u2028\n", "annotations": []}]},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", "n": 1.5, "none": None},
        {"type": "function_call_output", "call_id": "c", "output": "x" * 2000},
    ]

    async def main() -> None:
        theirs = SQLiteSession("s")
        async with OpenAIAgentsSession("s", **place, project=project) as ours:
            for _ in range(150):
                new = [{**dice.choice(items), "id": dice.random()} for _ in range(dice.randrange(4))]
                limit = dice.choice([None, -1, 0, 1, 2, 5, 1000])
                act = dice.choices(
                    [
                        lambda session, new=new: session.add_items(new),
                        lambda session: session.pop_item(),
                        lambda session, limit=limit: session.get_items(limit),
                        lambda session: session.clear_session(),
                    ],
                    [6, 3, 4, 0.3],
                )[0]
                await same(ours, theirs, act)
            await same(ours, theirs, lambda session: session.get_items())
            async with OpenAIAgentsSession("s", **place, project=project) as fresh:
                assert await fresh.get_items() == await theirs.get_items()
        theirs.close()

    asyncio.run(main())


def test_settings_say_how_many_items_there_are(place: dict[str, Any], project: str) -> None:
    async def main() -> None:
        for settings in [SessionSettings(limit=2), {"limit": 2}]:
            async with OpenAIAgentsSession("s", **place, project=project, session_settings=settings) as session:
                await session.clear_session()
                await session.add_items([said(str(n)) for n in range(4)])
                assert session.session_settings == SessionSettings(limit=2)
                assert await session.get_items() == [said("2"), said("3")]
                assert await session.get_items(3) == [said("1"), said("2"), said("3")]

    asyncio.run(main())


def test_what_was_got_may_be_changed(place: dict[str, Any], project: str) -> None:
    async def main() -> None:
        async with OpenAIAgentsSession("s", **place, project=project) as session:
            await session.add_items([{"role": "user", "content": [{"text": "a"}]}])
            got: Any = await session.get_items()
            got[0]["content"][0]["text"] = "b"
            assert await session.get_items() == [{"role": "user", "content": [{"text": "a"}]}]

    asyncio.run(main())


def test_sessions_and_projects_are_apart(place: dict[str, Any], unique: Make) -> None:
    async def main() -> None:
        first, second = unique("p"), unique("p")
        for project, name in [(first, "a"), (first, "b"), (second, "a")]:
            async with OpenAIAgentsSession(name, **place, project=project) as session:
                assert await session.get_items() == []
                await session.add_items([said(f"{project}/{name}")])
                assert await session.get_items() == [said(f"{project}/{name}")]

    asyncio.run(main())


OTHER = """
    import asyncio, json, sys
    from unforget import OpenAIAgentsSession
    from unforget.errors import TryAgain

    async def pop(session):
        for _ in range(100):
            try:
                return await session.pop_item()
            except TryAgain:
                pass
        raise TimeoutError("the session is never free")

    async def main():
        session = OpenAIAgentsSession("s", **json.loads(sys.argv[1]))
        await session.get_items()
        print("ready", flush=True)
        sys.stdin.readline()
        while (item := await pop(session)) is not None:
            print(json.dumps(item), flush=True)

    asyncio.run(main())
    """


async def pop(session: OpenAIAgentsSession) -> Any:
    """Takes an item. On a busy machine the others may keep the session for longer than one attempt waits."""
    for _ in range(100):
        with contextlib.suppress(TryAgain):
            return await session.pop_item()
    raise TimeoutError("the session is never free")


def test_two_processes_never_get_the_same_item(place: dict[str, Any], project: str) -> None:
    arguments = {name: str(value) for name, value in {**place, "project": project}.items()}
    command = [sys.executable, "-c", textwrap.dedent(OTHER), json.dumps(arguments)]

    async def main() -> None:
        async with OpenAIAgentsSession("s", **place, project=project) as session:
            await session.add_items([said(str(n)) for n in range(60)])
            others = [
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)
            ]
            for other in others:
                assert other.stdout and other.stdout.readline() == "ready\n"
            for other in others:
                assert other.stdin
                other.stdin.write("go\n")
                other.stdin.flush()
            popped = []
            while (item := await pop(session)) is not None:
                popped.append(item)
            for other in others:
                popped += [json.loads(line) for line in other.communicate(timeout=300)[0].splitlines()]
                assert other.returncode == 0
            assert sorted(int(item["content"]) for item in popped) == list(range(60))
            assert await session.get_items() == []

    asyncio.run(main())


@pytest.mark.parametrize("failing", ["append", "read"])
def test_an_item_whose_removal_arrived_without_its_answer_is_returned_by_the_next_call(
    place: dict[str, Any], project: str, failing: str
) -> None:
    async def main() -> None:
        async with OpenAIAgentsSession("s", **place, project=project) as session:
            await session.add_items([said("first"), said("second")])
            acall, removed = session._transport.acall, False

            async def broken(op: str, /, **members: Any) -> Any:
                nonlocal removed
                answer = await acall(op, **members)
                removed = removed or op == "append"
                if removed and op == failing:
                    raise TryAgain("the answer got lost", "timeout")
                return answer

            session._transport.acall = broken  # type: ignore[method-assign]
            with pytest.raises(TryAgain):
                await session.pop_item()
            session._transport.acall = acall  # type: ignore[method-assign]
            assert await session.pop_item() == said("second")
            assert await session.pop_item() == said("first")
            assert await session.pop_item() is None

    asyncio.run(main())


def test_many_at_once_in_one_process_never_get_the_same_item(place: dict[str, Any], project: str) -> None:
    async def main() -> None:
        async with OpenAIAgentsSession("s", **place, project=project) as session:
            await session.add_items([said(str(n)) for n in range(12)])
            popped: Any = await asyncio.gather(*(session.pop_item() for _ in range(15)))
            assert sorted(int(item["content"]) for item in popped if item) == list(range(12))
            assert popped.count(None) == 3

    asyncio.run(main())


def test_what_another_process_said_is_there(place: dict[str, Any], project: str) -> None:
    script = """
        import asyncio, json, sys
        from unforget import OpenAIAgentsSession
        with OpenAIAgentsSession("s", **json.loads(sys.argv[1])) as session:
            asyncio.run(session.add_items([{"role": "user", "content": "from elsewhere"}]))
        """
    arguments = {name: str(value) for name, value in {**place, "project": project}.items()}

    async def main() -> None:
        async with OpenAIAgentsSession("s", **place, project=project) as session:
            await session.add_items([said("here")])
            assert await session.get_items() == [said("here")]
            subprocess.run([sys.executable, "-c", textwrap.dedent(script), json.dumps(arguments)], check=True)
            assert await session.get_items() == [said("here"), said("from elsewhere")]
            await session.add_items([said("again")])
            assert await session.get_items() == [said("here"), said("from elsewhere"), said("again")]

    asyncio.run(main())


def test_what_was_read_is_not_read_again(place: dict[str, Any], project: str) -> None:
    async def main() -> None:
        async with OpenAIAgentsSession("s", **place, project=project) as session:
            await session.add_items([said("x" * 1000) for _ in range(100)])
            await session.get_items()
            read = []
            acall = session._transport.acall

            async def watched(op: str, /, **members: Any) -> Any:
                answer = await acall(op, **members)
                if op == "read":
                    read.append(len(answer["entries"]))
                return answer

            session._transport.acall = watched  # type: ignore[method-assign]
            await session.add_items([said("new")])
            assert len(await session.get_items()) == 101
            assert len(await session.get_items()) == 101
            assert read == [1, 0]

    asyncio.run(main())


class Echo(Model):
    """A model that says how many items it was given."""

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any) -> ModelResponse:
        count = 1 if isinstance(input, str) else len(input)
        text = ResponseOutputText(type="output_text", text=f"{count} items", annotations=[])
        message = ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[text])
        return ModelResponse(output=[message], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


def test_a_run_of_the_sdk_goes_on_in_another_process(place: dict[str, Any], project: str, tmp_path: Path) -> None:
    config = RunConfig(tracing_disabled=True)

    async def turns(make: Callable[[], Any]) -> list[Any]:
        answers = []
        for prompt in ["one", "two", "three"]:
            session = make()
            answers.append(
                (await Runner.run(Agent("a", model=Echo()), prompt, session=session, run_config=config)).final_output
            )
            items = await session.get_items()
            session.close()
        return [answers, items]

    async def main() -> None:
        ours = await turns(lambda: OpenAIAgentsSession("s", **place, project=project))
        theirs = await turns(lambda: SQLiteSession("s", tmp_path / "db"))
        assert ours == theirs
        assert ours[0] == ["1 items", "3 items", "5 items"]

    asyncio.run(main())
