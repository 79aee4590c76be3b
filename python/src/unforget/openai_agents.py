"""A session for the OpenAI Agents SDK.

Nothing is ever overwritten: an item, its removal and the clearing of a session are entries that are appended, and what a session has is what they come to.
Each entry has a uuid, so that whatever is sent a second time counts once. Two processes that use one session see each other's items, and if both remove
the last item at the same time, each gets another one: a removal is named after the item, so the store keeps only one of two, and who reads finds out whose.

>>> import asyncio, tempfile
>>> from unforget.openai_agents import OpenAIAgentsSession
>>> async def main():
...     async with OpenAIAgentsSession("ada", home=tempfile.mkdtemp()) as session:
...         await session.add_items([{"role": "user", "content": "hello"}, {"role": "user", "content": "oops"}])
...         await session.pop_item()
...         return await session.get_items()
>>> asyncio.run(main())
[{'role': 'user', 'content': 'hello'}]

In an agent: `await Runner.run(agent, "hello", session=OpenAIAgentsSession("ada"))`. Importing this module does not need the SDK.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from ._journal import Journal
from ._place import Ack, Connected, Folder, Remote
from ._transport import Entry

if TYPE_CHECKING:
    from agents.items import TResponseInputItem
    from agents.memory import SessionSettings

PROJECT = "openai-agents"


class _Items:
    """The items of a session, by the uuids of their entries, as texts: whoever gets one may change it."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.items: dict[str, str] = {}
        # Who removed what.
        self.removed_by: dict[str, str] = {}

    def apply(self, entry: Entry) -> None:
        kind = entry.get("type")
        if kind == "item":
            self.items[entry["uuid"]] = json.dumps(entry["item"])
        elif kind == "pop":
            self.items.pop(entry["of"], None)
            self.removed_by[entry["of"]] = entry["by"]
        elif kind == "clear":
            self.items.clear()

    def last(self) -> str | None:
        return next(reversed(self.items), None)


class OpenAIAgentsSession(Connected):
    """A conversation, by its id.

    Args:
        session_id: Which conversation.
        session_settings: The SDK's settings, or a mapping of them; `limit` is how many items `get_items` returns. Without them, the SDK's defaults.
        project: Sessions of one project are apart from those of another.
        home, remote, url, token, tenant, ack, binary: Where the store is, as for `UnforgetSessionStore`.
    """

    def __init__(
        self,
        session_id: str,
        *,
        session_settings: SessionSettings | Mapping[str, Any] | None = None,
        home: Folder | None = None,
        remote: Remote = None,
        url: str | None = None,
        token: str | None = None,
        project: str = PROJECT,
        tenant: str | None = None,
        ack: Ack | None = None,
        binary: Folder | None = None,
    ) -> None:
        super().__init__(home=home, remote=remote, url=url, token=token, tenant=tenant, ack=ack, binary=binary)
        self.session_id = session_id
        self.session_settings: SessionSettings | None = _settings(session_settings)
        self._fold = _Items()
        self._key = {"project_key": project, "session_id": session_id}
        self._journal = Journal(self._transport, self._key, self._fold)
        # Removals of calls that failed before they could return the item: who removed which item, and its text.
        self._unreturned: dict[str, tuple[str, str]] = {}

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The items of the conversation, or the latest ones of them, oldest first.

        Args:
            limit: How many; without it as many as the settings say, or all. A negative number is all, too.
        """
        self._check_open()
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        await self._journal.acatch_up()
        with self._journal.lock:
            texts = list(self._fold.items.values())
        if limit is not None and limit >= 0:
            texts = texts[len(texts) - min(limit, len(texts)) :]
        return [json.loads(text) for text in texts]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Appends items; they are on the disk when this returns."""
        self._check_open()
        if items:
            entries = [{"type": "item", "uuid": str(uuid4()), "item": item} for item in items]
            await self._transport.acall("append", key=self._key, entries=entries)

    async def pop_item(self) -> TResponseInputItem | None:
        """Removes the most recent item and returns it; none if there is none.

        A call that fails may have removed an item all the same. The next call then returns that item, so that a caller who tries again
        loses none.
        """
        self._check_open()
        await self._journal.acatch_up()
        while True:
            with self._journal.lock:
                if (left := self._claim()) is not None:
                    return left
                uuid = self._fold.last()
                if uuid is None:
                    return None
                text = self._fold.items[uuid]
            by = str(uuid4())
            entry = {"type": "pop", "uuid": f"pop:{uuid}", "of": uuid, "by": by}
            try:
                await self._transport.acall("append", key=self._key, entries=[entry])
                # Each round removes an item, whoever got it, so this comes to an end.
                await self._journal.acatch_up()
            except BaseException:
                with self._journal.lock:
                    self._unreturned[by] = (uuid, text)
                raise
            with self._journal.lock:
                is_mine = self._fold.removed_by.get(uuid) == by
            if is_mine:
                item: TResponseInputItem = json.loads(text)
                return item

    def _claim(self) -> TResponseInputItem | None:
        """An item that a failed call of this session removed; to be called with the journal's lock."""
        for by, (uuid, text) in list(self._unreturned.items()):
            removed_by = self._fold.removed_by.get(uuid)
            if removed_by is not None:
                del self._unreturned[by]
            if removed_by == by:
                item: TResponseInputItem = json.loads(text)
                return item
        return None

    async def clear_session(self) -> None:
        """Removes all items from the conversation; their entries stay on the disk until the session is deleted (see the README)."""
        await self._transport.acall("append", key=self._key, entries=[{"type": "clear", "uuid": str(uuid4())}])


def _settings(given: SessionSettings | Mapping[str, Any] | None) -> SessionSettings | None:
    try:
        from agents.memory import SessionSettings
    except ImportError:
        # The session also works without the SDK, which alone has settings.
        if given is None:
            return None
        raise
    if isinstance(given, SessionSettings):
        return given
    if given is not None and not isinstance(given, Mapping):
        raise TypeError(f"session_settings is a SessionSettings or a mapping, not a {type(given).__name__}")
    names = {field.name for field in fields(SessionSettings) if field.init}
    unknown = sorted(str(name) for name in given or {} if name not in names)
    if unknown:
        # A TypeError, as the SDK's own sessions raise.
        raise TypeError(f"session_settings has no {', '.join(unknown)}; it has {', '.join(sorted(names))}")
    return SessionSettings(**(given or {}))
