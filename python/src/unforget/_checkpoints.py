"""What the checkpoints of a LangGraph thread come to: a fold of entries, and the names that entries get.

An entry is a `blob` (a channel's value at a version), a `checkpoint` (without the values), a `write` of a task, or a `drop` of checkpoints. Of
two blobs or checkpoints in one place the later one counts, of two writes the earlier one, unless they are of a special channel, as in the savers that
LangGraph has itself. `drop` takes checkpoints away, with their writes and with the values that no other checkpoint has; the entries themselves stay in the log.
Which values a checkpoint has is written in a form that is the saver's to read.

The same thing gets the same uuid wherever it is said again, so that it is stored once. Something else in the same place gets a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from typing import Any, NamedTuple
from uuid import uuid4

from ._json import encode
from ._transport import Entry

# A place that an entry is for: its kind, the namespace, and what tells it apart there.
Slot = tuple[Any, ...]
# Reads which version of each channel a checkpoint has.
Versions = Callable[[Entry], Mapping[str, Any]]


class Ahead(NamedTuple):
    """What was appended and not read back yet."""

    uuid: str
    digest: bytes


def slot_of(entry: Entry) -> Slot:
    """The place that an entry is for."""
    kind, namespace = entry["type"], entry["ns"]
    if kind == "blob":
        return kind, namespace, entry["channel"], entry["version"]
    if kind == "checkpoint":
        return kind, namespace, entry["id"]
    return kind, namespace, entry["id"], entry["task"], entry["index"]


class Checkpoints:
    """The checkpoints of one thread."""

    def __init__(self, versions: Versions) -> None:
        self._versions = versions
        self.clear()

    def clear(self) -> None:
        self.blobs: dict[Slot, Entry] = {}
        # By namespace and id.
        self.checkpoints: dict[str, dict[str, Entry]] = {}
        # By namespace and id, then by task and index.
        self.writes: dict[tuple[str, str], dict[tuple[str, int], Entry]] = {}
        # Places that are empty again: what is put there must not pass for what was there.
        self._dropped: set[Slot] = set()
        # What was acknowledged and not read back yet; without the values, which may be large and are soon read.
        self._ahead: dict[Slot, Ahead] = {}

    def apply(self, entry: Entry) -> None:
        kind = entry.get("type")
        if kind == "drop":
            self._drop(entry["ns"], entry["ids"])
            return
        if kind not in ("blob", "checkpoint", "write"):
            return
        slot = slot_of(entry)
        ahead = self._ahead.get(slot)
        if ahead is not None and ahead.uuid == entry["uuid"]:
            del self._ahead[slot]
        self._dropped.discard(slot)
        if kind == "blob":
            self.blobs[slot] = entry
        elif kind == "checkpoint":
            self.checkpoints.setdefault(entry["ns"], {})[entry["id"]] = entry
        else:
            writes = self.writes.setdefault((entry["ns"], entry["id"]), {})
            name = (entry["task"], entry["index"])
            if entry["index"] < 0 or name not in writes:
                writes[name] = entry

    def _drop(self, namespace: str, ids: list[str]) -> None:
        there = self.checkpoints.get(namespace, {})
        values: set[Slot] = set()
        for id in ids:
            checkpoint = there.pop(id, None)
            gone = list(self.writes.pop((namespace, id), {}).values())
            if checkpoint is not None:
                gone.append(checkpoint)
                values |= self._values_of(checkpoint)
            self._dropped.update(slot_of(entry) for entry in gone)
            self._ahead.pop(("checkpoint", namespace, id), None)
        # Only what these had: a value whose checkpoint is still to come belongs to nobody yet.
        values -= {slot for entry in there.values() for slot in self._values_of(entry)} if values else set()
        for slot in values:
            self.blobs.pop(slot, None)
            self._ahead.pop(slot, None)
        self._dropped |= values

    def _values_of(self, checkpoint: Entry) -> set[Slot]:
        """The places of the values that a checkpoint has."""
        return {("blob", checkpoint["ns"], channel, version) for channel, version in self._versions(checkpoint).items()}

    def named(self, entry: Entry) -> Entry:
        """Gives an entry its uuid, which is another one than it may have had in another thread."""
        entry, slot = _content(entry), slot_of(entry)
        ahead, known = self._ahead.get(slot), self._at(slot)
        if slot[0] == "write" and slot[-1] < 0:
            uuid = str(uuid4())
        elif slot[0] == "write" and known is not None:
            uuid = known["uuid"]
        elif ahead is not None:
            uuid = ahead.uuid if ahead.digest == _digest(entry) else str(uuid4())
        elif known is not None:
            uuid = known["uuid"] if _content(known) == entry else str(uuid4())
        elif slot not in self._dropped:
            # Of two writes the first one counts, so they are the same thing, whatever they say.
            same = encode(slot if slot[0] == "write" else [slot, entry])
            uuid = f"{slot[0]}:{sha256(same).hexdigest()[:40]}"
        else:
            uuid = str(uuid4())
        return {**entry, "uuid": uuid}

    def acknowledge(self, entries: list[Entry]) -> None:
        """Remembers what was appended until it is read."""
        for entry in entries:
            if entry["type"] in ("blob", "checkpoint"):
                self._ahead[slot_of(entry)] = Ahead(entry["uuid"], _digest(_content(entry)))

    def _at(self, slot: Slot) -> Entry | None:
        if slot[0] == "blob":
            return self.blobs.get(slot)
        if slot[0] == "checkpoint":
            return self.checkpoints.get(slot[1], {}).get(slot[2])
        return self.writes.get((slot[1], slot[2]), {}).get((slot[3], slot[4]))

    def ordered_writes(self, namespace: str, id: str) -> list[Entry]:
        """The writes of a checkpoint, in the order in which a graph applies them."""
        writes = self.writes.get((namespace, id), {})
        return sorted(writes.values(), key=lambda write: (write["path"], write["task"], write["index"]))

    def ancestors(self, namespace: str, id: str) -> Iterator[Entry]:
        """The checkpoints that one came from, the nearest first."""
        there = self.checkpoints.get(namespace, {})
        seen = {id}
        entry = there.get(id)
        while entry is not None and entry["parent"] not in seen:
            seen.add(entry["parent"])
            entry = there.get(entry["parent"])
            if entry is not None:
                yield entry

    def live(self) -> list[Entry]:
        """Everything that is there, so that it can be appended elsewhere; of the values those that a checkpoint has."""
        checkpoints = [entry for by_id in self.checkpoints.values() for entry in by_id.values()]
        writes = [entry for by_name in self.writes.values() for entry in by_name.values()]
        values = {slot for entry in checkpoints for slot in self._values_of(entry)}
        return [*(entry for slot, entry in self.blobs.items() if slot in values), *checkpoints, *writes]


def _content(entry: Entry) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name != "uuid"}


def _digest(content: dict[str, Any]) -> bytes:
    return sha256(encode(content)).digest()
