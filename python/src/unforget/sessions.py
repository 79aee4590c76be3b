"""The conversations of `unforget` itself: those of the terminal and of `unforget serve`.

They can be listed, searched and read, and what another program's agent said and heard can be appended, in the form of the Messages API.

>>> import tempfile
>>> from unforget.sessions import Sessions
>>> with Sessions(home=tempfile.mkdtemp()) as sessions:
...     added = sessions.append(key="main:notes:ada", messages=[{"role": "user", "content": "hello"}])
...     [session["id"] for session in sessions.list()] == [added["session_id"]]
...     [message["role"] for message in sessions.history(key="main:notes:ada")["messages"]]
True
['user']

`AsyncSessions` is the same for an event loop.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Literal, TypedDict
from urllib.parse import quote
from uuid import uuid4

from ._http import Server
from ._place import Connected
from .errors import InvalidRequest, NotFound, TryAgain

# How often a key is looked up and a session created for it, if the answer was lost.
_ATTEMPTS = 3

State = Literal["ok", "live", "damaged", "missing", "mismatch", "unreadable", "deleted"]
Sort = Literal["updated", "created", "title", "turns", "tokens", "bytes"]


class Session(TypedDict):
    """A conversation in a list."""

    id: str
    key: str | None
    label: str | None
    title: str | None
    created: str | None
    updated: str | None
    turns: int
    records: int
    tokens: int
    cost_usd: float | None
    model: str | None
    head: int | None
    expires: str | None
    pinned: bool
    bytes: int
    damage: int
    state: Literal["ok", "missing", "mismatch", "unreadable", "deleted"]
    live: bool
    busy: bool
    viewers: int


class Hit(TypedDict):
    """A place where something was said. `marks` are from and to, in bytes of UTF-8 of the snippet."""

    session: str
    key: str | None
    title: str | None
    n: int
    offset: int
    at: str | None
    role: Literal["user", "assistant", "tool_use", "tool_result", "summary", "title", "label"]
    tool: str | None
    trashed: bool
    abandoned: bool
    tokens: int
    snippet: str
    marks: list[list[int]]


class Hits(TypedDict):
    """What a search found, the best first."""

    hits: list[Hit]
    more: bool
    unreadable: int


class Message(TypedDict):
    """A message as the Messages API has it."""

    role: Literal["user", "assistant"]
    content: str | list[Any]


class Repair(TypedDict):
    """What had to be put right so that a model accepts it."""

    n: int
    kind: str
    message: str


class Note(TypedDict):
    """A place of a transcript that is not as a writer leaves it. `line` is counted from 1, if the reader began at the beginning."""

    offset: int
    bytes: int
    line: int | None
    kind: str
    message: str


class History(TypedDict):
    """A conversation as it would be sent to a model."""

    session_id: str
    messages: list[Message]
    system: str | list[Any] | None
    tools: list[Any] | None
    model: str | None
    repairs: list[Repair]
    damage: list[Note]
    oddities: list[Note]


class Added(TypedDict):
    """What was appended to, and the number of the last record."""

    session_id: str
    n: int


class Sessions(Connected):
    """The conversations in a home, or of a server.

    Args:
        home, remote, url, token, tenant, binary: Where they are, as for `UnforgetSessionStore`.
    """

    def list(
        self,
        *,
        agent: str | None = None,
        channel: str | None = None,
        peer: str | None = None,
        key: str | None = None,
        label: str | None = None,
        state: State | None = None,
        pinned: bool | None = None,
        since: str | None = None,
        until: str | None = None,
        q: str | None = None,
        deleted: bool | None = None,
        sort: Sort | None = None,
        limit: int | None = None,
    ) -> Iterator[Session]:
        """Goes through all conversations that fit, fetching a page when it is needed.

        Args:
            agent, channel, peer: Parts of the key.
            key: The whole key, `agent:channel:peer`.
            label: What somebody called it.
            state: How it is.
            pinned: Whether it is kept for ever.
            since, until: When it was used last, such as `2026-01-31T12:00:00Z`.
            q: Part of the title or label.
            deleted: Those in the trash instead.
            sort: What comes first.
            limit: How many are fetched at a time.
        """
        query = _given(
            {
                "agent": agent,
                "channel": channel,
                "peer": peer,
                "key": key,
                "label": label,
                "state": state,
                "pinned": pinned,
                "since": since,
                "until": until,
                "q": q,
                "deleted": deleted,
                "sort": sort,
                "limit": limit,
            }
        )
        while True:
            page = self._get("sessions", "/v1/sessions", query)
            yield from page["sessions"]
            if page["next"] is None:
                return
            query = {**query, "cursor": page["next"]}

    def search(
        self,
        query: str,
        *,
        agent: str | None = None,
        channel: str | None = None,
        peer: str | None = None,
        key: str | None = None,
        role: str | None = None,
        tool: str | None = None,
        since: str | None = None,
        until: str | None = None,
        trash: bool | None = None,
        limit: int | None = None,
    ) -> Hits:
        """Finds what was said: words, "a phrase", begin*, this OR that, -without.

        Args:
            query: What to look for.
            agent, channel, peer: Parts of the key.
            key: A pattern on keys: `main:cli:*`.
            role: One or several, with commas between them: `user,assistant`.
            tool: Which tool was used.
            since, until: When it was said.
            trash: Whether the trash is searched, too.
            limit: How many are returned.
        """
        members = _given(
            {
                "q": query,
                "agent": agent,
                "channel": channel,
                "peer": peer,
                "key": key,
                "role": role,
                "tool": tool,
                "since": since,
                "until": until,
                "trash": trash,
                "limit": limit,
            }
        )
        hits: Hits = self._get("search", "/v1/search", members)
        return hits

    def history(self, session_id: str | None = None, *, key: str | None = None, budget: int | None = None) -> History:
        """A conversation as it would be sent to a model, by its id or its key.

        Args:
            session_id: Which conversation.
            key: The same, by who talks with whom: `agent:channel:peer`.
            budget: How many tokens it may have.
        """
        one = _one(session_id, key)
        extra = _given({"budget": budget})
        if not isinstance(self._transport, Server):
            history: History = self._transport.call("history", **one, **extra)
            return history
        id = session_id or self._find(str(key))
        if id is None:
            raise NotFound(f"there is no session of {key!r}", "not_found")
        answer: History = self._transport.request("GET", f"/v1/sessions/{quote(id, safe='')}/messages", extra)
        return {**answer, "session_id": id}

    def append(
        self,
        session_id: str | None = None,
        messages: Sequence[Mapping[str, Any]] = (),
        *,
        key: str | None = None,
        client_id: str | None = None,
    ) -> Added:
        """Appends messages; a key that has no conversation yet gets one.

        Args:
            session_id: Which conversation.
            messages: Messages as the Messages API has them.
            key: The conversation by who talks with whom.
            client_id: A name for this; what was appended under it before is not appended again.
        """
        one = _one(session_id, key)
        body = {"messages": list(messages), "client_id": client_id or str(uuid4())}
        if not isinstance(self._transport, Server):
            added: Added = self._transport.call("add", **one, **body)
            return added
        id = session_id or self._found_or_created(str(key))
        answer = self._transport.request("POST", f"/v1/sessions/{quote(id, safe='')}/messages", None, body)
        return {"session_id": id, "n": answer["n"]}

    def _get(self, op: str, path: str, query: dict[str, Any]) -> Any:
        if isinstance(self._transport, Server):
            return self._transport.request("GET", path, query)
        return self._transport.call(op, **query)

    def _find(self, key: str) -> str | None:
        assert isinstance(self._transport, Server)
        query: dict[str, Any] = {"key": key, "limit": 1}
        # A server that has looked through many answers with an empty page and says where it goes on.
        while True:
            page = self._transport.request("GET", "/v1/sessions", query)
            if page["sessions"] or page["next"] is None:
                return _first(page)
            query = {**query, "cursor": page["next"]}

    def _found_or_created(self, key: str) -> str:
        assert isinstance(self._transport, Server)
        for attempt in range(1, _ATTEMPTS + 1):
            id = self._find(key)
            if id is not None:
                return id
            try:
                # Not twice without looking: the second one would take the first one's place.
                return str(self._transport.request("POST", "/v1/sessions", None, {"key": key}, again=False)["id"])
            except TryAgain:
                if attempt == _ATTEMPTS:
                    raise
        raise AssertionError("the last attempt returns or raises")


class AsyncSessions(Connected):
    """The conversations in a home, or of a server, for an event loop. The arguments are those of `Sessions`."""

    async def list(
        self,
        *,
        agent: str | None = None,
        channel: str | None = None,
        peer: str | None = None,
        key: str | None = None,
        label: str | None = None,
        state: State | None = None,
        pinned: bool | None = None,
        since: str | None = None,
        until: str | None = None,
        q: str | None = None,
        deleted: bool | None = None,
        sort: Sort | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[Session]:
        """Goes through all conversations that fit, as `Sessions.list` does."""
        query = _given(
            {
                "agent": agent,
                "channel": channel,
                "peer": peer,
                "key": key,
                "label": label,
                "state": state,
                "pinned": pinned,
                "since": since,
                "until": until,
                "q": q,
                "deleted": deleted,
                "sort": sort,
                "limit": limit,
            }
        )
        while True:
            page = await self._get("sessions", "/v1/sessions", query)
            for session in page["sessions"]:
                yield session
            if page["next"] is None:
                return
            query = {**query, "cursor": page["next"]}

    async def search(
        self,
        query: str,
        *,
        agent: str | None = None,
        channel: str | None = None,
        peer: str | None = None,
        key: str | None = None,
        role: str | None = None,
        tool: str | None = None,
        since: str | None = None,
        until: str | None = None,
        trash: bool | None = None,
        limit: int | None = None,
    ) -> Hits:
        """Finds what was said, as `Sessions.search` does."""
        members = _given(
            {
                "q": query,
                "agent": agent,
                "channel": channel,
                "peer": peer,
                "key": key,
                "role": role,
                "tool": tool,
                "since": since,
                "until": until,
                "trash": trash,
                "limit": limit,
            }
        )
        hits: Hits = await self._get("search", "/v1/search", members)
        return hits

    async def history(
        self, session_id: str | None = None, *, key: str | None = None, budget: int | None = None
    ) -> History:
        """A conversation as it would be sent to a model, by its id or its key."""
        one = _one(session_id, key)
        extra = _given({"budget": budget})
        if not isinstance(self._transport, Server):
            history: History = await self._transport.acall("history", **one, **extra)
            return history
        id = session_id or await self._find(str(key))
        if id is None:
            raise NotFound(f"there is no session of {key!r}", "not_found")
        answer: History = await self._transport.arequest("GET", f"/v1/sessions/{quote(id, safe='')}/messages", extra)
        return {**answer, "session_id": id}

    async def append(
        self,
        session_id: str | None = None,
        messages: Sequence[Mapping[str, Any]] = (),
        *,
        key: str | None = None,
        client_id: str | None = None,
    ) -> Added:
        """Appends messages; a key that has no conversation yet gets one."""
        one = _one(session_id, key)
        body = {"messages": [*messages], "client_id": client_id or str(uuid4())}
        if not isinstance(self._transport, Server):
            added: Added = await self._transport.acall("add", **one, **body)
            return added
        id = session_id or await self._found_or_created(str(key))
        answer = await self._transport.arequest("POST", f"/v1/sessions/{quote(id, safe='')}/messages", None, body)
        return {"session_id": id, "n": answer["n"]}

    async def _get(self, op: str, path: str, query: dict[str, Any]) -> Any:
        if isinstance(self._transport, Server):
            return await self._transport.arequest("GET", path, query)
        return await self._transport.acall(op, **query)

    async def _find(self, key: str) -> str | None:
        assert isinstance(self._transport, Server)
        query: dict[str, Any] = {"key": key, "limit": 1}
        while True:
            page = await self._transport.arequest("GET", "/v1/sessions", query)
            if page["sessions"] or page["next"] is None:
                return _first(page)
            query = {**query, "cursor": page["next"]}

    async def _found_or_created(self, key: str) -> str:
        assert isinstance(self._transport, Server)
        for attempt in range(1, _ATTEMPTS + 1):
            id = await self._find(key)
            if id is not None:
                return id
            try:
                created = await self._transport.arequest("POST", "/v1/sessions", None, {"key": key}, again=False)
                return str(created["id"])
            except TryAgain:
                if attempt == _ATTEMPTS:
                    raise
        raise AssertionError("the last attempt returns or raises")


def _given(members: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


def _one(session_id: str | None, key: str | None) -> dict[str, str]:
    if (session_id is None) == (key is None):
        raise InvalidRequest("a conversation is named by its id, or by key=", "invalid")
    return _given({"session_id": session_id, "key": key})


def _first(page: Any) -> str | None:
    return str(page["sessions"][0]["id"]) if page["sessions"] else None
