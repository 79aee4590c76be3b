"""The checkpointer of LangGraph: it does what LangGraph's own does."""

from __future__ import annotations

import asyncio
import operator
import os
import random
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict
from uuid import uuid4

import pytest
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple, empty_checkpoint
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send, interrupt

from unforget import UnforgetSaver

Make = Callable[[str], str]
# LangGraph cannot interrupt a graph in an event loop before Python 3.11.
NO_QUESTIONS = sys.version_info < (3, 11)


@pytest.fixture
def project(unique: Make) -> str:
    return unique("langgraph")


def test_the_suite_of_langgraph(places: Callable[[], dict[str, Any]], unique: Make) -> None:
    @checkpointer_test(name="UnforgetSaver")
    async def saver() -> AsyncIterator[BaseCheckpointSaver[str]]:
        async with UnforgetSaver(**places(), project=unique("suite")) as made:
            yield made

    report = asyncio.run(validate(saver))
    failures = {name: result.failures for name, result in report.results.items() if result.failures}
    assert failures == {}
    # All eight capabilities were looked at, and none was missing.
    assert len(report.results) == 8
    assert all(result.passed for result in report.results.values())


class State(TypedDict):
    log: Annotated[list[str], operator.add]
    approved: bool


def build(saver: BaseCheckpointSaver[Any]) -> Any:
    """A graph with parallel tasks, a subgraph, and a question in the middle."""

    def fan(state: State) -> list[Send]:
        return [Send("work", {"log": [name], "approved": False}) for name in "cab"]

    def work(state: State) -> dict[str, Any]:
        return {"log": [f"worked on {state['log'][-1]}"]}

    def ask(state: State) -> dict[str, Any]:
        return {"approved": interrupt(f"go on after {len(state['log'])}?")}

    inner = StateGraph(State)
    inner.add_node("inside", lambda state: {"log": ["inside"]})
    inner.add_edge(START, "inside")
    inner.add_edge("inside", END)

    builder = StateGraph(State)
    builder.add_node("start", lambda state: {"log": ["start"]})
    builder.add_node("work", work)
    builder.add_node("ask", ask)
    builder.add_node("below", inner.compile())
    builder.add_edge(START, "start")
    builder.add_conditional_edges("start", fan, ["work"])
    builder.add_edge("work", "ask")
    builder.add_edge("ask", "below")
    builder.add_edge("below", END)
    return builder.compile(checkpointer=saver)


def plain(snapshot: Any) -> Any:
    """What does not depend on random names."""
    tasks = [(task.name, task.path, task.interrupts and task.interrupts[0].value) for task in snapshot.tasks]
    return snapshot.values, snapshot.next, tasks, snapshot.metadata["source"], snapshot.metadata["step"]


def scenario(make: Callable[[], BaseCheckpointSaver[Any]]) -> list[Any]:
    """Runs, is interrupted, goes on in a new graph, goes back in time, is changed by hand. `make` may make a new saver each time."""
    seen: list[Any] = []
    config: Any = {"configurable": {"thread_id": "t"}}
    seen.append(build(make()).invoke({"log": ["first"], "approved": False}, config)["log"])
    seen.append(plain(build(make()).get_state(config)))
    seen.append(build(make()).invoke(Command(resume=True), config))
    graph = build(make())
    history = list(graph.get_state_history(config))
    seen.append([plain(snapshot) for snapshot in history])
    seen.append([plain(snapshot) for snapshot in graph.get_state_history(config, limit=2)])
    seen.append(
        [plain(one) for one in graph.get_state_history(config, filter={"source": "loop"}, before=history[1].config)]
    )
    # Back to where it was asked, and the other answer.
    asked = next(snapshot for snapshot in history if snapshot.next == ("ask",))
    seen.append(build(make()).invoke(Command(resume=False), asked.config))
    branch = graph.update_state(asked.config, {"log": ["by hand"]})
    seen.append(plain(graph.get_state(branch)))
    seen.append([plain(snapshot) for snapshot in build(make()).get_state_history(config)])
    graph.checkpointer.delete_thread("t")
    seen.append(list(graph.get_state_history(config)))
    return seen


async def ascenario(make: Callable[[], BaseCheckpointSaver[Any]]) -> list[Any]:
    seen: list[Any] = []
    config: Any = {"configurable": {"thread_id": "t"}}
    seen.append((await build(make()).ainvoke({"log": ["first"], "approved": False}, config))["log"])
    seen.append(plain(await build(make()).aget_state(config)))
    seen.append(await build(make()).ainvoke(Command(resume=True), config))
    graph = build(make())
    seen.append([plain(snapshot) async for snapshot in graph.aget_state_history(config)])
    seen.append([plain(snapshot) async for snapshot in graph.aget_state_history(config, limit=2)])
    await graph.checkpointer.adelete_thread("t")
    seen.append([snapshot async for snapshot in graph.aget_state_history(config)])
    return seen


