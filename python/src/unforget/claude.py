"""A session store for the Claude Agent SDK.

The SDK hands over the entries of a conversation and asks for them when it is resumed. Here they are on the disk before `append` returns, in the
order and with the bytes in which they came, each once.

>>> import asyncio, tempfile
>>> from unforget.claude import UnforgetSessionStore
>>> async def main():
...     async with UnforgetSessionStore(home=tempfile.mkdtemp(), project="notes") as store:
...         key = {"project_key": "any", "session_id": "s"}
...         await store.append(key, [{"type": "user", "uuid": "1"}])
...         return await store.load(key)
>>> asyncio.run(main())
[{'type': 'user', 'uuid': '1'}]

In an agent it is an option: `ClaudeAgentOptions(session_store=UnforgetSessionStore(), session_store_flush="eager")`. Importing this module does not need the SDK.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._place import Ack, Connected, Folder, Remote
from ._transport import PAGES
from .errors import TryAgain

if TYPE_CHECKING:
    from claude_agent_sdk.types import (
        SessionKey,
        SessionListSubkeysKey,
        SessionStoreEntry,
        SessionStoreListEntry,
        SessionSummaryEntry,
    )


class UnforgetSessionStore(Connected):
    """Keeps the conversations of Claude agents.

    Args:
        home: The folder of the store; without it the program's own.
        remote: A place that other machines reach; the home is then its cache and outbox. `False` does without one, whatever the settings say.
        url: A server (`unforget serve`) instead of a home; `token` says who asks.
        project: A name instead of the one that the SDK makes of the working directory. With it a session goes on in any folder, on any machine,
            and in folders whose names the SDK and the command line spell differently.
        tenant: Whose sessions, where a remote has several people's.
        ack: When an append counts as done: on the `disk`, or at the `remote`.
        binary: Where the program `unforget` is.
    """

    def __init__(
        self,
        *,
        home: Folder | None = None,
        remote: Remote = None,
        url: str | None = None,
        token: str | None = None,
        project: str | None = None,
        tenant: str | None = None,
        ack: Ack | None = None,
        binary: Folder | None = None,
    ) -> None:
        super().__init__(home=home, remote=remote, url=url, token=token, tenant=tenant, ack=ack, binary=binary)
        self._project = project

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Appends entries; they are on the disk when this returns."""
        self._check_open()
        if entries:
            await self._transport.acall("append", key=self._key(key), entries=list(entries))

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """All entries of a session, or of something beneath it; none if nothing was ever appended.

        They are fetched page by page.
        """
        entries: list[SessionStoreEntry] = []
        cursor: str | None = None
        for _ in range(PAGES):
            page = await self._transport.acall("read", key=self._key(key), cursor=cursor)
            if page is None:
                return None
            if page["again"]:
                entries.clear()
            entries += page["entries"]
            cursor = page["cursor"]
            if not page["more"]:
                return entries
        raise TryAgain("the session has no end", "timeout")

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """The sessions of a project, and when they were appended to last."""
        sessions: list[SessionStoreListEntry] = await self._transport.acall(
            "list_sessions", project_key=self._name(project_key)
        )
        return sessions

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """The sessions of a project, with what a list shows of them."""
        summaries: list[SessionSummaryEntry] = await self._transport.acall(
            "list_session_summaries", project_key=self._name(project_key)
        )
        return summaries

    async def delete(self, key: SessionKey) -> None:
        """Deletes a session with everything beneath it, or one thing beneath it."""
        await self._transport.acall("delete", key=self._key(key))

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """What there is beneath a session."""
        session = {"project_key": self._name(key["project_key"]), "session_id": key["session_id"]}
        subkeys: list[str] = await self._transport.acall("list_subkeys", key=session)
        return subkeys

    def _name(self, project_key: str) -> str:
        return project_key if self._project is None else self._project

    def _key(self, key: SessionKey) -> dict[str, Any]:
        return {**key, "project_key": self._name(key["project_key"])}
