"""Durable conversations for agents, in the form that their SDKs ask for.

- `UnforgetSessionStore` for the Claude Agent SDK (`unforget.claude`),
- `OpenAIAgentsSession` for the OpenAI Agents SDK (`unforget.openai_agents`),
- `UnforgetSaver` for LangGraph (`unforget.langgraph`),
- `Sessions` and `AsyncSessions` for the conversations of `unforget` itself (`unforget.sessions`).

Each is imported when it is first used, so that none needs what belongs to another.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from .errors import UnforgetError

if TYPE_CHECKING:
    from .claude import UnforgetSessionStore
    from .langgraph import UnforgetSaver
    from .openai_agents import OpenAIAgentsSession
    from .sessions import AsyncSessions, Sessions

__all__ = [
    "AsyncSessions",
    "OpenAIAgentsSession",
    "Sessions",
    "UnforgetError",
    "UnforgetSaver",
    "UnforgetSessionStore",
]

try:
    __version__ = version("unforget")
except PackageNotFoundError:  # It runs from its sources.
    __version__ = "0"

_MODULES = {
    "AsyncSessions": "sessions",
    "OpenAIAgentsSession": "openai_agents",
    "Sessions": "sessions",
    "UnforgetSaver": "langgraph",
    "UnforgetSessionStore": "claude",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