@pytest.mark.parametrize("savers", ["one", "many"])
def test_graphs_run_as_with_langgraphs_own_saver(place: dict[str, Any], project: str, savers: str) -> None:
    reference = InMemorySaver()
    with UnforgetSaver(**place, project=project) as saver:
        make = {"one": lambda: saver, "many": lambda: UnforgetSaver(**place, project=project)}[savers]
        ours = scenario(make)
        theirs = scenario(lambda: reference)
        for one, other in zip(ours, theirs, strict=True):
            assert one == other
        if not NO_QUESTIONS:
            assert asyncio.run(ascenario(make)) == asyncio.run(ascenario(lambda: reference))


def stable(found: CheckpointTuple | None) -> Any:
    return None if found is None else found._replace(pending_writes=list(found.pending_writes or []))


def test_puts_and_writes_come_to_the_same_as_in_langgraphs_own_saver(place: dict[str, Any], project: str) -> None:
    """Random calls with few names, so that everything is overwritten, repeated and contradicted."""
    dice = random.Random(5)
    theirs = InMemorySaver()
    with UnforgetSaver(**place, project=project) as ours:
        for round_number in range(300):
            thread, namespace = dice.choice("tu"), dice.choice(["", "child:1"])
            parent, number = dice.choice([None, "1", "2", "3"]), dice.choice(["1", "2", "3"])
            config: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": namespace}}
            if parent:
                config["configurable"]["checkpoint_id"] = parent
            kind = dice.choices(["put", "writes", "get", "list", "delete"], [4, 4, 3, 2, 0.2])[0]
            if kind == "put":
                versions = {channel: dice.choice([1, 2, "3.x"]) for channel in "ab" if dice.random() < 0.7}
                checkpoint: Any = {
                    **empty_checkpoint(),
                    "id": number,
                    "ts": "now",
                    "channel_values": {channel: dice.randrange(3) for channel in "ab" if dice.random() < 0.7},
                    "channel_versions": {channel: dice.choice([1, 2, "3.x"]) for channel in "ab"},
                }
                metadata: Any = {"step": dice.randrange(2), "source": "loop", "run_id": "r"}
                assert ours.put(config, checkpoint, metadata, versions) == theirs.put(
                    config, checkpoint, metadata, versions
                )
            elif kind == "writes":
                config["configurable"]["checkpoint_id"] = number
                writes = [
                    (dice.choice(["a", "b", ERROR, INTERRUPT]), dice.randrange(5)) for _ in range(dice.randrange(4))
                ]
                # One special write of a kind, as graphs have it.
                writes = list(
                    {
                        channel if channel in (ERROR, INTERRUPT) else n: (channel, value)
                        for n, (channel, value) in enumerate(writes)
                    }.values()
                )
                task, path = dice.choice(["task-1", "task-2"]), dice.choice(["", "~a", "~b"])
                ours.put_writes(config, writes, task, path)
                theirs.put_writes(config, writes, task, path)
            elif kind == "get":
                assert stable(ours.get_tuple(config)) == stable(theirs.get_tuple(config)), round_number
            elif kind == "list":
                before: Any = {"configurable": {"checkpoint_id": dice.choice("123")}} if dice.random() < 0.5 else None
                wanted: Any = {"filter": dice.choice([None, {"step": 1}, {"step": 1, "source": "x"}]), "before": before}
                wanted["limit"] = dice.choice([None, 1, 2])
                del config["configurable"]["checkpoint_ns"]
                if wanted["limit"] is not None:
                    config["configurable"]["checkpoint_ns"] = namespace
                mine = sorted(map(repr, map(stable, ours.list(config, **wanted))))
                assert mine == sorted(map(repr, map(stable, theirs.list(config, **wanted))))
            else:
                ours.delete_thread(thread)
                theirs.delete_thread(thread)
        with UnforgetSaver(**place, project=project) as fresh:
            everything = sorted(map(repr, map(stable, theirs.list(None))))
            assert sorted(map(repr, map(stable, fresh.list(None)))) == everything
            assert len(everything) > 4


