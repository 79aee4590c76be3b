"""What has to be sent again when nobody knows whether an append arrived.

The store leaves out an entry whose `uuid` it has, so those can simply be sent again. Entries without one would be there twice. So before such an append is
repeated, what is stored is read and compared: of all entries without a `uuid`, those that are stored end with what was acknowledged last, followed by as
many of the ones in question as arrived. An entry that has a `uuid` and is not there says that nothing behind it arrived either.

What this cannot tell apart: a batch that begins with entries that were the last ones before this process began, word for word. They count as arrived.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from typing import Any

from ._json import encode
from ._transport import PAGES, Entry, Line, uuid_of
from .errors import TryAgain

# How much is remembered of what was acknowledged: entries of a key, and keys.
REMEMBERED_ENTRIES = 64
REMEMBERED_KEYS = 1024


def all_stored(read: Callable[[str | None], Any]) -> list[Entry]:
    """Reads all entries of a key, page by page: `read` takes a cursor."""
    entries: list[Entry] = []
    cursor: str | None = None
    for _ in range(PAGES):
        page = read(cursor)
        if page is None:
            return []
        if page["again"]:
            entries.clear()
        entries += page["entries"]
        cursor = page["cursor"]
        if not page["more"]:
            return entries
    raise TryAgain("the session has no end", "timeout")


def remaining(stored: Iterable[Entry], batches: Sequence[list[Line]], before: Sequence[bytes] = ()) -> list[list[Line]]:
    """Takes out of the batches, which were sent in this order, what is stored already and has no uuid.

    `before` are the digests of what was acknowledged of the key before them, without uuids.

    >>> tag = Line(b'{"type":"tag"}', None)
    >>> remaining([{"type": "tag"}], [[tag, tag]])
    [[Line(text=b'{"type":"tag"}', uuid=None)]]
    """
    there: list[bytes] = []
    uuids: set[str] = set()
    for entry in stored:
        uuid = uuid_of(entry)
        if uuid is None:
            there.append(digest(encode(entry)))
        else:
            uuids.add(uuid)
    possible: list[bytes] = []
    for line in (line for batch in batches for line in batch):
        if line.uuid is None:
            possible.append(digest(line.text))
        elif line.uuid not in uuids:
            break
    arrived = _arrived(there, possible, list(before))
    if arrived is None:
        # Somebody else wrote in between, so that what was acknowledged is not the end any more.
        arrived = _arrived(there, possible, []) or 0
    rest = []
    for batch in batches:
        kept = []
        for line in batch:
            if line.uuid is None and arrived > 0:
                arrived -= 1
            else:
                kept.append(line)
        rest.append(kept)
    return rest


def _arrived(there: list[bytes], possible: list[bytes], before: list[bytes]) -> int | None:
    """How many of the possible ones are there, behind those before; none if even these are not the end."""
    for count in range(len(possible), -1, -1):
        end = before + possible[:count]
        if not end or there[-len(end) :] == end:
            return count
    return None


class Acknowledged:
    """The last entries without a uuid that were acknowledged, by key; not more than some."""

    def __init__(self) -> None:
        self._keys: OrderedDict[str, deque[bytes]] = OrderedDict()

    def add(self, key: str, lines: list[Line]) -> None:
        """Remembers a batch."""
        digests = [digest(line.text) for line in lines if line.uuid is None]
        if not digests:
            return
        self._keys.setdefault(key, deque(maxlen=REMEMBERED_ENTRIES)).extend(digests)
        self._keys.move_to_end(key)
        if len(self._keys) > REMEMBERED_KEYS:
            self._keys.popitem(last=False)

    def of(self, key: str) -> list[bytes]:
        """Digests of what was acknowledged last."""
        return list(self._keys.get(key, ()))

    def forget(self, session: str) -> None:
        """Forgets a session that was deleted, with everything beneath it."""
        for key in [key for key in self._keys if key == session or key.startswith(session + "\n")]:
            del self._keys[key]


def digest(text: bytes) -> bytes:
    """Stands for an entry, which may be long."""
    return blake2b(text, digest_size=16).digest()


def name_of(key: object) -> str:
    """A key as one text, which everything beneath it begins with."""
    if not isinstance(key, dict):
        return encode(key).decode()
    parts = [key.get("project_key"), key.get("session_id"), key.get("subpath")]
    return "\n".join(part for part in parts if isinstance(part, str))
