"""A LangGraph thread: what is appended for its checkpoints, and what is read out of them.

Values are written by a serializer and stored as base64. Nothing here asks the store for anything; that is the journal's part.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast
from uuid import uuid4

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from ._checkpoints import Checkpoints
from ._journal import Journal
from ._transport import Entry, Transport

_EMPTY = ["empty", ""]


class Read:
    """What was read of a thread; it is shared by all who look at it."""

    def __init__(self, transport: Transport, project: str, name: str, serde: SerializerProtocol) -> None:
        self.fold = Checkpoints(lambda checkpoint: _versions(serde, checkpoint))
        self.journal = Journal(transport, {"project_key": project, "session_id": name}, self.fold)


class Thread:
    """A thread, as somebody with a serializer sees it."""

    def __init__(self, read: Read, thread_id: Any, serde: SerializerProtocol) -> None:
        self.journal, self._fold = read.journal, read.fold
        # As the caller has it, who may use something else than a text.
        self._id = thread_id
        self._serde = serde

    # Entries out of values.

    def new_checkpoint(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> tuple[list[Entry], RunnableConfig]:
        """What to append for a checkpoint, and what it is called from then on."""
        namespace = config["configurable"]["checkpoint_ns"]
        bare: dict[str, Any] = dict(checkpoint)
        values = bare.pop("channel_values")
        entries: list[Entry] = [
            {
                "type": "blob",
                "ns": namespace,
                "channel": channel,
                "version": version,
                "value": self._dump(values[channel]) if channel in values else _EMPTY,
            }
            for channel, version in new_versions.items()
        ]
        # Behind its values, so that whoever sees it has them.
        entries.append(
            {
                "type": "checkpoint",
                "ns": namespace,
                "id": checkpoint["id"],
                "parent": config["configurable"].get("checkpoint_id"),
                "checkpoint": self._dump(bare),
                "metadata": self._dump(get_checkpoint_metadata(config, metadata)),
            }
        )
        return self._named(entries), self._config(namespace, checkpoint["id"])

    def new_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> list[Entry]:
        """What to append for what a task wrote."""
        return self._named(
            [
                {
                    "type": "write",
                    "ns": config["configurable"].get("checkpoint_ns", ""),
                    "id": config["configurable"]["checkpoint_id"],
                    "task": task_id,
                    "index": WRITES_IDX_MAP.get(channel, index),
                    "path": task_path,
                    "channel": channel,
                    "value": self._dump(value),
                }
                for index, (channel, value) in enumerate(writes)
            ]
        )

    def acknowledge(self, entries: list[Entry]) -> None:
        """Takes note that entries were appended."""
        with self.journal.lock:
            self._fold.acknowledge(entries)

    # Values out of entries.

    def checkpoint(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that a configuration names, or the latest one."""
        namespace = config["configurable"].get("checkpoint_ns", "")
        with self.journal.lock:
            there = self._fold.checkpoints.get(namespace, {})
            asked = get_checkpoint_id(config)
            entry = there.get(asked or max(there, default=""))
            if entry is None:
                return None
            return self._built(entry, self._load(entry["metadata"]), config if asked else None)

    def checkpoints(
        self, config: RunnableConfig | None, filter: dict[str, Any] | None, before: RunnableConfig | None
    ) -> Iterator[CheckpointTuple]:
        """The checkpoints that fit, namespace by namespace, the latest first."""
        namespace = config["configurable"].get("checkpoint_ns") if config else None
        asked = get_checkpoint_id(config) if config else None
        until = get_checkpoint_id(before) if before else None
        with self.journal.lock:
            found = [
                entry
                for name, by_id in self._fold.checkpoints.items()
                if namespace is None or name == namespace
                for id, entry in sorted(by_id.items(), reverse=True)
                if (not asked or id == asked) and (not until or id < until)
            ]
        for entry in found:
            metadata = self._load(entry["metadata"])
            if filter and not all(metadata.get(name) == value for name, value in filter.items()):
                continue
            with self.journal.lock:
                built = self._built(entry, metadata)
            yield built

    def delta_history(self, config: RunnableConfig, channels: Sequence[str]) -> Mapping[str, DeltaChannelHistory]:
        """What was written to channels on the way to a checkpoint, since each was stored as a whole."""
        namespace = config["configurable"].get("checkpoint_ns", "")
        history: dict[str, DeltaChannelHistory] = {channel: {"writes": []} for channel in channels}
        missing = set(channels)
        with self.journal.lock:
            there = self._fold.checkpoints.get(namespace, {})
            for entry in self._fold.ancestors(namespace, get_checkpoint_id(config) or max(there, default="")):
                if not missing:
                    break
                for write in reversed(self._fold.ordered_writes(namespace, entry["id"])):
                    if write["channel"] in missing:
                        history[write["channel"]]["writes"].append(self._pending(write))
                for channel, value in self._values(entry, missing).items():
                    history[channel]["seed"] = value
                    missing.discard(channel)
        for found in history.values():
            found["writes"].reverse()
        return history

    # What to remove, and what to copy.

    def drops_of_runs(self, run_ids: Sequence[str]) -> list[Entry]:
        """What to append to be rid of what certain runs left."""
        with self.journal.lock:
            gone = {
                namespace: [id for id, entry in by_id.items() if self._load(entry["metadata"]).get("run_id") in run_ids]
                for namespace, by_id in self._fold.checkpoints.items()
            }
        return _drops(gone)

    def drops_of_old(self) -> list[Entry]:
        """What to append to be rid of all but the latest checkpoint of each namespace, and those that it needs."""
        gone = {}
        with self.journal.lock:
            for namespace, by_id in self._fold.checkpoints.items():
                needed = self._needed(namespace, max(by_id)) if by_id else set()
                gone[namespace] = [id for id in by_id if id not in needed]
        return _drops(gone)

    def copies_of(self, source: Thread) -> list[Entry]:
        """What to append to have here what another thread has; with names of this thread, which may have had and dropped the same."""
        with source.journal.lock:
            entries = source._fold.live()
        return self._named(entries)

    def _needed(self, namespace: str, latest: str) -> set[str]:
        """A checkpoint, and those before it that its delta channels are rebuilt from."""
        metadata = self._load(self._fold.checkpoints[namespace][latest]["metadata"])
        missing = set(metadata.get("counters_since_delta_snapshot") or ())
        needed = {latest}
        for entry in self._fold.ancestors(namespace, latest):
            if not missing:
                break
            needed.add(entry["id"])
            missing -= self._values(entry, missing).keys()
        return needed

    # Pieces.

    def _named(self, entries: list[Entry]) -> list[Entry]:
        with self.journal.lock:
            return [self._fold.named(entry) for entry in entries]

    def _built(self, entry: Entry, metadata: Any, config: RunnableConfig | None = None) -> CheckpointTuple:
        namespace = entry["ns"]
        writes = self._fold.ordered_writes(namespace, entry["id"])
        return CheckpointTuple(
            config=config or self._config(namespace, entry["id"]),
            checkpoint=cast(Checkpoint, {**self._load(entry["checkpoint"]), "channel_values": self._values(entry)}),
            metadata=metadata,
            parent_config=self._config(namespace, entry["parent"]) if entry["parent"] else None,
            pending_writes=[self._pending(write) for write in writes],
        )

    def _values(self, entry: Entry, channels: set[str] | None = None) -> dict[str, Any]:
        """The values of channels at a checkpoint, as far as they are stored."""
        values = {}
        for channel, version in _versions(self._serde, entry).items():
            if channels is not None and channel not in channels:
                continue
            blob = self._fold.blobs.get(("blob", entry["ns"], channel, version))
            if blob is not None and blob["value"][0] != "empty":
                values[channel] = self._load(blob["value"])
        return values

    def _pending(self, write: Entry) -> tuple[str, str, Any]:
        return write["task"], write["channel"], self._load(write["value"])

    def _dump(self, value: Any) -> list[str]:
        kind, data = self._serde.dumps_typed(value)
        return [kind, b64encode(data).decode()]

    def _load(self, stored: Sequence[str]) -> Any:
        return _loaded(self._serde, stored)

    def _config(self, namespace: str, checkpoint_id: str) -> RunnableConfig:
        configurable = {"thread_id": self._id, "checkpoint_ns": namespace, "checkpoint_id": checkpoint_id}
        return cast(RunnableConfig, {"configurable": configurable})


def _loaded(serde: SerializerProtocol, stored: Sequence[str]) -> Any:
    return serde.loads_typed((stored[0], b64decode(stored[1])))


def _versions(serde: SerializerProtocol, checkpoint: Entry) -> Mapping[str, Any]:
    """Which version of each channel a checkpoint has."""
    versions: Mapping[str, Any] = _loaded(serde, checkpoint["checkpoint"]).get("channel_versions", {})
    return versions


def _drops(gone: Mapping[str, list[str]]) -> list[Entry]:
    return [{"type": "drop", "uuid": str(uuid4()), "ns": name, "ids": ids} for name, ids in gone.items() if ids]