def test_a_value_is_stored_once(place: dict[str, Any], project: str) -> None:
    with UnforgetSaver(**place, project=project) as saver:
        config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        checkpoint: Any = {**empty_checkpoint(), "channel_values": {"a": "x" * 1000}, "channel_versions": {"a": "1"}}
        for _ in range(3):
            saver.put(config, checkpoint, {}, {"a": "1"})
        with UnforgetSaver(**place, project=project) as other:
            other.put(config, checkpoint, {}, {"a": "1"})
        stored = saver._transport.call("load", key={"project_key": project, "session_id": "t"})
        assert [entry["type"] for entry in stored] == ["blob", "checkpoint"]


def test_the_last_one_counts_also_if_it_was_there_before(place: dict[str, Any], project: str) -> None:
    """A, B and A again, with nothing read in between."""
    config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    base: Any = {**empty_checkpoint(), "id": "1", "channel_versions": {"a": "1"}}
    with UnforgetSaver(**place, project=project) as saver:
        for value in "ABA":
            saver.put(config, {**base, "ts": value, "channel_values": {"a": value}}, {}, {"a": "1"})
        found = saver.get_tuple(config)
        assert found and found.checkpoint["channel_values"] == {"a": "A"}
        assert found.checkpoint["ts"] == "A"


def test_what_was_dropped_can_be_put_again(place: dict[str, Any], project: str) -> None:
    with UnforgetSaver(**place, project=project) as saver:
        config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        checkpoint: Any = {**empty_checkpoint(), "id": "1", "channel_values": {"a": 1}, "channel_versions": {"a": "1"}}
        for _ in range(3):
            stored = saver.put(config, checkpoint, {"run_id": "r"}, {"a": "1"})
            saver.put_writes(stored, [("a", 1)], "task")
            saver.put_writes(stored, [("a", 2)], "task")
            found = saver.get_tuple(stored)
            assert found and found.checkpoint == checkpoint and found.pending_writes == [("task", "a", 1)]
            saver.delete_for_runs(["r"])
            assert saver.get_tuple(stored) is None


def put(saver: UnforgetSaver, thread: str, number: int, run: str = "r") -> Any:
    """A checkpoint whose value is its own, and one that it shares with all others."""
    config: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
    versions: Any = {"own": str(number), "shared": "1"}
    checkpoint: Any = {
        **empty_checkpoint(),
        "id": str(number),
        "channel_values": {"own": f"value {number}", "shared": "for all"},
        "channel_versions": versions,
    }
    return saver.put(config, checkpoint, {"run_id": run}, versions if number == 1 else {"own": str(number)})


def values(saver: UnforgetSaver, thread: str) -> list[Any]:
    config: Any = {"configurable": {"thread_id": thread}}
    return [found.checkpoint["channel_values"] for found in saver.list(config)]


@pytest.mark.parametrize("is_fresh", [True, False])
def test_a_thread_can_be_copied_onto_what_was_pruned(place: dict[str, Any], project: str, is_fresh: bool) -> None:
    with UnforgetSaver(**place, project=project) as saver:
        for number in (1, 2, 3):
            saver.put_writes(put(saver, "source", number), [("own", number)], "task")
        saver.copy_thread("source", "target")
        saver.prune(["target"])
        assert len(values(saver, "target")) == 1
        if is_fresh:
            saver._threads.clear()
            asyncio.run(saver.acopy_thread("source", "target"))
        else:
            saver.copy_thread("source", "target")
        with UnforgetSaver(**place, project=project) as other:
            for one in (saver, other):
                assert values(one, "target") == values(one, "source")
                assert len(values(one, "target")) == 3
                found = one.get_tuple({"configurable": {"thread_id": "target", "checkpoint_id": "2"}})
                assert found and found.pending_writes == [("task", "own", 2)]


def test_values_of_dropped_checkpoints_are_neither_kept_nor_copied(place: dict[str, Any], project: str) -> None:
    with UnforgetSaver(**place, project=project) as saver:
        for number, run in [(1, "a"), (2, "b"), (3, "a")]:
            put(saver, "t", number, run)
        values(saver, "t")
        saver.delete_for_runs(["a"])
        assert values(saver, "t") == [{"own": "value 2", "shared": "for all"}]
        fold = saver._threads["t"].fold
        assert sorted(slot[2:] for slot in fold.blobs) == [("own", "2"), ("shared", "1")]
        saver.copy_thread("t", "u")
        copied = saver._transport.call("load", key={"project_key": project, "session_id": "u"})
        assert sorted(entry["channel"] for entry in copied if entry["type"] == "blob") == ["own", "shared"]
        # The same value again is stored again, and is there for others, too.
        put(saver, "t", 1, "a")
        with UnforgetSaver(**place, project=project) as other:
            for one in (saver, other):
                assert values(one, "t") == [{"own": f"value {n}", "shared": "for all"} for n in (2, 1)]


