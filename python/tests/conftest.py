"""Where the stores of the tests are.

By default each test has a home of its own. `UNFORGET_TEST_REMOTE` (with `{name}` in it) puts a remote behind it, `UNFORGET_TEST_URL` (and
`UNFORGET_TEST_TOKENS`, with commas between them) makes the tests ask a server instead. Nothing of the developer's own settings is used.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest

import unforget

pytest_plugins = ["end_to_end"]

REMOTE = os.environ.get("UNFORGET_TEST_REMOTE")
URL = os.environ.get("UNFORGET_TEST_URL")
TOKENS = [token for token in os.environ.get("UNFORGET_TEST_TOKENS", "").split(",") if token]

# Processes that tests start have the same package.
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(Path(unforget.__file__).parent.parent.resolve()), *filter(None, [os.environ.get("PYTHONPATH")])]
)

_OURS = ("UNFORGET_HOME", "UNFORGET_REMOTE", "UNFORGET_TENANT", "UNFORGET_ACK", "UNFORGET_CONFIG", "UNFORGET_LOG")


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in _OURS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("UNFORGET_CONFIG", str(tmp_path / "no-configuration"))


@pytest.fixture
def unique() -> Callable[[str], str]:
    """Makes a name that nobody has."""
    return lambda name: f"{name}-{uuid4().hex[:12]}"


@pytest.fixture
def places(tmp_path: Path, unique: Callable[[str], str]) -> Callable[[], dict[str, Any]]:
    """Makes places that are apart from each other: what a store is constructed with. A server's are not; names have to be unique there."""

    def make() -> dict[str, Any]:
        if URL:
            return {"url": URL, **({"token": TOKENS[0]} if TOKENS else {})}
        home: dict[str, Any] = {"home": tmp_path / unique("home")}
        if not REMOTE:
            return home
        remote = REMOTE.replace("{name}", unique("remote"))
        if remote.startswith("file:"):
            Path(urlsplit(remote).path).mkdir(parents=True, exist_ok=True)
        return {**home, "remote": remote, "tenant": unique("tenant")}

    return make


@pytest.fixture
def place(places: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """A place: what a store is constructed with."""
    return places()


@pytest.fixture
def home_place(place: dict[str, Any]) -> dict[str, Any]:
    """A place behind a child process."""
    if "url" in place:
        pytest.skip("is about the child process")
    return place


@pytest.fixture(scope="session", autouse=True)
def _nothing_is_left() -> Iterator[None]:
    """Closes the children of the tests, as the end of the process would."""
    yield
    from unforget import _pipe

    _pipe._close_all()
