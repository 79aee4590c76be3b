"""Where a store is: a home on this machine, a remote behind it, or a server."""

from __future__ import annotations

import asyncio
import os
from types import TracebackType
from typing import TYPE_CHECKING, Literal

from ._http import Server
from ._pipe import Pipe
from ._program import Program, find
from ._transport import Transport
from .errors import Closed, InvalidRequest

if TYPE_CHECKING:
    from typing_extensions import Self

Ack = Literal["disk", "remote"]
Folder = str | os.PathLike[str]
# An address; nothing for what the program's settings say; False for no remote, whatever they say.
Remote = str | Literal[False] | None


def open_place(
    home: Folder | None,
    remote: Remote,
    url: str | None,
    token: str | None,
    tenant: str | None,
    ack: Ack | None,
    binary: Folder | None,
) -> Transport:
    """Opens the way to a store."""
    if url is not None:
        others = {"home": home, "remote": remote, "tenant": tenant, "ack": ack, "binary": binary}
        _check_text("url", url)
        wrong = [name for name, value in others.items() if value is not None]
        if wrong:
            raise InvalidRequest(f"url= is a server, which decides {', '.join(wrong)} by itself", "invalid")
        return Server(url, token)
    if token is not None:
        raise InvalidRequest("token= is for a server: it needs url=", "invalid")
    if remote is not False:
        _check_text("remote", remote)
    _check_text("tenant", tenant)
    if ack not in (None, "disk", "remote"):
        raise InvalidRequest("ack= is 'disk' or 'remote'", "invalid")
    if ack == "remote" and not (remote or (remote is None and "UNFORGET_REMOTE" in os.environ)):
        raise InvalidRequest("ack='remote' needs a remote", "invalid")
    given = _path("home", home)
    folder = None if given is None else os.path.abspath(os.path.expanduser(given))
    return Pipe.shared(Program(find(_path("binary", binary)), folder, remote, tenant, ack))


def _path(name: str, given: Folder | None) -> str | None:
    """A path as text: bytes or an empty text would name another folder than the caller meant."""
    if given is None:
        return None
    try:
        path: object = os.fspath(given)
    except TypeError:
        path = given
    if isinstance(path, bytes):
        raise InvalidRequest(f"{name}= is bytes, {path!r}: give a text or a Path, such as os.fsdecode(…)", "invalid")
    return _check_text(name, path)


def _check_text(name: str, given: object) -> str | None:
    """Refuses what is no text, or an empty one, which often comes from a variable that is not set."""
    if given is None:
        return None
    if not isinstance(given, str):
        raise InvalidRequest(f"{name}= is a {type(given).__name__}, {given!r}: give a text", "invalid")
    if not given:
        raise InvalidRequest(f"{name}= is empty: leave it out for what the program's settings say", "invalid")
    if "\0" in given:
        raise InvalidRequest(f"{name}= contains a NUL character: {given!r}", "invalid")
    return given


class Connected:
    """Something that asks a store, and is closed when it is not needed any more.

    Closing waits until everything that was asked is answered, but a child process that does not end is killed after a while. A child process that nobody
    closed is closed at the end of the program; connections to a server just end.
    """

    def __init__(
        self,
        *,
        home: Folder | None = None,
        remote: Remote = None,
        url: str | None = None,
        token: str | None = None,
        tenant: str | None = None,
        ack: Ack | None = None,
        binary: Folder | None = None,
    ) -> None:
        self._way = open_place(home, remote, url, token, tenant, ack, binary)
        self._is_closed = False

    @property
    def _transport(self) -> Transport:
        """The way to the store, until this is closed. Others may share it, and it may still work for them."""
        self._check_open()
        return self._way

    def _check_open(self) -> None:
        if self._is_closed:
            raise Closed(f"{type(self).__name__} is closed", "closed")

    def connect(self) -> None:
        """Raises if the store cannot be used: the program does not start, the server refuses the token.

        Without it the first use raises, and an SDK may turn that into a message that is easy to overlook.
        """
        self._transport.hello().result()

    async def aconnect(self) -> None:
        """Does the same without holding up the event loop."""
        await asyncio.wrap_future(self._transport.hello())

    def close(self) -> None:
        """Closes it; a second time nothing happens."""
        if not self._is_closed:
            self._is_closed = True
            self._way.close()

    async def aclose(self) -> None:
        """Closes it without holding up the event loop."""
        await asyncio.to_thread(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