def test_a_value_that_no_checkpoint_has_is_not_copied(place: dict[str, Any], project: str) -> None:
    """The second checkpoint takes the place of the first one, with another version of its channel."""
    config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    with UnforgetSaver(**place, project=project) as saver:
        for version in "12":
            base = {**empty_checkpoint(), "id": "1", "channel_values": {"a": version}}
            checkpoint: Any = {**base, "channel_versions": {"a": version}}
            saver.put(config, checkpoint, {}, {"a": version})
        saver.copy_thread("t", "u")
        copied = saver._transport.call("load", key={"project_key": project, "session_id": "u"})
        assert [entry["version"] for entry in copied if entry["type"] == "blob"] == ["2"]


def test_what_waits_to_be_read_back_is_remembered_without_its_values(place: dict[str, Any], project: str) -> None:
    with UnforgetSaver(**place, project=project) as saver:
        put(saver, "t", 1)
        ahead = saver._threads["t"].fold._ahead
        assert len(ahead) == 3
        assert all(len(one.digest) == 32 for one in ahead.values())


def test_a_forked_process_does_not_wait_for_a_thread_that_is_not_there(tmp_path: Path) -> None:
    saver = UnforgetSaver(home=tmp_path)
    with saver._threads_lock:
        forked = os.fork()
        if forked == 0:
            status = 1
            try:
                if saver._threads_lock.acquire(timeout=30):
                    status = 0
            finally:
                os._exit(status)
    assert os.waitpid(forked, 0)[1] == 0
    saver.close()


def test_a_thread_that_somebody_else_deleted_begins_anew(place: dict[str, Any], project: str) -> None:
    config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    checkpoint: Any = {**empty_checkpoint(), "channel_values": {"a": 1}, "channel_versions": {"a": "1"}}
    with UnforgetSaver(**place, project=project) as one, UnforgetSaver(**place, project=project) as other:
        one.put(config, checkpoint, {}, {"a": "1"})
        assert one.get_tuple(config)
        other.delete_thread("t")
        one.put(config, checkpoint, {}, {"a": "1"})
        for saver in (one, other):
            found = saver.get_tuple(config)
            assert found and found.checkpoint == checkpoint


def joined(state: list[str], writes: list[list[str]]) -> list[str]:
    return [*state, *(word for write in writes for word in write)]


class Long(TypedDict):
    log: Annotated[list, DeltaChannel(joined, snapshot_frequency=3)]


def test_pruning_keeps_what_delta_channels_are_rebuilt_from(place: dict[str, Any], project: str) -> None:
    def graph(saver: BaseCheckpointSaver[Any]) -> Any:
        builder = StateGraph(Long)
        builder.add_node("say", lambda state: {"log": [f"said {len(state['log'])}"]})
        builder.add_edge(START, "say")
        builder.add_edge("say", END)
        return builder.compile(checkpointer=saver)

    config: Any = {"configurable": {"thread_id": "t"}}
    reference = InMemorySaver()
    with UnforgetSaver(**place, project=project) as saver:
        for number in range(7):
            assert graph(saver).invoke({"log": [str(number)]}, config) == graph(reference).invoke(
                {"log": [str(number)]}, config
            )
            before = len(list(saver.list(config)))
            saver.prune(["t"])
            assert graph(saver).get_state(config).values == graph(reference).get_state(config).values
            assert len(list(saver.list(config))) <= before
        assert len(list(saver.list(config))) < len(list(reference.list(config)))


@pytest.mark.skipif(NO_QUESTIONS, reason="LangGraph needs Python 3.11 for this")
def test_many_threads_at_once(place: dict[str, Any], project: str) -> None:
    async def main() -> None:
        async with UnforgetSaver(**place, project=project) as saver:
            graph = build(saver)
            names = [str(uuid4()) for _ in range(16)]
            configs: list[Any] = [{"configurable": {"thread_id": name}} for name in names]
            started = await asyncio.gather(
                *(graph.ainvoke({"log": [name], "approved": False}, config) for name, config in zip(names, configs))
            )
            assert [state["log"][0] for state in started] == names
            finished = await asyncio.gather(*(graph.ainvoke(Command(resume=True), config) for config in configs))
            assert [(state["log"][0], state["approved"]) for state in finished] == [(name, True) for name in names]

    asyncio.run(main())
