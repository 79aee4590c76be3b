"""What the OpenAI Agents SDK's own sessions do, as facts about behaviour: ours does the same.

The facts are those that the SDK tests of its `SQLiteSession`; the tests are our own. Each of them runs twice, once with the SDK's class, so that a
fact which stops being one is noticed here.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, ModelResponse, RunConfig, Runner, SQLiteSession, Usage
from agents.memory import SessionSettings
from agents.models.interface import Model
from openai.types.responses import Response, ResponseCompletedEvent, ResponseOutputMessage, ResponseOutputText

from unforget import OpenAIAgentsSession
from unforget.errors import Closed, UnforgetError

Open = Callable[..., Any]


def said(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


@pytest.fixture(params=["ours", "theirs"])
def open_session(
    request: pytest.FixtureRequest, place: dict[str, Any], unique: Callable[[str], str], tmp_path: Path
) -> Open:
    """Opens a session by its id; two with one id are one conversation."""
    project = unique("openai")

    def make(session_id: str = "s", **options: Any) -> Any:
        if request.param == "theirs":
            session: Any = SQLiteSession(session_id, tmp_path / "sessions.db", **options)
        else:
            session = OpenAIAgentsSession(session_id, **place, project=project, **options)
        request.addfinalizer(session.close)
        return session

    return make


class Answers(Model):
    """A model that answers with the texts of what it was given."""

    def __init__(self) -> None:
        self.inputs: list[list[Any]] = []

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any) -> ModelResponse:
        items = [said(input)] if isinstance(input, str) else list(input)
        self.inputs.append(items)
        text = ResponseOutputText(type="output_text", text=f"answer {len(self.inputs)}", annotations=[])
        message = ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[text])
        return ModelResponse(output=[message], usage=Usage(), response_id=None)

    async def stream_response(self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any) -> Any:
        answer = await self.get_response(system_instructions, input)
        response = Response(
            id="r",
            created_at=0,
            model="m",
            object="response",
            output=answer.output,
            tool_choice="none",
            tools=[],
            parallel_tool_calls=False,
        )
        yield ResponseCompletedEvent(type="response.completed", response=response, sequence_number=0)


def run(agent: Agent[Any], prompt: Any, **options: Any) -> Awaitable[Any]:
    config = options.pop("run_config", None) or RunConfig(tracing_disabled=True)
    return Runner.run(agent, prompt, run_config=config, **options)


async def run_streamed(agent: Agent[Any], prompt: Any, **options: Any) -> None:
    config = options.pop("run_config", None) or RunConfig(tracing_disabled=True)
    async for _ in Runner.run_streamed(agent, prompt, run_config=config, **options).stream_events():
        pass


async def run_sync(agent: Agent[Any], prompt: Any, **options: Any) -> None:
    config = options.pop("run_config", None) or RunConfig(tracing_disabled=True)

    def work() -> None:
        # It needs a loop that does not run yet.
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        try:
            Runner.run_sync(agent, prompt, run_config=config, **options)
        finally:
            asyncio.set_event_loop(None)
            loop.close()

    await asyncio.to_thread(work)


WAYS: dict[str, Callable[..., Awaitable[Any]]] = {"run": run, "run_sync": run_sync, "run_streamed": run_streamed}

# Closing.

OPERATIONS: dict[str, Callable[[Any], Awaitable[Any]]] = {
    "get_items": lambda session: session.get_items(),
    "get_items(0)": lambda session: session.get_items(0),
    "add_items": lambda session: session.add_items([said("late")]),
    "add_items([])": lambda session: session.add_items([]),
    "pop_item": lambda session: session.pop_item(),
    "clear_session": lambda session: session.clear_session(),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_h8_a_closed_session_raises_a_runtime_error(open_session: Open, operation: str) -> None:
    async def main() -> None:
        session, other = open_session(), open_session()
        await session.add_items([said("kept")])
        session.close()
        session.close()
        with pytest.raises(RuntimeError):
            await OPERATIONS[operation](session)
        # Another one of the same conversation goes on, also if both share a process.
        assert await other.get_items() == [said("kept")]

    asyncio.run(main())


def test_h8_the_error_of_a_closed_session_is_one_of_ours(place: dict[str, Any], unique: Callable[[str], str]) -> None:
    session = OpenAIAgentsSession("s", **place, project=unique("openai"))
    session.close()
    with pytest.raises(Closed, match="OpenAIAgentsSession is closed") as caught:
        asyncio.run(session.add_items([]))
    assert isinstance(caught.value, UnforgetError) and caught.value.code == "closed"


def test_a_session_that_is_closed_unused_was_no_trouble(open_session: Open) -> None:
    open_session().close()


# Settings.


def test_h8_a_session_has_settings_by_default(open_session: Open) -> None:
    session = open_session()
    assert session.session_settings == SessionSettings()
    assert session.session_settings.limit is None
    assert open_session(session_settings=None).session_settings == SessionSettings()
    given = SessionSettings(limit=3)
    assert open_session(session_settings=given).session_settings is given
    assert open_session(session_settings={"limit": 3}).session_settings == given
    assert open_session(session_settings={}).session_settings == SessionSettings()


@pytest.mark.parametrize("wrong", [{"limt": 3}, {"limit": 3, "max": 1}, 3, "limit"])
def test_h8_a_setting_that_there_is_not_is_refused(open_session: Open, wrong: Any) -> None:
    with pytest.raises(TypeError):
        open_session(session_settings=wrong)


@pytest.mark.parametrize(
    ("setting", "limit", "count"),
    [(None, None, 6), (2, None, 2), (2, 4, 4), (4, 2, 2), (100, None, 6), (None, 0, 0), (0, None, 0), (2, 100, 6)],
)
def test_an_explicit_limit_counts_before_the_settings(
    open_session: Open, setting: int | None, limit: int | None, count: int
) -> None:
    async def main() -> None:
        session = open_session(session_settings=SessionSettings(limit=setting))
        everything = [said(str(n)) for n in range(6)]
        await session.add_items(everything)
        assert await session.get_items(limit=limit) == everything[len(everything) - count :]
        # What is not returned is still there.
        assert await session.get_items(1000) == everything

    asyncio.run(main())


# Items.


def test_nothing_is_added_by_no_items(open_session: Open) -> None:
    async def main() -> None:
        session = open_session()
        await session.add_items([])
        assert await session.get_items() == []
        assert await session.pop_item() is None

    asyncio.run(main())


def test_the_last_item_is_popped_first_and_none_from_an_empty_session(open_session: Open) -> None:
    async def main() -> None:
        session = open_session()
        await session.add_items([said("1"), said("2")])
        await session.add_items([said("3")])
        assert [await session.pop_item() for _ in range(4)] == [said("3"), said("2"), said("1"), None]
        await session.add_items([said("4")])
        assert await session.get_items() == [said("4")]

    asyncio.run(main())


def test_a_session_is_cleared_alone_and_goes_on_empty(open_session: Open) -> None:
    async def main() -> None:
        one, other = open_session("one"), open_session("other")
        await one.add_items([said("1")])
        await other.add_items([said("2")])
        await one.clear_session()
        await one.clear_session()
        assert await one.get_items() == []
        assert await other.get_items() == [said("2")]
        await one.add_items([said("3")])
        assert await one.get_items() == [said("3")]

    asyncio.run(main())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "quote ' and \" and ; DROP TABLE x; --",
        "Привет 你好 🚀 \u2028 \u0000 \x1b",
        '{"json": [1]}',
        "line\nline\r\n",
    ],
)
def test_texts_come_back_as_they_were(open_session: Open, text: str) -> None:
    async def main() -> None:
        item = {"role": "user", "content": text, text or "empty": {"nested": [text, None, True, 1.5]}}
        await open_session().add_items([item])
        assert await open_session().get_items() == [item]

    asyncio.run(main())


def test_items_of_many_calls_keep_their_order(open_session: Open) -> None:
    async def main() -> None:
        session = open_session()
        for start in range(0, 60, 3):
            await session.add_items([said(str(n)) for n in range(start, start + 3)])
        assert [item["content"] for item in await session.get_items()] == [str(n) for n in range(60)]
        assert [item["content"] for item in await session.get_items(5)] == [str(n) for n in range(55, 60)]

    asyncio.run(main())


# At the same time.


def test_batches_that_come_at_the_same_time_are_all_there_and_whole(open_session: Open) -> None:
    async def main() -> None:
        session = open_session()
        batches = [[said(f"{batch}.{n}") for n in range(4)] for batch in range(12)]
        await asyncio.gather(*(session.add_items(batch) for batch in batches))
        items = await session.get_items()
        assert len(items) == 48
        for at in range(0, 48, 4):
            assert items[at : at + 4] in batches

    asyncio.run(main())


def test_threads_with_loops_of_their_own_use_one_session(open_session: Open) -> None:
    session, wrong = open_session(), []

    def work(name: int) -> None:
        async def main() -> None:
            for n in range(10):
                await session.add_items([said(f"{name}.{n}")])
            mine = [item for item in await session.get_items() if item["content"].startswith(f"{name}.")]
            assert mine == [said(f"{name}.{n}") for n in range(10)]

        try:
            asyncio.run(main())
        except BaseException as error:  # noqa: BLE001 - it is told by the test's own thread
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(asyncio.run(session.get_items())) == 40


def test_who_stops_waiting_leaves_the_session_usable(open_session: Open) -> None:
    async def main() -> None:
        session = open_session()
        await session.add_items([said("first")])
        for _ in range(5):
            task = asyncio.create_task(session.add_items([said("cancelled"), said("cancelled too")]))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        await session.add_items([said("last")])
        items = [item["content"] for item in await session.get_items()]
        # All of a batch or nothing of it, and nothing after what was added later.
        assert items[0] == "first" and items[-1] == "last"
        assert items.count("cancelled") == items.count("cancelled too")

    asyncio.run(main())


# Runs.


@pytest.mark.parametrize("way", WAYS)
def test_h8_a_run_hears_what_was_said_before(open_session: Open, way: str) -> None:
    async def main() -> None:
        model = Answers()
        agent = Agent("a", model=model)
        await WAYS[way](agent, "my name is Ada", session=open_session())
        await WAYS[way](agent, "what is my name?", session=open_session())
        await WAYS[way](agent, "and mine?", session=open_session("another"))
        texts = [[item.get("content") for item in items if item.get("role") == "user"] for items in model.inputs]
        assert texts == [["my name is Ada"], ["my name is Ada", "what is my name?"], ["and mine?"]]
        assert [item["role"] for item in await open_session().get_items()] == ["user", "assistant"] * 2

    asyncio.run(main())


@pytest.mark.parametrize("way", WAYS)
def test_h8_history_that_a_callback_repeats_is_not_kept_twice(open_session: Open, way: str) -> None:
    def join(history: list[Any], new: list[Any]) -> list[Any]:
        return [*history, *history[:1], *new]

    async def main() -> None:
        session = open_session()
        config = RunConfig(tracing_disabled=True, session_input_callback=join)
        for turn in range(3):
            await WAYS[way](Agent("a", model=Answers()), f"user {turn}", session=session, run_config=config)
        items = await session.get_items()
        assert [item["content"] for item in items if item["role"] == "user"] == ["user 0", "user 1", "user 2"]
        assert len(items) == 6

    asyncio.run(main())


@pytest.mark.parametrize("way", WAYS)
def test_h8_a_run_whose_words_cannot_be_kept_fails_and_does_not_hang(open_session: Open, way: str) -> None:
    async def main() -> None:
        session = open_session()
        session.close()
        with pytest.raises(RuntimeError):
            await asyncio.wait_for(WAYS[way](Agent("a", model=Answers()), "hello", session=session), 300)

    asyncio.run(main())


def test_a_run_without_a_session_remembers_nothing(open_session: Open) -> None:
    async def main() -> None:
        model = Answers()
        await run(Agent("a", model=model), "one", session=open_session())
        await run(Agent("a", model=model), "two")
        assert [len(items) for items in model.inputs] == [1, 1]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("of_session", "of_run", "heard"), [(None, None, 5), (2, None, 3), (None, 1, 2), (4, 1, 2), (0, None, 1)]
)
def test_a_run_hears_as_much_as_the_settings_say(
    open_session: Open, of_session: int | None, of_run: int | None, heard: int
) -> None:
    async def main() -> None:
        model = Answers()
        session = open_session(session_settings=SessionSettings(limit=of_session))
        await session.add_items([said(str(n)) for n in range(4)])
        config = RunConfig(
            tracing_disabled=True, session_settings=None if of_run is None else SessionSettings(limit=of_run)
        )
        await run(Agent("a", model=model), "now", session=session, run_config=config)
        assert len(model.inputs[0]) == heard
        assert len(await session.get_items(1000)) == 6

    asyncio.run(main())


def test_a_run_with_a_list_is_told_how_it_is_joined(open_session: Open) -> None:
    async def main() -> None:
        model = Answers()
        session = open_session()
        await session.add_items([said("before")])
        joined: list[tuple[int, int]] = []

        def join(history: list[Any], new: list[Any]) -> list[Any]:
            joined.append((len(history), len(new)))
            return [*history, *new]

        config = RunConfig(tracing_disabled=True, session_input_callback=join)
        await run(Agent("a", model=model), [said("a"), said("b")], session=session, run_config=config)
        assert joined == [(1, 2)]
        users = [item["content"] for item in await session.get_items() if item.get("role") == "user"]
        assert users == ["before", "a", "b"]

    asyncio.run(main())
