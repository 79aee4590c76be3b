"""A checkpointer for LangGraph.

A thread is a session of the store, to which checkpoints, the values of channels and the writes of tasks are appended; they are on the disk when `put` and
`put_writes` return. What was read before is not read again. It behaves as LangGraph's `InMemorySaver` does, and can in addition copy threads, prune
them, and delete what certain runs left.

>>> import tempfile
>>> from langgraph.graph import StateGraph
>>> from unforget.langgraph import UnforgetSaver
>>> builder = StateGraph(int)
>>> _ = builder.add_node("add_one", lambda x: x + 1).set_entry_point("add_one").set_finish_point("add_one")
>>> with UnforgetSaver(home=tempfile.mkdtemp()) as saver:
...     graph = builder.compile(checkpointer=saver)
...     config = {"configurable": {"thread_id": "t"}}
...     graph.invoke(1, config), graph.get_state(config).values
(2, 2)
"""

from __future__ import annotations

import builtins
import os
import random
import threading
import weakref
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from ._place import Ack, Connected, Folder, Remote
from ._thread import Read, Thread
from ._transport import Entry

PROJECT = "langgraph"
# How many threads are remembered; another one is read from its beginning when it is needed again.
_REMEMBERED = 128


class UnforgetSaver(Connected, BaseCheckpointSaver[str]):
    """Keeps the checkpoints of graphs.

    Args:
        serde: How values are written; without it LangGraph's own way.
        project: Threads of one project are apart from those of another.
        home, remote, url, token, tenant, ack, binary: Where the store is, as for `UnforgetSessionStore`.
    """

    def __init__(
        self,
        *,
        serde: SerializerProtocol | None = None,
        home: Folder | None = None,
        remote: Remote = None,
        url: str | None = None,
        token: str | None = None,
        project: str = PROJECT,
        tenant: str | None = None,
        ack: Ack | None = None,
        binary: Folder | None = None,
    ) -> None:
        Connected.__init__(self, home=home, remote=remote, url=url, token=token, tenant=tenant, ack=ack, binary=binary)
        BaseCheckpointSaver.__init__(self, serde=serde)
        self._project = project
        self._threads: OrderedDict[str, Read] = OrderedDict()
        self._threads_lock = threading.Lock()
        _all.add(self)

    # Reading.

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that a configuration names, or the latest one."""
        thread = self._thread(config["configurable"]["thread_id"])
        thread.journal.catch_up()
        return thread.checkpoint(config)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that a configuration names, or the latest one."""
        thread = self._thread(config["configurable"]["thread_id"])
        await thread.journal.acatch_up()
        return thread.checkpoint(config)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """The checkpoints of a thread, or of all threads, the latest of each first."""
        threads = [config["configurable"]["thread_id"]] if config else self._thread_ids(self._sessions())
        for thread_id in threads:
            thread = self._thread(thread_id)
            thread.journal.catch_up()
            for found in thread.checkpoints(config, filter, before):
                if limit is not None and limit <= 0:
                    return
                limit = None if limit is None else limit - 1
                yield found

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """The checkpoints of a thread, or of all threads, the latest of each first."""
        threads = [config["configurable"]["thread_id"]] if config else self._thread_ids(await self._asessions())
        for thread_id in threads:
            thread = self._thread(thread_id)
            await thread.journal.acatch_up()
            for found in thread.checkpoints(config, filter, before):
                if limit is not None and limit <= 0:
                    return
                limit = None if limit is None else limit - 1
                yield found

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """What was written to channels on the way to a checkpoint, since each was stored as a whole."""
        if not channels:
            return {}
        thread = self._thread(config["configurable"]["thread_id"])
        thread.journal.catch_up()
        return thread.delta_history(config, channels)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """What was written to channels on the way to a checkpoint, since each was stored as a whole."""
        if not channels:
            return {}
        thread = self._thread(config["configurable"]["thread_id"])
        await thread.journal.acatch_up()
        return thread.delta_history(config, channels)

    # Writing.

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Stores a checkpoint; it is on the disk when this returns."""
        thread = self._thread(config["configurable"]["thread_id"])
        entries, stored = thread.new_checkpoint(config, checkpoint, metadata, new_versions)
        self._append(thread, entries)
        return stored

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Stores a checkpoint; it is on the disk when this returns."""
        thread = self._thread(config["configurable"]["thread_id"])
        entries, stored = thread.new_checkpoint(config, checkpoint, metadata, new_versions)
        await self._aappend(thread, entries)
        return stored

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Stores what a task wrote; it is on the disk when this returns."""
        thread = self._thread(config["configurable"]["thread_id"])
        self._append(thread, thread.new_writes(config, writes, task_id, task_path))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Stores what a task wrote; it is on the disk when this returns."""
        thread = self._thread(config["configurable"]["thread_id"])
        await self._aappend(thread, thread.new_writes(config, writes, task_id, task_path))

    def get_next_version(self, current: str | None, channel: None) -> str:
        """The version after this one: a number that grows, and a random one, so that two branches differ."""
        number = 0 if current is None else current if isinstance(current, int) else int(current.split(".")[0])
        return f"{number + 1:032}.{random.random():016}"

    # Removing and copying.

    def delete_thread(self, thread_id: str) -> None:
        """Deletes a thread with everything in it."""
        self._transport.call("delete", key=self._forget(thread_id))

    async def adelete_thread(self, thread_id: str) -> None:
        """Deletes a thread with everything in it."""
        await self._transport.acall("delete", key=self._forget(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Deletes what certain runs left, in all threads."""
        for thread_id in self._thread_ids(self._sessions()) if run_ids else []:
            thread = self._thread(thread_id)
            thread.journal.catch_up()
            self._append(thread, thread.drops_of_runs(run_ids))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Deletes what certain runs left, in all threads."""
        for thread_id in self._thread_ids(await self._asessions()) if run_ids else []:
            thread = self._thread(thread_id)
            await thread.journal.acatch_up()
            await self._aappend(thread, thread.drops_of_runs(run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copies all checkpoints and writes of a thread into another one."""
        source, target = self._thread(source_thread_id), self._thread(target_thread_id)
        source.journal.catch_up()
        target.journal.catch_up()
        self._append(target, target.copies_of(source))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copies all checkpoints and writes of a thread into another one."""
        source, target = self._thread(source_thread_id), self._thread(target_thread_id)
        await source.journal.acatch_up()
        await target.journal.acatch_up()
        await self._aappend(target, target.copies_of(source))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Removes checkpoints that are not needed to go on: all but the latest of each namespace, or all.

        Those that the latest one's delta channels are rebuilt from stay as well. What is removed stays on the disk until the thread is deleted (see the README).
        """
        for thread_id in thread_ids:
            if _is_delete(strategy):
                self.delete_thread(thread_id)
                continue
            thread = self._thread(thread_id)
            thread.journal.catch_up()
            self._append(thread, thread.drops_of_old())

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Removes checkpoints that are not needed to go on, as `prune` does."""
        for thread_id in thread_ids:
            if _is_delete(strategy):
                await self.adelete_thread(thread_id)
                continue
            thread = self._thread(thread_id)
            await thread.journal.acatch_up()
            await self._aappend(thread, thread.drops_of_old())

    # Threads.

    def _thread(self, thread_id: Any) -> Thread:
        self._check_open()
        name = str(thread_id)
        with self._threads_lock:
            read = self._threads.get(name)
            if read is None:
                read = self._threads[name] = Read(self._transport, self._project, name, self.serde)
            self._threads.move_to_end(name)
            if len(self._threads) > _REMEMBERED:
                self._threads.popitem(last=False)
        return Thread(read, thread_id, self.serde)

    def _forget(self, thread_id: Any) -> dict[str, str]:
        with self._threads_lock:
            self._threads.pop(str(thread_id), None)
        return {"project_key": self._project, "session_id": str(thread_id)}

    def _sessions(self) -> Any:
        return self._transport.call("list_sessions", project_key=self._project)

    async def _asessions(self) -> Any:
        return await self._transport.acall("list_sessions", project_key=self._project)

    @staticmethod
    def _thread_ids(sessions: Any) -> builtins.list[str]:
        return [session["session_id"] for session in sorted(sessions, key=lambda session: session["mtime"])]

    def _append(self, thread: Thread, entries: builtins.list[Entry]) -> None:
        if entries:
            self._transport.call("append", key=thread.journal.key, entries=entries)
            thread.acknowledge(entries)

    async def _aappend(self, thread: Thread, entries: builtins.list[Entry]) -> None:
        if entries:
            await self._transport.acall("append", key=thread.journal.key, entries=entries)
            thread.acknowledge(entries)


def _is_delete(strategy: str) -> bool:
    if strategy not in ("keep_latest", "delete"):
        raise ValueError(f"there is no strategy {strategy!r}: it is 'keep_latest' or 'delete'")
    return strategy == "delete"


_all: weakref.WeakSet[UnforgetSaver] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for saver in list(_all):
        # Another thread may have held it, which is not there any more.
        saver._threads_lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
