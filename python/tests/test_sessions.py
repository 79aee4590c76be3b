"""The conversations of the program itself: listed, searched, read and appended to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from unforget import AsyncSessions, Sessions
from unforget.errors import InvalidRequest, NotFound

Make = Callable[[str], str]


@pytest.fixture
def own_place(place: dict[str, Any]) -> dict[str, Any]:
    """Without a remote: these conversations are those of the home."""
    return {name: value for name, value in place.items() if name not in ("remote", "tenant")}


def said(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def answered(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "text", "text": text}]}


def texts(messages: Any) -> list[tuple[str, str]]:
    """Roles and texts, however a message has its text."""
    return [
        (
            one["role"],
            one["content"]
            if isinstance(one["content"], str)
            else "".join(block.get("text", "") for block in one["content"]),
        )
        for one in messages
    ]


def test_what_is_appended_is_read_again(own_place: dict[str, Any], unique: Make) -> None:
    key = f"main:notes:{unique('ada')}"
    with Sessions(**own_place) as sessions:
        added = sessions.append(key=key, messages=[said("where is the milk?"), answered("in the fridge")])
        again = sessions.append(added["session_id"], [said("thanks")])
        assert again["session_id"] == added["session_id"]
        assert again["n"] > added["n"]
        wanted = [("user", "where is the milk?"), ("assistant", "in the fridge"), ("user", "thanks")]
        for history in [sessions.history(added["session_id"]), sessions.history(key=key)]:
            assert history["session_id"] == added["session_id"]
            assert texts(history["messages"]) == wanted


def test_a_client_id_counts_once(own_place: dict[str, Any], unique: Make) -> None:
    key = f"main:notes:{unique('ada')}"
    with Sessions(**own_place) as sessions:
        first = sessions.append(key=key, messages=[said("once")], client_id="c1")
        second = sessions.append(key=key, messages=[said("once")], client_id="c1")
        assert first["session_id"] == second["session_id"]
        assert texts(sessions.history(key=key)["messages"]) == [("user", "once")]


def test_a_list_goes_through_all_pages(own_place: dict[str, Any], unique: Make) -> None:
    peer = unique("peer")
    with Sessions(**own_place) as sessions:
        ids = [sessions.append(key=f"main:{peer}:{n}", messages=[said(f"hello {n}")])["session_id"] for n in range(7)]
        listed = list(sessions.list(channel=peer, limit=3))
        assert sorted(session["id"] for session in listed) == sorted(ids)
        assert {session["key"] for session in listed} == {f"main:{peer}:{n}" for n in range(7)}
        # Only as many pages as are looked at.
        few = sessions.list(channel=peer, limit=2)
        assert next(few)["id"] in ids
        assert [session["id"] for session in sessions.list(key=f"main:{peer}:3")] == [ids[3]]
        assert list(sessions.list(channel=unique("nobody"))) == []


def test_a_filter_that_there_is_not_is_no_part_of_the_request(own_place: dict[str, Any], unique: Make) -> None:
    with Sessions(**own_place) as sessions:
        for wrong in ["id", "op"]:
            with pytest.raises(TypeError):
                list(sessions.list(**{wrong: "x"}))
            with pytest.raises(TypeError):
                sessions.search("x", **{wrong: "x"})


def test_what_is_pinned_is_listed_apart(own_place: dict[str, Any], unique: Make) -> None:
    peer = unique("peer")
    with Sessions(**own_place) as sessions:
        added = sessions.append(key=f"main:{peer}:a", messages=[said("hello")])
        assert [session["id"] for session in sessions.list(channel=peer, pinned=False)] == [added["session_id"]]
        assert list(sessions.list(channel=peer, pinned=True)) == []


def test_what_was_said_is_found(own_place: dict[str, Any], unique: Make) -> None:
    peer, word = unique("peer"), unique("marmalade").replace("-", "")
    with Sessions(**own_place) as sessions:
        added = sessions.append(key=f"main:notes:{peer}", messages=[said(f"buy {word} and butter")])
        (hit,) = sessions.search(word)["hits"]
        assert (hit["session"], hit["role"]) == (added["session_id"], "user")
        start, end = hit["marks"][0]
        assert hit["snippet"].encode()[start:end].decode() == word
        assert sessions.search(word, role="assistant")["hits"] == []


def test_what_is_not_there_is_not_found(own_place: dict[str, Any], unique: Make) -> None:
    with Sessions(**own_place) as sessions:
        with pytest.raises(NotFound):
            sessions.history(unique("session"))
        with pytest.raises(NotFound):
            sessions.history(key=f"main:notes:{unique('nobody')}")


def test_a_conversation_has_one_name(own_place: dict[str, Any]) -> None:
    with Sessions(**own_place) as sessions:
        for names in [{}, {"session_id": "a", "key": "main:b:c"}]:
            with pytest.raises(InvalidRequest, match="id, or by key"):
                sessions.history(**names)  # type: ignore[arg-type]


def test_an_event_loop_gets_the_same(own_place: dict[str, Any], unique: Make) -> None:
    peer = unique("peer")

    async def main() -> None:
        async with AsyncSessions(**own_place) as sessions:
            added = [await sessions.append(key=f"main:{peer}:{n}", messages=[said(f"{peer} {n}")]) for n in range(3)]
            listed = [session["id"] async for session in sessions.list(channel=peer, limit=2)]
            assert sorted(listed) == sorted(one["session_id"] for one in added)
            history = await sessions.history(key=f"main:{peer}:1")
            assert texts(history["messages"]) == [("user", f"{peer} 1")]
            assert texts((await sessions.history(added[2]["session_id"]))["messages"]) == [("user", f"{peer} 2")]
            hits = (await sessions.search(f'"{peer}"', limit=10))["hits"]
            assert sorted(hit["session"] for hit in hits) == sorted(listed)
            with pytest.raises(NotFound):
                await sessions.history(key=f"main:notes:{unique('nobody')}")

    asyncio.run(main())
