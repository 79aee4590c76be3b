"""The other end of a WebSocket: it is told things, it is asked before tools are used, and it may go away at any time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection
from contextlib import suppress
from typing import Any
from uuid import uuid4

from claude_agent_sdk import PermissionResultAllow, PermissionResultDeny, ToolPermissionContext
from starlette.websockets import WebSocket, WebSocketDisconnect

# The runtime lets frames of 64 KB through, and JSON may need six bytes for what is one in a text.
LONGEST_TEXT = 10_000


class Connection:
    """Somebody who listens, or did."""

    def __init__(self, socket: WebSocket, tools: Collection[str], seconds: float) -> None:
        self._socket = socket
        self._tools = tools
        self._seconds = seconds
        self._is_gone = False
        self._questions: dict[str, asyncio.Future[bool]] = {}

    async def tell(self, kind: str, **members: Any) -> None:
        """Tells something, if anybody is there."""
        if not self._is_gone:
            try:
                await self._socket.send_json({"type": kind, **members})
            except (WebSocketDisconnect, RuntimeError):
                self._leave()

    async def tell_error(self, code: str, message: str) -> None:
        """Tells what went wrong."""
        await self.tell("error", code=code, message=message[:LONGEST_TEXT])

    async def listen(self) -> None:
        """Takes the answers to questions, until nobody is there any more."""
        try:
            async for text in self._socket.iter_text():
                try:
                    said = json.loads(text)
                except ValueError:
                    said = None
                match said:
                    case {"answer": str(name), "allow": bool(is_allowed)} if name in self._questions:
                        self._questions.pop(name).set_result(is_allowed)
                    case _:
                        await self.tell_error("invalid", "nothing was asked that this answers")
        except (KeyError, RuntimeError):
            pass  # Something that is no text, or the connection broke while it was written to.
        finally:
            self._leave()

    async def may_use(
        self, tool: str, given: dict[str, Any], context: ToolPermissionContext
    ) -> PermissionResultAllow | PermissionResultDeny:
        """Asks whether a tool may be used. No answer is a no."""
        if tool not in self._tools or self._is_gone or len(json.dumps(given)) > LONGEST_TEXT:
            return PermissionResultDeny(message="Nobody can be asked whether this may be done.")
        name = context.tool_use_id or uuid4().hex
        answer = self._questions[name] = asyncio.get_running_loop().create_future()
        await self.tell("question", id=name, tool=tool, input=given)
        try:
            is_allowed = await asyncio.wait_for(answer, self._seconds)
        except asyncio.TimeoutError:
            self._questions.pop(name, None)
            return PermissionResultDeny(message="The user did not answer.")
        return PermissionResultAllow() if is_allowed else PermissionResultDeny(message="The user did not allow this.")

    async def close(self) -> None:
        """Says goodbye, if anybody is there."""
        if not self._is_gone:
            self._is_gone = True
            with suppress(WebSocketDisconnect, RuntimeError):
                await self._socket.close()

    def _leave(self) -> None:
        self._is_gone = True
        while self._questions:
            self._questions.popitem()[1].set_result(False)
