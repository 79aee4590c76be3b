"""What goes over the wire is here as docs/openapi.json says it.

Both have the same members, required or optional, of the same types.
"""

from __future__ import annotations

import inspect
import json
import types
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Union

import pytest

from unforget import sessions
from unforget.errors import _BY_CODE

DOCUMENT = json.loads((Path(__file__).parents[2] / "docs" / "openapi.json").read_text())
# Each `TypedDict` of the package, and its schema.
SCHEMAS = {
    "Session": "Session",
    "Hit": "Hit",
    "Hits": "Hits",
    "Message": "Message",
    "Repair": "Repair",
    "Note": "Note",
    "History": "Messages",
    "Added": "Added",
}
ANYTHING = "anything"
WORDS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    while reference := schema.get("$ref"):
        schema = DOCUMENT["components"]["schemas"][reference.rpartition("/")[2]]
    return schema


def documented(schema: dict[str, Any]) -> frozenset[Any]:
    """A type of the document: its alternatives."""
    if "$ref" in schema:
        named = schema["$ref"].rpartition("/")[2]
        return frozenset([next(name for name, of in SCHEMAS.items() if of == named)])
    if "enum" in schema:
        return frozenset(schema["enum"])
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return frozenset(
        ("list", documented(schema.get("items", {"type": []}))) if kind == "array" else WORDS[kind] for kind in kinds
    )


def annotated(hint: Any) -> frozenset[Any]:
    """A type of the package: its alternatives."""
    origin, of = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        return frozenset().union(*map(annotated, of))
    if origin is Literal:
        return frozenset(of)
    if origin is list:
        return frozenset([("list", annotated(of[0]))])
    if hint is Any:
        return frozenset()
    return frozenset(["None" if hint is type(None) else hint.__name__])


def members(name: str) -> dict[str, tuple[bool, frozenset[Any]]]:
    known = getattr(sessions, name)
    hints = typing.get_type_hints(known)
    return {member: (member in known.__required_keys__, annotated(hint)) for member, hint in hints.items()}


def parameters(method: Callable[..., Any], *apart: str) -> dict[str, frozenset[Any]]:
    names = [name for name in inspect.signature(method).parameters if name not in ("self", *apart)]
    hints = typing.get_type_hints(method)
    return {name: annotated(hints[name]) - {"None"} for name in names}


def query(path: str, *apart: str) -> dict[str, frozenset[Any]]:
    of = [one for one in DOCUMENT["paths"][path]["get"]["parameters"] if one["in"] == "query"]
    return {one["name"]: documented(one["schema"]) for one in of if one["name"] not in apart}


@pytest.mark.parametrize("name", SCHEMAS)
def test_an_answer_has_the_members_of_the_document(name: str) -> None:
    schema = DOCUMENT["components"]["schemas"][SCHEMAS[name]]
    wanted = {member: (member in schema["required"], documented(of)) for member, of in schema["properties"].items()}
    assert members(name) == wanted


def test_every_type_of_an_answer_is_compared() -> None:
    assert {name for name, it in vars(sessions).items() if typing.is_typeddict(it)} == set(SCHEMAS)


@pytest.mark.parametrize("kind", [sessions.Sessions, sessions.AsyncSessions])
def test_a_question_has_the_parameters_of_the_document(kind: Any) -> None:
    assert parameters(kind.list) == query("/v1/sessions", "cursor")
    assert parameters(kind.search, "query") == query("/v1/search", "q")
    assert parameters(kind.history, "session_id", "key") == query("/v1/sessions/{id}/messages")


def test_every_code_has_an_error() -> None:
    codes = DOCUMENT["components"]["schemas"]["Problem"]["properties"]["error"]["properties"]["code"]["enum"]
    # What a caller can do nothing about is an `UnforgetError`; two codes are the package's own.
    assert {*_BY_CODE} - {"program", "closed"} == {*codes} - {"internal", "model"}
